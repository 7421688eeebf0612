/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics of regions whose home is the NIC, in queues on a fake fabric. They are posted one-sided, and their
 * values go where they should, in either byte order. Order counts for them, and they are refused where there are
 * none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/client/fake_fabric.h"
#include "unit/group.h"

static struct afar_target *by_nic, *by_processor;
static uint64_t values[4];
static struct afar_iov iovs[4];

static int setup(void **state)
{
	(void)state;
	fake_open(8, false);
	by_nic = fake_target(0, 1);
	by_nic->has_nic_atomics = true;
	by_processor = fake_target(0, 1);
	fake_connect(0);
	for (unsigned i = 0; i < 4; i++) {
		values[i] = 0;
		iovs[i] = (struct afar_iov){.addr = &values[i], .length = sizeof(values[i])};
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_close();
	fake_target_free(by_nic);
	fake_target_free(by_processor);
	return 0;
}

static struct afar_op atomic_op(unsigned number, unsigned opcode)
{
	return (struct afar_op){
		.opcode = (uint16_t)opcode,
		.target = by_nic,
		.offset = 8 * number,
		.iov = &iovs[number],
		.nr_iov = 1,
		.operand = 100 + number,
		.compare = opcode == AFAR_OP_COMPARE_SWAP ? 200 + number : 0,
		.user_data = number,
	};
}

static void submit(const struct afar_op *op)
{
	assert_int_equal(afar_queue_submit(world.queue, op, 1), 1);
}

/* The NIC brings a value. */
static void bring(unsigned i, uint64_t value)
{
	*(uint64_t *)world.transfers[i].addr = value;
	fake_complete(i, 0);
}

static void expect(unsigned number, int64_t result)
{
	struct afar_completion completion = {0};

	assert_int_equal(afar_queue_wait_one(world.queue, number, &completion, 0), 0);
	assert_int_equal(completion.result, result);
}

static void are_posted_one_sided(void **state)
{
	struct afar_op add = atomic_op(0, AFAR_OP_FETCH_ADD);
	struct afar_op swap = atomic_op(1, AFAR_OP_COMPARE_SWAP);
	struct afar_op blind = atomic_op(2, AFAR_OP_FETCH_ADD);

	(void)state;
	blind.nr_iov = 0;
	submit(&add);
	submit(&swap);
	submit(&blind);
	assert_int_equal(world.nr_transfers, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_null(world.transfers[i].request);
		assert_int_equal(world.transfers[i].operand, 100 + i);
		assert_int_equal(world.transfers[i].is_swap, i == 1);
	}
	assert_int_equal(world.transfers[1].compare, 201);
	/* Each has a place of its own. */
	bring(2, 33);
	bring(1, 22);
	bring(0, UINT64_C(0x1122334455667788));
	for (unsigned i = 0; i < 3; i++)
		expect(i, sizeof(uint64_t));
	assert_true(values[0] == UINT64_C(0x1122334455667788));
	assert_int_equal(values[1], 22);
	assert_int_equal(values[2], 0);
}

static void others_are_messages(void **state)
{
	struct afar_op op = atomic_op(0, AFAR_OP_FETCH_ADD);

	(void)state;
	op.target = by_processor;
	submit(&op);
	assert_int_equal(world.nr_transfers, 1);
	assert_non_null(world.transfers[0].request);
	fake_complete(0, 0);
	expect(0, sizeof(uint64_t));
}

static void come_in_either_byte_order(void **state)
{
	struct afar_op op = atomic_op(0, AFAR_OP_COMPARE_SWAP);

	(void)state;
	world.fabric.attributes.has_swapped_results = true;
	submit(&op);
	assert_int_equal(world.transfers[0].operand, 100);
	bring(0, UINT64_C(0x8877665544332211));
	expect(0, sizeof(uint64_t));
	assert_true(values[0] == UINT64_C(0x1122334455667788));
}

static void are_in_order_with_others(void **state)
{
	struct afar_op first = atomic_op(0, AFAR_OP_FETCH_ADD);
	struct afar_op second = atomic_op(1, AFAR_OP_COMPARE_SWAP);
	struct afar_op flush = {.opcode = AFAR_OP_FLUSH, .target = by_nic, .user_data = 2};
	struct afar_completion completion;

	(void)state;
	second.flags = AFAR_OP_AFTER;
	submit(&first);
	submit(&second);
	submit(&flush);
	assert_int_equal(world.nr_transfers, 1);
	assert_int_equal(afar_queue_wait_one(world.queue, 2, &completion, 0), -ETIMEDOUT);
	bring(0, 1);
	assert_int_equal(world.nr_transfers, 1);
	assert_true(world.transfers[0].is_swap);
	assert_int_equal(afar_queue_wait_one(world.queue, 2, &completion, 0), -ETIMEDOUT);
	bring(0, 2);
	expect(0, sizeof(uint64_t));
	expect(1, sizeof(uint64_t));
	expect(2, 0);
}

/* Bytes that were there before a failure are not taken for a value. */
static void bring_nothing_when_they_fail(void **state)
{
	struct afar_op op = atomic_op(0, AFAR_OP_FETCH_ADD);

	(void)state;
	values[0] = 7;
	submit(&op);
	*(uint64_t *)world.transfers[0].addr = 9;
	fake_complete(0, -EIO);
	expect(0, -AFAR_ESERVER);
	assert_int_equal(values[0], 7);
}

static void are_refused_where_there_are_none(void **state)
{
	struct afar_op op = atomic_op(0, AFAR_OP_FETCH_ADD);
	struct afar_op read = atomic_op(1, AFAR_OP_READ);

	(void)state;
	by_nic->is_without_atomics = true;
	assert_int_equal(afar_queue_submit(world.queue, &op, 1), -EOPNOTSUPP);
	assert_non_null(strstr(afar_last_error(), "verbs"));
	assert_null(strchr(afar_last_error(), '\n'));
	op.opcode = AFAR_OP_COMPARE_SWAP;
	assert_int_equal(afar_queue_submit(world.queue, &op, 1), -EOPNOTSUPP);
	assert_int_equal(target_atomic(&op), -EOPNOTSUPP);
	assert_int_equal(world.nr_posted, 0);
	/* All else is as ever. */
	read.operand = 0;
	submit(&read);
	fake_complete(0, 0);
	expect(1, sizeof(uint64_t));
}

/* There was a transport that has them, but the path could not be made over it. */
static void are_refused_on_a_path_without(void **state)
{
	struct afar_op op = atomic_op(0, AFAR_OP_FETCH_ADD);
	struct afar_op read = atomic_op(1, AFAR_OP_READ);

	(void)state;
	world.fabric.atomics = NULL;
	submit(&op);
	assert_int_equal(world.nr_posted, 0);
	expect(0, -EOPNOTSUPP);
	/* The refusal costs no connection. */
	read.operand = 0;
	submit(&read);
	fake_complete(0, 0);
	expect(1, sizeof(uint64_t));
}

TEST_GROUP(nic_atomics)
{
#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		WITH_WORLD(are_posted_one_sided),
		WITH_WORLD(others_are_messages),
		WITH_WORLD(come_in_either_byte_order),
		WITH_WORLD(are_in_order_with_others),
		WITH_WORLD(bring_nothing_when_they_fail),
		WITH_WORLD(are_refused_where_there_are_none),
		WITH_WORLD(are_refused_on_a_path_without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
