/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of `afar flash`. They use the layer src/flash itself, and no session. */
#ifndef TOOLS_CMD_FLASH_H
#define TOOLS_CMD_FLASH_H

#include <jansson.h>

#include "flash/ftl.h"
#include "tools/cli/cli.h"

/* Converts blocks to bytes, for jansson. */
static inline json_int_t json_bytes(uint64_t blocks)
{
	uint64_t bytes = blocks * FTL_BLOCK;

	return (json_int_t)bytes;
}

/* Refuses flags about a cluster. Returns 0, or CLI_USAGE with a line. */
int flash_refuse_cluster(const struct cli *cli, const struct cli_command *command);

/* Returns CLI_FAILED with the library's line about `path`; NULL: the line names it. */
int flash_fail(const struct cli_command *command, const char *path);

int flash_create(struct cli *cli, const struct cli_command *command, int argc, char **argv);
int flash_info(struct cli *cli, const struct cli_command *command, int argc, char **argv);
int flash_check(struct cli *cli, const struct cli_command *command, int argc, char **argv);
int flash_repair(struct cli *cli, const struct cli_command *command, int argc, char **argv);

#endif
