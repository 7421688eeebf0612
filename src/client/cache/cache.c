/* SPDX-License-Identifier: BSD-3-Clause */
/* Caches that programs open, and what they may keep of regions. See cache.h. */
#include "client/cache/cache.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/namespace/region.h"
#include "memory/cache_history.h"

#define BYTES_MIN 65536U
#define SHARD_MIN 256U /* frames: fewer are divided less */
#define NR_NAMED  4096U
#define IS_NAMED  (UINT64_C(1) << 63) /* in a range: it is no generation of a region */

struct cache_named {
	struct cache_name name;
	uint64_t range; /* 0: there is none */
};

void cache_end(struct afar_cache *cache)
{
	for (unsigned i = 0; i < cache->nr_shards; i++) {
		cache_close(cache->shards[i].table);
		pthread_mutex_destroy(&cache->shards[i].lock);
		pthread_cond_destroy(&cache->shards[i].filled);
	}
	if (cache->memory != MAP_FAILED)
		munmap(cache->memory, cache->bytes);
	pthread_mutex_destroy(&cache->lock);
	free(cache->named);
}

static unsigned choose_shards(uint64_t nr_frames)
{
	unsigned nr = 1;

	while (nr < CACHE_SHARDS_MAX && nr_frames / (2 * nr) >= SHARD_MIN)
		nr *= 2;
	return nr;
}

/* The last one has what is left over. */
static int open_shard(struct afar_cache *cache, unsigned i, uint64_t each, uint64_t nr_frames)
{
	struct cache_shard *shard = &cache->shards[i];

	pthread_mutex_init(&shard->lock, NULL);
	pthread_cond_init(&shard->filled, NULL);
	cache->nr_shards++;
	return cache_open((char *)cache->memory + i * each * CACHE_BLOCK, (uint32_t)nr_frames,
			  &shard->table);
}

int cache_begin(struct afar_cache *cache, uint64_t bytes)
{
	const uint64_t nr_frames = bytes / CACHE_BLOCK;
	const unsigned nr = choose_shards(nr_frames);
	const uint64_t each = nr_frames / nr;
	int ret = 0;

	cache->bytes = nr_frames * CACHE_BLOCK;
	cache->memory = MAP_FAILED;
	if (each > UINT32_MAX / 4)
		return error_code(-ENOMEM);
	cache->named = calloc(NR_NAMED, sizeof(*cache->named));
	if (!cache->named)
		return error_code(-ENOMEM);
	pthread_mutex_init(&cache->lock, NULL);
	cache->memory = mmap(NULL, cache->bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ret = cache->memory == MAP_FAILED ? -ENOMEM : 0;
	if (ret == 0)
		madvise(cache->memory, cache->bytes, MADV_HUGEPAGE);
	for (unsigned i = 0; i < nr && ret == 0; i++)
		ret = open_shard(cache, i, each, i < nr - 1 ? each : nr_frames - each * (nr - 1));
	if (ret)
		cache_end(cache);
	return ret ? error_code(ret) : 0;
}

PUBLIC_CALL(int, afar_cache_open,
	    (struct afar_session *session, uint64_t bytes, struct afar_cache **out),
	    (session, bytes, out))
{
	struct afar_cache *cache;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!out || bytes < BYTES_MIN)
		return error_fail(-EINVAL,
				  "open a cache of %llu bytes: it needs %u at least, and a place "
				  "for the handle",
				  (unsigned long long)bytes, BYTES_MIN);
	cache = handle_new(HANDLE_CACHE, sizeof(*cache));
	if (!cache)
		return error_code(-ENOMEM);
	cache->session = session;
	ret = cache_begin(cache, bytes);
	if (ret) {
		handle_discard(cache);
		return error_fail(ret, "open a cache of %llu bytes: there is no such memory",
				  (unsigned long long)bytes);
	}
	handle_use(&session->handle);
	*out = cache;
	return 0;
}

PUBLIC_CALL(int, afar_cache_close, (struct afar_cache *cache), (cache))
{
	int ret = handle_close(cache, HANDLE_CACHE);

	if (ret)
		return error_fail(ret, ret == -EBUSY
					       ? "close a cache: a thread reads through it"
					       : "close a cache: the handle is null or closed");
	cache_end(cache);
	handle_unuse(&cache->session->handle);
	handle_retire(cache);
	return 0;
}

