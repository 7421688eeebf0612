/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files state….c. */
#ifndef MANAGER_STATE_PRIVATE_H
#define MANAGER_STATE_PRIVATE_H

#include "manager/tables/state.h"

/* Without unlinking. */
void extent_free(struct extent *extent);
void pool_free_extents(struct pool *pool);
void state_free_stores(struct state *state);
void state_free_sessions(struct cds_list_head *sessions);
/* Puts a region into the namespace's lists and trees of live ones, before `next`; and takes it out. Each takes four
 * notes. -EEXIST. */
int region_link_live(struct undo *undo, struct region *region, struct cds_list_head *next);
void region_unlink_live(struct undo *undo, struct region *region);

#endif
