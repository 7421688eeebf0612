/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The supersteps of a job; see afar/graph.h. In each the caller's vertices are computed from what all vertices showed after
 * the step before; then workers exchange what they show now. Called by job.c.
 */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cursor.h"
#include "mail.h"
#include "tools/copy/failure.h"

#define NO_VERTEX  UINT64_MAX
#define LIVE_EVERY 1024U /* vertices between two signs of life: each may take long */

struct running {
	struct afar_graph_job *job;
	struct afar_graph_step step;
	struct afar_graph_cursor *cursor; /* NULL: nothing is computed of vertices */
	char said[512]; /* afar_last_error(), before the program's functions were called */
};

/* ---- The program's functions */

/* Notes what was said before. Then a function of the program's that fails has said something if that is different. */
static void listen(struct running *running)
{
	snprintf(running->said, sizeof(running->said), "%s", afar_last_error());
}

/* Fails as the program has, with its line if it has left one. */
static int fail_program(struct running *running, int error, uint64_t vertex)
{
	const struct afar_graph_job *job = running->job;
	const char *said = afar_last_error();
	char which[40] = "";

	if (error == -ECANCELED)
		return error;
	if (*said && strncmp(said, running->said, sizeof(running->said) - 1))
		return app_fail(error, "%s", said);
	if (vertex != NO_VERTEX)
		snprintf(which, sizeof(which), ", vertex %llu", (unsigned long long)vertex);
	return app_fail(error, "%s: %s, step %u%s: %s", job->what, job->program.name,
			running->step.number, which, afar_strerror(error));
}

static char *values_of(const struct afar_graph_job *job, unsigned side)
{
	return job->program.value_bytes ? afar_buffer_data(job->values[side]) : NULL;
}

/* ---- Parts of a step */

static int start_all(struct running *running)
{
	struct afar_graph_job *job = running->job;
	char *values = values_of(job, 0);
	int ret = 0;

	if (values)
		memset(values, 0, job->program.value_bytes * job_nr_vertices(job));
	listen(running);
	for (uint64_t i = job->first; i < job->end && job->program.start && !ret; i++) {
		ret = job->program.start(&running->step, (uint32_t)i,
					 values ? values + job->program.value_bytes * i : NULL);
		if (ret < 0)
			return fail_program(running, ret, i);
		ret = i % LIVE_EVERY ? 0 : graph_live(job->graph);
	}
	return ret;
}

static int work(struct running *running, struct mail_sums *sums)
{
	struct afar_graph_job *job = running->job;
	int ret;

	if (!job->program.work)
		return 0;
	listen(running);
	ret = job->program.work(&running->step);
	if (ret < 0)
		return fail_program(running, ret, NO_VERTEX);
	sums->nr_active += ret > 0;
	return 0;
}

/* Begins the next value of a vertex, as the one that it has now. */
static inline void *take_over(const char *now, char *next, uint64_t bytes)
{
	if (bytes == sizeof(uint32_t))
		memcpy(next, now, sizeof(uint32_t)); /* without a call */
	else
		memcpy(next, now, bytes);
	return next;
}

static int compute(struct running *running, const char *now, char *next, struct mail_sums *sums)
{
	struct afar_graph_job *job = running->job;
	struct afar_graph_cursor *cursor = running->cursor;
	struct afar_graph_vertex vertex = {.edges.stride = cursor->stride};
	const bool has_messages = job->program.message_bytes != 0;
	const uint64_t bytes = job->program.value_bytes;
	uint64_t nr_active = 0;
	void *value = NULL;
	int ret = 0;

	listen(running);
	while (cursor->vertex < cursor->end) {
		ret = cursor_next(cursor, &vertex);
		if (ret)
			break;
		if (has_messages)
			vertex.message =
				messages_at(&job->messages, &job->messages.in, vertex.number);
		if (bytes)
			value = take_over(now + bytes * vertex.number, next + bytes * vertex.number,
					  bytes);
		ret = job->program.compute(&running->step, &vertex, value);
		if (ret < 0)
			return fail_program(running, ret, vertex.number);
		nr_active += ret > 0;
		ret = vertex.number % LIVE_EVERY ? 0 : graph_live(job->graph);
		if (ret)
			break;
	}
	sums->nr_active += nr_active;
	return ret;
}

/* Computes the caller's vertices, if the program does that. */
static int compute_all(struct running *running, struct mail_sums *sums)
{
	struct afar_graph_job *job = running->job;
	const uint64_t at = (uint64_t)job->program.value_bytes * job->first;
	const char *now = values_of(job, job->now);
	char *next = values_of(job, !job->now);

	if (running->cursor) {
		cursor_move(running->cursor, job->first, job->end);
		return compute(running, now, next, sums);
	}
	if (now)
		memcpy(next + at, now + at, job->program.value_bytes * (job->end - job->first));
	return 0;
}

/* ---- Steps */

/* Ends a part that has returned `ret`: exchanges what it has found. */
static int exchange(struct running *running, int ret, struct mail_sums *sums)
{
	struct afar_graph_job *job = running->job;

	sums->added = running->step.added;
	sums->nr_active += job->messages.nr_out;
	if (ret == -ECANCELED)
		return ret;
	if (!job_is_alone(job))
		ret = mail_exchange(job, job->now, ret, sums);
	else
		messages_turn(&job->messages, job->first);
	running->step.sum = sums->added;
	running->step.added = 0;
	running->step.values = values_of(job, job->now);
	return ret;
}

static int run_step(struct running *running, struct mail_sums *sums)
{
	struct afar_graph_job *job = running->job;
	int ret = work(running, sums);

	if (!ret)
		ret = compute_all(running, sums);
	job->now = !job->now;
	job->is_last = running->step.number + 1 == job->program.nr_steps;
	return exchange(running, ret, sums);
}

/* All know what values are, if nobody sets them. */
static int begin(struct running *running)
{
	struct mail_sums sums = {0};
	int ret = start_all(running);

	if (running->job->program.start)
		return exchange(running, ret, &sums);
	running->step.values = values_of(running->job, 0);
	return ret;
}

static int run(struct running *running)
{
	struct afar_graph_job *job = running->job;
	const uint32_t nr_steps = job->program.nr_steps;
	struct mail_sums sums = {0};
	int ret = begin(running);

	for (uint32_t step = 0; !ret && (step < nr_steps || !nr_steps); step++) {
		running->step.number = step;
		sums = (struct mail_sums){0};
		ret = run_step(running, &sums);
		if (!sums.nr_active)
			break;
	}
	return ret ? ret : mail_collect(job);
}

int run_steps(struct afar_graph_job *job)
{
	const enum graph_list list = job->program.direction == AFAR_GRAPH_IN ? GRAPH_IN : GRAPH_OUT;
	struct running running = {
		.job = job,
		.step = {.job = job,
			 .context = job->program.context,
			 .first = job->first,
			 .end = job->end},
	};
	int ret = job->program.compute
			  ? cursor_open(job->graph, list, job->first, job->end, &running.cursor)
			  : 0;

	if (!ret)
		ret = run(&running);
	cursor_close(running.cursor);
	return ret;
}
