/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trims. Chunks that a region of flash had must read as zeros, also after a loss of power, before
 * somebody else gets them. So a freed region that nobody has open stays in the tables and in the
 * metastore, and holds its chunks until their stores have answered. It is what stores are told
 * again after a lost connection, a failed commit or a restart.
 *
 * A store has one call under way at a time, so a chunk is never in two. Otherwise the answer to one
 * could free the chunk, and the other would wipe what its next owner wrote. A call that was sent on
 * an earlier connection counts for nothing. The server drops it before it joins again.
 *
 * Chunks that an older copy's records say were freed may be others' by now: they wait for an
 * operator's word about the namespace.
 *
 * An extent that is released as a whole needs no trims: its store does that by itself.
 */
#include <errno.h>
#include <stdlib.h>

#include <afar/afar.h>

#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/space/references.h"
#include "manager/space/trims.h"

static outgoing_answered answered;

#define RANGES_MAX 4096U /* of one call */

/* ---- Telling */

static bool is_wanted(const struct region *region, uint32_t copy, const struct flash_store *store)
{
	const struct layout_home *home =
		layout_home_of(region->layout, &region->layout->copies[copy]);

	return region->trims[copy] == TRIM_WANTED && home->is_store && home->life == store->number;
}

static Afar__TrimRange *make_range(const struct layout *layout, uint32_t copy)
{
	Afar__TrimRange *range = MESSAGE_NEW(afar__trim_range, Afar__TrimRange);

	if (!range)
		return NULL;
	range->extent = layout->copies[copy].extent;
	range->offset = layout->copies[copy].offset;
	range->length = layout_copy_span(layout, &layout->copies[copy]);
	return range;
}

static int add_region(const struct region *region, const struct flash_store *store,
		      Afar__ExtentsTrim *ask, struct outgoing *outgoing)
{
	for (uint32_t i = 0; i < region->layout->nr_copies && ask->n_ranges < RANGES_MAX; i++) {
		Afar__TrimRange *range;

		if (!is_wanted(region, i, store))
			continue;
		range = make_range(region->layout, i);
		if (!range)
			return error_code(-ENOMEM);
		ask->ranges[ask->n_ranges++] = range;
		outgoing->trims[outgoing->nr_trims++] = (struct told_trim){region->generation, i};
	}
	return 0;
}

/* All of one namespace: that of the first region that waits for the store. */
static int fill(struct core *core, const struct flash_store *store, Afar__ExtentsTrim *ask,
		struct outgoing *outgoing)
{
	struct region *region;
	int ret = 0;

	ask->store = store->number;
	ask->ranges = calloc(RANGES_MAX, sizeof(*ask->ranges));
	outgoing->trims = calloc(RANGES_MAX, sizeof(*outgoing->trims));
	if (!ask->ranges || !outgoing->trims)
		return error_code(-ENOMEM);
	cds_list_for_each_entry (region, &core->state->trimming, trim_node) {
		if (ret < 0 || region->ns->is_suspect ||
		    (ask->n_ranges != 0 && region->ns->number != ask->namespace_))
			continue;
		ask->namespace_ = region->ns->number;
		ret = add_region(region, store, ask, outgoing);
	}
	return ret;
}

static void set_told(struct core *core, const struct outgoing *outgoing)
{
	for (size_t i = 0; i < outgoing->nr_trims; i++)
		region_set_trim_told(state_region(core->state, outgoing->trims[i].generation),
				     outgoing->trims[i].copy, true);
}

static Afar__Request *make_request(void)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);

	if (!request)
		return NULL;
	request->extents_trim = MESSAGE_NEW(afar__extents_trim, Afar__ExtentsTrim);
	request->call_case = AFAR__REQUEST__CALL_EXTENTS_TRIM;
	if (request->extents_trim)
		return request;
	free(request);
	return NULL;
}

void trims_drive(struct core *core, struct flash_store *store)
{
	struct live_server *live = store->pool.server->live;
	struct outgoing *outgoing;
	Afar__Request *request;

	if (!store->has_trims || store->trim_call != 0 || live->retry_at != 0)
		return;
	outgoing = outgoing_new(answered, live);
	request = make_request();
	if (!outgoing || !request || fill(core, store, request->extents_trim, outgoing) < 0) {
		live->retry_at = core_now(core) + CORE_RETRY_NS;
	} else if (outgoing->nr_trims == 0) {
		store->has_trims = false;
	} else {
		set_told(core, outgoing);
		store->trim_call = outgoing->trim_call = ++core->last_trim_call;
		outgoing->extents.home = pool_home(&store->pool);
		server_call(core, live, STORE_TIMEOUT_MS, request, outgoing);
		return;
	}
	if (request)
		afar__request__free_unpacked(request, NULL);
	outgoing_free(outgoing);
}

/* ---- Answers, and what else ends a wait */

/* The region's record goes when it waits for nothing more. */
static int finish(struct core *core, struct region *region)
{
	return region_is_trimmed(region) ? region_remove(core, region) : 0;
}

/* The call is over. Leaves out what did not wait for it any more: what was done for another reason,
 * or has to be told again. */
static void take_told(struct core *core, struct outgoing *outgoing)
{
	size_t nr = 0;

	for (size_t i = 0; i < outgoing->nr_trims; i++) {
		const struct told_trim told = outgoing->trims[i];
		struct region *region = state_region(core->state, told.generation);

		if (!region || !region->trims || region->trims[told.copy] != TRIM_TOLD)
			continue;
		region_set_trim_told(region, told.copy, false);
		outgoing->trims[nr++] = told;
	}
	outgoing->nr_trims = nr;
}

