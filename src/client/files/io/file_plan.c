/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes plans; see file_plan.h. */
#include "client/files/io/file_plan.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "client/files/file.h"
#include "client/files/pool/fs_lost.h"

#define HOLE UINT64_MAX /* the offset of a piece that is in no run */

void plan_init(struct plan *plan)
{
	plan->pieces = plan->first;
	plan->nr = 0;
	plan->max = PLAN_FIRST;
	plan_begin(plan, 0);
}

void plan_begin(struct plan *plan, uint64_t size)
{
	plan->size = size;
	plan->run = (struct plan_run){0};
	plan->has_holes = false;
}

void plan_free(struct plan *plan)
{
	if (plan->pieces != plan->first)
		free(plan->pieces);
}

static int make_room(struct plan *plan)
{
	struct target_piece *pieces;

	if (plan->nr < plan->max)
		return 0;
	if (plan->max > UINT_MAX / 2)
		return error_code(-EFBIG);
	pieces = calloc((size_t)plan->max * 2, sizeof(*pieces));
	if (!pieces)
		return error_code(-ENOMEM);
	memcpy(pieces, plan->pieces, plan->nr * sizeof(*pieces));
	plan_free(plan);
	plan->pieces = pieces;
	plan->max *= 2;
	return 0;
}

static struct plan_run find_run(const struct file_map *map, uint64_t offset, uint64_t size)
{
	const struct file_run *found = file_map_find(map, offset / FILE_UNIT);
	uint64_t begin = found ? found->unit * FILE_UNIT : UINT64_MAX;
	struct plan_run run = {.begin = offset, .end = begin, .is_hole = true};

	if (!found || begin > offset)
		return run;
	run = (struct plan_run){.begin = begin,
				.end = begin + found->nr * FILE_UNIT,
				.pool_begin = found->pool_unit * FILE_UNIT};
	if (size > begin)
		run.reach = run.pool_begin + (size < run.end ? size : run.end) - begin;
	return run;
}

/* Adds the part of a range that is in one run, or in none, and takes it off the range. */
static int add_part(struct plan *plan, const struct file_map *map, struct afar_file_vector *left)
{
	struct plan_run *run = &plan->run;
	uint64_t length = left->length;
	int ret = make_room(plan);

	if (ret)
		return ret;
	if (left->offset < run->begin || left->offset >= run->end)
		*run = find_run(map, left->offset, plan->size);
	if (length > run->end - left->offset)
		length = run->end - left->offset;
	plan->pieces[plan->nr++] = (struct target_piece){
		.memory = {.addr = left->data, .length = length},
		.offset = run->is_hole ? HOLE : run->pool_begin + (left->offset - run->begin),
		.reach = run->reach,
	};
	plan->has_holes |= run->is_hole;
	left->data = (char *)left->data + length;
	left->offset += length;
	left->length -= length;
	return 0;
}

int plan_add(struct plan *plan, const struct file_map *map, const struct afar_file_vector *range)
{
	struct afar_file_vector left = *range;
	int ret = 0;

	while (left.length != 0 && ret == 0)
		ret = add_part(plan, map, &left);
	return ret;
}

int plan_add_piece(struct plan *plan, struct target_piece piece)
{
	int ret = make_room(plan);

	if (ret == 0)
		plan->pieces[plan->nr++] = piece;
	return ret;
}

void plan_fill_holes(struct plan *plan, unsigned from)
{
	unsigned nr = from;

	for (unsigned i = from; i < plan->nr; i++) {
		const struct target_piece *piece = &plan->pieces[i];

		if (piece->offset == HOLE)
			memset(piece->memory.addr, 0, piece->memory.length);
		else
			plan->pieces[nr++] = *piece;
	}
	plan->nr = nr;
}

/* Where in the file a piece is, by the range that its memory is of. */
static uint64_t offset_of(const struct target_piece *piece, const struct afar_file_vector *vectors,
			  unsigned nr)
{
	uintptr_t at = (uintptr_t)piece->memory.addr;

	for (unsigned i = 0; i < nr; i++) {
		uintptr_t begin = (uintptr_t)vectors[i].data;

		if (at >= begin && at - begin < vectors[i].length)
			return vectors[i].offset + (at - begin);
	}
	return 0;
}

int plan_fail(struct file_inode *inode, const char *verb, const struct target_piece *pieces,
	      unsigned nr_pieces, const struct afar_file_vector *vectors, unsigned nr, int status)
{
	for (unsigned i = 0; i < nr_pieces && status == -AFAR_ELOST; i++) {
		const struct file_piece piece = {.length = pieces[i].memory.length,
						 .pool_offset = pieces[i].offset};

		if (pieces[i].status == -AFAR_ELOST)
			status = inode_fail_lost(inode, verb, offset_of(&pieces[i], vectors, nr),
						 &piece, status);
	}
	return status;
}
