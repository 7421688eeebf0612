/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests queues of the public API against real daemons: what completes and when. Operations of all
 * sizes are in flight, whole batches, and operations that move nothing.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/api/api.h"

static void test_queue(void **state)
{
	struct afar_namespace *ns = make_namespace("queue", 64 * KIB, 64 * MIB);
	struct afar_queue_options options = {.size = sizeof(options), .depth = 8};
	struct afar_completion done[16];
	struct afar_buffer *buffer;
	struct afar_region *region;
	struct afar_queue *queue;
	struct afar_iov iov[16];
	struct afar_op ops[16] = {0};
	struct pollfd wait;
	unsigned seen = 0;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, 16 * MIB, 0, &region), 0);
	assert_int_equal(afar_buffer_alloc(session, 16 * MIB, &buffer), 0);
	assert_int_equal(afar_queue_open(session, &options, &queue), 0);
	fill(afar_buffer_data(buffer), 16 * MIB, 5);
	for (unsigned i = 0; i < 16; i++) {
		iov[i] = (struct afar_iov){buffer, (char *)afar_buffer_data(buffer) + i * MIB, MIB};
		ops[i] = (struct afar_op){.opcode = AFAR_OP_WRITE,
					  .target = afar_region_target(region),
					  .offset = i * MIB,
					  .iov = &iov[i],
					  .nr_iov = 1,
					  .user_data = i};
	}
	/* Without its connections every operation fails at once, as a completion. */
	assert_int_equal(afar_queue_submit(queue, ops, 1), 1);
	assert_int_equal(afar_queue_wait(queue, done, 16, 1, -1), 1);
	assert_int_equal(done[0].result, -ENOTCONN);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);

	/* Depth 8: the rest is taken after reaping. */
	assert_int_equal(afar_queue_submit(queue, ops, 16), 8);
	expect_error(afar_queue_close(queue), -EBUSY);
	assert_int_equal(afar_queue_wait_one(queue, 5, &done[0], -1), 0);
	assert_int_equal(done[0].user_data, 5);
	assert_int_equal(done[0].result, MIB);
	expect_error(afar_queue_wait_one(queue, 5, &done[0], 0), -ENOENT);
	assert_int_equal(afar_queue_wait(queue, done, 16, 7, -1), 7);
	assert_int_equal(afar_queue_submit(queue, ops + 8, 8), 8);

	/* By the descriptor. */
	wait = (struct pollfd){.fd = afar_queue_fd(queue), .events = POLLIN};
	while (seen != 0xff) {
		int count;

		if (afar_queue_arm(queue) == 0)
			assert_int_equal(poll(&wait, 1, 20000), 1);
		count = afar_queue_wait(queue, done, 16, 0, 0);
		for (int i = 0; i < count; i++) {
			assert_int_equal(done[i].result, MIB);
			seen |= 1U << (done[i].user_data - 8);
		}
	}
	/* Fewer are in flight than asked for: what can come. */
	assert_int_equal(afar_queue_wait(queue, done, 16, 3, -1), 0);

	memset(afar_buffer_data(buffer), 0, 16 * MIB);
	for (unsigned i = 0; i < 16; i++) {
		ops[i].opcode = AFAR_OP_READ;
		assert_int_equal(afar_queue_submit(queue, &ops[i], 1), 1);
		assert_int_equal(afar_queue_wait(queue, done, 1, 1, -1), 1);
	}
	{
		uint8_t *expected = malloc(16 * MIB);

		fill(expected, 16 * MIB, 5);
		assert_memory_equal(expected, afar_buffer_data(buffer), 16 * MIB);
		free(expected);
	}

	ops[0].opcode = 77;
	expect_error(afar_queue_submit(queue, ops, 2), -EINVAL);
	ops[1].offset = 16 * MIB;
	expect_error(afar_queue_submit(queue, ops + 1, 1), -ERANGE);
	iov[2].addr = (char *)iov[2].addr + 14 * MIB + 1;
	expect_error(afar_queue_submit(queue, ops + 2, 1), -EINVAL);
	iov[3].length = 0;
	assert_int_equal(afar_queue_submit(queue, ops + 3, 1), 1); /* empty: done at once */
	assert_int_equal(afar_queue_wait(queue, done, 1, 1, -1), 1);
	assert_int_equal(done[0].result, 0);

	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
	drop_region(region);
	drop_namespace(ns, "queue");
}

/*
 * Operations that move no bytes are operations: they are checked, and complete with 0, over
 * whatever connection or none.
 */
