/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The metastore in LMDB: one file below the manager's folder, copy-on-write, so a commit is there
 * wholly or not at all. The manager's writer thread commits; any thread may read.
 *
 * LMDB would sync its file twice for each commit, the pages before the head that leads to them. A
 * record in the redo log takes one write and one flush, so the file is synced at checkpoints alone.
 * From one to the next a read transaction keeps the checkpoint's pages: LMDB overwrites none of
 * them. With the heads that the redo log has they are the store as it was. The heads are the first
 * two pages, which LMDB overwrites in turn.
 *
 * LMDB writes copies of the pages that it changes: a full store could not even delete. So a commit
 * that does not make the content larger may go HEADROOM bytes beyond the limit. While the map
 * changes its size, `map_lock` keeps readers out.
 */
#include <errno.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <afar/error.h>

#include "base/error.h"
#include "base/log.h"
#include "manager/metastore/lmdb_private.h"
#include "manager/metastore/sums.h"

#define HEADROOM       ((size_t)1 << 20)
#define ROOM_TO_REPLAY ((size_t)8 << 20)
#define SIZE_MIN       ((size_t)64 << 10) /* less does not hold LMDB's own pages */
#define READERS_MAX    512

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

static int write_checkpoint(struct lmdb_store *store, bool is_closing)
{
	uint8_t heads[REDO_HEADS_MAX];
	struct redo_checkpoint checkpoint = {
		.heads = heads, .is_closed = is_closing, .totals = store->totals};
	struct stat stat;
	ssize_t length;
	int ret;

	ret = mdb_env_sync(store->env, 1);
	if (ret == 0 && fstat(store->folder.fd, &stat) < 0)
		ret = errno;
	if (ret != 0)
		return lmdb_fail(store, "sync LMDB's file", ret);
	length = lmdb_folder_heads(&store->folder, heads);
	if (length < 0)
		return (int)length;
	checkpoint.length = (size_t)length;
	checkpoint.file_bytes = (uint64_t)stat.st_size;
	return store->folder.log ? redo_restart(store->folder.log, &checkpoint)
				 : redo_make(store->folder.path, &checkpoint, &store->folder.log);
}

/* Makes all that is committed durable in LMDB's file. If it fails, the kernel may have forgotten what it could not write. So
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
	lmdb_folder_close(&store->folder);
	pthread_rwlock_destroy(&store->map_lock);
	free(store);
}

/* ---- Commits */

/* The value, as it is stored, that a key has inside a transaction; `length` of one that does not exist is 0. */
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
		struct meta_bytes value = {0};
		MDB_val found;
		int ret = find(store, txn, compares[i].key, &found);

		if (ret != 0 && ret != MDB_NOTFOUND)
			return ret;
		if (ret == 0 && sums_check(compares[i].key, to_bytes(found), &value) < 0)
			return EAGAIN; /* who reads it hears that it is damaged */
		if (wanted->data ? ret == MDB_NOTFOUND || lmdb_compare_bytes(*wanted, value) != 0
				 : ret == 0)
			return EAGAIN;
	}
	return 0;
}

/* Counts what a transaction changes. */
struct effect {
	int64_t growth;		   /* of the bytes of keys and values */
	struct meta_totals totals; /* afterwards */
};

static int delete (const struct lmdb_store *store, MDB_txn *txn, struct meta_bytes key,
		   struct effect *effect)
{
	MDB_val name = to_val(key), old;
	int ret = find(store, txn, key, &old);

	if (ret != 0)
		return ret == MDB_NOTFOUND ? 0 : ret;
	effect->growth -= (int64_t)(key.length + old.mv_size);
	sums_remove(&effect->totals, to_bytes(old));
	return mdb_del(txn, store->table, &name, NULL);
}

static int put(const struct lmdb_store *store, MDB_txn *txn, struct meta_bytes key,
	       struct meta_bytes value, struct effect *effect)
{
	MDB_val name = to_val(key), old, stored = {value.length + SUMS_BYTES, NULL};
	int ret = find(store, txn, key, &old);

