/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks that a pool has lost: in memory with servers, on flash with stores that an operator gives
 * up, or that have lost extents. The layout of the pool remembers which they are, and they stay.
 * Files keep the units that they had there, and clients answer -EIO for those. Nobody gets such a
 * unit any more. It leaves what is free, and what is being zeroed, and a file that gives it up
 * gives it to nobody. The pool grows elsewhere.
 *
 * Called when an extent goes (server_remove_extent()), and by pool.c.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

static const struct layout *layout_of(const struct fs *fs)
{
	return volume_region(fs_namespace(fs))->layout;
}

/* ---- Runs without what is lost */

/* Runs that are being made: each goes on the one before if it can. */
struct making {
	struct run *runs;
	size_t nr, max;
	uint64_t nr_lost; /* units that were left out */
};

static int add_units(struct making *making, uint64_t pool_unit, uint64_t nr)
{
	struct run *last = making->nr != 0 ? &making->runs[making->nr - 1] : NULL;

	if (last && last->pool_unit + last->nr == pool_unit) {
		last->nr += nr;
		return 0;
	}
	if (making->nr == making->max) {
		size_t max = making->max * 2 + 16;
		struct run *more = reallocarray(making->runs, max, sizeof(*more));

		if (!more)
			return error_code(-ENOMEM);
		making->runs = more;
		making->max = max;
	}
	assert(making->runs);
	making->runs[making->nr++] = (struct run){.pool_unit = pool_unit, .nr = nr};
	return 0;
}

/* Adds what is not lost of a range of the pool. */
static int add_kept(struct making *making, const struct layout *layout, uint64_t pool_unit,
		    uint64_t nr)
{
	uint64_t offset = pool_unit * FILE_UNIT, end = offset + nr * FILE_UNIT;
	int ret = 0;

	if (end > layout->length)
		return error_code(-EIO);
	while (offset < end && ret == 0) {
		struct layout_piece piece = layout_piece_at(layout, offset, end - offset);

		if (piece.lost)
			making->nr_lost += piece.length / FILE_UNIT;
		else
			ret = add_units(making, offset / FILE_UNIT, piece.length / FILE_UNIT);
		offset += piece.length;
	}
	return ret;
}

int lost_leave_out(const struct fs *fs, struct run **runs, size_t *nr, uint64_t *nr_lost)
{
	struct making making = {0};
	int ret = 0;

	for (size_t i = 0; i < *nr && ret == 0; i++)
		ret = add_kept(&making, layout_of(fs), (*runs)[i].pool_unit, (*runs)[i].nr);
	if (ret < 0) {
		free(making.runs);
		return ret;
	}
	free(*runs);
	*runs = making.runs;
	*nr = making.nr;
	*nr_lost = making.nr_lost;
	return 0;
}

/* ---- What is free */

/* Makes free runs without what is lost. */
static int filter_space(const struct fs *fs, struct space *out)
{
	const struct space *space = &fs->space;
	struct making making = {0};
	int ret = 0;

	for (size_t i = 0; i < space->nr_runs && ret == 0; i++)
		ret = add_kept(&making, layout_of(fs), space->runs[i].offset / FILE_UNIT,
			       space->runs[i].length / FILE_UNIT);
	if (ret == 0)
		ret = space_begin(out, 0);
	if (ret == 0) {
		out->nr_runs = 0;
		out->length = space->length;
	}
	for (size_t i = 0; i < making.nr && ret == 0; i++)
		ret = space_give(out, making.runs[i].pool_unit * FILE_UNIT,
				 making.runs[i].nr * FILE_UNIT);
	free(making.runs);
	return ret;
}

/* The free space as it was. Not only its fields, because its array may move later. */
struct old_space {
	struct fs *fs;
	struct space space;
};

static void take_space_back(void *argument)
{
	struct old_space *old = argument;

	space_end(&old->fs->space);
	old->fs->space = old->space;
	free(old);
}

static void forget_space(void *argument)
{
	struct old_space *old = argument;

	space_end(&old->space);
	free(old);
}

int lost_leave_space(struct fs *fs)
{
	struct undo *undo = fs_core(fs)->undo;
	struct old_space *old = malloc(sizeof(*old));
	struct space space = {0};
	int ret = old ? undo_room(undo, 1) : error_code(-ENOMEM);

	if (ret == 0)
		ret = filter_space(fs, &space);
	if (ret < 0) {
		space_end(&space);
		free(old);
		return ret;
	}
	*old = (struct old_space){fs, fs->space};
	undo_call(undo, take_space_back, forget_space, old);
	fs->space = space;
	return 0;
}

int lost_load(struct fs *fs)
{
	const struct namespace *ns = fs_namespace(fs);
	const struct region *region = ns ? volume_region(ns) : NULL;
	struct space space = {0};
	int ret;

	if (!region || fs->space.length == 0 || layout_lost_bytes(region->layout) == 0)
		return 0;
	ret = filter_space(fs, &space);
	if (ret < 0) {
		space_end(&space);
		return ret;
	}
	space_end(&fs->space);
	fs->space = space;
	return 0;
}

