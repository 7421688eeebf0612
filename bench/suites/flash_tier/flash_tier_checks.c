/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `flash-tier` on what checking costs. They compare reads and writes with sums on the
 * whole way with the same without. They also compare reads while the store is scrubbed, at a rate
 * that an operator has set, with the same while it is not. For the latter the server is started anew
 * each time.
 */
#include <errno.h>
#include <stdlib.h>

#include "flash_tier.h"

#define MEMORY_BYTES (64 * MIB)
#define WARM_NS	     UINT64_C(200000000) /* of a load after a start: the map's pages come in */
#define SCRUB	     "100M"
#define SUMS_BAR     0.95
#define SCRUB_BAR    0.9

struct checks_stage {
	struct tier_cluster cluster;
	struct tier_region *region;
	double cpu_us
		[2]
		[2]; /* of one operation: with the check and without; the client's, the server's */
};

/* In the row's unit. */
static double value_of(const struct flash_load *load, const struct flash_figures *figures)
{
	return load->is_random ? figures->per_second / 1e3
			       : figures->per_second * (double)load->block / 1e9;
}

static int measure(struct checks_stage *stage, const struct flash_load *load, bool is_with,
		   double *value)
{
	double *cpu_us = stage->cpu_us[is_with ? 0 : 1];
	struct flash_figures figures = {0};
	uint64_t server_ns = tier_server_cpu_ns(&stage->cluster);
	int ret = flash_load_run(&flash_target_region, stage->region, load, &figures);
	double seconds = (double)load->span_ns / 1e9;

	server_ns = tier_server_cpu_ns(&stage->cluster) - server_ns;
	*value = value_of(load, &figures);
	cpu_us[0] = figures.cpu_ns / 1e3;
	cpu_us[1] = (double)server_ns / (figures.per_second * seconds) / 1e3;
	bench_note("CPU of one operation with and without: client's %.1f and %.1f µs, server's "
		   "%.1f and %.1f µs",
		   stage->cpu_us[0][0], stage->cpu_us[1][0], stage->cpu_us[0][1],
		   stage->cpu_us[1][1]);
	return ret;
}

/* ---- Sums */

static int run_checked(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return measure(state, row->parameters, true, value);
}

static int run_unchecked(void *state, const struct bench_row *row, unsigned repetition,
			 double *value)
{
	const struct flash_load *checked = row->parameters;
	struct flash_load load = *checked;

	(void)repetition;
	load.is_checked = false;
	return measure(state, &load, false, value);
}

/* ---- Scrubs */

static int run_at(struct checks_stage *stage, const struct flash_load *load, const char *rate,
		  bool is_with, double *value)
{
	struct flash_load warm = *load;
	struct flash_figures figures;
	int ret = tier_cluster_restart(&stage->cluster, stage->region, rate);

	warm.span_ns = WARM_NS;
	if (!ret)
		ret = flash_load_run(&flash_target_region, stage->region, &warm, &figures);
	return ret ? ret : measure(stage, load, is_with, value);
}

static int run_scrubbed(void *state, const struct bench_row *row, unsigned repetition,
			double *value)
{
	(void)repetition;
	return run_at(state, row->parameters, SCRUB, true, value);
}

static int run_unscrubbed(void *state, const struct bench_row *row, unsigned repetition,
			  double *value)
{
	(void)repetition;
	return run_at(state, row->parameters, "0", false, value);
}

#define WITHOUT	   "the same without AFAR_OP_CHECKED"
#define UNSCRUBBED "the same with afard --scrub 0"
#define SUMS(text, unit, bar, ...)                                                            \
	{                                                                                     \
		"sums on / off, " text, unit, BENCH_HIGHER, WITHOUT, bar,                     \
			FLASH_LOAD(.span_ns = TIER_SPAN_NS, .is_checked = true, __VA_ARGS__), \
			run_checked, run_unchecked                                            \
	}
#define SCRUBS(text, unit, ...)                                                                 \
	{                                                                                       \
		"scrub at 100 MB/s on / off, " text, unit, BENCH_HIGHER, UNSCRUBBED, SCRUB_BAR, \
			FLASH_LOAD(.span_ns = TIER_SPAN_NS, __VA_ARGS__), run_scrubbed,         \
			run_unscrubbed                                                          \
	}
#define RANDOM(nr) .is_random = true, .block = 4 * KIB, .depth = (nr)
#define LARGE	   .block = MIB, .depth = 8

static const struct bench_row rows[] = {
	SUMS("read 4 KiB random, depth 32", "k/s", SUMS_BAR, RANDOM(32)),
	SUMS("read 1 MiB, depth 8", "GB/s", SUMS_BAR, LARGE),
	SUMS("write 4 KiB random, depth 32", "k/s", BENCH_REPORTED, RANDOM(32), .is_write = true),
	SUMS("write 1 MiB, depth 8", "GB/s", BENCH_REPORTED, LARGE, .is_write = true),
	SCRUBS("read 4 KiB random, depth 32", "k/s", RANDOM(32)),
	SCRUBS("read 1 MiB, depth 8", "GB/s", LARGE),
};

static void teardown(void *state)
{
	struct checks_stage *stage = state;

	tier_region_close(stage->region);
	tier_cluster_stop(&stage->cluster);
	free(stage);
}

static int setup(void **state)
{
	struct checks_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = tier_cluster_start(&stage->cluster, TIER_FILE_BYTES, false, MEMORY_BYTES);
	if (!ret)
		ret = tier_region_open(&stage->cluster, AFAR_TIER_FLASH, TIER_BYTES,
				       &stage->region);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

const struct bench_stage flash_tier_checks_stage = {setup, teardown, rows, NR_ROWS(rows)};
