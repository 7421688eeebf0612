/* SPDX-License-Identifier: BSD-3-Clause */
/* The help texts; see help.h. Called by main() and, for each command's --help, by
 * cli_arguments(). */
#include "help.h"

#include <stdio.h>
#include <string.h>

#include "wrap.h"

#define COMMAND_COLUMNS 42
#define FLAG_COLUMNS	22

static void print_flags(const struct cli_flag *flags)
{
	char name[64];

	for (; flags && flags->name; flags++) {
		snprintf(name, sizeof(name), "%s%s%s%s", flags->name[1] ? "--" : "-", flags->name,
			 flags->argument ? " " : "", flags->argument ? flags->argument : "");
		wrap_entry(name, FLAG_COLUMNS, flags->help);
	}
}

static bool is_of_group(const struct cli_command *command, const char *group)
{
	size_t length = strlen(group);

	return strncmp(command->name, group, length) == 0 && command->name[length] == ' ';
}

static void print_commands(const struct cli_command *const *groups, const char *group)
{
	char usage[256];

	for (size_t i = 0; groups[i]; i++) {
		for (const struct cli_command *command = groups[i]; command->name; command++) {
			if (group && !is_of_group(command, group))
				continue;
			snprintf(usage, sizeof(usage), "%s%s%s", command->name,
				 *command->arguments ? " " : "", command->arguments);
			wrap_entry(usage, COMMAND_COLUMNS, command->summary);
		}
	}
}

void help_overview(const struct cli_command *const *groups, const char *group,
		   const struct cli_flag *global_flags)
{
	static const struct cli_flag own_flags[] = {
		{"version", NULL, "the version", NULL},
		{"help", NULL, "this, or after a command its own flags", NULL},
		{0},
	};

	if (group) {
		printf("Usage: afar %s COMMAND [ARGUMENT…]\n\n", group);
	} else {
		printf("Usage: afar [FLAG…] COMMAND [ARGUMENT…]\n\n");
		wrap_words("Other machines' memory, set up ahead and then read and written "
			   "one-sided.",
			   0, 0);
		putchar('\n');
	}
	print_commands(groups, group);
	putchar('\n');
	print_flags(global_flags);
	print_flags(own_flags);
	putchar('\n');
	wrap_words("SIZE takes K, M, G, T. NS:@0xADDRESS names a region by its address. "
		   "See afar(1).",
		   0, 0);
}

void help_command(const struct cli_command *command, const struct cli_flag *flags,
		  const struct cli_flag *global_flags)
{
	char usage[256];

	snprintf(usage, sizeof(usage), "Usage: afar %s %s", command->name, command->arguments);
	wrap_words(usage, 0, 6);
	putchar('\n');
	wrap_words(command->summary, 0, 0);
	putchar('\n');
	print_flags(flags);
	print_flags(global_flags);
}
