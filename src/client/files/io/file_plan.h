/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans: which pieces of the pool ranges of files are, and the memory that goes with them. */
#ifndef CLIENT_FILE_PLAN_H
#define CLIENT_FILE_PLAN_H

#include "client/files/fs.h"

#define PLAN_FIRST 8U /* pieces that need no memory of their own */

/* A run of a file, or a hole. */
struct plan_run {
	uint64_t begin, end; /* in the file */
	uint64_t pool_begin;
	uint64_t reach; /* in the pool: the end of what may be read of it; of a hole 0 */
	bool is_hole;
};

struct plan {
	struct target_piece *pieces;
	unsigned nr, max;
	struct plan_run run; /* where the last range was found */
	bool has_holes;	     /* ranges of this file */
	uint64_t size; /* up to here bytes between ranges of this file may be read with them */
	struct target_piece first[PLAN_FIRST];
};

void plan_init(struct plan *plan);
void plan_free(struct plan *plan);
/* Begins with ranges of a file, which is another one than before, or may have changed. `size`: as above. */
void plan_begin(struct plan *plan, uint64_t size);
/* Adds a range that a map has, holes included. -ENOMEM, -EFBIG (pieces). */
int plan_add(struct plan *plan, const struct file_map *map, const struct afar_file_vector *range);
/* Adds a piece of the pool that is of no file. */
int plan_add_piece(struct plan *plan, struct target_piece piece);
/* Fills the memory of holes with zeros, and drops them from the plan, from the piece `from` on. */
void plan_fill_holes(struct plan *plan, unsigned from);
/* Gives the failure of moving pieces of ranges of a file: `status`, or -EIO with the sentence if a piece of
 * them is lost. */
int plan_fail(struct file_inode *inode, const char *verb, const struct target_piece *pieces,
	      unsigned nr_pieces, const struct afar_file_vector *vectors, unsigned nr, int status);

#endif
