/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the manager asks of the server: to reserve and to release extents, to seal chunks, to end sessions. Requests come
 * in on the rpc loop's thread, which does what is quick; the rest waits in order for the membership's
 * thread.
 */
#ifndef SERVER_ORDERS_H
#define SERVER_ORDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "rpc/rpc.h"
#include "server/extent.h"
#include "server/fence.h"

struct orders;

/* All pointers stay until orders_close(). */
struct orders_options {
	uint64_t incarnation;
	bool is_registering_quick; /* with the fabric: may be done on the loop's thread */
	struct extent_pool *pool;
	const struct fence *fence;
	/* Runs when there is work for orders_work(); on any thread, with no lock held. */
	void (*queued)(void *context);
	void *context;
};

int orders_open(const struct orders_options *options, struct orders **out);
/* After orders_stop() and orders_refuse(). */
void orders_close(struct orders *orders);

/* A request. On the loop's thread. */
void orders_request(struct orders *orders, const Afar__Frame *frame, struct rpc_call *call);

/* A new connection to the manager is there, on which nothing may be reserved yet. */
void orders_connected(struct orders *orders);
/* Whether the manager of this connection has taken the server in. */
void orders_set_joined(struct orders *orders, bool is_joined);

/* On the membership's thread: */
bool orders_are_waiting(struct orders *orders);
/* Does the oldest, if any. May take long. */
void orders_work(struct orders *orders);

/* From now on requests are refused. */
void orders_stop(struct orders *orders);
/* Refuses what is left, when nobody works any more. */
void orders_refuse(struct orders *orders);

#endif
