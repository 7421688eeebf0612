/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a command line: takes the global flags, finds the command ("status", or a group's "ns create") in the groups' tables,
 * and runs it. Called by main() of afar and of the programs that it runs.
 *
 * Exit status: 0 done, 1 failed (one line on standard error), 2 not understood, 130 interrupted,
 * 141 nobody reads its output.
 */
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "help.h"

static bool is_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* Refuses a group's name without one of its commands, and names its commands. */
static int refuse_command(const struct cli *cli, int argc, char **argv)
{
	char known[256] = "";
	size_t length = strlen(argv[0]);

	for (size_t i = 0; cli->groups[i]; i++) {
		for (const struct cli_command *command = cli->groups[i]; command->name; command++) {
			if (strncmp(command->name, argv[0], length) == 0 &&
			    command->name[length] == ' ')
				snprintf(known + strlen(known), sizeof(known) - strlen(known),
					 "%s%s", *known ? ", " : "", command->name + length + 1);
		}
	}
	if (!*known)
		return cli_misuse(NULL, "'%.64s' is no command", argv[0]);
	if (argc < 2)
		return cli_misuse(NULL, "%s: say what to do: %s", argv[0], known);
	if (is_help(argv[1]) || !strcmp(argv[1], "help")) {
		help_overview(cli->groups, argv[0], cli_global_flags);
		return 0;
	}
	return cli_misuse(NULL, "'%s %.64s' is no command; the commands are: %s", argv[0], argv[1],
			  known);
}

static int run_command(struct cli *cli, int argc, char **argv)
{
	int words;
	const struct cli_command *command = cli_find(cli, argc, argv, &words);

	/* The command's last word is its argv[0]. */
	return command ? command->run(cli, command, argc - words + 1, argv + words - 1)
		       : refuse_command(cli, argc, argv);
}

/* Runs `afar help COMMAND` as `afar COMMAND --help`. */
static int help(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	char *words[4] = {0};

	if (argc == 1) {
		help_overview(cli->groups, NULL, cli_global_flags);
		return 0;
	}
	if (argc > 3)
		return cli_misuse(command, "unexpected argument '%.64s'", argv[3]);
	if (is_help(argv[1]) || !strcmp(argv[1], command->name)) {
		help_command(command, NULL, cli_global_flags);
		return 0;
	}
	memcpy(words, argv + 1, (size_t)(argc - 1) * sizeof(*argv));
	words[argc - 1] = (char *)"--help";
	return run_command(cli, argc, words);
}

const struct cli_command help_commands[] = {
	{"help", "[COMMAND]", "show the commands, or one command's flags", help},
	{0},
};

/* Returns the value of the global flag `name` at argv[*at], or NULL; "--name VALUE" or
 * "--name=VALUE". */
static const char *flag_value(const char *name, char **argv, int *at)
{
	size_t length = strlen(name);

	if (strncmp(argv[*at], name, length) != 0)
		return NULL;
	if (argv[*at][length] == '=')
		return argv[*at] + length + 1;
	if (argv[*at][length] || !argv[*at + 1])
		return NULL;
	return argv[++*at];
}

#define GO_ON (-1)

/* Takes one global flag, with its value. Returns GO_ON, or the exit status. */
static int take_flag(struct cli *cli, const char *group, char **argv, int *at)
{
	const char *value;

	if (is_help(argv[*at])) {
		help_overview(cli->groups, group, cli_global_flags);
		return 0;
	}
	if (!strcmp(argv[*at], "--version")) {
		printf("afar %s\n", AFAR_PROGRAM_VERSION);
		return 0;
	}
	if ((value = flag_value("--cluster", argv, at))) {
		cli->cluster = value;
		return GO_ON;
	}
	if ((value = flag_value("--key", argv, at))) {
		cli->key_file = value;
		return GO_ON;
	}
	if ((value = flag_value("--path", argv, at))) {
		cli->path = value;
		return GO_ON;
	}
	if ((value = flag_value("--timeout", argv, at)))
		return cli_set_timeout(cli, value) ? CLI_USAGE : GO_ON;
	return cli_misuse(NULL, "%.64s: unknown flag, or its value is missing", argv[*at]);
}

int cli_run(struct cli *cli, const char *group, int argc, char **argv)
{
	int at, ret;

	for (at = 1; at < argc && argv[at][0] == '-'; at++) {
		ret = take_flag(cli, group, argv, &at);
		if (ret != GO_ON)
			return ret;
	}
	if (group)
		argv[--at] = (char *)group; /* before it is at least the program's name */
	if (at == argc)
		return cli_misuse(NULL, "no command is given");
	return run_command(cli, argc - at, argv + at);
}

/* Flushes standard output. Returns 0 or an errno, also if an earlier write failed. */
static int end_output(void)
{
	struct pollfd reader = {.fd = STDOUT_FILENO, .events = POLLOUT};

	if (fflush(stdout))
		return errno;
	if (!ferror(stdout))
		return 0;
	/* The errno of that write is lost, but a pipe without a reader still shows. */
	return poll(&reader, 1, 0) == 1 && reader.revents & POLLERR ? EPIPE : EIO;
}

void cli_begin(void)
{
	/* Takes only the set of printable characters from the locale; numbers and messages stay the
	 * same. */
	setlocale(LC_CTYPE, "");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit fails like any other */
}

int cli_end(int status)
{
	int ret = end_output();

	/* A reader that has seen enough and closed the pipe is no reason for a message, but no
	 * success either. */
	if (ret && !status)
		status = ret == EPIPE ? CLI_NO_READER
				      : cli_fail("write the result: %s", afar_strerror(ret));
	return status;
}
