/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A row of suite `cache` on a set of hot pages beside a scan of cold ones, which reads many for each hot one. The scan says that
 * it reads its pages once; the reference does not.
 */
#include <errno.h>
#include <stdlib.h>

#include "cache.h"

#define REGION_BYTES (80 * MIB)
#define NR_PAGES     ((uint32_t)(REGION_BYTES / CACHE_PAGE))
#define NR_HOT	     ((uint32_t)(6 * MIB / CACHE_PAGE)) /* of the cache's 8 MiB */
#define NR_BESIDE    15U /* reads of the scan for each hot one: all of a batch */
#define BATCH	     (NR_BESIDE + 1)
#define NR_READS     3000U /* hot ones of one measurement */
#define NR_READS_MIN 100U
#define STEP	     601U /* has no factor in common with NR_HOT */
#define PATIENCE_MS  20000
#define BAR	     1.0

struct scan_stage {
	struct tier_cluster cluster;
	struct scene scene;
	struct flash_queue *queue;
	char *memory;
	uint64_t nr_reads, kept; /* of all so far: reads, and those that the cache answered */
	uint32_t hot, cold;	 /* read last */
	unsigned nr_ended;
	int status;
};

struct scan_read {
	struct flash_request request; /* first: its end finds the rest */
	struct scan_stage *stage;
};

static void on_read(struct flash_request *request, int status)
{
	struct scan_stage *stage = ((struct scan_read *)request)->stage;

	stage->nr_ended++;
	if (status && !stage->status)
		stage->status = status;
}

static uint32_t next_hot(struct scan_stage *stage)
{
	return stage->hot = (stage->hot + STEP) % NR_HOT;
}

static uint32_t next_cold(struct scan_stage *stage)
{
	stage->cold = (stage->cold + 1) % (NR_PAGES - NR_HOT);
	return NR_HOT + stage->cold;
}

/* Reads a hot page and then `nr_cold` of the scan, all at once. */
static int read_batch(struct scan_stage *stage, unsigned nr_cold, bool is_once)
{
	struct scan_read reads[BATCH];
	int ret = 1;

	stage->nr_ended = 0;
	stage->status = 0;
	for (unsigned i = 0; i <= nr_cold; i++) {
		const uint32_t page = i == 0 ? next_hot(stage) : next_cold(stage);

		reads[i] = (struct scan_read){
			.request = {.offset = (uint64_t)page * CACHE_PAGE,
				    .is_once = i > 0 && is_once,
				    .memory = {stage->memory + (size_t)i * CACHE_PAGE, CACHE_PAGE},
				    .done = on_read},
			.stage = stage};
		flash_target_queue.submit(stage->queue, &reads[i].request);
	}
	while (ret > 0 && stage->nr_ended <= nr_cold)
		ret = flash_target_queue.poll(stage->queue, PATIENCE_MS);
	stage->nr_reads += nr_cold + 1;
	if (ret == 0)
		return bench_fail(-ETIMEDOUT, "no read ends");
	return ret < 0 ? ret : stage->status;
}

/* Hits are of hot pages, because the scan comes by again when its pages have long gone. */
static int run(struct scan_stage *stage, bool is_once, double *value)
{
	const unsigned nr = (unsigned)bench_bytes((uint64_t)NR_READS, NR_READS_MIN);
	uint64_t before;
	int ret = 0;

	for (unsigned i = 0; i < 2 * NR_HOT && !ret; i++)
		ret = read_batch(stage, 0, false);
	if (!ret)
		ret = cache_await_reads(&stage->scene, stage->nr_reads, &before);
	for (unsigned i = 0; i < nr && !ret; i++)
		ret = read_batch(stage, NR_BESIDE, is_once);
	if (!ret)
		ret = cache_await_reads(&stage->scene, stage->nr_reads, &stage->kept);
	*value = ret ? 0 : 100.0 * (double)(stage->kept - before) / nr;
	return ret;
}

static int run_once(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)row;
	(void)repetition;
	return run(state, true, value);
}

static int run_plain(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)row;
	(void)repetition;
	return run(state, false, value);
}

/* ---- The stage */

static void teardown(void *state)
{
	struct scan_stage *stage = state;

	flash_queue_close(stage->queue);
	scene_close(&stage->scene);
	tier_cluster_stop(&stage->cluster);
	free(stage->memory);
	free(stage);
}

static int open_cluster(struct scan_stage *stage)
{
	int ret;

	stage->cluster.cache = CACHE_SIZE;
	stage->cluster.scrub = "0";
	ret = tier_cluster_start(&stage->cluster, CACHE_FILE_BYTES, false, CACHE_MEMORY_BYTES);
	if (!ret)
		ret = scene_open(&stage->scene, cluster_uri(stage->cluster.cluster), 0);
	if (!ret)
		ret = scene_create_region_on(&stage->scene, AFAR_TIER_FLASH, SCENE_NAMESPACE, 1,
					     REGION_BYTES);
	if (!ret)
		ret = flash_queue_open(stage->scene.session,
				       afar_region_target(stage->scene.region), REGION_BYTES,
				       &stage->queue);
	return ret ? ret : flash_load_fill(&flash_target_queue, stage->queue, 1);
}

static int setup(void **state)
{
	struct scan_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	stage->memory = aligned_alloc(CACHE_PAGE, (size_t)BATCH * CACHE_PAGE);
	ret = stage->memory ? open_cluster(stage) : bench_fail(-ENOMEM, "no memory for the suite");
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

static const struct bench_row rows[] = {
	{"hot pages found beside a scan with AFAR_OP_ONCE", "%", BENCH_HIGHER,
	 "the same scan without it", BAR, NULL, run_once, run_plain},
};

const struct bench_stage cache_scan_stage = {setup, teardown, rows, NR_ROWS(rows)};
