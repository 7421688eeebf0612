/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reserving: a job of several steps. It plans shares on servers, asks them all at once, and when each
 * share is granted records the extents in one commit. A server that fails is left out and the rest
 * planned anew; when that is not possible, what was granted is given back. A request that comes again
 * joins its running job.
 *
 * Memory that nobody hears of would be lost to all: what is granted while the client is away waits until
 * its session is back, or has ended, and is given back then. So is what a client does not want any more.
 *
 * Jobs are not stored. When the manager ends in the middle, servers report extents that it does not
 * know as they rejoin, and it has them released. For the same reason a server that loses its connection
 * voids what it granted to jobs that have not finished.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/log.h"
#include "manager/core_private.h"
#include "manager/placement.h"

/* Populating memory is slow: time for a server to answer, beside that for what it populates. */
#define SHARE_EXTENTS_MAX ((size_t)1 << 16)

enum share_state { SHARE_ASKED, SHARE_GRANTED, SHARE_FAILED };

struct share {
	struct cds_list_head node;
	struct job *job;
	enum share_state state;
	uint64_t server;
	uint64_t incarnation;
	uint64_t bytes;
	uint64_t pending; /* counted at its server; of bytes, or of what was granted */
	uint64_t granted; /* bytes of: */
	struct {
		uint64_t number;
		uint64_t length;
	} * extents;
	size_t nr_extents;
};

enum job_state {
	JOB_RUNNING,  /* shares are asked for, or it is about to plan          */
	JOB_WAITING,  /* for memory that servers are releasing                 */
	JOB_UNHEARD,  /* all is granted, and the session has no connection     */
	JOB_FINISHED, /* in this batch's commit; the next state is none: freed */
};

struct job {
	struct cds_list_head node;
	enum job_state state;
	uint64_t session;
	uint64_t request_id;
	uint64_t namespace_number;
	uint32_t width;
	uint64_t bytes; /* a multiple of the extent unit */
	int failure;	/* of a server, to tell when it cannot be done without it: */
	uint64_t failed_server;
	bool is_cancelled;
	struct cds_list_head shares;
	struct cds_list_head waiters; /* events */
};

static void share_free(struct share *share)
{
	cds_list_del(&share->node);
	free(share->extents);
	free(share);
}

static void job_free(struct job *job)
{
	struct share *share, *next;

	cds_list_for_each_entry_safe (share, next, &job->shares, node)
		share_free(share);
	cds_list_del(&job->node);
	free(job);
}

static uint64_t job_sum(const struct job *job, enum share_state state)
{
	const struct share *share;
	uint64_t sum = 0;

	cds_list_for_each_entry (share, &job->shares, node)
		if (share->state == state)
			sum += state == SHARE_GRANTED ? share->granted : share->bytes;
	return sum;
}

static bool has_failed_on(const struct job *job, uint64_t server)
{
	const struct share *share;

	cds_list_for_each_entry (share, &job->shares, node)
		if (share->state == SHARE_FAILED && share->server == server)
			return true;
	return false;
}

/* ---- Ending a job */

static int session_is_over(void)
{
	return error_fail(-AFAR_ESESSION, "reserve: the session ended meanwhile; open a new one");
}

static int fail_cancelled(void)
{
	return error_fail(-ECANCELED, "reserve: it was cancelled; nothing is kept of it");
}

static void drop_pending(struct core *core, struct share *share)
{
	struct live_server *live = core_live_server(core, share->server);

	if (live && live->incarnation == share->incarnation)
		live->pending_bytes -=
			share->pending < live->pending_bytes ? share->pending : live->pending_bytes;
	share->pending = 0;
}

/* Gives a granted share back to its server. */
static void undo_share(struct core *core, struct share *share)
{
	struct live_server *live = core_live_server(core, share->server);
	uint64_t *numbers;

	drop_pending(core, share);
	share->state = SHARE_FAILED;
	if (!live || !live->peer || live->incarnation != share->incarnation)
		return;
	numbers = calloc(share->nr_extents + 1, sizeof(*numbers));
	if (!numbers) {
		/* Its rejoining brings the same about. */
		core->environment.close_peer(core->environment.context, live->peer);
		return;
	}
	for (size_t i = 0; i < share->nr_extents; i++)
		numbers[i] = share->extents[i].number;
	server_undo(core, live, numbers, share->nr_extents);
}

