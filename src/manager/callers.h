/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may ask the manager for what, by the kind of key that a connection was made with (callers.c). */
#ifndef MANAGER_CALLERS_H
#define MANAGER_CALLERS_H

#include "manager/core_private.h"

enum audience { FOR_ANYBODY, FOR_SERVER, FOR_CLIENT, FOR_OPERATOR };

/* Checks what the caller is now, as its key may have been revoked since the connection was made. -AFAR_EAUTH,
 * -EACCES, with a sentence in the words of the command that asks. */
int caller_check(const struct core *core, enum audience audience, const struct event *event);

#endif
