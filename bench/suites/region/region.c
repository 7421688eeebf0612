/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `region`: remote DRAM. The stages that fork clients come first, before this process touches
 * libfabric in the transfers. Otherwise it would have paid already for what a fresh process has to
 * pay.
 */
#include "region.h"

static const struct bench_stage *const stages[] = {
	&region_connect_stage, &region_idle_stage,  &region_memory_stage,  &region_transfer_stage,
	&region_stripe_stage,  &region_cache_stage, &region_reserve_stage, &region_warm_stage,
};

const struct bench_suite bench_suite_region = {
	.name = "region",
	.summary = "remote DRAM: transfers against raw libfabric, reserving, connecting, idling, "
		   "memory",
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
