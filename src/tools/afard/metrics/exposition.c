/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which metrics there are, and where each has its number. A family is a row of a table: the rows about servers, lanes and
 * stores serve twice, for a manager's servers ("afar_cluster_server_…") and for a server itself ("afar_server_…").
 *
 * Labels name servers, stores, lanes and namespaces; never regions, files or sessions, of which there may be millions.
 */
#include "exposition.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <afar/namespace.h>

#define NAME_MAX_BYTES 128
#define BLOCK_BYTES    4096U	       /* of a store */
#define SILENT_MS      UINT64_C(15000) /* a server reports every 10 s */

enum scale { AS_IT_IS, MILLISECONDS, BLOCKS };

/* A family with a number in a message. */
struct field {
	struct metric_family family; /* its name goes on behind the prefix of the table */
	size_t at, size;
	enum scale scale;
};

#define IN(type, member) offsetof(type, member), sizeof(((type *)0)->member)

static uint64_t number_in(const void *message, const struct field *field)
{
	const char *at = (const char *)message + field->at;
	uint32_t half;
	uint64_t whole;

	if (field->size == sizeof(half)) {
		memcpy(&half, at, sizeof(half));
		return half;
	}
	memcpy(&whole, at, sizeof(whole));
	return whole;
}

static void put_field(struct metrics_text *text, const struct metric_label *labels,
		      const struct field *field, const void *message)
{
	uint64_t number = number_in(message, field);

	switch (field->scale) {
	case AS_IT_IS:
		metrics_number(text, labels, number);
		break;
	case MILLISECONDS:
		metrics_real(text, labels, (double)number / 1e3);
		break;
	case BLOCKS:
		metrics_number(text, labels, number * BLOCK_BYTES);
		break;
	}
}

/* The family of a table's row. It is good until the next one. */
static void begin_field(struct metrics_text *text, const char *prefix, const struct field *field)
{
	static __thread struct metric_family family;
	static __thread char name[NAME_MAX_BYTES];

	snprintf(name, sizeof(name), "%s_%s", prefix, field->family.name);
	family = field->family;
	family.name = name;
	metrics_family(text, &family);
}

/* ---- The process */

static void expose_process(struct metrics_text *text, const struct exposition *exposition)
{
	static const struct metric_family build = {"afar_build", METRIC_INFO, NULL,
						   "The daemon: its version, and what it is."};
	static const struct metric_family started = {"process_start_time_seconds", METRIC_GAUGE,
						     "seconds",
						     "When the process began, since 1970."};
	static const struct metric_family cpu = {"process_cpu_seconds", METRIC_COUNTER, "seconds",
						 "Processor time that the process has used."};
	static const struct metric_family resident = {"process_resident_memory_bytes", METRIC_GAUGE,
						      "bytes", "Memory that the process has."};
	const struct metric_label labels[] = {
		{"version", exposition->version}, {"role", exposition->role}, {0}};
	unsigned long long nr_pages = 0;
	struct timespec used;
	FILE *statm = fopen("/proc/self/statm", "re");

	metrics_family(text, &build);
	metrics_info(text, labels);
	metrics_family(text, &started);
	metrics_real(text, NULL, exposition->started_at);
	metrics_family(text, &cpu);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	metrics_real(text, NULL, (double)used.tv_sec + (double)used.tv_nsec / 1e9);
	if (statm && fscanf(statm, "%*u %llu", &nr_pages) == 1) {
		metrics_family(text, &resident);
		metrics_number(text, NULL, nr_pages * (uint64_t)sysconf(_SC_PAGESIZE));
	}
	if (statm)
		fclose(statm);
}

/* ---- Servers and their lanes */

