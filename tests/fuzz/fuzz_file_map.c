/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of files from a manager that may lie. Whatever is accepted keeps every byte of a file inside the pool, and the
 * runs in order. An input is the pool's length in units, and orders of 25 bytes: what to do, and three numbers.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/files/inode/file_map.h"

#define RUNS_AT_ONCE 4U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct file_map *map, uint64_t pool_bytes)
{
	uint64_t before = 0;

	for (size_t i = 0; i < map->nr; i++) {
		const struct file_run *run = &map->runs[i];
		uint64_t offset = run->unit * FILE_UNIT, left = run->nr * FILE_UNIT;

		if (run->nr == 0 || run->unit < before || left > FILE_BYTES_MAX ||
		    offset > FILE_BYTES_MAX)
			abort();
		before = run->unit + run->nr;
		while (left) {
			struct file_piece piece = file_map_piece(map, offset, left);

			if (piece.is_hole || piece.length == 0 || piece.length > left ||
			    piece.pool_offset > pool_bytes ||
			    piece.length > pool_bytes - piece.pool_offset)
				abort();
			offset += piece.length;
			left -= piece.length;
		}
		if (!file_map_covers(map, run->unit * FILE_UNIT, run->nr * FILE_UNIT))
			abort();
	}
}

static void add(struct file_map *map, const uint64_t *numbers, size_t nr, uint64_t pool_bytes)
{
	if (file_map_check(numbers, nr, pool_bytes) == 0 && file_map_add(map, numbers, nr) == 0)
		check(map, pool_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t numbers[3 * RUNS_AT_ONCE], pool_units;
	struct file_map map = {0};
	size_t nr = 0;

	if (size < sizeof(pool_units))
		return 0;
	memcpy(&pool_units, data, sizeof(pool_units));
	pool_units %= FILE_BYTES_MAX / FILE_UNIT;
	data += sizeof(pool_units);
	size -= sizeof(pool_units);
	for (; size >= 25; data += 25, size -= 25) {
		uint64_t *three = &numbers[nr];

		memcpy(three, data + 1, 24);
		/* Few numbers would be near enough to each other. */
		for (unsigned i = 0; i < 3 && (data[0] & 4); i++)
			three[i] %= 64;
		if ((data[0] & 3) == 0) {
			if (file_map_cut(&map, three[0], three[1]) == 0)
				check(&map, pool_units * FILE_UNIT);
			continue;
		}
		nr += 3;
		if ((data[0] & 3) == 1 && nr < 3 * RUNS_AT_ONCE)
			continue; /* with the next */
		/* Sometimes not three for each. */
		add(&map, numbers, (data[0] & 8) ? nr - 1 : nr, pool_units * FILE_UNIT);
		nr = 0;
	}
	file_map_free(&map);
	return 0;
}
