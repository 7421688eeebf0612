/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring of blocks, and a hash table over its places. */
#include "memory/cache_history.h"

#include <stdlib.h>

#define NOWHERE UINT32_MAX

struct remembered {
	uint64_t range;
	uint32_t block;
	uint32_t nr_uses; /* 0: the place is free */
	uint32_t next;	  /* of its bucket */
};

struct cache_history {
	struct remembered *ring;
	uint32_t *buckets; /* places of the ring */
	uint32_t nr, mask;
	uint32_t at; /* where the next one goes: the oldest is there */
};

struct cache_history *cache_history_open(uint32_t nr)
{
	struct cache_history *history = calloc(1, sizeof(*history));

	if (!history)
		return NULL;
	history->nr = nr;
	history->mask = cache_buckets(nr) - 1;
	history->ring = calloc(nr, sizeof(*history->ring));
	history->buckets = malloc(((size_t)history->mask + 1) * sizeof(*history->buckets));
	if (!history->ring || !history->buckets) {
		cache_history_close(history);
		return NULL;
	}
	for (uint64_t i = 0; i <= history->mask; i++)
		history->buckets[i] = NOWHERE;
	return history;
}

void cache_history_close(struct cache_history *history)
{
	if (!history)
		return;
	free(history->ring);
	free(history->buckets);
	free(history);
}

static uint32_t *bucket_of(struct cache_history *history, uint64_t range, uint32_t block)
{
	return &history->buckets[cache_hash(range, block) & history->mask];
}

uint32_t cache_history_take(struct cache_history *history, uint64_t range, uint32_t block)
{
	uint32_t *link = bucket_of(history, range, block), nr_uses;

	for (; *link != NOWHERE; link = &history->ring[*link].next) {
		struct remembered *found = &history->ring[*link];

		if (found->range != range || found->block != block)
			continue;
		*link = found->next;
		nr_uses = found->nr_uses;
		found->nr_uses = 0;
		return nr_uses;
	}
	return 0;
}

void cache_history_add(struct cache_history *history, uint64_t range, uint32_t block,
		       uint32_t nr_uses)
{
	struct remembered *place = &history->ring[history->at];
	uint32_t *bucket = bucket_of(history, range, block);

	if (place->nr_uses > 0)
		cache_history_take(history, place->range, place->block);
	*place = (struct remembered){range, block, nr_uses, *bucket};
	*bucket = history->at;
	history->at = (history->at + 1) % history->nr;
}
