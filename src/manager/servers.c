/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers: joining, reports, connections lost, and what they must be told. That is found in the tables,
 * not in a queue: extents marked as being released, fences of ending sessions. So it is told again after
 * a lost connection, a failed commit or a restart of the manager, until the server has answered.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/log.h"
#include "manager/core_private.h"
#include "manager/placement.h"

#define CALL_TIMEOUT_MS	  30000U
#define CALL_TIMEOUT_MAX  3600000U
#define BYTES_PER_MS	  ((uint64_t)64 << 10) /* that a slow server populates */
#define PING_TIMEOUT_MS	  2000U
#define NAME_MAX_BYTES	  255U
#define ADDRESS_MAX_BYTES 300U
#define TRANSPORT_MAX	  31U
#define LANES_MAX	  64U
#define EXTENTS_MAX	  ((size_t)1 << 20) /* of one server                */
#define RELEASES_MAX	  ((size_t)1 << 14) /* extents released by one call */

static uint64_t now(const struct core *core)
{
	return core->environment.now(core->environment.context);
}

/* ---- Live servers */

struct live_server *core_live_server(const struct core *core, uint64_t number)
{
	struct live_server *live;

	cds_list_for_each_entry (live, &core->live_servers, node)
		if (live->number == number)
			return live;
	return NULL;
}

static struct live_server *live_of_peer(const struct core *core, const void *peer)
{
	struct live_server *live;

	cds_list_for_each_entry (live, &core->live_servers, node)
		if (live->peer == peer)
			return live;
	return NULL;
}

bool server_is_up(const struct server *server)
{
	return server->live != NULL && server->live->peer != NULL;
}

/* A server does as it is told in order: what is asked now waits for what it has still to populate. */
uint32_t server_timeout_ms(const struct live_server *live)
{
	uint64_t more = live->pending_bytes / BYTES_PER_MS;

	return more > CALL_TIMEOUT_MAX - CALL_TIMEOUT_MS ? CALL_TIMEOUT_MAX
							 : CALL_TIMEOUT_MS + (uint32_t)more;
}

bool servers_are_missing(const struct core *core)
{
	const struct server *server;

	cds_list_for_each_entry (server, &core->state->servers, node) {
		if (server->live == NULL && server->granted_bytes > 0)
			return true;
	}
	return false;
}

static void live_free(struct live_server *live)
{
	if (live->server != NULL)
		live->server->live = NULL;
	cds_list_del(&live->node);
	free(live);
}

/* ---- Calls to servers */

struct outgoing *outgoing_new(enum outgoing_kind kind, const struct live_server *live)
{
	struct outgoing *outgoing = calloc(1, sizeof(*outgoing));

	if (outgoing == NULL)
		return NULL;
	outgoing->failure = event_new(EVENT_ANSWER, live->peer);
	if (outgoing->failure == NULL) {
		free(outgoing);
		return NULL;
	}
	outgoing->kind = kind;
	outgoing->server = live->number;
	outgoing->incarnation = live->incarnation;
	return outgoing;
}

void outgoing_free(struct outgoing *outgoing)
{
	if (outgoing == NULL)
		return;
	if (outgoing->failure != NULL)
		event_free(outgoing->failure);
	free(outgoing->extents);
	free(outgoing);
}

void server_call(struct core *core, struct live_server *live, uint32_t timeout_ms,
		 Afar__Request *request, struct outgoing *outgoing)
{
	uint64_t deadline = now(core) + (uint64_t)timeout_ms * 1000000U;
	struct event *failure = outgoing->failure;
	int rc = core->environment.call(core->environment.context, live->peer, deadline, request,
					outgoing);

	afar__request__free_unpacked(request, NULL);
	if (rc == 0)
		return;
	outgoing->failure = NULL;
	failure->outgoing = outgoing;
	failure->status = rc;
	cds_list_add_tail(&failure->node, &core->failed_calls);
}

static Afar__Request *make_release(const uint64_t *extents, size_t nr_extents)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__ExtentsRelease *release;

	if (request == NULL)
		return NULL;
	release = MESSAGE_NEW(afar__extents_release, Afar__ExtentsRelease);
	if (release == NULL) {
		free(request);
		return NULL;
	}
	request->extents_release = release;
	request->call_case = AFAR__REQUEST__CALL_EXTENTS_RELEASE;
	release->extents = calloc(nr_extents + 1, sizeof(*release->extents));
	if (release->extents == NULL) {
		afar__request__free_unpacked(request, NULL);
		return NULL;
	}
	memcpy(release->extents, extents, nr_extents * sizeof(*extents));
	release->n_extents = nr_extents;
	return request;
}

