/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Order in a queue: what AFAR_OP_AFTER and AFAR_OP_FLUSH wait for, what becomes of them when something before
 * them fails, and that nothing else waits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/client/order.h"
#include "unit/group.h"

#define put(number, flags, target) \
	assert_int_equal(order_submit(number, AFAR_OP_WRITE, flags, target), 1)
#define get(number, flags, target) \
	assert_int_equal(order_submit(number, AFAR_OP_READ, flags, target), 1)
#define flush(number, flags, target) \
	assert_int_equal(order_submit(number, AFAR_OP_FLUSH, flags, target), 1)

static bool is_posted(unsigned number)
{
	for (unsigned i = 0; i < world.nr_transfers; i++) {
		if (world.transfers[i].addr == &memory[number])
			return true;
	}
	return false;
}

static void end(unsigned number, int status)
{
	for (unsigned i = 0; i < world.nr_transfers; i++) {
		if (world.transfers[i].addr == &memory[number]) {
			fake_complete(i, status);
			return;
		}
	}
	fail_msg("operation %u has nothing in flight", number);
}

static void expect_in_flight(unsigned number)
{
	struct afar_completion completion;

	assert_int_equal(afar_queue_wait_one(world.queue, number, &completion, 0), -ETIMEDOUT);
}

/* ---- AFAR_OP_AFTER */

static void test_waits_for_all(void **state)
{
	(void)state;
	order_open(8, false);
	put(0, 0, narrow);
	get(1, 0, wide);
	put(2, AFTER, narrow);
	put(3, 0, narrow);
	put(4, AFTER, wide);
	assert_true(is_posted(0) && is_posted(1));
	assert_false(is_posted(2));
	assert_true(is_posted(3)); /* is not ordered against the second */
	end(1, 0);
	assert_false(is_posted(2));
	end(0, 0);
	assert_true(is_posted(2));
	end(3, 0);
	assert_false(is_posted(4)); /* waits for the one that waited */
	expect_in_flight(4);
	end(2, 0);
	assert_true(is_posted(4));
	end(4, 0);
	for (unsigned i = 0; i < 5; i++)
		order_expect(i, 1);
	/* With nothing before it, it starts at once. */
	put(5, AFTER, narrow);
	assert_true(is_posted(5));
	end(5, 0);
	order_expect(5, 1);
	order_close();
}

static void test_one_submit(void **state)
{
	struct afar_iov iov = {.addr = memory, .length = 1};
	struct afar_op ops[3] = {
		{.opcode = AFAR_OP_WRITE, .nr_iov = 1, .iov = &iov, .target = narrow},
		{.opcode = AFAR_OP_WRITE, .nr_iov = 1, .iov = &iov, .flags = AFTER, .user_data = 1},
		{.opcode = AFAR_OP_FLUSH, .user_data = 2},
	};

	(void)state;
	order_open(3, false);
	for (unsigned i = 0; i < 3; i++)
		ops[i].target = narrow;
	assert_int_equal(afar_queue_submit(world.queue, ops, 3), 3);
	assert_int_equal(world.nr_transfers, 1);
	/* The queue is full of them. */
	assert_int_equal(order_submit(9, AFAR_OP_WRITE, AFTER, narrow), 0);
	fake_complete(0, 0);
	assert_int_equal(world.nr_transfers, 1);
	expect_in_flight(2);
	fake_complete(0, 0);
	for (unsigned i = 0; i < 3; i++)
		order_expect(i, i < 2);
	order_close();
}

static void test_failure_cancels(void **state)
{
	(void)state;
	order_open(8, false);
	put(0, 0, wide);
	put(1, 0, wide);
	put(2, AFTER, wide);
	put(3, AFTER, wide);
	end(1, -EIO); /* on the second server */
	order_expect(1, -AFAR_ESERVER);
	expect_in_flight(2); /* in its turn */
	end(0, 0);
	order_expect(0, 1);
	order_expect(2, -ECANCELED);
	order_expect(3, -ECANCELED);
	assert_int_equal(world.nr_posted, 2);
	assert_true(wide->has_writes_in_doubt && !narrow->has_writes_in_doubt);
	/* All were reaped: that is over. */
	put(4, AFTER, narrow);
	end(4, 0);
	order_expect(4, 1);
	order_close();
}

