/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches: what comes in is handled, what that changed is committed, and the replies go out. See
 * core.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/dispatch/files_work.h"
#include "manager/dispatch/jobs.h"
#include "manager/dispatch/requests.h"
#include "manager/dispatch/views.h"
#include "manager/files/files.h"
#include "manager/members/principals.h"
#include "manager/members/sessions.h"
#include "manager/members/terms.h"
#include "manager/servers/servers.h"
#include "manager/space/trims.h"

#define SENTENCE_MAX 512

/* ---- Events */

static uint64_t sooner(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

static void handle(struct core *core, struct event *event)
{
	switch (event->kind) {
	case EVENT_REQUEST:
		request_handle(core, event);
		break;
	case EVENT_ANSWER:
		server_answered(core, event);
		event_free(event);
		break;
	case EVENT_GONE:
		session_gone(core, event->peer);
		server_gone(core, event->peer);
		cds_list_add_tail(&event->node, &core->gone);
		break;
	case EVENT_VIEW:
		view_begin(core, event);
		break;
	}
}

/* ---- The store */

/* The commit failed: the tables are those from before the batch. Answers its requests with that. */
static void fail_batch(struct core *core, int status)
{
	char sentence[SENTENCE_MAX];
	struct event *event;

	snprintf(sentence, sizeof(sentence), "%s", error_last_line());
	if (core->complain_at <= core_now(core)) {
		log_error("%s", sentence);
		core->complain_at = core_now(core) + CORE_COMPLAINT_NS;
	}
	/* Keeps the earlier retry time: the work that is due then may free the space that others
	 * wait for. */
	if (core->retry_at == 0)
		core->retry_at = core_now(core) + CORE_RETRY_NS;
	/* A server that was forgotten in a batch that failed is to be forgotten again. */
	core->forget_at = sooner(core->forget_at, core_now(core) + core->lease_ns);
	cds_list_for_each_entry (event, &core->answering, node) {
		/* The server believes what it was told: it must join again. */
		if (event->request->call_case == AFAR__REQUEST__CALL_SERVER_JOIN)
			core->environment.close_peer(core->environment.context, event->peer);
		if (event->reply->status == 0)
			event_fail(event, error_fail(status, "%s", sentence));
	}
	error_fail(status, "%s", sentence);
	jobs_committed(core, status);
}

static int count_commit(struct core *core)
{
	const bool has_changes = store_has_changes(core->store);
	const uint64_t begun_at = core_now(core);
	int ret = store_commit(core->store, core->lend, core->lend_argument);

	if (!has_changes)
		return ret;
	latency_add(&core->counts.commits, core_now(core) - begun_at);
	counter_add(&core->counts.nr_commits_failed, ret < 0);
	counter_set(&core->counts.is_failing, ret < 0);
	return ret;
}

static void commit(struct core *core)
{
	int ret;

	jobs_settle(core);
	terms_note_change(core);
	ret = count_commit(core);
	if (ret < 0) {
		fail_batch(core, ret);
		return;
	}
	jobs_committed(core, 0);
}

/* ---- Batches */

static void forget_gone(struct core *core)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &core->gone, node) {
		cds_list_del(&event->node);
		core->environment.forget_peer(core->environment.context, event->peer);
		event_free(event);
	}
}

/* Does what no event asks for. It has a commit of its own, which can be good where that of the
 * events was not. */
static void do_own_work(struct core *core)
{
	sessions_expire(core);
	if (core->forget_at <= core_now(core)) {
		core->forget_at = CORE_NEVER;
		servers_forget(core);
	}
	files_work(core);
	commit(core);
}

static void run_batch(struct core *core, struct cds_list_head *events)
{
	bool is_due = core->retry_at <= core_now(core); /* also 0: there is nothing to wait for */
	struct event *event, *next;

	if (is_due)
		core->retry_at = 0;
	cds_list_for_each_entry_safe (event, next, events, node) {
		cds_list_del(&event->node);
		handle(core, event);
	}
	commit(core);
	requests_answer(core);
	views_answer(core);
	if (is_due)
		do_own_work(core);
	if (core->retry_at == 0) {
		servers_drive(core);
		files_drive(core);
	}
	jobs_drive(core);
	jobs_tell(core);
	forget_gone(core);
}

