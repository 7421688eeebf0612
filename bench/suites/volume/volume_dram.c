/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `volume` on volumes in memory: through NBD against nbdkit's own memory, with the
 * same client; and by the library's calls against NBD.
 */
#include <errno.h>
#include <stdlib.h>

#include "volume.h"

#define BYTES	     (256 * MIB)
#define SERVER_BYTES (2 * BYTES + 64 * MIB)
#define BAR	     0.9

struct dram_stage {
	struct volume_stage base;
	struct cluster *cluster;
};

#define MEMORY "nbdkit's plugin memory, allocator malloc, in the NBD server itself; same client"
#define NBD    "the same volume by fio, through NBD and our plugin, over local"

#define LENT(name, unit, way, bar, ...)                                               \
	{                                                                             \
		name, unit, BENCH_HIGHER, MEMORY, bar,                                \
			&(const struct volume_row){                                   \
				.ours = (way), .theirs = VOLUME_MEMORY, __VA_ARGS__}, \
			volume_run_lent, volume_run_theirs                            \
	}
#define LENT_ROWS(text, way, bar)                                                               \
	LENT(text ", read 4 KiB random, depth 1", "k/s", way, bar, VOLUME_RANDOM(1)),           \
		LENT(text ", read 4 KiB random, depth 32", "k/s", way, bar, VOLUME_RANDOM(32)), \
		LENT(text ", write 4 KiB random, depth 1", "k/s", way, bar, VOLUME_RANDOM(1),   \
		     VOLUME_WRITE),                                                             \
		LENT(text ", write 4 KiB random, depth 32", "k/s", way, bar, VOLUME_RANDOM(32), \
		     VOLUME_WRITE),                                                             \
		LENT(text ", read 1 MiB, depth 8", "GB/s", way, bar, VOLUME_BULK),              \
		LENT(text ", write 1 MiB, depth 8", "GB/s", way, bar, VOLUME_BULK, VOLUME_WRITE)
#define NATIVE(name, unit, ...)                                                             \
	{                                                                                   \
		"native, " name, unit, BENCH_HIGHER, NBD, BENCH_REPORTED,                   \
			&(const struct volume_row){.ours = VOLUME_LENT_LOCAL, __VA_ARGS__}, \
			volume_run_native, volume_run_lent                                  \
	}

/* Not constant: without nbdkit or fio they are skipped. */
static struct bench_row rows[] = {
	LENT_ROWS("NBD, dram over local", VOLUME_LENT_LOCAL, BAR),
	LENT_ROWS("NBD, dram over tcp", VOLUME_LENT_TCP, BENCH_REPORTED),
	NATIVE("dram, read 4 KiB random, one call", "k/s", VOLUME_RANDOM(1)),
	NATIVE("dram, read 4 KiB random, queue, depth 32", "k/s", VOLUME_RANDOM(32)),
	NATIVE("dram, write 4 KiB random, one call", "k/s", VOLUME_RANDOM(1), VOLUME_WRITE),
	NATIVE("dram, write 4 KiB random, queue, depth 32", "k/s", VOLUME_RANDOM(32), VOLUME_WRITE),
	NATIVE("dram, read 1 MiB, queue, depth 8", "GB/s", VOLUME_BULK),
	NATIVE("dram, write 1 MiB, queue, depth 8", "GB/s", VOLUME_BULK, VOLUME_WRITE),
};

static void teardown(void *state)
{
	struct dram_stage *stage = state;

	if (!stage)
		return;
	volume_stage_close(&stage->base);
	cluster_stop(stage->cluster);
	free(stage);
}

static int setup(void **state)
{
	struct dram_stage *stage;
	int ret;

	if (volume_nbd_missing()) {
		bench_skip(rows, NR_ROWS(rows), volume_nbd_missing());
		return 0;
	}
	stage = calloc(1, sizeof(*stage));
	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = cluster_start_over(CLUSTER_LOCAL_AND_TCP, 1, SERVER_BYTES, &stage->cluster);
	if (!ret)
		ret = volume_stage_open(&stage->base, stage->cluster, AFAR_TIER_DRAM, BYTES);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

const struct bench_stage volume_dram_stage = {setup, teardown, rows, NR_ROWS(rows)};
