/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * afar-simulate, which `afar bench simulate` runs: runs traces through the simulator (simulate.h), once for each
 * contender, and shows their write amplification side by side.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "flash/write/streams.h"
#include "simulator/simulate.h"
#include "tools/cli/cli.h"

#define BLOCK_BYTES	 4096U
#define CAPACITY_DEFAULT (UINT64_C(2) << 30)
#define CAPACITY_MAX	 (UINT64_C(64) << 30)
#define SEGMENT_MAX	 (UINT64_C(64) << 20)
#define FULL_MAX	 99
#define TIMES_MAX	 1000
#define NAMES_MAX	 256
#define COLUMN		 12

struct job {
	const char *trace; /* NULL: all rules */
	uint64_t capacity; /* bytes           */
	uint64_t seed;
	struct simulate_options options;
	json_t *report; /* NULL: a table */
	bool is_headed; /* the table     */
};

/* Takes a plain number for the flag `name`, if it is given. Returns 0, or CLI_USAGE with a line. */
static int take_number(const struct cli_command *command, const char *name, const char *text,
		       uint64_t least, uint64_t most, uint64_t *out)
{
	if (!text || (!number_parse(text, most, out) && *out >= least))
		return 0;
	return cli_misuse(command, "--%s: '%.64s' is not a number from %llu to %llu", name, text,
			  (unsigned long long)least, (unsigned long long)most);
}

/* Takes a size in whole blocks, from `least` to `most` bytes, likewise. */
static int take_size(const struct cli_command *command, const char *name, const char *text,
		     uint64_t least, uint64_t most, uint64_t *out)
{
	char low[SIZE_TEXT_MAX], high[SIZE_TEXT_MAX];
	int ret;

	if (!text)
		return 0;
	ret = cli_size(command, name, text, out);
	if (ret)
		return ret;
	if (*out >= least && *out <= most && *out % BLOCK_BYTES == 0)
		return 0;
	return cli_misuse(command, "--%s: '%.64s' is not a multiple of %u from %s to %s", name,
			  text, BLOCK_BYTES, size_text(least, low), size_text(most, high));
}

static bool is_rule(const char *name)
{
	for (const struct trace_rule *rule = trace_rules; rule->name; rule++) {
		if (!strcmp(rule->name, name))
			return true;
	}
	return false;
}

static int refuse_trace(const struct cli_command *command, const char *name)
{
	char known[NAMES_MAX] = "";

	for (const struct trace_rule *rule = trace_rules; rule->name; rule++)
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			 *known ? ", " : "", rule->name);
	return cli_misuse(command,
			  "--trace: '%.64s' is no file, and no trace by name; there are %s", name,
			  known);
}

/* ---- Showing */

static void print_heading(const struct job *job)
{
	char capacity[SIZE_TEXT_MAX], segment[SIZE_TEXT_MAX];

	printf("Write amplification, %u %% full, segments of %s", job->options.full_percent,
	       size_text((uint64_t)job->options.segment_blocks * BLOCK_BYTES, segment));
	printf(", %u × the capacity (%s) written after it was filled\n\n", job->options.nr_times,
	       job->trace && !is_rule(job->trace) ? "as the trace needs"
						  : size_text(job->capacity, capacity));
	printf("%-*s %7s %7s %7s %7s %7s  %s\n", COLUMN, "TRACE", "GREEDY", "OURS", "TOLD",
	       "HINTED", "ORACLE", "OF THE ORACLE'S GAIN");
}

static void print_row(struct job *job, const char *name, const struct simulate_result *results)
{
	double greedy = results[SIMULATE_GREEDY].amplification;
	double gain = greedy - results[SIMULATE_OURS].amplification;
	double possible = greedy - results[SIMULATE_ORACLE].amplification;

	if (!job->is_headed)
		print_heading(job);
	job->is_headed = true;
	cli_print_padded(name, COLUMN);
	printf(" %7.3f %7.3f %7.3f %7.3f %7.3f  ", greedy, results[SIMULATE_OURS].amplification,
	       results[SIMULATE_TOLD].amplification, results[SIMULATE_HINTED].amplification,
	       results[SIMULATE_ORACLE].amplification);
	/* If the rates say nothing, there is nothing to be gained from them. */
	if (possible < greedy / 100)
		printf("-\n");
	else
		printf("%.0f %%\n", 100 * gain / possible);
}

static json_t *json_of_result(const struct simulate_result *result)
{
	json_t *object = json_pack(
		"{s:I, s:I, s:f, s:f, s:i}", "written_blocks", (json_int_t)result->written,
		"moved_blocks", (json_int_t)result->moved, "amplification", result->amplification,
		"late_amplification", result->late, "nr_streams", (int)result->nr_streams);

	json_object_set_new(object, "predicted_amplification",
			    result->predicted > 0 ? json_real(result->predicted) : json_null());
	return object;
}

static void add_row(const struct job *job, const char *name, const struct simulate_result *results)
{
	uint64_t capacity = results[0].capacity * BLOCK_BYTES;
	uint64_t segment = (uint64_t)job->options.segment_blocks * BLOCK_BYTES;
	json_t *object =
		json_pack("{s:s%, s:I, s:I, s:i}", "trace", name, strlen(name), "capacity_bytes",
			  (json_int_t)capacity, "segment_bytes", (json_int_t)segment,
			  "full_percent", (int)job->options.full_percent);

	for (int policy = 0; policy < SIMULATE_NR_POLICIES; policy++)
		json_object_set_new(object, simulate_policy_name((enum simulate_policy)policy),
				    json_of_result(&results[policy]));
	json_array_append_new(job->report, object);
}