/* Takes `extents` over. Without memory for a call, rejoining has to bring it about. */
static void call_release(struct core *core, struct live_server *live, enum outgoing_kind kind,
			 uint64_t *extents, size_t nr_extents)
{
	struct outgoing *outgoing = outgoing_new(kind, live);
	Afar__Request *request = make_release(extents, nr_extents);

	if (outgoing == NULL || request == NULL) {
		if (request != NULL)
			afar__request__free_unpacked(request, NULL);
		outgoing_free(outgoing);
		free(extents);
		core->environment.close_peer(core->environment.context, live->peer);
		return;
	}
	outgoing->extents = extents;
	outgoing->nr_extents = nr_extents;
	server_call(core, live, server_timeout_ms(live), request, outgoing);
}

void server_undo(struct core *core, struct live_server *live, uint64_t *extents, size_t nr_extents)
{
	call_release(core, live, OUTGOING_UNDO, extents, nr_extents);
}

static void call_simple(struct core *core, struct live_server *live, enum outgoing_kind kind,
			uint64_t session)
{
	struct outgoing *outgoing = outgoing_new(kind, live);
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);

	if (outgoing == NULL || request == NULL)
		goto out_free;
	outgoing->session = session;
	if (kind == OUTGOING_PING) {
		request->ping = MESSAGE_NEW(afar__ping, Afar__Ping);
		if (request->ping == NULL)
			goto out_free;
		request->call_case = AFAR__REQUEST__CALL_PING;
	} else {
		request->session_end = MESSAGE_NEW(afar__session_end, Afar__SessionEnd);
		if (request->session_end == NULL)
			goto out_free;
		request->session_end->session = session;
		request->call_case = AFAR__REQUEST__CALL_SESSION_END;
	}
	server_call(core, live, kind == OUTGOING_PING ? PING_TIMEOUT_MS : CALL_TIMEOUT_MS, request,
		    outgoing);
	return;

out_free:
	free(request);
	outgoing_free(outgoing);
	core->environment.close_peer(core->environment.context, live->peer);
}

/* ---- What servers must be told */

static void drive_releases(struct core *core, struct live_server *live)
{
	struct extent *extent;
	uint64_t *numbers;
	size_t nr = 0;

	cds_list_for_each_entry (extent, &live->server->extents, server_node)
		nr += extent->is_releasing && !extent->is_release_sent;
	if (nr == 0)
		return;
	if (nr > RELEASES_MAX)
		nr = RELEASES_MAX;
	numbers = calloc(nr, sizeof(*numbers));
	if (numbers == NULL) {
		live->retry_at = now(core) + CORE_RETRY_NS;
		return;
	}
	nr = 0;
	cds_list_for_each_entry (extent, &live->server->extents, server_node) {
		if (!extent->is_releasing || extent->is_release_sent || nr == RELEASES_MAX)
			continue;
		extent->is_release_sent = true;
		numbers[nr++] = extent->number;
	}
	call_release(core, live, OUTGOING_RELEASE, numbers, nr);
}

static void drive_fences(struct core *core, struct session *session)
{
	for (size_t i = 0; i < session->nr_fences; i++) {
		struct fence *fence = &session->fences[i];
		struct live_server *live = core_live_server(core, fence->server);

		if (fence->is_sent || live == NULL || live->peer == NULL ||
		    live->incarnation != fence->incarnation || live->retry_at > now(core))
			continue;
		fence->is_sent = true;
		call_simple(core, live, OUTGOING_FENCE, session->number);
	}
}

void servers_drive(struct core *core)
{
	struct live_server *live;
	struct session *session;

	cds_list_for_each_entry (live, &core->live_servers, node) {
		if (live->retry_at <= now(core))
			live->retry_at = 0;
		if (live->peer != NULL && live->server->releasing_bytes != 0 && live->retry_at == 0)
			drive_releases(core, live);
	}
	cds_list_for_each_entry (session, &core->state->ending, node)
		drive_fences(core, session);
}

