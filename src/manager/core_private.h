/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the rooms of the core share: core.c (batches, dispatch), principals.c (keys), rights.c (who may
 * do what with a namespace), namespaces.c, reserve.c, regions.c, access.c (passes and capabilities),
 * sessions.c, servers.c, joins.c, removals.c, use.c (what others have counted), info.c.
 *
 * Whoever changes tables notes it (undo.h), so an operation may fail at any point: what it did is taken back. What goes out
 * of the core, such as calls and closed connections, waits for the commit, or is good whatever becomes of that.
 */
#ifndef MANAGER_CORE_PRIVATE_H
#define MANAGER_CORE_PRIVATE_H

#include "base/error.h"
#include "manager/core.h"
#include "manager/state.h"
#include "manager/store.h"
#include "rpc/capability.h"
#include "rpc/pass.h"

#define CORE_LIST_MAX	  1000U			  /* entries of one list reply                  */
#define CORE_OUTCOMES_MAX 1024U			  /* replies kept for one session               */
#define CORE_RETRY_NS	  ((uint64_t)1000000000)  /* until a failed commit or call is tried again */
#define CORE_COMPLAINT_NS ((uint64_t)10000000000) /* between lines about failed commits          */
#define CORE_NEVER	  UINT64_MAX
#define CORE_RECOVERY_NS  ((uint64_t)3000000000) /* after a start: waits so long for known servers */

/* A server's connection and what it said on it. Lives until the server is forgotten. */
#define CONGESTIONS_MAX 63U /* bytes of the names that one says of a lane, or of a path */

struct live_server {
	struct cds_list_head node;
	uint64_t number;
	struct server *server;
	void *peer;	  /* NULL: down */
	uint64_t down_at; /* without a peer: since then */
	uint64_t incarnation;
	uint64_t pending_bytes; /* asked for by jobs, not in the tables yet */
	uint64_t copying_ms;	/* that what it is copying may take         */
	uint64_t retry_at;	/* no releases and fences before */
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

/* A session's connection, or its lease without one. Only of sessions that are not ending, and until the commit of those that
 * end with this batch. */
struct live_session {
	struct cds_list_head
		node; /* of `connected`, `leased` in order of the deadline, or `ended` */
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

struct key_change; /* principals.c */

struct core {
	struct core_environment environment;
	struct metastore *metastore;
	struct store *store;
	struct keyring *keyring;
	struct undo *undo; /* of the batch that runs */
	struct state *state;
	uint64_t incarnation;
	uint64_t started_at;
	uint64_t lease_ns;

	struct cds_list_head live_servers;
	struct cds_list_head connected;
	struct cds_list_head leased;
	struct cds_list_head ended; /* by the batch that runs */
	struct cds_list_head jobs;
	uint64_t turn;	      /* of the servers, for reservations */
	uint64_t retry_at;    /* after a failed commit: no work of its own before */
	uint64_t complain_at; /* in the log of the next                           */
	uint64_t forget_at;   /* servers that have not come back since the manager started */

	/* Requests that wait: for servers to come back after a start, for the batch to end, for figures. */
	struct cds_list_head waiting;
	size_t nr_looks; /* under way */

