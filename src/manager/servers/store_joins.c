/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores join with their servers, and outlive them.
 *
 * A store that joins may know more than we do, because our metastore may be an older copy. So of
 * the extents that we do not know only provisional ones are released: nobody has been given a key
 * of those. The others are orphans, which are counted and kept. A store may also know less, because
 * its device is an older image or a copy. The record of its last accepted join tells that, and such
 * a store is refused.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "manager/connections/outgoing.h"
#include "manager/members/terms.h"
#include "manager/servers/servers.h"
#include "manager/servers/store_joins.h"
#include "manager/servers/stores.h"
#include "manager/space/trims.h"
#include "manager/tables/placement.h"

#define PATH_MAX_BYTES 4095U
#define EXTENTS_MAX    ((size_t)1 << 20) /* of one store */

/* ---- What a join says of them */

static struct store_join join_of(const Afar__StoreJoin *told)
{
	return told ? (struct store_join){told->opening, told->random} : (struct store_join){0};
}

static bool is_same(const struct store_join *join, const struct store_join *other)
{
	return join->opening == other->opening && join->random == other->random;
}

static bool is_number_of(uint64_t number, const ProtobufCBinaryData *uuid)
{
	return number != 0 && uuid->len == STORE_UUID_BYTES &&
	       flash_store_number(uuid->data) == number;
}

static int check_form(const Afar__Store *told)
{
	if (!is_number_of(told->store, &told->uuid) ||
	    !text_is_printable(told->path, PATH_MAX_BYTES) || !told->present ||
	    told->n_extents > EXTENTS_MAX)
		return error_fail(-EINVAL,
				  "join the cluster: what is said of store %016llx is malformed; "
				  "use a server of this version",
				  (unsigned long long)told->store);
	for (size_t i = 0; i < told->n_extents; i++)
		if (told->extents[i]->length == 0 || told->extents[i]->class_ != CLASS_FLASH ||
		    told->extents[i]->length % PLACEMENT_EXTENT_UNIT != 0)
			return error_fail(
				-EINVAL,
				"join the cluster: extent %llx of the store on %s has %llu "
				"bytes of class %u, where multiples of 2 MiB of class %d "
				"belong",
				(unsigned long long)told->extents[i]->extent, told->path,
				(unsigned long long)told->extents[i]->length,
				told->extents[i]->class_, CLASS_FLASH);
	return 0;
}

/* Rejects a store whose record of joins is not a continuation of ours. Ours may be the older one. */
static int check_record(const struct flash_store *known, const Afar__Store *told)
{
	struct store_join accepted = join_of(told->accepted), present = join_of(told->present);

	if (is_same(&known->accepted, &accepted) || is_same(&known->accepted, &present) ||
	    known->accepted.opening < accepted.opening)
		return 0;
	return error_fail(
		-EINVAL,
		"join the cluster: the store on %s is an older image of its device, or a "
		"copy: it was last here with opening %llu, and knows of opening %llu; use "
		"the device itself, or give up what is there ('afar store forget')",
		told->path, (unsigned long long)known->accepted.opening,
		(unsigned long long)accepted.opening);
}

static int check_known(struct core *core, const struct server *server,
		       const struct flash_store *known, const Afar__Store *told)
{
	if (memcmp(known->uuid, told->uuid.data, STORE_UUID_BYTES) != 0)
		return error_fail(-EINVAL,
				  "join the cluster: the store on %s has the number of another, "
				  "%016llx; create it anew",
				  told->path, (unsigned long long)told->store);
	if (known->is_up && known->pool.server != server) {
		server_probe(core, known->pool.server->live);
		return error_fail(-EBUSY,
				  "join the cluster: the store on %s is that which server '%s', "
				  "which is connected, has on %s; close it there first, or create "
				  "this one anew",
				  told->path, known->pool.server->name, known->path);
	}
	return check_record(known, told);
}

int flash_check_store(struct core *core, const struct server *server, const Afar__Store *told)
{
	const struct flash_store *known;
	int ret = check_form(told);

	if (ret < 0)
		return ret;
	if (told->cluster[0] != '\0' && strcmp(told->cluster, core->state->cluster) != 0)
		return error_fail(
			-EINVAL,
			"join cluster %s: the store on %s belongs to cluster %s; start it "
			"with that one's manager, or use another device",
			core->state->cluster, told->path, told->cluster);
	ret = terms_check(core, told->term, "the store on", told->path);
	if (ret < 0)
		return ret;
	known = state_store(core->state, told->store);
	return known ? check_known(core, server, known, told) : 0;
}

int flash_check_join(struct core *core, const struct server *server, const Afar__ServerJoin *ask)
{
	int ret = 0;

	if (ask->n_stores > FLASH_STORES_MAX)
		return error_fail(
			-EINVAL, "join the cluster: %zu stores are more than a server may have, %u",
			ask->n_stores, FLASH_STORES_MAX);
	for (size_t i = 0; i < ask->n_stores && ret == 0; i++) {
		for (size_t j = 0; j < i; j++)
			if (ask->stores[j]->store == ask->stores[i]->store)
				return error_fail(
					-EINVAL, "join the cluster: the store on %s is given twice",
					ask->stores[i]->path);
		ret = flash_check_store(core, server, ask->stores[i]);
	}
	return ret;
}

