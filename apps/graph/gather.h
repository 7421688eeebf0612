/* SPDX-License-Identifier: BSD-3-Clause */
/* Edges in this process's memory, as they come. */
#ifndef APPS_GRAPH_GATHER_H
#define APPS_GRAPH_GATHER_H

#include <stddef.h>

#include "graph.h"

struct graph_edge {
	uint32_t from, to, weight;
};

struct graph_edges {
	struct graph_edge *edges;
	size_t nr, room;
	uint64_t nr_vertices;
	bool is_weighted, is_symmetric;
};

/* Adds an edge, and its reverse if the source says so. -ENOMEM, -EINVAL (a vertex out of range), with a line that begins
 * with `where`. */
int edges_add(struct graph_edges *edges, const struct graph_source *source, const char *where,
	      const struct graph_edge *edge);

/* import.c, rmat.c */
int edges_import(const struct graph_source *source, struct graph_edges *edges);
int edges_invent(const struct graph_source *source, struct graph_edges *edges);

#endif
