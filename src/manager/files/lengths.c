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

/* Returns how many units a file that grows may get ahead. A writer who writes here and there, each
 * time farther on, leaves behind what the file had ahead. Such units count until the file is
 * emptied, or the manager forgets it. */
static uint64_t ahead_max(const struct inode *inode)
{
	uint64_t asked = inode_asked_units(inode), max = asked / 8;

	if (max < AHEAD_UNITS_MIN)
		max = AHEAD_UNITS_MIN;
	if (max > AHEAD_UNITS_MAX)
		max = AHEAD_UNITS_MAX;
	max = max > inode->nr_behind ? max - inode->nr_behind : 0;
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
static int take_ahead(struct file *file, uint64_t end)
{
	uint64_t ahead = ahead_max(file->inode);
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

static bool is_at_end(const struct runs *runs, uint64_t end)
{
	return runs->nr == 0 || runs->run[runs->nr - 1].unit + runs->run[runs->nr - 1].nr <= end;
}

int file_extend(struct file *file, const struct file_wish *wish)
{
	uint64_t offset = wish->offset, length = wish->length;
	uint64_t from = offset / FILE_UNIT, end, next;
	bool has_grown = false;
	int ret = file_load_runs(file);

	if (ret < 0)
		return ret;
	if (length == 0 || length > FILE_SIZE_MAX || offset > FILE_SIZE_MAX - length)
		return error_fail(-EFBIG, "make a file longer: it can have %llu bytes",
				  (unsigned long long)FILE_SIZE_MAX);
	for (end = units_up(offset + length); from < end && ret == 0; from = next) {
		size_t at = runs_find(file->runs, from);
		const struct run *run = at < file->runs->nr ? &file->runs->run[at] : NULL;

		if (run && run->unit <= from) {
			next = run->unit + run->nr;
			continue;
		}
		next = run && run->unit < end ? run->unit : end;
		ret = fill_hole(file, from, next - from, wish->is_anywhere);
		has_grown = true;
	}
	if (ret == 0)
		ret = use_spare(file, wish, end);
	if (ret == 0 && has_grown && !wish->is_exact && is_at_end(file->runs, end))
		ret = take_ahead(file, end);
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
	int ret = file_extend(file, &wish);

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
static int cut(struct file *file, uint64_t from, uint64_t to)
{
	struct inode *inode;
	struct run *cuts;
	size_t nr;
	int ret = file_load_runs(file);

	if (ret == 0)
		ret = file_cut_runs(file, from, to, &cuts, &nr);
	if (ret == 0)
		ret = pool_give(file->fs, cuts, nr);
	inode = ret == 0 ? file_edit(file) : NULL;
	if (!inode)
		return ret < 0 ? ret : error_code(-ENOMEM);
	inode->layout++;
	if (inode->spare_to > from && inode->spare_from < to)
		inode->spare_to = from;
	if (from == 0)
		inode->nr_behind = 0;
	return 0;
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
