/* SPDX-License-Identifier: BSD-3-Clause */
/* The metastore in LMDB, as lmdb.c and lmdb_read.c see it. */
#ifndef METASTORE_LMDB_PRIVATE_H
#define METASTORE_LMDB_PRIVATE_H

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "manager/metastore/lmdb_folder.h"
#include "manager/metastore/metastore.h"

struct lmdb_store {
	struct metastore base;
	MDB_env *env;
	MDB_dbi table;
	MDB_txn *checkpoint; /* the last one, whose pages stay as they are; NULL: they need not */
	struct lmdb_folder folder;
	bool is_open;	       /* it has been, so closing it is a checkpoint */
	atomic_bool is_ahead;  /* LMDB has a commit that is not in the log: a checkpoint follows */
	atomic_bool is_broken; /* what is on the disk is not known: nothing comes after it */
	int said;	       /* see SAID in lmdb.c */
	struct meta_totals totals; /* of all that is committed */
	size_t size_max;
	pthread_rwlock_t map_lock; /* readers: transactions; writer: changing the map's size */
};

static inline struct lmdb_store *lmdb_of(struct metastore *store)
{
	return (struct lmdb_store *)store;
}

static inline MDB_val to_val(struct meta_bytes bytes)
{
	return (MDB_val){.mv_size = bytes.length, .mv_data = (void *)(uintptr_t)bytes.data};
}

static inline struct meta_bytes to_bytes(MDB_val val)
{
	return (struct meta_bytes){val.mv_data, val.mv_size};
}

/* The sentence for what LMDB has returned. */
int lmdb_fail(const struct lmdb_store *store, const char *asked, int ret);
/* -EINVAL, with a sentence: the key is too long, or empty. */
int lmdb_check_key(struct meta_bytes key);
/* The order in which LMDB keeps keys. */
int lmdb_compare_bytes(struct meta_bytes left, struct meta_bytes right);

/* metastore_ops */
int lmdb_get(struct metastore *base, struct meta_bytes key, void **value, size_t *length);
int lmdb_range(struct metastore *base, struct meta_bytes prefix, struct meta_bytes after,
	       size_t max,
	       int (*visit)(void *argument, struct meta_bytes key, struct meta_bytes value),
	       void *argument);
int lmdb_check_records(struct metastore *base, struct meta_bytes prefix, struct meta_bytes after,
		       size_t max,
		       int (*visit)(void *argument, struct meta_bytes key, bool is_damaged),
		       void *argument);

#endif
