/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line: takes the global flags, finds the command — "status", or a group's "ns create" —
 * in the groups' tables, and runs it. What each does is in cmd_GROUP.c.
 *
 * Exit status: 0 done, 1 failed (one line on standard error), 2 not understood, 130 interrupted, 141 nobody reads its output.
 */
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const struct cli_command *const groups[] = {
	up_commands,	 status_commands, top_commands,	  ns_commands,
	region_commands, key_commands,	  bench_commands, flash_commands,
};
#define NR_GROUPS (sizeof(groups) / sizeof(groups[0]))

static void show_help(void)
{
	char usage[64];

	printf("Usage: afar [FLAG…] COMMAND [ARGUMENT…]\n\n"
	       "Other machines' memory, set up ahead and then read and written one-sided.\n\n");
	for (size_t i = 0; i < NR_GROUPS; i++) {
		for (const struct cli_command *command = groups[i]; command->name; command++) {
			snprintf(usage, sizeof(usage), "%s %s", command->name, command->arguments);
			if (strlen(usage) <= 38)
				printf("  %-38s  %s\n", usage, command->summary);
			else
				printf("  %s\n  %-38s  %s\n", usage, "", command->summary);
		}
	}
	printf("\n" CLI_GLOBAL_FLAGS "  --version           the version\n"
	       "  --help              this, or after a command its own flags\n\n"
	       "SIZE takes K, M, G, T. NS:@0xADDRESS names a region by its address. See "
	       "afar(1).\n");
}

/* Words of `name` if argv begins with them, else 0. */
static int match(const char *name, int argc, char **argv)
{
	const char *space = strchr(name, ' ');

	if (!space)
		return strcmp(argv[0], name) == 0 ? 1 : 0;
	if (argc < 2 || strlen(argv[0]) != (size_t)(space - name) ||
	    strncmp(argv[0], name, (size_t)(space - name)) != 0)
		return 0;
	return strcmp(argv[1], space + 1) == 0 ? 2 : 0;
}

/* `argv[0]` is a group's name without one of its commands: names those that there are. */
static int refuse_command(int argc, char **argv)
{
	char known[256] = "";
	size_t length = strlen(argv[0]);

	for (size_t i = 0; i < NR_GROUPS; i++) {
		for (const struct cli_command *command = groups[i]; command->name; command++) {
			if (strncmp(command->name, argv[0], length) == 0 &&
			    command->name[length] == ' ')
				snprintf(known + strlen(known), sizeof(known) - strlen(known),
					 "%s%s", *known ? ", " : "", command->name + length + 1);
		}
	}
	if (!*known)
		return cli_misuse(NULL, "'%.64s' is no command", argv[0]);
	if (argc < 2)
		return cli_misuse(NULL, "%s: what of it? There are %s", argv[0], known);
	return cli_misuse(NULL, "'%s %.64s' is no command; there are %s", argv[0], argv[1], known);
}

static int run_command(struct cli *cli, int argc, char **argv)
{
	int words;

	for (size_t i = 0; i < NR_GROUPS; i++) {
		for (const struct cli_command *command = groups[i]; command->name; command++) {
			words = match(command->name, argc, argv);
			/* The command's last word is its argv[0]. */
			if (words)
				return command->run(cli, command, argc - words + 1,
						    argv + words - 1);
		}
	}
	return refuse_command(argc, argv);
}

/* The value of the global flag `name` at argv[*at], or NULL; "--name VALUE" or "--name=VALUE". */
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

/* Takes one global flag, with its value. GO_ON, or the exit status. */
static int take_flag(struct cli *cli, char **argv, int *at)
{
	const char *value;

	if (!strcmp(argv[*at], "--help") || !strcmp(argv[*at], "-h")) {
		show_help();
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

static int run_line(struct cli *cli, int argc, char **argv)
{
	int at, status;

	for (at = 1; at < argc && argv[at][0] == '-'; at++) {
		status = take_flag(cli, argv, &at);
		if (status != GO_ON)
			return status;
	}
	if (at == argc)
		return cli_misuse(NULL, "no command is given");
	return run_command(cli, argc - at, argv + at);
}

/* Flushes standard output. 0 or an errno, also of a write that failed before. */
static int end_output(void)
{
	struct pollfd reader = {.fd = STDOUT_FILENO, .events = POLLOUT};

	if (fflush(stdout))
		return errno;
	if (!ferror(stdout))
		return 0;
	/* That write's errno is forgotten; a pipe without a reader still shows. */
	return poll(&reader, 1, 0) == 1 && reader.revents & POLLERR ? EPIPE : EIO;
}

int main(int argc, char **argv)
{
	struct cli cli = {0};
	int error, status;

	/* Which characters can be printed; numbers and messages stay as they are. */
	setlocale(LC_CTYPE, "");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit fails like any other */
	status = run_line(&cli, argc, argv);
	error = end_output();
	/* Whoever read our output has seen enough: no complaint, but not a success either. */
	if (error && !status)
		status = error == EPIPE ? CLI_NO_READER
					: cli_fail("write the result: %s", afar_strerror(error));
	return status;
}
