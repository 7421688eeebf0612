/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers: their connections and reports, and what they must be told. That is found in the tables
 * and not in a queue: extents that drain, fences of ending sessions. So a server is told again
 * after a lost connection, a failed commit or a restart of the manager, until it has answered.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/log.h"
#include "manager/files/files.h"
#include "manager/flash.h"
#include "manager/job.h"
#include "manager/regions.h"
#include "manager/sessions.h"
#include "manager/terms.h"
#include "manager/trims.h"

#define CALL_TIMEOUT_MS	 30000U
#define CALL_TIMEOUT_MAX 3600000U
#define BYTES_PER_MS	 ((uint64_t)64 << 10) /* that a slow server populates */
#define RELEASES_MAX	 ((size_t)1 << 14)    /* extents released by one call */

/* ---- Live servers */

struct live_server *core_live_server(const struct core *core, uint64_t number)
{
	struct live_server *live;

	cds_list_for_each_entry (live, &core->live_servers, node)
		if (live->number == number)
			return live;
	return NULL;
}

struct live_server *core_live_server_of(const struct core *core, const void *peer)
{
	struct live_server *live;

	cds_list_for_each_entry (live, &core->live_servers, node)
		if (live->peer == peer)
			return live;
	return NULL;
}

void server_describe(const struct core *core, uint64_t number, char out[SERVER_TEXT_MAX])
{
	const struct server *server = state_server(core->state, number);

	if (server)
		snprintf(out, SERVER_TEXT_MAX, "server '%s' at %s", server->name,
			 server->control_address);
	else
		snprintf(out, SERVER_TEXT_MAX, "server %llu", (unsigned long long)number);
}

bool server_is_up(const struct server *server)
{
	return server->live && server->live->peer;
}

uint64_t server_down_ms(const struct core *core, const struct server *server)
{
	uint64_t since = server->live ? server->live->down_at : core->started_at;

	return (core_now(core) - since) / 1000000U;
}

bool pool_is_up(const struct pool *pool)
{
	return pool->store ? pool->store->is_up : server_is_up(pool->server);
}

/* A server does one thing after the other: a call that is made now waits for what the server still
 * has to populate. */
uint32_t server_timeout_ms(const struct live_server *live)
{
	uint64_t more = live->pending_bytes / BYTES_PER_MS + live->copying_ms;

	return more > CALL_TIMEOUT_MAX - CALL_TIMEOUT_MS ? CALL_TIMEOUT_MAX
							 : CALL_TIMEOUT_MS + (uint32_t)more;
}

bool servers_are_missing(const struct core *core)
{
	const struct flash_store *store;
	const struct server *server;

	cds_list_for_each_entry (server, &core->state->servers, node) {
		if (!server->live && server->dram.granted_bytes > 0)
			return true;
	}
	cds_list_for_each_entry (store, &core->state->stores, node)
		if (store->pool.server && !store->pool.server->live &&
		    store->pool.granted_bytes > 0)
			return true;
	return false;
}

void live_server_free(struct live_server *live)
{
	if (live->server)
		live->server->live = NULL;
	cds_list_del(&live->node);
	OPENSSL_cleanse(live->signing_key, sizeof(live->signing_key));
	free(live);
}

/* ---- Calls to servers */

Afar__Request *server_ask_extents(uint64_t ns, uint64_t bytes, enum extent_class class,
				  uint64_t store)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);

	if (!request)
		return NULL;
	request->extents_reserve = MESSAGE_NEW(afar__extents_reserve, Afar__ExtentsReserve);
	if (!request->extents_reserve) {
		free(request);
		return NULL;
	}
	request->call_case = AFAR__REQUEST__CALL_EXTENTS_RESERVE;
	request->extents_reserve->namespace_ = ns;
	request->extents_reserve->bytes = bytes;
	request->extents_reserve->class_ = class;
	request->extents_reserve->store = store;
	return request;
}

int extent_list_open(struct extent_list *list, const struct layout_home *home, size_t nr)
{
	*list = (struct extent_list){.home = *home,
				     .numbers = calloc(nr + 1, sizeof(uint64_t)),
				     .namespaces = calloc(nr + 1, sizeof(uint64_t))};
	if (list->numbers && list->namespaces)
		return 0;
	extent_list_close(list);
	return error_code(-ENOMEM);
}

void extent_list_close(struct extent_list *list)
{
	free(list->numbers);
	free(list->namespaces);
	*list = (struct extent_list){0};
}

