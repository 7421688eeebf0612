/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `flash` on write amplification, by simulation (simulator/simulate.h). The layer's streams and cleaner run against a
 * single stream, and beside an oracle that knows how often each block is written. Nothing is written to storage.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "flash.h"
#include "flash/write/streams.h"
#include "simulator/simulate.h"

#define CAPACITY_BLOCKS (UINT64_C(256) << 10)
#define NR_SEEDS	3U /* repetitions beyond them are the same again */

#define BAR_UNIFORM   1.02
#define BAR_GAIN      0.8
#define BAR_TOLD      0.95
#define BAR_TOLD_ZIPF 0.98

static const struct simulate_options options = {
	.segment_blocks = 128, .full_percent = 90, .nr_streams = STREAMS_DEFAULT, .nr_times = 5};

enum { UNIFORM, SKEW_80_20, SKEW_95_20, SKEW_95_5, ZIPF_99, ZIPF_90, ZIPF_113, NR_TRACES };

static const struct case_of_trace {
	const char *trace;
	const char *paper; /* what was published of it, or of one that it may mean; or NULL */
} cases[NR_TRACES] = {
	[UNIFORM] = {"uniform", NULL},	     [SKEW_80_20] = {"80/20", "-38 %"},
	[SKEW_95_20] = {"95/20", "-83 %"},   [SKEW_95_5] = {"95/5", NULL},
	[ZIPF_99] = {"zipf-0.99", NULL},     [ZIPF_90] = {"zipf-0.90", "-38 %"},
	[ZIPF_113] = {"zipf-1.13", "-83 %"},
};

/* Results of simulations, each run once. Rows share them. */
struct amplification_stage {
	struct simulate_result results[NR_TRACES][NR_SEEDS][SIMULATE_NR_POLICIES];
	double seconds[NR_TRACES][NR_SEEDS][SIMULATE_NR_POLICIES]; /* 0: not yet */
};

static int simulate_seed(struct amplification_stage *stage, unsigned number, unsigned seed)
{
	struct trace *trace;
	uint64_t began;
	int ret;

	if (stage->seconds[number][seed][0] > 0)
		return 0;
	ret = trace_make(cases[number].trace, simulate_trace_blocks(CAPACITY_BLOCKS, &options),
			 seed + 1, &trace);
	if (ret)
		return bench_fail(ret, "no memory for the trace %s", cases[number].trace);
	for (int policy = SIMULATE_NR_POLICIES; policy-- > 0 && !ret;) {
		began = clock_ns();
		ret = simulate(trace, &options, (enum simulate_policy)policy,
			       &stage->results[number][seed][policy]);
		stage->seconds[number][seed][policy] = (double)(clock_ns() - began) / 1e9;
	}
	trace_close(trace);
	return ret ? bench_fail(ret, "%s", error_last_line()) : 0;
}

/* All contenders' results of the row's trace. */
static int results_of(void *stage, const struct bench_row *row, unsigned repetition,
		      const struct simulate_result **out)
{
	struct amplification_stage *amplification = stage;
	unsigned number = (unsigned)((const struct case_of_trace *)row->parameters - cases);
	unsigned seed = repetition % NR_SEEDS;
	int ret = simulate_seed(amplification, number, seed);

	*out = amplification->results[number][seed];
	return ret;
}

/* ---- Amplification: ours, one stream's */

static int run_ours(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct case_of_trace *which = row->parameters;
	const struct simulate_result *results;
	double greedy;
	int ret = results_of(stage, row, repetition, &results);

	if (ret)
		return ret;
	greedy = results[SIMULATE_GREEDY].amplification;
	*value = results[SIMULATE_OURS].amplification;
	bench_note("%+.0f %%; the oracle: %.2f, %+.0f %% (by formula: %.2f)%s%s%s",
		   100 * (*value / greedy - 1), results[SIMULATE_ORACLE].amplification,
		   100 * (results[SIMULATE_ORACLE].amplification / greedy - 1),
		   results[SIMULATE_ORACLE].predicted, which->paper ? "; the paper: " : "",
		   which->paper ? which->paper : "",
		   which->paper ? ", \"Zipfian\", of a baseline and a spare that it does not tell"
				: "");
	return 0;
}

/* Callers say which blocks are written more often than the mean. */
static int run_told(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct simulate_result *results;
	int ret = results_of(stage, row, repetition, &results);

	if (!ret)
		*value = results[SIMULATE_TOLD].amplification;
	return ret;
}

static int run_untold(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct simulate_result *results;
	int ret = results_of(stage, row, repetition, &results);

	if (!ret)
		*value = results[SIMULATE_OURS].amplification;
	return ret;
}

static int run_greedy(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct simulate_result *results;
	int ret = results_of(stage, row, repetition, &results);

	if (!ret)
		*value = results[SIMULATE_GREEDY].amplification;
	return ret;
}

/* ---- What is saved of one stream's amplification: by us, by the oracle */

static int gain_of(enum simulate_policy policy, void *stage, const struct bench_row *row,
		   unsigned repetition, double *value)
{
	const struct simulate_result *results;
	int ret = results_of(stage, row, repetition, &results);

	if (!ret)
		*value = results[SIMULATE_GREEDY].amplification - results[policy].amplification;
	return ret;
}

