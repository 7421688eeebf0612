/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar bench`: hands its arguments to the benchmarks in bench/, which have a session of their own. */
#include <stdio.h>

#include "bench.h"
#include "cli.h"

static int bench(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	(void)command;
	if (cli->cluster || cli->key_file || cli->timeout_ms)
		return cli_misuse(NULL,
				  "bench: it starts clusters of its own and takes only its own "
				  "flags");
	return bench_main(argc, argv);
}

const struct cli_command bench_commands[] = {
	{"bench", "[SUITE] [--json] [--reps N]", "measure against the machine's limits", bench},
	{0},
};
