/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks through random programs of a queue, against the rules of AFAR_OP_AFTER and AFAR_OP_FLUSH written down a
 * second time. Transfers end in any order, fail, are cancelled and expire. AFAR_LONG=1 walks longer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lib/client/order.h"
#include "unit/group.h"

#define PROGRAM_MAX 24

/* An operation as the rules see it. */
struct step {
	unsigned opcode, flags;
	struct afar_target *target;
	uint32_t unreaped; /* of those before it, at its submission */
	bool is_posted, is_ended_by_us, is_done, is_reaped;
	int status;
};

static struct walk {
	struct step steps[PROGRAM_MAX];
	unsigned nr_steps;
	uint64_t random;
} walk;

static unsigned dice(unsigned sides)
{
	walk.random ^= walk.random << 13;
	walk.random ^= walk.random >> 7;
	walk.random ^= walk.random << 17;
	return (unsigned)(walk.random >> 32) % sides;
}

/* Returns whether a step has to do with an earlier one. */
static bool heeds(const struct step *step, const struct step *earlier)
{
	if (step->flags & AFTER)
		return true;
	return step->opcode == AFAR_OP_FLUSH && earlier->opcode != AFAR_OP_FLUSH &&
	       earlier->opcode != AFAR_OP_READ && earlier->target == step->target;
}

static bool has_to_wait(unsigned number)
{
	for (unsigned i = 0; i < number; i++) {
		if (!walk.steps[i].is_done && heeds(&walk.steps[number], &walk.steps[i]))
			return true;
	}
	return false;
}

static bool has_to_fail(unsigned number)
{
	const struct step *step = &walk.steps[number];

	for (unsigned i = 0; i < number; i++) {
		if ((step->unreaped >> i & 1) && walk.steps[i].status &&
		    heeds(step, &walk.steps[i]))
			return true;
	}
	return false;
}

static bool is_active(unsigned number)
{
	const struct operation *operation;

	cds_list_for_each_entry (operation, &world.queue->active, node) {
		if (operation->user_data == number)
			return true;
	}
	return false;
}

/* Nothing before it that it heeds is under way, or has failed: seen when it is posted. */
static void on_post(const struct fake_transfer *transfer)
{
	unsigned number = (unsigned)((char *)transfer->addr - memory);

	if (world.queue->scratch && transfer->addr == world.queue->scratch->addr)
		return;
	assert_true(number < walk.nr_steps);
	walk.steps[number].is_posted = true;
	for (unsigned i = 0; i < number; i++) {
		if (heeds(&walk.steps[number], &walk.steps[i]))
			assert_false(is_active(i));
	}
	assert_false(has_to_fail(number));
}

static void note_done(void)
{
	const struct operation *operation;

	/* In order of completion, so that each finds the fate of those before it. */
	cds_list_for_each_entry (operation, &world.queue->done, node) {
		unsigned number = (unsigned)operation->user_data;
		struct step *step = &walk.steps[number];

		if (step->is_done)
			continue;
		step->is_done = true;
		step->status = operation->status;
		if (step->is_ended_by_us)
			continue;
		assert_false(has_to_wait(number));
		if (has_to_fail(number)) {
			assert_int_equal(step->status, -ECANCELED);
			assert_false(step->is_posted);
		} else if (step->status == -ECANCELED && step->opcode != AFAR_OP_FLUSH) {
			assert_true(step->is_posted); /* its connection was closed under it */
		}
	}
}

static void check_active(void)
{
	const struct operation *operation;

	cds_list_for_each_entry (operation, &world.queue->active, node) {
		unsigned number = (unsigned)operation->user_data;

		if (has_to_wait(number)) {
			assert_false(walk.steps[number].is_posted);
			assert_true(operation->waits == WAITS_FOR_ALL ||
				    operation->waits == WAITS_FOR_WRITES);
			assert_int_equal(operation->nr_in_flight, 0);
		} else {
			assert_false(has_to_fail(number));
			assert_true(operation->waits == WAITS_FOR_ROOM || operation->nr_in_flight);
		}
	}
}

