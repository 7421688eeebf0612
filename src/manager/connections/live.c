/* SPDX-License-Identifier: BSD-3-Clause */
/* Which servers are connected, and which memory can be reached there. */
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#include "manager/connections/live.h"

#define CALL_TIMEOUT_MS	 30000U
#define CALL_TIMEOUT_MAX 3600000U
#define BYTES_PER_MS	 ((uint64_t)64 << 10) /* that a slow server populates */

struct live_server *core_live_server(const struct core *core, uint64_t number)
{
	struct live_server *live;

	cds_list_for_each_entry (live, &core->live_servers, node)
		if (live->number == number)
			return live;
	return NULL;
}

struct live_server *core_live_server_of(const struct core *core, const void *peer)
{
	struct live_server *live;

	cds_list_for_each_entry (live, &core->live_servers, node)
		if (live->peer == peer)
			return live;
	return NULL;
}

void server_describe(const struct core *core, uint64_t number, char out[SERVER_TEXT_MAX])
{
	const struct server *server = state_server(core->state, number);

	if (server)
		snprintf(out, SERVER_TEXT_MAX, "server '%s' at %s", server->name,
			 server->control_address);
	else
		snprintf(out, SERVER_TEXT_MAX, "server %llu", (unsigned long long)number);
}

bool server_is_up(const struct server *server)
{
	return server->live && server->live->peer;
}

uint64_t server_down_ms(const struct core *core, const struct server *server)
{
	uint64_t since = server->live ? server->live->down_at : core->started_at;

	return (core_now(core) - since) / 1000000U;
}

/* A server does one thing after the other: a call that is made now waits for what the server still
 * has to populate. */
uint32_t server_timeout_ms(const struct live_server *live)
{
	uint64_t more = live->pending_bytes / BYTES_PER_MS + live->copying_ms;

	return more > CALL_TIMEOUT_MAX - CALL_TIMEOUT_MS ? CALL_TIMEOUT_MAX
							 : CALL_TIMEOUT_MS + (uint32_t)more;
}

bool servers_are_missing(const struct core *core)
{
	const struct flash_store *store;
	const struct server *server;

	cds_list_for_each_entry (server, &core->state->servers, node) {
		if (!server->live && server->dram.granted_bytes > 0)
			return true;
	}
	cds_list_for_each_entry (store, &core->state->stores, node)
		if (store->pool.server && !store->pool.server->live &&
		    store->pool.granted_bytes > 0)
			return true;
	return false;
}

void live_server_free(struct live_server *live)
{
	if (live->server)
		live->server->live = NULL;
	cds_list_del(&live->node);
	OPENSSL_cleanse(live->signing_key, sizeof(live->signing_key));
	free(live);
}

/* ---- Pools */

bool pool_is_up(const struct pool *pool)
{
	return pool->store ? pool->store->is_up : server_is_up(pool->server);
}

bool pool_is_writable(const struct pool *pool)
{
	const Afar__StoreReport *report = pool->store ? pool->store->report : NULL;

	return pool_is_up(pool) && !(pool->store && pool->store->is_leaving) &&
	       (!report || (report->failure == 0 && report->refusal == 0));
}
