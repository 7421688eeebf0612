/* SPDX-License-Identifier: BSD-3-Clause */
/* One worker's part in a computation; see afar/graph.h. */
#ifndef LIBGRAPH_JOB_H
#define LIBGRAPH_JOB_H

#include "graph.h"
#include "messages.h"

#define JOB_NAME_MAX 63U

/* Worker 0 says it, and the others compare it with what they were told. */
struct job_plan {
	uint64_t magic;
	uint64_t nr_vertices, nr_edges;
	uint32_t direction, value_bytes, message_bytes, result_bytes, nr_steps, does_merge;
	char name[JOB_NAME_MAX + 1];
	unsigned char parameters[AFAR_GRAPH_PARAMETERS_MAX];
};

/* Offsets in what the workers exchange. The first four are of the even steps; those of the odd ones are `odd` bytes further. */
struct mail {
	uint64_t lines;	  /* of each worker */
	uint64_t counts;  /* of letters, from each to each */
	uint64_t values;  /* of each vertex */
	uint64_t letters; /* of each worker, room for one to each vertex */
	uint64_t odd;
	uint64_t results; /* of each vertex; if they are merged, of each worker */
	uint64_t bytes;
};

struct afar_graph_job {
	struct afar_graph *graph;
	struct afar_graph_program program;
	struct job_plan plan;
	unsigned worker, nr_workers;
	uint64_t patience_ms;
	char name[AFAR_NAME_MAX + 1], ns[AFAR_NAME_MAX + 1], meet_ns[AFAR_NAME_MAX + 1], what[300];
	struct team team; /* nobody, if there is one worker */
	struct mail mail;
	uint64_t *bounds;    /* vertices: where each worker's begin, and the end */
	uint64_t first, end; /* the caller's */
	struct afar_buffer *values[2], *results, *lines;
	unsigned now; /* which of the values are those after the last step */
	struct messages messages;
	bool is_last; /* step: nobody goes on after it */
	bool has_run;
};

static inline bool job_is_alone(const struct afar_graph_job *job)
{
	return job->nr_workers == 1;
}

static inline uint64_t job_nr_vertices(const struct afar_graph_job *job)
{
	return job->graph->header.nr_vertices;
}

#endif
