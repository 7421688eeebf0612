/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of the orders share these: orders.c (the queue, and extents of DRAM) and orders_stores.c
 * (stores and their extents, and trims). */
#ifndef SERVER_ORDERS_PRIVATE_H
#define SERVER_ORDERS_PRIVATE_H

#include <pthread.h>
#include <urcu/list.h>

#include "server/control/orders.h"
#include "server/memory/trim.h"

/* A slow request of the manager's. */
struct job {
	struct cds_list_head node;
	struct rpc_call *call;
	uint64_t epoch; /* of its connection */
	uint64_t deadline;
	uint64_t namespace;
	/* ExtentsReserve: */
	uint64_t bytes;
	enum extent_class class;
	/* ExtentsReserve, ExtentsRelease, ExtentsTrim: 0: of DRAM */
	uint64_t store;
	/* ExtentsRelease, when not NULL: */
	uint64_t *extents;
	size_t nr_extents;
	struct store_name *names; /* of a store, instead of `extents` */
	/* ExtentsTrim, when not NULL: */
	struct extent_range *ranges;
	size_t nr_ranges;
	struct trim_place place; /* of DRAM: how far it has come */
	/* ExtentsSeal, when not NULL: */
	struct seal_move *moves;
	size_t nr_moves;
	uint64_t generation; /* of the layout they are of */
	/* StoreOpen, when not NULL: */
	char *path;
	/* StoreClose: of `store` */
	bool is_closing;
	struct orders *orders;
	bool is_fenced; /* connections are closed: the copy is next */
	/* ExtentRead: of ranges[0] */
	bool is_read, is_zeroed;
};

struct orders {
	struct orders_options options;

	pthread_mutex_t lock;
	bool is_stopping;
	uint64_t epoch; /* counts connections */
	bool is_joined; /* the last of them is joined */
	struct cds_list_head jobs;
	unsigned nr_jobs;
	bool is_working; /* a thread is working on a job */

	struct job *trimming; /* has begun, of DRAM; the membership's thread alone looks here */
};

/* ---- orders.c */

/* The reply to a call that is answered once connections are closed. */
struct pending_reply {
	struct rpc_call *call;
	uint64_t incarnation;
};
/* NULL: there is no memory. */
struct pending_reply *orders_pending_reply(const struct orders *orders, struct rpc_call *call);

void orders_reply(struct orders *orders, struct rpc_call *call, int status);
void orders_reply_extents(struct orders *orders, struct rpc_call *call,
			  const struct extent_info *infos, size_t nr_infos);
/* Returns whether a job of that connection may still be done. */
bool orders_is_current(struct orders *orders, uint64_t epoch);
/* Queues a job for the membership's thread, in order. */
void orders_queue(struct orders *orders, struct job *job);
/* Queues a job that has been taken for its next step, on any thread. False: the server is stopping,
 * and the caller has the job. */
bool orders_queue_again(struct orders *orders, struct job *job);

/* ---- orders_stores.c: jobs, on the membership's thread */

void orders_reserve_flash(struct orders *orders, const struct job *job);
void orders_release_flash(struct orders *orders, const struct job *job);
/* Does a trim, or a step of it. False: it is queued again. */
bool orders_trim(struct orders *orders, struct job *job);
void orders_device(struct orders *orders, const struct job *job);
void orders_read(struct orders *orders, const struct job *job);

/* ---- orders_stores.c: requests, on the loop's thread */

void orders_on_release_flash(struct orders *orders, const Afar__ExtentsRelease *request,
			     struct rpc_call *call);
void orders_on_trim(struct orders *orders, const Afar__ExtentsTrim *request, struct rpc_call *call);
void orders_on_read(struct orders *orders, const Afar__ExtentRead *request, struct rpc_call *call);
/* Opens the device at `path`; NULL: closes `store`. */
void orders_on_device(struct orders *orders, const char *path, uint64_t store,
		      struct rpc_call *call);

#endif
