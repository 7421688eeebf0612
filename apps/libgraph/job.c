/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening, doing and closing a worker's part in a job, and what the program's functions call; see afar/graph.h. */
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mail.h"
#include "run.h"
#include "tools/copy/failure.h"

#define MAGIC	    UINT64_C(0x3250687061726741) /* "AgraphP2" */
#define PATIENCE_MS 30000U

/* ---- What is asked for */

static int check_program(const struct afar_graph_job *job)
{
	const struct afar_graph_program *program = &job->program;

	if (!program->name || !*program->name || strlen(program->name) > JOB_NAME_MAX)
		return app_fail(-EINVAL, "%s: a program has a name, of up to %u bytes", job->what,
				JOB_NAME_MAX);
	if (program->value_bytes > AFAR_GRAPH_ITEM_MAX ||
	    program->message_bytes > AFAR_GRAPH_ITEM_MAX ||
	    program->result_bytes > AFAR_GRAPH_ITEM_MAX)
		return app_fail(-EINVAL, "%s: %s: values, messages and results have up to %u bytes",
				job->what, program->name, AFAR_GRAPH_ITEM_MAX);
	if (program->direction > AFAR_GRAPH_IN ||
	    program->parameters_bytes > AFAR_GRAPH_PARAMETERS_MAX ||
	    (program->parameters_bytes && !program->parameters))
		return app_fail(
			-EINVAL,
			"%s: %s: a direction that cannot be, or more than %u bytes of parameters",
			job->what, program->name, AFAR_GRAPH_PARAMETERS_MAX);
	if (!program->compute && !program->work)
		return app_fail(-EINVAL, "%s: %s computes nothing: it has neither compute nor work",
				job->what, program->name);
	if (program->message_bytes && !program->combine)
		return app_fail(-EINVAL, "%s: %s has messages, and nothing to combine them with",
				job->what, program->name);
	return 0;
}

static int check_workers(const struct afar_graph_job *job, const char *name)
{
	if (job->nr_workers > AFAR_GRAPH_WORKERS_MAX || job->worker >= job->nr_workers)
		return app_fail(-EINVAL,
				"%s: worker %u of %u cannot be; there are 1 to %u, numbered from 0",
				job->what, job->worker, job->nr_workers, AFAR_GRAPH_WORKERS_MAX);
	if (!job_is_alone(job) && (!name || !*name || strlen(name) > AFAR_NAME_MAX))
		return app_fail(
			-EINVAL,
			"%s: %u workers meet by the name of their job: it has 1 to %d bytes",
			job->what, job->nr_workers, AFAR_NAME_MAX);
	return 0;
}

static int choose_namespaces(struct afar_graph_job *job,
			     const struct afar_graph_job_options *options)
{
	char graph[AFAR_NAME_MAX + 1];
	int ret = place_namespace(job->graph->name, graph);

	if (!ret && options->ns && strlen(options->ns) > AFAR_NAME_MAX)
		ret = app_fail(-EINVAL, "%s: a namespace's name has at most %d bytes", job->what,
			       AFAR_NAME_MAX);
	if (ret || job_is_alone(job))
		return ret;
	snprintf(job->ns, sizeof(job->ns), "%s", options->ns ? options->ns : graph);
	snprintf(job->name, sizeof(job->name), "%s", options->name);
	return team_choose(job->graph->session, job->what, options->meet_ns,
			   (const char *[]){job->ns, graph}, 2, job->meet_ns);
}

/* All workers must agree on it. */
static void write_plan(struct afar_graph_job *job)
{
	const struct afar_graph_program *program = &job->program;

	job->plan = (struct job_plan){
		.magic = MAGIC,
		.nr_vertices = job->graph->header.nr_vertices,
		.nr_edges = job->graph->header.nr_edges,
		.direction = program->direction,
		.value_bytes = program->value_bytes,
		.message_bytes = program->message_bytes,
		.result_bytes = program->result_bytes,
		.nr_steps = program->nr_steps,
		.does_merge = program->merge != NULL,
	};
	snprintf(job->plan.name, sizeof(job->plan.name), "%s", program->name);
	if (program->parameters_bytes)
		memcpy(job->plan.parameters, program->parameters, program->parameters_bytes);
	job->program.name = job->plan.name;
	job->program.parameters = job->plan.parameters;
}

