/* SPDX-License-Identifier: BSD-3-Clause */
/* The help texts; see help.h. Called by main() and, for each command's --help, by cli_arguments(). */
#include "help.h"

#include <stdio.h>
#include <string.h>

#include "terminal.h"

#define TEXT_COLUMNS_MIN 24 /* narrower than that a column of text is hard to read */
#define COMMAND_COLUMNS	 42
#define FLAG_COLUMNS	 22

/* ---- Cutting at words */

/* Columns of `length` bytes of our own UTF-8 text. */
static size_t columns_of(const char *text, size_t length)
{
	size_t columns = 0;

	for (size_t i = 0; i < length; i++)
		columns += ((unsigned char)text[i] & 0xc0) != 0x80;
	return columns;
}

/* Bytes up to the next place to cut at: "[--flag VALUE]" stays together. */
static size_t word_length(const char *text)
{
	size_t depth = 0, n;

	for (n = 0; text[n] && (depth || text[n] != ' '); n++) {
		if (text[n] == '[')
			depth++;
		else if (text[n] == ']' && depth)
			depth--;
	}
	return n;
}

static void start_line(size_t indent)
{
	printf("\n%*s", (int)indent, "");
}

/* Prints the words of `text` from column `at` on; lines after the first begin at `indent`. */
static void print_words(const char *text, size_t at, size_t indent)
{
	size_t lines, width;
	bool is_first = true;

	terminal_size(&lines, &width);
	while (*text) {
		size_t length = word_length(text), columns = columns_of(text, length);

		if (!is_first && at + 1 + columns > width) {
			start_line(indent);
			at = indent;
		} else if (!is_first) {
			putchar(' ');
			at++;
		}
		fwrite(text, 1, length, stdout);
		at += columns;
		text += length + strspn(text + length, " ");
		is_first = false;
	}
	putchar('\n');
}

/* `name`, and `text` in a column that begins at `indent`, or below where there is no room for one. */
static void print_entry(const char *name, size_t indent, const char *text)
{
	size_t at = 2 + columns_of(name, strlen(name));
	size_t lines, width;

	terminal_size(&lines, &width);
	if (indent + TEXT_COLUMNS_MIN > width)
		indent = 6;
	fputs("  ", stdout);
	if (at + 2 > indent) {
		print_words(name, 2, 6);
		printf("%*s", (int)indent, "");
	} else {
		printf("%s%*s", name, (int)(indent - at), "");
	}
	print_words(text, indent, indent);
}

/* ---- What there is */

static void print_flags(const struct cli_flag *flags)
{
	char name[64];

	for (; flags && flags->name; flags++) {
		snprintf(name, sizeof(name), "--%s%s%s", flags->name, flags->argument ? " " : "",
			 flags->argument ? flags->argument : "");
		print_entry(name, FLAG_COLUMNS, flags->help);
	}
}

static bool is_of_group(const struct cli_command *command, const char *group)
{
	size_t length = strlen(group);

	return strncmp(command->name, group, length) == 0 && command->name[length] == ' ';
}

static void print_commands(const char *group)
{
	char usage[256];

	for (size_t i = 0; cli_groups[i]; i++) {
		for (const struct cli_command *command = cli_groups[i]; command->name; command++) {
			if (group && !is_of_group(command, group))
				continue;
			snprintf(usage, sizeof(usage), "%s%s%s", command->name,
				 *command->arguments ? " " : "", command->arguments);
			print_entry(usage, COMMAND_COLUMNS, command->summary);
		}
	}
}

void help_overview(const char *group)
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
		print_words("Other machines' memory, set up ahead and then read and written "
			    "one-sided.",
			    0, 0);
		putchar('\n');
	}
	print_commands(group);
	putchar('\n');
	print_flags(cli_global_flags);
	print_flags(own_flags);
	putchar('\n');
	print_words("SIZE takes K, M, G, T. NS:@0xADDRESS names a region by its address. "
		    "See afar(1).",
		    0, 0);
}

void help_command(const struct cli_command *command, const struct cli_flag *flags)
{
	char usage[256];

	snprintf(usage, sizeof(usage), "Usage: afar %s %s", command->name, command->arguments);
	print_words(usage, 0, 6);
	putchar('\n');
	print_words(command->summary, 0, 0);
	putchar('\n');
	print_flags(flags);
	print_flags(cli_global_flags);
}
