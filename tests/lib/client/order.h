/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue over a fake fabric with three targets, and operations that numbers tell apart: for the
 * tests of the order in a queue.
 */
#ifndef TESTS_ORDER_H
#define TESTS_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/client/fake_fabric.h"

#define AFTER AFAR_OP_AFTER

/* On server 0; on 0 and 1; on 2, to which there is no connection. */
extern struct afar_target *narrow, *wide, *unconnected;
/* A byte for each number, by which its transfer is known. */
extern char memory[64];

void order_open(uint32_t depth, bool writes_need_flush);
void order_close(void);

/* Submits one operation. Its user_data is `number`, and so is where its memory is. */
int order_submit(unsigned number, unsigned opcode, unsigned flags, struct afar_target *target);
/* Reaps one that has completed. */
void order_expect(unsigned number, int64_t result);

#endif
