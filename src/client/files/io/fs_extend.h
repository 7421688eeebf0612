/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that grow: room for them, and their ends. */
#ifndef CLIENT_FS_EXTEND_H
#define CLIENT_FS_EXTEND_H

#include "client/files/fs.h"

/* Room to make for ranges of a file. */
struct file_wish {
	const struct afar_file_vector *vectors;
	unsigned nr;
	bool is_exact; /* no more than that */
	uint64_t size; /* the file's, at least; 0: it stays */
};
/* -ENOSPC, -EDQUOT, -EFBIG. */
int inode_extend(struct file_inode *inode, const struct file_wish *wish);
/* Take the end of the file for this session, which then knows the size, and let it go again. The former
 * waits for another session that has it. -EBUSY: that does not end. */
int inode_begin_append(struct file_inode *inode);
void inode_end_append(struct file_inode *inode, bool is_more);
/* Tells the manager, or the file's slot, that bytes up to `end` were written, by the layout with this number. -ESTALE: write
 * again. */
int inode_tell_end(struct file_inode *inode, uint64_t end, uint64_t layout);

/* Notes that a range is being written, or is to stay: that part of it is not given back. The lock is held. */
static inline void inode_note_range(struct file_inode *inode, const struct afar_file_vector *range)
{
	file_ahead_note(&inode->ahead, range->offset, range->length);
	file_around_note(&inode->around, range->offset, range->length, inode->ahead.from,
			 inode->ahead.to);
}

#endif
