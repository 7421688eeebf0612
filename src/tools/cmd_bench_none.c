/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar bench` where the benchmarks were left out of the build (-Dbench=false). */
#include "cli.h"

static int bench(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	(void)cli;
	(void)command;
	(void)argc;
	(void)argv;
	return cli_misuse(NULL, "bench: this afar was built without benchmarks; build it with "
				"-Dbench=true");
}

const struct cli_command bench_commands[] = {
	{"bench", "", "measure against the machine's limits (not built)", bench},
	{0},
};
