/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carries out the manager's requests: to reserve, release and trim extents, to seal chunks, to open
 * and close devices, to end sessions. Requests come in on the rpc loop's thread, which does the
 * quick ones. The others wait, in order, for the membership's thread. It does a long one in steps,
 * with those that wait between them.
 */
#ifndef SERVER_ORDERS_H
#define SERVER_ORDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "rpc/rpc.h"
#include "server/control/fence.h"
#include "server/memory/extent.h"
#include "server/stores/devices.h"

struct orders;

/* All pointers must outlive orders_close(). */
struct orders_options {
	uint64_t incarnation;
	bool is_registering_quick; /* registering memory may be done on the loop's thread */
	struct extent_pool *pool;
	const struct fence *fence;
	struct stores *stores;
	struct devices devices;
	/* Runs when there is work for orders_work(), on any thread, with no lock held. */
	void (*queued)(void *context);
	void *context;
};

int orders_open(const struct orders_options *options, struct orders **out);
/* Call it after orders_stop() and orders_refuse(). */
void orders_close(struct orders *orders);

/* Takes a request. Call it on the loop's thread. */
void orders_request(struct orders *orders, const Afar__Frame *frame, struct rpc_call *call);

/* Call it for each new connection to the manager. Nothing may be reserved on it yet. */
void orders_connected(struct orders *orders);
/* Says whether the manager has taken the server in on this connection. */
void orders_set_joined(struct orders *orders, bool is_joined);

/* On the membership's thread: */
bool orders_are_waiting(struct orders *orders);
/* Does the oldest waiting request or a step of it, if there is one. May take long. */
void orders_work(struct orders *orders);

/* Makes it refuse requests from now on. */
void orders_stop(struct orders *orders);
/* Refuses the requests that are left. Call it when nobody calls orders_work() any more. */
void orders_refuse(struct orders *orders);

#endif
