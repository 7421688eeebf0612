/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The free bytes of a pool. They are zeros: what a file gives back goes through a scrub (scrubs.c),
 * and is taken until its server has zeroed it. So whoever gets a unit sees nothing of who had it
 * before, and no client has to zero what another may be writing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "manager/connections/live.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

#define STRIPE_MIN	65536U /* bytes: each stripe is a run of the file's, and large files have many */
#define STRIPE_MAX	((uint64_t)1 << 30)
#define STRIPES_AT_ONCE 16384U /* each of them is a run and a part of a record */
#define PASSED_MAX	4096U  /* pieces of the pool that a search for room may look at in vain */
#define SEGMENTS_MAX	64U    /* records of free room that wait for more to be taken there */
#define SCRUB_RUNS_MAX	256U
#define SCRUB_UNITS_MAX 262144U /* 1 GiB */

int pool_look(struct fs *fs)
{
	const struct namespace *ns = fs_namespace(fs);
	const struct region *region = ns ? volume_region(ns) : NULL;
	struct undo *undo = fs_core(fs)->undo;
	uint64_t length = region ? region->length / FILE_UNIT * FILE_UNIT : 0;
	uint64_t old = fs->space.length;
	int ret;

	if (length <= old || region->is_unfinished)
		return 0;
	ret = undo_room(undo, 2);
	if (ret < 0)
		return ret;
	undo_set(undo, fs->space.length, length);
	ret = undo_space_give(undo, &fs->space, old, length - old);
	/* A server may have ended while the pool was being made, or with room behind its end. */
	if (ret == 0 && layout_lost_bytes(region->layout) != 0)
		ret = lost_leave_space(fs);
	return ret;
}

/* Takes the bytes at `near` if they are free there; else where they fit best. 0: no matter where,
 * unless `is_exact`. */
static int take_run(struct fs *fs, uint64_t near, bool is_exact, uint64_t bytes, uint64_t *offset)
{
	struct undo *undo = fs_core(fs)->undo;
	int ret = undo_room(undo, 1);

	if (ret < 0)
		return ret;
	if ((near != 0 || is_exact) && space_take_at(&fs->space, near, bytes) == 0) {
		undo_space_taken(undo, &fs->space, near, bytes);
		*offset = near;
		return 0;
	}
	return undo_space_take(undo, &fs->space, bytes, offset);
}

/* ---- Servers that are away */

static bool home_is_there(const struct fs *fs, const struct layout_home *home)
{
	const struct pool *pool = state_pool(fs_core(fs)->state, home);

	return pool && pool_is_writable(pool);
}

bool pool_is_whole(const struct fs *fs)
{
	const struct namespace *ns = fs_namespace(fs);
	const struct region *region = ns ? volume_region(ns) : NULL;
	uint32_t nr_homes = region ? region->layout->nr_homes : 0, nr_there = 0;

	for (uint32_t i = 0; i < nr_homes; i++)
		nr_there += home_is_there(fs, &region->layout->homes[i]);
	return nr_there == 0 || nr_there == nr_homes;
}

/* Finds the first free bytes from `from` on whose servers are there, at most `max`. */
static bool find_there(const struct fs *fs, uint64_t from, uint64_t max, struct space_run *out)
{
	const struct layout *layout = volume_region(fs_namespace(fs))->layout;

	*out = (struct space_run){0};
	for (size_t i = 0; i < fs->space.nr_runs && out->length < max; i++) {
		const struct space_run *run = &fs->space.runs[i];
		uint64_t offset = run->offset > from ? run->offset : from;
		uint64_t end = run->offset + run->length;

		while (offset < end && out->length < max) {
			struct layout_piece piece = layout_piece_at(layout, offset, end - offset);
			bool is_there =
				piece.copy && home_is_there(fs, layout_home_of(layout, piece.copy));

			if (is_there && out->length == 0)
				out->offset = offset;
			if (is_there)
				out->length += piece.length;
			else if (out->length != 0)
				return true;
			offset += piece.length;
		}
		if (out->length != 0)
			break;
	}
	if (out->length > max)
		out->length = max;
	return out->length != 0;
}

bool pool_has_room(const struct fs *fs, uint64_t bytes)
{
	struct space_run run;
	uint64_t from = 0, sum = 0;

	if (pool_is_whole(fs))
		return bytes <= fs->space.free_bytes;
	for (; sum < bytes && find_there(fs, from, bytes - sum, &run); sum += run.length)
		from = run.offset + run.length;
	return sum >= bytes;
}

