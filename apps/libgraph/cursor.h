/* SPDX-License-Identifier: BSD-3-Clause */
/* Vertices in their order, each with its edges. */
#ifndef LIBGRAPH_CURSOR_H
#define LIBGRAPH_CURSOR_H

#include "stream.h"

struct afar_graph_cursor {
	struct afar_graph *graph;
	const uint64_t *offsets; /* where edges begin */
	uint64_t vertex, end;	 /* the next one, and where it ends */
	const uint32_t *words;	 /* of edges that have come, and were not used yet */
	uint64_t nr;		 /* edges there */
	uint32_t stride;
	struct stream stream;
	uint32_t *whole; /* memory for a vertex whose edges are in several pieces */
	uint64_t room;	 /* edges there */
};

int cursor_open(struct afar_graph *graph, enum graph_list list, uint64_t first, uint64_t end,
		struct afar_graph_cursor **out);
/* For a vertex whose edges have not all come. */
int cursor_await(struct afar_graph_cursor *cursor, uint64_t nr, struct afar_graph_edges *out);
void cursor_move(struct afar_graph_cursor *cursor, uint64_t first, uint64_t end);
void cursor_close(struct afar_graph_cursor *cursor);

/* Goes on to the next vertex, which there must be. Returns 0, or an error. */
static inline int cursor_next(struct afar_graph_cursor *cursor, struct afar_graph_vertex *out)
{
	const uint64_t vertex = cursor->vertex++;
	const uint64_t nr = cursor->offsets[vertex + 1] - cursor->offsets[vertex];

	out->number = (uint32_t)vertex;
	if (__builtin_expect(nr > cursor->nr, 0))
		return cursor_await(cursor, nr, &out->edges);
	out->edges.words = cursor->words;
	out->edges.nr = nr;
	cursor->words += nr * cursor->stride;
	cursor->nr -= nr;
	out->edges.nr_ahead = cursor->nr * cursor->stride;
	return 0;
}

#endif