/* The failure of a later one comes first. */
static void test_failures_from_the_back(void **state)
{
	(void)state;
	order_open(8, false);
	put(0, 0, wide);
	put(2, AFTER, wide);
	put(1, 0, wide);
	put(3, AFTER, wide);
	end(1, -EIO);
	end(0, -EIO);
	assert_int_equal(world.nr_posted, 2);
	order_expect(0, -AFAR_ESERVER);
	order_expect(1, -AFAR_ESERVER);
	order_expect(2, -ECANCELED);
	order_expect(3, -ECANCELED);
	order_close();
}

static void test_failure_at_once(void **state)
{
	(void)state;
	order_open(8, false);
	put(0, 0, unconnected);
	put(1, AFTER, narrow);
	put(2, 0, narrow);
	put(3, AFTER, narrow);
	assert_false(is_posted(1));
	assert_true(is_posted(2));
	end(2, 0);
	order_expect(0, -ENOTCONN);
	order_expect(1, -ECANCELED);
	order_expect(2, 1);
	order_expect(3, -ECANCELED);
	/* It may fail by itself, when its turn comes. */
	put(4, 0, narrow);
	put(5, AFTER, unconnected);
	put(6, AFTER, narrow);
	end(4, 0);
	order_expect(4, 1);
	order_expect(5, -ENOTCONN);
	order_expect(6, -ECANCELED);
	order_close();
}

/* A failure that is reaped while an earlier operation still waits must not reach those that come
 * later. */
static void test_reaped_failure_is_forgotten(void **state)
{
	(void)state;
	order_open(8, false);
	put(0, 0, narrow);
	put(1, AFTER, narrow);
	put(2, 0, unconnected);
	order_expect(2, -ENOTCONN);
	put(3, AFTER, narrow);
	end(0, 0);
	end(1, 0);
	end(3, 0);
	order_expect(0, 1);
	order_expect(1, 1);
	order_expect(3, 1);
	/* The failure of a later one does not reach an earlier one. */
	put(0, 0, narrow);
	put(1, AFTER, narrow);
	put(2, 0, unconnected);
	end(0, 0);
	end(1, 0);
	order_expect(0, 1);
	order_expect(1, 1);
	order_expect(2, -ENOTCONN);
	order_close();
}

static void test_cancelling(void **state)
{
	(void)state;
	order_open(8, false);
	put(0, 0, narrow);
	put(1, AFTER, narrow);
	put(2, AFTER, narrow);
	assert_int_equal(afar_queue_cancel(world.queue, 1), 1); /* costs no connection */
	order_expect(1, -ECANCELED);
	assert_true(is_posted(0));
	expect_in_flight(2);
	end(0, 0);
	order_expect(0, 1);
	order_expect(2, -ECANCELED);
	put(3, 0, narrow);
	put(4, AFTER, narrow);
	assert_int_equal(afar_queue_cancel(world.queue, 3), 1);
	order_expect(3, -ECANCELED);
	order_expect(4, -ECANCELED);
	assert_true(narrow->has_writes_in_doubt);
	order_close();
}

static void test_expiry(void **state)
{
	(void)state;
	order_open(8, false);
	put(0, 0, narrow);
	put(1, AFTER, narrow);
	flush(2, 0, narrow);
	cds_list_first_entry(&world.queue->active, struct operation, node)->deadline = 0;
	queue_check(world.queue);
	order_expect(0, -ETIMEDOUT);
	order_expect(1, -ECANCELED);
	order_expect(2, -ECANCELED);
	assert_int_equal(world.nr_posted, 1);
	order_close();
}

/* Operations that wait for order find no room afterwards. */
static void test_no_room(void **state)
{
	(void)state;
	order_open(8, true);
	world.room = 1;
	put(0, 0, wide);
	put(1, 0, wide);
	flush(2, 0, wide);
	put(3, AFTER, wide);
	assert_int_equal(world.nr_transfers, 1);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(world.nr_transfers, 1);
		fake_complete(0, 0);
	}
	order_expect(0, 1);
	order_expect(1, 1);
	order_expect(2, 0);
	order_expect(3, 1);
	order_close();
}

/* An operation that found no room on a connection that is cut has failed: nobody may go to sleep on
 * it. */
