/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes in doubt: however a connection ends, the server may have bytes of it that it has not come to. So writes
 * that were in flight on it count as in doubt until the server has said that it is closed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lib/client/fake_fabric.h"
#include "unit/group.h"

static struct afar_target *target;
static char memory[64];

static void open_world(void)
{
	fake_open(8, false);
	world.operands = memory;
	target = fake_target(0, 1);
	fake_connect(0);
}

static void close_world(void)
{
	fake_close();
	fake_target_free(target);
}

static int submit(uint16_t opcode)
{
	static struct afar_iov iov = {.addr = memory, .length = 1};
	struct afar_op op = {.opcode = opcode, .target = target};

	if (opcode == AFAR_OP_READ || opcode == AFAR_OP_WRITE) {
		op.iov = &iov;
		op.nr_iov = 1;
	}
	if (opcode_is_zero(opcode))
		op.operand = 1;
	return afar_queue_submit(world.queue, &op, 1);
}

static void reap(int64_t result)
{
	struct afar_completion completion;

	assert_int_equal(afar_queue_wait(world.queue, &completion, 1, 1, 0), 1);
	assert_int_equal(completion.result, result);
}

/* Each closes the only connection, which has one operation in flight. */

static void end_reset(void)
{
	fake_complete(0, -ECONNRESET);
}

static void end_silent(void)
{
	fake_complete(0, -ETIMEDOUT);
}

static void end_failed(void)
{
	fake_complete(0, -EIO);
}

static void end_event(int status)
{
	world.event = (struct fabric_event){
		.kind = FABRIC_CLOSED, .endpoint = &world.endpoints[0], .status = status};
	queue_check(world.queue);
}

static void end_closed(void)
{
	end_event(-ECONNRESET);
}

static void end_closed_silent(void)
{
	end_event(-ETIMEDOUT);
}

/* The next operation finds that the connection has ended. */
static void end_at_post(void)
{
	world.post_error = -ENOTCONN;
	assert_int_equal(submit(AFAR_OP_READ), 1);
	reap(-AFAR_ESERVER);
}

static void end_cancelled(void)
{
	assert_int_equal(afar_queue_cancel(world.queue, 0), 1);
}

static const struct ending {
	void (*end)(void);
	int64_t result;
} endings[] = {
	{end_reset, -AFAR_ESERVER},	    {end_silent, -AFAR_ESERVER},
	{end_failed, -AFAR_ESERVER},	    {end_closed, -AFAR_ESERVER},
	{end_closed_silent, -AFAR_ESERVER}, {end_at_post, -AFAR_ESERVER},
	{end_cancelled, -ECANCELED},
};

#define NR_ENDINGS (sizeof(endings) / sizeof(endings[0]))

/* In any of these ways, with such an operation in flight. */
static void end_under(uint16_t opcode, bool is_in_doubt)
{
	for (size_t i = 0; i < NR_ENDINGS; i++) {
		open_world();
		assert_int_equal(submit(opcode), 1);
		assert_int_equal(world.nr_transfers, 1);
		endings[i].end();
		/* Either may be first: the operation in flight, or the one that found the end. */
		if (endings[i].end != end_at_post)
			reap(endings[i].result);
		else
			reap(-AFAR_ESERVER);
		assert_int_equal(world.queue->paths[0]->state, PATH_DOWN);
		assert_int_equal(target->has_writes_in_doubt, is_in_doubt);
		assert_int_equal(target_is_in_doubt(target), is_in_doubt);
		assert_int_equal(world.reaches[0].nr_in_doubt, is_in_doubt ? 1 : 0);
		assert_int_equal(peer_find_doubt(&world.peers[0], &world.reaches[0]),
				 is_in_doubt ? FAKE_CONNECTION : 0);
		close_world();
	}
}

static void test_writes(void **state)
{
	(void)state;
	end_under(AFAR_OP_WRITE, true);
	end_under(AFAR_OP_ZERO, true);
}

static void test_atomics(void **state)
{
	(void)state;
	end_under(AFAR_OP_FETCH_ADD, true);
}

static void test_reads(void **state)
{
	(void)state;
	end_under(AFAR_OP_READ, false);
}

static void test_what_has_completed(void **state)
{
	(void)state;
	open_world();
	assert_int_equal(submit(AFAR_OP_WRITE), 1);
	fake_complete_all();
	reap(1);
	end_closed();
	assert_int_equal(world.queue->paths[0]->state, PATH_DOWN);
	assert_false(target_is_in_doubt(target));
	assert_int_equal(world.reaches[0].nr_in_doubt, 0);
	close_world();
}

/* A path over several lanes ends as a whole, and the write may have gone over any of them. */
static void test_all_lanes(void **state)
{
	struct path_lane *lanes;

	(void)state;
	open_world();
	lanes = world.queue->paths[0]->lanes;
	for (uint32_t i = 1; i < FAKE_SERVERS; i++) {
		lanes[i] = (struct path_lane){.endpoint = &world.endpoints[i],
					      .connection = FAKE_CONNECTION + i,
					      .doubt = malloc(sizeof(*lanes[i].doubt))};
		assert_non_null(lanes[i].doubt);
	}
	world.queue->paths[0]->nr_lanes = FAKE_SERVERS;
	assert_int_equal(submit(AFAR_OP_WRITE), 1);
	end_closed();
	reap(-AFAR_ESERVER);
	assert_int_equal(world.reaches[0].nr_in_doubt, FAKE_SERVERS);
	for (uint32_t i = 0; i < FAKE_SERVERS; i++) {
		assert_true(target_is_in_doubt(target));
		assert_int_equal(peer_find_doubt(&world.peers[0], &world.reaches[0]),
				 FAKE_CONNECTION + i);
		peer_forget_doubt(&world.peers[0], &world.reaches[0], FAKE_CONNECTION + i);
	}
	assert_false(target_is_in_doubt(target));
	close_world();
}

static void test_until_the_server_has_said_so(void **state)
{
	(void)state;
	open_world();
	for (unsigned i = 0; i < 2; i++) {
		fake_connect(0);
		world.queue->paths[0]->lanes[0].connection += i;
		assert_int_equal(submit(AFAR_OP_WRITE), 1);
		end_closed();
		reap(-AFAR_ESERVER);
	}
	assert_int_equal(world.reaches[0].nr_in_doubt, 2);
	peer_forget_doubt(&world.peers[0], &world.reaches[0], FAKE_CONNECTION);
	assert_true(target_is_in_doubt(target));
	peer_forget_doubt(&world.peers[0], &world.reaches[0], FAKE_CONNECTION + 1);
	assert_false(target_is_in_doubt(target));
	close_world();
}

/* It has another incarnation: what it had of the last is gone. */
static void test_of_a_server_that_restarted(void **state)
{
	(void)state;
	open_world();
	assert_int_equal(submit(AFAR_OP_WRITE), 1);
	end_closed();
	reap(-AFAR_ESERVER);
	assert_true(target_is_in_doubt(target));
	world.peers[0].is_lost = true;
	assert_false(target_is_in_doubt(target));
	close_world();
}

TEST_GROUP(in_doubt)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_writes),
		cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_reads),
		cmocka_unit_test(test_what_has_completed),
		cmocka_unit_test(test_all_lanes),
		cmocka_unit_test(test_until_the_server_has_said_so),
		cmocka_unit_test(test_of_a_server_that_restarted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