#define REPORT(member) IN(Afar__ServerReport, member)
static const struct field server_fields[] = {
	{{"memory_capacity_bytes", METRIC_GAUGE, "bytes", "Memory that the server lends at most."},
	 REPORT(capacity_bytes),
	 AS_IT_IS},
	{{"memory_granted_bytes", METRIC_GAUGE, "bytes", "Memory in extents of namespaces."},
	 REPORT(granted_bytes),
	 AS_IT_IS},
	{{"memory_clean_bytes", METRIC_GAUGE, "bytes", "Zeroed memory that is kept ready."},
	 REPORT(clean_bytes),
	 AS_IT_IS},
	{{"memory_draining_bytes", METRIC_GAUGE, "bytes",
	  "Released memory whose connections and keys are being closed."},
	 REPORT(draining_bytes),
	 AS_IT_IS},
	{{"memory_dirty_bytes", METRIC_GAUGE, "bytes", "Released memory that waits to be zeroed."},
	 REPORT(dirty_bytes),
	 AS_IT_IS},
	{{"memory_huge_bytes", METRIC_GAUGE, "bytes", "Memory of the process on huge pages."},
	 REPORT(huge_bytes),
	 AS_IT_IS},
	{{"memory_scrubbed_bytes", METRIC_COUNTER, "bytes", "Memory that was zeroed."},
	 REPORT(scrubbed_bytes),
	 AS_IT_IS},
	{{"connections", METRIC_GAUGE, NULL, "Data connections over the lanes to memory."},
	 REPORT(nr_connections),
	 AS_IT_IS},
	{{"registrations", METRIC_COUNTER, NULL, "Extents that were registered with a fabric."},
	 REPORT(nr_registrations),
	 AS_IT_IS},
};

#define LANE(member) IN(Afar__LaneReport, member)
static const struct field lane_fields[] = {
	{{"connections", METRIC_GAUGE, NULL, "Data connections over the lane."},
	 LANE(nr_connections),
	 AS_IT_IS},
	{{"received_bytes", METRIC_COUNTER, "bytes",
	  "Bytes to the server, if somebody can count them."},
	 LANE(bytes_in),
	 AS_IT_IS},
	{{"sent_bytes", METRIC_COUNTER, "bytes",
	  "Bytes from the server, if somebody can count them."},
	 LANE(bytes_out),
	 AS_IT_IS},
};

#define NUMBER_BYTES 24

/* The labels of a server, and what they point to. A server that stands for itself has none. */
struct server_labels {
	char id[NUMBER_BYTES], lane[NUMBER_BYTES];
	struct metric_label labels[5];
};

static const struct metric_label *label_server(const Afar__Server *server, bool is_own,
					       struct server_labels *out)
{
	snprintf(out->id, sizeof(out->id), "%" PRIu64, server->server);
	out->labels[0] = (struct metric_label){"server", server->name};
	out->labels[1] = (struct metric_label){"server_id", out->id};
	out->labels[2] = (struct metric_label){0};
	return out->labels + (is_own ? 2 : 0);
}

/* Its address may be another with each start, so it is no label. */
static const struct metric_label *label_lane(const Afar__Server *server, bool is_own, size_t i,
					     struct server_labels *out)
{
	const struct metric_label *labels = label_server(server, is_own, out);

	snprintf(out->lane, sizeof(out->lane), "%zu", i);
	out->labels[2] = (struct metric_label){"lane", out->lane};
	out->labels[3] = (struct metric_label){"transport", server->lanes[i]->transport};
	out->labels[4] = (struct metric_label){0};
	return labels;
}

static bool has_reported(const Afar__ServerStatus *status)
{
	return status->server && status->report && status->is_up;
}

static void expose_servers(struct metrics_text *text, const Afar__ClusterStatus *cluster,
			   const char *prefix, bool is_own)
{
	struct server_labels labels;

	for (size_t f = 0; f < sizeof(server_fields) / sizeof(server_fields[0]); f++) {
		begin_field(text, prefix, &server_fields[f]);
		for (size_t i = 0; i < cluster->n_servers; i++)
			if (is_own || has_reported(cluster->servers[i]))
				put_field(
					text,
					label_server(cluster->servers[i]->server, is_own, &labels),
					&server_fields[f], cluster->servers[i]->report);
	}
}

