/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lookups in the pool of extents: who has which extent, where it is, how much there is. Owns
 * nothing, and changes nothing, except that it notes that an extent was reached.
 */
#include <errno.h>

#include "base/error.h"
#include "server/memory/extent_book.h"

bool extent_pool_has(struct extent_pool *pool, uint64_t namespace)
{
	const struct extent *extent;
	bool is_found = false;

	pthread_mutex_lock(&pool->lock);
	cds_list_for_each_entry (extent, &pool->granted, node) {
		is_found = extent->namespace == namespace;
		if (is_found)
			break;
	}
	pthread_mutex_unlock(&pool->lock);
	return is_found;
}

int extent_pool_word(struct extent_pool *pool, uint64_t extent, uint64_t namespace, uint64_t offset,
		     uint64_t **out)
{
	struct extent *found;
	int ret = 0;

	pthread_mutex_lock(&pool->lock);
	found = extent_find(pool, extent);
	if (!found || found->namespace != namespace)
		ret = -AFAR_ELOST;
	else if (offset % sizeof(uint64_t) != 0)
		ret = -EINVAL;
	else if (offset > found->length - sizeof(uint64_t))
		ret = -ERANGE;
	else if (found->class == CLASS_DRAM_SEALED)
		ret = -EROFS;
	else
		found->was_reached = true; /* then its release waits for connections */
	if (ret == 0)
		*out = (uint64_t *)(void *)(found->addr + offset);
	pthread_mutex_unlock(&pool->lock);
	return ret;
}

int extent_pool_bytes(struct extent_pool *pool, uint64_t extent, uint64_t namespace, bool is_write,
		      uint64_t offset, uint64_t length, char **out)
{
	struct extent *found;
	int ret = 0;

	pthread_mutex_lock(&pool->lock);
	found = extent_find(pool, extent);
	if (!found || found->namespace != namespace)
		ret = -AFAR_ELOST;
	else if (offset > found->length || length > found->length - offset)
		ret = -ERANGE;
	else if (found->class == CLASS_DRAM_SEALED && is_write)
		ret = -EROFS;
	else
		found->was_reached = true; /* then its release waits for connections */
	if (ret == 0)
		*out = found->addr + offset;
	pthread_mutex_unlock(&pool->lock);
	return ret;
}

int extent_pool_span(struct extent_pool *pool, uint64_t extent, uint64_t namespace,
		     enum extent_class class, uint64_t offset, uint64_t length, char **out)
{
	const struct extent *found;
	int ret = 0;

	pthread_mutex_lock(&pool->lock);
	found = extent_find(pool, extent);
	if (!found || found->namespace != namespace || found->class != class)
		ret = -AFAR_ELOST;
	else if (offset > found->length || length > found->length - offset)
		ret = -ERANGE;
	else
		*out = found->addr + offset;
	pthread_mutex_unlock(&pool->lock);
	return ret;
}

void extent_pool_stat(struct extent_pool *pool, struct extent_pool_stat *out)
{
	pthread_mutex_lock(&pool->lock);
	out->capacity_bytes = pool->options.capacity_bytes;
	out->granted_bytes = pool->bytes[EXTENT_GRANTED];
	out->clean_bytes = pool->bytes[EXTENT_CLEAN];
	out->draining_bytes = pool->bytes[EXTENT_DRAINING];
	out->dirty_bytes = pool->bytes[EXTENT_DIRTY] + pool->bytes[EXTENT_SCRUBBING];
	out->scrubbed_bytes = pool->scrubbed_bytes;
	out->scrub_bytes_per_s =
		pool->recent_ns > 0
			? (uint64_t)((double)pool->recent_bytes * 1e9 / (double)pool->recent_ns)
			: 0;
	out->nr_granted = pool->nr_granted;
	out->pool_bytes =
		pool->options.pool_bytes ? pool->options.pool_bytes : pool->options.capacity_bytes;
	out->nr_registrations = pool->nr_registrations;
	pthread_mutex_unlock(&pool->lock);
}
