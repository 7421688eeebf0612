/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kind of target of its own, with a table of operations: queues carry out what the table says, and know nothing else of it.
 * Its bytes are its carrier's, with the halves swapped. A thread carries out its writes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "client/queue/away.h"
#include "lib/client/fake_fabric.h"
#include "unit/group.h"

#define HALF (FAKE_UNIT / 2)

static struct {
	struct afar_target *carrier, target;
	struct operation *away;
	unsigned nr_held, nr_runs, nr_finished, nr_let_go, nr_left;
	bool is_begun; /* by the thread */
} own;

static int check_flags(const struct afar_op *op)
{
	return op->flags & AFAR_OP_CHECKED ? error_fail(-EOPNOTSUPP, "swapped: no flags") : 0;
}

static int check(const struct afar_op *op, uint64_t length)
{
	return op->offset + length > FAKE_UNIT ? error_fail(-EDOM, "swapped: too far") : 0;
}

static int connect_own(struct afar_queue *queue, struct afar_target *target)
{
	int ret = away_open(queue);

	handle_unuse(&target->handle);
	return ret;
}

static void leave(struct afar_target *target)
{
	own.nr_left++;
	handle_unuse(&target->handle);
}

static void hold(struct operation *operation)
{
	assert_ptr_equal(operation->target, &own.target);
	own.nr_held++;
}

static void next_run(struct operation *operation)
{
	bool is_first = operation->offset < HALF;

	own.nr_runs++;
	operation->shift = is_first ? HALF : UINT64_C(0) - HALF;
	operation->run_end = is_first ? HALF : FAKE_UNIT;
}

static int start(struct afar_queue *queue, struct operation *operation)
{
	if (operation->remaining == 0 || operation->status)
		return 0;
	if (operation->opcode == AFAR_OP_READ) {
		next_run(operation);
		return 0;
	}
	operation_go_away(queue, operation);
	own.away = operation;
	return -EAGAIN;
}

static bool finish(struct afar_queue *queue, struct operation *operation)
{
	/* A read that has failed with its server is done again by the thread. */
	bool is_again = operation->opcode == AFAR_OP_READ && operation->status == -AFAR_ESERVER;

	own.nr_finished++;
	if (!is_again)
		return false;
	operation_go_away(queue, operation);
	own.away = operation;
	return true;
}

static void let_go(const struct operation *operation)
{
	own.nr_let_go++;
	handle_unuse(&operation->target->handle);
}

static bool take_back(struct afar_queue *queue, struct operation *operation)
{
	if (own.is_begun)
		return false;
	operation_come_back(queue, operation);
	return true;
}

static const struct target_ops swapped_ops = {
	.check_flags = check_flags,
	.check = check,
	.connect = connect_own,
	.leave = leave,
	.hold = hold,
	.start = start,
	.next_run = next_run,
	.finish = finish,
	.let_go = let_go,
	.take_back = take_back,
};

static const struct target_kind swapped_kind = {
	.noun = "swapped target",
	.called = "swap",
	.handle = HANDLE_REGION,
	.opcodes = 1U << AFAR_OP_READ | 1U << AFAR_OP_WRITE | 1U << AFAR_OP_FLUSH,
	.ops = &swapped_ops,
};

static void open_own(void)
{
	fake_open(8, false);
	memset(&own, 0, sizeof(own));
	own.carrier = fake_target(0, 1);
	own.target = (struct afar_target){.handle = {.kind = HANDLE_REGION},
					  .kind = &swapped_kind,
					  .session = &world.session,
					  .carrier = own.carrier,
					  .ns_name = "fake",
					  .rights = RIGHT_ALL};
	fake_connect(0);
	assert_int_equal(afar_queue_connect(world.queue, &own.target), 0);
}

static void close_own(void)
{
	assert_int_equal(own.target.handle.nr_users, 0);
	fake_close();
	fake_target_free(own.carrier);
}

static int submit(uint16_t opcode, uint32_t flags, uint64_t offset, uint64_t user_data)
{
	static char memory[FAKE_UNIT];
	static struct afar_iov iov;
	const bool is_flush = opcode == AFAR_OP_FLUSH;
	const struct afar_op op = {.opcode = opcode,
				   .flags = flags,
				   .target = &own.target,
				   .iov = &iov,
				   .nr_iov = !is_flush,
				   .offset = offset,
				   .user_data = user_data};

	iov = (struct afar_iov){.addr = memory, .length = FAKE_UNIT};
	return afar_queue_submit(world.queue, &op, 1);
}

