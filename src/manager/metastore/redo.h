/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The redo log of a store whose own file is synced only now and then: a commit is durable when its record here is, which
 * is one write to blocks that are there already, and one flush of the disk.
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

#define REDO_HEADS_MAX ((size_t)128 << 10) /* bytes */

struct redo_log;

/* Opens the redo log in the folder. *out is NULL if there is none. -EIO: it cannot be read. -EILSEQ: it is damaged. */
int redo_open(const char *folder, struct redo_log **out);

/* Makes one, whose first checkpoint is now; see redo_restart(). */
int redo_make(const char *folder, const void *heads, size_t length, struct redo_log **out);

/* NULL: nothing. */
void redo_close(struct redo_log *log);

/* Returns what the file's heads were at the checkpoint, or NULL if the store was closed after it: the file is as it should be. */
const void *redo_heads(const struct redo_log *log, size_t *length);

/* Appends what a commit does: deletes, and then puts. Returns 0 when that is durable. -ENOBUFS, without a sentence: there is no
 * room, so the store makes a checkpoint instead. With any other error it is not known whether a replay will do it. */
int redo_append(struct redo_log *log, const struct meta_put *puts, size_t nr_puts,
		const struct meta_bytes *deletes, size_t nr_deletes);

/* The commit that was appended last was not done: it is not replayed. */
int redo_take_back(struct redo_log *log);

/* Shows each change since the checkpoint, in order; `value.data` NULL: the key is deleted. Stops and returns what `change`
 * returns when that is not 0. Later records go behind those that were shown. */
int redo_replay(struct redo_log *log,
		int (*change)(void *argument, struct meta_bytes key, struct meta_bytes value),
		void *argument);

/* All that was committed is durable in the store's file, whose heads are these: nothing before counts any more.
 * `is_closed`: nothing comes after it, either. */
int redo_restart(struct redo_log *log, const void *heads, size_t length, bool is_closed);

#endif
