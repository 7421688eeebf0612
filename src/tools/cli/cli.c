/* SPDX-License-Identifier: BSD-3-Clause */
/* Code that the commands of `afar` share; see cli.h. Owns the session of the one command that
 * runs. */
#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "help.h"

#define FLAGS_MAX     16 /* of one command */
#define TIMEOUT_MAX_S 86400

/* ---- Failing */

/* Prints one line, whatever the text holds, so that text from elsewhere cannot control the
 * terminal. */
static void complain(const char *kind, const char *format, va_list arguments)
{
	char *text, *printable;

	if (vasprintf(&text, format, arguments) < 0)
		return;
	printable = cli_printable(text, NULL);
	fprintf(stderr, "afar: %s%s\n", kind, printable ? printable : "out of memory");
	free(printable);
	free(text);
}

int cli_fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	complain("", format, arguments);
	va_end(arguments);
	return CLI_FAILED;
}

void cli_note(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	complain("note: ", format, arguments);
	va_end(arguments);
}

int cli_fail_last(int error)
{
	const char *line = afar_last_error();

	return cli_fail("%s", *line ? line : afar_strerror(error));
}

int cli_misuse(const struct cli_command *command, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (command)
		cli_fail("%s: %s; usage: afar %s %s", command->name, text, command->name,
			 command->arguments);
	else
		cli_fail("%s; see afar --help", text);
	return CLI_USAGE;
}

/* ---- Commands */

/* Returns how many words `name` has if argv begins with them, else 0. */
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

const struct cli_command *cli_find(const struct cli *cli, int argc, char **argv, int *words)
{
	for (size_t i = 0; cli->groups[i] && argc; i++) {
		for (const struct cli_command *command = cli->groups[i]; command->name; command++) {
			*words = match(command->name, argc, argv);
			if (*words)
				return command;
		}
	}
	return NULL;
}

/* ---- Flags */

const struct cli_flag cli_global_flags[] = {
	{"cluster", "URI",
	 "the cluster (default: $AFAR_CLUSTER, else the one in ./afar-data, else this machine's)",
	 NULL},
	{"key", "FILE", "the key to open it with", NULL},
	{"path", "TRANSPORT", "the only one to reach memory over (default: the best that works)",
	 NULL},
	{"timeout", "SECONDS", "how long a call may take (default 30)", NULL},
	{0},
};

enum { FLAG_CLUSTER = 1000, FLAG_KEY, FLAG_PATH, FLAG_TIMEOUT, FLAG_HELP };

int cli_set_timeout(struct cli *cli, const char *value)
{
	uint64_t seconds;

	if (number_parse(value, TIMEOUT_MAX_S, &seconds) || !seconds)
		return cli_misuse(NULL,
				  "--timeout: '%.64s' is not a number of seconds from 1 to %d",
				  value, TIMEOUT_MAX_S);
	cli->timeout_ms = (uint32_t)seconds * 1000;
	return 0;
}

static bool is_letter(const struct cli_flag *flag)
{
	return !flag->name[1];
}

/* Fills in what getopt_long() wants of the flags: `letters`, and long ones. */
static void fill_options(const struct cli_flag *flags, char letters[2 * FLAGS_MAX + 2],
			 struct option options[FLAGS_MAX + 6])
{
	size_t n = 0;

	*letters++ = ':';
	for (int i = 0; flags && flags[i].name && i < FLAGS_MAX; i++) {
		if (!is_letter(&flags[i])) {
			options[n++] = (struct option){
				flags[i].name, flags[i].argument ? required_argument : no_argument,
				NULL, i};
			continue;
		}
		*letters++ = *flags[i].name;
		if (flags[i].argument)
			*letters++ = ':';
	}
	*letters = '\0';
	options[n++] = (struct option){"cluster", required_argument, NULL, FLAG_CLUSTER};
	options[n++] = (struct option){"key", required_argument, NULL, FLAG_KEY};
	options[n++] = (struct option){"path", required_argument, NULL, FLAG_PATH};
	options[n++] = (struct option){"timeout", required_argument, NULL, FLAG_TIMEOUT};
	options[n++] = (struct option){"help", no_argument, NULL, FLAG_HELP};
	options[n] = (struct option){0};
}

/* Returns which of the flags is the letter, which is one of them. */
static int index_of(const struct cli_flag *flags, int letter)
{
	for (int i = 0; flags[i].name; i++) {
		if (is_letter(&flags[i]) && *flags[i].name == letter)
			return i;
	}
	return 0;
}

/* Takes one flag. Returns 0 to go on, else -1 with `*status`. */
static int take_flag(struct cli *cli, const struct cli_command *command,
		     const struct cli_flag *flags, int flag, const char *typed, int *status)
{
	*status = 0;
	switch (flag) {
	case FLAG_CLUSTER:
		cli->cluster = optarg;
		return 0;
	case FLAG_KEY:
		cli->key_file = optarg;
		return 0;
	case FLAG_PATH:
		cli->path = optarg;
		return 0;
	case FLAG_TIMEOUT:
		*status = cli_set_timeout(cli, optarg);
		return *status ? -1 : 0;
	case FLAG_HELP:
		help_command(command, flags, cli_global_flags);
		return -1;
	case ':':
		*status = cli_misuse(command, "%.64s needs a value", typed);
		return -1;
	case '?':
		*status = cli_misuse(command, "unknown flag %.64s", typed);
		return -1;
	default:
		if (flag >= FLAGS_MAX)
			flag = index_of(flags, flag);
		*flags[flag].value = optarg ? optarg : "";
		return 0;
	}
}

