/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of stores; see stores.h. */
#include "stores.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

#define NUMBER_COLUMNS	16
#define NAME_COLUMNS	16
#define HEALTH_COLUMNS	16
#define ADDRESS_COLUMNS 20
#define HEALTH_MAX	256

static uint64_t number_of(const json_t *store, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(store, name));
}

static const char *text_of(const json_t *store, const char *name, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(store, name));

	return text ? text : otherwise;
}

/* A column of bytes; "-" for what nobody knows while the store is away. */
static void print_bytes(const json_t *store, const char *name)
{
	char text[SIZE_TEXT_MAX] = "-";

	if (json_is_integer(json_object_get(store, name)))
		size_text(number_of(store, name), text);
	printf(" %10s", text);
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
	if (failure) {
		snprintf(part, sizeof(part), "failed (%s)", failure);
		append(health, part);
	}
	if (refusal && !failure) {
		snprintf(part, sizeof(part), "read only for %s (%s)",
			 span_text(number_of(store, "refusal_ms") / 1000, text), refusal);
		append(health, part);
	}
	if (number_of(store, "nr_errors") != 0) {
		snprintf(part, sizeof(part), "%" PRIu64 " errors", number_of(store, "nr_errors"));
		append(health, part);
	}
	if (number_of(store, "nr_orphans") != 0) {
		snprintf(part, sizeof(part), "%" PRIu64 " orphans (%s)",
			 number_of(store, "nr_orphans"),
			 size_text(number_of(store, "orphan_bytes"), bytes));
		append(health, part);
	}
	if (!*health)
		append(health, "ok");
}

/* ---- The table */

static void print_store(const json_t *store)
{
	char health[HEALTH_MAX];

	cli_print_padded(text_of(store, "store", ""), NUMBER_COLUMNS);
	putchar(' ');
	cli_print_padded(text_of(store, "server_name", "-"), NAME_COLUMNS);
	print_bytes(store, "capacity_bytes");
	print_bytes(store, "granted_bytes");
	print_bytes(store, "used_bytes");
	print_bytes(store, "map_bytes");
	printf("  ");
	describe_health(store, health);
	cli_print_padded(health, HEALTH_COLUMNS);
	printf("  ");
	cli_print_padded(text_of(store, "address", "-"), ADDRESS_COLUMNS);
	printf("  ");
	cli_print(text_of(store, "path", "-"));
	putchar('\n');
}

void stores_print(const json_t *stores)
{
	const json_t *store;
	size_t i;

	printf("%-*s %-*s %10s %10s %10s %10s  %-*s  %-*s  %s\n", NUMBER_COLUMNS, "STORE",
	       NAME_COLUMNS, "ON", "SIZE", "GRANTED", "USED", "MAP", HEALTH_COLUMNS, "HEALTH",
	       ADDRESS_COLUMNS, "ADDRESS", "PATH");
	json_array_foreach(stores, i, store) print_store(store);
}
