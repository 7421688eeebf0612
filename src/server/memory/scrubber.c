/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool's thread that zeroes or exchanges released memory, one extent after another, so that the
 * next reservation need not wait for it. Only this accesses memory in SCRUBBING. Started and joined
 * by extent.c.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "server/memory/extent_book.h"

/* Keeps a recent rate: after each second of scrubbing, older scrubbing counts half as much. */
static void note_scrubbed(struct extent_pool *pool, uint64_t bytes, uint64_t ns)
{
	if (pool->recent_ns > 1000000000U) {
		pool->recent_bytes /= 2;
		pool->recent_ns /= 2;
	}
	pool->recent_bytes += bytes;
	pool->recent_ns += ns;
	pool->scrubbed_bytes += bytes;
}

/* Zeroes the memory. If it was lent, exchanges it for other memory, which the kernel has zeroed. */
static int clear(struct extent *extent)
{
	void *addr;
	int ret;

	if (!extent->was_lent) {
		segment_scrub(extent->addr, extent->length);
		return 0;
	}
	segment_unmap(extent->addr, extent->length);
	ret = segment_map_shared(extent->length, 1, &addr);
	if (ret != 0)
		return ret;
	madvise(addr, extent->length, MADV_DONTDUMP); /* as in extent_reserve.c */
	extent->addr = addr;
	extent->was_lent = false;
	return 0;
}

/* Zeroes one dirty extent, or unmaps it if the pool is full and nobody waits for memory. It drops
 * the lock meanwhile. */
static void scrub_one(struct extent_pool *pool)
{
	struct extent *extent = cds_list_first_entry(&pool->dirty, struct extent, node);
	uint64_t began, took;
	int ret;

	if (extent_may_keep(pool, extent->length) || pool->nr_waiting > 0) {
		extent_move(pool, extent, EXTENT_SCRUBBING);
		pthread_mutex_unlock(&pool->lock);
		began = clock_ns();
		ret = clear(extent);
		took = clock_ns() - began;
		pthread_mutex_lock(&pool->lock);
		note_scrubbed(pool, extent->length, took);
		if (ret == 0) {
			extent_to_clean(pool, extent);
		} else {
			extent_move(pool, extent, EXTENT_GONE);
			free(extent);
		}
	} else {
		/* Unmap it before it is booked as gone, so that there is never more than the
		 * capacity. */
		cds_list_del_init(&extent->node);
		pthread_mutex_unlock(&pool->lock);
		segment_unmap(extent->addr, extent->length);
		pthread_mutex_lock(&pool->lock);
		extent_move(pool, extent, EXTENT_GONE);
		free(extent);
	}
	pthread_mutex_unlock(&pool->lock);
	extent_notify(pool);
	pthread_mutex_lock(&pool->lock);
}

static void *scrubber_run(void *argument)
{
	struct extent_pool *pool = argument;

	pthread_mutex_lock(&pool->lock);
	while (!pool->is_closing) {
		if (cds_list_empty(&pool->dirty))
			pthread_cond_wait(&pool->work, &pool->lock);
		else
			scrub_one(pool);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

int scrubber_start(struct extent_pool *pool)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&pool->scrubber, NULL, scrubber_run, pool);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret != 0)
		return error_fail(-ret, "start the scrubber: no thread; raise the limit of "
					"processes");
	pthread_setname_np(pool->scrubber, "afar-scrub");
	return 0;
}
