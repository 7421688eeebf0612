/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The metastore in LMDB: one file below the manager's folder, copy-on-write, so a commit is there
 * wholly or not at all. The manager's writer thread commits; any thread may read.
 *
 * LMDB would sync its file twice for each commit, the pages before the head that leads to them. A
 * record in the redo log takes one write and one flush, so the file is synced at checkpoints alone.
 * From one to the next a read transaction keeps the checkpoint's pages: LMDB overwrites none of
 * them, and with the heads that the redo log has they are the store as it was. The heads are the
 * first two pages, which LMDB overwrites in turn.
 *
 * LMDB writes copies of the pages that it changes: a full store could not even delete. So a commit
 * that does not make the content larger may go HEADROOM bytes beyond the limit; `map_lock` keeps
 * readers out while the map changes its size.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <afar/error.h>

#include "base/error.h"
#include "base/log.h"
#include "manager/metastore/metastore.h"
#include "manager/metastore/redo.h"

#define HEADROOM       ((size_t)1 << 20)
#define ROOM_TO_REPLAY ((size_t)8 << 20)
#define SIZE_MIN       ((size_t)64 << 10) /* less does not hold LMDB's own pages */
#define READERS_MAX    512
#define FILE_MODE      0600

struct lmdb_store {
	struct metastore base;
	MDB_env *env;
	MDB_dbi table;
	MDB_txn *checkpoint; /* the last one, whose pages stay as they are; NULL: they need not */
	struct redo_log *log;
	bool is_open;	       /* it has been, so closing it is a checkpoint */
	atomic_bool is_ahead;  /* LMDB has a commit that is not in the log: a checkpoint follows */
	atomic_bool is_broken; /* what is on the disk is not known: nothing comes after it */
	int said;	       /* see SAID */
	int fd;		       /* LMDB's file */
	int lock_fd;	       /* flock()ed while the store is open */
	size_t size_max;
	pthread_rwlock_t map_lock; /* readers: transactions; writer: changing the map's size */
	char path[PATH_MAX];
};

static struct lmdb_store *lmdb_of(struct metastore *store)
{
	return (struct lmdb_store *)store;
}

/* LMDB returns errno values as they are and its own codes as negative numbers. */
static int to_errno(int ret)
{
	switch (ret) {
	case MDB_SUCCESS:
		return 0;
	case MDB_NOTFOUND:
		return -ENOENT;
	case MDB_MAP_FULL:
	case MDB_TXN_FULL:
		return -ENOSPC;
	case MDB_READERS_FULL:
		return -EBUSY;
	default:
		return ret > 0 ? -ret : -EIO;
	}
}

static int fail(const struct lmdb_store *store, const char *asked, int ret)
{
	int code = to_errno(ret);

	if (ret == MDB_MAP_FULL)
		return error_fail(code,
				  "%s in the store %s: it has reached its limit of %zu MiB; delete "
				  "regions or namespaces, or raise the limit",
				  asked, store->path, store->size_max >> 20);
	if (ret == ENOSPC)
		return error_fail(code, "%s in the store %s: the disk is full; make room on it",
				  asked, store->path);
	if (ret == MDB_PANIC)
		return error_fail(code,
				  "%s in the store %s: an earlier write failed; mend the disk and "
				  "restart the manager",
				  asked, store->path);
	return error_fail(code, "%s in the store %s: %s; check the disk", asked, store->path,
			  mdb_strerror(ret));
}

static MDB_val to_val(struct meta_bytes bytes)
{
	return (MDB_val){.mv_size = bytes.length, .mv_data = (void *)(uintptr_t)bytes.data};
}

static int check_key(struct meta_bytes key)
{
	if (key.length == 0 || key.length > METASTORE_KEY_MAX)
		return error_fail(-EINVAL, "metastore key: %zu bytes long; 1 to %d can be stored",
				  key.length, METASTORE_KEY_MAX);
	return 0;
}

/* ---- Checkpoints */

static void drop_checkpoint(struct lmdb_store *store)
{
	if (store->checkpoint)
		mdb_txn_abort(store->checkpoint);
	store->checkpoint = NULL;
}

