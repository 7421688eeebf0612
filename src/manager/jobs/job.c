/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs as their kinds and other rooms see them: begun, joined by clients that wait, failed; see job.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "manager/connections/live.h"
#include "manager/connections/slow.h"
#include "manager/jobs/job.h"
#include "manager/jobs/job_parts.h"
#include "manager/jobs/job_private.h"
#include "rpc/rpc.h"

/* ---- Clients that wait */

void job_wait(struct job *job, struct event *event)
{
	/* Its request may be large, and a job long: all that matters of it is in the job. */
	slow_keep(event);
	afar__request__free_unpacked(event->request, request_freer(event->request));
	event->request = NULL;
	cds_list_add_tail(&event->node, &job->waiters);
}

static int record_outcome(struct core *core, const struct job *job, uint64_t number,
			  uint64_t request_id)
{
	struct session *session = state_session(core->state, number);
	int ret;

	if (!session || session->is_ending || session_outcome(session, request_id))
		return 0;
	ret = state_add_outcome(core->state, session, request_id, job->outcome, job->outcome_value);
	if (ret == 0)
		store_put_outcome(core->store, session, request_id, job->outcome,
				  job->outcome_value, NULL);
	return ret;
}

int job_record_outcomes(struct core *core, const struct job *job)
{
	const struct event *event;
	int ret = record_outcome(core, job, job->session, job->request_id);

	cds_list_for_each_entry (event, &job->waiters, node)
		if (ret == 0)
			ret = record_outcome(core, job, event->session, event->request_id);
	return ret;
}

static bool is_asked_by(const struct job *job, const struct event *event)
{
	const struct event *waiter;

	if (job->session == event->session && job->request_id == event->request_id)
		return true;
	cds_list_for_each_entry (waiter, &job->waiters, node)
		if (waiter->session == event->session && waiter->request_id == event->request_id)
			return true;
	return false;
}

bool jobs_attach(struct core *core, struct event *event)
{
	struct job *job;

	cds_list_for_each_entry (job, &core->jobs, node) {
		if (!is_asked_by(job, event))
			continue;
		job_wait(job, event);
		return true;
	}
	return false;
}

int job_fail_slow(const struct core *core, const struct job *job)
{
	char text[SERVER_TEXT_MAX] = "a server", others[32] = "", progress[80] = "";
	const uint64_t seconds = (core_now(core) - job->begun_at) / 1000000000U;
	const char *what = "answer";
	uint64_t server = 0;
	unsigned nr = parts_asked(job, &server);

	if (nr == 0 && job->kind->awaits) {
		nr = job->kind->awaits(core, job, &server);
		what = "release memory";
	}
	if (nr == 0 && job->is_queued)
		return error_fail(
			-ETIMEDOUT,
			"%s: reservations that began before it have not ended in %llu s, "
			"and a limit is not enough for all of them; outcome unknown, look "
			"whether it runs, or give it longer (--timeout)",
			job->title, (unsigned long long)seconds);
	if (nr > 0)
		server_describe(core, server, text);
	if (nr > 1)
		snprintf(others, sizeof(others), " (and %u more)", nr - 1);
	if (job_asked(job) != 0)
		snprintf(progress, sizeof(progress), "; %llu of %llu MiB are granted so far",
			 (unsigned long long)(job_granted(job) >> 20),
			 (unsigned long long)(job_asked(job) >> 20));
	return error_fail(-ETIMEDOUT,
			  "%s: %s%s did not %s in %llu s%s; outcome unknown, look whether it runs, "
			  "or give it longer (--timeout)",
			  job->title, text, others, what, (unsigned long long)seconds, progress);
}

/* ---- The life of a job */

void job_begin(struct core *core, struct job *job, const struct session *session,
	       struct event *event)
{
	job->state = JOB_ASK;
	job->begun_at = core_now(core);
	job->session = session->number;
	job->request_id = event->request_id;
	CDS_INIT_LIST_HEAD(&job->parts);
	CDS_INIT_LIST_HEAD(&job->waiters);
	cds_list_add_tail(&job->node, &core->jobs);
	job_wait(job, event);
}

void job_fail(struct job *job, int status)
{
	if (job_is_over(job))
		return;
	job->state = JOB_FAILED;
	job->status = status;
	job->sentence = strdup(error_last_line());
}

struct job *job_of_region(const struct core *core, uint64_t generation)
{
	struct job *job;

	cds_list_for_each_entry (job, &core->jobs, node)
		if (generation != 0 && job->region == generation && !job_is_over(job))
			return job;
	return NULL;
}

uint64_t job_of_region_wait(const struct core *core, const struct event *event, uint64_t generation)
{
	return job_of_region(core, generation) ? event->answer_by : 0;
}

int jobs_drop(struct core *core, uint64_t ns)
{
	struct job *job;
	int ret = 0;

	cds_list_for_each_entry (job, &core->jobs, node) {
		if (job->namespace_number != ns || !job->kind->give_back || job_is_over(job))
			continue;
		ret = job->kind->give_back(core, job);
		if (ret == 0)
			ret = undo_room(core->undo, 1);
		if (ret < 0)
			break;
		undo_set(core->undo, job->is_dropped, true);
	}
	return ret;
}
