/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Going through vertices with their edges; see afar/graph.h and cursor.h. Edges come in pieces, which are checked as a whole.
 * Those of a vertex are given as one array: where a piece ends among them, they are put together in memory of the cursor.
 */
#include "cursor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/copy/failure.h"

int cursor_open(struct afar_graph *graph, enum graph_list list, uint64_t first, uint64_t end,
		struct afar_graph_cursor **out)
{
	struct afar_graph_cursor *cursor;
	int ret = graph_load(graph, list);

	if (ret)
		return ret;
	cursor = calloc(1, sizeof(*cursor));
	if (!cursor)
		return app_fail(-ENOMEM, "graph %s: out of memory", graph->name);
	cursor->graph = graph;
	cursor->offsets = graph_offsets(graph, list);
	cursor->stride = graph_words(&graph->header, list);
	ret = stream_open(&cursor->stream, graph, list);
	if (ret) {
		free(cursor);
		return ret;
	}
	graph->nr_users++;
	cursor_move(cursor, first, end);
	*out = cursor;
	return 0;
}

void cursor_move(struct afar_graph_cursor *cursor, uint64_t first, uint64_t end)
{
	const uint64_t edge = cursor->offsets[first];

	stream_begin(&cursor->stream, edge, cursor->offsets[end] - edge);
	cursor->vertex = first;
	cursor->end = end;
	cursor->nr = 0;
}

void cursor_close(struct afar_graph_cursor *cursor)
{
	if (!cursor)
		return;
	cursor->graph->nr_users--;
	stream_close(&cursor->stream);
	free(cursor->whole);
	free(cursor);
}

/* Waits for the next piece. */
static int next_piece(struct afar_graph_cursor *cursor)
{
	int ret = stream_next(&cursor->stream, &cursor->words, &cursor->nr);

	if (!ret)
		ret = graph_check_edges(cursor->graph, cursor->words, cursor->nr, cursor->stride);
	cursor->graph->nr_read += cursor->nr;
	return ret ? ret : graph_live(cursor->graph);
}

static int make_room(struct afar_graph_cursor *cursor, uint64_t nr)
{
	uint32_t *larger;

	if (nr <= cursor->room)
		return 0;
	larger = reallocarray(cursor->whole, nr, 4 * cursor->stride);
	if (!larger)
		return app_fail(-ENOMEM, "graph %s: no memory for the %llu edges of vertex %llu",
				cursor->graph->name, (unsigned long long)nr,
				(unsigned long long)cursor->vertex - 1);
	cursor->whole = larger;
	cursor->room = nr;
	return 0;
}

/* Puts the edges of a vertex together. */
static int collect(struct afar_graph_cursor *cursor, uint64_t nr)
{
	int ret = make_room(cursor, nr);

	for (uint64_t done = 0; done < nr && !ret;) {
		uint64_t part = nr - done < cursor->nr ? nr - done : cursor->nr;

		memcpy(cursor->whole + done * cursor->stride, cursor->words,
		       4 * part * cursor->stride);
		cursor->words += part * cursor->stride;
		cursor->nr -= part;
		done += part;
		if (done < nr)
			ret = next_piece(cursor);
	}
	return ret;
}

int cursor_await(struct afar_graph_cursor *cursor, uint64_t nr, struct afar_graph_edges *out)
{
	int ret = cursor->nr ? 0 : next_piece(cursor);

	if (ret)
		return ret;
	if (nr <= cursor->nr) {
		out->words = cursor->words;
		cursor->words += nr * cursor->stride;
		cursor->nr -= nr;
	} else {
		ret = collect(cursor, nr);
		out->words = cursor->whole;
	}
	out->nr = nr;
	out->nr_ahead = out->words == cursor->whole ? 0 : cursor->nr * cursor->stride;
	return ret;
}

/* ---- The calls */

static int check_range(const struct afar_graph *graph, uint64_t first, uint64_t end)
{
	if (first <= end && end <= graph->header.nr_vertices)
		return 0;
	return app_fail(-ERANGE, "graph %s: vertices %llu to %llu cannot be: it has %llu",
			graph->name, (unsigned long long)first, (unsigned long long)end,
			(unsigned long long)graph->header.nr_vertices);
}

int afar_graph_cursor_open(struct afar_graph *graph, enum afar_graph_direction direction,
			   uint64_t first, uint64_t end, struct afar_graph_cursor **out)
{
	int ret = graph_check_handle(graph && out ? graph : NULL, "afar_graph_cursor_open");

	if (!ret)
		ret = check_range(graph, first, end);
	if (!ret)
		ret = cursor_open(graph, direction == AFAR_GRAPH_IN ? GRAPH_IN : GRAPH_OUT, first,
				  end, out);
	return graph_return(ret);
}

int afar_graph_cursor_next(struct afar_graph_cursor *cursor, struct afar_graph_vertex *out)
{
	int ret = graph_check_handle(cursor && out ? cursor : NULL, "afar_graph_cursor_next");

	if (ret)
		return graph_return(ret);
	if (cursor->vertex == cursor->end)
		return 0;
	*out = (struct afar_graph_vertex){.edges.stride = cursor->stride};
	ret = cursor_next(cursor, out);
	return ret ? graph_return(ret) : 1;
}

int afar_graph_cursor_move(struct afar_graph_cursor *cursor, uint64_t first, uint64_t end)
{
	int ret = graph_check_handle(cursor, "afar_graph_cursor_move");

	if (!ret)
		ret = check_range(cursor->graph, first, end);
	if (!ret)
		cursor_move(cursor, first, end);
	return graph_return(ret);
}

int afar_graph_cursor_close(struct afar_graph_cursor *cursor)
{
	int ret = graph_check_handle(cursor, "afar_graph_cursor_close");

	if (!ret)
		cursor_close(cursor);
	return graph_return(ret);
}
