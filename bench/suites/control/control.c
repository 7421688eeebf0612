/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `control`: what the control path costs before the first byte can move (Trivedi, Figs. 6.5 and 6.6). Rows differ in
 * the memory, and in how many clients at once reserve, allocate and map as much, each in a namespace of its own. Cold
 * means a server and sessions that have just begun; warm, that all has been given back once and was scrubbed.
 *
 * One sample is a cold way, a warm one over the same server, and a plain process that populates as much. All rows about the same bytes and
 * clients take their values from the same samples; the first of them has them taken.
 */
#include <errno.h>
#include <stdlib.h>

#include "harness/harness.h"
#include "harness/process.h"
#include "suites/registration/preparation.h"

#define MIB	      (UINT64_C(1) << 20)
#define GIB	      (UINT64_C(1) << 30)
#define WARM_BAR      300
#define LINEAR_BAR    0.8
#define BESIDE_BYTES  (GIB / 2) /* for daemons and sessions */
#define NR_ENDS	      2U	/* that memory is taken at: the server, and the client */
#define NR_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

struct shape {
	uint64_t bytes; /* of each client */
	unsigned nr_clients;
};

enum { MIB_64, MIB_256, GIB_1, GIB_4, GIB_8, NR_SIZES };
enum { CLIENTS_1, CLIENTS_4, CLIENTS_16, CLIENTS_36, NR_CROWDS };
#define NR_SHAPES	   (NR_SIZES * NR_CROWDS)
#define SHAPE(size, crowd) ((size)*NR_CROWDS + (crowd))

static const uint64_t sizes[NR_SIZES] = {64 * MIB, 256 * MIB, GIB, 4 * GIB, 8 * GIB};
static const unsigned crowds[NR_CROWDS] = {1, 4, 16, PREPARATION_CLIENTS_MAX};

struct sample {
	double cold_ms[NR_STEPS], warm_ms[NR_STEPS];
	double populate_ms[NR_ENDS];
	bool is_taken;
};

struct control_stage {
	struct sample *samples[NR_SHAPES]; /* of each, one for each repetition; NULL: none yet */
};

/* The part of the samples that a row shows. */
struct view {
	unsigned shape;
	unsigned first, nr_steps; /* which */
	unsigned other;		  /* shape that it is compared with */
};

static struct shape shape_of(unsigned number)
{
	return (struct shape){sizes[number / NR_CROWDS], crowds[number % NR_CROWDS]};
}

/* ---- Samples */

static int take_ops(const struct shape *shape, struct sample *sample)
{
	struct preparation preparation = {.bytes = shape->bytes, .nr_clients = shape->nr_clients};
	int ret = preparation_start(&preparation);

	if (!ret)
		ret = preparation_run(&preparation, sample->cold_ms);
	if (!ret)
		ret = preparation_undo(&preparation);
	if (!ret)
		ret = preparation_run(&preparation, sample->warm_ms);
	preparation_stop(&preparation);
	return ret;
}

static int take_population(const struct shape *shape, struct sample *sample)
{
	return preparation_populate(shape->bytes * shape->nr_clients, NR_ENDS, sample->populate_ms);
}

/* One after the other, so that their memory is not needed at once; who goes first alternates. */
static int take_sample(const struct shape *shape, unsigned repetition, struct sample *sample)
{
	int ret = repetition % 2 ? take_population(shape, sample) : take_ops(shape, sample);

	if (!ret)
		ret = repetition % 2 ? take_ops(shape, sample) : take_population(shape, sample);
	sample->is_taken = !ret;
	return ret;
}

/* The first that is taken of a shape is dropped: it finds memory that the machine's host, if it has one, has to get first. */
static int find_sample(struct control_stage *stage, unsigned number, unsigned repetition,
		       const struct sample **out)
{
	const struct shape shape = shape_of(number);
	struct sample *samples = stage->samples[number], dropped;
	int ret = 0;

	if (!samples) {
		samples = calloc(bench_repetitions(), sizeof(*samples));
		if (!samples) {
			bench_fail(-ENOMEM, "no memory for samples");
			return -ENOMEM;
		}
		stage->samples[number] = samples;
		ret = take_sample(&shape, 0, &dropped);
	}
	if (!ret && !samples[repetition].is_taken)
		ret = take_sample(&shape, repetition, &samples[repetition]);
	*out = &samples[repetition];
	return ret;
}

