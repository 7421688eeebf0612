/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A graph's region, from its beginning:
 *
 * - the header;
 * - 64-bit words that say where the edges that leave each vertex begin, one more for the end;
 * - likewise for the edges that arrive;
 * - the edges that leave, by vertex;
 * - the edges that arrive.
 *
 * An edge that leaves is its target, and its weight if there are weights: so both come with one read. One that arrives is
 * its source. If each edge goes both ways, those that leave are those that arrive, and are there once. Numbers are
 * little-endian, as on all machines that Afar runs on.
 */
#ifndef APPS_GRAPH_LAYOUT_H
#define APPS_GRAPH_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#define GRAPH_MAGIC   UINT64_C(0x3230687061726741) /* "Agraph02" */
#define GRAPH_OFFSETS 4096U			   /* where they begin */

enum graph_list {
	GRAPH_OUT, /* edges that leave */
	GRAPH_IN,  /* edges that arrive */
};

struct graph_header {
	uint64_t magic;
	uint64_t nr_vertices;
	uint64_t nr_edges;
	uint64_t is_weighted;  /* 0 or 1 */
	uint64_t is_symmetric; /* 0 or 1: each edge goes both ways */
};

/* Returns the list that is kept for `list`. */
static inline enum graph_list graph_kept(const struct graph_header *header, enum graph_list list)
{
	return header->is_symmetric ? GRAPH_OUT : list;
}

/* Returns how many 32-bit words an edge of the list has. The vertex is the first of them. */
static inline unsigned graph_words(const struct graph_header *header, enum graph_list list)
{
	return graph_kept(header, list) == GRAPH_OUT && header->is_weighted ? 2 : 1;
}

static inline uint64_t graph_offsets_bytes(const struct graph_header *header)
{
	return 8 * (header->nr_vertices + 1);
}

/* Where the words begin that say where edges begin. */
static inline uint64_t graph_offsets_at(const struct graph_header *header, enum graph_list list)
{
	return GRAPH_OFFSETS +
	       (graph_kept(header, list) == GRAPH_IN ? graph_offsets_bytes(header) : 0);
}

/* Where the edges begin. */
static inline uint64_t graph_edges_at(const struct graph_header *header, enum graph_list list)
{
	uint64_t at = GRAPH_OFFSETS + (header->is_symmetric ? 1 : 2) * graph_offsets_bytes(header);

	return graph_kept(header, list) == GRAPH_IN
		       ? at + 4 * header->nr_edges * graph_words(header, GRAPH_OUT)
		       : at;
}

/* Returns the bytes of the whole region. The counts are less than 1 << 56. */
static inline uint64_t graph_bytes(const struct graph_header *header)
{
	return graph_edges_at(header, GRAPH_IN) +
	       4 * header->nr_edges * graph_words(header, GRAPH_IN);
}

#endif
