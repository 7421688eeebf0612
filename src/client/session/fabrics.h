/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session's fabrics, one for each transport to its servers. A fabric is opened when the first
 * lane of its transport is tried, because some fabrics take long to look for hardware. It stays
 * until the session closes, so code that has its number may use it without a lock.
 *
 * If a fabric wants local memory registered, all buffers of the session are, also those made before
 * it. If servers may drive transfers over it, the buffers that they may access are registered.
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

#define FABRICS_MAX	     12 /* transports of a session, or devices */
#define FABRIC_TRANSPORT_MAX FABRIC_NAME_MAX

struct fabrics {
	struct rpc_loop *loop;	/* the session's; watches for dead servers. NULL: none does */
	const char *congestion; /* of all fabrics, as fabric.congestion; not owned */
	pthread_mutex_t lock;	/* guards all below; fabrics_at() needs none */
	struct {
		char transport[FABRIC_TRANSPORT_MAX];
		struct fabric *fabric; /* NULL: it could not be opened; that is not tried again */
	} known[FABRICS_MAX];
	unsigned nr_known;
	struct cds_list_head memories;	/* of struct fabrics_memory */
	uint64_t nr_registered_ever;	/* memory with two fabrics counts twice */
	uint64_t registered_bytes;	/* registered now, counted likewise */
	atomic_bool needs_registration; /* one of the fabrics does */
};

/* A piece of the session's local memory, and its registrations by the number of the fabric. They
 * are zeroed where the fabric wants none. */
struct fabrics_memory {
	struct cds_list_head node;
	void *addr;
	size_t length;
	/* FABRIC_…; with FABRIC_REMOTE_… servers may access it, if fabric_is_driven(). */
	unsigned access;
	struct fabric_memory on[FABRICS_MAX];
};

void fabrics_init(struct fabrics *fabrics);
/* Closes all fabrics. Nothing uses them any more, and the loop has stopped. */
void fabrics_close(struct fabrics *fabrics);

/* Finds the number of the fabric for an address over a transport, and opens the fabric if it is not
 * open. Errors with a sentence: -ENODEV, or those of fabric_open() and of registering the session's
 * memory. */
int fabrics_get(struct fabrics *fabrics, const char *transport, const char *address,
		unsigned *number);

/* Returns whether servers may move data over the fabric themselves (AFAR_OP_DRIVEN). Then any local
 * memory can be lent as it is, and the servers' memory need not be registered for that. */
static inline bool fabric_is_driven(const struct fabric *fabric)
{
	return !fabric->attributes.needs_local_registration &&
	       !fabric->attributes.needs_shared_memory;
}

static inline struct fabric *fabrics_at(const struct fabrics *fabrics, unsigned number)
{
	return fabrics->known[number].fabric;
}

/* Registers memory with all fabrics that want it, now and later. The caller has set addr, length
 * and access. Errors as fabric_memory_register(); then the memory is registered nowhere. */
int fabrics_register(struct fabrics *fabrics, struct fabrics_memory *memory);
void fabrics_deregister(struct fabrics *fabrics, struct fabrics_memory *memory);

struct fabrics_stat {
	uint64_t nr_ever;
	uint64_t bytes;
};
void fabrics_stat(struct fabrics *fabrics, struct fabrics_stat *out);

#endif
