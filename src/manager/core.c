/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches: what comes in is dispatched to the operations, what they changed is committed, and the replies
 * go out; requests that come again are found by their ids. See core.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "manager/job.h"

#define SENTENCE_MAX 512

/* ---- Events */

struct event *event_new(enum event_kind kind, void *peer)
{
	struct event *event = calloc(1, sizeof(*event));

	if (!event)
		return NULL;
	CDS_INIT_LIST_HEAD(&event->node);
	event->kind = kind;
	event->peer = peer;
	event->deadline = CORE_NEVER;
	if (kind != EVENT_REQUEST)
		return event;
	event->reply = MESSAGE_NEW(afar__reply, Afar__Reply);
	if (!event->reply) {
		free(event);
		return NULL;
	}
	return event;
}

void event_free(struct event *event)
{
	if (event->request)
		afar__request__free_unpacked(event->request, NULL);
	if (event->reply)
		afar__reply__free_unpacked(event->reply, NULL);
	if (event->answer)
		afar__reply__free_unpacked(event->answer, NULL);
	free(event);
}

void event_fail(struct event *event, int status)
{
	Afar__Reply *reply = MESSAGE_NEW(afar__reply, Afar__Reply);

	if (!reply) {
		/* Better a result beside the error than no answer: who looks at the status first. */
		event->reply->status = -ENOMEM;
		return;
	}
	reply->status = status;
	reply->message = strdup(error_last_line());
	afar__reply__free_unpacked(event->reply, NULL);
	event->reply = reply;
}

void event_answer(struct core *core, struct event *event)
{
	core->environment.answer(core->environment.context, event->call, event->reply);
	event_free(event);
}

/* ---- Requests that wait for servers */

/* A client that hears nothing within its time knows of nobody but us to blame. So it hears before, whom we wait for. */
#define AHEAD_NS_MAX ((uint64_t)2000000000)

static uint64_t answer_by(const struct core *core, const struct event *event)
{
	uint64_t now = core_now(core), ahead;

	if (event->deadline == CORE_NEVER || event->deadline <= now)
		return event->deadline;
	ahead = (event->deadline - now) / 4;
	return event->deadline - (ahead < AHEAD_NS_MAX ? ahead : AHEAD_NS_MAX);
}

uint64_t waiters_due(const struct cds_list_head *waiters)
{
	const struct event *event;
	uint64_t due = CORE_NEVER;

	cds_list_for_each_entry (event, waiters, node)
		if (event->answer_by < due)
			due = event->answer_by;
	return due;
}

void waiters_answer_due(struct core *core, struct cds_list_head *waiters, int status)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, waiters, node) {
		if (event->answer_by > core_now(core))
			continue;
		cds_list_del(&event->node);
		event_fail(event, status);
		event_answer(core, event);
	}
}

/* ---- Outcomes */

static int reply_namespace(const struct core *core, const struct session *session, uint64_t number,
			   Afar__Reply *reply)
{
	struct namespace *ns;
	int ret = core_namespace(core, session, "tell of a namespace", number, RIGHT_READ, &ns);

	if (ret < 0)
		return ret;
	reply->namespace_info = info_namespace(core, session, ns);
	if (!reply->namespace_info)
		return error_code(-ENOMEM);
	reply->result_case = AFAR__REPLY__RESULT_NAMESPACE_INFO;
	return 0;
}

static int reply_region(const struct core *core, const struct session *session, uint64_t generation,
			Afar__Reply *reply)
{
	const struct region *region = state_region(core->state, generation);
	int ret;

	if (!region)
		return error_fail(-AFAR_EFREED, "tell of a region: it was freed meanwhile");
	ret = rights_check(core, session, region->ns, RIGHT_READ, "tell of a region");
	if (ret < 0)
		return ret;
	/* A request that comes again when all is over must not get more than one that comes first. */
	if (!session_reference(session, generation))
		return error_fail(-EINVAL, "tell of a region: the session has closed it meanwhile");
	reply->region_info = info_region(core, session, region, true);
	if (!reply->region_info)
		return error_code(-ENOMEM);
	reply->result_case = AFAR__REPLY__RESULT_REGION_INFO;
	return 0;
}

static int reply_released(uint64_t bytes, Afar__Reply *reply)
{
	reply->namespace_released = MESSAGE_NEW(afar__namespace_released, Afar__NamespaceReleased);
	if (!reply->namespace_released)
		return error_code(-ENOMEM);
	reply->namespace_released->bytes = bytes;
	reply->result_case = AFAR__REPLY__RESULT_NAMESPACE_RELEASED;
	return 0;
}

