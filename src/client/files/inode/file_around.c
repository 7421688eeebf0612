/* SPDX-License-Identifier: BSD-3-Clause */
/* See file_around.h. */
#include "client/files/inode/file_around.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/files/inode/file_map.h"

#define BLOCK_UNITS 64U
#define LENGTH_MAX  1024U /* units; nobody gets much longer ranges */

/* Returns the index of the first block whose number is not smaller. */
static size_t find(const struct file_around *around, uint64_t number)
{
	size_t low = 0, high = around->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (around->blocks[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The bits of [from, to) that are in a block. */
static uint64_t bits_of(uint64_t number, uint64_t from, uint64_t to)
{
	uint64_t begin = number * BLOCK_UNITS, bits = UINT64_MAX;

	if (to <= begin || from >= begin + BLOCK_UNITS)
		return 0;
	if (from > begin)
		bits &= UINT64_MAX << (from - begin);
	if (to < begin + BLOCK_UNITS)
		bits &= UINT64_MAX >> (begin + BLOCK_UNITS - to);
	return bits;
}

static bool insert(struct file_around *around, size_t at, uint64_t number)
{
	if (around->nr == around->max) {
		size_t max = 2 * around->max + 8;
		void *blocks = reallocarray(around->blocks, max, sizeof(around->blocks[0]));

		if (!blocks)
			return false;
		around->blocks = blocks;
		around->max = max;
	}
	memmove(&around->blocks[at + 1], &around->blocks[at],
		(around->nr - at) * sizeof(around->blocks[0]));
	around->blocks[at] = (struct file_around_block){.number = number};
	around->nr++;
	return true;
}

static void set_bounds(struct file_around *around)
{
	const struct file_around_block *blocks = around->blocks;
	size_t nr = around->nr;

	atomic_store_explicit(&around->first, nr != 0 ? blocks[0].number * BLOCK_UNITS : 0,
			      memory_order_relaxed);
	atomic_store_explicit(&around->behind,
			      nr != 0 ? (blocks[nr - 1].number + 1) * BLOCK_UNITS : 0,
			      memory_order_relaxed);
}

void file_around_add(struct file_around *around, uint64_t from, uint64_t to)
{
	size_t at = find(around, from / BLOCK_UNITS);

	for (uint64_t number = from / BLOCK_UNITS; number * BLOCK_UNITS < to && from < to;
	     number++) {
		bool is_there = at < around->nr && around->blocks[at].number == number;

		if (!is_there && (around->nr == FILE_AROUND_MAX || !insert(around, at, number)))
			break;
		around->blocks[at++].unwritten |= bits_of(number, from, to);
	}
	set_bounds(around);
}

static void drop_empty(struct file_around *around, size_t from, size_t to)
{
	size_t kept = from;

	for (size_t i = from; i < to; i++)
		if (around->blocks[i].unwritten != 0)
			around->blocks[kept++] = around->blocks[i];
	if (kept == to)
		return;
	memmove(&around->blocks[kept], &around->blocks[to],
		(around->nr - to) * sizeof(around->blocks[0]));
	around->nr -= to - kept;
}

void file_around_note(struct file_around *around, uint64_t offset, uint64_t length,
		      uint64_t ahead_from, uint64_t ahead_to)
{
	uint64_t from = offset / FILE_UNIT, to = file_units_up(offset + length);
	size_t first, at;

	if (around->nr == 0 || length == 0)
		return;
	first = find(around, from / BLOCK_UNITS);
	for (at = first; at < around->nr && around->blocks[at].number * BLOCK_UNITS < to; at++) {
		struct file_around_block *block = &around->blocks[at];
		uint64_t written = block->unwritten & bits_of(block->number, from, to);

		block->unwritten &= ~written;
		written &= ~bits_of(block->number, ahead_from, ahead_to);
		around->nr_written += (unsigned)__builtin_popcountll(written);
	}
	drop_empty(around, first, at);
	set_bounds(around);
}

void file_around_told(struct file_around *around, uint64_t nr_told, uint64_t alone)
{
	around->nr_written -= nr_told < around->nr_written ? nr_told : around->nr_written;
	/* Others may have written meanwhile in what came before. */
	if (alone != 0 && alone != around->alone)
		file_around_end(around);
	around->alone = alone;
}

bool file_around_gives(const struct file_around *around)
{
	return around->nr != 0 && around->alone != 0 && !around->is_kept;
}

/* Adds the units of a block to a list, of which the last ones may go on. */
static size_t list_block(const struct file_around_block *block, uint64_t *list, size_t nr)
{
	uint64_t bits = block->unwritten, unit = block->number * BLOCK_UNITS;

	while (bits) {
		unsigned skipped = (unsigned)__builtin_ctzll(bits), left = BLOCK_UNITS - skipped;
		unsigned more = ~(bits >> skipped) ? (unsigned)__builtin_ctzll(~(bits >> skipped))
						   : BLOCK_UNITS;

		more = more < left ? more : left;
		unit += skipped;
		if (nr != 0 && list[nr - 2] + list[nr - 1] == unit) {
			list[nr - 1] += more;
		} else {
			list[nr++] = unit;
			list[nr++] = more;
		}
		unit += more;
		bits = more < left ? bits >> skipped >> more : 0;
	}
	return nr;
}

/* Returns the length of the shortest ranges that are listed. `left`: how many of this length are. Ranges of LENGTH_MAX units and more count as
 * equally long. */
static uint64_t find_shortest(const uint64_t *list, size_t nr, size_t *left)
{
	size_t counts[LENGTH_MAX + 1] = {0};
	uint64_t length = LENGTH_MAX;

	for (size_t i = 0; i < nr; i += 2)
		counts[list[i + 1] < LENGTH_MAX ? list[i + 1] : LENGTH_MAX]++;
	*left = FILE_AROUND_LIST_MAX;
	while (counts[length] < *left)
		*left -= counts[length--];
	return length;
}

/* Keeps the longest of too many ranges, in their order. Returns how many numbers these are. */
static size_t keep_longest(uint64_t *list, size_t nr)
{
	size_t left, kept = 0;
	uint64_t shortest;

	if (nr <= 2 * (size_t)FILE_AROUND_LIST_MAX)
		return nr;
	shortest = find_shortest(list, nr, &left);
	for (size_t i = 0; i < nr; i += 2) {
		uint64_t length = list[i + 1] < LENGTH_MAX ? list[i + 1] : LENGTH_MAX;

		if (length < shortest || (length == shortest && left == 0))
			continue;
		left -= length == shortest;
		list[kept++] = list[i];
		list[kept++] = list[i + 1];
	}
	return kept;
}

size_t file_around_list(const struct file_around *around, uint64_t **out)
{
	size_t nr = 0;

	/* At most each second unit begins some. */
	*out = file_around_gives(around) ? calloc(around->nr * BLOCK_UNITS, sizeof(**out)) : NULL;
	for (size_t i = 0; i < around->nr && *out; i++)
		nr = list_block(&around->blocks[i], *out, nr);
	return keep_longest(*out, nr);
}

void file_around_end(struct file_around *around)
{
	free(around->blocks);
	around->blocks = NULL;
	around->nr = around->max = 0;
	around->nr_written = 0;
	set_bounds(around);
}
