/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: populated, page-aligned anonymous memory, on huge pages if there are any, and a cache
 * of released segments. Servers take extents from it, and clients mappings. Populating is the slow
 * part of both (Trivedi, Fig. 6.3). The cache is what makes the second time fast (§6.3.2).
 */
#ifndef MEMORY_SEGMENT_H
#define MEMORY_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#define SEGMENT_MIN ((size_t)2 << 20) /* segments are multiples of this: one huge page */

/* The memory behind a segment, the best first. */
enum segment_backing {
	SEGMENT_HUGETLB,     /* from the reserved pool of huge pages */
	SEGMENT_TRANSPARENT, /* transparent huge pages, if the kernel gives them */
};

/*
 * Maps and populates `length` bytes (a multiple of SEGMENT_MIN), zeroed, with up to `nr_threads`
 * threads (0: one per core). Takes reserved huge pages if all of it fits into the free ones,
 * otherwise transparent ones. Thread-safe. Errors, with a sentence: -EINVAL (length); -ENOMEM
 * (address space, or more than the machine or the control group has left): nothing is kept.
 */
int segment_map(size_t length, unsigned nr_threads, void **addr, enum segment_backing *backing);

/*
 * Maps a piece of shared memory (base/shared.h) in the same way, for lending to other processes of
 * this machine. It is on transparent huge pages if the kernel has them for such memory. Unmap such
 * a segment as a whole. Errors are those of segment_map() and of shared_map().
 */
int segment_map_shared(size_t length, unsigned nr_threads, void **addr);

/* Checks that this much could be mapped now, in several segments. 0, or -ENOMEM with a sentence. */
int segment_fits(uint64_t bytes);

/* Returns memory, or a part of it (multiples of SEGMENT_MIN), to the system. */
void segment_unmap(void *addr, size_t length);

/* Zeroes memory without evicting others' data from the caches: it uses streaming stores if the CPU
 * has them. */
void segment_scrub(void *addr, size_t length);

/* ---- The cache: released segments, kept up to a limit, the least recent let go first */

struct segment_cache;

/* Keeps up to `bytes_max` of released segments. */
int segment_cache_open(uint64_t bytes_max, struct segment_cache **out);
/* Unmaps the kept segments. Segments that were taken from it stay their holders'. */
void segment_cache_close(struct segment_cache *cache);

/* Takes a kept segment (the best fit; a larger one is split), or maps a fresh one. A kept one has
 * its old content; `*is_fresh` tells which it is. Thread-safe. Errors are those of
 * segment_map(). */
int segment_cache_take(struct segment_cache *cache, size_t length, void **addr, int *is_fresh);
/* Gives a segment back, to be kept or unmapped. Thread-safe. */
void segment_cache_give(struct segment_cache *cache, void *addr, size_t length);
/* Returns the bytes that it keeps now. */
uint64_t segment_cache_bytes(struct segment_cache *cache);

struct segment_cache_stat {
	uint64_t bytes, bytes_max; /* kept                            */
	uint64_t nr_hits;	   /* taken from the kept segments */
	uint64_t nr_misses;	   /* mapped and populated for a taker */
};
void segment_cache_stat(struct segment_cache *cache, struct segment_cache_stat *out);

#endif
