/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the files of a file system that have bytes on a server, or in a store: what an operator gives up with it. It reads the runs
 * of all files, so each call counts some, and the caller goes on from there. */
#include <errno.h>
#include <stdlib.h>

#include "manager/connections/losses.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

#define RUNS_AT_ONCE 20000U /* records of one call: some milliseconds */
#define PIECES_OF_ONE_RUN \
	5U /* on average: a long run over small stripe units takes several calls */

struct counting {
	const struct layout *layout;
	const struct layout_home *home;
	Afar__LossCounted *counted;
	unsigned nr_runs, max_runs;
	uint64_t nr_pieces, max_pieces;
};

/* Counts a run up to where the call has looked at enough. Returns how many of its units that is. */
static uint64_t count_units(struct counting *counting, const struct run *run, uint64_t *bytes)
{
	const struct layout *layout = counting->layout;
	uint64_t begin = run->pool_unit * FILE_UNIT, end = begin + run->nr * FILE_UNIT;
	uint64_t offset = begin;

	*bytes = 0;
	while (offset < end && offset < layout->length) {
		struct layout_piece piece = layout_piece_at(layout, offset, end - offset);

		counting->nr_pieces++;
		if (piece.copy &&
		    layout_home_is(layout_home_of(layout, piece.copy), counting->home))
			*bytes += piece.length;
		offset += piece.length;
		if (counting->nr_pieces >= counting->max_pieces && offset % FILE_UNIT == 0)
			return (offset - begin) / FILE_UNIT;
	}
	return run->nr;
}

/* Runs come in order of their inodes. 1: there is more, and the next call goes on behind the last unit. */
static int take_run(void *argument, uint64_t ino, const struct run *run)
{
	struct counting *counting = argument;
	Afar__LossCounted *counted = counting->counted;
	uint64_t bytes, nr;

	if (counting->nr_runs == counting->max_runs || counting->nr_pieces >= counting->max_pieces)
		return 1;
	counting->nr_runs++;
	nr = count_units(counting, run, &bytes);
	counted->ino = ino;
	counted->unit = run->unit + nr - 1;
	counted->bytes += bytes;
	if (bytes != 0 && counted->counted != ino) {
		counted->nr_files++;
		counted->counted = ino;
	}
	return nr < run->nr;
}

/* Counts the rest of a run that the last call has begun. 1: as take_run(). */
static int go_on(struct fs *fs, uint64_t ino, uint64_t unit, struct counting *counting)
{
	const struct run *run;
	struct file *file;
	struct run rest;
	size_t at;
	int ret = ino != 0 && unit < UINT64_MAX ? file_get(fs, ino, &file) : -ESTALE;

	if (ret == 0)
		ret = file_load_runs(file);
	if (ret < 0)
		return ret == -ESTALE ? 0 : ret;
	at = runs_find(file->runs, unit + 1);
	run = at < file->runs->nr ? &file->runs->run[at] : NULL;
	if (!run || run->unit > unit)
		return 0;
	rest = (struct run){unit + 1, run->pool_unit + (unit + 1 - run->unit),
			    run->nr - (unit + 1 - run->unit)};
	return take_run(counting, ino, &rest);
}

static struct fs *find(const struct core *core, uint64_t number)
{
	const struct namespace *ns = state_namespace(core->state, number);

	return ns && ns->is_files && !ns->is_deleted ? files_find(core, number) : NULL;
}

int loss_count(struct core *core, struct session *session, struct event *event)
{
	const Afar__LossCount *ask = event->request->loss_count;
	struct fs *fs = find(core, ask->fs);
	const struct region *region = fs ? volume_region(fs_namespace(fs)) : NULL;
	Afar__LossCounted *counted = MESSAGE_NEW(afar__loss_counted, Afar__LossCounted);
	struct counting counting = {.counted = counted};
	struct layout_home home;
	int ret;

	(void)session;
	if (!counted)
		return error_code(-ENOMEM);
	event->reply->loss_counted = counted;
	event->reply->result_case = AFAR__REPLY__RESULT_LOSS_COUNTED;
	ret = losses_home(core, ask->server, ask->store, &home);
	if (ret < 0 || !region)
		return ret;
	counting.layout = region->layout;
	counting.home = &home;
	counting.max_runs = ask->max != 0 && ask->max < RUNS_AT_ONCE ? ask->max : RUNS_AT_ONCE;
	counted->counted = ask->counted;
	counting.max_pieces = (uint64_t)counting.max_runs * PIECES_OF_ONE_RUN;
	ret = go_on(fs, ask->ino, ask->unit, &counting);
	if (ret == 0)
		ret = record_range_runs_behind(fs, ask->ino, ask->unit, take_run, &counting);
	if (ret == 0)
		counted->ino = 0;
	return ret < 0 ? ret : 0;
}
