/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading edges in their order; see stream.h. Called by pagerank.c and components.c.
 *
 * All pieces together fit into a core's cache: on `local` a read is a copy, and what it has copied is used from there. The
 * region is not attached for that, although it could be: memory that is attached ends with its server, by a signal.
 */
#include "stream.h"

#include "failure.h"

#define PIECE_BYTES ((uint64_t)256 << 10)

int stream_open(struct stream *stream, struct afar_session *session, struct io *io,
		const struct graph *graph, enum graph_list list)
{
	int ret;

	*stream = (struct stream){.graph = graph, .io = io, .list = list};
	stream->piece = PIECE_BYTES / 4 / graph_words(&graph->header, list);
	ret = afar_buffer_alloc(session, STREAM_PIECES * PIECE_BYTES, &stream->buffer);
	return ret ? app_fail_last(ret, "memory for edges") : 0;
}

void stream_close(struct stream *stream)
{
	if (stream->buffer)
		afar_buffer_unregister(stream->buffer);
	stream->buffer = NULL;
}

static char *piece_data(const struct stream *stream, uint64_t number)
{
	return (char *)afar_buffer_data(stream->buffer) + number % STREAM_PIECES * PIECE_BYTES;
}

static int ask(struct stream *stream)
{
	const unsigned words = graph_words(&stream->graph->header, stream->list);
	uint64_t nr = stream->end - stream->at;
	int ret;

	if (nr > stream->piece)
		nr = stream->piece;
	ret = io_read(stream->io, &stream->requests[stream->nr_begun % STREAM_PIECES],
		      &stream->graph->place, graph_edge_at(stream->graph, stream->list, stream->at),
		      stream->buffer, piece_data(stream, stream->nr_begun), 4 * nr * words);
	stream->at += nr;
	stream->nr_begun++;
	return ret;
}

int stream_begin(struct stream *stream, uint64_t first, uint64_t nr)
{
	int ret = 0;

	stream->first = stream->at = first;
	stream->nr = nr;
	stream->end = first + nr;
	stream->nr_begun = stream->nr_ended = 0;
	while (!ret && stream->at < stream->end && stream->nr_begun < STREAM_PIECES - 1)
		ret = ask(stream);
	return ret;
}

int stream_next(struct stream *stream, const uint32_t **words, uint64_t *nr)
{
	uint64_t number = stream->nr_ended, left;
	int ret = 0;

	*nr = 0;
	if (stream->at < stream->end)
		ret = ask(stream); /* into the piece that the caller has done with */
	if (ret || number == stream->nr_begun)
		return ret;
	ret = io_wait(stream->io, &stream->requests[number % STREAM_PIECES]);
	left = stream->nr - number * stream->piece;
	*words = (const uint32_t *)(const void *)piece_data(stream, number);
	*nr = left < stream->piece ? left : stream->piece;
	stream->nr_ended++;
	return ret;
}
