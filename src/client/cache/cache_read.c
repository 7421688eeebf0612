/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading through a cache, by pieces of some pages. See cache.h. */
#include <string.h>

#include "client/cache/cache.h"
#include "memory/cache_history.h"

#define PIECE_MAX 256U /* pages */

/* The part of a page that is asked for. */
struct part {
	struct cache_wait wait; /* for another thread's read of the page; first */
	enum cache_answer answer;
	struct cache_shard *shard;
	struct cache_frame *frame; /* MISS: ours, until it is filled */
	char *to;
	uint32_t block;
	uint32_t from, length; /* in the page */
	uint32_t page_length;  /* CACHE_BLOCK, but at the end of the source */
	bool is_answered;      /* WAIT: guarded by the shard's lock, as the result */
	int result;
};

struct piece {
	struct afar_cache *cache;
	const struct cache_source *source;
	unsigned nr;
	struct part parts[PIECE_MAX];
};

static struct cache_shard *shard_of(struct afar_cache *cache, uint64_t range, uint32_t block)
{
	/* The tables take the low bits for themselves. */
	return &cache->shards[(cache_hash(range, block) >> 48) & (cache->nr_shards - 1)];
}

static void ask(struct piece *piece, struct part *part)
{
	const uint64_t range = piece->source->range;
	struct cache_shard *shard = shard_of(piece->cache, range, part->block);

	part->shard = shard;
	pthread_mutex_lock(&shard->lock);
	part->answer = cache_ask(shard->table, range, part->block, &part->frame);
	if (part->answer == CACHE_HIT)
		memcpy(part->to, part->frame->bytes + part->from, part->length);
	else if (part->answer == CACHE_WAIT)
		cache_await(part->frame, &part->wait);
	pthread_mutex_unlock(&shard->lock);
}

/* Divides bytes into parts of pages, as many as a piece has, and asks for each. Returns how many bytes these are. */
static size_t ask_all(struct piece *piece, char *data, size_t length, uint64_t offset)
{
	const struct cache_source *source = piece->source;
	size_t done = 0;

	for (piece->nr = 0; piece->nr < PIECE_MAX && done < length; piece->nr++) {
		struct part *part = &piece->parts[piece->nr];
		const uint64_t at = offset + done, page = at / CACHE_BLOCK * CACHE_BLOCK;

		*part = (struct part){.block = (uint32_t)(at / CACHE_BLOCK), .to = data + done};
		part->page_length = source->length - page < CACHE_BLOCK
					    ? (uint32_t)(source->length - page)
					    : CACHE_BLOCK;
		part->from = (uint32_t)(at - page);
		part->length = part->page_length - part->from;
		if (part->length > length - done)
			part->length = (uint32_t)(length - done);
		ask(piece, part);
		done += part->length;
	}
	return done;
}

static uint64_t offset_of(const struct part *part)
{
	return (uint64_t)part->block * CACHE_BLOCK + part->from;
}

/* The frame has its bytes, or its reading has failed. Gives them to all who wait for it. */
static void end_filling(const struct part *part, int result)
{
	struct cache_shard *shard = part->shard;
	struct cache_wait *wait;

	pthread_mutex_lock(&shard->lock);
	while ((wait = cache_next_wait(part->frame))) {
		struct part *other = (struct part *)wait;

		if (result == 0)
			memcpy(other->to, part->frame->bytes + other->from, other->length);
		other->result = result;
		other->is_answered = true;
	}
	cache_filled(shard->table, part->frame, result, 0);
	pthread_cond_broadcast(&shard->filled);
	pthread_mutex_unlock(&shard->lock);
}

static bool is_to_be_read(const struct part *part)
{
	return part->answer == CACHE_MISS || part->answer == CACHE_PAST;
}

/* A page of which not all is asked for is read into its frame. */
static bool is_read_alone(const struct part *part)
{
	return part->answer == CACHE_MISS && part->length < part->page_length;
}

static int read_alone(struct piece *piece, const struct part *part)
{
	const struct cache_source *source = piece->source;
	int ret = source->read(source->argument, part->frame->bytes, part->page_length,
			       (uint64_t)part->block * CACHE_BLOCK);

	if (ret == 0)
		memcpy(part->to, part->frame->bytes + part->from, part->length);
	end_filling(part, ret);
	return ret;
}

/* Reads neighbours as one, into the caller's memory, and copies them from there. */
static int read_run(struct piece *piece, const struct part *parts, unsigned nr)
{
	const struct cache_source *source = piece->source;
	const struct part *last = &parts[nr - 1];
	int ret = source->read(source->argument, parts->to,
			       (size_t)(last->to - parts->to) + last->length, offset_of(parts));

	for (unsigned i = 0; i < nr; i++) {
		if (parts[i].answer != CACHE_MISS)
			continue;
		if (ret == 0)
			memcpy(parts[i].frame->bytes, parts[i].to, parts[i].length);
		end_filling(&parts[i], ret);
	}
	return ret;
}

/* All of them are tried, because others may wait for each. Returns the first error. */
static int read_missing(struct piece *piece)
{
	int ret = 0;

	for (unsigned i = 0, nr; i < piece->nr; i += nr) {
		const struct part *parts = &piece->parts[i];
		int result = 0;

		nr = 1;
		if (is_read_alone(parts)) {
			result = read_alone(piece, parts);
		} else if (is_to_be_read(parts)) {
			while (i + nr < piece->nr && is_to_be_read(&parts[nr]) &&
			       !is_read_alone(&parts[nr]))
				nr++;
			result = read_run(piece, parts, nr);
		}
		if (ret == 0)
			ret = result;
	}
	return ret;
}

static int await(struct piece *piece, struct part *part)
{
	const struct cache_source *source = piece->source;

	pthread_mutex_lock(&part->shard->lock);
	while (!part->is_answered)
		pthread_cond_wait(&part->shard->filled, &part->shard->lock);
	pthread_mutex_unlock(&part->shard->lock);
	if (part->result == 0)
		return 0;
	/* Another thread has failed. This one may not, or gets a sentence of its own. */
	return source->read(source->argument, part->to, part->length, offset_of(part));
}

int cache_read(struct afar_cache *cache, const struct cache_source *source, void *data,
	       size_t length, uint64_t offset)
{
	struct piece piece; /* large: ask_all() sets the parts that it uses */
	int ret = 0;

	piece.cache = cache;
	piece.source = source;
	piece.nr = 0;
	for (size_t done = 0; done < length && ret == 0;) {
		done += ask_all(&piece, (char *)data + done, length - done, offset + done);
		ret = read_missing(&piece);
		for (unsigned i = 0; i < piece.nr; i++) {
			int result = 0;

			if (piece.parts[i].answer == CACHE_WAIT)
				result = await(&piece, &piece.parts[i]);
			if (ret == 0)
				ret = result;
		}
	}
	return ret;
}
