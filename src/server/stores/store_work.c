/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by all who ask a store's layer: the requests that are under way, what their results mean
 * to others, and the layer's numbers. Also calls that wait for the store's thread. Owns nothing;
 * all but store_wait() and store_stat() is on the thread.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "memory/segment.h"
#include "server/stores/store_private.h"

#define SLOW_NS	     UINT64_C(1000000000) /* an operation at the device that takes so long is told of */
#define BLOCKS_A_MAP 510U		  /* of a page of the map: FTL */

/* ---- What is under way */

void store_work_begin(struct store *store, struct store_work *work)
{
	cds_list_add_tail(&work->node, &store->under_way);
}

void store_work_end(struct store *store, struct store_work *work)
{
	if (!store->is_gone)
		cds_list_del(&work->node);
}

bool store_give_up_work(struct store *store)
{
	bool has_some = !cds_list_empty(&store->under_way);

	while (!cds_list_empty(&store->under_way)) {
		struct store_work *work =
			cds_list_first_entry(&store->under_way, struct store_work, node);

		cds_list_move(&work->node, &store->given_up);
		work->give_up(work);
	}
	return has_some;
}

void store_forget_work(struct store *store)
{
	struct store_work *work, *next;

	cds_list_for_each_entry_safe (work, next, &store->given_up, node) {
		cds_list_del(&work->node);
		if (work->forget)
			work->forget(work);
	}
}

/* ---- What comes back */

void store_fail(struct store *store, int code)
{
	if (store->is_gone)
		return;
	log_error("store %s: the device is beyond use: %s; its regions are unavailable until a "
		  "server opens it again",
		  store->path, afar_strerror(code));
	store->is_gone = true;
	pages_fail(&store->pages);
	pthread_mutex_lock(&store->lock);
	store->stat.failure = code;
	pthread_mutex_unlock(&store->lock);
	store->options.changed(store->options.context);
}

int store_answer(struct store *store, int result, bool is_change)
{
	switch (result) {
	case 0:
	case -EIO:
	case -EBADMSG:
	case -ECANCELED:
		return result;
	case -ENOSPC:
		if (is_change) /* the layer's */
			return result;
		break;
	default:
		break;
	}
	log_limited(&store->errors, LOG_LEVEL_ERROR,
		    "store %s: a %s failed: %s; programs are told of an input/output error",
		    store->path, is_change ? "write" : "read", afar_strerror(result));
	return -EIO;
}

/* ---- Numbers */

/* How much can be lent: all blocks, but no more than the map can have pages for. */
static uint64_t capacity_of(const struct ftl_stat *stat)
{
	uint64_t blocks = stat->capacity_blocks;

	if (blocks > (uint64_t)stat->map_slots * BLOCKS_A_MAP)
		blocks = (uint64_t)stat->map_slots * BLOCKS_A_MAP;
	return blocks * FTL_BLOCK / SEGMENT_MIN * SEGMENT_MIN;
}

/* Each block of the device that the layer has written, its own records included. */
static uint64_t written_blocks(const struct ftl_stat *stat)
{
	const uint64_t anchors = stat->checkpoints;

	return stat->user_blocks + stat->moved_blocks + stat->summary_blocks + stat->map_pages +
	       stat->table_blocks + stat->journal_written + anchors;
}

static struct store_work_stat work_of(const struct store *store, const struct ftl_stat *stat)
{
	struct cache_stat cache = {0};

	if (store->pages.cache)
		cache_stat(store->pages.cache, &cache);
	return (struct store_work_stat){
		/* Clients tell of some that they had by themselves. */
		.nr_hits = cache.nr_hits + store->pages.nr_referred,
		.nr_misses = cache.nr_misses,
		.nr_shared = cache.nr_shared,
		.nr_past = cache.nr_past,
		.nr_ahead = cache.nr_ahead,
		.cache_bytes = (uint64_t)store->pages.limit * SEGMENT_MIN,
		.cached_bytes = (uint64_t)cache.nr_used * CACHE_BLOCK,
		.nr_merged = store->pages.nr_merged,
		.device_reads = stat->device_reads,
		.user_blocks = stat->user_blocks,
		.moved_blocks = stat->moved_blocks,
		.written_blocks = written_blocks(stat),
		.nr_flushes = stat->flushes,
		.nr_cleaned = stat->segments_cleaned,
	};
}

void store_count(struct store *store)
{
	struct space_total total;
	struct ftl_stat stat;

	store->counted_at = clock_ns();
	store->is_count_due = false;
	pages_ease(&store->pages, store->counted_at);
	ftl_stat(store->ftl, &stat);
	space_total(store->space, NULL, &total);
	pthread_mutex_lock(&store->lock);
	store->stat.capacity_bytes = capacity_of(&stat);
	store->stat.granted_bytes = total.length * FTL_BLOCK;
	store->stat.used_bytes = stat.used_blocks * FTL_BLOCK;
	store->stat.map_bytes = stat.map_bytes;
	store->stat.nr_errors = stat.crc_errors + stat.read_errors + stat.write_errors;
	store->stat.nr_syncs = stat.syncs;
	store->stat.work = work_of(store, &stat);
	pthread_mutex_unlock(&store->lock);
}

/* On any thread: the store's own may be waiting for that operation. */
static uint64_t slow_ms(struct store *store)
{
	uint64_t since = flash_device_oldest(store->device), now = clock_coarse_ns();

	return since != 0 && now > since + SLOW_NS ? (now - since) / 1000000U : 0;
}

void store_stat(struct store *store, struct store_stat *out)
{
	pthread_mutex_lock(&store->lock);
	*out = store->stat;
	pthread_mutex_unlock(&store->lock);
	out->slow_ms = slow_ms(store);
}

const struct latency *store_latencies(const struct store *store)
{
	return store->latencies;
}

/* ---- Calls that wait */

struct store_waiter {
	sem_t done;
};

void store_call_end(struct store_call *call, int ret)
{
	call->ret = ret;
	if (ret != 0)
		snprintf(call->sentence, sizeof(call->sentence), "%s", error_last_line());
	sem_post(&call->waiter->done);
}

static void run_call(void *argument)
{
	struct store_call *call = argument;

	if (call->store->is_closed)
		store_call_end(call, error_code(-ECANCELED));
	else
		call->run(call);
}

int store_wait(struct store *store, struct store_call *call)
{
	struct store_waiter waiter;
	int ret;

	call->store = store;
	call->waiter = &waiter;
	sem_init(&waiter.done, 0, 0);
	ret = progress_run(store->progress, run_call, call);
	while (ret == 0 && sem_wait(&waiter.done) != 0)
		;
	sem_destroy(&waiter.done);
	if (ret != 0)
		return ret;
	return call->ret == 0 ? 0 : error_fail(call->ret, "%s", call->sentence);
}
