/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar sort …` and `afar graph …`: become afar-sort and afar-graph, programs of their own in apps/. These lie beside this
 * program, where they were built, or in PATH. They take the flags and the words behind the group's name.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/graph/commands.h"
#include "apps/sort/commands.h"
#include "commands.h"
#include "program.h"

#define FLAG_WORDS 8 /* four flags, with their values */

static void add_flag(const char **words, size_t *nr, const char *flag, const char *value)
{
	if (!value)
		return;
	words[(*nr)++] = flag;
	words[(*nr)++] = value;
}

/* Returns only if it fails. `argv` begins with the command's last word. */
static int become(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	static const char *const places[] = {".", "../../apps/sort", "../../apps/graph", NULL};
	int length = (int)strcspn(command->name, " ");
	const char **words = calloc((size_t)argc + FLAG_WORDS + 2, sizeof(*words));
	char name[32], timeout[24], program[PATH_MAX];
	size_t nr = 0;

	if (!words)
		return cli_fail("%s: out of memory", command->name);
	snprintf(name, sizeof(name), "afar-%.*s", length, command->name);
	snprintf(timeout, sizeof(timeout), "%u", cli->timeout_ms / 1000);
	words[nr++] = name;
	add_flag(words, &nr, "--cluster", cli->cluster);
	add_flag(words, &nr, "--key", cli->key_file);
	add_flag(words, &nr, "--path", cli->path);
	add_flag(words, &nr, "--timeout", cli->timeout_ms ? timeout : NULL);
	memcpy(words + nr, argv, (size_t)argc * sizeof(*argv));
	program_find(name, X_OK, places, program);
	execvp(program, (char *const *)(uintptr_t)words);
	free(words);
	if (errno == ENOENT)
		return cli_fail("%.*s: its program, %s, is not installed: neither beside afar nor "
				"in PATH",
				length, command->name, name);
	return cli_fail("%.*s: start %s: %s", length, command->name, program, afar_strerror(errno));
}

#define COMMAND(name, arguments, summary, run) {name, arguments, summary, become},

const struct cli_command sort_commands[] = {SORT_COMMANDS(COMMAND){0}};
const struct cli_command graph_commands[] = {GRAPH_COMMANDS(COMMAND){0}};
