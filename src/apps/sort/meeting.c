/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the workers of a sort meet and wait for each other; see job.h. Called by worker.c.
 *
 * A step may take any time, so no deadline on it tells of a death. Each worker shows that it lives by a word that only it
 * writes. Worker 0 looks at the words of those that it waits for, the others at that of worker 0.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "failure.h"
#include "job.h"
#include "plan.h"

#define LINE	 64U
#define BEAT_NS	 100000000U
#define SLICE_MS 100 /* after so long, a wait looks whether the others live */
#define LEADER_MS \
	300 /* of an attempt to meet; shorter for worker 0, so that the attempts of all overlap */
#define MEMBER_MS 1000
#define SPIN_US	  50U

static bool does_lead(const struct sort_job *job)
{
	return job->options.worker == 0;
}

static bool is_ended(const struct sort_job *job)
{
	return job->options.is_ended && job->options.is_ended(job->options.context);
}

static int fail(const struct sort_job *job, int error)
{
	char what[AFAR_NAME_MAX + 32];

	snprintf(what, sizeof(what), "sort, job %s", job->options.job);
	return app_fail_last(error, what);
}

/* ---- Signs of life */

static int show_life(struct sort_job *job)
{
	uint64_t now = clock_ns();
	ssize_t n;

	if (now - job->beat_ns < BEAT_NS)
		return 0;
	job->beat_ns = now;
	job->beat++;
	n = afar_region_pwrite(job->meeting.region, &job->beat, sizeof(job->beat),
			       job->layout.beats + (uint64_t)LINE * job->options.worker);
	return n < 0 ? fail(job, (int)n) : 0;
}

int job_beat(struct sort_job *job, double part)
{
	if (is_ended(job))
		return -ECANCELED;
	if (job->options.show && does_lead(job))
		job->options.show(job->options.context, job->step, part);
	return show_life(job);
}

/* Returns 0 if the worker has shown itself since the last call, or not long ago. */
static int look_after(struct sort_job *job, unsigned worker)
{
	struct job_heard *heard = &job->heard[worker];
	uint64_t now, beat;
	ssize_t n = afar_region_pread(job->meeting.region, &beat, sizeof(beat),
				      job->layout.beats + (uint64_t)LINE * worker);

	if (n < 0)
		return fail(job, (int)n);
	now = clock_ns();
	if (!heard->since_ns || beat != heard->beat)
		*heard = (struct job_heard){beat, now};
	if (now - heard->since_ns < (uint64_t)job->options.patience_ms * 1000000U)
		return 0;
	return app_fail(-ETIMEDOUT,
			"sort %s: worker %u has not been heard of for %u s; the sort ends",
			job->options.input, worker, job->options.patience_ms / 1000);
}

/* ---- Meeting */

/* The region keeps no name that somebody would have to remove. */
static int forget_name(struct sort_job *job)
{
	int ret = afar_region_free(job->meeting.region);

	job->is_named = false;
	return ret ? fail(job, ret) : 0;
}

static int open_barrier(struct sort_job *job)
{
	const struct afar_barrier_options options = {
		.size = sizeof(options),
		.work_bytes = sizeof(job->plan),
		.nr_members = job->options.nr_workers,
		.member = job->options.worker,
		.spin_us = SPIN_US,
	};
	uint64_t deadline = clock_deadline_ms(job->options.patience_ms);
	int ret;

	do {
		ret = is_ended(job) ? -ECANCELED
				    : afar_barrier_open(job->meeting.region, &options,
							does_lead(job) ? LEADER_MS : MEMBER_MS,
							&job->barrier);
	} while (ret == -ETIMEDOUT && clock_ns() < deadline);
	return ret && ret != -ECANCELED ? fail(job, ret) : ret;
}

static int send_plan(struct sort_job *job)
{
	struct plan *plans = calloc(job->options.nr_workers, sizeof(*plans));
	int ret = plans ? 0 : -ENOMEM;

	for (unsigned i = 0; plans && i < job->options.nr_workers; i++)
		plans[i] = job->plan;
	if (plans)
		ret = afar_barrier_start(job->barrier, plans);
	free(plans);
	return ret ? fail(job, ret) : 0;
}