static void undo_job(struct core *core, struct job *job)
{
	struct share *share;

	cds_list_for_each_entry (share, &job->shares, node)
		if (share->state == SHARE_GRANTED)
			undo_share(core, share);
}

/* The session may have ended in the very batch that finished the job. */
static int tell_reserved(struct core *core, const struct job *job, Afar__Reply *reply)
{
	const struct session *session = state_session(core->state, job->session);

	if (!session)
		return session_is_over();
	return core_reply(core, session, OUTCOME_NAMESPACE, job->namespace_number, reply);
}

static void answer_waiters(struct core *core, struct job *job, int status)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &job->waiters, node) {
		int ret = status;

		cds_list_del(&event->node);
		if (ret == 0)
			ret = tell_reserved(core, job, event->reply);
		if (ret < 0)
			event_fail(event, ret);
		event_answer(core, event);
	}
}

/* The thread's last sentence says why. */
static void job_fail(struct core *core, struct job *job, int status)
{
	/* Undoing may fail too, and must not replace the sentence. */
	answer_waiters(core, job, status);
	undo_job(core, job);
	job_free(job);
}

/* ---- Finishing */

static int record_extents(struct core *core, const struct job *job, struct namespace *ns)
{
	const struct share *share;
	struct extent *extent;
	int ret;

	cds_list_for_each_entry (share, &job->shares, node) {
		struct server *server = state_server(core->state, share->server);

		if (share->state != SHARE_GRANTED)
			continue;
		if (!server || server->incarnation != share->incarnation)
			return error_code(-AFAR_ESERVER);
		for (size_t i = 0; i < share->nr_extents; i++) {
			ret = state_add_extent(core->state, server, share->incarnation,
					       share->extents[i].number, ns, ns->number,
					       share->extents[i].length, &extent);
			if (ret < 0)
				return ret;
			store_put_extent(core->store, extent);
		}
	}
	return 0;
}

/* What is in the tables is counted there, from now on and for others of the same batch. */
static void drop_all_pending(struct core *core, const struct job *job)
{
	struct share *share;

	cds_list_for_each_entry (share, &job->shares, node)
		if (share->state == SHARE_GRANTED)
			drop_pending(core, share);
}

/* Puts the extents into the tables and the batch's commit; reserve_committed() does the rest. */
static void job_finish(struct core *core, struct job *job)
{
	struct session *session = state_session(core->state, job->session);
	struct namespace *ns = state_namespace(core->state, job->namespace_number);
	size_t mark = undo_mark(core->undo);
	uint64_t sum;
	int ret = 0;

	if (__builtin_add_overflow(ns->reserved_bytes, job_sum(job, SHARE_GRANTED), &sum))
		ret = error_fail(-EINVAL, "reserve: the namespace would be larger than 2^64 bytes");
	if (ret < 0) {
		job_fail(core, job, ret);
		return;
	}
	drop_all_pending(core, job);
	job->state = JOB_FINISHED;
	ret = record_extents(core, job, ns);
	if (ret == 0)
		ret = state_add_outcome(core->state, session, job->request_id, OUTCOME_NAMESPACE,
					ns->number);
	if (ret == 0)
		store_put_outcome(core->store, session, job->request_id, OUTCOME_NAMESPACE,
				  ns->number);
	ret = undo_end(core->undo, mark, ret);
	if (ret < 0)
		job_fail(core, job, ret);
}

void reserve_committed(struct core *core, int status)
{
	struct job *job, *next;

	cds_list_for_each_entry_safe (job, next, &core->jobs, node) {
		if (job->state != JOB_FINISHED)
			continue;
		if (status < 0) {
			job_fail(core, job, status);
			continue;
		}
		answer_waiters(core, job, 0);
		job_free(job);
	}
}

/* ---- Planning */

struct plan {
	struct placement_server *shares;
	struct live_server **servers;
	size_t nr_servers;
	size_t nr_up;
	uint64_t free_bytes;
	uint64_t releasing_bytes;
};

