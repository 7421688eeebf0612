/* SPDX-License-Identifier: BSD-3-Clause */
/* Scrubs a store: reads all of it in the background, at the rate that its operator has set, and
 * tells of bad blocks. */
#include "flash/upkeep/scrub.h"

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "server/stores/store_private.h"

#define PAUSE_NS UINT64_C(3600000000000) /* between two passes */

static void on_bad(void *context, uint64_t lba, int error)
{
	const struct store *store = context;
	const struct store_extent *extent = store_extent_at(store, lba);
	struct cache_change change;

	/* Readers shall hear of it, too. */
	if (extent) {
		cache_change_begin(store->pages.cache, &change, store_extent_cached(extent),
				   ftl_lba_block(lba), 1);
		cache_change_end(store->pages.cache, &change);
	}
	log_error(
		"store %s: scrub: the 4 KiB at %llu of extent %llx of namespace %llu are bad: %s; "
		"write them again, or restore the region",
		store->path, (unsigned long long)ftl_lba_block(lba) * FTL_BLOCK,
		extent ? (unsigned long long)extent->number : 0,
		extent ? (unsigned long long)extent->namespace : 0,
		error == -EBADMSG ? "they are not what was written" : afar_strerror(error));
}

int store_scrub_open(struct store *store)
{
	const struct scrub_options options = {
		.bytes_per_s = store->options.scrub_bytes_per_s,
		.depth = 1,
		.pause_ns = PAUSE_NS,
		.bad = on_bad,
		.context = store,
	};

	store->scrub_due = CLOCK_NEVER;
	if (options.bytes_per_s == 0)
		return 0;
	store->scrub_due = clock_ns();
	return scrub_open(store->ftl, &options, &store->scrub);
}

void store_scrub_go_on(struct store *store)
{
	struct scrub_stat stat;

	store->scrub_due = scrub_progress(store->scrub, clock_ns());
	scrub_stat(store->scrub, &stat);
	pthread_mutex_lock(&store->lock);
	store->stat.scrub_passes = stat.passes;
	store->stat.nr_bad = stat.nr_bad > stat.last_bad ? stat.nr_bad : stat.last_bad;
	pthread_mutex_unlock(&store->lock);
}

void store_scrub_close(struct store *store)
{
	if (!store->scrub)
		return;
	if (store->ftl && !store->is_gone) {
		scrub_stop(store->scrub);
		while (scrub_is_busy(store->scrub) && ftl_poll(store->ftl, -1) >= 0)
			;
	}
	scrub_close(store->scrub);
	store->scrub = NULL;
	store->scrub_due = CLOCK_NEVER;
}
