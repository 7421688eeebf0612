/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `clients` about bandwidth: writes of 64 KiB by 1 to 512 clients at once. Each number is compared with the
 * best of the other numbers, which is found once and then measured again in turn with it. It is also compared with as many
 * plain sockets.
 */
#include <errno.h>
#include <stdlib.h>

#include <afar/afar.h>

#include "clients.h"
#include "herd.h"
#include "peers/naive.h"
#include "peers/raw_fabric.h"

#define KIB	      (UINT64_C(1) << 10)
#define WRITE_BYTES   (64 * KIB)
#define SERVER_BYTES  (2 * HERD_BYTES)
#define SPAN_NS	      UINT64_C(250000000)
#define TRIALS	      3U /* of each number, to find the best */
#define DRIVEN_BAR    0.95
#define ONE_SIDED_BAR 0.9
#define RAW_DEPTH     16U
#define NR_COUNTS     5U

static const unsigned counts[NR_COUNTS] = {1, 16, 92, 184, HERD_CLIENTS_MAX};

struct writes_stage {
	struct raw_fabric *raw;
	struct cluster *cluster;
	struct herd herd;
	struct naive *naive, *plain;
	unsigned best; /* of the row being measured: which of the other numbers */
	double cpu_us; /* of the last measurement: what a write has cost the server */
	double ours_cpu_us;
};

enum way { ONE_SIDED, DRIVEN, NAIVE, PLAIN };

/* A row's parameters. */
struct writes {
	unsigned count; /* which of the numbers */
	enum way way;
};

static int measure_naive(struct naive *naive, unsigned count, double *value)
{
	struct naive_result result;
	int ret = naive_run(naive, counts[count], SPAN_NS, &result);

	if (!ret)
		*value = (double)(result.nr * WRITE_BYTES) / (double)result.elapsed_ns;
	return ret;
}

static int measure(struct writes_stage *state, unsigned count, enum way way, double *value)
{
	const struct herd_order order = {.nr_clients = counts[count],
					 .is_write = true,
					 .flags = way == DRIVEN ? AFAR_OP_DRIVEN : 0,
					 .size = WRITE_BYTES,
					 .span_ns = SPAN_NS};
	uint64_t cpu_ns = process_cpu_ns(cluster_server(state->cluster, 0));
	struct herd_result result;
	int ret;

	if (way == NAIVE || way == PLAIN)
		return measure_naive(way == PLAIN ? state->plain : state->naive, count, value);
	ret = herd_run(&state->herd, &order, &result);
	if (ret)
		return ret;
	cpu_ns = process_cpu_ns(cluster_server(state->cluster, 0)) - cpu_ns;
	state->cpu_us = (double)cpu_ns / (double)(result.nr + 1) / 1e3;
	*value = (double)(result.nr * WRITE_BYTES) / (double)result.elapsed_ns;
	return 0;
}

static int measure_median(struct writes_stage *state, unsigned count, enum way way, double *value)
{
	double values[TRIALS];
	int ret = 0;

	for (unsigned i = 0; i < TRIALS && !ret; i++)
		ret = measure(state, count, way, &values[i]);
	if (!ret)
		*value = bench_median(values, TRIALS);
	return ret;
}

static int find_best(struct writes_stage *state, const struct writes *writes)
{
	double value, best = 0;
	int ret = 0;

	for (unsigned i = 0; i < NR_COUNTS && !ret; i++) {
		if (i == writes->count)
			continue;
		ret = measure_median(state, i, writes->way, &value);
		if (!ret && value > best) {
			best = value;
			state->best = i;
		}
	}
	return ret;
}

static int run_writes(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct writes *writes = row->parameters;
	struct writes_stage *state = stage;
	int ret = measure(state, writes->count, writes->way, value);

	(void)repetition;
	state->ours_cpu_us = state->cpu_us;
	return ret;
}

static int run_best(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct writes *writes = row->parameters;
	struct writes_stage *state = stage;
	int ret = 0;

	if (repetition == 0)
		ret = find_best(state, writes);
	if (ret)
		return ret;
	ret = measure(state, state->best, writes->way, value);
	if (writes->way == NAIVE || writes->way == PLAIN)
		bench_note("the best of the others: %u clients", counts[state->best]);
	else
		bench_note("the best of the others: %u clients; CPU of the server for a write, in "
			   "the last repetition: %.0f µs, of the reference %.0f µs",
			   counts[state->best], state->ours_cpu_us, state->cpu_us);
	return ret;
}

