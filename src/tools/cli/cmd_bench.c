/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar bench`: becomes afar-bench, a program of the suites in bench/, which starts clusters of its own; or afar-simulate,
 * which needs none. They are where Afar was built, and are not installed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "help.h"
#include "program.h"

/* Returns only if it fails. */
static int become(const char *name, char **argv)
{
	static const char *const places[] = {"../../bench", "../../bench/simulator", NULL};
	char program[PATH_MAX];

	if (!program_find(name, X_OK, places, program))
		return cli_fail("bench: this afar has no benchmarks beside it; 'make build' in "
				"Afar's source makes build/afar, which has them");
	execv(program, argv);
	return cli_fail("bench: start %s: %s", program, afar_strerror(errno));
}

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
		help_command(command, flags, cli_global_flags);
		return 0;
	}
	if (cli->cluster || cli->key_file || cli->timeout_ms)
		return cli_misuse(NULL,
				  "bench: it starts clusters of its own and takes only its own "
				  "flags");
	if (argc > 1 && !strcmp(argv[1], "simulate"))
		return become("afar-simulate", argv + 1);
	return become("afar-bench", argv);
}

const struct cli_command bench_commands[] = {
	{"bench", "[SUITE] [--json] [--long] [--reps N] [--row TEXT]",
	 "measure against the machine's limits", bench},
	{0},
};