static void put_lanes(struct metrics_text *text, const Afar__ServerStatus *status, bool is_own,
		      const struct field *field)
{
	const Afar__ServerReport *report = status->report;
	struct server_labels labels;

	for (size_t i = 0; i < report->n_lanes && i < status->server->n_lanes; i++)
		if (report->lanes[i]->counted_by != 0 || field == &lane_fields[0])
			put_field(text, label_lane(status->server, is_own, i, &labels), field,
				  report->lanes[i]);
}

static void expose_lanes(struct metrics_text *text, const Afar__ClusterStatus *cluster,
			 const char *prefix, bool is_own)
{
	for (size_t f = 0; f < sizeof(lane_fields) / sizeof(lane_fields[0]); f++) {
		begin_field(text, prefix, &lane_fields[f]);
		for (size_t i = 0; i < cluster->n_servers; i++)
			if (is_own || has_reported(cluster->servers[i]))
				put_lanes(text, cluster->servers[i], is_own, &lane_fields[f]);
	}
}

/* ---- Stores */

#define STORE(member) IN(Afar__StoreReport, member)
static const struct field store_fields[] = {
	{{"used_bytes", METRIC_GAUGE, "bytes", "In blocks that hold something."},
	 STORE(used_bytes),
	 AS_IT_IS},
	{{"map_bytes", METRIC_GAUGE, "bytes", "Memory for the map of the blocks."},
	 STORE(map_bytes),
	 AS_IT_IS},
	{{"cache_capacity_bytes", METRIC_GAUGE, "bytes", "Memory for pages that were read."},
	 STORE(cache_bytes),
	 AS_IT_IS},
	{{"cache_used_bytes", METRIC_GAUGE, "bytes", "Memory with pages that were read."},
	 STORE(cached_bytes),
	 AS_IT_IS},
	{{"connections", METRIC_GAUGE, NULL, "Data connections."}, STORE(nr_connections), AS_IT_IS},
	{{"bad_blocks", METRIC_GAUGE, NULL, "Blocks that the last pass of the scrub found bad."},
	 STORE(nr_bad),
	 AS_IT_IS},
	{{"slow_seconds", METRIC_GAUGE, "seconds",
	  "How long the oldest operation at the device takes by now; 0 if less than 1."},
	 STORE(slow_ms),
	 MILLISECONDS},
	{{"received_bytes", METRIC_COUNTER, "bytes", "Bytes from clients."},
	 STORE(bytes_in),
	 AS_IT_IS},
	{{"sent_bytes", METRIC_COUNTER, "bytes", "Bytes to clients."}, STORE(bytes_out), AS_IT_IS},
	{{"errors", METRIC_COUNTER, NULL,
	  "Reads and writes that failed at the device, and bad checksums."},
	 STORE(nr_errors),
	 AS_IT_IS},
	{{"syncs", METRIC_COUNTER, NULL, "Syncs and durable writes."}, STORE(nr_syncs), AS_IT_IS},
	{{"flushes", METRIC_COUNTER, NULL, "Flushes of the device."}, STORE(nr_flushes), AS_IT_IS},
	{{"device_reads", METRIC_COUNTER, NULL, "Reads of the device, for reads."},
	 STORE(device_reads),
	 AS_IT_IS},
	{{"cache_hits", METRIC_COUNTER, NULL, "Blocks that reads found in memory."},
	 STORE(cache_hits),
	 AS_IT_IS},
	{{"cache_misses", METRIC_COUNTER, NULL, "Blocks that reads had brought into memory."},
	 STORE(cache_misses),
	 AS_IT_IS},
	{{"cache_shared", METRIC_COUNTER, NULL, "Blocks that waited for another's read."},
	 STORE(cache_shared),
	 AS_IT_IS},
	{{"cache_bypassed", METRIC_COUNTER, NULL, "Blocks that were read past the memory."},
	 STORE(cache_past),
	 AS_IT_IS},
	{{"merged_writes", METRIC_COUNTER, NULL,
	  "Writes of parts of blocks that went along with another's."},
	 STORE(merged_writes),
	 AS_IT_IS},
	{{"user_written_bytes", METRIC_COUNTER, "bytes", "Blocks that were written for clients."},
	 STORE(user_blocks),
	 BLOCKS},
	{{"moved_bytes", METRIC_COUNTER, "bytes", "Blocks that the cleaner has written anew."},
	 STORE(moved_blocks),
	 BLOCKS},
	{{"device_written_bytes", METRIC_COUNTER, "bytes", "All blocks written to the device."},
	 STORE(written_blocks),
	 BLOCKS},
	{{"cleaned_segments", METRIC_COUNTER, NULL, "Segments that the cleaner has freed."},
	 STORE(nr_cleaned),
	 AS_IT_IS},
};