static uint64_t server_free_bytes(const struct live_server *live)
{
	const struct server *server = live->server;
	uint64_t used;

	if (__builtin_add_overflow(server->granted_bytes, live->pending_bytes, &used) ||
	    used >= server->capacity_bytes)
		return 0;
	return (server->capacity_bytes - used) / PLACEMENT_EXTENT_UNIT * PLACEMENT_EXTENT_UNIT;
}

static void plan_close(struct plan *plan)
{
	free(plan->shares);
	free(plan->servers);
}

/* The servers that may be asked. */
static int plan_open(struct core *core, const struct job *job, struct plan *plan)
{
	struct live_server *live;
	size_t max = 1;

	*plan = (struct plan){0};
	cds_list_for_each_entry (live, &core->live_servers, node)
		max++;
	plan->shares = calloc(max, sizeof(*plan->shares));
	plan->servers = calloc(max, sizeof(struct live_server *));
	if (!plan->shares || !plan->servers) {
		plan_close(plan);
		return error_code(-ENOMEM);
	}
	cds_list_for_each_entry (live, &core->live_servers, node) {
		uint64_t free_bytes;

		if (!live->peer)
			continue;
		plan->nr_up++;
		if (has_failed_on(job, live->number))
			continue;
		free_bytes = server_free_bytes(live);
		plan->servers[plan->nr_servers] = live;
		plan->shares[plan->nr_servers++].free_bytes = free_bytes;
		if (__builtin_add_overflow(plan->free_bytes, free_bytes, &plan->free_bytes))
			plan->free_bytes = UINT64_MAX;
		plan->releasing_bytes += live->server->releasing_bytes;
	}
	return 0;
}

static int ask(struct core *core, struct job *job, struct live_server *live, uint64_t bytes)
{
	struct outgoing *outgoing = outgoing_new(OUTGOING_RESERVE, live);
	Afar__Request *request = server_ask_extents(job->namespace_number, bytes, false);
	struct share *share = calloc(1, sizeof(*share));

	if (!share || !outgoing || !request) {
		free(share);
		outgoing_free(outgoing);
		if (request)
			afar__request__free_unpacked(request, NULL);
		return error_code(-ENOMEM);
	}
	share->job = job;
	share->server = live->number;
	share->incarnation = live->incarnation;
	share->bytes = share->pending = bytes;
	cds_list_add_tail(&share->node, &job->shares);
	live->pending_bytes += bytes;
	outgoing->share = share;
	server_call(core, live, server_timeout_ms(live), request, outgoing);
	return 0;
}

static int cannot(const struct core *core, const struct job *job, const struct plan *plan,
		  uint64_t missing)
{
	char text[SERVER_TEXT_MAX];

	server_describe(core, job->failed_server, text);
	if (plan->nr_up == 0)
		return error_fail(
			-AFAR_ENOSERVER,
			"reserve %llu MiB: no server is connected to the manager; start one "
			"with 'afard --role server'",
			(unsigned long long)(job->bytes >> 20));
	if (job->failure != 0 && job->failure != -ENOSPC && job->failure != -ENOMEM)
		return error_fail(-AFAR_ESERVER,
				  "reserve %llu MiB: %s failed (%s) and the others have %llu of "
				  "the missing %llu MiB free; try again",
				  (unsigned long long)(job->bytes >> 20), text,
				  afar_error_name(job->failure),
				  (unsigned long long)(plan->free_bytes >> 20),
				  (unsigned long long)(missing >> 20));
	return error_fail(
		-ENOSPC,
		"reserve %llu MiB: the servers have %llu of the missing %llu MiB free; ask "
		"for less, release memory, or add a server",
		(unsigned long long)(job->bytes >> 20),
		(unsigned long long)(plan->free_bytes >> 20), (unsigned long long)(missing >> 20));
}

