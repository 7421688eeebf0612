/* SPDX-License-Identifier: BSD-3-Clause */
/* Gathering edges, whatever they come from, and writing them as a graph; see graph.h. */
#include "gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "place.h"
#include "room.h"
#include "tools/copy/failure.h"

#define EDGES_MIN   4096U
#define WRITE_BYTES ((uint64_t)16 << 20)

/* ---- Gathering */

static int make_room(struct graph_edges *edges)
{
	size_t room = edges->room ? 2 * edges->room : EDGES_MIN;
	struct graph_edge *larger = reallocarray(edges->edges, room, sizeof(*larger));

	if (!larger)
		return app_fail(-ENOMEM, "no memory for more than %zu edges; take a larger machine",
				edges->nr);
	edges->edges = larger;
	edges->room = room;
	return 0;
}

static int add(struct graph_edges *edges, uint32_t from, uint32_t to, uint32_t weight)
{
	int ret = edges->nr == edges->room ? make_room(edges) : 0;

	if (!ret)
		edges->edges[edges->nr++] = (struct graph_edge){from, to, weight};
	return ret;
}

static int note_vertex(struct graph_edges *edges, const struct graph_source *source,
		       const char *where, uint32_t vertex)
{
	uint64_t max = source->nr_vertices ? source->nr_vertices : GRAPH_VERTICES_MAX;

	if (vertex >= max)
		return app_fail(-EINVAL,
				"%s: vertex %u is out of range: they are numbered from 0 to %llu",
				where, vertex, (unsigned long long)max - 1);
	if (vertex >= edges->nr_vertices)
		edges->nr_vertices = vertex + 1ULL;
	return 0;
}

int edges_add(struct graph_edges *edges, const struct graph_source *source, const char *where,
	      const struct graph_edge *edge)
{
	int ret = note_vertex(edges, source, where, edge->from);

	if (!ret)
		ret = note_vertex(edges, source, where, edge->to);
	if (!ret)
		ret = add(edges, edge->from, edge->to, edge->weight);
	if (!ret && source->is_undirected && edge->from != edge->to)
		ret = add(edges, edge->to, edge->from, edge->weight);
	return ret;
}

int graph_gather(const struct graph_source *source, struct graph_edges **out)
{
	struct graph_edges *edges = calloc(1, sizeof(*edges));
	int ret;

	*out = NULL;
	if (!edges)
		return app_fail(-ENOMEM, "no memory for edges");
	edges->nr_vertices = source->nr_vertices;
	edges->is_weighted = source->is_weighted || source->weight_max;
	edges->is_symmetric = source->is_undirected;
	ret = source->path ? edges_import(source, edges) : edges_invent(source, edges);
	if (!ret && edges->nr_vertices == 0)
		ret = app_fail(-EINVAL, "%s: it has no edges; say --vertices for a graph without",
			       source->path);
	if (ret)
		graph_edges_free(edges);
	else
		*out = edges;
	return ret;
}

void graph_edges_free(struct graph_edges *edges)
{
	if (edges)
		free(edges->edges);
	free(edges);
}

static struct graph_header header_of(const struct graph_edges *edges)
{
	return (struct graph_header){
		.magic = GRAPH_MAGIC,
		.nr_vertices = edges->nr_vertices,
		.nr_edges = edges->nr,
		.is_weighted = edges->is_weighted,
		.is_symmetric = edges->is_symmetric,
	};
}

void graph_measure(const struct graph_edges *edges, struct graph_size *out)
{
	const struct graph_header header = header_of(edges);

	out->nr_vertices = header.nr_vertices;
	out->nr_edges = header.nr_edges;
	out->region_bytes = graph_bytes(&header);
	out->local_bytes = edges->room * sizeof(struct graph_edge) + graph_bytes(&header);
}

/* ---- Writing: all of the region is made here, and goes out in large pieces */

/* Adds up how many edges each vertex has, which is in the word behind its own, to where they begin. */
static void add_up(uint64_t *offsets, uint64_t nr_vertices)
{
	for (uint64_t i = 0; i < nr_vertices; i++)
		offsets[i + 1] += offsets[i];
}

/* Placing an edge moves the word of its vertex on, to that of the next one in the end. */
static void move_back(uint64_t *offsets, uint64_t nr_vertices)
{
	memmove(offsets + 1, offsets, nr_vertices * sizeof(*offsets));
	offsets[0] = 0;
}

