/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sorts the items of one bucket in memory, by radix on 8 bytes of each at a time. Only references move; the items stay.
 * Pure: no I/O.
 */
#ifndef APPS_SORT_RADIX_H
#define APPS_SORT_RADIX_H

#include <stddef.h>
#include <stdint.h>

/* A reference to an item in the bucket's memory. */
struct item {
	uint64_t word; /* 8 bytes of it, as word_at() has them; at first those of its beginning */
	uint32_t at;   /* where it is */
	uint32_t length;
};

/*
 * Puts `items`, which are in `bytes`, into the order of their bytes; an item that another begins with comes before that.
 * Their words are set by the caller, and are undefined afterwards. `scratch` has room for as many items. Takes stack for
 * a number of calls that grows with the logarithm of `nr`.
 */
void radix_sort(const uint8_t *bytes, struct item *items, struct item *scratch, size_t nr);

#endif
