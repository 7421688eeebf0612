/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar bench`: becomes afar-bench, a program of the suites in bench/, which starts clusters of its own. It stands beside
 * this one where Afar was built, and is not installed.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "help.h"

#define PROGRAM "afar-bench"

/* Returns only if it fails. */
static int become(char **argv)
{
	char program[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - sizeof(PROGRAM));
	char *slash;

	program[length > 0 ? length : 0] = '\0';
	slash = strrchr(program, '/');
	strcpy(slash ? slash + 1 : program, PROGRAM);
	execv(program, argv);
	if (errno == ENOENT)
		return cli_fail("bench: this afar has no benchmarks beside it; 'make build' in "
				"Afar's source "
				"makes build/afar, which has them");
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
	return become(argv);
}

const struct cli_command bench_commands[] = {
	{"bench", "[SUITE] [--json] [--long] [--reps N] [--row TEXT]",
	 "measure against the machine's limits", bench},
	{0},
};
