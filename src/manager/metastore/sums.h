/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sums that a store keeps behind each value: CRC32C of the key, and of the key and the value. Two, because they tell apart
 * what is damaged. A value that is damaged is one record that cannot be read. A key that is damaged makes another record
 * seem not to exist.
 *
 * Totals of all pairs show a record that is missing, or an older one that came back.
 */
#ifndef METASTORE_SUMS_H
#define METASTORE_SUMS_H

#include "manager/metastore/metastore.h"

#define SUMS_BYTES 8U

struct meta_totals {
	uint64_t nr_pairs;
	uint64_t sum; /* of the second sums, modulo 2^64 */
};

/* Writes the sums of a pair. */
void sums_make(struct meta_bytes key, struct meta_bytes value, uint8_t sums[SUMS_BYTES]);

/* Takes a value as it is stored apart. Returns 0 and the value without its sums. -EBADMSG: the value is damaged. -EILSEQ:
 * the key is, or there are no sums. None with a sentence. */
int sums_check(struct meta_bytes key, struct meta_bytes stored, struct meta_bytes *value);

/* A pair as it is stored comes to the totals, or leaves them. */
void sums_add(struct meta_totals *totals, struct meta_bytes stored);
void sums_remove(struct meta_totals *totals, struct meta_bytes stored);

#endif
