/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the files of a file system that have bytes on a server, or in a store: what an operator gives up with it. It reads the runs
 * of all files, so each call counts some, and the caller goes on from there. */
#include <errno.h>
#include <stdlib.h>

#include "manager/files/table.h"
#include "manager/servers.h"
#include "manager/volumes.h"

#define RUNS_AT_ONCE   20000U /* records of one call: some milliseconds */
#define PIECES_AT_ONCE 100000U

struct counting {
	const struct layout *layout;
	const struct layout_home *home;
	Afar__LossCounted *counted;
	unsigned nr_runs, max_runs, nr_pieces;
};

static uint64_t bytes_there(struct counting *counting, const struct run *run)
{
	const struct layout *layout = counting->layout;
	uint64_t offset = run->pool_unit * FILE_UNIT, end = offset + run->nr * FILE_UNIT;
	uint64_t bytes = 0;

	while (offset < end && offset < layout->length) {
		struct layout_piece piece = layout_piece_at(layout, offset, end - offset);

		counting->nr_pieces++;
		if (piece.copy &&
		    layout_home_is(layout_home_of(layout, piece.copy), counting->home))
			bytes += piece.length;
		offset += piece.length;
	}
	return bytes;
}

/* Runs come in order of their inodes. */
static int take_run(void *argument, uint64_t ino, const struct run *run)
{
	struct counting *counting = argument;
	Afar__LossCounted *counted = counting->counted;
	uint64_t bytes;

	/* There is more: the next call begins with this one. */
	if (counting->nr_runs == counting->max_runs || counting->nr_pieces >= PIECES_AT_ONCE)
		return 1;
	counting->nr_runs++;
	counted->ino = ino;
	counted->unit = run->unit;
	bytes = bytes_there(counting, run);
	counted->bytes += bytes;
	if (bytes != 0 && counted->counted != ino) {
		counted->nr_files++;
		counted->counted = ino;
	}
	return 0;
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
	ret = record_range_runs_behind(fs, ask->ino, ask->unit, take_run, &counting);
	if (ret == 0)
		counted->ino = 0;
	return ret < 0 ? ret : 0;
}
