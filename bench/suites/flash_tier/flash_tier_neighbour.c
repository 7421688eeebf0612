/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of suite `flash-tier` on memory beside a store. They tell how long a read of a region in
 * memory takes while other clients keep the store of the same server busy. The reference is such a
 * read when they do not. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "flash_tier.h"

#define MEMORY_BYTES   (TIER_BYTES + 64 * MIB)
#define NR_CLIENTS_MAX 32U
#define WARM_NS	       UINT64_C(100000000) /* of the load, before a measurement */
#define SAMPLES_MAX    (1U << 20)
#define READ_BYTES     4096U
#define BAR	       1.5

struct neighbour_stage {
	struct tier_cluster cluster;
	struct herd herd; /* on flash */
	struct tier_region *dram;
	char *memory;
	uint32_t *samples; /* ns each */
};

static int compare_samples(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

/* The median of reads one after the other, in µs. */
static int measure(const struct neighbour_stage *stage, uint64_t begin, double *value)
{
	struct afar_region *region = tier_region_handle(stage->dram);
	uint64_t end = begin + TIER_SPAN_NS;
	unsigned nr = 0, median;

	while (clock_ns() < begin)
		;
	while (nr < SAMPLES_MAX && (nr == 0 || clock_ns() < end)) {
		uint64_t before = clock_ns();
		ssize_t got = afar_region_pread(region, stage->memory, READ_BYTES,
						(uint64_t)nr * READ_BYTES % MIB);

		if (got < 0)
			return scene_fail("read", (int)got);
		stage->samples[nr++] = (uint32_t)(clock_ns() - before);
	}
	qsort(stage->samples, nr, sizeof(*stage->samples), compare_samples);
	median = stage->samples[nr / 2];
	*value = (double)median / 1e3;
	return 0;
}

static int run_loaded(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct herd_order *order = row->parameters;
	struct neighbour_stage *stage = state;
	struct herd_result result;
	int ret = herd_begin(&stage->herd, order), ended;

	(void)repetition;
	if (ret)
		return ret;
	ret = measure(stage, clock_ns() + WARM_NS, value);
	ended = herd_end(&stage->herd, &result);
	if (!ended)
		bench_note("meanwhile the store did %.1f k/s of %zu KiB",
			   (double)result.nr * 1e6 / (double)result.elapsed_ns, order->size / KIB);
	return ret ? ret : ended;
}

static int run_idle(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)row;
	(void)repetition;
	return measure(state, clock_ns(), value);
}

static void teardown(void *state)
{
	struct neighbour_stage *stage = state;

	tier_region_close(stage->dram);
	herd_stop(&stage->herd);
	tier_cluster_stop(&stage->cluster);
	free(stage->memory);
	free(stage->samples);
	free(stage);
}

static int setup(void **state)
{
	const struct herd_region region = {AFAR_TIER_FLASH, TIER_BYTES, true};
	struct neighbour_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	stage->memory = aligned_alloc(READ_BYTES, READ_BYTES);
	stage->samples = calloc(SAMPLES_MAX, sizeof(*stage->samples));
	ret = stage->memory && stage->samples ? 0 : bench_fail(-ENOMEM, "no memory for the suite");
	if (!ret)
		ret = tier_cluster_start(&stage->cluster, TIER_FILE_BYTES, false, MEMORY_BYTES);
	if (!ret)
		ret = herd_start_on(stage->cluster.cluster, &region, NR_CLIENTS_MAX, &stage->herd);
	if (!ret)
		ret = tier_region_open(&stage->cluster, AFAR_TIER_DRAM, TIER_BYTES, &stage->dram);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

#define LOAD(nr, bytes, write)                            \
	(&(const struct herd_order){.nr_clients = (nr),   \
				    .size = (bytes),      \
				    .is_write = (write),  \
				    .is_scattered = true, \
				    .may_sleep = true,    \
				    .span_ns = TIER_SPAN_NS + 2 * WARM_NS})
#define IDLE "the same while the store is idle"

static const struct bench_row rows[] = {
	{"memory, read 4 KiB while flash is read by 4 KiB", "µs", BENCH_LOWER, IDLE, BAR,
	 LOAD(32, 4 * KIB, false), run_loaded, run_idle},
	{"memory, read 4 KiB while flash is written by 1 MiB", "µs", BENCH_LOWER, IDLE, BAR,
	 LOAD(8, MIB, true), run_loaded, run_idle},
};

const struct bench_stage flash_tier_neighbour_stage = {setup, teardown, rows, NR_ROWS(rows)};
