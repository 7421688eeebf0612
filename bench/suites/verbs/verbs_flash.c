/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `verbs` on flash. The server moves the bytes between its buffers and the client's memory
 * (fabric/driven/). A cold read is beside a server with a thread for each client, over sockets: A. Trivedi's
 * thesis, figure 5.9. The others are beside the slower of two ways that ours goes one behind the other: the layer
 * in this process, and memory over verbs. The last ones are beside such a store over tcp.
 */
#include <errno.h>
#include <stdlib.h>

#include "peers/sockets.h"
#include "suites/flash_tier/flash_tier.h"
#include "verbs.h"

#define USED_BYTES   (64 * MIB) /* of each file, region and layer */
#define FILE_BYTES   (2 * USED_BYTES)
#define MEMORY_BYTES (2 * USED_BYTES)
#define SPAN_NS	     UINT64_C(2000000000) /* of one measurement; an emulated machine is slow */
#define PATH_BAR     0.9

enum { SPINNING, SLEEPY, OVER_TCP, NR_SERVERS };

struct verbs_flash {
	struct tier_cluster clusters[NR_SERVERS];
	struct tier_region *flash[NR_SERVERS], *dram;
	struct flash_file files[2]; /* of the layer, of the other server */
	void *layer;
	struct sockets *sockets;
	double values[3]; /* of the last measurements: ours, the layer's, memory's */
};

static const struct flash_load cold = {
	.is_random = true, .block = SOCKETS_BLOCK, .depth = 1, .span_ns = SPAN_NS};

/* ---- A cold read */

static int run_cold(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const unsigned *server = row->parameters;
	struct verbs_flash *stage = state;
	struct flash_figures figures = {0};
	int ret = flash_load_run(&flash_target_region, stage->flash[*server], &cold, &figures);

	(void)repetition;
	*value = 1e6 / figures.per_second;
	return ret;
}

static int run_threads(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct sockets_order order = {.nr_clients = 1, .span_ns = SPAN_NS};
	struct verbs_flash *stage = state;
	struct sockets_result result;
	int ret = sockets_run(stage->sockets, &order, &result);

	(void)row;
	(void)repetition;
	if (ret)
		return ret;
	*value = (double)result.elapsed_ns / (double)result.nr / 1e3;
	return 0;
}

/* ---- The slower of two */

static void note(const struct verbs_flash *stage)
{
	bench_note("ours %.3g, the layer here %.3g, memory over verbs %.3g", stage->values[0],
		   stage->values[1], stage->values[2]);
}

static int run_load(const struct flash_target *target, void *opened, const struct flash_load *load,
		    double *value)
{
	struct flash_figures figures = {0};
	int ret = flash_load_run(target, opened, load, &figures);

	*value = figures.per_second / 1e3;
	return ret;
}

static int run_ours(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct verbs_flash *stage = state;
	int ret = run_load(&flash_target_region, stage->flash[SPINNING], row->parameters,
			   &stage->values[0]);

	(void)repetition;
	*value = stage->values[0];
	return ret;
}

static int run_slower(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct flash_load *load = row->parameters;
	struct flash_load volatile_load = *load; /* memory knows no other */
	struct verbs_flash *stage = state;
	int ret = run_load(&flash_target_layer, stage->layer, load, &stage->values[1]);

	(void)repetition;
	volatile_load.is_durable = false;
	if (!ret)
		ret = run_load(&flash_target_region, stage->dram, &volatile_load,
			       &stage->values[2]);
	*value = stage->values[1] < stage->values[2] ? stage->values[1] : stage->values[2];
	note(stage);
	return ret;
}

/* ---- Over tcp */

static int run_tcp(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct verbs_flash *stage = state;

	(void)repetition;
	return run_load(&flash_target_region, stage->flash[OVER_TCP], row->parameters, value);
}

/* ---- The stage */

static void teardown(void *state)
{
	struct verbs_flash *stage = state;

	sockets_close(stage->sockets);
	tier_layer_close(&stage->files[0], stage->layer);
	flash_file_remove(&stage->files[1]);
	tier_region_close(stage->dram);
	for (unsigned i = 0; i < NR_SERVERS; i++) {
		tier_region_close(stage->flash[i]);
		tier_cluster_stop(&stage->clusters[i]);
	}
	free(stage);
}

static int open_side(struct verbs_flash *stage, unsigned i)
{
	struct tier_cluster *cluster = &stage->clusters[i];
	int ret;

	cluster->transport = i == OVER_TCP ? "tcp" : "verbs";
	cluster->is_sleepy = i == SLEEPY;
	cluster->scrub = "0";
	ret = tier_cluster_start(cluster, FILE_BYTES, false, MEMORY_BYTES);
	return ret ? ret : tier_region_open(cluster, AFAR_TIER_FLASH, USED_BYTES, &stage->flash[i]);
}

/* The other server starts first, while there are no threads here. */
static int setup(void **state)
{
	struct verbs_flash *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = flash_file_make(&stage->files[1], USED_BYTES);
	if (!ret)
		ret = sockets_open(SOCKETS_THREADS, stage->files[1].path, USED_BYTES, 1,
				   &stage->sockets);
	for (unsigned i = 0; i < NR_SERVERS && !ret; i++)
		ret = open_side(stage, i);
	if (!ret)
		ret = tier_region_open(&stage->clusters[SPINNING], AFAR_TIER_DRAM, USED_BYTES,
				       &stage->dram);
	if (!ret)
		ret = tier_layer_open(&stage->files[0], USED_BYTES, &stage->layer);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

#define THREADS "a thread for each client: pread() with O_DIRECT, and send()"
#define SLOWER \
	"the slower of two: the layer in this process, memory over verbs; same size and depth"
#define TCP "over tcp, same size and depth"
#define COLD(how, server, bar)                                                              \
	{                                                                                   \
		"flash, read 4 KiB cold, the server " how, "µs", BENCH_LOWER, THREADS, bar, \
			&(const unsigned){server}, run_cold, run_threads                    \
	}
#define LOAD(nr, ...)                                                                      \
	FLASH_LOAD(.is_random = true, .block = 4 * KIB, .depth = (nr), .span_ns = SPAN_NS, \
		   __VA_ARGS__)
#define ROW(name, nr, beside, reference, bar, run, ...)                                          \
	{                                                                                        \
		"flash, " name " 4 KiB, depth " #nr beside, "k/s", BENCH_HIGHER, reference, bar, \
			LOAD(nr, __VA_ARGS__), run_ours, run                                     \
	}
#define BOTH(name, ...) ROW(name, 1, __VA_ARGS__), ROW(name, 32, __VA_ARGS__)
#define ALL(...)                                              \
	BOTH("read", __VA_ARGS__, .is_write = false),         \
		BOTH("write", __VA_ARGS__, .is_write = true), \
		BOTH("durable write", __VA_ARGS__, .is_write = true, .is_durable = true)

static const struct bench_row rows[] = {
	COLD("sleeps", SLEEPY, 0.8),
	COLD("spins", SPINNING, 0.57),
	ALL("", SLOWER, PATH_BAR, run_slower),
	ALL(" / tcp", TCP, BENCH_REPORTED, run_tcp),
};

const struct bench_stage verbs_flash_stage = {setup, teardown, rows, NR_ROWS(rows)};
