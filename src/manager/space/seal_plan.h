/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans where a region goes that is to be sealed: each of its chunks to sealed extents of its own
 * server. So servers copy memory to memory, and a layout names the same servers before and after.
 * Called by seal.c alone.
 *
 * A plan names extents by numbers and outlives them: those that have gone meanwhile are found
 * missing.
 */
#ifndef MANAGER_SEAL_PLAN_H
#define MANAGER_SEAL_PLAN_H

#include "manager/core_private.h"

/* A chunk to be, and what of the present ones it is a copy of. */
struct seal_piece {
	struct layout_home home;
	uint64_t from, from_offset;
	uint64_t to, to_offset;
	uint64_t length;
};

/* The next pieces, one for each chunk of a group to be. */
struct seal_group {
	uint64_t length;
	uint32_t nr_pieces;
};

/* How much memory a server lacks. */
struct seal_lack {
	uint64_t server;
	uint64_t bytes;
};

struct seal_plan {
	struct seal_group *groups;
	size_t nr_groups, max_groups;
	struct seal_piece *pieces;
	size_t nr_pieces, max_pieces;
	struct seal_lack *lacks; /* after -ENOSPC */
	size_t nr_lacks, max_lacks;
};

/* Takes what it needs out of the spaces. The plan must live until that is committed or taken back;
 * when it is taken back, the plan has no pieces. -ENOSPC: nothing is taken, and `out->lacks` says
 * what is missing; -E2BIG: in too many pieces; -AFAR_ELOST, -AFAR_ESERVER: a server has lost part
 * of the region, or is not connected; -ENOMEM. Whatever it returns, `*out` is for
 * seal_plan_close(). */
int seal_plan_make(const struct core *core, const struct region *region, struct seal_plan *out);
/* Gives back what was taken, where it still is. The plan must live, as above; taken back, it has
 * its pieces again. -ENOMEM. */
int seal_plan_undo(const struct core *core, struct seal_plan *plan);
/* Makes the layout of the plan, for layout_free(). -AFAR_ELOST: an extent has gone with its server;
 * -ENOMEM. */
int seal_plan_layout(const struct core *core, const struct seal_plan *plan, uint64_t stripe_bytes,
		     struct layout **out);
void seal_plan_close(struct seal_plan *plan);

#endif
