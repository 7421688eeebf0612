/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The row of suite `local` that compares messages: an atomic is one message to the server and one
 * back. The reference is an atomic over tcp, on a cluster of its own.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "harness/cluster.h"
#include "harness/scene.h"
#include "local.h"

#define MIB	     (UINT64_C(1) << 20)
#define SERVER_BYTES (64 * MIB)
#define REGION_BYTES (4 * MIB)
#define CALLS_NR     8192U
#define CALLS_BAR    0.35

struct side {
	struct cluster *cluster;
	struct scene scene;
	uint64_t nr_added;
};

struct calls_stage {
	struct side local;
	struct side tcp;
};

/* Each call also shows that none before it was lost. */
static int run_calls(struct side *side, const struct bench_row *row, double *value)
{
	uint64_t begin = clock_ns();

	for (unsigned i = 0; i < CALLS_NR; i++) {
		uint64_t before;
		int ret = afar_region_fetch_add(side->scene.region, 0, 1, &before);

		if (ret)
			return scene_fail(row->name, ret);
		if (before != side->nr_added++)
			return bench_fail(-EIO, "%s: the word is not what was added", row->name);
	}
	*value = (double)(clock_ns() - begin) / CALLS_NR / 1e3;
	return 0;
}

static int run_local(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct calls_stage *state = stage;

	(void)repetition;
	return run_calls(&state->local, row, value);
}

static int run_tcp(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct calls_stage *state = stage;

	(void)repetition;
	return run_calls(&state->tcp, row, value);
}

static int open_side(struct side *side, const char *transport)
{
	int ret = cluster_start_over(transport, 1, SERVER_BYTES, &side->cluster);

	if (!ret)
		ret = scene_open(&side->scene, cluster_uri(side->cluster), 0);
	return ret ? ret : scene_create_region(&side->scene, SCENE_NAMESPACE, 1, REGION_BYTES);
}

static void teardown(void *stage)
{
	struct calls_stage *state = stage;

	scene_close(&state->local.scene);
	scene_close(&state->tcp.scene);
	cluster_stop(state->local.cluster);
	cluster_stop(state->tcp.cluster);
	free(state);
}

static int setup(void **stage)
{
	struct calls_stage *state = calloc(1, sizeof(*state));
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = open_side(&state->local, "local");
	if (!ret)
		ret = open_side(&state->tcp, "tcp");
	if (ret) {
		teardown(state);
		return ret;
	}
	*stage = state;
	return 0;
}

static const struct bench_row rows[] = {
	{"call spinning", "µs", BENCH_LOWER, "the same over tcp", CALLS_BAR, NULL, run_local,
	 run_tcp},
};

const struct bench_stage local_calls_stage = {setup, teardown, rows, NR_ROWS(rows)};