int core_reply(struct core *core, const struct session *session, enum outcome_kind kind,
	       uint64_t value, Afar__Reply *reply)
{
	switch (kind) {
	case OUTCOME_NONE:
		return 0;
	case OUTCOME_NAMESPACE:
		return reply_namespace(core, session, value, reply);
	case OUTCOME_REGION:
		return reply_region(core, session, value, reply);
	case OUTCOME_RELEASED:
		return reply_released(value, reply);
	case OUTCOME_PRINCIPAL:
		return principal_reply(core, value, reply);
	}
	return error_code(-EIO);
}

static int record(struct core *core, struct session *session, struct event *event)
{
	enum outcome_kind kind = (enum outcome_kind)event->outcome_kind;
	int ret = core_reply(core, session, kind, event->outcome_value, event->reply);

	if (ret == 0)
		ret = state_add_outcome(core->state, session, event->request_id, kind,
					event->outcome_value);
	if (ret == 0)
		store_put_outcome(core->store, session, event->request_id, kind,
				  event->outcome_value);
	return ret;
}

/* ---- Dispatch */

enum operation_kind {
	OPERATION_DAEMON, /* without a session                                               */
	OPERATION_READ,	  /* changes nothing: runs behind the commit                         */
	OPERATION_CHANGE, /* changes something that a repetition must not                    */
	OPERATION_ONCE,	  /* is done once, and its outcome kept for when it is asked again   */
};

enum audience { FOR_ANYBODY, FOR_SERVER, FOR_CLIENT, FOR_OPERATOR };

struct operation {
	Afar__Request__CallCase call;
	enum operation_kind kind;
	enum audience audience;
	core_operation *run; /* NULL: answers 0 */
};

static const struct operation operations[] = {
	{AFAR__REQUEST__CALL_SESSION_OPEN, OPERATION_DAEMON, FOR_CLIENT, session_open},
	{AFAR__REQUEST__CALL_SESSION_CLOSE, OPERATION_CHANGE, FOR_CLIENT, session_close},
	{AFAR__REQUEST__CALL_STATUS, OPERATION_READ, FOR_CLIENT, cluster_status},
	{AFAR__REQUEST__CALL_NAMESPACE_CREATE, OPERATION_ONCE, FOR_CLIENT, namespace_create},
	{AFAR__REQUEST__CALL_NAMESPACE_OPEN, OPERATION_READ, FOR_CLIENT, namespace_open},
	{AFAR__REQUEST__CALL_NAMESPACE_DELETE, OPERATION_ONCE, FOR_CLIENT, namespace_delete},
	{AFAR__REQUEST__CALL_NAMESPACE_LIST, OPERATION_READ, FOR_CLIENT, namespace_list},
	{AFAR__REQUEST__CALL_NAMESPACE_RESERVE, OPERATION_ONCE, FOR_CLIENT, namespace_reserve},
	{AFAR__REQUEST__CALL_RESERVE_CANCEL, OPERATION_CHANGE, FOR_CLIENT, reserve_cancel},
	{AFAR__REQUEST__CALL_NAMESPACE_RELEASE, OPERATION_ONCE, FOR_CLIENT, namespace_release},
	{AFAR__REQUEST__CALL_NAMESPACE_GRANT, OPERATION_ONCE, FOR_CLIENT, namespace_grant},
	{AFAR__REQUEST__CALL_REGION_ALLOC, OPERATION_ONCE, FOR_CLIENT, region_alloc},
	{AFAR__REQUEST__CALL_REGION_OPEN, OPERATION_ONCE, FOR_CLIENT, region_open},
	{AFAR__REQUEST__CALL_REGION_CLOSE, OPERATION_ONCE, FOR_CLIENT, region_close},
	{AFAR__REQUEST__CALL_REGION_FREE, OPERATION_ONCE, FOR_CLIENT, region_free_operation},
	{AFAR__REQUEST__CALL_REGION_LIST, OPERATION_READ, FOR_CLIENT, region_list},
	{AFAR__REQUEST__CALL_REGION_ACCESS, OPERATION_READ, FOR_CLIENT, region_access},
	{AFAR__REQUEST__CALL_REGION_SEAL, OPERATION_ONCE, FOR_CLIENT, region_seal},
	{AFAR__REQUEST__CALL_REGION_FINISH, OPERATION_ONCE, FOR_CLIENT, region_finish},
	{AFAR__REQUEST__CALL_REGION_LOOK, OPERATION_READ, FOR_CLIENT, region_look},
	{AFAR__REQUEST__CALL_KEY_ADD, OPERATION_ONCE, FOR_OPERATOR, key_add},
	{AFAR__REQUEST__CALL_KEY_LIST, OPERATION_READ, FOR_OPERATOR, key_list},
	{AFAR__REQUEST__CALL_KEY_REVOKE, OPERATION_ONCE, FOR_OPERATOR, key_revoke},
	{AFAR__REQUEST__CALL_SERVER_REGIONS, OPERATION_READ, FOR_OPERATOR, server_regions},
	{AFAR__REQUEST__CALL_SERVER_REMOVE, OPERATION_ONCE, FOR_OPERATOR, server_remove},
	{AFAR__REQUEST__CALL_SERVER_JOIN, OPERATION_DAEMON, FOR_SERVER, server_join},
	{AFAR__REQUEST__CALL_SERVER_REPORT, OPERATION_DAEMON, FOR_SERVER, server_report},
	{AFAR__REQUEST__CALL_PING, OPERATION_DAEMON, FOR_ANYBODY, NULL},
};

