/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trees of rows by one of their fields: <search.h>, where a row that was taken out can be put back
 * without memory.
 *
 * A batch that fails has to put back what it took out (undo.h), and that must not fail for want of
 * memory. So a row that is taken out is hidden first: it keeps its place, and nobody finds it. It
 * goes when the batch is committed.
 *
 * Functions that compare get rows as trees keep them: they read them through tree_row() alone.
 */
#ifndef MANAGER_TREE_H
#define MANAGER_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int compare_rows(const void *left, const void *right);

/* A tree keeps a hidden row as its address + 1. */
static inline const void *tree_row(const void *kept)
{
	return (const void *)((uintptr_t)kept & ~(uintptr_t)1);
}

static inline int tree_order(uint64_t left, uint64_t right)
{
	return left < right ? -1 : left > right;
}

/* Compares rows by a number. */
#define COMPARE_BY(name, type, field)                                             \
	static int name(const void *left, const void *right)                      \
	{                                                                         \
		return tree_order(((const struct type *)tree_row(left))->field,   \
				  ((const struct type *)tree_row(right))->field); \
	}

/* NULL: there is none, or it is hidden. */
void *tree_find(void *const *root, const void *key, compare_rows *compare);

/* Visits the rows that are not hidden, in their order, until `visit` returns false. */
void tree_walk(const void *root, bool (*visit)(void *argument, void *row), void *argument);

/* Adds a row. One with the same key that is hidden gives up its place, and is the caller's to
 * remember: `*hidden`, else NULL. -EEXIST, -ENOMEM. */
int tree_add(void **root, void *row, compare_rows *compare, void **hidden);
/* Takes back what tree_add() did. Cannot fail. */
void tree_take_back(void **root, void *row, compare_rows *compare, void *hidden);

/* Hides a row that is in the tree, and shows it again. Neither can fail. */
void tree_hide(void **root, void *row, compare_rows *compare);
void tree_show(void **root, void *row, compare_rows *compare);
/* Removes a row that is hidden. Does nothing if another one has its place. */
void tree_remove_hidden(void **root, void *row, compare_rows *compare);

/* Frees the tree. The rows are somebody else's. */
void tree_close(void **root);

#endif