/* Keeps what is now, which the redo log's checkpoint must be. If that fails, each commit is a checkpoint of its own. */
static void keep_checkpoint(struct lmdb_store *store)
{
	drop_checkpoint(store);
	if (mdb_txn_begin(store->env, NULL, MDB_RDONLY, &store->checkpoint) != 0)
		store->checkpoint = NULL;
}

/* Returns how many bytes LMDB's heads have, or an error. */
static ssize_t read_heads(struct lmdb_store *store, uint8_t heads[REDO_HEADS_MAX])
{
	MDB_stat stat;
	ssize_t length;

	mdb_env_stat(store->env, &stat);
	length = (ssize_t)stat.ms_psize * 2;
	if ((size_t)length > REDO_HEADS_MAX || pread(store->fd, heads, (size_t)length, 0) != length)
		return fail(store, "read the head of LMDB's file", EIO);
	return length;
}

static int write_checkpoint(struct lmdb_store *store, bool is_closing)
{
	uint8_t heads[REDO_HEADS_MAX];
	struct redo_checkpoint checkpoint = {.heads = heads, .is_closed = is_closing};
	struct stat stat;
	ssize_t length;
	int ret;

	ret = mdb_env_sync(store->env, 1);
	if (ret == 0 && fstat(store->fd, &stat) < 0)
		ret = errno;
	if (ret != 0)
		return fail(store, "sync LMDB's file", ret);
	length = read_heads(store, heads);
	if (length < 0)
		return (int)length;
	checkpoint.length = (size_t)length;
	checkpoint.file_bytes = (uint64_t)stat.st_size;
	return store->log ? redo_restart(store->log, &checkpoint)
			  : redo_make(store->path, &checkpoint, &store->log);
}

/* Makes all that is committed durable in LMDB's file. If it fails, the kernel may have forgotten what it could not write, so
 * another attempt would say nothing: only what a restart finds is sure. `is_closing`: for good. */
static int make_checkpoint(struct lmdb_store *store, bool is_closing)
{
	int ret = write_checkpoint(store, is_closing);

	if (ret < 0)
		store->is_broken = true;
	else if (!is_closing)
		keep_checkpoint(store);
	return ret;
}

static void lmdb_close(struct metastore *base)
{
	struct lmdb_store *store = lmdb_of(base);

	/* If the sync fails, the redo log still has all commits. */
	if (store->is_open && !store->is_broken && make_checkpoint(store, true) < 0)
		log_error("%s", afar_last_error());
	drop_checkpoint(store);
	if (store->env)
		mdb_env_close(store->env);
	redo_close(store->log);
	if (store->fd >= 0)
		close(store->fd);
	if (store->lock_fd >= 0)
		close(store->lock_fd);
	pthread_rwlock_destroy(&store->map_lock);
	free(store);
}

/* ---- Reading */

static int begin_read(struct lmdb_store *store, MDB_txn **out)
{
	int ret;

	if (store->is_broken && store->is_ahead)
		return MDB_PANIC; /* what is there was not committed */
	pthread_rwlock_rdlock(&store->map_lock);
	ret = mdb_txn_begin(store->env, NULL, MDB_RDONLY, out);
	if (ret != 0)
		pthread_rwlock_unlock(&store->map_lock);
	return ret;
}

static void end_read(struct lmdb_store *store, MDB_txn *txn)
{
	mdb_txn_abort(txn);
	pthread_rwlock_unlock(&store->map_lock);
}

static int lmdb_get(struct metastore *base, struct meta_bytes key, void **value, size_t *length)
{
	struct lmdb_store *store = lmdb_of(base);
	MDB_val name = to_val(key), found;
	MDB_txn *txn;
	int ret;

	ret = check_key(key);
	if (ret < 0)
		return ret;
	ret = begin_read(store, &txn);
	if (ret != 0)
		return fail(store, "get", ret);
	ret = mdb_get(txn, store->table, &name, &found);
	if (ret == 0) {
		*value = malloc(found.mv_size != 0 ? found.mv_size : 1);
		if (*value) {
			memcpy(*value, found.mv_data, found.mv_size);
			*length = found.mv_size;
		} else {
			ret = ENOMEM;
		}
	}
	end_read(store, txn);
	if (ret == MDB_NOTFOUND)
		return error_code(-ENOENT);
	return ret == 0 ? 0 : fail(store, "get", ret);
}

