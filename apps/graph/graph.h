/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs in remote memory: `afar graph`. A graph is one region: where the edges of each vertex begin, and then the edges,
 * by vertex. A program keeps what it computes of the vertices in its own memory, and reads edges from the region when
 * it needs them. So the edges may be more than fit into its machine.
 *
 * Several workers divide the vertices. They compute in supersteps, and write what they have for each other into
 * mailboxes, which are in remote memory, too. In an even step they write into the even ones, so that those of the odd
 * step before can be read meanwhile. No server program takes part.
 *
 * This follows Carafe (A. Trivedi, "End-to-End Considerations in the Unification of High-Performance I/O", ETH Zürich
 * 2016, §6.5.2).
 *
 * It uses the public API alone. Read pagerank.c first, then distances.c. All functions belong to one thread, and return 0
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

struct graph;

/* ---- Making one: gather.c, import.c, rmat.c */

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

/* ---- Opening one: edges.c */

/* Errors: those of opening; -EBADMSG: the region is none, or is damaged. */
int graph_open(struct afar_session *session, const char *name, struct graph **out);
void graph_close(struct graph *graph);
uint64_t graph_nr_vertices(const struct graph *graph);
uint64_t graph_nr_edges(const struct graph *graph);

/* ---- Computing: work.c */

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

#define GRAPH_IN_FLIGHT_MAX 256U

struct graph_options {
	const char *graph; /* "NAMESPACE:NAME" */
	enum graph_kind kind;
	unsigned nr_steps;     /* of PageRank */
	uint32_t from;	       /* of distances and ways */
	uint32_t to;	       /* of ways */
	unsigned nr_in_flight; /* reads of distances, 1 to GRAPH_IN_FLIGHT_MAX */
	const char *ns;	       /* for the mailboxes; NULL: that of the graph */
	/* Where the workers meet, in memory; NULL: that of the mailboxes, else of the graph. */
	const char *meet_ns;
	const char *job;      /* the name of the region where they meet; all give the same */
	unsigned worker;      /* which of them the caller is; 0 leads the others */
	unsigned nr_workers;  /* 1: nobody meets, and nothing is written */
	uint32_t patience_ms; /* a worker that shows no progress for so long is given up */
	bool (*is_ended)(void *context); /* asked often: whether to end early, with -ECANCELED */
	void *context;
};

struct graph_job;

/* A description for people, before it starts. */
struct graph_needs {
	uint64_t nr_vertices, nr_edges;
	uint64_t ns_bytes; /* of the namespace `ns`; 0: none */
	const char *ns;	   /* the job's */
};

/* A vertex on a way, and how far it is from the first. */
struct graph_hop {
	uint64_t distance;
	uint32_t vertex;
};

/* The results: one of these, with an element for each vertex; or a way, if there is one. They are the job's. */
struct graph_values {
	const double *ranks;
	const uint32_t *components;
	const uint64_t *distances;
	const struct graph_hop *hops; /* NULL: none leads there */
	uint64_t nr_hops;	      /* with both ends */
	uint64_t nr_looked;	      /* edges that this worker has looked at */
};

/*
 * Opens the graph and prepares the job, for worker 0: makes the regions of the team, and reserves what their
 * namespaces lack. The others may come before or afterwards. `*out` is the caller's until graph_end().
 * Errors: those of opening; -EBADMSG (the region is no graph, or is damaged), -EINVAL (a name, a number, no vertex `from`),
 * -EEXIST (a job of this name), -ENOSPC, -ENOMEM.
 */
int graph_prepare(struct afar_session *session, const struct graph_options *options,
		  struct graph_job **out, struct graph_needs *needs);
/* Joins it, for the other workers. Waits for worker 0, up to patience_ms. Errors: -ETIMEDOUT. */
int graph_join(struct afar_session *session, const struct graph_options *options,
	       struct graph_job **out);
/* Does the worker's part. When it has returned 0, `values` has the result at worker 0. */
int graph_work(struct graph_job *job, struct graph_values *values);
/* Ends the caller's part, and frees the values. Worker 0 gives back what it has reserved; so call it there after the
 * others have ended, as far as they are known. NULL is allowed. */
void graph_end(struct graph_job *job);

#endif
