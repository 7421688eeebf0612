/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Units that an inode got beyond those that this process had asked for, and that it has not written. They lie around others in
 * holes, and ahead at the end. The manager sees no writes. The next call that makes room tells it how many units were written.
 * So a process that writes all that it gets goes on getting much.
 *
 * The rest goes back when the last file of the inode is closed. Nothing goes back if another session may have written there. The
 * manager's number says whether one has had the file open to write since the units came. Operations on queues write without
 * telling us, so an inode that has a target gives nothing back.
 *
 * Pure memory; the inode's lock guards it.
 */
#ifndef CLIENT_FILE_AROUND_H
#define CLIENT_FILE_AROUND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/files/inode/file_map.h"

#define FILE_AROUND_MAX 16384U /* blocks of 64 units with any; of more nothing is known */

struct file_around {
	struct file_around_block {
		uint64_t number;
		uint64_t unwritten; /* a bit for each unit */
	} * blocks;		    /* ascending; none is without a bit */
	size_t nr, max;
	uint64_t nr_written; /* of those that were added, since the manager was told */
	uint64_t alone;	     /* the manager's number; 0: others have the file open to write, too */
	bool is_kept;	     /* nothing is given back */
	/* They lie in [first, behind), for writers who go by a view (file_view.h). Set before a view shows new ones. */
	_Atomic uint64_t first, behind;
};

/* The manager has answered: `nr_told` that were written it knows, and it gives this number. */
void file_around_told(struct file_around *around, uint64_t nr_told, uint64_t alone);
/* These have come. Without memory nothing is known of them. */
void file_around_add(struct file_around *around, uint64_t from, uint64_t to);
/* A range of bytes is being written, or is to stay. The units [ahead_from, ahead_to) are counted elsewhere (file_ahead.h). */
void file_around_note(struct file_around *around, uint64_t offset, uint64_t length,
		      uint64_t ahead_from, uint64_t ahead_to);
/* Returns whether a range of bytes may have some, without the lock: the view has been loaded before. */
static inline bool file_around_may_have(const struct file_around *around, uint64_t offset,
					uint64_t length)
{
	return offset / FILE_UNIT < atomic_load_explicit(&around->behind, memory_order_relaxed) &&
	       file_units_up(offset + length) >
		       atomic_load_explicit(&around->first, memory_order_relaxed);
}
/* Returns whether any can be given back. */
bool file_around_gives(const struct file_around *around);
/* A manager takes no longer list. */
#define FILE_AROUND_LIST_MAX 65536U
/* Lists these, at most so many ranges, of more the longest: where some begin, and how many they are. Returns how many numbers that is. The caller frees the list. */
size_t file_around_list(const struct file_around *around, uint64_t **out);
/* Forgets all that has come. */
void file_around_end(struct file_around *around);

#endif
