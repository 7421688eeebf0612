/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts or gets a large file, or one with holes: under a name of its own, in pieces that several threads move at once. The
 * last piece gives it its name. Called by files_put_tree.c and files_get_tree.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files_get.h"
#include "files_put.h"
#include "tools/copy/ends.h"

#define PIECE_BYTES ((uint64_t)16 << 20) /* a job's */
#define STEP_BYTES  ((uint64_t)4 << 20)	 /* a transfer's */

struct large {
	struct tree_entry *entry;
	const struct large_way *way;
	struct end source, target;
	uint64_t bytes;
	struct get_sink sink;	/* get: the target */
	char aside[32];		/* put: the target's name until it is whole */
	uint64_t ino;		/* put: the target */
	atomic_uint references; /* pieces, and whoever makes them */
	atomic_bool has_failed;
};

/* How putting and getting differ. The first two return 0 or an error of what they open. */
struct large_way {
	int (*open_source)(struct large *large);
	int (*open_target)(struct large *large);
	/* Closes both, and gives what is whole its name; or removes it. */
	void (*finish)(struct large *large);
};

struct piece {
	struct pool_job job;
	struct large *large;
	uint64_t offset, length;
};

/* Notes that it has failed, with a line for the first time. Call it in the thread whose call failed. */
static void fail(struct large *large, const struct end *end, int error)
{
	if (!atomic_exchange(&large->has_failed, true))
		tree_fail_entry(large->entry, error, end->kind->is_local);
}

static void drop(struct large *large)
{
	struct tree_entry *entry = large->entry;

	if (atomic_fetch_sub(&large->references, 1) != 1)
		return;
	large->way->finish(large);
	if (atomic_load(&large->has_failed))
		tree_done_failed(entry);
	else
		tree_done(entry, 0, 0); /* the pieces have counted their bytes */
	free(large);
}

/* Moves one step. Returns whether that went well. A file of a file system that has become shorter leaves a hole. */
static bool move_step(struct large *large, char *buffer, uint64_t length, uint64_t offset)
{
	const struct end *source = &large->source, *target = &large->target;
	struct tree *tree = large->entry->dir->tree;
	ssize_t n = atomic_load(&tree->is_stopping)
			    ? -EINTR
			    : source->kind->read(source, buffer, length, offset);
	int ret;

	if (source->kind->is_local && n >= 0 && (uint64_t)n < length)
		n = -ENODATA;
	if (n < 0) {
		fail(large, source, (int)n);
		return false;
	}
	ret = target->kind->write(target, buffer, (size_t)n, offset);
	if (ret) {
		fail(large, target, ret);
		return false;
	}
	atomic_fetch_add(&tree->nr_bytes, (unsigned long long)n);
	return true;
}

static void run_piece(struct pool_job *job, struct pool_worker *worker)
{
	struct piece *piece = (struct piece *)job;
	struct large *large = piece->large;
	uint64_t done = 0, step;

	while (done < piece->length && !atomic_load(&large->has_failed)) {
		step = piece->length - done < STEP_BYTES ? piece->length - done : STEP_BYTES;
		if (!move_step(large, worker->buffer, step, piece->offset + done))
			break;
		done += step;
	}
	free(piece);
	drop(large);
}

/* Adds the pieces of a range with data. Returns 0 or -ENOMEM. */
static int add_pieces(struct large *large, uint64_t offset, uint64_t end,
		      struct pool_worker *worker)
{
	struct piece *piece;
	uint64_t length;

	for (; offset < end; offset += length) {
		length = end - offset < PIECE_BYTES ? end - offset : PIECE_BYTES;
		piece = calloc(1, sizeof(*piece));
		if (!piece)
			return -ENOMEM;
		*piece = (struct piece){
			.job = {.run = run_piece},
			.large = large,
			.offset = offset,
			.length = length,
		};
		atomic_fetch_add(&large->references, 1);
		pool_add_work(worker->pool, &piece->job); /* which frees it */
	}
	return 0;
}

static int start_pieces(struct large *large, struct pool_worker *worker)
{
	const struct end *source = &large->source;
	uint64_t offset = 0, to = 0;
	int ret = 0;

	while (!ret && offset < large->bytes) {
		ret = source->kind->next_data(source, large->bytes, &offset, &to);
		if (ret <= 0)
			return ret;
		ret = add_pieces(large, offset, to, worker);
		offset = to;
	}
	return ret;
}

static void move_large(struct tree_entry *entry, const struct large_way *way,
		       const struct end_kind *source, const struct end_kind *target,
		       struct pool_worker *worker)
{
	struct large *large = calloc(1, sizeof(*large));
	int ret;