/* ---- Taking */

typedef int take_units(void *argument, uint64_t pool_unit, uint64_t nr);

static int note_taken(struct fs *fs, uint64_t offset, uint64_t bytes, take_units *take,
		      void *argument)
{
	record_put_space(fs, offset, bytes);
	return take(argument, offset / FILE_UNIT, bytes / FILE_UNIT);
}

/* Takes what servers have that are there. `*left`: bytes that are missing. */
static int take_there(struct fs *fs, uint64_t near, uint64_t *left, take_units *take,
		      void *argument)
{
	struct space_run run;
	uint64_t from = near, offset;
	int ret = 0;

	while (ret == 0 && *left != 0) {
		if (!find_there(fs, from, *left, &run)) {
			if (from == 0)
				break;
			from = 0; /* before `near` there may be some */
			continue;
		}
		ret = take_run(fs, run.offset, true, run.length, &offset);
		if (ret == 0)
			ret = note_taken(fs, offset, run.length, take, argument);
		*left -= run.length;
		from = run.offset + run.length;
	}
	return ret;
}

/* ---- Files with stripes of their own */

static bool is_stripe(uint64_t bytes)
{
	return bytes >= STRIPE_MIN && bytes <= STRIPE_MAX && (bytes & (bytes - 1)) == 0;
}

/* Returns over how many servers, or stores, the pool is; before there is one, how many there may be at most. */
static uint32_t pool_width(const struct fs *fs)
{
	const struct namespace *ns = fs_namespace(fs);
	const struct region *region = volume_region(ns);

	return region && region->layout->nr_homes != 0 ? region->layout->nr_homes : ns->width;
}

static uint32_t smaller_width(uint32_t width)
{
	return width < LAYOUT_WIDTH_MAX ? width : LAYOUT_WIDTH_MAX;
}

int stripes_check(const struct fs *fs, uint64_t stripe_bytes, uint32_t width)
{
	uint32_t most = smaller_width(pool_width(fs));
	uint64_t pools = fs_namespace(fs)->stripe_bytes;

	if (pools < STRIPE_MIN && (stripe_bytes != 0 || width != 0))
		return error_fail(-EINVAL,
				  "use a layout: the pool of file system '%s' has a stripe unit of "
				  "%llu bytes; files have layouts of their own if it has 64 KiB or "
				  "more",
				  fs_namespace(fs)->name, (unsigned long long)pools);
	if (stripe_bytes != 0 && !is_stripe(stripe_bytes))
		return error_fail(-EINVAL,
				  "use a layout: a stripe unit of %llu bytes; use a power of two "
				  "from 64 KiB to 1 GiB",
				  (unsigned long long)stripe_bytes);
	if (width > most)
		return error_fail(
			-EINVAL,
			"use a layout: a width of %u; the pool of file system '%s' is on %u "
			"servers or stores, so use 1 to %u",
			width, fs_namespace(fs)->name, pool_width(fs), most);
	return 0;
}

void inode_set_stripes(struct inode *inode, const struct fs *fs, uint64_t stripe_bytes,
		       uint32_t width)
{
	const struct namespace *ns = fs_namespace(fs);
	uint32_t all = pool_width(fs) < ns->width ? pool_width(fs) : ns->width;

	if (stripe_bytes == 0 && width != 0)
		stripe_bytes = ns->stripe_bytes;
	if (width == 0 && stripe_bytes != 0)
		width = smaller_width(all);
	inode->stripe_bytes = stripe_bytes;
	inode->width = width;
}

bool inode_has_sane_stripes(const struct inode *inode)
{
	if (inode->stripe_bytes == 0 && inode->width == 0)
		return true;
	return is_stripe(inode->stripe_bytes) && inode->width != 0 &&
	       inode->width <= LAYOUT_WIDTH_MAX &&
	       (S_ISREG(inode->mode) || inode_is_directory(inode));
}

int stripes_check_units(const struct file *file, uint64_t nr)
{
	const struct inode *inode = file->inode;

	if (inode->width == 0 || nr / STRIPES_AT_ONCE <= inode->stripe_bytes / FILE_UNIT)
		return 0;
	return error_fail(-E2BIG,
			  "make room in inode %llu: %llu KiB are too much at once for stripes of "
			  "%llu KiB; ask for at most %u stripes",
			  (unsigned long long)file->ino, (unsigned long long)(nr * FILE_UNIT >> 10),
			  (unsigned long long)(inode->stripe_bytes >> 10), STRIPES_AT_ONCE);
}

