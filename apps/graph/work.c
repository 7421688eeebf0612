/* SPDX-License-Identifier: BSD-3-Clause */
/* Preparing, joining, doing and ending a computation; see graph.h. Called by main.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "tools/copy/failure.h"

#define MAGIC UINT64_C(0x3150687061726741) /* "AgraphP1" */

/* ---- The mailboxes */

static uint64_t round_up(uint64_t value)
{
	return (value + JOB_LINE - 1) / JOB_LINE * JOB_LINE;
}

static void lay_out(const struct graph_job *job, struct mail *out)
{
	const uint64_t nr = job->options.nr_workers, nr_vertices = job->nr_vertices;
	const bool has_letters =
		job->options.kind == GRAPH_BREADTH_FIRST || job->options.kind == GRAPH_SHORTEST;
	uint64_t at = 0;

	out->words = at;
	at += has_letters ? round_up(8 * nr * nr) : JOB_LINE * nr;
	out->values = at;
	if (job->options.kind == GRAPH_PAGERANK)
		at += round_up(sizeof(float) * nr_vertices);
	out->letters = at;
	if (has_letters)
		at += nr * nr_vertices * sizeof(struct letter);
	out->odd = at - out->words;
	out->results = at + out->odd;
	out->bytes =
		out->results + (job->options.kind == GRAPH_COMPONENTS ? 4 * nr : 8) * nr_vertices;
}

static struct team_options team_of(const struct graph_job *job)
{
	const struct graph_options *options = &job->options;

	return (struct team_options){
		.what = job->what,
		.ns = job->ns,
		.meet_ns = job->meet_ns,
		.job = options->job,
		.worker = options->worker,
		.nr_workers = options->nr_workers,
		.patience_ms = options->patience_ms,
		.plan_bytes = sizeof(struct graph_plan),
		.is_ended = options->is_ended,
		.context = options->context,
	};
}

/* ---- Preparing */

static int check(const struct graph_job *job)
{
	const struct graph_options *options = &job->options;

	if (!options->nr_workers || options->nr_workers > TEAM_WORKERS_MAX ||
	    options->worker >= options->nr_workers)
		return app_fail(-EINVAL,
				"%s: worker %u of %u cannot be; there are 1 to %u, numbered from 0",
				job->what, options->worker, options->nr_workers, TEAM_WORKERS_MAX);
	if (options->from >= job->nr_vertices || options->to >= job->nr_vertices)
		return app_fail(-EINVAL, "%s: there is no vertex %u; its vertices are 0 to %llu",
				options->graph,
				options->from >= job->nr_vertices ? options->from : options->to,
				(unsigned long long)job->nr_vertices - 1);
	return 0;
}

static int choose_namespaces(struct graph_job *job)
{
	char graph[AFAR_NAME_MAX + 1];
	int ret = place_namespace(job->options.graph, graph);

	if (ret)
		return ret;
	snprintf(job->ns, sizeof(job->ns), "%s", job->options.ns ? job->options.ns : graph);
	if (job_is_alone(job))
		return 0;
	return team_choose(job->session, job->what, job->options.meet_ns,
			   (const char *[]){job->ns, graph}, 2, job->meet_ns);
}

static int begin(struct afar_session *session, const struct graph_options *options,
		 struct graph_job **out)
{
	struct graph_job *job = calloc(1, sizeof(*job));
	int ret;

	*out = job;
	if (!job)
		return app_fail(-ENOMEM, "graph %s: out of memory", options->graph);
	job->options = *options;
	job->session = session;
	job->team.meeting = job->team.exchange = (struct place){.end = {.text = "", .fd = -1}};
	snprintf(job->what, sizeof(job->what), "graph %.256s", options->graph);
	ret = graph_open(session, options->graph, &job->graph);
	if (ret)
		return ret;
	job->nr_vertices = graph_nr_vertices(job->graph);
	ret = check(job);
	if (!ret)
		ret = choose_namespaces(job);
	lay_out(job, &job->mail);
	return ret;
}

/* Ends it if `ret` is an error, and passes that on. */
static int begun(struct graph_job **out, int ret)
{
	if (ret) {
		graph_end(*out);
		*out = NULL;
	}
	return ret;
}

int graph_prepare(struct afar_session *session, const struct graph_options *options,
		  struct graph_job **out, struct graph_needs *needs)
{
	int ret = begin(session, options, out);
	struct graph_job *job = *out;
	struct team_options team;

