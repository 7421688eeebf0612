/* SPDX-License-Identifier: BSD-3-Clause */
/* A daemon's metrics and its status page, over HTTP (metrics.c). */
#ifndef AFARD_METRICS_H
#define AFARD_METRICS_H

#include <stdbool.h>

#include "manager/manager.h"
#include "server/server.h"

struct metrics;

struct metrics_options {
	const char *address;	 /* HOST:PORT to listen on; port 0: any */
	struct manager *manager; /* NULL: the daemon has none; of the two, one may be missing */
	struct server *server;
};

/* Starts a thread that answers. Errors with a sentence: -EINVAL, -EADDRINUSE and others (it cannot listen there),
 * -ENOMEM. */
int metrics_start(const struct metrics_options *options, struct metrics **out);
/* HOST:PORT that it listens on, and whether that is this machine alone. */
const char *metrics_address(const struct metrics *metrics);
bool metrics_is_local(const struct metrics *metrics);
/* Ends the thread and all connections. Before the manager and the server stop. NULL is allowed. */
void metrics_stop(struct metrics *metrics);

#endif
