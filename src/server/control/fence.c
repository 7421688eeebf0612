/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fences are all about order. For extents: first no new keys, then no keys, then all data
 * connections of their namespace are closed, then the memory gets another holder. All connections
 * are closed, because any of them in the namespace's domains may use a key. A transfer with it may
 * be in progress there, and nothing shows it. Connections in other domains cannot have begun one,
 * and go on. For a session: first no more tickets, then its connections are closed; without
 * connections its keys are useless.
 *
 * Nothing here waits: the progress threads close connections, and the last of them continues the
 * fence. Owns the fences in progress.
 */
#include "server/control/fence.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- Extents */

struct extents_fence {
	const struct fence *fence;
	struct extent_drain drain;
	void (*done)(void *argument);
	void *argument;
	size_t nr_extents;
	uint64_t extents[]; /* ascending, each once */
};

static int compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static size_t sort_once(uint64_t *numbers, size_t nr_numbers)
{
	size_t nr_distinct = 0;

	qsort(numbers, nr_numbers, sizeof(*numbers), compare_numbers);
	for (size_t i = 0; i < nr_numbers; i++) {
		if (i == 0 || numbers[i] != numbers[i - 1])
			numbers[nr_distinct++] = numbers[i];
	}
	return nr_distinct;
}

static int open_extents_fence(const struct fence *fence, const uint64_t *extents, size_t nr_extents,
			      struct extents_fence **out)
{
	struct extents_fence *opened;
	size_t size;

	if (__builtin_mul_overflow(nr_extents, sizeof(*extents), &size) ||
	    __builtin_add_overflow(size, sizeof(*opened), &size))
		return error_code(-ENOMEM);
	opened = calloc(1, size);
	if (!opened)
		return error_code(-ENOMEM);
	opened->fence = fence;
	if (nr_extents > 0)
		memcpy(opened->extents, extents, nr_extents * sizeof(*extents));
	opened->nr_extents = sort_once(opened->extents, nr_extents);
	*out = opened;
	return 0;
}

static bool has_reached(const void *argument, const struct admission *connection)
{
	const struct extents_fence *extents = argument;

	/* An attached range ends with its key, and no other holder gets its memory. */
	return connection->attaches == 0 &&
	       extent_drain_reached(&extents->drain, connection->reach.namespace);
}

/* Hands the memory to the scrubber: no key and no connection reaches it any more. */
static void on_connections_closed(void *argument)
{
	struct extents_fence *extents = argument;

	extent_pool_drained(extents->fence->pool, &extents->drain);
	extents->done(extents->argument);
	free(extents);
}

static void forget_if_gone(const void *argument, uint64_t namespace)
{
	const struct fence *fence = argument;

	tickets_forget_namespace(fence->tickets, fence->pool, fence->stores, namespace);
}

int fence_extents(const struct fence *fence, const uint64_t *extents, size_t nr_extents,
		  void (*done)(void *argument), void *argument)
{
	struct lanes_closing *closing;
	struct extents_fence *opened = NULL;
	struct progress_order order;
	int ret;

	ret = open_extents_fence(fence, extents, nr_extents, &opened);
	if (ret != 0)
		return ret;
	opened->done = done;
	opened->argument = argument;
	ret = lanes_closing_new(fence->lanes, &closing);
	if (ret != 0) {
		free(opened);
		return ret;
	}
	extent_pool_drain(fence->pool, opened->extents, opened->nr_extents, &opened->drain);
	extent_drain_namespaces(&opened->drain, forget_if_gone, fence);
	/* No connection uses memory that no session had a key of. But an earlier call may still be
	 * working on it, and this must wait for its end. */
	order = (struct progress_order){has_reached, on_connections_closed, opened, false};
	lanes_close_connections(closing, &order);
	return 0;
}

/* ---- A store's extents */

struct store_fence {
	const struct fence *fence;
	store_done *done;
	void *argument;
	size_t nr_names;
	struct store_name names[];
};

static void on_removed(void *argument, int status)
{
	struct store_fence *opened = argument;

	for (size_t i = 0; i < opened->nr_names; i++)
		forget_if_gone(opened->fence, opened->names[i].namespace);
	opened->done(opened->argument, status);
	free(opened);
}

