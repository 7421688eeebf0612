/* SPDX-License-Identifier: BSD-3-Clause */
/* Preparing, joining and ending a sort, and what its workers count; see job.h and sort.h. */
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "tools/copy/failure.h"

#define PROGRAM "afar-sort" /* in the name of a file that is not complete */

/* ---- What there is to do */

static int check_options(const struct sort_options *options)
{
	if (!options->nr_workers || options->nr_workers > TEAM_WORKERS_MAX ||
	    options->worker >= options->nr_workers)
		return app_fail(
			-EINVAL,
			"sort %s: worker %u of %u cannot be; there are 1 to %u, numbered from 0",
			options->input, options->worker, options->nr_workers, TEAM_WORKERS_MAX);
	if (place_is_region(options->output) && !strcmp(options->input, options->output))
		return app_fail(-EINVAL, "sort %s into itself: choose another name for the output",
				options->input);
	return 0;
}

/* The namespaces for the buckets, and to meet in. */
static int choose_namespaces(struct afar_session *session, const struct sort_options *options,
			     char out[AFAR_NAME_MAX + 1], char meet_out[AFAR_NAME_MAX + 1])
{
	char output[AFAR_NAME_MAX + 1] = "", input[AFAR_NAME_MAX + 1] = "", what[600];
	int ret = 0;

	if (place_is_region(options->output))
		ret = place_namespace(options->output, output);
	if (!ret && place_is_region(options->input))
		ret = place_namespace(options->input, input);
	if (ret)
		return ret;
	snprintf(out, AFAR_NAME_MAX + 1, "%s",
		 options->ns ? options->ns
		 : output[0] ? output
			     : input);
	if (!out[0])
		return app_fail(-EINVAL,
				"sort %s into %s: the buckets need a namespace; name one with --ns",
				options->input, options->output);
	snprintf(what, sizeof(what), "sort %s into %s", options->input, options->output);
	return team_choose(
		session, what, options->meet_ns,
		(const char *[]){out, output[0] ? output : NULL, input[0] ? input : NULL}, 3,
		meet_out);
}

/* Finds out whether the input's last line lacks its end, which the output gets. */
static int lacks_newline(const struct place *input, struct io *io, bool *out)
{
	struct io_request request;
	char last;
	int ret;

	*out = false;
	if (!input->length)
		return 0;
	ret = io_connect(io, &input->end);
	if (!ret)
		ret = io_read(io, &request, &input->end, input->length - 1, NULL, &last, 1);
	if (!ret)
		ret = io_wait(io, &request);
	if (!ret)
		*out = last != '\n';
	return ret;
}

static int measure(struct afar_session *session, const struct sort_options *options,
		   const struct place *input, uint64_t *output_bytes)
{
	uint64_t rest = input->length % SORT_RECORD_BYTES;
	bool is_unended;
	struct io io;
	int ret;

	*output_bytes = input->length;
	if (!options->is_lines) {
		if (rest)
			return app_fail(
				-EINVAL,
				"sort %s: it has %llu bytes, which are no whole records of %u: "
				"%llu are left over; give the whole input, or --lines",
				options->input, (unsigned long long)input->length,
				SORT_RECORD_BYTES, (unsigned long long)rest);
		return 0;
	}
	ret = io_open(&io, session, NULL, NULL);
	if (!ret)
		ret = lacks_newline(input, &io, &is_unended);
	io_close(&io);
	if (!ret)
		*output_bytes += is_unended;
	return ret;
}

static int make_plan(struct afar_session *session, const struct sort_options *options,
		     const struct place *input, struct plan *out)
{
	uint64_t output_bytes;
	int ret = measure(session, options, input, &output_bytes);

	if (!ret && !output_bytes && place_is_region(options->output))
		ret = app_fail(-ENODATA,
			       "sort %s into %s: it is empty, and a region has at least 1 byte",
			       options->input, options->output);
	return ret ? ret
		   : plan_make(input->length, output_bytes, options->is_lines, options->nr_workers,
			       options->bucket_bytes, out);
}

/* Fails if the output's namespace is not there. */
static int look_for_output(struct afar_session *session, const struct sort_options *options,
			   char out[AFAR_NAME_MAX + 1])
{
	struct afar_namespace *ns;
	char what[600];
	int ret = place_namespace(options->output, out);

	if (ret)
		return ret;
	ret = afar_namespace_open(session, out, &ns);
	if (!ret) {
		afar_namespace_close(ns);
		return 0;
	}
	snprintf(what, sizeof(what), "sort %s into %s", options->input, options->output);
	return app_fail_last(ret, what);
}

int sort_look(struct afar_session *session, const struct sort_options *options,
	      struct sort_needs *out)
{
	char output_ns[AFAR_NAME_MAX + 1] = "";
	struct job_layout layout;
	struct place input;
	struct plan plan;
	int ret = check_options(options);

