/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue over a fake fabric with three targets; see order.h. */
#include "lib/client/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct afar_target *narrow, *wide, *unconnected;
char memory[64];

void order_open(uint32_t depth, bool writes_need_flush)
{
	fake_open(depth, writes_need_flush);
	world.operands = memory;
	narrow = fake_target(0, 1);
	wide = fake_target(0, 2);
	unconnected = fake_target(2, 1);
	fake_connect(0);
	fake_connect(1);
}

void order_close(void)
{
	fake_close();
	fake_target_free(narrow);
	fake_target_free(wide);
	fake_target_free(unconnected);
}

int order_submit(unsigned number, unsigned opcode, unsigned flags, struct afar_target *target)
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
		op.offset = number % target->binding->layout->nr_homes * FAKE_UNIT;
	} else if (opcode != AFAR_OP_FLUSH) {
		iovs[number % sizeof(memory)] = iov;
		op.iov = &iovs[number % sizeof(memory)];
		op.nr_iov = 1;
		op.offset = number % target->binding->layout->nr_homes * FAKE_UNIT;
	}
	return afar_queue_submit(world.queue, &op, 1);
}

void order_expect(unsigned number, int64_t result)
{
	struct afar_completion completion = {0};

	assert_int_equal(afar_queue_wait_one(world.queue, number, &completion, 0), 0);
	assert_int_equal(completion.result, result);
}
