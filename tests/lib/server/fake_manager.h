/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A manager for tests of servers. It takes any server in as number FAKE_SERVER, remembers
 * what it said, and asks it for things. It makes passes and capabilities for its clients. A
 * failure in here fails the test.
 */
#ifndef TESTS_FAKE_MANAGER_H
#define TESTS_FAKE_MANAGER_H

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/uri.h"
#include "rpc/capability.h"
#include "rpc/rpc.h"

#define FAKE_SERVER	 7U
#define FAKE_PATIENCE_MS 20000
#define FAKE_ADDRESS_MAX 128
#define FAKE_LANES_MAX	 2
#define FAKE_EXTENTS_MAX 64
#define FAKE_NAME_MAX	 64

struct fake_extent {
	uint64_t extent;
	uint64_t namespace;
	uint64_t length;
	bool is_provisional; /* of a store */
};

struct fake_join {
	uint64_t opening, random;
};

/* A server said this of its store. */
struct fake_store {
	uint64_t number;
	uint64_t opening;
	struct fake_join accepted, present;
	char cluster[FAKE_NAME_MAX];
	char data[FAKE_ADDRESS_MAX]; /* its lane */
	struct fake_extent extents[FAKE_EXTENTS_MAX];
	size_t nr_extents;
	bool was_held; /* the gate before the device was shut when the server joined */
};

struct fake_manager {
	struct rpc_loop *loop;
	struct rpc_listener *listener;
	struct key key; /* servers' */
	struct key_list keys;
	char address[FAKE_ADDRESS_MAX];

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct rpc_connection *connection; /* the server's, while it is open */
	int refuse_joins_with;
	bool ends_sessions; /* a server that has not ended its sessions is not taken in */
	unsigned nr_joins, nr_refused, nr_reports;
	uint64_t release[FAKE_EXTENTS_MAX]; /* said at the next join */
	size_t nr_release;
	uint64_t release_of_store[FAKE_EXTENTS_MAX];
	size_t nr_release_of_store;
	bool (*is_held)(void); /* NULL, or asked at each join */
	size_t nr_stores;      /* that the last join named */
	/* Stores that the server has lent since, and the last of them: */
	unsigned nr_lends;
	int refuse_lends_with;
	uint64_t lent;
	char lent_data[FAKE_ADDRESS_MAX]; /* its lane */
	/* From the last join and report: */
	uint64_t server, incarnation, capacity_bytes;
	uint8_t signing_key[SIGNING_KEY_BYTES];
	uint32_t age_s;
	char name[FAKE_NAME_MAX], control[FAKE_ADDRESS_MAX];
	char data[FAKE_LANES_MAX][FAKE_ADDRESS_MAX];
	size_t nr_lanes;
	struct fake_extent joined[FAKE_EXTENTS_MAX];
	size_t nr_joined;
	struct fake_store store;
	Afar__ServerReport report;
	int store_refusal; /* what its first store is said to refuse changes with */
};

/* Waits until `condition`, which may look at `manager`, holds. */
#define fake_manager_await(manager, condition)                                                     \
	do {                                                                                       \
		struct timespec fake_until;                                                        \
		int fake_error = 0;                                                                \
		clock_gettime(CLOCK_REALTIME, &fake_until);                                        \
		fake_until.tv_sec += FAKE_PATIENCE_MS / 1000;                                      \
		pthread_mutex_lock(&(manager)->lock);                                              \
		while (!(condition) && fake_error == 0)                                            \
			fake_error = pthread_cond_timedwait(&(manager)->changed, &(manager)->lock, \
							    &fake_until);                          \
		pthread_mutex_unlock(&(manager)->lock);                                            \
		assert_int_equal(fake_error, 0);                                                   \
	} while (0)

/* Listens on a port of this machine. */
void fake_manager_open(struct fake_manager *manager);
void fake_manager_close(struct fake_manager *manager);
uint16_t fake_manager_port(const struct fake_manager *manager);

/* Goes away; fake_manager_listen() with its old address brings it back. */
void fake_manager_vanish(struct fake_manager *manager);
void fake_manager_listen(struct fake_manager *manager, const char *address);

/* ---- Calls of the server: 0, or what it answers */

/* `*reply` is the caller's; NULL: not wanted. */
int fake_manager_call(struct fake_manager *manager, Afar__Request *request, Afar__Frame **reply);
/*
 * Reserves. `*nr_out` is how many extents there is room for in `out`, and then how many there are.
 */
int fake_manager_reserve(struct fake_manager *manager, uint64_t namespace, uint64_t bytes,
			 struct fake_extent *out, size_t *nr_out);
int fake_manager_release(struct fake_manager *manager, uint64_t extent);
/* For the server's store: */
int fake_manager_reserve_flash(struct fake_manager *manager, uint64_t namespace, uint64_t bytes,
			       struct fake_extent *out);
int fake_manager_release_flash(struct fake_manager *manager, uint64_t namespace, uint64_t extent);
int fake_manager_trim(struct fake_manager *manager, uint64_t namespace, uint64_t extent,
		      uint64_t offset, uint64_t length);
/* A call of these kinds that does not wait: `call` stays until fake_call_await(). */
struct fake_call {
	sem_t ended;
	int status;
	bool was_held; /* the gate was shut when the answer came */
	bool (*is_held)(void);
};
void fake_manager_send(struct fake_manager *manager, Afar__Request *request,
		       struct fake_call *call);
/* Sends one on a client's connection, as rpc_send(). */
int fake_call_send(struct rpc_connection *connection, Afar__Request *request,
		   struct fake_call *call);
int fake_call_await(struct fake_call *call);
/* Has a request go to the server and back, so many times. */
void fake_manager_ping(struct fake_manager *manager, unsigned times);
int fake_manager_end_session(struct fake_manager *manager, uint64_t session);

/* ---- For clients */

struct key fake_manager_pass(const struct fake_manager *manager, uint64_t session);

/* It is not signed yet: a test may want to change something first. `extents` are ascending. */
struct rpc_capability fake_manager_capability(const struct fake_manager *manager, uint64_t session,
					      uint64_t namespace, uint32_t rights,
					      const uint64_t *extents, size_t nr_extents);

#endif