/* Places the stripes of a file in turns on some of the pool's servers. */
struct placing {
	struct fs *fs;
	const struct layout *layout;
	uint64_t stripe_units;
	uint32_t width, first; /* how many of the pool's homes, and with which they begin */
	uint64_t next
		[LAYOUT_WIDTH_MAX]; /* where in the pool the search for room goes on for each of them */
	struct pool_search *search;
	/* Records of free room that are to be put: their places in the pool, in bytes, and 1; 0: none. */
	uint64_t segments[SEGMENTS_MAX];
};

/* Returns whether the pool's own stripes are not where the file's belong. */
static bool begin_placing(struct fs *fs, const struct pool_wish *wish, struct placing *placing)
{
	const struct inode *inode = wish->striped ? wish->striped->inode : NULL;
	const struct namespace *ns = fs_namespace(fs);
	const struct region *region = volume_region(ns);
	uint64_t rows, from = wish->near * FILE_UNIT;

	if (!inode || inode->width == 0 || !region || !inode_has_sane_stripes(inode) ||
	    region->layout->nr_homes < 2 || ns->stripe_bytes < STRIPE_MIN)
		return false;
	if (inode->stripe_bytes == ns->stripe_bytes && inode->width >= region->layout->nr_homes)
		return false;
	*placing = (struct placing){
		.fs = fs,
		.layout = region->layout,
		.stripe_units = inode->stripe_bytes / FILE_UNIT,
		.width = inode->width < region->layout->nr_homes ? inode->width
								 : region->layout->nr_homes,
		.first = (uint32_t)(wish->striped->ino % region->layout->nr_homes),
		.search = wish->search,
	};
	/* The stripes before these may have left room free just before them. */
	rows = placing->layout->nr_homes *
	       (inode->stripe_bytes > ns->stripe_bytes ? inode->stripe_bytes : ns->stripe_bytes);
	for (uint32_t i = 0; i < placing->width; i++)
		placing->next[i] = from > rows ? from - rows : 0;
	return true;
}

/* Finds the first free bytes of a home from `from` on, at most `max`. Gives up when the request has passed by many that are others'; the pieces
 * of the others' turns do not count. */
static bool find_at_home(const struct placing *placing, uint32_t home, uint64_t from, uint64_t max,
			 struct space_run *out)
{
	const struct space *space = &placing->fs->space;
	uint32_t nr = 0;

	for (size_t i = space_find_run(space, from); i < space->nr_runs; i++) {
		const struct space_run *run = &space->runs[i];
		uint64_t offset = run->offset > from ? run->offset : from;
		uint64_t end = run->offset + run->length;

		while (offset < end) {
			struct layout_piece piece =
				layout_piece_at(placing->layout, offset, end - offset);

			if (piece.copy && piece.copy->home == home) {
				*out = (struct space_run){offset,
							  piece.length < max ? piece.length : max};
				return true;
			}
			if (++nr >= placing->layout->nr_homes &&
			    ++placing->search->nr_passed > PASSED_MAX)
				return false;
			offset += piece.length;
		}
	}
	return false;
}

/* Returns whether a place that is full stays so: its server can lend no more, or is passed by when the pool grows. */
static bool stays_full(const struct placing *placing, uint32_t home)
{
	const struct layout *layout = placing->layout;

	return placing->search->nr_passed > PASSED_MAX ||
	       layout->nr_homes > fs_namespace(placing->fs)->width ||
	       !limits_home_has_room(fs_core(placing->fs), &layout->homes[home]);
}

/* Takes at most so many bytes of the stripe that unit `at` of the file is in. Returns how many; 0: its place is full, and it may
 * not stray. */
