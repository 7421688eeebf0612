/* SPDX-License-Identifier: BSD-3-Clause */
/* Which parts of the pool a file has. Each run has a record, so a change of a large file costs what it
 * changes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

#define RUNS_TOLD_MAX 65536U /* of one result */

static uint64_t run_end(const struct run *run)
{
	return run->unit + run->nr;
}

int file_load_runs(struct file *file)
{
	return file->runs ? 0 : record_get_runs(file->fs, file->ino, &file->runs);
}

size_t runs_find(const struct runs *runs, uint64_t unit)
{
	size_t low = 0, high = runs->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (run_end(&runs->run[middle]) <= unit)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A copy to change, with room for `nr` more, which is the file's from now on. NULL: no memory. */
static struct runs *edit_runs(struct file *file, size_t nr)
{
	struct undo *undo = fs_core(file->fs)->undo;
	const struct runs *old = file->runs;
	size_t max = old->nr + nr;
	struct runs *copy = malloc(sizeof(*copy) + max * sizeof(copy->run[0]));

	if (!copy || undo_room(undo, 3) < 0) {
		free(copy);
		return NULL;
	}
	copy->nr = old->nr;
	copy->max = max;
	memcpy(copy->run, old->run, old->nr * sizeof(old->run[0]));
	undo_made(undo, copy, free);
	undo_gone(undo, file->runs, free);
	undo_set(undo, file->runs, copy);
	store_mark(fs_core(file->fs)->store, &file->mark);
	return copy;
}

static bool touches(const struct run *left, const struct run *right)
{
	return run_end(left) == right->unit && left->pool_unit + left->nr == right->pool_unit;
}

static int count_units(struct file *file, uint64_t nr_units)
{
	struct inode *inode = file_edit(file);

	if (!inode)
		return error_code(-ENOMEM);
	inode->nr_units = nr_units;
	inode->has_slot = runs_count(file->runs) != file->runs->nr;
	return 0;
}

/* Puts a file's runs together, from its old ones and others, in order. */
struct joining {
	struct file *file;
	struct runs *runs;
	bool is_put; /* the last of these is to be put */
};

static void put_last(struct joining *joining)
{
	if (joining->is_put)
		record_put_run(joining->file->fs, joining->file->ino,
			       &joining->runs->run[joining->runs->nr - 1]);
	joining->is_put = false;
}

static void join(struct joining *joining, const struct run *run, bool is_new)
{
	struct runs *runs = joining->runs;
	struct run *last = runs->nr != 0 ? &runs->run[runs->nr - 1] : NULL;

	if (last && touches(last, run)) {
		if (!is_new)
			record_delete_run(joining->file->fs, joining->file->ino, run->unit);
		last->nr += run->nr;
		joining->is_put = true;
		return;
	}
	put_last(joining);
	runs->run[runs->nr++] = *run;
	joining->is_put = is_new;
}

static int check_holes(const struct runs *runs, const struct run *run, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		size_t at = runs_find(runs, run[i].unit);

		if (at < runs->nr && runs->run[at].unit < run_end(&run[i]))
			return error_code(-EEXIST);
	}
	return 0;
}

int file_add_runs(struct file *file, const struct run *run, size_t nr)
{
	const struct runs *old = file->runs;
	size_t at = runs_find(old, run[0].unit);
	uint64_t nr_units = file->inode->nr_units;
	struct joining joining = {.file = file};
	int ret = check_holes(old, run, nr);

	if (ret < 0)
		return ret;
	joining.runs = edit_runs(file, nr);
	if (!joining.runs)
		return error_code(-ENOMEM);
	joining.runs->nr = at;
	for (size_t i = 0; i < nr; i++) {
		for (; at < old->nr && old->run[at].unit < run[i].unit; at++)
			join(&joining, &old->run[at], false);
		join(&joining, &run[i], true);
		nr_units += run[i].nr;
	}
	for (; at < old->nr; at++)
		join(&joining, &old->run[at], false);
	put_last(&joining);
	return count_units(file, nr_units);
}

