/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: who may ask what, what has to wait, and what is done once however often it comes. One
 * table says so for each operation. See requests.h.
 */
#include <errno.h>
#include <stdlib.h>

#include "manager/cluster/devices.h"
#include "manager/cluster/joins.h"
#include "manager/cluster/removals.h"
#include "manager/connections/callers.h"
#include "manager/connections/live.h"
#include "manager/connections/losses.h"
#include "manager/connections/rights.h"
#include "manager/connections/slow.h"
#include "manager/dispatch/records_check.h"
#include "manager/dispatch/requests.h"
#include "manager/files/asks.h"
#include "manager/files/files.h"
#include "manager/jobs/job.h"
#include "manager/jobs/quota.h"
#include "manager/members/grants.h"
#include "manager/members/principals.h"
#include "manager/members/sessions.h"
#include "manager/members/terms.h"
#include "manager/regions/info.h"
#include "manager/regions/namespaces.h"
#include "manager/regions/regions.h"
#include "manager/regions/versions.h"
#include "manager/regions/volumes.h"
#include "manager/servers/orphans.h"
#include "manager/servers/servers.h"
#include "manager/servers/use.h"
#include "manager/space/references.h"
#include "manager/space/reserve.h"
#include "manager/space/resize.h"
#include "manager/space/seal.h"
#include "manager/space/trims.h"

/* ---- Clients that wait for servers */

/* A client that hears nothing within its time can blame nobody but us. So we tell it before that
 * whom we wait for. */
#define AHEAD_NS_MAX ((uint64_t)2000000000)

