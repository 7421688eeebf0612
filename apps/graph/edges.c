/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening a graph in its region, and where the edges of its vertices begin; see graph.h and edges.h. Nothing in the region
 * is believed before it is checked, because whoever may write the namespace may have written anything. Edges are read by
 * stream.c and explorer.c, and checked by those who use them.
 */
#include "edges.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/copy/failure.h"

#define READ_BYTES	   ((uint64_t)16 << 20)
#define EDGES_POSSIBLE_MAX ((uint64_t)1 << 48)
#define VERTEX_WEIGHT	   4U /* edges: what a vertex costs beside its edges, about */

uint64_t graph_nr_vertices(const struct graph *graph)
{
	return graph->header.nr_vertices;
}

uint64_t graph_nr_edges(const struct graph *graph)
{
	return graph->header.nr_edges;
}

int graph_fail_damaged(const struct graph *graph, const char *what)
{
	return app_fail(-EBADMSG,
			"%s: it is no graph of 'afar graph', or was damaged: %s; import it again",
			graph->name, what);
}

int graph_fail_edge(const struct graph *graph)
{
	return graph_fail_damaged(graph, "an edge leads out of it");
}

static int read_bytes(const struct graph *graph, void *data, uint64_t bytes, uint64_t offset)
{
	for (uint64_t done = 0; done < bytes;) {
		uint64_t length = bytes - done < READ_BYTES ? bytes - done : READ_BYTES;
		ssize_t n = afar_region_pread(graph->place.end.region, (char *)data + done, length,
					      offset + done);

		if (n <= 0)
			return app_fail_last(n ? (int)n : -EIO, graph->name);
		done += (uint64_t)n;
	}
	return 0;
}

/* ---- Opening */

static int check_header(const struct graph *graph)
{
	const struct graph_header *header = &graph->header;

	if (header->magic != GRAPH_MAGIC)
		return graph_fail_damaged(graph, "it does not begin as one");
	if (!header->nr_vertices || header->nr_vertices > GRAPH_VERTICES_MAX ||
	    header->nr_edges > EDGES_POSSIBLE_MAX || header->is_weighted > 1 ||
	    header->is_symmetric > 1)
		return graph_fail_damaged(graph, "its numbers of vertices and edges cannot be");
	if (graph_bytes(header) != graph->place.length)
		return graph_fail_damaged(graph, "it is not as long as its vertices and edges");
	return 0;
}

static int read_header(struct graph *graph)
{
	int ret;

	if (graph->place.length < GRAPH_OFFSETS)
		return graph_fail_damaged(graph, "it is too short");
	ret = read_bytes(graph, &graph->header, sizeof(graph->header), 0);
	return ret ? ret : check_header(graph);
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
		ret = read_header(graph);
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
	free(graph->offsets[GRAPH_OUT]);
	free(graph->offsets[GRAPH_IN]);
	free(graph);
}

/* ---- Where edges begin */

static int check_offsets(const struct graph *graph, const uint64_t *offsets)
{
	uint64_t nr = graph->header.nr_vertices;

	for (uint64_t i = 0; i < nr; i++)
		if (offsets[i] > offsets[i + 1])
			return graph_fail_damaged(graph, "where edges begin goes backwards");
	return offsets[0] == 0 && offsets[nr] == graph->header.nr_edges
		       ? 0
		       : graph_fail_damaged(graph, "where edges begin and end is wrong");
}

int graph_load(struct graph *graph, enum graph_list list)
{
	const enum graph_list kept = graph_kept(&graph->header, list);
	const uint64_t bytes = graph_offsets_bytes(&graph->header);
	uint64_t *offsets;
	int ret;

	if (graph->offsets[kept])
		return 0;
	offsets = malloc(bytes);
	if (!offsets)
		return app_fail(-ENOMEM, "%s: no memory for %llu vertices", graph->name,
				(unsigned long long)graph->header.nr_vertices);
	ret = read_bytes(graph, offsets, bytes, graph_offsets_at(&graph->header, kept));
	if (!ret)
		ret = check_offsets(graph, offsets);
	if (ret) {
		free(offsets);
		return ret;
	}
	graph->offsets[kept] = offsets;
	return 0;
}

void graph_divide(const struct graph *graph, enum graph_list list, unsigned nr, uint64_t *bounds)
{
	const uint64_t *offsets = graph_offsets(graph, list);
	const uint64_t nr_vertices = graph->header.nr_vertices;
	const uint64_t whole = graph->header.nr_edges + VERTEX_WEIGHT * nr_vertices;
	uint64_t vertex = 0;

	for (unsigned i = 0; i < nr; i++) {
		uint64_t goal = whole / nr * i;

		while (vertex < nr_vertices && offsets[vertex] + VERTEX_WEIGHT * vertex < goal)
			vertex++;
		bounds[i] = vertex;
	}
	bounds[nr] = nr_vertices;
}
