/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Near targets: those of whose memory this process has windows (fabric.h), because servers of them are on this machine.
 * Blocking calls copy through the windows on the caller's thread, without a queue, a lock, or a look at the exact time.
 */
#ifndef CLIENT_NEAR_H
#define CLIENT_NEAR_H

#include "client/queue.h"

/*
 * Does what target_transfer() does, on a range that has been checked, if all of it is near and nothing is to be looked
 * after. False: it is to be done by a queue, from the beginning. Nothing need be counted in.
 */
bool near_transfer(struct afar_target *target, uint16_t opcode, const struct afar_iov *iov,
		   uint32_t nr_iov, uint64_t offset, uint64_t length);

/* The same for target_atomic(). -EAGAIN: it is to be done by a queue, and nothing was; -AFAR_ESERVER: it may have been
 * done. */
int near_atomic(const struct afar_op *op);

/* Takes windows over the connections of a queue, which is the caller's and connected to the target's servers, unless the
 * target has as many. That queue's connections are to be looked after for it from then on (afar_target.near_queue). */
void near_look(struct afar_target *target, struct afar_queue *queue);

/* The target's handle, or that of memory that is used with it, has been closed: waits for those who are at it still. */
void near_wait(const struct afar_target *target);

/* The same, and gives the windows of a closed target back. */
void near_close(struct afar_target *target);

#endif