struct outgoing *outgoing_new_to(outgoing_answered *answered, void *peer)
{
	struct outgoing *outgoing = calloc(1, sizeof(*outgoing));

	if (!outgoing)
		return NULL;
	outgoing->failure = event_new(EVENT_ANSWER, peer);
	if (!outgoing->failure) {
		free(outgoing);
		return NULL;
	}
	outgoing->answered = answered;
	return outgoing;
}

struct outgoing *outgoing_new(outgoing_answered *answered, const struct live_server *live)
{
	struct outgoing *outgoing = outgoing_new_to(answered, live->peer);

	if (!outgoing)
		return NULL;
	outgoing->server = live->number;
	outgoing->incarnation = live->incarnation;
	return outgoing;
}

void outgoing_free(struct outgoing *outgoing)
{
	if (!outgoing)
		return;
	if (outgoing->failure)
		event_free(outgoing->failure);
	extent_list_close(&outgoing->extents);
	free(outgoing->trims);
	free(outgoing);
}

void core_call(struct core *core, void *peer, uint32_t timeout_ms, Afar__Request *request,
	       struct outgoing *outgoing)
{
	uint64_t deadline = timeout_ms == CORE_NO_TIMEOUT
				    ? CORE_NEVER
				    : core_now(core) + (uint64_t)timeout_ms * 1000000U;
	struct event *failure = outgoing->failure;
	int ret = core->environment.call(core->environment.context, peer, deadline, request,
					 outgoing);

	afar__request__free_unpacked(request, NULL);
	if (ret == 0)
		return;
	outgoing->failure = NULL;
	failure->outgoing = outgoing;
	failure->status = ret;
	cds_list_add_tail(&failure->node, &core->failed_calls);
}

static uint64_t *copy_numbers(const uint64_t *numbers, size_t nr)
{
	uint64_t *copy = calloc(nr + 1, sizeof(*copy));

	if (copy)
		memcpy(copy, numbers, nr * sizeof(*copy));
	return copy;
}

Afar__Request *server_ask_release(const struct extent_list *list)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__ExtentsRelease *release;

	if (!request)
		return NULL;
	release = MESSAGE_NEW(afar__extents_release, Afar__ExtentsRelease);
	if (!release) {
		free(request);
		return NULL;
	}
	request->extents_release = release;
	request->call_case = AFAR__REQUEST__CALL_EXTENTS_RELEASE;
	release->extents = copy_numbers(list->numbers, list->nr);
	if (list->home.is_store) {
		release->store = list->home.life;
		release->namespaces = copy_numbers(list->namespaces, list->nr);
	}
	if (!release->extents || (list->home.is_store && !release->namespaces)) {
		afar__request__free_unpacked(request, NULL);
		return NULL;
	}
	release->n_extents = list->nr;
	release->n_namespaces = list->home.is_store ? list->nr : 0;
	return request;
}

/* Takes the list over. Without memory for the call it closes the connection, because rejoining
 * brings the same about. */
static void call_release(struct core *core, struct live_server *live, outgoing_answered *answered,
			 struct extent_list *list)
{
	struct outgoing *outgoing = outgoing_new(answered, live);
	Afar__Request *request = server_ask_release(list);

	if (!outgoing || !request) {
		if (request)
			afar__request__free_unpacked(request, NULL);
		outgoing_free(outgoing);
		extent_list_close(list);
		core->environment.close_peer(core->environment.context, live->peer);
		return;
	}
	outgoing->extents = *list;
	server_call(core, live, list->home.is_store ? STORE_TIMEOUT_MS : server_timeout_ms(live),
		    request, outgoing);
}

/* Nobody asks for it again: joining anew brings the same about. */
static int undone(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	struct live_server *live = core_live_server(core, outgoing->server);

	if (event->answer && !is_done && live && live->peer && live->peer == event->peer)
		core->environment.close_peer(core->environment.context, live->peer);
	return 0;
}

void server_undo(struct core *core, struct live_server *live, struct extent_list *list)
{
	call_release(core, live, undone, list);
}

/* Takes the request over, which may be NULL. Without memory for the call it closes the connection. */
static void call_simple(struct core *core, struct live_server *live, uint32_t timeout_ms,
			Afar__Request *request, struct outgoing *outgoing)
{
	if (outgoing && request) {
		server_call(core, live, timeout_ms, request, outgoing);
		return;
	}
	if (request)
		afar__request__free_unpacked(request, NULL);
	outgoing_free(outgoing);
	core->environment.close_peer(core->environment.context, live->peer);
}

