/* SPDX-License-Identifier: BSD-3-Clause */
/* Failures of a queue's operations: noted when they happen, turned into a line when somebody asks. */
#ifndef CLIENT_FAILURES_H
#define CLIENT_FAILURES_H

#include "client/queue.h"

/* Makes room for noting as many failures as the queue is deep. -ENOMEM. */
int failures_open(struct afar_queue *queue);
/* Remembers that an operation has failed, the first time that it does, and at which server: NULL is at none. `was_held`: it
 * waited for one that has failed. */
__attribute__((cold)) void failure_note(struct afar_queue *queue, const struct operation *operation,
					int status, const struct peer *peer, bool was_held);
/* Leaves the line of a completion that failed, and returns its result. `again`: how it is tried again. */
int failure_say(const struct afar_queue *queue, const struct afar_completion *completion,
		const char *again);
/* An operation could not get at a server, of which the last line tells: says which operation it was, and whether something of it
 * may have been done before. Returns `status`. */
int failure_on_the_way(const struct afar_op *op, uint64_t length, int status, bool was_begun);

#endif
