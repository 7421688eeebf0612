/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requests that the manager's tests send, and what a server answers that is asked for its
 * figures.
 */
#include "lib/manager/manager_requests.h"

#include <stdlib.h>
#include <string.h>

#define REQUEST(field, prefix, type, number)                                \
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request); \
	type *ask = MESSAGE_NEW(prefix, type);                              \
	request->call_case = (number);                                      \
	request->field = ask

Afar__Request *ask_create(const char *name, uint32_t width, uint64_t stripe_bytes)
{
	REQUEST(namespace_create, afar__namespace_create, Afar__NamespaceCreate,
		AFAR__REQUEST__CALL_NAMESPACE_CREATE);
	ask->name = strdup(name);
	ask->policy = MESSAGE_NEW(afar__policy, Afar__Policy);
	ask->policy->width = width;
	ask->policy->stripe_bytes = stripe_bytes;
	return request;
}

Afar__Request *ask_delete(const char *name, bool with_regions)
{
	REQUEST(namespace_delete, afar__namespace_delete, Afar__NamespaceDelete,
		AFAR__REQUEST__CALL_NAMESPACE_DELETE);
	ask->name = strdup(name);
	ask->with_regions = with_regions;
	return request;
}

Afar__Request *ask_reserve(uint64_t ns, uint64_t bytes)
{
	REQUEST(namespace_reserve, afar__namespace_reserve, Afar__NamespaceReserve,
		AFAR__REQUEST__CALL_NAMESPACE_RESERVE);
	ask->namespace_ = ns;
	ask->bytes = bytes;
	return request;
}

Afar__Request *ask_cancel(uint64_t ns)
{
	REQUEST(reserve_cancel, afar__reserve_cancel, Afar__ReserveCancel,
		AFAR__REQUEST__CALL_RESERVE_CANCEL);
	ask->namespace_ = ns;
	return request;
}

Afar__Request *ask_release(uint64_t ns, uint64_t bytes)
{
	REQUEST(namespace_release, afar__namespace_release, Afar__NamespaceRelease,
		AFAR__REQUEST__CALL_NAMESPACE_RELEASE);
	ask->namespace_ = ns;
	ask->bytes = bytes;
	return request;
}

Afar__Request *ask_alloc(uint64_t ns, const char *name, uint64_t bytes, bool is_first)
{
	REQUEST(region_alloc, afar__region_alloc, Afar__RegionAlloc,
		AFAR__REQUEST__CALL_REGION_ALLOC);
	ask->namespace_ = ns;
	ask->name = strdup(name);
	ask->bytes = bytes;
	ask->is_first = is_first;
	return request;
}

Afar__Request *ask_temporary(uint64_t ns, const char *name, uint64_t bytes)
{
	Afar__Request *request = ask_alloc(ns, name, bytes, false);

	request->region_alloc->is_unfinished = request->region_alloc->is_temporary = true;
	return request;
}

Afar__Request *ask_open(uint64_t ns, const char *name, uint64_t address)
{
	REQUEST(region_open, afar__region_open, Afar__RegionOpen, AFAR__REQUEST__CALL_REGION_OPEN);
	ask->namespace_ = ns;
	ask->name = strdup(name);
	ask->address = address;
	return request;
}

Afar__Request *ask_close(const Afar__RegionInfo *region)
{
	REQUEST(region_close, afar__region_close, Afar__RegionClose,
		AFAR__REQUEST__CALL_REGION_CLOSE);
	ask->namespace_ = region->namespace_;
	ask->address = region->address;
	ask->generation = region->generation;
	return request;
}

Afar__Request *ask_free(const Afar__RegionInfo *region)
{
	REQUEST(region_free, afar__region_free, Afar__RegionFree, AFAR__REQUEST__CALL_REGION_FREE);
	ask->namespace_ = region->namespace_;
	ask->address = region->address;
	ask->generation = region->generation;
	return request;
}

Afar__Request *ask_free_named(uint64_t ns, const char *name, uint64_t address)
{
	Afar__RegionInfo region = AFAR__REGION_INFO__INIT;
	Afar__Request *request;

	region.namespace_ = ns;
	region.address = address;
	request = ask_free(&region);
	request->region_free->name = strdup(name);
	return request;
}

