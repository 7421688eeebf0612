/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shortest way from one vertex to another; see compute.h. The nearest vertex is explored first (E. W. Dijkstra, "A note on
 * two problems in connexion with graphs", 1959), and others beside it, because many reads are in flight. Each vertex keeps
 * the one that it was reached from. A vertex as far away as the end is explored no more. So the search looks at a part of
 * the graph alone. One worker does it, in one superstep.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute.h"
#include "heap.h"

struct search {
	const struct graph_options *options;
	uint64_t *distances;
	uint32_t *befores; /* of each vertex that was reached */
	struct heap heap;
};

static int fail_memory(void)
{
	return afar_fail(-ENOMEM, "graph: no memory for the vertices that are reached");
}

static uint64_t found(const struct search *search)
{
	return search->distances[search->options->to];
}

static int reach(struct search *search, uint32_t vertex, uint32_t before, uint64_t distance)
{
	if (distance >= search->distances[vertex] || distance >= found(search))
		return 0;
	search->distances[vertex] = distance;
	search->befores[vertex] = before;
	return heap_put(&search->heap, distance, vertex) ? fail_memory() : 0;
}

static int take_edges(void *context, uint32_t vertex, const struct afar_graph_edges *edges)
{
	struct search *search = context;
	const uint64_t distance = search->distances[vertex];
	int ret = 0;

	for (uint64_t i = 0; i < edges->nr && !ret; i++)
		ret = reach(search, afar_graph_neighbour(edges, i), vertex,
			    distance + afar_graph_weight(edges, i));
	return ret;
}

static int next_nearest(void *context, uint32_t *vertex)
{
	struct search *search = context;
	uint64_t distance;

	while (heap_take(&search->heap, &distance, vertex))
		if (distance == search->distances[*vertex] && distance < found(search))
			return 1;
	return 0;
}

static uint64_t count_hops(const struct search *search)
{
	uint64_t nr = 1;

	for (uint32_t at = search->options->to; at != search->options->from;
	     at = search->befores[at])
		nr++;
	return nr;
}

/* Walks back from the end. */
static int write_down(const struct search *search, struct graph_computation *out)
{
	uint32_t at = search->options->to;

	if (found(search) == GRAPH_UNREACHED)
		return 0;
	out->nr_hops = count_hops(search);
	out->hops = calloc(out->nr_hops, sizeof(*out->hops));
	if (!out->hops)
		return fail_memory();
	for (uint64_t i = out->nr_hops; i-- > 0; at = search->befores[at])
		out->hops[i] = (struct graph_hop){search->distances[at], at};
	return 0;
}

static int work(struct afar_graph_step *step)
{
	struct graph_computation *computation = step->context;
	struct search *search = computation->state;
	const struct afar_graph_exploration exploration = {
		.size = sizeof(exploration),
		.nr_in_flight = search->options->nr_in_flight,
		.next = next_nearest,
		.take = take_edges,
		.context = search,
	};
	int ret = reach(search, search->options->from, search->options->from, 0);

	if (!ret)
		ret = afar_graph_explore(computation->graph, &exploration);
	return ret ? ret : write_down(search, computation);
}

static int begin(struct graph_computation *computation, struct afar_graph_program *out)
{
	struct search *search = calloc(1, sizeof(*search));

	computation->state = search;
	if (!search)
		return fail_memory();
	search->options = computation->options;
	search->distances = malloc(8 * computation->nr_vertices);
	search->befores = malloc(4 * computation->nr_vertices);
	if (!search->distances || !search->befores)
		return fail_memory();
	memset(search->distances, 0xff, 8 * computation->nr_vertices); /* GRAPH_UNREACHED */
	out->nr_steps = 1;
	out->work = work;
	return 0;
}

static void end(void *state)
{
	struct search *search = state;

	if (!search)
		return;
	heap_free(&search->heap);
	free(search->distances);
	free(search->befores);
	free(search);
}

const struct graph_method path_method = {.begin = begin, .end = end};