/* Waits for worker 0 to begin a step; takes the plan if `plan` is not NULL. */
static int await_leader(struct sort_job *job, struct plan *plan)
{
	int ret;

	for (;;) {
		ret = is_ended(job) ? -ECANCELED : afar_barrier_next(job->barrier, plan, SLICE_MS);
		if (ret == -ESHUTDOWN)
			return app_fail(
				ret, "sort %s: worker 0 has ended the sort; its own line says why",
				job->options.input);
		if (ret != -ETIMEDOUT)
			return ret && ret != -ECANCELED ? fail(job, ret) : ret;
		/* Before the plan has come, nobody knows where the beats are. */
		ret = plan ? 0 : look_after(job, 0);
		if (ret)
			return ret;
	}
}

static int get_plan(struct sort_job *job)
{
	int ret = await_leader(job, &job->plan);

	if (!ret)
		ret = plan_check(&job->plan, &job->options, job->input.length);
	if (ret)
		return ret;
	job_lay_out(&job->plan, &job->layout);
	return 0;
}

int job_meet(struct sort_job *job)
{
	int ret = open_barrier(job);

	if (ret)
		return ret;
	if (!does_lead(job)) {
		job->is_named = false; /* worker 0 sees to it */
		return get_plan(job);
	}
	ret = forget_name(job);
	return ret ? ret : send_plan(job);
}

/* ---- Steps */

static int fail_member(const struct sort_job *job, unsigned member, int status)
{
	if (status == -ESHUTDOWN)
		return app_fail(-EREMOTEIO,
				"sort %s: worker %u has ended early; its own line says why",
				job->options.input, member);
	return app_fail(-EREMOTEIO, "sort %s: worker %u has failed: %s; its own line says more",
			job->options.input, member, afar_strerror(status));
}

/* Looks at those whose step has not ended, and at how the others' has. */
static int look_at_members(struct sort_job *job, const int *statuses)
{
	int ret = 0;

	for (unsigned i = 1; i < job->options.nr_workers && !ret; i++) {
		if (statuses[i] == -ETIMEDOUT)
			ret = look_after(job, i);
		else if (statuses[i])
			ret = fail_member(job, i, statuses[i]);
	}
	return ret;
}

static int collect(struct sort_job *job, int *statuses)
{
	int ret, wrong;

	for (;;) {
		ret = is_ended(job) ? -ECANCELED
				    : afar_barrier_collect(job->barrier, statuses, SLICE_MS);
		if (ret == 0 || ret == -ECANCELED)
			return ret;
		if (ret < 0 && ret != -ETIMEDOUT)
			return fail(job, ret);
		wrong = look_at_members(job, statuses);
		if (!wrong)
			wrong = show_life(job);
		if (wrong)
			return wrong;
	}
}

static int collect_and_start(struct sort_job *job)
{
	int *statuses = calloc(job->options.nr_workers, sizeof(*statuses));
	int ret = statuses ? collect(job, statuses)
			   : app_fail(-ENOMEM, "sort %s: out of memory", job->options.input);

	free(statuses);
	if (ret)
		return ret;
	ret = afar_barrier_start(job->barrier, NULL);
	return ret ? fail(job, ret) : 0;
}

int job_sync(struct sort_job *job)
{
	int ret;

	if (does_lead(job))
		return collect_and_start(job);
	ret = afar_barrier_report(job->barrier, 0);
	return ret ? fail(job, ret) : await_leader(job, NULL);
}

void job_give_up(struct sort_job *job, int error)
{
	if (job->barrier && !does_lead(job))
		afar_barrier_report(job->barrier, error);
}

int job_take(struct sort_job *job, enum job_counter counter, uint64_t nr, uint64_t *first)
{
	int ret = afar_region_fetch_add(job->meeting.region, job->layout.counters + 8U * counter,
					nr, first);

	return ret ? fail(job, ret) : 0;
}
