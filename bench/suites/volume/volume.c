/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `volume`: volumes as disks, through NBD against other NBD servers, and by the library's own
 * calls. The stage that forks clients comes first, because this process has no threads yet.
 */
#include "volume.h"

static const struct bench_stage *const stages[] = {
	&volume_cold_stage,  &volume_vectors_stage, &volume_dram_stage,
	&volume_flash_stage, &volume_kept_stage,
};

static const struct bench_pace paces[] = {
	{.rows = "cold reads", .seconds = 3.5},
	{.rows = "vectors", .seconds = 1.5},
	{.rows = "copies kept", .seconds = 4},
	{.rows = "", .seconds = 6},
};

const struct bench_suite bench_suite_volume = {
	.name = "volume",
	.summary = "volumes: against nbdkit and qemu-nbd; vectors; copies kept; cold reads",
	.repetitions = 3,
	.paces = paces,
	.nr_paces = NR_ROWS(paces),
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
