/* SPDX-License-Identifier: BSD-3-Clause */
/* What is computed of graphs; see graph.h. Values of vertices are here, edges are read as they are needed. */
#include <errno.h>
#include <stdlib.h>

#include "failure.h"
#include "graph.h"
#include "heap.h"

#define DAMPING	  0.85
#define ASK_EVERY 4096U /* vertices between two questions whether to end */
#define MANY_PARTS \
	64U /* a frontier of more than such a part of all vertices is read in whole windows */

static bool is_ended(const struct graph_run *run, uint64_t at)
{
	return at % ASK_EVERY == 0 && run->is_ended && run->is_ended(run->context);
}

static int fail_memory(void)
{
	return app_fail(-ENOMEM, "no memory for what is computed of the vertices");
}

/* ---- PageRank */

/* Gives what each vertex has to those that its edges lead to. Returns in `*rest` what those without edges have. */
static int spread(struct graph *graph, const struct graph_run *run, const double *ranks,
		  double *next, double *rest)
{
	uint64_t nr = graph_nr_vertices(graph);
	struct graph_view view;
	double share;
	int ret;

	*rest = 0;
	for (uint64_t i = 0; i < nr; i++) {
		if (is_ended(run, i))
			return -ECANCELED;
		ret = graph_look(graph, (uint32_t)i, &view);
		if (ret)
			return ret;
		if (view.nr == 0)
			*rest += ranks[i];
		share = ranks[i] / (double)view.nr;
		for (uint64_t edge = 0; edge < view.nr; edge++)
			next[view.targets[edge]] += share;
	}
	return 0;
}

static int step(struct graph *graph, const struct graph_run *run, double *ranks, double *next)
{
	uint64_t nr = graph_nr_vertices(graph);
	double rest;
	int ret;

	for (uint64_t i = 0; i < nr; i++)
		next[i] = 0;
	ret = spread(graph, run, ranks, next, &rest);
	for (uint64_t i = 0; i < nr && !ret; i++)
		ranks[i] = (1 - DAMPING) / (double)nr + DAMPING * (next[i] + rest / (double)nr);
	return ret;
}

int graph_pagerank(struct graph *graph, const struct graph_run *run, double *ranks)
{
	uint64_t nr = graph_nr_vertices(graph);
	double *next = malloc(nr * sizeof(*next));
	int ret = 0;

	if (!next)
		return fail_memory();
	graph_expect_all(graph, true);
	for (uint64_t i = 0; i < nr; i++)
		ranks[i] = 1.0 / (double)nr;
	for (unsigned i = 0; i < run->nr_steps && !ret; i++)
		ret = step(graph, run, ranks, next);
	free(next);
	return ret;
}

/* ---- Components: a forest whose roots are the smallest of their trees */

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

int graph_components(struct graph *graph, const struct graph_run *run, uint32_t *components)
{
	uint64_t nr = graph_nr_vertices(graph);
	struct graph_view view;
	int ret;

	graph_expect_all(graph, true);
	for (uint64_t i = 0; i < nr; i++)
		components[i] = (uint32_t)i;
	for (uint64_t i = 0; i < nr; i++) {
		if (is_ended(run, i))
			return -ECANCELED;
		ret = graph_look(graph, (uint32_t)i, &view);
		if (ret)
			return ret;
		for (uint64_t edge = 0; edge < view.nr; edge++)
			join(components, (uint32_t)i, view.targets[edge]);
	}
	for (uint64_t i = 0; i < nr; i++)
		components[i] = find_root(components, (uint32_t)i);
	return 0;
}

/* ---- Distances */

static void begin(const struct graph *graph, const struct graph_run *run, uint64_t *distances)
{
	for (uint64_t i = 0; i < graph_nr_vertices(graph); i++)
		distances[i] = GRAPH_UNREACHED;
	distances[run->from] = 0;
}

/* Reaches what is one edge further than `depth`. Returns how many vertices that is, or an error. */
static int64_t go_further(struct graph *graph, const struct graph_run *run, uint64_t depth,
			  uint64_t *distances)
{
	uint64_t nr = graph_nr_vertices(graph);
	struct graph_view view;
	int64_t reached = 0;
	int ret;

	for (uint64_t i = 0; i < nr; i++) {
		if (is_ended(run, i))
			return -ECANCELED;
		if (distances[i] != depth)
			continue;
		ret = graph_look(graph, (uint32_t)i, &view);
		if (ret)
			return ret;
		for (uint64_t edge = 0; edge < view.nr; edge++) {
			if (distances[view.targets[edge]] != GRAPH_UNREACHED)
				continue;
			distances[view.targets[edge]] = depth + 1;
			reached++;
		}
	}
	return reached;
}

int graph_breadth_first(struct graph *graph, const struct graph_run *run, uint64_t *distances)
{
	uint64_t nr = graph_nr_vertices(graph);
	int64_t reached = 1;

	begin(graph, run, distances);
	for (uint64_t depth = 0; reached > 0; depth++) {
		graph_expect_all(graph, (uint64_t)reached > nr / MANY_PARTS);
		reached = go_further(graph, run, depth, distances);
	}
	return (int)reached;
}

static int relax(struct graph *graph, struct heap *heap, uint32_t vertex, uint64_t *distances)
{
	struct graph_view view;
	int ret = graph_look(graph, vertex, &view);

	for (uint64_t edge = 0; edge < view.nr && !ret; edge++) {
		uint32_t target = view.targets[edge];
		uint64_t distance = distances[vertex] + (view.weights ? view.weights[edge] : 1);

		if (distance >= distances[target])
			continue;
		distances[target] = distance;
		ret = heap_put(heap, distance, target) ? fail_memory() : 0;
	}
	return ret;
}

/* E. W. Dijkstra, "A note on two problems in connexion with graphs", 1959. A vertex may be in the heap several times; the
 * first counts. */
int graph_shortest(struct graph *graph, const struct graph_run *run, uint64_t *distances)
{
	struct heap heap = {0};
	uint64_t distance, nr_done = 0;
	uint32_t vertex;
	int ret = 0;

	graph_expect_all(graph, false);
	begin(graph, run, distances);
	if (heap_put(&heap, 0, run->from))
		ret = fail_memory();
	while (!ret && heap_take(&heap, &distance, &vertex)) {
		if (is_ended(run, nr_done++))
			ret = -ECANCELED;
		else if (distance == distances[vertex])
			ret = relax(graph, &heap, vertex, distances);
	}
	heap_free(&heap);
	return ret;
}
