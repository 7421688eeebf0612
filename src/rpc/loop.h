/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop as the rest of rpc/ sees it: tasks, timers and descriptors that live inside the objects
 * they serve, so that queueing one never allocates and never fails for want of memory.
 */
#ifndef RPC_LOOP_H
#define RPC_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "rpc/rpc.h"

/* Work to do once on the loop's thread. Zeroed but for `run` before its first use. */
struct loop_task {
	struct cds_list_head entry;
	void (*run)(struct loop_task *task);
	bool is_queued; /* under the loop's lock */
};

/* Queues it, from any thread; false when it was queued already or the loop has stopped. */
bool loop_task_queue(struct rpc_loop *loop, struct loop_task *task);

/* Runs once at a time on clock_ns(). Zeroed but for `run` before its first use. */
struct loop_timer {
	struct cds_list_head entry;
	uint64_t deadline;
	void (*run)(struct loop_timer *timer);
	bool is_set; /* under the loop's lock */
};

/* Sets it, or moves it; from any thread. False when it will not run: the deadline is CLOCK_NEVER, or
 * the loop has stopped. */
bool loop_timer_set(struct rpc_loop *loop, struct loop_timer *timer, uint64_t deadline);
/* Afterwards it does not run, if called on the loop's thread. */
void loop_timer_cancel(struct rpc_loop *loop, struct loop_timer *timer);

/* A descriptor in the epoll set. */
struct loop_source {
	int fd;
	void (*ready)(struct loop_source *source, uint32_t events);
};

int loop_source_add(struct rpc_loop *loop, struct loop_source *source, uint32_t events);
/* On the loop's thread; `ready` does not run afterwards, also not for an event already fetched. */
void loop_source_remove(struct rpc_loop *loop, struct loop_source *source);

/* Something to be closed before the loop can end. */
struct loop_resident {
	struct cds_list_head entry;
	/* Closes it at once and removes it from the loop; runs on the loop's thread. */
	void (*evict)(struct loop_resident *resident);
};

/* -ECANCELED when the loop is stopping. */
int loop_resident_add(struct rpc_loop *loop, struct loop_resident *resident);
void loop_resident_remove(struct rpc_loop *loop, struct loop_resident *resident);

bool loop_is_current(const struct rpc_loop *loop);
/* Runs `run(argument)` on the loop's thread and waits for it; at once when this is that thread. */
void loop_run(struct rpc_loop *loop, void (*run)(void *argument), void *argument);

/* Whether the log may have another line about what strangers do on this loop: a few in each second, then
 * one that counts the others. On the loop's thread. */
bool loop_may_complain(struct rpc_loop *loop);

/* Counts the bytes that the peers of its accepted connections make us buffer. */
struct buffer_cap;
struct buffer_cap *loop_buffer_cap(struct rpc_loop *loop);

/* References keep the struct alive behind connections that outlive rpc_loop_stop(). */
void loop_ref(struct rpc_loop *loop);
void loop_unref(struct rpc_loop *loop);

#endif
