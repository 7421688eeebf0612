/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peers of a real manager: one fake server, which grants what it is asked for, and clients
 * whose calls are answered before they return. A failure in here fails the test, unless a call
 * returns it.
 */
#ifndef TESTS_MANAGER_PEERS_H
#define TESTS_MANAGER_PEERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "rpc/rpc.h"

extern struct key key, join_key; /* the operator's, and servers'  */
extern struct key *server_key;	 /* that the server shows         */
extern struct rpc_loop *loop;	 /* the peers'; the test's to make */
extern uint16_t port;		 /* of the manager                */

/* ---- A fake server: grants what it is asked for */

struct manager_server {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct rpc_connection *connection;
	bool is_open, is_closed;
	uint64_t number, incarnation, next_extent, granted;
	uint64_t lengths[4096]; /* by the extent's number; 0: not granted */
	uint64_t namespaces[4096];
	unsigned nr_session_ends;
	bool does_hold;	       /* keeps a reservation for fake_let_go() */
	struct rpc_call *held; /* with the bytes and the namespace asked for */
	uint64_t held_bytes, held_namespace;
};
extern struct manager_server server;

/* Connects, and joins with the extents that it has granted. */
void fake_join(void);
void fake_leave(void);
/* Grants what is held, and holds no more. */
void fake_let_go(void);

/* ---- Clients */

/* Set when a connection has ended; outlives it. */
struct end {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_closed;
	int status;
};

struct client {
	struct rpc_connection *connection;
	uint64_t session;
	uint8_t secret[16];
	uint64_t next_id;
	const struct key *key; /* NULL: the operator's */
	struct end *end;       /* may be NULL          */
};

/* Connects, and opens a session, or resumes the one it has. 0 or a negative code. */
int client_connect(struct client *client);
/* The session stays. */
void client_disconnect(struct client *client);
/* Closes the session, too. Returns what that is answered. */
int client_close(struct client *client);

/*
 * Calls for the session, with the next request id. Both ask_frame() and simple() return the status;
 * simple() is for calls without an answer that is wanted. Only ask() returns the reply, NULL: it
 * failed. `*frame` has it, and is the caller's.
 */
int ask_frame(struct client *client, Afar__Request *request, Afar__Frame **frame);
int simple(struct client *client, Afar__Request *request);
Afar__Reply *ask(struct client *client, Afar__Request *request, Afar__Frame **frame);

/* These make one call each. The first returns the namespace's number, 0 for a failure. */
uint64_t create(struct client *client, const char *name);
int destroy(struct client *client, const char *name);
int reserve(struct client *client, uint64_t ns, uint64_t bytes);
/* Returns the generation, 0 for a failure. */
uint64_t alloc(struct client *client, uint64_t ns, const char *name, uint64_t bytes,
	       uint64_t *address);
int free_region(struct client *client, uint64_t ns, uint64_t address, uint64_t generation);
int open_region(struct client *client, uint64_t ns, const char *name);
int add_key(struct client *client, const char *name, bool is_server, struct key *out);
int revoke_key(struct client *client, const char *name);
int grant(struct client *client, uint64_t ns, const char *principal, uint32_t rights);

#endif
