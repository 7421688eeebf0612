/* SPDX-License-Identifier: BSD-3-Clause */
/* Clusters whose stores keep pages, and others to compare them with; and what stores have counted. */
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "cache.h"

#define SETTLED_NS  UINT64_C(700000000) /* a store counts each 200 ms */
#define PATIENCE_MS 20000

static int open_side(struct cache_side *side, uint64_t bytes)
{
	const struct herd_region region = {AFAR_TIER_FLASH, bytes, true, false};
	int ret;

	side->cluster.scrub = "0";
	ret = tier_cluster_start(&side->cluster, CACHE_FILE_BYTES, false, CACHE_MEMORY_BYTES);
	return ret ? ret
		   : herd_start_on(side->cluster.cluster, &region, CACHE_CLIENTS, &side->herd);
}

static int open_session(struct cache_side *side)
{
	int ret = scene_open(&side->scene, cluster_uri(side->cluster.cluster), 0);

	return ret ? ret : scene_open_region(&side->scene);
}

int cache_pair_open(struct cache_pair *pair, uint64_t bytes, bool is_sleepy)
{
	int ret;

	pair->kept.cluster.cache = CACHE_SIZE;
	pair->kept.cluster.is_sleepy = pair->bare.cluster.is_sleepy = is_sleepy;
	ret = open_side(&pair->kept, bytes);
	if (!ret)
		ret = open_side(&pair->bare, bytes);
	if (!ret)
		ret = open_session(&pair->kept);
	return ret ? ret : open_session(&pair->bare);
}

/* Reads of more would go past the cache. */
static int read_all(const struct cache_side *side, uint64_t bytes)
{
	static char memory[64 * KIB];

	for (uint64_t at = 0; at < bytes; at += sizeof(memory)) {
		ssize_t got = afar_region_pread(side->scene.region, memory, sizeof(memory), at);

		if (got < 0)
			return scene_fail("read", (int)got);
	}
	return 0;
}

int cache_pair_open_hot(struct cache_pair *pair, uint64_t bytes, bool is_sleepy)
{
	int ret = cache_pair_open(pair, bytes, is_sleepy);

	if (!ret)
		ret = read_all(&pair->kept, bytes);
	return ret ? ret : read_all(&pair->bare, bytes);
}

static void close_side(struct cache_side *side)
{
	scene_close(&side->scene);
	herd_stop(&side->herd);
	tier_cluster_stop(&side->cluster);
}

void cache_pair_close(struct cache_pair *pair)
{
	close_side(&pair->kept);
	close_side(&pair->bare);
}

int cache_count(const struct scene *scene, const char *name, uint64_t *out)
{
	json_t *status;
	int ret = scene_status(scene, &status);

	if (ret)
		return ret;
	*out = status_sum(json_object_get(status, "stores"), name);
	json_decref(status);
	return 0;
}

int cache_count_settled(const struct scene *scene, const char *name, uint64_t *out)
{
	const struct timespec pause = {.tv_nsec = 50000000};
	const uint64_t deadline = clock_deadline_ms(PATIENCE_MS);
	uint64_t since = clock_ns(), last = 0;

	do {
		int ret = cache_count(scene, name, out);

		if (ret)
			return ret;
		if (*out != last)
			since = clock_ns();
		last = *out;
		if (bench_is_interrupted())
			return -EINTR;
		if (!clock_remaining_ms(deadline))
			return bench_fail(-ETIMEDOUT, "the store goes on counting %s", name);
		nanosleep(&pause, NULL);
	} while (clock_ns() - since < SETTLED_NS);
	return 0;
}

int cache_await_reads(const struct scene *scene, uint64_t nr_reads, uint64_t *kept)
{
	static const char *const names[] = {"cache_hits", "cache_shared", "cache_misses",
					    "cache_past"};
	const struct timespec pause = {.tv_nsec = 20000000};
	const uint64_t deadline = clock_deadline_ms(PATIENCE_MS);
	uint64_t counts[4] = {0};

	while (counts[0] + counts[1] + counts[2] + counts[3] < nr_reads) {
		if (bench_is_interrupted())
			return -EINTR;
		if (!clock_remaining_ms(deadline))
			return bench_fail(-ETIMEDOUT, "the store has not counted all reads");
		nanosleep(&pause, NULL);
		for (unsigned i = 0; i < 4; i++) {
			int ret = cache_count(scene, names[i], &counts[i]);

			if (ret)
				return ret;
		}
	}
	*kept = counts[0] + counts[1];
	return 0;
}
