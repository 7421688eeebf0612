/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of suite `cache` on clients of the server's machine, which read hot pages of flash by reference. The
 * reference is memory of the same server. Both walk over 1 MiB in steps of 4 KiB. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cache.h"

#define REGION_BYTES (4 * MIB)
#define WALK_BYTES   MIB
#define NR_READS     131072U
#define WARM_READS   4096U
#define BAR	     2

struct near_stage {
	struct tier_cluster cluster;
	struct scene flash, memory;
	struct afar_queue *flash_queue, *memory_queue;
	char *to;
};

static int read_queued(struct afar_queue *queue, const struct scene *scene, char *to,
		       uint64_t offset)
{
	const struct afar_iov iov = {.addr = to, .length = CACHE_PAGE};
	const struct afar_op op = {.opcode = AFAR_OP_READ,
				   .target = afar_region_target(scene->region),
				   .offset = offset,
				   .iov = &iov,
				   .nr_iov = 1};
	struct afar_completion done;
	int ret = afar_queue_submit(queue, &op, 1);

	if (ret == 1)
		ret = afar_queue_wait(queue, &done, 1, 1, -1);
	if (ret != 1)
		return scene_fail("read", ret);
	return done.result == CACHE_PAGE ? 0 : scene_fail_operation("read", queue, &done);
}

/* Without a queue, on the calling thread; or with one. */
static int read_all(const struct near_stage *stage, const struct scene *scene,
		    struct afar_queue *queue, unsigned nr)
{
	int ret = 0;

	for (unsigned i = 0; i < nr && !ret; i++) {
		const uint64_t offset = (uint64_t)i * CACHE_PAGE % WALK_BYTES;

		if (queue)
			ret = read_queued(queue, scene, stage->to + offset, offset);
		else if (afar_region_pread(scene->region, stage->to + offset, CACHE_PAGE, offset) !=
			 CACHE_PAGE)
			ret = scene_fail("read", -EIO);
	}
	return ret;
}

static int run(const struct near_stage *stage, const struct scene *scene, struct afar_queue *queue,
	       double *value)
{
	int ret = read_all(stage, scene, queue, WARM_READS);
	const uint64_t begin = clock_ns();

	if (!ret)
		ret = read_all(stage, scene, queue, NR_READS);
	*value = (double)(clock_ns() - begin) / NR_READS / 1e3;
	return ret;
}

static bool is_queued(const struct bench_row *row)
{
	return *(const bool *)row->parameters;
}

static int run_flash(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct near_stage *stage = state;

	(void)repetition;
	return run(stage, &stage->flash, is_queued(row) ? stage->flash_queue : NULL, value);
}

static int run_memory(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct near_stage *stage = state;

	(void)repetition;
	return run(stage, &stage->memory, is_queued(row) ? stage->memory_queue : NULL, value);
}

static void teardown(void *state)
{
	struct near_stage *stage = state;

	if (stage->flash_queue)
		afar_queue_close(stage->flash_queue);
	if (stage->memory_queue)
		afar_queue_close(stage->memory_queue);
	scene_close(&stage->flash);
	scene_close(&stage->memory);
	tier_cluster_stop(&stage->cluster);
	free(stage->to);
	free(stage);
}

/* A region of this tier, all of it written, and a queue that is connected to it. */
static int open_side(struct near_stage *stage, uint32_t tier, struct scene *scene,
		     struct afar_queue **queue)
{
	const char *name =
		tier == AFAR_TIER_FLASH ? SCENE_NAMESPACE "-flash" : SCENE_NAMESPACE "-dram";
	int ret = scene_open(scene, cluster_uri(stage->cluster.cluster), 0);

	if (!ret)
		ret = scene_create_region_on(scene, tier, name, 1, REGION_BYTES);
	for (uint64_t at = 0; at < REGION_BYTES && !ret; at += WALK_BYTES) {
		if (afar_region_pwrite(scene->region, stage->to, WALK_BYTES, at) != WALK_BYTES)
			ret = scene_fail("write", -EIO);
	}
	if (ret)
		return ret;
	ret = afar_queue_open(scene->session, NULL, queue);
	if (!ret)
		ret = afar_queue_connect(*queue, afar_region_target(scene->region));
	return ret ? scene_fail("connect a queue", ret) : 0;
}

static int setup(void **state)
{
	struct near_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	stage->cluster.cache = CACHE_SIZE;
	stage->cluster.scrub = "0";
	stage->cluster.transport = CLUSTER_LOCAL_AND_TCP;
	stage->to = calloc(1, WALK_BYTES);
	ret = stage->to ? tier_cluster_start(&stage->cluster, CACHE_FILE_BYTES, false,
					     CACHE_MEMORY_BYTES)
			: bench_fail(-ENOMEM, "no memory for the suite");
	if (!ret)
		ret = open_side(stage, AFAR_TIER_FLASH, &stage->flash, &stage->flash_queue);
	if (!ret)
		ret = open_side(stage, AFAR_TIER_DRAM, &stage->memory, &stage->memory_queue);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

#define MEMORY	   "memory over local"
#define QUEUED(is) (&(const bool){is})

static const struct bench_row rows[] = {
	{"optimistic over local, read 4 KiB", "µs", BENCH_LOWER, MEMORY, BAR, QUEUED(false),
	 run_flash, run_memory},
	{"optimistic over local, read 4 KiB by a queue", "µs", BENCH_LOWER, MEMORY, BAR,
	 QUEUED(true), run_flash, run_memory},
};

const struct bench_stage cache_near_stage = {setup, teardown, rows, NR_ROWS(rows)};
