/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The harness, and the main program of `afar bench`. It picks one of the program's suites and walks through its stages and
 * rows. It alternates ours and the reference, and hands the values to report.c. It owns the results.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "congestion.h"
#include "harness.h"
#include "process.h"
#include "progress.h"

#define EXIT_NO_READER	    141 /* as if SIGPIPE had ended it */
#define REPETITIONS_DEFAULT 7U
#define REPETITIONS_MAX	    1000U

struct request {
	const struct bench_suite *suite; /* NULL: list them           */
	const char *row;		 /* part of a name, or NULL   */
	unsigned repetitions;		 /* of each; 0: as they have by default */
	bool as_json;
	bool is_long; /* measures also what takes long */
};

#define LEFT_OUT "not measured: it takes minutes; --long measures it"

static unsigned repetitions_now = REPETITIONS_DEFAULT;
static bool is_warm_up;
static char note_now[sizeof(((struct bench_result *)NULL)->note)];
static struct distance distance_now;

void bench_note(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(note_now, sizeof(note_now), format, arguments);
	va_end(arguments);
}

void bench_skip(struct bench_row *rows, unsigned nr, const char *why)
{
	for (unsigned i = 0; i < nr; i++) {
		rows[i].reference_is = why;
		rows[i].run_ours = NULL;
		rows[i].run_reference = NULL;
	}
}

unsigned bench_repetitions(void)
{
	return repetitions_now;
}

/* Returns what the user asks for; 0: nothing. */
static uint64_t asked_span_ns(void)
{
	const char *text = getenv("AFAR_BENCH_SPAN_MS");

	return (text ? strtoul(text, NULL, 10) : 0) * UINT64_C(1000000);
}

uint64_t bench_span_ns(uint64_t usual_ns)
{
	if (asked_span_ns())
		return asked_span_ns();
	return is_warm_up ? usual_ns / 4 : usual_ns;
}

uint64_t bench_bytes(uint64_t usual, uint64_t step)
{
	const uint64_t second_ns = UINT64_C(1000000000), span_ns = asked_span_ns();
	uint64_t steps = usual / step;

	if (span_ns && span_ns < second_ns)
		steps = steps * (span_ns / 1000) / (second_ns / 1000);
	return steps ? steps * step : step;
}

/* ---- What is known of rows before */

static const struct bench_pace *pace_of(const struct bench_suite *suite,
					const struct bench_row *row)
{
	for (unsigned i = 0; i < suite->nr_paces; i++) {
		if (strstr(row->name, suite->paces[i].rows))
			return &suite->paces[i];
	}
	return NULL;
}

static unsigned usual_repetitions(const struct bench_suite *suite)
{
	return suite->repetitions ? suite->repetitions : REPETITIONS_DEFAULT;
}

static unsigned repetitions_of(const struct request *request, const struct bench_row *row)
{
	const struct bench_pace *pace = pace_of(request->suite, row);

	if (request->repetitions)
		return request->repetitions;
	return pace && pace->repetitions ? pace->repetitions : usual_repetitions(request->suite);
}

static bool is_left_out(const struct request *request, const struct bench_row *row)
{
	const struct bench_pace *pace = pace_of(request->suite, row);

	return pace && pace->is_long && !request->is_long;
}

/* Returns how long a row takes with as many repetitions as it gets. */
static double seconds_of(const struct request *request, const struct bench_row *row)
{
	const struct bench_pace *pace = pace_of(request->suite, row);
	const struct request by_default = {.suite = request->suite};

	if (is_left_out(request, row))
		return 0;
	return pace ? pace->seconds * repetitions_of(request, row) /
			       repetitions_of(&by_default, row)
		    : 1;
}

/* ---- One row */

static int run_ours(void *stage, struct bench_result *result, unsigned repetition, double *value)
{
	return result->row->run_ours(stage, result->row, repetition, value);
}

static int run_reference(void *stage, struct bench_result *result, unsigned repetition,
			 double *value)
{
	if (!result->row->run_reference)
		return 0;
	return result->row->run_reference(stage, result->row, repetition, value);
}

static int warm_up(void *stage, struct bench_result *result)
{
	double dropped;
	int ret;

	is_warm_up = true;
	ret = run_ours(stage, result, 0, &dropped);
	if (!ret)
		ret = run_reference(stage, result, 0, &dropped);
	is_warm_up = false;
	return ret;
}

/* The side that goes first alternates too, so that neither always finds what the other left
 * behind. */
static int run_repetition(void *stage, struct bench_result *result, unsigned repetition)
{
	double *ours = &result->ours[repetition];
	double *reference = &result->reference[repetition];
	int ret;

	if (repetition % 2 == 0) {
		ret = run_ours(stage, result, repetition, ours);
		return ret ? ret : run_reference(stage, result, repetition, reference);
	}
	ret = run_reference(stage, result, repetition, reference);
	return ret ? ret : run_ours(stage, result, repetition, ours);
}

