/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sealing: copies chunks of a namespace into extents that nobody can write, and puts the sums of their blocks
 * (base/checksum.h) behind each. Called by orders.c, on the one thread that reserves and releases: what is found
 * stays meanwhile. Before the copy the namespace's data connections have been closed (fence.c), so that all
 * writes that were acknowledged are in memory.
 */
#ifndef SERVER_SEAL_H
#define SERVER_SEAL_H

#include <stdint.h>

#include "server/extent.h"

/* One chunk. `length` is a multiple of CHECKSUM_BLOCK; at the new place there is room for the sums, too. */
struct seal_move {
	uint64_t from, from_offset; /* extent, and bytes into it */
	uint64_t to, to_offset;
	uint64_t length;
};

/* Whether they can be done. Errors, with a sentence: -EINVAL, -AFAR_ELOST, -ERANGE. */
int seal_check(struct extent_pool *pool, uint64_t namespace, const struct seal_move *moves,
	       size_t nr_moves);
/* Does them. Errors as above: what was copied is in memory that no layout names. */
int seal_copy(struct extent_pool *pool, uint64_t namespace, const struct seal_move *moves,
	      size_t nr_moves);

#endif
