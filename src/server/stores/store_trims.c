/* SPDX-License-Identifier: BSD-3-Clause */
/* Trims parts of a store's extents: what regions gave back reads as zeros, for good, before others
 * get it. Runs on the store's thread, as an order that another thread has left there. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "server/stores/store_private.h"

/* A range of a call. */
struct trim_part {
	struct extent_range range;
	struct ftl_trim trim;
	struct cache_change change;
	struct trimming *trimming;
};

struct trimming {
	struct store *store;
	store_done *done;
	void *argument;
	uint64_t namespace;
	size_t nr_left;
	int status;
	struct store_work work;
	struct ftl_sync sync;
	size_t nr_parts;
	struct trim_part parts[];
};

/* Tells of the end, and lets those list the extents who waited for it. */
static void tell_trimmed(const struct trimming *trimming)
{
	struct store *store = trimming->store;

	trimming->done(trimming->argument, trimming->status);
	store->nr_trims--;
	store_listings_go_on(store);
}

static void trimming_end(struct trimming *trimming)
{
	store_work_end(trimming->store, &trimming->work);
	tell_trimmed(trimming);
	free(trimming);
}

static void give_up_trimming(struct store_work *work)
{
	struct trimming *trimming = caa_container_of(work, struct trimming, work);

	trimming->status = -EIO;
	tell_trimmed(trimming);
}

static void forget_trimming(struct store_work *work)
{
	free(caa_container_of(work, struct trimming, work));
}

static void on_trims_synced(struct ftl_sync *sync)
{
	struct trimming *trimming = caa_container_of(sync, struct trimming, sync);

	if (sync->result != 0)
		trimming->status = sync->result;
	store_count(trimming->store);
	trimming_end(trimming);
}

static void trimming_drop(struct trimming *trimming)
{
	if (--trimming->nr_left > 0)
		return;
	trimming->sync = (struct ftl_sync){.lba = 0, .count = FTL_ALL, .done = on_trims_synced};
	ftl_sync(trimming->store->ftl, &trimming->sync);
}

static void on_trimmed(struct ftl_trim *trim)
{
	struct trim_part *part = caa_container_of(trim, struct trim_part, trim);
	struct trimming *trimming = part->trimming;

	cache_change_end(trimming->store->pages.cache, &part->change);
	if (trim->result != 0)
		trimming->status = trim->result;
	trimming_drop(trimming);
}

static int trim_one(struct trimming *trimming, struct trim_part *part)
{
	const struct extent_range *range = &part->range;
	struct store_extent *extent =
		store_extent_named(trimming->store, range->extent, trimming->namespace);

	if (!extent || store_extent_is_leaving(extent))
		return 0;
	if (range->length == 0 || (range->offset | range->length) % FTL_BLOCK != 0 ||
	    range->offset > extent->length || range->length > extent->length - range->offset)
		return error_fail(
			-EINVAL, "trim extent %llx: %llu bytes at %llu are not blocks inside of it",
			(unsigned long long)range->extent, (unsigned long long)range->length,
			(unsigned long long)range->offset);
	part->trimming = trimming;
	part->trim = (struct ftl_trim){
		.lba = ftl_lba(extent->range, (uint32_t)(range->offset / FTL_BLOCK)),
		.count = range->length / FTL_BLOCK,
		.done = on_trimmed,
	};
	trimming->nr_left++;
	cache_change_begin(trimming->store->pages.cache, &part->change, store_extent_cached(extent),
			   range->offset / FTL_BLOCK, part->trim.count);
	ftl_trim(trimming->store->ftl, &part->trim);
	return 0;
}

static void run_trim(void *argument)
{
	struct trimming *trimming = argument;

	trimming->store->nr_trims++;
	if (trimming->store->is_closed || trimming->store->is_gone) {
		trimming->status = -ECANCELED;
		tell_trimmed(trimming);
		free(trimming);
		return;
	}
	trimming->work =
		(struct store_work){.give_up = give_up_trimming, .forget = forget_trimming};
	store_work_begin(trimming->store, &trimming->work);
	trimming->nr_left = 1;
	for (size_t i = 0; i < trimming->nr_parts && trimming->status == 0; i++)
		trimming->status = trim_one(trimming, &trimming->parts[i]);
	trimming_drop(trimming);
}

int store_trim(struct store *store, uint64_t namespace, const struct extent_range *ranges,
	       size_t nr_ranges, store_done *done, void *argument)
{
	struct trimming *trimming =
		calloc(1, sizeof(*trimming) + nr_ranges * sizeof(trimming->parts[0]));
	int ret;

	if (!trimming)
		return error_code(-ENOMEM);
	trimming->store = store;
	trimming->done = done;
	trimming->argument = argument;
	trimming->namespace = namespace;
	trimming->nr_parts = nr_ranges;
	for (size_t i = 0; i < nr_ranges; i++)
		trimming->parts[i].range = ranges[i];
	ret = progress_run(store->progress, run_trim, trimming);
	if (ret != 0)
		free(trimming);
	return ret;
}
