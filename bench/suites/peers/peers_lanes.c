/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `peers` over two wires: a server with a lane on each against one with a lane on the first alone. The
 * servers are in one network namespace, this process meanwhile in another.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/clock.h"
#include "harness/cluster.h"
#include "harness/network.h"
#include "harness/scene.h"
#include "peers.h"

#define SERVER_BYTES (256 * MIB)
#define REGION_BYTES (64 * MIB)
#define LANES_BAR    1.8

struct side {
	struct cluster *cluster;
	struct scene scene;
};

struct lanes_stage {
	struct network *network;
	struct side two;
	struct side one;
};

static int run_side(const struct side *side, const struct bench_row *row, double *value)
{
	const struct transfer *transfer = row->parameters;
	struct afar_mapping *mapping = side->scene.mapping;
	uint64_t begin = clock_ns();
	int ret = transfer->is_write ? afar_mapping_write(mapping, 0, transfer->size)
				     : afar_mapping_read(mapping, 0, transfer->size);

	if (ret)
		return scene_fail(row->name, ret);
	*value = transfer_value(row, clock_ns() - begin);
	return 0;
}

static int run_two(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct lanes_stage *state = stage;

	(void)repetition;
	return run_side(&state->two, row, value);
}

static int run_one(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct lanes_stage *state = stage;

	(void)repetition;
	return run_side(&state->one, row, value);
}

/* Transfers that moved nothing would look good. */
static int check_bytes(const struct side *side)
{
	unsigned char *local = afar_mapping_data(side->scene.mapping);
	int ret;

	memset(local, 0x5A, REGION_BYTES);
	ret = afar_mapping_write(side->scene.mapping, 0, REGION_BYTES);
	if (ret)
		return scene_fail("write the region", ret);
	memset(local, 0, REGION_BYTES);
	ret = afar_mapping_read(side->scene.mapping, 0, REGION_BYTES);
	if (ret)
		return scene_fail("read the region", ret);
	for (size_t i = 0; i < REGION_BYTES; i++) {
		if (local[i] != 0x5A)
			return bench_fail(-EIO, "byte %zu read is not the one written", i);
	}
	return 0;
}

static int open_side(const struct network *network, const char *lanes, struct side *side)
{
	int ret = network_enter(network, NETWORK_SERVER);

	if (!ret)
		ret = cluster_start_at(NETWORK_SERVER_1, lanes, SERVER_BYTES, &side->cluster);
	if (!ret)
		ret = network_enter(network, NETWORK_CLIENT);
	if (!ret)
		ret = scene_open(&side->scene, cluster_uri(side->cluster), 0);
	if (!ret)
		ret = scene_create_region(&side->scene, SCENE_NAMESPACE, 1, REGION_BYTES);
	if (!ret)
		ret = scene_map(&side->scene, REGION_BYTES);
	return ret ? ret : check_bytes(side);
}

static void close_side(struct side *side)
{
	scene_close(&side->scene);
	cluster_stop(side->cluster);
}

#define ONE_LANE "the same with one lane, over wires of " NETWORK_RATE
#define WHOLE(write)                                            \
	(&(const struct transfer){.is_write = (write),          \
				  .size = REGION_BYTES,         \
				  .depth = 1,                   \
				  .window_bytes = REGION_BYTES, \
				  .nr = 1})

/* Not constant: bench_skip(). */
static struct bench_row rows[] = {
	{"read 64 MiB, two lanes / one", "GB/s", BENCH_HIGHER, ONE_LANE, LANES_BAR, WHOLE(false),
	 run_two, run_one},
	{"write 64 MiB, two lanes / one", "GB/s", BENCH_HIGHER, ONE_LANE, LANES_BAR, WHOLE(true),
	 run_two, run_one},
};

static void teardown(void *stage)
{
	struct lanes_stage *state = stage;

	if (!state)
		return;
	close_side(&state->two);
	close_side(&state->one);
	network_close(state->network);
	free(state);
}

static int setup(void **stage)
{
	const char *obstacle = network_obstacle();
	struct lanes_stage *state;
	int ret;

	if (obstacle) {
		bench_skip(rows, NR_ROWS(rows), obstacle);
		return 0;
	}
	state = calloc(1, sizeof(*state));
	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = network_open(&state->network);
	if (!ret)
		ret = open_side(state->network,
				"tcp:" NETWORK_SERVER_1 ":0,tcp:" NETWORK_SERVER_2 ":0",
				&state->two);
	if (!ret)
		ret = open_side(state->network, "tcp:" NETWORK_SERVER_1 ":0", &state->one);
	if (ret)
		teardown(state);
	else
		*stage = state;
	return ret;
}

const struct bench_stage peers_lanes_stage = {setup, teardown, rows, NR_ROWS(rows)};
