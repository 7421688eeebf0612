/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manager's core. Events go in: requests, servers' answers and lost connections. Replies, calls
 * to servers and closed connections come out through an environment. The core knows neither sockets
 * nor threads nor the clock, so tests drive it by hand. One thread uses it at a time (writer.h).
 *
 * A run takes a batch of events. Each event changes the tables and collects the changes of the
 * store. One commit makes all of them durable, and only then are replies sent. If the commit fails,
 * what the batch changed is taken back (undo.h), and the batch is answered with that error.
 *
 * Nothing takes back what servers and clients do: lost connections, answers, and what jobs have
 * asked for.
 */
#ifndef MANAGER_CORE_H
#define MANAGER_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <urcu/list.h>

#include "manager/connections/keyring.h"
#include "manager/metastore/metastore.h"
#include "rpc/afar.pb-c.h"

struct core;
struct manager_counts;
struct outgoing; /* a call to a server that has not been answered */

/* A peer is a connection of the environment. The core uses it as a name only, until it has
 * forgotten it. */
struct core_environment {
	void *context;
	/* The time on a monotonic clock, in nanoseconds. */
	uint64_t (*now)(void *context);
	/* Answers a request. `call` is gone afterwards; `reply` stays the core's. */
	void (*answer)(void *context, void *call, Afar__Reply *reply);
	/* Calls the server at `peer`. On 0 exactly one EVENT_ANSWER with `outgoing` follows, before
	 * the peer's EVENT_GONE. */
	int (*call)(void *context, void *peer, uint64_t deadline, Afar__Request *request,
		    struct outgoing *outgoing);
	/* The principal whose key the peer proved; NULL: the key was revoked since. */
	const char *(*principal)(void *context, void *peer);
	/* HOST:PORT of the peer, for the log; NULL: nobody knows. */
	const char *(*address)(void *context, void *peer);
	/* Closes a connection; EVENT_GONE follows. */
	void (*close_peer)(void *context, void *peer);
	/* Closes all connections of a principal whose key was revoked. From now on they have no
	 * principal. */
	void (*close_principal)(void *context, const char *principal);
	/* Called when the core is done with a peer that is gone. */
	void (*forget_peer)(void *context, void *peer);
};

enum event_kind {
	EVENT_REQUEST, /* `peer` asks */
	EVENT_ANSWER,  /* `outgoing` was answered: `answer`, or NULL and a negative `status` */
	EVENT_GONE,    /* the connection of `peer` is lost; its last event */
	EVENT_VIEW,    /* the manager's own process wants to see the cluster: view.h */
};

struct event {
	struct cds_list_head node;
	enum event_kind kind;
	void *peer;

	void *call;	  /* EVENT_REQUEST, from here; EVENT_VIEW: for `viewed` */
	uint64_t came_at; /* 0: it is not counted */
	uint64_t session;
	uint64_t request_id;
	uint64_t settled_below;
	uint64_t deadline; /* UINT64_MAX: none */
	struct {
		/* When it came, was looked at first, and was carried out last, from when until when; 0: nobody takes times. */
		uint64_t came, begun, run, ran;
		struct slow_subject
			*subject; /* of one that waits for a job, which needs its request no more */
	} times;
	/* Before the deadline: a client that waits for a server hears by then which. 0: not set
	 * yet. */
	uint64_t answer_by;
	/* How long a Status waits for the counts of others; 0: they were not asked yet. */
	uint64_t looked_until;
	/* It waits until others have dropped pages, or told of closings: its number among these questions, and how long; 0: none. After
	 * that, until they have let go of what they kept. */
	uint64_t drop, drop_until, kept_until;
	uint64_t end_until; /* a listing waits so long for where files end; 0: it does not */
	uint64_t begins_by; /* a RegionBegin waits for its turn no longer; 0: not set yet */
	struct {
		/* How long a FileLock waits, and since when, which says who is first; 0: it does not. */
		uint64_t until, since;
		uint64_t version; /* of the file's locks, when another one was seen in the way */
		uint64_t
			round; /* the last search for circles that came here, and where it goes on */
		struct event *next;
	} lock;
	Afar__Request *request;
	Afar__Reply *reply; /* in the making */
	uint32_t outcome_kind;
	uint64_t outcome_value;

	/* EVENT_VIEW: called once, with what is the callee's then, or NULL; and how many looks were under way when it came. */
	void (*viewed)(void *call, Afar__ClusterStatus *status);
	size_t looks_before;

	struct outgoing *outgoing; /* EVENT_ANSWER, from here */
	Afar__Reply *answer;
	int status;
};

/* Takes `request` and `answer` over when they are set. NULL: no memory. */
struct event *event_new(enum event_kind kind, void *peer);
void event_free(struct event *event);

struct core_options {
	struct keyring *keyring; /* with the files' keys; the core adds and removes the others */
	uint32_t lease_ms;
	uint32_t claim_ms;    /* 0: as manager.h says */
	uint64_t incarnation; /* of the manager */
	bool gives_ends;      /* sessions may have ends of files for themselves */
};

/* Loads the tables. Does not own the metastore. Errors: those of store_load(). */
int core_open(struct metastore *metastore, const struct core_environment *environment,
	      const struct core_options *options, struct core **out);
/* All peers must be gone, and all calls to servers answered. */
void core_close(struct core *core);

/* Takes the events of the list over, and does what they ask and what is due by the clock. */
void core_run(struct core *core, struct cds_list_head *events);

/* Answers a request between two runs, or while the core is lent. False: core_run() is to have it,
 * because it changes something stored, may have to wait, or reads something not committed. */
bool core_answer(struct core *core, struct event *event);

/* True: `event` may be answered before another one that came earlier and is not handled yet. A
 * question may, but not before an answer of its own connection. Its client asks anew because it has
 * given something up, and we must have heard that first. */
bool core_can_overtake(const struct event *event, const struct event *earlier);

/* While core_run() waits for the metastore, it lends the core. It calls `lend` twice, on its own
 * thread; between the two, one thread at a time may call core_answer(). */
void core_set_lend(struct core *core, void (*lend)(void *argument, bool is_lent), void *argument);

/* Returns its counts. Any thread may read them. */
const struct manager_counts *core_counts(const struct core *core);

/* When core_run() is needed next, even if no event comes. UINT64_MAX: never, 0: now. */
uint64_t core_next_run(struct core *core);

#endif