int fence_store_extents(const struct fence *fence, struct store *store,
			const struct store_name *names, size_t nr_names, store_done *done,
			void *argument)
{
	struct store_fence *opened = calloc(1, sizeof(*opened) + nr_names * sizeof(*names));
	int ret;

	if (!opened)
		return error_code(-ENOMEM);
	*opened = (struct store_fence){fence, done, argument, nr_names};
	if (nr_names > 0)
		memcpy(opened->names, names, nr_names * sizeof(*names));
	ret = store_release(store, names, nr_names, on_removed, opened);
	if (ret != 0)
		free(opened);
	return ret;
}

/* ---- Sessions */

struct session_fence {
	uint64_t session;
	void (*done)(void *argument);
	void *argument;
};

static bool is_sessions(const void *argument, const struct admission *connection)
{
	const struct session_fence *fence = argument;

	return connection->session == fence->session;
}

static void on_session_closed(void *argument)
{
	struct session_fence *fence = argument;

	fence->done(fence->argument);
	free(fence);
}

int fence_session(const struct fence *fence, uint64_t session, void (*done)(void *argument),
		  void *argument)
{
	struct session_fence *opened = malloc(sizeof(*opened));
	struct lanes_closing *closing;
	struct progress_order order;
	int ret;

	if (!opened)
		return error_code(-ENOMEM);
	*opened = (struct session_fence){session, done, argument};
	ret = lanes_closing_new(fence->lanes, &closing);
	if (ret != 0)
		goto out_free;
	/* First, so that no unused ticket is redeemed after the closing. */
	ret = tickets_revoke(fence->tickets, session);
	if (ret != 0)
		goto out_drop;
	control_end_session(fence->control, session);
	order = (struct progress_order){is_sessions, on_session_closed, opened, true};
	lanes_close_connections(closing, &order);
	return 0;

out_drop:
	lanes_closing_drop(closing);
out_free:
	free(opened);
	return ret;
}

static bool is_anybodys(const void *argument, const struct admission *connection)
{
	(void)argument;
	(void)connection;
	return true;
}

int fence_all_sessions(const struct fence *fence, void (*done)(void *argument), void *argument)
{
	const struct progress_order order = {is_anybodys, done, argument, true};
	struct lanes_closing *closing;
	int ret = lanes_closing_new(fence->lanes, &closing);

	if (ret != 0)
		return ret;
	incarnation_age(fence->incarnation);
	ret = tickets_revoke_all(fence->tickets);
	if (ret != 0) {
		lanes_closing_drop(closing);
		return ret;
	}
	control_end_all(fence->control);
	lanes_close_connections(closing, &order);
	return 0;
}

/* ---- Namespaces */

struct namespace_fence {
	uint64_t namespace;
	uint64_t generation;
	void (*done)(void *argument);
	void *argument;
};

static bool is_of_namespace(const void *argument, const struct admission *connection)
{
	const struct namespace_fence *fence = argument;

	return connection->reach.namespace == fence->namespace &&
	       (connection->attaches == 0 || connection->attaches == fence->generation);
}

static void on_namespace_closed(void *argument)
{
	struct namespace_fence *fence = argument;

	fence->done(fence->argument);
	free(fence);
}

int fence_namespace(const struct fence *fence, uint64_t namespace, uint64_t generation,
		    void (*done)(void *argument), void *argument)
{
	struct namespace_fence *opened = malloc(sizeof(*opened));
	struct lanes_closing *closing;
	struct progress_order order;
	int ret;

	if (!opened)
		return error_code(-ENOMEM);
	*opened = (struct namespace_fence){namespace, generation, done, argument};
	ret = lanes_closing_new(fence->lanes, &closing);
	if (ret != 0)
		goto out_free;
	/* First, as above. */
	ret = tickets_note_seal(fence->tickets, namespace);
	if (ret != 0)
		goto out_drop;
	order = (struct progress_order){is_of_namespace, on_namespace_closed, opened, true};
	lanes_close_connections(closing, &order);
	return 0;

out_drop:
	lanes_closing_drop(closing);
out_free:
	free(opened);
	return ret;
}