/* The order in which LMDB keeps keys. */
static int compare_bytes(struct meta_bytes left, struct meta_bytes right)
{
	size_t length = left.length < right.length ? left.length : right.length;
	int order = length != 0 ? memcmp(left.data, right.data, length) : 0;

	if (order != 0)
		return order;
	return left.length < right.length ? -1 : left.length > right.length;
}

static bool has_prefix(const MDB_val *key, struct meta_bytes prefix)
{
	return key->mv_size >= prefix.length &&
	       (prefix.length == 0 || memcmp(key->mv_data, prefix.data, prefix.length) == 0);
}

/* Moves the cursor to the first key from `from` on. LMDB takes no empty key. */
static int seek(MDB_cursor *cursor, struct meta_bytes from, MDB_val *key, MDB_val *value)
{
	*key = to_val(from);
	return mdb_cursor_get(cursor, key, value, from.length != 0 ? MDB_SET_RANGE : MDB_FIRST);
}

static int lmdb_range(struct metastore *base, struct meta_bytes prefix, struct meta_bytes after,
		      size_t max,
		      int (*visit)(void *argument, struct meta_bytes key, struct meta_bytes value),
		      void *argument)
{
	struct lmdb_store *store = lmdb_of(base);
	bool is_after = compare_bytes(after, prefix) >= 0 && after.length != 0;
	int ret, stopped = 0;
	MDB_cursor *cursor;
	MDB_val key, value;
	MDB_txn *txn;

	if (prefix.length > METASTORE_KEY_MAX)
		return check_key(prefix);
	if (after.length > METASTORE_KEY_MAX)
		return check_key(after);
	ret = begin_read(store, &txn);
	if (ret != 0)
		return fail(store, "range", ret);
	ret = mdb_cursor_open(txn, store->table, &cursor);
	if (ret != 0)
		goto out_txn;
	ret = seek(cursor, is_after ? after : prefix, &key, &value);
	if (ret == 0 && is_after &&
	    compare_bytes((struct meta_bytes){key.mv_data, key.mv_size}, after) == 0)
		ret = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
	for (size_t i = 0; i < max && ret == 0 && has_prefix(&key, prefix); i++) {
		stopped = visit(argument, (struct meta_bytes){key.mv_data, key.mv_size},
				(struct meta_bytes){value.mv_data, value.mv_size});
		if (stopped != 0)
			break;
		ret = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
	}
	mdb_cursor_close(cursor);
out_txn:
	end_read(store, txn);
	if (stopped != 0)
		return stopped;
	return ret == 0 || ret == MDB_NOTFOUND ? 0 : fail(store, "range", ret);
}

/* ---- Commits */

/* The value that a key has inside a transaction; `length` of one that does not exist is 0. */
static int find(const struct lmdb_store *store, MDB_txn *txn, struct meta_bytes key, MDB_val *found)
{
	MDB_val name = to_val(key);

	*found = (MDB_val){0};
	return mdb_get(txn, store->table, &name, found);
}

static int compare_all(const struct lmdb_store *store, MDB_txn *txn,
		       const struct meta_compare *compares, size_t nr_compares)
{
	for (size_t i = 0; i < nr_compares; i++) {
		const struct meta_bytes *wanted = &compares[i].value;
		MDB_val found;
		int ret = find(store, txn, compares[i].key, &found);

		if (ret != 0 && ret != MDB_NOTFOUND)
			return ret;
		if (ret == MDB_NOTFOUND
			    ? wanted->data != NULL
			    : !wanted->data || wanted->length != found.mv_size ||
				      memcmp(wanted->data, found.mv_data, found.mv_size) != 0)
			return EAGAIN;
	}
	return 0;
}