static int run_row(const struct request *request, void *stage, struct bench_result *result)
{
	const unsigned all = repetitions_of(request, result->row);
	int ret = 0;

	result->ours = calloc(all, sizeof(double));
	result->reference = calloc(all, sizeof(double));
	if (!result->ours || !result->reference)
		return bench_fail(-ENOMEM, "no memory for the results");
	note_now[0] = '\0';
	progress_repetition(0, all);
	if (!request->suite->is_warm)
		ret = warm_up(stage, result);
	for (unsigned i = 0; i < all && !ret; i++) {
		if (bench_is_interrupted())
			return -EINTR;
		progress_repetition(i, all);
		distance_look(&distance_now);
		ret = run_repetition(stage, result, i);
		if (ret)
			break;
		result->nr_ours = i + 1;
		result->nr_reference = result->row->run_reference ? i + 1 : 0;
	}
	bench_clear_progress();
	memcpy(result->note, note_now, sizeof(result->note));
	/* An interrupt may have cut the last repetition short. */
	return ret || !bench_is_interrupted() ? ret : -EINTR;
}

static bool is_wanted(const struct request *request, const struct bench_row *row)
{
	return !request->row || strstr(row->name, request->row);
}

static unsigned count_wanted(const struct request *request, const struct bench_stage *stage)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < stage->nr_rows; i++)
		nr += is_wanted(request, &stage->rows[i]);
	return nr;
}

/* The kernel counts the machine's time in ticks and ours in nanoseconds: the difference may be below 0. */
static double others_cores(uint64_t others_before_ns, uint64_t elapsed_ns)
{
	uint64_t others_ns = machine_others_cpu_ns();

	return others_ns > others_before_ns
		       ? (double)(others_ns - others_before_ns) / (double)elapsed_ns
		       : 0;
}

/* Measures a row whose stage is set up, or is left out, or has failed to: `setup_status`. */
static void measure_row(const struct request *request, void *stage, int setup_status,
			struct bench_result *result)
{
	const double seconds = seconds_of(request, result->row);
	int ret = setup_status;

	if (is_left_out(request, result->row)) {
		result->left_out = LEFT_OUT;
		ret = 0;
	}
	if (ret || result->left_out || !result->row->run_ours) {
		progress_skip(seconds);
	} else {
		progress_row(result->row->name, seconds);
		ret = run_row(request, stage, result);
	}
	result->has_failed = ret != 0;
}

/* Nothing need be set up for rows that are left out. */
static bool is_needed(const struct request *request, const struct bench_stage *stage)
{
	for (unsigned i = 0; i < stage->nr_rows; i++) {
		if (is_wanted(request, &stage->rows[i]) && !is_left_out(request, &stage->rows[i]))
			return true;
	}
	return false;
}

/*
 * Measures the wanted rows of a stage into `results`. A row that fails does not end the others. Returns how many have ended,
 * which is fewer if the user has interrupted one.
 */
static unsigned run_stage(const struct request *request, const struct bench_stage *stage,
			  struct bench_result *results)
{
	const bool has_setup = is_needed(request, stage);
	void *state = NULL;
	unsigned nr = 0;
	int ret = 0;

	progress_setup();
	if (has_setup && stage->setup)
		ret = stage->setup(&state);
	for (unsigned i = 0; i < stage->nr_rows && !bench_is_interrupted(); i++) {
		if (!is_wanted(request, &stage->rows[i]))
			continue;
		results[nr].row = &stage->rows[i];
		measure_row(request, state, ret, &results[nr]);
		nr += !results[nr].has_failed || !bench_is_interrupted();
	}
	if (has_setup && !ret && stage->teardown)
		stage->teardown(state);
	return nr;
}

/* Returns how many rows have ended. */
static unsigned run_stages(const struct request *request, struct bench_result *results)
{
	const struct bench_suite *suite = request->suite;
	unsigned nr = 0;

	for (unsigned i = 0; i < suite->nr_stages && !bench_is_interrupted(); i++) {
		if (count_wanted(request, suite->stages[i]))
			nr += run_stage(request, suite->stages[i], &results[nr]);
	}
	bench_clear_progress();
	return nr;
}

/* Prints what was measured. Returns the exit status. */
static int report(const struct request *request, const struct bench_result *results, unsigned nr,
		  const struct bench_surroundings *surroundings)
{
	int status = 0;

	for (unsigned i = 0; i < nr; i++)
		status |= results[i].has_failed;
	if (!request->as_json)
		bench_print_table(results, nr, surroundings);
	else if (bench_print_json(results, nr))
		status = bench_fail(1, "no memory to print the results");
	if (bench_is_interrupted())
		status = bench_fail(128 + bench_interrupt(), "%s: interrupted after %u of %u rows",
				    request->suite->name, nr, surroundings->nr_wanted);
	return status;
}

