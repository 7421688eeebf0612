/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables as messages: what replies tell of namespaces, regions, layouts and the cluster. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <afar/version.h>

#include "manager/connections/callers.h"
#include "manager/connections/live.h"
#include "manager/connections/rights.h"
#include "manager/files/files.h"
#include "manager/jobs/quota.h"
#include "manager/members/principals.h"
#include "manager/members/terms.h"
#include "manager/regions/info.h"
#include "manager/regions/versions.h"
#include "manager/regions/volumes.h"
#include "manager/servers/servers.h"
#include "manager/servers/stores.h"
#include "manager/space/access.h"
#include "manager/space/references.h"

/* Sets `*is_complete` to false when there was no memory. */
static char *copy_text(const char *text, bool *is_complete)
{
	char *copy = strdup(text);

	if (!copy)
		*is_complete = false;
	return copy;
}

/* Tells who was given rights, to those who may give them. */
static bool add_grants(Afar__NamespaceInfo *info, const struct namespace *ns)
{
	bool is_complete = true;

	info->grants = calloc(ns->nr_grants + 1, sizeof(*info->grants));
	if (!info->grants)
		return false;
	for (size_t i = 0; i < ns->nr_grants && is_complete; i++) {
		Afar__NamespaceRights *grant =
			MESSAGE_NEW(afar__namespace_rights, Afar__NamespaceRights);

		if (!grant)
			return false;
		info->grants[info->n_grants++] = grant;
		grant->principal = copy_text(ns->grants[i].principal, &is_complete);
		grant->rights = ns->grants[i].rights;
	}
	return is_complete;
}

Afar__NamespaceInfo *info_namespace(const struct core *core, const struct session *session,
				    const struct namespace *ns)
{
	uint32_t rights = rights_of(core, session->principal, ns);
	Afar__NamespaceInfo *info = MESSAGE_NEW(afar__namespace_info, Afar__NamespaceInfo);
	bool is_complete = true;

	if (!info)
		return NULL;
	info->namespace_ = ns->number;
	info->name = copy_text(ns->name, &is_complete);
	info->owner = copy_text(ns->owner, &is_complete);
	info->rights = rights & RIGHT_ALL;
	if ((rights & RIGHT_OWN) != 0) {
		is_complete = add_grants(info, ns) && is_complete;
		quota_tell_owner(core, ns, info);
	}
	info->identity = ns->identity;
	info->is_suspect = ns->is_suspect;
	info->reserved_bytes = ns->reserved_bytes;
	info->allocated_bytes = ns->allocated_bytes;
	info->nr_regions = ns->nr_regions;
	info->policy = MESSAGE_NEW(afar__policy, Afar__Policy);
	if (ns->is_volume) {
		info->volume = volume_info(core, ns);
		is_complete = is_complete && info->volume;
	}
	if (ns->is_files) {
		info->files = files_info(core, ns);
		is_complete = is_complete && info->files;
	}
	if (!info->policy || !is_complete) {
		afar__namespace_info__free_unpacked(info, NULL);
		return NULL;
	}
	info->policy->tier = ns->tier;
	info->policy->width = ns->width;
	info->policy->stripe_bytes = ns->stripe_bytes;
	info->policy->max_bytes = ns->max_bytes;
	return info;
}

static Afar__Server *info_server(const struct server *server)
{
	Afar__Server *info = MESSAGE_NEW(afar__server, Afar__Server);
	bool is_complete = true;

	if (!info)
		return NULL;
	info->server = server->number;
	info->name = copy_text(server->name, &is_complete);
	info->incarnation = server->incarnation;
	info->control_address = copy_text(server->control_address, &is_complete);
	info->lanes = calloc(server->nr_lanes + 1, sizeof(*info->lanes));
	is_complete = is_complete && info->lanes;
	for (size_t i = 0; i < server->nr_lanes && is_complete; i++) {
		Afar__Lane *lane = MESSAGE_NEW(afar__lane, Afar__Lane);

		is_complete = lane != NULL;
		if (!lane)
			break;
		info->lanes[info->n_lanes++] = lane;
		lane->store = server->lanes[i].store;
		lane->transport = copy_text(server->lanes[i].transport, &is_complete);
		lane->address = copy_text(server->lanes[i].address, &is_complete);
	}
	if (is_complete)
		return info;
	afar__server__free_unpacked(info, NULL);
	return NULL;
}

