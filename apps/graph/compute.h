/* SPDX-License-Identifier: BSD-3-Clause */
/* The computations of `afar graph`, as programs of afar/graph.h. Each is one file; read pagerank.c first, then distances.c. */
#ifndef APPS_GRAPH_COMPUTE_H
#define APPS_GRAPH_COMPUTE_H

#include <stdbool.h>

#include <afar/graph.h>

#define GRAPH_UNREACHED UINT64_MAX /* a distance */

enum graph_kind {
	/* Ranks, with a damping of 0.85. The rank of vertices without edges goes to all alike, so the sum stays 1. */
	GRAPH_PAGERANK,
	/* Components, whichever way edges go. A component is called after its smallest vertex. */
	GRAPH_COMPONENTS,
	/* Edges on the shortest way from a vertex; GRAPH_UNREACHED: there is none. */
	GRAPH_BREADTH_FIRST,
	/* The least sum of weights on a way from a vertex. */
	GRAPH_SHORTEST,
	/* A way with the least sum of weights, or edges, from one vertex to another; by one worker. */
	GRAPH_PATH,
};

struct graph_options {
	const char *graph; /* "NAMESPACE:NAME" */
	enum graph_kind kind;
	unsigned nr_steps;     /* of PageRank */
	uint32_t from;	       /* of distances and ways */
	uint32_t to;	       /* of ways */
	unsigned nr_in_flight; /* reads of distances, 1 to AFAR_GRAPH_IN_FLIGHT_MAX */
	struct afar_graph_job_options job;
};

/* A vertex on a way, and how far it is from the first. */
struct graph_hop {
	uint64_t distance;
	uint32_t vertex;
};

/* One of them, as it is computed. */
struct graph_computation {
	const struct graph_options *options;
	struct afar_graph *graph;
	uint64_t nr_vertices;
	void *state;		/* the computation's own */
	struct graph_hop *hops; /* a way, with both ends; NULL: none leads there */
	uint64_t nr_hops;
};

/* How one is computed. Functions return 0, or a negative code with afar_last_error(). */
struct graph_method {
	/* Makes the state and fills in the program, whose context is the computation. */
	int (*begin)(struct graph_computation *computation, struct afar_graph_program *out);
	/* Completes the results at worker 0; NULL: they are. */
	void (*finish)(struct graph_computation *computation, void *results);
	/* Frees the state, and what is in it. NULL is allowed. */
	void (*end)(void *state);
};

extern const struct graph_method pagerank_method, components_method, breadth_first_method,
	shortest_method, path_method;

#endif
