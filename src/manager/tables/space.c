/* SPDX-License-Identifier: BSD-3-Clause */
/* Free runs of an extent, as a sorted array: extents have few runs, and neighbours must be
 * found. */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manager/tables/space.h"

int space_begin(struct space *space, uint64_t length)
{
	*space = (struct space){.length = length, .free_bytes = length, .longest = length};
	space->max_runs = 4;
	space->runs = calloc(space->max_runs, sizeof(*space->runs));
	if (!space->runs)
		return error_code(-ENOMEM);
	space->runs[0] = (struct space_run){0, length};
	space->nr_runs = 1;
	return 0;
}

void space_end(struct space *space)
{
	free(space->runs);
	*space = (struct space){0};
}

static void find_longest(struct space *space)
{
	space->longest = 0;
	for (size_t i = 0; i < space->nr_runs; i++)
		if (space->runs[i].length > space->longest)
			space->longest = space->runs[i].length;
}

static void remove_run(struct space *space, size_t at)
{
	space->nr_runs--;
	memmove(&space->runs[at], &space->runs[at + 1],
		(space->nr_runs - at) * sizeof(*space->runs));
}

static int insert_run(struct space *space, size_t at, uint64_t offset, uint64_t length)
{
	if (space->nr_runs == space->max_runs) {
		size_t more = space->max_runs * 2;
		struct space_run *runs = reallocarray(space->runs, more, sizeof(*runs));

		if (!runs)
			return error_code(-ENOMEM);
		space->runs = runs;
		space->max_runs = more;
	}
	assert(space->runs);
	memmove(&space->runs[at + 1], &space->runs[at],
		(space->nr_runs - at) * sizeof(*space->runs));
	space->runs[at] = (struct space_run){offset, length};
	space->nr_runs++;
	return 0;
}

/* The first run that begins after `offset`. */
static size_t run_after(const struct space *space, uint64_t offset)
{
	size_t low = 0, high = space->nr_runs;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (space->runs[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t space_find_run(const struct space *space, uint64_t offset)
{
	size_t at = run_after(space, offset);

	return at > 0 && space->runs[at - 1].offset + space->runs[at - 1].length > offset ? at - 1
											  : at;
}

static bool is_range(const struct space *space, uint64_t offset, uint64_t length)
{
	return length != 0 && offset % SPACE_UNIT == 0 && length % SPACE_UNIT == 0 &&
	       length <= space->length && offset <= space->length - length;
}

static size_t best_run(const struct space *space, uint64_t length)
{
	size_t best = space->nr_runs;

	for (size_t i = 0; i < space->nr_runs; i++) {
		uint64_t has = space->runs[i].length;

		if (has >= length && (best == space->nr_runs || has < space->runs[best].length))
			best = i;
	}
	return best;
}

uint64_t space_best_fit(const struct space *space, uint64_t length)
{
	size_t best;

	if (space->longest < length)
		return 0;
	best = best_run(space, length);
	return best == space->nr_runs ? 0 : space->runs[best].length;
}

int space_take(struct space *space, uint64_t length, uint64_t *offset)
{
	size_t best = best_run(space, length);
	struct space_run *run;

	if (length == 0 || best == space->nr_runs)
		return error_code(-ENOSPC);
	run = &space->runs[best];
	*offset = run->offset;
	run->offset += length;
	run->length -= length;
	if (run->length == 0)
		remove_run(space, best);
	space->free_bytes -= length;
	find_longest(space);
	return 0;
}

int space_take_at(struct space *space, uint64_t offset, uint64_t length)
{
	size_t at = run_after(space, offset);
	struct space_run *run;
	uint64_t before, behind;
	int ret;

	if (!is_range(space, offset, length) || at == 0)
		return error_code(-EINVAL);
	run = &space->runs[at - 1];
	before = offset - run->offset;
	if (before > run->length || run->length - before < length)
		return error_code(-EINVAL);
	behind = run->length - before - length;
	if (before != 0 && behind != 0) {
		ret = insert_run(space, at, offset + length, behind);
		if (ret < 0)
			return ret;
		space->runs[at - 1].length = before;
	} else if (before != 0) {
		run->length = before;
	} else if (behind != 0) {
		*run = (struct space_run){offset + length, behind};
	} else {
		remove_run(space, at - 1);
	}
	space->free_bytes -= length;
	find_longest(space);
	return 0;
}

int space_give(struct space *space, uint64_t offset, uint64_t length)
{
	size_t at = run_after(space, offset);
	struct space_run *before = at > 0 ? &space->runs[at - 1] : NULL;
	struct space_run *behind = at < space->nr_runs ? &space->runs[at] : NULL;
	uint64_t merged = length;
	int ret;

	if (!is_range(space, offset, length) ||
	    (before && before->offset + before->length > offset) ||
	    (behind && behind->offset < offset + length))
		return error_code(-EINVAL);
	if (before && before->offset + before->length != offset)
		before = NULL;
	if (behind && behind->offset != offset + length)
		behind = NULL;
	if (before) {
		before->length += length + (behind ? behind->length : 0);
		merged = before->length;
		if (behind)
			remove_run(space, at);
	} else if (behind) {
		behind->offset = offset;
		behind->length += length;
		merged = behind->length;
	} else {
		ret = insert_run(space, at, offset, length);
		if (ret < 0)
			return ret;
	}
	space->free_bytes += length;
	if (merged > space->longest)
		space->longest = merged;
	return 0;
}
