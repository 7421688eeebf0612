/* SPDX-License-Identifier: BSD-3-Clause */
/* Room for files: allocated as they grow, given back as they shrink. */
#include <errno.h>
#include <stdlib.h>

#include "manager/files/holds.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

#define AHEAD_UNITS_MIN \
	256U /* 1 MiB, or an eighth of the file: so much it may have beyond what was asked for */
#define AHEAD_UNITS_MAX 16384U /* 64 MiB: and so much at most */
#define AROUND_UNITS_MIN \
	256U /* 1 MiB, or an eighth of what is written: so much a write into a hole gets at once */
#define UNWRITTEN_UNITS_MIN \
	4096U /* 16 MiB, or what is written: so much it may have of what writers give back */
#define SPARSE \
	64U /* or so many times what is written: in any order, each 16th unit then asks seldom */
#define SPARSE_UNITS_MAX \
	262144U /* up to 1 GiB: writers may give less than that back, if it is in many parts */
#define RANGES_MAX 4096U /* of one wish */

static uint64_t units_up(uint64_t bytes)
{
	return bytes / FILE_UNIT + (bytes % FILE_UNIT != 0);
}

/* ---- Growing */

struct growth {
	uint64_t unit; /* the next that gets room */
	struct run *runs;
	size_t nr, max;
	struct pool_search search;
};

static int take_run(void *argument, uint64_t pool_unit, uint64_t nr)
{
	struct growth *growth = argument;

	if (growth->nr == growth->max) {
		size_t max = 2 * growth->max + 8;
		struct run *runs = reallocarray(growth->runs, max, sizeof(*runs));

		if (!runs)
			return error_code(-ENOMEM);
		growth->runs = runs;
		growth->max = max;
	}
	growth->runs[growth->nr++] = (struct run){growth->unit, pool_unit, nr};
	growth->unit += nr;
	return 0;
}

/* Where the pool goes on behind the run that ends before `unit`, which may be one of those that are coming. 0: nowhere. */
static uint64_t place_near(const struct runs *runs, const struct growth *growth, uint64_t unit)
{
	size_t at = runs_find(runs, unit);
	const struct run *before = at > 0 ? &runs->run[at - 1] : NULL;

	if (growth->nr != 0 && growth->unit == unit)
		before = &growth->runs[growth->nr - 1];
	return before && before->unit + before->nr == unit ? before->pool_unit + before->nr : 0;
}

static int fail_full(const struct fs *fs, uint64_t wanted)
{
	return error_fail(-ENOSPC,
			  "make room for %llu KiB in file system '%s': its pool is full; make it "
			  "larger, or remove files",
			  (unsigned long long)(wanted * FILE_UNIT >> 10), fs_namespace(fs)->name);
}

/* Takes room for a hole, which the file gets with end_growth(). `may_stray`: its stripes need not be where they belong. */
static int fill_hole(struct file *file, struct growth *growth, struct units hole, bool is_anywhere,
		     bool may_stray)
{
	const struct pool_wish wish = {
		.near = place_near(file->runs, growth, hole.from),
		.is_anywhere = is_anywhere,
		.striped = hole.from < FILE_SLOT_UNIT ? file : NULL,
		.at = hole.from,
		.may_stray = may_stray || is_anywhere,
		.search = &growth->search,
	};
	uint64_t nr = hole.to - hole.from;
	/* A limit counts by what has been looked at. */
	int64_t taken = pool_look(file->fs);

	growth->unit = hole.from;
	if (taken == 0)
		taken = limits_check_units(file->fs, nr);
	if (taken == 0)
		taken = pool_take(file->fs, &wish, nr, take_run, growth);
	if (taken < 0)
		return (int)taken;
	return (uint64_t)taken == nr ? 0 : fail_full(file->fs, nr - (uint64_t)taken);
}

static int end_growth(struct file *file, struct growth *growth, int ret)
{
	if (ret == 0 && growth->nr != 0)
		ret = file_add_runs(file, growth->runs, growth->nr);
	free(growth->runs);
	return ret;
}

static int set_spare(struct file *file, uint64_t from, uint64_t to)
{
	struct inode *inode = file_edit(file);

	if (!inode)
		return error_code(-ENOMEM);
	inode->spare_from = from;
	inode->spare_to = to;
	return 0;
}

