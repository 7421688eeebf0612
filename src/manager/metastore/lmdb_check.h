/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares LMDB's file with the sums that the store keeps: behind each value, and, in the redo log's checkpoint, of all pairs
 * together. The file is read without LMDB, and nothing is changed.
 */
#ifndef METASTORE_LMDB_CHECK_H
#define METASTORE_LMDB_CHECK_H

#include "manager/metastore/metastore.h"
#include "manager/metastore/redo.h"

struct lmdb_findings {
	struct meta_totals totals; /* of the pairs that were found */
	uint64_t nr_values;	   /* pairs whose value is damaged, and nothing else */
	uint64_t nr_keys;	   /* pairs whose key is damaged, or that have no sums */
	uint64_t nr_pages;	   /* damaged pages: pairs may be missing */
	char first[256];	   /* a sentence about one of them */
};

/* `found`, unless it is NULL, is told each damage. Returns 0, whatever is found; -EBADMSG: LMDB's heads are damaged, with a
 * sentence; -ENOMEM. */
int lmdb_check(int fd, const struct redo_checkpoint *checkpoint, metastore_found *found,
	       void *argument, struct lmdb_findings *out);

#endif