static int answered(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	struct flash_store *store = state_store(core->state, outgoing->extents.home.life);
	int ret = 0;

	(void)event;
	if (!store || store->trim_call != outgoing->trim_call)
		return 0;
	store->trim_call = 0;
	store->has_trims = true;
	take_told(core, outgoing);
	for (size_t i = 0; i < outgoing->nr_trims && is_done && ret == 0; i++) {
		const struct told_trim *told = &outgoing->trims[i];
		struct region *region = state_region(core->state, told->generation);

		ret = state_end_trim(core->state, region, told->copy);
		/* Looks once at each region: they lie together. */
		if (ret == 0 &&
		    (i + 1 == outgoing->nr_trims || told[1].generation != told->generation))
			ret = finish(core, region);
	}
	return ret;
}

int trims_settle(struct core *core)
{
	struct region *region, *next;
	int ret = 0;

	cds_list_for_each_entry_safe (region, next, &core->state->trimming, trim_node) {
		const struct layout *layout = region->layout;

		for (uint32_t i = 0; i < layout->nr_copies && ret == 0; i++)
			if (region->trims[i] != TRIM_DONE &&
			    !state_extent_of(core->state, layout, &layout->copies[i]))
				ret = state_end_trim(core->state, region, i);
		if (ret == 0)
			ret = finish(core, region);
		if (ret < 0)
			break;
	}
	return ret;
}

void trims_forget(struct core *core, struct flash_store *store)
{
	struct region *region;

	store->trim_call = 0;
	store->has_trims = true;
	cds_list_for_each_entry (region, &core->state->trimming, trim_node)
		for (uint32_t i = 0; i < region->layout->nr_copies; i++)
			if (layout_home_of(region->layout, &region->layout->copies[i])->life ==
			    store->number)
				region_set_trim_told(region, i, false);
}

void trims_resume(struct core *core)
{
	struct flash_store *store;

	cds_list_for_each_entry (store, &core->state->stores, node)
		store->has_trims = true;
}

int trims_start(struct core *core)
{
	struct namespace *ns, *next_ns;
	struct region *region, *next;
	int ret = 0;

	cds_list_for_each_entry_safe (ns, next_ns, &core->state->namespaces, node)
		cds_list_for_each_entry_safe (region, next, &ns->freed, node)
			if (ret == 0)
				ret = region_reclaim(core, region);
	return ret;
}

/* ---- Allocations that wait */

static const struct pool *pool_of(const struct core *core, const struct region *region,
				  uint32_t copy)
{
	return state_pool(core->state,
			  layout_home_of(region->layout, &region->layout->copies[copy]));
}

/* False: it waits for a store that is down, or read only. */
static bool is_coming(const struct core *core, const struct region *region)
{
	for (uint32_t i = 0; i < region->layout->nr_copies; i++) {
		const struct pool *pool = pool_of(core, region, i);

		if (region->trims[i] != TRIM_DONE && (!pool || !pool_is_writable(pool)))
			return false;
	}
	return true;
}

/* Returns how many bytes can be allocated when it has gone. */
static uint64_t bytes_of(const struct core *core, const struct region *region)
{
	const struct layout *layout = region->layout;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < layout->nr_copies; i++) {
		const struct layout_copy *copy = &layout->copies[i];
		const struct extent *extent = state_extent_of(core->state, layout, copy);

		if (extent && extent->ns == region->ns && pool_is_writable(extent->pool))
			bytes += layout_copy_span(layout, copy);
	}
	return bytes;
}

uint64_t trims_coming(const struct core *core, const struct namespace *ns)
{
	const struct region *region;
	uint64_t bytes = 0;

	cds_list_for_each_entry (region, &core->state->trimming, trim_node)
		if (region->ns == ns && is_coming(core, region))
			bytes += bytes_of(core, region);
	return bytes;
}

uint64_t trims_awaited(const struct core *core, const struct namespace *ns)
{
	const struct region *region;

	cds_list_for_each_entry (region, &core->state->trimming, trim_node) {
		if (region->ns != ns || !is_coming(core, region))
			continue;
		for (uint32_t i = 0; i < region->layout->nr_copies; i++)
			if (region->trims[i] != TRIM_DONE)
				return pool_of(core, region, i)->server->number;
	}
	return 0;
}

static uint64_t free_now(const struct namespace *ns)
{
	const struct extent *extent;
	uint64_t bytes = 0;

	cds_list_for_each_entry (extent, &ns->extents, namespace_node)
		bytes += pool_is_writable(extent->pool) ? extent->space.free_bytes : 0;
	return bytes;
}

uint64_t trims_wait_for(struct core *core, const struct namespace *ns, uint64_t bytes,
			uint64_t until)
{
	uint64_t now;

	if (ns->tier != AFAR_TIER_FLASH || ns->is_deleted)
		return 0;
	now = free_now(ns);
	return bytes > now && bytes <= now + trims_coming(core, ns) ? until : 0;
}

uint64_t trims_wait(struct core *core, struct event *event)
{
	const Afar__RegionAlloc *ask = event->request->region_alloc;
	const struct namespace *ns = state_namespace(core->state, ask->namespace_);

	return ns ? trims_wait_for(core, ns, ask->bytes, event->answer_by) : 0;
}
