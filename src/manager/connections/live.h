/* SPDX-License-Identifier: BSD-3-Clause */
/* Connected servers and sessions, and the memory that can be reached at them (live.c). */
#ifndef MANAGER_LIVE_H
#define MANAGER_LIVE_H

#include "manager/core_private.h"
#include "rpc/capability.h"

#define CONGESTIONS_MAX	 63U /* bytes of the names that one says of a lane, or of a path */
#define VERSION_TEXT_MAX 32U
/* A server's connection and what it said on it. Lives until the server is forgotten. */
struct live_server {
	struct cds_list_head node;
	uint64_t number;
	struct server *server;
	void *peer;	  /* NULL: down */
	uint64_t down_at; /* without a peer: since then */
	uint64_t incarnation;
	uint64_t pending_bytes; /* asked for by jobs of all its pools, not in the tables yet */
	uint64_t copying_ms;	/* that what it is copying may take         */
	uint64_t retry_at;	/* no releases and fences before */
	int refusal;		/* why it did not do what it was told last, as logged; 0: it did */
	bool is_probed;		/* a ping is under way */
	bool is_looked_at;	/* it is being asked for its report */
	uint8_t signing_key[SIGNING_KEY_BYTES];
	uint64_t born_at; /* when the incarnation began, on our clock; may be before its zero */
	/* Its last report, but for the lanes; those by their number. */
	Afar__ServerReport report;
	Afar__LaneReport lanes[STATE_LANES_MAX];
	char congestions[STATE_LANES_MAX][CONGESTIONS_MAX + 1]; /* to which they point */
	char version[VERSION_TEXT_MAX]; /* of its afard; empty: an older one */
	size_t nr_lanes;
	uint64_t reported_at;
};

struct live_server *core_live_server(const struct core *core, uint64_t number);
struct live_server *core_live_server_of(const struct core *core, const void *peer);
/* "server 'NAME' at ADDRESS", for a sentence. */
#define SERVER_TEXT_MAX 384
void server_describe(const struct core *core, uint64_t number, char out[SERVER_TEXT_MAX]);
bool server_is_up(const struct server *server);
/* How long it has not been connected. It is not up. */
uint64_t server_down_ms(const struct core *core, const struct server *server);
/* True: its server is connected, and has it: extents may be asked for, and accessed. */
bool pool_is_up(const struct pool *pool);
/* True: it is up, and its server has not reported that its device takes no changes any more. Nothing
 * new is placed elsewhere. */
bool pool_is_writable(const struct pool *pool);
/* How long the server may take to answer a call that is made now. */
uint32_t server_timeout_ms(const struct live_server *live);
/* True: servers that hold memory, or stores, have not joined since the manager started. */
bool servers_are_missing(const struct core *core);
/* Frees what is known of its connection: its record goes, or was never committed. */
void live_server_free(struct live_server *live);

/* A session's connection, or its lease while it has none. Sessions that are ending have no such
 * thing; those that end with the batch that runs have it until the commit. */
struct live_session {
	struct cds_list_head node; /* of connected, ended, or leased in order of the deadline */
	struct core *core;
	uint64_t number;
	struct session *session;
	void *peer;
	bool is_cut;		 /* the connection is to be closed when its end is committed */
	uint64_t lease_deadline; /* without a peer */
	bool is_looked_at;	 /* it is being asked for its figures */
	Afar__SessionUse *use;	 /* what it said last; NULL: nothing yet */
	uint64_t used_at;
};

#endif
