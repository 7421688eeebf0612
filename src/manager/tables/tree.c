/* SPDX-License-Identifier: BSD-3-Clause */
/* Trees of rows, of which some are hidden: those whose address is odd. */
#include <assert.h>
#include <errno.h>
#include <search.h>

#include "base/error.h"
#include "manager/tables/tree.h"

static bool is_hidden(const void *kept)
{
	return ((uintptr_t)kept & 1) != 0;
}

static void *hide(void *row)
{
	return (char *)row + 1;
}

void *tree_find(void *const *root, const void *key, compare_rows *compare)
{
	void **at = tfind(key, root, compare);

	return at && !is_hidden(*at) ? *at : NULL;
}

struct walk {
	bool (*visit)(void *argument, void *row);
	void *argument;
	bool is_over;
};

static void visit_node(const void *node, VISIT order, void *argument)
{
	void *row = *(void *const *)node;
	struct walk *walk = argument;

	if ((order == postorder || order == leaf) && !walk->is_over && !is_hidden(row))
		walk->is_over = !walk->visit(walk->argument, row);
}

void tree_walk(const void *root, bool (*visit)(void *argument, void *row), void *argument)
{
	struct walk walk = {.visit = visit, .argument = argument};

	twalk_r(root, visit_node, &walk);
}

int tree_add(void **root, void *row, compare_rows *compare, void **hidden)
{
	void **at = tsearch(row, root, compare);

	*hidden = NULL;
	if (!at)
		return error_code(-ENOMEM);
	if (*at == row)
		return 0;
	if (!is_hidden(*at))
		return error_code(-EEXIST);
	*hidden = (void *)(uintptr_t)tree_row(*at);
	*at = row;
	return 0;
}

void tree_take_back(void **root, void *row, compare_rows *compare, void *hidden)
{
	void **at = tfind(row, root, compare);

	assert(at && *at == row);
	if (hidden)
		*at = hide(hidden);
	else
		tdelete(row, root, compare);
}

void tree_hide(void **root, void *row, compare_rows *compare)
{
	void **at = tfind(row, root, compare);

	assert(at && *at == row);
	*at = hide(row);
}

void tree_show(void **root, void *row, compare_rows *compare)
{
	void **at = tfind(row, root, compare);

	assert(at && *at == hide(row));
	*at = row;
}

void tree_remove_hidden(void **root, void *row, compare_rows *compare)
{
	void **at = tfind(row, root, compare);

	if (at && *at == hide(row))
		tdelete(row, root, compare);
}

static void keep_row(void *row)
{
	(void)row;
}

void tree_close(void **root)
{
	tdestroy(*root, keep_row);
	*root = NULL;
}
