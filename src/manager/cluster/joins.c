/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers that join: finds out which one it is, what memory it still has, and what is lost. Their
 * stores have a room of their own (stores.c). A
 * server joins at every reconnection, and after a restart of its own or of the manager's. An
 * incarnation that we know goes on; another one has lost everything.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/log.h"
#include "base/text.h"
#include "manager/cluster/joins.h"
#include "manager/cluster/removals.h"
#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/members/terms.h"
#include "manager/servers/servers.h"
#include "manager/servers/store_joins.h"
#include "manager/tables/placement.h"

#define NAME_MAX_BYTES	  255U
#define ADDRESS_MAX_BYTES 300U
#define TRANSPORT_MAX	  31U
#define EXTENTS_MAX	  ((size_t)1 << 20) /* of one server */

/* ---- What it says */

bool is_lane_sound(const Afar__Lane *lane)
{
	return text_is_printable(lane->transport, TRANSPORT_MAX) &&
	       text_is_printable(lane->address, ADDRESS_MAX_BYTES);
}

static int check_lanes(const Afar__Server *self)
{
	if (self->n_lanes == 0 || self->n_lanes > STATE_LANES_MAX)
		return -EINVAL;
	for (size_t i = 0; i < self->n_lanes; i++)
		if (!is_lane_sound(self->lanes[i]))
			return -EINVAL;
	return 0;
}

