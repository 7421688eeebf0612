/* SPDX-License-Identifier: BSD-3-Clause */
/* Edges in their order, read in large pieces: while one is used, the next ones are in flight. */
#ifndef LIBGRAPH_STREAM_H
#define LIBGRAPH_STREAM_H

#include "graph.h"

#define STREAM_PIECES 16U

struct stream {
	struct afar_graph *graph;
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
int stream_open(struct stream *stream, struct afar_graph *graph, enum graph_list list);
/* Begins with edge `first`, of `nr`. The last round is over, or was given up. */
void stream_begin(struct stream *stream, uint64_t first, uint64_t nr);
/* Waits for the next piece. `*words` has graph_words() for each edge, until the next call. `*nr` is 0 at the end. */
int stream_next(struct stream *stream, const uint32_t **words, uint64_t *nr);
/* Waits for what is in flight. */
void stream_close(struct stream *stream);

#endif
