/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A manager's core without sockets, threads or time: a metastore in memory that fails when told, fake
 * servers that grant extents, clients whose calls are answered before they return. Used by the manager's
 * tests; check_all() compares tables, store and servers.
 */
#ifndef TESTS_MANAGER_FIXTURE_H
#define TESTS_MANAGER_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "manager/core_private.h"

#define FIXTURE_SERVERS_MAX 6
#define FIXTURE_EXTENTS_MAX 4096
#define FIXTURE_LEASE_MS    1000
#define MIB		    ((uint64_t)1 << 20)

/* ---- A metastore in memory */

struct memory_pair {
	struct meta_bytes key, value;
};
struct memory_store {
	struct metastore base;
	struct memory_pair *pairs; /* in order */
	size_t nr_pairs;
	uint64_t nr_commits;
	uint64_t fail_at; /* the how many-th commit from now fails; 0: none */
	int failure;
	bool is_broken;	  /* every commit fails */
	bool does_forget; /* commits succeed and do nothing */
};
void memory_store_open(struct memory_store *store);
void memory_store_close(struct memory_store *store);
/* The order of keys. */
int memory_store_compare(struct meta_bytes left, struct meta_bytes right);

/* ---- Servers and clients */

struct fake_extent {
	uint64_t number, namespace, length;
	bool is_sealed;
};
struct fake_server {
	void *peer; /* NULL: not connected */
	uint64_t number;
	char cluster[64]; /* that gave it the number */
	uint64_t incarnation;
	uint8_t signing_key[SIGNING_KEY_BYTES]; /* of the incarnation */
	bool does_cut_key;			/* tells one that is too short */
	uint32_t age_s;
	uint64_t capacity;
	struct fake_extent extents[FIXTURE_EXTENTS_MAX];
	size_t nr_extents;
	uint64_t granted;
	uint64_t next_extent;
	bool is_silent; /* keeps what it is asked until fixture_pump() after it is false again */
	int refuse;	/* answers this to reservations */
	bool does_grant_wrong; /* less than asked */
	bool does_grant_twice; /* names the extent that it granted last again */
	int refuse_to_seal;    /* answers this when it is to copy */
	unsigned nr_seals;     /* how often it did */
	bool does_hold_seals;  /* keeps that alone, as if silent */
	uint64_t nr_moved;     /* bytes */
	unsigned nr_session_ends;
	uint64_t nr_released;  /* extents, by ExtentsRelease */
	const char *principal; /* NULL: "server" */
	uint64_t nr_moved_in;  /* bytes, that its first lane tells of who looks */
};

struct fake_client {
	void *peer; /* NULL: not connected */
	uint64_t session;
	uint8_t secret[STATE_SECRET_BYTES];
	uint64_t next_id;
	const char *principal; /* whose key its connections were made with */
};

struct fixture {
	struct memory_store store;
	struct core *core;
	struct keyring *keyring; /* operator "admin", server "server" */
	uint64_t now;
	uint64_t time_ns; /* that requests have from now on; 0: any */
	uint64_t next_peer;
	const char **principals; /* of peers, by their number; NULL: revoked */
	struct fake_server servers[FIXTURE_SERVERS_MAX];
	struct cds_list_head calls;  /* from the core to servers */
	struct cds_list_head events; /* for the core */
	uint64_t nr_answers;
	/* What clients answer when they are asked what they have counted; NULL: they are not there to ask. */
	const Afar__Reply *look_answer;
	bool are_clients_silent; /* they keep it, as servers do */
	unsigned nr_looks;	 /* at clients */
	bool does_drop_answers;	 /* without looking at them: they are large and the time counts */
};

void fixture_open(struct fixture *fixture);
void fixture_close(struct fixture *fixture);
/* Ends the core and starts another on the same store; all connections are lost. */
void fixture_restart(struct fixture *fixture);
/* Runs the core and the servers until nothing is left to do. */
void fixture_pump(struct fixture *fixture);
/* A server does the next thing that it was asked; the manager hears of it in its next batch. False: there is none. */
bool fixture_serve(struct fixture *fixture);
void fixture_advance(struct fixture *fixture, uint64_t ms);

