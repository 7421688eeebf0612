/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session: the relation to the manager. It also holds everything that its regions share: the
 * fabrics, the known servers, queues for blocking calls, and memory for mappings.
 *
 * The connection to the manager may be lost and found again. The control thread then resumes the
 * session. Calls that wait are sent again under their request ids, so the manager does each once.
 */
#ifndef CLIENT_SESSION_H
#define CLIENT_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include <afar/afar.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/key.h"
#include "base/uri.h"
#include "client/base/handle.h"
#include "client/session/counts.h"
#include "client/session/fabrics.h"
#include "memory/segment.h"
#include "rpc/rpc.h"

#define SESSION_BLOCKING_QUEUES 16 /* blocking transfers at once; more wait for their turn */

enum session_state {
	SESSION_OPENING, /* the first connection is being made                        */
	SESSION_UP,	 /* calls can be made                                         */
	SESSION_DOWN,	 /* the connection is lost; the control thread tries to make a new one */
	SESSION_ENDED,	 /* for good: the manager has ended it, or it is being closed */
};

struct afar_session;

/* The session's calls to parts of the library above it, when something happens to it. */
struct session_events {
	/* The manager has taken it up again. On the control thread, before calls are made; the lock is held. */
	void (*resumed)(struct afar_session *session);
	/* It has ended: all connections to servers are to end, because servers may wait for that. */
	void (*ended)(struct afar_session *session);
	/* The manager asks. It may take the message out of the request. False: nobody knows the call. */
	bool (*asked)(struct afar_session *session, Afar__Request *request, struct rpc_call *call);
	/* The program closes it: nothing that was posted may land after the manager has heard of that. */
	void (*closing)(struct afar_session *session);
	/* Nothing of it is used any more. */
	void (*freed)(struct afar_session *session);
};

struct afar_session {
	struct handle handle;
	const struct session_events *events;
	unsigned fork_generation; /* of the process that opened it */

	struct uri uri;
	char *key_file; /* absolute */
	struct key key;
	uint32_t timeout_ms;
	uint64_t spin_ns;

	struct rpc_loop *loop;
	char path[FABRIC_TRANSPORT_MAX];	/* the only transport to use; empty: any */
	char congestion[FABRIC_CONGESTION_MAX]; /* of data connections, at this end */
	struct fabrics fabrics;
	struct segment_cache *segments;		  /* for mappings and buffers */
	struct registration_cache *registrations; /* of unregistered memory; NULL: none are kept */
	_Atomic uint64_t
		nr_bounced; /* transfers of unregistered memory that could not be registered */

	pthread_mutex_t lock; /* guards all below; held for moments only */
	pthread_cond_t changed;
	enum session_state state;
	int state_status; /* why it is not up */
	char *refusal;	  /* the manager's words, if it did not open the session */
	struct rpc_connection *manager;
	uint64_t number;
	uint8_t secret[16];
	char principal[AFAR_PRINCIPAL_MAX + 1]; /* our name, as the manager says it */
	uint64_t features; /* of the manager that it is connected to, or was: RPC_FEATURE_… */
	char *cluster;	   /* the manager's: another one at the address cannot go on with us */
	atomic_bool has_warned_of_pinning; /* unregistered.c; needs no lock */
	struct backoff retry;
	uint64_t next_request_id;
	struct cds_list_head calls; /* in flight, in order of request id */

	struct cds_list_head peers; /* servers, by incarnation: struct peer */
	/* The peers' struct peer_reach: as many as there ever were at once. Those that ended wait
	 * in free_reaches for reuse, so that their numbers stay small. */
	uint32_t nr_reaches;
	uint32_t claim_ms; /* of versions that were begun: versions_use.c. 0: there are none */
	struct cds_list_head free_reaches;

	struct cds_list_head targets;	   /* open regions: struct afar_target */
	struct cds_list_head file_systems; /* open ones: struct afar_fs */
	_Atomic uint64_t nr_file_handles;  /* numbers that open files have had */
	struct cds_list_head
		deferred; /* closed regions that writes may still reach: deferred_close.c */
	atomic_uint nr_lingering;
	uint64_t deferred_after; /* do not ask servers about them again before this time */

	struct cds_list_head idle_queues; /* for blocking calls: struct afar_queue */
	unsigned nr_blocking_queues;

	struct session_counts counts;

	/* Guards `attachments` and what is in them. Take it before `lock`. */
	pthread_mutex_t attach_lock;
	struct cds_list_head attachments; /* struct attachment */
	/* An epoll descriptor over the attachments' connections; the control thread watches it. -1:
	 * never needed. */
	int attach_fd;

	_Atomic uint64_t nr_tellings; /* numbers that FileEnds have had */
};

/* afar_session_open(), for who says what is to happen. */
int session_open(const struct session_events *events, const char *uri,
		 const struct afar_session_options *given, struct afar_session **out);
/* Returns whether the manager has ended the session. Begin nothing new with servers then. */
bool session_has_ended(struct afar_session *session);

/* Returns whether it has ended because another cluster has taken the place of its own. */
bool session_is_stale(struct afar_session *session);

/* Fails because it has ended, with the sentence: -AFAR_ESESSION, or -ESTALE if it is stale. */
int session_fail_ended(struct afar_session *session);

/* Returns whether the manager has a feature (RPC_FEATURE_…) that older ones lack. */
bool session_has_feature(struct afar_session *session, uint64_t feature);

/* Returns whether the manager can be called now, without waiting for a new connection. */
bool session_is_up(struct afar_session *session);

/* Returns 0, or why no call can be made: -EINVAL (not a session), -AFAR_EFORKED. */
int session_check(const struct afar_session *session);

/*
 * Calls the manager and waits for the reply until the session's timeout, across lost connections.
 * Takes the same request as rpc_call(). On 0, `*reply` is the caller's. Errors: the manager's,
 * -AFAR_EMANAGER, -ETIMEDOUT, -AFAR_ESESSION.
 */
int session_call(struct afar_session *session, Afar__Request *request, Afar__Frame **reply);
/* Like session_call(), but until `deadline`. */
int session_call_until(struct afar_session *session, uint64_t deadline, Afar__Request *request,
		       Afar__Frame **reply);
/* Like session_call(), and checks that the reply is of the kind `result`: otherwise
 * -AFAR_EMALFORMED. */
int session_call_for(struct afar_session *session, Afar__Request *request,
		     Afar__Reply__ResultCase result, Afar__Frame **reply);

/* Tells the manager, behind all calls that were made before. Waits for nothing: the message may be
 * lost with the connection. -AFAR_EMANAGER, -AFAR_ESESSION; those of rpc_send(). */
int session_tell(struct afar_session *session, Afar__Request *request);
/* Likewise; `done` hears of the answer, as from rpc_send(). */
int session_tell_then(struct afar_session *session, Afar__Request *request, rpc_done *done,
		      void *argument);

/* Waits for a change of anything that the lock guards. Call it with the lock held. -ETIMEDOUT at
 * the deadline. */
int session_wait_changed(struct afar_session *session, uint64_t deadline);

/* The deadline of a call that begins now. */
uint64_t session_deadline(const struct afar_session *session);

#endif
