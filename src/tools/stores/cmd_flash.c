/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar flash …`: the durable tier by itself, without a cluster. The commands are in
 * cmd_flash_COMMAND.c. */
#include "cmd_flash.h"
#include "tools/cli/commands.h"

#include "base/error.h"

int flash_refuse_cluster(const struct cli *cli, const struct cli_command *command)
{
	if (cli->cluster || cli->key_file || cli->path || cli->timeout_ms)
		return cli_misuse(command, "it is about a device of this machine, not a cluster");
	return 0;
}

int flash_fail(const struct cli_command *command, const char *path)
{
	if (!path)
		return cli_fail("%s: %s", command->name, error_last_line());
	return cli_fail("%s %s: %s", command->name, path, error_last_line());
}

const struct cli_command flash_commands[] = {
	{"flash create", "PATH [--size SIZE] [--sparse] [--segment SIZE] [--force]",
	 "make a file or block device a flash layer", flash_create},
	{"flash info", "PATH [--json]", "show a flash layer", flash_info},
	{"flash check", "PATH [--data] [--rate SIZE] [--json]",
	 "look for damage in a flash layer, without changing it", flash_check},
	{"flash repair", "PATH [--yes]",
	 "repair what can be of a damaged flash layer, and say what that gives up", flash_repair},
	{0},
};
