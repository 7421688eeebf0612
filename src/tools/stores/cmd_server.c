/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar server …`: removes a server that is gone for good from the cluster. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lost.h"
#include "servers.h"
#include "tools/cli/commands.h"

/* ---- Removing */

static void print_store(const json_t *store)
{
	const char *uuid = json_string_value(json_object_get(store, "uuid"));
	const char *path = json_string_value(json_object_get(store, "path"));
	char granted[SIZE_TEXT_MAX];

	printf("its store %s (%s) on ", json_string_value(json_object_get(store, "store")),
	       uuid ? uuid : "?");
	cli_print(path ? path : "?");
	printf(" stays, with %s; another server can lend it, or 'afar store forget' gives it up\n",
	       size_text((uint64_t)json_integer_value(json_object_get(store, "granted_bytes")),
			 granted));
}

/* Names the stores that the server has, or had last. */
static int print_stores(struct cli *cli, const char *text, uint64_t number)
{
	const json_t *store;
	json_t *status;
	char *json;
	size_t i;
	int ret = afar_session_status(cli->session, &json);

	if (ret)
		return cli_fail_last(ret);
	status = json_loads(json, 0, NULL);
	free(json);
	if (!status)
		return cli_fail("remove the server %s: the library's answer is no JSON; use the "
				"same release of afar and libafar",
				text);
	json_array_foreach(json_object_get(status, "stores"), i, store)
	{
		if ((uint64_t)json_integer_value(json_object_get(store, "server")) == number)
			print_store(store);
	}
	json_decref(status);
	return 0;
}

static int remove_server(struct cli *cli, const char *text, bool is_sure)
{
	char granted[SIZE_TEXT_MAX];
	struct found_server server = {0};
	char lost[LOST_TEXT_MAX] = "nothing";
	int ret = server_find(cli, "remove the", text, &server);

	if (ret)
		return ret;
	if (server.is_up && !is_sure)
		return cli_fail(
			"remove the server %s: it is up; stop it first, if nobody needs what is "
			"on it",
			text);
	/* The manager itself checks whether a server that seems to be up still lives. */
	ret = server.is_up ? 0 : lost_print(cli, &lost_with_server, server.number, lost);
	if (!ret)
		ret = print_stores(cli, text, server.number);
	if (ret)
		return ret;
	if (!is_sure) {
		printf("%s %s lost with server %" PRIu64 ", which is down for %" PRIu64
		       " s and held %s in memory\n",
		       lost, lost_verb(lost), server.number, server.down_ms / 1000,
		       size_text(server.granted_bytes, granted));
		fflush(stdout);
		return cli_fail(
			"remove the server %s: nothing is done yet; if its machine is gone for "
			"good, which nobody but you can know, say --yes",
			text);
	}
	ret = afar_server_remove(cli->session, server.number);
	if (ret)
		return cli_fail_last(ret);
	printf("removed server %" PRIu64 ", and with it %s\n", server.number, lost);
	return 0;
}

static int server_rm(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *is_sure = NULL;
	const struct cli_flag flags[] = {
		{"yes", NULL, "its machine is gone for good, or nobody needs what is on it",
		 &is_sure},
		{0},
	};
	int ret;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &ret) < 0)
		return ret;
	ret = cli_open(cli);
	return ret ? ret : cli_close(cli, remove_server(cli, arguments[0], is_sure));
}

const struct cli_command server_commands[] = {
	{"server rm", "SERVER [--yes]", "take a server that is gone for good out of the cluster",
	 server_rm},
	{0},
};
