/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PageRank; see graph.h. Each vertex has something to give to each vertex that its edges lead to: its rank, divided by
 * their number. In a superstep each worker goes through the edges that arrive at its vertices, and adds up what their
 * sources give. So edges are read in their order, and nothing is written but one number for each vertex.
 *
 * A vertex says the same along all its edges. So it needs one word in the mailbox for all of them, which is read by all.
 */
#include <errno.h>
#include <stdlib.h>

#include "job.h"
#include "stream.h"
#include "tools/copy/failure.h"

#define DAMPING 0.85
#define AHEAD	32U /* words: how far ahead of their adding values are fetched */

struct ranking {
	struct graph_job *job;
	struct stream stream;
	const uint64_t *arriving; /* where the edges that arrive begin */
	float *parts; /* of the caller's vertices: of its rank, what each of its targets gets */
	struct afar_buffer *buffers[2], *rests;
	float *gives[2]; /* for each vertex: in this step, and in the next one */
	double *ranks;
	bool is_last; /* step: the ranks are the result */
	double rest;  /* what vertices without edges have, all together */
	double own_rest,
		step_rest; /* the part of the caller's, for the next step; what each vertex gets in this one */
};

static void set_rank(struct ranking *ranking, uint64_t vertex, double rank, float *gives)
{
	const float part = ranking->parts[vertex - ranking->job->first];

	if (part == 0)
		ranking->own_rest += rank;
	gives[vertex] = (float)rank * part;
	if (ranking->is_last)
		ranking->ranks[vertex] = rank;
}

/*
 * Adds up what the sources of `nr` edges give. Returns false if one of them is no vertex. `end` is that of the piece: what the
 * sources of edges further on give, of other vertices too, is fetched from memory meanwhile.
 */
static inline bool add_up(const uint32_t *edges, uint64_t nr, unsigned step, const uint32_t *end,
			  const float *gives, uint64_t nr_vertices, double *sum)
{
	const uint32_t *stop = edges + nr * step;
	double added = *sum;

	for (; edges < stop; edges += step) {
		uint32_t source = *edges;

		if (edges + AHEAD < end)
			__builtin_prefetch(&gives[edges[AHEAD]]);
		if (__builtin_expect(source >= nr_vertices, 0))
			return false;
		added += (double)gives[source];
	}
	*sum = added;
	return true;
}

/* Where the caller is in the list of edges. */
struct place_in_list {
	uint64_t vertex, edge;
	double sum;
};

/* Goes through `nr` edges, and gives each vertex whose edges end there its rank. */
static bool go_through(struct ranking *ranking, struct place_in_list *at, const uint32_t *words,
		       uint64_t nr, const float *gives, float *next)
{
	const unsigned step = graph_words(&ranking->job->graph->header, GRAPH_IN);
	const uint64_t end = at->edge + nr, nr_vertices = ranking->job->nr_vertices;
	const uint32_t *words_end = words + nr * step;
	const double base = ranking->step_rest;

	while (at->vertex < ranking->job->end) {
		uint64_t stop = ranking->arriving[at->vertex + 1];
		uint64_t part = (stop < end ? stop : end) - at->edge;

		if (!add_up(words, part, step, words_end, gives, nr_vertices, &at->sum))
			return false;
		words += part * step;
		at->edge += part;
		if (stop > end)
			break;
		set_rank(ranking, at->vertex, base + DAMPING * at->sum, next);
		at->vertex++;
		at->sum = 0;
	}
	return true;
}

static int compute(struct ranking *ranking, const float *gives, float *next)
{
	struct graph_job *job = ranking->job;
	struct place_in_list at = {.vertex = job->first, .edge = ranking->arriving[job->first]};
	const uint32_t *words = NULL;
	uint64_t nr = 0;
	int ret;

	ranking->own_rest = 0;
	ranking->step_rest = (1 - DAMPING + DAMPING * ranking->rest) / (double)job->nr_vertices;
	stream_begin(&ranking->stream, at.edge, ranking->arriving[job->end] - at.edge);
	do {
		ret = stream_next(&ranking->stream, &words, &nr);
		if (!ret && !go_through(ranking, &at, words, nr, gives, next))
			ret = graph_fail_edge(job->graph);
		if (!ret)
			ret = job_live(job);
		job->nr_looked += nr;
	} while (!ret && nr);
	return ret;
}

/* ---- The mail */

static uint64_t rest_at(const struct graph_job *job, uint64_t side, unsigned worker)
{
	return job->mail.words + side + (uint64_t)JOB_LINE * worker;
}

