/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists the files that have lost something, by all names that they have: `afar fs check --lost`. It reads
 * the runs of all files, and if any is lost the names, because an inode does not know them. A long list
 * comes in parts, in order of inode numbers.
 *
 * And counts the files that have bytes on a server, or in a store: what an operator gives up with it. Each call
 * counts some, and the caller goes on from there.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "manager/connections/losses.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

#define FILES_AT_ONCE 4096U
#define BYTES_AT_ONCE ((size_t)16 << 20) /* of paths; a message may have four times as many */
#define DEPTH_MAX     4096U		 /* of directories */
#define RUNS_AT_ONCE  20000U		 /* records that one call counts: some milliseconds */
#define PIECES_OF_ONE_RUN \
	5U /* on average: a long run over small stripe units takes several calls */

struct lost_file {
	uint64_t ino;
	uint64_t nr_units;
};

/* A name of one of these files, or of a directory. */
struct lost_name {
	uint64_t ino;
	uint64_t dir;
	char *name;
};

struct lost_names {
	struct lost_name *entry;
	size_t nr, max;
};

struct listing {
	struct fs *fs;
	const struct layout *layout;
	uint64_t after;
	uint32_t nr_told;	 /* names of the inode `after`; 0: it is not wanted */
	struct lost_file *files; /* FILES_AT_ONCE, in order */
	size_t nr_files;
	bool is_more;
	struct lost_names names, directories;
};

/* ---- Finding the files */

static uint64_t count_lost(const struct layout *layout, const struct run *run)
{
	uint64_t offset = run->pool_unit * FILE_UNIT, end = offset + run->nr * FILE_UNIT;
	uint64_t bytes = 0;

	while (offset < end && offset < layout->length) {
		struct layout_piece piece = layout_piece_at(layout, offset, end - offset);

		bytes += piece.lost ? piece.length : 0;
		offset += piece.length;
	}
	return bytes / FILE_UNIT;
}

/* Runs come in order of their inodes. */
static int take_run(void *argument, uint64_t ino, const struct run *run)
{
	struct listing *listing = argument;
	bool is_wanted = listing->nr_told ? ino >= listing->after : ino > listing->after;
	/* The slot is no part of the file. */
	uint64_t nr_units =
		is_wanted && run->unit < FILE_SLOT_UNIT ? count_lost(listing->layout, run) : 0;
	struct lost_file *last =
		listing->nr_files != 0 ? &listing->files[listing->nr_files - 1] : NULL;

	if (nr_units == 0)
		return 0;
	assert(listing->files);
	if (last && last->ino == ino)
		last->nr_units += nr_units;
	else if (listing->nr_files == FILES_AT_ONCE)
		listing->is_more = true;
	else
		listing->files[listing->nr_files++] = (struct lost_file){ino, nr_units};
	return 0;
}

static const struct lost_file *find_file(const struct listing *listing, uint64_t ino)
{
	size_t low = 0, high = listing->nr_files;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (listing->files[middle].ino < ino)
			low = middle + 1;
		else
			high = middle;
	}
	return low < listing->nr_files && listing->files[low].ino == ino ? &listing->files[low]
									 : NULL;
}

/* ---- Finding their names */

static int add_name(struct lost_names *names, uint64_t ino, uint64_t dir, const char *name)
{
	char *copy;

	if (names->nr == names->max) {
		size_t max = names->max * 2 + 64;
		struct lost_name *more = reallocarray(names->entry, max, sizeof(*more));

		if (!more)
			return error_code(-ENOMEM);
		names->entry = more;
		names->max = max;
	}
	copy = strdup(name);
	if (!copy)
		return error_code(-ENOMEM);
	names->entry[names->nr++] = (struct lost_name){ino, dir, copy};
	return 0;
}

static int take_name(void *argument, uint64_t dir, const char *name, uint64_t ino, uint32_t type)
{
	struct listing *listing = argument;

	if (S_ISDIR(type))
		return add_name(&listing->directories, ino, dir, name);
	return find_file(listing, ino) ? add_name(&listing->names, ino, dir, name) : 0;
}

static int compare_names(const void *a, const void *b)
{
	const struct lost_name *left = a, *right = b;

	if (left->ino != right->ino)
		return left->ino < right->ino ? -1 : 1;
	if (left->dir != right->dir)
		return left->dir < right->dir ? -1 : 1;
	return strcmp(left->name, right->name);
}

static void sort_names(struct lost_names *names)
{
	if (names->nr > 1)
		qsort(names->entry, names->nr, sizeof(*names->entry), compare_names);
}