/* True: the server is among those told already. */
static bool is_told(const Afar__LayoutInfo *info, const struct server *server)
{
	for (size_t i = 0; i < info->n_servers; i++)
		if (info->servers[i]->server == server->number)
			return true;
	return false;
}

/* The servers of its homes. One that has gone for good is left out. */
static bool add_servers(const struct core *core, Afar__LayoutInfo *info,
			const struct layout *layout)
{
	info->servers = calloc((size_t)layout->nr_homes + 1, sizeof(*info->servers));
	info->n_servers = 0;
	if (!info->servers)
		return false;
	for (uint32_t i = 0; i < layout->nr_homes; i++) {
		const struct server *server = state_home_server(core->state, &layout->homes[i]);
		Afar__Server *described;

		if (!server || is_told(info, server))
			continue;
		described = info_server(server);
		if (!described)
			return false;
		info->servers[info->n_servers++] = described;
	}
	return true;
}

/* The stores of its homes. One that was forgotten is left out. Paths at servers are told to operators alone. */
static bool add_places(const struct core *core, const struct session *session,
		       Afar__LayoutInfo *info, const struct layout *layout)
{
	const bool with_paths = is_operator(core, session);

	info->stores = calloc((size_t)layout->nr_homes + 1, sizeof(*info->stores));
	if (!info->stores)
		return false;
	for (uint32_t i = 0; i < layout->nr_homes; i++) {
		const struct layout_home *home = &layout->homes[i];
		const struct flash_store *store;
		Afar__StorePlace *place;

		store = home->is_store ? state_store(core->state, home->life) : NULL;
		if (!store)
			continue;
		place = MESSAGE_NEW(afar__store_place, Afar__StorePlace);
		if (!place)
			return false;
		place->store = store->number;
		place->server = store->pool.server ? store->pool.server->number : 0;
		place->opening = store->opening;
		place->is_away = !store->is_up;
		place->away_ms = flash_down_ms(core, store);
		info->stores[info->n_stores++] = place;
		place->path = strdup(with_paths ? store->path : "");
		if (!place->path)
			return false;
	}
	return true;
}

static Afar__LayoutInfo *info_layout(const struct core *core, const struct session *session,
				     const struct region *region)
{
	Afar__LayoutInfo *info = MESSAGE_NEW(afar__layout_info, Afar__LayoutInfo);

	if (!info)
		return NULL;
	info->form = layout_pack(region->layout);
	if (info->form)
		versions_freeze(region, info->form);
	if (info->form && add_servers(core, info, region->layout) &&
	    add_places(core, session, info, region->layout) &&
	    access_make(core, session, region, &info->accesses, &info->n_accesses) == 0)
		return info;
	afar__layout_info__free_unpacked(info, NULL);
	return NULL;
}

/* Adds the versions of a copy-on-write region. False: no memory. */
static bool add_versions(const struct core *core, Afar__RegionInfo *info,
			 const struct region *region)
{
	if (region->family == 0)
		return true;
	info->family = region->family;
	info->version = region->version;
	info->is_draft = region->is_draft;
	info->claim_ms = region->is_draft ? (uint32_t)(core->claim_ns / 1000000U) : 0;
	info->word_bytes = region->has_word ? STATE_WORD_BYTES : 0;
	info->width = region->layout->nr_homes;
	versions_count(region, &info->nr_older, &info->nr_older_references);
	info->writer = versions_writer(core, region);
	return info->writer != NULL;
}