static const struct operation *find_operation(const Afar__Request *request)
{
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		if (request && operations[i].call == request->call_case)
			return &operations[i];
	return NULL;
}

uint64_t core_now(const struct core *core)
{
	return core->environment.now(core->environment.context);
}

/* Who it is counts now: a key may have been revoked since the connection was made. */
static int check_caller(const struct core *core, const struct operation *operation,
			const struct event *event)
{
	const char *principal = core->environment.principal(core->environment.context, event->peer);
	enum principal_kind kind =
		principal ? core_principal_kind(core, principal) : PRINCIPAL_UNKNOWN;

	if (kind == PRINCIPAL_UNKNOWN)
		return error_fail(-AFAR_EAUTH,
				  "call to the manager: the key that this connection "
				  "was made with has been revoked; ask an operator for "
				  "another");
	if (operation->audience == FOR_SERVER && kind != PRINCIPAL_SERVER)
		return error_fail(-EACCES,
				  "call to the manager: '%s' has the key of a client; servers join "
				  "with a join key (the manager's server.key, or 'afar key add "
				  "--server')",
				  principal);
	if ((operation->audience == FOR_CLIENT || operation->audience == FOR_OPERATOR) &&
	    kind == PRINCIPAL_SERVER)
		return error_fail(
			-EACCES,
			"call to the manager: '%s' has a server's join key, which is good "
			"for joining alone; use a client's key",
			principal);
	if (operation->audience == FOR_OPERATOR && kind != PRINCIPAL_OPERATOR)
		return error_fail(
			-EACCES,
			"call to the manager: '%s' is no operator, and only they add, list "
			"and revoke keys and remove servers; use a key of the manager's key "
			"file",
			principal);
	return 0;
}

