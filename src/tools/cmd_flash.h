/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of `afar flash`. They use the layer src/flash itself, and no session. */
#ifndef TOOLS_CMD_FLASH_H
#define TOOLS_CMD_FLASH_H

#include "cli.h"

int flash_simulate(struct cli *cli, const struct cli_command *command, int argc, char **argv);

#endif
