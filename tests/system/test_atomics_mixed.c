/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server with lanes over two transports, and sessions over each of them at once on the same words. Every value is
 * given out once, and compare-and-swap loses nothing. The next holder of a lock in a region sees what the lock
 * guards. On verbs the other transport is tcp; elsewhere the two are local and tcp. The last tests have regions
 * whose atomics network cards do, when a lane that is not over verbs is the best.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/api/api.h"
#include "lib/base/transport.h"

#define NAME	      "mixed"
#define NR_OF_A_KIND  3U
#define NR_WORKERS    (2 * NR_OF_A_KIND)
#define NR_WORDS      2U /* of each kind */
#define NR_ROUNDS_MAX 300U
#define BYTES	      (64 * KIB)
#define ADDED(i)      ((i)*4 * KIB)
#define SWAPPED(i)    ((i)*4 * KIB + 64)
#define LOCK	      ((uint64_t)128)
#define GUARDED	      (4 * KIB + (uint64_t)128)
#define NR_GUARDED    4U /* words */
#define GUARDED_BYTES (NR_GUARDED * sizeof(uint64_t))

struct worker {
	pthread_t thread;
	const char *path;
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_queue *queue;
	struct afar_buffer *buffer;
	uint64_t got[NR_WORDS][NR_ROUNDS_MAX]; /* the values before the additions */
	const char *failed;		       /* NULL: nothing */
};

static struct worker workers[NR_WORKERS];
static pthread_barrier_t all_there;

/* Over an emulated network each round has to wait, and fewer are enough. */
static unsigned nr_rounds(void)
{
	return is_on_verbs() ? 30 : NR_ROUNDS_MAX;
}

static int start_both(void **state)
{
	static char lanes[192];

	(void)state;
	if (is_on_verbs())
		snprintf(lanes, sizeof(lanes), "local,verbs:%s,tcp:%s", any_port(), any_port());
	else
		snprintf(lanes, sizeof(lanes), "local,tcp:%s", any_port());
	if (cluster_start_at(test_host(), lanes, 64 * MIB, &cluster))
		return -1;
	return afar_session_open(cluster_uri(cluster), NULL, &session);
}

/* ---- A worker */

#define try(call)                               \
	do {                                    \
		if ((call) < 0) {               \
			worker->failed = #call; \
			return;                 \
		}                               \
	} while (0)

static void worker_open(struct worker *worker)
{
	const struct afar_session_options options = {.size = sizeof(options), .path = worker->path};

	try(afar_session_open(cluster_uri(cluster), &options, &worker->session));
	try(afar_namespace_open(worker->session, NAME, &worker->ns));
	try(afar_region_open(worker->ns, NAME, &worker->region));
	try(afar_buffer_alloc(worker->session, GUARDED_BYTES, &worker->buffer));
	try(afar_queue_open(worker->session, NULL, &worker->queue));
	try(afar_queue_connect(worker->queue, afar_region_target(worker->region)));
}

static void worker_close(struct worker *worker)
{
	try(afar_queue_close(worker->queue));
	try(afar_buffer_unregister(worker->buffer));
	try(afar_region_close(worker->region));
	try(afar_namespace_close(worker->ns));
	try(afar_session_close(worker->session));
}

static void add(struct worker *worker)
{
	for (unsigned round = 0; round < nr_rounds(); round++) {
		for (unsigned i = 0; i < NR_WORDS; i++)
			try(afar_region_fetch_add(worker->region, ADDED(i), 1,
						  &worker->got[i][round]));
	}
}

/* Adds by compare-and-swap, from what it had last found there. */
static void swap(struct worker *worker)
{
	uint64_t expected[NR_WORDS] = {0}, before;

	for (unsigned round = 0; round < nr_rounds(); round++) {
		for (unsigned i = 0; i < NR_WORDS; i++) {
			for (;; expected[i] = before) {
				try(afar_region_compare_swap(worker->region, SWAPPED(i),
							     expected[i], expected[i] + 1,
							     &before));
				if (before == expected[i])
					break;
			}
			expected[i]++;
		}
	}
}

