/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How workers meet and wait for each other; see team.h. Called by the programs whose workers they are.
 *
 * A step may take any time, so no deadline on it tells of a death. Each worker shows that it lives by a word that only it
 * writes. Worker 0 looks at the words of those that it waits for, the others at that of worker 0.
 */
#include "team.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tools/copy/failure.h"

#define LINE	 64U
#define RETRY_NS 20000000 /* between two looks for the region of the job */
#define BEAT_NS	 100000000U
#define SLICE_MS 100 /* after so long, a wait looks whether the others live */
#define LEADER_MS \
	300 /* of an attempt to meet; shorter for worker 0, so that the attempts of all overlap */
#define MEMBER_MS 1000
#define SPIN_US	  50U

static bool does_lead(const struct team *team)
{
	return team->options.worker == 0;
}

static bool is_ended(const struct team *team)
{
	return team->options.is_ended && team->options.is_ended(team->options.context);
}

static int fail(const struct team *team, int error)
{
	char what[AFAR_NAME_MAX + 32];

	snprintf(what, sizeof(what), "job %s", team->options.job);
	return app_fail_last(error, what);
}

/* ---- The regions */

static int tier_of(struct afar_session *session, const char *name, enum afar_tier *out)
{
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_namespace *ns;
	int ret = afar_namespace_open(session, name, &ns);

	if (ret)
		return ret;
	ret = afar_namespace_stat(ns, &stat);
	afar_namespace_close(ns);
	*out = stat.tier;
	return ret;
}

int team_choose(struct afar_session *session, const char *what, const char *meet_ns,
		const char *const *others, unsigned nr, char out[AFAR_NAME_MAX + 1])
{
	const char *const *names = meet_ns ? &meet_ns : others;
	enum afar_tier tier;
	int ret;

	for (unsigned i = 0; i < (meet_ns ? 1 : nr); i++) {
		if (!names[i])
			continue;
		ret = tier_of(session, names[i], &tier);
		if (ret)
			return app_fail_last(ret, what);
		snprintf(out, AFAR_NAME_MAX + 1, "%s", names[i]);
		if (tier != AFAR_TIER_FLASH)
			return 0;
	}
	return app_fail(-EINVAL,
			"%s: workers cannot meet in %s, which is on flash; name a namespace in "
			"memory with --meet",
			what, out);
}

uint64_t team_bytes(unsigned nr_workers, uint64_t plan_bytes)
{
	uint64_t barrier = AFAR_BARRIER_BYTES(nr_workers, plan_bytes);

	return (barrier + LINE - 1) / LINE * LINE + (uint64_t)LINE * nr_workers;
}

static int fail_meeting(const struct team *team, int error)
{
	char what[2 * AFAR_NAME_MAX + 100];

	snprintf(what, sizeof(what), "meet in the region %s", team->meeting.end.text);
	return app_fail_last(error, what);
}

static int begin(struct team *team, struct afar_session *session,
		 const struct team_options *options)
{
	int ret;

	*team = (struct team){.options = *options, .session = session};
	team->meeting = (struct place){.end = {.text = options->job, .fd = -1}};
	team->exchange = (struct place){.end = {.text = team->exchange_name, .fd = -1}};
	team->beats = team_bytes(options->nr_workers, options->plan_bytes) -
		      (uint64_t)LINE * options->nr_workers;
	team->heard = calloc(options->nr_workers, sizeof(*team->heard));
	if (!team->heard)
		return app_fail(-ENOMEM, "%s: out of memory", options->what);
	if (snprintf(team->exchange_name, sizeof(team->exchange_name), "%s-exchange",
		     options->job) >= (int)sizeof(team->exchange_name))
		return app_fail(-ENAMETOOLONG, "%s: the job's name %s is too long for two regions",
				options->what, options->job);
	ret = afar_namespace_open(session, options->meet_ns, &team->meeting.ns);
	if (!ret)
		ret = afar_namespace_open(session, options->ns, &team->exchange.ns);
	return ret ? fail_meeting(team, ret) : 0;
}

static int create_in(struct place *place, uint64_t bytes)
{
	return afar_region_create(place->ns, place->end.text, bytes, AFAR_ALLOC_TEMPORARY,
				  &place->end.region);
}

static int create_region(struct team *team, struct place *place, const char *ns, uint64_t bytes,
			 struct room *room)
{
	int ret = room_get(team->session, ns, bytes, room);

