/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Order in a queue: what AFAR_OP_AFTER and AFAR_OP_FLUSH wait for, what becomes of them when something before
 * them fails, and that nothing else waits. First case by case, then walks through random programs in which
 * transfers end in any order, fail, are cancelled and expire, against the rules written down a second time.
 * AFAR_LONG=1 walks longer.
 */
#include "fake_fabric.h"

#define AFTER AFAR_OP_AFTER

static struct afar_target *narrow, *wide, *unconnected;
static char memory[64];

static void open_world(uint32_t depth, bool writes_need_flush)
{
	fake_open(depth, writes_need_flush);
	world.operands = memory;
	narrow = fake_target(0, 1);
	wide = fake_target(0, 2);
	unconnected = fake_target(2, 1);
	fake_connect(0);
	fake_connect(1);
}

static void close_world(void)
{
	fake_close();
	fake_target_free(narrow);
	fake_target_free(wide);
	fake_target_free(unconnected);
}

/* One operation; its user_data is `number`, and so is where its memory is. */
static int submit(unsigned number, unsigned opcode, unsigned flags, struct afar_target *target)
{
	struct afar_iov iov = {.addr = &memory[number % sizeof(memory)], .length = 1};
	static struct afar_iov iovs[sizeof(memory)];
	struct afar_op op = {
		.opcode = (uint16_t)opcode,
		.flags = (uint16_t)flags,
		.target = target,
		.user_data = number,
	};

	if (opcode >= AFAR_OP_FETCH_ADD) {
		op.operand = number;
		op.offset = number % target->layout->nr_servers * FAKE_UNIT;
	} else if (opcode != AFAR_OP_FLUSH) {
		iovs[number % sizeof(memory)] = iov;
		op.iov = &iovs[number % sizeof(memory)];
		op.nr_iov = 1;
		op.offset = number % target->layout->nr_servers * FAKE_UNIT;
	}
	return afar_queue_submit(world.queue, &op, 1);
}

#define put(number, flags, target) assert_int_equal(submit(number, AFAR_OP_WRITE, flags, target), 1)
#define get(number, flags, target) assert_int_equal(submit(number, AFAR_OP_READ, flags, target), 1)
#define flush(number, flags, target) \
	assert_int_equal(submit(number, AFAR_OP_FLUSH, flags, target), 1)

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

/* Reaps one that has completed. */
static void expect(unsigned number, int64_t result)
{
	struct afar_completion completion = {0};

	assert_int_equal(afar_queue_wait_one(world.queue, number, &completion, 0), 0);
	assert_int_equal(completion.result, result);
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
	open_world(8, false);
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
		expect(i, 1);
	/* With nothing before it, it starts at once. */
	put(5, AFTER, narrow);
	assert_true(is_posted(5));
	end(5, 0);
	expect(5, 1);
	close_world();
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
	open_world(3, false);
	for (unsigned i = 0; i < 3; i++)
		ops[i].target = narrow;
	assert_int_equal(afar_queue_submit(world.queue, ops, 3), 3);
	assert_int_equal(world.nr_transfers, 1);
	/* The queue is full of them. */
	assert_int_equal(submit(9, AFAR_OP_WRITE, AFTER, narrow), 0);
	fake_complete(0, 0);
	assert_int_equal(world.nr_transfers, 1);
	expect_in_flight(2);
	fake_complete(0, 0);
	for (unsigned i = 0; i < 3; i++)
		expect(i, i < 2);
	close_world();
}

static void test_failure_cancels(void **state)
{
	(void)state;
	open_world(8, false);
	put(0, 0, wide);
	put(1, 0, wide);
	put(2, AFTER, wide);
	put(3, AFTER, wide);
	end(1, -EIO); /* on the second server */
	expect(1, -AFAR_ESERVER);
	expect_in_flight(2); /* in its turn */
	end(0, 0);
	expect(0, 1);
	expect(2, -ECANCELED);
	expect(3, -ECANCELED);
	assert_int_equal(world.nr_posted, 2);
	assert_true(wide->has_loose_writes && !narrow->has_loose_writes);
	/* All were reaped: that is over. */
	put(4, AFTER, narrow);
	end(4, 0);
	expect(4, 1);
	close_world();
}

/* The failure of a later one comes first. */
static void test_failures_from_the_back(void **state)
{
	(void)state;
	open_world(8, false);
	put(0, 0, wide);
	put(2, AFTER, wide);
	put(1, 0, wide);
	put(3, AFTER, wide);
	end(1, -EIO);
	end(0, -EIO);
	assert_int_equal(world.nr_posted, 2);
	expect(0, -AFAR_ESERVER);
	expect(1, -AFAR_ESERVER);
	expect(2, -ECANCELED);
	expect(3, -ECANCELED);
	close_world();
}

