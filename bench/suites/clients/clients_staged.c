/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `clients` about the way that the bytes of server-driven transfers take at the server: through buffers of its
 * own against directly. There are two clusters, which have their turns, with clients of their own.
 */
#include <errno.h>
#include <stdlib.h>

#include <afar/afar.h>

#include "clients.h"
#include "herd.h"

#define KIB	     (UINT64_C(1) << 10)
#define NR_CLIENTS   64U
#define SERVER_BYTES (2 * HERD_BYTES)
#define STAGE_BYTES  (12 * KIB * KIB)
#define SPAN_NS	     UINT64_C(250000000)

/* A cluster and its clients. */
struct side {
	struct cluster *cluster;
	struct herd herd;
	double cpu_us; /* of the server for an operation, in the last measurement */
};

struct staged_stage {
	struct side staged, direct;
};

struct moves {
	unsigned nr_clients;
	size_t size;
	bool is_write;
};

static int measure(struct side *side, const struct moves *moves, double *value)
{
	const struct herd_order order = {.nr_clients = moves->nr_clients,
					 .is_write = moves->is_write,
					 .flags = AFAR_OP_DRIVEN,
					 .size = moves->size,
					 .span_ns = SPAN_NS};
	uint64_t cpu_ns = process_cpu_ns(cluster_server(side->cluster, 0));
	struct herd_result result;
	int ret = herd_run(&side->herd, &order, &result);

	if (ret)
		return ret;
	cpu_ns = process_cpu_ns(cluster_server(side->cluster, 0)) - cpu_ns;
	side->cpu_us = (double)cpu_ns / (double)(result.nr + 1) / 1e3;
	*value = (double)(result.nr * moves->size) / (double)result.elapsed_ns;
	return 0;
}

static int run_staged(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return measure(&((struct staged_stage *)stage)->staged, row->parameters, value);
}

static int run_direct(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct staged_stage *state = stage;
	int ret = measure(&state->direct, row->parameters, value);

	(void)repetition;
	bench_note("CPU of the server for one, in the last repetition: %.0f µs, of the reference "
		   "%.0f µs",
		   state->staged.cpu_us, state->direct.cpu_us);
	return ret;
}

static void stop_side(struct side *side)
{
	herd_stop(&side->herd);
	cluster_stop(side->cluster);
}

static void teardown(void *stage)
{
	struct staged_stage *state = stage;

	stop_side(&state->direct);
	stop_side(&state->staged);
	free(state);
}

static int setup(void **stage)
{
	struct staged_stage *state = calloc(1, sizeof(*state));
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = cluster_start_staged(STAGE_BYTES, SERVER_BYTES, &state->staged.cluster);
	if (!ret)
		ret = cluster_start_over("tcp", 1, SERVER_BYTES, &state->direct.cluster);
	if (!ret)
		ret = herd_start(state->staged.cluster, NR_CLIENTS, &state->staged.herd);
	if (!ret)
		ret = herd_start(state->direct.cluster, NR_CLIENTS, &state->direct.herd);
	if (ret) {
		teardown(state);
		return ret;
	}
	*stage = state;
	return 0;
}

#define MOVES(what, nr, size, is_write)                                                     \
	{                                                                                   \
		what " staged, clients: " #nr, "GB/s", BENCH_HIGHER,                        \
			"server-driven without a stage", BENCH_REPORTED,                    \
			(&(const struct moves){nr, size, is_write}), run_staged, run_direct \
	}

static const struct bench_row rows[] = {
	MOVES("write 64 KiB", 1, 64 * KIB, true),
	MOVES("write 64 KiB", 64, 64 * KIB, true),
	MOVES("write 512 KiB", 16, 512 * KIB, true),
	MOVES("read 64 KiB", 64, 64 * KIB, false),
};

const struct bench_stage clients_staged_stage = {setup, teardown, rows, NR_ROWS(rows)};
