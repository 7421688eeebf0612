/* SPDX-License-Identifier: BSD-3-Clause */
/* The common part of blocking transfers: each borrows a queue of the session's. */
#ifndef CLIENT_BLOCKING_H
#define CLIENT_BLOCKING_H

#include "client/target/apart.h"

/* Counts the caller into the target, which then cannot be closed, and borrows a queue that is
 * connected to its servers. If the target's homes are used apart, the queue is connected to those
 * that are needed. Blocks, until `deadline`. */
int blocking_begin(struct afar_target *target, const struct target_need *need, uint64_t deadline,
		   struct afar_queue **queue);
/* Does the former half of that, and the latter. */
int blocking_borrow(struct afar_target *target, uint64_t deadline, struct afar_queue **queue);
int blocking_make_ready(struct afar_queue *queue, struct afar_target *target,
			const struct target_need *need, uint64_t deadline);
void blocking_end(struct afar_target *target, struct afar_queue *queue);
/* Carries out one operation on a borrowed queue, and begins it again when a server has closed the
 * connection. Its memory needs no more registering. Returns BLOCKING_UNREGISTERED if it does need that now: a
 * connection over another transport stands. The operation is to begin anew then. */
#define BLOCKING_UNREGISTERED 1
int blocking_transfer(struct afar_queue *queue, const struct afar_op *op, uint64_t length,
		      const struct target_need *need, uint64_t deadline);

#endif