static void test_failure_at_once(void **state)
{
	(void)state;
	open_world(8, false);
	put(0, 0, unconnected);
	put(1, AFTER, narrow);
	put(2, 0, narrow);
	put(3, AFTER, narrow);
	assert_false(is_posted(1));
	assert_true(is_posted(2));
	end(2, 0);
	expect(0, -ENOTCONN);
	expect(1, -ECANCELED);
	expect(2, 1);
	expect(3, -ECANCELED);
	/* It may fail by itself, when its turn comes. */
	put(4, 0, narrow);
	put(5, AFTER, unconnected);
	put(6, AFTER, narrow);
	end(4, 0);
	expect(4, 1);
	expect(5, -ENOTCONN);
	expect(6, -ECANCELED);
	close_world();
}

/* What fails and is reaped while an earlier one still waits must not reach those that come later. */
static void test_reaped_failure_is_forgotten(void **state)
{
	(void)state;
	open_world(8, false);
	put(0, 0, narrow);
	put(1, AFTER, narrow);
	put(2, 0, unconnected);
	expect(2, -ENOTCONN);
	put(3, AFTER, narrow);
	end(0, 0);
	end(1, 0);
	end(3, 0);
	expect(0, 1);
	expect(1, 1);
	expect(3, 1);
	/* The failure of a later one does not reach an earlier one. */
	put(0, 0, narrow);
	put(1, AFTER, narrow);
	put(2, 0, unconnected);
	end(0, 0);
	end(1, 0);
	expect(0, 1);
	expect(1, 1);
	expect(2, -ENOTCONN);
	close_world();
}

static void test_cancelling(void **state)
{
	(void)state;
	open_world(8, false);
	put(0, 0, narrow);
	put(1, AFTER, narrow);
	put(2, AFTER, narrow);
	assert_int_equal(afar_queue_cancel(world.queue, 1), 1); /* costs no connection */
	expect(1, -ECANCELED);
	assert_true(is_posted(0));
	expect_in_flight(2);
	end(0, 0);
	expect(0, 1);
	expect(2, -ECANCELED);
	put(3, 0, narrow);
	put(4, AFTER, narrow);
	assert_int_equal(afar_queue_cancel(world.queue, 3), 1);
	expect(3, -ECANCELED);
	expect(4, -ECANCELED);
	assert_true(narrow->has_loose_writes);
	close_world();
}

static void test_expiry(void **state)
{
	(void)state;
	open_world(8, false);
	put(0, 0, narrow);
	put(1, AFTER, narrow);
	flush(2, 0, narrow);
	cds_list_first_entry(&world.queue->active, struct operation, node)->deadline = 0;
	queue_check(world.queue);
	expect(0, -ETIMEDOUT);
	expect(1, -ECANCELED);
	expect(2, -ECANCELED);
	assert_int_equal(world.nr_posted, 1);
	close_world();
}

/* What waits for order and then finds no room. */
static void test_no_room(void **state)
{
	(void)state;
	open_world(8, true);
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
	expect(0, 1);
	expect(1, 1);
	expect(2, 0);
	expect(3, 1);
	close_world();
}

/* What found no room on a connection that is cut has failed: nobody may go to sleep on it. */
static void test_cut_while_blocked(void **state)
{
	struct afar_completion completion;

	(void)state;
	open_world(8, false);
	world.room = 1;
	put(0, 0, narrow);
	put(1, 0, narrow);
	put(2, AFTER, narrow);
	assert_int_equal(afar_queue_cancel(world.queue, 0), 1);
	expect(0, -ECANCELED);
	assert_int_equal(afar_queue_wait_one(world.queue, 1, &completion, -1), 0);
	assert_int_equal(completion.result, -AFAR_ESERVER);
	expect(2, -ECANCELED);
	close_world();
}

/* A long chain that falls at once neither nests nor takes the square of its length. */
/* That it was sealed is found out when a write has been taken and has to wait: it begins no more. */
static void test_sealed_while_waiting(void **state)
{
	(void)state;
	open_world(8, false);
	put(0, 0, narrow);
	put(1, AFTER, narrow);
	narrow->layout->is_sealed = true;
	narrow->is_sealed = true;
	end(0, 0);
	assert_false(is_posted(1));
	expect(1, -EROFS);
	expect(0, 1);
	assert_int_equal(submit(2, AFAR_OP_WRITE, 0, narrow), -EROFS);
	assert_int_equal(submit(3, AFAR_OP_FETCH_ADD, 0, narrow), -EROFS);
	get(4, 0, narrow);
	end(4, 0);
	expect(4, 1);
	flush(5, 0, narrow);
	expect(5, 0);
	close_world();
}

static void test_long_chains(void **state)
{
	const unsigned length = 65535;

	(void)state;
	open_world(length + 1, false);
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
	close_world();
}

/* ---- AFAR_OP_FLUSH */

static void test_flush_without_transfer(void **state)
{
	(void)state;
	open_world(8, false);
	flush(0, 0, narrow);
	expect(0, 0);
	put(1, 0, narrow);
	get(2, 0, narrow);
	put(3, 0, wide);
	flush(4, 0, narrow);
	flush(5, AFTER, narrow);
	put(6, 0, narrow);
	expect_in_flight(4);
	end(1, 0);
	expect(4, 0); /* reads, other targets and later writes are none of its business */
	expect_in_flight(5);
	fake_complete_all();
	expect(5, 0);
	assert_int_equal(world.nr_posted, 4);
	expect(1, 1);
	expect(2, 1);
	expect(3, 1);
	expect(6, 1);
	close_world();
}