static void test_cut_while_blocked(void **state)
{
	struct afar_completion completion;

	(void)state;
	order_open(8, false);
	world.room = 1;
	put(0, 0, narrow);
	put(1, 0, narrow);
	put(2, AFTER, narrow);
	assert_int_equal(afar_queue_cancel(world.queue, 0), 1);
	order_expect(0, -ECANCELED);
	assert_int_equal(afar_queue_wait_one(world.queue, 1, &completion, -1), 0);
	assert_int_equal(completion.result, -AFAR_ESERVER);
	order_expect(2, -ECANCELED);
	order_close();
}

/* The queue finds out that the region was sealed when it has taken a write that has to wait: the
 * write begins no more. */
static void test_sealed_while_waiting(void **state)
{
	(void)state;
	order_open(8, false);
	put(0, 0, narrow);
	put(1, AFTER, narrow);
	narrow->binding->layout->is_sealed = true;
	narrow->is_sealed = true;
	end(0, 0);
	assert_false(is_posted(1));
	order_expect(1, -EROFS);
	order_expect(0, 1);
	assert_int_equal(order_submit(2, AFAR_OP_WRITE, 0, narrow), -EROFS);
	assert_int_equal(order_submit(3, AFAR_OP_FETCH_ADD, 0, narrow), -EROFS);
	get(4, 0, narrow);
	end(4, 0);
	order_expect(4, 1);
	flush(5, 0, narrow);
	order_expect(5, 0);
	order_close();
}

/* A long chain that falls at once neither nests nor takes the square of its length. */
static void test_long_chains(void **state)
{
	const unsigned length = 65535;

	(void)state;
	order_open(length + 1, false);
	for (unsigned round = 0; round < 2; round++) {
		struct afar_completion completion;

		fake_connect(0);
		put(0, 0, narrow);
		for (unsigned i = 1; i <= length; i++)
			put(i, AFTER, round ? unconnected : narrow);
		fake_complete(0, round ? 0 : -EIO);
		for (unsigned i = 0; i <= length; i++) {
			assert_int_equal(afar_queue_wait(world.queue, &completion, 1, 1, 0), 1);
			assert_int_equal(completion.user_data, i);
			assert_int_equal(completion.result, i > round	 ? -ECANCELED
							    : round == 0 ? -AFAR_ESERVER
							    : i == 0	 ? 1
									 : -ENOTCONN);
		}
	}
	order_close();
}

/* ---- AFAR_OP_FLUSH */

static void test_flush_without_transfer(void **state)
{
	(void)state;
	order_open(8, false);
	flush(0, 0, narrow);
	order_expect(0, 0);
	put(1, 0, narrow);
	get(2, 0, narrow);
	put(3, 0, wide);
	flush(4, 0, narrow);
	flush(5, AFTER, narrow);
	put(6, 0, narrow);
	expect_in_flight(4);
	end(1, 0);
	order_expect(4, 0); /* reads, other targets and later writes are none of its business */
	expect_in_flight(5);
	fake_complete_all();
	order_expect(5, 0);
	assert_int_equal(world.nr_posted, 4);
	order_expect(1, 1);
	order_expect(2, 1);
	order_expect(3, 1);
	order_expect(6, 1);
	order_close();
}

static void test_flush_reads_behind(void **state)
{
	(void)state;
	order_open(8, true);
	put(0, 0, wide);
	flush(1, 0, wide);
	put(2, AFTER, narrow);
	assert_int_equal(world.nr_transfers, 1);
	end(0, 0);
	/* One of each server. */
	assert_int_equal(world.nr_transfers, 2);
	assert_ptr_not_equal(world.transfers[0].endpoint, world.transfers[1].endpoint);
	for (unsigned i = 0; i < 2; i++) {
		assert_false(world.transfers[i].is_write);
		assert_ptr_equal(world.transfers[i].addr, world.queue->scratch->addr);
	}
	fake_complete(1, 0);
	expect_in_flight(1);
	assert_false(is_posted(2));
	fake_complete(0, 0);
	order_expect(1, 0);
	end(2, 0);
	order_expect(0, 1);
	order_expect(2, 1);

	/* A target that may not be written has nothing to make visible. */
	wide->rights = RIGHT_READ;
	flush(3, 0, wide);
	order_expect(3, 0);
	wide->rights = RIGHT_ALL;
	/* One that fails under way. */
	flush(4, 0, wide);
	put(5, AFTER, narrow);
	fake_complete(1, -EIO);
	fake_complete(0, 0);
	order_expect(4, -AFAR_ESERVER);
	order_expect(5, -ECANCELED);
	flush(6, 0, wide);
	fake_complete_all();
	order_expect(6, -AFAR_ESERVER);
	order_close();
}

