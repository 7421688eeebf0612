/* SPDX-License-Identifier: BSD-3-Clause */
/* Folders on a file system of a given kind, which references keep their files in. */
#ifndef BENCH_FOLDER_H
#define BENCH_FOLDER_H

#include <stdbool.h>

struct folder {
	char path[64]; /* empty: there is none */
};

/* Return NULL if folders can be made on tmpfs, and on ext4; otherwise why not. */
const char *folder_tmpfs_missing(void);
const char *folder_ext4_missing(void);

/* Makes a folder in /dev/shm. */
int folder_make_on_tmpfs(struct folder *folder);
/*
 * Makes a folder in $TMPDIR, or /tmp, where the suite's manager and servers keep their stores, too.
 * `is_dirsync`: changes of names in it are durable before they return, as on a file system mounted with dirsync.
 */
int folder_make_on_ext4(bool is_dirsync, struct folder *folder);
/* Removes it with all that is in it, if it is there. */
void folder_remove(struct folder *folder);

#endif
