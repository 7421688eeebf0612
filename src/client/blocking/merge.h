/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Merging: pieces of a list that touch in the target become one transfer. If they touch in memory, too, it
 * moves them where they are. Else short ones are copied into a buffer, one behind the other. Reads of pieces that nearly
 * touch do so too, and the bytes between them are dropped (sieving). A list is done in rounds, so that the buffer has a bound.
 */
#ifndef CLIENT_MERGE_H
#define CLIENT_MERGE_H

#include "client/target/target.h"

#define MERGE_PACK_BYTES  ((uint64_t)64 << 10) /* the most that one transfer has of the buffer */
#define MERGE_PIECE_MAX	  ((uint64_t)16 << 10) /* longer pieces are not copied */
#define MERGE_LENGTH_MAX  ((uint64_t)1 << 20) /* of a merged piece: a list makes progress by them */
#define MERGE_ROUND_PACKS 8U		      /* of MERGE_PACK_BYTES, in a round */
#define MERGE_ROUND_MAX	  1024U		      /* merged pieces in a round */

struct merge_place {
	uint64_t offset;
	unsigned index; /* of the list */
};

struct merge {
	struct target_piece *list;
	struct merge_place *order; /* what is left of the list, by offset */
	struct merge_place *spare; /* for sorting; or NULL */
	unsigned nr, next;
	bool is_write;
	uint64_t
		gap_max; /* of a read: as many bytes between two pieces cost less than a transfer does */
	/* The round. Merged piece i stands for nr_members[i] of the order, from `begin` on one behind the other. */
	struct target_piece *merged;
	unsigned *nr_members;
	unsigned nr_merged, begin;
	uint8_t *buffer; /* NULL: not needed yet */
	uint64_t used;
};

/* Prepares to merge what is left of a list. `gap_max`: of a read; 0: only what touches is merged. False: do the list as it
 * is, for nothing of it can be merged, or writes of it overlap, or memory is short. Then there is nothing to end. */
bool merge_begin(struct merge *merge, struct target_piece *list, unsigned nr, bool is_write,
		 uint64_t gap_max);
/* Makes the next round: `merged` and `nr_merged`. No merged piece has bytes of two pieces of the layout. False: there are no more. */
bool merge_next(struct merge *merge, const struct layout *layout);
/* Gives the pieces of the list the statuses of the round's, and the bytes that were read. Returns whether some are left, to
 * be done one by one. These were merged, and some of their bytes are damaged or lost. */
bool merge_take(struct merge *merge);
void merge_end(struct merge *merge);

#endif
