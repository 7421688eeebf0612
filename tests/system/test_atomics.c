/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics through the public API, blocking and over queues. Threads of several sessions make sums and locks
 * on words of a striped region, and these come out right. An impossible atomic is refused in one line. A
 * server's death ends them.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/api/api.h"
#include "lib/base/transport.h"

#define NR_THREADS 6U

/* The kind of region that a test is about; AFAR_ALLOC_NIC_ATOMICS where the transport can. */
static unsigned flags;

static int with_nic_atomics(void **state)
{
	(void)state;
	flags = AFAR_ALLOC_NIC_ATOMICS;
	return 0;
}

static int without_nic_atomics(void **state)
{
	(void)state;
	flags = 0;
	return 0;
}

static int start_local_and_tcp(void **state)
{
	(void)state;
	if (cluster_start_over(CLUSTER_LOCAL_AND_TCP, 2, 512 * MIB, &cluster))
		return -1;
	return afar_session_open(cluster_uri(cluster), NULL, &session);
}

static struct afar_region *make_region(struct afar_namespace *ns, uint64_t bytes)
{
	struct afar_region *region;
	uint8_t *zeros = calloc(1, bytes);

	assert_non_null(zeros);
	assert_int_equal(afar_region_create(ns, "r", bytes, flags, &region), 0);
	assert_int_equal(afar_region_pwrite(region, zeros, bytes, 0), (ssize_t)bytes);
	free(zeros);
	return region;
}

static uint64_t word_at(struct afar_region *region, uint64_t offset)
{
	uint64_t word;

	assert_int_equal(afar_region_pread(region, &word, sizeof(word), offset), sizeof(word));
	return word;
}

static void test_blocking(void **state)
{
	struct afar_namespace *ns = make_namespace("atomic", 4 * KIB, 4 * MIB);
	struct afar_region *region = make_region(ns, MIB);
	uint64_t before = 1;

	(void)state;
	/* On both servers: the stripe unit is a page. */
	for (uint64_t offset = 0; offset < 16 * KIB; offset += 4 * KIB - 8) {
		assert_int_equal(afar_region_fetch_add(region, offset, 5, &before), 0);
		assert_int_equal(before, 0);
		assert_int_equal(afar_region_fetch_add(region, offset, UINT64_MAX, NULL), 0);
		assert_int_equal(word_at(region, offset), 4);
		assert_int_equal(afar_region_compare_swap(region, offset, 3, 9, &before), 0);
		assert_int_equal(before, 4);
		assert_int_equal(word_at(region, offset), 4);
		assert_int_equal(afar_region_compare_swap(region, offset, 4, 9, &before), 0);
		assert_int_equal(before, 4);
		assert_int_equal(word_at(region, offset), 9);
	}
	expect_error(afar_region_fetch_add(region, 4, 1, &before), -EINVAL);
	expect_error(afar_region_fetch_add(region, MIB, 1, &before), -ERANGE);
	expect_error(afar_region_fetch_add(region, UINT64_MAX - 7, 1, &before), -ERANGE);
	expect_error(afar_region_compare_swap(NULL, 0, 1, 2, &before), -EINVAL);
	drop_region(region);
	drop_namespace(ns, "atomic");
}

