/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator of write amplification: traces are what they say, and greedy cleaning of uniform
 * writes is what is known of it. The oracle's split is the best one, and our streams come near it,
 * on a small device.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "simulator/oracle.h"
#include "simulator/simulate.h"
#include "unit/group.h"

#define CAPACITY 131072U

static const struct simulate_options usual = {
	.segment_blocks = 64, .full_percent = 90, .nr_streams = 8, .nr_times = 5};

static struct trace *make(const char *name)
{
	struct trace *trace;

	assert_int_equal(trace_make(name, simulate_trace_blocks(CAPACITY, &usual), 1, &trace), 0);
	return trace;
}

static struct simulate_result run_anew(const char *name, enum simulate_policy policy)
{
	struct trace *trace = make(name);
	struct simulate_result result;

	assert_int_equal(simulate(trace, &usual, policy, &result), 0);
	trace_close(trace);
	return result;
}

/* Several tests look at the same run: it is done once. */
static struct simulate_result run(const char *name, enum simulate_policy policy)
{
	static struct simulate_result results[16][SIMULATE_NR_POLICIES];
	unsigned number = 0;

	while (strcmp(trace_rules[number].name, name) != 0)
		number++;
	assert_true(number < 16);
	if (!results[number][policy].written)
		results[number][policy] = run_anew(name, policy);
	return results[number][policy];
}

/* ---- Traces */

/*
 * Each block is written as often as trace_rate() says: by the sum of squares over what chance makes
 * of it.
 */
static void test_traces_keep_their_rates(void **state)
{
	const uint64_t nr_writes = 600000;
	double expected, sum, all;
	struct trace *trace;
	uint32_t nr, *counts;

	(void)state;
	for (const struct trace_rule *rule = trace_rules; rule->name; rule++) {
		trace = make(rule->name);
		nr = trace_nr_blocks(trace);
		counts = calloc(nr, sizeof(*counts));
		assert_non_null(counts);
		for (uint64_t i = 0; i < nr_writes; i++)
			counts[trace_next(trace)]++;
		sum = all = 0;
		for (uint32_t i = 0; i < nr; i++) {
			expected = trace_rate(trace, i) * (double)nr_writes / nr;
			all += trace_rate(trace, i);
			sum += (counts[i] - expected) * (counts[i] - expected) / expected;
		}
		assert_true(fabs(all / nr - 1) < 1e-4);
		assert_true(sum / nr < 1.05);
		free(counts);
		trace_close(trace);
	}
}

static double hottest_share(const char *name, double part)
{
	struct trace *trace = make(name);
	double threshold = 1, sum = 0;
	uint32_t nr = trace_nr_blocks(trace), nr_hot = 0;

	for (uint32_t i = 0; i < nr; i++) {
		if (trace_rate(trace, i) > threshold) {
			sum += trace_rate(trace, i) / nr;
			nr_hot++;
		}
	}
	assert_true(fabs((double)nr_hot / nr - part) < 0.001);
	trace_close(trace);
	return sum;
}

static int compare_rates(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a > b ? -1 : a < b;
}

static double share_of_top(const char *name, double part)
{
	struct trace *trace = make(name);
	uint32_t nr = trace_nr_blocks(trace);
	double *rates = malloc(nr * sizeof(*rates)), sum = 0;

	assert_non_null(rates);
	for (uint32_t i = 0; i < nr; i++)
		rates[i] = trace_rate(trace, i);
	qsort(rates, nr, sizeof(*rates), compare_rates);
	for (uint32_t i = 0; i < (uint32_t)(part * nr); i++)
		sum += rates[i] / nr;
	free(rates);
	trace_close(trace);
	return sum;
}

static void test_skew_is_as_named(void **state)
{
	(void)state;
	assert_true(fabs(hottest_share("80/20", 0.20) - 0.80) < 0.001);
	assert_true(fabs(hottest_share("95/20", 0.20) - 0.95) < 0.001);
	assert_true(fabs(hottest_share("95/5", 0.05) - 0.95) < 0.001);
	/* Those above the average are fewer than 20 % of the blocks. */
	assert_true(share_of_top("zipf-0.90", 0.20) > 0.78 &&
		    share_of_top("zipf-0.90", 0.20) < 0.82);
	assert_true(share_of_top("zipf-1.13", 0.20) > 0.94 &&
		    share_of_top("zipf-1.13", 0.20) < 0.96);
}

static void test_rewinding(void **state)
{
	struct trace *trace = make("zipf-0.99");
	uint32_t first[100];

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		first[i] = trace_next(trace);
	trace_rewind(trace);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(trace_next(trace), first[i]);
	trace_close(trace);
}