#define STATUS(member) IN(Afar__StoreStatus, member)
/* What a manager knows of a store even if its server is away. */
static const struct field store_status_fields[] = {
	{{"capacity_bytes", METRIC_GAUGE, "bytes", "For extents."},
	 STATUS(capacity_bytes),
	 AS_IT_IS},
	{{"granted_bytes", METRIC_GAUGE, "bytes", "In extents of namespaces."},
	 STATUS(granted_bytes),
	 AS_IT_IS},
	{{"releasing_bytes", METRIC_GAUGE, "bytes",
	  "Of these, in extents that are being released."},
	 STATUS(releasing_bytes),
	 AS_IT_IS},
	{{"orphan_bytes", METRIC_GAUGE, "bytes", "In extents that the manager does not know."},
	 STATUS(orphan_bytes),
	 AS_IT_IS},
	{{"away_seconds", METRIC_GAUGE, "seconds", "How long no server has had it; 0: one has."},
	 STATUS(down_ms),
	 MILLISECONDS},
};

struct store_labels {
	char id[NUMBER_BYTES];
	struct metric_label labels[4];
};

static const struct metric_label *label_store(const Afar__StoreStatus *store, bool is_own,
					      struct store_labels *out)
{
	snprintf(out->id, sizeof(out->id), "%016" PRIx64, store->store);
	out->labels[0] = (struct metric_label){"store", out->id};
	out->labels[1] = (struct metric_label){"device", store->path};
	out->labels[2] = (struct metric_label){is_own ? NULL : "server", store->server_name};
	out->labels[3] = (struct metric_label){0};
	return out->labels;
}

static void expose_stores(struct metrics_text *text, const Afar__ClusterStatus *cluster,
			  const char *prefix, bool is_own)
{
	struct store_labels labels;

	for (size_t f = 0; f < sizeof(store_status_fields) / sizeof(store_status_fields[0]); f++) {
		begin_field(text, prefix, &store_status_fields[f]);
		for (size_t i = 0; i < cluster->n_stores; i++)
			put_field(text, label_store(cluster->stores[i], is_own, &labels),
				  &store_status_fields[f], cluster->stores[i]);
	}
	for (size_t f = 0; f < sizeof(store_fields) / sizeof(store_fields[0]); f++) {
		begin_field(text, prefix, &store_fields[f]);
		for (size_t i = 0; i < cluster->n_stores; i++)
			if (cluster->stores[i]->is_up && cluster->stores[i]->report)
				put_field(text, label_store(cluster->stores[i], is_own, &labels),
					  &store_fields[f], cluster->stores[i]->report);
	}
}

/* ---- A server's own */

static void expose_requests(struct metrics_text *text, const struct server_view *own)
{
	static const struct metric_family family = {
		"afar_store_request_duration_seconds", METRIC_HISTOGRAM, "seconds",
		"From when the store has a request until its answer can go, by kind."};
	static const char *const kinds[SERVER_REQUESTS] = {"read", "write", "durable_write",
							   "sync"};

	metrics_family(text, &family);
	for (size_t i = 0; i < own->cluster.n_stores && i < SERVER_STORES_MAX; i++) {
		for (unsigned kind = 0; kind < SERVER_REQUESTS; kind++) {
			char id[NUMBER_BYTES];
			const struct metric_label labels[] = {
				{"store", id}, {"tier", "flash"}, {"kind", kinds[kind]}, {0}};

			snprintf(id, sizeof(id), "%016" PRIx64, own->cluster.stores[i]->store);
			metrics_histogram(text, labels, &own->latencies[i][kind]);
		}
	}
}