Afar__RegionInfo *info_region(const struct core *core, const struct session *session,
			      const struct region *region, bool with_layout)
{
	Afar__RegionInfo *info = MESSAGE_NEW(afar__region_info, Afar__RegionInfo);
	bool is_complete = true;

	if (!info)
		return NULL;
	info->namespace_ = region->ns->number;
	info->address = region->address;
	info->length = region->length;
	info->name = copy_text(region->name, &is_complete);
	info->generation = region->generation;
	info->nr_references = region_nr_references(region);
	info->is_lost = region->is_lost;
	info->has_nic_atomics = region->has_nic_atomics;
	info->is_sealed = region->layout->is_sealed;
	info->layout_number = region->layout_number;
	info->is_unfinished = region->is_unfinished;
	info->stripe_bytes = region->stripe_bytes;
	info->width = layout_width(region->layout);
	info->rights = region_rights(core, session, region);
	if (region->layout->is_sealed)
		info->rights &= RIGHT_READ;
	is_complete = add_versions(core, info, region) && is_complete;
	if (with_layout) {
		info->layout = info_layout(core, session, region);
		is_complete = is_complete && info->layout;
	}
	if (is_complete)
		return info;
	afar__region_info__free_unpacked(info, NULL);
	return NULL;
}

/* ---- The cluster */

static bool add_lane_reports(Afar__ServerReport *report, const struct live_server *live)
{
	bool is_complete = true;

	report->lanes = calloc(live->nr_lanes + 1, sizeof(*report->lanes));
	if (!report->lanes)
		return false;
	for (size_t i = 0; i < live->nr_lanes; i++) {
		Afar__LaneReport *lane = MESSAGE_NEW(afar__lane_report, Afar__LaneReport);

		if (!lane)
			return false;
		lane_report_copy(lane, &live->lanes[i]);
		report->lanes[report->n_lanes++] = lane;
		lane->congestion = copy_text(live->lanes[i].congestion, &is_complete);
	}
	return is_complete;
}

static uint64_t age_ms(const struct core *core, uint64_t since)
{
	return (core_now(core) - since) / 1000000U;
}

static Afar__ServerStatus *info_server_status(const struct core *core, const struct server *server)
{
	Afar__ServerStatus *status = MESSAGE_NEW(afar__server_status, Afar__ServerStatus);
	const struct live_server *live = server->live;
	bool is_complete = true;

	if (!status)
		return NULL;
	status->is_up = server_is_up(server);
	status->server = info_server(server);
	status->report = MESSAGE_NEW(afar__server_report, Afar__ServerReport);
	if (!status->server || !status->report)
		goto out_free;
	if (status->is_up) {
		*status->report = live->report;
		status->report_age_ms = age_ms(core, live->reported_at);
		status->report->version = copy_text(live->version, &is_complete);
		if (!is_complete || !add_lane_reports(status->report, live))
			goto out_free;
	} else {
		status->report->granted_bytes = server->dram.granted_bytes;
		status->down_ms = server_down_ms(core, server);
	}
	status->report->capacity_bytes = server->dram.capacity_bytes;
	return status;

out_free:
	afar__server_status__free_unpacked(status, NULL);
	return NULL;
}

static bool add_server_status(Afar__ClusterStatus *status, const struct core *core)
{
	const struct state *state = core->state;
	struct server *server;

	status->servers = calloc(CORE_LIST_MAX, sizeof(*status->servers));
	if (!status->servers)
		return false;
	cds_list_for_each_entry (server, &state->servers, node) {
		if (status->nr_servers++ >= CORE_LIST_MAX)
			continue;
		status->servers[status->n_servers] = info_server_status(core, server);
		if (!status->servers[status->n_servers])
			return false;
		status->n_servers++;
	}
	return true;
}

static bool add_namespaces(Afar__ClusterStatus *status, const struct core *core,
			   const struct session *session)
{
	struct namespace *ns;

	status->namespaces = calloc(CORE_LIST_MAX, sizeof(*status->namespaces));
	if (!status->namespaces)
		return false;
	cds_list_for_each_entry (ns, &core->state->namespaces, node) {
		if (ns->is_deleted || !rights_see(core, session, ns))
			continue;
		if (status->nr_namespaces++ >= CORE_LIST_MAX)
			continue;
		status->namespaces[status->n_namespaces] = info_namespace(core, session, ns);
		if (!status->namespaces[status->n_namespaces])
			return false;
		status->n_namespaces++;
	}
	return true;
}

static uint64_t lease_left_ms(const struct core *core, const struct live_session *live)
{
	uint64_t now = core_now(core);

	return live->lease_deadline > now ? (live->lease_deadline - now) / 1000000U : 0;
}