static int read_text(const char *text, struct trace **trace)
{
	char path[] = "/tmp/afar-trace-XXXXXX";
	int fd = mkstemp(path), ret;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	ret = trace_read(path, trace);
	unlink(path);
	return ret;
}

static void expect_blocks(const char *text, uint32_t nr_blocks, const uint32_t *blocks, unsigned nr)
{
	struct trace *trace;

	assert_int_equal(read_text(text, &trace), 0);
	assert_int_equal(trace_nr_blocks(trace), nr_blocks);
	assert_int_equal(trace_length(trace), nr);
	for (unsigned i = 0; i < 2 * nr; i++)
		assert_int_equal(trace_next(trace), blocks[i % nr]);
	trace_close(trace);
}

static void test_files(void **state)
{
	static const uint32_t plain[] = {2, 0, 1, 2};
	static const uint32_t log[] = {0, 1, 2, 0};

	(void)state;
	expect_blocks("# a comment\n900\n5\n\n17\n900\n", 3, plain, 4);
	expect_blocks("fio version 2 iolog\nf add\nf open\nf write 4096 8192\nf read 0 4096\n"
		      "f write 20480 1\nf write 4097 4095\nf close\n",
		      3, log, 4);
	expect_blocks("fio version 3 iolog\n0 f add\n1 f open\n2 f write 4096 8192\n"
		      "3 f write 20480 4096\n3 f trim 0 4096\n4 f write 4096 4096\n",
		      3, log, 4);
}

static void test_bad_files(void **state)
{
	static const char *const bad[] = {"",
					  "x\n",
					  "1\n-2\n",
					  "1 2\n",
					  "18446744073709551616\n",
					  "f write 1\n",
					  "f write a 4096\n",
					  "f write 18446744073709551615 4096\n",
					  "f write 0 99999999999999999\n"};
	struct trace *trace;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_true(read_text(bad[i], &trace) < 0);
		assert_non_null(strstr(error_last_line(), "read the trace"));
	}
	assert_int_equal(trace_read("/nowhere/at/all", &trace), -ENOENT);
	assert_int_equal(trace_make("80/30", 100, 1, &trace), -ENOENT);
}

/* ---- The oracle */

static double amplification(struct oracle_group *groups, unsigned nr, const double *spare)
{
	double sum = 0;

	/* By itself a group gets all of what it is given. */
	for (unsigned i = 0; i < nr; i++) {
		struct oracle_group alone = groups[i];

		sum += alone.writes *
		       oracle_split(&(struct oracle_group){alone.blocks, 1, 0}, 1, spare[i]);
	}
	return sum;
}

static void test_split_of_one_group(void **state)
{
	struct oracle_group group = {.blocks = 900, .writes = 1};

	(void)state;
	/* 90 % full: 1 - v from 0.9 = (1 - v) / -ln v. */
	assert_true(fabs(oracle_split(&group, 1, 100) - 5.18) < 0.05);
	assert_true(fabs(group.spare - 100) < 0.01);
}

static void test_equals_share_equally(void **state)
{
	struct oracle_group groups[3] = {{100, 0.1, 0}, {300, 0.3, 0}, {600, 0.6, 0}};

	(void)state;
	assert_true(fabs(oracle_split(groups, 3, 150) -
			 oracle_split(&(struct oracle_group){1000, 1, 0}, 1, 150)) < 1e-3);
	assert_true(fabs(groups[0].spare - 15) < 0.01 && fabs(groups[2].spare - 90) < 0.01);
}

static void test_no_other_split_is_better(void **state)
{
	struct oracle_group groups[3] = {{50, 0.7, 0}, {250, 0.2, 0}, {700, 0.1, 0}};
	double best = oracle_split(groups, 3, 110), spare[3];

	(void)state;
	for (unsigned from = 0; from < 3; from++) {
		for (unsigned to = 0; to < 3; to++) {
			for (unsigned i = 0; i < 3; i++)
				spare[i] = groups[i].spare;
			assert_true(fabs(amplification(groups, 3, spare) - best) < 1e-3);
			if (from == to)
				continue;
			spare[from] -= 3;
			spare[to] += 3;
			assert_true(amplification(groups, 3, spare) > best + 1e-4);
		}
	}
}

/* ---- The simulator */

