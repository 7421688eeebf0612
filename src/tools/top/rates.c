/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes rates: differences of counters over the time between their reports, by the manager's
 * clock. Servers and clients claim the counters, so one that goes back counts as one that stood
 * still. Called by cmd_top.c.
 */
#include "rates.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/histogram.h"

static const char *const kinds[] = {"read", "write", "atomic", "flush"};
#define NR_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* ---- Fields */

static uint64_t number_of(const json_t *object, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(object, name));

	return value > 0 ? (uint64_t)value : 0;
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

static void copy(json_t *out, const json_t *from, const char *name)
{
	json_t *value = json_object_get(from, name);
	bool is_sound = value && !(json_is_number(value) && json_number_value(value) < 0);

	json_object_set(out, name, is_sound ? value : json_null());
}

static json_t *number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* Finds the entry of `list` whose field is the same as that of `like`. */
static const json_t *find_like(const json_t *list, const json_t *like, const char *field)
{
	const json_t *wanted = json_object_get(like, field);
	const json_t *entry;
	size_t i;

	json_array_foreach(list, i, entry)
	{
		if (wanted && json_equal(json_object_get(entry, field), wanted))
			return entry;
	}
	return NULL;
}

/* ---- Differences */

/* Returns when a report came, by the manager's clock. */
static uint64_t time_of(const json_t *root, uint64_t age_ms)
{
	uint64_t uptime = number_of(root, "uptime_ms");

	return uptime > age_ms ? uptime - age_ms : 0;
}

