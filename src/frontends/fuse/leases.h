/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attributes that the kernel may answer programs from for a while: a lease. It ends with the delegation (afar_fs_keep_attributes()), or
 * earlier, when the manager has the inode dropped: then the kernel is told before the manager is answered. So nobody is told an old
 * value after a change elsewhere has returned.
 *
 * The kernel takes an answer for no lease if it was told meanwhile to drop that inode, as it numbers both. It knows no inode yet that it
 * has just asked for by its name. So whoever tells it to drop one that it does not know tries again until the lease is over.
 */
#ifndef FUSE_LEASES_H
#define FUSE_LEASES_H

#include <stdbool.h>
#include <stdint.h>

struct afar_file_stat;
struct mount;

/* leases_give.c */

/* Returns for how many seconds the kernel may answer from attributes. `stat` becomes what is known now, if that is more than 0. */
double lease_give(struct mount *mount, struct afar_file_stat *stat);
/* Likewise, by the thread that has called that, right before it tells the kernel: 0 if that comes late, because the thread was kept waiting. Others may have
 * had the inode dropped meanwhile, when the lease should have been over. */
double lease_in_time(double seconds);
/* The kernel was told. If that came late, it is told to drop it. */
void lease_given(struct mount *mount, uint64_t ino, double seconds);
/* leases.c: the table */

/* Notes that the kernel is about to get one. False: its place in the table is another inode's, or it gets none. */
bool lease_note(uint64_t ino);
/* Returns whether the kernel may have a lease. */
bool lease_is_there(uint64_t ino);
/* A program of ours is about to change it in a way that the kernel does not number: an answer from before could come last. Ends the lease, and
 * gives none for a while. */
void lease_stop(struct mount *mount, uint64_t ino);

#endif
