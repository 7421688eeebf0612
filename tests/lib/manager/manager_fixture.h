/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A manager's core without sockets, threads or time. A metastore in memory fails when told, fake
 * servers grant extents, and calls of clients are answered before they return. Used by the
 * manager's tests; check_all() compares tables, store and servers (manager_checks.h).
 */
#ifndef TESTS_MANAGER_FIXTURE_H
#define TESTS_MANAGER_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/bytes.h"
#include "lib/manager/manager_memory_store.h"
#include "lib/manager/manager_servers.h"
#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/core_private.h"

#define FIXTURE_SERVERS_MAX 6
#define FIXTURE_LEASE_MS    1000
#define FIXTURE_STORES_MAX  3

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
	uint64_t nr_starts;	 /* of the core, which makes its incarnation */
	struct keyring *keyring; /* operator "admin", server "server" */
	uint64_t now;
	uint64_t time_ns; /* that requests have from now on; 0: any */
	uint64_t next_peer;
	const char **principals; /* of peers, by their number; NULL: revoked */
	struct fake_server servers[FIXTURE_SERVERS_MAX];
	struct fake_store stores[FIXTURE_STORES_MAX]; /* devices: in no server at first */
	struct cds_list_head calls;		      /* from the core to servers */
	struct cds_list_head events;		      /* for the core */
	uint64_t nr_answers;
	/*
	 * Clients answer this when they are asked what they have counted; NULL: they are not there
	 * to ask.
	 */
	const Afar__Reply *look_answer;
	bool are_clients_silent; /* they keep it, as servers do */
	const void *silent_peer; /* so does a client over this connection */
	uint64_t silent_ino;	 /* so do all, of what they are asked of this inode */
	unsigned nr_probes;	 /* whether they answer at all */
	unsigned nr_looks;	 /* at clients */
	unsigned nr_recalls;	 /* of files, that clients have given up */
	void (*recalled)(uint64_t session, uint64_t ino); /* is told of each; may be NULL */
	unsigned nr_revokes;	  /* of what was delegated, likewise: inodes; */
	unsigned nr_revoke_calls; /* and messages that named them */
	void (*revoked)(uint64_t session, uint64_t ino);
	unsigned nr_gone_asks; /* which of some inodes a client uses, that it has answered */
	bool (*uses)(uint64_t session, const Afar__FileGone *gone); /* NULL: none */
	bool is_lent;		/* the core, by a batch that is being committed */
	bool does_drop_answers; /* without looking at them: they are large and the time counts */
};

void fixture_open(struct fixture *fixture);
void fixture_close(struct fixture *fixture);
/* Ends the core and starts another on the same store; all connections are lost. */
void fixture_restart(struct fixture *fixture);
/* Runs the core and the servers until nothing is left to do. */
void fixture_pump(struct fixture *fixture);
/*
 * A server does the next thing that it was asked; the manager hears of it in its next batch. False:
 * there is none.
 */
bool fixture_serve(struct fixture *fixture);
void fixture_advance(struct fixture *fixture, uint64_t ms);

/* Joins as server `index`; a new incarnation if it was not up before. 0 or the reply's status. */
int fixture_join(struct fixture *fixture, size_t index, uint64_t capacity);
/* Puts a device of flash into a server, which opens it before it joins, or joins again. Makes it
 * first, if it is not there yet. */
void fixture_plug(struct fixture *fixture, size_t index, size_t store, uint64_t capacity);
/* Does that for a server that has joined, and lends the device now. Returns what the manager
 * answers; `spoil` may be NULL. */
int fixture_lend(struct fixture *fixture, size_t index, size_t store, uint64_t capacity,
		 void (*spoil)(Afar__StoreLend *lend));
/* The server reports what a store refuses changes with; 0: it does not. */
void fixture_report_store(struct fixture *fixture, size_t index, uint64_t store, int refusal);
/* Takes all of its devices out of a server. */
void fixture_unplug(struct fixture *fixture, size_t index);
/* The connection is lost; the server lives on. */
void fixture_disconnect(struct fixture *fixture, size_t index);
/* It ends: all that it held is gone. */
void fixture_kill(struct fixture *fixture, size_t index);

/*
 * Sends a request; takes it over. `*answer` is set, once the core answers, to a reply of the
 * caller's.
 */
void fixture_send(struct fixture *fixture, struct fake_client *client, uint64_t id,
		  Afar__Request *request, Afar__Reply **answer);
/* Sends one in the middle of a commit, as the writer's thread has it. Returns whether it was answered at once; else
 * it is in the next batch. */
bool fixture_ask_beside(struct fixture *fixture, struct fake_client *client, Afar__Request *request,
			Afar__Reply **answer);
/* Sends one with a fresh id, and waits for the answer. */
Afar__Reply *fixture_ask(struct fixture *fixture, struct fake_client *client,
			 Afar__Request *request);
/* Returns its status alone. */
int fixture_do(struct fixture *fixture, struct fake_client *client, Afar__Request *request);

/* As "admin". */
int client_open(struct fixture *fixture, struct fake_client *client);
int client_open_as(struct fixture *fixture, struct fake_client *client, const char *principal);
/* On a new connection, the old one forgotten or not. */
int client_resume(struct fixture *fixture, struct fake_client *client);
void client_lose(struct fixture *fixture, struct fake_client *client);

/* Creates a namespace as the request asks for, in memory, or on flash, and returns its number. */
uint64_t create_namespace(struct fixture *fixture, struct fake_client *client,
			  Afar__Request *request);
uint64_t make_namespace(struct fixture *fixture, struct fake_client *client, const char *name);
uint64_t make_flash_namespace(struct fixture *fixture, struct fake_client *client,
			      const char *name);

#endif
