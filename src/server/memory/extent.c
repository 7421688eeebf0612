/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of extents: releasing, what is had, and its life. The server reserves (extent_reserve.c) and
 * releases when the manager asks; its control port asks for keys (extent_keys.c). Owns all lent memory
 * and its registrations.
 *
 * extent_move() alone changes an extent's state. The pool may access the memory in TAKEN (fresh or
 * scrubbed: nobody writes it), DIRTY and SCRUBBING; peers may in GRANTED and DRAINING.
 *
 * Ending a key stops every transfer that has not begun. Transports that check the key once per
 * message (tcp) finish the message in progress; only closing the connection stops that. DRAINING is
 * for that: there are no new keys, the old ones are ended and connections closed (fence.c).
 */
#include <errno.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "memory/segment.h"
#include "server/memory/extent_book.h"

/* ---- Releasing, and what is had */

/* The caller holds the lock. */
static void start_draining(struct extent_pool *pool, struct extent *extent,
			   struct extent_drain *drain)
{
	extent_move(pool, extent, EXTENT_DRAINING);
	cds_list_add_tail(&extent->drained, &drain->extents);
	drain->nr_extents++;
}

/* Ends the keys of draining extents, which is slow on some transports. No lock is needed, because
 * nothing else looks at their keys. */
static void end_keys(struct extent_pool *pool, struct extent_drain *drain)
{
	struct extent *extent;

	cds_list_for_each_entry (extent, &drain->extents, drained)
		extent_keys_end(pool, extent);
}

void extent_pool_drain(struct extent_pool *pool, const uint64_t *extents, size_t nr_extents,
		       struct extent_drain *out)
{
	struct extent *extent;

	*out = (struct extent_drain){.nr_extents = 0};
	CDS_INIT_LIST_HEAD(&out->extents);
	pthread_mutex_lock(&pool->lock);
	for (size_t i = 0; i < nr_extents; i++) {
		extent = extent_find(pool, extents[i]);
		if (extent)
			start_draining(pool, extent, out);
	}
	pthread_mutex_unlock(&pool->lock);
	end_keys(pool, out);
	if (out->nr_extents > 0)
		extent_notify(pool);
}

void extent_pool_drained(struct extent_pool *pool, struct extent_drain *drain)
{
	struct extent *extent, *next;

	if (drain->nr_extents == 0)
		return;
	pthread_mutex_lock(&pool->lock);
	cds_list_for_each_entry_safe (extent, next, &drain->extents, drained) {
		cds_list_del_init(&extent->drained);
		extent_move(pool, extent, EXTENT_DIRTY);
	}
	pthread_mutex_unlock(&pool->lock);
	extent_notify(pool);
}

size_t extent_pool_release(struct extent_pool *pool, const uint64_t *extents, size_t nr_extents)
{
	struct extent_drain drain;

	extent_pool_drain(pool, extents, nr_extents, &drain);
	extent_pool_drained(pool, &drain);
	return drain.nr_extents;
}

bool extent_drain_reached(const struct extent_drain *drain, uint64_t namespace)
{
	const struct extent *extent;

	cds_list_for_each_entry (extent, &drain->extents, drained) {
		if (extent->was_reached && extent->namespace == namespace)
			return true;
	}
	return false;
}

void extent_drain_namespaces(const struct extent_drain *drain,
			     void (*each)(const void *context, uint64_t namespace),
			     const void *context)
{
	const struct extent *extent;
	uint64_t last = 0; /* the number of no namespace */

	cds_list_for_each_entry (extent, &drain->extents, drained) {
		if (extent->namespace != last)
			each(context, extent->namespace);
		last = extent->namespace;
	}
}

int extent_pool_list(struct extent_pool *pool, struct extent_info **out, size_t *nr_out)
{
	struct extent_info *infos;
	struct extent *extent;
	size_t nr_infos = 0;

	pthread_mutex_lock(&pool->lock);
	infos = calloc(pool->nr_granted + extent_list_length(&pool->draining) + 1, sizeof(*infos));
	if (infos) {
		cds_list_for_each_entry (extent, &pool->granted, node)
			infos[nr_infos++] = extent_describe(extent);
		cds_list_for_each_entry (extent, &pool->draining, node)
			infos[nr_infos++] = extent_describe(extent);
	}
	pthread_mutex_unlock(&pool->lock);
	if (!infos)
		return error_code(-ENOMEM);
	*out = infos;
	*nr_out = nr_infos;
	return 0;
}

/* ---- Life */

static void init_lists(struct extent_pool *pool)
{
	size_t i;

	CDS_INIT_LIST_HEAD(&pool->granted);
	CDS_INIT_LIST_HEAD(&pool->draining);
	CDS_INIT_LIST_HEAD(&pool->dirty);
	for (i = 0; i <= NR_SIZES; i++)
		CDS_INIT_LIST_HEAD(&pool->clean[i]);
}

/* Deadlines are on the monotonic clock. */
static void init_supply(pthread_cond_t *supply)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(supply, &attributes);
	pthread_condattr_destroy(&attributes);
}

int extent_pool_open(const struct extent_pool_options *options, struct extent_pool **out)
{
	struct extent_pool *pool = calloc(1, sizeof(*pool));
	int ret;

	if (!pool)
		return error_code(-ENOMEM);
	pool->options = *options;
	pool->options.capacity_bytes -= options->capacity_bytes % SEGMENT_MIN;
	/* Numbers of an earlier start are invalid. Begin at a random number, which they have hardly
	 * reached. */
	if (RAND_bytes((unsigned char *)&pool->next_number, sizeof(pool->next_number)) != 1) {
		ret = error_fail(-EIO, "start the server: no randomness");
		goto out_free;
	}
	pool->next_number = (pool->next_number >> 16) | 1;
	pthread_mutex_init(&pool->lock, NULL);
	init_supply(&pool->supply);
	pthread_cond_init(&pool->work, NULL);
	init_lists(pool);
	ret = scrubber_start(pool);
	if (ret != 0)
		goto out_destroy;
	*out = pool;
	return 0;

out_destroy:
	pthread_cond_destroy(&pool->work);
	pthread_cond_destroy(&pool->supply);
	pthread_mutex_destroy(&pool->lock);
out_free:
	free(pool);
	return ret;
}

void extent_pool_stop(struct extent_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->is_stopping = true;
	pthread_cond_broadcast(&pool->supply);
	pthread_mutex_unlock(&pool->lock);
}

static void drop_all(struct extent_pool *pool, struct cds_list_head *list)
{
	struct extent *extent, *next;

	cds_list_for_each_entry_safe (extent, next, list, node) {
		extent_move(pool, extent, EXTENT_GONE);
		segment_unmap(extent->addr, extent->length);
		free(extent);
	}
}

void extent_pool_close(struct extent_pool *pool)
{
	struct extent *extent, *next;
	struct extent_drain drain = {.extents = CDS_LIST_HEAD_INIT(drain.extents)};
	size_t i;

	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->is_closing = true;
	pthread_cond_signal(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	pthread_join(pool->scrubber, NULL);

	cds_list_for_each_entry_safe (extent, next, &pool->granted, node)
		start_draining(pool, extent, &drain);
	end_keys(pool, &drain);
	cds_list_for_each_entry_safe (extent, next, &drain.extents, drained)
		extent_move(pool, extent, EXTENT_DIRTY);
	drop_all(pool, &pool->dirty);
	for (i = 0; i <= NR_SIZES; i++)
		drop_all(pool, &pool->clean[i]);

	pthread_cond_destroy(&pool->work);
	pthread_cond_destroy(&pool->supply);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}
