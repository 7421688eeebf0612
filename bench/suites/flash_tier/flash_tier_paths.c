/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `flash-tier` on the way to flash over tcp. It is the way of the layer and the way of
 * the network, one behind the other. So it can be no quicker than the slower of these two alone.
 * They are the layer in this process, on a file like the store's, and a region in memory over tcp.
 */
#include <errno.h>
#include <stdlib.h>

#include "flash_tier.h"

#define MEMORY_BYTES (TIER_BYTES + 64 * MIB)
#define BAR	     0.9

struct paths_stage {
	struct tier_cluster cluster;
	struct tier_region *flash, *dram;
	struct flash_file file;
	void *layer;
	double values[3]; /* of the last measurements: ours, the layer's, memory's */
	double cpu_us[2]; /* of one operation of ours: the client's, the server's */
};

/* In the row's unit. */
static double value_of(const struct flash_load *load, const struct flash_figures *figures)
{
	return load->is_random ? figures->per_second / 1e3
			       : figures->per_second * (double)load->block / 1e9;
}

static void note(const struct paths_stage *stage)
{
	bench_note("ours %.3g, the layer here %.3g, memory over tcp %.3g; CPU of one operation: "
		   "client's %.1f µs, server's %.1f µs",
		   stage->values[0], stage->values[1], stage->values[2], stage->cpu_us[0],
		   stage->cpu_us[1]);
}

static int run_ours(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct flash_load *load = row->parameters;
	struct paths_stage *stage = state;
	struct flash_figures figures = {0};
	uint64_t server_ns = tier_server_cpu_ns(&stage->cluster);
	int ret = flash_load_run(&flash_target_region, stage->flash, load, &figures);
	double seconds = (double)load->span_ns / 1e9;

	(void)repetition;
	server_ns = tier_server_cpu_ns(&stage->cluster) - server_ns;
	*value = stage->values[0] = value_of(load, &figures);
	stage->cpu_us[0] = figures.cpu_ns / 1e3;
	stage->cpu_us[1] = (double)server_ns / (figures.per_second * seconds) / 1e3;
	note(stage);
	return ret;
}

static int run_slower(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct flash_load *load = row->parameters;
	struct flash_load volatile_load = *load; /* memory knows no other */
	struct paths_stage *stage = state;
	struct flash_figures layer = {0}, dram = {0};
	int ret = flash_load_run(&flash_target_layer, stage->layer, load, &layer);

	(void)repetition;
	volatile_load.is_durable = false;
	if (!ret)
		ret = flash_load_run(&flash_target_region, stage->dram, &volatile_load, &dram);
	stage->values[1] = value_of(load, &layer);
	stage->values[2] = value_of(load, &dram);
	*value = stage->values[1] < stage->values[2] ? stage->values[1] : stage->values[2];
	note(stage);
	return ret;
}

static void teardown(void *state)
{
	struct paths_stage *stage = state;

	tier_layer_close(&stage->file, stage->layer);
	tier_region_close(stage->flash);
	tier_region_close(stage->dram);
	tier_cluster_stop(&stage->cluster);
	free(stage);
}

static int setup(void **state)
{
	struct paths_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = tier_cluster_start(&stage->cluster, TIER_FILE_BYTES, false, MEMORY_BYTES);
	if (!ret)
		ret = tier_region_open(&stage->cluster, AFAR_TIER_DRAM, TIER_BYTES, &stage->dram);
	if (!ret)
		ret = tier_region_open(&stage->cluster, AFAR_TIER_FLASH, TIER_BYTES, &stage->flash);
	if (!ret)
		ret = tier_layer_open(&stage->file, TIER_BYTES, &stage->layer);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

#define SLOWER "the slower of two: the layer in this process, memory over tcp; same size and depth"
#define PATH(name, unit, ...)                                                                  \
	{                                                                                      \
		name, unit, BENCH_HIGHER, SLOWER, BAR,                                         \
			FLASH_LOAD(.span_ns = TIER_SPAN_NS, __VA_ARGS__), run_ours, run_slower \
	}
#define RANDOM(nr) .is_random = true, .block = 4 * KIB, .depth = (nr)
#define WRITE	   .is_write = true
#define DURABLE	   .is_write = true, .is_durable = true

static const struct bench_row rows[] = {
	PATH("flash, read 4 KiB random, depth 1", "k/s", RANDOM(1)),
	PATH("flash, read 4 KiB random, depth 32", "k/s", RANDOM(32)),
	PATH("flash, write 4 KiB random, depth 1", "k/s", RANDOM(1), WRITE),
	PATH("flash, write 4 KiB random, depth 32", "k/s", RANDOM(32), WRITE),
	PATH("flash, durable write 4 KiB random, depth 1", "k/s", RANDOM(1), DURABLE),
	PATH("flash, durable write 4 KiB random, depth 32", "k/s", RANDOM(32), DURABLE),
	PATH("flash, read 1 MiB, depth 8", "GB/s", .block = MIB, .depth = 8),
	PATH("flash, write 1 MiB, depth 8", "GB/s", .block = MIB, .depth = 8, WRITE),
};

const struct bench_stage flash_tier_paths_stage = {setup, teardown, rows, NR_ROWS(rows)};
