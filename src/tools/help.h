/* SPDX-License-Identifier: BSD-3-Clause */
/* The help texts, out of the commands' tables: cut at words to the terminal's width, to 80 columns where there is no terminal. */
#ifndef TOOLS_HELP_H
#define TOOLS_HELP_H

#include "cli.h"

/* All commands, or those of one group. */
void help_overview(const char *group);
/* One command's usage and flags; `flags` may be NULL. */
void help_command(const struct cli_command *command, const struct cli_flag *flags);

#endif
