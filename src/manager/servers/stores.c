/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores outlive their servers. An extent is lost when its store joins without it (store_joins.c),
 * or when an operator forgets the store (removals.c). It is never lost because a server has ended.
 */
#include <stdlib.h>
#include <string.h>

#include "manager/connections/callers.h"
#include "manager/servers/stores.h"
#include "manager/space/trims.h"

/* ---- Their servers go */

void flash_store_down(struct core *core, struct flash_store *store)
{
	if (!store->is_up)
		return;
	core->nr_down++;
	store->is_up = false;
	store->is_leaving = false;
	store->down_at = core_now(core);
	trims_forget(core, store);
}

void flash_down(struct core *core, const struct server *server)
{
	struct flash_store *store;

	cds_list_for_each_entry (store, &core->state->stores, node)
		if (store->pool.server == server)
			flash_store_down(core, store);
}

bool flash_is_on(const struct core *core, const struct server *server)
{
	const struct flash_store *store;

	cds_list_for_each_entry (store, &core->state->stores, node)
		if (store->pool.server == server && store->pool.granted_bytes != 0)
			return true;
	return false;
}

int flash_leave(struct core *core, const struct server *server)
{
	struct flash_store *store;
	int ret;

	cds_list_for_each_entry (store, &core->state->stores, node) {
		if (store->pool.server != server)
			continue;
		ret = undo_room(core->undo, 1);
		if (ret < 0)
			return ret;
		undo_set(core->undo, store->pool.server, NULL);
		store_put_flash(core->store, store);
	}
	return 0;
}

/* ---- Reports and status */

static void copy_report(Afar__StoreReport *out, const Afar__StoreReport *report)
{
	afar__store_report__init(out);
	out->store = report->store;
	out->capacity_bytes = report->capacity_bytes;
	out->granted_bytes = report->granted_bytes;
	out->used_bytes = report->used_bytes;
	out->map_bytes = report->map_bytes;
	out->nr_connections = report->nr_connections;
	out->nr_errors = report->nr_errors;
	out->nr_syncs = report->nr_syncs;
	out->scrub_passes = report->scrub_passes;
	out->nr_bad = report->nr_bad;
	out->bytes_in = report->bytes_in;
	out->bytes_out = report->bytes_out;
	out->failure = report->failure;
	out->refusal = report->refusal;
	out->refusal_ms = report->refusal_ms;
	out->slow_ms = report->slow_ms;
	out->cache_bytes = report->cache_bytes;
	out->cached_bytes = report->cached_bytes;
	out->cache_hits = report->cache_hits;
	out->cache_misses = report->cache_misses;
	out->cache_shared = report->cache_shared;
	out->cache_past = report->cache_past;
	out->merged_writes = report->merged_writes;
	out->device_reads = report->device_reads;
	out->user_blocks = report->user_blocks;
	out->moved_blocks = report->moved_blocks;
	out->written_blocks = report->written_blocks;
	out->nr_flushes = report->nr_flushes;
	out->nr_cleaned = report->nr_cleaned;
}

void flash_take_reports(struct core *core, const struct server *server,
			const Afar__ServerReport *report)
{
	for (size_t i = 0; i < report->n_stores; i++) {
		struct flash_store *store = state_store(core->state, report->stores[i]->store);

		if (!store || !store->is_up || store->pool.server != server)
			continue;
		if (!store->report)
			store->report = malloc(sizeof(*store->report));
		if (store->report)
			copy_report(store->report, report->stores[i]);
	}
}

uint64_t flash_down_ms(const struct core *core, const struct flash_store *store)
{
	uint64_t since = store->down_at != 0 ? store->down_at : core->started_at;

	return store->is_up ? 0 : (core_now(core) - since) / 1000000U;
}

static bool add_texts(Afar__StoreStatus *status, const struct flash_store *store, bool with_path)
{
	const struct server *server = store->pool.server;

	status->path = strdup(with_path ? store->path : "");
	status->server_name = strdup(server ? server->name : "");
	status->uuid.data = malloc(STORE_UUID_BYTES);
	if (!status->path || !status->server_name || !status->uuid.data)
		return false;
	memcpy(status->uuid.data, store->uuid, STORE_UUID_BYTES);
	status->uuid.len = STORE_UUID_BYTES;
	if (!store->is_up || !store->report)
		return true;
	status->report = MESSAGE_NEW(afar__store_report, Afar__StoreReport);
	if (status->report)
		copy_report(status->report, store->report);
	return status->report != NULL;
}

static Afar__StoreStatus *info_store(const struct core *core, const struct flash_store *store,
				     bool with_path)
{
	Afar__StoreStatus *status = MESSAGE_NEW(afar__store_status, Afar__StoreStatus);

	if (!status)
		return NULL;
	status->store = store->number;
	status->server = store->pool.server ? store->pool.server->number : 0;
	status->is_up = store->is_up;
	status->down_ms = flash_down_ms(core, store);
	status->capacity_bytes = store->pool.capacity_bytes;
	status->granted_bytes = store->pool.granted_bytes;
	status->releasing_bytes = store->pool.releasing_bytes;
	status->nr_orphans = store->nr_orphans;
	status->orphan_bytes = store->orphan_bytes;
	status->opening = store->opening;
	if (add_texts(status, store, with_path))
		return status;
	afar__store_status__free_unpacked(status, NULL);
	return NULL;
}

bool flash_add_status(const struct core *core, const struct session *caller,
		      Afar__ClusterStatus *status)
{
	const bool with_paths = is_operator(core, caller);
	const struct flash_store *store;

	status->stores = calloc(CORE_LIST_MAX, sizeof(*status->stores));
	if (!status->stores)
		return false;
	cds_list_for_each_entry (store, &core->state->stores, node) {
		if (status->nr_stores++ >= CORE_LIST_MAX)
			continue;
		status->stores[status->n_stores] = info_store(core, store, with_paths);
		if (!status->stores[status->n_stores])
			return false;
		status->n_stores++;
	}
	return true;
}
