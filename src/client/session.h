/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session: the relation to the manager, and what all of its regions share — the fabrics, the servers
 * it knows, queues for blocking calls, mapping memory.
 *
 * The connection to the manager may be lost and found again: the control thread resumes the session,
 * and calls that wait are repeated under the same request id, so the manager does each once.
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
#include "client/counts.h"
#include "client/fabrics.h"
#include "client/handle.h"
#include "memory/segment.h"
#include "rpc/rpc.h"

#define SESSION_BLOCKING_QUEUES 16 /* blocking transfers that run at once; more wait for a turn */

enum session_state {
	SESSION_OPENING, /* the first connection is being made                        */
	SESSION_UP,	 /* calls can be made                                         */
	SESSION_DOWN,	 /* the connection is lost; the control thread looks for it   */
	SESSION_ENDED,	 /* the manager has ended it, or it is being closed: for good */
};

struct afar_session {
	struct handle handle;
	unsigned fork_generation; /* of the process that opened it */

	struct uri uri;
	struct key key;
	uint32_t timeout_ms;
	uint64_t spin_ns;

	struct rpc_loop *loop;
	char path[FABRIC_TRANSPORT_MAX];	/* the only transport to go by; empty: any */
	char congestion[FABRIC_CONGESTION_MAX]; /* of data connections at this end */
	struct fabrics fabrics;
	struct segment_cache *segments;		  /* of mappings and buffers */
	struct registration_cache *registrations; /* of plain memory; NULL: none are kept */
	_Atomic uint64_t nr_bounced; /* transfers of plain memory that could not be registered */

	pthread_mutex_t lock; /* guards all below; held for moments */
	pthread_cond_t changed;
	enum session_state state;
	int state_status; /* why it is not up */
	struct rpc_connection *manager;
	uint64_t number;
	uint8_t secret[16];
	char principal[AFAR_PRINCIPAL_MAX + 1]; /* as the manager says */
	atomic_bool has_warned_of_pinning;	/* plain.c; needs no lock */
	struct backoff retry;
	uint64_t next_request_id;
	struct cds_list_head calls; /* in flight, in order of request id */

	struct cds_list_head peers; /* servers, by incarnation: struct peer */
	/* What of them: struct peer_reach. As many as there ever were at once, those that ended waiting to
	 * be others, so that their numbers stay small. */
	uint32_t nr_reaches;
	struct cds_list_head free_reaches;

	struct cds_list_head targets;	/* regions that are open: struct afar_target */
	struct cds_list_head lingering; /* closed regions that writes may yet land in: linger.c */
	atomic_uint nr_lingering;
	uint64_t linger_after; /* when servers may be asked about them again */

	struct cds_list_head idle_queues; /* for blocking calls: struct afar_queue */
	unsigned nr_blocking_queues;

	struct session_counts counts;

	pthread_mutex_t
		attach_lock; /* guards the next, and what is in it; before `lock`, if both */
	struct cds_list_head attachments; /* struct attachment */
	int attach_fd; /* epoll of their connections, which the control thread watches; -1: never needed */
};

/* Whether the manager has ended it: nothing new may be begun with servers then. */
bool session_has_ended(struct afar_session *session);

/* Whether the manager can be called without waiting for it to come back. */
bool session_is_up(struct afar_session *session);

/* 0, or why no call can be made: -EINVAL (not a session), -AFAR_EFORKED. */
int session_check(const struct afar_session *session);

/*
 * Calls the manager and waits, over lost connections too, until the session's timeout. Takes what
 * rpc_call() takes; on 0 `*reply` is the caller's. Errors as the manager's, or -AFAR_EMANAGER,
 * -ETIMEDOUT, -AFAR_ESESSION.
 */
int session_call(struct afar_session *session, Afar__Request *request, Afar__Frame **reply);
/* The same, until `deadline`. */
int session_call_until(struct afar_session *session, uint64_t deadline, Afar__Request *request,
		       Afar__Frame **reply);
/* The same as session_call(), for a call whose reply must be of the kind `result`: else
 * -AFAR_EMALFORMED. */
int session_call_for(struct afar_session *session, Afar__Request *request,
		     Afar__Reply__ResultCase result, Afar__Frame **reply);

/* Tells the manager, behind all calls that were made before, and waits for nothing: it may be lost with the connection.
 * -AFAR_EMANAGER, -AFAR_ESESSION; those of rpc_send(). */
int session_tell(struct afar_session *session, Afar__Request *request);

/* With the lock held: waits for a change of what it guards. -ETIMEDOUT at the deadline. */
int session_wait_changed(struct afar_session *session, uint64_t deadline);

/* Until when a call that begins now may take. */
uint64_t session_deadline(const struct afar_session *session);

#endif
