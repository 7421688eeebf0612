/* SPDX-License-Identifier: BSD-3-Clause */
/* Figures that clients and servers have counted (use.c). */
#ifndef MANAGER_USE_H
#define MANAGER_USE_H

#include "manager/core_private.h"

/* A Status that wants fresh figures has the servers and sessions asked that it shows, and waits for
 * them, but not for long. */
core_wait looks_wait;

/* Asks all servers, and the sessions that the caller may see. */
void looks_ask(struct core *core, const struct session *caller);

#endif
