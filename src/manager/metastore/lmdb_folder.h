/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The folder of an LMDB store: its lock, LMDB's file and the redo log. LMDB opens its file when that is what it was at the last
 * checkpoint, and whole.
 */
#ifndef METASTORE_LMDB_FOLDER_H
#define METASTORE_LMDB_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "manager/metastore/redo.h"

#define LMDB_FILE_MODE 0600

struct lmdb_folder {
	int lock_fd;		   /* flock()ed while the store is open */
	int fd;			   /* LMDB's file; -1: there is none */
	struct redo_log *log;	   /* NULL: there is none */
	bool is_old;		   /* its pairs have no sums: see lmdb_renew() */
	struct meta_totals totals; /* of the pairs at the checkpoint */
	char path[PATH_MAX];
};

/* Locks the folder, looks at the whole of LMDB's file, and makes it what it was at the checkpoint. -EBUSY: another manager
 * has it, or another program LMDB's file. -EBADMSG, -EILSEQ: something is damaged or missing. Each with a sentence. Close it
 * in any case. */
int lmdb_folder_open(struct lmdb_folder *folder, const char *path);
void lmdb_folder_close(struct lmdb_folder *folder);

/* Opens LMDB's file, which LMDB has made, if it is not open. With a sentence. */
int lmdb_folder_open_file(struct lmdb_folder *folder);

/* Reads LMDB's heads. Returns how many bytes they have; -EIO, -EBADMSG, with a sentence. */
ssize_t lmdb_folder_heads(const struct lmdb_folder *folder, uint8_t heads[REDO_HEADS_MAX]);

/* Makes the names in the folder durable. Errors of the disk, with a sentence. */
int lmdb_folder_sync(const struct lmdb_folder *folder);
/* LMDB's new file, which the log goes with, takes the place of the old one, durably. With a sentence. */
int lmdb_folder_take_new(const struct lmdb_folder *folder);

/* Gives the pairs of an older store their sums: LMDB's file and the log are replaced by new ones. Afterwards the folder is as
 * lmdb_folder_open() leaves it. Wherever that ends, the folder holds one store or the other. Errors with a sentence. */
int lmdb_renew(struct lmdb_folder *folder, size_t map_bytes);

#endif
