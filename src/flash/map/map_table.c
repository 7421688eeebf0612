/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds and adds leaves; see map_table.h. */
#include "flash/map/map_table.h"

#include <stdlib.h>
#include <string.h>

void *map_table_next(const struct map_table *table, uint32_t *number)
{
	uint32_t index = *number % MAP_LEAF;

	for (uint32_t leaf = *number / MAP_LEAF; leaf < table->nr_leaves; leaf++, index = 0) {
		for (; table->leaves[leaf] && index < MAP_LEAF; index++) {
			if (!table->leaves[leaf]->at[index])
				continue;
			*number = leaf * MAP_LEAF + index;
			return table->leaves[leaf]->at[index];
		}
	}
	return NULL;
}

/* Makes room for at least `wanted` leaves, by doubling. */
static int grow(struct map_table *table, uint32_t wanted, uint64_t *bytes)
{
	uint32_t nr = table->nr_leaves ? table->nr_leaves : 1;
	struct map_leaf **leaves;

	/* Cannot overflow: numbers have 32 bits, so there are at most 2^23 leaves. */
	while (nr < wanted)
		nr *= 2;
	leaves = realloc(table->leaves, nr * sizeof(struct map_leaf *));
	if (!leaves)
		return -1;
	memset(&leaves[table->nr_leaves], 0, (nr - table->nr_leaves) * sizeof(struct map_leaf *));
	*bytes += (nr - table->nr_leaves) * sizeof(struct map_leaf *);
	table->leaves = leaves;
	table->nr_leaves = nr;
	return 0;
}

void **map_table_place(struct map_table *table, uint32_t number, uint64_t *bytes)
{
	uint32_t leaf = number / MAP_LEAF;

	if (leaf >= table->nr_leaves && grow(table, leaf + 1, bytes))
		return NULL;
	if (!table->leaves[leaf]) {
		table->leaves[leaf] = calloc(1, sizeof(struct map_leaf));
		if (!table->leaves[leaf])
			return NULL;
		*bytes += sizeof(struct map_leaf);
	}
	return &table->leaves[leaf]->at[number % MAP_LEAF];
}

void map_table_close(struct map_table *table)
{
	for (uint32_t i = 0; i < table->nr_leaves; i++)
		free(table->leaves[i]);
	free(table->leaves);
	*table = (struct map_table){0};
}