static void test_flush_reads_behind(void **state)
{
	(void)state;
	open_world(8, true);
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
	expect(1, 0);
	end(2, 0);
	expect(0, 1);
	expect(2, 1);

	/* Who may not write has nothing to make visible. */
	wide->rights = RIGHT_READ;
	flush(3, 0, wide);
	expect(3, 0);
	wide->rights = RIGHT_ALL;
	/* One that fails under way. */
	flush(4, 0, wide);
	put(5, AFTER, narrow);
	fake_complete(1, -EIO);
	fake_complete(0, 0);
	expect(4, -AFAR_ESERVER);
	expect(5, -ECANCELED);
	flush(6, 0, wide);
	fake_complete_all();
	expect(6, -AFAR_ESERVER);
	close_world();
}

static void test_flush_failures(void **state)
{
	(void)state;
	for (int needs_flush = 0; needs_flush < 2; needs_flush++) {
		open_world(8, needs_flush);
		flush(0, 0, unconnected);
		expect(0, -ENOTCONN);
		get(1, 0, unconnected);
		flush(2, 0, narrow);
		fake_complete_all();
		expect(2, 0); /* another's failure */
		expect(1, -ENOTCONN);
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
		expect(0, 1);
		expect(1, -AFAR_ESERVER);
		expect(2, -ECANCELED);
		expect(3, 0);
		expect(4, 1);
		expect(5, -ECANCELED);
		wide->is_lost = true;
		flush(6, 0, wide);
		expect(6, -AFAR_ELOST);
		close_world();
	}
}

/* ---- Bad input */

static void test_bad_input(void **state)
{
	struct afar_iov iov = {.addr = memory, .length = 1};
	struct afar_op op = {.opcode = AFAR_OP_FLUSH};

	(void)state;
	open_world(8, false);
	op.target = narrow;
	assert_int_equal(submit(0, AFAR_OP_WRITE, 2, narrow), -EINVAL);
	assert_non_null(strstr(afar_last_error(), "flags"));
	assert_int_equal(submit(0, AFAR_OP_WRITE, AFTER | 0x8000, narrow), -EINVAL);
	assert_int_equal(submit(0, 0, 0, narrow), -EINVAL);
	assert_non_null(strstr(afar_last_error(), "opcode"));
	assert_int_equal(submit(0, AFAR_OP_COMPARE_SWAP + 1, 0, narrow), -EINVAL);
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
	assert_int_equal(submit(0, AFAR_OP_WRITE, AFTER, narrow), -EACCES);
	close_world();
}

/* ---- Random programs */

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

/* Whether one has to do with an earlier one. */
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
					   AFAR_OP_FLUSH};
	struct afar_target *const targets[] = {narrow, narrow, wide, wide, wide, wide, unconnected};
	unsigned number = walk.nr_steps++;
	struct step *step = &walk.steps[number];

	*step = (struct step){
		.opcode = opcodes[dice(4)],
		.flags = dice(3) ? 0 : AFTER,
		.target = targets[dice(7)],
	};
	for (unsigned i = 0; i < number; i++)
		step->unreaped |= (uint32_t)!walk.steps[i].is_reaped << i;
	if (dice(20) == 0)
		world.post_error = -EIO;
	assert_int_equal(submit(number, step->opcode, step->flags, step->target), 1);
	world.post_error = 0;
}

static int64_t result_of(const struct step *step)
{
	if (step->status || step->opcode == AFAR_OP_FLUSH)
		return step->status;
	return step->opcode == AFAR_OP_FETCH_ADD ? 8 : 1;
}

static void reap_random(void)
{
	unsigned number = dice(walk.nr_steps + 1);
	struct step *step = &walk.steps[number];

	if (number == walk.nr_steps || !step->is_done || step->is_reaped)
		return;
	expect(number, result_of(step));
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
	open_world(PROGRAM_MAX, dice(2));
	world.posting = on_post;
	world.room = 1 + dice(12);
	for (unsigned i = 0; i < 60; i++)
		take_random_step();
	while (world.queue->nr_active) {
		if (world.nr_transfers)
			fake_complete(dice(world.nr_transfers), 0);
		else
			/* What is left found no room before. */
			assert_true(queue_check(world.queue) || world.nr_transfers);
		note_done();
		check_active();
	}
	for (unsigned i = 0; i < walk.nr_steps; i++) {
		assert_true(walk.steps[i].is_done);
		if (!walk.steps[i].is_reaped)
			expect(i, result_of(&walk.steps[i]));
	}
	close_world();
}

static void test_random_programs(void **state)
{
	uint64_t nr_walks = getenv("AFAR_LONG") ? 1000000 : 20000;

	(void)state;
	for (uint64_t seed = 1; seed <= nr_walks; seed++)
		walk_once(seed);
}

int main(void)
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
		cmocka_unit_test(test_random_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
