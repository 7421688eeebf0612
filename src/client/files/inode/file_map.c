/* SPDX-License-Identifier: BSD-3-Clause */
/* The cached runs of an inode; see file_map.h. */
#include "client/files/inode/file_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define NUMBERS_PER_RUN 3U

void file_map_free(struct file_map *map)
{
	free(map->runs);
	*map = (struct file_map){.nr_changes = map->nr_changes + 1};
}

/* ---- Finding */

/* Returns the index of the first run that ends behind `unit`. */
static size_t find(const struct file_map *map, uint64_t unit)
{
	size_t low = 0, high = map->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (map->runs[middle].unit + map->runs[middle].nr > unit)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

const struct file_run *file_map_find(const struct file_map *map, uint64_t unit)
{
	size_t at = find(map, unit);

	return at < map->nr ? &map->runs[at] : NULL;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

struct file_piece file_map_piece(const struct file_map *map, uint64_t offset, uint64_t length)
{
	const struct file_run *run = file_map_find(map, offset / FILE_UNIT);
	uint64_t begin = run ? run->unit * FILE_UNIT : UINT64_MAX;

	if (!run || begin > offset)
		return (struct file_piece){.length = smaller(length, begin - offset),
					   .is_hole = true};
	return (struct file_piece){
		.length = smaller(length, run->nr * FILE_UNIT - (offset - begin)),
		.pool_offset = run->pool_unit * FILE_UNIT + (offset - begin),
	};
}

bool file_map_covers(const struct file_map *map, uint64_t offset, uint64_t length)
{
	while (length != 0) {
		struct file_piece piece = file_map_piece(map, offset, length);

		if (piece.is_hole)
			return false;
		offset += piece.length;
		length -= piece.length;
	}
	return true;
}

/* ---- Changing */

static int make_room(struct file_map *map, size_t nr)
{
	size_t max = map->max != 0 ? map->max : 4;
	struct file_run *runs;

	if (map->nr + nr <= map->max)
		return 0;
	while (max < map->nr + nr)
		max *= 2;
	runs = realloc(map->runs, max * sizeof(*runs));
	if (!runs)
		return error_code(-ENOMEM);
	map->runs = runs;
	map->max = max;
	return 0;
}

/* Puts `nr` runs in place of the `old` ones at an index. There is room. */
static void replace(struct file_map *map, size_t at, size_t old, const struct file_run *runs,
		    size_t nr)
{
	memmove(&map->runs[at + nr], &map->runs[at + old],
		(map->nr - at - old) * sizeof(*map->runs));
	if (nr != 0)
		memcpy(&map->runs[at], runs, nr * sizeof(*runs));
	map->nr = map->nr - old + nr;
	map->nr_changes++;
}

int file_map_cut(struct file_map *map, uint64_t from, uint64_t to)
{
	size_t first = find(map, from), behind = first;
	struct file_run rest[2];
	size_t nr = 0;
	int ret;

	while (behind < map->nr && map->runs[behind].unit < to)
		behind++;
	if (behind == first || from >= to)
		return 0;
	if (map->runs[first].unit < from)
		rest[nr++] = (struct file_run){map->runs[first].unit, map->runs[first].pool_unit,
					       from - map->runs[first].unit};
	if (map->runs[behind - 1].unit + map->runs[behind - 1].nr > to) {
		const struct file_run *last = &map->runs[behind - 1];

		rest[nr++] = (struct file_run){to, last->pool_unit + (to - last->unit),
					       last->unit + last->nr - to};
	}
	ret = make_room(map, 1);
	if (ret == 0)
		replace(map, first, behind - first, rest, nr);
	return ret;
}

static bool touch(const struct file_run *left, const struct file_run *right)
{
	return left->unit + left->nr == right->unit &&
	       left->pool_unit + left->nr == right->pool_unit;
}

static void join(struct file_map *map, size_t left)
{
	if (left + 1 >= map->nr || !touch(&map->runs[left], &map->runs[left + 1]))
		return;
	map->runs[left].nr += map->runs[left + 1].nr;
	replace(map, left + 1, 1, NULL, 0);
}

static int add(struct file_map *map, const struct file_run *run)
{
	const struct file_run *known = file_map_find(map, run->unit);
	size_t at;
	int ret;

	if (known && known->unit <= run->unit && known->unit + known->nr >= run->unit + run->nr &&
	    known->pool_unit + (run->unit - known->unit) == run->pool_unit)
		return 0;
	ret = file_map_cut(map, run->unit, run->unit + run->nr);
	if (ret == 0)
		ret = make_room(map, 1);
	if (ret)
		return ret;
	at = find(map, run->unit);
	replace(map, at, 0, run, 1);
	join(map, at);
	if (at > 0)
		join(map, at - 1);
	return 0;
}

/* ---- What the manager tells */

static struct file_run run_at(const uint64_t *numbers)
{
	return (struct file_run){numbers[0], numbers[1], numbers[2]};
}

static int fail_malformed(const char *what)
{
	return error_fail(-AFAR_EMALFORMED, "read where a file is: %s; the manager is faulty",
			  what);
}

int file_map_check(const uint64_t *numbers, size_t nr_numbers, uint64_t pool_bytes)
{
	const uint64_t units_max = FILE_BYTES_MAX / FILE_UNIT;
	uint64_t end = 0;

	if (nr_numbers % NUMBERS_PER_RUN != 0)
		return fail_malformed("a run lacks a number");
	for (size_t i = 0; i < nr_numbers; i += NUMBERS_PER_RUN) {
		const struct file_run run = run_at(&numbers[i]);

		if (run.nr == 0 || run.unit > units_max || run.nr > units_max - run.unit ||
		    run.pool_unit > units_max)
			return fail_malformed("a run is empty, or too large");
		if (run.unit < end)
			return fail_malformed("its runs overlap, or do not ascend");
		end = run.unit + run.nr;
		if (run.pool_unit + run.nr > pool_bytes / FILE_UNIT)
			return error_fail(-ERANGE,
					  "read where a file is: a run is behind the pool's end");
	}
	return 0;
}

int file_map_add(struct file_map *map, const uint64_t *numbers, size_t nr_numbers)
{
	int ret = 0;

	for (size_t i = 0; i < nr_numbers && ret == 0; i += NUMBERS_PER_RUN) {
		const struct file_run run = run_at(&numbers[i]);

		ret = add(map, &run);
	}
	return ret;
}
