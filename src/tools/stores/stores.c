/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of stores; see stores.h. */
#include "stores.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/cli/table.h"
#include "tools/cli/terminal.h"

#define HEALTH_MAX 256
#define SILENT_MS  15000 /* a server reports every 10 s */

static uint64_t number_of(const json_t *store, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(store, name));
}

static const char *text_of(const json_t *store, const char *name, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(store, name));

	return text ? text : otherwise;
}

/* A cell of bytes; "-" for what nobody knows while the store is away. */
static void bytes_cell(struct table *table, const json_t *store, const char *name)
{
	char text[SIZE_TEXT_MAX] = "-";

	if (json_is_integer(json_object_get(store, name)))
		size_text(number_of(store, name), text);
	table_cell(table, text);
}

/* ---- Health */

static const char *span_text(uint64_t seconds, char out[32])
{
	if (seconds >= 2 * 86400)
		snprintf(out, 32, "%" PRIu64 " d", seconds / 86400);
	else if (seconds >= 2 * 3600)
		snprintf(out, 32, "%" PRIu64 " h", seconds / 3600);
	else if (seconds >= 2 * 60)
		snprintf(out, 32, "%" PRIu64 " min", seconds / 60);
	else
		snprintf(out, 32, "%" PRIu64 " s", seconds);
	return out;
}

static void append(char health[HEALTH_MAX], const char *text)
{
	size_t length = strlen(health);

	snprintf(health + length, HEALTH_MAX - length, "%s%s", length ? ", " : "", text);
}

unsigned long long silent_seconds(const json_t *status)
{
	uint64_t age = number_of(status, "report_age_ms");

	return age > SILENT_MS ? age / 1000 : 0;
}

/* Says what an operator should know of it: everything that is wrong, or "ok". */
static void describe_health(const json_t *store, char health[HEALTH_MAX])
{
	const char *failure = text_of(store, "failure", NULL);
	const char *refusal = text_of(store, "refusal", NULL);
	char part[128], text[32], bytes[SIZE_TEXT_MAX];

	health[0] = '\0';
	if (strcmp(text_of(store, "state", ""), "up") != 0) {
		snprintf(part, sizeof(part), "away for %s",
			 span_text(number_of(store, "down_ms") / 1000, text));
		append(health, part);
	}
	if (silent_seconds(store) != 0) {
		snprintf(part, sizeof(part), "silent for %s",
			 span_text(silent_seconds(store), text));
		append(health, part);
	}
	if (failure) {
		snprintf(part, sizeof(part), "failed (%s)", failure);
		append(health, part);
	}
	if (refusal && !failure) {
		snprintf(part, sizeof(part), "read only for %s (%s)",
			 span_text(number_of(store, "refusal_ms") / 1000, text), refusal);
		append(health, part);
	}
	if (number_of(store, "slow_ms") != 0) {
		snprintf(part, sizeof(part), "slow: an I/O takes %s",
			 span_text(number_of(store, "slow_ms") / 1000, text));
		append(health, part);
	}
	if (number_of(store, "nr_errors") != 0) {
		snprintf(part, sizeof(part), "%" PRIu64 " error%s", number_of(store, "nr_errors"),
			 cli_plural((int64_t)number_of(store, "nr_errors")));
		append(health, part);
	}
	if (number_of(store, "nr_orphans") != 0) {
		snprintf(part, sizeof(part), "%" PRIu64 " orphan%s (%s)",
			 number_of(store, "nr_orphans"),
			 cli_plural((int64_t)number_of(store, "nr_orphans")),
			 size_text(number_of(store, "orphan_bytes"), bytes));
		append(health, part);
	}
	if (!*health)
		append(health, "ok");
}

/* ---- The table */

/* Tells which part of the blocks was read without the device; "-": none are kept, or none was read. */
static void hits_cell(struct table *table, const json_t *store)
{
	const uint64_t kept = number_of(store, "cache_hits") + number_of(store, "cache_shared");
	const uint64_t all =
		kept + number_of(store, "cache_misses") + number_of(store, "cache_past");
	char text[32] = "-";

	if (all > 0)
		snprintf(text, sizeof(text), "%.0f %%", 100 * (double)kept / (double)all);
	table_cell(table, text);
}

/* How many blocks its device has written for one of clients. */
static void amplification_cell(struct table *table, const json_t *store)
{
	const json_t *value = json_object_get(store, "write_amplification");
	char text[32] = "-";

	if (json_is_number(value))
		snprintf(text, sizeof(text), "%.2f", json_number_value(value));
	table_cell(table, text);
}

static void add_store(struct table *table, const json_t *store)
{
	char health[HEALTH_MAX];

	table_cell(table, text_of(store, "store", ""));
	table_cell(table, text_of(store, "server_name", "-"));
	bytes_cell(table, store, "capacity_bytes");
	bytes_cell(table, store, "granted_bytes");
	bytes_cell(table, store, "used_bytes");
	bytes_cell(table, store, "map_bytes");
	hits_cell(table, store);
	amplification_cell(table, store);
	describe_health(store, health);
	table_cell(table, health);
	table_cell(table, text_of(store, "address", "-"));
	table_cell(table, text_of(store, "path", "-"));
}

void stores_print(const json_t *stores)
{
	static const char *const headings[] = {"STORE",	 "ON",	    ">SIZE", ">GRANTED",
					       ">USED",	 ">MAP",    ">HITS", ">AMPL",
					       "HEALTH", "ADDRESS", "PATH",  NULL};
	struct table *table = table_new_whole(headings);
	const json_t *store;
	size_t i;

	if (!table)
		return;
	json_array_foreach(stores, i, store) add_store(table, store);
	table_print_folded(table, stdout, terminal_columns());
	table_free(table);
}