/* Sends what the caller's vertices give in step `step`. */
static int send(struct ranking *ranking, unsigned step)
{
	struct graph_job *job = ranking->job;
	const uint64_t side = step % 2 * job->mail.odd;
	const float *gives = ranking->gives[step % 2];
	double *rest = afar_buffer_data(ranking->rests);
	int ret = job_put(job, job->mail.values + side + sizeof(*gives) * job->first,
			  ranking->buffers[step % 2], gives + job->first,
			  sizeof(*gives) * (job->end - job->first));

	*rest = ranking->own_rest;
	if (!ret)
		ret = job_put(job, rest_at(job, side, job->options.worker), ranking->rests, rest,
			      sizeof(*rest));
	return ret ? ret : job_flush(job);
}

/* Each has a line for it. */
static int get_rests(struct ranking *ranking, uint64_t side)
{
	struct graph_job *job = ranking->job;
	const char *lines = afar_buffer_data(ranking->rests);
	int ret = job_get(job, rest_at(job, side, 0), ranking->rests,
			  afar_buffer_data(ranking->rests),
			  (uint64_t)JOB_LINE * job->options.nr_workers);

	ranking->rest = 0;
	for (unsigned i = 0; i < job->options.nr_workers && !ret; i++)
		ranking->rest += *(const double *)(const void *)(lines + (size_t)JOB_LINE * i);
	return ret;
}

/* Gets what all the others give in that step. */
static int receive(struct ranking *ranking, unsigned step)
{
	struct graph_job *job = ranking->job;
	const uint64_t side = step % 2 * job->mail.odd, at = job->mail.values + side;
	float *gives = ranking->gives[step % 2];
	struct afar_buffer *buffer = ranking->buffers[step % 2];
	int ret = job_get(job, at, buffer, gives, sizeof(*gives) * job->first);

	if (!ret)
		ret = job_get(job, at + sizeof(*gives) * job->end, buffer, gives + job->end,
			      sizeof(*gives) * (job->nr_vertices - job->end));
	return ret ? ret : get_rests(ranking, side);
}

/* Exchanges what is given in that step. */
static int exchange(struct ranking *ranking, unsigned step)
{
	int ret;

	ranking->rest = ranking->own_rest;
	if (job_is_alone(ranking->job))
		return 0;
	ret = send(ranking, step);
	if (!ret)
		ret = job_sync(ranking->job);
	return ret ? ret : receive(ranking, step);
}

/* ---- All of it */

/* Divides once, and not in each step. */
static int divide_ranks(struct ranking *ranking)
{
	const struct graph_job *job = ranking->job;
	const uint64_t *leaving = graph_offsets(job->graph, GRAPH_OUT);

	ranking->parts = malloc(sizeof(float) * (job->end - job->first + 1));
	if (!ranking->parts)
		return app_fail(-ENOMEM, "%s: out of memory", job->what);
	for (uint64_t i = job->first; i < job->end; i++)
		ranking->parts[i - job->first] =
			leaving[i + 1] > leaving[i] ? 1 / (float)(leaving[i + 1] - leaving[i]) : 0;
	return 0;
}

static int open_ranking(struct ranking *ranking)
{
	struct graph_job *job = ranking->job;
	int ret = stream_open(&ranking->stream, job->session, &job->io, job->graph, GRAPH_IN);

	for (unsigned i = 0; i < 2 && !ret; i++) {
		ret = job_alloc(job, sizeof(float) * job->nr_vertices, &ranking->buffers[i]);
		if (!ret)
			ranking->gives[i] = afar_buffer_data(ranking->buffers[i]);
	}
	if (!ret)
		ret = job_alloc(job, (uint64_t)JOB_LINE * job->options.nr_workers, &ranking->rests);
	if (!ret)
		ret = job_alloc(job, sizeof(double) * job->nr_vertices, &job->values);
	if (ret)
		return ret;
	ranking->ranks = afar_buffer_data(job->values);
	ranking->arriving = graph_offsets(job->graph, GRAPH_IN);
	return divide_ranks(ranking);
}

static int run(struct ranking *ranking)
{
	struct graph_job *job = ranking->job;
	int ret;

	for (uint64_t i = job->first; i < job->end; i++)
		set_rank(ranking, i, 1.0 / (double)job->nr_vertices, ranking->gives[0]);
	ret = exchange(ranking, 0);
	for (unsigned step = 0; step < job->options.nr_steps && !ret; step++) {
		ranking->is_last = step + 1 == job->options.nr_steps;
		ret = compute(ranking, ranking->gives[step % 2], ranking->gives[(step + 1) % 2]);
		if (!ret && !ranking->is_last)
			ret = exchange(ranking, step + 1);
	}
	return ret ? ret : job_collect(job, job->values);
}

int job_pagerank(struct graph_job *job)
{
	struct ranking ranking = {.job = job};
	int ret = open_ranking(&ranking);

	if (!ret)
		ret = run(&ranking);
	io_drain(&job->io);
	stream_close(&ranking.stream);
	for (unsigned i = 0; i < 2; i++)
		if (ranking.buffers[i])
			afar_buffer_unregister(ranking.buffers[i]);
	free(ranking.parts);
	if (ranking.rests)
		afar_buffer_unregister(ranking.rests);
	return ret;
}