/* ---- Opening and closing */

static int meet_others(struct afar_graph_job *job)
{
	const struct team_options options = {
		.what = job->what,
		.ns = job->ns,
		.meet_ns = job->meet_ns,
		.job = job->name,
		.worker = job->worker,
		.nr_workers = job->nr_workers,
		.patience_ms = (uint32_t)job->patience_ms,
		.plan_bytes = sizeof(job->plan),
		.is_ended = graph_is_ended,
		.context = job->graph,
	};

	if (job->worker)
		return team_join(&job->team, job->graph->session, &options);
	return team_create(&job->team, job->graph->session, &options,
			   team_bytes(job->nr_workers, sizeof(job->plan)), job->mail.bytes);
}

static int prepare(struct afar_graph_job *job, const struct afar_graph_program *program,
		   const struct afar_graph_job_options *given)
{
	struct afar_graph_job_options options = {.size = sizeof(options)};
	int ret = GRAPH_TAKE(&job->program, program, afar_graph_program, context);

	if (!ret && given)
		ret = GRAPH_TAKE(&options, given, afar_graph_job_options, context);
	if (ret)
		return ret;
	job->worker = options.worker;
	job->nr_workers = options.nr_workers ? options.nr_workers : 1;
	job->patience_ms = options.patience_ms ? options.patience_ms : PATIENCE_MS;
	job->graph->is_ended = options.is_ended;
	job->graph->context = options.context;
	ret = check_program(job);
	if (!ret)
		ret = check_workers(job, options.name);
	if (!ret)
		ret = choose_namespaces(job, &options);
	if (ret)
		return ret;
	write_plan(job);
	mail_lay_out(job);
	return job_is_alone(job) ? 0 : meet_others(job);
}

static void free_buffer(struct afar_buffer *buffer)
{
	if (buffer)
		afar_buffer_unregister(buffer);
}

static void close_job(struct afar_graph_job *job)
{
	struct afar_graph *graph = job->graph;

	team_leave(&job->team);
	free_buffer(job->values[0]);
	free_buffer(job->values[1]);
	free_buffer(job->results);
	free_buffer(job->lines);
	messages_free(&job->messages);
	if (!job_is_alone(job) && !job->worker)
		team_give_back(&job->team, NULL, 0);
	graph->is_ended = NULL;
	graph->has_job = false;
	graph->nr_users--;
	free(job->bounds);
	free(job);
}

static int open_job(struct afar_graph *graph, const struct afar_graph_program *program,
		    const struct afar_graph_job_options *options, struct afar_graph_job **out)
{
	struct afar_graph_job *job;
	int ret;

	*out = NULL;
	if (graph->has_job)
		return app_fail(-EBUSY, "graph %s: a job of this handle is open", graph->name);
	job = calloc(1, sizeof(*job));
	if (!job)
		return app_fail(-ENOMEM, "graph %s: out of memory", graph->name);
	job->graph = graph;
	job->nr_workers = 1;
	job->team.session = graph->session;
	job->team.meeting = job->team.exchange = (struct place){.end = {.text = "", .fd = -1}};
	snprintf(job->what, sizeof(job->what), "graph %.256s", graph->name);
	graph->nr_users++;
	graph->has_job = true;
	ret = prepare(job, program, options);
	if (ret)
		close_job(job);
	else
		*out = job;
	return ret;
}

int afar_graph_job_open(struct afar_graph *graph, const struct afar_graph_program *program,
			const struct afar_graph_job_options *options, struct afar_graph_job **out)
{
	int ret = graph_check_handle(graph && out ? graph : NULL, "afar_graph_job_open");

	return graph_return(ret ? ret : open_job(graph, program, options, out));
}

int afar_graph_job_close(struct afar_graph_job *job)
{
	int ret = graph_check_handle(job, "afar_graph_job_close");

	if (!ret)
		close_job(job);
	return graph_return(ret);
}

int afar_graph_job_stat(const struct afar_graph_job *job, struct afar_graph_job_stat *out)
{
	struct afar_graph_job_stat stat = {0};
	int ret = graph_check_handle(job && out ? job : NULL, "afar_graph_job_stat");

	if (ret)
		return graph_return(ret);
	stat.ns_bytes = job_is_alone(job) ? 0 : job->mail.bytes;
	memcpy(stat.ns, job->ns, sizeof(stat.ns));
	return graph_return(GRAPH_GIVE(out, &stat, afar_graph_job_stat, ns));
}