static double sum(const double *values, unsigned first, unsigned nr)
{
	double sum = 0;

	for (unsigned i = first; i < first + nr; i++)
		sum += values[i];
	return sum;
}

/* ---- Rows */

static int run_warm(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct view *view = row->parameters;
	const struct sample *sample;
	int ret = find_sample(stage, view->shape, repetition, &sample);

	if (!ret)
		*value = sum(sample->warm_ms, view->first, view->nr_steps);
	return ret;
}

/* For many clients the steps have no rows of their own. */
static void note_steps(const struct view *view, const struct sample *sample)
{
	if (shape_of(view->shape).nr_clients > 1)
		bench_note("cold and warm, ms, in the last repetition: reserve %.3g and %.3g, "
			   "alloc %.3g and "
			   "%.3g, map %.3g and %.3g",
			   sample->cold_ms[STEP_RESERVE], sample->warm_ms[STEP_RESERVE],
			   sample->cold_ms[STEP_ALLOC], sample->warm_ms[STEP_ALLOC],
			   sample->cold_ms[STEP_MAP], sample->warm_ms[STEP_MAP]);
}

static int run_cold(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct view *view = row->parameters;
	const struct sample *sample;
	int ret = find_sample(stage, view->shape, repetition, &sample);

	if (ret)
		return ret;
	*value = sum(sample->cold_ms, view->first, view->nr_steps);
	if (row->run_reference == run_warm)
		note_steps(view, sample);
	return 0;
}

/* The server's end for reserving, the client's for mapping, both for all of it. */
static int run_populate(void *stage, const struct bench_row *row, unsigned repetition,
			double *value)
{
	const struct view *view = row->parameters;
	const struct sample *sample;
	int ret = find_sample(stage, view->shape, repetition, &sample);

	if (ret)
		return ret;
	*value = sum(sample->populate_ms, view->first == STEP_MAP,
		     view->nr_steps == NR_STEPS ? NR_ENDS : 1);
	return 0;
}

static int find_rate(struct control_stage *stage, unsigned shape, unsigned repetition,
		     double *value)
{
	const struct sample *sample;
	int ret = find_sample(stage, shape, repetition, &sample);

	if (!ret)
		*value = (double)shape_of(shape).bytes / (double)GIB /
			 (sum(sample->cold_ms, 0, NR_STEPS) / 1e3);
	return ret;
}

static int run_rate(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	return find_rate(stage, ((const struct view *)row->parameters)->shape, repetition, value);
}

static int run_other_rate(void *stage, const struct bench_row *row, unsigned repetition,
			  double *value)
{
	return find_rate(stage, ((const struct view *)row->parameters)->other, repetition, value);
}

#define STEPS(size, crowd, first, nr) (&(const struct view){SHAPE(size, crowd), first, nr, 0})
#define ALL_STEPS(size, crowd)	      STEPS(size, crowd, 0, NR_STEPS)

#define COLD(name, view)                                                                          \
	{                                                                                         \
		"cold " name, "ms", BENCH_LOWER,                                                  \
			"mmap and populate of the same kind of memory, as much at as many ends, " \
			"in a fresh process",                                                     \
			BENCH_REPORTED, view, run_cold, run_populate                              \
	}
#define COLD_AGAINST_WARM(name, view, bar)                                                        \
	{                                                                                         \
		"cold / warm " name, "ms", BENCH_HIGHER,                                          \
			"the same from a warm pool: the server's scrubbed, the session's cached " \
			"memory",                                                                 \
			bar, view, run_cold, run_warm                                             \
	}

#define ALL(name, nr)			"all, " name ", clients: " nr
#define COLD_ALL(name, size, nr, crowd) COLD(ALL(name, nr), ALL_STEPS(size, crowd))
#define AGAINST_WARM_ALL(name, size, nr, crowd, bar) \
	COLD_AGAINST_WARM(ALL(name, nr), ALL_STEPS(size, crowd), bar)
