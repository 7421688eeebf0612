/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * afar-sort, which `afar sort …` runs: makes records, sorts regions and files by several workers, and looks whether they are
 * sorted. Here are the command line, the workers' processes, and what people see. sort.h is the sort itself.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "commands.h"
#include "sort.h"
#include "tools/cli/cli.h"
#include "tools/cli/interrupts.h"
#include "tools/copy/failure.h"
#include "workers.h"

#define SHOW_NS	    100000000U
#define PATIENCE_MS 30000
#define MEMBER_MS   2000 /* for a worker that has told of its failure to end */

/* ---- What people see, and when to end: the context of the functions that the sort calls */

struct watch {
	struct workers *workers; /* NULL: there are none */
	uint64_t shown_ns;
	bool is_terminal, is_shown;
};

static bool is_ended(void *context)
{
	struct watch *watch = context;

	return is_interrupted() || (watch->workers && workers_look(watch->workers));
}

static void show(void *context, const char *step, double part)
{
	struct watch *watch = context;
	uint64_t now = clock_ns();

	if (!watch->is_terminal || now - watch->shown_ns < SHOW_NS)
		return;
	fprintf(stderr, "\r%s  %3.0f %%\033[K", step, 100 * part);
	watch->shown_ns = now;
	watch->is_shown = true;
}

static void watch_begin(struct watch *watch)
{
	*watch = (struct watch){.is_terminal = isatty(STDERR_FILENO) == 1, .shown_ns = clock_ns()};
	catch_interrupts();
}

static void watch_end(struct watch *watch)
{
	if (watch->is_shown)
		fputs("\r\033[K", stderr);
	watch->is_shown = false;
}

static void say_done(const char *what, uint64_t bytes, uint64_t started_ns)
{
	double seconds = (double)(clock_ns() - started_ns) / 1e9;
	char size[SIZE_TEXT_MAX];

	cli_print(what);
	printf(": %s in %.3f s, %.0f MB/s\n", size_text(bytes, size), seconds,
	       (double)bytes / seconds / 1e6);
}

/* Fails with the sort's line, or silently after an interrupt. */
static int fail(void)
{
	return is_interrupted() ? CLI_INTERRUPTED : cli_fail("%s", app_failure());
}

static int parse_count(const struct cli_command *command, const char *what, const char *text,
		       uint64_t max, uint64_t *out)
{
	if (number_parse(text, max, out) || !*out)
		return cli_misuse(command, "%s '%.64s' is not a number from 1 to %" PRIu64, what,
				  text, max);
	return 0;
}

/* ---- Generating */

static int sort_make(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *records = NULL, *seed = NULL, *skew = NULL, *replace = NULL;
	const struct cli_flag flags[] = {
		{"records", "N", "how many; 100 bytes each", &records},
		{"seed", "N", "equal seeds make equal records (default 0)", &seed},
		{"skew", NULL, "half of the keys begin with one of few prefixes", &skew},
		{"replace", NULL, "a region of that name", &replace},
		{0},
	};
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct watch watch;
	struct sort_made made = {.is_ended = is_ended, .show = show, .context = &watch};
	uint64_t started_ns = clock_ns();
	int ret, status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	if (!records)
		return cli_misuse(command, "how many? Give --records");
	if (parse_count(command, "--records", records, INT64_MAX / SORT_RECORD_BYTES,
			&made.nr_records))
		return CLI_USAGE;
	if (seed && number_parse(seed, UINT64_MAX, &made.seed))
		return cli_misuse(command, "--seed '%.64s' is not a number", seed);
	made.is_skewed = skew != NULL;
	made.may_replace = replace != NULL;
	status = cli_open(cli);
	if (status)
		return status;
	watch_begin(&watch);
	ret = sort_generate(cli->session, arguments[0], &made);
	watch_end(&watch);
	if (ret)
		return cli_close(cli, fail());
	say_done(arguments[0], made.nr_records * SORT_RECORD_BYTES, started_ns);
	return cli_close(cli, 0);
}

/* ---- Verifying */

static int look_at(struct cli *cli, const char *name, bool is_lines, struct watch *watch,
		   struct sort_found *out)
{
	const struct sort_options options = {
		.input = name,
		.is_lines = is_lines,
		.is_ended = is_ended,
		.show = show,
		.context = watch,
	};
	int ret = sort_verify(cli->session, &options, out);

