/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cancelling what is under way, on any transport. An operation that ends with -ECANCELED has let go of its memory,
 * whatever the servers do later. The connection is made anew, and works. test_api_access.c has reads at a server
 * that does not move, which a NIC does not wait for.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "lib/api/api.h"
#include "lib/base/transport.h"

#define NR_ATOMICS   12U /* more than a connection has room for */
#define NR_OPS	     32U
#define OP_BYTES     (512 * KIB)
#define REGION_BYTES (NR_OPS * OP_BYTES)
#define NR_ATTEMPTS  50U

static struct afar_namespace *ns;
static struct afar_region *region;
static struct afar_queue *queue;

static int setup(void **state)
{
	static unsigned number;
	char name[16];

	(void)state;
	snprintf(name, sizeof(name), "cancel%u", number++);
	ns = make_namespace(name, 64 * KIB, REGION_BYTES);
	if (afar_region_create(ns, "r", REGION_BYTES, 0, &region) ||
	    afar_queue_open(session, NULL, &queue))
		return -1;
	return afar_queue_connect(queue, afar_region_target(region));
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(afar_queue_close(queue), 0);
	drop_region(region);
	/* It stays: what was cut off in the midst of a write keeps the region until the session ends. */
	return afar_namespace_close(ns);
}

static void stop_servers(void)
{
	int status;

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(kill(cluster_server(cluster, i), SIGSTOP), 0);
		assert_int_equal(waitpid(cluster_server(cluster, i), &status, WUNTRACED),
				 cluster_server(cluster, i));
		assert_true(WIFSTOPPED(status));
	}
}

static void let_servers_go_on(void)
{
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(kill(cluster_server(cluster, i), SIGCONT), 0);
}

/* Requests to the servers' processors, which stay in flight as long as those stand still. */
static void test_requests_at_stopped_servers(void **state)
{
	struct afar_completion done[NR_ATOMICS];
	struct afar_iov iov[NR_ATOMICS];
	struct afar_op ops[NR_ATOMICS];
	uint64_t values[NR_ATOMICS], word;

	(void)state;
	if (is_on_local()) /* it is our processor that does them there, at once */
		skip();
	assert_int_equal(afar_region_pwrite(region, &(uint64_t){0}, 8, 0), 8);
	for (unsigned i = 0; i < NR_ATOMICS; i++) {
		values[i] = UINT64_MAX;
		iov[i] = (struct afar_iov){NULL, &values[i], sizeof(values[i])};
		ops[i] = (struct afar_op){.opcode = AFAR_OP_FETCH_ADD,
					  .target = afar_region_target(region),
					  .iov = &iov[i],
					  .nr_iov = 1,
					  .operand = 1,
					  .user_data = i % 2};
	}
	stop_servers();
	assert_int_equal(afar_queue_submit(queue, ops, NR_ATOMICS), NR_ATOMICS);
	assert_int_equal(afar_queue_wait(queue, done, 1, 1, 0), 0);
	/* The others lose their connection, or have found no room on it and never get one. */
	assert_int_equal(afar_queue_cancel(queue, 1), NR_ATOMICS / 2);
	assert_int_equal(afar_queue_wait(queue, done, NR_ATOMICS, NR_ATOMICS, -1), NR_ATOMICS);
	for (unsigned i = 0; i < NR_ATOMICS; i++)
		assert_int_equal(done[i].result,
				 done[i].user_data == 1 ? -ECANCELED : -AFAR_ESERVER);
	assert_int_equal(afar_queue_cancel(queue, 1), 0);
	let_servers_go_on();

	/* Which of them were done is not known; the values are as they were. */
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	ops[0].user_data = 99;
	assert_int_equal(afar_queue_submit(queue, ops, 1), 1);
	assert_int_equal(afar_queue_wait(queue, done, 1, 1, -1), 1);
	assert_int_equal(done[0].result, sizeof(uint64_t));
	assert_true(values[0] <= NR_ATOMICS);
	for (unsigned i = 1; i < NR_ATOMICS; i++)
		assert_true(values[i] == UINT64_MAX);
	/* Nothing of them comes late. */
	assert_int_equal(afar_region_fetch_add(region, 0, 0, &word), 0);
	assert_true(word == values[0] + 1);
}

/* ---- One-sided transfers, of all of the region and all of a buffer */

static struct afar_iov iov[NR_OPS];
static struct afar_op ops[NR_OPS];

