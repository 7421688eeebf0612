/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions (sessions.c), and what they and servers have counted (use.c). */
#ifndef MANAGER_SESSIONS_H
#define MANAGER_SESSIONS_H

#include "manager/core_private.h"

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

core_operation session_open, session_close;
void session_gone(struct core *core, void *peer);
/* Ends those whose lease is over. */
void sessions_expire(struct core *core);
/* Ends a session that did not ask for it; `why` is for the log. With the commit its connection is closed, so that it
 * learns of it. -ENOMEM. */
int session_end_by_force(struct core *core, struct session *session, const char *why);
/* The server has closed what the session had there, or `incarnation` of it has ended. -ENOMEM. */
int session_fenced(struct core *core, struct session *session, uint64_t server,
		   uint64_t incarnation);
/* Gives the sessions of the store a lease. -ENOMEM. */
int sessions_start(struct core *core);
void sessions_close(struct core *core);

/* A Status that wants fresh figures has the servers and sessions asked that it shows, and waits for
 * them, but not for long. */
core_wait looks_wait;
void use_free(struct live_session *live);

#endif