/* The client has the replies to all lower ids: they need not be kept. */
static int settle(struct core *core, struct session *session, uint64_t settled_below)
{
	struct outcome *outcome, *next;
	int ret;

	if (settled_below <= session->settled_below)
		return 0;
	ret = undo_room(core->undo, 1);
	if (ret < 0)
		return ret;
	undo_set(core->undo, session->settled_below, settled_below);
	cds_list_for_each_entry_safe (outcome, next, &session->outcomes, node) {
		if (outcome->request_id >= settled_below)
			continue;
		store_delete_outcome(core->store, session, outcome->request_id);
		ret = state_remove_outcome(core->state, session, outcome);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int check_id(const struct session *session, const struct event *event)
{
	if (event->request_id == 0 || event->request_id < session->settled_below)
		return error_fail(
			-EINVAL,
			"call to the manager: request id %llu was used before or is 0; count "
			"upwards",
			(unsigned long long)event->request_id);
	if (session->nr_outcomes >= CORE_OUTCOMES_MAX)
		return error_fail(-EBUSY,
				  "call to the manager: %u replies are kept for this session; tell "
				  "with settled_below which have arrived",
				  session->nr_outcomes);
	return 0;
}

/* Carries a request out. If it fails, also half through, nothing is left of it. */
static int run_changing(struct core *core, const struct operation *operation,
			struct session *session, struct event *event)
{
	size_t mark = undo_mark(core->undo);
	int ret = operation->run ? operation->run(core, session, event) : 0;

	if (ret == 0 && operation->kind == OPERATION_ONCE)
		ret = record(core, session, event);
	return undo_end(core->undo, mark, ret);
}

/* Runs a request that must be done once: it may have been done, or be under way. */
static int run_once(struct core *core, const struct operation *operation, struct session *session,
		    struct event *event)
{
	const struct outcome *outcome;
	size_t mark = undo_mark(core->undo);
	int ret = undo_end(core->undo, mark, settle(core, session, event->settled_below));

	if (ret < 0)
		return ret;
	outcome = session_outcome(session, event->request_id);
	if (outcome)
		return core_reply(core, session, outcome->kind, outcome->value, event->reply);
	ret = check_id(session, event);
	if (ret < 0)
		return ret;
	if (jobs_attach(core, event))
		return CORE_DEFERRED;
	return run_changing(core, operation, session, event);
}

static int run_operation(struct core *core, const struct operation *operation, struct event *event)
{
	struct session *session = NULL;
	int ret = check_caller(core, operation, event);

	if (ret < 0)
		return ret;
	if (event->deadline <= core_now(core))
		return error_fail(-ETIMEDOUT,
				  "call to the manager: its time is over; nothing was done");
	if (operation->kind != OPERATION_DAEMON) {
		ret = core_session(core, event, &session);
		if (ret < 0)
			return ret;
	}
	if (operation->kind == OPERATION_ONCE)
		return run_once(core, operation, session, event);
	return run_changing(core, operation, session, event);
}

/* A manager that has just started does not see its servers yet; they come back within moments. Until
 * then, or for a while, requests that choose among servers wait. */
static bool is_recovering(const struct core *core)
{
	return core_now(core) < core->started_at + CORE_RECOVERY_NS && servers_are_missing(core);
}

static bool chooses_servers(const Afar__Request *request)
{
	return request->call_case == AFAR__REQUEST__CALL_NAMESPACE_RESERVE ||
	       request->call_case == AFAR__REQUEST__CALL_REGION_ALLOC ||
	       request->call_case == AFAR__REQUEST__CALL_SERVER_REMOVE ||
	       request->call_case == AFAR__REQUEST__CALL_REGION_SEAL;
}

/* Whether it is not its time yet. */
static bool has_to_wait(const struct core *core, const struct event *event)
{
	const Afar__Request *request = event->request;

	if (request->call_case == AFAR__REQUEST__CALL_KEY_ADD)
		return principal_is_going(core, request->key_add->name);
	if (request->call_case == AFAR__REQUEST__CALL_REGION_LOOK)
		return event->answer_by > core_now(core) &&
		       seal_is_running(core, request->region_look->generation);
	if (request->call_case == AFAR__REQUEST__CALL_STATUS)
		return looks_are_awaited(core, event);
	return chooses_servers(request) && is_recovering(core) && event->answer_by > core_now(core);
}

static void handle_request(struct core *core, struct event *event)
{
	const struct operation *operation = find_operation(event->request);
	int ret;

	if (event->answer_by == 0)
		event->answer_by = answer_by(core, event);
	if (operation && operation->call == AFAR__REQUEST__CALL_STATUS &&
	    event->request->status->is_fresh && event->looked_until == 0)
		looks_begin(core, event);
	if (operation && has_to_wait(core, event)) {
		cds_list_add_tail(&event->node, &core->waiting);
		return;
	}
	if (operation && operation->kind == OPERATION_READ) {
		cds_list_add_tail(&event->node, &core->reading);
		return;
	}
	if (!operation)
		ret = error_fail(
			-EOPNOTSUPP,
			"call to the manager: it does not know this call; use a manager of the "
			"same version");
	else
		ret = run_operation(core, operation, event);
	if (ret == CORE_DEFERRED)
		return;
	if (ret < 0)
		event_fail(event, ret);
	cds_list_add_tail(&event->node, &core->answering);
}

static void handle(struct core *core, struct event *event)
{
	switch (event->kind) {
	case EVENT_REQUEST:
		handle_request(core, event);
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
	}
}

/* ---- The store */

static uint64_t sooner(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

/* What the batch changed is not stored, and the tables are those from before it. */
static void fail_batch(struct core *core, int status)
{
	char sentence[SENTENCE_MAX];
	struct event *event;

	snprintf(sentence, sizeof(sentence), "%s", error_last_line());
	if (core->complain_at <= core_now(core)) {
		log_error("%s", sentence);
		core->complain_at = core_now(core) + CORE_COMPLAINT_NS;
	}
	/* Keeps the earlier retry time: the work that is due then may free the space that others wait for. */
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

static void commit(struct core *core)
{
	int ret;

	jobs_settle(core);
	ret = store_commit(core->store);
	if (ret < 0) {
		fail_batch(core, ret);
		return;
	}
	jobs_committed(core, 0);
}

/* ---- Batches */

static void answer_all(struct core *core)
{
	struct event *event, *next;
	int ret;

	cds_list_for_each_entry_safe (event, next, &core->answering, node) {
		cds_list_del(&event->node);
		event_answer(core, event);
	}
	cds_list_for_each_entry_safe (event, next, &core->reading, node) {
		cds_list_del(&event->node);
		ret = run_operation(core, find_operation(event->request), event);
		if (ret < 0)
			event_fail(event, ret);
		event_answer(core, event);
	}
}

static void forget_gone(struct core *core)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &core->gone, node) {
		cds_list_del(&event->node);
		core->environment.forget_peer(core->environment.context, event->peer);
		event_free(event);
	}
}

/* What no event asks for. In a commit of its own, which can be good where that of the events was not. */
static void do_own_work(struct core *core)
{
	sessions_expire(core);
	if (core->forget_at <= core_now(core)) {
		core->forget_at = CORE_NEVER;
		servers_forget(core);
	}
	commit(core);
}

static void run_batch(struct core *core, struct cds_list_head *events)
{
	bool is_due = core->retry_at <= core_now(core); /* or not to be waited for */
	struct event *event, *next;

	if (is_due)
		core->retry_at = 0;
	cds_list_for_each_entry_safe (event, next, events, node) {
		cds_list_del(&event->node);
		handle(core, event);
	}
	commit(core);
	answer_all(core);
	if (is_due)
		do_own_work(core);
	if (core->retry_at == 0)
		servers_drive(core);
	jobs_drive(core);
	jobs_tell(core);
	forget_gone(core);
}

/* Those whose wait is over, into the batch. */
static void end_waits(struct core *core, struct cds_list_head *batch)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &core->waiting, node) {
		if (has_to_wait(core, event))
			continue;
		cds_list_del(&event->node);
		cds_list_add_tail(&event->node, batch);
	}
}

