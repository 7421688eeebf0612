/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar umount`, a command of cmd_mount.c's table. */
#ifndef TOOLS_UMOUNT_H
#define TOOLS_UMOUNT_H

#include "cli.h"

int umount_run(struct cli *cli, const struct cli_command *command, int argc, char **argv);

#endif
