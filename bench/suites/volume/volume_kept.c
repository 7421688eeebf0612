/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `volume` on what it costs that a volume waits for its server. An exclusive volume
 * keeps a copy of all that is not synced. Ours is a volume that does, the reference one that does
 * not. Each thread has one call in flight.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "volume.h"

#define BYTES	     (VOLUME_FLASH_BYTES / 2)
#define MEMORY_BYTES (64 * MIB)
#define RETRY_MS     60000U
#define THREADS_MAX  8U
#define BAR	     0.95

struct kept_stage {
	struct tier_cluster cluster;
	struct scene scene; /* its session alone */
	struct afar_volume *kept, *plain;
};

struct caller {
	pthread_t thread;
	struct volume_calls calls;
	struct flash_load load;
	struct flash_figures figures;
	int status;
};

struct work {
	struct flash_load load; /* of each thread */
	unsigned nr_threads;
};

static void *call(void *argument)
{
	struct caller *caller = argument;

	caller->status = flash_load_run(&flash_target_calls, &caller->calls, &caller->load,
					&caller->figures);
	return NULL;
}

/* Both begin with nothing that is not synced. */
static int run(struct afar_volume *volume, const struct bench_row *row, double *value)
{
	const struct work *work = row->parameters;
	struct caller callers[THREADS_MAX];
	double per_second = 0;
	unsigned nr = 0;
	int ret = afar_volume_sync(volume);

	if (ret)
		return scene_fail("sync", ret);
	for (; nr < work->nr_threads; nr++) {
		callers[nr] = (struct caller){.calls = {.volume = volume, .bytes = BYTES},
					      .load = work->load};
		callers[nr].load.span_ns = bench_span_ns(TIER_SPAN_NS);
		if (pthread_create(&callers[nr].thread, NULL, call, &callers[nr]))
			break;
	}
	if (nr < work->nr_threads)
		ret = bench_fail(-EAGAIN, "no thread for the row");
	for (unsigned i = 0; i < nr; i++) {
		pthread_join(callers[i].thread, NULL);
		per_second += callers[i].figures.per_second;
		ret = ret ? ret : callers[i].status;
	}
	*value = work->load.is_random ? per_second / 1e3
				      : per_second * (double)work->load.block / 1e9;
	return ret;
}

static int run_kept(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct kept_stage *stage = state;

	(void)repetition;
	return run(stage->kept, row, value);
}

static int run_plain(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct kept_stage *stage = state;

	(void)repetition;
	return run(stage->plain, row, value);
}

#define OFF "the same calls on a volume that was opened without retry_ms"
#define KEPT(name, unit, threads, ...)                                                        \
	{                                                                                     \
		"copies kept, " name, unit, BENCH_HIGHER, OFF, BAR,                           \
			&(const struct work){.nr_threads = (threads), __VA_ARGS__}, run_kept, \
			run_plain                                                             \
	}
#define RANDOM .load.is_random = true, .load.block = 4 * KIB, .load.depth = 1
#define BULK   .load.block = MIB, .load.depth = 1

static const struct bench_row rows[] = {
	KEPT("read 4 KiB random", "k/s", 1, RANDOM),
	KEPT("write 4 KiB random", "k/s", 1, RANDOM, VOLUME_WRITE),
	KEPT("write 4 KiB random, 8 threads", "k/s", 8, RANDOM, VOLUME_WRITE),
	KEPT("durable write 4 KiB random", "k/s", 1, RANDOM, VOLUME_DURABLE),
	KEPT("write 1 MiB", "GB/s", 1, BULK, VOLUME_WRITE),
	KEPT("write 1 MiB, 8 threads", "GB/s", 8, BULK, VOLUME_WRITE),
};

static void teardown(void *state)
{
	struct kept_stage *stage = state;

	volume_close(stage->kept);
	volume_close(stage->plain);
	scene_close(&stage->scene);
	tier_cluster_stop(&stage->cluster);
	free(stage);
}

static int open_one(struct kept_stage *stage, const char *name, uint32_t retry_ms,
		    struct afar_volume **out)
{
	int ret = volume_make(stage->scene.session, name, AFAR_TIER_FLASH, BYTES);

	return ret ? ret : volume_open(stage->scene.session, name, retry_ms, out);
}

static int setup(void **state)
{
	struct kept_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = tier_cluster_start(&stage->cluster, VOLUME_FILE_BYTES, false, MEMORY_BYTES);
	if (!ret)
		ret = scene_open(&stage->scene, cluster_uri(stage->cluster.cluster), 0);
	if (!ret)
		ret = open_one(stage, "kept", RETRY_MS, &stage->kept);
	if (!ret)
		ret = open_one(stage, "plain", 0, &stage->plain);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

const struct bench_stage volume_kept_stage = {setup, teardown, rows, NR_ROWS(rows)};
