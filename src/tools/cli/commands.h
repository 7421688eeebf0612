/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of commands that make up `afar`, each of a cmd_GROUP.c. */
#ifndef TOOLS_COMMANDS_H
#define TOOLS_COMMANDS_H

#include "cli.h"

/* The groups' commands; each table ends with a NULL name. */
extern const struct cli_command up_commands[];
extern const struct cli_command init_commands[];
extern const struct cli_command join_commands[];
extern const struct cli_command status_commands[];
extern const struct cli_command top_commands[];
extern const struct cli_command doctor_commands[];
extern const struct cli_command ns_commands[];
extern const struct cli_command key_commands[];
extern const struct cli_command region_commands[];
extern const struct cli_command volume_commands[];
extern const struct cli_command fs_commands[];
extern const struct cli_command files_commands[];
extern const struct cli_command export_commands[];
extern const struct cli_command mount_commands[];
extern const struct cli_command umount_commands[];
extern const struct cli_command run_commands[];
extern const struct cli_command manager_commands[];
extern const struct cli_command server_commands[];
extern const struct cli_command store_commands[];
extern const struct cli_command flash_commands[];
extern const struct cli_command sort_commands[];
extern const struct cli_command graph_commands[];
extern const struct cli_command bench_commands[];

/* Runs `afar complete WORD…`, for the shells' completion; see cmd_complete.c. */
int complete_main(struct cli *cli, int argc, char **argv);

#endif
