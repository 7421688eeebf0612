/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program's cache: tables of memory/cache.h, each with a lock, and threads that fill their frames. A page is in the
 * table that its hash picks. The one whose question began a FILLING frame reads it, outside of the lock, and copies it to all who wait.
 * He waits for nobody before that, so threads that want each other's pages go on.
 */
#ifndef CLIENT_CACHE_H
#define CLIENT_CACHE_H

#include <pthread.h>

#include <afar/cache.h>

#include "client/session.h"
#include "memory/cache.h"

#define CACHE_SHARDS_MAX 16U

struct cache_shard {
	pthread_mutex_t lock; /* guards the table, and what its frames hold once it is VALID */
	pthread_cond_t filled;
	struct cache *table;
};

struct afar_cache {
	struct handle handle; /* in use while it is read through */
	struct afar_session *session;
	void *memory; /* of all frames */
	uint64_t bytes;
	unsigned nr_shards;
	struct cache_shard shards[CACHE_SHARDS_MAX];
	_Atomic uint64_t nr_past; /* that no table was asked for */
	pthread_mutex_t lock;	  /* guards the next */
	struct cache_named *named;
	uint64_t nr_named;
};

/* A file's bytes as long as nobody changes them: afar_fs_quiet_since(), and what this session did itself. */
struct cache_name {
	uint64_t fs; /* its instance */
	uint64_t ino, since, nr_writings;
};

/* Makes the tables of a zeroed struct. -ENOMEM; then there is nothing to end. */
int cache_begin(struct afar_cache *cache, uint64_t bytes);
void cache_end(struct afar_cache *cache);

/* Bytes that can't change. */
struct cache_source {
	uint64_t range;	 /* names them in the tables */
	uint64_t length; /* bytes */
	/* Reads some of them past the cache. Returns 0 or an error, with a sentence. */
	int (*read)(void *argument, void *data, size_t length, uint64_t offset);
	void *argument;
};

/* Returns the range that such bytes have in the tables. Earlier ones of a file are never found again, and go for others in time. */
uint64_t cache_range_of(struct afar_cache *cache, const struct cache_name *name);

/* Counts a caller in, who counts himself out with handle_unuse(). */
int cache_enter(struct afar_cache *cache);

/* Reads bytes that lie inside the source. Returns 0 or an error of the source's. */
int cache_read(struct afar_cache *cache, const struct cache_source *source, void *data,
	       size_t length, uint64_t offset);

#endif
