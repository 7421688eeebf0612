/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `clients` about latency: how long a read takes when others read beside it. The rows of one number of
 * clients and one size are of the same samples, one for each repetition.
 */
#include <errno.h>
#include <stdlib.h>

#include "clients.h"
#include "herd.h"
#include "peers/raw_fabric.h"

#define KIB	      (UINT64_C(1) << 10)
#define SERVER_BYTES  (2 * HERD_BYTES)
#define NR_CLIENTS    64U
#define SPAN_NS	      UINT64_C(200000000)
#define SETTLE_NS     UINT64_C(20000000) /* before a sample, which is not looked at */
#define TAIL_BAR      20.0
#define RAW_NR	      2000U
#define NR_PERCENTILE 3U

enum percentile { P50, P99, P999 };

/* A row's parameters. */
struct reads {
	unsigned nr_clients;
	size_t size;
	enum percentile percentile;
};

struct reads_stage {
	struct raw_fabric *raw;
	struct cluster *cluster;
	struct herd herd;
	/* The last sample, and what it is of. */
	unsigned nr_clients, repetition;
	size_t size;
	bool is_taken;
	double us[NR_PERCENTILE];
};

static int take_sample(struct reads_stage *state, const struct reads *reads, unsigned repetition)
{
	struct herd_order order = {
		.nr_clients = reads->nr_clients, .size = reads->size, .span_ns = SETTLE_NS};
	struct herd_result result;
	int ret = herd_run(&state->herd, &order, &result);

	order.span_ns = SPAN_NS;
	if (!ret)
		ret = herd_run(&state->herd, &order, &result);
	if (ret)
		return ret;
	state->us[P50] = result.p50_us;
	state->us[P99] = result.p99_us;
	state->us[P999] = result.p999_us;
	state->nr_clients = reads->nr_clients;
	state->size = reads->size;
	state->repetition = repetition;
	state->is_taken = true;
	return 0;
}

static bool has_sample(const struct reads_stage *state, const struct reads *reads,
		       unsigned repetition)
{
	return state->is_taken && state->nr_clients == reads->nr_clients &&
	       state->size == reads->size && state->repetition == repetition;
}

/* Ours and the reference of one repetition may be of the same sample, each sample for one of each. */
static int run_percentile(struct reads_stage *state, const struct reads *reads,
			  enum percentile percentile, unsigned repetition, double *value)
{
	int ret = 0;

	if (!has_sample(state, reads, repetition))
		ret = take_sample(state, reads, repetition);
	*value = state->us[percentile];
	return ret;
}

static int run_reads(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct reads *reads = row->parameters;

	return run_percentile(stage, reads, reads->percentile, repetition, value);
}

static int run_median(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	return run_percentile(stage, row->parameters, P50, repetition, value);
}

static int run_raw(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct reads *reads = row->parameters;
	const struct transfer transfer = {
		.size = reads->size, .depth = 1, .window_bytes = HERD_BYTES, .nr = RAW_NR};
	const struct reads_stage *state = stage;
	uint64_t elapsed_ns;
	int ret = raw_fabric_run(state->raw, &transfer, &elapsed_ns);

	(void)repetition;
	if (!ret)
		*value = (double)elapsed_ns / RAW_NR / 1e3;
	return ret;
}

static void teardown(void *stage)
{
	struct reads_stage *state = stage;

	herd_stop(&state->herd);
	cluster_stop(state->cluster);
	raw_fabric_close(state->raw);
	free(state);
}

static int setup(void **stage)
{
	struct reads_stage *state = calloc(1, sizeof(*state));
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = cluster_start_over("tcp", 1, SERVER_BYTES, &state->cluster);
	if (!ret)
		ret = herd_start(state->cluster, NR_CLIENTS, &state->herd);
	if (!ret)
		ret = raw_fabric_open(HERD_BYTES, &state->raw);
	if (ret) {
		teardown(state);
		return ret;
	}
	*stage = state;
	return 0;
}

#define RAW_MEAN	       "raw libfabric: fi_read of the same size by one client, the mean"
#define SAME_MEDIAN	       "the median of the same reads"
#define READS(nr, size, which) (&(const struct reads){(nr), (size), (which)})
#define TAILS(nr, text, bar)                                                                       \
	{"read 4 KiB, " text ", p50", "µs",	 BENCH_LOWER, RAW_MEAN, BENCH_REPORTED,            \
	 READS(nr, 4 * KIB, P50),     run_reads, run_raw},                                         \
		{"read 4 KiB, " text ", p99", "µs",	 BENCH_LOWER, SAME_MEDIAN, BENCH_REPORTED, \
		 READS(nr, 4 * KIB, P99),     run_reads, run_median},                              \
	{                                                                                          \
		"read 4 KiB, " text ", p99.9", "µs", BENCH_LOWER, SAME_MEDIAN, bar,                \
			READS(nr, 4 * KIB, P999), run_reads, run_median                            \
	}
#define BY_CLIENTS(text, size, nr)                                                                 \
	{                                                                                          \
		"latency of " text ", clients: " #nr, "µs", BENCH_LOWER, RAW_MEAN, BENCH_REPORTED, \
			READS(nr, size, P50), run_reads, run_raw                                   \
	}
#define BY_SIZE(text, size)                                                                        \
	BY_CLIENTS(text, size, 1), BY_CLIENTS(text, size, 2), BY_CLIENTS(text, size, 4),           \
		BY_CLIENTS(text, size, 8), BY_CLIENTS(text, size, 16), BY_CLIENTS(text, size, 32), \
		BY_CLIENTS(text, size, 64)

static const struct bench_row rows[] = {
	TAILS(1, "1 client", BENCH_REPORTED),
	TAILS(8, "8 clients", TAIL_BAR),
	TAILS(64, "64 clients", BENCH_REPORTED),
	BY_SIZE("64 B", 64),
	BY_SIZE("4 KiB", 4 * KIB),
	BY_SIZE("64 KiB", 64 * KIB),
};

const struct bench_stage clients_reads_stage = {setup, teardown, rows, NR_ROWS(rows)};
