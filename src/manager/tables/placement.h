/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where memory comes from: which servers or stores a reservation asks, and which chunks a region
 * gets. A store counts here as a server of its own. Pure: it sees free space and numbers only. Called by the reserve job and by region allocation.
 */
#ifndef MANAGER_PLACEMENT_H
#define MANAGER_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "manager/tables/space.h"
#include "rpc/layout.h"

#define PLACEMENT_EXTENT_UNIT ((uint64_t)2 << 20) /* reservations are multiples of it    */
#define PLACEMENT_CHUNKS_MAX  65536U /* of one region: its layout must fit into a frame */

/* ---- Reservations */

struct placement_server {
	uint64_t free_bytes; /* that it can still grant                                     */
	uint64_t share;	     /* out: what to ask it for, a multiple of the unit; 0: nothing */
};

/*
 * Spreads `bytes` (a multiple of PLACEMENT_EXTENT_UNIT) over `width` servers, or as many as it has
 * units for. It takes those with the most free space, in turns from `start` where that is equal.
 * They get equal shares — so that regions stripe evenly — but for those that have less. More
 * servers when these cannot hold it. -ENOSPC: all together cannot; -ENOMEM.
 */
int placement_spread(struct placement_server *servers, size_t nr_servers, uint64_t bytes,
		     uint32_t width, uint64_t start);

/* ---- Regions */

/* An extent. */
struct placement_source {
	struct layout_home home; /* those of one home are neighbours in the array */
	uint64_t number;
	struct space *space;
};

/* A chunk takes this out of a space. */
struct placement_part {
	struct space *space;
	uint64_t offset;
	uint64_t length;
};

struct placement {
	struct layout *layout;
	struct placement_part *parts;
	size_t nr_parts, max_parts;
};

struct placement_wish {
	uint64_t bytes; /* a multiple of SPACE_UNIT                               */
	uint64_t stripe_bytes;
	uint32_t width;
	uint64_t start; /* which server's turn it is                              */
};

/*
 * Takes chunks for a region out of the sources' spaces; not a byte more than it needs, so it
 * succeeds whenever that much is free. Each group takes equal chunks, multiples of the stripe unit,
 * from up to `width` servers, those with the longest runs first. Bytes that cannot be striped
 * become groups of one chunk, in turns over the servers. Such are the rest below a stripe unit,
 * small regions, and crumbs of a fragmented namespace. On success `*out` is the caller's, for
 * placement_close(). -ENOSPC: not enough free; -E2BIG: more than PLACEMENT_CHUNKS_MAX; -ENOMEM.
 * Nothing is taken then.
 */
int placement_take(const struct placement_source *sources, size_t nr_sources,
		   const struct placement_wish *wish, struct placement *out);
/* Gives what it took back to the spaces. */
void placement_undo(struct placement *placement);
void placement_close(struct placement *placement);

#endif
