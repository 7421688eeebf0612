/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers, and stores, that are gone for good: lists what is lost with one, and takes it out of the cluster. The
 * manager waits for a server's answer, or for another incarnation of it, and never for a clock.
 * Here an operator says that neither will come.
 *
 * The process may live on, and only not be reached. Then sessions may still have its keys and
 * connections. They reach nothing with them but its own memory, which is nobody's any more.
 * Everything else that waited for it lies on other servers, which have answered for themselves. The
 * process must not become a member again as it is, because nobody would fence what it gave to
 * sessions that have ended. So its incarnation is refused for good (joins.c). Another incarnation
 * has nothing of that.
 *
 * Its stores stay, and are nobody's until a server joins with them. By then that server has opened
 * the device, so the process that was removed has let go of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/log.h"
#include "manager/cluster/removals.h"
#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/regions/info.h"
#include "manager/servers/servers.h"
#include "manager/servers/stores.h"
#include "manager/space/trims.h"

/* ---- What is lost with it */

static int find_server(const struct core *core, const char *asked, uint64_t number,
		       struct server **out)
{
	*out = state_server(core->state, number);
	if (!*out)
		return error_fail(-ENOENT, "%s server %llu: there is none; see 'afar status'",
				  asked, (unsigned long long)number);
	return 0;
}

struct listing {
	const struct layout_home *home;
	uint64_t after;
	const struct region **found;
	size_t nr_found;
	size_t max;
};

static bool list_one(void *argument, void *row)
{
	const struct region *region = row;
	struct listing *listing = argument;

	if (region->generation > listing->after && !region->is_freed && !region->is_lost &&
	    region_is_at(region, listing->home))
		listing->found[listing->nr_found++] = region;
	return listing->nr_found < listing->max;
}

static Afar__ServerRegion *info_server_region(const struct core *core,
					      const struct session *session,
					      const struct region *region)
{
	Afar__ServerRegion *info = MESSAGE_NEW(afar__server_region, Afar__ServerRegion);

	if (!info)
		return NULL;
	info->namespace_ = strdup(region->ns->name);
	info->region = info_region(core, session, region, false);
	if (info->namespace_ && info->region)
		return info;
	afar__server_region__free_unpacked(info, NULL);
	return NULL;
}

int home_regions(const struct core *core, const struct session *session,
		 const struct layout_home *home, uint64_t after, uint32_t max, Afar__Reply *reply)
{
	const struct region *found[CORE_LIST_MAX];
	struct listing listing = {
		.home = home, .after = after, .found = found, .max = CORE_LIST_MAX};
	Afar__ServerRegionInfos *infos;

	if (max != 0 && max < CORE_LIST_MAX)
		listing.max = max;
	tree_walk(core->state->regions_by_generation, list_one, &listing);

	infos = MESSAGE_NEW(afar__server_region_infos, Afar__ServerRegionInfos);
	if (!infos)
		return error_code(-ENOMEM);
	reply->server_region_infos = infos;
	reply->result_case = AFAR__REPLY__RESULT_SERVER_REGION_INFOS;
	infos->entries = calloc(listing.nr_found + 1, sizeof(*infos->entries));
	for (size_t i = 0; i < listing.nr_found && infos->entries; i++) {
		infos->entries[i] = info_server_region(core, session, found[i]);
		if (!infos->entries[i])
			break;
		infos->n_entries++;
	}
	return infos->n_entries == listing.nr_found && infos->entries ? 0 : error_code(-ENOMEM);
}

int server_regions(struct core *core, struct session *session, struct event *event)
{
	const Afar__ServerRegions *ask = event->request->server_regions;
	struct layout_home home;
	struct server *server;
	int ret = find_server(core, "list the regions on", ask->server, &server);

	if (ret < 0)
		return ret;
	home = pool_home(&server->dram);
	return home_regions(core, session, &home, ask->after, ask->max, event->reply);
}

/* ---- Taking it out */

int server_lose(struct core *core, struct server *server, const char *how)
{
	struct extent *extent, *next;
	uint64_t lost = 0;
	int ret = 0;

	cds_list_for_each_entry_safe (extent, next, &server->dram.extents, pool_node) {
		lost += extent_used(extent);
		ret = server_remove_extent(core, extent);
		if (ret < 0)
			return ret;
	}
	if (lost != 0)
		log_warn("server %llu '%s' %s: %llu MiB of regions are lost",
			 (unsigned long long)server->number, server->name, how,
			 (unsigned long long)(lost >> 20));
	return server_end_fences(core, server->number, server->incarnation);
}

int server_remove(struct core *core, struct session *session, struct event *event)
{
	const Afar__ServerRemove *ask = event->request->server_remove;
	struct removal *removal;
	struct server *server;
	int ret = find_server(core, "remove", ask->server, &server);

	if (ret < 0)
		return ret;
	if (server_is_up(server)) {
		server_probe(core, server->live);
		return error_fail(-EBUSY,
				  "remove server %llu '%s': it is connected; stop it first. If its "
				  "machine is gone, try again in %u s",
				  (unsigned long long)server->number, server->name,
				  SERVER_PROBE_MS / 1000U + 1);
	}
	ret = state_add_removal(core->state, server->number, server->incarnation, &removal);
	if (ret < 0)
		return ret;
	store_put_removal(core->store, removal);
	log_info("server %llu '%s' is removed by '%s'", (unsigned long long)server->number,
		 server->name, session->principal);
	ret = server_lose(core, server, "was removed");
	if (ret == 0)
		ret = flash_leave(core, server);
	return ret == 0 ? server_forget(core, server) : ret;
}

/* ---- What is lost with a store, and forgetting it */

static int find_store(const struct core *core, const char *asked, uint64_t number,
		      struct flash_store **out)
{
	*out = state_store(core->state, number);
	if (!*out)
		return error_fail(-ENOENT, "%s store %016llx: there is none; see 'afar store ls'",
				  asked, (unsigned long long)number);
	return 0;
}

int store_regions(struct core *core, struct session *session, struct event *event)
{
	const Afar__StoreRegions *ask = event->request->store_regions;
	struct flash_store *store;
	struct layout_home home;
	int ret = find_store(core, "list the regions on", ask->store, &store);

	if (ret < 0)
		return ret;
	home = pool_home(&store->pool);
	return home_regions(core, session, &home, ask->after, ask->max, event->reply);
}

int store_forget(struct core *core, struct session *session, struct event *event)
{
	struct extent *extent, *next;
	struct flash_store *store;
	struct server *server;
	int ret = find_store(core, "forget", event->request->store_forget->store, &store);

	if (ret < 0)
		return ret;
	if (store->is_up) {
		server_probe(core, store->pool.server->live);
		return error_fail(
			-EBUSY,
			"forget store %016llx: server '%s', which is connected, has it on "
			"%s; stop that first. If its machine is gone, try again in %u s",
			(unsigned long long)store->number, store->pool.server->name, store->path,
			SERVER_PROBE_MS / 1000U + 1);
	}
	log_info("store %016llx on %s is forgotten by '%s'", (unsigned long long)store->number,
		 store->path, session->principal);
	cds_list_for_each_entry_safe (extent, next, &store->pool.extents, pool_node)
		if (ret == 0)
			ret = server_remove_extent(core, extent);
	if (ret == 0)
		ret = trims_settle(core);
	if (ret < 0)
		return ret;
	server = store->pool.server;
	store_delete_flash(core->store, store);
	ret = state_remove_store(core->state, store);
	return ret == 0 && server ? server_forget(core, server) : ret;
}
