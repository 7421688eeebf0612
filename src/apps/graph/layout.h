/* SPDX-License-Identifier: BSD-3-Clause */
/* A graph's region: the header, 64-bit words that say where the edges of each vertex begin, one more for the end, the
 * targets of all edges, and their weights. Numbers are little-endian, as on all machines that Afar runs on. */
#ifndef APPS_GRAPH_LAYOUT_H
#define APPS_GRAPH_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#define GRAPH_MAGIC   UINT64_C(0x3130687061726741) /* "Agraph01" */
#define GRAPH_OFFSETS 4096U			   /* where they begin */

struct graph_header {
	uint64_t magic;
	uint64_t nr_vertices;
	uint64_t nr_edges;
	uint64_t is_weighted; /* 0 or 1 */
};

static inline uint64_t graph_targets_at(const struct graph_header *header)
{
	return GRAPH_OFFSETS + 8 * (header->nr_vertices + 1);
}

static inline uint64_t graph_weights_at(const struct graph_header *header)
{
	return graph_targets_at(header) + 4 * header->nr_edges;
}

/* Of the whole region. The counts are less than 1 << 56. */
static inline uint64_t graph_bytes(const struct graph_header *header)
{
	return graph_weights_at(header) + (header->is_weighted ? 4 * header->nr_edges : 0);
}

#endif
