/* SPDX-License-Identifier: BSD-3-Clause */
/* The notes of a batch: an array that grows; each says how one change is taken back, and what waits
 * for its commit. */
#include "manager/tables/undo.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define NOTES_MIN 64U
#define NOTES_MAX 65536U /* more are not kept for the next batch */

enum note_kind { SAVED, CALL, LINKED, UNLINKED, ADDED, REMOVED, TAKEN, GIVEN };

struct note {
	enum note_kind kind;
	union {
		struct {
			void *at;
			size_t length;
			uint8_t old[UNDO_NOTE_BYTES];
		} field;
		struct {
			void (*back)(void *argument);
			void (*keep)(void *argument);
			void *argument;
		} call;
		struct {
			struct cds_list_head *node;
			struct cds_list_head *next;
		} link;
		struct {
			void **root;
			void *row;
			compare_rows *compare;
			void *hidden; /* whose place the row got */
		} tree;
		struct {
			struct space *space;
			uint64_t offset;
			uint64_t length;
		} span;
	};
};

struct undo {
	struct note *notes;
	size_t nr, max;
	int status; /* of what runs: undo_fail() */
};

int undo_open(struct undo **out)
{
	struct undo *undo = calloc(1, sizeof(*undo));

	if (!undo)
		return error_code(-ENOMEM);
	*out = undo;
	return 0;
}

void undo_close(struct undo *undo)
{
	if (!undo)
		return;
	assert(undo->nr == 0);
	free(undo->notes);
	free(undo);
}

int undo_room(struct undo *undo, size_t nr)
{
	size_t max = undo->max != 0 ? undo->max : NOTES_MIN;
	struct note *notes;

	if (nr <= undo->max - undo->nr)
		return 0;
	while (max - undo->nr < nr)
		if (__builtin_mul_overflow(max, 2, &max))
			return error_code(-ENOMEM);
	notes = reallocarray(undo->notes, max, sizeof(*notes));
	if (!notes)
		return error_code(-ENOMEM);
	undo->notes = notes;
	undo->max = max;
	return 0;
}

static struct note *add_note(struct undo *undo, enum note_kind kind)
{
	struct note *note;

	assert(undo->nr < undo->max);
	note = &undo->notes[undo->nr++];
	note->kind = kind;
	return note;
}

/* ---- Changes */

void undo_save(struct undo *undo, void *field, size_t length)
{
	for (size_t at = 0; at < length; at += UNDO_NOTE_BYTES) {
		struct note *note = add_note(undo, SAVED);

		note->field.at = (char *)field + at;
		note->field.length = length - at < UNDO_NOTE_BYTES ? length - at : UNDO_NOTE_BYTES;
		memcpy(note->field.old, note->field.at, note->field.length);
	}
}

void undo_call(struct undo *undo, void (*back)(void *argument), void (*keep)(void *argument),
	       void *argument)
{
	struct note *note = add_note(undo, CALL);

	note->call.back = back;
	note->call.keep = keep;
	note->call.argument = argument;
}

void undo_link(struct undo *undo, struct cds_list_head *node, struct cds_list_head *next)
{
	struct note *note = add_note(undo, LINKED);

	note->link.node = node;
	cds_list_add_tail(node, next);
}

void undo_unlink(struct undo *undo, struct cds_list_head *node)
{
	struct note *note = add_note(undo, UNLINKED);

	note->link.node = node;
	note->link.next = node->next;
	cds_list_del(node);
}

int undo_tree_add(struct undo *undo, void **root, void *row, compare_rows *compare)
{
	struct note *note;
	void *hidden;
	int ret = tree_add(root, row, compare, &hidden);

	if (ret < 0)
		return ret;
	note = add_note(undo, ADDED);
	note->tree.root = root;
	note->tree.row = row;
	note->tree.compare = compare;
	note->tree.hidden = hidden;
	return 0;
}

