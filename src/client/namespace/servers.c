/* SPDX-License-Identifier: BSD-3-Clause */
/* Servers and stores, as operators deal with them. Thin calls to the manager. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/namespace/namespace.h"

static void give_entry(const Afar__ServerRegion *entry, void *out, size_t size)
{
	struct afar_server_region given = {0};

	name_copy(given.ns, entry->namespace_);
	if (entry->region) {
		name_copy(given.name, entry->region->name);
		given.generation = entry->region->generation;
		given.address = entry->region->address;
		given.length = entry->region->length;
	}
	abi_give(out, size, &given, sizeof(given));
}

static int check_list(struct afar_session *session, const char *where,
		      const struct afar_server_region *out, unsigned max)
{
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!out || max == 0 || max > INT32_MAX)
		return error_fail(-EINVAL, "list the regions on a %s: there is no room for them",
				  where);
	return ABI_CHECK_OUT(out, afar_server_region, length);
}

/* Has the manager list regions, and gives the caller up to `max` of them. Returns how many. */
static int list_regions(struct afar_session *session, Afar__Request *request,
			struct afar_server_region *out, unsigned max)
{
	const Afar__ServerRegionInfos *infos;
	size_t count, size = out->size;
	Afar__Frame *reply;
	int ret;

	ret = session_call_for(session, request, AFAR__REPLY__RESULT_SERVER_REGION_INFOS, &reply);
	if (ret)
		return ret;
	infos = reply->reply->server_region_infos;
	count = infos->n_entries < max ? infos->n_entries : max;
	for (size_t i = 0; i < count; i++)
		give_entry(infos->entries[i], (char *)out + i * size, size);
	rpc_frame_free(reply);
	return (int)count;
}

/* ---- Servers */

PUBLIC_CALL(int, afar_server_regions,
	    (struct afar_session *session, uint64_t server, uint64_t after,
	     struct afar_server_region *out, unsigned max),
	    (session, server, after, out, max))
{
	Afar__ServerRegions list = AFAR__SERVER_REGIONS__INIT;
	int ret = check_list(session, "server", out, max);

	if (ret)
		return ret;
	list.server = server;
	list.after = after;
	list.max = max;
	return list_regions(session, RPC_REQUEST(SERVER_REGIONS, server_regions, &list), out, max);
}

PUBLIC_CALL(int, afar_server_remove, (struct afar_session *session, uint64_t server), (session, server))
{
	Afar__ServerRemove remove = AFAR__SERVER_REMOVE__INIT;
	int ret = session_check(session);

	if (ret)
		return ret;
	remove.server = server;
	return session_call(session, RPC_REQUEST(SERVER_REMOVE, server_remove, &remove), NULL);
}

/* ---- The manager's records */

struct records_checking {
	afar_manager_say say;
	void *argument;
	uint64_t nr_records;
	int64_t nr_damaged;
	uint8_t last[512]; /* key */
	size_t last_length;
};

/* Has the manager look at some records. Returns 1 if there are more. */
static int check_some(struct afar_session *session, struct records_checking *checking)
{
	Afar__RecordsCheck check = AFAR__RECORDS_CHECK__INIT;
	const Afar__RecordsChecked *checked;
	Afar__Frame *reply;
	int ret;

	check.after = (ProtobufCBinaryData){checking->last_length, checking->last};
	ret = session_call_for(session, RPC_REQUEST(RECORDS_CHECK, records_check, &check),
			       AFAR__REPLY__RESULT_RECORDS_CHECKED, &reply);
	if (ret)
		return ret;
	checked = reply->reply->records_checked;
	for (size_t i = 0; i < checked->n_damaged; i++)
		checking->say(checking->argument, checked->damaged[i]);
	checking->nr_damaged += (int64_t)checked->n_damaged;
	checking->nr_records += checked->nr_records;
	ret = checked->last.len != 0;
	if (checked->last.len > sizeof(checking->last) || (ret && checked->nr_records == 0)) {
		ret = error_fail(-AFAR_EMALFORMED, "check the manager's records: the manager does "
						   "not say how far it has come");
	} else if (ret) {
		memcpy(checking->last, checked->last.data, checked->last.len);
		checking->last_length = checked->last.len;
	}
	rpc_frame_free(reply);
	return ret;
}