static void expose_own(struct metrics_text *text, const struct server_view *own)
{
	static const struct metric_family joined = {"afar_server_joined", METRIC_GAUGE, NULL,
						    "1: the manager has taken the server in."};

	metrics_family(text, &joined);
	metrics_number(text, NULL, own->cluster.servers[0]->is_up ? 1 : 0);
	expose_servers(text, &own->cluster, "afar_server", true);
	expose_lanes(text, &own->cluster, "afar_server_lane", true);
	expose_stores(text, &own->cluster, "afar_store", true);
	expose_requests(text, own);
}

/* ---- A manager's counts */

static void expose_calls(struct metrics_text *text, const struct manager_counts *counts)
{
	static const struct metric_family family = {
		"afar_manager_call_duration_seconds", METRIC_HISTOGRAM, "seconds",
		"From when a call to the manager came until its answer went, waiting for others "
		"included."};
	static const struct metric_family commits = {
		"afar_manager_commit_duration_seconds", METRIC_HISTOGRAM, "seconds",
		"Of commits of the manager's records to its disk."};

	metrics_family(text, &family);
	for (size_t i = 0; i < afar__request__descriptor.n_fields && i < MANAGER_CALLS_MAX; i++) {
		const struct metric_label labels[] = {
			{"call", afar__request__descriptor.fields[i].name}, {0}};

		if (latency_nr(&counts->calls[i]) > 0)
			metrics_histogram(text, labels, &counts->calls[i]);
	}
	metrics_family(text, &commits);
	metrics_histogram(text, NULL, &counts->commits);
}

static void expose_events(struct metrics_text *text, const struct manager_counts *counts)
{
	const struct {
		struct metric_family family;
		const struct counter *counter;
	} rows[] = {
		{{"afar_manager_commit_failures", METRIC_COUNTER, NULL,
		  "Commits that failed; nothing of them was acknowledged."},
		 &counts->nr_commits_failed},
		{{"afar_manager_commit_failing", METRIC_GAUGE, NULL, "1: the last commit failed."},
		 &counts->is_failing},
		{{"afar_manager_sessions_opened", METRIC_COUNTER, NULL, "Sessions that began."},
		 &counts->nr_sessions_opened},
		{{"afar_manager_sessions_expired", METRIC_COUNTER, NULL,
		  "Sessions that lost their connection and did not come back in time."},
		 &counts->nr_sessions_expired},
		{{"afar_manager_fences", METRIC_COUNTER, NULL,
		  "Servers that closed what an ended session had there."},
		 &counts->nr_fences},
		{{"afar_manager_recalls", METRIC_COUNTER, NULL,
		  "Files that sessions were asked to give up, for others."},
		 &counts->nr_recalls},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		metrics_family(text, &rows[i].family);
		metrics_number(text, NULL, counter_get(rows[i].counter));
	}
}

static void expose_operations(struct metrics_text *text, const struct manager_counts *counts)
{
	static const char *const kinds[MANAGER_KINDS] = {"read", "write", "atomic", "flush"};
	static const struct metric_family families[] = {
		{"afar_client_operations", METRIC_COUNTER, NULL,
		 "Operations of programs, as they say."},
		{"afar_client_failures", METRIC_COUNTER, NULL, "Of these, those that failed."},
		{"afar_client_bytes", METRIC_COUNTER, "bytes", "Bytes of these operations."},
		{"afar_client_operation_duration_seconds", METRIC_HISTOGRAM, "seconds",
		 "How long operations took, as programs say; sampled."},
	};

	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		metrics_family(text, &families[f]);
		for (unsigned kind = 0; kind < MANAGER_KINDS; kind++) {
			const struct manager_operations *operations = &counts->operations[kind];
			const struct counter *counters[] = {&operations->nr, &operations->nr_failed,
							    &operations->bytes};
			const struct metric_label labels[] = {{"kind", kinds[kind]}, {0}};

			if (f < sizeof(counters) / sizeof(counters[0]))
				metrics_number(text, labels, counter_get(counters[f]));
			else
				metrics_histogram(text, labels, &operations->spans);
		}
	}
}

