/* SPDX-License-Identifier: BSD-3-Clause */
/* Suite `flash-tier`: regions on flash, through a server with a store on this machine's storage. */
#include "flash_tier.h"

static const struct bench_stage *const stages[] = {
	&flash_layer_writes_stage, &flash_tier_paths_stage,	&flash_tier_durable_stage,
	&flash_tier_cpu_stage,	   &flash_tier_neighbour_stage, &flash_tier_reserve_stage,
	&flash_tier_sync_stage,	   &flash_tier_checks_stage,
};

const struct bench_suite bench_suite_flash_tier = {
	.name = "flash-tier",
	.summary = "regions on flash: against the layer below, memory, fio, and other servers",
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