int cli_argument_list(struct cli *cli, const struct cli_command *command,
		      const struct cli_flag *flags, int argc, char **argv, int min, int max,
		      char ***arguments, int *status)
{
	struct option options[FLAGS_MAX + 6];
	char letters[2 * FLAGS_MAX + 2];
	int flag, n;

	fill_options(flags, letters, options);
	optind = 0;
	opterr = 0;
	while ((flag = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		if (flag == '?' && optopt >= ' ' && optopt < 0x7f) {
			*status = cli_misuse(command, "unknown flag -%c", optopt);
			return -1;
		}
		if (take_flag(cli, command, flags, flag, argv[optind - 1], status))
			return -1;
	}
	n = argc - optind;
	*arguments = argv + optind;
	if (max >= 0 && n > max) {
		*status = cli_misuse(command, "unexpected argument '%.64s'", (*arguments)[max]);
		return -1;
	}
	if (n < min) {
		*status = cli_misuse(command, "too few arguments");
		return -1;
	}
	return n;
}

int cli_arguments(struct cli *cli, const struct cli_command *command, const struct cli_flag *flags,
		  int argc, char **argv, int min, int max, const char *arguments[CLI_ARGUMENTS_MAX],
		  int *status)
{
	char **list;
	int n = cli_argument_list(cli, command, flags, argc, argv, min, max, &list, status);

	for (int i = 0; i < n; i++)
		arguments[i] = list[i];
	return n;
}

int cli_size(const struct cli_command *command, const char *what, const char *text, uint64_t *out)
{
	switch (size_parse(text, out)) {
	case 0:
		break;
	case -ERANGE:
		return cli_misuse(command, "%s '%.64s' does not fit 64 bits", what, text);
	default:
		return cli_misuse(command, "%s '%.64s' is not a size such as 4096, 64M or 2G", what,
				  text);
	}
	if (!*out)
		return cli_misuse(command, "%s must be at least 1 byte", what);
	return 0;
}

int cli_limit(const struct cli_command *command, const char *what, const char *text, uint64_t *out)
{
	if (strcmp(text, "none") != 0)
		return cli_size(command, what, text, out);
	*out = 0;
	return 0;
}

/* ---- The session */

/* Returns whether no cluster and no key was named, and there is no cluster at the default place. */
static bool is_nowhere(const struct cli *cli)
{
	const char *environment = getenv("AFAR_CLUSTER");

	return !cli->cluster && !cli->key_file && !getenv("AFAR_KEY") &&
	       !(environment && *environment) && access("./afar-data/cluster", F_OK) != 0 &&
	       access("/etc/afar/cluster", F_OK) != 0;
}

int cli_open(struct cli *cli)
{
	const struct afar_session_options options = {
		.size = sizeof(options),
		.key_file = cli->key_file,
		.timeout_ms = cli->timeout_ms,
		.path = cli->path,
	};
	int ret;

	ret = afar_session_open(cli->cluster, &options, &cli->session);
	if (ret == -ENOENT && is_nowhere(cli))
		return cli_fail(
			"find the cluster: none runs in ./afar-data, and none is named; start "
			"one here with 'afar up' or name one with --cluster");
	return ret ? cli_fail_last(ret) : 0;
}

int cli_close(struct cli *cli, int status)
{
	if (cli->session)
		afar_session_close(cli->session);
	cli->session = NULL;
	return status;
}

/* ---- JSON */

json_t *cli_json_text(const char *text)
{
	json_t *string = *text ? json_string(text) : NULL;

	return string ? string : json_null();
}

json_t *cli_json_number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

int cli_print_json(json_t *json)
{
	char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;

	json_decref(json);
	if (!text)
		return cli_fail("show it as JSON: out of memory");
	puts(text);
	free(text);
	return 0;
}

/* ---- Lists */

int cli_list(struct cli *cli, const struct cli_command *command, int argc, char **argv,
	     cli_lister *list)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *as_json = NULL;
	const struct cli_flag flags[] = {
		{"json", NULL, "as JSON", &as_json},
		{0},
	};
	json_t *json;
	int ret, status;

	if (cli_arguments(cli, command, flags, argc, argv, 0, 0, arguments, &status) < 0)
		return status;
	status = cli_open(cli);
	if (status)
		return status;
	json = as_json ? json_array() : NULL;
	ret = list(cli, json);
	if (ret)
		status = cli_fail_last(ret);
	else if (as_json)
		status = cli_print_json(json_incref(json));
	json_decref(json);
	return cli_close(cli, status);
}

/* ---- Names */

void cli_print_padded(const char *text, size_t width)
{
	size_t columns = 0;
	char *printable = cli_printable(text, &columns);

	if (printable)
		fputs(printable, stdout);
	for (; columns < width; columns++)
		putchar(' ');
	free(printable);
}

void cli_print(const char *text)
{
	cli_print_padded(text, 0);
}
