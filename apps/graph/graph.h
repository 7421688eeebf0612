/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making graphs in remote memory: `afar graph import` and `afar graph rmat`. A graph is one region (layout.h). Its edges are
 * gathered in this process's memory first. afar/graph.h reads what is made here, and compute.h has what is computed of it.
 *
 * All functions belong to one thread, and return 0 or a negative code; app_failure() (failure.h) then has a line for people.
 */
#ifndef APPS_GRAPH_GRAPH_H
#define APPS_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include <afar/afar.h>

#define GRAPH_VERTICES_MAX UINT32_MAX /* they are numbered from 0 */

struct graph_source {
	const char *path;     /* a file of edges; NULL: an R-MAT graph */
	bool is_binary;	      /* pairs of 32-bit words, little-endian, and not lines of text */
	bool is_weighted;     /* a line, or edge, has a weight too */
	bool is_undirected;   /* each edge goes both ways */
	uint64_t nr_vertices; /* 0: up to the largest that has an edge */
	unsigned scale;	      /* of an R-MAT graph: it has 1 << scale vertices */
	unsigned edge_factor; /* and so many edges for each */
	uint64_t seed;	      /* equal seeds make equal graphs */
	uint32_t weight_max;  /* its edges have weights from 1 to this; 0: none */
	bool may_replace;     /* a region of that name */
	bool (*is_ended)(void *context); /* asked often: whether to end early, with -ECANCELED */
	void *context;
};

struct graph_size {
	uint64_t nr_vertices, nr_edges;
	uint64_t region_bytes; /* of the graph */
	uint64_t local_bytes;  /* of this process, at most */
};

/* The edges of a graph in this process's memory, before they are written. */
struct graph_edges;

/*
 * Reads or makes the edges. Errors: -ENOENT and others of the file; -EINVAL (a line that is no edge, a negative weight, a
 * pair cut short, a vertex out of range; nothing at all), -ENOMEM.
 */
int graph_gather(const struct graph_source *source, struct graph_edges **out);
/* Says how large the graph will be. */
void graph_measure(const struct graph_edges *edges, struct graph_size *out);
/* -EINVAL: it is not "NAMESPACE:NAME". */
int graph_check_name(const char *name);
/* Writes them to the new region "NAMESPACE:NAME", and reserves what its namespace lacks. Errors: -EEXIST, -ENOSPC, -ENOENT,
 * -EACCES. */
int graph_write(struct afar_session *session, const char *name, const struct graph_source *source,
		const struct graph_edges *edges);
void graph_edges_free(struct graph_edges *edges);

#endif