void core_run(struct core *core, struct cds_list_head *events)
{
	CDS_LIST_HEAD(batch);

	cds_list_splice(events, &batch);
	CDS_INIT_LIST_HEAD(events);
	do {
		run_batch(core, &batch);
		CDS_INIT_LIST_HEAD(&batch);
		cds_list_splice(&core->failed_calls, &batch);
		CDS_INIT_LIST_HEAD(&core->failed_calls);
		end_waits(core, &batch);
	} while (!cds_list_empty(&batch));
}

uint64_t core_next_run(struct core *core)
{
	const struct event *event;
	uint64_t next = CORE_NEVER;

	if (core->retry_at != 0)
		return core->retry_at;
	if (!cds_list_empty(&core->leased))
		next = cds_list_first_entry(&core->leased, struct live_session, node)
			       ->lease_deadline;
	if (!cds_list_empty(&core->waiting) && is_recovering(core))
		next = sooner(next, core->started_at + CORE_RECOVERY_NS);
	cds_list_for_each_entry (event, &core->waiting, node)
		if (event->looked_until != 0)
			next = sooner(next, event->looked_until);
	/* What waits for a server is woken by its answer, or told of it when its time is up. */
	next = sooner(next, waiters_due(&core->waiting));
	next = sooner(next, jobs_next(core));
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
	core->started_at = core_now(core);
	core->forget_at = core->started_at + core->lease_ns;
	CDS_INIT_LIST_HEAD(&core->live_servers);
	CDS_INIT_LIST_HEAD(&core->connected);
	CDS_INIT_LIST_HEAD(&core->leased);
	CDS_INIT_LIST_HEAD(&core->ended);
	CDS_INIT_LIST_HEAD(&core->jobs);
	CDS_INIT_LIST_HEAD(&core->waiting);
	CDS_INIT_LIST_HEAD(&core->key_changes);
	CDS_INIT_LIST_HEAD(&core->answering);
	CDS_INIT_LIST_HEAD(&core->reading);
	CDS_INIT_LIST_HEAD(&core->gone);
	CDS_INIT_LIST_HEAD(&core->failed_calls);
	ret = undo_open(&core->undo);
	if (ret == 0)
		ret = store_open(metastore, core->undo, &core->store);
	if (ret == 0)
		ret = store_load(core->store, &core->state);
	if (ret == 0)
		ret = sessions_start(core);
	if (ret == 0)
		ret = principals_start(core);
	if (ret < 0) {
		core_close(core);
		return ret;
	}
	*out = core;
	return 0;
}

/* Requests that still wait: their callers have gone, for all peers have. */
static void drop_waiting(struct core *core)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &core->waiting, node) {
		cds_list_del(&event->node);
		event_fail(event, error_fail(-ESHUTDOWN, "call to the manager: it is stopping"));
		event_answer(core, event);
	}
}

void core_close(struct core *core)
{
	drop_waiting(core);
	jobs_close(core);
	sessions_close(core);
	servers_close(core);
	state_close(core->state);
	store_close(core->store);
	undo_close(core->undo);
	free(core);
}