static uint64_t difference(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

/* Returns a rate; null if no time has passed. */
static json_t *rate(uint64_t before, uint64_t now, uint64_t ms)
{
	return ms ? json_real((double)difference(before, now) * 1000 / (double)ms) : json_null();
}

static json_t *rate_of(const json_t *before, const json_t *now, const char *name, uint64_t ms)
{
	return rate(number_of(before, name), number_of(now, name), ms);
}

/* ---- Servers */

static json_t *lane_rates(const json_t *before, const json_t *now, uint64_t ms)
{
	static const char *const facts[] = {"transport", "address",	   "state",	"numa_node",
					    "is_bound",	 "nr_connections", "counted_by"};
	json_t *out = json_object();
	bool is_counted = json_is_string(json_object_get(now, "counted_by")) && before;

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		copy(out, now, facts[i]);
	json_object_set_new(out, "in_bytes_per_s",
			    rate_of(before, now, "bytes_in", is_counted ? ms : 0));
	json_object_set_new(out, "out_bytes_per_s",
			    rate_of(before, now, "bytes_out", is_counted ? ms : 0));
	return out;
}

/* Adds what a store's cache and layer did. `ms`: 0: it cannot be told. */
static void add_store_work(json_t *out, const json_t *before, const json_t *now, uint64_t ms)
{
	static const struct {
		const char *name, *of;
	} rates[] = {
		{"hits_per_s", "cache_hits"},
		{"misses_per_s", "cache_misses"},
		{"shared_per_s", "cache_shared"},
		{"past_per_s", "cache_past"},
		{"device_reads_per_s", "device_reads"},
		{"merged_writes_per_s", "merged_writes"},
		{"user_blocks_per_s", "user_blocks"},
		{"moved_blocks_per_s", "moved_blocks"},
		{"written_blocks_per_s", "written_blocks"},
		{"flushes_per_s", "nr_flushes"},
	};
	const bool is_told = json_is_integer(json_object_get(now, "written_blocks"));
	const uint64_t user =
		difference(number_of(before, "user_blocks"), number_of(now, "user_blocks"));
	const uint64_t written =
		difference(number_of(before, "written_blocks"), number_of(now, "written_blocks"));

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		json_object_set_new(out, rates[i].name,
				    rate_of(before, now, rates[i].of, is_told ? ms : 0));
	json_object_set_new(out, "write_amplification",
			    is_told && ms && user ? json_real((double)written / (double)user)
						  : json_null());
}

/* Returns the rates of the lanes of the server's stores. `ms` is between its reports. */
static json_t *store_rates(const json_t *before_root, const json_t *now_root, const json_t *server,
			   uint64_t ms)
{
	static const char *const facts[] = {"store",   "path",	  "state",   "failure",
					    "refusal", "slow_ms", "address", "nr_connections"};
	json_t *out = json_array();
	const json_t *now;
	size_t i;

	json_array_foreach(json_object_get(now_root, "stores"), i, now)
	{
		const json_t *before =
			find_like(json_object_get(before_root, "stores"), now, "store");
		bool is_same;
		json_t *rates;

		if (!json_equal(json_object_get(now, "server"), json_object_get(server, "server")))
			continue;
		/* Another opening has begun to count from 0. */
		is_same = before && json_equal(json_object_get(before, "opening"),
					       json_object_get(now, "opening"));
		rates = json_object();
		for (size_t j = 0; j < sizeof(facts) / sizeof(facts[0]); j++)
			copy(rates, now, facts[j]);
		json_object_set_new(rates, "in_bytes_per_s",
				    rate_of(before, now, "bytes_in", is_same ? ms : 0));
		json_object_set_new(rates, "out_bytes_per_s",
				    rate_of(before, now, "bytes_out", is_same ? ms : 0));
		add_store_work(rates, before, now, is_same ? ms : 0);
		json_array_append_new(out, rates);
	}
	return out;
}

static json_t *server_rates(const json_t *before, const json_t *before_root, const json_t *now,
			    const json_t *now_root)
{
	static const char *const facts[] = {"server",	      "name",		"is_up",
					    "down_ms",	      "capacity_bytes", "granted_bytes",
					    "clean_bytes",    "draining_bytes", "dirty_bytes",
					    "nr_connections", "resident_bytes"};
	const json_t *lanes_before = json_object_get(before, "lanes"), *lane;
	json_t *out = json_object(), *lanes = json_array();
	uint64_t ms = 0;
	size_t i;

	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		copy(out, now, facts[i]);
	/* Another incarnation has begun to count from 0. */
	if (before &&
	    json_equal(json_object_get(before, "incarnation"), json_object_get(now, "incarnation")))
		ms = difference(time_of(before_root, number_of(before, "report_age_ms")),
				time_of(now_root, number_of(now, "report_age_ms")));
	json_array_foreach(json_object_get(now, "lanes"), i, lane)
		json_array_append_new(lanes, lane_rates(json_array_get(lanes_before, i), lane, ms));
	json_object_set_new(out, "scrub_bytes_per_s", rate_of(before, now, "scrubbed_bytes", ms));
	json_object_set_new(out, "lanes", lanes);
	json_object_set_new(out, "stores", store_rates(before_root, now_root, now, ms));
	json_object_set_new(out, "by_clients", json_array());
	return out;
}

/* ---- Sessions */

/* Adds the counts that the histogram has gained. */
static void add_gained(const json_t *before, const json_t *now, uint64_t gained[HISTOGRAM_BUCKETS])
{
	uint64_t past[HISTOGRAM_BUCKETS] = {0};
	const json_t *pair;
	size_t i;

	json_array_foreach(json_object_get(before, "histogram"), i, pair)
	{
		json_int_t ns = json_integer_value(json_array_get(pair, 0));
		json_int_t count = json_integer_value(json_array_get(pair, 1));

		if (ns >= 0 && count > 0)
			past[histogram_bucket((uint64_t)ns)] = (uint64_t)count;
	}
	json_array_foreach(json_object_get(now, "histogram"), i, pair)
	{
		json_int_t ns = json_integer_value(json_array_get(pair, 0));
		json_int_t count = json_integer_value(json_array_get(pair, 1));
		unsigned bucket;

		if (ns < 0 || count <= 0)
			continue;
		bucket = histogram_bucket((uint64_t)ns);
		gained[bucket] =
			saturating_add(gained[bucket], difference(past[bucket], (uint64_t)count));
	}
}

static void set_quantiles(json_t *out, const uint64_t gained[HISTOGRAM_BUCKETS])
{
	static const struct {
		const char *name;
		unsigned per_mille;
	} quantiles[] = {{"p50_ns", 500}, {"p99_ns", 990}, {"p999_ns", 999}};
	bool is_known = histogram_quantile(gained, 1000) > 0;

	for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++)
		json_object_set_new(
			out, quantiles[i].name,
			is_known ? number(histogram_quantile(gained, quantiles[i].per_mille))
				 : json_null());
}

