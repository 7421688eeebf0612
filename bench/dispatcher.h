/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference for completions: what a library does whose network can only say that something has
 * completed. One thread owns the reaping of one queue, and hands each completion to the thread that waits
 * for it: a "dispatch thread" (B. Goglin et
 * al., on network interfaces for distributed storage: completions).
 */
#ifndef BENCH_DISPATCHER_H
#define BENCH_DISPATCHER_H

#include <afar/afar.h>

#define DISPATCHER_IN_FLIGHT 32U /* for one waiter at most */

struct dispatcher;
struct waiter; /* what one thread, or one operation, is waited for with */

struct request {
	struct waiter *waiter;
	int64_t result; /* when it has been handed over */
};

/* Starts the thread; from here on the queue is used through it only. */
int dispatcher_start(struct afar_queue *queue, struct dispatcher **out);
/* Ends the thread. Nothing is in flight. */
void dispatcher_stop(struct dispatcher *dispatcher);

int waiter_new(struct waiter **out);
void waiter_free(struct waiter *waiter);

/* Submits `op` for `request`, whose waiter gets it back; from any thread. */
int dispatcher_submit(struct dispatcher *dispatcher, struct afar_op *op, struct request *request);
/* Sleeps until one of the waiter's requests has completed; hands them over in that order. */
struct request *waiter_wait(struct waiter *waiter);

#endif
