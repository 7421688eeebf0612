/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of suite `cache` on reads of 4 KiB of flash whose pages are all kept. The reference is a store
 * that keeps none. */
#include <errno.h>
#include <stdlib.h>

#include "cache.h"

#define REGION_BYTES (4 * MIB)
#define TIME_BAR     0.5
#define CPU_BAR	     0.35

struct hot_stage {
	struct cache_pair pair;
};

static int run(const struct cache_side *side, const struct bench_row *row,
	       struct herd_result *result)
{
	const unsigned *nr_clients = row->parameters;
	const struct herd_order order = {.nr_clients = *nr_clients,
					 .is_scattered = true,
					 .size = CACHE_PAGE,
					 .span_ns = bench_span_ns(CACHE_SPAN_NS)};

	return herd_run(&side->herd, &order, result);
}

/* The time from one read's end to the next one's, of all clients together, in µs. */
static int time_of(const struct cache_side *side, const struct bench_row *row, double *value)
{
	struct herd_result result;
	int ret = run(side, row, &result);

	*value = ret ? 0 : (double)result.elapsed_ns / (double)result.nr / 1e3;
	return ret;
}

static int cpu_of(const struct cache_side *side, const struct bench_row *row, double *value)
{
	const uint64_t before = tier_server_cpu_ns(&side->cluster);
	struct herd_result result;
	int ret = run(side, row, &result);

	if (ret)
		return ret;
	*value = (double)(tier_server_cpu_ns(&side->cluster) - before) / (double)result.nr / 1e3;
	return 0;
}

static int time_kept(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct hot_stage *stage = state;

	(void)repetition;
	return time_of(&stage->pair.kept, row, value);
}

static int time_bare(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct hot_stage *stage = state;

	(void)repetition;
	return time_of(&stage->pair.bare, row, value);
}

static int cpu_kept(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct hot_stage *stage = state;

	(void)repetition;
	return cpu_of(&stage->pair.kept, row, value);
}

static int cpu_bare(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct hot_stage *stage = state;

	(void)repetition;
	return cpu_of(&stage->pair.bare, row, value);
}

static void teardown(void *state)
{
	struct hot_stage *stage = state;

	cache_pair_close(&stage->pair);
	free(stage);
}

static int set_up(void **state, bool is_sleepy)
{
	struct hot_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = cache_pair_open_hot(&stage->pair, REGION_BYTES, is_sleepy);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

static int setup(void **state)
{
	return set_up(state, false);
}

/* The time of a server that spins is not the time of its work. */
static int setup_sleepy(void **state)
{
	return set_up(state, true);
}

#define BARE   "the same without --cache"
#define NR(nr) (&(const unsigned){nr})

static const struct bench_row rows[] = {
	{"read 4 KiB hot, clients: 1", "µs", BENCH_LOWER, BARE, TIME_BAR, NR(1), time_kept,
	 time_bare},
	{"read 4 KiB hot, clients: 32", "µs", BENCH_LOWER, BARE, TIME_BAR, NR(32), time_kept,
	 time_bare},
};

static const struct bench_row cpu_rows[] = {
	{"server CPU, read 4 KiB hot, clients: 1", "µs", BENCH_LOWER, BARE, CPU_BAR, NR(1),
	 cpu_kept, cpu_bare},
	{"server CPU, read 4 KiB hot, clients: 32", "µs", BENCH_LOWER, BARE, CPU_BAR, NR(32),
	 cpu_kept, cpu_bare},
};

const struct bench_stage cache_hot_stage = {setup, teardown, rows, NR_ROWS(rows)};
const struct bench_stage cache_hot_cpu_stage = {setup_sleepy, teardown, cpu_rows,
						NR_ROWS(cpu_rows)};
