/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of jobs, and the clients that wait for them; see job.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager/job_private.h"
#include "manager/quota.h"
#include "manager/requests.h"
#include "rpc/rpc.h"

/* ---- Clients that wait */

void job_wait(struct job *job, struct event *event)
{
	/* Its request may be large, and a job long: all that matters of it is in the job. */
	afar__request__free_unpacked(event->request, request_freer(event->request));
	event->request = NULL;
	cds_list_add_tail(&event->node, &job->waiters);
}

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

static void job_free(struct job *job)
{
	parts_free(job);
	free(job->sentence);
	cds_list_del(&job->node);
	job->kind->free(job);
}

void job_fail(struct job *job, int status)
{
	if (job_is_over(job))
		return;
	job->state = JOB_FAILED;
	job->status = status;
	job->sentence = strdup(error_last_line());
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