uint64_t servers_next_drive(const struct core *core)
{
	const struct live_server *live;
	uint64_t next = CORE_NEVER;

	cds_list_for_each_entry (live, &core->live_servers, node)
		if (live->peer != NULL && live->retry_at != 0 && live->retry_at < next)
			next = live->retry_at;
	return next;
}

/* ---- What they answered */

static void released(struct core *core, const struct outgoing *outgoing, bool is_done)
{
	for (size_t i = 0; i < outgoing->nr_extents; i++) {
		struct extent *extent = state_extent(core->state, outgoing->server,
						     outgoing->incarnation, outgoing->extents[i]);

		if (extent == NULL || !extent->is_releasing)
			continue;
		if (is_done) {
			store_delete_extent(core->store, extent);
			state_remove_extent(core->state, extent);
		} else {
			extent->is_release_sent = false;
		}
	}
}

static void fence_answered(struct core *core, const struct outgoing *outgoing, bool is_done)
{
	struct session *session = state_session(core->state, outgoing->session);

	if (session == NULL || !session->is_ending)
		return;
	if (is_done) {
		session_fenced(core, session, outgoing->server, outgoing->incarnation);
		return;
	}
	for (size_t i = 0; i < session->nr_fences; i++)
		if (session->fences[i].server == outgoing->server)
			session->fences[i].is_sent = false;
}

void server_answered(struct core *core, struct event *event)
{
	struct outgoing *outgoing = event->outgoing;
	struct live_server *live = core_live_server(core, outgoing->server);
	int status = event->answer != NULL ? event->answer->status : event->status;
	/* What a server does not know, it does not hold. */
	bool is_done = event->answer != NULL && (status == 0 || status == -ENOENT);
	bool is_current = live != NULL && live->peer != NULL && live->peer == event->peer;

	if (!is_done && is_current && outgoing->kind != OUTGOING_RESERVE) {
		log_warn("server %llu did not do what it was told: %s",
			 (unsigned long long)outgoing->server, afar_strerror(status));
		live->retry_at = now(core) + CORE_RETRY_NS;
		/* Whether it was done is unknown, or nobody would ask again. */
		if (event->answer == NULL || outgoing->kind == OUTGOING_UNDO)
			core->environment.close_peer(core->environment.context, live->peer);
	}
	switch (outgoing->kind) {
	case OUTGOING_RESERVE:
		reserve_answered(core, outgoing->share, event->peer, event->answer, event->status);
		break;
	case OUTGOING_RELEASE:
		if (core->state != NULL && (is_done || is_current))
			released(core, outgoing, is_done);
		break;
	case OUTGOING_FENCE:
		if (core->state != NULL && (is_done || is_current))
			fence_answered(core, outgoing, is_done);
		break;
	case OUTGOING_PING:
		if (live != NULL)
			live->is_probed = false;
		break;
	case OUTGOING_UNDO:
		break;
	}
	outgoing_free(outgoing);
	event->outgoing = NULL;
}

/* ---- Connections lost */

/* It will not answer about sessions any more: nothing of theirs is left on that incarnation. */
static void end_fences(struct core *core, uint64_t server, uint64_t incarnation)
{
	struct session *session, *next;

	cds_list_for_each_entry_safe (session, next, &core->state->ending, node)
		session_fenced(core, session, server, incarnation);
}

/* Drops its record when it is down and holds nothing. Sessions that wait for its answer would wait for
 * ever. */
static void forget(struct core *core, struct server *server)
{
	if (server_is_up(server) || !cds_list_empty(&server->extents))
		return;
	end_fences(core, server->number, server->incarnation);
	log_info("server %llu '%s' is down and holds nothing: forgotten",
		 (unsigned long long)server->number, server->name);
	if (server->live != NULL)
		live_free(server->live);
	store_delete_server(core->store, server);
	state_remove_server(core->state, server);
}

/* Everything that was sent on its connection is to be sent again. */
static void forget_sent(struct core *core, struct live_server *live)
{
	struct session *session;
	struct extent *extent;

	cds_list_for_each_entry (extent, &live->server->extents, server_node)
		extent->is_release_sent = false;
	cds_list_for_each_entry (session, &core->state->ending, node)
		for (size_t i = 0; i < session->nr_fences; i++)
			if (session->fences[i].server == live->number)
				session->fences[i].is_sent = false;
}

