/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of bytes that are read ahead; see stream.h. */
#include "client/files/inode/stream.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "client/files/inode/file_map.h"

#define FIRST_BYTES    65536U /* of a window that was just opened, at least */
#define FIRST_REQUESTS 4U
#define BLOCK_MIN      32768U
#define REST_FIRST_NS  ((uint64_t)20000000) /* after a failure; doubles up to: */
#define REST_MAX_NS    ((uint64_t)1000000000)

static size_t slot_bytes(const struct stream *stream)
{
	return stream->limit / STREAM_BLOCKS;
}

static char *memory_of(const struct stream *stream, const struct stream_block *block)
{
	return stream->memory + (size_t)(block - stream->blocks) * slot_bytes(stream);
}

/* The rest of the memory keeps what the program has passed, for requests that come late. */
static size_t bytes_max(const struct stream *stream)
{
	return stream->limit / 4 * 3;
}

void stream_init(struct stream *stream, size_t limit, _Atomic int64_t *budget)
{
	pthread_condattr_t attributes;

	*stream = (struct stream){.budget = budget, .limit = limit, .rest_ns = REST_FIRST_NS / 2};
	pthread_mutex_init(&stream->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&stream->changed, &attributes);
	pthread_condattr_destroy(&attributes);
}

static void give_back(struct stream *stream)
{
	free(stream->memory);
	stream->memory = NULL;
	stream->is_closing = false;
	atomic_fetch_add(stream->budget, (int64_t)stream->limit);
}

void stream_free(struct stream *stream)
{
	if (stream->memory)
		give_back(stream);
	pthread_cond_destroy(&stream->changed);
	pthread_mutex_destroy(&stream->lock);
}

/* ---- Dropping. The lock is held */

static void drop(struct stream_block *block)
{
	if (block->state == STREAM_FILLING || block->nr_readers != 0)
		block->is_dropped = true;
	else
		block->state = STREAM_EMPTY;
}

/* Somebody uses the window's memory no more. */
static void leave(struct stream *stream)
{
	if (--stream->nr_using == 0 && stream->is_closing)
		give_back(stream);
}

static void close_window(struct stream *stream)
{
	if (!stream->memory || stream->is_closing)
		return;
	for (unsigned i = 0; i < STREAM_BLOCKS; i++)
		drop(&stream->blocks[i]);
	stream->is_closing = true;
	if (stream->nr_using == 0)
		give_back(stream);
	pthread_cond_broadcast(&stream->changed);
}

static void rest(struct stream *stream)
{
	stream->rest_ns = stream->rest_ns < REST_MAX_NS / 2 ? stream->rest_ns * 2 : REST_MAX_NS;
	stream->rests_until = clock_coarse_ns() + stream->rest_ns;
	close_window(stream);
}

void stream_drop(struct stream *stream, uint64_t offset, uint64_t length)
{
	pthread_mutex_lock(&stream->lock);
	for (unsigned i = 0; i < STREAM_BLOCKS; i++) {
		struct stream_block *block = &stream->blocks[i];

		if (block->state != STREAM_EMPTY && block->offset < offset + length &&
		    offset < block->offset + block->wanted)
			drop(block);
	}
	pthread_cond_broadcast(&stream->changed);
	pthread_mutex_unlock(&stream->lock);
}

void streams_init(struct streams *streams)
{
	pthread_mutex_init(&streams->lock, NULL);
	CDS_INIT_LIST_HEAD(&streams->list);
	atomic_init(&streams->nr, 0);
}

void streams_free(struct streams *streams)
{
	pthread_mutex_destroy(&streams->lock);
}

void streams_add(struct streams *streams, struct stream *stream)
{
	pthread_mutex_lock(&streams->lock);
	cds_list_add(&stream->node, &streams->list);
	atomic_fetch_add(&streams->nr, 1);
	pthread_mutex_unlock(&streams->lock);
}

void streams_remove(struct streams *streams, struct stream *stream)
{
	pthread_mutex_lock(&streams->lock);
	cds_list_del(&stream->node);
	atomic_fetch_sub(&streams->nr, 1);
	pthread_mutex_unlock(&streams->lock);
}

void streams_drop(struct streams *streams, uint64_t offset, uint64_t length)
{
	struct stream *stream;

	if (!streams_are_there(streams))
		return;
	pthread_mutex_lock(&streams->lock);
	cds_list_for_each_entry (stream, &streams->list, node)
		stream_drop(stream, offset, length);
	pthread_mutex_unlock(&streams->lock);
}

void stream_close(struct stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	close_window(stream);
	pthread_mutex_unlock(&stream->lock);
}

/* ---- Reading */

static bool is_open(const struct stream *stream)
{
	return stream->memory && !stream->is_closing;
}

