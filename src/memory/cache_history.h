/* SPDX-License-Identifier: BSD-3-Clause */
/* How often blocks were used that the cache has no frame of any more. The oldest are forgotten first.
 * Called by cache.c. */
#ifndef MEMORY_CACHE_HISTORY_H
#define MEMORY_CACHE_HISTORY_H

#include <stdint.h>

struct cache_history;

/* Remembers up to `nr` blocks, at least 1. NULL: there is no memory. */
struct cache_history *cache_history_open(uint32_t nr);
void cache_history_close(struct cache_history *history);
/* The block must not be in there. */
void cache_history_add(struct cache_history *history, uint64_t range, uint32_t block,
		       uint32_t nr_uses);
/* Takes it out. Returns its uses; 0: it is not there. */
uint32_t cache_history_take(struct cache_history *history, uint64_t range, uint32_t block);

/* A number for the table of a block: even in all its bits. */
static inline uint64_t cache_hash(uint64_t range, uint32_t block)
{
	uint64_t hash = range * UINT64_C(0x9e3779b97f4a7c15) + block;

	hash = (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
	hash = (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return hash ^ hash >> 32;
}

/* Returns the power of two that is at least `nr`. */
static inline uint32_t cache_buckets(uint32_t nr)
{
	uint32_t nr_buckets = 1;

	while (nr_buckets < nr && nr_buckets < UINT32_C(1) << 31)
		nr_buckets *= 2;
	return nr_buckets;
}

#endif