	if (ret)
		return ret;
	ret = create_in(place, bytes);
	if (ret == -AFAR_ERESERVE) {
		ret = room_get_whole(team->session, bytes, room);
		if (ret)
			return ret;
		ret = create_in(place, bytes);
	}
	if (ret == -EEXIST)
		return app_fail(ret,
				"%s: there is a job %s already, which runs or was killed; choose "
				"another name, or remove it with 'afar region rm %s:%s'",
				team->options.what, team->options.job, ns, place->end.text);
	return ret ? fail_meeting(team, ret) : 0;
}

/* The others open the exchange when they have found the meeting. */
int team_create(struct team *team, struct afar_session *session, const struct team_options *options,
		uint64_t meeting_bytes, uint64_t exchange_bytes)
{
	int ret = begin(team, session, options);

	if (ret)
		return ret;
	team->is_named = true;
	ret = create_region(team, &team->exchange, options->ns, exchange_bytes,
			    &team->exchange_room);
	return ret ? ret
		   : create_region(team, &team->meeting, options->meet_ns, meeting_bytes,
				   &team->room);
}

static int open_regions(struct team *team)
{
	int ret = afar_region_open(team->meeting.ns, team->options.job, &team->meeting.end.region);

	if (ret)
		return ret;
	ret = afar_region_open(team->exchange.ns, team->exchange_name, &team->exchange.end.region);
	if (ret != -ENOENT)
		return ret;
	/* Worker 0 has just ended, and the next one makes both anew. */
	afar_region_close(team->meeting.end.region);
	team->meeting.end.region = NULL;
	return ret;
}

int team_join(struct team *team, struct afar_session *session, const struct team_options *options)
{
	const struct timespec pause = {.tv_nsec = RETRY_NS};
	uint64_t deadline = clock_deadline_ms(options->patience_ms);
	int ret = begin(team, session, options);

	if (ret)
		return ret;
	for (;;) {
		ret = open_regions(team);
		team->is_named = ret == 0;
		if (ret != -ENOENT)
			return ret ? fail_meeting(team, ret) : 0;
		if (is_ended(team))
			return -ECANCELED;
		if (clock_ns() > deadline)
			return app_fail(-ETIMEDOUT,
					"%s: worker 0 of the job %s has not come within %u s",
					options->what, options->job, options->patience_ms / 1000);
		nanosleep(&pause, NULL);
	}
}

/* ---- Signs of life */

static int show_life(struct team *team)
{
	uint64_t now = clock_ns();
	ssize_t n;

	if (now - team->beat_ns < BEAT_NS)
		return 0;
	team->beat_ns = now;
	team->beat++;
	n = afar_region_pwrite(team->meeting.end.region, &team->beat, sizeof(team->beat),
			       team->beats + (uint64_t)LINE * team->options.worker);
	return n < 0 ? fail(team, (int)n) : 0;
}

int team_live(struct team *team)
{
	return is_ended(team) ? -ECANCELED : show_life(team);
}

/* Returns 0 if the worker has shown itself since the last call, or not long ago. */
static int look_after(struct team *team, unsigned worker)
{
	struct team_heard *heard = &team->heard[worker];
	uint64_t now, beat;
	ssize_t n = afar_region_pread(team->meeting.end.region, &beat, sizeof(beat),
				      team->beats + (uint64_t)LINE * worker);

	if (n < 0)
		return fail(team, (int)n);
	now = clock_ns();
	if (!heard->since_ns || beat != heard->beat)
		*heard = (struct team_heard){beat, now};
	if (now - heard->since_ns < (uint64_t)team->options.patience_ms * 1000000U)
		return 0;
	return app_fail(-ETIMEDOUT, "%s: worker %u has not been heard of for %u s; all end",
			team->options.what, worker, team->options.patience_ms / 1000);
}

/* ---- Meeting */

/* The regions keep no names that somebody would have to remove. */
static int forget_names(struct team *team)
{
	int ret = afar_region_destroy(team->exchange.end.region);

	if (!ret)
		ret = afar_region_destroy(team->meeting.end.region);
	team->is_named = ret != 0;
	return ret ? fail(team, ret) : 0;
}

static int open_barrier(struct team *team)
{
	const struct afar_barrier_options options = {
		.size = sizeof(options),
		.work_bytes = team->options.plan_bytes,
		.nr_members = team->options.nr_workers,
		.member = team->options.worker,
		.spin_us = SPIN_US,
	};
	uint64_t deadline = clock_deadline_ms(team->options.patience_ms);
	int ret;

	do {
		ret = is_ended(team) ? -ECANCELED
				     : afar_barrier_open(team->meeting.end.region, &options,
							 does_lead(team) ? LEADER_MS : MEMBER_MS,
							 &team->barrier);
	} while (ret == -ETIMEDOUT && clock_ns() < deadline);
	return ret && ret != -ECANCELED ? fail(team, ret) : ret;
}