/* ---- Running */

/* Meets the others, and looks whether all do the same. */
static int meet(struct afar_graph_job *job)
{
	struct job_plan plan = job->plan;
	int ret = io_connect(&job->graph->io, &job->team.exchange.end);

	if (!ret)
		ret = team_meet(&job->team, &plan);
	if (!ret && memcmp(&plan, &job->plan, sizeof(plan)))
		ret = app_fail(-EINVAL,
			       "%s: worker 0 computes something else, or of another graph; give "
			       "all workers the same",
			       job->what);
	return ret;
}

/* Reads where edges begin, and takes the caller's share of the vertices. */
static int divide(struct afar_graph_job *job)
{
	const enum graph_list list = job->program.direction == AFAR_GRAPH_IN ? GRAPH_IN : GRAPH_OUT;
	int ret = graph_load(job->graph, list);

	if (ret)
		return ret;
	job->bounds = calloc(job->nr_workers + 1ULL, sizeof(*job->bounds));
	if (!job->bounds)
		return app_fail(-ENOMEM, "%s: out of memory", job->what);
	graph_divide(job->graph, list, job->nr_workers, job->bounds);
	job->first = job->bounds[job->worker];
	job->end = job->bounds[job->worker + 1];
	return 0;
}

static int get_memory(struct afar_graph_job *job)
{
	const uint64_t nr = job_nr_vertices(job);
	int ret = 0;

	for (unsigned i = 0; i < 2 && job->program.value_bytes && !ret; i++)
		ret = graph_alloc(job->graph, job->program.value_bytes * nr, &job->values[i]);
	if (!ret && job->program.result_bytes)
		ret = graph_alloc(job->graph, job->program.result_bytes * nr, &job->results);
	if (!ret)
		ret = graph_alloc(job->graph, MAIL_LINE_BYTES * (uint64_t)job->nr_workers,
				  &job->lines);
	if (ret)
		return ret;
	job->messages = (struct messages){.bytes = job->program.message_bytes,
					  .nr_vertices = nr,
					  .combine = job->program.combine};
	return messages_open(&job->messages)
		       ? app_fail(-ENOMEM, "%s: no memory for messages", job->what)
		       : 0;
}

static int run(struct afar_graph_job *job)
{
	int ret = 0;

	if (job->has_run)
		return app_fail(-EINVAL, "%s: the job has run; open another one", job->what);
	job->has_run = true;
	if (!job_is_alone(job)) {
		job->graph->team = &job->team;
		ret = meet(job);
	}
	if (!ret)
		ret = divide(job);
	if (!ret)
		ret = get_memory(job);
	if (!ret)
		ret = run_steps(job);
	if (ret && !job_is_alone(job))
		team_give_up(&job->team, ret);
	job->graph->team = NULL;
	return ret;
}

int afar_graph_job_run(struct afar_graph_job *job)
{
	int ret = graph_check_handle(job, "afar_graph_job_run");

	return graph_return(ret ? ret : run(job));
}

const void *afar_graph_job_values(const struct afar_graph_job *job)
{
	return job && job->values[job->now] ? afar_buffer_data(job->values[job->now]) : NULL;
}

void *afar_graph_job_results(const struct afar_graph_job *job)
{
	return job && job->results ? afar_buffer_data(job->results) : NULL;
}

/* ---- For the program's functions */

int afar_graph_send(struct afar_graph_step *step, uint32_t vertex, const void *message)
{
	struct messages *messages = &step->job->messages;

	if (__builtin_expect(vertex >= messages->nr_vertices || !messages->bytes, 0))
		return graph_return(app_fail(
			-ERANGE, "%s: a message to vertex %u: %s", step->job->what, vertex,
			messages->bytes ? "there is none" : "the program has no messages"));
	messages_send(messages, vertex, message);
	return 0;
}

int afar_graph_receive(struct afar_graph_step *step, uint32_t *vertex, void *message)
{
	struct messages *messages = &step->job->messages;

	if (!messages->bytes || !messages_find(&messages->in, &messages->at, step->job->end))
		return 0;
	*vertex = (uint32_t)messages->at++;
	memcpy(message, messages_at(messages, &messages->in, *vertex), messages->bytes);
	return 1;
}
