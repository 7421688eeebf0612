/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar manager …`: looks whether the manager's records are what it has committed. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static void print_damaged(void *argument, const char *record)
{
	(void)argument;
	cli_print(record);
	printf(": its record is damaged\n");
}

static int check_running(struct cli *cli)
{
	uint64_t nr_records = 0;
	int64_t nr = afar_manager_check(cli->session, print_damaged, NULL, &nr_records);

	if (nr < 0)
		return cli_fail_last((int)nr);
	if (nr > 0)
		return cli_fail(
			"check the manager: %" PRId64 " of its %" PRIu64
			" records are damaged, as shown; keep a copy of its folder, and put "
			"back one from before",
			nr, nr_records);
	printf("%" PRIu64 " records, all as they were committed\n", nr_records);
	return 0;
}

/* The folder of a manager that does not run is its own program's business. */
static int check_folder(const char *folder)
{
	char daemon[PATH_MAX];

	up_find_daemon(daemon, sizeof(daemon));
	execlp(daemon, "afard", "--check", folder, (char *)NULL);
	return cli_fail("check the manager's folder %s: start %s: %s; install afard beside afar or "
			"in PATH",
			folder, daemon, afar_strerror(errno));
}

static int manager_check(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	int nr, ret;

	nr = cli_arguments(cli, command, NULL, argc, argv, 0, 1, arguments, &ret);
	if (nr < 0)
		return ret;
	if (nr == 1)
		return check_folder(arguments[0]);
	ret = cli_open(cli);
	return ret ? ret : cli_close(cli, check_running(cli));
}

const struct cli_command manager_commands[] = {
	{"manager check", "[FOLDER]",
	 "look whether the manager's records are damaged; with FOLDER, those of a manager that "
	 "does "
	 "not run",
	 manager_check},
	{0},
};
