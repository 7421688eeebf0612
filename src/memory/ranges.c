/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sorted arrays. A lookup is a binary search in one piece of memory. An insertion moves everything
 * behind it. A lookup first tries the place where the same address was found before. Among ten
 * thousand ranges the search alone would take half of a hit.
 */
#include "memory/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int ranges_open(struct ranges *ranges, size_t nr_max)
{
	*ranges = (struct ranges){.nr_max = nr_max};
	ranges->at = calloc(nr_max, sizeof(*ranges->at));
	ranges->items = calloc(nr_max, sizeof(*ranges->items));
	while (ranges->hint_bits < 31 && ((size_t)1 << ranges->hint_bits) < nr_max)
		ranges->hint_bits++;
	ranges->hints = calloc((size_t)1 << ranges->hint_bits, sizeof(*ranges->hints));
	if (ranges->at && ranges->items && ranges->hints)
		return 0;
	ranges_close(ranges);
	return error_code(-ENOMEM);
}

void ranges_close(struct ranges *ranges)
{
	free(ranges->at);
	free(ranges->items);
	free(ranges->hints);
	*ranges = (struct ranges){0};
}

size_t ranges_first_behind(const struct ranges *ranges, uintptr_t address)
{
	size_t low = 0, nr = ranges->nr;

	while (nr > 0) {
		size_t half = nr / 2;
		bool is_behind = ranges->at[low + half].end > address;

		low = is_behind ? low : low + half + 1;
		nr = is_behind ? half : nr - half - 1;
	}
	return low;
}

bool ranges_overlaps(const struct ranges *ranges, size_t place, struct range range)
{
	return place < ranges->nr && ranges->at[place].start < range.end &&
	       ranges->at[place].end > range.start;
}

/* Neighbours' are apart: Fibonacci hashing. */
static uint32_t *hint_of(const struct ranges *ranges, uintptr_t start)
{
	const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);

	return &ranges->hints[(start / 4096 * golden) >> 32 >> (32 - ranges->hint_bits)];
}

static bool covers(const struct ranges *ranges, size_t place, struct range range)
{
	return place < ranges->nr && ranges->at[place].start <= range.start &&
	       ranges->at[place].end >= range.end;
}

void *ranges_covering(const struct ranges *ranges, struct range range)
{
	uint32_t *hint = hint_of(ranges, range.start);
	size_t place = *hint;

	if (!covers(ranges, place, range)) {
		place = ranges_first_behind(ranges, range.start);
		if (!covers(ranges, place, range))
			return NULL;
		*hint = (uint32_t)place;
	}
	return ranges->items[place];
}

bool ranges_insert(struct ranges *ranges, struct range range, void *item)
{
	size_t place = ranges_first_behind(ranges, range.start);
	size_t nr_behind = ranges->nr - place;

	if (ranges->nr == ranges->nr_max || ranges_overlaps(ranges, place, range))
		return false;
	memmove(&ranges->at[place + 1], &ranges->at[place], nr_behind * sizeof(*ranges->at));
	memmove(&ranges->items[place + 1], &ranges->items[place],
		nr_behind * sizeof(*ranges->items));
	ranges->at[place] = range;
	ranges->items[place] = item;
	ranges->nr++;
	return true;
}

void ranges_remove(struct ranges *ranges, size_t place)
{
	size_t nr_behind = --ranges->nr - place;

	memmove(&ranges->at[place], &ranges->at[place + 1], nr_behind * sizeof(*ranges->at));
	memmove(&ranges->items[place], &ranges->items[place + 1],
		nr_behind * sizeof(*ranges->items));
}