static int64_t take_of_stripe(struct placing *placing, const struct pool_wish *wish, uint64_t at,
			      uint64_t max, uint64_t *offset)
{
	struct fs *fs = placing->fs;
	uint32_t column = (uint32_t)(at / placing->stripe_units % placing->width);
	uint32_t home = (placing->first + column) % placing->layout->nr_homes;
	uint64_t left = (placing->stripe_units - at % placing->stripe_units) * FILE_UNIT;
	uint64_t next = placing->next[column];
	bool *is_full = &placing->search->is_full[column];
	struct space_run run;
	int ret;

	max = max < left ? max : left;
	if (!*is_full && !find_at_home(placing, home, next, max, &run) &&
	    (next == 0 || !find_at_home(placing, home, 0, max, &run)))
		*is_full = true;
	if (*is_full && (fs->space.longest == 0 || !(wish->may_stray || stays_full(placing, home))))
		return 0;
	if (*is_full)
		run = (struct space_run){next, max < fs->space.longest ? max : fs->space.longest};
	ret = take_run(fs, run.offset, !*is_full, run.length, offset);
	if (ret < 0)
		return ret;
	placing->next[column] = *offset + run.length;
	return (int64_t)run.length;
}

static void put_segment(struct placing *placing, size_t i)
{
	if (placing->segments[i] != 0)
		record_put_space(placing->fs, placing->segments[i] - 1, 1);
	placing->segments[i] = 0;
}

/* Stripes that follow each other share records: each is put once if few others come between. */
static void note_segments(struct placing *placing, uint64_t offset, uint64_t bytes)
{
	for (uint64_t at = offset / SPACE_SEGMENT_BYTES; at * SPACE_SEGMENT_BYTES < offset + bytes;
	     at++) {
		size_t i = at % SEGMENTS_MAX;

		if (placing->segments[i] != at * SPACE_SEGMENT_BYTES + 1)
			put_segment(placing, i);
		placing->segments[i] = at * SPACE_SEGMENT_BYTES + 1;
	}
}

static int take_stripes(struct placing *placing, const struct pool_wish *wish, uint64_t *left,
			take_units *take, void *argument)
{
	uint64_t at = wish->at, offset;
	int64_t bytes = 1;
	int ret = 0;

	while (ret == 0 && *left != 0 && bytes > 0) {
		bytes = take_of_stripe(placing, wish, at, *left, &offset);
		if (bytes <= 0)
			break;
		note_segments(placing, offset, (uint64_t)bytes);
		ret = take(argument, offset / FILE_UNIT, (uint64_t)bytes / FILE_UNIT);
		*left -= (uint64_t)bytes;
		at += (uint64_t)bytes / FILE_UNIT;
	}
	for (size_t i = 0; i < SEGMENTS_MAX; i++)
		put_segment(placing, i);
	return bytes < 0 ? (int)bytes : ret;
}

int64_t pool_take(struct fs *fs, const struct pool_wish *wish, uint64_t nr, take_units *take,
		  void *argument)
{
	uint64_t left = nr * FILE_UNIT, near = wish->near * FILE_UNIT, offset, bytes;
	int ret = pool_look(fs);
	bool is_whole = pool_is_whole(fs);
	struct placing placing;

	if (ret == 0 && is_whole && begin_placing(fs, wish, &placing)) {
		ret = take_stripes(&placing, wish, &left, take, argument);
		return ret < 0 ? ret : (int64_t)(nr - left / FILE_UNIT);
	}
	if (ret == 0 && !is_whole)
		ret = take_there(fs, near, &left, take, argument);
	while (ret == 0 && left != 0 && fs->space.longest != 0 && (is_whole || wish->is_anywhere)) {
		bytes = left < fs->space.longest ? left : fs->space.longest;
		ret = take_run(fs, near, false, bytes, &offset);
		if (ret == 0)
			ret = note_taken(fs, offset, bytes, take, argument);
		left -= bytes;
		near = 0;
	}
	return ret < 0 ? ret : (int64_t)(nr - left / FILE_UNIT);
}

/* Makes one scrub of some runs. */
static int give(struct fs *fs, const struct run *runs, size_t nr)
{
	struct scrub *scrub = calloc(1, sizeof(*scrub) + nr * sizeof(scrub->runs[0]));
	struct undo *undo = fs_core(fs)->undo;
	uint64_t bytes = 0;
	int ret = scrub ? undo_room(undo, 4) : error_code(-ENOMEM);

	if (ret < 0) {
		free(scrub);
		return ret;
	}
	scrub->fs = fs;
	scrub->number = fs->next_scrub;
	scrub->nr = nr;
	memcpy(scrub->runs, runs, nr * sizeof(runs[0]));
	for (size_t i = 0; i < nr; i++)
		bytes += runs[i].nr * FILE_UNIT;
	undo_made(undo, scrub, free);
	undo_link(undo, &scrub->node, &fs->scrubs);
	undo_set(undo, fs->next_scrub, fs->next_scrub + 1);
	undo_set(undo, fs->pending_bytes, fs->pending_bytes + bytes);
	record_put_scrub(scrub);
	fs_put(fs);
	return 0;
}