Afar__Request *ask_session_close(void)
{
	REQUEST(session_close, afar__session_close, Afar__SessionClose,
		AFAR__REQUEST__CALL_SESSION_CLOSE);
	return request;
}

Afar__Request *ask_fresh_status(void)
{
	Afar__Request *request = ask_status();

	request->status->is_fresh = true;
	return request;
}

Afar__Request *ask_accept_records(void)
{
	REQUEST(records_accept, afar__records_accept, Afar__RecordsAccept,
		AFAR__REQUEST__CALL_RECORDS_ACCEPT);
	return request;
}

Afar__Request *ask_status(void)
{
	REQUEST(status, afar__status, Afar__Status, AFAR__REQUEST__CALL_STATUS);
	return request;
}

Afar__Request *ask_namespaces(const char *after, uint32_t max)
{
	REQUEST(namespace_list, afar__namespace_list, Afar__NamespaceList,
		AFAR__REQUEST__CALL_NAMESPACE_LIST);
	ask->after = strdup(after);
	ask->max = max;
	return request;
}

Afar__Request *ask_regions(uint64_t ns, uint64_t after, uint32_t max)
{
	REQUEST(region_list, afar__region_list, Afar__RegionList, AFAR__REQUEST__CALL_REGION_LIST);
	ask->namespace_ = ns;
	ask->after = after;
	ask->max = max;
	return request;
}

Afar__Request *ask_namespace(const char *name)
{
	REQUEST(namespace_open, afar__namespace_open, Afar__NamespaceOpen,
		AFAR__REQUEST__CALL_NAMESPACE_OPEN);
	ask->name = strdup(name);
	return request;
}

Afar__Request *ask_grant(uint64_t ns, const char *principal, uint32_t rights)
{
	REQUEST(namespace_grant, afar__namespace_grant, Afar__NamespaceGrant,
		AFAR__REQUEST__CALL_NAMESPACE_GRANT);
	ask->namespace_ = ns;
	ask->principal = strdup(principal);
	ask->rights = rights;
	return request;
}

Afar__Request *ask_access(const Afar__RegionInfo *region)
{
	REQUEST(region_access, afar__region_access, Afar__RegionAccess,
		AFAR__REQUEST__CALL_REGION_ACCESS);
	ask->namespace_ = region->namespace_;
	ask->address = region->address;
	ask->generation = region->generation;
	return request;
}

Afar__Request *ask_seal(const Afar__RegionInfo *region)
{
	REQUEST(region_seal, afar__region_seal, Afar__RegionSeal, AFAR__REQUEST__CALL_REGION_SEAL);
	ask->namespace_ = region->namespace_;
	ask->address = region->address;
	ask->generation = region->generation;
	return request;
}

Afar__Request *ask_region_resize(const Afar__RegionInfo *region, uint64_t bytes)
{
	REQUEST(region_resize, afar__region_resize, Afar__RegionResize,
		AFAR__REQUEST__CALL_REGION_RESIZE);
	ask->namespace_ = region->namespace_;
	ask->address = region->address;
	ask->generation = region->generation;
	ask->bytes = bytes;
	return request;
}

Afar__Request *ask_cow(uint64_t ns, const char *name, uint64_t bytes)
{
	Afar__Request *request = ask_alloc(ns, name, bytes, false);

	request->region_alloc->is_cow = true;
	return request;
}

Afar__Request *ask_newest(const Afar__RegionInfo *region)
{
	Afar__Request *request = ask_open(region->namespace_, "", region->address);

	request->region_open->generation = region->generation;
	return request;
}

Afar__Request *ask_begin(const Afar__RegionInfo *region, uint64_t claim)
{
	REQUEST(region_begin, afar__region_begin, Afar__RegionBegin,
		AFAR__REQUEST__CALL_REGION_BEGIN);
	ask->namespace_ = region->namespace_;
	ask->address = region->address;
	ask->generation = region->generation;
	ask->claim = claim;
	return request;
}

