/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gives an older store sums: reads it with LMDB, and writes its pairs to a new file, "data.mdb.new". A new log that goes with
 * that file takes the place of the old one. From then on the new file counts, and is renamed: now, or when the store is opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "manager/metastore/lmdb_folder.h"
#include "manager/metastore/sums.h"

struct renewal {
	struct lmdb_folder *folder;
	size_t map_bytes; /* that the new file may have */
	MDB_txn *from, *to;
	MDB_dbi from_table, to_table;
	struct meta_totals totals;
	void *stored; /* the last value that was written, with its sums */
};

static int fail(const struct lmdb_folder *folder, int ret)
{
	int code = ret > 0 ? -ret : ret == MDB_MAP_FULL ? -ENOSPC : -EIO;

	return error_fail(code,
			  "give the records of the store %s checksums: %s; make room on the disk",
			  folder->path, ret > 0 ? strerror(ret) : mdb_strerror(ret));
}

static int begin(MDB_env *env, MDB_txn **txn, MDB_dbi *table)
{
	int ret = mdb_txn_begin(env, NULL, 0, txn);

	if (ret != 0)
		return ret;
	ret = mdb_dbi_open(*txn, NULL, 0, table);
	if (ret != 0) {
		mdb_txn_abort(*txn);
		*txn = NULL;
	}
	return ret;
}

static int open_env(const char *path, size_t map_bytes, unsigned flags, MDB_env **out)
{
	int ret = mdb_env_create(out);

	if (ret != 0)
		return ret;
	ret = mdb_env_set_mapsize(*out, map_bytes);
	if (ret == 0)
		ret = mdb_env_open(*out, path, MDB_NOTLS | MDB_NOSYNC | flags, LMDB_FILE_MODE);
	return ret;
}

/* Does what the old log says, in a transaction that is never committed. */
static int redo(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	const struct renewal *renewal = argument;
	MDB_val name = {key.length, (void *)(uintptr_t)key.data};
	MDB_val put = {value.length, (void *)(uintptr_t)value.data};
	int ret = value.data ? mdb_put(renewal->from, renewal->from_table, &name, &put, 0)
			     : mdb_del(renewal->from, renewal->from_table, &name, NULL);

	return ret == 0 || ret == MDB_NOTFOUND ? 0 : fail(renewal->folder, ret);
}

static int copy_pair(struct renewal *renewal, MDB_val key, MDB_val value)
{
	const struct meta_bytes name = {key.mv_data, key.mv_size};
	const struct meta_bytes plain = {value.mv_data, value.mv_size};
	MDB_val stored = {value.mv_size + SUMS_BYTES, NULL};
	int ret;

	stored.mv_data = realloc(renewal->stored, stored.mv_size);
	if (!stored.mv_data)
		return ENOMEM;
	renewal->stored = stored.mv_data;
	memcpy(stored.mv_data, plain.data, plain.length);
	sums_make(name, plain, (uint8_t *)stored.mv_data + plain.length);
	ret = mdb_put(renewal->to, renewal->to_table, &key, &stored, MDB_APPEND);
	if (ret == 0)
		sums_add(&renewal->totals, (struct meta_bytes){stored.mv_data, stored.mv_size});
	return ret;
}

static int copy_pairs(struct renewal *renewal)
{
	MDB_cursor *cursor;
	MDB_val key, value;
	int ret = mdb_cursor_open(renewal->from, renewal->from_table, &cursor);

	if (ret != 0)
		return ret;
	ret = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
	while (ret == 0) {
		ret = copy_pair(renewal, key, value);
		if (ret == 0)
			ret = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
	}
	mdb_cursor_close(cursor);
	return ret == MDB_NOTFOUND ? 0 : ret;
}

/* Fills the new file, durably. */
static int write_new(struct renewal *renewal, const char *path)
{
	MDB_env *env = NULL;
	int ret = open_env(path, renewal->map_bytes, MDB_NOSUBDIR | MDB_NOLOCK, &env);

	if (ret == 0)
		ret = begin(env, &renewal->to, &renewal->to_table);
	if (ret == 0) {
		ret = copy_pairs(renewal);
		if (ret == 0)
			ret = mdb_txn_commit(renewal->to);
		else
			mdb_txn_abort(renewal->to);
	}
	if (ret == 0)
		ret = mdb_env_sync(env, 1);
	mdb_env_close(env);
	return ret == 0 ? 0 : fail(renewal->folder, ret);
}

static int read_old(struct renewal *renewal, const char *new_path)
{
	struct lmdb_folder *folder = renewal->folder;
	MDB_env *env = NULL;
	int ret = open_env(folder->path, renewal->map_bytes, 0, &env);

	if (ret == 0)
		ret = begin(env, &renewal->from, &renewal->from_table);
	if (ret != 0)
		ret = fail(folder, ret);
	if (ret == 0 && folder->log)
		ret = redo_replay(folder->log, redo, renewal);
	if (ret == 0)
		ret = write_new(renewal, new_path);
	if (renewal->from)
		mdb_txn_abort(renewal->from);
	mdb_env_close(env);
	free(renewal->stored);
	return ret;
}

/* Puts the new log in the place of the old one, and the new file after it. */
static int replace(struct lmdb_folder *folder, const char *new_path,
		   const struct meta_totals *totals)
{
	uint8_t heads[REDO_HEADS_MAX];
	struct redo_checkpoint checkpoint = {.heads = heads, .is_closed = true, .totals = *totals};
	struct stat stat;
	ssize_t length;
	int ret;

	redo_close(folder->log);
	folder->log = NULL;
	close(folder->fd);
	folder->fd = open(new_path, O_RDWR | O_CLOEXEC);
	if (folder->fd < 0 || fstat(folder->fd, &stat) < 0)
		return fail(folder, errno);
	length = lmdb_folder_heads(folder, heads);
	if (length < 0)
		return (int)length;
	checkpoint.length = (size_t)length;
	checkpoint.file_bytes = (uint64_t)stat.st_size;
	ret = lmdb_folder_sync(folder);
	if (ret == 0)
		ret = redo_make(folder->path, &checkpoint, &folder->log);
	return ret < 0 ? ret : lmdb_folder_take_new(folder);
}

int lmdb_renew(struct lmdb_folder *folder, size_t map_bytes)
{
	struct renewal renewal = {.folder = folder, .map_bytes = map_bytes};
	char new_path[PATH_MAX + 16];
	int ret;

	snprintf(new_path, sizeof(new_path), "%s/data.mdb.new", folder->path);
	log_info("the store %s is of an older version: its records get checksums", folder->path);
	ret = read_old(&renewal, new_path);
	if (ret == 0)
		ret = replace(folder, new_path, &renewal.totals);
	folder->totals = renewal.totals;
	folder->is_old = ret < 0;
	return ret;
}
