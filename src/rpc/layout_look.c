/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts: what is in one, and where; the piece at an offset. */
#include "rpc/layout.h"

#include <stdlib.h>

#include "base/checksum.h"
#include "base/error.h"

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t layout_copy_span(const struct layout *layout, const struct layout_copy *copy)
{
	const uint64_t bytes = layout->groups[copy->group].chunk_bytes;

	return bytes + (layout->is_sealed ? checksum_bytes(bytes) : 0);
}

/* How many bytes of a group its chunk number `index` has. */
static uint64_t bytes_of_chunk(const struct layout_group *group, uint32_t index)
{
	uint64_t row, rest, before;

	if (group->nr_chunks == 1)
		return group->length;
	row = (uint64_t)group->nr_chunks << group->unit_shift;
	rest = group->length % row;
	before = (uint64_t)index << group->unit_shift;
	rest = rest > before ? min_u64(rest - before, UINT64_C(1) << group->unit_shift) : 0;
	return (group->length / row << group->unit_shift) + rest;
}

/* The one copy of a group of one chunk; NULL: it has another form. */
static const struct layout_copy *only_copy(const struct layout *layout, uint32_t group)
{
	const struct layout_group *at = &layout->groups[group];
	const struct layout_chunk *chunk = &layout->chunks[at->first_chunk];

	return at->nr_chunks == 1 && chunk->nr_copies == 1 ? &layout->copies[chunk->first_copy]
							   : NULL;
}

bool layout_shares(const struct layout *layout, const struct layout *other, uint32_t group)
{
	const struct layout_copy *mine, *theirs;

	if (group >= layout->nr_groups || group >= other->nr_groups)
		return false;
	mine = only_copy(layout, group);
	theirs = only_copy(other, group);
	return mine && theirs && mine->extent == theirs->extent && mine->offset == theirs->offset &&
	       layout_home_is(layout_home_of(layout, mine), layout_home_of(other, theirs));
}

uint64_t layout_lost_bytes(const struct layout *layout)
{
	uint64_t bytes = 0;

	for (uint32_t g = 0; g < layout->nr_groups; g++) {
		const struct layout_group *group = &layout->groups[g];

		for (uint32_t i = 0; i < group->nr_chunks; i++)
			if (layout->chunks[group->first_chunk + i].nr_copies == 0)
				bytes += bytes_of_chunk(group, i);
	}
	return bytes;
}

const struct layout_copy *layout_copy_at(const struct layout *layout, uint32_t home)
{
	for (uint32_t i = 0; i < layout->nr_copies; i++) {
		if (layout->copies[i].home == home)
			return &layout->copies[i];
	}
	return NULL;
}

uint32_t layout_width(const struct layout *layout)
{
	uint32_t width = 0;

	for (uint32_t i = 0; i < layout->nr_groups; i++) {
		if (layout->groups[i].nr_chunks > width)
			width = layout->groups[i].nr_chunks;
	}
	return width;
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static size_t drop_repeated(uint64_t *numbers, size_t count)
{
	size_t nr_kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (nr_kept == 0 || numbers[i] != numbers[nr_kept - 1])
			numbers[nr_kept++] = numbers[i];
	}
	return nr_kept;
}

int layout_extents(const struct layout *layout, uint32_t home, uint64_t **out, size_t *nr_extents)
{
	uint64_t *extents = calloc((size_t)layout->nr_copies + 1, sizeof(*extents));
	bool is_ascending = true;
	size_t count = 0;

	if (!extents)
		return error_code(-ENOMEM);
	for (uint32_t i = 0; i < layout->nr_copies; i++) {
		const struct layout_copy *copy = &layout->copies[i];

		if (copy->home != home)
			continue;
		is_ascending = is_ascending && (count == 0 || extents[count - 1] <= copy->extent);
		extents[count++] = copy->extent;
	}
	if (!is_ascending)
		qsort(extents, count, sizeof(*extents), compare_numbers);
	*nr_extents = drop_repeated(extents, count);
	*out = extents;
	return 0;
}

/* Returns the group that `offset` is in. */
static const struct layout_group *group_at(const struct layout *layout, uint64_t offset)
{
	uint32_t low = 0, high = layout->nr_groups - 1;

	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;

		if (layout->groups[middle].start <= offset)
			low = middle;
		else
			high = middle - 1;
	}
	return &layout->groups[low];
}

static struct layout_piece piece_of(const struct layout *layout, const struct layout_group *group,
				    uint64_t index, uint64_t offset, uint64_t length)
{
	const struct layout_chunk *chunk = &layout->chunks[group->first_chunk + index];
	struct layout_piece piece = {
		.offset = offset, .length = length, .is_frozen = group->is_frozen};

	if (chunk->nr_copies != 0)
		piece.copy = &layout->copies[chunk->first_copy];
	else
		piece.lost = chunk;
	return piece;
}

struct layout_piece layout_piece_at(const struct layout *layout, uint64_t offset,
				    uint64_t length_max)
{
	const struct layout_group *group = group_at(layout, offset);
	uint64_t inside = offset - group->start;
	uint64_t left = min_u64(group->length - inside, length_max);
	uint64_t unit, in_unit, unit_bytes;

	/* Only in the last group. */
	if (__builtin_expect(inside >= group->length, 0))
		return (struct layout_piece){.length = length_max, .is_past = true};
	if (group->nr_chunks == 0)
		return (struct layout_piece){
			.offset = inside, .length = left, .is_frozen = group->is_frozen};
	if (group->nr_chunks == 1)
		return piece_of(layout, group, 0, inside, left);

	unit_bytes = UINT64_C(1) << group->unit_shift;
	unit = inside >> group->unit_shift;
	in_unit = inside & (unit_bytes - 1);
	return piece_of(layout, group, unit % group->nr_chunks,
			(unit / group->nr_chunks << group->unit_shift) + in_unit,
			min_u64(unit_bytes - in_unit, left));
}
