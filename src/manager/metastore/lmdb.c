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
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <afar/error.h>

#include "base/error.h"
#include "base/log.h"
#include "manager/metastore/lmdb_folder.h"
#include "manager/metastore/metastore.h"
#include "manager/metastore/sums.h"

#define HEADROOM       ((size_t)1 << 20)
#define ROOM_TO_REPLAY ((size_t)8 << 20)
#define SIZE_MIN       ((size_t)64 << 10) /* less does not hold LMDB's own pages */
#define READERS_MAX    512

struct lmdb_store {
	struct metastore base;
	MDB_env *env;
	MDB_dbi table;
	MDB_txn *checkpoint; /* the last one, whose pages stay as they are; NULL: they need not */
	struct lmdb_folder folder;
	bool is_open;	       /* it has been, so closing it is a checkpoint */
	atomic_bool is_ahead;  /* LMDB has a commit that is not in the log: a checkpoint follows */
	atomic_bool is_broken; /* what is on the disk is not known: nothing comes after it */
	int said;	       /* see SAID */
	struct meta_totals totals; /* of all that is committed */
	size_t size_max;
	pthread_rwlock_t map_lock; /* readers: transactions; writer: changing the map's size */
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
				  asked, store->folder.path, store->size_max >> 20);
	if (ret == ENOSPC)
		return error_fail(code,
				  "%s in the manager's store %s: its disk is full; make room on it",
				  asked, store->folder.path);
	if (ret == ENOMEM)
		return error_fail(
			code,
			"%s in the manager's store %s: there is no memory, or no room in "
			"the address space for its map of up to %zu MiB; raise that limit "
			"(ulimit -v)",
			asked, store->folder.path, store->size_max >> 20);
	if (ret == MDB_PANIC)
		return error_fail(code,
				  "%s in the store %s: an earlier write failed; mend the disk and "
				  "restart the manager",
				  asked, store->folder.path);
	return error_fail(code, "%s in the store %s: %s; check the disk", asked, store->folder.path,
			  mdb_strerror(ret));
}

static MDB_val to_val(struct meta_bytes bytes)
{
	return (MDB_val){.mv_size = bytes.length, .mv_data = (void *)(uintptr_t)bytes.data};
}

static struct meta_bytes to_bytes(MDB_val val)
{
	return (struct meta_bytes){val.mv_data, val.mv_size};
}

static int fail_damaged(const struct lmdb_store *store, struct meta_bytes key)
{
	return error_fail(-EBADMSG,
			  "read a record of kind '%c' in the store %s: it is damaged; 'afar "
			  "manager check' shows what it is",
			  *(const char *)key.data, store->folder.path);
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
		return fail(store, "sync LMDB's file", ret);
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
	MDB_val name = to_val(key), stored;
	struct meta_bytes found;
	MDB_txn *txn;
	int ret;

	ret = check_key(key);
	if (ret < 0)
		return ret;
	ret = begin_read(store, &txn);
	if (ret != 0)
		return fail(store, "get", ret);
	ret = mdb_get(txn, store->table, &name, &stored);
	if (ret == 0 && sums_check(key, to_bytes(stored), &found) < 0)
		ret = EBADMSG;
	if (ret == 0) {
		*value = malloc(found.length != 0 ? found.length : 1);
		if (*value) {
			memcpy(*value, found.data, found.length);
			*length = found.length;
		} else {
			ret = ENOMEM;
		}
	}
	end_read(store, txn);
	if (ret == EBADMSG)
		return fail_damaged(store, key);
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

struct ranging {
	struct meta_bytes prefix, after;
	size_t max;
	/* Is shown each pair as it is stored. Returns what ends the range, or 0. */
	int (*show)(const struct lmdb_store *store, const struct ranging *ranging,
		    struct meta_bytes key, struct meta_bytes stored);
	union {
		int (*pair)(void *argument, struct meta_bytes key, struct meta_bytes value);
		int (*key)(void *argument, struct meta_bytes key, bool is_damaged);
	};
	void *argument;
};

static int range(struct lmdb_store *store, const struct ranging *ranging)
{
	const struct meta_bytes prefix = ranging->prefix, after = ranging->after;
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
	if (ret == 0 && is_after && compare_bytes(to_bytes(key), after) == 0)
		ret = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
	for (size_t i = 0; i < ranging->max && ret == 0 && has_prefix(&key, prefix); i++) {
		stopped = ranging->show(store, ranging, to_bytes(key), to_bytes(value));
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

static int show_pair(const struct lmdb_store *store, const struct ranging *ranging,
		     struct meta_bytes key, struct meta_bytes stored)
{
	struct meta_bytes value;

	if (sums_check(key, stored, &value) < 0)
		return fail_damaged(store, key);
	return ranging->pair(ranging->argument, key, value);
}

static int lmdb_range(struct metastore *base, struct meta_bytes prefix, struct meta_bytes after,
		      size_t max,
		      int (*visit)(void *argument, struct meta_bytes key, struct meta_bytes value),
		      void *argument)
{
	return range(lmdb_of(base), &(struct ranging){.prefix = prefix,
						      .after = after,
						      .max = max,
						      .show = show_pair,
						      .pair = visit,
						      .argument = argument});
}

static int show_key(const struct lmdb_store *store, const struct ranging *ranging,
		    struct meta_bytes key, struct meta_bytes stored)
{
	struct meta_bytes value;

	if (key.length > METASTORE_KEY_MAX)
		return fail_damaged(store, key);
	return ranging->key(ranging->argument, key, sums_check(key, stored, &value) < 0);
}

static int lmdb_check_records(struct metastore *base, struct meta_bytes prefix,
			      struct meta_bytes after, size_t max,
			      int (*visit)(void *argument, struct meta_bytes key, bool is_damaged),
			      void *argument)
{
	return range(lmdb_of(base), &(struct ranging){.prefix = prefix,
						      .after = after,
						      .max = max,
						      .show = show_key,
						      .key = visit,
						      .argument = argument});
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
		if (wanted->data ? ret == MDB_NOTFOUND || compare_bytes(*wanted, value) != 0
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
				  store->folder.path);
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

	return ret == 0 ? 0 : fail(replay->store, "replay the redo log", ret);
}

/* Does again what was committed since the checkpoint, at once. The last record may be one for which LMDB had no room. */
static int replay_log(struct lmdb_store *store)
{
	struct replay replay = {.store = store, .effect.totals = store->totals};
	int ret = mdb_txn_begin(store->env, NULL, 0, &replay.txn);

	if (ret != 0)
		return fail(store, "replay the redo log", ret);
	ret = redo_replay(store->folder.log, redo, &replay);
	if (ret < 0) {
		mdb_txn_abort(replay.txn);
		return ret;
	}
	ret = mdb_txn_commit(replay.txn);
	if (ret != 0)
		return fail(store, "replay the redo log", ret);
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
	return ret == 0 ? 0 : fail(store, "open", ret);
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
