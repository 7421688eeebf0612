/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar bench`: passes its arguments to the benchmarks in bench/, which open a session of their
 * own. */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "cli.h"
#include "help.h"

static int bench(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	static const struct cli_flag flags[] = {
		{"json", NULL, "as JSON", NULL},
		{"long", NULL, "also the rows that take minutes", NULL},
		{"reps", "N", "how often to measure each", NULL},
		{"row", "TEXT", "only the rows with this in their names", NULL},
		{0},
	};

	if (argc == 2 && !strcmp(argv[1], "--help")) {
		help_command(command, flags);
		return 0;
	}
	if (cli->cluster || cli->key_file || cli->timeout_ms)
		return cli_misuse(NULL,
				  "bench: it starts clusters of its own and takes only its own "
				  "flags");
	return bench_main(argc, argv);
}

const struct cli_command bench_commands[] = {
	{"bench", "[SUITE] [--json] [--long] [--reps N] [--row TEXT]",
	 "measure against the machine's limits", bench},
	{0},
};
