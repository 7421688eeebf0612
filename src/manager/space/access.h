/* SPDX-License-Identifier: BSD-3-Clause */
/* Accesses: what lets a session at the memory of a region (access.c). */
#ifndef MANAGER_ACCESS_H
#define MANAGER_ACCESS_H

#include "manager/core_private.h"

/* Tells of servers of the region that are down. -ENOMEM. */
int access_tell_away(const struct core *core, const struct region *region, Afar__Accesses *out);
/* Makes passes and capabilities for the servers of the region's chunks that are connected. -ENOMEM:
 * `*out` is empty. */
int access_make(const struct core *core, const struct session *session, const struct region *region,
		Afar__Access ***out, size_t *nr_out);

#endif
