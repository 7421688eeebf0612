/* SPDX-License-Identifier: BSD-3-Clause */
/* Tells what is lost with a server or a store, for `server rm` and `store forget`. */
#ifndef TOOLS_LOST_H
#define TOOLS_LOST_H

#include "tools/cli/cli.h"

/* How to ask about a server, or about a store. */
struct lost_calls {
	int (*list)(struct afar_session *session, uint64_t number, uint64_t after,
		    struct afar_server_region *out, unsigned max);
	int (*count)(struct afar_session *session, uint64_t number, uint64_t max_files,
		     afar_loss_say say, void *argument);
};
extern const struct lost_calls lost_with_server, lost_with_store;

#define LOST_TEXT_MAX 128

/* Prints the regions that are lost, and what each namespace and file system loses. Puts "2 regions, 1 volume and 7 files" into
 * `out`, as is true. Returns 0, or CLI_FAILED with a line. */
int lost_print(struct cli *cli, const struct lost_calls *calls, uint64_t number,
	       char out[LOST_TEXT_MAX]);
/* "is" or "are". */
const char *lost_verb(const char lost[LOST_TEXT_MAX]);

#endif
