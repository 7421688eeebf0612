/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shortest way from one vertex to another; see graph.h. The nearest vertex is explored first (E. W. Dijkstra, "A note on
 * two problems in connexion with graphs", 1959), and others beside it, because many reads are in flight. Each vertex keeps
 * the one that it was reached from. A vertex as far away as the end is explored no more. So the search looks at a part of
 * the graph alone. Called by work.c, for one worker.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "explorer.h"
#include "heap.h"
#include "tools/copy/failure.h"

struct search {
	struct graph_job *job;
	struct explorer explorer;
	uint64_t *distances;
	uint32_t *befores; /* of each vertex that was reached */
	struct heap heap;
};

static int fail_memory(const struct search *search)
{
	return app_fail(-ENOMEM, "%s: no memory for the vertices that are reached",
			search->job->what);
}

static uint64_t found(const struct search *search)
{
	return search->distances[search->job->options.to];
}

static int reach(struct search *search, uint32_t vertex, uint32_t before, uint64_t distance)
{
	if (distance >= search->distances[vertex] || distance >= found(search))
		return 0;
	search->distances[vertex] = distance;
	search->befores[vertex] = before;
	return heap_put(&search->heap, distance, vertex) ? fail_memory(search) : 0;
}

static int take_edges(void *context, uint32_t vertex, const uint32_t *words, uint64_t nr)
{
	struct search *search = context;
	const unsigned step = graph_words(&search->job->graph->header, GRAPH_OUT);
	const uint64_t distance = search->distances[vertex];
	int ret = 0;

	for (uint64_t i = 0; i < nr && !ret; i++) {
		if (words[i * step] >= search->job->nr_vertices)
			return graph_fail_edge(search->job->graph);
		ret = reach(search, words[i * step], vertex,
			    distance + (step == 2 ? words[i * step + 1] : 1));
	}
	return ret;
}

static bool next_nearest(void *context, uint32_t *vertex)
{
	struct search *search = context;
	uint64_t distance;

	while (heap_take(&search->heap, &distance, vertex))
		if (distance == search->distances[*vertex] && distance < found(search))
			return true;
	return false;
}

static int open_search(struct search *search)
{
	struct graph_job *job = search->job;
	int ret;

	search->explorer = (struct explorer){
		.job = job, .next = next_nearest, .take = take_edges, .context = search};
	ret = explorer_open(&search->explorer);
	if (ret)
		return ret;
	search->distances = malloc(8 * job->nr_vertices);
	search->befores = malloc(4 * job->nr_vertices);
	if (!search->distances || !search->befores)
		return fail_memory(search);
	memset(search->distances, 0xff, 8 * job->nr_vertices); /* GRAPH_UNREACHED */
	return 0;
}

static uint64_t count_hops(const struct search *search)
{
	const uint32_t from = search->job->options.from;
	uint64_t nr = 1;

	for (uint32_t at = search->job->options.to; at != from; at = search->befores[at])
		nr++;
	return nr;
}

/* Walks back from the end. */
static int write_down(struct search *search)
{
	struct graph_job *job = search->job;
	uint32_t at = job->options.to;

	if (found(search) == GRAPH_UNREACHED)
		return 0;
	job->nr_hops = count_hops(search);
	job->hops = calloc(job->nr_hops, sizeof(*job->hops));
	if (!job->hops)
		return fail_memory(search);
	for (uint64_t i = job->nr_hops; i-- > 0; at = search->befores[at])
		job->hops[i] = (struct graph_hop){search->distances[at], at};
	return 0;
}

int job_path(struct graph_job *job)
{
	struct search search = {.job = job};
	int ret = open_search(&search);

	if (!ret)
		ret = reach(&search, job->options.from, job->options.from, 0);
	if (!ret)
		ret = explorer_run(&search.explorer);
	if (!ret)
		ret = write_down(&search);
	io_drain(&job->io);
	explorer_close(&search.explorer);
	heap_free(&search.heap);
	free(search.distances);
	free(search.befores);
	return ret;
}
