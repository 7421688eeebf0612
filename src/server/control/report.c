/* SPDX-License-Identifier: BSD-3-Clause */
/* Collects and compares the numbers of a report. Called by membership; owns nothing. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <afar/version.h>

#include "base/clock.h"
#include "memory/huge.h"
#include "server/control/report.h"

static uint64_t resident_bytes(void)
{
	unsigned long long nr_pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file)
		return 0;
	if (fscanf(file, "%*u %llu", &nr_pages) != 1)
		nr_pages = 0;
	fclose(file);
	return nr_pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void fill_lane(const struct lanes *lanes, unsigned i, struct report *report)
{
	Afar__LaneReport *out = &report->lanes[i];
	struct lane_stat stat;

	lanes_stat(lanes, i, &stat);
	afar__lane_report__init(out);
	out->nr_connections = stat.nr_connections;
	out->numa_node = (uint32_t)(stat.node + 1);
	out->is_bound = stat.is_bound;
	out->link = stat.link;
	out->counted_by = stat.counted_by;
	out->bytes_in = stat.bytes_in;
	out->bytes_out = stat.bytes_out;
	memcpy(report->congestions[i], stat.congestion, sizeof(stat.congestion));
	out->congestion = report->congestions[i];
}

static void fill_work(const struct store_work_stat *work, Afar__StoreReport *out)
{
	out->cache_bytes = work->cache_bytes;
	out->cached_bytes = work->cached_bytes;
	out->cache_hits = work->nr_hits;
	out->cache_misses = work->nr_misses;
	out->cache_shared = work->nr_shared;
	out->cache_past = work->nr_past;
	out->merged_writes = work->nr_merged;
	out->device_reads = work->device_reads;
	out->user_blocks = work->user_blocks;
	out->moved_blocks = work->moved_blocks;
	out->written_blocks = work->written_blocks;
	out->nr_flushes = work->nr_flushes;
	out->nr_cleaned = work->nr_cleaned;
}

static void fill_store(struct store *store, Afar__StoreReport *out)
{
	struct progress *progress = store_progress(store);
	struct store_stat stat;

	store_stat(store, &stat);
	afar__store_report__init(out);
	out->store = store_number(store);
	out->capacity_bytes = stat.capacity_bytes;
	out->granted_bytes = stat.granted_bytes;
	out->used_bytes = stat.used_bytes;
	out->map_bytes = stat.map_bytes;
	out->nr_connections = progress_nr_connections(progress);
	out->nr_errors = stat.nr_errors;
	out->nr_syncs = stat.nr_syncs;
	out->scrub_passes = stat.scrub_passes;
	out->nr_bad = stat.nr_bad;
	out->failure = stat.failure;
	out->refusal = stat.refusal;
	out->refusal_ms = stat.refusal != 0 ? (clock_ns() - stat.refused_at) / 1000000U : 0;
	out->slow_ms = stat.slow_ms;
	fill_work(&stat.work, out);
	progress_count(progress, &out->bytes_in, &out->bytes_out);
}

void report_fill(struct extent_pool *pool, const struct lanes *lanes, struct stores *stores,
		 struct report *report)
{
	Afar__ServerReport *out = &report->message;
	struct extent_pool_stat stat;

	extent_pool_stat(pool, &stat);
	afar__server_report__init(out);
	out->capacity_bytes = stat.capacity_bytes;
	out->granted_bytes = stat.granted_bytes;
	out->clean_bytes = stat.clean_bytes;
	out->draining_bytes = stat.draining_bytes;
	out->dirty_bytes = stat.dirty_bytes;
	out->scrubbed_bytes = stat.scrubbed_bytes;
	out->scrub_bytes_per_s = stat.scrub_bytes_per_s;
	out->nr_connections = lanes_nr_connections(lanes);
	out->resident_bytes = resident_bytes();
	out->pool_bytes = stat.pool_bytes;
	out->huge_bytes = memory_huge_bytes();
	out->nr_registrations = stat.nr_registrations;
	out->version = report->version;
	snprintf(report->version, sizeof(report->version), "%s", AFAR_VERSION_STRING);
	out->lanes = report->pointers;
	for (unsigned i = 0; i < lanes_nr(lanes); i++) {
		fill_lane(lanes, i, report);
		out->lanes[out->n_lanes++] = &report->lanes[i];
	}
	out->stores = report->store_pointers;
	stores_lock(stores);
	for (unsigned i = 0; i < stores->nr; i++) {
		fill_store(stores->entries[i], &report->stores[i]);
		out->stores[out->n_stores++] = &report->stores[i];
	}
	stores_unlock(stores);
}

/* Three bits for each store that is not as it should be. */
static uint64_t troubles_of(const Afar__ServerReport *report)
{
	uint64_t troubles = 0;

	for (size_t i = 0; i < report->n_stores; i++) {
		troubles |= (uint64_t)(report->stores[i]->failure != 0) << 3 * i;
		troubles |= (uint64_t)(report->stores[i]->refusal != 0) << (3 * i + 1);
		troubles |= (uint64_t)(report->stores[i]->slow_ms != 0) << (3 * i + 2);
	}
	return troubles;
}
_Static_assert(3 * STORES_MAX <= 64, "each store has its bits");

bool report_is_news(const Afar__ServerReport *report, struct reported *last)
{
	const struct reported now = {
		.has_any = true,
		.capacity_bytes = report->capacity_bytes,
		.granted_bytes = report->granted_bytes,
		.clean_bytes = report->clean_bytes,
		.draining_bytes = report->draining_bytes,
		.dirty_bytes = report->dirty_bytes,
		.scrubbed_bytes = report->scrubbed_bytes,
		.nr_connections = report->nr_connections,
		.troubles = troubles_of(report),
	};
	bool is_news = now.has_any != last->has_any || now.capacity_bytes != last->capacity_bytes ||
		       now.granted_bytes != last->granted_bytes ||
		       now.clean_bytes != last->clean_bytes ||
		       now.draining_bytes != last->draining_bytes ||
		       now.dirty_bytes != last->dirty_bytes ||
		       now.scrubbed_bytes != last->scrubbed_bytes ||
		       now.nr_connections != last->nr_connections || now.troubles != last->troubles;

	*last = now;
	return is_news;
}