static uint64_t answer_by(const struct core *core, const struct event *event)
{
	uint64_t now = core_now(core), ahead;

	if (event->deadline == CORE_NEVER || event->deadline <= now)
		return event->deadline;
	ahead = (event->deadline - now) / 4;
	return event->deadline - (ahead < AHEAD_NS_MAX ? ahead : AHEAD_NS_MAX);
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

	if (!region || region_is_gone(region) || !rights_see(core, session, region->ns))
		return error_fail(-AFAR_EFREED, "tell of a region: it was freed meanwhile");
	/* A request that comes again when the region is closed must not get more than the first one
	 * would. */
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

static int reply_store(uint64_t number, Afar__Reply *reply)
{
	reply->store_opened = MESSAGE_NEW(afar__store_opened, Afar__StoreOpened);
	if (!reply->store_opened)
		return error_code(-ENOMEM);
	reply->store_opened->store = number;
	reply->result_case = AFAR__REPLY__RESULT_STORE_OPENED;
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
	case OUTCOME_STORE:
		return reply_store(value, reply);
	case OUTCOME_RESULTS:
		return files_reply(core, session, value, reply);
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
		store_put_outcome(
			core->store, session, event->request_id, kind, event->outcome_value,
			kind == OUTCOME_RESULTS ? &event->reply->file_results->base : NULL);
	return ret;
}

/* ---- Dispatch */

enum operation_kind {
	OPERATION_DAEMON, /* without a session                                               */
	OPERATION_READ,	  /* changes nothing: runs behind the commit                         */
	OPERATION_CHANGE, /* changes something that a repetition must not                    */
	OPERATION_ONCE,	  /* is done once, and its outcome kept for when it is asked again   */
};

struct operation {
	Afar__Request__CallCase call;
	enum operation_kind kind;
	enum audience audience;
	core_wait *wait;     /* NULL: at once  */
	core_operation *run; /* NULL: answers 0 */
};

/* A manager that has just started does not see its servers yet. They come back within moments.
 * Until then, or for a while, requests wait that choose among servers, or tell where bytes are.
 * Otherwise a program that has just begun would fail for a server that is there. */
static uint64_t wait_for_servers(struct core *core, struct event *event)
{
	uint64_t until = core->started_at + CORE_RECOVERY_NS;

	if (until <= core_now(core) || !servers_are_missing(core))
		return 0;
	return until < event->answer_by ? until : event->answer_by;
}

static uint64_t wait_to_allocate(struct core *core, struct event *event)
{
	uint64_t until = wait_for_servers(core, event);

	return until > core_now(core) ? until : trims_wait(core, event);
}

/* A client that looks at a region which is being sealed or cut is told when that is decided. */
static uint64_t wait_to_look(struct core *core, struct event *event)
{
	return job_of_region_wait(core, event, event->request->region_look->generation);
}

static uint64_t wait_to_seal(struct core *core, struct event *event)
{
	uint64_t until = wait_for_servers(core, event);

	return until > core_now(core) ? until : seal_wait(core, event);
}

static uint64_t wait_to_resize(struct core *core, struct event *event)
{
	uint64_t until = wait_for_servers(core, event);

	return until > core_now(core) ? until : resize_wait(core, event);
}

static uint64_t wait_to_prepare(struct core *core, struct event *event)
{
	uint64_t until = wait_for_servers(core, event);

	return until > core_now(core) ? until : versions_wait(core, event);
}

static uint64_t wait_to_open(struct core *core, struct event *event)
{
	uint64_t until = wait_for_servers(core, event);

	return until > core_now(core) ? until : volume_wait(core, event);
}

static const struct operation operations[] = {
#define CALL(name) AFAR__REQUEST__CALL_##name
	{CALL(SESSION_OPEN), OPERATION_DAEMON, FOR_CLIENT, NULL, session_open},
	{CALL(SESSION_CLOSE), OPERATION_CHANGE, FOR_CLIENT, NULL, session_close},
	{CALL(STATUS), OPERATION_READ, FOR_CLIENT, looks_wait, cluster_status},
	{CALL(RECORDS_CHECK), OPERATION_READ, FOR_OPERATOR, NULL, check_records},
	{CALL(RECORDS_ACCEPT), OPERATION_ONCE, FOR_OPERATOR, NULL, accept_records},
	{CALL(NAMESPACE_CREATE), OPERATION_ONCE, FOR_CLIENT, NULL, namespace_create},
	{CALL(NAMESPACE_OPEN), OPERATION_READ, FOR_CLIENT, NULL, namespace_open},
	{CALL(NAMESPACE_DELETE), OPERATION_ONCE, FOR_CLIENT, NULL, namespace_delete},
	{CALL(NAMESPACE_LIST), OPERATION_READ, FOR_CLIENT, NULL, namespace_list},
	{CALL(NAMESPACE_RESERVE), OPERATION_ONCE, FOR_CLIENT, wait_for_servers, namespace_reserve},
	{CALL(RESERVE_CANCEL), OPERATION_CHANGE, FOR_CLIENT, NULL, reserve_cancel},
	{CALL(NAMESPACE_RELEASE), OPERATION_ONCE, FOR_CLIENT, files_wait_to_release,
	 namespace_release},
	{CALL(NAMESPACE_ACCEPT), OPERATION_ONCE, FOR_OPERATOR, NULL, namespace_accept},
	{CALL(NAMESPACE_GRANT), OPERATION_ONCE, FOR_CLIENT, NULL, namespace_grant},
	{CALL(NAMESPACE_LIMIT), OPERATION_ONCE, FOR_CLIENT, NULL, namespace_limit},
	{CALL(REGION_ALLOC), OPERATION_ONCE, FOR_CLIENT, wait_to_allocate, region_alloc},
	{CALL(REGION_OPEN), OPERATION_ONCE, FOR_CLIENT, wait_to_open, region_open},
	{CALL(REGION_CLOSE), OPERATION_ONCE, FOR_CLIENT, NULL, region_close},
	{CALL(REGION_FREE), OPERATION_ONCE, FOR_CLIENT, NULL, region_free_operation},
	{CALL(REGION_LIST), OPERATION_READ, FOR_CLIENT, NULL, region_list},
	{CALL(REGION_ACCESS), OPERATION_READ, FOR_CLIENT, wait_for_servers, region_access},
	{CALL(REGION_SEAL), OPERATION_ONCE, FOR_CLIENT, wait_to_seal, region_seal},
	{CALL(REGION_RESIZE), OPERATION_ONCE, FOR_CLIENT, wait_to_resize, region_resize},
	{CALL(REGION_FINISH), OPERATION_ONCE, FOR_CLIENT, NULL, region_finish},
	{CALL(REGION_BEGIN), OPERATION_ONCE, FOR_CLIENT, versions_wait_to_begin, region_begin},
	{CALL(REGION_USE), OPERATION_CHANGE, FOR_CLIENT, NULL, region_use},
	{CALL(REGION_PREPARE), OPERATION_ONCE, FOR_CLIENT, wait_to_prepare, region_prepare},
	{CALL(REGION_PUBLISH), OPERATION_ONCE, FOR_CLIENT, NULL, region_publish},
	{CALL(REGION_LOOK), OPERATION_READ, FOR_CLIENT, wait_to_look, region_look},
	{CALL(VOLUME_TAKE_OVER), OPERATION_ONCE, FOR_CLIENT, NULL, volume_take_over},
	{CALL(VOLUME_RESIZE), OPERATION_ONCE, FOR_CLIENT, wait_for_servers, volume_resize},
	{CALL(FILES_LOOK), OPERATION_READ, FOR_CLIENT, files_wait, files_look},
	{CALL(FILES_HOLD), OPERATION_CHANGE, FOR_CLIENT, files_wait, files_hold},
	{CALL(FILES_CHANGE), OPERATION_ONCE, FOR_CLIENT, files_wait, files_change},
	{CALL(FILES_LIMIT), OPERATION_ONCE, FOR_CLIENT, NULL, files_limit},
	{CALL(KEY_ADD), OPERATION_ONCE, FOR_OPERATOR, key_wait, key_add},
	{CALL(KEY_LIST), OPERATION_READ, FOR_OPERATOR, NULL, key_list},
	{CALL(KEY_REVOKE), OPERATION_ONCE, FOR_OPERATOR, NULL, key_revoke},
	{CALL(KEY_LIMIT), OPERATION_ONCE, FOR_OPERATOR, NULL, key_limit},
	{CALL(SERVER_REGIONS), OPERATION_READ, FOR_OPERATOR, NULL, server_regions},
	{CALL(LOSS_LIST), OPERATION_READ, FOR_OPERATOR, NULL, loss_list},
	{CALL(LOSS_COUNT), OPERATION_READ, FOR_OPERATOR, NULL, loss_count},
	{CALL(SERVER_REMOVE), OPERATION_ONCE, FOR_OPERATOR, wait_for_servers, server_remove},
	{CALL(STORE_REGIONS), OPERATION_READ, FOR_OPERATOR, NULL, store_regions},
	{CALL(STORE_FORGET), OPERATION_ONCE, FOR_OPERATOR, wait_for_servers, store_forget},
	{CALL(STORE_FREE_ORPHANS), OPERATION_ONCE, FOR_OPERATOR, wait_for_servers,
	 store_free_orphans},
	{CALL(STORE_ADD), OPERATION_ONCE, FOR_OPERATOR, wait_for_servers, store_add},
	{CALL(STORE_REMOVE), OPERATION_ONCE, FOR_OPERATOR, wait_for_servers, store_remove},
	{CALL(SERVER_JOIN), OPERATION_DAEMON, FOR_SERVER, NULL, server_join},
	{CALL(SERVER_REPORT), OPERATION_DAEMON, FOR_SERVER, NULL, server_report},
	{CALL(STORE_LEND), OPERATION_DAEMON, FOR_SERVER, NULL, store_lend},
	{CALL(PING), OPERATION_DAEMON, FOR_ANYBODY, NULL, NULL},
#undef CALL
};

static const struct operation *find_operation(const Afar__Request *request)
{
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		if (request && operations[i].call == request->call_case)
			return &operations[i];
	return NULL;
}

/* Drops the outcomes of lower ids: the client has those replies. */
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
			"call the manager: request id %llu was used before or is 0; count "
			"upwards",
			(unsigned long long)event->request_id);
	if (session->nr_outcomes >= CORE_OUTCOMES_MAX)
		return error_fail(-EBUSY,
				  "call the manager: %u replies are kept for this session; tell "
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

static int run_checked(struct core *core, const struct operation *operation, struct event *event)
{
	struct session *session = NULL;
	int ret = caller_check(core, operation->audience, event);

	if (ret < 0)
		return ret;
	if (event->deadline <= core_now(core))
		return error_fail(-ETIMEDOUT,
				  "call the manager: its time is over; nothing was done");
	if (operation->kind != OPERATION_DAEMON) {
		ret = core_session(core, event, &session);
		if (ret < 0)
			return ret;
	}
	if (operation->kind == OPERATION_ONCE)
		return run_once(core, operation, session, event);
	return run_changing(core, operation, session, event);
}

static int run_operation(struct core *core, const struct operation *operation, struct event *event)
{
	int ret;

	slow_run(core, event);
	ret = run_checked(core, operation, event);
	slow_ran(core, event);
	return ret;
}

/* ---- What becomes of a request */

/* The subject of a request that waits, and the rights that it takes. */
struct subject {
	bool is_named;		    /* it is about a namespace, or something in one */
	const struct namespace *ns; /* NULL: it is not there */
	uint32_t rights;
};

static struct subject in_namespace(const struct core *core, uint64_t number, uint32_t rights)
{
	return (struct subject){true, state_namespace(core->state, number), rights};
}

static struct subject of_region(const struct core *core, uint64_t generation, uint32_t rights)
{
	const struct region *region = state_region(core->state, generation);

	return (struct subject){true, region ? region->ns : NULL, rights};
}

static struct subject subject_of(const struct core *core, const Afar__Request *request)
{
	switch (request->call_case) {
	case AFAR__REQUEST__CALL_NAMESPACE_RELEASE:
		return in_namespace(core, request->namespace_release->namespace_, RIGHT_OWN);
	case AFAR__REQUEST__CALL_REGION_ALLOC:
		return in_namespace(core, request->region_alloc->namespace_, RIGHT_ALL);
	case AFAR__REQUEST__CALL_REGION_OPEN:
		return in_namespace(core, request->region_open->namespace_,
				    volume_rights(request->region_open->mode));
	case AFAR__REQUEST__CALL_REGION_BEGIN:
		return of_region(core, request->region_begin->generation, RIGHT_ALL);
	case AFAR__REQUEST__CALL_REGION_PREPARE:
		return of_region(core, request->region_prepare->generation, RIGHT_ALL);
	case AFAR__REQUEST__CALL_REGION_SEAL:
		return of_region(core, request->region_seal->generation, RIGHT_ALL);
	case AFAR__REQUEST__CALL_REGION_RESIZE:
		return of_region(core, request->region_resize->generation, RIGHT_ALL);
	case AFAR__REQUEST__CALL_REGION_LOOK:
		return of_region(core, request->region_look->generation, RIGHT_READ);
	case AFAR__REQUEST__CALL_FILES_LOOK:
		return in_namespace(core, request->files_look->fs, RIGHT_READ);
	case AFAR__REQUEST__CALL_FILES_HOLD:
		return in_namespace(core, request->files_hold->fs,
				    rights_to_hold(request->files_hold));
	case AFAR__REQUEST__CALL_FILES_CHANGE:
		return in_namespace(core, request->files_change->fs, RIGHT_ALL);
	default:
		return (struct subject){.is_named = false};
	}
}

/* Returns whether a request may wait, and have others asked for it. One that will be refused may not: how long it took would
 * tell a stranger that something is there. */
static bool may_wait(struct core *core, const struct operation *operation,
		     const struct event *event)
{
	struct session *session;
	struct subject subject;

	if (caller_check(core, operation->audience, event) < 0)
		return false;
	subject = subject_of(core, event->request);
	if (!subject.is_named)
		return true;
	return subject.ns && !subject.ns->is_deleted && !subject.ns->is_suspect &&
	       core_session(core, event, &session) == 0 &&
	       (rights_of(core, session->principal, subject.ns) & subject.rights) == subject.rights;
}

static uint64_t waits_until(struct core *core, struct event *event)
{
	const struct operation *operation = find_operation(event->request);

	return operation && operation->wait && may_wait(core, operation, event)
		       ? operation->wait(core, event)
		       : 0;
}

/* Those who wait for locks are in the order in which they came, also when they ask again. */
static void add_waiting(struct core *core, struct event *event)
{
	struct cds_list_head *next = &core->waiting;
	struct event *other;

	cds_list_for_each_entry_reverse(other, &core->waiting, node)
	{
		if (event->lock.since == 0 ||
		    (other->lock.since != 0 && other->lock.since <= event->lock.since))
			break;
		if (other->lock.since != 0)
			next = &other->node;
	}
	cds_list_add_tail(&event->node, next);
}

static bool has_to_wait(struct core *core, struct event *event)
{
	slow_begin(core, event);
	if (event->answer_by == 0)
		event->answer_by = answer_by(core, event);
	return waits_until(core, event) > core_now(core);
}

static void answer_read(struct core *core, const struct operation *operation, struct event *event)
{
	int ret = run_operation(core, operation, event);

	if (ret < 0)
		event_fail(event, ret);
	event_answer(core, event);
}

/* True: a request can be carried out beside the batch. It is a question, or what it changes is no
 * batch's business. */
static bool can_ask(const struct core *core, const struct operation *operation,
		    const struct event *event)
{
	bool is_of_files = files_can_ask(event->request);

	if (operation->kind != OPERATION_READ && !is_of_files)
		return false;
	return undo_mark(core->undo) == 0 || (is_of_files && store_can_ask(core->store));
}

/* Carries a request out beside the batch, and answers it. False: it has read what the batch has changed, or
 * changes what is stored. Nothing of it is left then. */
static bool answer_beside(struct core *core, const struct operation *operation, struct event *event)
{
	bool has_touched;
	int ret;

	undo_swap(core->undo, core->beside);
	store_begin_beside(core->store);
	ret = run_operation(core, operation, event);
	has_touched = store_end_beside(core->store);
	if (has_touched)
		undo_back(core->undo, 0);
	else
		undo_keep(core->undo);
	undo_swap(core->undo, core->beside);
	if (has_touched && event_reset(event) == 0)
		return false;
	/* Without memory for another try, the answer is that. */
	if (has_touched)
		ret = error_code(-ENOMEM);
	if (ret < 0)
		event_fail(event, ret);
	event_answer(core, event);
	return true;
}

void request_handle(struct core *core, struct event *event)
{
	const struct operation *operation = find_operation(event->request);
	int ret;

	if (has_to_wait(core, event)) {
		add_waiting(core, event);
		return;
	}
	if (operation && can_ask(core, operation, event) && answer_beside(core, operation, event))
		return;
	if (operation && operation->kind == OPERATION_READ) {
		cds_list_add_tail(&event->node, &core->reading);
		return;
	}
	if (operation)
		ret = run_operation(core, operation, event);
	else
		ret = error_fail(-EOPNOTSUPP,
				 "call the manager: it does not know this call; use a manager "
				 "of the same version");
	if (ret == CORE_DEFERRED)
		return;
	if (ret < 0)
		event_fail(event, ret);
	cds_list_add_tail(&event->node, &core->answering);
}

bool request_is_question(const struct event *event)
{
	const struct operation *operation = find_operation(event->request);

	return operation && operation->kind == OPERATION_READ;
}

bool request_answer(struct core *core, struct event *event)
{
	const struct operation *operation = find_operation(event->request);

	/* In this order: a request that may have to wait may have others asked something. */
	return operation && can_ask(core, operation, event) && !has_to_wait(core, event) &&
	       answer_beside(core, operation, event);
}

void requests_answer(struct core *core)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &core->answering, node) {
		cds_list_del(&event->node);
		event_answer(core, event);
	}
	cds_list_for_each_entry_safe (event, next, &core->reading, node) {
		cds_list_del(&event->node);
		answer_read(core, find_operation(event->request), event);
	}
}

void requests_end_waits(struct core *core, struct cds_list_head *batch)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &core->waiting, node) {
		if (waits_until(core, event) > core_now(core))
			continue;
		cds_list_del(&event->node);
		cds_list_add_tail(&event->node, batch);
	}
}

uint64_t requests_next(struct core *core)
{
	struct event *event;
	uint64_t next = CORE_NEVER, until;

	cds_list_for_each_entry (event, &core->waiting, node) {
		until = waits_until(core, event);
		next = until < next ? until : next;
	}
	return next;
}

/* Their callers have gone, for all peers have. */
void requests_close(struct core *core)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &core->waiting, node) {
		cds_list_del(&event->node);
		event_fail(event, error_fail(-ESHUTDOWN, "call the manager: it is stopping"));
		event_answer(core, event);
	}
}
