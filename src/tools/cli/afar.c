/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line's main(): all groups of commands. The commands are in cmd_GROUP.c, and cli/run.c runs them. */
#include <string.h>

#include "commands.h"

static const struct cli_command *const groups[] = {
	up_commands, /* help shows them in this order */
	init_commands,	 join_commands,	 status_commands, top_commands,
	doctor_commands, ns_commands,	 region_commands, volume_commands,
	export_commands, fs_commands,	 files_commands,  mount_commands,
	umount_commands, run_commands,	 key_commands,	  manager_commands,
	server_commands, store_commands, sort_commands,	  graph_commands,
	bench_commands,	 flash_commands, help_commands,	  NULL,
};

int main(int argc, char **argv)
{
	struct cli cli = {.groups = groups};

	cli_begin();
	if (argc > 2 && !strcmp(argv[1], "complete"))
		return cli_end(complete_main(&cli, argc - 1, argv + 1));
	return cli_end(cli_run(&cli, NULL, argc, argv));
}