/* Asks servers for what is missing, or waits. Fails when it can't be done. */
static int job_plan(struct core *core, struct job *job, uint64_t missing)
{
	struct plan plan;
	int ret = plan_open(core, job, &plan);

	if (ret < 0)
		return ret;
	ret = placement_spread(plan.shares, plan.nr_servers, missing, job->width, core->turn++);
	if (ret == -ENOSPC && plan.releasing_bytes != 0 &&
	    plan.releasing_bytes >= missing - plan.free_bytes) {
		job->state = JOB_WAITING;
		ret = 0;
	} else if (ret == -ENOSPC) {
		ret = cannot(core, job, &plan, missing);
	} else if (ret == 0) {
		job->state = JOB_RUNNING;
		for (size_t i = 0; i < plan.nr_servers && ret == 0; i++)
			if (plan.shares[i].share != 0)
				ret = ask(core, job, plan.servers[i], plan.shares[i].share);
	}
	plan_close(&plan);
	return ret;
}

/* Sessions end and namespaces are deleted while servers populate memory. */
static int check_wanted(const struct core *core, const struct job *job)
{
	const struct session *session;
	struct namespace *ns;

	if (job->is_cancelled)
		return fail_cancelled();
	session = state_session(core->state, job->session);
	if (!session || session->is_ending)
		return session_is_over();
	return core_namespace(core, session, "reserve", job->namespace_number, RIGHT_OWN, &ns);
}

/* A client that lost its connection may have ended: only its session's end will tell. */
static bool is_heard(const struct core *core, const struct job *job)
{
	const struct session *session = state_session(core->state, job->session);

	return session->live && session->live->peer;
}

/* Whatever changed: finishes, plans, or goes on waiting for answers. */
static void job_step(struct core *core, struct job *job)
{
	uint64_t granted = job_sum(job, SHARE_GRANTED);
	int ret;

	if (job_sum(job, SHARE_ASKED) != 0 || job->state == JOB_FINISHED)
		return;
	ret = check_wanted(core, job);
	if (ret == 0 && granted >= job->bytes) {
		if (is_heard(core, job))
			job_finish(core, job);
		else
			job->state = JOB_UNHEARD;
		return;
	}
	if (ret == 0)
		ret = job_plan(core, job, job->bytes - granted);
	if (ret < 0 && job_sum(job, SHARE_ASKED) != 0)
		job->failure = ret; /* shares that were asked for are to be answered first */
	else if (ret < 0)
		job_fail(core, job, ret);
}

/* ---- Servers' answers */

/* Whether an answer names an extent twice, or one that a running job got. */
static bool is_granted_already(const struct core *core, const struct share *share, uint64_t number)
{
	const struct job *job;
	const struct share *other;

	cds_list_for_each_entry (job, &core->jobs, node) {
		cds_list_for_each_entry (other, &job->shares, node) {
			if (other->server != share->server)
				continue;
			for (size_t i = 0; i < other->nr_extents; i++)
				if (other->extents[i].number == number)
					return true;
		}
	}
	return false;
}

/* Checks what a server says it granted, and keeps it in the share. */
static int take_extents(const struct core *core, struct share *share, const Afar__Extents *extents)
{
	uint64_t sum = 0;

	if (extents->n_extents == 0 || extents->n_extents > SHARE_EXTENTS_MAX)
		return error_code(-AFAR_EMALFORMED);
	share->extents = calloc(extents->n_extents, sizeof(*share->extents));
	if (!share->extents)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < extents->n_extents; i++) {
		const Afar__Extent *extent = extents->extents[i];

		if (extent->namespace_ != share->job->namespace_number || extent->is_sealed ||
		    extent->length == 0 || extent->length % PLACEMENT_EXTENT_UNIT != 0 ||
		    __builtin_add_overflow(sum, extent->length, &sum) ||
		    state_extent(core->state, share->server, share->incarnation, extent->extent) !=
			    NULL ||
		    is_granted_already(core, share, extent->extent))
			return error_code(-AFAR_EMALFORMED);
		share->extents[share->nr_extents].number = extent->extent;
		share->extents[share->nr_extents++].length = extent->length;
	}
	if (sum < share->bytes)
		return error_code(-AFAR_EMALFORMED);
	share->granted = sum;
	return 0;
}

static int check_answer(const struct core *core, struct share *share, const Afar__Reply *answer,
			int status)
{
	if (!answer)
		return status;
	if (answer->status < 0)
		return answer->status;
	if (answer->result_case != AFAR__REPLY__RESULT_EXTENTS)
		return error_code(-AFAR_EMALFORMED);
	return take_extents(core, share, answer->extents);
}

