/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that tell the manager that an inode was written. Until such a call has ended, nobody but the manager knows whether it
 * has arrived. It moves the time of the last change when it does.
 */
#ifndef CLIENT_FS_COMMITS_H
#define CLIENT_FS_COMMITS_H

#include <stdbool.h>
#include <stdint.h>

struct afar_fs;
struct file_inode;

/* The caller's, who uses the inode until it has ended. */
struct inode_commit {
	struct inode_commit *next; /* of the inode; guarded by the fs's lock */
	uint64_t number;	   /* greater than those that began before; 0: it has ended */
};

void inode_begin_commit(struct file_inode *inode, struct inode_commit *commit);
void inode_end_commit(struct file_inode *inode, struct inode_commit *commit);
/* Returns whether any are under way, if the inode is open, and how many have begun. */
bool inode_is_committing(struct afar_fs *fs, uint64_t ino, uint64_t *nr);
/* Waits until those have ended that were under way then. The inode may be closed meanwhile. */
void inode_await_commits(struct afar_fs *fs, uint64_t ino, uint64_t nr);

#endif
