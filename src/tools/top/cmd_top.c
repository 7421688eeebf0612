/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar top`: shows what the cluster does now, again and again. On a terminal it does so in place,
 * otherwise block after block, or as one line of JSON each. The figures are from rates.c; this
 * shows them.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rates.h"
#include "tools/cli/commands.h"
#include "tools/cli/table.h"
#include "tools/cli/terminal.h"

#define INTERVAL_DEFAULT_S 2
#define INTERVAL_MIN_S	   0.1
#define INTERVAL_MAX_S	   3600
#define CELL_BYTES	   64
#define TIMEOUT_MS	   5000 /* of a call, by default; short, because a person waits */

/* ---- Fields; what is missing or null shows as "-" */

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "-";
}

static uint64_t number_of(const json_t *object, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(object, name));

	return value > 0 ? (uint64_t)value : 0;
}

static void text_cell(struct table *table, const json_t *object, const char *name)
{
	table_cell(table, text_of(object, name));
}

static void number_cell(struct table *table, const json_t *object, const char *name)
{
	char cell[CELL_BYTES] = "-";

	if (json_is_integer(json_object_get(object, name)))
		snprintf(cell, sizeof(cell), "%" PRIu64, number_of(object, name));
	table_cell(table, cell);
}

static void bytes_cell(struct table *table, const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	double bytes = json_number_value(value);
	char cell[SIZE_TEXT_MAX] = "-";

	if (json_is_number(value) && bytes >= 0)
		size_text(bytes < (double)INT64_MAX ? (uint64_t)bytes : INT64_MAX, cell);
	table_cell(table, cell);
}

static void rate_cell(struct table *table, const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	double rate = json_number_value(value);
	char cell[CELL_BYTES] = "-";

	if (json_is_number(value))
		snprintf(cell, sizeof(cell), rate < 1e6 ? "%.0f" : "%.3g",
			 rate > 0 && rate < 1 ? ceil(rate) : rate);
	table_cell(table, cell);
}

static void span_cell(struct table *table, const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	double ns = json_number_value(value);
	char cell[CELL_BYTES] = "-";

	if (!json_is_number(value))
		;
	else if (ns < 1e3)
		snprintf(cell, sizeof(cell), "%.0f ns", ns);
	else if (ns < 1e6)
		snprintf(cell, sizeof(cell), "%.1f us", ns / 1e3);
	else if (ns < 1e9)
		snprintf(cell, sizeof(cell), "%.1f ms", ns / 1e6);
	else
		snprintf(cell, sizeof(cell), "%.1f s", ns / 1e9);
	table_cell(table, cell);
}

/* ---- The tables */

static const json_t *clients_word(const json_t *server, const char *transport)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(json_object_get(server, "by_clients"), i, entry)
	{
		if (strcmp(text_of(entry, "transport"), transport) == 0)
			return entry;
	}
	return NULL;
}

/* Returns whether a lane is the first of its transport. Clients report by transport, not by lane,
 * so their figures are shown there. */
static bool is_first_of_transport(const json_t *lanes, size_t index)
{
	const char *transport = text_of(json_array_get(lanes, index), "transport");

	for (size_t i = 0; i < index; i++) {
		if (strcmp(text_of(json_array_get(lanes, i), "transport"), transport) == 0)
			return false;
	}
	return true;
}

static void lane_row(struct table *table, const json_t *server, size_t index)
{
	const json_t *lanes = json_object_get(server, "lanes");
	const json_t *lane = json_array_get(lanes, index);
	const char *address = text_of(lane, "address");
	const json_t *word = is_first_of_transport(lanes, index)
				     ? clients_word(server, text_of(lane, "transport"))
				     : NULL;

	table_cell(table, index ? "" : text_of(server, "name"));
	text_cell(table, lane, "state");
	text_cell(table, lane, "transport");
	/* Leaves out "unix:" addresses, which are on the machine itself, and long. */
	table_cell(table, strncmp(address, "unix:", strlen("unix:")) ? address : "");
	number_cell(table, lane, "numa_node");
	number_cell(table, lane, "nr_connections");
	bytes_cell(table, lane, "in_bytes_per_s");
	bytes_cell(table, lane, "out_bytes_per_s");
	text_cell(table, lane, "counted_by");
	bytes_cell(table, word, "written_bytes_per_s");
	bytes_cell(table, word, "read_bytes_per_s");
}

/* Clients' figures for a store are among those of its server's lanes of the same transport. */
static void store_row(struct table *table, const json_t *store)
{
	char name[CELL_BYTES];

	snprintf(name, sizeof(name), "  %.32s", text_of(store, "store"));
	table_cell(table, name);
	if (json_is_string(json_object_get(store, "failure")))
		table_cell(table, "failed");
	else if (json_is_string(json_object_get(store, "refusal")))
		table_cell(table, "read only");
	else if (json_is_integer(json_object_get(store, "slow_ms")))
		table_cell(table, "slow");
	else
		text_cell(table, store, "state");
	table_cell(table, "store");
	text_cell(table, store, "address");
	table_cell(table, "-");
	number_cell(table, store, "nr_connections");
	bytes_cell(table, store, "in_bytes_per_s");
	bytes_cell(table, store, "out_bytes_per_s");
	table_cell(table, "transport");
	table_cell(table, "-");
	table_cell(table, "-");
}

static struct table *server_table(const json_t *model)
{
	static const char *const headings[] = {"SERVER", "STATE",      "LANE",	  "ADDRESS",
					       ">NODE",	 ">PEERS",     ">IN/s",	  ">OUT/s",
					       "BY",	 ">WRITTEN/s", ">READ/s", NULL};
	struct table *table = table_new(headings);
	const json_t *server, *store;
	size_t i, j;

	if (!table)
		return NULL;
	json_array_foreach(json_object_get(model, "servers"), i, server)
	{
		for (j = 0; j < json_array_size(json_object_get(server, "lanes")); j++)
			lane_row(table, server, j);
		json_array_foreach(json_object_get(server, "stores"), j, store)
			store_row(table, store);
	}
	return table;
}

/* A row tells what a store's cache and layer do. */
static void store_work_row(struct table *table, const json_t *store)
{
	static const char *const rates[] = {"hits_per_s",	    "shared_per_s",
					    "misses_per_s",	    "past_per_s",
					    "device_reads_per_s",   "merged_writes_per_s",
					    "user_blocks_per_s",    "moved_blocks_per_s",
					    "written_blocks_per_s", "flushes_per_s"};
	const json_t *amplification = json_object_get(store, "write_amplification");
	char text[CELL_BYTES] = "-";

	text_cell(table, store, "store");
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		rate_cell(table, store, rates[i]);
	if (json_is_number(amplification))
		snprintf(text, sizeof(text), "%.2f", json_number_value(amplification));
	table_cell(table, text);
}

/* NULL: there are no stores. */
static struct table *store_table(const json_t *model)
{
	static const char *const headings[] = {"STORE",	   ">HITS/s",	">SHARED/s",  ">MISSES/s",
					       ">PAST/s",  ">DEVICE/s", ">MERGED/s",  ">PUT/s",
					       ">MOVED/s", ">BLOCKS/s", ">FLUSHES/s", ">AMPL",
					       NULL};
	struct table *table = NULL;
	const json_t *server, *store;
	size_t i, j;

	json_array_foreach(json_object_get(model, "servers"), i, server)
	{
		json_array_foreach(json_object_get(server, "stores"), j, store)
		{
			if (!table)
				table = table_new(headings);
			if (table)
				store_work_row(table, store);
		}
	}
	return table;
}

static void session_row(struct table *table, const json_t *session)
{
	const json_t *operations = json_object_get(session, "operations");

	text_cell(table, session, "client");
	text_cell(table, session, "principal");
	text_cell(table, session, "state");
	rate_cell(table, session, "nr_per_s");
	bytes_cell(table, json_object_get(operations, "write"), "bytes_per_s");
	bytes_cell(table, json_object_get(operations, "read"), "bytes_per_s");
	rate_cell(table, session, "failed_per_s");
	span_cell(table, session, "p50_ns");
	span_cell(table, session, "p99_ns");
	span_cell(table, session, "p999_ns");
}

static struct table *session_table(const json_t *model)
{
	static const char *const headings[] = {"SESSION",    "PRINCIPAL", "STATE",     ">OPS/s",
					       ">WRITTEN/s", ">READ/s",	  ">FAILED/s", ">P50",
					       ">P99",	     ">P99.9",	  NULL};
	struct table *table = table_new(headings);
	const json_t *session;
	size_t i;

	if (!table)
		return NULL;
	json_array_foreach(json_object_get(model, "sessions"), i, session)
		session_row(table, session);
	return table;
}

static size_t count_down(const json_t *model)
{
	const json_t *server;
	size_t i, nr = 0;

	json_array_foreach(json_object_get(model, "servers"), i, server) nr +=
		!json_is_true(json_object_get(server, "is_up"));
	return nr;
}

static void print_heading(const json_t *model, FILE *out, size_t columns)
{
	char line[256];
	size_t nr_down = count_down(model);
	int length;

	length = snprintf(line, sizeof(line),
			  "cluster up %" PRIu64 " s, servers %" PRIu64 " (%zu down), sessions "
			  "%" PRIu64 ", over %.1f s",
			  number_of(model, "uptime_ms") / 1000, number_of(model, "nr_servers"),
			  nr_down, number_of(model, "nr_sessions"),
			  (double)number_of(model, "interval_ms") / 1000);
	if (length > 0 && columns && (size_t)length > columns)
		line[columns] = '\0';
	fprintf(out, "%s\n", line);
}

#define HEADING_LINES 3U /* with the empty ones between the tables */

/* Prints all of it, in up to `lines` lines; 0: as many as it takes. Servers come first, and leave
 * sessions a third. */
static void print_model(const json_t *model, FILE *out, size_t lines, size_t columns)
{
	struct table *servers = server_table(model), *sessions = session_table(model);
	struct table *stores = store_table(model);
	size_t left = lines > HEADING_LINES + 4 ? lines - HEADING_LINES : lines ? 4 : 0;

	print_heading(model, out, columns);
	fputc('\n', out);
	if (servers)
		left -= table_print(servers, out, left - left / 3, columns) * (lines != 0);
	fputc('\n', out);
	if (stores) {
		left -= (table_print(stores, out, left / 3, columns) + 1) * (lines != 0);
		fputc('\n', out);
	}
	if (sessions)
		table_print(sessions, out, lines ? left : 0, columns);
	table_free(servers);
	table_free(stores);
	table_free(sessions);
}

/* ---- Showing */

static void print_json(const json_t *model)
{
	char *text = json_dumps(model, JSON_COMPACT | JSON_REAL_PRECISION(6));

	if (text)
		puts(text);
	free(text);
}

static void redraw(const json_t *model)
{
	size_t lines, columns, size;
	char *text = NULL;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return;
	terminal_size(&lines, &columns);
	print_model(model, out, lines, columns);
	if (fclose(out) == 0)
		terminal_show(text);
	free(text);
}

static void show(const json_t *model, bool as_json, bool is_screen)
{
	if (is_screen) {
		redraw(model);
		return;
	}
	if (as_json) {
		print_json(model);
	} else {
		print_model(model, stdout, 0, 0);
		putchar('\n');
	}
	fflush(stdout);
}

/* ---- The loop */

struct top {
	struct cli *cli;
	double interval_s;
	uint64_t count; /* 0: until it is stopped */
	bool as_json;
	bool is_screen;
	json_t *before, *now, *model;
};

/* Returns 0, or the negative code of the call. */
static int take_status(struct top *top)
{
	char *text;
	json_t *root;
	int ret = afar_session_status(top->cli->session, &text);

	if (ret)
		return ret;
	root = json_loads(text, 0, NULL);
	free(text);
	if (!root)
		return -AFAR_EMALFORMED;
	json_decref(top->before);
	top->before = top->now;
	top->now = root;
	return 0;
}

static int take_model(struct top *top)
{
	int ret = take_status(top);

	if (ret)
		return ret;
	json_decref(top->model);
	top->model = rates_between(top->before, top->now);
	return top->model ? 0 : -ENOMEM;
}

/* Waits until the next look is due. False: it is to end. */
static bool wait_for_next(const struct top *top)
{
	uint64_t deadline = clock_ns() + (uint64_t)(top->interval_s * 1e9);
	enum terminal_event event;

	while ((event = terminal_wait(deadline)) == TERMINAL_RESIZED) {
		if (top->is_screen && top->model)
			redraw(top->model);
	}
	return event == TERMINAL_TIMEOUT;
}

/* Shows on a screen that the manager does not answer, because a user who watches wants to know.
 * False: for any other error. */
static bool show_outage(struct top *top, int rc)
{
	char line[512];

	if (!top->is_screen || (rc != -AFAR_EMANAGER && rc != -ETIMEDOUT))
		return false;
	json_decref(top->model);
	top->model = NULL;
	snprintf(line, sizeof(line), "%s\n", afar_last_error());
	terminal_show(line);
	return true;
}

/* Shows rates, which need two looks. So the first ones are those of the first interval. */
static int run(struct top *top)
{
	int ret = take_status(top);

	for (uint64_t shown = 0; !ret && (!top->count || shown < top->count); shown++) {
		if (!wait_for_next(top))
			break;
		ret = take_model(top);
		if (!ret)
			show(top->model, top->as_json, top->is_screen);
		else if (show_outage(top, ret))
			ret = 0;
		if (ferror(stdout))
			break; /* nobody reads the output any more; main() says so */
	}
	return terminal_is_quitting() ? 0 : ret;
}

static int parse_interval(const struct cli_command *command, const char *text, double *out)
{
	char *end;

	*out = strtod(text, &end);
	/* This also rejects what is no number (NaN), because it compares as false. */
	if (end == text || *end || !(*out >= INTERVAL_MIN_S && *out <= INTERVAL_MAX_S))
		return cli_misuse(command,
				  "--interval: '%.64s' is not a number of seconds from %.1f to %d",
				  text, INTERVAL_MIN_S, INTERVAL_MAX_S);
	return 0;
}

static int top_command(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *interval = NULL, *count = NULL, *as_json = NULL;
	const struct cli_flag flags[] = {
		{"interval", "SECONDS", "between two looks (default 2)", &interval},
		{"count", "N", "so many, then end (default: until q or Ctrl-C)", &count},
		{"json", NULL, "a line of JSON each", &as_json},
		{0},
	};
	struct top top = {.cli = cli, .interval_s = INTERVAL_DEFAULT_S};
	int ret, status;

	if (cli_arguments(cli, command, flags, argc, argv, 0, 0, arguments, &status) < 0)
		return status;
	if (interval && (status = parse_interval(command, interval, &top.interval_s)))
		return status;
	if (count && (number_parse(count, UINT32_MAX, &top.count) || !top.count))
		return cli_misuse(command, "--count: '%.64s' is not a number from 1 on", count);
	if (!cli->timeout_ms)
		cli->timeout_ms = TIMEOUT_MS;
	status = cli_open(cli);
	if (status)
		return status;
	top.as_json = as_json;
	top.is_screen = terminal_is_there() && !as_json;
	terminal_begin(top.is_screen);
	ret = run(&top);
	terminal_end();
	/* Leave the last figures on the screen to be read. */
	if (top.is_screen && top.model)
		print_model(top.model, stdout, 0, 0);
	json_decref(top.before);
	json_decref(top.now);
	json_decref(top.model);
	return cli_close(cli, ret ? cli_fail_last(ret) : 0);
}

const struct cli_command top_commands[] = {
	{"top", "[--interval SECONDS] [--count N] [--json]",
	 "show what servers, lanes and sessions do now", top_command},
	{0},
};
