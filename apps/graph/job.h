/* SPDX-License-Identifier: BSD-3-Clause */
/* One worker's part in a computation, and the mailboxes of all. A worker alone has no mailboxes. */
#ifndef APPS_GRAPH_JOB_H
#define APPS_GRAPH_JOB_H

#include "edges.h"
#include "place.h"
#include "room.h"
#include "team.h"
#include "tools/copy/io.h"

#define JOB_LINE 64U

/* Worker 0 says it, and the others compare it with what they were told. */
struct graph_plan {
	uint64_t magic;
	uint32_t kind;
	uint32_t nr_steps;
	uint32_t from;
	uint32_t reserved;
	uint64_t nr_vertices;
	uint64_t nr_edges;
};

/* A vertex could be reached in so much. */
struct letter {
	uint64_t distance;
	uint32_t vertex;
	uint32_t reserved;
};

/* Offsets in what the workers exchange. The first three are of the even steps; those of the odd ones are `odd` bytes further. */
struct mail {
	uint64_t
		words; /* PageRank: a line for each worker. Distances: how many letters, from each to each */
	uint64_t values;  /* PageRank: what each vertex gives to each of its targets */
	uint64_t letters; /* distances: of each worker, room for one to each vertex */
	uint64_t odd;
	uint64_t results; /* 8 bytes for each vertex; components: 4 for each, of each worker */
	uint64_t bytes;
};

struct graph_job {
	struct graph_options options;
	struct afar_session *session;
	struct graph *graph;
	struct team team; /* nobody, if there is one worker */
	struct mail mail;
	struct io io;
	uint64_t *bounds;     /* vertices: where each worker's begin, and the end */
	uint64_t first, end;  /* the caller's */
	uint64_t nr_vertices; /* all */
	uint64_t nr_looked;
	struct afar_buffer *values; /* what the vertices get */
	struct graph_hop *hops;	    /* or the way */
	uint64_t nr_hops;
	char what[300], ns[AFAR_NAME_MAX + 1], meet_ns[AFAR_NAME_MAX + 1];
};

static inline bool job_is_alone(const struct graph_job *job)
{
	return job->options.nr_workers == 1;
}

/* Shows that the caller lives. Call it often. Returns -ECANCELED if it is to end. */
int job_live(struct graph_job *job);
/* Ends a superstep. Then all see what the others have put. */
int job_sync(struct graph_job *job);

/* Gets memory for transfers. */
int job_alloc(struct graph_job *job, uint64_t bytes, struct afar_buffer **out);
/* Write to what the workers exchange, and read from it; all of it is over when they return. job_flush() comes before job_sync(). */
int job_put(struct graph_job *job, uint64_t offset, struct afar_buffer *buffer, const void *data,
	    uint64_t bytes);
int job_get(struct graph_job *job, uint64_t offset, struct afar_buffer *buffer, void *data,
	    uint64_t bytes);
int job_flush(struct graph_job *job);
/* Brings the results of all, 8 bytes for each vertex, to worker 0. */
int job_collect(struct graph_job *job, struct afar_buffer *buffer);

/* ---- The computations: pagerank.c, components.c, distances.c, path.c. Each leaves its values in job->values, or hops. */

int job_pagerank(struct graph_job *job);
int job_components(struct graph_job *job);
int job_distances(struct graph_job *job);
int job_path(struct graph_job *job);

#endif
