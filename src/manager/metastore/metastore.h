/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The metastore seam: an ordered map of short byte strings with atomic, durable commits, which both
 * LMDB and etcd can be. One implementation per file; docs/adding-a-metastore.md says how to add
 * one.
 *
 * Threads: one thread commits; get and range may run on any.
 */
#ifndef METASTORE_H
#define METASTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define METASTORE_KEY_MAX 400 /* bytes */

struct meta_bytes {
	const void *data;
	size_t length;
};

struct meta_put {
	struct meta_bytes key;
	struct meta_bytes value;
};

/* A condition: the key has this value now; `value.data` NULL: it does not exist. */
struct meta_compare {
	struct meta_bytes key;
	struct meta_bytes value;
};

struct metastore {
	const struct metastore_ops *ops;
};

struct metastore_ops {
	const char *name; /* of the implementation */

	/* Closes it; everything committed is durable. */
	void (*close)(struct metastore *store);

	/* Copies the value into a buffer that the caller frees. -ENOENT; -EBADMSG: the record is
	 * not what was committed. */
	int (*get)(struct metastore *store, struct meta_bytes key, void **value, size_t *length);

	/* Visits at most `max` pairs (SIZE_MAX: all) whose key begins with `prefix` and comes after
	 * `after`, which need not exist; empty: from the first. Keys come in byte order: as
	 * memcmp() compares them, and a key before those that it begins. All of one call is as of
	 * one moment; the bytes are valid during the visit. Stops and returns what `visit` returns
	 * when that is not 0. Need not allow a commit from inside a visit. -EINVAL: `prefix` or
	 * `after` is longer than a key can be. -EBADMSG: a record is not what was committed. */
	int (*range)(struct metastore *store, struct meta_bytes prefix, struct meta_bytes after,
		     size_t max,
		     int (*visit)(void *argument, struct meta_bytes key, struct meta_bytes value),
		     void *argument);

	/* Visits as range() does, and tells of each key whether its record is damaged. */
	int (*check)(struct metastore *store, struct meta_bytes prefix, struct meta_bytes after,
		     size_t max,
		     int (*visit)(void *argument, struct meta_bytes key, bool is_damaged),
		     void *argument);

	/* If all compares hold, does all puts and deletes (of keys that may not exist) at once, and
	 * returns 0 when they are durable. -EAGAIN: a compare failed. -ENOSPC, -EIO, …: nothing was
	 * done. If the disk does not even let that be made sure, a restart will tell, and all later
	 * commits fail. */
	int (*commit)(struct metastore *store, const struct meta_compare *compares,
		      size_t nr_compares, const struct meta_put *puts, size_t nr_puts,
		      const struct meta_bytes *deletes, size_t nr_deletes);
};

/* Opens or makes an LMDB store in the folder `path`, of at most `size_max` bytes. Locks it: -EBUSY
 * when another process has it open. All of it is read, and compared with its sums. -EBADMSG: a page or
 * a key is damaged, or records are missing. Damaged values are logged. Errors with a sentence. */
int metastore_lmdb_open(const char *path, size_t size_max, struct metastore **out);

/* Damage, in a sentence: of a record, or, with a key of no bytes, of something else. */
typedef void metastore_found(void *argument, struct meta_bytes key, const char *sentence);

/* Reads all of an LMDB store that nobody has open, and changes nothing but its lock's file. Tells each
 * damage. Returns the number of its records. -ENOENT: there is no store. -EBUSY: somebody has it open.
 * Other errors, each with a sentence, are damage, too, or that of the disk. */
int64_t metastore_lmdb_check(const char *path, metastore_found *found, void *argument);

#endif