void core_run(struct core *core, struct cds_list_head *events)
{
	const uint64_t begun_at = core_now(core);
	CDS_LIST_HEAD(batch);

	cds_list_splice(events, &batch);
	CDS_INIT_LIST_HEAD(events);
	do {
		run_batch(core, &batch);
		core->heard_at = begun_at;
		CDS_INIT_LIST_HEAD(&batch);
		cds_list_splice(&core->failed_calls, &batch);
		CDS_INIT_LIST_HEAD(&core->failed_calls);
		requests_end_waits(core, &batch);
	} while (!cds_list_empty(&batch));
}

bool core_answer(struct core *core, struct event *event)
{
	return event->kind == EVENT_REQUEST && request_answer(core, event);
}

bool core_can_overtake(const struct event *event, const struct event *earlier)
{
	if (event->peer != earlier->peer)
		return true;
	return event->kind == EVENT_REQUEST && earlier->kind == EVENT_REQUEST &&
	       request_is_question(event);
}

void core_set_lend(struct core *core, void (*lend)(void *argument, bool is_lent), void *argument)
{
	core->lend = lend;
	core->lend_argument = argument;
}

const struct manager_counts *core_counts(const struct core *core)
{
	return &core->counts;
}

uint64_t core_next_run(struct core *core)
{
	uint64_t next = sooner(requests_next(core), jobs_next(core));

	next = sooner(next, views_next(core));

	/* After a failed commit there is no work of its own before that. */
	if (core->retry_at != 0)
		return sooner(next, core->retry_at);
	if (!cds_list_empty(&core->leased))
		next = sooner(next, cds_list_first_entry(&core->leased, struct live_session, node)
					    ->lease_deadline);
	next = sooner(next, files_next(core));
	return sooner(sooner(next, core->forget_at), servers_next_drive(core));
}

/* ---- The whole */

int core_open(struct metastore *metastore, const struct core_environment *environment,
	      const struct core_options *options, struct core **out)
{
	struct core *core = calloc(1, sizeof(*core));
	int ret;

	if (!core)
		return error_code(-ENOMEM);
	core->environment = *environment;
	core->metastore = metastore;
	core->keyring = options->keyring;
	core->incarnation = options->incarnation;
	core->lease_ns = (uint64_t)options->lease_ms * 1000000U;
	core->gives_ends = options->gives_ends;
	core->claim_ns =
		(uint64_t)(options->claim_ms ? options->claim_ms : CORE_CLAIM_MS) * 1000000U;
	core->started_at = core_now(core);
	core->forget_at = core->started_at + core->lease_ns;
	CDS_INIT_LIST_HEAD(&core->live_servers);
	CDS_INIT_LIST_HEAD(&core->connected);
	CDS_INIT_LIST_HEAD(&core->leased);
	CDS_INIT_LIST_HEAD(&core->ended);
	CDS_INIT_LIST_HEAD(&core->jobs);
	CDS_INIT_LIST_HEAD(&core->waiting);
	CDS_INIT_LIST_HEAD(&core->viewing);
	CDS_INIT_LIST_HEAD(&core->key_changes);
	CDS_INIT_LIST_HEAD(&core->answering);
	CDS_INIT_LIST_HEAD(&core->reading);
	CDS_INIT_LIST_HEAD(&core->gone);
	CDS_INIT_LIST_HEAD(&core->failed_calls);
	ret = undo_open(&core->undo);
	if (ret == 0)
		ret = undo_open(&core->beside);
	if (ret == 0)
		ret = store_open(metastore, core->undo, &core->store);
	if (ret == 0)
		ret = store_load(core->store, &core->state);
	if (ret == 0)
		ret = sessions_start(core);
	if (ret == 0)
		ret = principals_start(core);
	if (ret == 0)
		ret = undo_end(core->undo, 0, trims_start(core));
	if (ret == 0)
		ret = undo_end(core->undo, 0, terms_begin(core));
	if (ret == 0)
		ret = files_start(core);
	if (ret == 0)
		ret = store_commit(core->store, NULL, NULL);
	if (ret < 0) {
		core_close(core);
		return ret;
	}
	*out = core;
	return 0;
}

void core_close(struct core *core)
{
	requests_close(core);
	views_close(core);
	jobs_close(core);
	files_close(core);
	sessions_close(core);
	servers_close(core);
	terms_close(core);
	state_close(core->state);
	store_close(core->store);
	undo_close(core->undo);
	undo_close(core->beside);
	free(core);
}