/* NULL: no memory. */
static Afar__SessionUse *copy_use(const Afar__SessionUse *use)
{
	size_t length = afar__session_use__get_packed_size(use);
	uint8_t *bytes = malloc(length + 1);
	Afar__SessionUse *copy;

	if (!bytes)
		return NULL;
	afar__session_use__pack(use, bytes);
	copy = afar__session_use__unpack(NULL, length, bytes);
	free(bytes);
	return copy;
}

static Afar__SessionStatus *info_session(const struct core *core, const struct session *session)
{
	Afar__SessionStatus *info = MESSAGE_NEW(afar__session_status, Afar__SessionStatus);
	const struct live_session *live = session->live;
	bool is_complete = true;

	if (!info)
		return NULL;
	info->session = session->number;
	info->client = copy_text(session->client, &is_complete);
	info->principal = copy_text(session->principal, &is_complete);
	info->is_connected = live && live->peer;
	info->nr_references = session->nr_references;
	info->is_ending = session->is_ending;
	if (live && !live->peer)
		info->lease_left_ms = lease_left_ms(core, live);
	if (live && live->use) {
		info->use = copy_use(live->use);
		info->use_age_ms = age_ms(core, live->used_at);
		is_complete = is_complete && info->use;
	}
	if (is_complete)
		return info;
	afar__session_status__free_unpacked(info, NULL);
	return NULL;
}

static bool add_sessions(Afar__ClusterStatus *status, const struct core *core,
			 const struct session *caller, const struct cds_list_head *sessions)
{
	bool sees_all = is_operator(core, caller);
	struct session *session;

	cds_list_for_each_entry (session, sessions, node) {
		if (!sees_all && strcmp(session->principal, caller->principal) != 0)
			continue;
		if (status->nr_sessions++ >= CORE_LIST_MAX)
			continue;
		status->sessions[status->n_sessions] = info_session(core, session);
		if (!status->sessions[status->n_sessions])
			return false;
		status->n_sessions++;
	}
	return true;
}

static bool add_all_sessions(Afar__ClusterStatus *status, const struct core *core,
			     const struct session *caller)
{
	status->sessions = calloc(CORE_LIST_MAX, sizeof(*status->sessions));
	/* Sessions that end come first: they are few, and an operator waits for them. */
	return status->sessions && add_sessions(status, core, caller, &core->state->ending) &&
	       add_sessions(status, core, caller, &core->state->sessions);
}

static bool add_principals(Afar__ClusterStatus *status, const struct core *core,
			   const struct session *caller)
{
	Afar__KeyInfos infos = AFAR__KEY_INFOS__INIT;
	bool is_complete;

	if (!is_operator(core, caller))
		return true;
	is_complete = principals_list(core, &infos) == 0;
	status->principals = infos.entries;
	status->n_principals = infos.n_entries;
	return is_complete;
}

static uint64_t wall_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

Afar__ClusterStatus *info_cluster(const struct core *core, const struct session *session)
{
	Afar__ClusterStatus *status = MESSAGE_NEW(afar__cluster_status, Afar__ClusterStatus);
	bool is_complete = true;

	if (!status)
		return NULL;
	status->cluster = copy_text(core->state->cluster, &is_complete);
	status->version = copy_text(AFAR_VERSION_STRING, &is_complete);
	status->time_ns = wall_clock_ns();
	status->manager_incarnation = core->incarnation;
	status->uptime_ms = age_ms(core, core->started_at);
	status->lease_ms = (uint32_t)(core->lease_ns / 1000000U);
	status->list_max = CORE_LIST_MAX;
	if (is_complete && add_server_status(status, core) &&
	    flash_add_status(core, session, status) &&
	    (!is_operator(core, session) || terms_add_status(core, status)) &&
	    add_namespaces(status, core, session) && add_all_sessions(status, core, session) &&
	    add_principals(status, core, session))
		return status;
	afar__cluster_status__free_unpacked(status, NULL);
	return NULL;
}

int cluster_status(struct core *core, struct session *session, struct event *event)
{
	event->reply->cluster_status = info_cluster(core, session);
	if (!event->reply->cluster_status)
		return error_code(-ENOMEM);
	event->reply->result_case = AFAR__REPLY__RESULT_CLUSTER_STATUS;
	return 0;
}
