/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that membership.c (the thread, the connection) and membership_join.c (joining)
 * share. */
#ifndef SERVER_MEMBERSHIP_PRIVATE_H
#define SERVER_MEMBERSHIP_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "server/control/join_key.h"
#include "server/control/membership.h"
#include "server/control/orders.h"
#include "server/control/report.h"

#define JOIN_TIMEOUT_MS 10000
#define OUTAGE_MAX	128
#define FAILURE_MAX	512

enum link_state {
	LINK_DOWN,	 /* no connection; `next_attempt` says when to try     */
	LINK_CONNECTING, /* waiting for the loop to say open or closed         */
	LINK_OPEN,	 /* not joined yet */
	LINK_JOINED,
	LINK_CLOSING, /* given up; waiting for the loop to say closed       */
};

/* The manager has older records, and does not take the server in before all sessions have ended. */
enum sessions_state {
	SESSIONS_LIVE,
	SESSIONS_TO_END, /* when the connection is closed */
	SESSIONS_ENDING,
	SESSIONS_ENDED,
};

struct membership {
	struct membership_options options;
	struct orders *orders;
	pthread_t thread;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_started;
	bool is_stopping;
	bool is_told;	  /* why we have closed the connection: that is logged */
	bool is_renewing; /* the key, as soon as there is nothing between */
	enum link_state state;
	struct rpc_connection *connection; /* the thread's own reference, or NULL     */
	struct join_key join_key;	   /* the thread's own */
	int closed_status;
	char outage[OUTAGE_MAX]; /* as logged last; empty while joined */
	struct backoff backoff;
	uint64_t next_attempt;	     /* on clock_ns()                                       */
	struct server_identity self; /* number 0 before its first join */

	struct store_term term; /* the manager's, that it told last */
	enum sessions_state sessions;
	int failure; /* not 0: it will not try again */
	char failure_sentence[FAILURE_MAX];

	uint64_t next_report;	/* on clock_ns(); no report before this */
	uint64_t report_anyway; /* and one at this, also without news */
	struct reported reported;
	bool is_report_due;
	bool is_term_due; /* stores do not know the last one yet */
	bool is_kept_out; /* see membership_is_kept_out() */
	bool has_joined;  /* this incarnation has joined at least once */
};

/* Joins over the connection that is open. 0; -EAGAIN: sessions of before have to end first; others with a
 * sentence. */
int membership_send_join(struct membership *membership);
/* Notes the manager's term, for stores to note, too. NULL: it told none. Any thread. */
void membership_take_term(struct membership *membership, const Afar__Term *term);
/* Lends one store more, as a join does (struct devices). Runs in an order. */
int membership_lend_store(void *context, struct store *store);

#endif
