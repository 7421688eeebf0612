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

static uint64_t units_up(uint64_t bytes)
{
	return bytes / FILE_UNIT + (bytes % FILE_UNIT != 0);
}

/* ---- Growing */

struct growth {
	uint64_t unit; /* the next that gets room */
	struct run *runs;
	size_t nr, max;
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

/* Where the pool goes on behind the run that ends before `unit`. 0: nowhere. */
static uint64_t place_near(const struct runs *runs, uint64_t unit)
{
	size_t at = runs_find(runs, unit);
	const struct run *before = at > 0 ? &runs->run[at - 1] : NULL;

	return before && before->unit + before->nr == unit ? before->pool_unit + before->nr : 0;
}

static int fail_full(const struct fs *fs, uint64_t wanted)
{
	return error_fail(-ENOSPC,
			  "make room for %llu KiB in file system '%s': its pool is full; make it "
			  "larger, or remove files",
			  (unsigned long long)(wanted * FILE_UNIT >> 10), fs_namespace(fs)->name);
}

static int fill_hole(struct file *file, uint64_t from, uint64_t nr, bool is_anywhere)
{
	const struct pool_wish wish = {place_near(file->runs, from), is_anywhere};
	struct growth growth = {.unit = from};
	/* A limit counts by what has been looked at. */
	int64_t taken = pool_look(file->fs);
	int ret = 0;

	if (taken == 0)
		taken = limits_check_units(file->fs, nr);
	if (taken == 0)
		taken = pool_take(file->fs, &wish, nr, take_run, &growth);
	if (taken < 0)
		ret = (int)taken;
	else if ((uint64_t)taken != nr)
		ret = fail_full(file->fs, nr - (uint64_t)taken);
	else if (nr != 0)
		ret = file_add_runs(file, growth.runs, growth.nr);
	free(growth.runs);
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

	return inode->nr_units - (inode->spare_to > from ? inode->spare_to - from : 0);
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

/* Returns how many units files may still have. */
static uint64_t units_left(const struct fs *fs)
{
	uint64_t room = limits_room(fs), left = fs->space.free_bytes / FILE_UNIT;

	return room < left ? room : left;
}

/* Returns how many units more a file may have that nobody has written. They count until somebody says that he has, the file is
 * emptied, or the manager forgets it. A writer who gives nothing back gets less. One who does must leave enough for others
 * meanwhile. */
static uint64_t unwritten_max(const struct file *file, bool gives_back)
{
	const struct inode *inode = file->inode;
	uint64_t max = clamp(inode_asked_units(inode) / 8, AHEAD_UNITS_MIN, AHEAD_UNITS_MAX);

	if (gives_back)
		max = clamp(written_units(inode), UNWRITTEN_UNITS_MIN, units_left(file->fs) / 8);
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
	struct fs *fs = file->fs;
	int ret;

	if (ahead > fs->space.longest / FILE_UNIT / 4)
		ahead = fs->space.longest / FILE_UNIT / 4;
	if (ahead > limits_room(fs))
		ahead = limits_room(fs);
	if (!pool_is_whole(fs))
		ahead = 0;
	ret = ahead != 0 ? fill_hole(file, end, ahead, false) : 0;
	if (ret == 0 && ahead != 0)
		ret = file_note_ahead(file, true);
	return ret == 0 ? set_spare(file, end, end + ahead) : ret;
}

/* Somebody has asked for these units, and for nothing of what is ahead before them. He has told
 * what he has written there all the same. */
static int use_spare(struct file *file, const struct file_wish *wish, uint64_t end)
{
	const struct inode *inode = file->inode;
	uint64_t from = wish->offset / FILE_UNIT;
	uint64_t passed = from < inode->spare_to ? from : inode->spare_to, nr = 0;
	struct inode *edited;

	if (end <= inode->spare_from || inode->spare_from >= inode->spare_to)
		return 0;
	if (passed > inode->spare_from)
		nr = passed - inode->spare_from;
	if (wish->ahead_to == inode->spare_to)
		nr -= wish->ahead_used < nr ? wish->ahead_used : nr;
	edited = file_edit(file);
	if (!edited)
		return error_code(-ENOMEM);
	edited->nr_behind += nr;
	edited->spare_from = end;
	return 0;
}

/* ---- Room around a write into a hole */

/* Returns how many units a file may get around a write, which needs `missing` units itself. One that is written on and on gets
 * more each time. */
static uint64_t around_max(const struct file *file, const struct file_wish *wish, uint64_t missing)
{
	const struct fs *fs = file->fs;
	uint64_t max = unwritten_max(file, true), written = written_units(file->inode);
	uint64_t most = clamp(written / 8, AROUND_UNITS_MIN, AHEAD_UNITS_MAX);

	if (wish->is_exact || !wish->gives_back || !pool_is_whole(fs))
		return 0;
	most = most < written ? most : written;
	max = max < most ? max : most;
	most = fs->space.longest / FILE_UNIT / 4;
	most = most < units_left(fs) ? most : units_left(fs);
	return max + missing < most ? max : most > missing ? most - missing : 0;
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

/* Widens a part of the hole before run `at` to an aligned power of two around it, within the hole. Adds `*max` units
 * at most, and takes them off that. */
static struct units widen(const struct runs *runs, size_t at, struct units part, uint64_t *max)
{
	const struct run *before = at > 0 ? &runs->run[at - 1] : NULL;
	uint64_t begin = before ? before->unit + before->nr : 0, end = runs->run[at].unit;

	for (uint64_t size = AHEAD_UNITS_MAX; size > 1; size /= 2) {
		struct units wide = {part.from & ~(size - 1), (part.to + size - 1) & ~(size - 1)};
		uint64_t added;

		wide.from = wide.from > begin ? wide.from : begin;
		wide.to = wide.to < end ? wide.to : end;
		added = wide.to - wide.from - (part.to - part.from);
		if (added > *max)
			continue;
		*max -= added;
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

/* Fills all holes in `asked`. `room`: that, and what came around it. */
static int fill_holes(struct file *file, const struct file_wish *wish, struct units asked,
		      struct units *room)
{
	uint64_t missing = count_missing(file->runs, asked.from, asked.to), next;
	uint64_t max = around_max(file, wish, missing), left = max;
	int ret = 0;

	*room = asked;
	for (uint64_t from = asked.from; from < asked.to && ret == 0; from = next) {
		size_t at = runs_find(file->runs, from);
		const struct run *run = at < file->runs->nr ? &file->runs->run[at] : NULL;
		struct units part;

		if (run && run->unit <= from) {
			next = run->unit + run->nr;
			continue;
		}
		next = run && run->unit < asked.to ? run->unit : asked.to;
		part = (struct units){from, next};
		if (run)
			part = widen(file->runs, at, part, &left);
		room->from = part.from < room->from ? part.from : room->from;
		room->to = part.to > room->to ? part.to : room->to;
		ret = fill_hole(file, part.from, part.to - part.from, wish->is_anywhere);
	}
	return ret == 0 ? count_around(file, max - left, 0) : ret;
}

int file_extend(struct file *file, const struct file_wish *wish, struct file_extra *extra)
{
	uint64_t offset = wish->offset, length = wish->length, nr_units;
	struct units asked;
	int ret = file_load_runs(file);

	*extra = (struct file_extra){0};
	if (ret < 0)
		return ret;
	if (length == 0 || length > FILE_SIZE_MAX || offset > FILE_SIZE_MAX - length)
		return error_fail(-EFBIG, "make a file longer: it can have %llu bytes",
				  (unsigned long long)FILE_SIZE_MAX);
	asked = (struct units){offset / FILE_UNIT, units_up(offset + length)};
	nr_units = file->inode->nr_units;
	ret = count_around(file, 0, wish->extra_used);
	if (ret == 0)
		ret = fill_holes(file, wish, asked, &extra->room);
	if (ret == 0)
		ret = use_spare(file, wish, asked.to);
	if (ret < 0 || file->inode->nr_units == nr_units || wish->is_exact ||
	    !is_at_end(file->runs, asked.to))
		return ret;
	ret = take_ahead(file, asked.to, wish->gives_back);
	extra->ahead = (struct units){file->inode->spare_from, file->inode->spare_to};
	return ret;
}

bool file_is_spare(const struct file *file, uint64_t offset, uint64_t length)
{
	const struct inode *inode = file->inode;

	return inode->size == 0 && offset / FILE_UNIT >= inode->spare_from &&
	       length <= FILE_SIZE_MAX && offset <= FILE_SIZE_MAX &&
	       units_up(offset + length) <= inode->spare_to;
}

int file_prepare(struct file *file, uint64_t bytes)
{
	const struct file_wish wish = {.length = bytes, .is_exact = true};
	struct file_extra extra;
	int ret = file_extend(file, &wish, &extra);

	return ret == 0 ? set_spare(file, 0, units_up(bytes)) : ret;
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
	    fs_namespace(file->fs)->is_suspect)
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
