/* SPDX-License-Identifier: BSD-3-Clause */
/* A graph that is open, for the rooms that compute. */
#ifndef APPS_GRAPH_EDGES_H
#define APPS_GRAPH_EDGES_H

#include "graph.h"
#include "layout.h"
#include "place.h"

struct graph {
	const char *name;
	struct place place;
	struct graph_header header;
	uint64_t *offsets[2]; /* where the edges of each vertex begin; NULL: not read yet */
};

/* Reads where the edges of each vertex begin, if that is not done, and checks it. Errors: those of reading; -EBADMSG,
 * -ENOMEM. */
int graph_load(struct graph *graph, enum graph_list list);
/* The edges that graph_load() has read. */
static inline const uint64_t *graph_offsets(const struct graph *graph, enum graph_list list)
{
	return graph->offsets[graph_kept(&graph->header, list)];
}

/* Where the `edge`th edge of the list is in the region. */
static inline uint64_t graph_edge_at(const struct graph *graph, enum graph_list list, uint64_t edge)
{
	return graph_edges_at(&graph->header, list) + 4 * edge * graph_words(&graph->header, list);
}

/* Divides the vertices by work: a vertex counts as some edges. `bounds` gets nr + 1 vertices. */
void graph_divide(const struct graph *graph, enum graph_list list, unsigned nr, uint64_t *bounds);
/* Fails with a line that says what is wrong. Returns -EBADMSG. */
int graph_fail_damaged(const struct graph *graph, const char *what);
/* Likewise: an edge leads to a vertex that there is not. */
int graph_fail_edge(const struct graph *graph);

#endif
