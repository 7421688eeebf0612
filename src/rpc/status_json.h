/* SPDX-License-Identifier: BSD-3-Clause */
/* The cluster's status as JSON (status_json.c). */
#ifndef RPC_STATUS_JSON_H
#define RPC_STATUS_JSON_H

#include <stdint.h>

#include "rpc/afar.pb-c.h"

/* Says by which transport one would reach a server's memory (`store` is 0) or a store of it. NULL: by none. */
struct status_chooser {
	const char *(*choose)(void *context, const Afar__Server *server, uint64_t store);
	void *context;
};

/* Returns the status, as `principal` sees it; free() it. `chooser` may be NULL. NULL: no memory. */
char *status_json(const Afar__ClusterStatus *status, const char *principal,
		  const struct status_chooser *chooser);

#endif
