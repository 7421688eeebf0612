/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference for completions: a library over a network that can only say that something has
 * completed. One thread reaps one queue, and hands each completion to the thread that waits for it:
 * a "dispatch thread" (B. Goglin et al., on network interfaces for distributed storage:
 * completions).
 */
#ifndef BENCH_DISPATCHER_H
#define BENCH_DISPATCHER_H

#include <afar/afar.h>

#define DISPATCHER_IN_FLIGHT 32U /* of one waiter at most */

struct dispatcher;
struct waiter; /* a place where one thread waits for its requests */

struct request {
	struct waiter *waiter;
	int64_t result; /* valid when it has been handed over */
};

/* Starts the thread. From here on use the queue only through it. */
int dispatcher_start(struct afar_queue *queue, struct dispatcher **out);
/* Ends the thread. Nothing may be in flight. */
void dispatcher_stop(struct dispatcher *dispatcher);

int waiter_new(struct waiter **out);
void waiter_free(struct waiter *waiter);

/* Submits `op` for `request`, whose waiter gets it back. Any thread may call it. */
int dispatcher_submit(struct dispatcher *dispatcher, struct afar_op *op, struct request *request);
/* Sleeps until one of the waiter's requests has completed, and returns it. Requests come in the
 * order of completion. */
struct request *waiter_wait(struct waiter *waiter);

#endif