static void server_down(struct core *core, struct live_server *live)
{
	live->peer = NULL;
	live->retry_at = 0;
	live->is_probed = false;
	if (core->state != NULL)
		forget_sent(core, live);
	reserve_server_down(core, live);
}

void server_gone(struct core *core, void *peer)
{
	struct live_server *live = live_of_peer(core, peer);
	struct server *server;

	if (live == NULL)
		return;
	log_warn("server %llu lost its connection", (unsigned long long)live->number);
	server = live->server;
	server_down(core, live);
	if (core->state != NULL && server != NULL)
		forget(core, server);
}

void servers_forget(struct core *core)
{
	struct server *server, *next;

	cds_list_for_each_entry_safe (server, next, &core->state->servers, node)
		forget(core, server);
}

/* ---- Joining */

static int check_lanes(const Afar__Server *self)
{
	if (self->n_lanes == 0 || self->n_lanes > LANES_MAX)
		return -EINVAL;
	for (size_t i = 0; i < self->n_lanes; i++)
		if (!is_printable(self->lanes[i]->transport, TRANSPORT_MAX) ||
		    !is_printable(self->lanes[i]->address, ADDRESS_MAX_BYTES))
			return -EINVAL;
	return 0;
}

static int check_join(const Afar__ServerJoin *ask)
{
	const Afar__Server *self = ask->self;

	if (self == NULL || self->incarnation == 0 || !is_printable(self->name, NAME_MAX_BYTES) ||
	    !is_printable(self->control_address, ADDRESS_MAX_BYTES) || check_lanes(self) < 0)
		return error_fail(-EINVAL,
				  "join the cluster: the server's name, incarnation, addresses or "
				  "lanes are missing or malformed; use a server of this version");
	if (ask->n_extents > EXTENTS_MAX)
		return error_fail(-EINVAL,
				  "join the cluster: %zu extents are more than a manager takes",
				  ask->n_extents);
	for (size_t i = 0; i < ask->n_extents; i++)
		if (ask->extents[i]->length == 0 ||
		    ask->extents[i]->length % PLACEMENT_EXTENT_UNIT != 0)
			return error_fail(
				-EINVAL,
				"join the cluster: extent %llu has %llu bytes, which is no "
				"multiple of 2 MiB",
				(unsigned long long)ask->extents[i]->extent,
				(unsigned long long)ask->extents[i]->length);
	return 0;
}

/* The record of the server that joins: by its number, or — for one that kept none — the one that is down
 * and had this name on this address, which no two can have at once. NULL: it is new. */
static struct server *find_known(const struct core *core, const Afar__Server *self)
{
	struct server *server;

	if (self->server != 0)
		return state_server(core->state, self->server);
	cds_list_for_each_entry (server, &core->state->servers, node)
		if (!server_is_up(server) && strcmp(server->name, self->name) == 0 &&
		    strcmp(server->control_address, self->control_address) == 0)
			return server;
	return NULL;
}

/* Two servers must not take turns with one number: each would make the other's data lost. */
static int check_alone(struct core *core, const struct server *server, const Afar__Server *self,
		       const void *peer)
{
	struct live_server *live = server->live;

	if (!server_is_up(server) || live->peer == peer || live->incarnation == self->incarnation)
		return 0;
	if (!live->is_probed) {
		live->is_probed = true;
		call_simple(core, live, OUTGOING_PING, 0);
	}
	return error_fail(
		-EBUSY,
		"join the cluster: another server with number %llu is connected; if that one "
		"has ended, try again in %u s, else give this one a folder of its own",
		(unsigned long long)server->number, PING_TIMEOUT_MS / 1000U + 1);
}

static char *replace_text(char **at, const char *text)
{
	char *copy = strdup(text);

	if (copy != NULL) {
		free(*at);
		*at = copy;
	}
	return copy;
}

