/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notes of what the batch that runs has changed. All of it is taken back when the commit fails;
 * what one operation did, when that fails half through. Used by the tables (state.h), by the
 * records (store.h) and by the core for what it keeps in memory alone. One for each core, on the
 * writer's thread.
 *
 * Changes are made in place and noted here, and taken back last first. So operations see the
 * batch's own changes, nothing is read again, and taking back costs what the changes did. The other
 * form would be a map of changed rows that everybody reads through. But the tables are rows that
 * point at each other. Behind a map each pointer would become a search, and each row would exist
 * twice. Rows in memory alone (space that a sealing took, live sessions) have no key to be found
 * by. Here the code that reads knows nothing of batches.
 *
 * Notes stack: a mark says how many there are, and taking back to a mark leaves those before it.
 * Code that begins something that can fail half through takes a mark first:
 *
 *	size_t mark = undo_mark(undo);
 *
 *	return undo_end(undo, mark, change_this_and_that(undo));
 *
 * A function that makes changes begins with undo_room(). After that it cannot fail for want of a
 * note. Its effects beyond the tables (calls, answers, closed connections) wait for the commit, as
 * undo_call() offers, or must be good either way.
 *
 * Tables too large for memory will have no rows here. Their records are read from the metastore,
 * and before that from the changes that store.c collects. Those are found by key, lie in the keys'
 * order, and are taken back through these notes.
 */
#ifndef MANAGER_UNDO_H
#define MANAGER_UNDO_H

#include <stddef.h>
#include <stdint.h>

#include <urcu/list.h>

#include "manager/tables/space.h"
#include "manager/tables/tree.h"

struct undo;

/* -ENOMEM. */
int undo_open(struct undo **out);
/* Nothing may be noted. */
void undo_close(struct undo *undo);

size_t undo_mark(const struct undo *undo);
/* Takes back, last first, all that was noted since the mark. 0: all of the batch. */
void undo_back(struct undo *undo, size_t mark);
/* The batch is committed: what was to wait for that is done, in the order of the notes, and they
 * are forgotten. */
void undo_keep(struct undo *undo);

/* Exchanges what two of them have noted: what runs meanwhile is noted apart from a batch, and kept or taken back
 * without that. It must not change what the batch has changed. */
void undo_swap(struct undo *undo, struct undo *other);

/* Ends what began at the mark with `ret`: takes it back if that is negative, or if undo_fail() was
 * called since. Returns `ret`, or what undo_fail() was told. */
int undo_end(struct undo *undo, size_t mark, int ret);
/* For a change that could not be noted by a function that returns nothing: what runs will be taken
 * back. */
void undo_fail(struct undo *undo, int status);

/* Makes room for `nr` more notes. -ENOMEM, and nothing has happened. */
int undo_room(struct undo *undo, size_t nr);

/* ---- Changes. There has to be room for one note for each, unless it says how many. */

/* The field is about to change. Takes a note for each 16 bytes. */
#define UNDO_NOTE_BYTES	     16U
#define UNDO_NOTES_OF(bytes) (((bytes) + UNDO_NOTE_BYTES - 1) / UNDO_NOTE_BYTES)
void undo_save(struct undo *undo, void *field, size_t length);
/* Sets a field of up to 16 bytes. */
#define undo_set(undo, field, value)                        \
	do {                                                \
		undo_save((undo), &(field), sizeof(field)); \
		(field) = (value);                          \
	} while (0)

/* Calls `back` with the argument when this is taken back, or `keep` when it is committed. Either
 * may be NULL; neither can fail, or make changes. */
void undo_call(struct undo *undo, void (*back)(void *argument), void (*keep)(void *argument),
	       void *argument);
/* Destroys what was made when that is taken back, or what is no longer used when that is
 * committed. */
static inline void undo_made(struct undo *undo, void *made, void (*destroy)(void *made))
{
	undo_call(undo, destroy, NULL, made);
}
static inline void undo_gone(struct undo *undo, void *gone, void (*destroy)(void *gone))
{
	undo_call(undo, NULL, destroy, gone);
}

/* Puts a node into a list before another node, or at the end: `next` is the list's head then. */
void undo_link(struct undo *undo, struct cds_list_head *node, struct cds_list_head *next);
void undo_unlink(struct undo *undo, struct cds_list_head *node);

/* -EEXIST, -ENOMEM: nothing is noted then. */
int undo_tree_add(struct undo *undo, void **root, void *row, compare_rows *compare);
/* The row must not be freed before this is committed: undo_gone(), after it. */
void undo_tree_remove(struct undo *undo, void **root, void *row, compare_rows *compare);

/* Call space_take() and space_give(), and return their errors; nothing is noted then. */
int undo_space_take(struct undo *undo, struct space *space, uint64_t length, uint64_t *offset);
int undo_space_give(struct undo *undo, struct space *space, uint64_t offset, uint64_t length);
/* The range has been taken just before, by somebody who knows nothing of batches. */
void undo_space_taken(struct undo *undo, struct space *space, uint64_t offset, uint64_t length);

#endif
