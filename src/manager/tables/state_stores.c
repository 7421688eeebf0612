/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of stores, and of what extents are granted out of. */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manager/tables/state_private.h"

COMPARE_BY(stores_by_number, flash_store, number)

/* ---- Stores */

uint64_t flash_store_number(const uint8_t uuid[STORE_UUID_BYTES])
{
	uint64_t first;

	memcpy(&first, uuid, sizeof(first));
	return le64toh(first);
}

struct flash_store *flash_store_new(uint64_t number)
{
	struct flash_store *store = calloc(1, sizeof(*store));

	if (!store)
		return NULL;
	store->number = number;
	store->pool.store = store;
	CDS_INIT_LIST_HEAD(&store->pool.extents);
	return store;
}

static void store_free(struct flash_store *store)
{
	free(store->path);
	free(store->orphans);
	free(store->report);
	free(store);
}

static void destroy_store(void *row)
{
	store_free(row);
}

void state_free_stores(struct state *state)
{
	struct flash_store *store, *next;

	cds_list_for_each_entry_safe (store, next, &state->stores, node) {
		pool_free_extents(&store->pool);
		store_free(store);
	}
}

int state_add_store(struct state *state, struct flash_store *store)
{
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 3);

	if (ret < 0) {
		store_free(store);
		return ret;
	}
	undo_made(undo, store, destroy_store);
	ret = undo_tree_add(undo, &state->stores_by_number, store, stores_by_number);
	if (ret < 0)
		return ret;
	undo_link(undo, &store->node, &state->stores);
	return 0;
}

struct flash_store *state_store(const struct state *state, uint64_t number)
{
	struct flash_store key = {.number = number};

	return tree_find(&state->stores_by_number, &key, stores_by_number);
}

int state_set_store_path(struct state *state, struct flash_store *store, const char *path)
{
	struct undo *undo = state->undo;
	char *copy;
	int ret = undo_room(undo, 3);

	if (ret < 0)
		return ret;
	copy = strdup(path);
	if (!copy)
		return error_code(-ENOMEM);
	undo_made(undo, copy, free);
	undo_gone(undo, store->path, free);
	undo_set(undo, store->path, copy);
	return 0;
}

int state_remove_store(struct state *state, struct flash_store *store)
{
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 3);

	assert(cds_list_empty(&store->pool.extents));
	if (ret < 0)
		return ret;
	undo_tree_remove(undo, &state->stores_by_number, store, stores_by_number);
	undo_unlink(undo, &store->node);
	undo_gone(undo, store, destroy_store);
	return 0;
}

/* ---- Pools */

struct pool *state_pool(const struct state *state, const struct layout_home *home)
{
	struct flash_store *store;
	struct server *server;

	if (home->is_store) {
		store = state_store(state, home->life);
		return store ? &store->pool : NULL;
	}
	server = state_server(state, home->server);
	return server && server->incarnation == home->life ? &server->dram : NULL;
}

struct server *state_home_server(const struct state *state, const struct layout_home *home)
{
	const struct flash_store *store;

	if (!home->is_store)
		return state_server(state, home->server);
	store = state_store(state, home->life);
	return store ? store->pool.server : NULL;
}

struct layout_home pool_home(const struct pool *pool)
{
	if (pool->store)
		return (struct layout_home){.life = pool->store->number, .is_store = true};
	return (struct layout_home){.server = pool->server->number,
				    .life = pool->server->incarnation};
}
