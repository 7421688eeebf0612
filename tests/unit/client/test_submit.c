/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One submit, or one look at completions, holds what it starts, so that the transport can send it together. And
 * which completions count.
 */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lib/client/fake_fabric.h"
#include "unit/group.h"

/* All that starts in one go goes out together, and nothing else is held. */
static void goes_out_together(void **state)
{
	char memory[1] = {0};
	struct afar_iov iov = {.addr = memory, .length = 1};
	struct afar_completion done[8];
	struct afar_target *target;
	struct afar_op ops[3];

	(void)state;
	fake_open(8, false);
	target = fake_target(0, 1);
	fake_connect(0);
	for (unsigned i = 0; i < 3; i++)
		ops[i] = (struct afar_op){.opcode = AFAR_OP_READ,
					  .nr_iov = 1,
					  .iov = &iov,
					  .target = target,
					  .user_data = i};
	assert_int_equal(afar_queue_submit(world.queue, ops, 1), 1);
	assert_int_equal(world.nr_together, 0);
	assert_int_equal(afar_queue_submit(world.queue, ops, 3), 3);
	assert_int_equal(world.nr_together, 3);
	/* One that is bad ends the batch. */
	ops[1].opcode = UINT16_MAX;
	ops[0].flags = AFAR_OP_AFTER;
	ops[0].user_data = 3;
	assert_int_equal(afar_queue_submit(world.queue, ops, 2), 1);
	assert_false(world.is_holding);
	/* Those that completions start. */
	assert_int_equal(world.nr_posted, 4);
	fake_complete_all();
	assert_int_equal(world.nr_together, 4);
	assert_int_equal(afar_queue_wait(world.queue, done, 8, 5, 0), 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(done[i].result, 1);
	fake_close();
	fake_target_free(target);
}

/* So that what is reserved can come to mean something. */
static void refuses_what_is_reserved(void **state)
{
	struct afar_target *target;
	struct afar_op ops[7] = {
		{.reserved16 = 1},
		{.reserved32 = 1},
		{.reserved = {1, 0}},
		{.reserved = {0, 1}},
		{.flags = UINT32_C(1) << 2},
		{.flags = UINT32_C(1) << 16},
		{.flags = UINT32_C(1) << 31},
	};

	(void)state;
	fake_open(8, false);
	target = fake_target(0, 1);
	fake_connect(0);
	for (unsigned i = 0; i < 7; i++) {
		ops[i].opcode = AFAR_OP_READ;
		ops[i].target = target;
		assert_int_equal(afar_queue_submit(world.queue, &ops[i], 1), -EINVAL);
	}
	fake_close();
	fake_target_free(target);
}

/* An operation ends with its connection, and one like it begins on the next. Then the first one's completion comes. */
static void late_completion(uint16_t opcode, int status)
{
	uint64_t word = 0;
	struct afar_iov iov = {.addr = &word, .length = sizeof(word)};
	struct afar_op op = {.opcode = opcode, .nr_iov = 1, .iov = &iov};
	struct afar_completion done;

	fake_open(8, false);
	world.operands = (char *)&word;
	op.target = fake_target(0, 1);
	fake_connect(0);
	assert_int_equal(afar_queue_submit(world.queue, &op, 1), 1);
	path_end(world.queue, world.queue->paths[0], -AFAR_ESERVER);
	assert_int_equal(afar_queue_wait(world.queue, &done, 1, 1, 0), 1);
	assert_int_equal(done.result, -AFAR_ESERVER);
	assert_int_equal(world.nr_late, 1);
	/* It may come while there is no connection, and when there is one again. */
	fake_complete_late(status);
	fake_connect(0);
	assert_int_equal(afar_queue_submit(world.queue, &op, 1), 1);
	fake_complete_late(status);
	assert_int_equal(world.queue->paths[0]->state, PATH_UP);
	assert_int_equal(world.queue->nr_done, 0);
	fake_complete_all();
	assert_int_equal(afar_queue_wait(world.queue, &done, 1, 1, 0), 1);
	assert_int_equal(done.result, sizeof(word));
	fake_close();
	fake_target_free(op.target);
}

static void late_completions_do_not_count(void **state)
{
	static const uint16_t opcodes[] = {AFAR_OP_READ, AFAR_OP_WRITE, AFAR_OP_FETCH_ADD};

	(void)state;
	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		late_completion(opcodes[i], 0);
		late_completion(opcodes[i], -ECONNRESET);
	}
}

/* ---- Zeros */

static void expect_zero(unsigned i, uint64_t offset, uint64_t length, uint64_t flags)
{
	const struct message_request *request = world.transfers[i].request;

	assert_non_null(request);
	assert_int_equal(le32toh(request->kind), MESSAGE_ZERO);
	assert_int_equal(le64toh(request->offset), offset);
	assert_int_equal(le64toh(request->length), length);
	assert_int_equal(le64toh(request->flags), flags);
}

/* Cuts of what goes to a store lie between blocks of the store, so that a trim leaves none there. The rest waits when
 * all messages are taken. */
static void cuts_zeros_between_blocks(void **state)
{
	const uint64_t max = MESSAGE_ZERO_STORE_MAX, at = 4096, begin = 5;
	const uint64_t bytes = (MESSAGE_CREDITS + 1) * max;
	struct afar_op op = {.opcode = AFAR_OP_TRIM, .flags = AFAR_OP_DURABLE};
	struct afar_completion done;
	struct layout *layout;

	(void)state;
	fake_open(8, false);
	op.target = fake_target(0, 1);
	op.target->is_flash = true;
	world.peers[0].store = 1;
	layout = op.target->binding->layout;
	layout->copies[0].offset = at;
	layout->length = layout->groups[0].length = layout->groups[0].chunk_bytes = bytes;
	op.target->length = bytes;
	fake_connect(0);
	op.offset = begin;
	op.operand = bytes - 2 * begin;
	assert_int_equal(afar_queue_submit(world.queue, &op, 1), 1);
	assert_int_equal(world.nr_transfers, MESSAGE_CREDITS);
	expect_zero(0, at + begin, max - at - begin, MESSAGE_ZERO_TRIM | MESSAGE_ZERO_DURABLE);
	for (unsigned i = 1; i < MESSAGE_CREDITS; i++)
		expect_zero(i, i * max, max, MESSAGE_ZERO_TRIM | MESSAGE_ZERO_DURABLE);
	fake_complete(0, 0);
	fake_complete(0, 0);
	assert_int_equal(world.nr_transfers, MESSAGE_CREDITS);
	expect_zero(MESSAGE_CREDITS - 2, MESSAGE_CREDITS * max, max,
		    MESSAGE_ZERO_TRIM | MESSAGE_ZERO_DURABLE);
	expect_zero(MESSAGE_CREDITS - 1, (MESSAGE_CREDITS + 1) * max, at - begin,
		    MESSAGE_ZERO_TRIM | MESSAGE_ZERO_DURABLE);
	fake_complete_all();
	assert_int_equal(afar_queue_wait(world.queue, &done, 1, 1, 0), 1);
	assert_int_equal(done.result, op.operand);
	fake_close();
	fake_target_free(op.target);
}

TEST_GROUP(submit)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goes_out_together),
		cmocka_unit_test(refuses_what_is_reserved),
		cmocka_unit_test(late_completions_do_not_count),
		cmocka_unit_test(cuts_zeros_between_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
