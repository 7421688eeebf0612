/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading edges in their order; see stream.h. Called by cursor.c.
 *
 * On `local` a read is a copy, complete when it was asked for. So there is one piece then, which stays in the core's cache,
 * and what it has got is used from there. The region is not attached for that, although it could be: memory that is
 * attached ends with its server, by a signal.
 */
#include "stream.h"

#define PIECE_BYTES ((uint64_t)128 << 10)

int stream_open(struct stream *stream, struct afar_graph *graph, enum graph_list list)
{
	*stream = (struct stream){.graph = graph, .list = list};
	stream->piece = PIECE_BYTES / 4 / graph_words(&graph->header, list);
	return graph_alloc(graph, STREAM_PIECES * PIECE_BYTES, &stream->buffer);
}

/* Gives up what is in flight: it goes into memory that is used again, or freed. */
static void give_up(struct stream *stream)
{
	if (stream->nr_begun != stream->nr_ended)
		io_drain(&stream->graph->io);
}

void stream_close(struct stream *stream)
{
	give_up(stream);
	if (stream->buffer)
		afar_buffer_unregister(stream->buffer);
	stream->buffer = NULL;
}

static char *piece_data(const struct stream *stream, unsigned number)
{
	return (char *)afar_buffer_data(stream->buffer) + number % STREAM_PIECES * PIECE_BYTES;
}

static int ask(struct stream *stream)
{
	const unsigned words = graph_words(&stream->graph->header, stream->list);
	const unsigned number = stream->nr_begun++ % STREAM_PIECES;
	uint64_t at = stream->at, nr = stream->end - stream->at;

	if (nr > stream->piece)
		nr = stream->piece;
	stream->edges[number] = nr;
	stream->at += nr;
	return io_read(&stream->graph->io, &stream->requests[number], &stream->graph->place.end,
		       graph_edge_at(stream->graph, stream->list, at), stream->buffer,
		       piece_data(stream, number), 4 * nr * words);
}

/* Asks for pieces, as long as they take their time. */
static int ask_ahead(struct stream *stream)
{
	int ret = 0;

	while (!ret && stream->at < stream->end &&
	       stream->nr_begun - stream->nr_ended < STREAM_PIECES) {
		ret = ask(stream);
		if (!ret)
			ret = io_look(&stream->graph->io);
		if (!ret && !stream->requests[(stream->nr_begun - 1) % STREAM_PIECES].is_busy)
			break;
	}
	return ret;
}

void stream_begin(struct stream *stream, uint64_t first, uint64_t nr)
{
	give_up(stream);
	stream->at = first;
	stream->end = first + nr;
	stream->nr_begun = stream->nr_ended = 0;
}

int stream_next(struct stream *stream, const uint32_t **words, uint64_t *nr)
{
	unsigned number;
	int ret = 0;

	*nr = 0;
	if (stream->nr_begun == stream->nr_ended)
		stream->nr_begun = stream->nr_ended = 0; /* the first one's memory again */
	if (stream->nr_begun == 0 ||
	    stream->requests[(stream->nr_begun - 1) % STREAM_PIECES].is_busy)
		ret = ask_ahead(stream);
	if (ret || stream->nr_begun == stream->nr_ended)
		return ret;
	number = stream->nr_ended % STREAM_PIECES;
	ret = io_wait(&stream->graph->io, &stream->requests[number]);
	if (ret)
		return ret; /* it may be in flight still */
	stream->nr_ended++;
	*words = (const uint32_t *)(const void *)piece_data(stream, number);
	*nr = stream->edges[number];
	return ret;
}
