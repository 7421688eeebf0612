/* SPDX-License-Identifier: BSD-3-Clause */
/* Suite `cache`: what it brings that a store keeps pages in memory. */
#include "cache.h"

static const struct bench_stage *const stages[] = {
	&cache_pages_stage, &cache_hot_stage,  &cache_hot_cpu_stage, &cache_neighbour_stage,
	&cache_zipf_stage,  &cache_near_stage, &cache_scan_stage,
};

const struct bench_suite bench_suite_cache = {
	.name = "cache",
	.summary = "pages of flash kept in memory: against none, and against a simulated cache",
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