/* ---- Running */

static int run_trace(struct job *job, const char *name, struct trace *trace)
{
	struct simulate_result results[SIMULATE_NR_POLICIES];

	for (int policy = 0; policy < SIMULATE_NR_POLICIES; policy++) {
		if (simulate(trace, &job->options, (enum simulate_policy)policy, &results[policy]))
			return cli_fail("%s", error_last_line());
	}
	if (job->report)
		add_row(job, name, results);
	else
		print_row(job, name, results);
	fflush(stdout);
	return 0;
}

static int run_rule(struct job *job, const char *name)
{
	uint32_t nr_blocks = simulate_trace_blocks(job->capacity / BLOCK_BYTES, &job->options);
	struct trace *trace;
	int ret;

	if (!nr_blocks)
		return cli_fail("simulate: the capacity is less than a segment; take more, or "
				"smaller segments");
	if (trace_make(name, nr_blocks, job->seed, &trace))
		return cli_fail("simulate %s: out of memory; take less capacity", name);
	ret = run_trace(job, name, trace);
	trace_close(trace);
	return ret;
}

static int run_file(struct job *job, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct trace *trace;
	int ret;

	if (trace_read(path, &trace))
		return cli_fail("%s", error_last_line());
	ret = run_trace(job, slash ? slash + 1 : path, trace);
	trace_close(trace);
	return ret;
}

static int run_job(struct job *job)
{
	int ret = 0;

	if (job->trace)
		return is_rule(job->trace) ? run_rule(job, job->trace) : run_file(job, job->trace);
	for (const struct trace_rule *rule = trace_rules; rule->name && !ret; rule++)
		ret = run_rule(job, rule->name);
	return ret;
}

static int run_and_report(struct job *job, bool as_json)
{
	int ret;

	if (as_json && !(job->report = json_array()))
		return cli_fail("simulate: out of memory");
	ret = run_job(job);
	if (!ret && as_json) {
		json_dumpf(job->report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(5));
		putchar('\n');
	}
	json_decref(job->report);
	return ret;
}

static int run(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *trace = NULL, *full = NULL, *capacity = NULL, *segment = NULL, *streams = NULL,
		   *times = NULL, *seed = NULL, *as_json = NULL;
	const struct cli_flag flags[] = {
		{"trace", "NAME|FILE", "one trace, by name or from a file (default: all names)",
		 &trace},
		{"full", "PERCENT", "how full the device is (default 90)", &full},
		{"capacity", "SIZE", "of the device, for traces by name (default 2G)", &capacity},
		{"segment", "SIZE", "of a segment (default 1M)", &segment},
		{"streams", "N", "how many streams to write to (default 8)", &streams},
		{"times", "N", "write the capacity so often (default 5)", &times},
		{"seed", "N", "another one makes other traces (default 1)", &seed},
		{"json", NULL, "as JSON", &as_json},
		{0},
	};
	uint64_t full_percent = SIMULATE_FULL_PERCENT, nr_streams = STREAMS_DEFAULT,
		 nr_times = SIMULATE_NR_TIMES;
	uint64_t segment_bytes = SIMULATE_SEGMENT_BLOCKS * (uint64_t)BLOCK_BYTES;
	struct job job = {.capacity = CAPACITY_DEFAULT, .seed = 1};
	int ret;

	if (cli_arguments(cli, command, flags, argc, argv, 0, 0, arguments, &ret) < 0)
		return ret;
	if (take_number(command, "full", full, 1, FULL_MAX, &full_percent) ||
	    take_number(command, "streams", streams, 1, STREAMS_MAX, &nr_streams) ||
	    take_number(command, "times", times, 1, TIMES_MAX, &nr_times) ||
	    take_number(command, "seed", seed, 0, UINT64_MAX, &job.seed) ||
	    take_size(command, "segment", segment, BLOCK_BYTES, SEGMENT_MAX, &segment_bytes) ||
	    take_size(command, "capacity", capacity, BLOCK_BYTES, CAPACITY_MAX, &job.capacity))
		return CLI_USAGE;
	if (trace && !is_rule(trace) && !strchr(trace, '/') && access(trace, F_OK))
		return refuse_trace(command, trace);
	job.trace = trace;
	job.options =
		(struct simulate_options){.segment_blocks = (uint32_t)(segment_bytes / BLOCK_BYTES),
					  .full_percent = (unsigned)full_percent,
					  .nr_streams = (unsigned)nr_streams,
					  .nr_times = (unsigned)nr_times};
	return run_and_report(&job, as_json);
}

int main(int argc, char **argv)
{
	static const struct cli_command command = {
		"bench simulate",
		"[--trace NAME|FILE] [--full PERCENT] [--capacity SIZE] [--segment SIZE] "
		"[--streams N] [--times N] [--seed N] [--json]",
		"count what the cleaner of a flash layer would move", run};
	struct cli cli = {0};

	cli_begin();
	return cli_end(run(&cli, &command, argc, argv));
}
