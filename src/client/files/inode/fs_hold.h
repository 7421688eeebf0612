/* SPDX-License-Identifier: BSD-3-Clause */
/* Open files as the manager knows them, and how it is told of them again. */
#ifndef CLIENT_FS_HOLD_H
#define CLIENT_FS_HOLD_H

#include <stdint.h>

#include <urcu/list.h>

struct afar_fs;
struct afar_session;
struct file_inode;

#define FS_KEEPS_PAGES 16U /* FileOpen.access */
#define FS_HAS_SLOT    32U /* FileReclaim.accesses */

/* An open file, as the manager knows it, and is told again after it may have restarted. */
struct fs_hold {
	struct cds_list_head node; /* of the fs; guarded by its lock */
	struct file_inode *inode;
	uint64_t handle;
	uint32_t access; /* R_OK, W_OK, FS_KEEPS_PAGES */
	/* Lists of the fs and of the inode, if it is kept. The fs's lock guards them, too. */
	struct cds_list_head kept, sibling;
};

/* Numbers a handle. */
uint64_t fs_new_handle(struct afar_fs *fs);
/* Notes a handle that is about to be opened, or has just been. The inode is the caller's to put after
 * the hold has ended. NULL: no memory. */
struct fs_hold *fs_hold_new(struct file_inode *inode, uint64_t handle, uint32_t access);
/* Forgets it. NULL does nothing. */
void fs_hold_end(struct afar_fs *fs, struct fs_hold *hold);
/* Returns how often the manager was told of all holds. Compare it before and after a call that
 * opens or closes. If it differs, the manager may have carried out the call before it restarted. */
uint64_t fs_count_reclaims(struct afar_fs *fs);
/* Tells the manager again of a hold that it may have forgotten. */
int fs_reclaim_again(struct afar_fs *fs, const struct fs_hold *hold);
/* Has the manager ask which inodes are used. */
int fs_reclaim_uses(struct afar_fs *fs);
/* Makes the session tell of the file system's holds whenever it resumes, until it leaves. -EBUSY: the
 * session has it open already. */
int fs_join_session(struct afar_fs *fs);
void fs_leave_session(struct afar_fs *fs);
/* Tells the manager of all holds of the session's file systems. The session's lock is held; calls
 * that go on come behind it. */
void fs_session_resumed(struct afar_session *session);

#endif
