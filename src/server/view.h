/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's own figures, for programs that it is a part of: afard's metrics and status page. */
#ifndef SERVER_VIEW_H
#define SERVER_VIEW_H

#include "base/latency.h"
#include "rpc/afar.pb-c.h"
#include "server/server.h"

/* The kinds of requests to a store whose spans are counted, in the order of `enum store_request`. */
#define SERVER_REQUESTS 4U

struct server_view {
	/* What a manager would say of a cluster of this server alone: no namespaces, and no sessions. */
	Afar__ClusterStatus cluster;
	/* Of each store of `cluster`, in their order. */
	struct latency latencies[SERVER_STORES_MAX][SERVER_REQUESTS];
};

/* Looks at the server. NULL: no memory. From any thread, before server_stop(). */
struct server_view *server_view(struct server *server);
void server_view_free(struct server_view *view);

#endif