static void test_uniform_is_as_analysed(void **state)
{
	struct simulate_result greedy = run("uniform", SIMULATE_GREEDY);
	struct simulate_result oracle = run("uniform", SIMULATE_ORACLE);

	(void)state;
	/* Segments of few blocks differ more, which is to the good of greedy cleaning. */
	assert_true(greedy.late < oracle.predicted && greedy.late > 0.92 * oracle.predicted);
	assert_int_equal(greedy.nr_streams, 1);
	assert_int_equal(oracle.nr_streams, 1);
}

static void test_runs_repeat(void **state)
{
	struct simulate_result first = run("95/20", SIMULATE_OURS),
			       second = run_anew("95/20", SIMULATE_OURS);

	(void)state;
	assert_int_equal(first.written, 5 * first.capacity);
	assert_int_equal(first.moved, second.moved);
	assert_true(first.moved > 0);
}

static void test_sequential_writes_move_nothing(void **state)
{
	(void)state;
	for (int policy = 0; policy < SIMULATE_NR_POLICIES; policy++)
		assert_int_equal(run("sequential", (enum simulate_policy)policy).moved, 0);
}

/* Returns how much of the oracle's gain over greedy cleaning is reached. */
static double part_of_gain(const char *name, enum simulate_policy policy)
{
	double greedy = run(name, SIMULATE_GREEDY).amplification;

	return (greedy - run(name, policy).amplification) /
	       (greedy - run(name, SIMULATE_ORACLE).amplification);
}

static void test_skew_is_learnt(void **state)
{
	(void)state;
	assert_true(part_of_gain("80/20", SIMULATE_OURS) > 0.8);
	assert_true(part_of_gain("95/20", SIMULATE_OURS) > 0.8);
	assert_true(part_of_gain("95/5", SIMULATE_OURS) > 0.9);
	assert_true(part_of_gain("zipf-0.99", SIMULATE_OURS) > 0.9);
}

static void test_hints_help(void **state)
{
	(void)state;
	assert_true(part_of_gain("80/20", SIMULATE_HINTED) > 0.95);
	assert_true(part_of_gain("zipf-0.99", SIMULATE_HINTED) > 0.95);
}

/* Two hints say less than the estimate learns, so they may only begin it. */
static void test_coarse_hints_help(void **state)
{
	static const char *const traces[] = {"80/20", "95/20", "95/5", "zipf-0.99", "zipf-1.13"};

	(void)state;
	for (unsigned i = 0; i < sizeof(traces) / sizeof(traces[0]); i++)
		assert_true(run(traces[i], SIMULATE_TOLD).amplification <
			    0.985 * run(traces[i], SIMULATE_OURS).amplification);
}

static void test_uniform_costs_little(void **state)
{
	(void)state;
	assert_true(run("uniform", SIMULATE_OURS).amplification <
		    1.02 * run("uniform", SIMULATE_GREEDY).amplification);
}

static void test_sequences_are_kept_apart(void **state)
{
	(void)state;
	assert_true(run("mixed", SIMULATE_OURS).amplification <
		    0.65 * run("mixed", SIMULATE_GREEDY).amplification);
}

static void test_too_small(void **state)
{
	struct simulate_options options = usual;
	struct simulate_result result;
	struct trace *trace;

	(void)state;
	for (unsigned streams = 1; streams <= 8; streams++) {
		for (uint32_t blocks = 1; blocks < 3000; blocks += 331) {
			options.nr_streams = streams;
			assert_int_equal(trace_make("80/20", blocks, 1, &trace), 0);
			for (int policy = 0; policy < SIMULATE_NR_POLICIES; policy++) {
				int ret = simulate(trace, &options, (enum simulate_policy)policy,
						   &result);

				assert_true(ret == 0 || ret == -EINVAL);
			}
			trace_close(trace);
		}
	}
}

TEST_GROUP(flash_simulate)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_traces_keep_their_rates),
		cmocka_unit_test(test_skew_is_as_named),
		cmocka_unit_test(test_rewinding),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_bad_files),
		cmocka_unit_test(test_split_of_one_group),
		cmocka_unit_test(test_equals_share_equally),
		cmocka_unit_test(test_no_other_split_is_better),
		cmocka_unit_test(test_uniform_is_as_analysed),
		cmocka_unit_test(test_runs_repeat),
		cmocka_unit_test(test_sequential_writes_move_nothing),
		cmocka_unit_test(test_skew_is_learnt),
		cmocka_unit_test(test_hints_help),
		cmocka_unit_test(test_coarse_hints_help),
		cmocka_unit_test(test_uniform_costs_little),
		cmocka_unit_test(test_sequences_are_kept_apart),
		cmocka_unit_test(test_too_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
