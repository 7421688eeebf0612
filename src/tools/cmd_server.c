/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar server …`: removes a server that is gone for good from the cluster. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "lost.h"

struct found_server {
	uint64_t number;
	bool is_up;
	uint64_t down_ms;
	uint64_t granted_bytes;
};

/* ---- Which one */

/* Returns whether `text` is the server's name or number. */
static bool is_called(const json_t *server, const char *text)
{
	const char *name = json_string_value(json_object_get(server, "name"));
	char number[32];

	snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
		 json_integer_value(json_object_get(server, "server")));
	return !strcmp(text, number) || (name && !strcmp(text, name));
}

static uint64_t number_of(const json_t *object, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(object, name));
}

static int pick(const json_t *status, const char *text, struct found_server *out)
{
	const json_t *server;
	size_t i, nr = 0;

	json_array_foreach(json_object_get(status, "servers"), i, server)
	{
		if (!is_called(server, text))
			continue;
		nr++;
		out->number = number_of(server, "server");
		out->is_up = json_is_true(json_object_get(server, "is_up"));
		out->down_ms = number_of(server, "down_ms");
		out->granted_bytes = number_of(server, "granted_bytes");
	}
	if (nr == 0)
		return cli_fail("remove the server %s: there is none of this name or number; "
				"'afar status' lists them",
				text);
	if (nr > 1)
		return cli_fail(
			"remove the server %s: %zu have this name or number; use the number "
			"that one of them alone has, from 'afar status --json'",
			text, nr);
	return 0;
}

static int find(struct cli *cli, const char *text, struct found_server *out)
{
	json_t *status;
	char *json;
	int ret = afar_session_status(cli->session, &json);

	if (ret)
		return cli_fail_last(ret);
	status = json_loads(json, 0, NULL);
	free(json);
	if (!status)
		return cli_fail(
			"remove the server %s: the library's answer is no JSON; use the same "
			"release of afar and libafar",
			text);
	ret = pick(status, text, out);
	json_decref(status);
	return ret;
}

/* ---- Removing */

static int remove_server(struct cli *cli, const char *text, bool is_sure)
{
	char granted[SIZE_TEXT_MAX];
	struct found_server server = {0};
	int64_t nr_lost;
	int ret = find(cli, text, &server);

	if (ret)
		return ret;
	if (server.is_up && !is_sure)
		return cli_fail(
			"remove the server %s: it is up; stop it first, if nobody needs what is "
			"on it",
			text);
	/* The manager itself checks whether a server that seems to be up still lives. */
	nr_lost = server.is_up ? 0 : lost_print(cli, afar_server_regions, server.number);
	if (nr_lost < 0)
		return cli_fail_last((int)nr_lost);
	if (!is_sure) {
		printf("%" PRId64 " regions are lost with server %" PRIu64
		       ", which is down for %" PRIu64 " s and held %s\n",
		       nr_lost, server.number, server.down_ms / 1000,
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
	printf("removed server %" PRIu64 ", and with it %" PRId64 " regions\n", server.number,
	       nr_lost);
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
