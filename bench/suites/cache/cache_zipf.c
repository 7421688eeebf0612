/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `cache` on what a store's cache finds, of reads that go to pages by Zipf's law. The
 * reference is a simulated cache of the same size, which is told of the same reads. A trace goes on from
 * one measurement to the next, and from row to row; so do the cache and the simulations.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "cache.h"

#define REGION_BYTES (80 * MIB)
#define NR_PAGES     ((uint32_t)(REGION_BYTES / CACHE_PAGE))
#define NR_FRAMES    ((uint32_t)(CACHE_BYTES / CACHE_PAGE)) /* a tenth */
#define SKEW	     0.99
#define NR_READS     20000U /* of one measurement */
#define NR_READS_MIN 500U
#define SPREAD	     7919U /* has no factor in common with NR_PAGES: neighbours in rank are far apart */
#define DEPTH	     16U
#define PATIENCE_MS  20000
#define BAR	     0.95

struct zipf_stage;

struct zipf_read {
	struct flash_request request; /* first: its end finds the rest */
	struct zipf_stage *stage;
};

struct zipf_stage {
	struct tier_cluster cluster;
	struct scene scene;
	struct flash_queue *queue;
	uint64_t random;
	double *shares; /* of the pages up to this rank, of all reads */
	struct simulated *multi_queue, *lru;
	struct simulated *client; /* a cache before ours */

	/* The present part of the trace, and what the simulations found of it. */
	uint32_t trace[NR_READS];
	unsigned nr;			   /* reads of it */
	unsigned nr_parts;		   /* so far */
	unsigned nr_done[2];		   /* parts that ours and the reference have told of */
	double multi_queue_hits, lru_hits; /* percent */

	uint64_t nr_reads, kept; /* of all parts: reads, and those that the cache answered */
	char *memory;
	struct zipf_read reads[DEPTH];
	unsigned next, nr_ended;
	int status;
};

/* ---- The trace */

static double draw(struct zipf_stage *stage)
{
	stage->random ^= stage->random << 13;
	stage->random ^= stage->random >> 7;
	stage->random ^= stage->random << 17;
	return (double)(stage->random >> 11) / (double)(UINT64_C(1) << 53);
}

