/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar status`: the cluster as the manager sees it, as tables or as the library's JSON. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/commands.h"
#include "tools/cli/table.h"
#include "tools/cli/terminal.h"
#include "tools/stores/stores.h"

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

static void bytes_cell(struct table *table, const json_t *object, const char *name)
{
	char text[SIZE_TEXT_MAX];

	table_cell(table, size_text(number_of(object, name), text));
}

static void number_cell(struct table *table, const json_t *object, const char *name)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number_of(object, name));
	table_cell(table, text);
}

/* How much the server zeroes in a second while it does; it may not have had to yet. */
static void scrub_rate_cell(struct table *table, const json_t *server)
{
	uint64_t rate = number_of(server, "scrub_bytes_per_s");
	char text[SIZE_TEXT_MAX], per_second[SIZE_TEXT_MAX + 2];

	snprintf(per_second, sizeof(per_second), "%s/s", size_text(rate, text));
	table_cell(table, rate ? per_second : "-");
}

/* The lanes, with a mark at those that this machine's clients take. */
static void paths_cell(struct table *table, const json_t *server)
{
	const json_t *lane, *lanes = json_object_get(server, "lanes");
	char *text = NULL;
	size_t length, j;
	FILE *out = open_memstream(&text, &length);

	json_array_foreach(lanes, j, lane)
	{
		const char *address = text_of(lane, "address");
		const char *congestion = text_of(lane, "congestion");
		bool is_socket = !strncmp(address, "unix:", strlen("unix:"));

		if (!out)
			break;
		fprintf(out, "%s%s%s", j ? " " : "",
			json_is_true(json_object_get(lane, "is_chosen")) ? "*" : "",
			text_of(lane, "transport"));
		if (!is_socket)
			fprintf(out, " %s", address);
		if (!is_socket && *congestion)
			fprintf(out, " (%s)", congestion);
	}
	if (out && fclose(out) == 0)
		table_cell(table, text);
	else
		table_cell(table, "");
	free(text);
}

static void print_table(struct table *table)
{
	if (table)
		table_print_folded(table, stdout, terminal_columns());
	table_free(table);
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

/* Says how many more there are than those that the answer has. */
static void print_rest(const json_t *root, const char *list, const char *count, const char *more)
{
	uint64_t nr = number_of(root, count), shown = json_array_size(json_object_get(root, list));

	if (nr > shown)
		printf("… and %" PRIu64 " more %s\n", nr - shown, more);
}

static void print_servers(const json_t *servers)
{
	static const char *const headings[] = {
		"SERVER", "STATE",  ">CAPACITY", ">GRANTED", ">CLEAN", ">KEPT", ">DRAINING",
		">DIRTY", ">SCRUB", ">HUGE",	 ">PEERS",   "PATHS",  NULL};
	struct table *table = table_new_whole(headings);
	const json_t *server;
	size_t i;

	putchar('\n');
	json_array_foreach(servers, i, server)
	{
		if (!table)
			break;
		table_cell(table, text_of(server, "name"));
		table_cell(table, server_state(server));
		bytes_cell(table, server, "capacity_bytes");
		bytes_cell(table, server, "granted_bytes");
		bytes_cell(table, server, "clean_bytes");
		bytes_cell(table, server, "pool_bytes");
		bytes_cell(table, server, "draining_bytes");
		bytes_cell(table, server, "dirty_bytes");
		scrub_rate_cell(table, server);
		bytes_cell(table, server, "huge_bytes");
		number_cell(table, server, "nr_connections");
		paths_cell(table, server);
	}
	print_table(table);
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
	static const char *const headings[] = {"NAMESPACE",  "TIER",	 ">STRIPE", ">RESERVED",
					       ">ALLOCATED", ">REGIONS", NULL};
	struct table *table = table_new_whole(headings);
	const json_t *ns;
	size_t i;

	putchar('\n');
	json_array_foreach(namespaces, i, ns)
	{
		if (!table)
			break;
		table_cell(table, text_of(ns, "name"));
		table_cell(table, text_of(ns, "tier"));
		bytes_cell(table, ns, "stripe_bytes");
		bytes_cell(table, ns, "reserved_bytes");
		bytes_cell(table, ns, "allocated_bytes");
		number_cell(table, ns, "nr_regions");
	}
	print_table(table);
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
	static const char *const headings[] = {"SESSION", "STATE", ">REGIONS OPEN", "PRINCIPAL",
					       NULL};
	struct table *table = table_new_whole(headings);
	const json_t *session;
	size_t i;

	putchar('\n');
	json_array_foreach(sessions, i, session)
	{
		if (!table)
			break;
		table_cell(table, text_of(session, "client"));
		table_cell(table, session_state(session));
		number_cell(table, session, "nr_references");
		table_cell(table, text_of(session, "principal"));
	}
	print_table(table);
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

static void print_suspect(const json_t *namespaces)
{
	bool has_heading = false;
	const json_t *ns;
	size_t i;

	json_array_foreach(namespaces, i, ns)
	{
		if (!json_is_true(json_object_get(ns, "is_suspect")))
			continue;
		if (!has_heading)
			printf("RECORDS OF AN OLDER COPY: what they lead to may be others' bytes, "
			       "and is not read before 'afar ns accept-older':\n");
		has_heading = true;
		printf("  ");
		cli_print(json_string_value(json_object_get(ns, "name")));
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
	print_suspect(json_object_get(root, "namespaces"));
	print_servers(json_object_get(root, "servers"));
	print_rest(root, "servers", "nr_servers", "servers");
	print_stores(json_object_get(root, "stores"));
	print_rest(root, "stores", "nr_stores", "stores");
	print_namespaces(json_object_get(root, "namespaces"));
	print_rest(root, "namespaces", "nr_namespaces", "namespaces; see all with 'afar ns ls'");
	print_sessions(json_object_get(root, "sessions"));
	print_rest(root, "sessions", "nr_sessions", "sessions");
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