	if (ret || !job)
		return begun(out, ret);
	*needs = (struct graph_needs){
		.nr_vertices = job->nr_vertices,
		.nr_edges = graph_nr_edges(job->graph),
		.ns_bytes = job_is_alone(job) ? 0 : job->mail.bytes,
		.ns = job->ns,
	};
	team = team_of(job);
	if (!job_is_alone(job))
		ret = team_create(&job->team, session, &team,
				  team_bytes(options->nr_workers, sizeof(struct graph_plan)),
				  job->mail.bytes);
	return begun(out, ret);
}

int graph_join(struct afar_session *session, const struct graph_options *options,
	       struct graph_job **out)
{
	int ret = begin(session, options, out);
	struct graph_job *job = *out;
	struct team_options team;

	if (ret || !job)
		return begun(out, ret);
	team = team_of(job);
	return begun(out, team_join(&job->team, session, &team));
}

/* ---- Working */

static struct graph_plan plan_of(const struct graph_job *job)
{
	return (struct graph_plan){
		.magic = MAGIC,
		.kind = job->options.kind,
		.nr_steps = job->options.nr_steps,
		.from = job->options.from,
		.nr_vertices = job->nr_vertices,
		.nr_edges = graph_nr_edges(job->graph),
	};
}

/* Meets the others, and looks whether all do the same. */
static int meet(struct graph_job *job)
{
	const struct graph_plan mine = plan_of(job);
	struct graph_plan plan = mine;
	int ret = job_is_alone(job) ? 0 : io_connect(&job->io, &job->team.exchange.end);

	if (!ret)
		ret = io_connect(&job->io, &job->graph->place.end);
	if (!ret && !job_is_alone(job))
		ret = team_meet(&job->team, &plan);
	if (!ret && memcmp(&plan, &mine, sizeof(plan)))
		ret = app_fail(-EINVAL,
			       "%s: worker 0 computes something else, or of another graph; give "
			       "all workers the same flags",
			       job->what);
	return ret;
}

/* Reads where edges begin, and takes the caller's share of the vertices. */
static int divide(struct graph_job *job)
{
	const enum graph_list list = job->options.kind == GRAPH_PAGERANK ? GRAPH_IN : GRAPH_OUT;
	int ret = graph_load(job->graph, list);

	if (!ret && job->options.kind == GRAPH_PAGERANK)
		ret = graph_load(job->graph, GRAPH_OUT);
	if (ret)
		return ret;
	job->bounds = calloc(job->options.nr_workers + 1ULL, sizeof(*job->bounds));
	if (!job->bounds)
		return app_fail(-ENOMEM, "%s: out of memory", job->what);
	graph_divide(job->graph, list, job->options.nr_workers, job->bounds);
	job->first = job->bounds[job->options.worker];
	job->end = job->bounds[job->options.worker + 1];
	return 0;
}

static int compute(struct graph_job *job)
{
	switch (job->options.kind) {
	case GRAPH_PAGERANK:
		return job_pagerank(job);
	case GRAPH_COMPONENTS:
		return job_components(job);
	case GRAPH_BREADTH_FIRST:
	case GRAPH_SHORTEST:
		return job_distances(job);
	case GRAPH_PATH:
		return job_path(job);
	}
	return -EINVAL;
}

int graph_work(struct graph_job *job, struct graph_values *values)
{
	const enum graph_kind kind = job->options.kind;
	int ret = io_open(&job->io, job->session, job->options.is_ended, job->options.context);

	if (!ret)
		ret = meet(job);
	if (!ret)
		ret = divide(job);
	if (!ret)
		ret = compute(job);
	if (ret && !job_is_alone(job))
		team_give_up(&job->team, ret);
	io_close(&job->io);
	*values = (struct graph_values){
		.hops = job->hops, .nr_hops = job->nr_hops, .nr_looked = job->nr_looked};
	if (ret)
		return ret;
	values->ranks = kind == GRAPH_PAGERANK ? afar_buffer_data(job->values) : NULL;
	values->components = kind == GRAPH_COMPONENTS ? afar_buffer_data(job->values) : NULL;
	if (kind == GRAPH_BREADTH_FIRST || kind == GRAPH_SHORTEST)
		values->distances = afar_buffer_data(job->values);
	return 0;
}

void graph_end(struct graph_job *job)
{
	if (!job)
		return;
	team_leave(&job->team);
	if (job->values)
		afar_buffer_unregister(job->values);
	graph_close(job->graph);
	if (job->options.worker == 0)
		team_give_back(&job->team, NULL, 0);
	free(job->bounds);
	free(job->hops);
	free(job);
}
