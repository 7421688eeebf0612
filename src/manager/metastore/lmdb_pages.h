/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the pages of LMDB's file without LMDB, which trusts them. With a damaged one LMDB may find nothing where there
 * is something, overwrite what it needs, or crash. Here each page is read once, and has to be just what LMDB writes.
 *
 * The format is that of LMDB 0.9 (data version 1), as mdb.c describes it. There are two heads, of which the one with the later
 * transaction counts. One tree has the pairs, the other the pages that are free.
 */
#ifndef METASTORE_LMDB_PAGES_H
#define METASTORE_LMDB_PAGES_H

#include <stddef.h>

#include "manager/metastore/metastore.h"

struct pages_visitor {
	/* Is shown each pair, in order; the value with what the store keeps behind it. */
	void (*pair)(void *argument, struct meta_bytes key, struct meta_bytes stored);
	/* Is told what is wrong with a page, in a sentence; what only that page leads to is not read. */
	void (*fault)(void *argument, const char *sentence);
	void *argument;
};

/* Returns how many bytes both heads have, of a file that begins with these; 0: it is none of LMDB's. */
size_t pages_heads_length(const void *start, size_t length);

/* Reads all that the heads lead to, which are both, as LMDB's file begins with them. Returns 0, whatever is found. -EBADMSG: the
 * heads are none of LMDB's, with a sentence. -ENOMEM. */
int pages_walk(int fd, const void *heads, size_t length, const struct pages_visitor *visitor);

#endif
