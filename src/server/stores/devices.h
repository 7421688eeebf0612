/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a device and lends it, and closes one, as an operator has the manager tell a running
 * server. Called by orders.c, on the membership's thread. */
#ifndef SERVER_DEVICES_H
#define SERVER_DEVICES_H

#include "rpc/rpc.h"
#include "server/stores/stores.h"

struct devices {
	uint64_t incarnation; /* for replies */
	struct stores *stores;
	/* Has the manager accept the store. An error, with a sentence: it has not. May block. */
	int (*lend)(void *context, struct store *store);
	void *context;
};

/* Opens the device at `path`, lends it, and answers the call. If the manager does not accept it, it is
 * closed again. Errors, with a sentence: those of stores_add() and `lend`. */
void devices_open(const struct devices *devices, const char *path, struct rpc_call *call);
/* Closes a store, and answers the call. -ENOENT, with a sentence: it is not open. */
void devices_close(const struct devices *devices, uint64_t number, struct rpc_call *call);

#endif
