/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Components; see compute.h. Each worker makes a forest of the edges that leave its vertices: trees whose roots are the
 * smallest of their vertices. A forest says of each vertex one other that it hangs together with. No more is to be said
 * of all those edges, so forests are the workers' results. Worker 0 joins them. There is one superstep.
 */
#include <errno.h>

#include "compute.h"

static uint32_t find_root(uint32_t *parents, uint32_t vertex)
{
	while (parents[vertex] != vertex) {
		parents[vertex] = parents[parents[vertex]];
		vertex = parents[vertex];
	}
	return vertex;
}

static void join(uint32_t *parents, uint32_t one, uint32_t other)
{
	one = find_root(parents, one);
	other = find_root(parents, other);
	if (one < other)
		parents[other] = one;
	else
		parents[one] = other;
}

/* Begins with a tree for each vertex. */
static int work(struct afar_graph_step *step)
{
	struct graph_computation *computation = step->context;
	uint32_t *parents = afar_graph_job_results(step->job);

	for (uint64_t i = 0; i < computation->nr_vertices; i++)
		parents[i] = (uint32_t)i;
	computation->state = parents;
	return 0;
}

static int compute(struct afar_graph_step *step, const struct afar_graph_vertex *vertex,
		   void *value)
{
	uint32_t *parents = ((struct graph_computation *)step->context)->state;

	(void)value;
	for (uint64_t i = 0; i < vertex->edges.nr; i++)
		join(parents, vertex->number, afar_graph_neighbour(&vertex->edges, i));
	return 0;
}

static int merge(void *context, uint64_t first, uint64_t nr, const void *results)
{
	const struct graph_computation *computation = context;
	const uint32_t *theirs = results;

	for (uint64_t i = 0; i < nr; i++) {
		if (theirs[i] >= computation->nr_vertices)
			return afar_fail(
				-EBADMSG,
				"graph: a worker has sent no forest; is it another version?");
		join(computation->state, (uint32_t)(first + i), theirs[i]);
	}
	return 0;
}

static int begin(struct graph_computation *computation, struct afar_graph_program *out)
{
	(void)computation;
	out->result_bytes = sizeof(uint32_t);
	out->nr_steps = 1;
	out->work = work;
	out->compute = compute;
	out->merge = merge;
	return 0;
}

static void finish(struct graph_computation *computation, void *results)
{
	uint32_t *parents = results;

	for (uint64_t i = 0; i < computation->nr_vertices; i++)
		parents[i] = find_root(parents, (uint32_t)i);
}

/* The state is the results. */
static void end(void *state)
{
	(void)state;
}

const struct graph_method components_method = {begin, finish, end};
