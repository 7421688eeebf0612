/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of afar-sort, as it and `afar` show them: COMMAND(name, arguments, summary, the function that runs it). */
#ifndef APPS_SORT_COMMANDS_H
#define APPS_SORT_COMMANDS_H

#define SORT_COMMANDS(COMMAND)                                                               \
	COMMAND("sort run",                                                                  \
		"FILE|NS:NAME FILE|NS:NAME [--workers N] [--lines] [--ns NS] [--meet NS] "   \
		"[--replace] "                                                               \
		"[--bucket SIZE] [--worker I/N --job NAME] [--verbose]",                     \
		"sort a region or file into another", sort_run)                              \
	COMMAND("sort generate", "FILE|NS:NAME --records N [--seed N] [--skew] [--replace]", \
		"make records to sort", sort_make)                                           \
	COMMAND("sort verify", "FILE|NS:NAME [--against FILE|NS:NAME] [--lines]",            \
		"look whether a region or file is sorted", sort_check)

#endif
