/* SPDX-License-Identifier: BSD-3-Clause */
/* Which inodes have writes that no sync covers, and which may have lost some. */
#ifndef CLIENT_FS_LOSSES_H
#define CLIENT_FS_LOSSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <urcu/list.h>

#define FS_BUCKETS 1024U /* of open inodes */

struct afar_file;
struct afar_fs;
struct file_inode;

/* Inodes with writes that no sync covers, or with losses that nobody was told of. */
struct fs_writes {
	struct cds_list_head unsynced, syncing, settled;
	struct cds_list_head buckets[FS_BUCKETS];
	size_t nr_closed; /* of inodes that are not open */
};

/* The fs's lock is held for those that begin with writes_. */
void writes_init(struct fs_writes *all);
void writes_free(struct fs_writes *all);
/* Between the first user of an inode and the last. */
void writes_attach(struct file_inode *inode);
void writes_detach(struct file_inode *inode);
/* Around each sync of the pool. `is_done`: it has covered all; `has_lost`: something was lost before it. */
void writes_begin_sync(struct fs_writes *all);
void writes_end_sync(struct fs_writes *all, bool is_done, bool has_lost);
/* Notes that the inode has writes for the next sync. Call it before bytes are sent, and again when they have
 * arrived, because a sync may have begun meanwhile. The second time it does not fail. -ENOMEM. */
int inode_note_write(struct file_inode *inode);
/* Returns whether a sync is due because too much is to be remembered of what was closed. */
bool fs_has_many_unsynced(struct afar_fs *fs);
/* A file has been opened: its first sync tells of what nobody was told of, its flushes of later losses. */
void file_begin_losses(struct afar_file *file);
/* Returns whether something of the inode may be lost that this file has not told of; once. After a sync
 * nobody who opens it later is told of it. */
bool file_take_loss(struct afar_file *file, bool is_sync);

#endif