static int check_join(const Afar__ServerJoin *ask)
{
	const Afar__Server *self = ask->self;

	if (!self || self->incarnation == 0 || !text_is_printable(self->name, NAME_MAX_BYTES) ||
	    !text_is_printable(self->control_address, ADDRESS_MAX_BYTES) || check_lanes(self) < 0)
		return error_fail(-EINVAL,
				  "join the cluster: the server's name, incarnation, addresses or "
				  "lanes are missing or malformed; use a server of this version");
	if (ask->signing_key.len != SIGNING_KEY_BYTES)
		return error_fail(-EINVAL,
				  "join the cluster: the signing key has %zu bytes, not %d; use a "
				  "server of this version",
				  ask->signing_key.len, SIGNING_KEY_BYTES);
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

/* Old stores do not know with which key a server joined: then any will do. */
static bool is_key_of(const struct server *server, const char *principal)
{
	return server->principal[0] == '\0' || strcmp(server->principal, principal) == 0;
}

/* Finds by its number the record of the server that joins. If it kept none, finds the one that is
 * down and had this name on this address and this key. No two servers can have one address at once.
 * NULL: it is new. */
static struct server *find_known(const struct core *core, const Afar__Server *self,
				 const char *principal)
{
	struct server *server;

	if (self->server != 0)
		return state_server(core->state, self->server);
	cds_list_for_each_entry (server, &core->state->servers, node)
		if (!server_is_up(server) && is_key_of(server, principal) &&
		    strcmp(server->name, self->name) == 0 &&
		    strcmp(server->control_address, self->control_address) == 0)
			return server;
	return NULL;
}

/* Returns whether it is the incarnation that joined last: nobody else knows its signing key. */
static bool is_same(const struct server *server, const Afar__ServerJoin *ask)
{
	const struct live_server *live = server->live;

	return live && live->incarnation == ask->self->incarnation &&
	       CRYPTO_memcmp(live->signing_key, ask->signing_key.data, SIGNING_KEY_BYTES) == 0;
}

/* Rejects another server's key. Otherwise any server could take another one's place, and with that
 * its memory. A server that goes on may have got another key: its place is that key's from now on. */
static int check_key(const struct server *server, const Afar__ServerJoin *ask,
		     const char *principal)
{
	if (is_key_of(server, principal) || is_same(server, ask))
		return 0;
	return error_fail(-EACCES,
			  "join the cluster: server %llu joined with the key of '%s', and this is "
			  "the key of '%s'; start it with that one's, or remove server.id from its "
			  "data folder, so that it joins as a new server",
			  (unsigned long long)server->number, server->principal, principal);
}

/* Rejects a second server with a number that is connected: in turns, each would make the other's
 * data lost. */
static int check_alone(struct core *core, const struct server *server, const Afar__Server *self,
		       const void *peer)
{
	struct live_server *live = server->live;

	if (!server_is_up(server) || live->peer == peer || live->incarnation == self->incarnation)
		return 0;
	server_probe(core, live);
	return error_fail(
		-EBUSY,
		"join the cluster: another server with number %llu is connected; if that one "
		"has ended, try again in %u s, else give this one a folder of its own",
		(unsigned long long)server->number, SERVER_PROBE_MS / 1000U + 1);
}

/* An incarnation has one signing key. A server that comes with another one is not that
 * incarnation. */
static int check_same(const struct server *server, const Afar__ServerJoin *ask)
{
	const struct live_server *live = server->live;

	if (!live || live->incarnation != ask->self->incarnation || is_same(server, ask))
		return 0;
	return error_fail(-EACCES,
			  "join the cluster: server %llu joined before with this incarnation and "
			  "another signing key; restart it",
			  (unsigned long long)server->number);
}

/* Rejects an incarnation that an operator removed. Sessions that have ended since may still have
 * keys of it, and nobody waits for it to close them. */
static int check_not_removed(const struct core *core, const Afar__Server *self)
{
	if (!state_is_removed(core->state, self->incarnation))
		return 0;
	return error_fail(
		-AFAR_ELOST,
		"join the cluster: server '%s' was removed from it while it could not be "
		"reached, and what it held is lost; start it again, and it joins as a new "
		"server",
		self->name);
}

static int describe(struct core *core, struct server *server, const Afar__ServerJoin *ask,
		    const char *principal)
{
	const Afar__Server *self = ask->self;
	struct lane lanes[STATE_LANES_MAX];
	struct server_texts texts = {.name = self->name,
				     .principal = principal,
				     .control_address = self->control_address,
				     .lanes = lanes,
				     .nr_lanes = self->n_lanes};
	int ret = undo_room(core->undo, 2);

	if (ret < 0)
		return ret;
	for (size_t i = 0; i < self->n_lanes; i++)
		lanes[i] = (struct lane){self->lanes[i]->transport, self->lanes[i]->address,
					 self->lanes[i]->store};
	undo_set(core->undo, server->incarnation, self->incarnation);
	undo_set(core->undo, server->dram.capacity_bytes, ask->capacity_bytes);
	return state_describe_server(core->state, server, &texts);
}

static struct extent *find_reported(const struct core *core, const struct server *server,
				    const Afar__Extent *reported)
{
	const struct layout_home home = pool_home(&server->dram);
	struct extent *extent = state_extent(core->state, &home, reported->extent);

	return extent && extent->namespace_number == reported->namespace_ &&
			       extent->length == reported->length &&
			       extent->class == reported->class_
		       ? extent
		       : NULL;
}

/* An incarnation that we know is back. It shall release extents that we do not know; those that it
 * does not have any more are lost. Extents that were draining still are, reported or not: the
 * server is told again, and answers when it is done. */
static int reconcile(struct core *core, struct server *server, const Afar__ServerJoin *ask,
		     Afar__ServerJoined *joined)
{
	struct extent *extent, *next;
	int ret = 0;

	cds_list_for_each_entry (extent, &server->dram.extents, pool_node)
		extent->is_reported = false;
	for (size_t i = 0; i < ask->n_extents; i++) {
		extent = find_reported(core, server, ask->extents[i]);
		if (extent)
			extent->is_reported = true;
		else
			joined->release[joined->n_release++] = ask->extents[i]->extent;
	}
	cds_list_for_each_entry_safe (extent, next, &server->dram.extents, pool_node) {
		if (extent->is_reported || extent_is_releasing(extent))
			continue;
		log_error("server %llu '%s' does not have extent %llu any more: its data is lost",
			  (unsigned long long)server->number, server->name,
			  (unsigned long long)extent->number);
		ret = server_remove_extent(core, extent);
		if (ret < 0)
			break;
	}
	return ret;
}

static int make_server(struct core *core, struct server **out)
{
	struct server *server = server_new();
	int ret;

	if (!server)
		return error_code(-ENOMEM);
	server->number = core->state->next_server;
	ret = state_add_server(core->state, server);
	if (ret == 0)
		ret = undo_room(core->undo, 1);
	if (ret < 0)
		return ret;
	undo_set(core->undo, core->state->next_server, server->number + 1);
	store_put_cluster(core->store, core->state);
	*out = server;
	return 0;
}

/* Its join is taken back, and its server was never there. */
static void drop_live(void *argument)
{
	live_server_free(argument);
}

static struct live_server *make_live(struct core *core, struct server *server)
{
	struct live_server *live = calloc(1, sizeof(*live));

	if (!live)
		return NULL;
	live->number = server->number;
	live->server = server;
	server->live = live;
	cds_list_add_tail(&live->node, &core->live_servers);
	undo_call(core->undo, drop_live, NULL, live);
	return live;
}

/* Its join is taken back: the old connection is gone, and the new one does not count. */
static void unbind(void *argument)
{
	struct live_server *live = argument;

	live->peer = NULL;
}

/* Its connection is `peer` from now on. */
static int bind_server(struct core *core, struct server *server, const Afar__ServerJoin *ask,
		       void *peer)
{
	struct live_server *live = server->live;
	struct undo *undo = core->undo;
	int ret = undo_room(undo, 4 + UNDO_NOTES_OF(SIGNING_KEY_BYTES));

	if (ret < 0)
		return ret;
	if (!live)
		live = make_live(core, server);
	if (!live)
		return error_code(-ENOMEM);
	undo_save(undo, live->signing_key, SIGNING_KEY_BYTES);
	undo_set(undo, live->incarnation, server->incarnation);
	undo_set(undo, live->born_at, core_now(core) - (uint64_t)ask->age_s * 1000000000U);
	undo_call(undo, unbind, NULL, live);
	memcpy(live->signing_key, ask->signing_key.data, SIGNING_KEY_BYTES);
	live->peer = peer;
	live->features = ask->features;
	afar__server_report__init(&live->report);
	live->report.granted_bytes = server->dram.granted_bytes;
	live->nr_lanes = 0;
	live->reported_at = core_now(core);
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

static int take_in(struct core *core, const struct event *event, const char *principal,
		   struct server *server, Afar__ServerJoined *joined)
{
	const Afar__ServerJoin *ask = event->request->server_join;
	int ret = 0;

	if (server)
		leave_old_connection(core, server, event->peer);
	if (server && server->incarnation != ask->self->incarnation)
		ret = server_lose(core, server, "has restarted");
	else if (!server)
		ret = make_server(core, &server);
	if (ret == 0)
		ret = describe(core, server, ask, principal);
	if (ret == 0)
		ret = reconcile(core, server, ask, joined);
	if (ret == 0)
		ret = bind_server(core, server, ask, event->peer);
	if (ret == 0)
		ret = flash_join(core, server, ask, joined);
	if (ret < 0)
		return ret;
	joined->server = server->number;
	store_put_server(core->store, server);
	log_info("server %llu '%s' joined from %s with %llu MiB, with the key of '%s'",
		 (unsigned long long)server->number, server->name, server->control_address,
		 (unsigned long long)(server->dram.capacity_bytes >> 20), server->principal);
	return 0;
}

int server_join(struct core *core, struct session *session, struct event *event)
{
	const char *principal = core->environment.principal(core->environment.context, event->peer);
	const Afar__ServerJoin *ask = event->request->server_join;
	struct live_server *present = core_live_server_of(core, event->peer);
	Afar__ServerJoined *joined;
	struct server *server;
	int ret = check_join(ask);

	(void)session;
	if (ret < 0)
		return ret;
	if (!principal)
		return error_fail(-AFAR_EAUTH, "join the cluster: the key was revoked meanwhile");
	if (ask->cluster[0] != '\0' && strcmp(ask->cluster, core->state->cluster) != 0)
		return error_fail(
			-EINVAL,
			"join cluster %s: server '%s' belongs to cluster %s; start it with "
			"that one's manager and the folder that this has, or, if nobody needs what "
			"the server holds, with an empty data folder",
			core->state->cluster, ask->self->name, ask->cluster);
	ret = check_not_removed(core, ask->self);
	if (ret == 0)
		ret = terms_check(core, ask->term, "server", ask->self->name);
	if (ret < 0)
		return ret;
	server = find_known(core, ask->self, principal);
	if (present && present->server != server)
		return error_fail(-EINVAL,
				  "join the cluster: this connection is that of server %llu; use "
				  "another",
				  (unsigned long long)present->number);
	if (server) {
		ret = check_key(server, ask, principal);
		if (ret == 0)
			ret = check_same(server, ask);
		if (ret == 0)
			ret = check_alone(core, server, ask->self, event->peer);
	}
	if (ret == 0)
		ret = flash_check_join(core, server, ask);
	if (ret < 0)
		return ret;
	joined = MESSAGE_NEW(afar__server_joined, Afar__ServerJoined);
	if (!joined)
		return error_code(-ENOMEM);
	event->reply->server_joined = joined;
	event->reply->result_case = AFAR__REPLY__RESULT_SERVER_JOINED;
	joined->cluster = strdup(core->state->cluster);
	joined->term = terms_message(core);
	if (!joined->cluster || !joined->term)
		return error_code(-ENOMEM);
	joined->ends_sessions = terms_are_older(core, ask->term) && !ask->has_ended_sessions;
	/* Nobody is given what its sessions can reach before it is here. */
	if (joined->ends_sessions && ask->ends_first)
		return 0;
	joined->release = calloc(ask->n_extents + 1, sizeof(*joined->release));
	if (!joined->release)
		return error_code(-ENOMEM);
	return take_in(core, event, principal, server, joined);
}