static void test_flush_failures(void **state)
{
	(void)state;
	for (int needs_flush = 0; needs_flush < 2; needs_flush++) {
		order_open(8, needs_flush);
		flush(0, 0, unconnected);
		order_expect(0, -ENOTCONN);
		get(1, 0, unconnected);
		flush(2, 0, narrow);
		fake_complete_all();
		order_expect(2, 0); /* another's failure */
		order_expect(1, -ENOTCONN);
		put(0, 0, wide);
		put(1, 0, wide);
		flush(2, 0, wide);
		flush(3, 0, narrow);
		end(1, -EIO);
		fake_connect(1);
		expect_in_flight(2);
		put(4, 0, wide);
		flush(5, 0, wide); /* the failed one is not reaped */
		fake_complete_all();
		order_expect(0, 1);
		order_expect(1, -AFAR_ESERVER);
		order_expect(2, -ECANCELED);
		order_expect(3, 0);
		order_expect(4, 1);
		order_expect(5, -ECANCELED);
		wide->is_lost = true;
		flush(6, 0, wide);
		order_expect(6, -AFAR_ELOST);
		order_close();
	}
}

/* ---- Bad input */

static void test_bad_input(void **state)
{
	struct afar_iov iov = {.addr = memory, .length = 1};
	struct afar_op op = {.opcode = AFAR_OP_FLUSH};

	(void)state;
	order_open(8, false);
	op.target = narrow;
	assert_int_equal(order_submit(0, AFAR_OP_WRITE, 0x80, narrow), -EINVAL);
	assert_non_null(strstr(afar_last_error(), "flags"));
	assert_int_equal(order_submit(0, AFAR_OP_WRITE, AFAR_OP_ONCE, narrow), -EINVAL);
	assert_int_equal(order_submit(0, AFAR_OP_WRITE, AFTER | 0x8000, narrow), -EINVAL);
	assert_int_equal(order_submit(0, AFAR_OP_WRITE, AFAR_OP_DURABLE, narrow), -EOPNOTSUPP);
	assert_non_null(strstr(afar_last_error(), "memory"));
	assert_int_equal(order_submit(0, AFAR_OP_READ, AFAR_OP_DURABLE, narrow), -EINVAL);
	assert_int_equal(order_submit(0, AFAR_OP_WRITE, AFAR_OP_CHECKED, narrow), -EOPNOTSUPP);
	assert_non_null(strstr(afar_last_error(), "memory"));
	assert_int_equal(order_submit(0, AFAR_OP_FLUSH, AFAR_OP_CHECKED, narrow), -EINVAL);
	assert_int_equal(order_submit(0, AFAR_OP_ZERO, AFAR_OP_CHECKED, narrow), -EINVAL);
	assert_int_equal(order_submit(0, AFAR_OP_READ, AFAR_OP_CHECKED | AFAR_OP_DRIVEN, narrow),
			 -EINVAL);
	assert_int_equal(order_submit(0, 0, 0, narrow), -EINVAL);
	assert_non_null(strstr(afar_last_error(), "opcode"));
	assert_int_equal(order_submit(0, AFAR_OP_WILL_NEED + 1, 0, narrow), -EINVAL);
	op.offset = 1;
	assert_int_equal(afar_queue_submit(world.queue, &op, 1), -EINVAL);
	assert_non_null(strstr(afar_last_error(), "flush"));
	op.offset = 0;
	op.nr_iov = 1;
	op.iov = &iov;
	assert_int_equal(afar_queue_submit(world.queue, &op, 1), -EINVAL);
	assert_non_null(strstr(afar_last_error(), "flush"));
	op.nr_iov = 0;
	op.operand = 1;
	assert_int_equal(afar_queue_submit(world.queue, &op, 1), -EINVAL);
	narrow->rights = RIGHT_READ;
	assert_int_equal(order_submit(0, AFAR_OP_WRITE, AFTER, narrow), -EACCES);
	order_close();
}