static json_t *operation_rates(const json_t *before, const json_t *now, uint64_t ms,
			       uint64_t all[HISTOGRAM_BUCKETS])
{
	uint64_t gained[HISTOGRAM_BUCKETS] = {0};
	json_t *out = json_object();

	if (ms)
		add_gained(before, now, gained);
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		all[i] = saturating_add(all[i], gained[i]);
	json_object_set_new(out, "nr_per_s", rate_of(before, now, "nr", ms));
	json_object_set_new(out, "bytes_per_s", rate_of(before, now, "bytes", ms));
	json_object_set_new(out, "failed_per_s", rate_of(before, now, "nr_failed", ms));
	set_quantiles(out, gained);
	return out;
}

static uint64_t sum_of(const json_t *operations, const char *field)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < NR_KINDS; i++)
		sum = saturating_add(sum, number_of(json_object_get(operations, kinds[i]), field));
	return sum;
}

static const json_t *find_path(const json_t *paths, const json_t *like)
{
	const json_t *path;
	size_t i;

	json_array_foreach(paths, i, path)
	{
		if (json_equal(json_object_get(path, "server"), json_object_get(like, "server")) &&
		    strcmp(text_of(path, "transport"), text_of(like, "transport")) == 0)
			return path;
	}
	return NULL;
}

static json_t *path_rates(const json_t *before, const json_t *now, uint64_t ms)
{
	const json_t *path;
	json_t *out = json_array();
	size_t i;

	json_array_foreach(now, i, path)
	{
		const json_t *past = find_path(before, path);
		json_t *rates = json_object();

		copy(rates, path, "server");
		copy(rates, path, "transport");
		json_object_set_new(rates, "read_bytes_per_s",
				    rate_of(past, path, "bytes_read", ms));
		json_object_set_new(rates, "written_bytes_per_s",
				    rate_of(past, path, "bytes_written", ms));
		json_array_append_new(out, rates);
	}
	return out;
}

static const char *session_state(const json_t *session)
{
	if (json_is_true(json_object_get(session, "is_ending")))
		return "ending";
	return json_is_true(json_object_get(session, "is_connected")) ? "connected" : "away";
}

static json_t *session_rates(const json_t *before, const json_t *before_root, const json_t *now,
			     const json_t *now_root)
{
	static const char *const facts[] = {"session", "client", "principal", "nr_references",
					    "lease_left_ms"};
	const json_t *use_before = json_object_get(before, "use");
	const json_t *use = json_object_get(now, "use");
	const json_t *was = json_object_get(use_before, "operations");
	const json_t *is = json_object_get(use, "operations");
	json_t *out = json_object(), *operations = json_object();
	uint64_t all[HISTOGRAM_BUCKETS] = {0}, ms = 0;

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		copy(out, now, facts[i]);
	json_object_set_new(out, "state", json_string(session_state(now)));
	copy(out, use, "age_ms");
	if (json_is_object(use_before) && json_is_object(use))
		ms = difference(time_of(before_root, number_of(use_before, "age_ms")),
				time_of(now_root, number_of(use, "age_ms")));
	for (size_t i = 0; i < NR_KINDS; i++)
		json_object_set_new(operations, kinds[i],
				    operation_rates(json_object_get(was, kinds[i]),
						    json_object_get(is, kinds[i]), ms, all));
	json_object_set_new(out, "nr_per_s", rate(sum_of(was, "nr"), sum_of(is, "nr"), ms));
	json_object_set_new(out, "failed_per_s",
			    rate(sum_of(was, "nr_failed"), sum_of(is, "nr_failed"), ms));
	set_quantiles(out, all);
	json_object_set_new(out, "operations", operations);
	json_object_set_new(out, "paths",
			    path_rates(json_object_get(use_before, "paths"),
				       json_object_get(use, "paths"), ms));
	return out;
}