uint64_t inode_asked_units(const struct inode *inode)
{
	uint64_t end = units_up(inode->size);
	uint64_t from = inode->spare_from > end ? inode->spare_from : end;

	return inode->nr_units - inode->has_slot -
	       (inode->spare_to > from ? inode->spare_to - from : 0);
}

static uint64_t clamp(uint64_t nr, uint64_t min, uint64_t max)
{
	nr = nr > min ? nr : min;
	return nr < max ? nr : max;
}

/* Returns how many units somebody has asked for, or has said that he has written. */
static uint64_t written_units(const struct inode *inode)
{
	uint64_t asked = inode_asked_units(inode);

	return asked > inode->nr_behind ? asked - inode->nr_behind : 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Returns how many units files may still have, of what the pool has now. */
static uint64_t units_left(const struct fs *fs)
{
	return smaller(limits_room(fs), fs->space.free_bytes / FILE_UNIT);
}

/* Returns how many others would still find, who make the pool larger if they have to. */
static uint64_t units_for_others(const struct fs *fs)
{
	uint64_t bytes = fs->space.free_bytes + limits_pool_room(fs_core(fs), fs_namespace(fs));

	return smaller(limits_room(fs), bytes / FILE_UNIT);
}

/* Returns how many units more a file may have that nobody has written. They count until somebody says that he has, the file is
 * emptied, or the manager forgets it. A writer who gives nothing back gets less. One who does must leave enough for others
 * meanwhile. */
static uint64_t unwritten_max(const struct file *file, bool gives_back)
{
	const struct inode *inode = file->inode;
	uint64_t max = clamp(inode_asked_units(inode) / 8, AHEAD_UNITS_MIN, AHEAD_UNITS_MAX);

	if (gives_back) {
		uint64_t written = written_units(inode);
		uint64_t sparse = smaller(written * SPARSE, SPARSE_UNITS_MAX);

		max = clamp(written > sparse ? written : sparse, UNWRITTEN_UNITS_MIN,
			    units_for_others(file->fs) / 8);
	}
	return max > inode->nr_behind ? max - inode->nr_behind : 0;
}

/* Returns how many units a file that grows may get ahead. A writer who writes here and there, each
 * time farther on, leaves behind what the file had ahead. */
static uint64_t ahead_max(const struct file *file, bool gives_back)
{
	uint64_t asked = inode_asked_units(file->inode), max = unwritten_max(file, gives_back);
	uint64_t most = clamp(asked / 8, AHEAD_UNITS_MIN, AHEAD_UNITS_MAX);

	max = max < most ? max : most;
	return max < asked ? max : asked;
}

int file_note_ahead(struct file *file, bool is_ahead)
{
	struct undo *undo = fs_core(file->fs)->undo;
	int ret = file->is_ahead != is_ahead ? undo_room(undo, 1) : 0;

	if (ret < 0 || file->is_ahead == is_ahead)
		return ret;
	undo_set(undo, file->is_ahead, is_ahead);
	if (is_ahead)
		record_put_ahead(file->fs, file->ino);
	else
		record_delete_ahead(file->fs, file->ino);
	return 0;
}

/* A file that grows gets more than it needs, so that it has few runs. Goes without. */
static int take_ahead(struct file *file, uint64_t end, bool gives_back)
{
	uint64_t ahead = ahead_max(file, gives_back);
	struct growth growth = {0};
	struct fs *fs = file->fs;
	int ret = 0;

	if (ahead > fs->space.longest / FILE_UNIT / 4)
		ahead = fs->space.longest / FILE_UNIT / 4;
	if (ahead > limits_room(fs))
		ahead = limits_room(fs);
	if (!pool_is_whole(fs))
		ahead = 0;
	if (ahead != 0)
		ret = fill_hole(file, &growth, (struct units){end, end + ahead}, false, true);
	ret = end_growth(file, &growth, ret);
	if (ret == 0 && ahead != 0)
		ret = file_note_ahead(file, true);
	return ret == 0 ? set_spare(file, end, end + ahead) : ret;
}

/* Somebody has asked for some of what is ahead, and has passed by the rest before that. He has told what he has written there all
 * the same. */
static int use_spare(struct file *file, const struct file_wish *wish)
{
	const struct inode *inode = file->inode;
	uint64_t end = wish->list[wish->nr - 1].to, nr = smaller(end, inode->spare_to);
	struct inode *edited;

	if (end <= inode->spare_from || inode->spare_from >= inode->spare_to)
		return 0;
	nr -= inode->spare_from;
	for (size_t i = 0; i < wish->nr; i++) {
		uint64_t from = wish->list[i].from, to = smaller(wish->list[i].to, inode->spare_to);

		from = from > inode->spare_from ? from : inode->spare_from;
		nr -= from < to ? to - from : 0;
	}
	if (wish->ahead_to == inode->spare_to)
		nr -= smaller(wish->ahead_used, nr);
	edited = file_edit(file);
	if (!edited)
		return error_code(-ENOMEM);
	edited->nr_behind += nr;
	edited->spare_from = end;
	return 0;
}

/* ---- Room around a write into a hole */

/* Fills the holes in a wish. */
struct filling {
	struct file *file;
	const struct file_wish *wish;
	struct growth growth;
	uint64_t left, most; /* units that may come around all of them, and around each */
	struct file_room *room;
};

/* Decides how many units a file may get around a write, which needs `missing` units itself. One that is written on and on gets
 * more each time. */
static void limit_around(struct filling *filling, uint64_t missing)
{
	const struct file *file = filling->file;
	const struct file_wish *wish = filling->wish;
	const struct fs *fs = file->fs;
	/* Each of a list gets as much as if those before it were written. */
	uint64_t asked = wish->list[0].to - wish->list[0].from;
	uint64_t written = written_units(file->inode) + (missing > asked ? missing - asked : 0);
	uint64_t room = smaller(fs->space.longest / FILE_UNIT / 4, units_left(fs));

	if (wish->is_exact || !wish->gives_back || !pool_is_whole(fs) || room <= missing)
		return;
	filling->most = clamp(written / 8, AROUND_UNITS_MIN, AHEAD_UNITS_MAX);
	filling->left = smaller(filling->most * wish->nr, written * SPARSE);
	filling->left = smaller(filling->left, unwritten_max(file, true));
	filling->left = smaller(filling->left, room - missing);
}

static uint64_t count_missing(const struct runs *runs, uint64_t from, uint64_t to)
{
	uint64_t nr = to - from;

	for (size_t at = runs_find(runs, from); at < runs->nr && runs->run[at].unit < to; at++) {
		const struct run *run = &runs->run[at];
		uint64_t begin = run->unit > from ? run->unit : from;
		uint64_t end = run->unit + run->nr < to ? run->unit + run->nr : to;

		nr -= end - begin;
	}
	return nr;
}

static uint64_t end_of(const struct file_room *room)
{
	return room->nr != 0 ? room->list[room->nr - 1].to : 0;
}

/* Widens a part of the hole before run `at` to an aligned power of two around it. It stays within the hole, and behind the room
 * of the list so far. Behind all runs, the hole ends where the list does, and the file gets room ahead there. */
static struct units widen(struct filling *filling, size_t at, struct units part)
{
	const struct runs *runs = filling->file->runs;
	const struct run *run = runs->run;
	const struct units *last = &filling->wish->list[filling->wish->nr - 1];
	uint64_t begin = at > 0 ? run[at - 1].unit + run[at - 1].nr : 0;
	uint64_t end = at < runs_count(runs) ? run[at].unit : last->from;
	uint64_t max = smaller(filling->left, filling->most);

	if (part.to > end)
		return part;
	begin = begin > end_of(filling->room) ? begin : end_of(filling->room);
	for (uint64_t size = AHEAD_UNITS_MAX; size > 1; size /= 2) {
		struct units wide = {part.from & ~(size - 1), (part.to + size - 1) & ~(size - 1)};
		uint64_t added;

		wide.from = wide.from > begin ? wide.from : begin;
		wide.to = smaller(wide.to, end);
		added = wide.to - wide.from - (part.to - part.from);
		if (added > max)
			continue;
		filling->left -= added;
		return wide;
	}
	return part;
}

/* Counts units that came around others. Earlier ones that were written since count no more. */
static int count_around(struct file *file, uint64_t nr, uint64_t nr_written)
{
	uint64_t old = file->inode->nr_behind;
	uint64_t new = old - (nr_written < old ? nr_written : old) + nr;
	struct inode *inode = new != old ? file_edit(file) : NULL;

	if (inode)
		inode->nr_behind = new;
	return inode || new == old ? 0 : error_code(-ENOMEM);
}

static bool is_at_end(const struct runs *runs, uint64_t end)
{
	return runs->nr == 0 || runs->run[runs->nr - 1].unit + runs->run[runs->nr - 1].nr <= end;
}

/* Likewise without its slot. */
static bool is_data_at_end(const struct runs *runs, uint64_t end)
{
	size_t nr = runs_count(runs);

	return nr == 0 || runs->run[nr - 1].unit + runs->run[nr - 1].nr <= end;
}

static void add_room(struct file_room *room, struct units units)
{
	if (room->nr != 0 && units.from < end_of(room))
		room->list[room->nr - 1].to = units.to > end_of(room) ? units.to : end_of(room);
	else
		room->list[room->nr++] = units;
}

/* Fills what are still holes in a range, and around there. */
static int fill_range(struct filling *filling, struct units asked)
{
	const struct runs *runs = filling->file->runs;
	uint64_t begin = end_of(filling->room), next;
	struct units room = asked;
	int ret = 0;

	/* It has come around another of the list, and is asked for all the same. */
	if (asked.from < begin)
		filling->left += smaller(asked.to, begin) - asked.from;
	for (uint64_t from = asked.from > begin ? asked.from : begin; from < asked.to && ret == 0;
	     from = next) {
		size_t at = runs_find(runs, from);
		const struct run *run = at < runs->nr ? &runs->run[at] : NULL;
		struct units part;

		if (run && run->unit <= from) {
			next = run->unit + run->nr;
			continue;
		}
		next = run && run->unit < asked.to ? run->unit : asked.to;
		part = widen(filling, at, (struct units){from, next});
		room.from = smaller(room.from, part.from);
		room.to = part.to > room.to ? part.to : room.to;
		ret = fill_hole(filling->file, &filling->growth, part, filling->wish->is_anywhere,
				filling->wish->may_stray);
	}
	add_room(filling->room, room);
	return ret;
}

static int fill_holes(struct filling *filling)
{
	const struct file_wish *wish = filling->wish;
	struct file *file = filling->file;
	uint64_t missing = 0, max;
	/* Room around the ranges goes by the free room of the pool. */
	int ret = pool_look(file->fs);

	for (size_t i = 0; i < wish->nr; i++)
		missing += count_missing(file->runs, wish->list[i].from, wish->list[i].to);
	limit_around(filling, missing);
	max = filling->left;
	if (ret == 0)
		ret = stripes_check_units(file, missing);
	for (size_t i = 0; i < wish->nr && ret == 0; i++)
		ret = fill_range(filling, wish->list[i]);
	ret = end_growth(file, &filling->growth, ret);
	return ret == 0 ? count_around(file, max - filling->left, 0) : ret;
}

int file_extend(struct file *file, const struct file_wish *wish, struct file_room *room)
{
	struct filling filling = {.file = file, .wish = wish, .room = room};
	uint64_t nr_units = file->inode->nr_units, end = wish->list[wish->nr - 1].to;
	int ret = file_load_runs(file);

	room->list = calloc(wish->nr + 1, sizeof(*room->list));
	if (ret == 0 && !room->list)
		ret = error_code(-ENOMEM);
	if (ret == 0)
		ret = count_around(file, 0, wish->extra_used);
	if (ret == 0)
		ret = fill_holes(&filling);
	if (ret == 0)
		ret = use_spare(file, wish);
	if (ret < 0 || file->inode->nr_units == nr_units || wish->is_exact ||
	    !is_data_at_end(file->runs, end))
		return ret;
	ret = take_ahead(file, end, wish->gives_back);
	if (file->inode->spare_from < file->inode->spare_to)
		room->list[room->nr++] =
			(struct units){file->inode->spare_from, file->inode->spare_to};
	return ret;
}

int file_take_slot(struct file *file)
{
	const struct units slot = {FILE_SLOT_UNIT, FILE_SLOT_UNIT + 1};
	struct growth growth = {0};
	int ret = file_load_runs(file);

	if (ret == 0)
		ret = fill_hole(file, &growth, slot, false, true);
	ret = end_growth(file, &growth, ret);
	/* So that it goes back also if the manager ends. */
	return ret == 0 ? file_note_ahead(file, true) : ret;
}

/* ---- What a client asks for, and hears */

static int take_range(uint64_t offset, uint64_t length, struct file_wish *out)
{
	if (length == 0 || length > FILE_SIZE_MAX || offset > FILE_SIZE_MAX - length)
		return error_fail(-EFBIG, "make a file longer: it can have %llu bytes",
				  (unsigned long long)FILE_SIZE_MAX);
	out->list[out->nr++] = (struct units){offset / FILE_UNIT, units_up(offset + length)};
	return 0;
}

static int take_ranges(const Afar__FileExtend *ask, struct file_wish *out)
{
	const uint64_t units_max = FILE_SIZE_MAX / FILE_UNIT;

	for (size_t i = 0; i < ask->n_ranges; i += 2) {
		uint64_t from = ask->ranges[i], nr = ask->ranges[i + 1];

		if (nr == 0 || from > units_max || nr > units_max - from ||
		    (i != 0 && from < out->list[out->nr - 1].to))
			return error_fail(-EINVAL,
					  "make room in inode %llu: the ranges do not "
					  "ascend, or one is empty, or too large",
					  (unsigned long long)ask->ino);
		out->list[out->nr++] = (struct units){from, from + nr};
	}
	return 0;
}

int file_wish_take(const Afar__FileExtend *ask, struct file_wish *out)
{
	*out = (struct file_wish){
		.is_exact = ask->is_exact,
		.is_anywhere = ask->is_anywhere,
		.may_stray = ask->may_stray,
		.ahead_to = ask->ahead_to,
		.ahead_used = ask->ahead_used,
		.extra_used = ask->extra_used,
		.gives_back = ask->gives_back,
	};
	if (ask->n_ranges / 2 > RANGES_MAX || ask->n_ranges % 2 != 0)
		return error_fail(-E2BIG,
				  "make room in inode %llu: %zu numbers of ranges; they are pairs, "
				  "of which at most %u go together",
				  (unsigned long long)ask->ino, ask->n_ranges, RANGES_MAX);
	out->list = calloc(ask->n_ranges / 2 + 1, sizeof(*out->list));
	if (!out->list)
		return error_code(-ENOMEM);
	return ask->n_ranges != 0 ? take_ranges(ask, out)
				  : take_range(ask->offset, ask->length, out);
}

static void add_extra(Afar__FileResult *result, uint64_t from, uint64_t to)
{
	if (from >= to)
		return;
	result->extra[result->n_extra++] = from;
	result->extra[result->n_extra++] = to - from;
}

int file_tell_extra(const struct file_wish *wish, const struct file_room *room,
		    Afar__FileResult *result)
{
	size_t next = 0;

	/* Each ends where something of the wish begins, or where a part of the room ends. */
	result->extra = calloc(2 * (wish->nr + room->nr), sizeof(*result->extra));
	if (!result->extra)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < room->nr; i++) {
		uint64_t at = room->list[i].from, end = room->list[i].to;

		for (; next < wish->nr && wish->list[next].from < end; next++) {
			add_extra(result, at, wish->list[next].from);
			at = wish->list[next].to;
		}
		add_extra(result, at, end);
	}
	return 0;
}