/* Puts each edge behind those that leave its vertex and came before. */
static void place_leaving(const struct graph_edges *edges, uint64_t *offsets, uint32_t *words)
{
	for (size_t i = 0; i < edges->nr; i++)
		offsets[edges->edges[i].from + 1ULL]++;
	add_up(offsets, edges->nr_vertices);
	for (size_t i = 0; i < edges->nr; i++) {
		const struct graph_edge *edge = &edges->edges[i];
		uint64_t at = offsets[edge->from]++;

		if (edges->is_weighted) {
			words[2 * at] = edge->to;
			words[2 * at + 1] = edge->weight;
		} else {
			words[at] = edge->to;
		}
	}
	move_back(offsets, edges->nr_vertices);
}

/* Puts each edge among those that arrive at its target. Those of a vertex are in the order of their sources then, which
 * are near each other in memory. */
static void place_arriving(const struct graph_header *header, const uint64_t *leaving,
			   const uint32_t *words, uint64_t *offsets, uint32_t *sources)
{
	const unsigned step = graph_words(header, GRAPH_OUT);

	for (uint64_t i = 0; i < header->nr_edges; i++)
		offsets[words[step * i] + 1ULL]++;
	add_up(offsets, header->nr_vertices);
	for (uint64_t from = 0; from < header->nr_vertices; from++)
		for (uint64_t i = leaving[from]; i < leaving[from + 1]; i++)
			sources[offsets[words[step * i]]++] = (uint32_t)from;
	move_back(offsets, header->nr_vertices);
}

static char *make_image(const struct graph_edges *edges)
{
	const struct graph_header header = header_of(edges);
	char *image = calloc(1, graph_bytes(&header));
	uint64_t *leaving, *arriving;
	uint32_t *words, *sources;

	if (!image)
		return NULL;
	memcpy(image, &header, sizeof(header));
	leaving = (uint64_t *)(image + graph_offsets_at(&header, GRAPH_OUT));
	words = (uint32_t *)(image + graph_edges_at(&header, GRAPH_OUT));
	place_leaving(edges, leaving, words);
	arriving = (uint64_t *)(image + graph_offsets_at(&header, GRAPH_IN));
	sources = (uint32_t *)(image + graph_edges_at(&header, GRAPH_IN));
	if (!header.is_symmetric)
		place_arriving(&header, leaving, words, arriving, sources);
	return image;
}

static int write_all(const struct place *place, const char *image,
		     const struct graph_source *source)
{
	for (uint64_t done = 0; done < place->length;) {
		uint64_t left = place->length - done;
		ssize_t n;

		if (source->is_ended && source->is_ended(source->context))
			return -ECANCELED;
		n = afar_region_pwrite(place->end.region, image + done,
				       left < WRITE_BYTES ? left : WRITE_BYTES, done);
		if (n <= 0)
			return app_fail_last(n ? (int)n : -EIO, place->end.text);
		done += (uint64_t)n;
	}
	return 0;
}

static int create(struct afar_session *session, const char *name, uint64_t bytes, bool may_replace,
		  struct room *room, struct place *out)
{
	char ns[AFAR_NAME_MAX + 1];
	int ret = place_namespace(name, ns);

	if (!ret)
		ret = room_get(session, ns, bytes, room);
	if (!ret)
		ret = place_create(session, name, bytes, "graph", may_replace, out);
	if (ret != -AFAR_ERESERVE)
		return ret;
	ret = room_get_whole(session, bytes, room);
	return ret ? ret : place_create(session, name, bytes, "graph", may_replace, out);
}

int graph_check_name(const char *name)
{
	return place_is_region(name)
		       ? 0
		       : app_fail(-EINVAL, "'%.64s' is not NAMESPACE:NAME: graphs are in regions",
				  name);
}

int graph_write(struct afar_session *session, const char *name, const struct graph_source *source,
		const struct graph_edges *edges)
{
	const struct graph_header header = header_of(edges);
	struct place place = {.end = {.text = name, .fd = -1}};
	struct room room = {0};
	char *image;
	int ret;

	image = make_image(edges);
	if (!image)
		return app_fail(-ENOMEM, "%s: no memory to make %llu bytes in", name,
				(unsigned long long)graph_bytes(&header));
	ret = create(session, name, graph_bytes(&header), source->may_replace, &room, &place);
	if (!ret) {
		ret = write_all(&place, image, source);
		if (!ret)
			ret = place_finish(&place);
		if (ret)
			place_discard(&place);
		place_close(&place);
	}
	free(image);
	room_give_back(session, &room, ret ? 0 : graph_bytes(&header));
	return ret;
}
