/* SPDX-License-Identifier: BSD-3-Clause */
/* The cluster's status as JSON: afar-json(5) says what is in it. The library has it, and the daemon's status page. */
#include "rpc/status_json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <afar/error.h>
#include <afar/namespace.h>

#include "base/error.h"
#include "base/histogram.h"
#include "rpc/capability.h"

/* Replaces text that is not UTF-8, which JSON needs, by "?". The text may come from others. */
static json_t *text(const char *value)
{
	json_t *string = json_string(value);

	return string ? string : json_string("?");
}

/* JSON's numbers are signed here. Cuts larger values, which no counter reaches. */
static json_t *number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *number_if(bool is_known, uint64_t value)
{
	return is_known ? number(value) : json_null();
}

static json_t *text_if(const char *value)
{
	return *value ? text(value) : json_null();
}

static json_t *hexadecimal(uint64_t value)
{
	return json_sprintf("%016llx", (unsigned long long)value);
}

static const char *choose(const struct status_chooser *chooser, const Afar__Server *server,
			  uint64_t store)
{
	return chooser ? chooser->choose(chooser->context, server, store) : NULL;
}

/* Loopback and memory have no link that could be down. */
static const char *lane_state(bool is_up, const Afar__LaneReport *report)
{
	return is_up && report->link != 2 ? "up" : "down";
}

/* Returns who has counted the bytes over a lane; NULL: nobody could. */
static const char *counter_name(const Afar__LaneReport *report)
{
	return report->counted_by == 1 ? "transport" : report->counted_by == 2 ? "port" : NULL;
}

static json_t *lane_to_json(const Afar__Lane *lane, bool is_chosen, bool is_up,
			    const Afar__LaneReport *report)
{
	const char *counted_by = counter_name(report);

	return json_pack("{s:o, s:o, s:b, s:s, s:o, s:b, s:o, s:s?, s:o, s:o, s:o}", "transport",
			 text(lane->transport), "address", text(lane->address), "is_chosen",
			 (int)is_chosen, "state", lane_state(is_up, report), "numa_node",
			 number_if(report->numa_node > 0, report->numa_node - UINT64_C(1)),
			 "is_bound", (int)report->is_bound, "nr_connections",
			 number(report->nr_connections), "counted_by", counted_by, "bytes_in",
			 number_if(counted_by != NULL, report->bytes_in), "bytes_out",
			 number_if(counted_by != NULL, report->bytes_out), "congestion",
			 text_if(report->congestion));
}

/* Those to the server's DRAM, which come first. Each store tells of its own. */
static json_t *lanes_to_json(const struct status_chooser *chooser, const Afar__Server *server,
			     bool is_up, const Afar__ServerReport *report)
{
	static const Afar__LaneReport no_report = AFAR__LANE_REPORT__INIT;
	const char *chosen = choose(chooser, server, 0);
	json_t *lanes = json_array();

	for (size_t i = 0; i < server->n_lanes && server->lanes[i]->store == 0; i++) {
		const Afar__Lane *lane = server->lanes[i];
		bool is_chosen = chosen && strcmp(chosen, lane->transport) == 0;

		json_array_append_new(
			lanes, lane_to_json(lane, is_chosen, is_up,
					    i < report->n_lanes ? report->lanes[i] : &no_report));
	}
	return lanes;
}

static json_t *server_to_json(const struct status_chooser *chooser,
			      const Afar__ServerStatus *status)
{
	static const Afar__Server no_server = AFAR__SERVER__INIT;
	static const Afar__ServerReport no_report = AFAR__SERVER_REPORT__INIT;
	const Afar__Server *server = status->server ? status->server : &no_server;
	const Afar__ServerReport *report = status->report ? status->report : &no_report;

	return json_pack(
		"{s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
		"s:o, s:o, s:o, s:o, s:o}",
		"server", number(server->server), "name", text(server->name), "is_up",
		(int)status->is_up, "incarnation", hexadecimal(server->incarnation),
		"control_address", text(server->control_address), "lanes",
		lanes_to_json(chooser, server, status->is_up, report), "capacity_bytes",
		number(report->capacity_bytes), "granted_bytes", number(report->granted_bytes),
		"draining_bytes", number(report->draining_bytes), "dirty_bytes",
		number(report->dirty_bytes), "clean_bytes", number(report->clean_bytes),
		"scrubbed_bytes", number(report->scrubbed_bytes), "scrub_bytes_per_s",
		number(report->scrub_bytes_per_s), "nr_connections", number(report->nr_connections),
		"resident_bytes", number(report->resident_bytes), "pool_bytes",
		number(report->pool_bytes), "huge_bytes", number(report->huge_bytes),
		"nr_registrations", number(report->nr_registrations), "version",
		text_if(report->version), "report_age_ms",
		number_if(status->is_up, status->report_age_ms), "down_ms",
		number_if(!status->is_up, status->down_ms));
}