/* Adds to `*growth` by how much the bytes of keys and values became more. */
static int change_all(const struct lmdb_store *store, MDB_txn *txn, const struct meta_put *puts,
		      size_t nr_puts, const struct meta_bytes *deletes, size_t nr_deletes,
		      int64_t *growth)
{
	MDB_val old;
	int ret;

	for (size_t i = 0; i < nr_deletes; i++) {
		MDB_val key = to_val(deletes[i]);

		ret = find(store, txn, deletes[i], &old);
		if (ret == MDB_NOTFOUND)
			continue;
		if (ret != 0)
			return ret;
		*growth -= (int64_t)(key.mv_size + old.mv_size);
		ret = mdb_del(txn, store->table, &key, NULL);
		if (ret != 0)
			return ret;
	}
	for (size_t i = 0; i < nr_puts; i++) {
		MDB_val key = to_val(puts[i].key), value = to_val(puts[i].value);

		ret = find(store, txn, puts[i].key, &old);
		if (ret != 0 && ret != MDB_NOTFOUND)
			return ret;
		*growth += (int64_t)value.mv_size - (int64_t)old.mv_size;
		*growth += ret == MDB_NOTFOUND ? (int64_t)key.mv_size : 0;
		ret = mdb_put(txn, store->table, &key, &value, 0);
		if (ret != 0)
			return ret;
	}
	return 0;
}

struct changes {
	const struct meta_compare *compares;
	size_t nr_compares;
	const struct meta_put *puts;
	size_t nr_puts;
	const struct meta_bytes *deletes;
	size_t nr_deletes;
};

/* The functions below return this beside LMDB's codes, if they have made a sentence; its code is in `said`. */
#define SAID 1000000

static int say(struct lmdb_store *store, int code)
{
	store->said = code;
	return SAID;
}

static int append(struct lmdb_store *store, const struct changes *changes)
{
	return redo_append(store->log, changes->puts, changes->nr_puts, changes->deletes,
			   changes->nr_deletes);
}

/* Makes durable what a transaction is about to commit. Without a checkpoint, or if it is larger than the log, the checkpoint
 * that follows does so. */
static int write_down(struct lmdb_store *store, const struct changes *changes)
{
	int ret = store->checkpoint ? append(store, changes) : -E2BIG;

	if (ret == -ENOBUFS) {
		ret = make_checkpoint(store, false);
		if (ret == 0)
			ret = store->checkpoint ? append(store, changes) : -E2BIG;
	}
	store->is_ahead = ret == -E2BIG;
	if (ret == 0 || ret == -E2BIG)
		return 0;
	if (redo_is_broken(store->log))
		store->is_broken = true;
	return say(store, ret);
}

static int commit_written(struct lmdb_store *store, MDB_txn *txn)
{
	int ret = mdb_txn_commit(txn), back;

	if (ret == 0 || store->is_ahead)
		return ret;
	back = redo_take_back(store->log);
	if (back == 0)
		return ret;
	store->is_broken = true;
	return say(store, back);
}

/* One attempt. With `may_grow` 0 a transaction that makes the content larger ends as if the map
 * were full. */
static int try_commit(struct lmdb_store *store, const struct changes *changes, int may_grow)
{
	MDB_txn *txn;
	int64_t growth = 0;
	int ret;

	ret = mdb_txn_begin(store->env, NULL, 0, &txn);
	if (ret != 0)
		return ret;
	ret = compare_all(store, txn, changes->compares, changes->nr_compares);
	if (ret == 0)
		ret = change_all(store, txn, changes->puts, changes->nr_puts, changes->deletes,
				 changes->nr_deletes, &growth);
	if (ret == 0 && !may_grow && growth > 0)
		ret = MDB_MAP_FULL;
	if (ret == 0)
		ret = write_down(store, changes);
	if (ret != 0) {
		mdb_txn_abort(txn);
		return ret;
	}
	return commit_written(store, txn);
}

/* Just after a checkpoint, of which one commit overwrites nothing: LMDB uses no page again that the last transaction has freed.
 * Another checkpoint follows. */
static int commit_in_headroom(struct lmdb_store *store, const struct changes *changes)
{
	int ret;

	pthread_rwlock_wrlock(&store->map_lock);
	drop_checkpoint(store); /* LMDB moves its map only when nobody reads */
	ret = mdb_env_set_mapsize(store->env, store->size_max + HEADROOM);
	if (ret == 0) {
		ret = try_commit(store, changes, 0);
		mdb_env_set_mapsize(store->env, store->size_max);
	}
	pthread_rwlock_unlock(&store->map_lock);
	if (ret != 0)
		keep_checkpoint(store);
	return ret;
}