	*out = (struct sort_needs){0};
	if (!ret)
		ret = choose_namespaces(session, options, out->ns, out->meet_ns);
	if (!ret && place_is_region(options->output))
		ret = look_for_output(session, options, output_ns);
	if (!ret)
		ret = place_open(session, options->input, &input);
	if (ret)
		return ret;
	ret = make_plan(session, options, &input, &plan);
	place_close(&input);
	if (ret)
		return ret;
	job_lay_out(&plan, &layout);
	out->input_bytes = plan.input_bytes;
	out->output_bytes = plan.output_bytes;
	out->worker_bytes = plan_worker_bytes(&plan);
	out->ns_bytes = plan_exchange_bytes(&plan);
	if (strcmp(out->meet_ns, out->ns) == 0)
		out->ns_bytes += layout.bytes;
	else
		out->meet_bytes = layout.bytes;
	if (strcmp(output_ns, out->ns) == 0)
		out->ns_bytes += plan.output_bytes;
	return 0;
}

/* ---- Preparing */

/* Makes the output, and reserves what its namespace lacks. */
static int create_output(struct sort_job *job)
{
	const struct sort_options *options = &job->options;
	const uint64_t bytes = job->plan.output_bytes;
	char ns[AFAR_NAME_MAX + 1];
	int ret = 0;

	if (place_is_region(options->output)) {
		ret = place_namespace(options->output, ns);
		if (!ret)
			ret = room_get(job->session, ns, bytes, &job->output_room);
	}
	if (ret)
		return ret;
	ret = place_create(job->session, options->output, bytes, PROGRAM, options->may_replace,
			   &job->output);
	if (ret != -AFAR_ERESERVE)
		return ret;
	ret = room_get_whole(job->session, bytes, &job->output_room);
	return ret ? ret
		   : place_create(job->session, options->output, bytes, PROGRAM,
				  options->may_replace, &job->output);
}

/* How the workers come together. */
static struct team_options team_of(const struct sort_job *job)
{
	const struct sort_options *options = &job->options;

	return (struct team_options){
		.what = job->what,
		.ns = job->ns,
		.meet_ns = job->meet_ns,
		.job = options->job,
		.worker = options->worker,
		.nr_workers = options->nr_workers,
		.patience_ms = options->patience_ms,
		.plan_bytes = sizeof(job->plan),
		.is_ended = options->is_ended,
		.context = options->context,
	};
}

static int begin(struct afar_session *session, const struct sort_options *options,
		 struct sort_job **out)
{
	struct sort_job *job;
	int ret = check_options(options);

	if (ret)
		return ret;
	job = calloc(1, sizeof(*job));
	*out = job;
	if (!job)
		return app_fail(-ENOMEM, "sort %s: out of memory", options->input);
	job->options = *options;
	job->session = session;
	job->input = job->output = job->team.meeting = job->team.exchange =
		(struct place){.end = {.text = "", .fd = -1}};
	snprintf(job->what, sizeof(job->what), "sort %.256s", options->input);
	ret = choose_namespaces(session, options, job->ns, job->meet_ns);
	return ret ? ret : place_open(session, options->input, &job->input);
}

/* Ends it if `ret` is an error, and passes that on. */
static int begun(struct sort_job **out, int ret)
{
	if (ret) {
		sort_end(*out);
		*out = NULL;
	}
	return ret;
}

int sort_prepare(struct afar_session *session, const struct sort_options *options,
		 struct sort_job **out)
{
	struct team_options team;
	struct sort_job *job;
	int ret;

	*out = NULL;
	ret = begin(session, options, out);
	job = *out;
	if (!job)
		return ret;
	team = team_of(job);
	if (!ret)
		ret = make_plan(session, options, &job->input, &job->plan);
	if (!ret) {
		job_lay_out(&job->plan, &job->layout);
		ret = create_output(job);
	}
	if (!ret)
		ret = team_create(&job->team, session, &team, job->layout.bytes,
				  plan_exchange_bytes(&job->plan));
	return begun(out, ret);
}

/* ---- Joining */

int sort_join(struct afar_session *session, const struct sort_options *options,
	      struct sort_job **out)
{
	struct team_options team;
	struct sort_job *job;
	int ret;

	*out = NULL;
	ret = begin(session, options, out);
	job = *out;
	if (!job)
		return ret;
	team = team_of(job);
	if (!ret)
		ret = team_join(&job->team, session, &team);
	if (!ret)
		ret = place_join(session, options->output, PROGRAM, &job->output);
	return begun(out, ret);
}

/* ---- Working */

int job_meet(struct sort_job *job)
{
	int ret = team_meet(&job->team, &job->plan);

	if (ret || job->options.worker == 0)
		return ret;
	ret = plan_check(&job->plan, &job->options, job->input.length);
	if (!ret)
		job_lay_out(&job->plan, &job->layout);
	return ret;
}

int job_beat(struct sort_job *job, double part)
{
	if (job->options.show && job->options.worker == 0)
		job->options.show(job->options.context, job->step, part);
	return team_live(&job->team);
}

int job_take(struct sort_job *job, enum job_counter counter, uint64_t nr, uint64_t *first)
{
	int ret = afar_region_fetch_add(job->team.meeting.end.region,
					job->layout.counters + 8U * counter, nr, first);

	return ret ? app_fail_last(ret, job->what) : 0;
}

/* ---- Ending */

void sort_end(struct sort_job *job)
{
	const bool does_lead = job && job->options.worker == 0;

	if (!job)
		return;
	team_leave(&job->team);
	if (!job->is_done)
		place_discard(&job->output);
	place_close(&job->input);
	place_close(&job->output);
	if (does_lead)
		team_give_back(&job->team, &job->output_room,
			       job->is_done ? job->plan.output_bytes : 0);
	free(job);
}