int file_prepare(struct file *file, uint64_t bytes)
{
	struct units units;
	struct file_wish wish = {.list = &units, .is_exact = true, .may_stray = true};
	struct file_room room = {0};
	int ret = take_range(0, bytes, &wish);

	if (ret == 0)
		ret = file_extend(file, &wish, &room);
	free(room.list);
	return ret == 0 ? set_spare(file, 0, units_up(bytes)) : ret;
}

bool file_is_spare(const struct file *file, uint64_t offset, uint64_t length)
{
	const struct inode *inode = file->inode;

	return inode->size == 0 && offset / FILE_UNIT >= inode->spare_from &&
	       length <= FILE_SIZE_MAX && offset <= FILE_SIZE_MAX &&
	       units_up(offset + length) <= inode->spare_to;
}

/* ---- Shrinking */

static int check_alone(const struct file *file, const struct session *session, const char *asked)
{
	if (!file_is_kept(file, session))
		return 0;
	return error_fail(-EBUSY,
			  "%s inode %llu: another session has it open, and does not answer when it "
			  "is asked to give it up; close it there, or wait until that ends",
			  asked, (unsigned long long)file->ino);
}

/* Gives units back. Sessions that have the file cached must look anew. */
static int cut_list(struct file *file, const struct units *list, size_t nr)
{
	struct inode *inode;
	struct run *cuts;
	size_t nr_cuts;
	int ret = file_load_runs(file);

	if (ret == 0)
		ret = file_cut_runs(file, list, nr, &cuts, &nr_cuts);
	if (ret == 0)
		ret = pool_give(file->fs, cuts, nr_cuts);
	inode = ret == 0 ? file_edit(file) : NULL;
	if (!inode)
		return ret < 0 ? ret : error_code(-ENOMEM);
	inode->layout++;
	for (size_t i = 0; i < nr; i++)
		if (inode->spare_to > list[i].from && inode->spare_from < list[i].to)
			inode->spare_to = list[i].from;
	return 0;
}

