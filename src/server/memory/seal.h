/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sealing: copies chunks of a namespace into extents that nobody can write, and puts the sums of
 * their blocks (base/checksum.h) behind each. Called by orders.c on the one thread that reserves
 * and releases, so the extents stay meanwhile. Before the copy fence.c has closed the namespace's
 * data connections, so all acknowledged writes are in memory.
 */
#ifndef SERVER_SEAL_H
#define SERVER_SEAL_H

#include <stdint.h>

#include "server/memory/extent.h"

/* One chunk. `length` is a multiple of CHECKSUM_BLOCK. At the new place there must be room for the
 * sums, too. */
struct seal_move {
	uint64_t from, from_offset; /* extent, and bytes into it */
	uint64_t to, to_offset;
	uint64_t length;
};

/* Checks that the moves can be done. Errors, with a sentence: -EINVAL, -AFAR_ELOST, -ERANGE. */
int seal_check(struct extent_pool *pool, uint64_t namespace, const struct seal_move *moves,
	       size_t nr_moves);
/* Does the moves. Errors are those of seal_check(); the bytes copied until then are in memory that
 * no layout names. */
int seal_copy(struct extent_pool *pool, uint64_t namespace, const struct seal_move *moves,
	      size_t nr_moves);

#endif