static json_t *uuid_to_json(const ProtobufCBinaryData *uuid)
{
	const uint8_t *id = uuid->data;

	if (uuid->len != 16)
		return json_null();
	return json_sprintf("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
			    id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9],
			    id[10], id[11], id[12], id[13], id[14], id[15]);
}

/* Returns the address of the store's lane; NULL: its server is not there, or has not told it. */
static const char *store_address(const Afar__ClusterStatus *status, const Afar__StoreStatus *store)
{
	for (size_t i = 0; i < status->n_servers; i++) {
		const Afar__Server *server = status->servers[i]->server;

		if (!server || server->server != store->server)
			continue;
		for (size_t j = 0; j < server->n_lanes; j++) {
			if (server->lanes[j]->store == store->store)
				return server->lanes[j]->address;
		}
	}
	return NULL;
}

/* Returns the transport that one would take to the store; NULL: none. */
static const char *choose_transport_to(const struct status_chooser *chooser,
				       const Afar__ClusterStatus *status,
				       const Afar__StoreStatus *store)
{
	for (size_t i = 0; i < status->n_servers; i++) {
		const Afar__Server *server = status->servers[i]->server;

		if (server && server->server == store->server)
			return choose(chooser, server, store->store);
	}
	return NULL;
}

/* Returns since when the store's server has said nothing. */
static uint64_t store_report_age(const Afar__ClusterStatus *status, const Afar__StoreStatus *store)
{
	for (size_t i = 0; i < status->n_servers; i++) {
		const Afar__Server *server = status->servers[i]->server;

		if (server && server->server == store->server)
			return status->servers[i]->report_age_ms;
	}
	return 0;
}