static void test_bad_zeros(void **state)
{
	static const uint16_t opcodes[] = {AFAR_OP_ZERO, AFAR_OP_TRIM};
	struct afar_iov iov = {.addr = memory, .length = 1};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct afar_op op = {.opcode = opcodes[i], .operand = 1};

		order_open(8, false);
		op.target = narrow;
		op.nr_iov = 1;
		op.iov = &iov;
		assert_int_equal(afar_queue_submit(world.queue, &op, 1), -EINVAL);
		assert_non_null(strstr(afar_last_error(), "nr_iov"));
		op.nr_iov = 0;
		op.compare = 1;
		assert_int_equal(afar_queue_submit(world.queue, &op, 1), -EINVAL);
		op.compare = 0;
		op.flags = AFAR_OP_DRIVEN;
		assert_int_equal(afar_queue_submit(world.queue, &op, 1), -EINVAL);
		op.flags = AFAR_OP_DURABLE;
		assert_int_equal(afar_queue_submit(world.queue, &op, 1), -EOPNOTSUPP);
		assert_non_null(strstr(afar_last_error(), "memory"));
		op.flags = 0;
		op.operand = FAKE_UNIT + 1;
		assert_int_equal(afar_queue_submit(world.queue, &op, 1), -ERANGE);
		op.operand = UINT64_MAX;
		op.offset = 1;
		assert_int_equal(afar_queue_submit(world.queue, &op, 1), -ERANGE);
		op.operand = FAKE_UNIT - 1;
		narrow->rights = RIGHT_READ;
		assert_int_equal(afar_queue_submit(world.queue, &op, 1), -EACCES);
		narrow->rights = RIGHT_ALL;
		narrow->is_sealed = true;
		assert_int_equal(afar_queue_submit(world.queue, &op, 1), -EROFS);
		assert_int_equal(world.nr_posted, 0);
		order_close();
	}
}

/* A flush waits for a zero as for a write; a trim of memory sends nothing. */
static void test_flush_behind_zeros(void **state)
{
	(void)state;
	order_open(8, false);
	assert_int_equal(order_submit(1, AFAR_OP_TRIM, 0, wide), 1);
	assert_int_equal(world.nr_posted, 0);
	order_expect(1, 1);
	assert_int_equal(order_submit(2, AFAR_OP_ZERO, 0, wide), 1);
	assert_int_equal(order_submit(3, AFAR_OP_ZERO, 0, narrow), 1);
	flush(4, 0, wide);
	end(3, 0);
	order_expect(3, 3);
	expect_in_flight(4);
	end(2, 0);
	order_expect(2, 2);
	order_expect(4, 0);
	assert_int_equal(order_submit(0, AFAR_OP_ZERO, 0, unconnected), 1); /* of no bytes */
	order_expect(0, 0);
	assert_int_equal(order_submit(5, AFAR_OP_TRIM, 0, unconnected), 1);
	order_expect(5, -ENOTCONN);
	/* Nor does saying what will be needed of it. */
	assert_int_equal(order_submit(6, AFAR_OP_WILL_NEED, 0, wide), 1);
	order_expect(6, 6);
	order_close();
}

TEST_GROUP(order)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits_for_all),
		cmocka_unit_test(test_one_submit),
		cmocka_unit_test(test_failure_cancels),
		cmocka_unit_test(test_failures_from_the_back),
		cmocka_unit_test(test_failure_at_once),
		cmocka_unit_test(test_reaped_failure_is_forgotten),
		cmocka_unit_test(test_cancelling),
		cmocka_unit_test(test_expiry),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_cut_while_blocked),
		cmocka_unit_test(test_sealed_while_waiting),
		cmocka_unit_test(test_long_chains),
		cmocka_unit_test(test_flush_without_transfer),
		cmocka_unit_test(test_flush_reads_behind),
		cmocka_unit_test(test_flush_failures),
		cmocka_unit_test(test_bad_input),
		cmocka_unit_test(test_bad_zeros),
		cmocka_unit_test(test_flush_behind_zeros),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
