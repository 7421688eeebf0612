/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table of pointers by number, in two levels, so that one with a high number costs little: its leaf, and the way to the
 * leaves, which is a 512th of what an array would be. map.c has its ranges in one, and of each range its pages.
 */
#ifndef FLASH_MAP_TABLE_H
#define FLASH_MAP_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define MAP_LEAF 512U

struct map_leaf {
	void *at[MAP_LEAF];
};

/* All zero: empty. */
struct map_table {
	struct map_leaf **leaves;
	uint32_t nr_leaves; /* of the array */
};

/* NULL: there is none. */
static inline void *map_table_at(const struct map_table *table, uint32_t number)
{
	uint32_t leaf = number / MAP_LEAF;

	if (leaf >= table->nr_leaves || !table->leaves[leaf])
		return NULL;
	return table->leaves[leaf]->at[number % MAP_LEAF];
}

/* The one with the lowest number from `*number` on, which `*number` becomes; NULL: no more. */
void *map_table_next(const struct map_table *table, uint32_t *number);

/* Where the pointer of that number is kept; NULL: no memory for it. Adds what was taken to `*bytes`. */
void **map_table_place(struct map_table *table, uint32_t number, uint64_t *bytes);

/* What the pointers point to is the caller's. */
void map_table_close(struct map_table *table);

#endif