static uint32_t draw_page(struct zipf_stage *stage)
{
	const double at = draw(stage);
	uint32_t low = 0, high = NR_PAGES - 1;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (stage->shares[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	return (uint32_t)((uint64_t)low * SPREAD % NR_PAGES);
}

static void add_shares(struct zipf_stage *stage)
{
	double sum = 0;

	for (uint32_t i = 0; i < NR_PAGES; i++)
		stage->shares[i] = sum += pow(i + 1, -SKEW);
	for (uint32_t i = 0; i < NR_PAGES; i++)
		stage->shares[i] /= sum;
}

/* Draws the next part, if this one is the first of both sides to need it. */
static void need_part(struct zipf_stage *stage, const struct bench_row *row, unsigned side)
{
	const bool *is_behind_another = row->parameters;
	unsigned nr_multi_queue = 0, nr_lru = 0;

	if (stage->nr_done[side]++ < stage->nr_parts)
		return;
	stage->nr_parts++;
	stage->nr = (unsigned)(bench_bytes((uint64_t)NR_READS, NR_READS_MIN));
	for (unsigned i = 0; i < stage->nr;) {
		const uint32_t page = draw_page(stage);

		if (*is_behind_another && simulated_read(stage->client, page))
			continue;
		stage->trace[i++] = page;
		nr_multi_queue += simulated_read(stage->multi_queue, page);
		nr_lru += simulated_read(stage->lru, page);
	}
	stage->multi_queue_hits = 100.0 * nr_multi_queue / stage->nr;
	stage->lru_hits = 100.0 * nr_lru / stage->nr;
}

/* ---- Reads */

static void submit(struct zipf_read *read)
{
	struct zipf_stage *stage = read->stage;

	read->request.offset = (uint64_t)stage->trace[stage->next++] * CACHE_PAGE;
	flash_target_queue.submit(stage->queue, &read->request);
}

static void on_read(struct flash_request *request, int status)
{
	struct zipf_read *read = (struct zipf_read *)request;
	struct zipf_stage *stage = read->stage;

	stage->nr_ended++;
	if (status && !stage->status)
		stage->status = status;
	if (stage->next < stage->nr && !stage->status)
		submit(read);
}

/* Has the server read the part of the trace. */
static int run_trace(struct zipf_stage *stage)
{
	int ret = 1;

	stage->next = stage->nr_ended = 0;
	stage->status = 0;
	for (unsigned i = 0; i < DEPTH; i++) {
		stage->reads[i] = (struct zipf_read){
			.request = {.memory = {stage->memory + (size_t)i * CACHE_PAGE, CACHE_PAGE},
				    .done = on_read},
			.stage = stage};
		submit(&stage->reads[i]);
	}
	while (ret > 0 && stage->nr_ended < stage->next)
		ret = flash_target_queue.poll(stage->queue, PATIENCE_MS);
	if (ret == 0)
		return bench_fail(-ETIMEDOUT, "no read ends");
	return ret < 0 ? ret : stage->status;
}

static int run_ours(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct zipf_stage *stage = state;
	const uint64_t before = stage->kept;
	int ret;

	(void)repetition;
	need_part(stage, row, 0);
	ret = run_trace(stage);
	stage->nr_reads += stage->nr;
	if (!ret)
		ret = cache_await_reads(&stage->scene, stage->nr_reads, &stage->kept);
	*value = 100.0 * (double)(stage->kept - before) / stage->nr;
	return ret;
}

static int run_simulated(void *state, const struct bench_row *row, unsigned repetition,
			 double *value)
{
	struct zipf_stage *stage = state;

	(void)repetition;
	need_part(stage, row, 1);
	*value = stage->multi_queue_hits;
	bench_note("LRU would find %.1f %%", stage->lru_hits);
	return 0;
}

/* ---- The stage */

static void teardown(void *state)
{
	struct zipf_stage *stage = state;

	flash_queue_close(stage->queue);
	scene_close(&stage->scene);
	tier_cluster_stop(&stage->cluster);
	simulated_close(stage->multi_queue);
	simulated_close(stage->lru);
	simulated_close(stage->client);
	free(stage->shares);
	free(stage->memory);
	free(stage);
}

static int open_simulations(struct zipf_stage *stage)
{
	stage->random = 1;
	stage->shares = calloc(NR_PAGES, sizeof(*stage->shares));
	stage->memory = aligned_alloc(CACHE_PAGE, (size_t)DEPTH * CACHE_PAGE);
	stage->multi_queue = simulated_open(SIMULATED_MQ, NR_FRAMES, NR_PAGES);
	stage->lru = simulated_open(SIMULATED_LRU, NR_FRAMES, NR_PAGES);
	stage->client = simulated_open(SIMULATED_LRU, NR_FRAMES, NR_PAGES);
	if (!stage->shares || !stage->memory || !stage->multi_queue || !stage->lru ||
	    !stage->client)
		return bench_fail(-ENOMEM, "no memory for the suite");
	add_shares(stage);
	return 0;
}

static int open_cluster(struct zipf_stage *stage)
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
	struct zipf_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = open_simulations(stage);
	if (!ret)
		ret = open_cluster(stage);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

#define SIMULATED "a simulated Multi-Queue of the same size, of the same reads"

static const struct bench_row rows[] = {
	{"Zipf 0.99, cache of 10 %: found there", "%", BENCH_HIGHER, SIMULATED, BAR,
	 &(const bool){false}, run_ours, run_simulated},
	{"the same behind a client's LRU of 10 %: found there", "%", BENCH_HIGHER, SIMULATED, BAR,
	 &(const bool){true}, run_ours, run_simulated},
};

const struct bench_stage cache_zipf_stage = {setup, teardown, rows, NR_ROWS(rows)};