Afar__Request *ask_prepare(const Afar__RegionInfo *region, const uint32_t *units, size_t nr)
{
	REQUEST(region_prepare, afar__region_prepare, Afar__RegionPrepare,
		AFAR__REQUEST__CALL_REGION_PREPARE);
	ask->namespace_ = region->namespace_;
	ask->address = region->address;
	ask->generation = region->generation;
	ask->units = calloc(nr + 1, sizeof(*ask->units));
	for (ask->n_units = 0; ask->n_units < nr; ask->n_units++)
		ask->units[ask->n_units] = units[ask->n_units];
	return request;
}

Afar__Request *ask_publish(const Afar__RegionInfo *region)
{
	REQUEST(region_publish, afar__region_publish, Afar__RegionPublish,
		AFAR__REQUEST__CALL_REGION_PUBLISH);
	ask->namespace_ = region->namespace_;
	ask->address = region->address;
	ask->generation = region->generation;
	return request;
}

Afar__Request *ask_use(const Afar__RegionInfo *region)
{
	REQUEST(region_use, afar__region_use, Afar__RegionUse, AFAR__REQUEST__CALL_REGION_USE);
	ask->namespace_ = region->namespace_;
	ask->address = region->address;
	ask->generation = region->generation;
	return request;
}

Afar__Request *ask_finish(const Afar__RegionInfo *region)
{
	REQUEST(region_finish, afar__region_finish, Afar__RegionFinish,
		AFAR__REQUEST__CALL_REGION_FINISH);
	ask->namespace_ = region->namespace_;
	ask->address = region->address;
	ask->generation = region->generation;
	return request;
}

Afar__Request *ask_look(const Afar__RegionInfo *region)
{
	REQUEST(region_look, afar__region_look, Afar__RegionLook, AFAR__REQUEST__CALL_REGION_LOOK);
	ask->namespace_ = region->namespace_;
	ask->address = region->address;
	ask->generation = region->generation;
	return request;
}

Afar__Request *ask_volume(const char *name)
{
	Afar__Request *request = ask_create(name, 0, 65536);

	request->namespace_create->is_volume = true;
	return request;
}

Afar__Request *ask_volume_alloc(uint64_t ns, uint64_t bytes)
{
	Afar__Request *request = ask_alloc(ns, "", bytes, false);

	request->region_alloc->is_volume = request->region_alloc->is_unfinished = true;
	return request;
}

Afar__Request *ask_volume_open(uint64_t ns, uint32_t mode)
{
	Afar__Request *request = ask_open(ns, "", 0);

	request->region_open->mode = mode;
	return request;
}

Afar__Request *ask_volume_delete(const char *name)
{
	Afar__Request *request = ask_delete(name, true);

	request->namespace_delete->is_volume = true;
	return request;
}

Afar__Request *ask_take_over(uint64_t ns, uint32_t mode)
{
	REQUEST(volume_take_over, afar__volume_take_over, Afar__VolumeTakeOver,
		AFAR__REQUEST__CALL_VOLUME_TAKE_OVER);
	ask->namespace_ = ns;
	ask->mode = mode;
	return request;
}

Afar__Request *ask_resize(uint64_t ns, uint64_t bytes)
{
	REQUEST(volume_resize, afar__volume_resize, Afar__VolumeResize,
		AFAR__REQUEST__CALL_VOLUME_RESIZE);
	ask->namespace_ = ns;
	ask->bytes = bytes;
	return request;
}

Afar__Request *ask_key_add(const char *name, bool is_server)
{
	REQUEST(key_add, afar__key_add, Afar__KeyAdd, AFAR__REQUEST__CALL_KEY_ADD);
	ask->name = strdup(name);
	ask->is_server = is_server;
	return request;
}

Afar__Request *ask_key_list(void)
{
	REQUEST(key_list, afar__key_list, Afar__KeyList, AFAR__REQUEST__CALL_KEY_LIST);
	return request;
}

Afar__Request *ask_server_regions(uint64_t server, uint64_t after, uint32_t max)
{
	REQUEST(server_regions, afar__server_regions, Afar__ServerRegions,
		AFAR__REQUEST__CALL_SERVER_REGIONS);
	ask->server = server;
	ask->after = after;
	ask->max = max;
	return request;
}

Afar__Request *ask_accept_namespace(const char *name)
{
	REQUEST(namespace_accept, afar__namespace_accept, Afar__NamespaceAccept,
		AFAR__REQUEST__CALL_NAMESPACE_ACCEPT);
	ask->name = strdup(name);
	return request;
}

