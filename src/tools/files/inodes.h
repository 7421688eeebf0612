/* SPDX-License-Identifier: BSD-3-Clause */
/* A set of inodes with a value each, for files that have several names. One thread at a time. */
#ifndef TOOLS_INODES_H
#define TOOLS_INODES_H

#include <stddef.h>
#include <stdint.h>

struct inodes {
	struct inodes_entry *entries;
	size_t nr, room; /* the room is 0 or a power of two */
};

/* Finds the inode's value; enters it with the value NULL if it is not there, and says so in `is_new`.
 * The pointer is good until the next call. NULL: no memory. */
void **inodes_find(struct inodes *inodes, uint64_t device, uint64_t ino, int *is_new);
/* Calls `drop` on each value, and frees the set. `drop` may be NULL. */
void inodes_free(struct inodes *inodes, void (*drop)(void *value));

#endif