static Afar__Request *ask_ping(void)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__Ping *ping = MESSAGE_NEW(afar__ping, Afar__Ping);

	if (!request || !ping) {
		free(request);
		free(ping);
		return NULL;
	}
	request->ping = ping;
	request->call_case = AFAR__REQUEST__CALL_PING;
	return request;
}

static Afar__Request *ask_end(uint64_t session)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__SessionEnd *end = MESSAGE_NEW(afar__session_end, Afar__SessionEnd);

	if (!request || !end) {
		free(request);
		free(end);
		return NULL;
	}
	end->session = session;
	request->session_end = end;
	request->call_case = AFAR__REQUEST__CALL_SESSION_END;
	return request;
}

static int probed(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	struct live_server *live = core_live_server(core, outgoing->server);

	(void)event;
	(void)is_done;
	if (live)
		live->is_probed = false;
	return 0;
}

void server_probe(struct core *core, struct live_server *live)
{
	if (live->is_probed)
		return;
	live->is_probed = true;
	call_simple(core, live, SERVER_PROBE_MS, ask_ping(), outgoing_new(probed, live));
}

/* ---- What servers must be told */

static outgoing_answered released, fenced;

static void drive_releases(struct core *core, struct live_server *live, struct pool *pool)
{
	const struct layout_home home = pool_home(pool);
	struct extent_list list;
	struct extent *extent;
	size_t nr = 0;

	if (pool->releasing_bytes == 0 || !live->peer || live->retry_at != 0)
		return;
	cds_list_for_each_entry (extent, &pool->extents, pool_node)
		nr += extent->state == EXTENT_DRAINING;
	if (nr == 0)
		return;
	if (nr > RELEASES_MAX)
		nr = RELEASES_MAX;
	if (extent_list_open(&list, &home, nr) < 0) {
		live->retry_at = core_now(core) + CORE_RETRY_NS;
		return;
	}
	cds_list_for_each_entry (extent, &pool->extents, pool_node) {
		if (extent->state != EXTENT_DRAINING || list.nr == RELEASES_MAX)
			continue;
		extent_set_told(extent, true);
		list.namespaces[list.nr] = extent->namespace_number;
		list.numbers[list.nr++] = extent->number;
	}
	call_release(core, live, released, &list);
}

/* The end of a session has no time-out: it may wait for a client that is stopped and at the memory itself. A server that is gone is
 * noticed by its connection. */
static void drive_fences(struct core *core, struct session *session)
{
	struct outgoing *outgoing;

	for (size_t i = 0; i < session->nr_fences; i++) {
		struct fence *fence = &session->fences[i];
		struct live_server *live;

		if (fence->is_over || fence->is_sent)
			continue;
		live = core_live_server(core, fence->server);
		if (!live || !live->peer || live->incarnation != fence->incarnation ||
		    live->retry_at > core_now(core))
			continue;
		fence->is_sent = true;
		outgoing = outgoing_new(fenced, live);
		if (outgoing)
			outgoing->session = session->number;
		call_simple(core, live, CORE_NO_TIMEOUT, ask_end(session->number), outgoing);
	}
}

void servers_drive(struct core *core)
{
	struct flash_store *store;
	struct live_server *live;
	struct session *session;

	cds_list_for_each_entry (live, &core->live_servers, node) {
		if (live->retry_at <= core_now(core))
			live->retry_at = 0;
		drive_releases(core, live, &live->server->dram);
	}
	cds_list_for_each_entry (store, &core->state->stores, node) {
		if (!store->is_up)
			continue;
		drive_releases(core, store->pool.server->live, &store->pool);
		trims_drive(core, store);
	}
	cds_list_for_each_entry (session, &core->state->ending, node)
		drive_fences(core, session);
}

uint64_t servers_next_drive(const struct core *core)
{
	const struct live_server *live;
	uint64_t next = CORE_NEVER;

	cds_list_for_each_entry (live, &core->live_servers, node)
		if (live->peer && live->retry_at != 0 && live->retry_at < next)
			next = live->retry_at;
	return next;
}

/* ---- What they answered */

int server_remove_extent(struct core *core, struct extent *extent)
{
	int ret = files_lose(core, extent);

	if (ret < 0)
		return ret;
	store_delete_extent(core->store, extent);
	return state_remove_extent(core->state, extent);
}

