/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The runs of an inode that this process knows: which part of the file is where in the pool. Pure
 * memory; the inode's lock guards it. A unit in no run is a hole, or has got a run since the
 * manager was asked. Runs come at any time, and go only when this process has asked for that.
 */
#ifndef CLIENT_FILE_MAP_H
#define CLIENT_FILE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <afar/file.h>

#define FILE_UNIT      ((uint64_t)AFAR_FILE_BLOCK)
#define FILE_BYTES_MAX ((uint64_t)1 << 56) /* that a file may have */

/* In units. */
struct file_run {
	uint64_t unit; /* in the file */
	uint64_t pool_unit;
	uint64_t nr;
};

struct file_map {
	struct file_run *runs; /* ascending; two that touch on both sides are one */
	size_t nr, max;
	uint64_t nr_changes; /* of the runs */
};

/* A part of a range of the file, in bytes. */
struct file_piece {
	uint64_t length;
	uint64_t pool_offset;
	bool is_hole;
};

void file_map_free(struct file_map *map);

/* Checks runs that the manager has told, three numbers each: they ascend, do not overlap, and lie in a
 * pool of so many bytes. -AFAR_EMALFORMED; -ERANGE: one lies behind the pool as we know it. */
int file_map_check(const uint64_t *numbers, size_t nr_numbers, uint64_t pool_bytes);
/* Adds runs that have been checked. They replace what was known of their units. -ENOMEM: nothing
 * was added that is wrong. */
int file_map_add(struct file_map *map, const uint64_t *numbers, size_t nr_numbers);
/* Forgets the units [from, to). -ENOMEM. */
int file_map_cut(struct file_map *map, uint64_t from, uint64_t to);

/* Returns the first run that ends behind `unit`. NULL: there is none. */
const struct file_run *file_map_find(const struct file_map *map, uint64_t unit);
/* Gives the part of [offset, offset + length) that begins at `offset`. `length` is not 0. */
struct file_piece file_map_piece(const struct file_map *map, uint64_t offset, uint64_t length);
/* Returns whether all of a range is in runs. */
bool file_map_covers(const struct file_map *map, uint64_t offset, uint64_t length);

static inline uint64_t file_units_up(uint64_t bytes)
{
	return bytes / FILE_UNIT + (bytes % FILE_UNIT != 0);
}

#endif