int cache_enter(struct afar_cache *cache)
{
	if (!handle_is(cache, HANDLE_CACHE) || !handle_enter(&cache->handle))
		return error_fail(-EINVAL, "use a cache: the handle is null or closed");
	return 0;
}

PUBLIC_CALL(int, afar_cache_stat, (struct afar_cache *cache, struct afar_cache_stat *out),
	    (cache, out))
{
	struct afar_cache_stat stat = {0};
	int ret = ABI_CHECK_OUT(out, afar_cache_stat, nr_past);

	if (!ret)
		ret = cache_enter(cache);
	if (ret)
		return ret;
	stat.bytes = cache->bytes;
	stat.nr_past = atomic_load(&cache->nr_past);
	for (unsigned i = 0; i < cache->nr_shards; i++) {
		struct cache_shard *shard = &cache->shards[i];
		struct cache_stat of;

		pthread_mutex_lock(&shard->lock);
		cache_stat(shard->table, &of);
		pthread_mutex_unlock(&shard->lock);
		stat.used += (uint64_t)of.nr_used * CACHE_BLOCK;
		stat.nr_hits += of.nr_hits;
		stat.nr_misses += of.nr_misses;
		stat.nr_shared += of.nr_shared;
		stat.nr_past += of.nr_past;
	}
	handle_unuse(&cache->handle);
	abi_give(out, out->size, &stat, sizeof(stat));
	return 0;
}

/* ---- Files */

uint64_t cache_range_of(struct afar_cache *cache, const struct cache_name *name)
{
	struct cache_named *named =
		&cache->named[cache_hash(name->ino, (uint32_t)name->fs) % NR_NAMED];
	uint64_t range;

	pthread_mutex_lock(&cache->lock);
	if (named->range == 0 || memcmp(&named->name, name, sizeof(*name)) != 0) {
		named->name = *name;
		named->range = ++cache->nr_named | IS_NAMED;
	}
	range = named->range;
	pthread_mutex_unlock(&cache->lock);
	return range;
}

/* ---- Regions */

static int read_region(void *argument, void *data, size_t length, uint64_t offset)
{
	ssize_t ret = afar_region_pread(argument, data, length, offset);

	return ret < 0 ? (int)ret : 0;
}

/* Returns whether its bytes can't change, and which they are. A generation is given once in a cluster. */
static bool is_kept(struct afar_region *region, struct cache_source *out)
{
	struct afar_target *target = &region->target;

	*out = (struct cache_source){target->generation, atomic_load(&target->length), read_region,
				     region};
	return (atomic_load(&target->is_sealed) || atomic_load(&target->is_published)) &&
	       out->length / CACHE_BLOCK < UINT32_MAX;
}

static ssize_t read_through(struct afar_cache *cache, struct afar_region *region, void *data,
			    size_t length, uint64_t offset)
{
	struct cache_source source;
	int ret;

	/* The region says what it cannot do. */
	if (!is_kept(region, &source) || !range_is_inside(offset, length, source.length) ||
	    length > SSIZE_MAX || !data || session_is_stale(cache->session)) {
		atomic_fetch_add(&cache->nr_past, length / CACHE_BLOCK + 1);
		return afar_region_pread(region, data, length, offset);
	}
	ret = cache_read(cache, &source, data, length, offset);
	return ret ? ret : (ssize_t)length;
}

PUBLIC_CALL_OF_CALLS(ssize_t, afar_cache_read,
		     (struct afar_cache *cache, struct afar_region *region, void *data,
		      size_t length, uint64_t offset),
		     (cache, region, data, length, offset))
{
	ssize_t ret = cache_enter(cache);

	if (ret)
		return ret;
	ret = region_check(region);
	if (!ret && region->target.session != cache->session)
		ret = error_fail(-EINVAL,
				 "read a region through a cache: it is of another session");
	/* It is counted in against a refresh, which takes it to another version. */
	if (!ret && !handle_enter(&region->target.handle))
		ret = error_fail(-EINVAL, "use a region: the handle is null or closed");
	if (!ret) {
		ret = read_through(cache, region, data, length, offset);
		handle_unuse(&region->target.handle);
	}
	handle_unuse(&cache->handle);
	return ret;
}