/* More at once than a connection has room for, each with its value; wrong ones are not taken. */
static void test_queue(void **state)
{
	enum { NR = 100 };
	struct afar_namespace *ns = make_namespace("atomic", 4 * KIB, 4 * MIB);
	struct afar_region *region = make_region(ns, MIB);
	struct afar_completion done[NR];
	uint64_t values[NR], sum = 0;
	struct afar_queue *queue;
	struct afar_iov iov[NR];
	struct afar_op ops[NR];

	(void)state;
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	for (unsigned i = 0; i < NR; i++) {
		iov[i] = (struct afar_iov){NULL, &values[i], sizeof(values[i])};
		ops[i] = (struct afar_op){.opcode = AFAR_OP_FETCH_ADD,
					  .target = afar_region_target(region),
					  .offset = i % 2 * 4 * KIB,
					  .iov = &iov[i],
					  .nr_iov = 1,
					  .operand = 1,
					  .user_data = i};
	}
	assert_int_equal(afar_queue_submit(queue, ops, 1), 1);
	assert_int_equal(afar_queue_wait(queue, done, 1, 1, -1), 1);
	assert_int_equal(done[0].result, -ENOTCONN);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	assert_int_equal(afar_queue_submit(queue, ops, NR), NR);
	assert_int_equal(afar_queue_wait(queue, done, NR, NR, -1), NR);
	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(done[i].result, sizeof(uint64_t));
		sum += values[i];
	}
	/* Each of the two words has had the values 0 to NR/2 - 1. */
	assert_int_equal(sum, (NR / 2) * (NR / 2 - 1));
	assert_int_equal(word_at(region, 0), NR / 2);
	assert_int_equal(word_at(region, 4 * KIB), NR / 2);

	/* Without a place for the value. */
	ops[0].nr_iov = 0;
	assert_int_equal(afar_queue_submit(queue, ops, 1), 1);
	assert_int_equal(afar_queue_wait(queue, done, 1, 1, -1), 1);
	assert_int_equal(done[0].result, sizeof(uint64_t));

	iov[1].length = 4;
	expect_error(afar_queue_submit(queue, &ops[1], 1), -EINVAL);
	iov[1].length = 8;
	ops[1].compare = 1;
	expect_error(afar_queue_submit(queue, &ops[1], 1), -EINVAL);
	ops[1].compare = 0;
	ops[1].offset = 12;
	expect_error(afar_queue_submit(queue, &ops[1], 1), -EINVAL);
	ops[1].offset = MIB;
	expect_error(afar_queue_submit(queue, &ops[1], 1), -ERANGE);
	ops[1].opcode = AFAR_OP_READ;
	ops[1].offset = 0;
	expect_error(afar_queue_submit(queue, &ops[1], 1), -EINVAL);
	assert_int_equal(afar_queue_close(queue), 0);
	drop_region(region);
	drop_namespace(ns, "atomic");
}

/* ---- Many at once, each with a session of its own */

struct worker {
	pthread_t thread;
	const char *path; /* NULL: any */
	uint64_t *shared; /* what the lock in the region guards */
	bool is_well;
};

/* Over an emulated network each round has to wait, and fewer are enough. */
static unsigned nr_rounds(void)
{
	return !is_on_verbs() ? 300 : 20;
}

/* Adds to one word; then takes a lock in another to add to what is not atomic. */
static bool work(struct worker *worker, struct afar_region *region)
{
	uint64_t before;

	for (unsigned i = 0; i < nr_rounds(); i++) {
		if (afar_region_fetch_add(region, 0, 1, NULL))
			return false;
		do {
			if (afar_region_compare_swap(region, 4 * KIB, 0, 1, &before))
				return false;
		} while (before != 0);
		__atomic_store_n(worker->shared,
				 __atomic_load_n(worker->shared, __ATOMIC_RELAXED) + 1,
				 __ATOMIC_RELAXED);
		if (afar_region_compare_swap(region, 4 * KIB, 1, 0, &before) || before != 1)
			return false;
	}
	return true;
}

static void *run_worker(void *argument)
{
	struct worker *worker = argument;
	const struct afar_session_options options = {.size = sizeof(options), .path = worker->path};
	struct afar_session *own;
	struct afar_namespace *ns;
	struct afar_region *region;

	if (afar_session_open(cluster_uri(cluster), &options, &own) ||
	    afar_namespace_open(own, "atomic", &ns) || afar_region_open(ns, "r", &region))
		return NULL;
	worker->is_well = work(worker, region);
	afar_region_close(region);
	afar_namespace_close(ns);
	afar_session_close(own);
	return NULL;
}

/* Over the paths in turns. */
static void run_many_sessions(const char *const paths[2])
{
	struct afar_namespace *ns = make_namespace("atomic", 4 * KIB, 4 * MIB);
	struct afar_region *region = make_region(ns, MIB);
	struct worker workers[NR_THREADS];
	uint64_t shared = 0;

	for (unsigned i = 0; i < NR_THREADS; i++) {
		workers[i] = (struct worker){.path = paths[i % 2], .shared = &shared};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]),
				 0);
	}
	for (unsigned i = 0; i < NR_THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; i < NR_THREADS; i++)
		assert_true(workers[i].is_well);
	assert_int_equal(word_at(region, 0), NR_THREADS * nr_rounds());
	assert_int_equal(shared, NR_THREADS * nr_rounds());
	drop_region(region);
	drop_namespace(ns, "atomic");
}

static void test_many_sessions(void **state)
{
	(void)state;
	run_many_sessions((const char *const[]){NULL, NULL});
}

/* Some do them themselves, and servers for the others. */
static void test_near_and_far_sessions(void **state)
{
	(void)state;
	run_many_sessions((const char *const[]){"local", "tcp"});
}

/* ---- By network cards, or not */

