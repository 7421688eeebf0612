/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tests of the public API share this: a cluster of a manager and two servers for the whole
 * file, and its operator's session. Every test makes and deletes namespaces for itself. A
 * failure in here fails the test.
 */
#ifndef TESTS_API_H
#define TESTS_API_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "harness/cluster.h"
#include "lib/base/bytes.h"

extern struct cluster *cluster;
extern struct afar_session *session;

/* For cmocka: these make the cluster and the session, and end them. */
int start(void **state);
int stop(void **state);

/* A namespace with so many bytes reserved; 0: none. */
struct afar_namespace *make_namespace(const char *name, uint64_t stripe_bytes, uint64_t reserve);
void drop_namespace(struct afar_namespace *ns, const char *name);
void drop_region(struct afar_region *region);

/* A region as another session has it. */
struct view {
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
};
void open_view(struct view *view, const char *ns, const char *name);
void close_view(struct view *view);

/* Registers memory for a queue's operations. Returns NULL where unregistered memory will do. */
struct afar_buffer *register_if_needed(void *addr, uint64_t length);
/* NULL is none. */
void unregister(struct afar_buffer *buffer);

/* The call fails with that code, and the library has a sentence about it, of one line. */
#define expect_error(call, code)                              \
	do {                                                  \
		assert_int_equal(call, code);                 \
		assert_true(afar_last_error()[0] != '\0');    \
		assert_null(strchr(afar_last_error(), '\n')); \
	} while (0)

#endif
