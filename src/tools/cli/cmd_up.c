/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar up`: a whole cluster in one process. Becomes afard: the one that was built or installed
 * with this program, if there is one. The user's flags for afard come after ours and take
 * precedence.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "program.h"

#define DAEMON "afard"

static int up(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	static char *const own[] = {DAEMON, "--role", "all", "--data", "./afar-data"};
	const size_t nr_own = sizeof(own) / sizeof(own[0]);
	char daemon[PATH_MAX];
	char **arguments;

	(void)command;
	if (cli->cluster)
		return cli_misuse(NULL, "up: it starts a cluster and takes no --cluster");
	arguments = calloc(nr_own + (size_t)argc + 2, sizeof(*arguments));
	if (!arguments)
		return cli_fail("up: out of memory");
	memcpy(arguments, own, sizeof(own));
	memcpy(arguments + nr_own, argv + 1, (size_t)(argc - 1) * sizeof(*argv));
	if (cli->key_file) {
		arguments[nr_own + (size_t)argc - 1] = "--key";
		arguments[nr_own + (size_t)argc] = (char *)cli->key_file;
	}
	program_find_daemon(daemon);
	execvp(daemon, arguments);
	free(arguments);
	return cli_fail("up: start %s: %s; install afard beside afar or in PATH", daemon,
			afar_strerror(errno));
}

const struct cli_command up_commands[] = {
	{"up", "[AFARD-FLAG…]", "start a cluster here: manager and server in one process", up},
	{0},
};
