/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zeros in a store's extents, for clients. Whole blocks are trimmed, so they take no room. In
 * blocks that are given in part, the bytes that are named are written as zeros; a trim leaves such
 * blocks alone. Runs on the store's thread.
 */
#include <afar/error.h>
#include <errno.h>
#include <stdlib.h>

#include "server/memory/zero.h"
#include "server/stores/store_private.h"

static uint8_t zeros[FTL_BLOCK]; /* nobody writes it */

/* A block that is given in part. */
struct zero_edge {
	struct ftl_put put;
	struct iovec iov;
	struct zeroing *zeroing;
};

/* From when it is given to the layer until all of it has ended there. */
struct zeroing {
	struct store_work work;
	struct store *store;
	struct progress_message message;
	unsigned nr_left; /* requests to the layer */
	int status;
	struct zero_edge first, last;
	struct ftl_trim trim;
	struct ftl_sync sync;
	struct cache_change change;
};

static void on_ended(struct zeroing *zeroing, int result)
{
	const int answer = store_answer(zeroing->store, result, true);
	const struct message_reply reply = {.status = zeroing->status ? zeroing->status : answer};

	zeroing->status = reply.status;
	if (--zeroing->nr_left > 0)
		return;
	store_work_end(zeroing->store, &zeroing->work);
	cache_change_end(zeroing->store->pages.cache, &zeroing->change);
	progress_answer(&zeroing->message, &reply);
	free(zeroing);
}

static void on_put(struct ftl_put *put)
{
	struct zero_edge *edge = caa_container_of(put, struct zero_edge, put);

	on_ended(edge->zeroing, put->result);
}

static void on_trimmed(struct ftl_trim *trim)
{
	on_ended(caa_container_of(trim, struct zeroing, trim), trim->result);
}

static void on_synced(struct ftl_sync *sync)
{
	on_ended(caa_container_of(sync, struct zeroing, sync), sync->result);
}

static void give_up(struct store_work *work)
{
	struct zeroing *zeroing = caa_container_of(work, struct zeroing, work);
	const struct message_reply reply = {.status = -EIO};

	progress_answer(&zeroing->message, &reply);
}

static void forget(struct store_work *work)
{
	free(caa_container_of(work, struct zeroing, work));
}

/* Writes zeros over [begin, end) of an extent, which is a part of a block. */
static void zero_edge(struct zeroing *zeroing, struct zero_edge *edge,
		      const struct store_extent *extent, uint64_t begin, uint64_t end)
{
	if (begin == end)
		return;
	edge->zeroing = zeroing;
	edge->iov = (struct iovec){zeros, end - begin};
	edge->put = (struct ftl_put){
		.lba = ftl_lba(extent->range, (uint32_t)(begin / FTL_BLOCK)),
		.offset = begin % FTL_BLOCK,
		.length = end - begin,
		.iov = &edge->iov,
		.nr_iov = 1,
		.heat = FTL_HEAT_UNKNOWN,
		.done = on_put,
	};
	zeroing->nr_left++;
	ftl_put(zeroing->store->ftl, &edge->put);
}

static void trim_blocks(struct zeroing *zeroing, const struct store_extent *extent, uint64_t begin,
			uint64_t end)
{
	if (begin == end)
		return;
	zeroing->trim = (struct ftl_trim){
		.lba = ftl_lba(extent->range, (uint32_t)(begin / FTL_BLOCK)),
		.count = (end - begin) / FTL_BLOCK,
		.done = on_trimmed,
	};
	zeroing->nr_left++;
	ftl_trim(zeroing->store->ftl, &zeroing->trim);
}

static void sync_blocks(struct zeroing *zeroing, const struct store_extent *extent, uint64_t begin,
			uint64_t end)
{
	const uint64_t first = begin / FTL_BLOCK;

	zeroing->sync = (struct ftl_sync){
		.lba = ftl_lba(extent->range, (uint32_t)first),
		.count = (end + FTL_BLOCK - 1) / FTL_BLOCK - first,
		.done = on_synced,
	};
	zeroing->nr_left++;
	ftl_sync(zeroing->store->ftl, &zeroing->sync);
}

/* Gives all requests to the layer, without a poll between. */
static void begin_all(struct zeroing *zeroing, const struct store_extent *extent,
		      const struct message_request *request)
{
	const uint64_t begin = request->offset, end = begin + request->length;
	const uint64_t whole_end = end / FTL_BLOCK * FTL_BLOCK;
	const uint64_t whole_begin = (begin + FTL_BLOCK - 1) / FTL_BLOCK * FTL_BLOCK;

	/* The blocks at the edges change, too. */
	cache_change_begin(zeroing->store->pages.cache, &zeroing->change,
			   store_extent_cached(extent), begin / FTL_BLOCK,
			   (end + FTL_BLOCK - 1) / FTL_BLOCK - begin / FTL_BLOCK);
	if (whole_begin <= whole_end)
		trim_blocks(zeroing, extent, whole_begin, whole_end);
	if (!(request->flags & MESSAGE_ZERO_TRIM)) {
		zero_edge(zeroing, &zeroing->first, extent, begin,
			  whole_begin < end ? whole_begin : end);
		if (whole_begin <= whole_end)
			zero_edge(zeroing, &zeroing->last, extent, whole_end, end);
	}
	if (request->flags & MESSAGE_ZERO_DURABLE)
		sync_blocks(zeroing, extent, begin, end);
}

bool store_zero(struct store *store, struct reach reach, const struct message_request *request,
		struct message_reply *reply, const struct progress_message *message)
{
	struct store_extent *extent;
	struct zeroing *zeroing;

	reply->status = store->is_gone ? -EIO : zero_check(reach, request, MESSAGE_ZERO_STORE_MAX);
	if (reply->status == 0)
		reply->status = store_extent_reached(store, reach, request, &extent);
	if (reply->status != 0)
		return true;
	zeroing = malloc(sizeof(*zeroing));
	if (!zeroing) {
		reply->status = -ENOMEM;
		return true;
	}
	*zeroing = (struct zeroing){
		.work = {.give_up = give_up, .forget = forget},
		.store = store,
		.message = *message,
	};
	begin_all(zeroing, extent, request);
	if (zeroing->nr_left == 0) { /* a trim of parts of blocks */
		cache_change_end(store->pages.cache, &zeroing->change);
		free(zeroing);
		return true;
	}
	store_work_begin(store, &zeroing->work);
	return false;
}