void undo_tree_remove(struct undo *undo, void **root, void *row, compare_rows *compare)
{
	struct note *note = add_note(undo, REMOVED);

	note->tree.root = root;
	note->tree.row = row;
	note->tree.compare = compare;
	tree_hide(root, row, compare);
}

static void note_span(struct undo *undo, enum note_kind kind, struct space *space, uint64_t offset,
		      uint64_t length)
{
	struct note *note = add_note(undo, kind);

	note->span.space = space;
	note->span.offset = offset;
	note->span.length = length;
}

int undo_space_take(struct undo *undo, struct space *space, uint64_t length, uint64_t *offset)
{
	int ret = space_take(space, length, offset);

	if (ret == 0)
		note_span(undo, TAKEN, space, *offset, length);
	return ret;
}

int undo_space_give(struct undo *undo, struct space *space, uint64_t offset, uint64_t length)
{
	int ret = space_give(space, offset, length);

	if (ret == 0)
		note_span(undo, GIVEN, space, offset, length);
	return ret;
}

void undo_space_taken(struct undo *undo, struct space *space, uint64_t offset, uint64_t length)
{
	note_span(undo, TAKEN, space, offset, length);
}

/* ---- Taking back and keeping */

/* Spaces have held the runs that they get back, and their arrays never shrink: nothing is
 * allocated. */
static void take_back(const struct note *note)
{
	int ret = 0;

	switch (note->kind) {
	case SAVED:
		memcpy(note->field.at, note->field.old, note->field.length);
		break;
	case CALL:
		if (note->call.back)
			note->call.back(note->call.argument);
		break;
	case LINKED:
		cds_list_del(note->link.node);
		break;
	case UNLINKED:
		cds_list_add_tail(note->link.node, note->link.next);
		break;
	case ADDED:
		tree_take_back(note->tree.root, note->tree.row, note->tree.compare,
			       note->tree.hidden);
		break;
	case REMOVED:
		tree_show(note->tree.root, note->tree.row, note->tree.compare);
		break;
	case TAKEN:
		ret = space_give(note->span.space, note->span.offset, note->span.length);
		break;
	case GIVEN:
		ret = space_take_at(note->span.space, note->span.offset, note->span.length);
		break;
	}
	assert(ret == 0);
	(void)ret;
}

/* A field may have had a secret. */
static void wipe(struct note *note)
{
	if (note->kind == SAVED)
		explicit_bzero(note->field.old, sizeof(note->field.old));
}

static void keep(const struct note *note)
{
	if (note->kind == CALL && note->call.keep)
		note->call.keep(note->call.argument);
	else if (note->kind == REMOVED)
		tree_remove_hidden(note->tree.root, note->tree.row, note->tree.compare);
}

static void shrink(struct undo *undo)
{
	if (undo->nr != 0 || undo->max <= NOTES_MAX)
		return;
	free(undo->notes);
	undo->notes = NULL;
	undo->max = 0;
}

size_t undo_mark(const struct undo *undo)
{
	return undo->nr;
}

void undo_back(struct undo *undo, size_t mark)
{
	assert(mark <= undo->nr);
	while (undo->nr > mark) {
		take_back(&undo->notes[--undo->nr]);
		wipe(&undo->notes[undo->nr]);
	}
	undo->status = 0;
	shrink(undo);
}

void undo_keep(struct undo *undo)
{
	for (size_t i = 0; i < undo->nr; i++) {
		keep(&undo->notes[i]);
		wipe(&undo->notes[i]);
	}
	undo->nr = 0;
	shrink(undo);
}

void undo_swap(struct undo *undo, struct undo *other)
{
	struct undo notes = *undo;

	*undo = *other;
	*other = notes;
}

void undo_fail(struct undo *undo, int status)
{
	if (undo->status == 0)
		undo->status = status;
}

int undo_end(struct undo *undo, size_t mark, int ret)
{
	if (ret >= 0 && undo->status < 0)
		ret = error_code(undo->status);
	if (ret < 0)
		undo_back(undo, mark);
	return ret;
}