/* ---- What all clients say of a server */

static void add_rate(json_t *into, const json_t *path, const char *name)
{
	double sum = json_number_value(json_object_get(into, name)) +
		     json_number_value(json_object_get(path, name));

	json_object_set_new(into, name, json_real(sum));
}

static void add_path(const json_t *servers, const json_t *path)
{
	const json_t *server = find_like(servers, path, "server");
	json_t *all = json_object_get(server, "by_clients");
	json_t *sum = (json_t *)find_like(all, path, "transport");

	if (!server || json_is_null(json_object_get(path, "read_bytes_per_s")))
		return;
	if (!sum) {
		sum = json_object();
		copy(sum, path, "transport");
		json_array_append_new(all, sum);
	}
	add_rate(sum, path, "read_bytes_per_s");
	add_rate(sum, path, "written_bytes_per_s");
}

static void add_paths(const json_t *servers, const json_t *session)
{
	const json_t *path;
	size_t i;

	json_array_foreach(json_object_get(session, "paths"), i, path) add_path(servers, path);
}

/* ---- The whole */

static double activity(const json_t *session)
{
	const json_t *operations = json_object_get(session, "operations");
	double sum = 0;

	/* An operation costs about as much as 4 KiB more. */
	for (size_t i = 0; i < NR_KINDS; i++) {
		const json_t *one = json_object_get(operations, kinds[i]);

		sum += json_number_value(json_object_get(one, "bytes_per_s")) +
		       4096 * json_number_value(json_object_get(one, "nr_per_s"));
	}
	return sum;
}

static int compare_sessions(const void *a, const void *b)
{
	const json_t *left = *(json_t *const *)a, *right = *(json_t *const *)b;
	double left_activity = activity(left), right_activity = activity(right);

	if (left_activity != right_activity)
		return left_activity > right_activity ? -1 : 1;
	return strcmp(text_of(left, "session"), text_of(right, "session"));
}

/* Sorts the busiest first. Without memory keeps the order of the list. */
static json_t *sort_sessions(json_t *sessions)
{
	size_t nr = json_array_size(sessions);
	json_t **entries = calloc(nr + 1, sizeof(json_t *));
	json_t *sorted = json_array();

	if (!entries || !sorted) {
		free(entries);
		json_decref(sorted);
		return sessions;
	}
	for (size_t i = 0; i < nr; i++)
		entries[i] = json_array_get(sessions, i);
	qsort(entries, nr, sizeof(json_t *), compare_sessions);
	for (size_t i = 0; i < nr; i++)
		json_array_append(sorted, entries[i]);
	free(entries);
	json_decref(sessions);
	return sorted;
}

json_t *rates_between(const json_t *before, const json_t *now)
{
	static const char *const facts[] = {"cluster",	  "principal",	"manager_incarnation",
					    "uptime_ms",  "nr_servers", "nr_namespaces",
					    "nr_sessions"};
	json_t *out = json_object(), *servers = json_array(), *sessions = json_array();
	const json_t *entry;
	size_t i;

	/* Another manager has another clock. */
	if (!json_equal(json_object_get(before, "manager_incarnation"),
			json_object_get(now, "manager_incarnation")))
		before = NULL;
	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		copy(out, now, facts[i]);
	json_object_set_new(out, "interval_ms",
			    before ? number(difference(number_of(before, "uptime_ms"),
						       number_of(now, "uptime_ms")))
				   : json_null());
	json_array_foreach(json_object_get(now, "servers"), i, entry) json_array_append_new(
		servers,
		server_rates(find_like(json_object_get(before, "servers"), entry, "server"), before,
			     entry, now));
	json_array_foreach(json_object_get(now, "sessions"), i, entry)
	{
		json_t *session = session_rates(
			find_like(json_object_get(before, "sessions"), entry, "session"), before,
			entry, now);

		add_paths(servers, session);
		json_array_append_new(sessions, session);
	}
	json_object_set_new(out, "servers", servers);
	json_object_set_new(out, "sessions", sort_sessions(sessions));
	return out;
}