	if (ret == 0)
		sums_remove(&effect->totals, to_bytes(old));
	else if (ret == MDB_NOTFOUND)
		effect->growth += (int64_t)name.mv_size;
	else
		return ret;
	effect->growth += (int64_t)stored.mv_size - (int64_t)old.mv_size;
	ret = mdb_put(txn, store->table, &name, &stored, MDB_RESERVE);
	if (ret != 0)
		return ret;
	if (value.length != 0)
		memcpy(stored.mv_data, value.data, value.length);
	sums_make(key, value, (uint8_t *)stored.mv_data + value.length);
	sums_add(&effect->totals, to_bytes(stored));
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

static int change_all(const struct lmdb_store *store, MDB_txn *txn, const struct changes *changes,
		      struct effect *effect)
{
	int ret = 0;

	for (size_t i = 0; i < changes->nr_deletes && ret == 0; i++)
		ret = delete (store, txn, changes->deletes[i], effect);
	for (size_t i = 0; i < changes->nr_puts && ret == 0; i++)
		ret = put(store, txn, changes->puts[i].key, changes->puts[i].value, effect);
	return ret;
}

/* The functions below return this beside LMDB's codes, if they have made a sentence; its code is in `said`. */
#define SAID 1000000

static int say(struct lmdb_store *store, int code)
{
	store->said = code;
	return SAID;
}

static int append(struct lmdb_store *store, const struct changes *changes)
{
	return redo_append(store->folder.log, changes->puts, changes->nr_puts, changes->deletes,
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
	if (redo_is_broken(store->folder.log))
		store->is_broken = true;
	return say(store, ret);
}

static int commit_written(struct lmdb_store *store, MDB_txn *txn)
{
	int ret = mdb_txn_commit(txn), back;

	if (ret == 0 || store->is_ahead)
		return ret;
	back = redo_take_back(store->folder.log);
	if (back == 0)
		return ret;
	store->is_broken = true;
	return say(store, back);
}

/* One attempt. With `may_grow` 0 a transaction that makes the content larger ends as if the map
 * were full. */
static int try_commit(struct lmdb_store *store, const struct changes *changes, int may_grow)
{
	struct effect effect = {.totals = store->totals};
	MDB_txn *txn;
	int ret;

	ret = mdb_txn_begin(store->env, NULL, 0, &txn);
	if (ret != 0)
		return ret;
	ret = compare_all(store, txn, changes->compares, changes->nr_compares);
	if (ret == 0)
		ret = change_all(store, txn, changes, &effect);
	if (ret == 0 && !may_grow && effect.growth > 0)
		ret = MDB_MAP_FULL;
	if (ret == 0)
		ret = write_down(store, changes);
	if (ret != 0) {
		mdb_txn_abort(txn);
		return ret;
	}
	ret = commit_written(store, txn);
	if (ret == 0)
		store->totals = effect.totals;
	return ret;
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
		ret = lmdb_check_key(compares[i].key);
	for (size_t i = 0; i < nr_puts && ret == 0; i++)
		ret = lmdb_check_key(puts[i].key);
	for (size_t i = 0; i < nr_deletes && ret == 0; i++)
		ret = lmdb_check_key(deletes[i]);
	if (ret < 0)
		return ret;
	if (store->is_broken)
		return lmdb_fail(store, "commit", MDB_PANIC);

	pthread_rwlock_rdlock(&store->map_lock);
	ret = try_commit(store, &changes, 1);
	pthread_rwlock_unlock(&store->map_lock);
	if (ret == MDB_MAP_FULL)
		ret = commit_when_full(store, &changes);
	if (ret == EAGAIN)
		return error_fail(-EAGAIN,
				  "commit in the store %s: a key has another value than "
				  "expected; read it again",
				  store->folder.path);
	if (ret == SAID)
		return store->said;
	if (ret != 0)
		return lmdb_fail(store, "commit", ret);
	return store->is_ahead ? make_checkpoint(store, false) : 0;
}

static const struct metastore_ops lmdb_ops = {
	.name = "lmdb",
	.close = lmdb_close,
	.get = lmdb_get,
	.range = lmdb_range,
	.check = lmdb_check_records,
	.commit = lmdb_commit,
};

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

struct replay {
	struct lmdb_store *store;
	MDB_txn *txn;
	struct effect effect;
};

static int redo(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	struct replay *replay = argument;
	int ret = value.data ? put(replay->store, replay->txn, key, value, &replay->effect)
			     : delete (replay->store, replay->txn, key, &replay->effect);

	return ret == 0 ? 0 : lmdb_fail(replay->store, "replay the redo log", ret);
}

/* Does again what was committed since the checkpoint, at once. The last record may be one for which LMDB had no room. */
static int replay_log(struct lmdb_store *store)
{
	struct replay replay = {.store = store, .effect.totals = store->totals};
	int ret = mdb_txn_begin(store->env, NULL, 0, &replay.txn);

	if (ret != 0)
		return lmdb_fail(store, "replay the redo log", ret);
	ret = redo_replay(store->folder.log, redo, &replay);
	if (ret < 0) {
		mdb_txn_abort(replay.txn);
		return ret;
	}
	ret = mdb_txn_commit(replay.txn);
	if (ret != 0)
		return lmdb_fail(store, "replay the redo log", ret);
	store->totals = replay.effect.totals;
	return 0;
}

/* Opens the folder, and gives an older store its sums. */
static int open_folder(struct lmdb_store *store, const char *path)
{
	int ret = lmdb_folder_open(&store->folder, path);

	if (ret == 0 && store->folder.is_old)
		ret = lmdb_renew(&store->folder, store->size_max * 2);
	store->totals = store->folder.totals;
	return ret;
}

static int open_env(struct lmdb_store *store)
{
	int ret = mdb_env_create(&store->env);

	if (ret == 0)
		ret = mdb_env_set_mapsize(store->env, store->size_max + ROOM_TO_REPLAY);
	if (ret == 0)
		ret = mdb_env_set_maxreaders(store->env, READERS_MAX);
	/* MDB_NOTLS: a read transaction belongs to no thread, so one thread may read while it
	 * commits. */
	if (ret == 0)
		ret = mdb_env_open(store->env, store->folder.path, MDB_NOTLS | MDB_NOSYNC,
				   LMDB_FILE_MODE);
	if (ret == 0)
		ret = open_table(store);
	return ret == 0 ? 0 : lmdb_fail(store, "open", ret);
}

int metastore_lmdb_open(const char *path, size_t size_max, struct metastore **out)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct lmdb_store *store;
	int ret;

	if (strlen(path) >= PATH_MAX)
		return error_fail(-ENAMETOOLONG, "open the store: its path is too long");
	if (size_max < SIZE_MIN || size_max > SIZE_MAX / 2 - ROOM_TO_REPLAY)
		return error_fail(-EINVAL,
				  "open the store %s: a limit of %zu bytes; give at least %zu",
				  path, size_max, SIZE_MIN);
	store = calloc(1, sizeof(*store));
	if (!store)
		return error_code(-ENOMEM);
	store->base.ops = &lmdb_ops;
	store->size_max = size_max / page * page;
	pthread_rwlock_init(&store->map_lock, NULL);

	ret = open_folder(store, path);
	if (ret == 0)
		ret = open_env(store);
	if (ret == 0)
		ret = lmdb_folder_open_file(&store->folder);
	if (ret == 0 && store->folder.log)
		ret = replay_log(store);
	if (ret == 0)
		mdb_env_set_mapsize(store->env, store->size_max); /* if it is no more than that */
	if (ret == 0)
		ret = make_checkpoint(store, false);
	if (ret < 0) {
		lmdb_close(&store->base);
		return ret;
	}
	store->is_open = true;
	*out = &store->base;
	return 0;
}