static int64_t reap(uint64_t user_data)
{
	struct afar_completion done;

	assert_int_equal(afar_queue_wait(world.queue, &done, 1, 1, 0), 1);
	assert_int_equal(done.user_data, user_data);
	return done.result;
}

/* An operation that goes directly takes each run from the table. */
static void goes_by_runs(void **state)
{
	(void)state;
	open_own();
	assert_int_equal(submit(AFAR_OP_READ, 0, 0, 1), 1);
	assert_int_equal(world.nr_transfers, 2);
	assert_ptr_equal((char *)world.transfers[0].addr + HALF, world.transfers[1].addr);
	assert_int_equal(own.nr_runs, 2);
	fake_complete(0, 0);
	assert_int_equal(own.nr_finished, 0);
	fake_complete_all();
	assert_int_equal(reap(1), FAKE_UNIT);
	assert_int_equal(own.nr_finished, 1);
	assert_int_equal(own.nr_let_go, 1);
	close_own();
}

/* The table refuses what it wants to, and then nothing is counted in. */
static void refuses(void **state)
{
	(void)state;
	open_own();
	assert_int_equal(submit(AFAR_OP_READ, 0, 1, 1), -EDOM);
	assert_int_equal(submit(AFAR_OP_READ, AFAR_OP_CHECKED, 0, 1), -EOPNOTSUPP);
	assert_string_equal(afar_last_error(), "swapped: no flags");
	assert_int_equal(submit(AFAR_OP_SYNC, 0, 0, 1), -EOPNOTSUPP);
	assert_non_null(strstr(afar_last_error(), "a swap takes no opcode"));
	assert_int_equal(own.nr_left, 0);
	close_own();
}

/* A thread gives back its answer, and the line of a failure. */
static void is_carried_out_away(void **state)
{
	struct afar_completion done;

	(void)state;
	open_own();
	assert_int_equal(submit(AFAR_OP_WRITE, 0, 0, 1), 1);
	assert_int_equal(world.nr_transfers, 0);
	assert_int_equal(afar_queue_wait(world.queue, &done, 1, 0, 0), 0);
	own.away->answer = 5;
	operation_return(own.away);
	assert_int_equal(reap(1), 5);
	assert_int_equal(submit(AFAR_OP_WRITE, 0, 0, 2), 1);
	own.away->answer = error_fail(-EXDEV, "the thread's own line");
	operation_return(own.away);
	error_fail(-EIO, "another line");
	assert_int_equal(reap(2), -EXDEV);
	done = (struct afar_completion){.user_data = 2, .result = -EXDEV};
	assert_int_equal(afar_queue_explain(world.queue, &done), -EXDEV);
	assert_string_equal(afar_last_error(), "the thread's own line");
	assert_int_equal(own.nr_let_go, 2);
	close_own();
}

/* One that has failed with its server goes to the thread as the table says, from its beginning. */
static void is_done_again(void **state)
{
	(void)state;
	open_own();
	assert_int_equal(submit(AFAR_OP_READ, 0, 0, 1), 1);
	fake_complete(0, -ECONNRESET);
	assert_non_null(own.away);
	assert_int_equal(own.nr_let_go, 0);
	own.away->answer = FAKE_UNIT;
	operation_return(own.away);
	assert_int_equal(reap(1), FAKE_UNIT);
	assert_int_equal(own.nr_let_go, 1);
	close_own();
}

/* A cancel takes back what no thread has begun. A flush is held behind a write, and fails with it. */
static void is_taken_back(void **state)
{
	(void)state;
	open_own();
	assert_int_equal(submit(AFAR_OP_WRITE, 0, 0, 1), 1);
	assert_int_equal(submit(AFAR_OP_FLUSH, 0, 0, 2), 1);
	assert_int_equal(own.nr_held, 1);
	own.is_begun = true;
	assert_int_equal(afar_queue_cancel(world.queue, 1), 0);
	own.is_begun = false;
	assert_int_equal(afar_queue_cancel(world.queue, 1), 1);
	assert_int_equal(reap(1), -ECANCELED);
	assert_int_equal(reap(2), -ECANCELED);
	assert_int_equal(own.nr_let_go, 2);
	close_own();
}

TEST_GROUP(kinds)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goes_by_runs),	       cmocka_unit_test(refuses),
		cmocka_unit_test(is_carried_out_away), cmocka_unit_test(is_done_again),
		cmocka_unit_test(is_taken_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
