/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cache of released segments: free pieces of memory in the order of their release, under one
 * lock. Owns the pieces it keeps. The slow parts, mapping and unmapping, happen outside the lock.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <urcu/list.h>

#include "base/error.h"
#include "memory/segment.h"

struct piece {
	struct cds_list_head node;
	char *addr;
	size_t length;
};

struct segment_cache {
	pthread_mutex_t lock;
	struct cds_list_head pieces; /* least recently given last */
	uint64_t bytes;
	uint64_t bytes_max;
	uint64_t nr_hits, nr_misses;
};

int segment_cache_open(uint64_t bytes_max, struct segment_cache **out)
{
	struct segment_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return error_code(-ENOMEM);
	pthread_mutex_init(&cache->lock, NULL);
	CDS_INIT_LIST_HEAD(&cache->pieces);
	cache->bytes_max = bytes_max;
	*out = cache;
	return 0;
}

/* Unmaps and frees pieces that are in no cache any more. */
static void pieces_unmap(struct cds_list_head *pieces)
{
	struct piece *piece, *next;

	cds_list_for_each_entry_safe (piece, next, pieces, node) {
		segment_unmap(piece->addr, piece->length);
		free(piece);
	}
}

/* Moves the least recently given pieces to `out` until at most `bytes_max` are kept. The last one is
 * shortened: what of it goes is returned in `*part`, whose length is 0 if there is no such thing. */
static void trim(struct segment_cache *cache, uint64_t bytes_max, struct cds_list_head *out,
		 struct piece *part)
{
	struct piece *oldest;
	uint64_t excess;

	part->length = 0;
	while (cache->bytes > bytes_max) {
		excess = cache->bytes - bytes_max;
		oldest = cds_list_entry(cache->pieces.prev, struct piece, node);
		if (oldest->length > excess) {
			excess = (excess + SEGMENT_MIN - 1) / SEGMENT_MIN * SEGMENT_MIN;
			if (excess < oldest->length) {
				oldest->length -= excess;
				part->addr = oldest->addr + oldest->length;
				part->length = excess;
				cache->bytes -= excess;
				return;
			}
		}
		cache->bytes -= oldest->length;
		cds_list_del(&oldest->node);
		cds_list_add(&oldest->node, out);
	}
}

/* Lets go all but `bytes_max`. */
static void cache_trim(struct segment_cache *cache, uint64_t bytes_max)
{
	CDS_LIST_HEAD(gone);
	struct piece part;

	pthread_mutex_lock(&cache->lock);
	trim(cache, bytes_max, &gone, &part);
	pthread_mutex_unlock(&cache->lock);
	if (part.length > 0)
		segment_unmap(part.addr, part.length);
	pieces_unmap(&gone);
}

void segment_cache_close(struct segment_cache *cache)
{
	if (!cache)
		return;
	cache_trim(cache, 0);
	pthread_mutex_destroy(&cache->lock);
	free(cache);
}

static struct piece *best_fit(struct segment_cache *cache, size_t length)
{
	struct piece *piece, *best = NULL;

	cds_list_for_each_entry (piece, &cache->pieces, node) {
		if (piece->length >= length && (!best || piece->length < best->length))
			best = piece;
		if (best && best->length == length)
			break;
	}
	return best;
}

static bool take_kept(struct segment_cache *cache, size_t length, void **addr)
{
	struct piece *piece, *used_up = NULL;
	bool is_found;

	pthread_mutex_lock(&cache->lock);
	piece = best_fit(cache, length);
	is_found = piece;
	cache->nr_hits += is_found;
	cache->nr_misses += !is_found;
	if (is_found) {
		*addr = piece->addr;
		piece->addr += length;
		piece->length -= length;
		cache->bytes -= length;
		if (piece->length == 0) {
			cds_list_del(&piece->node);
			used_up = piece;
		}
	}
	pthread_mutex_unlock(&cache->lock);
	free(used_up);
	return is_found;
}

int segment_cache_take(struct segment_cache *cache, size_t length, void **addr, int *is_fresh)
{
	enum segment_backing backing;
	int ret;

	*is_fresh = 0;
	if (length > 0 && length % SEGMENT_MIN == 0 && take_kept(cache, length, addr))
		return 0;
	*is_fresh = 1;
	ret = segment_map(length, 0, addr, &backing);
	if (ret == -ENOMEM && segment_cache_bytes(cache) > 0) {
		/* The memory that is missing is what we keep for later. */
		cache_trim(cache, 0);
		ret = segment_map(length, 0, addr, &backing);
	}
	return ret;
}

/* Makes one piece of two that touch, so that a segment that was split can be whole again. Returns the
 * piece that `piece` absorbed, for the caller to free, or NULL. */
static struct piece *merge_one(struct segment_cache *cache, struct piece *piece)
{
	struct piece *other;

	cds_list_for_each_entry (other, &cache->pieces, node) {
		if (other->addr + other->length == piece->addr)
			piece->addr = other->addr;
		else if (piece->addr + piece->length != other->addr)
			continue;
		piece->length += other->length;
		cds_list_del(&other->node);
		return other;
	}
	return NULL;
}

void segment_cache_give(struct segment_cache *cache, void *addr, size_t length)
{
	struct piece *piece = malloc(sizeof(*piece)), *before, *after, part;
	CDS_LIST_HEAD(gone);

	if (!piece) {
		segment_unmap(addr, length);
		return;
	}
	piece->addr = addr;
	piece->length = length;

	pthread_mutex_lock(&cache->lock);
	before = merge_one(cache, piece);
	after = merge_one(cache, piece);
	cds_list_add(&piece->node, &cache->pieces);
	cache->bytes += length;
	trim(cache, cache->bytes_max, &gone, &part);
	pthread_mutex_unlock(&cache->lock);

	free(before);
	free(after);
	if (part.length > 0)
		segment_unmap(part.addr, part.length);
	pieces_unmap(&gone);
}

uint64_t segment_cache_bytes(struct segment_cache *cache)
{
	uint64_t bytes;

	pthread_mutex_lock(&cache->lock);
	bytes = cache->bytes;
	pthread_mutex_unlock(&cache->lock);
	return bytes;
}

void segment_cache_stat(struct segment_cache *cache, struct segment_cache_stat *out)
{
	pthread_mutex_lock(&cache->lock);
	*out = (struct segment_cache_stat){
		.bytes = cache->bytes,
		.bytes_max = cache->bytes_max,
		.nr_hits = cache->nr_hits,
		.nr_misses = cache->nr_misses,
	};
	pthread_mutex_unlock(&cache->lock);
}
