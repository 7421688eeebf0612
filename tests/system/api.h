/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of the public API share: a cluster of a manager and two servers for the whole file, the
 * session of its operator, and namespaces that every test makes and deletes for itself.
 */
#ifndef TESTS_API_H
#define TESTS_API_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "cluster.h"
#include "lib/transport.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

static struct cluster *cluster;
static struct afar_session *session;

static inline int start(void **state)
{
	(void)state;
	if (cluster_start(2, 512 * MIB, &cluster))
		return -1;
	return afar_session_open(cluster_uri(cluster), NULL, &session);
}

static inline int stop(void **state)
{
	int ret = afar_session_close(session);

	(void)state;
	cluster_stop(cluster);
	return ret;
}

/* ---- Helpers */

static inline struct afar_namespace *make_namespace(const char *name, uint64_t stripe_bytes,
						    uint64_t reserve)
{
	struct afar_policy policy = {.size = sizeof(policy), .stripe_bytes = stripe_bytes};
	struct afar_namespace *ns;

	assert_int_equal(afar_namespace_create(session, name, &policy, &ns), 0);
	if (reserve)
		assert_int_equal(afar_namespace_reserve(ns, reserve), 0);
	return ns;
}

static inline void drop_namespace(struct afar_namespace *ns, const char *name)
{
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_namespace_delete(session, name, 0), 0);
}

static inline void drop_region(struct afar_region *region)
{
	assert_int_equal(afar_region_free(region), 0);
	assert_int_equal(afar_region_close(region), 0);
}

/* A region as another session has it. */
struct view {
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
};

static inline void open_view(struct view *view, const char *ns, const char *name)
{
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &view->session), 0);
	assert_int_equal(afar_namespace_open(view->session, ns, &view->ns), 0);
	assert_int_equal(afar_region_open(view->ns, name, &view->region), 0);
}

static inline void close_view(struct view *view)
{
	assert_int_equal(afar_region_close(view->region), 0);
	assert_int_equal(afar_namespace_close(view->ns), 0);
	assert_int_equal(afar_session_close(view->session), 0);
}

/* For memory in a queue's operations: none where plain memory will do. */
static inline struct afar_buffer *register_if_needed(void *addr, uint64_t length)
{
	const struct afar_memory memory = {
		.size = sizeof(memory), .kind = AFAR_MEMORY_HOST, .addr = addr, .length = length};
	struct afar_buffer *buffer;

	if (is_on_tcp())
		return NULL;
	assert_int_equal(afar_buffer_register(session, &memory,
					      AFAR_ACCESS_READ | AFAR_ACCESS_WRITE, &buffer),
			 0);
	return buffer;
}

static inline void unregister(struct afar_buffer *buffer)
{
	if (buffer)
		assert_int_equal(afar_buffer_unregister(buffer), 0);
}

static inline void fill(uint8_t *bytes, size_t length, uint32_t seed)
{
	for (size_t i = 0; i < length; i++) {
		seed = seed * 1664525 + 1013904223;
		bytes[i] = (uint8_t)(seed >> 24);
	}
}

#define expect_error(call, code)                              \
	do {                                                  \
		assert_int_equal(call, code);                 \
		assert_true(afar_last_error()[0] != '\0');    \
		assert_null(strchr(afar_last_error(), '\n')); \
	} while (0)

#endif