void stream_open(struct stream *stream, uint64_t next, size_t length)
{
	pthread_mutex_lock(&stream->lock);
	if (stream->memory || clock_coarse_ns() < stream->rests_until)
		goto out_unlock;
	if (atomic_fetch_sub(stream->budget, (int64_t)stream->limit) < (int64_t)stream->limit) {
		atomic_fetch_add(stream->budget, (int64_t)stream->limit);
		stream->rests_until = clock_coarse_ns() + REST_MAX_NS;
		goto out_unlock;
	}
	stream->memory = aligned_alloc(FILE_UNIT, stream->limit);
	if (!stream->memory) {
		give_back(stream);
		goto out_unlock;
	}
	stream->next = stream->ahead = next;
	stream->bytes =
		FIRST_REQUESTS * length < FIRST_BYTES ? FIRST_BYTES : FIRST_REQUESTS * length;
	if (stream->bytes > bytes_max(stream))
		stream->bytes = bytes_max(stream);
	memset(stream->blocks, 0, sizeof(stream->blocks));
out_unlock:
	pthread_mutex_unlock(&stream->lock);
}

/* Finds the block that has a byte, or will have it. NULL: there is none. */
static struct stream_block *find(struct stream *stream, uint64_t at)
{
	for (unsigned i = 0; i < STREAM_BLOCKS; i++) {
		struct stream_block *block = &stream->blocks[i];

		if (block->state != STREAM_EMPTY && !block->is_dropped &&
		    at - block->offset < block->wanted)
			return block;
	}
	return NULL;
}

/* Says whether a range is there. Bytes that nobody is fetching count more than those that are coming. */
static enum stream_found look(struct stream *stream, uint64_t offset, size_t length, uint64_t since)
{
	enum stream_found found = STREAM_HIT;
	uint64_t at = offset;

	while (at < offset + length) {
		const struct stream_block *block = find(stream, at);

		if (!block)
			return STREAM_MISS;
		at = block->offset + block->wanted;
		if (block->state == STREAM_WANTED)
			return STREAM_MISS;
		if (block->state == STREAM_FILLING)
			found = STREAM_COMING;
		else if (block->since != since || (block->length < block->wanted &&
						   offset + length > block->offset + block->length))
			return STREAM_MISS;
	}
	return found;
}

/* The program has come to a block: more is read ahead from now on. */
static void use(struct stream *stream, struct stream_block *block)
{
	const size_t max = bytes_max(stream);

	if (block->is_used)
		return;
	block->is_used = true;
	stream->bytes = stream->bytes < max / 2 ? stream->bytes * 2 : max;
}

/* Begins to use the blocks of a range that is there. Returns them, a bit for each. */
static unsigned pin(struct stream *stream, uint64_t offset, size_t length)
{
	unsigned pinned = 0;

	for (uint64_t at = offset; at < offset + length;) {
		struct stream_block *block = find(stream, at);

		block->nr_readers++;
		use(stream, block);
		pinned |= 1U << (block - stream->blocks);
		at = block->offset + block->length;
	}
	stream->nr_using++;
	return pinned;
}

static void unpin(struct stream *stream, unsigned pinned)
{
	for (unsigned i = 0; i < STREAM_BLOCKS; i++) {
		struct stream_block *block = &stream->blocks[i];

		if (pinned & 1U << i && --block->nr_readers == 0 && block->is_dropped)
			block->state = STREAM_EMPTY;
	}
	leave(stream);
}

/* Copies out of pinned blocks, which stay as they are. */
static void copy(const struct stream *stream, unsigned pinned, char *data, uint64_t offset,
		 size_t length)
{
	for (unsigned i = 0; i < STREAM_BLOCKS; i++) {
		const struct stream_block *block = &stream->blocks[i];
		uint64_t from, to;

		if (!(pinned & 1U << i))
			continue;
		from = block->offset > offset ? block->offset : offset;
		to = block->offset + block->length;
		to = to < offset + length ? to : offset + length;
		memcpy(data + (from - offset), memory_of(stream, block) + (from - block->offset),
		       to - from);
	}
}

/* Notes where the program is. False: it has gone elsewhere. */
static bool follow(struct stream *stream, uint64_t offset, size_t length)
{
	if (!stream_is_next(stream->next, offset, length))
		return false;
	if (stream->next < offset + length)
		stream->next = offset + length;
	return true;
}

