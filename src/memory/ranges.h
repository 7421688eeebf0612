/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sorted set of address ranges that do not overlap, each with an item. Its capacity is fixed, so
 * only opening and closing it allocates. Its owner guards it.
 */
#ifndef MEMORY_RANGES_H
#define MEMORY_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
	uintptr_t start, end; /* first byte, and first behind it */
};

struct ranges {
	struct range *at; /* ascending */
	void **items;
	size_t nr, nr_max;
	/* Where earlier lookups found their range, by the first byte of what they looked for. Any
	 * place is allowed: a wrong one costs only time. */
	uint32_t *hints;
	unsigned hint_bits;
};

/* -ENOMEM, with a sentence. */
int ranges_open(struct ranges *ranges, size_t nr_max);
void ranges_close(struct ranges *ranges);

/* Returns the place of the first range that ends behind `address`, or `nr`. */
size_t ranges_first_behind(const struct ranges *ranges, uintptr_t address);
/* True if the range at `place` has a byte of `range`. */
bool ranges_overlaps(const struct ranges *ranges, size_t place, struct range range);
/* Returns the item of the range that covers all of `range`, or NULL. */
void *ranges_covering(const struct ranges *ranges, struct range range);

/* Inserts a range. False: nothing was done, because the set is full, or a range overlaps. */
bool ranges_insert(struct ranges *ranges, struct range range, void *item);
void ranges_remove(struct ranges *ranges, size_t place);

#endif
