/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar mount`: becomes afar-mount (src/frontends/fuse), a program of its own because it needs libfuse.
 * The program parses options in one form for all who start it, so flags become options here.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/commands.h"
#include "tools/cli/program.h"

#define PROGRAM "afar-mount"

struct request {
	char asked[600]; /* "mount FS at DIR", for messages */
	const char *fs, *directory;
	const char *read_only, *direct, *allow_other, *foreground, *subdir, *retry, *options;
};

/* ---- Options in words: "a,b=c" */

struct words {
	char *text; /* NULL: none yet, or no memory */
	bool is_short;
};

__attribute__((format(printf, 2, 3))) static void add(struct words *words, const char *format, ...)
{
	char *option, *longer;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&option, format, arguments) < 0)
		option = NULL;
	va_end(arguments);
	if (!option || asprintf(&longer, "%s%s%s", words->text ? words->text : "",
				words->text ? "," : "", option) < 0) {
		words->is_short = true;
	} else {
		free(words->text);
		words->text = longer;
	}
	free(option);
}

/* Adds an option whose value may hold commas, which would end it. */
static void add_value(struct words *words, const char *name, const char *value)
{
	char *escaped = malloc(2 * strlen(value) + 1), *end = escaped;

	if (!escaped) {
		words->is_short = true;
		return;
	}
	for (; *value; value++) {
		if (*value == ',' || *value == '\\')
			*end++ = '\\';
		*end++ = *value;
	}
	*end = '\0';
	add(words, "%s=%s", name, escaped);
	free(escaped);
}

static void fill_options(const struct cli *cli, const struct request *request, struct words *out)
{
	if (request->read_only)
		add(out, "ro");
	if (request->direct)
		add(out, "direct");
	if (request->allow_other)
		add(out, "allow_other");
	if (request->subdir)
		add_value(out, "subdir", request->subdir);
	if (request->retry)
		add_value(out, "retry", request->retry);
	if (cli->cluster)
		add_value(out, "uri", cli->cluster);
	if (cli->key_file)
		add_value(out, "key", cli->key_file);
	if (cli->path)
		add_value(out, "path", cli->path);
	if (cli->timeout_ms)
		add(out, "timeout=%u", cli->timeout_ms / 1000);
	if (request->options)
		add(out, "%s", request->options);
}

/* ---- afar-mount */

/* Finds the one that was built or installed with this program. */
static int find_program(const struct request *request, char out[PATH_MAX])
{
	static const char *const places[] = {"../frontends/fuse", AFAR_MOUNT_DIR, NULL};

	if (program_find(PROGRAM, X_OK, places, out))
		return 0;
	return cli_fail("%s: find its program, " PROGRAM ": it is not installed; build Afar where "
			"libfuse's header is (apt install libfuse3-dev fuse3)",
			request->asked);
}

static int become(const struct cli *cli, const struct request *request)
{
	const char *words[8];
	struct words options = {0};
	char program[PATH_MAX];
	size_t nr = 0;
	int ret = find_program(request, program);

	if (ret)
		return ret;
	fill_options(cli, request, &options);
	if (options.is_short) {
		free(options.text);
		return cli_fail("%s: out of memory", request->asked);
	}
	words[nr++] = PROGRAM;
	if (request->foreground)
		words[nr++] = "-f";
	if (options.text) {
		words[nr++] = "-o";
		words[nr++] = options.text;
	}
	words[nr++] = "--";
	words[nr++] = request->fs;
	words[nr++] = request->directory;
	words[nr] = NULL;
	execv(program, (char *const *)words);
	free(options.text);
	return cli_fail("%s: start %s: %s; install Afar anew", request->asked, program,
			afar_strerror(errno));
}

/* Makes the long flags of -f and -o OPTION,…, which are known from mount(8). Several -o are one. Takes them
 * out of argv, whose new length it returns; -1: -o has no value. */
static int take_letters(int argc, char **argv, bool *is_foreground, struct words *options)
{
	int nr = 0;

	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "-f") == 0) {
			*is_foreground = true;
		} else if (strcmp(argv[i], "-o") == 0) {
			if (++i == argc)
				return -1;
			add(options, "%s", argv[i]);
		} else if (strncmp(argv[i], "-o", 2) == 0) {
			add(options, "%s", argv[i] + 2);
		} else {
			argv[nr++] = argv[i];
		}
	}
	argv[nr] = NULL;
	return nr;
}

static int run_mount(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct request request = {0};
	const struct cli_flag flags[] = {
		{"read-only", NULL, "nobody can write through it", &request.read_only},
		{"direct", NULL, "without the kernel's page cache", &request.direct},
		{"allow-other", NULL, "for all users; root's mounts are", &request.allow_other},
		{"foreground", NULL, "stay here until it is unmounted (-f)", &request.foreground},
		{"subdir", "SUBDIR", "show this directory of it, as FS/SUBDIR does",
		 &request.subdir},
		{"retry", "SECONDS",
		 "how long to wait for a server that is away (default: for ever)", &request.retry},
		{"options", "OPTIONS", "those of mount(8) and afar-mount(8) (-o)",
		 &request.options},
		{0},
	};
	struct words letters = {0};
	bool is_foreground = false;
	int status;

	argc = take_letters(argc, argv, &is_foreground, &letters);
	if (argc < 0)
		return cli_misuse(command, "-o needs a value");
	if (cli_arguments(cli, command, flags, argc, argv, 2, 2, arguments, &status) < 0)
		return status;
	request.fs = arguments[0];
	request.directory = arguments[1];
	snprintf(request.asked, sizeof(request.asked), "mount %.255s at %.255s", request.fs,
		 request.directory);
	if (is_foreground)
		request.foreground = "";
	if (request.options)
		add(&letters, "%s", request.options);
	if (letters.is_short)
		return cli_fail("%s: out of memory", request.asked);
	request.options = letters.text;
	status = become(cli, &request);
	free(letters.text);
	return status;
}

const struct cli_command mount_commands[] = {
	{"mount",
	 "FS|URI DIR [--read-only] [--direct] [--allow-other] [--foreground] [--subdir SUBDIR] "
	 "[--retry SECONDS] [--options OPTIONS]",
	 "mount a file system at a directory", run_mount},
	{0},
};