	watch_end(watch);
	return ret ? fail() : 0;
}

static int judge(const char *name, const struct sort_found *found, const char *against,
		 const struct sort_found *expected)
{
	if (found->nr_unsorted)
		return cli_fail(
			"verify %s: %" PRIu64 " of %" PRIu64
			" items are less than the one before, the first of them item %" PRIu64
			" counted from 0",
			name, found->nr_unsorted, found->nr_items, found->first_unsorted);
	if (against && found->nr_items != expected->nr_items)
		return cli_fail("verify %s: it has %" PRIu64 " items, but %s has %" PRIu64, name,
				found->nr_items, against, expected->nr_items);
	if (against && found->sum != expected->sum)
		return cli_fail("verify %s: its items are not those of %s: their sum is %016" PRIx64
				", not %016" PRIx64,
				name, against, found->sum, expected->sum);
	cli_print(name);
	printf(": %" PRIu64 " items in order, %" PRIu64 " equal to the one before, sum %016" PRIx64
	       "%s\n",
	       found->nr_items, found->nr_equal, found->sum, against ? ", as expected" : "");
	return 0;
}

static int sort_check(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *lines = NULL, *against = NULL;
	const struct cli_flag flags[] = {
		{"lines", NULL, "items are lines, not records of 100 bytes", &lines},
		{"against", "FILE|NS:NAME", "what was sorted: compare count and sum", &against},
		{0},
	};
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct sort_found found, expected = {0};
	struct watch watch;
	int status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	status = cli_open(cli);
	if (status)
		return status;
	watch_begin(&watch);
	status = look_at(cli, arguments[0], lines != NULL, &watch, &found);
	if (!status && against)
		status = look_at(cli, against, lines != NULL, &watch, &expected);
	if (!status)
		status = judge(arguments[0], &found, against, &expected);
	return cli_close(cli, status);
}

/* ---- Sorting */

/* The flags of `sort run`, as they were typed. */
struct request {
	struct job_flags job;
	const char *ns, *meet, *bucket, *lines, *replace, *verbose;
	char what[300]; /* the job, for people */
};

static int take_options(const struct cli *cli, const struct cli_command *command,
			struct request *request, struct sort_options *options)
{
	snprintf(request->what, sizeof(request->what), "sort %.256s", options->input);
	options->ns = request->ns;
	options->meet_ns = request->meet;
	options->is_lines = request->lines != NULL;
	options->may_replace = request->replace != NULL;
	options->is_verbose = request->verbose != NULL;
	options->patience_ms = cli->timeout_ms ? cli->timeout_ms : PATIENCE_MS;
	if (request->ns && strlen(request->ns) > AFAR_NAME_MAX)
		return cli_misuse(command, "--ns: a namespace's name has at most %d bytes",
				  AFAR_NAME_MAX);
	if (request->bucket &&
	    cli_size(command, "--bucket", request->bucket, &options->bucket_bytes))
		return CLI_USAGE;
	if (workers_take_flags(command, "sort", 0, &request->job))
		return CLI_USAGE;
	options->job = request->job.name;
	options->worker = request->job.number;
	options->nr_workers = request->job.nr;
	return 0;
}

/* Says what it will take, before anything is made. */
static int say_needs(struct cli *cli, const struct sort_options *options)
{
	char input[SIZE_TEXT_MAX], ns[SIZE_TEXT_MAX], worker[SIZE_TEXT_MAX];
	struct sort_needs needs;

	if (sort_look(cli->session, options, &needs))
		return fail();
	printf("sorting %s with %u worker%s: takes %s of ", size_text(needs.input_bytes, input),
	       options->nr_workers, cli_plural(options->nr_workers), size_text(needs.ns_bytes, ns));
	cli_print(needs.ns);
	if (needs.meet_bytes) {
		printf(", %s of ", size_text(needs.meet_bytes, ns));
		cli_print(needs.meet_ns);
	}
	printf(", and about %s in each worker\n", size_text(needs.worker_bytes, worker));
	fflush(stdout);
	return 0;
}

/* Says what has gone wrong, in one line of whoever knows. */
static int complain(struct workers *workers, int error)
{
	if (is_interrupted())
		return CLI_INTERRUPTED;
	if (error == -EREMOTEIO)
		workers_wait(workers, MEMBER_MS);
	return workers->failed ? workers_complain(workers) : fail();
}