/* ---- Joining */

static struct extent *find_reported(const struct core *core, const struct flash_store *store,
				    const Afar__Extent *reported)
{
	const struct layout_home home = pool_home(&store->pool);
	struct extent *extent = state_extent(core->state, &home, reported->extent);

	return extent && extent->namespace_number == reported->namespace_ &&
			       extent->length == reported->length
		       ? extent
		       : NULL;
}

/* Marks the extents that both know. Those that we do not know are released if they are provisional,
 * else kept. */
static int sort_reported(struct core *core, struct flash_store *store, const Afar__Store *told,
			 Afar__StoreJoined *joined)
{
	struct orphan *orphans = calloc(told->n_extents + 1, sizeof(*orphans));
	size_t nr_orphans = 0;
	struct extent *extent;

	if (!orphans)
		return error_code(-ENOMEM);
	cds_list_for_each_entry (extent, &store->pool.extents, pool_node)
		extent->is_reported = false;
	for (size_t i = 0; i < told->n_extents; i++) {
		extent = find_reported(core, store, told->extents[i]);
		if (extent) {
			extent->is_reported = true;
		} else if (told->extents[i]->is_provisional) {
			joined->release[joined->n_release++] = told->extents[i]->extent;
		} else {
			orphans[nr_orphans++] = (struct orphan){told->extents[i]->extent,
								told->extents[i]->namespace_,
								told->extents[i]->length};
		}
	}
	if (nr_orphans != 0)
		log_warn("the store on %s has %zu extents that the manager does not know: they are "
			 "kept; 'afar store free-orphans' frees them",
			 told->path, nr_orphans);
	return orphans_set(core, store, orphans, nr_orphans);
}

/* Extents that were draining still are, reported or not: the server is told again. */
static int drop_missing(struct core *core, struct flash_store *store)
{
	struct extent *extent, *next;
	bool is_complete = true;
	int ret = 0;

	cds_list_for_each_entry_safe (extent, next, &store->pool.extents, pool_node) {
		if (extent->is_reported || extent_is_releasing(extent))
			continue;
		log_error("the store on %s does not have extent %llx any more: its data is lost",
			  store->path, (unsigned long long)extent->number);
		is_complete = false;
		ret = server_remove_extent(core, extent);
		if (ret < 0)
			return ret;
	}
	return is_complete ? 0 : trims_settle(core);
}

static int make_store(struct core *core, const Afar__Store *told, struct flash_store **out)
{
	struct flash_store *store = flash_store_new(told->store);

	if (!store)
		return error_code(-ENOMEM);
	memcpy(store->uuid, told->uuid.data, STORE_UUID_BYTES);
	*out = store;
	return state_add_store(core->state, store);
}

static int describe(struct core *core, struct flash_store *store, struct server *server,
		    const Afar__Store *told)
{
	struct undo *undo = core->undo;
	int ret = state_set_store_path(core->state, store, told->path);

	if (ret == 0)
		ret = undo_room(undo, 5);
	if (ret < 0)
		return ret;
	undo_set(undo, store->pool.server, server);
	undo_set(undo, store->pool.capacity_bytes, told->capacity_bytes);
	undo_set(undo, store->accepted, join_of(told->present));
	undo_set(undo, store->opening, told->opening);
	undo_set(undo, store->is_up, true);
	store->has_trims = true;
	free(store->report);
	store->report = NULL;
	return 0;
}

int flash_join_store(struct core *core, struct server *server, const Afar__Store *told,
		     Afar__StoreJoined *joined)
{
	struct flash_store *store = state_store(core->state, told->store);
	struct server *last = store ? store->pool.server : NULL;
	int ret = 0;

	joined->store = told->store;
	joined->term = terms_message(core);
	joined->release = calloc(told->n_extents + 1, sizeof(*joined->release));
	if (!joined->release || !joined->term)
		return error_code(-ENOMEM);
	if (!store)
		ret = make_store(core, told, &store);
	if (ret == 0)
		ret = describe(core, store, server, told);
	if (ret == 0)
		ret = sort_reported(core, store, told, joined);
	if (ret == 0)
		ret = drop_missing(core, store);
	if (ret < 0)
		return ret;
	store_put_flash(core->store, store);
	/* Nothing else may keep the record of the server that had it last. */
	if (last && last != server)
		ret = server_forget(core, last);
	log_info("store %016llx on %s joined with server '%s', %llu MiB",
		 (unsigned long long)store->number, store->path, server->name,
		 (unsigned long long)(store->pool.capacity_bytes >> 20));
	return ret;
}

int flash_join(struct core *core, struct server *server, const Afar__ServerJoin *ask,
	       Afar__ServerJoined *joined)
{
	int ret = 0;

	joined->stores = calloc(ask->n_stores + 1, sizeof(*joined->stores));
	if (!joined->stores)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < ask->n_stores && ret == 0; i++) {
		joined->stores[i] = MESSAGE_NEW(afar__store_joined, Afar__StoreJoined);
		if (!joined->stores[i])
			return error_code(-ENOMEM);
		joined->n_stores++;
		ret = flash_join_store(core, server, ask->stores[i], joined->stores[i]);
	}
	return ret;
}
