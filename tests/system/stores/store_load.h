/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client that works on regions on flash while their servers are killed: it writes, syncs, reads,
 * makes and frees. It knows which bytes must be there, and ends the test's process when others are.
 */
#ifndef TESTS_STORE_LOAD_H
#define TESTS_STORE_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LOAD_CLIENTS 4U
#define LOAD_SLOTS   3U /* regions that each client has at a time */

/* The clients and whoever kills the servers tell each other this, in shared memory. */
struct load_shared {
	unsigned nr_servers;
	/* Kills of a server: begun, over (the process is reaped), and made good (it is back). */
	atomic_uint nr_begun, nr_over, nr_back;
	atomic_bool is_over; /* the clients check all that they have, free it, and end */
	struct {
		atomic_uint nr_steps, nr_failures, nr_unsynced, nr_syncs;
		atomic_uint generations[LOAD_SLOTS]; /* in the names of its regions; 0: none */
	} clients[LOAD_CLIENTS];
};

/* Runs a client: in a process of its own, where no session was opened before. The namespace is
 * there. Returns the process's status. */
int load_run(struct load_shared *shared, unsigned number, const char *uri, const char *ns);

#endif