static int describe(struct server *server, const Afar__ServerJoin *ask)
{
	const Afar__Server *self = ask->self;
	struct lane *lanes = calloc(self->n_lanes, sizeof(*lanes));
	bool is_complete = lanes != NULL;

	is_complete = is_complete && replace_text(&server->name, self->name) != NULL &&
		      replace_text(&server->control_address, self->control_address) != NULL;
	for (size_t i = 0; i < server->nr_lanes && is_complete; i++) {
		free(server->lanes[i].transport);
		free(server->lanes[i].address);
	}
	if (!is_complete) {
		free(lanes);
		return error_code(-ENOMEM);
	}
	free(server->lanes);
	server->lanes = lanes;
	server->nr_lanes = self->n_lanes;
	for (size_t i = 0; i < self->n_lanes; i++) {
		is_complete =
			replace_text(&lanes[i].transport, self->lanes[i]->transport) != NULL &&
			is_complete;
		is_complete = replace_text(&lanes[i].address, self->lanes[i]->address) != NULL &&
			      is_complete;
	}
	server->incarnation = self->incarnation;
	server->capacity_bytes = ask->capacity_bytes;
	return is_complete ? 0 : error_code(-ENOMEM);
}

static void remove_extent(struct core *core, struct extent *extent)
{
	store_delete_extent(core->store, extent);
	state_remove_extent(core->state, extent);
}

/* It restarted: everything that it held is gone, and so are the connections of sessions. */
static void lose_incarnation(struct core *core, struct server *server)
{
	struct extent *extent, *next;
	uint64_t lost = 0;

	cds_list_for_each_entry_safe (extent, next, &server->extents, server_node) {
		lost += extent_used(extent);
		remove_extent(core, extent);
	}
	if (lost != 0)
		log_warn("server %llu '%s' has restarted: %llu MiB of regions are lost",
			 (unsigned long long)server->number, server->name,
			 (unsigned long long)(lost >> 20));
	end_fences(core, server->number, server->incarnation);
}

static struct extent *find_reported(const struct core *core, const struct server *server,
				    const Afar__Extent *reported)
{
	struct extent *extent =
		state_extent(core->state, server->number, server->incarnation, reported->extent);

	return extent != NULL && extent->namespace_number == reported->namespace_ &&
			       extent->length == reported->length
		       ? extent
		       : NULL;
}

/* The same incarnation is back: what it has and we don't know, or know as being released, it shall
 * release; what we know and it doesn't have, is lost. */
static void reconcile(struct core *core, struct server *server, const Afar__ServerJoin *ask,
		      Afar__ServerJoined *joined)
{
	struct extent *extent, *next;

	cds_list_for_each_entry (extent, &server->extents, server_node)
		extent->is_reported = false;
	for (size_t i = 0; i < ask->n_extents; i++) {
		extent = find_reported(core, server, ask->extents[i]);
		if (extent != NULL)
			extent->is_reported = true;
		if (extent == NULL || extent->is_releasing)
			joined->release[joined->n_release++] = ask->extents[i]->extent;
	}
	cds_list_for_each_entry_safe (extent, next, &server->extents, server_node) {
		if (!extent->is_reported && !extent->is_releasing)
			log_error(
				"server %llu '%s' does not have extent %llu any more: its data is "
				"lost",
				(unsigned long long)server->number, server->name,
				(unsigned long long)extent->number);
		if (!extent->is_reported || extent->is_releasing)
			remove_extent(core, extent);
	}
}

static int make_server(struct core *core, const Afar__ServerJoin *ask, struct server **out)
{
	struct server *server = server_new();
	int rc;

	if (server == NULL)
		return error_code(-ENOMEM);
	rc = describe(server, ask);
	server->number = core->state->next_server;
	if (rc == 0)
		rc = state_add_server(core->state, server);
	if (rc < 0) {
		server_free(server);
		return rc;
	}
	core->state->next_server++;
	store_put_cluster(core->store, core->state);
	*out = server;
	return 0;
}

/* Its connection is `peer` from now on. */
static int bind_server(struct core *core, struct server *server, void *peer)
{
	struct live_server *live = server->live;

	if (live == NULL) {
		live = calloc(1, sizeof(*live));
		if (live == NULL)
			return error_code(-ENOMEM);
		live->number = server->number;
		live->server = server;
		server->live = live;
		cds_list_add_tail(&live->node, &core->live_servers);
	}
	live->peer = peer;
	live->incarnation = server->incarnation;
	live->report_granted = server->granted_bytes;
	live->report_clean = live->report_dirty = live->report_resident = 0;
	live->report_connections = 0;
	live->retry_at = 0;
	return 0;
}