static void test_nothing_to_move(void **state)
{
	struct afar_namespace *ns = make_namespace("nothing", 4 * KIB, 1 * MIB);
	struct afar_region *region;
	struct afar_buffer *buffer;
	struct afar_queue *queue;
	struct afar_completion done;
	struct afar_iov empty[3], at_null = {.length = 0};

	(void)state;
	assert_int_equal(afar_region_alloc(ns, 64 * KIB, 0, &region), 0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_buffer_alloc(session, 4096, &buffer), 0);
	for (int i = 0; i < 3; i++)
		empty[i] = (struct afar_iov){.buffer = buffer,
					     .addr = (char *)afar_buffer_data(buffer) + 2048 * i};

	const struct {
		struct afar_op op;
		int error; /* of the submission */
	} cases[] = {
		{{.opcode = AFAR_OP_READ}, 0},
		{{.opcode = AFAR_OP_WRITE}, 0},
		{{.opcode = AFAR_OP_READ, .flags = AFAR_OP_AFTER}, 0},
		{{.opcode = AFAR_OP_READ, .offset = 64 * KIB}, 0},
		{{.opcode = AFAR_OP_READ, .offset = 64 * KIB + 1}, -ERANGE},
		{{.opcode = AFAR_OP_READ, .nr_iov = 3, .iov = empty}, 0},
		{{.opcode = AFAR_OP_WRITE, .nr_iov = 1, .iov = &at_null}, 0},
		{{.opcode = AFAR_OP_READ, .nr_iov = 1}, -EINVAL},
		{{.opcode = AFAR_OP_FLUSH, .nr_iov = 1, .iov = empty}, -EINVAL},
		{{.opcode = AFAR_OP_FETCH_ADD, .nr_iov = 1, .iov = empty}, -EINVAL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct afar_op op = cases[i].op;

		op.target = afar_region_target(region);
		op.user_data = i;
		if (cases[i].error) {
			expect_error(afar_queue_submit(queue, &op, 1), cases[i].error);
			continue;
		}
		assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
		assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
		assert_int_equal(done.user_data, i);
		assert_int_equal(done.result, 0);
	}
	assert_int_equal(afar_region_pread(region, NULL, 0, 64 * KIB), 0);
	expect_error((int)afar_region_pread(region, NULL, 0, 64 * KIB + 1), -ERANGE);

	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
	drop_region(region);
	drop_namespace(ns, "nothing");
}

/* ---- Many operations of all sizes in flight */

#define STORM_BYTES (32 * MIB)
#define STORM_DEPTH 64

struct storm {
	struct afar_queue *queue;
	struct afar_region *region;
	const uint8_t *pattern; /* what the region holds, always: writes write the same */
	uint8_t *room;		/* 2 MiB for each operation in flight */
	struct afar_buffer *buffer;
	struct afar_iov iov[STORM_DEPTH];
	struct afar_op ops[STORM_DEPTH];
	uint32_t seed;
	unsigned nr_in_flight;
};

static uint32_t storm_random(struct storm *storm)
{
	storm->seed = storm->seed * 1664525 + 1013904223;
	return storm->seed >> 8;
}

static void storm_submit(struct storm *storm, unsigned slot, unsigned size_shift)
{
	struct afar_op *op = &storm->ops[slot];
	struct afar_iov *iov = &storm->iov[slot];
	unsigned shift = size_shift ? size_shift : storm_random(storm) % 21;

	iov->buffer = storm->buffer;
	iov->addr = storm->room + slot * 2 * MIB;
	iov->length = ((size_t)1 << shift) + (size_shift ? 0 : storm_random(storm) % 13);
	*op = (struct afar_op){
		.opcode = storm_random(storm) % 4 ? AFAR_OP_READ : AFAR_OP_WRITE,
		.target = afar_region_target(storm->region),
		.offset = storm_random(storm) * 7ULL % (STORM_BYTES - iov->length),
		.iov = iov,
		.nr_iov = 1,
		.user_data = slot,
	};
	if (op->opcode == AFAR_OP_WRITE)
		memcpy(iov->addr, storm->pattern + op->offset, iov->length);
	assert_int_equal(afar_queue_submit(storm->queue, op, 1), 1);
	storm->nr_in_flight++;
}

static void storm_reap(struct storm *storm, unsigned *slot)
{
	struct afar_completion done;

	assert_int_equal(afar_queue_wait(storm->queue, &done, 1, 1, -1), 1);
	*slot = (unsigned)done.user_data;
	assert_int_equal(done.result, storm->iov[*slot].length);
	if (storm->ops[*slot].opcode == AFAR_OP_READ)
		assert_memory_equal(storm->iov[*slot].addr,
				    storm->pattern + storm->ops[*slot].offset,
				    storm->iov[*slot].length);
	storm->nr_in_flight--;
}

static void run_storm(struct storm *storm, unsigned depth, unsigned size_shift, unsigned nr_ops)
{
	unsigned slot;

	for (unsigned i = 0; i < nr_ops; i++) {
		if (storm->nr_in_flight < depth) {
			slot = i;
		} else {
			storm_reap(storm, &slot);
		}
		storm_submit(storm, slot, size_shift);
	}
	while (storm->nr_in_flight)
		storm_reap(storm, &slot);
}

static void test_storms(void **state)
{
	struct afar_namespace *ns = make_namespace("storm", 256 * KIB, 64 * MIB);
	struct afar_queue_options options = {.size = sizeof(options), .depth = STORM_DEPTH};
	struct storm storm = {.seed = 11};
	uint8_t *pattern = malloc(STORM_BYTES);

	(void)state;
	storm.room = malloc(STORM_DEPTH * 2 * MIB);
	storm.buffer = register_if_needed(storm.room, STORM_DEPTH * 2 * MIB);
	storm.pattern = pattern;
	fill(pattern, STORM_BYTES, 21);
	assert_int_equal(afar_region_alloc(ns, STORM_BYTES, 0, &storm.region), 0);
	assert_int_equal(afar_region_pwrite(storm.region, pattern, STORM_BYTES, 0), STORM_BYTES);
	assert_int_equal(afar_queue_open(session, &options, &storm.queue), 0);
	assert_int_equal(afar_queue_connect(storm.queue, afar_region_target(storm.region)), 0);
	run_storm(&storm, 1, 0, 300);
	run_storm(&storm, 7, 0, 600);
	run_storm(&storm, STORM_DEPTH, 0, 1500);
	run_storm(&storm, STORM_DEPTH, 6, 20000);
	run_storm(&storm, 32, 12, 5000);
	run_storm(&storm, 32, 20, 600);
	assert_int_equal(afar_queue_close(storm.queue), 0);
	drop_region(storm.region);
	drop_namespace(ns, "storm");
	unregister(storm.buffer);
	free(storm.room);
	free(pattern);
}

/* ---- Batches */

/*
 * Whole batches at once, from a client that sleeps for every answer: whoever forgets to wake,
 * hangs.
 */
static void test_batches_of_a_sleeper(void **state)
{
	struct afar_session_options sleeper = {
		.size = sizeof(sleeper), .spin_us = UINT32_MAX, .timeout_ms = 30000};
	struct afar_namespace *ns = make_namespace("batch", 0, 32 * MIB), *own;
	struct afar_completion done[32];
	struct afar_session *sleepy;
	struct afar_region *region;
	struct afar_buffer *buffer;
	struct afar_queue *queue;
	struct afar_iov iov[32];
	struct afar_op ops[32];

	(void)state;
	assert_int_equal(afar_session_open(cluster_uri(cluster), &sleeper, &sleepy), 0);
	assert_int_equal(afar_namespace_open(sleepy, "batch", &own), 0);
	assert_int_equal(afar_region_alloc(own, 32 * MIB, 0, &region), 0);
	assert_int_equal(afar_buffer_alloc(sleepy, 32 * MIB, &buffer), 0);
	assert_int_equal(afar_queue_open(sleepy, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	for (unsigned i = 0; i < 32; i++) {
		iov[i] = (struct afar_iov){buffer, (char *)afar_buffer_data(buffer) + i * MIB, MIB};
		ops[i] = (struct afar_op){.opcode = AFAR_OP_READ,
					  .target = afar_region_target(region),
					  .offset = i * MIB,
					  .iov = &iov[i],
					  .nr_iov = 1};
	}
	for (unsigned round = 0; round < 150; round++) {
		assert_int_equal(afar_queue_submit(queue, ops, 32), 32);
		assert_int_equal(afar_queue_wait(queue, done, 32, 32, -1), 32);
		for (unsigned i = 0; i < 32; i++)
			assert_int_equal(done[i].result, MIB);
	}
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
	drop_region(region);
	assert_int_equal(afar_namespace_close(own), 0);
	assert_int_equal(afar_session_close(sleepy), 0);
	drop_namespace(ns, "batch");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_nothing_to_move),
		cmocka_unit_test(test_storms),
		cmocka_unit_test(test_batches_of_a_sleeper),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
