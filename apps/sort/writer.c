/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing sorted buckets; see bucket.h. Called by worker.c; owns the pieces. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bucket.h"
#include "tools/copy/failure.h"

#define PIECES	    8U
#define PIECE_BYTES ((size_t)256 << 10) /* stays in the cache until it is written */
#define AHEAD	    12U /* items: how far ahead of their copying they are fetched from memory */

struct writer {
	struct sort_job *job;
	struct afar_buffer *buffer;
	struct io_request requests[PIECES];
	uint64_t nr_pieces; /* begun */
	size_t filled;	    /* of the newest */
	uint64_t offset;    /* of that in the output */
};

int writer_open(struct sort_job *job, struct writer **out)
{
	struct writer *writer = calloc(1, sizeof(*writer));
	int ret = writer ? afar_buffer_alloc(job->session, PIECES * PIECE_BYTES, &writer->buffer)
			 : -ENOMEM;

	*out = writer;
	if (ret)
		return app_fail(ret, "sort %s: out of memory for writing", job->options.input);
	writer->job = job;
	return 0;
}

void writer_close(struct writer *writer)
{
	if (!writer)
		return;
	if (writer->job)
		io_drain(&writer->job->io);
	if (writer->buffer)
		afar_buffer_unregister(writer->buffer);
	free(writer);
}

static uint8_t *piece_data(const struct writer *writer)
{
	return (uint8_t *)afar_buffer_data(writer->buffer) +
	       writer->nr_pieces % PIECES * PIECE_BYTES;
}

/* Sends what is in the piece, and waits until the next one is free. */
static int turn_piece(struct writer *writer)
{
	struct io *io = &writer->job->io;
	int ret;

	if (!writer->filled)
		return 0;
	ret = io_write(io, &writer->requests[writer->nr_pieces % PIECES], &writer->job->output.end,
		       writer->offset, writer->buffer, piece_data(writer), writer->filled);
	writer->offset += writer->filled;
	writer->filled = 0;
	/* On `local` it is written already: the same memory again is still in the cache. */
	if (!ret && writer->requests[writer->nr_pieces % PIECES].is_busy)
		writer->nr_pieces++;
	return ret ? ret : io_wait(io, &writer->requests[writer->nr_pieces % PIECES]);
}

static int put_across(struct writer *writer, const uint8_t *data, size_t length)
{
	int ret = 0;

	while (!ret && length) {
		size_t part = PIECE_BYTES - writer->filled;

		if (part > length)
			part = length;
		memcpy(piece_data(writer) + writer->filled, data, part);
		writer->filled += part;
		data += part;
		length -= part;
		if (writer->filled == PIECE_BYTES)
			ret = turn_piece(writer);
	}
	return ret;
}

static int put(struct writer *writer, const uint8_t *data, size_t length)
{
	if (length != SORT_RECORD_BYTES || PIECE_BYTES - writer->filled <= SORT_RECORD_BYTES)
		return put_across(writer, data, length);
	memcpy(piece_data(writer) + writer->filled, data, SORT_RECORD_BYTES);
	writer->filled += SORT_RECORD_BYTES;
	return 0;
}

int writer_put(struct writer *writer, const struct bucket *bucket)
{
	const uint32_t ending = bucket->job->plan.is_lines ? 1 : 0; /* the newline behind each */
	const uint8_t *data;
	int ret = 0;

	writer->offset = bucket->offset;
	if (!bucket->length)
		return turn_piece(writer);
	data = afar_buffer_data(bucket->buffer);
	for (size_t i = 0; i < bucket->nr_items && !ret; i++) {
		if (i + AHEAD < bucket->nr_items) {
			const uint8_t *ahead = data + bucket->items[i + AHEAD].at;

			__builtin_prefetch(ahead);
			__builtin_prefetch(ahead + 64);
		}
		ret = put(writer, data + bucket->items[i].at, bucket->items[i].length + ending);
	}
	return ret ? ret : turn_piece(writer);
}

int writer_finish(struct writer *writer)
{
	int ret = 0;

	for (unsigned i = 0; i < PIECES && !ret; i++)
		ret = io_wait(&writer->job->io, &writer->requests[i]);
	return ret ? ret : io_flush(&writer->job->io, &writer->job->output.end);
}
