/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans: which pieces of the pool ranges of files are, and the memory that goes with them. */
#ifndef CLIENT_FILE_TRANSFER_H
#define CLIENT_FILE_TRANSFER_H

#include "client/files/fs.h"

#define PLAN_FIRST 8U /* pieces that need no memory of their own */

struct plan {
	struct target_piece *pieces;
	unsigned nr, max;
	unsigned from; /* the first piece that may become longer: those before are of other files */
	struct target_piece first[PLAN_FIRST];
};

void plan_init(struct plan *plan);
void plan_free(struct plan *plan);
/* Adds a range that a map has, holes included. If it touches the last piece, in the pool and in memory, that becomes longer.
 * -ENOMEM, -EFBIG (pieces). */
int plan_add(struct plan *plan, const struct file_map *map, const struct afar_file_vector *range);
/* Fills the memory of holes with zeros, and drops them from the plan, from the piece `from` on. */
void plan_fill_holes(struct plan *plan, unsigned from);
/* Gives the failure of moving pieces of ranges of a file: `status`, or -EIO with the sentence if a piece of
 * them is lost. */
int plan_fail(struct file_inode *inode, const char *verb, const struct target_piece *pieces,
	      unsigned nr_pieces, const struct afar_file_vector *vectors, unsigned nr, int status);

#endif
