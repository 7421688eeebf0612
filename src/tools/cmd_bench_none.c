/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar bench` and `afar flash simulate` in a build without the benchmarks (-Dbench=false). */
#include "cli.h"
#include "cmd_flash.h"

static int refuse(const char *name)
{
	return cli_misuse(NULL,
			  "%s: this afar was built without benchmarks; build it with -Dbench=true",
			  name);
}

static int bench(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	(void)cli;
	(void)command;
	(void)argc;
	(void)argv;
	return refuse("bench");
}

int flash_simulate(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	(void)cli;
	(void)command;
	(void)argc;
	(void)argv;
	return refuse("flash simulate");
}

const struct cli_command bench_commands[] = {
	{"bench", "", "measure against the machine's limits (not built)", bench},
	{0},
};
