/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Distances from a vertex, breadth first and by weight; see compute.h. A worker explores from those of its vertices that were
 * reached, as far as its own vertices go. Other vertices that it reaches belong to other workers. They get a message with the
 * least distance that was found, if it is less than any before. When no messages are sent any more, all are done.
 *
 * Breadth first: a superstep goes one edge further, so the first distance of a vertex is its own. By weight: the nearest
 * vertex is explored first (E. W. Dijkstra, "A note on two problems in connexion with graphs", 1959). Others are explored
 * beside it, because many reads are in flight, and again if a shorter way is found then. So is one that a message makes
 * nearer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute.h"
#include "heap.h"

#define MANY_PARTS 2048U /* a front of more than such a part of the vertices is put in order */

/* Vertices, as they come. */
struct list {
	uint32_t *vertices;
	uint64_t nr, room;
};

struct search {
	const struct graph_options *options;
	struct afar_graph *graph;
	uint64_t nr_vertices;
	struct afar_graph_step *step; /* this one */
	uint64_t *distances; /* the caller's vertices; of others, the least that was told to them */
	struct heap heap;    /* by weight: what is to be explored */
	struct list front,
		reached; /* breadth first: what is explored, and the caller's vertices one edge further */
	uint64_t at, depth; /* of the front */
};

static int fail_memory(void)
{
	return afar_fail(-ENOMEM, "graph: no memory for the vertices that are reached");
}

static int put(struct list *list, uint32_t vertex)
{
	if (list->nr == list->room) {
		uint64_t room = list->room ? 2 * list->room : 1024;
		uint32_t *larger = reallocarray(list->vertices, room, sizeof(*larger));

		if (!larger)
			return fail_memory();
		list->vertices = larger;
		list->room = room;
	}
	list->vertices[list->nr++] = vertex;
	return 0;
}

static bool is_by_weight(const struct search *search)
{
	return search->options->kind == GRAPH_SHORTEST;
}

/* ---- Reaching */

static int reach(struct search *search, uint32_t vertex, uint64_t distance)
{
	if (distance >= search->distances[vertex])
		return 0;
	search->distances[vertex] = distance;
	if (vertex < search->step->first || vertex >= search->step->end)
		return afar_graph_send(search->step, vertex, &distance);
	if (!is_by_weight(search))
		return put(&search->reached, vertex);
	return heap_put(&search->heap, distance, vertex) ? fail_memory() : 0;
}

static int take_edges(void *context, uint32_t vertex, const struct afar_graph_edges *edges)
{
	struct search *search = context;
	const bool has_weights = is_by_weight(search);
	const uint64_t distance = search->distances[vertex];
	int ret = 0;

	for (uint64_t i = 0; i < edges->nr && !ret; i++)
		ret = reach(search, afar_graph_neighbour(edges, i),
			    distance + (has_weights ? afar_graph_weight(edges, i) : 1));
	return ret;
}

/* ---- What is explored next */

static int next_nearest(void *context, uint32_t *vertex)
{
	struct search *search = context;
	uint64_t distance;

	while (heap_take(&search->heap, &distance, vertex))
		if (distance == search->distances[*vertex])
			return 1;
	return 0;
}

static int next_of_front(void *context, uint32_t *vertex)
{
	struct search *search = context;

	if (search->at == search->front.nr)
		return 0;
	*vertex = search->front.vertices[search->at++];
	return 1;
}

static int explore(struct search *search)
{
	const struct afar_graph_exploration exploration = {
		.size = sizeof(exploration),
		.nr_in_flight = search->options->nr_in_flight,
		.flags = is_by_weight(search) ? 0 : AFAR_GRAPH_IN_ORDER,
		.next = is_by_weight(search) ? next_nearest : next_of_front,
		.take = take_edges,
		.context = search,
	};

	return afar_graph_explore(search->graph, &exploration);
}

/* Puts the vertices of a large front in order, so that their edges are read together. */
static void put_in_order(struct search *search)
{
	const struct afar_graph_step *step = search->step;
	uint64_t nr = 0;

	if (search->front.nr <= (step->end - step->first) / MANY_PARTS)
		return;
	for (uint64_t i = step->first; i < step->end && nr < search->front.nr; i++)
		if (search->distances[i] == search->depth)
			search->front.vertices[nr++] = (uint32_t)i;
}

/* Makes a front of what was reached, and explores it. */
static int go_further(struct search *search)
{
	struct list front = search->front;

	search->front = search->reached;
	search->reached = front;
	search->reached.nr = 0;
	search->at = 0;
	put_in_order(search);
	search->depth++;
	return explore(search);
}

/* Goes on alone as far as it can. */
static int explore_all(struct search *search)
{
	const bool is_alone = search->step->end - search->step->first == search->nr_vertices;
	int ret;

	if (is_by_weight(search))
		return explore(search);
	do {
		ret = go_further(search);
	} while (!ret && is_alone && search->reached.nr);
	return ret;
}

/* ---- Steps */

static int begin_search(struct search *search)
{
	const uint32_t from = search->options->from;

	search->distances = afar_graph_job_results(search->step->job);
	memset(search->distances, 0xff, 8 * search->nr_vertices); /* GRAPH_UNREACHED */
	return from >= search->step->first && from < search->step->end ? reach(search, from, 0) : 0;
}

static int work(struct afar_graph_step *step)
{
	struct search *search = ((struct graph_computation *)step->context)->state;
	uint64_t distance;
	uint32_t vertex;
	int ret = 0;

	search->step = step;
	if (step->number == 0)
		ret = begin_search(search);
	while (!ret && afar_graph_receive(step, &vertex, &distance))
		ret = reach(search, vertex, distance);
	if (!ret)
		ret = explore_all(search);
	return ret ? ret : search->reached.nr != 0;
}

static void take_less(void *message, const void *other)
{
	uint64_t one, another;

	memcpy(&one, message, sizeof(one));
	memcpy(&another, other, sizeof(another));
	if (another < one)
		memcpy(message, &another, sizeof(another));
}

static int begin(struct graph_computation *computation, struct afar_graph_program *out)
{
	struct search *search = calloc(1, sizeof(*search));

	if (!search)
		return fail_memory();
	search->options = computation->options;
	search->graph = computation->graph;
	search->nr_vertices = computation->nr_vertices;
	computation->state = search;
	out->message_bytes = sizeof(uint64_t);
	out->result_bytes = sizeof(uint64_t);
	out->work = work;
	out->combine = take_less;
	return 0;
}

static void end(void *state)
{
	struct search *search = state;

	if (!search)
		return;
	heap_free(&search->heap);
	free(search->front.vertices);
	free(search->reached.vertices);
	free(search);
}

const struct graph_method breadth_first_method = {.begin = begin, .end = end};
const struct graph_method shortest_method = {.begin = begin, .end = end};
