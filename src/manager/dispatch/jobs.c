/* SPDX-License-Identifier: BSD-3-Clause */
/* The core takes all jobs through their life here, step by step, and answers the clients that wait for them; see job.h. */
#include <stdio.h>
#include <stdlib.h>

#include "manager/dispatch/jobs.h"
#include "manager/dispatch/requests.h"
#include "manager/jobs/job.h"
#include "manager/jobs/job_private.h"
#include "manager/jobs/quota.h"

/* ---- Clients that wait */

static int session_is_over(const struct job *job)
{
	return error_fail(-AFAR_ESESSION, "%s: the session ended meanwhile; open a new one",
			  job->title);
}

static const struct session *find_session(const struct core *core, uint64_t number)
{
	const struct session *session = state_session(core->state, number);

	return session && !session->is_ending ? session : NULL;
}

/* The session may have ended in the very batch in which the job was done. */
static int tell_done(struct core *core, const struct job *job, struct event *event)
{
	const struct session *session = find_session(core, event->session);

	if (!session)
		return session_is_over(job);
	return core_reply(core, session, job->outcome, job->outcome_value, event->reply);
}

static void answer_waiters(struct core *core, struct job *job)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &job->waiters, node) {
		int ret = job->status;

		cds_list_del(&event->node);
		if (ret == 0)
			ret = tell_done(core, job, event);
		else if (job->sentence)
			error_fail(ret, "%s", job->sentence);
		else
			error_code(ret);
		if (ret < 0)
			event_fail(event, ret);
		event_answer(core, event);
	}
}

void jobs_tell(struct core *core)
{
	struct job *job;

	cds_list_for_each_entry (job, &core->jobs, node)
		if (waiters_due(&job->waiters) <= core_now(core))
			waiters_answer_due(core, &job->waiters, job_fail_slow(core, job));
}

uint64_t jobs_next(const struct core *core)
{
	const struct job *job;
	uint64_t next = CORE_NEVER, due;

	cds_list_for_each_entry (job, &core->jobs, node) {
		due = waiters_due(&job->waiters);
		next = due < next ? due : next;
		if (job->state == JOB_FAILED && job->retry_at < next)
			next = job->retry_at;
	}
	return next;
}

/* ---- Steps */

static void job_free(struct job *job)
{
	parts_free(job);
	free(job->sentence);
	cds_list_del(&job->node);
	job->kind->free(job);
}

static int check_session(const struct core *core, const struct job *job)
{
	return !job->kind->ends_with_session || find_session(core, job->session)
		       ? 0
		       : session_is_over(job);
}

static int run_ask(struct core *core, struct job *job)
{
	size_t mark = undo_mark(core->undo);
	int ret = check_session(core, job);

	if (ret == 0)
		ret = job->kind->ask(core, job);
	return undo_end(core->undo, mark, ret);
}

static int run_settle(struct core *core, struct job *job)
{
	size_t mark = undo_mark(core->undo);
	int ret = check_session(core, job);

	if (ret == 0)
		ret = job->kind->settle(core, job);
	ret = undo_end(core->undo, mark, ret);
	if (ret < 0 || (ret != JOB_DONE && undo_mark(core->undo) == mark))
		return ret;
	job->next = (enum job_state)ret;
	return JOB_COMMITTING;
}

static void take_step(struct core *core, struct job *job,
		      int (*run)(struct core *core, struct job *job))
{
	int ret = run(core, job);

	if (ret < 0)
		job_fail(job, ret);
	else
		job->state = (enum job_state)ret;
}

void jobs_settle(struct core *core)
{
	struct job *job;

	cds_list_for_each_entry (job, &core->jobs, node)
		if (job->state == JOB_SETTLE && !job->is_dropped)
			take_step(core, job, run_settle);
}

static void job_committed(struct core *core, struct job *job)
{
	if (job->next == JOB_DONE) {
		answer_waiters(core, job);
		job_free(job);
		return;
	}
	parts_free(job);
	job->state = job->next;
}

void jobs_committed(struct core *core, int status)
{
	char sentence[ERROR_LINE_BYTES];
	struct job *job, *next;

	snprintf(sentence, sizeof(sentence), "%s", error_last_line());
	cds_list_for_each_entry_safe (job, next, &core->jobs, node) {
		if (job->is_dropped)
			job_fail(job, error_fail(-AFAR_EFREED, "%s: it was freed meanwhile",
						 job->title));
		if (job->state != JOB_COMMITTING)
			continue;
		if (status < 0)
			job_fail(job, error_fail(status, "%s", sentence));
		else
			job_committed(core, job);
	}
}

/* Ends a job that has failed, between batches. False: it has to be tried again. */
static bool job_end(struct core *core, struct job *job)
{
	size_t mark = undo_mark(core->undo);

	if (job->kind->give_back && undo_end(core->undo, mark, job->kind->give_back(core, job)) < 0)
		return false;
	undo_keep(core->undo);
	parts_stop(core, job);
	answer_waiters(core, job);
	parts_undo(core, job);
	job->state = JOB_ENDED;
	return true;
}

void jobs_drive(struct core *core)
{
	struct job *job, *next;
	uint64_t first;

	quota_begin(core);
	cds_list_for_each_entry_safe (job, next, &core->jobs, node) {
		if (job->state == JOB_ASK) {
			take_step(core, job, run_ask);
			undo_keep(core->undo);
		}
		if (job->state == JOB_FAILED && job->retry_at <= core_now(core) &&
		    !job_end(core, job))
			job->retry_at = core_now(core) + CORE_RETRY_NS;
		if (job->state != JOB_ENDED || parts_asked(job, &first) != 0) {
			quota_count(core, job);
			continue;
		}
		answer_waiters(core, job); /* that came since */
		job_free(job);
	}
}

/* ---- The whole */

void jobs_close(struct core *core)
{
	struct job *job, *next;

	cds_list_for_each_entry_safe (job, next, &core->jobs, node) {
		job_fail(job, error_fail(-AFAR_EMANAGER, "%s: the manager stops; try again later",
					 job->title));
		answer_waiters(core, job);
		job_free(job);
	}
}