/* The first name of an inode: its index, or where it would be. */
static size_t first_name(const struct lost_names *names, uint64_t ino)
{
	size_t low = 0, high = names->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (names->entry[middle].ino < ino)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void free_names(struct lost_names *names)
{
	for (size_t i = 0; i < names->nr; i++)
		free(names->entry[i].name);
	free(names->entry);
}

/* ---- Paths */

/* The name of a directory. NULL: it is the root, or what is stored contradicts itself. */
static const struct lost_name *name_of(const struct listing *listing, uint64_t dir)
{
	size_t at = first_name(&listing->directories, dir);

	if (dir == listing->fs->root || at == listing->directories.nr ||
	    listing->directories.entry[at].ino != dir)
		return NULL;
	return &listing->directories.entry[at];
}

/* Returns "/dir/name", the caller's to free; NULL: no memory. */
static char *path_of(const struct listing *listing, const struct lost_name *name)
{
	const struct lost_name *steps[DEPTH_MAX];
	size_t length = 1;
	unsigned nr = 0;
	char *path, *end;

	for (; name && nr < DEPTH_MAX; name = name_of(listing, name->dir)) {
		steps[nr++] = name;
		length += strlen(name->name) + 1;
	}
	path = end = calloc(1, length);
	for (unsigned i = nr; i-- > 0 && path;) {
		*end++ = '/';
		end = stpcpy(end, steps[i]->name);
	}
	return path;
}

/* ---- Telling */

/* `name`: NULL: it has none. */
static int tell(const struct listing *listing, const struct lost_file *file,
		const struct lost_name *name, Afar__FileResult *result)
{
	Afar__FileLost *lost = MESSAGE_NEW(afar__file_lost, Afar__FileLost);

	if (!lost)
		return error_code(-ENOMEM);
	result->lost[result->n_lost++] = lost;
	lost->ino = file->ino;
	lost->bytes = file->nr_units * FILE_UNIT;
	if (!name)
		return 0;
	lost->dir = name->dir;
	lost->name = strdup(name->name);
	lost->path = path_of(listing, name);
	return lost->name && lost->path ? 0 : error_code(-ENOMEM);
}

/* Tells the names of a file, up to BYTES_AT_ONCE in all: the others follow. */
static int tell_file(const struct listing *listing, const struct lost_file *file,
		     Afar__FileResult *result, size_t *bytes)
{
	const struct lost_names *names = &listing->names;
	size_t at = first_name(names, file->ino);
	int ret = 0;

	if (at == names->nr || names->entry[at].ino != file->ino)
		return file->ino == listing->after ? 0 : tell(listing, file, NULL, result);
	if (file->ino == listing->after)
		at += listing->nr_told < names->nr - at ? listing->nr_told : names->nr - at;
	for (; at < names->nr && names->entry[at].ino == file->ino && ret == 0; at++) {
		if (*bytes > BYTES_AT_ONCE) {
			result->is_more = true;
			break;
		}
		ret = tell(listing, file, &names->entry[at], result);
		if (ret == 0)
			*bytes += strlen(result->lost[result->n_lost - 1]->path);
	}
	return ret;
}

static int tell_all(const struct listing *listing, Afar__FileResult *result)
{
	size_t bytes = 0;
	int ret = 0;

	result->is_more = listing->is_more;
	/* Each file has a name at least, or one entry without. */
	result->lost = calloc(listing->nr_files + listing->names.nr + 1, sizeof(*result->lost));
	if (!result->lost)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < listing->nr_files && ret == 0; i++) {
		if (bytes > BYTES_AT_ONCE) {
			result->is_more = true;
			break;
		}
		ret = tell_file(listing, &listing->files[i], result, &bytes);
	}
	return ret;
}

int lost_list(struct fs *fs, const Afar__FileSystemLost *ask, Afar__FileResult *result)
{
	const struct namespace *ns = fs_namespace(fs);
	const struct region *region = ns ? volume_region(ns) : NULL;
	struct listing listing = {.fs = fs, .after = ask->after, .nr_told = ask->names};
	int ret = 0;

	if (!region || fs->nr_lost_units == 0)
		return 0;
	listing.layout = region->layout;
	listing.files = calloc(FILES_AT_ONCE, sizeof(*listing.files));
	ret = listing.files ? record_range_all_runs(fs, take_run, &listing) : error_code(-ENOMEM);
	if (ret == 0 && listing.nr_files != 0)
		ret = record_range_all_names(fs, take_name, &listing);
	sort_names(&listing.names);
	sort_names(&listing.directories);
	if (ret == 0)
		ret = tell_all(&listing, result);
	free_names(&listing.names);
	free_names(&listing.directories);
	free(listing.files);
	return ret;
}

/* ---- Counting the files of a home */

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
static int count_run(void *argument, uint64_t ino, const struct run *run)
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
	if (run->unit >= FILE_SLOT_UNIT)
		return 0;
	counted->bytes += bytes;
	if (bytes != 0 && counted->counted != ino) {
		counted->nr_files++;
		counted->counted = ino;
	}
	return nr < run->nr;
}

/* Counts the rest of a run that the last call has begun. 1: as count_run(). */
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
	return count_run(counting, ino, &rest);
}

static struct fs *find_counted(const struct core *core, uint64_t number)
{
	const struct namespace *ns = state_namespace(core->state, number);

	return ns && ns->is_files && !ns->is_deleted ? files_find(core, number) : NULL;
}

int loss_count(struct core *core, struct session *session, struct event *event)
{
	const Afar__LossCount *ask = event->request->loss_count;
	struct fs *fs = find_counted(core, ask->fs);
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
		ret = record_range_runs_behind(fs, ask->ino, ask->unit, count_run, &counting);
	if (ret == 0)
		counted->ino = 0;
	return ret < 0 ? ret : 0;
}
