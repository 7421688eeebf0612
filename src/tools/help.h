/* SPDX-License-Identifier: BSD-3-Clause */
/* The help texts, made from the commands' tables. Wrapped to the terminal's width, or to 80 columns
 * without a terminal. */
#ifndef TOOLS_HELP_H
#define TOOLS_HELP_H

#include "cli.h"

/* Prints all commands, or those of one group. */
void help_overview(const char *group);
/* Prints one command's usage and flags; `flags` may be NULL. */
void help_command(const struct cli_command *command, const struct cli_flag *flags);

#endif
