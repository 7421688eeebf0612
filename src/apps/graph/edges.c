/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a graph from its region. Offsets are read once, edges when they are asked for: many at once into a window if all
 * are wanted, else those of one vertex. Nothing in the region is believed before it is checked, because whoever may write
 * the namespace may have written anything.
 */
#include <errno.h>
#include <stdlib.h>

#include "failure.h"
#include "graph.h"
#include "layout.h"
#include "place.h"

#define WINDOW_EDGES	   ((uint64_t)1 << 20) /* read at once when all are wanted */
#define READ_BYTES	   ((uint64_t)16 << 20)
#define EDGES_POSSIBLE_MAX ((uint64_t)1 << 48)

struct graph {
	const char *name;
	struct place place;
	struct graph_header header;
	uint64_t *offsets;
	uint32_t *targets, *weights; /* of the window */
	uint64_t first, nr, room;    /* its edges; `room`: how many there is memory for */
	bool expects_all;
};

uint64_t graph_nr_vertices(const struct graph *graph)
{
	return graph->header.nr_vertices;
}

uint64_t graph_nr_edges(const struct graph *graph)
{
	return graph->header.nr_edges;
}

bool graph_is_weighted(const struct graph *graph)
{
	return graph->header.is_weighted != 0;
}

uint64_t graph_degree(const struct graph *graph, uint32_t vertex)
{
	return graph->offsets[vertex + 1ULL] - graph->offsets[vertex];
}

void graph_expect_all(struct graph *graph, bool is_all)
{
	graph->expects_all = is_all;
}

static int read_bytes(const struct graph *graph, void *data, uint64_t bytes, uint64_t offset)
{
	for (uint64_t done = 0; done < bytes;) {
		uint64_t length = bytes - done < READ_BYTES ? bytes - done : READ_BYTES;
		ssize_t n = afar_region_pread(graph->place.region, (char *)data + done, length,
					      offset + done);

		if (n <= 0)
			return app_fail_last(n ? (int)n : -EIO, graph->name);
		done += (uint64_t)n;
	}
	return 0;
}

/* ---- Opening */

static int fail_damaged(const struct graph *graph, const char *what)
{
	return app_fail(-EBADMSG,
			"%s: it is no graph of 'afar graph', or was damaged: %s; import it again",
			graph->name, what);
}

static int check_header(const struct graph *graph)
{
	const struct graph_header *header = &graph->header;

	if (header->magic != GRAPH_MAGIC)
		return fail_damaged(graph, "it does not begin as one");
	if (!header->nr_vertices || header->nr_vertices > GRAPH_VERTICES_MAX ||
	    header->nr_edges > EDGES_POSSIBLE_MAX || header->is_weighted > 1)
		return fail_damaged(graph, "its numbers of vertices and edges cannot be");
	if (graph_bytes(header) != graph->place.length)
		return fail_damaged(graph, "it is not as long as its vertices and edges");
	return 0;
}

static int check_offsets(const struct graph *graph)
{
	uint64_t nr = graph->header.nr_vertices;

	for (uint64_t i = 0; i < nr; i++)
		if (graph->offsets[i] > graph->offsets[i + 1])
			return fail_damaged(graph, "where edges begin goes backwards");
	return graph->offsets[0] == 0 && graph->offsets[nr] == graph->header.nr_edges
		       ? 0
		       : fail_damaged(graph, "where edges begin and end is wrong");
}

static int load(struct graph *graph)
{
	uint64_t bytes;
	int ret = 0;

	if (graph->place.length < GRAPH_OFFSETS)
		return fail_damaged(graph, "it is too short");
	ret = read_bytes(graph, &graph->header, sizeof(graph->header), 0);
	if (!ret)
		ret = check_header(graph);
	if (ret)
		return ret;
	bytes = 8 * (graph->header.nr_vertices + 1);
	graph->offsets = malloc(bytes);
	if (!graph->offsets)
		return app_fail(-ENOMEM, "%s: no memory for %llu vertices", graph->name,
				(unsigned long long)graph->header.nr_vertices);
	ret = read_bytes(graph, graph->offsets, bytes, GRAPH_OFFSETS);
	return ret ? ret : check_offsets(graph);
}

int graph_open(struct afar_session *session, const char *name, struct graph **out)
{
	struct graph *graph;
	int ret = graph_check_name(name);

	*out = NULL;
	if (ret)
		return ret;
	graph = calloc(1, sizeof(*graph));
	if (!graph)
		return app_fail(-ENOMEM, "%s: out of memory", name);
	graph->name = name;
	ret = place_open(session, name, &graph->place);
	if (!ret)
		ret = load(graph);
	if (ret) {
		graph_close(graph);
		return ret;
	}
	*out = graph;
	return 0;
}

void graph_close(struct graph *graph)
{
	if (!graph)
		return;
	place_close(&graph->place);
	free(graph->offsets);
	free(graph->targets);
	free(graph->weights);
	free(graph);
}

/* ---- Edges */

static int make_room(struct graph *graph, uint64_t nr)
{
	uint32_t *targets, *weights;

	if (nr <= graph->room)
		return 0;
	targets = realloc(graph->targets, nr * sizeof(*targets));
	if (targets)
		graph->targets = targets;
	weights = graph->header.is_weighted ? realloc(graph->weights, nr * sizeof(*weights)) : NULL;
	if (weights)
		graph->weights = weights;
	if (!targets || (graph->header.is_weighted && !weights))
		return app_fail(-ENOMEM, "%s: no memory for %llu edges", graph->name,
				(unsigned long long)nr);
	graph->room = nr;
	return 0;
}

static int check_targets(const struct graph *graph)
{
	for (uint64_t i = 0; i < graph->nr; i++)
		if (graph->targets[i] >= graph->header.nr_vertices)
			return fail_damaged(graph, "an edge leads out of it");
	return 0;
}

static int fill_window(struct graph *graph, uint64_t first, uint64_t nr)
{
	int ret = make_room(graph, nr);

	graph->nr = 0;
	if (!ret)
		ret = read_bytes(graph, graph->targets, 4 * nr,
				 graph_targets_at(&graph->header) + 4 * first);
	if (!ret && graph->header.is_weighted)
		ret = read_bytes(graph, graph->weights, 4 * nr,
				 graph_weights_at(&graph->header) + 4 * first);
	if (ret)
		return ret;
	graph->first = first;
	graph->nr = nr;
	ret = check_targets(graph);
	if (ret)
		graph->nr = 0;
	return ret;
}

static bool is_in_window(const struct graph *graph, uint64_t first, uint64_t nr)
{
	return first >= graph->first && first - graph->first <= graph->nr &&
	       nr <= graph->nr - (first - graph->first);
}

int graph_look(struct graph *graph, uint32_t vertex, struct graph_view *out)
{
	uint64_t first = graph->offsets[vertex], nr = graph_degree(graph, vertex), wanted = nr;
	int ret = 0;

	*out = (struct graph_view){0};
	if (nr == 0)
		return 0;
	if (graph->expects_all && wanted < WINDOW_EDGES)
		wanted = WINDOW_EDGES;
	if (wanted > graph->header.nr_edges - first)
		wanted = graph->header.nr_edges - first;
	if (!is_in_window(graph, first, nr))
		ret = fill_window(graph, first, wanted);
	if (ret)
		return ret;
	*out = (struct graph_view){
		.targets = graph->targets + (first - graph->first),
		.weights =
			graph->header.is_weighted ? graph->weights + (first - graph->first) : NULL,
		.nr = nr,
	};
	return 0;
}
