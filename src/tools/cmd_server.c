/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar server …`: removes a server that is gone for good from the cluster. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "lost.h"
#include "servers.h"

/* ---- Removing */

static int remove_server(struct cli *cli, const char *text, bool is_sure)
{
	char granted[SIZE_TEXT_MAX];
	struct found_server server = {0};
	int64_t nr_lost;
	int ret = server_find(cli, "remove the", text, &server);

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
		printf("%" PRId64 " region%s %s lost with server %" PRIu64
		       ", which is down for %" PRIu64 " s and held %s\n",
		       nr_lost, cli_plural(nr_lost), nr_lost == 1 ? "is" : "are", server.number,
		       server.down_ms / 1000, size_text(server.granted_bytes, granted));
		fflush(stdout);
		return cli_fail(
			"remove the server %s: nothing is done yet; if its machine is gone for "
			"good, which nobody but you can know, say --yes",
			text);
	}
	ret = afar_server_remove(cli->session, server.number);
	if (ret)
		return cli_fail_last(ret);
	printf("removed server %" PRIu64 ", and with it %" PRId64 " region%s\n", server.number,
	       nr_lost, cli_plural(nr_lost));
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
