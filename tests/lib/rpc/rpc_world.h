/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two ends of the tests of rpc/: a server's and a client's loop in one process. A
 * record has what connections told their owners, to be awaited instead of slept for. A
 * failure in here fails the test.
 */
#ifndef TESTS_RPC_WORLD_H
#define TESTS_RPC_WORLD_H

#include <pthread.h>
#include <stdint.h>

#include "rpc/rpc.h"

/* The connections of one side told this. */
struct record {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned nr_opened, nr_closed, nr_done;
	unsigned nr_done_late; /* callbacks of calls after `closed` */
	int closed_status;
	struct rpc_connection *last; /* opened; a reference */
};

struct world {
	struct rpc_loop *server_loop, *client_loop;
	struct rpc_listener *listener;
	uint16_t port;
	struct record server, client;
};

extern struct world world;

extern const struct key good_key, other_key; /* alice's and bob's */
extern struct key_list known_keys;	     /* these two: the listener's */

extern const struct rpc_envelope plain_envelope; /* without a deadline */

/* For cmocka: starts the loops, and ends them with all that is in them. */
int world_start(void **state);
int world_stop(void **state);

/* Listens on a port of this machine, with `known_keys`. */
void world_listen(const struct rpc_handlers *handlers);
struct rpc_connection *world_connect(const struct key *key, const struct rpc_handlers *handlers);
/* Makes a connected pair. The listener's end is in world.server.last. */
struct rpc_connection *world_pair(const struct rpc_handlers *server);

/* ---- Handlers, of connections whose contexts are records */

void on_opened(struct rpc_connection *connection);
void on_closed(struct rpc_connection *connection, int status);
/* A call's end; nothing may come after `closed` of the only connection. */
void on_done(void *argument, const Afar__Frame *reply, int status);

/* Answer at once: the name of a session_open comes back as a message; anything else is 0. */
extern const struct rpc_handlers echo_handlers;

/* ---- What was recorded: these wait until it is as much as is wanted */

void await_count(struct record *record, const unsigned *count, unsigned wanted);
void await_opened(struct record *record, unsigned wanted);
/* Returns why the last was closed. */
int await_closed(struct record *record, unsigned wanted);

/* ---- Calls */

void fill_ping(Afar__Request *request, Afar__Ping *ping);
int call_ping(struct rpc_connection *connection);
int send_ping(struct rpc_connection *connection, const struct rpc_envelope *envelope,
	      rpc_done *done, void *argument);

#endif
