/* SPDX-License-Identifier: BSD-3-Clause */
/* Callers, and what each may ask for, by the kind of key that its connection was made with (callers.c). */
#ifndef MANAGER_CALLERS_H
#define MANAGER_CALLERS_H

#include "manager/core_private.h"

enum audience { FOR_ANYBODY, FOR_SERVER, FOR_CLIENT, FOR_OPERATOR };

/* Checks what the caller is now, as its key may have been revoked since the connection was made. -AFAR_EAUTH,
 * -EACCES, with a sentence in the words of the command that asks. */
int caller_check(const struct core *core, enum audience audience, const struct event *event);
/* Finds the session of a request: it exists, and came on its own connection. -AFAR_ESESSION. */
int core_session(struct core *core, const struct event *event, struct session **out);
/* Tells what a principal is now: it may be another kind than at its handshake. */
enum principal_kind core_principal_kind(const struct core *core, const char *name);
/* True: the caller may know of all sessions. False: only of its principal's. */
bool is_operator(const struct core *core, const struct session *caller);
/* Checks whom a client says that it is when it uses files. -EACCES with a sentence. */
int principal_check_who(const struct core *core, const char *name, uint32_t uid, uint32_t gid,
			const uint32_t *groups, size_t nr_groups);

#endif