static int start_others(struct cli *cli, const struct request *request,
			const struct sort_options *options, struct workers *workers)
{
	const char *words[16] = {"run"};
	unsigned nr = 1;

	if (options->ns) {
		words[nr++] = "--ns";
		words[nr++] = options->ns;
	}
	if (options->meet_ns) {
		words[nr++] = "--meet";
		words[nr++] = options->meet_ns;
	}
	if (options->is_lines)
		words[nr++] = "--lines";
	if (options->is_verbose)
		words[nr++] = "--verbose";
	words[nr++] = "--";
	words[nr++] = options->input;
	words[nr++] = options->output;
	words[nr] = NULL;
	return workers_start(cli, request->what, &request->job, words, workers);
}

/* Works as worker 0, beside those that it has started. */
static int lead(struct cli *cli, const struct request *request, struct sort_options *options)
{
	struct watch *watch = options->context;
	struct workers workers = {0};
	uint64_t started_ns = clock_ns(), bytes = 0;
	struct sort_needs needs;
	struct sort_job *job;
	int ret, status;

	if (sort_look(cli->session, options, &needs) || sort_prepare(cli->session, options, &job))
		return fail();
	bytes = needs.output_bytes;
	status = request->job.worker ? 0 : start_others(cli, request, options, &workers);
	watch->workers = &workers;
	ret = status ? status : sort_work(job);
	watch_end(watch);
	if (ret && !status)
		status = complain(&workers, ret);
	/* Nobody runs on who could keep memory from being given back: one that stands still would. */
	if (!ret)
		workers_wait(&workers, (int)options->patience_ms);
	workers_stop(&workers);
	if (!ret && options->is_verbose)
		workers_tell(&workers);
	sort_end(job);
	workers_free(&workers);
	watch->workers = NULL;
	if (!status)
		say_done(options->output, bytes, started_ns);
	return status;
}

static int follow(struct cli *cli, const struct sort_options *options)
{
	struct sort_job *job;
	int ret = sort_join(cli->session, options, &job);

	if (!ret)
		ret = sort_work(job);
	if (job)
		sort_end(job);
	return ret ? fail() : 0;
}

static int run(struct cli *cli, const struct request *request, struct sort_options *options)
{
	int status;

	if (options->worker)
		return follow(cli, options);
	status = say_needs(cli, options);
	return status ? status : lead(cli, request, options);
}

static int sort_run(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	struct request request = {0};
	const struct cli_flag flags[] = {
		{"workers", "N", "processes of this machine (default: as many as cores)",
		 &request.job.workers},
		{"lines", NULL, "items are lines, not records of 100 bytes", &request.lines},
		{"ns", "NS", "for the buckets (default: that of the output, else of the input)",
		 &request.ns},
		{"meet", "NS",
		 "where workers meet, in memory (default: that of the buckets, output or input)",
		 &request.meet},
		{"replace", NULL, "a region of that name", &request.replace},
		{"bucket", "SIZE", "sorted at a time (default 4M)", &request.bucket},
		{"worker", "I/N", "be worker I, from 0 on, of N on several machines",
		 &request.job.worker},
		{"job", "NAME", "what workers on several machines meet by", &request.job.job},
		{"verbose", NULL, "say where the time goes", &request.verbose},
		{0},
	};
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct watch watch;
	struct sort_options options = {.is_ended = is_ended, .show = show, .context = &watch};
	int status;

	if (cli_arguments(cli, command, flags, argc, argv, 2, 2, arguments, &status) < 0)
		return status;
	options.input = arguments[0];
	options.output = arguments[1];
	status = take_options(cli, command, &request, &options);
	if (!status)
		status = cli_open(cli);
	if (status)
		return status;
	watch_begin(&watch);
	status = run(cli, &request, &options);
	watch_end(&watch);
	return cli_close(cli, status);
}

#define COMMAND(name, arguments, summary, run) {name, arguments, summary, run},

static const struct cli_command commands[] = {SORT_COMMANDS(COMMAND){0}};

int main(int argc, char **argv)
{
	static const struct cli_command *const groups[] = {commands, NULL};
	struct cli cli = {.groups = groups};

	cli_begin();
	return cli_end(cli_run(&cli, "sort", argc, argv));
}
