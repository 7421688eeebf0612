/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manager: owns the metadata — namespaces, placement, regions, who has what open — and never
 * touches data. Serves clients and servers on one control address.
 */
#ifndef MANAGER_MANAGER_H
#define MANAGER_MANAGER_H

#include <stddef.h>
#include <stdint.h>

#include "base/key.h"
#include "rpc/rpc.h"

struct manager;

struct manager_options {
	const char *address;	     /* HOST:PORT to listen on; port 0: any */
	const char *folder;	     /* of the metastore; exists            */
	const struct key *operators; /* clients that may do everything; copied */
	size_t nr_operators;
	const struct key *servers; /* servers join with one of them; copied */
	size_t nr_servers;
	uint32_t lease_ms;	  /* a session outlives its connection so long; 0: 10 000 */
	uint32_t claim_ms;	  /* a claim to write a version lasts so long unused; 0: 30 000 */
	uint64_t store_bytes_max; /* of the metastore; 0: 16 GiB */
	bool gives_ends;	  /* sessions may have ends of files for themselves */
};

/* Starts the manager's threads on `loop`. Errors with a sentence: -EINVAL (a key file's identity is
 * in the other, too), those of rpc_listen() and metastore_lmdb_open(). */
int manager_start(struct rpc_loop *loop, const struct manager_options *options,
		  struct manager **out);
/* HOST:PORT it listens on. */
const char *manager_address(const struct manager *manager);
/* Answers what it has begun, closes its connections, closes the store. Before rpc_loop_stop(); not
 * on the loop's thread. */
void manager_stop(struct manager *manager);

#endif
