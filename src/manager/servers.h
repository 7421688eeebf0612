/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers: their connections, and what they must be told (servers.c), how they join (joins.c), and
 * those that are gone for good (removals.c), and what is lost with one (losses.c). Their stores are in flash.h.
 */
#ifndef MANAGER_SERVERS_H
#define MANAGER_SERVERS_H

#include "manager/core_private.h"
#include "rpc/capability.h"

#define CONGESTIONS_MAX 63U /* bytes of the names that one says of a lane, or of a path */

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
	size_t nr_lanes;
	uint64_t reported_at;
};

/* False: it is malformed. */
bool is_lane_sound(const Afar__Lane *lane);
core_operation server_report, server_join, server_regions, server_remove, loss_list;
/* Finds where a server's memory is, or with a number of one a store. -ENOENT, with a sentence. */
int losses_home(const struct core *core, uint64_t server_number, uint64_t store_number,
		struct layout_home *out);
/* Fills the reply with the regions that have a part there, as ServerRegions asks. -ENOMEM. */
int home_regions(const struct core *core, const struct session *session,
		 const struct layout_home *home, uint64_t after, uint32_t max, Afar__Reply *reply);
/* Copies the numbers alone, without what points into the message. */
static inline void lane_report_copy(Afar__LaneReport *out, const Afar__LaneReport *report)
{
	afar__lane_report__init(out);
	out->nr_connections = report->nr_connections;
	out->numa_node = report->numa_node;
	out->is_bound = report->is_bound;
	out->link = report->link;
	out->counted_by = report->counted_by;
	out->bytes_in = report->bytes_in;
	out->bytes_out = report->bytes_out;
}
/* Keeps what the server reports. */
void server_take_report(struct core *core, struct live_server *live,
			const Afar__ServerReport *report);
void server_gone(struct core *core, void *peer);
/* The server's connection is lost, or replaced. */
void server_down(struct core *core, struct live_server *live);
/* Removes an extent that its server does not have any more. Regions that use it are lost; of a file system
 * in memory, the chunks that lie there.
 * -ENOMEM. */
int server_remove_extent(struct core *core, struct extent *extent);
/* The incarnation has ended, and nothing of sessions is left there: no fence waits for it any more.
 * -ENOMEM. */
int server_end_fences(struct core *core, uint64_t server, uint64_t incarnation);
/* Drops the record of a server, if it is down and holds nothing, not in its stores either.
 * -ENOMEM. */
int server_forget(struct core *core, struct server *server);
/* Drops the records of all such servers. */
void servers_forget(struct core *core);
/* The server's incarnation has ended, as `how` says: removes the extents of its DRAM, and ends the
 * fences that wait for it. -ENOMEM. */
int server_lose(struct core *core, struct server *server, const char *how);
/* Sends what servers must be told: extents to release, sessions to end. */
void servers_drive(struct core *core);
uint64_t servers_next_drive(const struct core *core);
void servers_close(struct core *core);

/* ---- Who is connected: live.c */

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

/* ---- Calls to servers and clients: outgoing.c */

/*
 * Called when a call was answered, or never will be (event->answer is NULL). `is_done`: whoever was asked has done it, or has nothing of it.
 * -ENOMEM: the tables are as before, and the call is made again.
 */
typedef int outgoing_answered(struct core *core, struct outgoing *outgoing, struct event *event,
			      bool is_done);
/* A copy of a region's layout. */
struct told_trim {
	uint64_t generation;
	uint32_t copy;
};
/* Extents of one home. */
struct extent_list {
	struct layout_home home;
	uint64_t *numbers;
	uint64_t *namespaces; /* that of each */
	size_t nr;
};
/* With room for `nr`. -ENOMEM. */
int extent_list_open(struct extent_list *list, const struct layout_home *home, size_t nr);
void extent_list_close(struct extent_list *list);
struct outgoing {
	outgoing_answered *answered;
	bool may_fail; /* who asks hears of failures; else the server is told again, and a line says so */
	uint64_t server;
	uint64_t incarnation;
	struct job_part *part;	    /* of a job */
	uint64_t session;	    /* that is to end, or is asked; 0: the server is */
	struct extent_list extents; /* to be released; of trims the home alone */
	struct told_trim *trims;
	size_t nr_trims;
	uint64_t trim_call; /* its number */
	uint64_t fs;	    /* what it is about: the namespace's number */
	uint64_t ino;
	uint64_t recall; /* its number, or the revoke's, or the round's */
	uint64_t sweep;	 /* its number there */
	/* The answer for a call that cannot be sent. It is made first, so that there always is
	 * one. */
	struct event *failure;
};
struct outgoing *outgoing_new(outgoing_answered *answered, const struct live_server *live);
/* To whoever is at `peer`. */
struct outgoing *outgoing_new_to(outgoing_answered *answered, void *peer);
void outgoing_free(struct outgoing *outgoing);
#define CORE_NO_TIMEOUT UINT32_MAX
/* A device may take many seconds for each operation. That is no reason to lose its server; one that is gone is noticed by its
 * connection. */
#define STORE_TIMEOUT_MS 3600000U
/* Sends a call. If it cannot be sent, it is answered with the error in the next run. Takes
 * `outgoing` and `request` over. */
void core_call(struct core *core, void *peer, uint32_t timeout_ms, Afar__Request *request,
	       struct outgoing *outgoing);
static inline void server_call(struct core *core, struct live_server *live, uint32_t timeout_ms,
			       Afar__Request *request, struct outgoing *outgoing)
{
	core_call(core, live->peer, timeout_ms, request, outgoing);
}
/* The request for extents of a namespace, of the server's DRAM or of a store (else 0). NULL: no
 * memory. */
Afar__Request *server_ask_extents(uint64_t ns, uint64_t bytes, enum extent_class class,
				  uint64_t store);
/* The request to release extents. NULL: no memory. */
Afar__Request *server_ask_release(const struct extent_list *list);
/* Whether the answer comes over the connection that the server has now. */
bool outgoing_is_current(const struct core *core, const struct outgoing *outgoing,
			 const struct event *event);
/* Calls the server, and takes `outgoing` and `request` over, which may be NULL: without memory for the call it closes the
 * connection. */
void server_call_or_close(struct core *core, struct live_server *live, uint32_t timeout_ms,
			  Afar__Request *request, struct outgoing *outgoing);
/* The same, to have it release extents. Takes the list over. */
void server_call_release(struct core *core, struct live_server *live, outgoing_answered *answered,
			 struct extent_list *list);
/* Asks whether the server lives. Its connection is closed if it does not answer in time. */
#define SERVER_PROBE_MS 2000U
void server_probe(struct core *core, struct live_server *live);
/* Asks the server to release extents that the tables do not have. Takes the list over. */
void server_undo(struct core *core, struct live_server *live, struct extent_list *list);
void server_answered(struct core *core, struct event *event);

#endif