/* Units that are lost are nobody's from now on. */
static int forget_lost(struct fs *fs, struct run **runs, size_t *nr)
{
	uint64_t nr_lost;
	int ret;

	if (fs->nr_lost_units == 0)
		return 0;
	ret = lost_leave_out(fs, runs, nr, &nr_lost);
	return ret == 0 && nr_lost != 0 ? lost_count(fs, fs->nr_lost_units - nr_lost) : ret;
}

/* In parts that one order has room for, whatever their stripes are. */
int pool_give(struct fs *fs, struct run *runs, size_t nr)
{
	struct run part[SCRUB_RUNS_MAX];
	uint64_t units = 0;
	size_t nr_part = 0;
	int ret = forget_lost(fs, &runs, &nr);

	for (size_t i = 0; i < nr && ret == 0;) {
		uint64_t left = SCRUB_UNITS_MAX - units;
		uint64_t taken = runs[i].nr < left ? runs[i].nr : left;

		part[nr_part++] = (struct run){0, runs[i].pool_unit, taken};
		units += taken;
		runs[i].pool_unit += taken;
		runs[i].nr -= taken;
		if (runs[i].nr == 0)
			i++;
		if (i < nr && nr_part < SCRUB_RUNS_MAX && units < SCRUB_UNITS_MAX)
			continue;
		ret = give(fs, part, nr_part);
		nr_part = 0;
		units = 0;
	}
	free(runs);
	return ret;
}

/* Takes all that is free. `runs` has room for it. */
static int take_all(struct fs *fs, struct run *runs)
{
	int ret = 0;

	for (size_t i = 0; fs->space.nr_runs != 0 && ret == 0; i++) {
		const struct space_run run = fs->space.runs[fs->space.nr_runs - 1];

		ret = undo_room(fs_core(fs)->undo, 1);
		if (ret == 0)
			ret = space_take_at(&fs->space, run.offset, run.length);
		if (ret < 0)
			return ret;
		undo_space_taken(fs_core(fs)->undo, &fs->space, run.offset, run.length);
		record_put_space(fs, run.offset, run.length);
		runs[i] = (struct run){0, run.offset / FILE_UNIT, run.length / FILE_UNIT};
	}
	return ret;
}

int files_scrub_free(struct core *core, const struct namespace *ns)
{
	struct fs *fs = files_find(core, ns->number);
	int ret = fs ? pool_look(fs) : 0;
	struct run *runs;
	size_t nr;

	if (!fs || ret < 0 || fs->space.nr_runs == 0)
		return ret;
	nr = fs->space.nr_runs;
	runs = calloc(nr, sizeof(*runs));
	if (!runs)
		return error_code(-ENOMEM);
	ret = take_all(fs, runs);
	if (ret == 0)
		return pool_give(fs, runs, nr);
	free(runs);
	return ret;
}

int pool_give_zeroed(struct scrub *scrub)
{
	struct fs *fs = scrub->fs;
	struct undo *undo = fs_core(fs)->undo;
	uint64_t bytes = 0;
	int ret = undo_room(undo, scrub->nr);

	for (size_t i = 0; i < scrub->nr && ret == 0; i++) {
		const struct run *run = &scrub->runs[i];

		bytes += run->nr * FILE_UNIT;
		ret = undo_space_give(undo, &fs->space, run->pool_unit * FILE_UNIT,
				      run->nr * FILE_UNIT);
	}
	if (ret < 0)
		return ret;
	for (size_t i = 0; i < scrub->nr; i++)
		record_put_space(fs, scrub->runs[i].pool_unit * FILE_UNIT,
				 scrub->runs[i].nr * FILE_UNIT);
	record_delete_scrub(scrub);
	ret = undo_room(undo, 3);
	if (ret < 0)
		return ret;
	undo_unlink(undo, &scrub->node);
	undo_set(undo, fs->pending_bytes, fs->pending_bytes - bytes);
	undo_gone(undo, scrub, free);
	return 0;
}
