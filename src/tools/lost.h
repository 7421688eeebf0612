/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of regions that are lost with a server or a store, for `server rm` and `store forget`. */
#ifndef TOOLS_LOST_H
#define TOOLS_LOST_H

#include "cli.h"

/* afar_server_regions() or afar_store_regions(). */
typedef int lost_call(struct afar_session *session, uint64_t number, uint64_t after,
		      struct afar_server_region *out, unsigned max);

/* Prints the regions that `call` lists for the number. Returns how many, or the library's error. */
int64_t lost_print(struct cli *cli, lost_call *call, uint64_t number);

#endif
