/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: opening, leases, fences, the end (sessions.c). */
#ifndef MANAGER_SESSIONS_H
#define MANAGER_SESSIONS_H

#include "manager/core_private.h"

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

void use_free(struct live_session *live);

#endif