/* ---- What is being zeroed */

/* Makes a scrub of what is left of one. NULL: nothing is. */
static int filter_scrub(const struct scrub *scrub, struct scrub **out, uint64_t *nr_lost)
{
	struct making making = {0};
	int ret = 0;

	*out = NULL;
	for (size_t i = 0; i < scrub->nr && ret == 0; i++)
		ret = add_kept(&making, layout_of(scrub->fs), scrub->runs[i].pool_unit,
			       scrub->runs[i].nr);
	if (ret == 0 && making.nr != 0) {
		*out = calloc(1, sizeof(**out) + making.nr * sizeof(making.runs[0]));
		ret = *out ? 0 : error_code(-ENOMEM);
	}
	if (*out) {
		**out = *scrub;
		(*out)->nr = making.nr;
		memcpy((*out)->runs, making.runs, making.nr * sizeof(making.runs[0]));
	}
	*nr_lost = making.nr_lost;
	free(making.runs);
	return ret;
}

static int leave_scrub(struct scrub *scrub, uint64_t *nr_lost)
{
	struct fs *fs = scrub->fs;
	struct undo *undo = fs_core(fs)->undo;
	struct scrub *left = NULL;
	int ret = undo_room(undo, 5);

	if (ret == 0)
		ret = filter_scrub(scrub, &left, nr_lost);
	if (ret < 0)
		return ret;
	if (*nr_lost == 0) {
		free(left);
		return 0;
	}
	if (left) {
		undo_made(undo, left, free);
		undo_link(undo, &left->node, &scrub->node);
	}
	undo_unlink(undo, &scrub->node);
	undo_gone(undo, scrub, free);
	undo_set(undo, fs->pending_bytes, fs->pending_bytes - *nr_lost * FILE_UNIT);
	if (left)
		record_put_scrub(left);
	else
		record_delete_scrub(scrub);
	return 0;
}

static int leave_scrubs(struct fs *fs, uint64_t *nr_lost)
{
	struct scrub *scrub, *next;
	uint64_t nr = 0;
	int ret = 0;

	*nr_lost = 0;
	cds_list_for_each_entry_safe (scrub, next, &fs->scrubs, node) {
		ret = leave_scrub(scrub, &nr);
		if (ret < 0)
			return ret;
		*nr_lost += nr;
	}
	return ret;
}

/* ---- What files have */

int lost_count(struct fs *fs, uint64_t nr_units)
{
	int ret = undo_room(fs_core(fs)->undo, 1);

	if (ret < 0)
		return ret;
	undo_set(fs_core(fs)->undo, fs->nr_lost_units, nr_units);
	fs_put(fs);
	return 0;
}

/* The layout has lost so many bytes of the pool: leaves out what nobody has, and counts what files
 * have. */
static int leave_all(struct fs *fs, uint64_t bytes)
{
	uint64_t free_before = fs->space.free_bytes, nr_scrubbed = 0, nr_free;
	int ret = lost_leave_space(fs);

	if (ret == 0)
		ret = leave_scrubs(fs, &nr_scrubbed);
	if (ret < 0)
		return ret;
	nr_free = (free_before - fs->space.free_bytes) / FILE_UNIT;
	return lost_count(fs, fs->nr_lost_units + bytes / FILE_UNIT - nr_free - nr_scrubbed);
}

int files_lose(struct core *core, const struct extent *extent)
{
	const struct namespace *ns = extent->ns;
	struct fs *fs = ns && ns->is_files ? files_find(core, ns->number) : NULL;
	struct region *region = fs ? volume_region(ns) : NULL;
	const struct layout_home home = extent_home(extent);
	struct layout *layout = NULL;
	uint64_t bytes;
	int ret;

	if (!region || region->is_lost || !region_is_at(region, &home))
		return 0;
	/* Units that the pool has grown by are free. */
	ret = pool_look(fs);
	if (ret == 0)
		ret = layout_without(region->layout, &home, extent->number, &layout);
	if (ret != 0 || !layout)
		return ret;
	/* The pool has not grown into this extent, which is only reserved. */
	if (layout->nr_copies == region->layout->nr_copies) {
		layout_free(layout);
		return 0;
	}
	bytes = layout_lost_bytes(layout) - layout_lost_bytes(region->layout);
	ret = state_lose_chunks(core->state, region, layout);
	if (ret < 0)
		return ret;
	store_put_region(core->store, region);
	log_warn("file system '%s' has lost %llu MiB of its pool, with %s %llx", ns->name,
		 (unsigned long long)(bytes >> 20), home.is_store ? "store" : "server",
		 (unsigned long long)(home.is_store ? home.life : home.server));
	return region->is_unfinished ? 0 : leave_all(fs, bytes);
}