/* ---- The cluster, as a manager sees it */

static const char *const server_states[] = {"up", "silent", "down"};

static size_t server_state(const Afar__ServerStatus *status)
{
	return !status->is_up ? 2 : status->report_age_ms >= SILENT_MS ? 1 : 0;
}

static const char *const store_states[] = {"up", "slow", "read_only", "failed", "away"};

static size_t store_state(const Afar__StoreStatus *store)
{
	const Afar__StoreReport *report = store->report;

	if (!store->is_up)
		return 4;
	if (!report)
		return 0;
	return report->failure ? 3 : report->refusal ? 2 : report->slow_ms ? 1 : 0;
}

static const char *const session_states[] = {"connected", "leased", "ending"};

static size_t session_state(const Afar__SessionStatus *session)
{
	return session->is_ending ? 2 : session->is_connected ? 0 : 1;
}

static void put_states(struct metrics_text *text, const struct metric_family *family,
		       const char *const *states, const uint64_t *counts, size_t nr)
{
	metrics_family(text, family);
	for (size_t i = 0; i < nr; i++) {
		const struct metric_label labels[] = {{"state", states[i]}, {0}};

		metrics_number(text, labels, counts[i]);
	}
}

static void expose_states(struct metrics_text *text, const Afar__ClusterStatus *cluster)
{
	static const struct metric_family servers = {"afar_cluster_servers", METRIC_GAUGE, NULL,
						     "Servers, by state."};
	static const struct metric_family stores = {"afar_cluster_stores", METRIC_GAUGE, NULL,
						    "Stores, by state."};
	static const struct metric_family sessions = {"afar_cluster_sessions", METRIC_GAUGE, NULL,
						      "Sessions, by state."};
	uint64_t nr_servers[3] = {0}, nr_stores[5] = {0}, nr_sessions[3] = {0};

	for (size_t i = 0; i < cluster->n_servers; i++)
		nr_servers[server_state(cluster->servers[i])]++;
	for (size_t i = 0; i < cluster->n_stores; i++)
		nr_stores[store_state(cluster->stores[i])]++;
	for (size_t i = 0; i < cluster->n_sessions; i++)
		nr_sessions[session_state(cluster->sessions[i])]++;
	put_states(text, &servers, server_states, nr_servers, 3);
	put_states(text, &stores, store_states, nr_stores, 5);
	put_states(text, &sessions, session_states, nr_sessions, 3);
}

static void expose_server_states(struct metrics_text *text, const Afar__ClusterStatus *cluster)
{
	static const struct metric_family families[] = {
		{"afar_cluster_server_up", METRIC_GAUGE, NULL,
		 "1: the server is connected to the manager."},
		{"afar_cluster_server_report_age_seconds", METRIC_GAUGE, "seconds",
		 "How old what is said of the server is; while it is connected."},
		{"afar_cluster_server_down_seconds", METRIC_GAUGE, "seconds",
		 "How long the server has not been connected; 0: it is."},
	};
	struct server_labels labels;

	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		metrics_family(text, &families[f]);
		for (size_t i = 0; i < cluster->n_servers; i++) {
			const Afar__ServerStatus *status = cluster->servers[i];
			const struct metric_label *all =
				label_server(status->server, false, &labels);

			if (f == 0)
				metrics_number(text, all, status->is_up ? 1 : 0);
			else if (f == 2)
				metrics_real(text, all, (double)status->down_ms / 1e3);
			else if (status->is_up)
				metrics_real(text, all, (double)status->report_age_ms / 1e3);
		}
	}
}

