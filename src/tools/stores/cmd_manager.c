/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar manager …`: looks whether the manager's records are what it has committed, and accepts that they are older than what
 * servers have seen. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/commands.h"
#include "tools/cli/program.h"

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

	program_find_daemon(daemon);
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

/* ---- Accepting older records */

/* Prints who has seen later records. Returns how many, or a negative error. */
static int print_newer(struct cli *cli)
{
	const json_t *name;
	json_t *status;
	size_t i, nr;
	char *json;
	int ret = afar_session_status(cli->session, &json);

	if (ret)
		return ret;
	status = json_loads(json, 0, NULL);
	free(json);
	nr = json_array_size(json_object_get(status, "newer"));
	json_array_foreach(json_object_get(status, "newer"), i, name)
	{
		cli_print(json_string_value(name));
		printf(" has seen later records than the manager has, and is kept out\n");
	}
	fflush(stdout);
	json_decref(status);
	return (int)nr;
}

static int accept(struct cli *cli, bool is_sure)
{
	int ret = print_newer(cli);

	if (ret < 0)
		return cli_fail_last(ret);
	if (ret > 0 && !is_sure)
		return cli_fail(
			"accept older records: nothing is done yet; put the manager's newest "
			"folder "
			"back if there is one. Else say --yes: what was made since this copy is "
			"given up, programs that are connected end, and nothing of before "
			"is read until 'afar ns accept-older' says so of each namespace, because "
			"bytes were given to others since");
	ret = afar_manager_accept_older(cli->session);
	if (ret)
		return cli_fail_last(ret);
	printf("accepted: they join within seconds; see 'afar status' for what is not read before "
	       "'afar ns accept-older', and 'afar store ls' for what the manager does not know "
	       "of\n");
	return 0;
}

static int manager_accept(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *is_sure = NULL;
	const struct cli_flag flags[] = {
		{"yes", NULL, "the newest folder is lost, and what was made since is given up",
		 &is_sure},
		{0},
	};
	int ret;

	if (cli_arguments(cli, command, flags, argc, argv, 0, 0, arguments, &ret) < 0)
		return ret;
	ret = cli_open(cli);
	return ret ? ret : cli_close(cli, accept(cli, is_sure));
}

const struct cli_command manager_commands[] = {
	{"manager accept-older", "[--yes]",
	 "let servers join that have seen later records than the manager has", manager_accept},
	{"manager check", "[FOLDER]",
	 "look whether the manager's records are damaged; with FOLDER, those of a manager that "
	 "does "
	 "not run",
	 manager_check},
	{0},
};