static int send_plan(struct team *team, const void *plan)
{
	uint64_t bytes = team->options.plan_bytes;
	char *plans = calloc(team->options.nr_workers, bytes);
	int ret = plans ? 0 : -ENOMEM;

	for (unsigned i = 0; plans && i < team->options.nr_workers; i++)
		memcpy(plans + i * bytes, plan, bytes);
	if (plans)
		ret = afar_barrier_start(team->barrier, plans);
	free(plans);
	return ret ? fail(team, ret) : 0;
}

/* Waits for worker 0 to begin a step; takes the plan if `plan` is not NULL. */
static int await_leader(struct team *team, void *plan)
{
	int ret;

	for (;;) {
		ret = is_ended(team) ? -ECANCELED
				     : afar_barrier_next(team->barrier, plan, SLICE_MS);
		if (ret == -ESHUTDOWN)
			return app_fail(ret, "%s: worker 0 has ended early; its own line says why",
					team->options.what);
		if (ret != -ETIMEDOUT)
			return ret && ret != -ECANCELED ? fail(team, ret) : ret;
		ret = look_after(team, 0);
		if (ret)
			return ret;
	}
}

int team_meet(struct team *team, void *plan)
{
	int ret = open_barrier(team);

	if (ret)
		return ret;
	if (!does_lead(team)) {
		team->is_named = false; /* worker 0 sees to it */
		return await_leader(team, plan);
	}
	ret = forget_names(team);
	return ret ? ret : send_plan(team, plan);
}

/* ---- Steps */

static int fail_member(const struct team *team, unsigned member, int status)
{
	if (status == -ESHUTDOWN)
		return app_fail(-EREMOTEIO, "%s: worker %u has ended early; its own line says why",
				team->options.what, member);
	return app_fail(-EREMOTEIO, "%s: worker %u has failed: %s; its own line says more",
			team->options.what, member, afar_strerror(status));
}

/* Looks at those whose step has not ended, and at how the others' has. */
static int look_at_members(struct team *team, const int *statuses)
{
	int ret = 0;

	for (unsigned i = 1; i < team->options.nr_workers && !ret; i++) {
		if (statuses[i] == -ETIMEDOUT)
			ret = look_after(team, i);
		else if (statuses[i])
			ret = fail_member(team, i, statuses[i]);
	}
	return ret;
}

static int collect(struct team *team, int *statuses)
{
	int ret, wrong;

	for (;;) {
		ret = is_ended(team) ? -ECANCELED
				     : afar_barrier_collect(team->barrier, statuses, SLICE_MS);
		if (ret == 0 || ret == -ECANCELED)
			return ret;
		if (ret < 0 && ret != -ETIMEDOUT)
			return fail(team, ret);
		wrong = look_at_members(team, statuses);
		if (!wrong)
			wrong = show_life(team);
		if (wrong)
			return wrong;
	}
}

static int collect_and_start(struct team *team)
{
	int *statuses = calloc(team->options.nr_workers, sizeof(*statuses));
	int ret = statuses ? collect(team, statuses)
			   : app_fail(-ENOMEM, "%s: out of memory", team->options.what);

	free(statuses);
	if (ret)
		return ret;
	ret = afar_barrier_start(team->barrier, NULL);
	return ret ? fail(team, ret) : 0;
}

int team_sync(struct team *team)
{
	int ret;

	if (does_lead(team))
		return collect_and_start(team);
	ret = afar_barrier_report(team->barrier, 0);
	return ret ? fail(team, ret) : await_leader(team, NULL);
}

void team_give_up(struct team *team, int error)
{
	if (team->barrier && !does_lead(team))
		afar_barrier_report(team->barrier, error);
}

void team_leave(struct team *team)
{
	if (team->barrier)
		afar_barrier_close(team->barrier);
	team->barrier = NULL;
	if (team->is_named) {
		place_discard(&team->meeting);
		place_discard(&team->exchange);
	}
	place_close(&team->meeting);
	place_close(&team->exchange);
	free(team->heard);
	team->heard = NULL;
}

void team_give_back(struct team *team, struct room *other, uint64_t used)
{
	room_join(&team->exchange_room, &team->room);
	if (other && !used)
		room_join(&team->exchange_room, other);
	room_give_back(team->session, &team->exchange_room, 0);
	room_give_back(team->session, &team->room, 0);
	if (other)
		room_give_back(team->session, other, used);
}
