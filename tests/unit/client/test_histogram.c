/* SPDX-License-Identifier: BSD-3-Clause */
/* The histogram of spans, and what a session counts with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/histogram.h"
#include "client/session.h"
#include "unit/group.h"

static void test_buckets(void **state)
{
	uint64_t before = 0;

	(void)state;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t last = histogram_ns(i);

		assert_int_equal(histogram_bucket(last), i);
		if (i > 0) {
			assert_true(last > before);
			assert_int_equal(histogram_bucket(before + 1), i);
			/* No wider than one part in eight of where it begins. */
			assert_true(last - before <= (before + 1) / 8 + 1);
		}
		before = last;
	}
	assert_int_equal(before, (UINT64_C(1) << HISTOGRAM_POWERS) - 1);
	assert_int_equal(histogram_bucket(0), 0);
	assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

/* Against the values themselves. */
static void test_quantiles(void **state)
{
	static const unsigned per_mille[] = {1, 500, 900, 990, 999, 1000};
	enum { NR = 10000 };
	static uint64_t values[NR];
	struct histogram histogram = {0};
	uint64_t counts[HISTOGRAM_BUCKETS];
	uint32_t random = 1;

	(void)state;
	for (size_t i = 0; i < NR; i++) {
		random = random * 1664525U + 1013904223U;
		values[i] = (uint64_t)(random >> 8) >> (random & 15);
		histogram_add(&histogram, values[i], 1);
	}
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		counts[i] = counter_get(&histogram.counts[i]);
	qsort(values, NR, sizeof(values[0]), compare);
	for (size_t i = 0; i < sizeof(per_mille) / sizeof(per_mille[0]); i++) {
		uint64_t is = histogram_quantile(counts, per_mille[i]);
		uint64_t exact = values[NR / 1000 * per_mille[i] - 1];

		assert_int_equal(is, histogram_ns(histogram_bucket(exact)));
	}
}

static void test_quantiles_of_anything(void **state)
{
	uint64_t counts[HISTOGRAM_BUCKETS] = {0};

	(void)state;
	assert_int_equal(histogram_quantile(counts, 500), 0);
	counts[9] = 1;
	assert_int_equal(histogram_quantile(counts, 1), histogram_ns(9));
	assert_int_equal(histogram_quantile(counts, 1000), histogram_ns(9));
	/* More than can be summed up. */
	memset(counts, 0xff, sizeof(counts));
	assert_true(histogram_quantile(counts, 1000) <= histogram_ns(HISTOGRAM_BUCKETS - 1));
	assert_int_equal(histogram_quantile(counts, 0), histogram_ns(0));
}

/* ---- What a session counts */

static struct afar_session session;

static int open_session(void **state)
{
	(void)state;
	memset(&session, 0, sizeof(session));
	pthread_mutex_init(&session.lock, NULL);
	session_counts_init(&session.counts);
	return 0;
}

static int close_session(void **state)
{
	(void)state;
	session_counts_free(&session.counts);
	pthread_mutex_destroy(&session.lock);
	return 0;
}

/* `nr` operations that take `ns` each. */
static void do_operations(struct counts *counts, unsigned nr, uint64_t ns)
{
	for (unsigned i = 0; i < nr; i++) {
		uint32_t stands_for = counts_begin(counts);

		counts_end(counts, AFAR_OP_READ, 100, false);
		if (stands_for)
			counts_sample(counts, AFAR_OP_READ, clock_ns() - ns, stands_for);
	}
}

static uint64_t nr_sampled(const struct histogram *spans)
{
	uint64_t nr = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		nr += counter_get(&spans->counts[i]);
	return nr;
}

/* Samples stand for all operations, but for those that no sample has come behind yet. */
static void test_samples_stand_for_all(void **state)
{
	struct counts counts = {0};
	const struct count *reads = &counts.of[AFAR_OP_READ];
	const struct histogram *spans = &counts.spans[AFAR_OP_READ];

	(void)state;
	counts_open(&session, &counts);
	do_operations(&counts, 1, 0);
	assert_int_equal(nr_sampled(spans), 1);
	do_operations(&counts, 9999, 0);
	assert_int_equal(counter_get(&reads->nr), 10000);
	assert_int_equal(counter_get(&reads->bytes), 1000000);
	assert_true(nr_sampled(spans) <= 10000);
	assert_true(nr_sampled(spans) >= 10000 - COUNT_GAP_MASK - 1);
	/* Slow ones are looked at each, from the one behind the next sample on. */
	do_operations(&counts, 3 * (COUNT_GAP_MASK + 1), 10 * COUNT_SLOW_NS);
	assert_int_equal(nr_sampled(spans), counter_get(&reads->nr));
	counts_close(&session, &counts);
	assert_int_equal(counter_get(&session.counts.ended.of[AFAR_OP_READ].nr),
			 10000 + 3 * (COUNT_GAP_MASK + 1));
	assert_true(cds_list_empty(&session.counts.queues));
}

static void test_failures_move_nothing(void **state)
{
	struct counts counts = {0};

	(void)state;
	counts_end(&counts, AFAR_OP_WRITE, 100, true);
	counts_end(&counts, AFAR_OP_COMPARE_SWAP, 8, false);
	counts_end(&counts, AFAR_OP_FLUSH, 0, false);
	assert_int_equal(counter_get(&counts.of[AFAR_OP_WRITE].nr), 1);
	assert_int_equal(counter_get(&counts.of[AFAR_OP_WRITE].nr_failed), 1);
	assert_int_equal(counter_get(&counts.of[AFAR_OP_WRITE].bytes), 0);
	assert_int_equal(counter_get(&counts.of[AFAR_OP_COMPARE_SWAP].nr), 1);
	assert_int_equal(counter_get(&counts.of[AFAR_OP_FLUSH].nr), 1);
	/* One that was never opened can be closed. */
	counts_close(&session, &counts);
}

/* A path's counts stay when it ends, and when it becomes one over another transport. */
static void test_paths_that_end(void **state)
{
	struct path_count one = {0}, two = {0};
	const struct path_count *ended;

	(void)state;
	path_count_open(&session, &one, 1, "tcp");
	path_count_open(&session, &two, 1, "tcp");
	path_count_transfer(&one, false, 5);
	path_count_transfer(&two, true, 7);
	path_count_open(&session, &one, 1, "local");
	assert_int_equal(counter_get(&one.bytes[0]), 0);
	path_count_transfer(&one, false, 9);
	path_count_close(&session, &one);
	path_count_close(&session, &two);
	path_count_close(&session, &two);
	assert_true(cds_list_empty(&session.counts.paths));
	ended = cds_list_first_entry(&session.counts.ended_paths, struct path_count, node);
	assert_string_equal(ended->transport, "tcp");
	assert_int_equal(counter_get(&ended->bytes[0]), 5);
	assert_int_equal(counter_get(&ended->bytes[1]), 7);
	ended = cds_list_entry(session.counts.ended_paths.prev, struct path_count, node);
	assert_string_equal(ended->transport, "local");
	assert_int_equal(counter_get(&ended->bytes[0]), 9);
}

#define COUNTS_TEST(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)

TEST_GROUP(histogram)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_quantiles),
		cmocka_unit_test(test_quantiles_of_anything),
		COUNTS_TEST(test_samples_stand_for_all),
		COUNTS_TEST(test_failures_move_nothing),
		COUNTS_TEST(test_paths_that_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
