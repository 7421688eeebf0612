/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers: their connections and reports, and what they must be told. The tables say that, not a
 * queue: extents that drain, fences of ending sessions. So a server is told again after a lost
 * connection, a failed commit or a restart of the manager, until it has answered.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/log.h"
#include "base/text.h"
#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/files/files.h"
#include "manager/jobs/job_parts.h"
#include "manager/members/sessions.h"
#include "manager/members/terms.h"
#include "manager/servers/servers.h"
#include "manager/servers/stores.h"
#include "manager/space/trims.h"

#define RELEASES_MAX ((size_t)1 << 14) /* extents released by one call */

/* ---- Calls to servers */

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
	server_call_release(core, live, released, &list);
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
		server_call_or_close(core, live, CORE_NO_TIMEOUT, ask_end(session->number),
				     outgoing);
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

/* The call is over. If the commit fails, its extents are told again. */
static int released(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	struct extent *extent;
	int ret = 0;

	if (!is_done && !outgoing_is_current(core, outgoing, event))
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

	if (!session || !session->is_ending ||
	    (!is_done && !outgoing_is_current(core, outgoing, event)))
		return 0;
	for (size_t i = 0; i < session->nr_fences; i++)
		if (session->fences[i].server == outgoing->server)
			session->fences[i].is_sent = false;
	return is_done ? session_fenced(core, session, outgoing->server, outgoing->incarnation) : 0;
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
	core->nr_down++;
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
	snprintf(live->version, sizeof(live->version), "%s",
		 text_is_printable(report->version, sizeof(live->version) - 1) ? report->version
									       : "");
	flash_take_reports(core, live->server, report);
	live->reported_at = core_now(core);
	live->nr_lanes = report->n_lanes < STATE_LANES_MAX ? report->n_lanes : STATE_LANES_MAX;
	for (size_t i = 0; i < live->nr_lanes; i++) {
		lane_report_copy(&live->lanes[i], report->lanes[i]);
		if (!text_is_printable(report->lanes[i]->congestion, CONGESTIONS_MAX))
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
