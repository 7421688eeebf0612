/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `clients` about bandwidth: writes of 64 KiB by 1 to 512 clients at once. Each number is compared with
 * the best of the other numbers, which is found once and then measured again in turn with it.
 */
#include <errno.h>
#include <stdlib.h>

#include <afar/afar.h>

#include "clients.h"
#include "herd.h"
#include "raw_fabric.h"

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
	unsigned best; /* of the row being measured: which of the other numbers */
};

/* A row's parameters. */
struct writes {
	unsigned count; /* which of the numbers */
	uint16_t flags; /* of the operations    */
};

static int measure(const struct writes_stage *state, unsigned count, uint16_t flags, double *value)
{
	const struct herd_order order = {.nr_clients = counts[count],
					 .is_write = true,
					 .flags = flags,
					 .size = WRITE_BYTES,
					 .span_ns = SPAN_NS};
	struct herd_result result;
	int status = herd_run(&state->herd, &order, &result);

	if (!status)
		*value = (double)(result.nr * WRITE_BYTES) / (double)result.elapsed_ns;
	return status;
}

static int measure_median(const struct writes_stage *state, unsigned count, uint16_t flags,
			  double *value)
{
	double values[TRIALS];
	int status = 0;

	for (unsigned i = 0; i < TRIALS && !status; i++)
		status = measure(state, count, flags, &values[i]);
	if (!status)
		*value = bench_median(values, TRIALS);
	return status;
}

static int find_best(struct writes_stage *state, const struct writes *writes)
{
	double value, best = 0;
	int status = 0;

	for (unsigned i = 0; i < NR_COUNTS && !status; i++) {
		if (i == writes->count)
			continue;
		status = measure_median(state, i, writes->flags, &value);
		if (!status && value > best) {
			best = value;
			state->best = i;
		}
	}
	return status;
}

static int run_writes(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct writes *writes = row->parameters;

	(void)repetition;
	return measure(stage, writes->count, writes->flags, value);
}

static int run_best(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct writes *writes = row->parameters;
	struct writes_stage *state = stage;
	int status = 0;

	if (repetition == 0)
		status = find_best(state, writes);
	if (status)
		return status;
	bench_note("the best of the others: %u clients", counts[state->best]);
	return measure(state, state->best, writes->flags, value);
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
	int status = raw_fabric_run(state->raw, &transfer, &elapsed_ns);

	(void)row;
	(void)repetition;
	if (!status)
		*value = (double)(transfer.nr * transfer.size) / (double)elapsed_ns;
	return status;
}

static void teardown(void *stage)
{
	struct writes_stage *state = stage;

	herd_stop(&state->herd);
	cluster_stop(state->cluster);
	raw_fabric_close(state->raw);
	free(state);
}

static int setup(void **stage)
{
	struct writes_stage *state = calloc(1, sizeof(*state));
	int status;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	status = cluster_start_over("tcp", 1, SERVER_BYTES, &state->cluster);
	if (!status)
		status = herd_start(state->cluster, HERD_CLIENTS_MAX, &state->herd);
	if (!status)
		status = raw_fabric_open(HERD_BYTES, &state->raw);
	if (status) {
		teardown(state);
		return status;
	}
	*stage = state;
	return 0;
}

#define OTHERS		       "the best of the other numbers of clients"
#define WRITES(which, of_them) (&(const struct writes){(which), (of_them)})
#define ROW(how, flags, nr, which, bar)                                         \
	{                                                                       \
		"write 64 KiB " how ", " nr, "GB/s", BENCH_HIGHER, OTHERS, bar, \
			WRITES(which, flags), run_writes, run_best              \
	}
#define EACH(how, flags, bar)                                      \
	ROW(how, flags, "1 client", 0, BENCH_REPORTED),            \
		ROW(how, flags, "16 clients", 1, BENCH_REPORTED),  \
		ROW(how, flags, "92 clients", 2, BENCH_REPORTED),  \
		ROW(how, flags, "184 clients", 3, BENCH_REPORTED), \
		ROW(how, flags, "512 clients", 4, bar)

static const struct bench_row rows[] = {
	{"raw libfabric write 64 KiB, depth 16", "GB/s", BENCH_HIGHER, NULL, BENCH_REPORTED, NULL,
	 run_raw, NULL},
	EACH("server-driven", AFAR_OP_DRIVEN, DRIVEN_BAR),
	EACH("one-sided", 0, ONE_SIDED_BAR),
};

const struct bench_stage clients_writes_stage = {setup, teardown, rows, NR_ROWS(rows)};