static void test_kind_is_told(void **state)
{
	struct afar_namespace *ns = make_namespace("atomic", 4 * KIB, 4 * MIB);
	struct afar_region_stat stat = {.size = sizeof(stat)};
	struct afar_region *region = make_region(ns, MIB);

	(void)state;
	assert_int_equal(afar_region_stat(region, &stat), 0);
	assert_int_equal(stat.has_nic_atomics, flags == AFAR_ALLOC_NIC_ATOMICS);
	drop_region(region);
	drop_namespace(ns, "atomic");
}

static void test_refused_where_there_are_none(void **state)
{
	struct afar_namespace *ns = make_namespace("atomic", 4 * KIB, 4 * MIB);
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_region *region;

	(void)state;
	expect_error(afar_region_create(ns, "r", MIB, AFAR_ALLOC_NIC_ATOMICS, &region),
		     -EOPNOTSUPP);
	assert_non_null(strstr(afar_last_error(), "verbs"));
	expect_error(afar_region_create(ns, "r", MIB, AFAR_ALLOC_TEMPORARY << 8, &region), -EINVAL);
	assert_int_equal(afar_namespace_stat(ns, &stat), 0);
	assert_int_equal(stat.allocated_bytes, 0);
	drop_namespace(ns, "atomic");
}

/* The server's processor has no part in it. */
static void test_stopped_server(void **state)
{
	struct afar_namespace *ns = make_namespace("atomic", 4 * KIB, 4 * MIB);
	struct afar_region *region = make_region(ns, MIB);
	struct afar_op op = {.opcode = AFAR_OP_COMPARE_SWAP, .target = afar_region_target(region)};
	struct afar_completion done;
	struct afar_queue *queue;
	uint64_t before;

	(void)state;
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, op.target), 0);
	for (uint64_t i = 0; i < 2; i++)
		assert_int_equal(afar_region_fetch_add(region, i * 4 * KIB, 1, &before), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(kill(cluster_server(cluster, i), SIGSTOP), 0);
	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(afar_region_fetch_add(region, i % 2 * 4 * KIB, 1, &before), 0);
		assert_int_equal(before, i / 2 + 1);
	}
	op.compare = 51;
	op.operand = 7;
	assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
	assert_int_equal(done.result, sizeof(uint64_t));
	assert_int_equal(word_at(region, 0), 7);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(kill(cluster_server(cluster, i), SIGCONT), 0);
	assert_int_equal(afar_queue_close(queue), 0);
	drop_region(region);
	drop_namespace(ns, "atomic");
}

/* The last of the file. */
static void test_killed_server(void **state)
{
	struct afar_namespace *ns = make_namespace("atomic", 4 * KIB, 4 * MIB);
	struct afar_region *region = make_region(ns, MIB);
	uint64_t before;
	int status;

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		cluster_kill_server(cluster, i);
	/* A client that does them itself hears of it a little later. */
	do
		status = afar_region_fetch_add(region, 0, 1, &before);
	while (status == 0 && is_on_local());
	assert_true(status == -AFAR_ESERVER || status == -AFAR_ELOST);
	assert_true(afar_last_error()[0] != '\0');
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
}

int main(void)
{
#define BY_NIC(test) cmocka_unit_test_setup_teardown(test, with_nic_atomics, without_nic_atomics)
	const struct CMUnitTest by_processor[] = {
		cmocka_unit_test(test_blocking),      cmocka_unit_test(test_queue),
		cmocka_unit_test(test_many_sessions), cmocka_unit_test(test_kind_is_told),
		cmocka_unit_test(test_killed_server),
	};
	const struct CMUnitTest by_nic[] = {
		BY_NIC(test_blocking),	   BY_NIC(test_queue),		BY_NIC(test_many_sessions),
		BY_NIC(test_kind_is_told), BY_NIC(test_stopped_server), BY_NIC(test_killed_server),
	};
	const struct CMUnitTest without[] = {
		cmocka_unit_test(test_refused_where_there_are_none),
	};
	const struct CMUnitTest by_ours[] = {
		cmocka_unit_test(test_stopped_server),
		cmocka_unit_test(test_near_and_far_sessions),
	};
	int nr_failed = cmocka_run_group_tests(by_processor, start, stop);

	if (is_on_local())
		nr_failed += cmocka_run_group_tests(by_ours, start_local_and_tcp, stop);
	if (!is_on_verbs())
		return nr_failed + cmocka_run_group_tests(without, start, stop);
	return nr_failed + cmocka_run_group_tests(by_nic, start, stop);
}