static void prepare(uint16_t opcode, struct afar_buffer *buffer)
{
	uint8_t *bytes = afar_buffer_data(buffer);

	for (unsigned i = 0; i < NR_OPS; i++) {
		iov[i] = (struct afar_iov){buffer, bytes + i * OP_BYTES, OP_BYTES};
		ops[i] = (struct afar_op){.opcode = opcode,
					  .target = afar_region_target(region),
					  .offset = i * OP_BYTES,
					  .iov = &iov[i],
					  .nr_iov = 1,
					  .user_data = 5};
	}
}

/* Reaps them all. */
static unsigned count_cancelled(void)
{
	struct afar_completion done[NR_OPS];
	unsigned nr_cancelled = 0;

	assert_int_equal(afar_queue_wait(queue, done, NR_OPS, NR_OPS, -1), NR_OPS);
	for (unsigned i = 0; i < NR_OPS; i++) {
		assert_true(done[i].result == -ECANCELED || done[i].result == (int64_t)OP_BYTES);
		nr_cancelled += done[i].result == -ECANCELED;
	}
	return nr_cancelled;
}

static void fill_region(uint8_t byte)
{
	uint8_t *bytes = malloc(REGION_BYTES);

	assert_non_null(bytes);
	memset(bytes, byte, REGION_BYTES);
	assert_int_equal(afar_region_pwrite(region, bytes, REGION_BYTES, 0), REGION_BYTES);
	free(bytes);
}

/* Reads under way: they change nothing any more when they have been cancelled. */
static void test_reads_under_way(void **state)
{
	uint8_t *bytes, *kept = malloc(REGION_BYTES);
	struct afar_buffer *buffer;
	unsigned nr_cancelled = 0;

	(void)state;
	assert_non_null(kept);
	assert_int_equal(afar_buffer_alloc(session, REGION_BYTES, &buffer), 0);
	bytes = afar_buffer_data(buffer);
	prepare(AFAR_OP_READ, buffer);
	for (unsigned i = 0; i < NR_ATTEMPTS && nr_cancelled == 0; i++) {
		fill_region(1);
		memset(bytes, 2, REGION_BYTES);
		assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
		assert_int_equal(afar_queue_submit(queue, ops, NR_OPS), NR_OPS);
		assert_true(afar_queue_cancel(queue, 5) >= 0);
		nr_cancelled = count_cancelled();
		memcpy(kept, bytes, REGION_BYTES);
	}
	assert_true(nr_cancelled > 0);
	/* A read that still went on would read this. */
	fill_region(3);
	assert_memory_equal(bytes, kept, REGION_BYTES);
	assert_null(memchr(bytes, 3, REGION_BYTES));

	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	assert_int_equal(afar_queue_submit(queue, ops, NR_OPS), NR_OPS);
	assert_int_equal(count_cancelled(), 0);
	for (size_t i = 0; i < REGION_BYTES; i++)
		assert_int_equal(bytes[i], 3);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
	free(kept);
}

/* Writes under way: none of them lands behind what is written when the connection has been made anew. */
static void test_writes_under_way(void **state)
{
	uint8_t *bytes;
	struct afar_buffer *buffer;
	unsigned nr_cancelled = 0;

	(void)state;
	assert_int_equal(afar_buffer_alloc(session, REGION_BYTES, &buffer), 0);
	bytes = afar_buffer_data(buffer);
	prepare(AFAR_OP_WRITE, buffer);
	for (unsigned i = 0; i < NR_ATTEMPTS && nr_cancelled == 0; i++) {
		memset(bytes, 4, REGION_BYTES);
		assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
		assert_int_equal(afar_queue_submit(queue, ops, NR_OPS), NR_OPS);
		assert_true(afar_queue_cancel(queue, 5) >= 0);
		nr_cancelled = count_cancelled();
	}
	assert_true(nr_cancelled > 0);
	/* The memory is ours again: what is in it now does not get there. */
	memset(bytes, 6, REGION_BYTES);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	fill_region(5);
	for (unsigned i = 0; i < NR_OPS; i++)
		ops[i].opcode = AFAR_OP_READ;
	assert_int_equal(afar_queue_submit(queue, ops, NR_OPS), NR_OPS);
	assert_int_equal(count_cancelled(), 0);
	for (size_t i = 0; i < REGION_BYTES; i++)
		assert_int_equal(bytes[i], 5);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
}

int main(void)
{
#define WITH_QUEUE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		WITH_QUEUE(test_requests_at_stopped_servers),
		WITH_QUEUE(test_reads_under_way),
		WITH_QUEUE(test_writes_under_way),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
