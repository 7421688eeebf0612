/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar status`: the cluster as the manager sees it, as tables or as the library's JSON. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "stores.h"

#define NAME_COLUMNS   20
#define CLIENT_COLUMNS 44

/* ---- Fields; what is missing shows as nothing rather than failing the table */

static uint64_t number_of(const json_t *object, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(object, name));
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* A column of bytes. */
static void print_bytes(const json_t *object, const char *name)
{
	char text[SIZE_TEXT_MAX];

	printf(" %10s", size_text(number_of(object, name), text));
}

/* Prints how much the server zeroes in a second while it does; it may not have had to yet. */
static void print_scrub_rate(const json_t *server)
{
	uint64_t rate = number_of(server, "scrub_bytes_per_s");
	char text[SIZE_TEXT_MAX], per_second[SIZE_TEXT_MAX + 2];

	snprintf(per_second, sizeof(per_second), "%s/s", size_text(rate, text));
	printf(" %12s", rate ? per_second : "-");
}

/* ---- The tables */

static void print_uptime(uint64_t uptime_ms)
{
	uint64_t seconds = uptime_ms / 1000;

	if (seconds >= 86400)
		printf("%" PRIu64 " d ", seconds / 86400);
	if (seconds >= 3600)
		printf("%" PRIu64 " h ", seconds / 3600 % 24);
	if (seconds >= 60)
		printf("%" PRIu64 " min ", seconds / 60 % 60);
	printf("%" PRIu64 " s\n", seconds % 60);
}

static const char *server_state(const json_t *server)
{
	if (!json_is_true(json_object_get(server, "is_up")))
		return "down";
	return silent_seconds(server) ? "silent" : "up";
}

/* Says what the word means, of those that it stands at. */
static void print_silent(const json_t *servers)
{
	const json_t *server;
	size_t i;

	json_array_foreach(servers, i, server)
	{
		if (silent_seconds(server) == 0)
			continue;
		cli_print(text_of(server, "name"));
		printf(" is silent for %llu s: its process was stopped, has too much to do, or was "
		       "cut "
		       "off; what is there waits\n",
		       silent_seconds(server));
	}
}

static void print_servers(const json_t *servers)
{
	const json_t *server;
	size_t i;

	printf("\n%-*s %-6s %10s %10s %10s %10s %10s %10s %12s %10s %6s  %s\n", NAME_COLUMNS,
	       "SERVER", "STATE", "CAPACITY", "GRANTED", "CLEAN", "KEPT", "DRAINING", "DIRTY",
	       "SCRUB", "HUGE", "PEERS", "PATHS");
	json_array_foreach(servers, i, server)
	{
		const json_t *lane, *lanes = json_object_get(server, "lanes");
		size_t j;

		cli_print_padded(text_of(server, "name"), NAME_COLUMNS);
		printf(" %-6s", server_state(server));
		print_bytes(server, "capacity_bytes");
		print_bytes(server, "granted_bytes");
		print_bytes(server, "clean_bytes");
		print_bytes(server, "pool_bytes");
		print_bytes(server, "draining_bytes");
		print_bytes(server, "dirty_bytes");
		print_scrub_rate(server);
		print_bytes(server, "huge_bytes");
		printf(" %6" PRIu64 " ", number_of(server, "nr_connections"));
		json_array_foreach(lanes, j, lane)
		{
			/* Mark the lanes that this machine's clients take. */
			printf(" %s", json_is_true(json_object_get(lane, "is_chosen")) ? "*" : "");
			cli_print(text_of(lane, "transport"));
			if (!strncmp(text_of(lane, "address"), "unix:", strlen("unix:")))
				continue;
			putchar(' ');
			cli_print(text_of(lane, "address"));
			if (*text_of(lane, "congestion")) {
				printf(" (");
				cli_print(text_of(lane, "congestion"));
				putchar(')');
			}
		}
		putchar('\n');
	}
	print_silent(servers);
	if (!json_array_size(servers))
		printf("(none: start one with 'afard --role server')\n");
}

static void print_stores(const json_t *stores)
{
	if (!json_array_size(stores))
		return;
	putchar('\n');
	stores_print(stores);
}

static void print_namespaces(const json_t *namespaces)
{
	const json_t *ns;
	size_t i;

	printf("\n%-*s %-5s %10s %10s %10s %8s\n", NAME_COLUMNS, "NAMESPACE", "TIER", "STRIPE",
	       "RESERVED", "ALLOCATED", "REGIONS");
	json_array_foreach(namespaces, i, ns)
	{
		cli_print_padded(text_of(ns, "name"), NAME_COLUMNS);
		putchar(' ');
		cli_print_padded(text_of(ns, "tier"), 5);
		print_bytes(ns, "stripe_bytes");
		print_bytes(ns, "reserved_bytes");
		print_bytes(ns, "allocated_bytes");
		printf(" %8" PRIu64 "\n", number_of(ns, "nr_regions"));
	}
	if (!json_array_size(namespaces))
		printf("(none: make one with 'afar ns create NAME')\n");
}

static const char *session_state(const json_t *session)
{
	if (json_is_true(json_object_get(session, "is_ending")))
		return "ending"; /* until the servers have closed what it had */
	return json_is_true(json_object_get(session, "is_connected")) ? "connected" : "away";
}

static void print_sessions(const json_t *sessions)
{
	const json_t *session;
	size_t i;

	printf("\n%-*s %-9s %12s  %s\n", CLIENT_COLUMNS, "SESSION", "STATE", "REGIONS OPEN",
	       "PRINCIPAL");
	json_array_foreach(sessions, i, session)
	{
		cli_print_padded(text_of(session, "client"), CLIENT_COLUMNS);
		printf(" %-9s %12" PRIu64 "  ", session_state(session),
		       number_of(session, "nr_references"));
		cli_print(text_of(session, "principal"));
		putchar('\n');
	}
}

static void print_newer(const json_t *newer)
{
	const json_t *name;
	size_t i;

	if (json_array_size(newer))
		printf("OLDER RECORDS: an older copy of the manager's folder was put back; see "
		       "'afar "
		       "manager accept-older'. Kept out, as it has seen later ones:\n");
	json_array_foreach(newer, i, name)
	{
		printf("  ");
		cli_print(json_string_value(name));
		putchar('\n');
	}
}

static int print_tables(const char *text)
{
	json_t *root = json_loads(text, 0, NULL);

	if (!root)
		return cli_fail(
			"status: the library's answer is no JSON; use the same release of afar "
			"and libafar");
	printf("cluster ");
	cli_print(text_of(root, "cluster"));
	printf(", up ");
	print_uptime(number_of(root, "uptime_ms"));
	print_newer(json_object_get(root, "newer"));
	print_servers(json_object_get(root, "servers"));
	print_stores(json_object_get(root, "stores"));
	print_namespaces(json_object_get(root, "namespaces"));
	print_sessions(json_object_get(root, "sessions"));
	json_decref(root);
	return 0;
}

static int status_command(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *as_json = NULL;
	const struct cli_flag flags[] = {
		{"json", NULL, "as JSON", &as_json},
		{0},
	};
	char *text;
	int ret, status;

	if (cli_arguments(cli, command, flags, argc, argv, 0, 0, arguments, &status) < 0)
		return status;
	status = cli_open(cli);
	if (status)
		return status;
	ret = afar_session_status(cli->session, &text);
	if (ret)
		return cli_close(cli, cli_fail_last(ret));
	if (as_json)
		puts(text);
	else
		status = print_tables(text);
	free(text);
	return cli_close(cli, status);
}

const struct cli_command status_commands[] = {
	{"status", "[--json]", "show servers, stores, namespaces and sessions", status_command},
	{0},
};
