/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communities of a graph by label propagation: each vertex takes the label that most of its neighbours have, the least if
 * several are as frequent. Prints that of each vertex.
 *
 *   afar graph import EDGES g:friends --undirected && ./labels g:friends
 *   for i in 0 1 2; do ./labels g:friends $i 3 & done; wait
 */
#include <stdio.h>
#include <stdlib.h>

#include <afar/graph.h>

static uint32_t *counts; /* of each label */

static int start(struct afar_graph_step *step, uint32_t vertex, void *label)
{
	(void)step;
	*(uint32_t *)label = vertex;
	return 0;
}

static int choose(struct afar_graph_step *step, const struct afar_graph_vertex *vertex, void *label)
{
	const uint32_t *labels = step->values;
	uint32_t best = labels[vertex->number];

	for (uint64_t i = 0; i < vertex->edges.nr; i++) {
		uint32_t its = labels[afar_graph_neighbour(&vertex->edges, i)];

		if (++counts[its] > counts[best] || (counts[its] == counts[best] && its < best))
			best = its;
	}
	for (uint64_t i = 0; i < vertex->edges.nr; i++)
		counts[labels[afar_graph_neighbour(&vertex->edges, i)]] = 0;
	*(uint32_t *)label = best;
	return best != labels[vertex->number];
}

static void check(int ret)
{
	if (ret < 0) {
		fprintf(stderr, "labels: %s\n", afar_last_error());
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct afar_graph_program program = {.size = sizeof(program), .name = "labels"};
	struct afar_graph_job_options options = {.size = sizeof(options), .name = "labels"};
	struct afar_graph_stat stat = {.size = sizeof(stat)};
	struct afar_session *session;
	struct afar_graph *graph;
	struct afar_graph_job *job;

	program.value_bytes = sizeof(uint32_t);
	program.nr_steps = 100;
	program.start = start;
	program.compute = choose;
	options.worker = argc == 4 ? (uint32_t)atoi(argv[2]) : 0;
	options.nr_workers = argc == 4 ? (uint32_t)atoi(argv[3]) : 1;
	check(afar_session_open(NULL, NULL, &session));
	check(afar_graph_open(session, argc > 1 ? argv[1] : "", &graph));
	check(afar_graph_stat(graph, &stat));
	counts = calloc(stat.nr_vertices, sizeof(*counts));
	check(counts ? 0 : afar_fail(-1, "no memory"));
	check(afar_graph_job_open(graph, &program, &options, &job));
	check(afar_graph_job_run(job));
	for (uint64_t i = 0; i < stat.nr_vertices && !options.worker; i++)
		printf("%u\n", ((const uint32_t *)afar_graph_job_values(job))[i]);
	check(afar_graph_job_close(job));
	check(afar_graph_close(graph));
	check(afar_session_close(session));
	return 0;
}
