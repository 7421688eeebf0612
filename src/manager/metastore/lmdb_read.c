/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading from LMDB, and what is said when it fails; see lmdb.c. */
#include <errno.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manager/metastore/lmdb_private.h"
#include "manager/metastore/sums.h"

/* ---- Errors */

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

int lmdb_fail(const struct lmdb_store *store, const char *asked, int ret)
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

static int fail_damaged(const struct lmdb_store *store, struct meta_bytes key)
{
	return error_fail(-EBADMSG,
			  "read a record of kind '%c' in the store %s: it is damaged; 'afar "
			  "manager check' shows what it is",
			  *(const char *)key.data, store->folder.path);
}

int lmdb_check_key(struct meta_bytes key)
{
	if (key.length == 0 || key.length > METASTORE_KEY_MAX)
		return error_fail(-EINVAL, "metastore key: %zu bytes long; 1 to %d can be stored",
				  key.length, METASTORE_KEY_MAX);
	return 0;
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

int lmdb_get(struct metastore *base, struct meta_bytes key, void **value, size_t *length)
{
	struct lmdb_store *store = lmdb_of(base);
	MDB_val name = to_val(key), stored;
	struct meta_bytes found;
	MDB_txn *txn;
	int ret;

	ret = lmdb_check_key(key);
	if (ret < 0)
		return ret;
	ret = begin_read(store, &txn);
	if (ret != 0)
		return lmdb_fail(store, "get", ret);
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
	return ret == 0 ? 0 : lmdb_fail(store, "get", ret);
}

int lmdb_compare_bytes(struct meta_bytes left, struct meta_bytes right)
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
	bool is_after = lmdb_compare_bytes(after, prefix) >= 0 && after.length != 0;
	int ret, stopped = 0;
	MDB_cursor *cursor;
	MDB_val key, value;
	MDB_txn *txn;

	if (prefix.length > METASTORE_KEY_MAX)
		return lmdb_check_key(prefix);
	if (after.length > METASTORE_KEY_MAX)
		return lmdb_check_key(after);
	ret = begin_read(store, &txn);
	if (ret != 0)
		return lmdb_fail(store, "range", ret);
	ret = mdb_cursor_open(txn, store->table, &cursor);
	if (ret != 0)
		goto out_txn;
	ret = seek(cursor, is_after ? after : prefix, &key, &value);
	if (ret == 0 && is_after && lmdb_compare_bytes(to_bytes(key), after) == 0)
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
	return ret == 0 || ret == MDB_NOTFOUND ? 0 : lmdb_fail(store, "range", ret);
}

static int show_pair(const struct lmdb_store *store, const struct ranging *ranging,
		     struct meta_bytes key, struct meta_bytes stored)
{
	struct meta_bytes value;

	if (sums_check(key, stored, &value) < 0)
		return fail_damaged(store, key);
	return ranging->pair(ranging->argument, key, value);
}

int lmdb_range(struct metastore *base, struct meta_bytes prefix, struct meta_bytes after,
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

int lmdb_check_records(struct metastore *base, struct meta_bytes prefix, struct meta_bytes after,
		       size_t max,
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
