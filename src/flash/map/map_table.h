/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sparse array of pointers, in two levels: leaves of 512 pointers, and an array of leaves. An
 * entry with a high number takes one leaf, and an array a 512th as long as a flat one. The ranges
 * of map.c are in such a table, and the pages of each range in another.
 */
#ifndef FLASH_MAP_TABLE_H
#define FLASH_MAP_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define MAP_LEAF 512U

struct map_leaf {
	void *at[MAP_LEAF];
};

/* Empty if all zero. */
struct map_table {
	struct map_leaf **leaves; /* NULL: no entry in it yet */
	uint32_t nr_leaves;
};

/* Returns the pointer of that number; NULL: there is none. */
static inline void *map_table_at(const struct map_table *table, uint32_t number)
{
	uint32_t leaf = number / MAP_LEAF;

	if (leaf >= table->nr_leaves || !table->leaves[leaf])
		return NULL;
	return table->leaves[leaf]->at[number % MAP_LEAF];
}

/* Returns the first pointer from `*number` on, and sets `*number` to its number; NULL: there is
 * none. */
void *map_table_next(const struct map_table *table, uint32_t *number);

/* Returns the address of the pointer of that number, for the caller to set; NULL: no memory. Adds
 * the bytes that it allocated to `*bytes`. */
void **map_table_place(struct map_table *table, uint32_t number, uint64_t *bytes);

/* Frees the table. The memory that its pointers point to is the caller's. */
void map_table_close(struct map_table *table);

#endif