/* The pages that a checkpoint keeps are what another one gives back. */
static int commit_when_full(struct lmdb_store *store, const struct changes *changes)
{
	int ret = make_checkpoint(store, false);

	if (ret < 0)
		return say(store, ret);
	pthread_rwlock_rdlock(&store->map_lock);
	ret = try_commit(store, changes, 1);
	pthread_rwlock_unlock(&store->map_lock);
	if (ret != MDB_MAP_FULL || changes->nr_deletes == 0)
		return ret;
	return commit_in_headroom(store, changes);
}

static int lmdb_commit(struct metastore *base, const struct meta_compare *compares,
		       size_t nr_compares, const struct meta_put *puts, size_t nr_puts,
		       const struct meta_bytes *deletes, size_t nr_deletes)
{
	struct lmdb_store *store = lmdb_of(base);
	struct changes changes = {compares, nr_compares, puts, nr_puts, deletes, nr_deletes};
	int ret = 0;

	for (size_t i = 0; i < nr_compares && ret == 0; i++)
		ret = check_key(compares[i].key);
	for (size_t i = 0; i < nr_puts && ret == 0; i++)
		ret = check_key(puts[i].key);
	for (size_t i = 0; i < nr_deletes && ret == 0; i++)
		ret = check_key(deletes[i]);
	if (ret < 0)
		return ret;
	if (store->is_broken)
		return fail(store, "commit", MDB_PANIC);

	pthread_rwlock_rdlock(&store->map_lock);
	ret = try_commit(store, &changes, 1);
	pthread_rwlock_unlock(&store->map_lock);
	if (ret == MDB_MAP_FULL)
		ret = commit_when_full(store, &changes);
	if (ret == EAGAIN)
		return error_fail(-EAGAIN,
				  "commit in the store %s: a key has another value than "
				  "expected; read it again",
				  store->path);
	if (ret == SAID)
		return store->said;
	if (ret != 0)
		return fail(store, "commit", ret);
	return store->is_ahead ? make_checkpoint(store, false) : 0;
}

static const struct metastore_ops lmdb_ops = {
	.name = "lmdb",
	.close = lmdb_close,
	.get = lmdb_get,
	.range = lmdb_range,
	.commit = lmdb_commit,
};

