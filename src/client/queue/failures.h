/* SPDX-License-Identifier: BSD-3-Clause */
/* Failures of a queue's operations: noted when they happen, turned into a line when somebody
 * asks. */
#ifndef CLIENT_FAILURES_H
#define CLIENT_FAILURES_H

#include "client/queue/queue.h"

/* Makes room for noting as many failures as the queue is deep. -ENOMEM. */
int failures_open(struct afar_queue *queue);
/* Notes the first failure of an operation, and its server; NULL: none is to blame. `was_held`: the
 * operation waited for one that has failed. */
__attribute__((cold)) void failure_note(struct afar_queue *queue, const struct operation *operation,
					int status, const struct peer *peer, bool was_held);
/* Leaves the line of a completion that failed, and returns its result. `again`: how to try
 * again. */
int failure_say(const struct afar_queue *queue, const struct afar_completion *completion,
		const char *again);
/* Leaves the line of an operation that could not reach a server, of which the last line tells. Says
 * whether a part of it may have been done. Returns `status`. */
int failure_on_the_way(const struct afar_op *op, uint64_t length, int status, bool was_begun);

/* Says which bytes the failure noted last is about, if it is the operation's: those of this
 * transfer. */
void failure_locate(struct afar_queue *queue, const struct operation *operation,
		    const struct transfer *transfer);
/* Says that the failure noted last, if it is the operation's, is of bytes that were changed between us
 * and its server. */
void failure_note_altered(struct afar_queue *queue, const struct operation *operation);

#endif
