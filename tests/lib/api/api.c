/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of the public API share this; see api.h. */
#include "lib/api/api.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lib/base/transport.h"

struct cluster *cluster;
struct afar_session *session;

int start(void **state)
{
	(void)state;
	if (cluster_start(2, 512 * MIB, &cluster))
		return -1;
	return afar_session_open(cluster_uri(cluster), NULL, &session);
}

int stop(void **state)
{
	int ret = afar_session_close(session);

	(void)state;
	cluster_stop(cluster);
	return ret;
}

/* ---- Helpers */

struct afar_namespace *make_namespace(const char *name, uint64_t stripe_bytes, uint64_t reserve)
{
	struct afar_policy policy = {.size = sizeof(policy), .stripe_bytes = stripe_bytes};
	struct afar_namespace *ns;

	assert_int_equal(afar_namespace_create(session, name, &policy, &ns), 0);
	if (reserve)
		assert_int_equal(afar_namespace_reserve(ns, reserve), 0);
	return ns;
}

void drop_namespace(struct afar_namespace *ns, const char *name)
{
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_namespace_delete(session, name, 0), 0);
}

void drop_region(struct afar_region *region)
{
	assert_int_equal(afar_region_destroy(region), 0);
	assert_int_equal(afar_region_close(region), 0);
}

void open_view(struct view *view, const char *ns, const char *name)
{
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &view->session), 0);
	assert_int_equal(afar_namespace_open(view->session, ns, &view->ns), 0);
	assert_int_equal(afar_region_open(view->ns, name, &view->region), 0);
}

void close_view(struct view *view)
{
	assert_int_equal(afar_region_close(view->region), 0);
	assert_int_equal(afar_namespace_close(view->ns), 0);
	assert_int_equal(afar_session_close(view->session), 0);
}

struct afar_buffer *register_if_needed(void *addr, uint64_t length)
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

void unregister(struct afar_buffer *buffer)
{
	if (buffer)
		assert_int_equal(afar_buffer_unregister(buffer), 0);
}