	if (!large) {
		tree_done(entry, -ENOMEM, 0);
		return;
	}
	large->entry = entry;
	large->way = way;
	large->source = (struct end){.kind = source, .fd = -1};
	large->target = (struct end){.kind = target, .fd = -1};
	atomic_init(&large->references, 1);
	if ((ret = way->open_source(large)))
		fail(large, &large->source, ret);
	else if ((ret = way->open_target(large)))
		fail(large, &large->target, ret);
	else if ((ret = start_pieces(large, worker)))
		fail(large, source->is_local ? &large->target : &large->source, ret);
	drop(large);
}

/* ---- Getting */

static int open_stored(struct large *large)
{
	struct tree_entry *entry = large->entry;
	int ret = afar_file_open(entry->dir->fs, NULL, entry->stat.ino, O_RDONLY,
				 &large->source.file);

	if (!ret)
		ret = afar_file_stat(large->source.file, &entry->stat);
	large->bytes = entry->stat.bytes;
	return ret;
}

/* Opens the local file, which has its length from the beginning, with holes where nothing comes. */
static int make_local(struct large *large)
{
	int ret = get_sink_open(large->entry, &large->sink);

	large->target.fd = large->sink.fd;
	if (!ret && ftruncate(large->target.fd, (off_t)large->bytes))
		ret = -errno;
	return ret;
}

static void finish_get(struct large *large)
{
	struct tree_entry *entry = large->entry;
	int ret;

	if (large->source.file)
		afar_file_close(large->source.file);
	if (large->target.fd >= 0) {
		ret = get_sink_close(entry, &large->sink,
				     atomic_load(&large->has_failed) ? -ECANCELED : 0);
		if (ret)
			fail(large, &large->target, ret);
	}
	if (entry->file && !atomic_load(&large->has_failed))
		entry->file->path = tree_target(entry);
}

void get_large(struct tree_entry *entry, struct pool_worker *worker)
{
	static const struct large_way way = {open_stored, make_local, finish_get};

	move_large(entry, &way, &end_store, &end_local, worker);
}

/* ---- Putting */

static int open_local(struct large *large)
{
	struct stat now;

	large->source.fd = put_open(large->entry);
	if (large->source.fd < 0)
		return large->source.fd;
	if (fstat(large->source.fd, &now))
		return -errno;
	large->bytes = (uint64_t)now.st_size;
	return 0;
}

/* Gets the room at once for a file without holes, because it would grow step by step. It need not work. */
static int make_room(struct large *large)
{
	uint64_t offset = 0, to;
	int ret;

	if (end_local.next_data(&large->source, large->bytes, &offset, &to) && offset == 0 &&
	    to == large->bytes) {
		ret = afar_file_allocate(large->target.file, 0, 0, large->bytes);
		return ret == -ENOSPC || ret == -EDQUOT ? ret : 0;
	}
	return afar_file_truncate(large->target.file, large->bytes);
}

static int make_stored(struct large *large)
{
	const struct tree_entry *entry = large->entry;
	struct afar_file_stat made = {.size = sizeof(made)};
	uint32_t mode;
	int ret = put_look(entry, &mode);

	if (ret)
		return ret;
	tree_aside(entry->dir->tree, large->aside);
	ret = afar_file_create(entry->dir->fs, NULL, entry->dir->ino, large->aside, mode,
			       O_WRONLY | O_EXCL, &large->target.file, &made);
	large->ino = made.ino;
	return ret ? ret : make_room(large);
}

/* Closes what is whole, and gives it its name. */
static void finish_stored(struct large *large)
{
	struct tree_entry *entry = large->entry;
	int ret = afar_file_close(large->target.file);

	if (!ret)
		ret = put_attributes(entry, large->ino);
	if (!ret && !atomic_load(&large->has_failed))
		ret = put_rename(entry, large->aside);
	if (ret)
		fail(large, &large->target, ret);
	if (atomic_load(&large->has_failed))
		afar_fs_unlink(entry->dir->fs, NULL, entry->dir->ino, large->aside);
}

static void finish_put(struct large *large)
{
	struct tree_entry *entry = large->entry;

	if (large->target.file)
		finish_stored(large);
	close(large->source.fd);
	if (entry->file && !atomic_load(&large->has_failed))
		entry->file->ino = large->ino;
}

void put_large(struct tree_entry *entry, struct pool_worker *worker)
{
	static const struct large_way way = {open_local, make_stored, finish_put};

	move_large(entry, &way, &end_local, &end_store, worker);
}
