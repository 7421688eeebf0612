/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session's fabrics: one for each transport that its servers are reached over, opened when the first lane
 * of that transport is tried, since some take long to look for hardware. They stay until the session closes, so
 * whoever has the number of one may use it without a lock.
 *
 * Where a fabric wants local memory registered, all of the session's buffers are, those that were there before
 * it too; where servers may drive transfers over it, those that they may reach.
 */
#ifndef CLIENT_FABRICS_H
#define CLIENT_FABRICS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include "fabric/fabric.h"
#include "rpc/rpc.h"

#define FABRICS_MAX	     4	/* transports of a session, or devices             */
#define FABRIC_TRANSPORT_MAX 16 /* bytes of a transport's name, with its final 0 */

struct fabrics {
	struct rpc_loop
		*loop; /* the session's: its thread sees which servers have died. NULL: none does */
	const char *congestion; /* of all, as fabric.congestion; stays */
	pthread_mutex_t lock;	/* guards all below, but what is behind nr_open */
	struct {
		char transport[FABRIC_TRANSPORT_MAX];
		struct fabric *fabric; /* NULL: it could not be opened, which is not tried again */
	} known[FABRICS_MAX];
	unsigned nr_known;
	struct cds_list_head memories;	/* of struct fabrics_memory */
	uint64_t nr_registered_ever;	/* with one of them; of memory that two want, two */
	uint64_t registered_bytes;	/* now, likewise                                  */
	atomic_bool needs_registration; /* one of the fabrics does */
};

/* A piece of the session's local memory, with what it is registered as, by the number of the fabric; zeroed where
 * that wants none. */
struct fabrics_memory {
	struct cds_list_head node;
	void *addr;
	size_t length;
	unsigned
		access; /* FABRIC_…; with FABRIC_REMOTE_… servers may reach it, where fabric_is_driven() */
	struct fabric_memory on[FABRICS_MAX];
};

void fabrics_init(struct fabrics *fabrics);
/* Nothing uses them any more, and the loop has stopped. */
void fabrics_close(struct fabrics *fabrics);

/* The number of the fabric by which to get to an address over a transport; opens it if it is not open. Errors with a sentence: -ENODEV or
 * those of fabric_open(), and those of registering the memory that is there. */
int fabrics_get(struct fabrics *fabrics, const char *transport, const char *address,
		unsigned *number);

/* Whether servers may move data over it themselves (AFAR_OP_DRIVEN): any local memory can be lent as it is, and theirs need not
 * be registered for that. */
static inline bool fabric_is_driven(const struct fabric *fabric)
{
	return !fabric->attributes.needs_local_registration &&
	       !fabric->attributes.needs_shared_memory;
}

static inline struct fabric *fabrics_at(const struct fabrics *fabrics, unsigned number)
{
	return fabrics->known[number].fabric;
}

/* Registers memory, whose addr, length and access are set, wherever that is wanted, now and later. Errors as
 * fabric_memory_register(): it is registered nowhere. */
int fabrics_register(struct fabrics *fabrics, struct fabrics_memory *memory);
void fabrics_deregister(struct fabrics *fabrics, struct fabrics_memory *memory);

struct fabrics_stat {
	uint64_t nr_ever;
	uint64_t bytes;
};
void fabrics_stat(struct fabrics *fabrics, struct fabrics_stat *out);

#endif