static int run(struct worker *worker, const struct afar_op *ops, unsigned n)
{
	struct afar_completion completions[4];

	if (afar_queue_submit(worker->queue, ops, n) != (int)n ||
	    afar_queue_wait(worker->queue, completions, 4, n, -1) != (int)n)
		return -1;
	for (unsigned i = 0; i < n; i++) {
		if (completions[i].result < 0)
			return -1;
	}
	return 0;
}

/* Takes the lock, changes what it guards, flushes, and lets go, as docs/memory-model.md says. */
static void lock(struct worker *worker)
{
	uint64_t *counts = afar_buffer_data(worker->buffer);
	struct afar_target *target = afar_region_target(worker->region);
	const struct afar_iov iov = {worker->buffer, counts, GUARDED_BYTES};
	const struct afar_op look = {.opcode = AFAR_OP_READ,
				     .target = target,
				     .offset = GUARDED,
				     .iov = &iov,
				     .nr_iov = 1};
	const struct afar_op change[] = {
		{.opcode = AFAR_OP_WRITE,
		 .target = target,
		 .offset = GUARDED,
		 .iov = &iov,
		 .nr_iov = 1},
		{.opcode = AFAR_OP_FLUSH, .target = target},
		{.opcode = AFAR_OP_COMPARE_SWAP,
		 .flags = AFAR_OP_AFTER,
		 .target = target,
		 .offset = LOCK,
		 .compare = 1,
		 .operand = 0},
	};
	uint64_t before;

	for (unsigned round = 0; round < nr_rounds(); round++) {
		do
			try(afar_region_compare_swap(worker->region, LOCK, 0, 1, &before));
		while (before != 0);
		try(run(worker, &look, 1));
		for (unsigned i = 0; i < NR_GUARDED; i++)
			counts[i]++;
		try(run(worker, change, 3));
	}
}

static void (*work)(struct worker *worker);

static void *run_worker(void *argument)
{
	struct worker *worker = argument;

	worker_open(worker);
	/* Nobody begins before all are there, and those that failed must not keep the others waiting. */
	pthread_barrier_wait(&all_there);
	if (!worker->failed)
		work(worker);
	if (!worker->failed)
		worker_close(worker);
	return NULL;
}

/* ---- The tests */

static struct afar_region *make_words(struct afar_namespace *ns)
{
	struct afar_region *region;
	uint8_t *zeros = calloc(1, BYTES);

	assert_non_null(zeros);
	assert_int_equal(afar_region_create(ns, NAME, BYTES, 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, zeros, BYTES, 0), (ssize_t)BYTES);
	free(zeros);
	return region;
}

static void let_all_work(void (*what)(struct worker *worker))
{
	work = what;
	assert_int_equal(pthread_barrier_init(&all_there, NULL, NR_WORKERS), 0);
	for (unsigned i = 0; i < NR_WORKERS; i++) {
		workers[i].failed = NULL;
		workers[i].path = i % 2 ? "tcp" : is_on_verbs() ? "verbs" : "local";
		assert_int_equal(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]),
				 0);
	}
	for (unsigned i = 0; i < NR_WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_barrier_destroy(&all_there);
	for (unsigned i = 0; i < NR_WORKERS; i++) {
		if (workers[i].failed)
			fail_msg("over %s: %s failed", workers[i].path, workers[i].failed);
	}
}

static uint64_t word_at(struct afar_region *region, uint64_t offset)
{
	uint64_t word;

	assert_int_equal(afar_region_pread(region, &word, sizeof(word), offset), sizeof(word));
	return word;
}

static void expect_each_value_once(unsigned word)
{
	static bool is_seen[NR_WORKERS * NR_ROUNDS_MAX];

	memset(is_seen, 0, sizeof(is_seen));
	for (unsigned i = 0; i < NR_WORKERS; i++) {
		for (unsigned round = 0; round < nr_rounds(); round++) {
			uint64_t value = workers[i].got[word][round];

			assert_true(value < (uint64_t)NR_WORKERS * nr_rounds());
			assert_false(is_seen[value]);
			is_seen[value] = true;
		}
	}
}