static void submit_random(void)
{
	static const unsigned opcodes[] = {AFAR_OP_READ, AFAR_OP_WRITE, AFAR_OP_FETCH_ADD,
					   AFAR_OP_FLUSH, AFAR_OP_ZERO};
	struct afar_target *const targets[] = {narrow, narrow, wide, wide, wide, wide, unconnected};
	unsigned number = walk.nr_steps++;
	struct step *step = &walk.steps[number];

	*step = (struct step){
		.opcode = opcodes[dice(5)],
		.flags = dice(3) ? 0 : AFTER,
		.target = targets[dice(7)],
	};
	for (unsigned i = 0; i < number; i++)
		step->unreaped |= (uint32_t)!walk.steps[i].is_reaped << i;
	if (dice(20) == 0)
		world.post_error = -EIO;
	assert_int_equal(order_submit(number, step->opcode, step->flags, step->target), 1);
	world.post_error = 0;
}

static int64_t result_of(unsigned number)
{
	const struct step *step = &walk.steps[number];

	if (step->status || step->opcode == AFAR_OP_FLUSH)
		return step->status;
	if (step->opcode == AFAR_OP_ZERO)
		return number; /* its length is its operand */
	return step->opcode == AFAR_OP_FETCH_ADD ? 8 : 1;
}

static void reap_random(void)
{
	unsigned number = dice(walk.nr_steps + 1);
	struct step *step = &walk.steps[number];

	if (number == walk.nr_steps || !step->is_done || step->is_reaped)
		return;
	order_expect(number, result_of(number));
	step->is_reaped = true;
}

static void cancel_random(void)
{
	unsigned number = dice(walk.nr_steps + 1);

	if (number == walk.nr_steps || walk.steps[number].is_done)
		return;
	walk.steps[number].is_ended_by_us = true;
	assert_int_equal(afar_queue_cancel(world.queue, number), 1);
}

static void expire_first(void)
{
	struct operation *first;

	if (cds_list_empty(&world.queue->active))
		return;
	first = cds_list_first_entry(&world.queue->active, struct operation, node);
	walk.steps[first->user_data].is_ended_by_us = true;
	first->deadline = 0;
	queue_check(world.queue);
}

static void take_random_step(void)
{
	switch (dice(12)) {
	case 0:
		expire_first();
		break;
	case 1:
		cancel_random();
		break;
	case 2:
		fake_connect(dice(2));
		break;
	case 3:
	case 4:
		reap_random();
		break;
	case 5:
		if (world.nr_transfers)
			fake_complete(dice(world.nr_transfers), -EIO);
		break;
	case 6:
	case 7:
	case 8:
		if (world.nr_transfers)
			fake_complete(dice(world.nr_transfers), 0);
		break;
	default:
		if (walk.nr_steps < PROGRAM_MAX)
			submit_random();
	}
	note_done();
	check_active();
}

static void walk_once(uint64_t seed)
{
	walk = (struct walk){.random = seed * 0x9E3779B97F4A7C15U + 1};
	order_open(PROGRAM_MAX, dice(2));
	world.posting = on_post;
	world.room = 1 + dice(12);
	for (unsigned i = 0; i < 60; i++)
		take_random_step();
	while (world.queue->nr_active) {
		if (world.nr_transfers)
			fake_complete(dice(world.nr_transfers), 0);
		else
			/* Those that are left found no room before. */
			assert_true(queue_check(world.queue) || world.nr_transfers);
		note_done();
		check_active();
	}
	for (unsigned i = 0; i < walk.nr_steps; i++) {
		assert_true(walk.steps[i].is_done);
		if (!walk.steps[i].is_reaped)
			order_expect(i, result_of(i));
	}
	order_close();
}

static void test_random_programs(void **state)
{
	uint64_t nr_walks = getenv("AFAR_LONG") ? 1000000 : 20000;

	(void)state;
	for (uint64_t seed = 1; seed <= nr_walks; seed++)
		walk_once(seed);
}

TEST_GROUP(order_random)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