Afar__Request *ask_loss_list(uint64_t server, uint64_t after)
{
	REQUEST(loss_list, afar__loss_list, Afar__LossList, AFAR__REQUEST__CALL_LOSS_LIST);
	ask->server = server;
	ask->after = after;
	return request;
}

Afar__Request *ask_loss_count(uint64_t server, uint64_t fs, const Afar__LossCounted *so_far,
			      uint32_t max)
{
	REQUEST(loss_count, afar__loss_count, Afar__LossCount, AFAR__REQUEST__CALL_LOSS_COUNT);
	ask->server = server;
	ask->fs = fs;
	ask->ino = so_far->ino;
	ask->unit = so_far->unit;
	ask->counted = so_far->counted;
	ask->max = max;
	return request;
}

Afar__Request *ask_server_remove(uint64_t server)
{
	REQUEST(server_remove, afar__server_remove, Afar__ServerRemove,
		AFAR__REQUEST__CALL_SERVER_REMOVE);
	ask->server = server;
	return request;
}

Afar__Request *ask_store_regions(uint64_t store)
{
	REQUEST(store_regions, afar__store_regions, Afar__StoreRegions,
		AFAR__REQUEST__CALL_STORE_REGIONS);
	ask->store = store;
	return request;
}

Afar__Request *ask_store_forget(uint64_t store)
{
	REQUEST(store_forget, afar__store_forget, Afar__StoreForget,
		AFAR__REQUEST__CALL_STORE_FORGET);
	ask->store = store;
	return request;
}

Afar__Request *ask_free_orphans(uint64_t store)
{
	REQUEST(store_free_orphans, afar__store_free_orphans, Afar__StoreFreeOrphans,
		AFAR__REQUEST__CALL_STORE_FREE_ORPHANS);
	ask->store = store;
	return request;
}

Afar__Request *ask_store_add(uint64_t server, const char *path)
{
	REQUEST(store_add, afar__store_add, Afar__StoreAdd, AFAR__REQUEST__CALL_STORE_ADD);
	ask->server = server;
	ask->path = strdup(path);
	return request;
}

Afar__Request *ask_store_remove(uint64_t store)
{
	REQUEST(store_remove, afar__store_remove, Afar__StoreRemove,
		AFAR__REQUEST__CALL_STORE_REMOVE);
	ask->store = store;
	return request;
}

Afar__Request *ask_key_revoke(const char *name)
{
	REQUEST(key_revoke, afar__key_revoke, Afar__KeyRevoke, AFAR__REQUEST__CALL_KEY_REVOKE);
	ask->name = strdup(name);
	return request;
}

Afar__Request *ask_key_limit(const char *name, uint64_t max_bytes)
{
	REQUEST(key_limit, afar__key_limit, Afar__KeyLimit, AFAR__REQUEST__CALL_KEY_LIMIT);
	ask->name = strdup(name);
	ask->max_bytes = max_bytes;
	return request;
}

Afar__Request *ask_limit(uint64_t ns, uint64_t max_bytes)
{
	REQUEST(namespace_limit, afar__namespace_limit, Afar__NamespaceLimit,
		AFAR__REQUEST__CALL_NAMESPACE_LIMIT);
	ask->namespace_ = ns;
	ask->max_bytes = max_bytes;
	return request;
}

Afar__Reply *answer_look(uint64_t bytes_in)
{
	Afar__Reply *reply = MESSAGE_NEW(afar__reply, Afar__Reply);

	reply->server_report = MESSAGE_NEW(afar__server_report, Afar__ServerReport);
	reply->result_case = AFAR__REPLY__RESULT_SERVER_REPORT;
	reply->server_report->lanes = calloc(2, sizeof(*reply->server_report->lanes));
	for (unsigned i = 0; i < 2; i++) {
		reply->server_report->lanes[i] = MESSAGE_NEW(afar__lane_report, Afar__LaneReport);
		reply->server_report->lanes[i]->congestion = strdup(i ? "\033[2J" : "cubic");
	}
	reply->server_report->lanes[0]->counted_by = 1;
	reply->server_report->lanes[0]->bytes_in = bytes_in;
	reply->server_report->n_lanes = 2;
	return reply;
}
