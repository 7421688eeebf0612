/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of suite `region` about a cache of the program's own, above a sealed region: bytes that it has, and those that it has not. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <afar/cache.h>

#include "base/clock.h"
#include "harness/cluster.h"
#include "harness/scene.h"
#include "region.h"

#define MIB	     (UINT64_C(1) << 20)
#define REGION_BYTES (64 * MIB)
#define PAGE	     UINT64_C(4096)
#define NR_PAGES     (REGION_BYTES / PAGE)
#define NR_READS     (UINT64_C(1) << 16)
#define NR_ASKED     (UINT64_C(1) << 13) /* of servers */

struct cache_stage {
	struct cluster *cluster;
	struct scene scene;
	struct afar_cache *cache;
	struct afar_cache *small; /* has next to nothing of what is read next */
	char *local, *data;
};

/* Each run asks for these pages in this order. */
static uint64_t random_page(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1;
	return (*seed >> 33) % NR_PAGES * PAGE;
}

/* Without a cache, if that is NULL. */
static int run_pages(const struct cache_stage *state, struct afar_cache *cache, uint64_t nr,
		     double *value)
{
	uint64_t seed = 1;
	uint64_t begin = clock_ns();

	for (uint64_t i = 0; i < nr; i++) {
		const uint64_t at = random_page(&seed);
		ssize_t ret =
			cache ? afar_cache_read(cache, state->scene.region, state->data, PAGE, at)
			      : afar_region_pread(state->scene.region, state->data, PAGE, at);

		if (ret < 0)
			return scene_fail("read a page", (int)ret);
	}
	*value = (double)(clock_ns() - begin) / (double)nr / 1e3;
	return 0;
}

static int run_kept(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct cache_stage *state = stage;

	(void)row;
	(void)repetition;
	return run_pages(state, state->cache, NR_READS, value);
}

static int run_asked(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)row;
	(void)repetition;
	return run_pages(stage, NULL, NR_ASKED, value);
}

static int run_copy(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct cache_stage *state = stage;
	uint64_t seed = 1;
	uint64_t begin = clock_ns();

	(void)row;
	(void)repetition;
	for (uint64_t i = 0; i < NR_READS; i++) {
		memcpy(state->data, state->local + random_page(&seed), PAGE);
		__asm__ volatile("" : : "r"(state->data) : "memory");
	}
	*value = (double)(clock_ns() - begin) / (double)NR_READS / 1e3;
	return 0;
}

/* All of the region, a MiB each time. */
static int run_scan(const struct cache_stage *state, struct afar_cache *cache, double *value)
{
	uint64_t begin = clock_ns();

	for (uint64_t at = 0; at < REGION_BYTES; at += MIB) {
		ssize_t ret =
			cache ? afar_cache_read(cache, state->scene.region, state->data, MIB, at)
			      : afar_region_pread(state->scene.region, state->data, MIB, at);

		if (ret < 0)
			return scene_fail("read a MiB", (int)ret);
	}
	*value = (double)REGION_BYTES / (double)(clock_ns() - begin);
	return 0;
}

static int run_missing(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct cache_stage *state = stage;

	(void)row;
	(void)repetition;
	return run_scan(state, state->small, value);
}

static int run_past(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)row;
	(void)repetition;
	return run_scan(stage, NULL, value);
}

static void teardown(void *stage)
{
	struct cache_stage *state = stage;

	if (state->cache)
		afar_cache_close(state->cache);
	if (state->small)
		afar_cache_close(state->small);
	scene_close(&state->scene);
	cluster_stop(state->cluster);
	free(state->local);
	free(state->data);
	free(state);
}

static int prepare(struct cache_stage *state)
{
	struct scene *scene = &state->scene;
	double value;
	int ret = cluster_start(1, 4 * REGION_BYTES, &state->cluster);

	if (!ret)
		ret = scene_open(scene, cluster_uri(state->cluster), 0);
	if (!ret)
		ret = scene_create_region(scene, SCENE_NAMESPACE, 0, REGION_BYTES);
	if (ret)
		return ret;
	ret = afar_region_seal(scene->region);
	if (!ret)
		ret = afar_cache_open(scene->session, 2 * REGION_BYTES, &state->cache);
	if (!ret)
		ret = afar_cache_open(scene->session, REGION_BYTES / 16, &state->small);
	if (ret)
		return scene_fail("seal a region and open a cache", ret);
	memset(state->local, 1, REGION_BYTES);
	ret = run_scan(state, state->cache, &value);
	return ret ? ret : run_scan(state, state->small, &value);
}

static int setup(void **stage)
{
	struct cache_stage *state = calloc(1, sizeof(*state));
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	state->local = malloc(REGION_BYTES);
	state->data = malloc(MIB);
	ret = state->local && state->data ? prepare(state)
					  : bench_fail(-ENOMEM, "no memory for the suite");
	if (ret) {
		teardown(state);
		return ret;
	}
	*stage = state;
	return 0;
}

#define COPY  "copying them in the program's own memory"
#define ASKED "reading them without a cache"

static const struct bench_row rows[] = {
	{"random 4 KiB that a cache has", "µs", BENCH_LOWER, COPY, BENCH_REPORTED, NULL, run_kept,
	 run_copy},
	{"random 4 KiB that a cache has, beside asking", "µs", BENCH_LOWER, ASKED, BENCH_REPORTED,
	 NULL, run_kept, run_asked},
	{"1 MiB that a cache has not", "GB/s", BENCH_HIGHER, ASKED, BENCH_REPORTED, NULL,
	 run_missing, run_past},
};

const struct bench_stage region_cache_stage = {setup, teardown, rows, NR_ROWS(rows)};