static int cut(struct file *file, uint64_t from, uint64_t to)
{
	const struct units units = {from, to};
	int ret = cut_list(file, &units, 1);

	/* The slot goes, too. The session that cuts it has told the end. */
	if (ret == 0 && to == UINT64_MAX && file->ender != 0)
		ret = end_set(file, 0, 0);
	return ret == 0 && from == 0 ? count_around(file, 0, file->inode->nr_behind) : ret;
}

int file_give_up(struct file *file, const struct session *session)
{
	int ret = check_alone(file, session, "make shorter");

	if (ret == 0)
		recall_keep(file, session);
	return ret;
}

int file_resize(struct file *file, const struct session *session, uint64_t size)
{
	struct inode *inode;
	int ret = 0;

	if (size > FILE_SIZE_MAX)
		return error_fail(-EFBIG, "set the size of a file: it can have %llu bytes",
				  (unsigned long long)FILE_SIZE_MAX);
	if (size < file->inode->size) {
		ret = check_alone(file, session, "make shorter");
		if (ret == 0)
			ret = cut(file, units_up(size), UINT64_MAX);
	}
	inode = ret == 0 ? file_edit(file) : NULL;
	if (!inode)
		return ret < 0 ? ret : error_code(-ENOMEM);
	inode->size = size;
	inode_touch(inode);
	file_put(file);
	return 0;
}

