/* SPDX-License-Identifier: BSD-3-Clause */
/* Servers, as commands name them. */
#ifndef TOOLS_SERVERS_H
#define TOOLS_SERVERS_H

#include "tools/cli/cli.h"

struct found_server {
	uint64_t number;
	bool is_up;
	uint64_t down_ms;
	uint64_t granted_bytes;
};

/* Finds the server with this name or number. `asked` begins the sentence, as "remove the". Returns 0,
 * or CLI_FAILED with a line. */
int server_find(struct cli *cli, const char *asked, const char *text, struct found_server *out);

#endif
