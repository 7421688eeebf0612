/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stores of a server, which come and go while it runs. One thread at a time adds and removes them:
 * that which starts the server, then the membership's, then that which stops it. Other threads look
 * with the lock held, and use what they find only until they let it go. A store that is removed is
 * closed when nobody can find it any more.
 */
#ifndef SERVER_STORES_H
#define SERVER_STORES_H

#include <pthread.h>

#include "server/data/lanes.h"
#include "server/stores/store.h"

struct stores {
	pthread_rwlock_t lock; /* guards the next two */
	struct store *entries[STORES_MAX];
	unsigned nr;
	struct lanes *lanes;	      /* whose closings go over the stores' lanes, too */
	struct store_options options; /* of each, but for path and size */
	char host[FABRIC_ADDRESS_MAX], driven_host[FABRIC_ADDRESS_MAX];
	char driven_transport[FABRIC_NAME_MAX];
	uint16_t
		first_port; /* each listens on the first from here on that no other has; 0: on any */
};

void stores_init(struct stores *stores);
/* Closes those that are left, after lanes_stop(). Also if stores_set() was never called. */
void stores_close(struct stores *stores);
/* Sets what stores are opened with from now on. The options' addresses are hosts alone, and
 * copied, as is the driven transport. */
void stores_set(struct stores *stores, struct lanes *lanes, const struct store_options *options,
		uint16_t first_port);

/* Opens a store. Blocks. Errors, with a sentence: those of store_start(); -EEXIST: it is a copy of one
 * that is open; -ENOSPC: there are STORES_MAX. */
int stores_open(struct stores *stores, const char *path, uint64_t create_bytes, struct store **out);
/* Does so for somebody who is not at this machine. The path must be absolute, and lead to a store
 * that is not open. -EINVAL, -EEXIST, with a sentence. */
int stores_add(struct stores *stores, const char *path, struct store **out);
/* Ends the store's connections, and closes it: store_stop(). */
void stores_remove(struct stores *stores, struct store *store);

/* Around what other threads do. None of them may wait for anything meanwhile. */
void stores_lock(struct stores *stores);
void stores_unlock(struct stores *stores);
/* With the lock, or on the thread that adds and removes. NULL: there is none of this number. */
struct store *stores_find(const struct stores *stores, uint64_t number);
/* The machine is short of memory: all keep fewer pages. From any thread. */
void stores_press(struct stores *stores);
/* Returns whether any store has extents of the namespace. Takes the lock; takes NULL for no stores. */
bool stores_have(struct stores *stores, uint64_t namespace);

#endif