/* Finds an extent of the call, by its place in it. NULL: it does not wait for the answer any
 * more. */
static struct extent *find_told(const struct core *core, const struct outgoing *outgoing, size_t i)
{
	const struct extent_list *list = &outgoing->extents;
	struct extent *extent = state_extent(core->state, &list->home, list->numbers[i]);

	return extent && extent_is_releasing(extent) ? extent : NULL;
}

/* Whether it comes over the connection that the server has now. */
static bool is_current(const struct core *core, const struct outgoing *outgoing,
		       const struct event *event)
{
	const struct live_server *live = core_live_server(core, outgoing->server);

	return live && live->peer && live->peer == event->peer;
}

/* The call is over. If the commit fails, its extents are told again. */
static int released(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	struct extent *extent;
	int ret = 0;

	if (!is_done && !is_current(core, outgoing, event))
		return 0;
	for (size_t i = 0; i < outgoing->extents.nr; i++) {
		extent = find_told(core, outgoing, i);
		if (extent && extent->state == EXTENT_TOLD)
			extent_set_told(extent, false);
	}
	for (size_t i = 0; i < outgoing->extents.nr && is_done && ret == 0; i++) {
		extent = find_told(core, outgoing, i);
		if (extent)
			ret = server_remove_extent(core, extent);
	}
	return ret;
}

static int fenced(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	struct session *session = state_session(core->state, outgoing->session);

	if (!session || !session->is_ending || (!is_done && !is_current(core, outgoing, event)))
		return 0;
	for (size_t i = 0; i < session->nr_fences; i++)
		if (session->fences[i].server == outgoing->server)
			session->fences[i].is_sent = false;
	return is_done ? session_fenced(core, session, outgoing->server, outgoing->incarnation) : 0;
}

void server_answered(struct core *core, struct event *event)
{
	struct outgoing *outgoing = event->outgoing;
	struct live_server *live = core_live_server(core, outgoing->server);
	int status = event->answer ? event->answer->status : event->status;
	/* -ENOENT: the server does not know it, so it does not hold it. A store may hold it all the
	 * same, if it is the store that the server does not know any more. */
	bool is_done = event->answer &&
		       (status == 0 || (status == -ENOENT && !outgoing->extents.home.is_store));
	bool is_from_now = is_current(core, outgoing, event);
	size_t mark = undo_mark(core->undo);
	int ret;

	if (!is_done && is_from_now && !outgoing->may_fail) {
		/* Once, however often it is told again. */
		if (live->refusal != status)
			log_warn("server %llu did not do what it was told: %s; it is told again",
				 (unsigned long long)outgoing->server, afar_strerror(status));
		live->refusal = status;
		live->retry_at = core_now(core) + CORE_RETRY_NS;
		/* Without an answer it is unknown whether it was done. */
		if (!event->answer)
			core->environment.close_peer(core->environment.context, live->peer);
	}
	if (is_done && is_from_now)
		live->refusal = 0;
	ret = outgoing->answered(core, outgoing, event, is_done);
	/* Memory was short: it is told again later, and answers again. */
	if (undo_end(core->undo, mark, ret) < 0 && is_from_now)
		live->retry_at = core_now(core) + CORE_RETRY_NS;
	outgoing_free(outgoing);
	event->outgoing = NULL;
}

/* ---- Connections lost */

int server_end_fences(struct core *core, uint64_t server, uint64_t incarnation)
{
	struct session *session, *next;
	int ret = 0;

	cds_list_for_each_entry_safe (session, next, &core->state->ending, node)
		if (ret == 0)
			ret = session_fenced(core, session, server, incarnation);
	return ret;
}

static void end_live(void *argument)
{
	live_server_free(argument);
}

/* Sessions that wait for its answer would wait for ever. */
int server_forget(struct core *core, struct server *server)
{
	int ret;

	if (server_is_up(server) || !cds_list_empty(&server->dram.extents) ||
	    flash_is_on(core, server))
		return 0;
	ret = server_end_fences(core, server->number, server->incarnation);
	if (ret == 0)
		ret = flash_leave(core, server);
	if (ret == 0)
		ret = undo_room(core->undo, 1);
	if (ret < 0)
		return ret;
	log_info("server %llu '%s' is down and holds nothing: forgotten",
		 (unsigned long long)server->number, server->name);
	if (server->live)
		undo_gone(core->undo, server->live, end_live);
	store_delete_server(core->store, server);
	return state_remove_server(core->state, server);
}