/* The old connection of a server that has a new one. */
static void leave_old_connection(struct core *core, struct server *server, const void *peer)
{
	void *old;

	if (!server_is_up(server))
		return;
	old = server->live->peer;
	server_down(core, server->live);
	if (old != peer)
		core->environment.close_peer(core->environment.context, old);
}

static int take_in(struct core *core, const Afar__ServerJoin *ask, struct server *server,
		   void *peer, Afar__ServerJoined *joined)
{
	int rc;

	if (server != NULL) {
		leave_old_connection(core, server, peer);
		if (server->incarnation != ask->self->incarnation)
			lose_incarnation(core, server);
		rc = describe(server, ask);
	} else {
		rc = make_server(core, ask, &server);
	}
	if (rc == 0) {
		reconcile(core, server, ask, joined);
		rc = bind_server(core, server, peer);
	}
	if (rc < 0)
		return rc;
	joined->server = server->number;
	store_put_server(core->store, server);
	log_info("server %llu '%s' joined from %s with %llu MiB",
		 (unsigned long long)server->number, server->name, server->control_address,
		 (unsigned long long)(server->capacity_bytes >> 20));
	return 0;
}

int server_join(struct core *core, struct session *session, struct event *event)
{
	const Afar__ServerJoin *ask = event->request->server_join;
	struct live_server *present = live_of_peer(core, event->peer);
	Afar__ServerJoined *joined;
	struct server *server;
	int rc = check_join(ask);

	(void)session;
	if (rc < 0)
		return rc;
	if (ask->cluster[0] != '\0' && strcmp(ask->cluster, core->state->cluster) != 0)
		return error_fail(
			-EINVAL,
			"join cluster %s: server '%s' belongs to cluster %s; start it with "
			"that one's manager, or with an empty data folder",
			core->state->cluster, ask->self->name, ask->cluster);
	server = find_known(core, ask->self);
	if (present != NULL && present->server != server)
		return error_fail(-EINVAL,
				  "join the cluster: this connection is that of server %llu; use "
				  "another",
				  (unsigned long long)present->number);
	if (server != NULL) {
		rc = check_alone(core, server, ask->self, event->peer);
		if (rc < 0)
			return rc;
	}
	joined = MESSAGE_NEW(afar__server_joined, Afar__ServerJoined);
	if (joined == NULL)
		return error_code(-ENOMEM);
	event->reply->server_joined = joined;
	event->reply->result_case = AFAR__REPLY__RESULT_SERVER_JOINED;
	joined->cluster = strdup(core->state->cluster);
	if (joined->cluster == NULL)
		return error_code(-ENOMEM);
	joined->release = calloc(ask->n_extents + 1, sizeof(*joined->release));
	if (joined->release == NULL)
		return error_code(-ENOMEM);
	rc = take_in(core, ask, server, event->peer, joined);
	if (rc < 0)
		store_spoil(core->store, rc);
	return rc;
}

int server_report(struct core *core, struct session *session, struct event *event)
{
	const Afar__ServerReport *report = event->request->server_report;
	struct live_server *live = live_of_peer(core, event->peer);

	(void)session;
	if (live == NULL)
		return error_fail(
			-ENOTCONN,
			"report to the manager: no server joined on this connection; join "
			"first");
	live->report_granted = report->granted_bytes;
	live->report_clean = report->clean_bytes;
	live->report_dirty = report->dirty_bytes;
	live->report_connections = report->nr_connections;
	live->report_resident = report->resident_bytes;
	return 0;
}

/* ---- With tables that were read again */

void servers_relink(struct core *core)
{
	struct live_server *live, *next;

	cds_list_for_each_entry_safe (live, next, &core->live_servers, node) {
		struct server *server = state_server(core->state, live->number);

		live->server = server;
		if (server == NULL || server->incarnation != live->incarnation) {
			/* Its joining could not be committed: it must join again. */
			if (live->peer != NULL)
				core->environment.close_peer(core->environment.context, live->peer);
			live_free(live);
			continue;
		}
		server->live = live;
	}
}

void servers_close(struct core *core)
{
	struct live_server *live, *next;

	cds_list_for_each_entry_safe (live, next, &core->live_servers, node) {
		live->server = NULL;
		live_free(live);
	}
}
