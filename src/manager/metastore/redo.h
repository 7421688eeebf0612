/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The redo log of a store whose own file is synced only now and then. A commit is durable when its record here is. A
 * record takes one write to blocks that are there already, and one flush of the disk.
 *
 * Every so often the store syncs its file, and starts the redo log anew: that is a checkpoint. The log keeps the file's
 * heads as they were then: its first bytes, which say where everything else is. After a crash the store puts them back, and
 * is as at the checkpoint, if it has overwritten nothing of that since. Then it does again what the records say.
 *
 * One thread at a time uses a log. All errors have a sentence.
 */
#ifndef METASTORE_REDO_H
#define METASTORE_REDO_H

#include <stdbool.h>
#include <stddef.h>

#include "manager/metastore/metastore.h"
#include "manager/metastore/sums.h"

#define REDO_HEADS_MAX ((size_t)128 << 10) /* bytes */

struct redo_log;

struct redo_checkpoint {
	const void *heads;
	size_t length;		   /* of the heads */
	uint64_t file_bytes;	   /* how long the store's file is, which never gets shorter */
	bool is_closed;		   /* nothing comes after it: the file is whole without the log */
	bool is_old;		   /* its store has no sums, and no totals */
	struct meta_totals totals; /* of the pairs in it */
};

/* Opens the log in the folder. *out is NULL if there is none. -EIO, …: it cannot be read. -EILSEQ: it is damaged. */
int redo_open(const char *folder, struct redo_log **out);

/* Makes one, or another in place of the one that is there. -ENOSPC: the disk is full. */
int redo_make(const char *folder, const struct redo_checkpoint *checkpoint, struct redo_log **out);

/* NULL: nothing. */
void redo_close(struct redo_log *log);

/* Returns the last checkpoint. It is the log's. */
struct redo_checkpoint redo_last_checkpoint(const struct redo_log *log);

/* Appends what a commit does: deletes, and then puts. Returns 0 when that is durable. -ENOBUFS, without a sentence: there is no
 * room behind the other records. -E2BIG, likewise: the log is too small. With any other error nothing was done, if
 * redo_is_broken() does not say otherwise. */
int redo_append(struct redo_log *log, const struct meta_put *puts, size_t nr_puts,
		const struct meta_bytes *deletes, size_t nr_deletes);

/* The commit that was appended last was not done: it is not replayed. Only once for each. */
int redo_take_back(struct redo_log *log);

/* Returns whether an error has left it unknown what the log says: nothing may come after it. */
bool redo_is_broken(const struct redo_log *log);

/* Shows each change since the checkpoint, in order; `value.data` NULL: the key is deleted. Stops and returns what `change`
 * returns when that is not 0. Later records go behind those that were shown. -EILSEQ: one of them is damaged. */
int redo_replay(struct redo_log *log,
		int (*change)(void *argument, struct meta_bytes key, struct meta_bytes value),
		void *argument);

/* All that was committed is durable in the store's file, as the checkpoint says: nothing before counts any more. */
int redo_restart(struct redo_log *log, const struct redo_checkpoint *checkpoint);

#endif
