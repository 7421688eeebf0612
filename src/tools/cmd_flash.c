/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar flash …`: the durable tier by itself, without a cluster. What each does is in cmd_flash_COMMAND.c. */
#include "cmd_flash.h"

const struct cli_command flash_commands[] = {
	{"flash simulate",
	 "[--trace NAME|FILE] [--full PERCENT] [--capacity SIZE] [--segment SIZE] "
	 "[--streams N] [--times N] [--seed N] [--json]",
	 "count what the cleaner would move", flash_simulate},
	{0},
};
