/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening a graph in its region, and where the edges of its vertices begin; see afar/graph.h and graph.h. Nothing in the
 * region is believed before it is checked, because whoever may write the namespace may have written anything. Edges are read
 * by stream.c and explorer.c.
 */
#include "graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/copy/failure.h"

#define READ_BYTES	   ((uint64_t)16 << 20)
#define EDGES_POSSIBLE_MAX ((uint64_t)1 << 48)
#define VERTEX_WEIGHT	   4U /* edges: what a vertex costs beside its edges, about */

static int fail_damaged(const struct afar_graph *graph, const char *what)
{
	return app_fail(-EBADMSG,
			"%s: it is no graph of 'afar graph', or was damaged: %s; import it again",
			graph->name, what);
}

/* Four words at a time, because all edges of all steps are checked. */
typedef uint32_t quad __attribute__((vector_size(16)));

/* Returns whether one of the words, of those that the mask is for, is no vertex. There are 2^31 vertices at most. */
static bool leads_out(const uint32_t *words, uint64_t nr, uint32_t nr_vertices, quad mask)
{
	const quad last = {nr_vertices - 1, nr_vertices - 1, nr_vertices - 1, nr_vertices - 1};
	quad seen = {0}, word;
	uint64_t i = 0;

	for (; i + 4 <= nr; i += 4) {
		memcpy(&word, words + i, sizeof(word));
		seen |= (word | (last - word)) &
			mask; /* the highest bit is set if the word is larger */
	}
	memset(&word, 0, sizeof(word));
	memcpy(&word, words + i, (nr - i) * sizeof(*words));
	seen |= (word | (last - word)) & mask;
	return (seen[0] | seen[1] | seen[2] | seen[3]) >> 31;
}

int graph_check_edges(const struct afar_graph *graph, const uint32_t *words, uint64_t nr,
		      unsigned stride)
{
	const uint64_t nr_vertices = graph->header.nr_vertices;
	const quad mask = stride == 1 ? (quad){~0U, ~0U, ~0U, ~0U} : (quad){~0U, 0, ~0U, 0};
	bool is_bad = false;

	if (nr_vertices <= UINT64_C(1) << 31)
		is_bad = leads_out(words, nr * stride, (uint32_t)nr_vertices, mask);
	else
		for (uint64_t i = 0; i < nr; i++)
			is_bad |= words[i * stride] >= nr_vertices;
	return is_bad ? fail_damaged(graph, "an edge leads out of it") : 0;
}

bool graph_is_ended(void *context)
{
	const struct afar_graph *graph = context;

	return graph->is_ended && graph->is_ended(graph->context);
}

int graph_live(struct afar_graph *graph)
{
	if (graph->team)
		return team_live(graph->team);
	return graph_is_ended(graph) ? -ECANCELED : 0;
}

int graph_alloc(struct afar_graph *graph, uint64_t bytes, struct afar_buffer **out)
{
	int ret = afar_buffer_alloc(graph->session, bytes, out);

	return ret ? app_fail(ret, "graph %s: no memory for %llu bytes", graph->name,
			      (unsigned long long)bytes)
		   : 0;
}

static int read_bytes(const struct afar_graph *graph, void *data, uint64_t bytes, uint64_t offset)
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

static int check_header(const struct afar_graph *graph)
{
	const struct graph_header *header = &graph->header;

	if (header->magic != GRAPH_MAGIC)
		return fail_damaged(graph, "it does not begin as one");
	if (!header->nr_vertices || header->nr_vertices > AFAR_GRAPH_VERTICES_MAX ||
	    header->nr_edges > EDGES_POSSIBLE_MAX || header->is_weighted > 1 ||
	    header->is_symmetric > 1)
		return fail_damaged(graph, "its numbers of vertices and edges cannot be");
	if (graph_bytes(header) != graph->place.length)
		return fail_damaged(graph, "it is not as long as its vertices and edges");
	return 0;
}

static int read_header(struct afar_graph *graph)
{
	int ret;

	if (graph->place.length < GRAPH_OFFSETS)
		return fail_damaged(graph, "it is too short");
	ret = read_bytes(graph, &graph->header, sizeof(graph->header), 0);
	return ret ? ret : check_header(graph);
}

