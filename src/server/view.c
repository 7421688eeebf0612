/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shows a server's own figures as a manager would show them of a cluster of it alone (view.h). All that the messages point
 * to lies in the view, as stores may go meanwhile.
 */
#include "server/view.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/control/report.h"
#include "server/server_private.h"

#define ALL_LANES (LANES_MAX + STORES_MAX * 2U)

_Static_assert(SERVER_REQUESTS == STORE_REQUESTS, "each kind has its place");

struct stored {
	Afar__StoreStatus status;
	char path[PATH_MAX];
	uint8_t uuid[STORE_UUID_BYTES];
};

struct view {
	struct server_view shown;
	struct server_identity identity;
	Afar__ServerStatus status, *statuses[1];
	Afar__Server server;
	struct report report;
	Afar__Lane lanes[ALL_LANES], *lane_pointers[ALL_LANES];
	char transports[ALL_LANES][32];
	char addresses[ALL_LANES][FABRIC_ADDRESS_MAX];
	char control_address[FABRIC_ADDRESS_MAX];
	char name[NAME_MAX_BYTES];
	struct stored stores[STORES_MAX];
	Afar__StoreStatus *store_pointers[STORES_MAX];
};

static void add_lane(struct view *view, const char *transport, const char *address, uint64_t store)
{
	const size_t i = view->server.n_lanes;
	Afar__Lane *lane = &view->lanes[i];

	if (i == ALL_LANES)
		return;
	snprintf(view->transports[i], sizeof(view->transports[i]), "%s", transport);
	snprintf(view->addresses[i], sizeof(view->addresses[i]), "%s", address);
	afar__lane__init(lane);
	lane->transport = view->transports[i];
	lane->address = view->addresses[i];
	lane->store = store;
	view->lane_pointers[view->server.n_lanes++] = lane;
}

static void add_server(struct view *view, struct server *server)
{
	afar__server__init(&view->server);
	snprintf(view->name, sizeof(view->name), "%s", server->name);
	snprintf(view->control_address, sizeof(view->control_address), "%s",
		 control_address(server->control));
	view->server.server = view->identity.number;
	view->server.name = view->name;
	view->server.control_address = view->control_address;
	view->server.incarnation = server->incarnation.number;
	view->server.lanes = view->lane_pointers;
	for (unsigned i = 0; i < lanes_nr(server->lanes); i++)
		add_lane(view, lanes_transport(server->lanes, i), lanes_address(server->lanes, i),
			 0);
}

/* What a store says of itself, with the stores' lock held. */
static void fill_stored(struct view *view, size_t i, const struct store *store)
{
	struct stored *stored = &view->stores[i];

	snprintf(stored->path, sizeof(stored->path), "%s", store_path(store));
	memcpy(stored->uuid, store_uuid(store), sizeof(stored->uuid));
	stored->status.is_up = true;
	stored->status.uuid = (ProtobufCBinaryData){sizeof(stored->uuid), stored->uuid};
	for (unsigned kind = 0; kind < SERVER_REQUESTS; kind++)
		latency_copy(&store_latencies(store)[kind], &view->shown.latencies[i][kind]);
	for (unsigned lane = 0; lane < store_nr_lanes(store); lane++)
		add_lane(view, store_lane_transport(store, lane), store_lane_address(store, lane),
			 store_number(store));
}

static void add_store(struct view *view, struct stores *stores, size_t i)
{
	Afar__StoreReport *report = view->report.message.stores[i];
	Afar__StoreStatus *status = &view->stores[i].status;
	const struct store *store;

	afar__store_status__init(status);
	view->stores[i].path[0] = '\0';
	status->path = view->stores[i].path;
	status->store = report->store;
	status->server = view->identity.number;
	status->server_name = view->name;
	status->capacity_bytes = report->capacity_bytes;
	status->granted_bytes = report->granted_bytes;
	status->report = report;
	stores_lock(stores);
	store = stores_find(stores, report->store);
	if (store)
		fill_stored(view, i, store);
	stores_unlock(stores);
	view->store_pointers[i] = status;
}

static void add_cluster(struct view *view, const struct server *server)
{
	Afar__ClusterStatus *cluster = &view->shown.cluster;

	afar__cluster_status__init(cluster);
	cluster->cluster = view->identity.cluster;
	cluster->uptime_ms = (clock_ns() - server->started_at) / 1000000U;
	cluster->servers = view->statuses;
	cluster->n_servers = cluster->nr_servers = 1;
	cluster->stores = view->store_pointers;
	cluster->n_stores = cluster->nr_stores = view->report.message.n_stores;
}

struct server_view *server_view(struct server *server)
{
	struct view *view = calloc(1, sizeof(*view));

	if (!view)
		return NULL;
	membership_identity(server->membership, &view->identity);
	report_fill(server->pool, server->lanes, &server->stores, &view->report);
	add_server(view, server);
	for (size_t i = 0; i < view->report.message.n_stores; i++)
		add_store(view, &server->stores, i);
	afar__server_status__init(&view->status);
	view->status.server = &view->server;
	view->status.is_up = membership_is_joined(server->membership);
	view->status.report = &view->report.message;
	view->statuses[0] = &view->status;
	add_cluster(view, server);
	return &view->shown;
}

void server_view_free(struct server_view *view)
{
	free(view); /* it is the first in its struct view */
}
