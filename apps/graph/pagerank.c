/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PageRank; see compute.h. Each vertex has something to give to each vertex that its edges lead to: its rank, divided by
 * their number. This is its value. In a superstep a vertex adds up what the sources of the edges that arrive at it give. So
 * edges are read in their order, and nothing is exchanged but 4 bytes for each vertex.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute.h"

#define DAMPING 0.85
#define AHEAD	32U /* words: how far ahead of their adding values are fetched */

struct ranking {
	double nr_vertices;
	double base;   /* that each vertex has in this step, whatever arrives */
	double *ranks; /* in the last step: the results */
	unsigned nr_steps;
	float parts[]; /* of the caller's vertices: of its rank, what each of its targets gets */
};

/* Says what a vertex gives. The rank of one without edges goes to all. */
static void set_rank(struct afar_graph_step *step, const struct ranking *ranking, uint32_t vertex,
		     double rank, float *gives)
{
	const float part = ranking->parts[vertex];

	if (part == 0)
		step->added += rank;
	*gives = (float)rank * part;
}

static int start(struct afar_graph_step *step, uint32_t vertex, void *gives)
{
	struct graph_computation *computation = step->context;
	struct ranking *ranking = computation->state;
	const int64_t degree = afar_graph_degree(computation->graph, AFAR_GRAPH_OUT, vertex);

	if (degree < 0)
		return (int)degree;
	/* Divides once, and not in each step. */
	ranking->parts[vertex] = degree ? 1 / (float)degree : 0;
	set_rank(step, ranking, vertex, 1 / ranking->nr_vertices, gives);
	return 0;
}

/* Adds up what the sources of the edges give. Meanwhile it fetches from memory what sources further on give, also of other
 * vertices' edges. */
static inline double add_up(const struct afar_graph_edges *edges, const float *gives,
			    unsigned stride)
{
	const uint32_t *at = edges->words, *stop = at + edges->nr * stride,
		       *ahead = stop + edges->nr_ahead;
	double sum = 0;

	for (; at < stop; at += stride) {
		if (at + AHEAD < ahead)
			__builtin_prefetch(&gives[at[AHEAD]]);
		sum += (double)gives[*at];
	}
	return sum;
}

static int work(struct afar_graph_step *step)
{
	struct ranking *ranking = ((struct graph_computation *)step->context)->state;

	ranking->base = (1 - DAMPING + DAMPING * step->sum) / ranking->nr_vertices;
	if (step->number + 1 == ranking->nr_steps)
		ranking->ranks = afar_graph_job_results(step->job);
	return 0;
}

static int compute(struct afar_graph_step *step, const struct afar_graph_vertex *vertex,
		   void *gives)
{
	const struct graph_computation *computation = step->context;
	const struct ranking *ranking = computation->state;
	const double sum = vertex->edges.stride == 1 ? add_up(&vertex->edges, step->values, 1)
						     : add_up(&vertex->edges, step->values, 2);
	const double rank = ranking->base + DAMPING * sum;

	set_rank(step, ranking, vertex->number, rank, gives);
	if (ranking->ranks)
		ranking->ranks[vertex->number] = rank;
	return 1;
}

static int begin(struct graph_computation *computation, struct afar_graph_program *out)
{
	struct ranking *ranking =
		calloc(1, sizeof(*ranking) + sizeof(float) * computation->nr_vertices);

	if (!ranking)
		return afar_fail(-ENOMEM, "no memory for ranks");
	ranking->nr_vertices = (double)computation->nr_vertices;
	ranking->nr_steps = computation->options->nr_steps;
	computation->state = ranking;
	out->direction = AFAR_GRAPH_IN;
	out->value_bytes = sizeof(float);
	out->result_bytes = sizeof(double);
	out->nr_steps = ranking->nr_steps;
	out->start = start;
	out->work = work;
	out->compute = compute;
	return 0;
}

const struct graph_method pagerank_method = {.begin = begin, .end = free};