static void free_graph(struct afar_graph *graph)
{
	io_close(&graph->io);
	explorer_free(graph->explorer);
	place_close(&graph->place);
	free(graph->offsets[GRAPH_OUT]);
	free(graph->offsets[GRAPH_IN]);
	free(graph);
}

static int open_graph(struct afar_session *session, const char *name, struct afar_graph **out)
{
	struct afar_graph *graph;
	int ret;

	if (!session || !name || !out)
		return app_fail(
			-EINVAL,
			"afar_graph_open: a session, a name or a place for the handle is null");
	*out = NULL;
	if (!place_is_region(name))
		return app_fail(-EINVAL, "'%.64s' is not NAMESPACE:NAME: graphs are in regions",
				name);
	graph = calloc(1, sizeof(*graph));
	if (!graph)
		return app_fail(-ENOMEM, "%s: out of memory", name);
	graph->session = session;
	graph->place = (struct place){.end = {.text = graph->name, .fd = -1}};
	if (snprintf(graph->name, sizeof(graph->name), "%s", name) >= (int)sizeof(graph->name))
		ret = app_fail(-EINVAL, "'%.64s…' is too long for NAMESPACE:NAME", name);
	else
		ret = place_open(session, graph->name, &graph->place);
	if (!ret)
		ret = read_header(graph);
	if (!ret)
		ret = io_open(&graph->io, session, graph_is_ended, graph);
	if (!ret)
		ret = io_connect(&graph->io, &graph->place.end);
	if (ret) {
		free_graph(graph);
		return ret;
	}
	*out = graph;
	return 0;
}

int afar_graph_open(struct afar_session *session, const char *name, struct afar_graph **out)
{
	return graph_return(open_graph(session, name, out));
}

int afar_graph_close(struct afar_graph *graph)
{
	int ret = graph_check_handle(graph, "afar_graph_close");

	if (!ret && graph->nr_users)
		ret = app_fail(-EBUSY, "close graph %s: cursors or jobs of it are open: %u",
			       graph->name, graph->nr_users);
	if (!ret)
		free_graph(graph);
	return graph_return(ret);
}

int afar_graph_stat(const struct afar_graph *graph, struct afar_graph_stat *out)
{
	int ret = graph_check_handle(graph && out ? graph : NULL, "afar_graph_stat");
	struct afar_graph_stat stat;

	if (ret)
		return graph_return(ret);
	stat = (struct afar_graph_stat){
		.nr_vertices = graph->header.nr_vertices,
		.nr_edges = graph->header.nr_edges,
		.nr_read = graph->nr_read,
		.is_weighted = (uint32_t)graph->header.is_weighted,
		.is_symmetric = (uint32_t)graph->header.is_symmetric,
	};
	return graph_return(GRAPH_GIVE(out, &stat, afar_graph_stat, is_symmetric));
}

/* ---- Where edges begin */

static int check_offsets(const struct afar_graph *graph, const uint64_t *offsets)
{
	uint64_t nr = graph->header.nr_vertices;

	for (uint64_t i = 0; i < nr; i++)
		if (offsets[i] > offsets[i + 1])
			return fail_damaged(graph, "where edges begin goes backwards");
	return offsets[0] == 0 && offsets[nr] == graph->header.nr_edges
		       ? 0
		       : fail_damaged(graph, "where edges begin and end is wrong");
}

int graph_load(struct afar_graph *graph, enum graph_list list)
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

int64_t afar_graph_degree(struct afar_graph *graph, enum afar_graph_direction direction,
			  uint32_t vertex)
{
	const enum graph_list list = direction == AFAR_GRAPH_IN ? GRAPH_IN : GRAPH_OUT;
	const uint64_t *offsets;
	int ret = graph_check_handle(graph, "afar_graph_degree");

	if (!ret && vertex >= graph->header.nr_vertices)
		ret = app_fail(-ERANGE, "graph %s: there is no vertex %u", graph->name, vertex);
	if (!ret)
		ret = graph_load(graph, list);
	if (ret)
		return graph_return(ret);
	offsets = graph_offsets(graph, list);
	return (int64_t)(offsets[vertex + 1ULL] - offsets[vertex]);
}

void graph_divide(const struct afar_graph *graph, enum graph_list list, unsigned nr,
		  uint64_t *bounds)
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
