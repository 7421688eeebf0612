/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar store …`: lists the cluster's stores, adds and removes them, forgets one that is gone for good,
 * and frees what is in one and nobody's. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lost.h"
#include "servers.h"
#include "stores.h"
#include "tools/cli/commands.h"

/* Gets the stores that the library's status tells of, as a reference of the caller's. Returns 0, or
 * CLI_FAILED with a line. */
static int get_stores(struct cli *cli, const char *asked, json_t **out)
{
	json_t *status;
	char *json;
	int ret = afar_session_status(cli->session, &json);

	if (ret)
		return cli_fail_last(ret);
	status = json_loads(json, 0, NULL);
	free(json);
	*out = json_incref(json_object_get(status, "stores"));
	json_decref(status);
	return *out ? 0
		    : cli_fail("%s: the library's answer is no JSON with stores; use the same "
			       "release of afar and libafar",
			       asked);
}

/* ---- Listing */

static int print_stores(struct cli *cli, bool as_json)
{
	json_t *stores = NULL;
	int ret = get_stores(cli, "list the stores", &stores);

	if (ret)
		return ret;
	if (as_json)
		return cli_print_json(stores);
	stores_print(stores);
	if (!json_array_size(stores))
		printf("(none: lend one with 'afard --flash', or 'afar up --flash')\n");
	json_decref(stores);
	return 0;
}

static int store_ls(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *as_json = NULL;
	const struct cli_flag flags[] = {
		{"json", NULL, "as JSON", &as_json},
		{0},
	};
	int ret;

	if (cli_arguments(cli, command, flags, argc, argv, 0, 0, arguments, &ret) < 0)
		return ret;
	ret = cli_open(cli);
	return ret ? ret : cli_close(cli, print_stores(cli, as_json));
}

/* ---- Which one */

struct found_store {
	uint64_t number;
	bool is_up;
	uint64_t down_ms;
	uint64_t granted_bytes;
	uint64_t nr_orphans, orphan_bytes;
	char path[256]; /* cut, if it is longer */
	char server[AFAR_NAME_MAX + 1];
};

static uint64_t number_of(const json_t *object, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(object, name));
}

static void take(const json_t *store, struct found_store *out)
{
	const char *state = json_string_value(json_object_get(store, "state"));
	const char *server = json_string_value(json_object_get(store, "server_name"));
	const char *path = json_string_value(json_object_get(store, "path"));

	out->number = strtoull(json_string_value(json_object_get(store, "store")), NULL, 16);
	out->is_up = state && !strcmp(state, "up");
	out->down_ms = number_of(store, "down_ms");
	out->granted_bytes = number_of(store, "granted_bytes");
	out->nr_orphans = number_of(store, "nr_orphans");
	out->orphan_bytes = number_of(store, "orphan_bytes");
	snprintf(out->path, sizeof(out->path), "%s", path ? path : "?");
	snprintf(out->server, sizeof(out->server), "%s", server ? server : "?");
}

/* Finds the store whose number begins with `text`. `asked` is what shall be done to it. */
static int pick(const json_t *stores, const char *asked, const char *text, struct found_store *out)
{
	const json_t *store;
	size_t i, nr = 0;

	json_array_foreach(stores, i, store)
	{
		const char *number = json_string_value(json_object_get(store, "store"));

		if (!number || strncasecmp(number, text, strlen(text)) != 0)
			continue;
		nr++;
		take(store, out);
	}
	if (nr == 0)
		return cli_fail("%s store %.64s: there is none; 'afar store ls' lists them", asked,
				text);
	if (nr > 1)
		return cli_fail("%s store %.64s: %zu begin with this; give more of its "
				"number, from 'afar store ls'",
				asked, text, nr);
	return 0;
}

static int find(struct cli *cli, const char *asked, const char *text, struct found_store *out)
{
	json_t *stores = NULL;
	int ret = get_stores(cli, asked, &stores);

	if (ret)
		return ret;
	ret = pick(stores, asked, text, out);
	json_decref(stores);
	return ret;
}

static bool is_hexadecimal(const char *text)
{
	size_t length = strspn(text, "0123456789abcdefABCDEF");

	return length > 0 && length <= 16 && text[length] == '\0';
}

/* Takes the one argument of a command, a store's number, and the flag --yes, unless `about_yes` is
 * NULL. Negative: it is done, with `*ret`. */
static int take_arguments(struct cli *cli, const struct cli_command *command, int argc, char **argv,
			  const char *about_yes, const char **number, const char **is_sure,
			  int *ret)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const struct cli_flag flags[] = {
		{"yes", NULL, about_yes, is_sure},
		{0},
	};

	if (cli_arguments(cli, command, about_yes ? flags : NULL, argc, argv, 1, 1, arguments,
			  ret) < 0)
		return -1;
	if (!is_hexadecimal(arguments[0])) {
		*ret = cli_misuse(command,
				  "'%.64s' is no store's number, nor its beginning: 1 to 16 "
				  "hexadecimal digits",
				  arguments[0]);
		return -1;
	}
	*number = arguments[0];
	return 0;
}

/* ---- Forgetting */

static int say_what_is_lost(struct cli *cli, const struct found_store *store)
{
	char granted[SIZE_TEXT_MAX], lost[LOST_TEXT_MAX];
	int ret = lost_print(cli, &lost_with_store, store->number, lost);

	if (ret)
		return ret;
	printf("%s %s lost with store %016" PRIx64 ", which server '", lost, lost_verb(lost),
	       store->number);
	cli_print(store->server);
	printf("' had on ");
	cli_print(store->path);
	printf(", is away for %" PRIu64 " s, and holds %s\n", store->down_ms / 1000,
	       size_text(store->granted_bytes, granted));
	fflush(stdout);
	return cli_fail("forget the store %016" PRIx64
			": nothing is done yet; if its device is gone "
			"for good, or nobody needs what is on it, say --yes",
			store->number);
}

static int forget_store(struct cli *cli, const char *text, bool is_sure)
{
	struct found_store store = {0};
	char lost[LOST_TEXT_MAX] = "nothing";
	int ret = find(cli, "forget the", text, &store);

	if (ret)
		return ret;
	if (store.is_up && !is_sure)
		return cli_fail("forget the store %016" PRIx64
				": it is up; stop the server that has "
				"it first, if nobody needs what is on it",
				store.number);
	if (!is_sure)
		return say_what_is_lost(cli, &store);
	/* The manager itself checks whether a server that seems to be up still lives. */
	ret = store.is_up ? 0 : lost_print(cli, &lost_with_store, store.number, lost);
	if (ret)
		return ret;
	ret = afar_store_forget(cli->session, store.number);
	if (ret)
		return cli_fail_last(ret);
	printf("forgot store %016" PRIx64 ", and with it %s\n", store.number, lost);
	return 0;
}

static int store_forget(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *number, *is_sure = NULL;
	int ret;

	if (take_arguments(cli, command, argc, argv,
			   "its device is gone for good, or nobody needs what is on it", &number,
			   &is_sure, &ret) < 0)
		return ret;
	ret = cli_open(cli);
	return ret ? ret : cli_close(cli, forget_store(cli, number, is_sure));
}

/* ---- Freeing orphans */

static int free_orphans(struct cli *cli, const char *text, bool is_sure)
{
	struct found_store store = {0};
	char bytes[SIZE_TEXT_MAX];
	uint64_t freed;
	int ret = find(cli, "free the orphans of the", text, &store);

	if (ret)
		return ret;
	if (store.nr_orphans == 0 || !is_sure) {
		printf("store %016" PRIx64 " has %" PRIu64 " orphan%s, %s\n", store.number,
		       store.nr_orphans, cli_plural((int64_t)store.nr_orphans),
		       size_text(store.orphan_bytes, bytes));
		fflush(stdout);
	}
	if (store.nr_orphans == 0)
		return 0;
	if (!is_sure)
		return cli_fail("free the orphans of the store %016" PRIx64
				": nothing is done yet; if nobody needs what is in them, and the "
				"manager's data is no older copy, say --yes",
				store.number);
	ret = afar_store_free_orphans(cli->session, store.number, &freed);
	if (ret)
		return cli_fail_last(ret);
	printf("freed %" PRIu64 " orphan%s of store %016" PRIx64 ", %s\n", store.nr_orphans,
	       cli_plural((int64_t)store.nr_orphans), store.number, size_text(freed, bytes));
	return 0;
}

static int store_free_orphans(struct cli *cli, const struct cli_command *command, int argc,
			      char **argv)
{
	const char *number, *is_sure = NULL;
	int ret;

	if (take_arguments(cli, command, argc, argv, "nobody needs what is in them", &number,
			   &is_sure, &ret) < 0)
		return ret;
	ret = cli_open(cli);
	return ret ? ret : cli_close(cli, free_orphans(cli, number, is_sure));
}

/* ---- Adding and removing */

static int add_store(struct cli *cli, const char *server_text, const char *path)
{
	struct found_server server = {0};
	uint64_t store;
	int ret = server_find(cli, "add a store at the", server_text, &server);

	if (ret)
		return ret;
	ret = afar_store_add(cli->session, server.number, path, &store);
	if (ret)
		return cli_fail_last(ret);
	printf("added store %016" PRIx64
	       "; so that server %s opens it at its next start, too, give it "
	       "'flash = ",
	       store, server_text);
	cli_print(path);
	printf("' or --flash\n");
	return 0;
}

static int store_add(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	int ret;

	if (cli_arguments(cli, command, NULL, argc, argv, 2, 2, arguments, &ret) < 0)
		return ret;
	if (arguments[1][0] != '/')
		return cli_misuse(command,
				  "'%.64s' must begin with '/': it is the path at the server",
				  arguments[1]);
	ret = cli_open(cli);
	return ret ? ret : cli_close(cli, add_store(cli, arguments[0], arguments[1]));
}

static int remove_store(struct cli *cli, const char *text)
{
	struct found_store store = {0};
	int ret = find(cli, "remove the", text, &store);

	if (ret)
		return ret;
	ret = afar_store_remove(cli->session, store.number);
	if (ret)
		return cli_fail_last(ret);
	printf("removed store %016" PRIx64 "; if server ", store.number);
	cli_print(store.server);
	printf(" is told to open ");
	cli_print(store.path);
	printf(" when it starts, change that\n");
	return 0;
}

static int store_rm(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *number;
	int ret;

	if (take_arguments(cli, command, argc, argv, NULL, &number, NULL, &ret) < 0)
		return ret;
	ret = cli_open(cli);
	return ret ? ret : cli_close(cli, remove_store(cli, number));
}

const struct cli_command store_commands[] = {
	{"store ls", "[--json]", "list the stores: the cluster's flash", store_ls},
	{"store add", "SERVER PATH", "have a running server lend one device more", store_add},
	{"store rm", "STORE", "take a store that is not used out of the cluster", store_rm},
	{"store forget", "STORE [--yes]", "give up a store whose device is gone for good",
	 store_forget},
	{"store free-orphans", "STORE [--yes]", "free what is in a store and nobody's",
	 store_free_orphans},
	{0},
};