/* LMDB's own lock file lets several processes share a store; a manager must be alone. */
static int lock_folder(struct lmdb_store *store)
{
	char name[PATH_MAX + 16];

	snprintf(name, sizeof(name), "%s/manager.lock", store->path);
	store->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);
	if (store->lock_fd < 0)
		return error_fail(-errno, "open the store %s: %m; check the folder", store->path);
	if (flock(store->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return error_fail(-EBUSY,
				  "open the store %s: another manager has it open; stop that one "
				  "or name another folder",
				  store->path);
	return error_fail(-errno, "lock the store %s: %m", store->path);
}

static int open_table(struct lmdb_store *store)
{
	MDB_txn *txn;
	int ret;

	ret = mdb_txn_begin(store->env, NULL, 0, &txn);
	if (ret != 0)
		return ret;
	ret = mdb_dbi_open(txn, NULL, 0, &store->table);
	if (ret != 0) {
		mdb_txn_abort(txn);
		return ret;
	}
	return mdb_txn_commit(txn);
}

static int open_file(struct lmdb_store *store)
{
	char name[PATH_MAX + 16];

	snprintf(name, sizeof(name), "%s/data.mdb", store->path);
	store->fd = open(name, O_RDWR | O_CLOEXEC);
	return store->fd < 0 ? error_fail(-errno, "open the store %s: data.mdb: %m", store->path)
			     : 0;
}

/* A program that has LMDB's file open, such as mdb_stat(1), keeps in lock.mdb which of the heads counts, and LMDB would believe that. */
static int refuse_others(const struct lmdb_store *store)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	char name[PATH_MAX + 16];
	int fd, ret;

	snprintf(name, sizeof(name), "%s/lock.mdb", store->path);
	fd = open(name, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_fail(-errno, "open %s: %m", name);
	ret = fcntl(fd, F_GETLK, &lock) < 0 ? -errno : 0;
	close(fd);
	if (ret < 0)
		return error_fail(ret, "look who has %s: %s", name, strerror(-ret));
	return lock.l_type == F_UNLCK
		       ? 0
		       : error_fail(-EBUSY,
				    "open the store %s: process %d has its data.mdb open; end that",
				    store->path, (int)lock.l_pid);
}

/* Makes LMDB's file what it was at the last checkpoint, if its manager did not close it after that. */
static int put_heads_back(struct lmdb_store *store)
{
	struct redo_checkpoint checkpoint;
	struct stat stat;
	ssize_t n;
	int ret = redo_open(store->path, &store->log);

	if (ret < 0 || !store->log)
		return ret;
	ret = open_file(store);
	checkpoint = redo_last_checkpoint(store->log);
	if (ret < 0 || checkpoint.is_closed)
		return ret;
	ret = refuse_others(store);
	if (ret < 0)
		return ret;
	if (fstat(store->fd, &stat) == 0 && (uint64_t)stat.st_size < checkpoint.file_bytes)
		return error_fail(
			-EILSEQ,
			"open the store %s: data.mdb is shorter than it was, so it does not "
			"go with redo.log; put the whole folder back from a copy",
			store->path);
	n = pwrite(store->fd, checkpoint.heads, checkpoint.length, 0);
	if (n != (ssize_t)checkpoint.length || fdatasync(store->fd) < 0)
		return fail(store, "go back to the checkpoint", n < 0 ? errno : EIO);
	return 0;
}

struct replay {
	struct lmdb_store *store;
	MDB_txn *txn;
};

static int redo(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	const struct replay *replay = argument;
	const struct meta_put put = {key, value};
	const bool is_put = value.data != NULL;
	int64_t growth = 0;
	int ret = change_all(replay->store, replay->txn, &put, is_put, &key, !is_put, &growth);

	return ret == 0 ? 0 : fail(replay->store, "replay the redo log", ret);
}

/* Does again what was committed since the checkpoint, at once. The last record may be one for which LMDB had no room. */
static int replay_log(struct lmdb_store *store)
{
	struct replay replay = {.store = store};
	int ret = mdb_txn_begin(store->env, NULL, 0, &replay.txn);

	if (ret != 0)
		return fail(store, "replay the redo log", ret);
	ret = redo_replay(store->log, redo, &replay);
	if (ret < 0) {
		mdb_txn_abort(replay.txn);
		return ret;
	}
	ret = mdb_txn_commit(replay.txn);
	return ret == 0 ? 0 : fail(store, "replay the redo log", ret);
}

int metastore_lmdb_open(const char *path, size_t size_max, struct metastore **out)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct lmdb_store *store;
	int ret;

	if (strlen(path) >= PATH_MAX)
		return error_fail(-ENAMETOOLONG, "open the store: its path is too long");
	if (size_max < SIZE_MIN || size_max > SIZE_MAX - ROOM_TO_REPLAY)
		return error_fail(-EINVAL,
				  "open the store %s: a limit of %zu bytes; give at least %zu",
				  path, size_max, SIZE_MIN);
	store = calloc(1, sizeof(*store));
	if (!store)
		return error_code(-ENOMEM);
	store->base.ops = &lmdb_ops;
	store->lock_fd = store->fd = -1;
	store->size_max = size_max / page * page;
	strcpy(store->path, path);
	pthread_rwlock_init(&store->map_lock, NULL);

	ret = lock_folder(store);
	if (ret == 0)
		ret = put_heads_back(store);
	if (ret < 0)
		goto out_close;
	ret = mdb_env_create(&store->env);
	if (ret == 0)
		ret = mdb_env_set_mapsize(store->env, store->size_max + ROOM_TO_REPLAY);
	if (ret == 0)
		ret = mdb_env_set_maxreaders(store->env, READERS_MAX);
	/* MDB_NOTLS: a read transaction belongs to no thread, so one thread may read while it
	 * commits. */
	if (ret == 0)
		ret = mdb_env_open(store->env, path, MDB_NOTLS | MDB_NOSYNC, FILE_MODE);
	if (ret == 0)
		ret = open_table(store);
	if (ret != 0) {
		ret = fail(store, "open", ret);
		goto out_close;
	}
	if (store->log)
		ret = replay_log(store);
	else
		ret = open_file(store);
	if (ret == 0)
		mdb_env_set_mapsize(store->env, store->size_max); /* if it is no more than that */
	if (ret == 0)
		ret = make_checkpoint(store, false);
	if (ret < 0)
		goto out_close;
	store->is_open = true;
	*out = &store->base;
	return 0;

out_close:
	lmdb_close(&store->base);
	return ret;
}
