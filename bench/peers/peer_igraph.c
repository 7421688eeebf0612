/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_igraph IMAGE […]: PageRank by igraph's C library, by its usual way (PRPACK), which ends when ranks do not change any more.
 * IMAGE is the region of a graph of `afar graph`, as a file. Says how long that took, without making the graph.
 */
#include <errno.h>
#include <igraph.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/graph/layout.h"
#include "base/clock.h"

#define DAMPING 0.85

static char *read_image(const char *path)
{
	FILE *file = fopen(path, "re");
	char *image = NULL;
	long length = 0;

	if (file && !fseek(file, 0, SEEK_END) && (length = ftell(file)) > (long)GRAPH_OFFSETS) {
		rewind(file);
		image = malloc((size_t)length);
	}
	if (image && fread(image, 1, (size_t)length, file) != (size_t)length) {
		free(image);
		image = NULL;
	}
	if (file)
		fclose(file);
	if (!image)
		fprintf(stderr, "peer_igraph: read %s: %s\n", path, strerror(errno));
	return image;
}

static int make_graph(const char *image, igraph_t *graph)
{
	const struct graph_header *header = (const void *)image;
	const uint64_t *offsets = (const void *)(image + graph_offsets_at(header, GRAPH_OUT));
	const uint32_t *words = (const void *)(image + graph_edges_at(header, GRAPH_OUT));
	const unsigned step = graph_words(header, GRAPH_OUT);
	igraph_vector_int_t edges;
	int ret;

	if (igraph_vector_int_init(&edges, (igraph_integer_t)(2 * header->nr_edges)))
		return 1;
	for (uint64_t from = 0; from < header->nr_vertices; from++) {
		for (uint64_t i = offsets[from]; i < offsets[from + 1]; i++) {
			VECTOR(edges)[2 * i] = (igraph_integer_t)from;
			VECTOR(edges)[2 * i + 1] = words[i * step];
		}
	}
	ret = igraph_create(graph, &edges, (igraph_integer_t)header->nr_vertices, IGRAPH_DIRECTED);
	igraph_vector_int_destroy(&edges);
	return ret ? 1 : 0;
}

static int rank(const igraph_t *graph)
{
	igraph_vector_t ranks;
	igraph_real_t value;
	uint64_t begin;
	int ret;

	if (igraph_vector_init(&ranks, 0))
		return 1;
	begin = clock_ns();
	ret = igraph_pagerank(graph, IGRAPH_PAGERANK_ALGO_PRPACK, &ranks, &value, igraph_vss_all(),
			      IGRAPH_DIRECTED, DAMPING, NULL, NULL);
	printf("pagerank in %.6f s, sum %.4f\n", (double)(clock_ns() - begin) / 1e9,
	       igraph_vector_sum(&ranks));
	igraph_vector_destroy(&ranks);
	return ret ? 1 : 0;
}

int main(int argc, char **argv)
{
	char *image = argc >= 2 ? read_image(argv[1]) : NULL;
	igraph_t graph;
	int status = image ? make_graph(image, &graph) : 1;

	free(image);
	if (status)
		return status;
	status = rank(&graph);
	igraph_destroy(&graph);
	return status;
}