#define ONE_STEP(size, step) STEPS(size, CLIENTS_1, step, 1)

/* For one client each step as well; allocating populates nothing. */
#define ROWS_OF_SIZE(name, size, bar)                                                              \
	COLD_ALL(name, size, "1", CLIENTS_1),                                                      \
		COLD("reserve, " name, ONE_STEP(size, STEP_RESERVE)),                              \
		COLD("map, " name, ONE_STEP(size, STEP_MAP)),                                      \
		COLD_ALL(name, size, "4", CLIENTS_4), COLD_ALL(name, size, "16", CLIENTS_16),      \
		COLD_ALL(name, size, "36", CLIENTS_36),                                            \
		AGAINST_WARM_ALL(name, size, "1", CLIENTS_1, bar),                                 \
		COLD_AGAINST_WARM("reserve, " name, ONE_STEP(size, STEP_RESERVE), BENCH_REPORTED), \
		COLD_AGAINST_WARM("alloc, " name, ONE_STEP(size, STEP_ALLOC), BENCH_REPORTED),     \
		COLD_AGAINST_WARM("map, " name, ONE_STEP(size, STEP_MAP), BENCH_REPORTED),         \
		AGAINST_WARM_ALL(name, size, "4", CLIENTS_4, bar),                                 \
		AGAINST_WARM_ALL(name, size, "16", CLIENTS_16, bar),                               \
		AGAINST_WARM_ALL(name, size, "36", CLIENTS_36, bar)

#define RATE(name, size, other_name, other_size)                                               \
	{                                                                                      \
		"cold rate, " name " / " other_name, "GiB/s", BENCH_HIGHER,                    \
			"the rate of the other size: both rows meet their bars where time is " \
			"linear in size",                                                      \
			LINEAR_BAR,                                                            \
			(&(const struct view){SHAPE(size, CLIENTS_1), 0, NR_STEPS,             \
					      SHAPE(other_size, CLIENTS_1)}),                  \
			run_rate, run_other_rate                                               \
	}

/* Not constant: skip_large(). */
static struct bench_row rows[] = {
	ROWS_OF_SIZE("64 MiB", MIB_64, BENCH_REPORTED),
	ROWS_OF_SIZE("256 MiB", MIB_256, BENCH_REPORTED),
	ROWS_OF_SIZE("1 GiB", GIB_1, BENCH_REPORTED),
	ROWS_OF_SIZE("4 GiB", GIB_4, WARM_BAR),
	ROWS_OF_SIZE("8 GiB", GIB_8, BENCH_REPORTED),
	RATE("4 GiB", GIB_4, "256 MiB", MIB_256),
	RATE("256 MiB", MIB_256, "4 GiB", GIB_4),
};

/* ---- The stage */

/* An eighth of the machine stays for others, out of what is free now. */
static bool fits(unsigned number)
{
	const struct shape shape = shape_of(number);
	uint64_t wanted = NR_ENDS * shape.nr_clients * shape.bytes + BESIDE_BYTES;

	return wanted + machine_memory_bytes() / 8 <= machine_available_bytes();
}

static void skip_large(void)
{
	for (unsigned i = 0; i < NR_ROWS(rows); i++) {
		const struct view *view = rows[i].parameters;

		if (fits(view->shape) && fits(view->other))
			continue;
		rows[i].reference_is =
			"not measured: it takes more memory than the machine has free";
		rows[i].run_ours = NULL;
		rows[i].run_reference = NULL;
	}
}

static int setup(void **stage)
{
	struct control_stage *state = calloc(1, sizeof(*state));

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	skip_large();
	*stage = state;
	return 0;
}

static void teardown(void *stage)
{
	struct control_stage *state = stage;

	for (unsigned i = 0; i < NR_SHAPES; i++)
		free(state->samples[i]);
	free(state);
}

static const struct bench_stage stage = {setup, teardown, rows, NR_ROWS(rows)};

const struct bench_suite bench_suite_control = {
	.name = "control",
	.summary =
		"reserving, allocating and mapping, by size and number of clients, cold and warm",
	.stages = (const struct bench_stage *const[]){&stage},
	.nr_stages = 1,
};
