/* SPDX-License-Identifier: BSD-3-Clause */
/* Which parts of the pool a file has. Each run has a record, so a change of a large file costs what it
 * changes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

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

static void insert(struct runs *runs, size_t at, const struct run *run)
{
	memmove(&runs->run[at + 1], &runs->run[at], (runs->nr - at) * sizeof(runs->run[0]));
	runs->run[at] = *run;
	runs->nr++;
}

static void remove_at(struct runs *runs, size_t at)
{
	runs->nr--;
	memmove(&runs->run[at], &runs->run[at + 1], (runs->nr - at) * sizeof(runs->run[0]));
}

static int count_units(struct file *file, uint64_t nr_units)
{
	struct inode *inode = file_edit(file);

	if (!inode)
		return error_code(-ENOMEM);
	inode->nr_units = nr_units;
	return 0;
}

static void add_run(struct file *file, struct runs *runs, const struct run *run)
{
	size_t at = runs_find(runs, run->unit);

	if (at > 0 && touches(&runs->run[at - 1], run))
		runs->run[--at].nr += run->nr;
	else
		insert(runs, at, run);
	if (at + 1 < runs->nr && touches(&runs->run[at], &runs->run[at + 1])) {
		record_delete_run(file->fs, file->ino, runs->run[at + 1].unit);
		runs->run[at].nr += runs->run[at + 1].nr;
		remove_at(runs, at + 1);
	}
	record_put_run(file->fs, file->ino, &runs->run[at]);
}

int file_add_runs(struct file *file, const struct run *run, size_t nr)
{
	size_t at = runs_find(file->runs, run[0].unit);
	uint64_t nr_units = file->inode->nr_units;
	struct runs *runs;

	if (at < file->runs->nr && file->runs->run[at].unit < run_end(&run[nr - 1]))
		return error_code(-EEXIST);
	runs = edit_runs(file, nr);
	if (!runs)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < nr; i++) {
		add_run(file, runs, &run[i]);
		nr_units += run[i].nr;
	}
	return count_units(file, nr_units);
}

/* Cuts [from, to) out of one run; `*cut` is what it had there. The run may go, or become two. */
static void cut_run(struct file *file, struct runs *runs, size_t at, uint64_t from, uint64_t to,
		    struct run *cut)
{
	const struct run whole = runs->run[at];
	uint64_t start = from > whole.unit ? from : whole.unit;
	uint64_t end = to < run_end(&whole) ? to : run_end(&whole);

	*cut = (struct run){start, whole.pool_unit + (start - whole.unit), end - start};
	if (start > whole.unit) {
		runs->run[at].nr = start - whole.unit;
		record_put_run(file->fs, file->ino, &runs->run[at]);
		at++;
	} else {
		record_delete_run(file->fs, file->ino, whole.unit);
		remove_at(runs, at);
	}
	if (end < run_end(&whole)) {
		const struct run rest = {end, whole.pool_unit + (end - whole.unit),
					 run_end(&whole) - end};

		insert(runs, at, &rest);
		record_put_run(file->fs, file->ino, &rest);
	}
}

int file_cut_runs(struct file *file, uint64_t from, uint64_t to, struct run **out, size_t *nr)
{
	size_t first = runs_find(file->runs, from), last = first;
	uint64_t nr_units = 0;
	struct runs *runs;
	struct run *cuts;

	*out = NULL;
	*nr = 0;
	while (last < file->runs->nr && file->runs->run[last].unit < to)
		last++;
	if (last == first)
		return 0;
	cuts = calloc(last - first, sizeof(*cuts));
	runs = cuts ? edit_runs(file, 1) : NULL;
	if (!runs) {
		free(cuts);
		return error_code(-ENOMEM);
	}
	/* From behind, so that what is before stays where it is. */
	for (size_t i = last; i-- > first;) {
		cut_run(file, runs, i, from, to, &cuts[i - first]);
		nr_units += cuts[i - first].nr;
	}
	*out = cuts;
	*nr = last - first;
	return count_units(file, file->inode->nr_units - nr_units);
}