PUBLIC_CALL(int64_t, afar_manager_check,
	    (struct afar_session *session, afar_manager_say say, void *argument,
	     uint64_t *nr_records),
	    (session, say, argument, nr_records))
{
	struct records_checking checking = {.say = say, .argument = argument};
	int ret = session_check(session);

	if (ret == 0 && !say)
		ret = error_fail(-EINVAL, "check the manager's records: there is nobody to tell");
	if (ret)
		return ret;
	do {
		ret = check_some(session, &checking);
	} while (ret > 0);
	if (nr_records)
		*nr_records = checking.nr_records;
	return ret ? ret : checking.nr_damaged;
}

PUBLIC_CALL(int, afar_manager_accept_older, (struct afar_session *session), (session))
{
	Afar__RecordsAccept accept = AFAR__RECORDS_ACCEPT__INIT;
	int ret = session_check(session);

	if (ret)
		return ret;
	return session_call(session, RPC_REQUEST(RECORDS_ACCEPT, records_accept, &accept), NULL);
}

PUBLIC_CALL(int, afar_namespace_accept_older, (struct afar_session *session, const char *name),
	    (session, name))
{
	Afar__NamespaceAccept accept = AFAR__NAMESPACE_ACCEPT__INIT;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!name)
		return error_fail(-EINVAL, "accept older records: no name is given (it is null)");
	accept.name = (char *)(uintptr_t)name;
	return session_call(session, RPC_REQUEST(NAMESPACE_ACCEPT, namespace_accept, &accept),
			    NULL);
}

/* ---- Stores */

PUBLIC_CALL(int, afar_store_regions,
	    (struct afar_session *session, uint64_t store, uint64_t after,
	     struct afar_server_region *out, unsigned max),
	    (session, store, after, out, max))
{
	Afar__StoreRegions list = AFAR__STORE_REGIONS__INIT;
	int ret = check_list(session, "store", out, max);

	if (ret)
		return ret;
	list.store = store;
	list.after = after;
	list.max = max;
	return list_regions(session, RPC_REQUEST(STORE_REGIONS, store_regions, &list), out, max);
}

PUBLIC_CALL(int, afar_store_forget, (struct afar_session *session, uint64_t store), (session, store))
{
	Afar__StoreForget forget = AFAR__STORE_FORGET__INIT;
	int ret = session_check(session);

	if (ret)
		return ret;
	forget.store = store;
	return session_call(session, RPC_REQUEST(STORE_FORGET, store_forget, &forget), NULL);
}

PUBLIC_CALL(int, afar_store_free_orphans,
	    (struct afar_session *session, uint64_t store, uint64_t *freed), (session, store, freed))
{
	Afar__StoreFreeOrphans ask = AFAR__STORE_FREE_ORPHANS__INIT;
	Afar__Frame *reply;
	int ret = session_check(session);

	if (ret)
		return ret;
	ask.store = store;
	ret = session_call_for(session, RPC_REQUEST(STORE_FREE_ORPHANS, store_free_orphans, &ask),
			       AFAR__REPLY__RESULT_NAMESPACE_RELEASED, &reply);
	if (ret)
		return ret;
	if (freed)
		*freed = reply->reply->namespace_released->bytes;
	rpc_frame_free(reply);
	return 0;
}

PUBLIC_CALL(int, afar_store_add,
	    (struct afar_session *session, uint64_t server, const char *path, uint64_t *store),
	    (session, server, path, store))
{
	Afar__StoreAdd add = AFAR__STORE_ADD__INIT;
	Afar__Frame *reply;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!path)
		return error_fail(-EINVAL, "add a store: no path is given (it is null)");
	add.server = server;
	add.path = (char *)(uintptr_t)path;
	ret = session_call_for(session, RPC_REQUEST(STORE_ADD, store_add, &add),
			       AFAR__REPLY__RESULT_STORE_OPENED, &reply);
	if (ret)
		return ret;
	if (store)
		*store = reply->reply->store_opened->store;
	rpc_frame_free(reply);
	return 0;
}

PUBLIC_CALL(int, afar_store_remove, (struct afar_session *session, uint64_t store), (session, store))
{
	Afar__StoreRemove remove = AFAR__STORE_REMOVE__INIT;
	int ret = session_check(session);

	if (ret)
		return ret;
	remove.store = store;
	return session_call(session, RPC_REQUEST(STORE_REMOVE, store_remove, &remove), NULL);
}