static void expose_store_states(struct metrics_text *text, const Afar__ClusterStatus *cluster)
{
	static const struct metric_family family = {
		"afar_cluster_store_healthy", METRIC_GAUGE, NULL,
		"1: a server has the store, and it reads, writes, and is not slow."};
	struct store_labels labels;

	metrics_family(text, &family);
	for (size_t i = 0; i < cluster->n_stores; i++)
		metrics_number(text, label_store(cluster->stores[i], false, &labels),
			       store_state(cluster->stores[i]) == 0 ? 1 : 0);
}

#define NAMESPACE(member) IN(Afar__NamespaceInfo, member)
static const struct field namespace_fields[] = {
	{{"reserved_bytes", METRIC_GAUGE, "bytes", "In extents of the namespace."},
	 NAMESPACE(reserved_bytes),
	 AS_IT_IS},
	{{"allocated_bytes", METRIC_GAUGE, "bytes", "Of these, in regions."},
	 NAMESPACE(allocated_bytes),
	 AS_IT_IS},
	{{"regions", METRIC_GAUGE, NULL, "Regions of the namespace."},
	 NAMESPACE(nr_regions),
	 AS_IT_IS},
};

static const char *tier_of(const Afar__NamespaceInfo *info)
{
	if (!info->policy)
		return "unknown";
	return info->policy->tier == AFAR_TIER_FLASH  ? "flash"
	       : info->policy->tier == AFAR_TIER_DRAM ? "dram"
						      : "unknown";
}

static void expose_namespaces(struct metrics_text *text, const Afar__ClusterStatus *cluster)
{
	for (size_t f = 0; f < sizeof(namespace_fields) / sizeof(namespace_fields[0]); f++) {
		begin_field(text, "afar_namespace", &namespace_fields[f]);
		for (size_t i = 0; i < cluster->n_namespaces; i++) {
			const Afar__NamespaceInfo *info = cluster->namespaces[i];
			const struct metric_label labels[] = {{"namespace", info->name},
							      {"tier", tier_of(info)},
							      {"kind", info->files    ? "files"
								       : info->volume ? "volume"
										      : "regions"},
							      {0}};

			put_field(text, labels, &namespace_fields[f], info);
		}
	}
}

static void expose_records(struct metrics_text *text, const Afar__ClusterStatus *cluster)
{
	static const struct metric_family newer = {
		"afar_cluster_refused_newer", METRIC_GAUGE, NULL,
		"Servers that do not join, as they have seen later records than the manager's."};
	static const struct metric_family suspect = {
		"afar_cluster_suspect_namespaces", METRIC_GAUGE, NULL,
		"Namespaces whose records are an older copy's, until an operator accepts them."};
	uint64_t nr_suspect = 0;

	for (size_t i = 0; i < cluster->n_namespaces; i++)
		nr_suspect += cluster->namespaces[i]->is_suspect != 0;
	metrics_family(text, &newer);
	metrics_number(text, NULL, cluster->n_newer);
	metrics_family(text, &suspect);
	metrics_number(text, NULL, nr_suspect);
}

static void expose_cluster(struct metrics_text *text, const struct exposition *exposition)
{
	static const struct metric_family age = {
		"afar_manager_view_age_seconds", METRIC_GAUGE, "seconds",
		"How old what is said of the cluster is; it grows while the manager does not "
		"answer."};

	metrics_family(text, &age);
	metrics_real(text, NULL, exposition->cluster_age);
	expose_states(text, exposition->cluster);
	expose_server_states(text, exposition->cluster);
	expose_servers(text, exposition->cluster, "afar_cluster_server", false);
	expose_lanes(text, exposition->cluster, "afar_cluster_lane", false);
	expose_store_states(text, exposition->cluster);
	expose_stores(text, exposition->cluster, "afar_cluster_store", false);
	expose_namespaces(text, exposition->cluster);
	expose_records(text, exposition->cluster);
}

void expose(struct metrics_text *text, const struct exposition *exposition)
{
	expose_process(text, exposition);
	if (exposition->counts) {
		expose_calls(text, exposition->counts);
		expose_events(text, exposition->counts);
		expose_operations(text, exposition->counts);
	}
	if (exposition->cluster)
		expose_cluster(text, exposition);
	if (exposition->own)
		expose_own(text, exposition->own);
}
