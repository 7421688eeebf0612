/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Components; see graph.h. Each worker makes a forest of the edges that leave its vertices: trees whose roots are the
 * smallest of their vertices. A forest says of each vertex one other that it hangs together with. No more is to be said
 * of all those edges, so forests are the only mail. Worker 0 joins the forests of all.
 */
#include <errno.h>
#include <stdlib.h>

#include "job.h"
#include "stream.h"
#include "tools/copy/failure.h"

#define READ_VERTICES ((uint64_t)1 << 20)

static uint32_t find_root(uint32_t *parents, uint32_t vertex)
{
	while (parents[vertex] != vertex) {
		parents[vertex] = parents[parents[vertex]];
		vertex = parents[vertex];
	}
	return vertex;
}

static void join(uint32_t *parents, uint32_t one, uint32_t other)
{
	one = find_root(parents, one);
	other = find_root(parents, other);
	if (one < other)
		parents[other] = one;
	else
		parents[one] = other;
}

/* ---- The caller's edges */

/* Joins `nr` edges. `*vertex` is the one that the first of them leaves, and becomes that of the last. */
static bool join_edges(const struct graph_job *job, const uint32_t *words, uint64_t edge,
		       uint64_t nr, uint64_t *vertex, uint32_t *parents)
{
	const uint64_t *offsets = graph_offsets(job->graph, GRAPH_OUT);
	const unsigned step = graph_words(&job->graph->header, GRAPH_OUT);

	for (uint64_t i = 0; i < nr; i++) {
		while (edge + i >= offsets[*vertex + 1])
			(*vertex)++;
		if (words[i * step] >= job->nr_vertices)
			return false;
		join(parents, (uint32_t)*vertex, words[i * step]);
	}
	return true;
}

static int join_all(struct graph_job *job, struct stream *stream, uint32_t *parents)
{
	const uint64_t *offsets = graph_offsets(job->graph, GRAPH_OUT);
	uint64_t edge = offsets[job->first], vertex = job->first, nr = 0;
	const uint32_t *words = NULL;
	int ret;

	stream_begin(stream, edge, offsets[job->end] - edge);
	do {
		ret = stream_next(stream, &words, &nr);
		if (!ret && !join_edges(job, words, edge, nr, &vertex, parents))
			ret = graph_fail_edge(job->graph);
		if (!ret)
			ret = job_live(job);
		edge += nr;
		job->nr_looked += nr;
	} while (!ret && nr);
	return ret;
}

/* ---- Those of the others */

static uint64_t row(const struct graph_job *job, unsigned worker)
{
	return job->mail.results + 4 * job->nr_vertices * worker;
}

static int join_row(struct graph_job *job, unsigned worker, struct afar_buffer *buffer,
		    uint32_t *parents)
{
	const uint32_t *theirs = afar_buffer_data(buffer);
	int ret = 0;

	for (uint64_t first = 0; first < job->nr_vertices && !ret; first += READ_VERTICES) {
		uint64_t nr = job->nr_vertices - first;

		if (nr > READ_VERTICES)
			nr = READ_VERTICES;
		ret = job_get(job, row(job, worker) + 4 * first, buffer, afar_buffer_data(buffer),
			      4 * nr);
		for (uint64_t i = 0; i < nr && !ret; i++) {
			if (theirs[i] >= job->nr_vertices)
				return app_fail(-EBADMSG,
						"%s: worker %u has sent no forest; is it "
						"another version?",
						job->what, worker);
			join(parents, (uint32_t)(first + i), theirs[i]);
		}
	}
	return ret;
}

static int join_rows(struct graph_job *job, uint32_t *parents)
{
	struct afar_buffer *buffer;
	int ret = job_alloc(job, 4 * READ_VERTICES, &buffer);

	if (ret)
		return ret;
	for (unsigned i = 1; i < job->options.nr_workers && !ret; i++)
		ret = join_row(job, i, buffer, parents);
	afar_buffer_unregister(buffer);
	return ret;
}

static int exchange(struct graph_job *job, uint32_t *parents)
{
	int ret = 0;

	if (job_is_alone(job))
		return 0;
	if (job->options.worker != 0)
		ret = job_put(job, row(job, job->options.worker), job->values, parents,
			      4 * job->nr_vertices);
	if (!ret)
		ret = job_flush(job);
	if (!ret)
		ret = job_sync(job);
	return ret || job->options.worker != 0 ? ret : join_rows(job, parents);
}

int job_components(struct graph_job *job)
{
	struct stream stream;
	uint32_t *parents = NULL;
	int ret = stream_open(&stream, job->session, &job->io, job->graph, GRAPH_OUT);

	if (!ret)
		ret = job_alloc(job, 4 * job->nr_vertices, &job->values);
	if (!ret) {
		parents = afar_buffer_data(job->values);
		for (uint64_t i = 0; i < job->nr_vertices; i++)
			parents[i] = (uint32_t)i;
		ret = join_all(job, &stream, parents);
	}
	if (!ret)
		ret = exchange(job, parents);
	for (uint64_t i = 0; i < job->nr_vertices && !ret; i++)
		parents[i] = find_root(parents, (uint32_t)i);
	io_drain(&job->io);
	stream_close(&stream);
	return ret;
}