static int run_our_gain(void *stage, const struct bench_row *row, unsigned repetition,
			double *value)
{
	return gain_of(SIMULATE_OURS, stage, row, repetition, value);
}

static int run_hinted_gain(void *stage, const struct bench_row *row, unsigned repetition,
			   double *value)
{
	return gain_of(SIMULATE_HINTED, stage, row, repetition, value);
}

static int run_oracle_gain(void *stage, const struct bench_row *row, unsigned repetition,
			   double *value)
{
	return gain_of(SIMULATE_ORACLE, stage, row, repetition, value);
}

/* ---- The simulator itself */

static int run_speed(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct amplification_stage *amplification = stage;
	const struct simulate_result *results;
	int ret = results_of(stage, row, repetition, &results);
	unsigned number = (unsigned)((const struct case_of_trace *)row->parameters - cases);

	if (!ret)
		*value = (double)(results[SIMULATE_OURS].written + results[SIMULATE_OURS].moved) /
			 amplification->seconds[number][repetition % NR_SEEDS][SIMULATE_OURS] / 1e6;
	return ret;
}

#define AMPLIFICATION(text, number, limit)                                                      \
	{                                                                                       \
		.name = "amplification, " text, .unit = "×", .better = BENCH_LOWER,             \
		.reference_is = "one stream, greedy; 90 % full, 5 × the capacity, all counted", \
		.bar = (limit), .parameters = &cases[number], .run_ours = run_ours,             \
		.run_reference = run_greedy                                                     \
	}
#define TOLD(text, number, limit)                                                                \
	{                                                                                        \
		.name = "amplification, " text ", brief and cold", .unit = "×",                  \
		.better = BENCH_LOWER, .reference_is = "the same without hints", .bar = (limit), \
		.parameters = &cases[number], .run_ours = run_told, .run_reference = run_untold  \
	}
#define GAIN(text, number)                                                                  \
	{                                                                                   \
		.name = "saved, " text, .unit = "×", .better = BENCH_HIGHER,                \
		.reference_is =                                                             \
			"an oracle that knows all rates, with the best split of the spare", \
		.bar = BAR_GAIN, .parameters = &cases[number], .run_ours = run_our_gain,    \
		.run_reference = run_oracle_gain                                            \
	}
#define GAIN_HINTED(text, number)                                                                 \
	{                                                                                         \
		.name = "saved, " text ", callers know the rates", .unit = "×",                   \
		.better = BENCH_HIGHER,                                                           \
		.reference_is =                                                                   \
			"an oracle that knows all rates, with the best split of the spare",       \
		.bar = BENCH_REPORTED, .parameters = &cases[number], .run_ours = run_hinted_gain, \
		.run_reference = run_oracle_gain                                                  \
	}

static const struct bench_row rows[] = {
	AMPLIFICATION("uniform", UNIFORM, BAR_UNIFORM),
	AMPLIFICATION("80/20", SKEW_80_20, BENCH_REPORTED),
	AMPLIFICATION("95/20", SKEW_95_20, BENCH_REPORTED),
	AMPLIFICATION("95/5", SKEW_95_5, BENCH_REPORTED),
	AMPLIFICATION("Zipf 0.99", ZIPF_99, BENCH_REPORTED),
	AMPLIFICATION("Zipf 0.90", ZIPF_90, BENCH_REPORTED),
	AMPLIFICATION("Zipf 1.13", ZIPF_113, BENCH_REPORTED),
	TOLD("80/20", SKEW_80_20, BAR_TOLD),
	TOLD("95/20", SKEW_95_20, BAR_TOLD),
	TOLD("95/5", SKEW_95_5, BAR_TOLD),
	TOLD("Zipf 0.99", ZIPF_99, BAR_TOLD_ZIPF),
	TOLD("Zipf 0.90", ZIPF_90, BAR_TOLD_ZIPF),
	TOLD("Zipf 1.13", ZIPF_113, BAR_TOLD_ZIPF),
	GAIN("80/20", SKEW_80_20),
	GAIN("95/20", SKEW_95_20),
	GAIN("95/5", SKEW_95_5),
	GAIN("Zipf 0.99", ZIPF_99),
	GAIN_HINTED("80/20", SKEW_80_20),
	GAIN_HINTED("95/20", SKEW_95_20),
	GAIN_HINTED("95/5", SKEW_95_5),
	GAIN_HINTED("Zipf 0.99", ZIPF_99),
	{.name = "simulated, 80/20",
	 .unit = "M/s",
	 .better = BENCH_HIGHER,
	 .bar = BENCH_REPORTED,
	 .parameters = &cases[SKEW_80_20],
	 .run_ours = run_speed},
};

static int setup(void **stage)
{
	*stage = calloc(1, sizeof(struct amplification_stage));
	return *stage ? 0 : bench_fail(-ENOMEM, "no memory for what is simulated");
}

const struct bench_stage flash_amplification_stage = {
	.setup = setup, .teardown = free, .rows = rows, .nr_rows = NR_ROWS(rows)};