	/* Of the batch that runs. */
	struct cds_list_head answering; /* requests whose replies wait for the commit */
	struct cds_list_head reading;	/* requests that change nothing */
	struct cds_list_head gone;	/* peers to forget */
	struct cds_list_head key_changes;
	/* Answers that the core gives itself, for calls that could not be sent. */
	struct cds_list_head failed_calls;
};

/* ---- core.c */

/* The reply of a request becomes `status` and, if negative, the thread's last sentence. */
void event_fail(struct event *event, int status);
/* Sends the reply and frees the request. */
void event_answer(struct core *core, struct event *event);
uint64_t core_now(const struct core *core);

/* An operation: fills the event's reply or outcome and returns 0, or a negative code with a sentence.
 * CORE_DEFERRED: the event is kept and answered later. */
#define CORE_DEFERRED 1
typedef int core_operation(struct core *core, struct session *session, struct event *event);

/* A rule: until when a request waits before it is carried out. Not later than now: no more. CORE_NEVER: until an event changes
 * that. It is asked again in each run. */
typedef uint64_t core_wait(struct core *core, struct event *event);

/* ---- principals.c */

core_operation key_add, key_list, key_revoke;
/* An addition waits while the batch revokes a key of this name: another one is not for this batch. */
core_wait key_wait;
/* Fills in all principals, by name. -ENOMEM with a sentence. */
int principals_list(const struct core *core, Afar__KeyInfos *infos);
/* What a principal is now, whoever it was at its handshake. */
enum principal_kind core_principal_kind(const struct core *core, const char *name);
/* The reply to an addition, also one that came again. */
int principal_reply(const struct core *core, uint64_t number, Afar__Reply *reply);
/* Fills the keyring at start. */
int principals_start(struct core *core);

/* ---- rights.c */

core_operation namespace_grant;
/* Bits of rpc/capability.h, beside which: */
#define RIGHT_OWN 0x4U
uint32_t rights_of(const struct core *core, const char *principal, const struct namespace *ns);
/* -EACCES with a sentence, unless the session's principal has all of the rights. */
int rights_check(const struct core *core, const struct session *session, const struct namespace *ns,
		 uint32_t rights, const char *asked);

/* ---- access.c */

/* For the servers of the region's chunks that are connected. -ENOMEM: `*out` is empty. */
int access_make(const struct core *core, const struct session *session, const struct region *region,
		Afar__Access ***out, size_t *nr_out);

/* ---- namespaces.c */

core_operation namespace_create, namespace_open, namespace_delete, namespace_list,
	namespace_release;
/* -ENOENT, or -EACCES without all of the rights, with a sentence. */
int core_namespace(const struct core *core, const struct session *session, const char *asked,
		   uint64_t number, uint32_t rights, struct namespace **out);
/* Gives the memory of a deleted namespace back once no region is left. -ENOMEM. */
int namespace_finish(struct core *core, struct namespace *ns);
bool is_printable(const char *text, size_t length_max);

/* ---- reserve.c */

core_operation namespace_reserve, reserve_cancel;
/* ---- regions.c */

core_operation region_alloc, region_open, region_close, region_free_operation, region_list,
	region_access, region_look, region_finish;
/* Finds a region by its generation, which a client may have from long ago. -ENOENT, -AFAR_EFREED with a sentence. */
int region_find(const struct core *core, const char *asked, uint64_t ns_number, uint64_t address,
		uint64_t generation, struct region **out);
/* Of a region that the session has open, else -EINVAL with a sentence. */
int region_find_reference(const struct session *session, const char *asked,
			  const struct region *region, struct reference **out);
/* Drops a reference; the region's memory returns when it was the last to a freed region. -ENOMEM. */
int region_drop(struct core *core, struct reference *reference);

/* ---- seal.c */

core_operation region_seal;
/* Who looks at a region waits for its sealing, but not longer than its time. */
core_wait seal_wait;
/* What becomes of a region is not decided yet. */
bool seal_is_running(const struct core *core, uint64_t generation);
/* -ETIMEDOUT, with a sentence that tells which server that waits for. */
int seal_fail_slow(const struct core *core, uint64_t generation);

/* ---- sessions.c */

core_operation session_open, session_close;
/* The session of a request: it exists, and came on its own connection. -AFAR_ESESSION. */
int core_session(struct core *core, const struct event *event, struct session **out);
void session_gone(struct core *core, void *peer);
void sessions_expire(struct core *core);
/* Ends a session that did not ask for it, and closes its connection so that it learns of it. */
int session_end_by_force(struct core *core, struct session *session);
/* The server closed what the session had there, or ended: `incarnation` of it holds nothing any more. -ENOMEM. */
int session_fenced(struct core *core, struct session *session, uint64_t server,
		   uint64_t incarnation);
/* Those of the store have a lease from now on. */
int sessions_start(struct core *core);
void sessions_close(struct core *core);

/* ---- servers.c */

core_operation server_report;
/* Without what points into the message. */
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
/* Keeps what it says. */
void server_take_report(struct core *core, struct live_server *live,
			const Afar__ServerReport *report);
struct live_server *core_live_server(const struct core *core, uint64_t number);
struct live_server *core_live_server_of(const struct core *core, const void *peer);
void server_gone(struct core *core, void *peer);
/* "server 'NAME' at ADDRESS", for a sentence. */
#define SERVER_TEXT_MAX 384
void server_describe(const struct core *core, uint64_t number, char out[SERVER_TEXT_MAX]);
bool server_is_up(const struct server *server);
/* Its connection is lost or replaced. */
void server_down(struct core *core, struct live_server *live);
/* What it does not have any more, or never again. -ENOMEM. */
int server_remove_extent(struct core *core, struct extent *extent);
/* It will not answer about sessions any more: nothing of theirs is left on that incarnation. -ENOMEM. */
int server_end_fences(struct core *core, uint64_t server, uint64_t incarnation);
/* Asks whether it lives; its connection is closed if it does not answer. */
#define SERVER_PROBE_MS 2000U
void server_probe(struct core *core, struct live_server *live);
/* How long it may take to answer a call that is made now. */
uint32_t server_timeout_ms(const struct live_server *live);
/* Known servers that hold memory have not joined this manager yet. */
bool servers_are_missing(const struct core *core);
/* Drops the record of a server that is down and holds nothing. -ENOMEM. */
int server_forget(struct core *core, struct server *server);
/* Of all of them. */
void servers_forget(struct core *core);
/* Sends what servers must be told: extents to release, sessions to end. */
void servers_drive(struct core *core);
uint64_t servers_next_drive(const struct core *core);
/* Its record goes, or was never committed: so does what is known of its connection. */
void live_server_free(struct live_server *live);
void servers_close(struct core *core);

/* ---- joins.c */

core_operation server_join;

/* ---- removals.c */

core_operation server_regions, server_remove;
/* All that its incarnation held is gone, and so are the connections of sessions: it has ended, as `how` says. -ENOMEM. */
int server_lose(struct core *core, struct server *server, const char *how);

/* ---- servers.c: calls */

enum outgoing_kind {
	OUTGOING_JOB,
	OUTGOING_UNDO,
	OUTGOING_RELEASE,
	OUTGOING_FENCE,
	OUTGOING_PING,
	OUTGOING_LOOK,
};
struct outgoing {
	enum outgoing_kind kind;
	uint64_t server;
	uint64_t incarnation;
	struct job_part *part; /* OUTGOING_JOB */
	uint64_t session;      /* OUTGOING_FENCE; OUTGOING_LOOK: who is asked, 0: the server */
	uint64_t *extents;     /* OUTGOING_RELEASE */
	size_t nr_extents;
	struct event
		*failure; /* its answer if it can't be sent: made first, so that there is one */
};
struct outgoing *outgoing_new(enum outgoing_kind kind, const struct live_server *live);
/* To whoever is at `peer`. */
struct outgoing *outgoing_new_to(enum outgoing_kind kind, void *peer);
void outgoing_free(struct outgoing *outgoing);
#define CORE_NO_TIMEOUT UINT32_MAX
/* Sends; what cannot be sent is answered with its error in the next run. Takes `outgoing` over. */
void core_call(struct core *core, void *peer, uint32_t timeout_ms, Afar__Request *request,
	       struct outgoing *outgoing);
static inline void server_call(struct core *core, struct live_server *live, uint32_t timeout_ms,
			       Afar__Request *request, struct outgoing *outgoing)
{
	core_call(core, live->peer, timeout_ms, request, outgoing);
}
/* The request for extents of a namespace. NULL: no memory. */
Afar__Request *server_ask_extents(uint64_t ns, uint64_t bytes, bool is_sealed);
/* Asks it to release extents that the tables do not have. */
void server_undo(struct core *core, struct live_server *live, uint64_t *extents, size_t nr_extents);
void server_answered(struct core *core, struct event *event);

/* ---- use.c */

/* A Status that wants fresh figures has those asked that it tells of, and waits for them, but not for long. */
core_wait looks_wait;
void look_answered(struct core *core, const struct outgoing *outgoing, struct event *event);
/* NULL: no memory. */
Afar__SessionUse *use_copy(const Afar__SessionUse *use);
void use_free(struct live_session *live);

/* ---- info.c: replies. NULL: no memory. */

#define MESSAGE_NEW(prefix, type)                           \
	({                                                  \
		type *message_ = malloc(sizeof(*message_)); \
		if (message_)                               \
			prefix##__init(message_);           \
		message_;                                   \
	})

/* As far as the session's principal may know it. */
Afar__NamespaceInfo *info_namespace(const struct core *core, const struct session *session,
				    const struct namespace *ns);
Afar__RegionInfo *info_region(const struct core *core, const struct session *session,
			      const struct region *region, bool with_layout);
Afar__ClusterStatus *info_cluster(const struct core *core, const struct session *session);
/* Whether the caller may know of all sessions; else of its principal's. */
bool is_operator(const struct core *core, const struct session *caller);
core_operation cluster_status;

#endif