enum stream_found stream_read(struct stream *stream, void *data, size_t length, uint64_t offset,
			      uint64_t since)
{
	enum stream_found found = STREAM_MISS;
	unsigned pinned;

	pthread_mutex_lock(&stream->lock);
	if (!is_open(stream))
		goto out_unlock;
	if (!follow(stream, offset, length)) {
		close_window(stream);
		goto out_unlock;
	}
	found = look(stream, offset, length, since);
	if (found != STREAM_HIT)
		goto out_unlock;
	pinned = pin(stream, offset, length);
	pthread_mutex_unlock(&stream->lock);
	copy(stream, pinned, data, offset, length);
	pthread_mutex_lock(&stream->lock);
	unpin(stream, pinned);
out_unlock:
	pthread_mutex_unlock(&stream->lock);
	return found;
}

static bool is_coming(struct stream *stream, uint64_t offset, size_t length)
{
	return is_open(stream) && look(stream, offset, length, 0) == STREAM_COMING;
}

bool stream_wait(struct stream *stream, uint64_t offset, size_t length, uint64_t deadline)
{
	const struct timespec until = clock_to_timespec(deadline);
	bool is_in_time = true;

	pthread_mutex_lock(&stream->lock);
	while (is_in_time && is_coming(stream, offset, length))
		is_in_time = pthread_cond_timedwait(&stream->changed, &stream->lock, &until) == 0;
	if (!is_in_time)
		rest(stream);
	pthread_mutex_unlock(&stream->lock);
	return is_in_time;
}

/* ---- Filling */

/* Finds memory for another block: what the program has passed is not needed any more. */
static struct stream_block *find_free(struct stream *stream)
{
	struct stream_block *found = NULL;

	for (unsigned i = 0; i < STREAM_BLOCKS; i++) {
		struct stream_block *block = &stream->blocks[i];

		if (block->state == STREAM_EMPTY)
			return block;
		if (block->state != STREAM_FULL || block->nr_readers != 0 ||
		    block->offset + block->wanted > stream->next)
			continue;
		if (!found || block->offset < found->offset)
			found = block;
	}
	return found;
}

/* Returns how long the next block is; 0: enough is read ahead, or the file ends. */
static size_t next_length(const struct stream *stream, uint64_t size)
{
	size_t length = stream->bytes / 2 > BLOCK_MIN ? stream->bytes / 2 : BLOCK_MIN;

	if (length > slot_bytes(stream))
		length = slot_bytes(stream);
	if (stream->ahead - stream->next + length > stream->bytes || stream->ahead >= size)
		return 0;
	/* It ends where a unit does. */
	length -= (size_t)((stream->ahead + length) % FILE_UNIT);
	return length < size - stream->ahead ? length : (size_t)(size - stream->ahead);
}

unsigned stream_want(struct stream *stream, uint64_t size)
{
	struct stream_block *block;
	unsigned nr = 0;
	size_t length;

	pthread_mutex_lock(&stream->lock);
	if (!is_open(stream))
		goto out_unlock;
	/* The program was faster. */
	if (stream->ahead < stream->next)
		stream->ahead = stream->next;
	while ((length = next_length(stream, size)) != 0 && (block = find_free(stream))) {
		*block = (struct stream_block){
			.state = STREAM_WANTED, .offset = stream->ahead, .wanted = length};
		stream->ahead += length;
		nr++;
	}
out_unlock:
	pthread_mutex_unlock(&stream->lock);
	return nr;
}

/* Finds the first wanted block, and drops those that the program has passed. */
static struct stream_block *find_wanted(struct stream *stream)
{
	struct stream_block *first = NULL;

	for (unsigned i = 0; i < STREAM_BLOCKS; i++) {
		struct stream_block *block = &stream->blocks[i];

		if (block->state != STREAM_WANTED)
			continue;
		if (block->offset + block->wanted <= stream->next)
			block->state = STREAM_EMPTY;
		else if (!first || block->offset < first->offset)
			first = block;
	}
	return first;
}

bool stream_begin_fill(struct stream *stream, struct stream_fill *fill)
{
	struct stream_block *first;

	pthread_mutex_lock(&stream->lock);
	first = find_wanted(stream);
	if (first) {
		first->state = STREAM_FILLING;
		stream->nr_using++;
		*fill = (struct stream_fill){first, memory_of(stream, first), first->wanted,
					     first->offset};
	}
	pthread_mutex_unlock(&stream->lock);
	return first;
}

void stream_end_fill(struct stream *stream, const struct stream_fill *fill, ssize_t result,
		     uint64_t since)
{
	struct stream_block *block = fill->block;

	pthread_mutex_lock(&stream->lock);
	if (result > 0 && since != 0 && !block->is_dropped) {
		block->length = (size_t)result;
		block->since = since;
		block->state = STREAM_FULL;
		stream->rest_ns = REST_FIRST_NS / 2;
	} else {
		block->state = STREAM_EMPTY;
	}
	if (result < 0 || since == 0)
		rest(stream);
	leave(stream);
	pthread_cond_broadcast(&stream->changed);
	pthread_mutex_unlock(&stream->lock);
}
