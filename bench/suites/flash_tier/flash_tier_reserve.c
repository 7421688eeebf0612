/* SPDX-License-Identifier: BSD-3-Clause */
/* The row of suite `flash-tier` on reserving: an extent on flash is a table entry, and memory has to
 * be populated. The store's file is sparse, because nothing of it is written. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "flash_tier.h"
#include "harness/process.h"
#include "suites/registration/preparation.h"

#define WANTED_BYTES   (512 * GIB)
#define FILE_BYTES     (560 * GIB)
#define MEMORY_BYTES   (64 * MIB)
#define POPULATE_BYTES (1 * GIB)
#define LEAST_MEMORY   (4 * GIB) /* of the machine: twice what the map of such a store can take */
#define BAR	       0.1

struct reserve_stage {
	struct tier_cluster cluster;
	struct scene scene;
};

static int run_reserve(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct reserve_stage *stage = state;
	uint64_t begin = clock_ns(), released;
	int ret = afar_namespace_reserve(stage->scene.ns, WANTED_BYTES);

	(void)row;
	(void)repetition;
	*value = (double)(clock_ns() - begin) / 1e6;
	if (ret)
		return scene_fail("reserve", ret);
	ret = afar_namespace_release(stage->scene.ns, UINT64_MAX, &released);
	if (ret)
		return scene_fail("release", ret);
	return released < WANTED_BYTES ? bench_fail(-EIO, "not all was released") : 0;
}

static int run_populate(void *state, const struct bench_row *row, unsigned repetition,
			double *value)
{
	double ms;
	int ret = preparation_populate(POPULATE_BYTES, 1, &ms);

	(void)state;
	(void)row;
	(void)repetition;
	*value = ms * ((double)WANTED_BYTES / (double)POPULATE_BYTES);
	bench_note("1 GiB was populated in %.1f ms", ms);
	return ret;
}

/* Not constant: where the store would not be opened it is skipped. */
static struct bench_row rows[] = {
	{"reserve 512 GiB on flash", "ms", BENCH_LOWER,
	 "mmap and populate of 1 GiB of memory, times 512", BAR, NULL, run_reserve, run_populate},
};

static void teardown(void *state)
{
	struct reserve_stage *stage = state;

	if (!stage)
		return;
	scene_close(&stage->scene);
	tier_cluster_stop(&stage->cluster);
	free(stage);
}

static int setup(void **state)
{
	const struct afar_policy policy = {
		.size = sizeof(policy), .tier = AFAR_TIER_FLASH, .width = 1};
	struct reserve_stage *stage;
	int ret;

	if (machine_memory_bytes() < LEAST_MEMORY) {
		bench_skip(rows, NR_ROWS(rows), "skipped: needs 4 GiB of memory");
		return 0;
	}
	stage = calloc(1, sizeof(*stage));
	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = tier_cluster_start(&stage->cluster, FILE_BYTES, true, MEMORY_BYTES);
	if (!ret)
		ret = scene_open(&stage->scene, cluster_uri(stage->cluster.cluster), 0);
	if (!ret) {
		ret = afar_namespace_create(stage->scene.session, SCENE_NAMESPACE, &policy,
					    &stage->scene.ns);
		if (ret)
			scene_fail("create a namespace", ret);
	}
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

const struct bench_stage flash_tier_reserve_stage = {setup, teardown, rows, NR_ROWS(rows)};
