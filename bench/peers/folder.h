/* SPDX-License-Identifier: BSD-3-Clause */
/* Folders on a file system of a given kind, which references keep their files in. */
#ifndef BENCH_FOLDER_H
#define BENCH_FOLDER_H

#include <stdbool.h>

struct folder {
	char path[64]; /* empty: there is none */
	bool is_mounted; /* a file system of its own, whose disk is the file at the path with IMAGE behind */
};

/* Return NULL if folders can be made on tmpfs, and on ext4; otherwise why not. */
const char *folder_tmpfs_missing(void);
const char *folder_ext4_missing(void);

/* Makes a folder in /dev/shm. */
int folder_make_on_tmpfs(struct folder *folder);
/* Makes a folder in $TMPDIR, or /tmp, where the suite's manager and servers keep their stores, too. */
int folder_make_on_ext4(struct folder *folder);
/*
 * Makes one that loses no name, even when the power goes, once the call that made or removed the name has returned. It is on
 * an ext4 with a journal, with dirsync. If the one there has no journal, dirsync writes there and does not flush the disk's
 * cache. Then this makes another in a file of its own, and mounts it: folder_dirsync_missing() says why that cannot be.
 */
int folder_make_dirsync(struct folder *folder);
const char *folder_dirsync_missing(void);
/* Removes it with all that is in it, if it is there. */
void folder_remove(struct folder *folder);

#endif