void reserve_answered(struct core *core, struct share *share, const void *peer,
		      const Afar__Reply *answer, int status)
{
	struct live_server *live = core_live_server(core, share->server);
	struct job *job = share->job;
	/* From an earlier connection, it has been reconciled: what it granted was given back. */
	bool is_current = live && live->peer == peer;
	int ret =
		is_current ? check_answer(core, share, answer, status) : error_code(-AFAR_ESERVER);

	if (ret < 0) {
		log_warn("server %llu did not reserve %llu MiB: %s",
			 (unsigned long long)share->server,
			 (unsigned long long)(share->bytes >> 20), afar_strerror(ret));
		drop_pending(core, share);
		share->state = SHARE_FAILED;
		job->failure = ret;
		job->failed_server = share->server;
		/* It may have granted something that nobody will know: rejoining settles that. */
		if (is_current && (!answer || answer->status == 0))
			core->environment.close_peer(core->environment.context, live->peer);
	} else {
		share->state = SHARE_GRANTED;
		live->pending_bytes += share->granted - share->pending;
		share->pending = share->granted;
	}
	job_step(core, job);
}

void reserve_server_down(struct core *core, const struct live_server *live)
{
	struct job *job, *next;
	struct share *share;

	cds_list_for_each_entry_safe (job, next, &core->jobs, node) {
		bool is_hurt = false;

		if (job->state == JOB_FINISHED)
			continue;
		cds_list_for_each_entry (share, &job->shares, node) {
			if (share->server != live->number || share->state != SHARE_GRANTED)
				continue;
			drop_pending(core, share);
			share->state = SHARE_FAILED;
			job->failure = -AFAR_ESERVER;
			job->failed_server = live->number;
			is_hurt = true;
		}
		if (is_hurt || job->state == JOB_WAITING)
			job_step(core, job);
	}
}

void reserve_hear(struct core *core)
{
	struct job *job, *next;

	cds_list_for_each_entry_safe (job, next, &core->jobs, node)
		if (job->state == JOB_UNHEARD)
			job_step(core, job);
}

void reserve_resume(struct core *core)
{
	struct job *job, *next;

	cds_list_for_each_entry_safe (job, next, &core->jobs, node)
		if (job->state == JOB_WAITING)
			job_step(core, job);
}

/* ---- Those who cannot wait any longer */

/* How many servers a job waits for, and the first of them. */
static unsigned find_awaited(const struct core *core, const struct job *job, uint64_t *first)
{
	const struct live_server *live;
	const struct share *share;
	unsigned nr = 0;

	*first = 0;
	cds_list_for_each_entry (share, &job->shares, node)
		if (share->state == SHARE_ASKED && nr++ == 0)
			*first = share->server;
	cds_list_for_each_entry (live, &core->live_servers, node)
		if (job->state == JOB_WAITING && live->server->releasing_bytes != 0 && nr++ == 0)
			*first = live->number;
	return nr;
}

static int fail_slow(const struct core *core, const struct job *job)
{
	char text[SERVER_TEXT_MAX] = "a server", others[32] = "";
	uint64_t server;
	unsigned nr = find_awaited(core, job, &server);

	if (nr > 0)
		server_describe(core, server, text);
	if (nr > 1)
		snprintf(others, sizeof(others), " (and %u more)", nr - 1);
	return error_fail(
		-ETIMEDOUT,
		"reserve %llu MiB: %s%s did not %s in time; outcome unknown, look whether it runs "
		"or is stopped",
		(unsigned long long)(job->bytes >> 20), text, others,
		job->state == JOB_WAITING ? "release memory" : "answer");
}

void reserve_tell(struct core *core)
{
	struct job *job;

	cds_list_for_each_entry (job, &core->jobs, node)
		if (waiters_due(&job->waiters) <= core_now(core))
			waiters_answer_due(core, &job->waiters, fail_slow(core, job));
}

uint64_t reserve_next_tell(const struct core *core)
{
	const struct job *job;
	uint64_t next = CORE_NEVER, due;

	cds_list_for_each_entry (job, &core->jobs, node) {
		due = waiters_due(&job->waiters);
		next = due < next ? due : next;
	}
	return next;
}

