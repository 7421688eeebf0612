/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs in remote memory: `afar graph`. A graph is one region: where the edges of each vertex begin, and then the edges,
 * by vertex. A program keeps what it computes of the vertices in its own memory, and reads edges from the region when it
 * needs them, so the edges may be more than fit into its machine.
 *
 * This follows Carafe (A. Trivedi, "End-to-End Considerations in the Unification of High-Performance I/O", ETH Zürich
 * 2016, §6.5.3).
 *
 * It uses the public API alone. Read edges.c first, then algorithms.c. All functions belong to one thread, and return 0
 * or a negative code; app_failure() (failure.h) then has a line for people.
 */
#ifndef APPS_GRAPH_GRAPH_H
#define APPS_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <afar/afar.h>

#define GRAPH_VERTICES_MAX UINT32_MAX /* they are numbered from 0 */
#define GRAPH_UNREACHED	   UINT64_MAX /* a distance */

/* ---- Making one: import.c, build.c */

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

/* ---- Using one: edges.c */

struct graph;

/* Opens a graph. Errors: those of opening; -EBADMSG: the region is none, or is damaged. */
int graph_open(struct afar_session *session, const char *name, struct graph **out);
void graph_close(struct graph *graph);
uint64_t graph_nr_vertices(const struct graph *graph);
uint64_t graph_nr_edges(const struct graph *graph);
bool graph_is_weighted(const struct graph *graph);
uint64_t graph_degree(const struct graph *graph, uint32_t vertex);

/* The edges that leave a vertex; good until the next call on the graph. */
struct graph_view {
	const uint32_t *targets;
	const uint32_t *weights; /* NULL: all are 1 */
	uint64_t nr;
};

/* Says how vertices will be asked for: in order and nearly all of them, so that much is read at once; or here and there. */
void graph_expect_all(struct graph *graph, bool is_all);
/* Reads the edges of a vertex. Errors: those of reading; -EBADMSG: they lead out of the graph. */
int graph_look(struct graph *graph, uint32_t vertex, struct graph_view *out);

/* ---- Computing: algorithms.c. Each fills an array with an element for each vertex. */

struct graph_run {
	unsigned nr_steps; /* of PageRank */
	uint32_t from;	   /* of distances */
	bool (*is_ended)(void *context);
	void *context;
};

/* PageRank with a damping of 0.85. What vertices without edges have goes to all alike, so the sum stays 1. */
int graph_pagerank(struct graph *graph, const struct graph_run *run, double *ranks);
/* Components, whichever way edges go. A component is called after its smallest vertex. */
int graph_components(struct graph *graph, const struct graph_run *run, uint32_t *components);
/* Edges on the shortest way from `from`; GRAPH_UNREACHED: there is none. */
int graph_breadth_first(struct graph *graph, const struct graph_run *run, uint64_t *distances);
/* The least sum of weights on a way from `from`. */
int graph_shortest(struct graph *graph, const struct graph_run *run, uint64_t *distances);

#endif
