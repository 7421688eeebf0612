/* SPDX-License-Identifier: BSD-3-Clause */
/* Sorted arrays: a lookup is a binary search in one piece of memory, an insertion moves what is behind it. */
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
	if (ranges->at && ranges->items)
		return 0;
	ranges_close(ranges);
	return error_code(-ENOMEM);
}

void ranges_close(struct ranges *ranges)
{
	free(ranges->at);
	free(ranges->items);
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

void *ranges_covering(const struct ranges *ranges, struct range range)
{
	size_t place = ranges_first_behind(ranges, range.start);

	if (place == ranges->nr || ranges->at[place].start > range.start ||
	    ranges->at[place].end < range.end)
		return NULL;
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
