/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks of a mount's files. The requests are as libfuse says of those of their names. */
#ifndef FUSE_LOCKS_H
#define FUSE_LOCKS_H

#include "mount.h"

void do_getlk(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info, struct flock *flock);
void do_setlk(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info, struct flock *flock,
	      int is_waiting);
void do_flock(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info, int operation);

/* Unlocks all ranges that an owner has locked of a file, which may be NULL: one of its descriptors is being closed. Call
 * it inside of CALL(). */
int locks_unlock(const struct mount *mount, struct afar_file *file, uint64_t owner);
/* Has all who wait for locks answered. No request is taken any more. */
void locks_end(void);

#endif
