/* SPDX-License-Identifier: BSD-3-Clause */
/* The cluster's status as JSON, as the manager tells it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "client/session.h"
#include "rpc/capability.h"

/* Text of others need not be UTF-8, which JSON wants: then it is left out. */
static json_t *text(const char *value)
{
	json_t *string = json_string(value);

	return string ? string : json_string("?");
}

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *hexadecimal(uint64_t value)
{
	return json_sprintf("%016llx", (unsigned long long)value);
}

/* Whether this session may go by a lane: all but trying to connect. */
static bool is_usable(struct afar_session *session, const Afar__Lane *lane)
{
	unsigned number;

	if (session->path[0] && strcmp(session->path, lane->transport) != 0)
		return false;
	return fabrics_get(&session->fabrics, lane->transport, lane->address, &number) == 0 &&
	       fabric_is_near(fabrics_at(&session->fabrics, number), lane->address);
}

/* The transport that it would take; NULL: none. */
static const char *choose_transport(struct afar_session *session, const Afar__Server *server)
{
	for (size_t i = 0; i < server->n_lanes; i++) {
		if (is_usable(session, server->lanes[i]))
			return server->lanes[i]->transport;
	}
	return NULL;
}

static json_t *lanes_to_json(struct afar_session *session, const Afar__Server *server)
{
	const char *chosen = choose_transport(session, server);
	json_t *lanes = json_array();

	for (size_t i = 0; i < server->n_lanes; i++) {
		const Afar__Lane *lane = server->lanes[i];

		json_array_append_new(
			lanes, json_pack("{s:o, s:o, s:b}", "transport", text(lane->transport),
					 "address", text(lane->address), "is_chosen",
					 chosen && strcmp(chosen, lane->transport) == 0));
	}
	return lanes;
}

static json_t *server_to_json(struct afar_session *session, const Afar__ServerStatus *status)
{
	static const Afar__Server no_server = AFAR__SERVER__INIT;
	static const Afar__ServerReport no_report = AFAR__SERVER_REPORT__INIT;
	const Afar__Server *server = status->server ? status->server : &no_server;
	const Afar__ServerReport *report = status->report ? status->report : &no_report;

	return json_pack(
		"{s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"server", number(server->server), "name", text(server->name), "is_up",
		(int)status->is_up, "incarnation", hexadecimal(server->incarnation),
		"control_address", text(server->control_address), "lanes",
		lanes_to_json(session, server), "capacity_bytes", number(report->capacity_bytes),
		"granted_bytes", number(report->granted_bytes), "draining_bytes",
		number(report->draining_bytes), "dirty_bytes", number(report->dirty_bytes),
		"clean_bytes", number(report->clean_bytes), "scrubbed_bytes",
		number(report->scrubbed_bytes), "scrub_bytes_per_s",
		number(report->scrub_bytes_per_s), "nr_connections", number(report->nr_connections),
		"resident_bytes", number(report->resident_bytes));
}

static json_t *rights_to_json(uint32_t rights)
{
	return json_string(rights & RIGHT_WRITE ? "rw" : rights & RIGHT_READ ? "r" : "");
}

static json_t *grants_to_json(const Afar__NamespaceInfo *info)
{
	json_t *grants = json_array();

	for (size_t i = 0; i < info->n_grants; i++)
		json_array_append_new(grants, json_pack("{s:o, s:o}", "principal",
							text(info->grants[i]->principal), "rights",
							rights_to_json(info->grants[i]->rights)));
	return grants;
}

static json_t *namespace_to_json(const Afar__NamespaceInfo *info)
{
	static const Afar__Policy no_policy = AFAR__POLICY__INIT;
	const Afar__Policy *policy = info->policy ? info->policy : &no_policy;

	return json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "namespace",
			 number(info->namespace_), "name", text(info->name), "tier",
			 policy->tier == AFAR_TIER_DRAM ? "dram" : "unknown", "width",
			 number(policy->width), "stripe_bytes", number(policy->stripe_bytes),
			 "reserved_bytes", number(info->reserved_bytes), "allocated_bytes",
			 number(info->allocated_bytes), "nr_regions", number(info->nr_regions),
			 "owner", text(info->owner), "rights", rights_to_json(info->rights),
			 "grants", grants_to_json(info));
}

static json_t *session_to_json(const Afar__SessionStatus *status)
{
	return json_pack("{s:o, s:o, s:o, s:b, s:b, s:o}", "session", hexadecimal(status->session),
			 "client", text(status->client), "principal", text(status->principal),
			 "is_connected", (int)status->is_connected, "is_ending",
			 (int)status->is_ending, "nr_references", number(status->nr_references));
}

static char *status_to_text(struct afar_session *session, const Afar__ClusterStatus *status)
{
	json_t *servers = json_array();
	json_t *namespaces = json_array();
	json_t *sessions = json_array();
	json_t *root;
	char *out;

	for (size_t i = 0; i < status->n_servers; i++)
		json_array_append_new(servers, server_to_json(session, status->servers[i]));
	for (size_t i = 0; i < status->n_namespaces; i++)
		json_array_append_new(namespaces, namespace_to_json(status->namespaces[i]));
	for (size_t i = 0; i < status->n_sessions; i++)
		json_array_append_new(sessions, session_to_json(status->sessions[i]));
	root = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cluster", text(status->cluster),
			 "principal", text(session->principal), "manager_incarnation",
			 hexadecimal(status->manager_incarnation), "uptime_ms",
			 number(status->uptime_ms), "servers", servers, "namespaces", namespaces,
			 "sessions", sessions);
	out = json_dumps(root, JSON_INDENT(2));
	json_decref(root);
	return out;
}

int afar_session_status(struct afar_session *session, char **json)
{
	Afar__Status status = AFAR__STATUS__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__Frame *reply;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!json)
		return error_fail(-EINVAL,
				  "get the status: there is nowhere to put it (json is null)");
	request.call_case = AFAR__REQUEST__CALL_STATUS;
	request.status = &status;
	ret = session_call_for(session, &request, AFAR__REPLY__RESULT_CLUSTER_STATUS, &reply);
	if (ret)
		return ret;
	*json = status_to_text(session, reply->reply->cluster_status);
	ret = *json ? 0 : error_code(-ENOMEM);
	afar__frame__free_unpacked(reply, NULL);
	return ret;
}
