/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue over a fake fabric with three targets, and operations that are told apart by numbers: for the
 * tests of the order in a queue, each of which is one file.
 */
#ifndef AFAR_TESTS_ORDER_H
#define AFAR_TESTS_ORDER_H

#include "fake_fabric.h"

#define AFTER AFAR_OP_AFTER

/* On server 0; on 0 and 1; on 2, to which there is no connection. */
static struct afar_target *narrow, *wide, *unconnected;
/* A byte for each number, by which its transfer is known. */
static char memory[64];

static inline void order_open(uint32_t depth, bool writes_need_flush)
{
	fake_open(depth, writes_need_flush);
	world.operands = memory;
	narrow = fake_target(0, 1);
	wide = fake_target(0, 2);
	unconnected = fake_target(2, 1);
	fake_connect(0);
	fake_connect(1);
}

static inline void order_close(void)
{
	fake_close();
	fake_target_free(narrow);
	fake_target_free(wide);
	fake_target_free(unconnected);
}

/* One operation; its user_data is `number`, and so is where its memory is. */
static inline int order_submit(unsigned number, unsigned opcode, unsigned flags,
			       struct afar_target *target)
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
		op.offset = number % target->binding->layout->nr_servers * FAKE_UNIT;
	} else if (opcode != AFAR_OP_FLUSH) {
		iovs[number % sizeof(memory)] = iov;
		op.iov = &iovs[number % sizeof(memory)];
		op.nr_iov = 1;
		op.offset = number % target->binding->layout->nr_servers * FAKE_UNIT;
	}
	return afar_queue_submit(world.queue, &op, 1);
}

/* Reaps one that has completed. */
static inline void order_expect(unsigned number, int64_t result)
{
	struct afar_completion completion = {0};

	assert_int_equal(afar_queue_wait_one(world.queue, number, &completion, 0), 0);
	assert_int_equal(completion.result, result);
}

#endif
