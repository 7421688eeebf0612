/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of suite `flash-tier` on what a sync costs: of a region over tcp, against the layer in this
 * process. It comes after nothing, a write of 4 KiB, or 32 of them. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "flash_tier.h"

#define MEMORY_BYTES (64 * MIB)
#define NR_SYNCS     100U
#define NR_MAX	     32U
#define WRITE_BYTES  (4 * KIB)

struct sync_stage {
	struct tier_cluster cluster;
	struct tier_region *region;
	struct flash_file file;
	void *layer;
	char *memory;
	uint64_t place;
	unsigned nr_in_flight;
	int status;
};

struct writing {
	struct flash_request request; /* first: done() finds it by that */
	struct sync_stage *stage;
};

static void one_ended(struct flash_request *request, int status)
{
	struct sync_stage *stage = ((struct writing *)request)->stage;

	stage->nr_in_flight--;
	if (status)
		stage->status = status;
}

/* Writes `nr` blocks at once, and waits for all. */
static int write_blocks(struct sync_stage *stage, const struct flash_target *target, void *opened,
			unsigned nr)
{
	struct writing writings[NR_MAX];

	for (unsigned i = 0; i < nr; i++) {
		writings[i] = (struct writing){
			.request = {.is_write = true,
				    .offset = stage->place++ * WRITE_BYTES * 17 % TIER_BYTES,
				    .memory = {stage->memory, WRITE_BYTES},
				    .done = one_ended},
			.stage = stage};
		stage->nr_in_flight++;
		target->submit(opened, &writings[i].request);
	}
	while (stage->nr_in_flight > 0) {
		int ret = target->poll(opened, -1);

		if (ret < 0)
			return ret;
	}
	return stage->status;
}

static int sync_region(void *opened)
{
	int ret = afar_region_sync(tier_region_handle(opened));

	return ret ? scene_fail("sync", ret) : 0;
}

/* Counts the syncs alone, in µs. */
static int measure(struct sync_stage *stage, const struct bench_row *row,
		   const struct flash_target *target, void *opened, int (*sync)(void *opened),
		   double *value)
{
	const unsigned *nr_writes = row->parameters;
	uint64_t elapsed_ns = 0;
	int ret = 0;

	for (unsigned i = 0; i < NR_SYNCS && !ret; i++) {
		uint64_t begin;

		ret = write_blocks(stage, target, opened, *nr_writes);
		begin = clock_ns();
		if (!ret)
			ret = sync(opened);
		elapsed_ns += clock_ns() - begin;
	}
	*value = (double)elapsed_ns / NR_SYNCS / 1e3;
	return ret;
}

static int run_region(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct sync_stage *stage = state;

	(void)repetition;
	return measure(stage, row, &flash_target_region, stage->region, sync_region, value);
}

static int run_layer(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct sync_stage *stage = state;

	(void)repetition;
	return measure(stage, row, &flash_target_layer, stage->layer, flash_layer_sync, value);
}

#define LAYER "ftl_sync() of the layer in this process, after the same"
#define SYNC(text, nr)                                                                          \
	{                                                                                       \
		"sync, " text, "µs", BENCH_LOWER, LAYER, BENCH_REPORTED, &(const unsigned){nr}, \
			run_region, run_layer                                                   \
	}

static const struct bench_row rows[] = {
	SYNC("nothing written", 0),
	SYNC("one write of 4 KiB", 1),
	SYNC("32 writes of 4 KiB", 32),
};

static void teardown(void *state)
{
	struct sync_stage *stage = state;

	tier_layer_close(&stage->file, stage->layer);
	tier_region_close(stage->region);
	tier_cluster_stop(&stage->cluster);
	free(stage->memory);
	free(stage);
}

static int setup(void **state)
{
	struct sync_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	stage->memory = aligned_alloc(WRITE_BYTES, WRITE_BYTES);
	ret = stage->memory ? 0 : bench_fail(-ENOMEM, "no memory for the suite");
	if (!ret)
		ret = tier_cluster_start(&stage->cluster, TIER_FILE_BYTES, false, MEMORY_BYTES);
	if (!ret)
		ret = tier_region_open(&stage->cluster, AFAR_TIER_FLASH, TIER_BYTES,
				       &stage->region);
	if (!ret)
		ret = tier_layer_open(&stage->file, TIER_BYTES, &stage->layer);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

const struct bench_stage flash_tier_sync_stage = {setup, teardown, rows, NR_ROWS(rows)};
