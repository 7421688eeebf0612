/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which bucket an item belongs to. Splitters are items of a sample, at equal distances in its order. Equal items are told
 * apart by their positions in the input, so that they, too, are divided among buckets. Pure: no I/O.
 */
#ifndef APPS_SORT_SPLITTERS_H
#define APPS_SORT_SPLITTERS_H

#include <stddef.h>
#include <stdint.h>

#define SAMPLE_BYTES_MAX 256U

/* An item of the sample, as workers publish it. One that is longer is cut, and counts as the item that it is then. Its
 * position is 0, because no order among equal ones is known. */
struct sample {
	uint64_t position; /* of the item's first byte in the input */
	uint32_t length;
	uint32_t reserved;
	uint8_t bytes[SAMPLE_BYTES_MAX];
};

_Static_assert(sizeof(struct sample) == 272, "workers exchange it");

struct splitters;

/* Makes a sample of an item. */
void sample_make(struct sample *out, const uint8_t *item, size_t length, uint64_t position);

/*
 * Makes splitters for up to `nr_buckets` buckets out of `nr` samples, which it puts in order. Without samples there is one
 * bucket. The samples may be anything: a length beyond SAMPLE_BYTES_MAX is -EBADMSG. -ENOMEM. splitters_free() ends it.
 */
int splitters_make(struct sample *samples, size_t nr, unsigned nr_buckets, struct splitters **out);
void splitters_free(struct splitters *splitters);

/* Returns the bucket of an item, from 0 on: how many splitters are not behind it. */
unsigned splitters_find(const struct splitters *splitters, const uint8_t *item, size_t length,
			uint64_t position);

#endif