static void test_fetch_add(void **state)
{
	struct afar_namespace *ns = make_namespace(NAME, 4 * KIB, 4 * MIB);
	struct afar_region *region = make_words(ns);

	(void)state;
	let_all_work(add);
	for (unsigned i = 0; i < NR_WORDS; i++) {
		assert_int_equal(word_at(region, ADDED(i)), NR_WORKERS * nr_rounds());
		expect_each_value_once(i);
	}
	drop_region(region);
	drop_namespace(ns, NAME);
}

static void test_compare_swap(void **state)
{
	struct afar_namespace *ns = make_namespace(NAME, 4 * KIB, 4 * MIB);
	struct afar_region *region = make_words(ns);

	(void)state;
	let_all_work(swap);
	for (unsigned i = 0; i < NR_WORDS; i++)
		assert_int_equal(word_at(region, SWAPPED(i)), NR_WORKERS * nr_rounds());
	drop_region(region);
	drop_namespace(ns, NAME);
}

static void test_lock(void **state)
{
	struct afar_namespace *ns = make_namespace(NAME, 4 * KIB, 4 * MIB);
	struct afar_region *region = make_words(ns);

	(void)state;
	let_all_work(lock);
	assert_int_equal(word_at(region, LOCK), 0);
	for (uint64_t i = 0; i < NR_GUARDED; i++)
		assert_int_equal(word_at(region, GUARDED + i * sizeof(uint64_t)),
				 NR_WORKERS * nr_rounds());
	drop_region(region);
	drop_namespace(ns, NAME);
}

/* ---- By network cards */

static struct afar_region *make_nic_region(struct afar_namespace *ns)
{
	const uint64_t zero = 0;
	struct afar_region *region;

	assert_int_equal(afar_region_create(ns, NAME, BYTES, AFAR_ALLOC_NIC_ATOMICS, &region), 0);
	assert_int_equal(afar_region_pwrite(region, &zero, sizeof(zero), 0), sizeof(zero));
	return region;
}

/* The best lane of the server is a local one, which others of the namespace's regions go by. */
static void test_nics_are_gone_to(void **state)
{
	struct afar_namespace *ns = make_namespace(NAME, 4 * KIB, 4 * MIB);
	struct afar_region *region = make_nic_region(ns), *plain;
	uint64_t before;

	(void)state;
	assert_int_equal(afar_region_create(ns, "plain", BYTES, 0, &plain), 0);
	assert_int_equal(afar_region_pwrite(plain, &before, sizeof(before), 0), sizeof(before));
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(afar_region_fetch_add(region, 0, 5, &before), 0);
		assert_int_equal(before, i * 5);
	}
	assert_int_equal(word_at(region, 0), 15);
	drop_region(plain);
	drop_region(region);
	drop_namespace(ns, NAME);
}

static void test_nics_are_not_gone_to(void **state)
{
	const struct afar_session_options options = {.size = sizeof(options), .path = "tcp"};
	struct afar_namespace *ns = make_namespace(NAME, 4 * KIB, 4 * MIB), *seen;
	struct afar_region *region = make_nic_region(ns), *opened;
	struct afar_session *over_tcp;
	uint64_t before;

	(void)state;
	assert_int_equal(afar_session_open(cluster_uri(cluster), &options, &over_tcp), 0);
	assert_int_equal(afar_namespace_open(over_tcp, NAME, &seen), 0);
	assert_int_equal(afar_region_open(seen, NAME, &opened), 0);
	expect_error(afar_region_fetch_add(opened, 0, 5, &before), -EOPNOTSUPP);
	assert_non_null(strstr(afar_last_error(), "verbs"));
	assert_int_equal(word_at(opened, 0), 0);
	assert_int_equal(afar_region_close(opened), 0);
	assert_int_equal(afar_namespace_close(seen), 0);
	assert_int_equal(afar_session_close(over_tcp), 0);
	drop_region(region);
	drop_namespace(ns, NAME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fetch_add),
		cmocka_unit_test(test_compare_swap),
		cmocka_unit_test(test_lock),
	};

	const struct CMUnitTest by_nic[] = {
		cmocka_unit_test(test_nics_are_gone_to),
		cmocka_unit_test(test_nics_are_not_gone_to),
	};
	int nr_failed = cmocka_run_group_tests(tests, start_both, stop);

	return is_on_verbs() ? nr_failed + cmocka_run_group_tests(by_nic, start_both, stop)
			     : nr_failed;
}
