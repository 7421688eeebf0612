/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets a large file, or one with holes: under a name of its own, in pieces that several threads bring at
 * once. The last piece gives it its name. Called by files_get_tree.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "files_get.h"

#define PIECE_BYTES ((uint64_t)16 << 20) /* a job's */
#define STEP_BYTES  ((uint64_t)4 << 20)	 /* a transfer's */

struct large {
	struct tree_entry *entry;
	struct afar_file *file;
	struct get_sink sink;
	uint64_t bytes;
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
	path = is_local ? tree_target(large->entry) : tree_source(large->entry);
	(is_local ? tree_fail_local : tree_fail)(tree, is_local ? "get into" : "get",
						 path ? path : large->entry->name, error);
	free(path);
}

static void drop(struct large *large)
{
	struct tree_entry *entry = large->entry;
	int ret;

	if (atomic_fetch_sub(&large->references, 1) != 1)
		return;
	if (large->file)
		afar_file_close(large->file);
	if (large->sink.fd >= 0) {
		ret = get_sink_close(entry, &large->sink,
				     atomic_load(&large->has_failed) ? -ECANCELED : 0);
		if (ret)
			fail(large, ret, true);
	}
	if (atomic_load(&large->has_failed)) {
		tree_done_failed(entry);
	} else {
		if (entry->file)
			entry->file->path = tree_target(entry);
		tree_done(entry, 0, 0); /* the pieces have counted their bytes */
	}
	free(large);
}

/* Brings one step. Returns whether that went well. A file that has become shorter leaves a hole. */
static bool bring_step(struct large *large, char *buffer, uint64_t length, uint64_t offset)
{
	struct tree *tree = large->entry->dir->tree;
	ssize_t n = atomic_load(&tree->is_stopping)
			    ? -EINTR
			    : afar_file_pread(large->file, buffer, length, offset);
	int ret;

	if (n < 0) {
		fail(large, (int)n, false);
		return false;
	}
	ret = get_sink_write(&large->sink, buffer, (uint64_t)n, offset);
	if (ret) {
		fail(large, ret, true);
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
		if (!bring_step(large, worker->buffer, step, piece->offset + done))
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

/* Finds the next range with data from `*offset` on. Returns 1, 0 if there is none, or an error. */
static int next_data(const struct large *large, uint64_t *offset, uint64_t *end)
{
	int64_t data = afar_file_seek(large->file, *offset, false), hole;

	if (data == -ENXIO)
		return 0;
	if (data < 0)
		return (int)data;
	hole = afar_file_seek(large->file, (uint64_t)data, true);
	if (hole < 0)
		return (int)hole;
	*offset = (uint64_t)data;
	*end = (uint64_t)hole < large->bytes ? (uint64_t)hole : large->bytes;
	return *offset < *end;
}

static int start_pieces(struct large *large, struct pool_worker *worker)
{
	uint64_t offset = 0, end = 0;
	int ret = 0;

	while (!ret && offset < large->bytes) {
		ret = next_data(large, &offset, &end);
		if (ret <= 0)
			return ret;
		ret = add_pieces(large, offset, end, worker);
		offset = end;
	}
	return ret;
}

/* Opens the file. Returns 0 or an error. */
static int open_source(struct large *large)
{
	struct tree_entry *entry = large->entry;
	int ret = afar_file_open(entry->dir->fs, NULL, entry->stat.ino, O_RDONLY, &large->file);

	if (!ret)
		ret = afar_file_stat(large->file, &entry->stat);
	large->bytes = entry->stat.bytes;
	return ret;
}

/* Opens the local file, which has its length from the beginning, with holes where nothing comes. */
static int open_target(struct large *large)
{
	int ret = get_sink_open(large->entry, &large->sink);

	if (!ret && ftruncate(large->sink.fd, (off_t)large->bytes))
		ret = -errno;
	return ret;
}

void get_large(struct tree_entry *entry, struct pool_worker *worker)
{
	struct large *large = calloc(1, sizeof(*large));
	int ret;

	if (!large) {
		tree_done(entry, -ENOMEM, 0);
		return;
	}
	large->entry = entry;
	large->sink.fd = -1;
	atomic_init(&large->references, 1);
	ret = open_source(large);
	if (ret) {
		fail(large, ret, false);
	} else if ((ret = open_target(large))) {
		fail(large, ret, true);
	} else {
		ret = start_pieces(large, worker);
		if (ret)
			fail(large, ret, false);
	}
	drop(large);
}