/* Adds what the store's cache and layer have done; null: nobody tells. */
static void add_store_work(json_t *out, const Afar__StoreReport *report)
{
	const Afar__StoreReport none = AFAR__STORE_REPORT__INIT;
	const Afar__StoreReport *is = report ? report : &none;
	/* A layer that was opened has written. */
	const bool is_told = is->written_blocks > 0;
	const struct {
		const char *name;
		uint64_t value;
	} fields[] = {
		{"cache_bytes", is->cache_bytes},	{"cached_bytes", is->cached_bytes},
		{"cache_hits", is->cache_hits},		{"cache_misses", is->cache_misses},
		{"cache_shared", is->cache_shared},	{"cache_past", is->cache_past},
		{"merged_writes", is->merged_writes},	{"device_reads", is->device_reads},
		{"user_blocks", is->user_blocks},	{"moved_blocks", is->moved_blocks},
		{"written_blocks", is->written_blocks}, {"nr_flushes", is->nr_flushes},
		{"nr_cleaned", is->nr_cleaned},
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		json_object_set_new(out, fields[i].name, number_if(is_told, fields[i].value));
	json_object_set_new(out, "write_amplification",
			    is_told && is->user_blocks > 0 ? json_real((double)is->written_blocks /
								       (double)is->user_blocks)
							   : json_null());
}

/* Adds what only a server that has the store open can tell, or null. */
static void add_store_report(json_t *out, const Afar__StoreReport *report)
{
	const struct {
		const char *name;
		uint64_t value;
	} fields[] = {
		{"used_bytes", report ? report->used_bytes : 0},
		{"map_bytes", report ? report->map_bytes : 0},
		{"nr_connections", report ? report->nr_connections : 0},
		{"nr_errors", report ? report->nr_errors : 0},
		{"nr_syncs", report ? report->nr_syncs : 0},
		{"bytes_in", report ? report->bytes_in : 0},
		{"bytes_out", report ? report->bytes_out : 0},
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		json_object_set_new(out, fields[i].name,
				    number_if(report != NULL, fields[i].value));
	json_object_set_new(out, "failure",
			    report && report->failure ? text(afar_strerror(report->failure))
						      : json_null());
	json_object_set_new(out, "refusal",
			    report && report->refusal ? text(afar_strerror(report->refusal))
						      : json_null());
	json_object_set_new(out, "refusal_ms",
			    number_if(report && report->refusal, report ? report->refusal_ms : 0));
	json_object_set_new(out, "slow_ms",
			    number_if(report && report->slow_ms, report ? report->slow_ms : 0));
	add_store_work(out, report);
}

static json_t *store_to_json(const struct status_chooser *chooser,
			     const Afar__ClusterStatus *status, const Afar__StoreStatus *store)
{
	const char *address = store->is_up ? store_address(status, store) : NULL;
	const char *transport = store->is_up ? choose_transport_to(chooser, status, store) : NULL;
	json_t *out;

	out = json_pack("{s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
			"store", hexadecimal(store->store), "uuid", uuid_to_json(&store->uuid),
			"path", text_if(store->path), "server",
			number_if(store->server != 0, store->server), "server_name",
			text_if(store->server_name), "state", store->is_up ? "up" : "away",
			"down_ms", number_if(!store->is_up, store->down_ms), "address",
			address ? text(address) : json_null(), "opening", number(store->opening),
			"capacity_bytes", number(store->capacity_bytes), "granted_bytes",
			number(store->granted_bytes), "releasing_bytes",
			number(store->releasing_bytes), "nr_orphans", number(store->nr_orphans),
			"orphan_bytes", number(store->orphan_bytes));
	if (!out)
		return NULL;
	json_object_set_new(out, "transport", transport ? text(transport) : json_null());
	json_object_set_new(out, "report_age_ms",
			    number_if(store->is_up, store_report_age(status, store)));
	add_store_report(out, store->is_up ? store->report : NULL);
	return out;
}

static json_t *stores_to_json(const struct status_chooser *chooser,
			      const Afar__ClusterStatus *status)
{
	json_t *stores = json_array();

	for (size_t i = 0; i < status->n_stores; i++)
		json_array_append_new(stores, store_to_json(chooser, status, status->stores[i]));
	return stores;
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

	return json_pack("{s:o, s:o, s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
			 "namespace", number(info->namespace_), "name", text(info->name),
			 "is_suspect", info->is_suspect, "tier",
			 policy->tier == AFAR_TIER_DRAM	   ? "dram"
			 : policy->tier == AFAR_TIER_FLASH ? "flash"
							   : "unknown",
			 "width", number(policy->width), "stripe_bytes",
			 number(policy->stripe_bytes), "reserved_bytes",
			 number(info->reserved_bytes), "allocated_bytes",
			 number(info->allocated_bytes), "nr_regions", number(info->nr_regions),
			 "max_bytes", number(policy->max_bytes), "owner", text(info->owner),
			 "rights", rights_to_json(info->rights), "grants", grants_to_json(info));
}

/* Gives the counts by the longest time of their bucket. The manager has checked them; this does not
 * rely on it. */
static json_t *operation_to_json(const Afar__OperationUse *use)
{
	uint64_t counts[HISTOGRAM_BUCKETS] = {0};
	json_t *histogram = json_array();
	bool is_known;

	for (size_t i = 0; i < use->n_buckets && i < use->n_counts; i++) {
		if (use->buckets[i] >= HISTOGRAM_BUCKETS)
			continue;
		counts[use->buckets[i]] = use->counts[i];
		json_array_append_new(histogram,
				      json_pack("[o, o]", number(histogram_ns(use->buckets[i])),
						number(use->counts[i])));
	}
	is_known = json_array_size(histogram) > 0;
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "nr", number(use->nr), "bytes",
			 number(use->bytes), "nr_failed", number(use->nr_failed), "p50_ns",
			 number_if(is_known, histogram_quantile(counts, 500)), "p99_ns",
			 number_if(is_known, histogram_quantile(counts, 990)), "p999_ns",
			 number_if(is_known, histogram_quantile(counts, 999)), "histogram",
			 histogram);
}

static json_t *use_to_json(const Afar__SessionUse *use, uint64_t age_ms)
{
	static const char *const kinds[] = {"read", "write", "atomic", "flush"};
	json_t *operations, *paths;

	if (!use)
		return json_null();
	operations = json_object();
	paths = json_array();
	for (size_t i = 0; i < use->n_operations && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		json_object_set_new(operations, kinds[i], operation_to_json(use->operations[i]));
	for (size_t i = 0; i < use->n_paths; i++)
		json_array_append_new(paths,
				      json_pack("{s:o, s:o, s:o, s:o, s:o}", "server",
						number(use->paths[i]->server), "transport",
						text(use->paths[i]->transport), "bytes_read",
						number(use->paths[i]->bytes_read), "bytes_written",
						number(use->paths[i]->bytes_written), "congestion",
						text_if(use->paths[i]->congestion)));
	return json_pack("{s:o, s:o, s:o}", "age_ms", number(age_ms), "operations", operations,
			 "paths", paths);
}

static json_t *session_to_json(const Afar__SessionStatus *status)
{
	bool is_leased = !status->is_connected && !status->is_ending;

	return json_pack("{s:o, s:o, s:o, s:b, s:b, s:o, s:o, s:o}", "session",
			 hexadecimal(status->session), "client", text(status->client), "principal",
			 text(status->principal), "is_connected", (int)status->is_connected,
			 "is_ending", (int)status->is_ending, "nr_references",
			 number(status->nr_references), "lease_left_ms",
			 number_if(is_leased, status->lease_left_ms), "use",
			 use_to_json(status->use, status->use_age_ms));
}

static json_t *principal_to_json(const Afar__KeyInfo *info)
{
	return json_pack("{s:o, s:s, s:o, s:o, s:o}", "principal", text(info->name), "kind",
			 info->is_server     ? "server"
			 : info->is_operator ? "operator"
					     : "client",
			 "nr_sessions", number(info->nr_sessions), "reserved_bytes",
			 number(info->reserved_bytes), "max_bytes", number(info->max_bytes));
}

static json_t *limits_to_json(const Afar__ClusterStatus *status)
{
	return json_pack("{s:o, s:o}", "lease_ms", number(status->lease_ms), "list_max",
			 number(status->list_max));
}

char *status_json(const Afar__ClusterStatus *status, const char *principal,
		  const struct status_chooser *chooser)
{
	json_t *servers = json_array();
	json_t *namespaces = json_array();
	json_t *sessions = json_array();
	json_t *principals = json_array();
	json_t *newer = json_array();
	json_t *root;
	char *out;

	for (size_t i = 0; i < status->n_servers; i++)
		json_array_append_new(servers, server_to_json(chooser, status->servers[i]));
	for (size_t i = 0; i < status->n_namespaces; i++)
		json_array_append_new(namespaces, namespace_to_json(status->namespaces[i]));
	for (size_t i = 0; i < status->n_sessions; i++)
		json_array_append_new(sessions, session_to_json(status->sessions[i]));
	for (size_t i = 0; i < status->n_principals; i++)
		json_array_append_new(principals, principal_to_json(status->principals[i]));
	for (size_t i = 0; i < status->n_newer; i++)
		json_array_append_new(newer, text(status->newer[i]));
	root = json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
		"s:o}",
		"cluster", text(status->cluster), "version", text_if(status->version), "time_ns",
		number_if(status->time_ns != 0, status->time_ns), "principal", text(principal),
		"manager_incarnation", hexadecimal(status->manager_incarnation), "uptime_ms",
		number(status->uptime_ms), "newer", newer, "servers", servers, "stores",
		stores_to_json(chooser, status), "namespaces", namespaces, "sessions", sessions,
		"principals", principals, "limits", limits_to_json(status), "nr_servers",
		number(status->nr_servers), "nr_stores", number(status->nr_stores), "nr_namespaces",
		number(status->nr_namespaces), "nr_sessions", number(status->nr_sessions));
	out = json_dumps(root, JSON_INDENT(2));
	json_decref(root);
	return out;
}
