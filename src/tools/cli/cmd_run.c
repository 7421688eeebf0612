/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar run`: becomes a program that loads libafar-preload.so (src/frontends/preload), which takes its reads and writes of files of a mount
 * past the mount. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "commands.h"
#include "help.h"
#include "program.h"

#define LIBRARY	      "libafar-preload.so"
#define NOT_FOUND     127 /* as shells end then */
#define CANNOT_BE_RUN 126

/* Puts the library in front of those that the environment names already. Its parts end at blanks and colons. */
static int set_environment(const char *program, const char *library)
{
	const char *before = getenv("LD_PRELOAD");
	char *all;
	int ret;

	if (strpbrk(library, " :"))
		return cli_fail(
			"run %.255s: %s has a blank or a colon in its name, so no program can "
			"load it; install Afar elsewhere",
			program, library);
	if (before && strstr(before, library))
		return 0;
	if (asprintf(&all, "%s%s%s", library, before && *before ? ":" : "", before ? before : "") <
	    0)
		return cli_fail("run %.255s: out of memory", program);
	ret = setenv("LD_PRELOAD", all, 1);
	free(all);
	return ret ? cli_fail("run %.255s: out of memory", program) : 0;
}

static int run(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	static const char *const places[] = {"../frontends/preload", AFAR_PRELOAD_DIR, NULL};
	char library[PATH_MAX];
	int at = 1, ret;

	(void)cli;
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		help_command(command, NULL, cli_global_flags);
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "--"))
		at++;
	else if (argc > 1 && *argv[1] == '-')
		return cli_misuse(command,
				  "%.64s: unknown flag; a program whose name begins so "
				  "comes behind --",
				  argv[1]);
	if (at >= argc)
		return cli_misuse(command, "too few arguments: say which program is to run");
	if (!program_find(LIBRARY, R_OK, places, library))
		return cli_fail("run %.255s: find " LIBRARY ", which it is to load: it is not "
				"installed; install Afar anew",
				argv[at]);
	ret = set_environment(argv[at], library);
	if (ret)
		return ret;
	/* As a program expects them; cli_begin() has changed them for this one. */
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	execvp(argv[at], argv + at);
	ret = errno == ENOENT ? NOT_FOUND : CANNOT_BE_RUN;
	cli_fail("run %.255s: %s", argv[at],
		 ret == NOT_FOUND ? "there is no such program, neither here nor in PATH"
				  : afar_strerror(errno));
	return ret;
}

const struct cli_command run_commands[] = {
	{"run", "PROGRAM [ARGUMENT...]",
	 "run a program that reads and writes a mount's files past the mount", run},
	{0},
};