static void forget_told(struct pool *pool)
{
	struct extent *extent;

	cds_list_for_each_entry (extent, &pool->extents, pool_node)
		if (extent->state == EXTENT_TOLD)
			extent_set_told(extent, false);
}

/* Its connection is lost: everything that was sent on it is to be sent again. */
static void forget_sent(struct core *core, struct live_server *live)
{
	struct flash_store *store;
	struct session *session;

	forget_told(&live->server->dram);
	cds_list_for_each_entry (store, &core->state->stores, node)
		if (store->pool.server == live->server)
			forget_told(&store->pool);
	cds_list_for_each_entry (session, &core->state->ending, node)
		for (size_t i = 0; i < session->nr_fences; i++)
			if (session->fences[i].server == live->number)
				session->fences[i].is_sent = false;
}

void server_down(struct core *core, struct live_server *live)
{
	live->peer = NULL;
	live->down_at = core_now(core);
	live->retry_at = 0;
	live->is_probed = false;
	live->is_looked_at = false;
	forget_sent(core, live);
	flash_down(core, live->server);
	jobs_server_down(core, live);
}

/* Tries again later if memory is short, because sessions may wait for that server. */
static void try_to_forget(struct core *core, struct server *server)
{
	size_t mark = undo_mark(core->undo);

	if (undo_end(core->undo, mark, server_forget(core, server)) < 0)
		core->forget_at = core_now(core) + CORE_RETRY_NS;
}

void server_gone(struct core *core, void *peer)
{
	struct live_server *live = core_live_server_of(core, peer);

	if (!live)
		return;
	log_warn("server %llu lost its connection", (unsigned long long)live->number);
	server_down(core, live);
	try_to_forget(core, live->server);
}

void servers_forget(struct core *core)
{
	struct server *server, *next;

	cds_list_for_each_entry_safe (server, next, &core->state->servers, node)
		try_to_forget(core, server);
}

/* ---- Reports */

/* Copies the numbers alone: the message's pointers are not ours to keep. */
void server_take_report(struct core *core, struct live_server *live,
			const Afar__ServerReport *report)
{
	Afar__ServerReport plain = AFAR__SERVER_REPORT__INIT;

	plain.capacity_bytes = report->capacity_bytes;
	plain.granted_bytes = report->granted_bytes;
	plain.clean_bytes = report->clean_bytes;
	plain.dirty_bytes = report->dirty_bytes;
	plain.nr_connections = report->nr_connections;
	plain.resident_bytes = report->resident_bytes;
	plain.draining_bytes = report->draining_bytes;
	plain.scrubbed_bytes = report->scrubbed_bytes;
	plain.scrub_bytes_per_s = report->scrub_bytes_per_s;
	plain.pool_bytes = report->pool_bytes;
	plain.huge_bytes = report->huge_bytes;
	plain.nr_registrations = report->nr_registrations;
	live->report = plain;
	flash_take_reports(core, live->server, report);
	live->reported_at = core_now(core);
	live->nr_lanes = report->n_lanes < STATE_LANES_MAX ? report->n_lanes : STATE_LANES_MAX;
	for (size_t i = 0; i < live->nr_lanes; i++) {
		lane_report_copy(&live->lanes[i], report->lanes[i]);
		if (!is_printable(report->lanes[i]->congestion, CONGESTIONS_MAX))
			continue;
		strcpy(live->congestions[i], report->lanes[i]->congestion);
		live->lanes[i].congestion = live->congestions[i];
	}
}

int server_report(struct core *core, struct session *session, struct event *event)
{
	const Afar__ServerReport *report = event->request->server_report;
	struct live_server *live = core_live_server_of(core, event->peer);

	(void)session;
	if (!live)
		return error_fail(
			-ENOTCONN,
			"report to the manager: no server joined on this connection; join "
			"first");
	server_take_report(core, live, report);
	event->reply->term = terms_message(core);
	event->reply->result_case = AFAR__REPLY__RESULT_TERM;
	return event->reply->term ? 0 : error_code(-ENOMEM);
}

/* ---- The whole */

void servers_close(struct core *core)
{
	struct live_server *live, *next;

	cds_list_for_each_entry_safe (live, next, &core->live_servers, node)
		live_server_free(live);
}