/* Lists the runs that touch these units, three numbers each, and at most so many. Returns how many runs that are. `out`: NULL: it only counts. */
static size_t list_runs(const struct runs *runs, const struct units *list, size_t nr, size_t max,
			uint64_t *out)
{
	size_t nr_listed = 0, next = 0;

	for (size_t i = 0; i < nr; i++) {
		size_t at = runs_find(runs, list[i].from);

		/* One may touch several of the list. */
		for (at = at > next ? at : next;
		     at < runs_count(runs) && runs->run[at].unit < list[i].to && nr_listed < max;
		     at++) {
			const struct run *run = &runs->run[at];

			if (out) {
				out[3 * nr_listed] = run->unit;
				out[3 * nr_listed + 1] = run->pool_unit;
				out[3 * nr_listed + 2] = run->nr;
			}
			nr_listed++;
		}
		next = at;
	}
	return nr_listed;
}

int file_tell_runs(struct file *file, const struct units *list, size_t nr, Afar__FileResult *result)
{
	int ret = file_load_runs(file);
	size_t nr_told;

	if (ret < 0)
		return ret;
	nr_told = list_runs(file->runs, list, nr, RUNS_TOLD_MAX, NULL);
	result->is_more = nr_told == RUNS_TOLD_MAX;
	result->runs = calloc(3 * nr_told + 1, sizeof(*result->runs));
	if (!result->runs)
		return error_code(-ENOMEM);
	list_runs(file->runs, list, nr, RUNS_TOLD_MAX, result->runs);
	result->n_runs = 3 * nr_told;
	return 0;
}

/* Takes units out of a file, from its old runs to new ones. */
struct cutting {
	struct file *file;
	const struct units *list; /* the first that does not end before what is looked at */
	size_t nr;
	struct runs *runs;
	struct run *cuts;
	size_t nr_cuts;
	uint64_t nr_units; /* of these */
};

static void keep_part(const struct cutting *cutting, const struct run *whole, uint64_t from,
		      uint64_t to)
{
	struct run *run = &cutting->runs->run[cutting->runs->nr];

	if (from == to)
		return;
	*run = (struct run){from, whole->pool_unit + (from - whole->unit), to - from};
	cutting->runs->nr++;
	if (to - from != whole->nr)
		record_put_run(cutting->file->fs, cutting->file->ino, run);
}

/* Takes what is listed out of one run, which may go, or become several. */
static void cut_run(struct cutting *cutting, const struct run *whole)
{
	uint64_t at = whole->unit, end = run_end(whole);

	for (; cutting->nr != 0 && cutting->list->from < end; cutting->list++, cutting->nr--) {
		uint64_t from = cutting->list->from > at ? cutting->list->from : at;
		uint64_t to = cutting->list->to < end ? cutting->list->to : end;

		if (from < to) {
			if (from == whole->unit)
				record_delete_run(cutting->file->fs, cutting->file->ino, from);
			keep_part(cutting, whole, at, from);
			cutting->cuts[cutting->nr_cuts++] = (struct run){
				from, whole->pool_unit + (from - whole->unit), to - from};
			cutting->nr_units += to - from;
			at = to;
		}
		/* It may go on in the next run. */
		if (cutting->list->to > end)
			break;
	}
	keep_part(cutting, whole, at, end);
}

int file_cut_runs(struct file *file, const struct units *list, size_t nr, struct run **out,
		  size_t *nr_out)
{
	const struct runs *old = file->runs;
	size_t first = nr != 0 ? runs_find(old, list[0].from) : old->nr;
	struct cutting cutting = {.file = file, .list = list, .nr = nr};

	*out = NULL;
	*nr_out = 0;
	if (first == old->nr || old->run[first].unit >= list[nr - 1].to)
		return 0;
	/* Each cut begins where a run or a range of the list does. */
	cutting.cuts = calloc(old->nr - first + nr, sizeof(*cutting.cuts));
	cutting.runs = cutting.cuts ? edit_runs(file, nr) : NULL;
	if (!cutting.runs) {
		free(cutting.cuts);
		return error_code(-ENOMEM);
	}
	cutting.runs->nr = first;
	for (size_t i = first; i < old->nr; i++)
		cut_run(&cutting, &old->run[i]);
	*out = cutting.cuts;
	*nr_out = cutting.nr_cuts;
	return count_units(file, file->inode->nr_units - cutting.nr_units);
}
