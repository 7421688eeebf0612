/* SPDX-License-Identifier: BSD-3-Clause */
/* The help texts, made from the commands' tables. Wrapped to the terminal's width, or to 80 columns
 * without a terminal. */
#ifndef TOOLS_HELP_H
#define TOOLS_HELP_H

#include "cli.h"

/* Prints all commands of `groups`, or those of one group; and the flags of every command. */
void help_overview(const struct cli_command *const *groups, const char *group,
		   const struct cli_flag *global_flags);
/* Prints one command's usage and flags, which may be NULL, and those of every command. */
void help_command(const struct cli_command *command, const struct cli_flag *flags,
		  const struct cli_flag *global_flags);

#endif
