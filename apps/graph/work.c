/* SPDX-License-Identifier: BSD-3-Clause */
/* Preparing, doing and ending a computation; see work.h. Called by main.c. */
#include "work.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/copy/failure.h"

static const struct {
	const char *name;
	const struct graph_method *method;
} methods[] = {
	[GRAPH_PAGERANK] = {"pagerank", &pagerank_method},
	[GRAPH_COMPONENTS] = {"components", &components_method},
	[GRAPH_BREADTH_FIRST] = {"bfs", &breadth_first_method},
	[GRAPH_SHORTEST] = {"sssp", &shortest_method},
	[GRAPH_PATH] = {"path", &path_method},
};

/* Keeps the library's line. */
static int keep(int ret)
{
	return ret < 0 ? app_fail(ret, "%s", afar_last_error()) : ret;
}

static int check(const struct graph_options *options, uint64_t nr_vertices)
{
	if (options->from < nr_vertices && options->to < nr_vertices)
		return 0;
	return app_fail(-EINVAL, "%s: there is no vertex %u; its vertices are 0 to %llu",
			options->graph, options->from >= nr_vertices ? options->from : options->to,
			(unsigned long long)nr_vertices - 1);
}

static int open_job(struct graph_work *work)
{
	struct graph_computation *computation = &work->computation;
	struct afar_graph_program program = {
		.size = sizeof(program),
		.name = methods[computation->options->kind].name,
		.parameters = &computation->options->from,
		.parameters_bytes = sizeof(computation->options->from),
		.context = computation,
	};
	int ret = methods[computation->options->kind].method->begin(computation, &program);

	return ret ? ret
		   : afar_graph_job_open(computation->graph, &program, &computation->options->job,
					 &work->job);
}

int graph_prepare(struct afar_session *session, const struct graph_options *options,
		  struct graph_work *out)
{
	struct afar_graph_stat stat = {.size = sizeof(stat)};
	int ret;

	*out = (struct graph_work){.computation.options = options,
				   .needs.size = sizeof(out->needs)};
	ret = keep(afar_graph_open(session, options->graph, &out->computation.graph));
	if (!ret)
		ret = keep(afar_graph_stat(out->computation.graph, &stat));
	out->computation.nr_vertices = stat.nr_vertices;
	out->nr_edges = stat.nr_edges;
	if (!ret)
		ret = check(options, stat.nr_vertices);
	if (!ret)
		ret = keep(open_job(out));
	if (!ret)
		ret = keep(afar_graph_job_stat(out->job, &out->needs));
	if (ret)
		graph_end(out);
	return ret;
}

int graph_work(struct graph_work *work)
{
	const struct graph_method *method = methods[work->computation.options->kind].method;
	struct afar_graph_stat stat = {.size = sizeof(stat)};
	int ret = keep(afar_graph_job_run(work->job));

	if (!ret)
		ret = keep(afar_graph_stat(work->computation.graph, &stat));
	work->nr_looked = stat.nr_read;
	work->results = afar_graph_job_results(work->job);
	if (!ret && method->finish && work->computation.options->job.worker == 0)
		method->finish(&work->computation, work->results);
	return ret;
}

void graph_end(struct graph_work *work)
{
	if (work->job)
		afar_graph_job_close(work->job);
	if (work->computation.graph)
		afar_graph_close(work->computation.graph);
	methods[work->computation.options->kind].method->end(work->computation.state);
	free(work->computation.hops);
	work->computation.hops = NULL;
	work->computation.graph = NULL;
	work->computation.state = NULL;
	work->job = NULL;
}