int file_punch(struct file *file, const struct session *session, uint64_t offset, uint64_t length)
{
	uint64_t from = units_up(offset), to = (offset + length) / FILE_UNIT;
	struct inode *inode;
	int ret;

	if (length == 0 || offset > FILE_SIZE_MAX || length > FILE_SIZE_MAX)
		return error_fail(-EINVAL, "punch a hole of %llu bytes",
				  (unsigned long long)length);
	ret = check_alone(file, session, "punch a hole into");
	if (ret == 0 && from < to)
		ret = cut(file, from, to);
	inode = ret == 0 ? file_edit(file) : NULL;
	if (!inode)
		return ret < 0 ? ret : error_code(-ENOMEM);
	inode_touch(inode);
	file_put(file);
	return 0;
}

/* The sessions that had it open have closed it, or were fenced: nothing can land there any more. An
 * end that a writer was told is known has been told before, so behind the size is nothing that
 * anybody may read. */
int file_trim_closed(struct file *file)
{
	const struct inode *inode = file->inode;
	int ret;

	/* After a restart others may have it open, and have still to tell. */
	if (!inode || inode->nlink == 0 || file->fs->nr_unreclaimed != 0 ||
	    fs_namespace(file->fs)->is_suspect || end_is_lost(file) || end_is_left(file))
		return 0;
	ret = file_note_ahead(file, false);
	if (ret == 0 && inode->nr_units != 0)
		ret = file_load_runs(file);
	if (ret < 0 || inode->nr_units == 0 || is_at_end(file->runs, units_up(inode->size)))
		return ret;
	ret = cut(file, units_up(inode->size), UINT64_MAX);
	if (ret == 0)
		file_put(file);
	return ret;
}

int file_trim(struct file *file, const struct session *session)
{
	uint64_t end = units_up(file->inode->size);
	int ret = file_load_runs(file);

	if (ret < 0 || file_is_shared(file, session) || is_at_end(file->runs, end))
		return ret;
	return cut(file, end, UINT64_MAX);
}

int file_give_back(struct file *file, const struct session *session, const struct units *list,
		   size_t nr)
{
	uint64_t before = file->inode->nr_units;
	int ret = nr != 0 && !file_is_shared(file, session) && !fs_is_suspect(file->fs)
			  ? cut_list(file, list, nr)
			  : 0;

	return ret == 0 ? count_around(file, 0, before - file->inode->nr_units) : ret;
}
