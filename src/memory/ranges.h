/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sorted set of address ranges that do not overlap, each with an item. Of fixed capacity, so that nothing but
 * opening and closing it allocates. Who owns one guards it.
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
	/* Where what was looked for last was found, by its first byte; any place is allowed. */
	uint32_t *hints;
	unsigned hint_bits;
};

/* -ENOMEM, with a sentence. */
int ranges_open(struct ranges *ranges, size_t nr_max);
void ranges_close(struct ranges *ranges);

/* The place of the first that ends behind `address`: `nr` if there is none. */
size_t ranges_first_behind(const struct ranges *ranges, uintptr_t address);
/* Whether the one at `place` has a byte of `range`. */
bool ranges_overlaps(const struct ranges *ranges, size_t place, struct range range);
/* The item of the one that covers all of `range`, or NULL. */
void *ranges_covering(const struct ranges *ranges, struct range range);

/* False, and nothing happens: it is full, or one overlaps. */
bool ranges_insert(struct ranges *ranges, struct range range, void *item);
void ranges_remove(struct ranges *ranges, size_t place);

#endif