static unsigned count_all_wanted(const struct request *request)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < request->suite->nr_stages; i++)
		nr += count_wanted(request, request->suite->stages[i]);
	return nr;
}

/* 0: nobody knows. */
static double seconds_of_all(const struct request *request)
{
	const struct bench_suite *suite = request->suite;
	double seconds = 0;

	for (unsigned i = 0; i < suite->nr_stages && suite->paces; i++) {
		const struct bench_stage *stage = suite->stages[i];

		for (unsigned j = 0; j < stage->nr_rows; j++)
			seconds += is_wanted(request, &stage->rows[j])
					   ? seconds_of(request, &stage->rows[j])
					   : 0;
	}
	return seconds;
}

static int run_suite(const struct request *request)
{
	const struct bench_suite *suite = request->suite;
	struct bench_surroundings surroundings = {.nr_wanted = count_all_wanted(request)};
	uint64_t others_ns = machine_others_cpu_ns();
	uint64_t begin = clock_ns();
	struct bench_result *results;
	unsigned nr;
	int status;

	if (!surroundings.nr_wanted) {
		bench_fail(0, "suite %s has no row with \"%s\" in its name", suite->name,
			   request->row);
		return 2;
	}
	if (suite->check && suite->check())
		return 1;
	results = calloc(surroundings.nr_wanted, sizeof(*results));
	if (!results)
		return bench_fail(1, "no memory for the results");
	repetitions_now = request->repetitions ? request->repetitions : usual_repetitions(suite);
	surroundings.nr_repetitions = repetitions_now;
	bench_catch_interrupts();
	congestion_prepare();
	progress_begin(suite->name, surroundings.nr_wanted, seconds_of_all(request));
	nr = run_stages(request, results);
	surroundings.others = others_cores(others_ns, clock_ns() - begin);
	surroundings.distance = distance_now;
	status = report(request, results, nr, &surroundings);
	for (unsigned i = 0; i < surroundings.nr_wanted; i++) {
		free(results[i].ours);
		free(results[i].reference);
	}
	free(results);
	return status;
}

static int list_suites(void)
{
	puts("Suites, to be run with `afar bench SUITE`:");
	for (size_t i = 0; bench_suites[i]; i++)
		printf("  %-10s %s\n", bench_suites[i]->name, bench_suites[i]->summary);
	return 0;
}

static const struct bench_suite *find_suite(const char *name)
{
	for (size_t i = 0; bench_suites[i]; i++) {
		if (!strcmp(bench_suites[i]->name, name))
			return bench_suites[i];
	}
	return NULL;
}

static int parse_repetitions(const char *text, unsigned *out)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || !value || value > REPETITIONS_MAX)
		return bench_fail(-EINVAL, "--reps %s: give a number from 1 to %u", text,
				  REPETITIONS_MAX);
	*out = (unsigned)value;
	return 0;
}

static int parse_arguments(int argc, char **argv, struct request *out)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"long", no_argument, NULL, 'l'},
		{"reps", required_argument, NULL, 'n'},
		{"row", required_argument, NULL, 'r'},
		{NULL, 0, NULL, 0},
	};
	int option;

	*out = (struct request){0};
	optind = 0; /* the caller may have used getopt before */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (option == 'j')
			out->as_json = true;
		else if (option == 'l')
			out->is_long = true;
		else if (option == 'n') {
			if (parse_repetitions(optarg, &out->repetitions))
				return -EINVAL;
		} else if (option == 'r')
			out->row = optarg;
		else
			return bench_fail(-EINVAL,
					  "%s: use [SUITE] [--json] [--long] [--reps N] [--row "
					  "PART-OF-A-NAME]",
					  argv[optind - 1]);
	}
	if (optind == argc)
		return 0;
	if (optind + 1 < argc)
		return bench_fail(-EINVAL, "%s: name one suite at a time", argv[optind + 1]);
	out->suite = find_suite(argv[optind]);
	if (!out->suite)
		return bench_fail(-EINVAL, "there is no suite %s: `afar bench` lists them",
				  argv[optind]);
	return 0;
}

int main(int argc, char **argv)
{
	struct request request;
	int status;

	signal(SIGPIPE, SIG_IGN);
	if (parse_arguments(argc, argv, &request))
		return 2;
	status = request.suite ? run_suite(&request) : list_suites();
	/* Somebody who has read enough and closed the pipe is no reason for a message, but no success either. */
	if (fflush(stdout) && !status)
		status = errno == EPIPE ? EXIT_NO_READER
					: bench_fail(1, "write the result: %s", strerror(errno));
	return status;
}
