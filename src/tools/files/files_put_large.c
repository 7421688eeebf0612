/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts a large file, or one with holes: under a name of its own, in pieces that several threads send at
 * once. The last piece gives it its name. Called by files_put_tree.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files_put.h"

#define PIECE_BYTES ((uint64_t)16 << 20) /* a job's */
#define STEP_BYTES  ((uint64_t)4 << 20)	 /* a transfer's */

struct large {
	struct tree_entry *entry;
	int fd;
	struct afar_file *file;
	uint64_t bytes, ino;
	char aside[32];
	atomic_uint references; /* pieces, and whoever makes them */
	atomic_bool has_failed;
};

struct piece {
	struct pool_job job;
	struct large *large;
	uint64_t offset, length;
};

/* Notes that it has failed, with a line for the first time. Call it in the thread whose call failed. */
static void fail(struct large *large, int error, bool is_local)
{
	struct tree *tree = large->entry->dir->tree;
	char *path;

	if (atomic_exchange(&large->has_failed, true))
		return;
	path = tree_source(large->entry);
	if (is_local && error == -ENODATA)
		tree_fail_text(tree, "put %s: it became shorter while it was read; put it again",
			       path);
	else if (is_local)
		tree_fail_local(tree, "put", path ? path : large->entry->name, error);
	else
		tree_fail(tree, "put", path ? path : large->entry->name, error);
	free(path);
}

/* Closes what is whole, and gives it its name. */
static void finish(struct large *large)
{
	struct tree_entry *entry = large->entry;
	int ret = afar_file_close(large->file);

	if (!ret)
		ret = put_attributes(entry, large->ino);
	if (!ret && !atomic_load(&large->has_failed))
		ret = put_rename(entry, large->aside);
	if (ret)
		fail(large, ret, false);
	if (atomic_load(&large->has_failed))
		afar_fs_unlink(entry->dir->fs, NULL, entry->dir->ino, large->aside);
}

static void drop(struct large *large)
{
	struct tree_entry *entry = large->entry;

	if (atomic_fetch_sub(&large->references, 1) != 1)
		return;
	if (large->file)
		finish(large);
	close(large->fd);
	if (atomic_load(&large->has_failed)) {
		tree_done_failed(entry);
	} else {
		if (entry->file)
			entry->file->ino = large->ino;
		tree_done(entry, 0, 0); /* the pieces have counted their bytes */
	}
	free(large);
}

/* Reads so much. Returns 0 or a negative errno; -ENODATA: the file has ended before. */
static int read_all(int fd, char *buffer, uint64_t length, uint64_t offset)
{
	ssize_t n;

	while (length) {
		n = pread(fd, buffer, length, (off_t)offset);
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENODATA;
		buffer += n;
		offset += (uint64_t)n;
		length -= (uint64_t)n;
	}
	return 0;
}

/* Sends one step. Returns whether that went well. */
static bool send_step(struct large *large, char *buffer, uint64_t length, uint64_t offset)
{
	struct tree *tree = large->entry->dir->tree;
	ssize_t written;
	int ret = atomic_load(&tree->is_stopping) ? -EINTR : 0;

	if (!ret)
		ret = read_all(large->fd, buffer, length, offset);
	if (ret) {
		fail(large, ret, true);
		return false;
	}
	written = afar_file_pwrite(large->file, buffer, length, offset);
	if (written < 0) {
		fail(large, (int)written, false);
		return false;
	}
	atomic_fetch_add(&tree->nr_bytes, length);
	return true;
}

static void run_piece(struct pool_job *job, struct pool_worker *worker)
{
	struct piece *piece = (struct piece *)job;
	struct large *large = piece->large;
	uint64_t done = 0, step;

	while (done < piece->length && !atomic_load(&large->has_failed)) {
		step = piece->length - done < STEP_BYTES ? piece->length - done : STEP_BYTES;
		if (!send_step(large, worker->buffer, step, piece->offset + done))
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

/* Finds the next range with data from `*offset` on. Returns whether there is one. */
static bool next_data(const struct large *large, uint64_t *offset, uint64_t *end)
{
	off_t data = lseek(large->fd, (off_t)*offset, SEEK_DATA), hole;

	*end = large->bytes;
	if (data < 0)
		return errno != ENXIO && *offset < large->bytes; /* it cannot tell */
	hole = lseek(large->fd, data, SEEK_HOLE);
	*offset = (uint64_t)data;
	if (hole >= 0 && (uint64_t)hole < large->bytes)
		*end = (uint64_t)hole;
	return *offset < large->bytes;
}

/* Gets the room at once for a file without holes, because it would grow step by step. It need not work. */
static int make_room(struct large *large)
{
	uint64_t offset = 0, end;
	int ret;

	if (next_data(large, &offset, &end) && offset == 0 && end == large->bytes) {
		ret = afar_file_allocate(large->file, 0, 0, large->bytes);
		return ret == -ENOSPC || ret == -EDQUOT ? ret : 0;
	}
	return afar_file_truncate(large->file, large->bytes);
}

static int start_pieces(struct large *large, struct pool_worker *worker)
{
	uint64_t offset = 0, end;
	int ret = make_room(large);

	while (!ret && offset < large->bytes && next_data(large, &offset, &end)) {
		ret = add_pieces(large, offset, end, worker);
		offset = end;
	}
	return ret;
}

/* Opens the local file. Returns 0 or a negative errno. */
static int open_source(struct large *large)
{
	struct stat now;

	large->fd = put_open(large->entry);
	if (large->fd < 0)
		return large->fd;
	if (fstat(large->fd, &now))
		return -errno;
	large->bytes = (uint64_t)now.st_size;
	return 0;
}

/* Makes the copy. Returns 0 or an error. */
static int open_target(struct large *large)
{
	const struct tree_entry *entry = large->entry;
	struct afar_file_stat made = {.size = sizeof(made)};
	uint32_t mode;
	int ret = put_look(entry, &mode);

	if (ret)
		return ret;
	tree_aside(entry->dir->tree, large->aside);
	ret = afar_file_create(entry->dir->fs, NULL, entry->dir->ino, large->aside, mode,
			       O_WRONLY | O_EXCL, &large->file, &made);
	large->ino = made.ino;
	return ret;
}

void put_large(struct tree_entry *entry, struct pool_worker *worker)
{
	struct large *large = calloc(1, sizeof(*large));
	int ret;

	if (!large) {
		tree_done(entry, -ENOMEM, 0);
		return;
	}
	large->entry = entry;
	large->fd = -1;
	atomic_init(&large->references, 1);
	ret = open_source(large);
	if (ret) {
		fail(large, ret, true);
	} else {
		ret = open_target(large);
		if (!ret)
			ret = start_pieces(large, worker);
		if (ret)
			fail(large, ret, false);
	}
	drop(large);
}
