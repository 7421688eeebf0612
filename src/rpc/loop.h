/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop as the other files of rpc/ see it. Its tasks, timers and descriptors live inside the
 * objects that they serve, so queueing one never allocates, and never fails for lack of memory.
 */
#ifndef RPC_LOOP_H
#define RPC_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "rpc/rpc.h"

/* Work to do once on the loop's thread. Zero it, except for `run`, before its first use. */
struct loop_task {
	struct cds_list_head entry;
	void (*run)(struct loop_task *task);
	bool is_queued; /* guarded by the loop's lock */
};

/* Queues the task, from any thread. False: it was queued already, or the loop has stopped. */
bool loop_task_queue(struct rpc_loop *loop, struct loop_task *task);

/* Work to do once, at a time on clock_ns(). Zero it, except for `run`, before its first use. */
struct loop_timer {
	struct cds_list_head entry;
	uint64_t deadline;
	void (*run)(struct loop_timer *timer);
	bool is_set; /* guarded by the loop's lock */
};

/* Sets the timer, or moves it, from any thread. False: it will not run, because the deadline is
 * CLOCK_NEVER or the loop has stopped. */
bool loop_timer_set(struct rpc_loop *loop, struct loop_timer *timer, uint64_t deadline);
/* Stops the timer. If you call it on the loop's thread, the timer does not run afterwards. */
void loop_timer_cancel(struct rpc_loop *loop, struct loop_timer *timer);

/* A descriptor in the loop's epoll set. */
struct loop_source {
	int fd;
	void (*ready)(struct loop_source *source, uint32_t events);
};

int loop_source_add(struct rpc_loop *loop, struct loop_source *source, uint32_t events);
/* Removes the descriptor, on the loop's thread. Afterwards `ready` does not run, not even for an
 * event that was fetched before. */
void loop_source_remove(struct rpc_loop *loop, struct loop_source *source);

/* An object that must be closed before the loop can end. */
struct loop_resident {
	struct cds_list_head entry;
	/* Closes the object at once, and removes it from the loop. Runs on the loop's thread. */
	void (*evict)(struct loop_resident *resident);
};

/* -ECANCELED: the loop is stopping. */
int loop_resident_add(struct rpc_loop *loop, struct loop_resident *resident);
void loop_resident_remove(struct rpc_loop *loop, struct loop_resident *resident);

bool loop_is_current(const struct rpc_loop *loop);
/* Runs `run(argument)` on the loop's thread and waits for it. On that thread itself it runs at
 * once. */
void loop_run(struct rpc_loop *loop, void (*run)(void *argument), void *argument);

/* Returns the limit of lines about strangers on this loop, for log_limited(). */
struct log_limit;
struct log_limit *loop_complaints(struct rpc_loop *loop);

/* Returns the count of the bytes that the peers of the loop's accepted connections make us
 * buffer. */
struct buffer_cap;
struct buffer_cap *loop_buffer_cap(struct rpc_loop *loop);

/* References keep the struct alive for connections that outlive rpc_loop_stop(). */
void loop_ref(struct rpc_loop *loop);
void loop_unref(struct rpc_loop *loop);

#endif
