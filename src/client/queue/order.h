/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of a queue's operations: those that wait for earlier ones, and when they may start. */
#ifndef CLIENT_ORDER_H
#define CLIENT_ORDER_H

#include "client/queue/queue.h"

/* Holds a new operation, the last of the active ones, until those that it must wait for have
 * completed. A flush without AFAR_OP_AFTER waits for the writes to its target, any other operation
 * for all before it. */
void order_hold(struct afar_queue *queue, struct operation *operation);
/* Call it when an operation is no longer active. Makes ready what waited for it. queue_settle()
 * starts that later, when nobody is in the middle of an operation. */
void order_finished(struct afar_queue *queue, const struct operation *operation);

#endif
