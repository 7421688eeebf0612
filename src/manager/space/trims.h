/* SPDX-License-Identifier: BSD-3-Clause */
/* Trims: what freed regions had in stores is made to read as zeros before it can go to others
 * (trims.c). */
#ifndef MANAGER_TRIMS_H
#define MANAGER_TRIMS_H

#include "manager/core_private.h"

/* Sends a store that is up the trims that it has still to be told of, if none are under way. */
void trims_drive(struct core *core, struct flash_store *store);
/* Extents have gone, and with them what was to be trimmed there. -ENOMEM. */
int trims_settle(struct core *core);
/* The store is not up any more: what it was told counts for nothing. */
void trims_forget(struct core *core, struct flash_store *store);
/* Some may be told now that could not be before. */
void trims_resume(struct core *core);
/* Finds the regions that waited when the manager ended. -ENOMEM. */
int trims_start(struct core *core);

/* Bytes of the namespace that will be free when the stores that are up have answered. Leaves out
 * regions that wait for others, too. */
uint64_t trims_coming(const struct core *core, const struct namespace *ns);
/* An allocation that will fit then waits for that, but not longer than it has time. */
core_wait trims_wait;
/* Waits likewise for so many bytes of the namespace: returns `until`, or 0 if it need not wait. */
uint64_t trims_wait_for(struct core *core, const struct namespace *ns, uint64_t bytes,
			uint64_t until);
/* The first server that those wait for; 0: none. */
uint64_t trims_awaited(const struct core *core, const struct namespace *ns);

#endif
