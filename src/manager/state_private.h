/* SPDX-License-Identifier: BSD-3-Clause */
/* What state.c and state_sessions.c share: trees of <search.h> over things by one of their fields. */
#ifndef MANAGER_STATE_PRIVATE_H
#define MANAGER_STATE_PRIVATE_H

#include "manager/state.h"

static inline int state_order(uint64_t left, uint64_t right)
{
	return left < right ? -1 : left > right;
}

#define COMPARE_BY(name, type, field)                                    \
	static int name(const void *left, const void *right)             \
	{                                                                \
		return state_order(((const struct type *)left)->field,   \
				   ((const struct type *)right)->field); \
	}

typedef int compare_items(const void *left, const void *right);

/* -EEXIST, -ENOMEM. */
int tree_add(void **root, void *item, compare_items *compare);
/* NULL: none. */
void *tree_find(void *const *root, const void *key, compare_items *compare);
/* For tdestroy(): the items are somebody else's. */
void tree_keep(void *item);

void state_free_sessions(struct cds_list_head *sessions);

#endif
