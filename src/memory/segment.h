/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: populated, page-aligned anonymous memory on huge pages where there are any, and a cache of
 * released ones. Servers take extents from it, clients take mappings: populating is the slow part
 * of both (Trivedi, Fig. 6.3), and the cache is what makes the second time fast (§6.3.2).
 */
#ifndef MEMORY_SEGMENT_H
#define MEMORY_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#define SEGMENT_MIN ((size_t)2 << 20) /* segments are multiples of this: one huge page */

/* What backs a segment, best first. */
enum segment_backing {
	SEGMENT_HUGETLB,     /* from the reserved pool of huge pages */
	SEGMENT_TRANSPARENT, /* transparent huge pages, if the kernel is in the mood */
};

/*
 * Maps and populates `length` bytes (a multiple of SEGMENT_MIN), zeroed, with up to `nr_threads` threads
 * (0: one per core). Takes reserved huge pages when all of it fits into what is free, else transparent
 * ones. Thread-safe. Errors, with a sentence: -EINVAL (length), -ENOMEM (address space, or more than the
 * machine or the control group has left: nothing is kept).
 */
int segment_map(size_t length, unsigned nr_threads, void **addr, enum segment_backing *backing);

/*
 * The same as a piece of shared memory (base/shared.h), for lending to other processes of this machine; on
 * transparent huge pages where the kernel has them for such memory. Such a segment is unmapped whole. Errors as
 * segment_map(), and those of shared_map().
 */
int segment_map_shared(size_t length, unsigned nr_threads, void **addr);

/* Whether so much could be mapped now, in several segments: 0, or -ENOMEM with a sentence. */
int segment_fits(uint64_t bytes);

/* Returns memory, or a part of it (multiples of SEGMENT_MIN), to the system. */
void segment_unmap(void *addr, size_t length);

/* Zeroes memory without taking it from the caches of others: streaming stores where the CPU has them. */
void segment_scrub(void *addr, size_t length);

/* ---- The cache: released segments, kept up to a limit, the least recent let go first */

struct segment_cache;

/* Keeps up to `bytes_max` of released segments. */
int segment_cache_open(uint64_t bytes_max, struct segment_cache **out);
/* Unmaps what it keeps. Segments taken from it stay their holders'. */
void segment_cache_close(struct segment_cache *cache);

/* Takes a kept segment (the best fit; a larger one is split) or maps a fresh one. Kept ones have their
 * old content. `*is_fresh` tells. Thread-safe. Errors as segment_map(). */
int segment_cache_take(struct segment_cache *cache, size_t length, void **addr, int *is_fresh);
/* Gives one back, to be kept or unmapped. Thread-safe. */
void segment_cache_give(struct segment_cache *cache, void *addr, size_t length);
/* Bytes kept now. */
uint64_t segment_cache_bytes(struct segment_cache *cache);

struct segment_cache_stat {
	uint64_t bytes, bytes_max; /* kept                            */
	uint64_t nr_hits;	   /* taken from what was kept        */
	uint64_t nr_misses;	   /* mapped and populated for a taker */
};
void segment_cache_stat(struct segment_cache *cache, struct segment_cache_stat *out);

#endif
