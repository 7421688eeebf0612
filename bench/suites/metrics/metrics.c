/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `metrics`: the cost of asking a cluster's daemons for their metrics each second. Loads run while they are asked, and
 * while nobody asks. A daemon that is never asked does for its metrics what one without `--metrics` does: it counts.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "asker.h"
#include "base/clock.h"
#include "harness/process.h"
#include "suites/flash_tier/flash_tier.h"

#define MEMORY_BYTES (256 * MIB)
#define DRAM_BYTES   (64 * MIB)
#define SPAN_NS	     UINT64_C(2000000000) /* of one measurement: asked twice */
#define IDLE_NS	     UINT64_C(5000000000)
#define BAR_ON_OFF   0.99
#define MAY_PERCENT  1.0

struct metrics_stage {
	struct tier_cluster cluster;
	struct tier_region *dram, *flash;
	char addresses[ASKER_DAEMONS_MAX][64];
};

/* ---- Loads */

struct metrics_load {
	struct flash_load load;
	bool is_on_flash;
};

static int run_load(const struct metrics_stage *stage, const struct metrics_load *load,
		    double *value)
{
	struct flash_figures figures = {0};
	int ret =
		flash_load_run(&flash_target_region, load->is_on_flash ? stage->flash : stage->dram,
			       &load->load, &figures);

	*value = figures.per_second / 1e3;
	return ret;
}

static int run_asked(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct metrics_stage *stage = state;
	struct asker *asker;
	int nr, ret = asker_start(stage->addresses, ASKER_DAEMONS_MAX, &asker);

	(void)repetition;
	if (ret)
		return ret;
	ret = run_load(stage, row->parameters, value);
	nr = asker_stop(asker);
	return ret || nr > 0 ? ret : nr;
}

static int run_unasked(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return run_load(state, row->parameters, value);
}

/* ---- Daemons that do nothing else */

static uint64_t daemons_cpu_ns(const struct metrics_stage *stage)
{
	return process_cpu_ns(cluster_manager(stage->cluster.cluster)) +
	       tier_server_cpu_ns(&stage->cluster);
}

/* Returns how much of a core the daemons take in a while, in percent. */
static double idle_percent(const struct metrics_stage *stage)
{
	const struct timespec span = {.tv_sec = IDLE_NS / 1000000000};
	const uint64_t begin = clock_ns(), cpu_ns = daemons_cpu_ns(stage);

	nanosleep(&span, NULL);
	return 100 * (double)(daemons_cpu_ns(stage) - cpu_ns) / (double)(clock_ns() - begin);
}

static int run_cpu(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct metrics_stage *stage = state;
	struct asker *asker;
	double unasked;
	int nr, ret;

	(void)row;
	(void)repetition;
	unasked = idle_percent(stage);
	ret = asker_start(stage->addresses, ASKER_DAEMONS_MAX, &asker);
	if (ret)
		return ret;
	*value = idle_percent(stage) - unasked;
	nr = asker_stop(asker);
	bench_note("the manager and a server, idle: %.2f %% of a core while nobody asks", unasked);
	return nr > 0 ? 0 : nr;
}

static int run_may(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)state;
	(void)row;
	(void)repetition;
	*value = MAY_PERCENT;
	return 0;
}

/* ---- The suite */

#define ON_OFF(text, is_flash, nr)                                                            \
	{                                                                                     \
		"metrics on / off, " text, "k/s", BENCH_HIGHER, "the same while nobody asks", \
			BAR_ON_OFF,                                                           \
			&(const struct metrics_load){{.is_random = true,                      \
						      .block = 4 * KIB,                       \
						      .depth = (nr),                          \
						      .span_ns = SPAN_NS},                    \
						     is_flash},                               \
			run_asked, run_unasked                                                \
	}

static const struct bench_row rows[] = {
	ON_OFF("region read 4 KiB, depth 1", false, 1),
	ON_OFF("region read 4 KiB, depth 32", false, 32),
	ON_OFF("flash read 4 KiB, depth 1", true, 1),
	ON_OFF("flash read 4 KiB, depth 32", true, 32),
	{"CPU of the daemons, asked each second", "% of a core", BENCH_LOWER, "1 %", 1.0, NULL,
	 run_cpu, run_may},
};

static void teardown(void *state)
{
	struct metrics_stage *stage = state;

	tier_region_close(stage->flash);
	tier_region_close(stage->dram);
	tier_cluster_stop(&stage->cluster);
	free(stage);
}

static int setup(void **state)
{
	struct metrics_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	stage->cluster.has_metrics = true;
	ret = tier_cluster_start(&stage->cluster, TIER_FILE_BYTES, false, MEMORY_BYTES);
	if (!ret)
		ret = cluster_metrics(stage->cluster.cluster, 0, stage->addresses[0],
				      sizeof(stage->addresses[0]));
	if (!ret)
		ret = cluster_metrics(stage->cluster.cluster, CLUSTER_SERVERS_MAX,
				      stage->addresses[1], sizeof(stage->addresses[1]));
	if (!ret)
		ret = tier_region_open(&stage->cluster, AFAR_TIER_DRAM, DRAM_BYTES, &stage->dram);
	if (!ret)
		ret = tier_region_open(&stage->cluster, AFAR_TIER_FLASH, TIER_BYTES, &stage->flash);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

static const struct bench_stage stage = {setup, teardown, rows, NR_ROWS(rows)};
static const struct bench_stage *const stages[] = {&stage};

const struct bench_suite bench_suite_metrics = {
	.name = "metrics",
	.summary = "what asking daemons for their metrics each second costs",
	.repetitions = 9,
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