/* ---- The request */

/* Its request may be large, and a job long: all that matters of it is in the job. */
static void wait_for_job(struct job *job, struct event *event)
{
	afar__request__free_unpacked(event->request, NULL);
	event->request = NULL;
	cds_list_add_tail(&event->node, &job->waiters);
}

bool reserve_attach(struct core *core, struct event *event)
{
	struct job *job;

	cds_list_for_each_entry (job, &core->jobs, node) {
		if (job->session != event->session || job->request_id != event->request_id)
			continue;
		wait_for_job(job, event);
		return true;
	}
	return false;
}

static int round_up(const struct namespace *ns, uint64_t bytes, uint64_t *rounded)
{
	uint64_t sum;

	if (bytes == 0)
		return error_fail(-EINVAL, "reserve for '%s': 0 bytes; say how much", ns->name);
	if (__builtin_add_overflow(bytes, PLACEMENT_EXTENT_UNIT - 1, rounded))
		return error_fail(-EINVAL, "reserve for '%s': %llu bytes are too many for 64 bits",
				  ns->name, (unsigned long long)bytes);
	*rounded = *rounded / PLACEMENT_EXTENT_UNIT * PLACEMENT_EXTENT_UNIT;
	if (__builtin_add_overflow(*rounded, ns->reserved_bytes, &sum))
		return error_fail(
			-EINVAL,
			"reserve for '%s': %llu bytes beside the %llu that it has are too "
			"many for 64 bits",
			ns->name, (unsigned long long)bytes,
			(unsigned long long)ns->reserved_bytes);
	return 0;
}

int namespace_reserve(struct core *core, struct session *session, struct event *event)
{
	const Afar__NamespaceReserve *request = event->request->namespace_reserve;
	struct namespace *ns;
	struct job *job;
	uint64_t bytes = 0;
	int ret = core_namespace(core, session, "reserve", request->namespace_, RIGHT_OWN, &ns);

	if (ret == 0)
		ret = round_up(ns, request->bytes, &bytes);
	if (ret < 0)
		return ret;
	job = calloc(1, sizeof(*job));
	if (!job)
		return error_code(-ENOMEM);
	job->session = session->number;
	job->request_id = event->request_id;
	job->namespace_number = ns->number;
	job->width = ns->width;
	job->bytes = bytes;
	CDS_INIT_LIST_HEAD(&job->shares);
	CDS_INIT_LIST_HEAD(&job->waiters);
	cds_list_add_tail(&job->node, &core->jobs);
	wait_for_job(job, event);
	job_step(core, job);
	return CORE_DEFERRED;
}

/* Requests that wait for servers to come back after a start have no job yet. */
static void cancel_waiting(struct core *core, const struct session *session, uint64_t ns)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &core->waiting, node) {
		if (event->session != session->number ||
		    event->request->call_case != AFAR__REQUEST__CALL_NAMESPACE_RESERVE ||
		    event->request->namespace_reserve->namespace_ != ns)
			continue;
		cds_list_del(&event->node);
		event_fail(event, fail_cancelled());
		cds_list_add_tail(&event->node, &core->answering);
	}
}

/* The client hears at once; what servers have still to grant is given back when they have. */
static void cancel_job(struct core *core, struct job *job)
{
	job->is_cancelled = true;
	if (job_sum(job, SHARE_ASKED) == 0) {
		job_fail(core, job, fail_cancelled());
		return;
	}
	answer_waiters(core, job, fail_cancelled());
	undo_job(core, job);
}

int reserve_cancel(struct core *core, struct session *session, struct event *event)
{
	uint64_t ns = event->request->reserve_cancel->namespace_;
	struct job *job, *next;

	cancel_waiting(core, session, ns);
	cds_list_for_each_entry_safe (job, next, &core->jobs, node)
		if (job->session == session->number && job->namespace_number == ns &&
		    job->state != JOB_FINISHED)
			cancel_job(core, job);
	return 0;
}

void reserve_close(struct core *core)
{
	struct job *job, *next;

	cds_list_for_each_entry_safe (job, next, &core->jobs, node)
		job_fail(core, job,
			 error_fail(-AFAR_EMANAGER, "reserve: the manager stops; try again later"));
}