static int run_plain(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct writes *writes = row->parameters;

	(void)repetition;
	return measure(stage, writes->count, PLAIN, value);
}

static int run_raw(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct transfer transfer = {.is_write = true,
					  .size = WRITE_BYTES,
					  .depth = RAW_DEPTH,
					  .window_bytes = HERD_BYTES,
					  .nr = 4096};
	const struct writes_stage *state = stage;
	uint64_t elapsed_ns;
	int ret = raw_fabric_run(state->raw, &transfer, &elapsed_ns);

	(void)row;
	(void)repetition;
	if (!ret)
		*value = (double)(transfer.nr * transfer.size) / (double)elapsed_ns;
	return ret;
}

static void teardown(void *stage)
{
	struct writes_stage *state = stage;

	naive_close(state->plain);
	naive_close(state->naive);
	herd_stop(&state->herd);
	cluster_stop(state->cluster);
	raw_fabric_close(state->raw);
	free(state);
}

static int setup(void **stage)
{
	struct writes_stage *state = calloc(1, sizeof(*state));
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = cluster_start_over("tcp", 1, SERVER_BYTES, &state->cluster);
	if (!ret)
		ret = herd_start(state->cluster, HERD_CLIENTS_MAX, &state->herd);
	if (!ret)
		ret = naive_open(WITHOUT_FLOW_CONTROL, HERD_CLIENTS_MAX, WRITE_BYTES, HERD_BYTES,
				 &state->naive);
	if (!ret)
		ret = naive_open(PLAIN_SOCKETS, HERD_CLIENTS_MAX, WRITE_BYTES, HERD_BYTES,
				 &state->plain);
	if (!ret)
		ret = raw_fabric_open(HERD_BYTES, &state->raw);
	if (ret) {
		teardown(state);
		return ret;
	}
	*stage = state;
	return 0;
}

#define OTHERS			 "the best of the other numbers of clients"
#define WRITES(which, way_taken) (&(const struct writes){(which), (way_taken)})
#define ROW(how, way_taken, nr, which, bar)                                     \
	{                                                                       \
		"write 64 KiB " how ", " nr, "GB/s", BENCH_HIGHER, OTHERS, bar, \
			WRITES(which, way_taken), run_writes, run_best          \
	}
#define EACH(how, way_taken, bar)                                      \
	ROW(how, way_taken, "1 client", 0, BENCH_REPORTED),            \
		ROW(how, way_taken, "16 clients", 1, BENCH_REPORTED),  \
		ROW(how, way_taken, "92 clients", 2, BENCH_REPORTED),  \
		ROW(how, way_taken, "184 clients", 3, BENCH_REPORTED), \
		ROW(how, way_taken, "512 clients", 4, bar)

#define OF_SOCKETS(nr, which)                                                               \
	{                                                                                   \
		"write 64 KiB by " nr ", one-sided, of sockets", "GB/s", BENCH_HIGHER,      \
			"as many plain sockets, whose messages go straight to their place", \
			BENCH_REPORTED, WRITES(which, ONE_SIDED), run_writes, run_plain     \
	}

static const struct bench_row rows[] = {
	{"raw libfabric write 64 KiB, depth 16", "GB/s", BENCH_HIGHER, NULL, BENCH_REPORTED, NULL,
	 run_raw, NULL},
	EACH("server-driven", DRIVEN, DRIVEN_BAR),
	EACH("one-sided", ONE_SIDED, ONE_SIDED_BAR),
	EACH("naive", NAIVE, BENCH_REPORTED),
	EACH("plain sockets", PLAIN, BENCH_REPORTED),
	OF_SOCKETS("1 client", 0),
	OF_SOCKETS("16 clients", 1),
	OF_SOCKETS("92 clients", 2),
	OF_SOCKETS("184 clients", 3),
	OF_SOCKETS("512 clients", 4),
};

const struct bench_stage clients_writes_stage = {setup, teardown, rows, NR_ROWS(rows)};
