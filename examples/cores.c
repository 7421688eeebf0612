/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cores of a graph: a vertex is in the k-core if it has k neighbours that are in it, too. Each vertex begins with how many
 * neighbours it has, and goes down to the largest k of which k neighbours say as much (L. Lü and others, "The H-index of a
 * network node and its relation to degree and coreness", 2016). Prints the largest k of each vertex.
 *
 *   afar graph import EDGES g:friends --undirected && ./cores g:friends
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/graph.h>

struct cores {
	struct afar_graph *graph;
	uint32_t *counts; /* of neighbours that say so much */
};

static int start(struct afar_graph_step *step, uint32_t vertex, void *core)
{
	const struct cores *cores = step->context;
	int64_t degree = afar_graph_degree(cores->graph, AFAR_GRAPH_OUT, vertex);
	uint32_t most = (uint32_t)degree;

	memcpy(core, &most, sizeof(most));
	return degree < 0 ? (int)degree : 0;
}

static int go_down(struct afar_graph_step *step, const struct afar_graph_vertex *vertex, void *core)
{
	const uint32_t *values = step->values;
	const uint32_t most = values[vertex->number];
	uint32_t *counts = ((struct cores *)step->context)->counts;
	uint32_t least = most, sum = 0;

	memset(counts, 0, sizeof(*counts) * (most + 1ULL));
	for (uint64_t i = 0; i < vertex->edges.nr; i++) {
		uint32_t says = values[afar_graph_neighbour(&vertex->edges, i)];

		counts[says < most ? says : most]++;
	}
	while (least > 0 && (sum += counts[least]) < least)
		least--;
	memcpy(core, &least, sizeof(least));
	return least != most;
}

static void check(int ret)
{
	if (ret < 0) {
		fprintf(stderr, "cores: %s\n", afar_last_error());
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct cores cores = {0};
	struct afar_graph_program program = {.size = sizeof(program),
					     .name = "cores",
					     .value_bytes = sizeof(uint32_t),
					     .start = start,
					     .compute = go_down,
					     .context = &cores};
	struct afar_graph_job_options options = {.size = sizeof(options), .name = "cores"};
	struct afar_graph_stat stat = {.size = sizeof(stat)};
	struct afar_session *session;
	struct afar_graph_job *job;

	if (argc != 2 && argc != 4) {
		fprintf(stderr, "usage: cores NAMESPACE:GRAPH [WORKER COUNT]\n");
		return 2;
	}
	options.worker = argc == 4 ? (uint32_t)atoi(argv[2]) : 0;
	options.nr_workers = argc == 4 ? (uint32_t)atoi(argv[3]) : 1;
	check(afar_session_open(NULL, NULL, &session));
	check(afar_graph_open(session, argv[1], &cores.graph));
	check(afar_graph_stat(cores.graph, &stat));
	if (!stat.is_symmetric)
		check(afar_fail(-1, "cores are of graphs that were imported with --undirected"));
	cores.counts = calloc(stat.nr_edges + 1, sizeof(*cores.counts));
	check(cores.counts ? 0 : afar_fail(-1, "no memory for counts"));
	check(afar_graph_job_open(cores.graph, &program, &options, &job));
	check(afar_graph_job_run(job));
	for (uint64_t i = 0; i < stat.nr_vertices && options.worker == 0; i++)
		printf("%llu %u\n", (unsigned long long)i,
		       ((const uint32_t *)afar_graph_job_values(job))[i]);
	check(afar_graph_job_close(job));
	check(afar_graph_close(cores.graph));
	check(afar_session_close(session));
	free(cores.counts);
	return 0;
}
