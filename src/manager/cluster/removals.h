/* SPDX-License-Identifier: BSD-3-Clause */
/* Servers that are gone for good (removals.c). */
#ifndef MANAGER_REMOVALS_H
#define MANAGER_REMOVALS_H

#include "manager/core_private.h"

core_operation server_regions, server_remove;
/* Fills the reply with the regions that have a part there, as ServerRegions asks. -ENOMEM. */
int home_regions(const struct core *core, const struct session *session,
		 const struct layout_home *home, uint64_t after, uint32_t max, Afar__Reply *reply);
/* The server's incarnation has ended, as `how` says: removes the extents of its DRAM, and ends the
 * fences that wait for it. -ENOMEM. */
int server_lose(struct core *core, struct server *server, const char *how);
/* removals.c */
core_operation store_regions, store_forget;

#endif
