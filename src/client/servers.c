/* SPDX-License-Identifier: BSD-3-Clause */
/* Servers that are gone for good. Thin calls to the manager, for operators. */
#include <errno.h>

#include "base/error.h"
#include "client/abi.h"
#include "client/call.h"
#include "client/namespace.h"

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

PUBLIC_CALL(int, afar_server_regions,
	    (struct afar_session *session, uint64_t server, uint64_t after,
	     struct afar_server_region *out, unsigned max),
	    (session, server, after, out, max))
{
	Afar__ServerRegions list = AFAR__SERVER_REGIONS__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	const Afar__ServerRegionInfos *infos;
	Afar__Frame *reply;
	size_t count, size;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!out || max == 0 || max > INT32_MAX)
		return error_fail(-EINVAL,
				  "list the regions on a server: there is no room for them");
	ret = abi_check_out(out, sizeof(*out), "afar_server_region");
	if (ret)
		return ret;
	size = out->size;
	list.server = server;
	list.after = after;
	list.max = max;
	request.call_case = AFAR__REQUEST__CALL_SERVER_REGIONS;
	request.server_regions = &list;
	ret = session_call_for(session, &request, AFAR__REPLY__RESULT_SERVER_REGION_INFOS, &reply);
	if (ret)
		return ret;
	infos = reply->reply->server_region_infos;
	count = infos->n_entries < max ? infos->n_entries : max;
	for (size_t i = 0; i < count; i++)
		give_entry(infos->entries[i], (char *)out + i * size, size);
	afar__frame__free_unpacked(reply, NULL);
	return (int)count;
}

PUBLIC_CALL(int, afar_server_remove, (struct afar_session *session, uint64_t server), (session, server))
{
	Afar__ServerRemove remove = AFAR__SERVER_REMOVE__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	int ret = session_check(session);

	if (ret)
		return ret;
	remove.server = server;
	request.call_case = AFAR__REQUEST__CALL_SERVER_REMOVE;
	request.server_remove = &remove;
	return session_call(session, &request, NULL);
}