/* Joins as server `index`; a new incarnation if it was not up before. 0 or the reply's status. */
int fixture_join(struct fixture *fixture, size_t index, uint64_t capacity);
/* The connection is lost; the server lives on. */
void fixture_disconnect(struct fixture *fixture, size_t index);
/* It ends: all that it held is gone. */
void fixture_kill(struct fixture *fixture, size_t index);

/* Sends a request; takes it over. `*answer` is set, once the core answers, to a reply of the caller's. */
void fixture_send(struct fixture *fixture, struct fake_client *client, uint64_t id,
		  Afar__Request *request, Afar__Reply **answer);
/* The same, waiting for it: a fresh id. */
Afar__Reply *fixture_ask(struct fixture *fixture, struct fake_client *client,
			 Afar__Request *request);
/* Its status alone. */
int fixture_do(struct fixture *fixture, struct fake_client *client, Afar__Request *request);

/* As "admin". */
int client_open(struct fixture *fixture, struct fake_client *client);
int client_open_as(struct fixture *fixture, struct fake_client *client, const char *principal);
/* On a new connection, the old one forgotten or not. */
int client_resume(struct fixture *fixture, struct fake_client *client);
void client_lose(struct fixture *fixture, struct fake_client *client);

/* ---- Requests */

Afar__Request *ask_create(const char *name, uint32_t width, uint64_t stripe_bytes);
Afar__Request *ask_delete(const char *name, bool with_regions);
Afar__Request *ask_reserve(uint64_t ns, uint64_t bytes);
Afar__Request *ask_cancel(uint64_t ns);
Afar__Request *ask_release(uint64_t ns, uint64_t bytes);
Afar__Request *ask_alloc(uint64_t ns, const char *name, uint64_t bytes, bool is_first);
Afar__Request *ask_open(uint64_t ns, const char *name, uint64_t address);
Afar__Request *ask_close(const Afar__RegionInfo *region);
Afar__Request *ask_free(const Afar__RegionInfo *region);
Afar__Request *ask_session_close(void);
Afar__Request *ask_status(void);
Afar__Request *ask_fresh_status(void);
Afar__Request *ask_namespaces(const char *after, uint32_t max);
Afar__Request *ask_regions(uint64_t ns, uint64_t after, uint32_t max);
Afar__Request *ask_namespace(const char *name);

Afar__Request *ask_grant(uint64_t ns, const char *principal, uint32_t rights);
Afar__Request *ask_access(const Afar__RegionInfo *region);
Afar__Request *ask_seal(const Afar__RegionInfo *region);
Afar__Request *ask_finish(const Afar__RegionInfo *region);
Afar__Request *ask_look(const Afar__RegionInfo *region);
Afar__Request *ask_key_add(const char *name, bool is_server);
Afar__Request *ask_key_list(void);
Afar__Request *ask_server_regions(uint64_t server, uint64_t after, uint32_t max);
Afar__Request *ask_server_remove(uint64_t server);
Afar__Request *ask_key_revoke(const char *name);

/* Of a server with two lanes, of which the first has taken in so many bytes, and the second says what would act on a terminal. */
Afar__Reply *answer_look(uint64_t bytes_in);

/* Creates a namespace and returns its number. */
uint64_t make_namespace(struct fixture *fixture, struct fake_client *client, const char *name);

/* ---- Checks */

/* The tables are those that a manager would read from the store now. */
void check_store(struct fixture *fixture);
/* No two chunks overlap; free space and accounting are exact; servers that are up hold what the tables
 * say. And check_store(). */
void check_all(struct fixture *fixture);
/* Nothing is left: no namespaces, extents, regions, references; servers hold nothing. */
void check_empty(struct fixture *fixture);

#endif
