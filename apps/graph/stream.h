/* SPDX-License-Identifier: BSD-3-Clause */
/* Edges in their order, read in large pieces: while one is used, the next ones are in flight. */
#ifndef APPS_GRAPH_STREAM_H
#define APPS_GRAPH_STREAM_H

#include "edges.h"
#include "place.h"
#include "tools/copy/io.h"

#define STREAM_PIECES 16U

struct stream {
	const struct graph *graph;
	struct io *io;
	enum graph_list list;
	struct afar_buffer *buffer;
	struct io_request requests[STREAM_PIECES];
	uint64_t piece;	  /* edges in one */
	uint64_t at, end; /* edges that were not asked for yet */
	unsigned nr_begun,
		nr_ended; /* pieces since none was in flight: asked for, and seen by the caller */
	uint64_t edges[STREAM_PIECES]; /* in each */
};

/* Gets the memory. `*stream` is to be closed, whatever this returns. */
int stream_open(struct stream *stream, struct afar_session *session, struct io *io,
		const struct graph *graph, enum graph_list list);
/* Begins with edge `first`, of `nr`. The last round is over, or was given up. */
void stream_begin(struct stream *stream, uint64_t first, uint64_t nr);
/* Waits for the next piece. `*words` has graph_words() for each edge, until the next call. `*nr` is 0 at the end. */
int stream_next(struct stream *stream, const uint32_t **words, uint64_t *nr);
/* The queue must be empty: io_drain(). */
void stream_close(struct stream *stream);

#endif
