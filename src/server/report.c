/* SPDX-License-Identifier: BSD-3-Clause */
/* Collects and compares the numbers of a report. Called by membership; owns nothing. */
#include <stdio.h>
#include <unistd.h>

#include "server/report.h"

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

void report_fill(struct extent_pool *pool, const struct lanes *lanes, Afar__ServerReport *out)
{
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
}

bool report_is_news(const Afar__ServerReport *report, const Afar__ServerReport *last)
{
	return report->capacity_bytes != last->capacity_bytes ||
	       report->granted_bytes != last->granted_bytes ||
	       report->clean_bytes != last->clean_bytes ||
	       report->draining_bytes != last->draining_bytes ||
	       report->dirty_bytes != last->dirty_bytes ||
	       report->scrubbed_bytes != last->scrubbed_bytes ||
	       report->nr_connections != last->nr_connections;
}
