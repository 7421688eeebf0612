/* SPDX-License-Identifier: BSD-3-Clause */
/* Servers and stores by their numbers, out of the manager's status. */
#include <errno.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/namespace/namespace.h"

/* Asks for the status. The manager tells it to everybody. */
static int ask(struct afar_session *session, const void *out, unsigned max, const char *nouns,
	       Afar__Frame **reply)
{
	Afar__Status status = AFAR__STATUS__INIT;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!out || max == 0 || max > INT32_MAX)
		return error_fail(-EINVAL, "list %s: there is no room for them", nouns);
	return session_call_for(session, RPC_REQUEST(STATUS, status, &status),
				AFAR__REPLY__RESULT_CLUSTER_STATUS, reply);
}

/* ---- Servers */

/* Returns the server with the lowest number above `after`; NULL: there is none. */
static const Afar__ServerStatus *next_server(const Afar__ClusterStatus *status, uint64_t after)
{
	const Afar__ServerStatus *next = NULL;

	for (size_t i = 0; i < status->n_servers; i++) {
		const Afar__ServerStatus *each = status->servers[i];

		if (each->server && each->server->server > after &&
		    (!next || each->server->server < next->server->server))
			next = each;
	}
	return next;
}

static void give_server(const Afar__ServerStatus *server, void *out, size_t size)
{
	struct afar_server_stat stat = {
		.server = server->server->server,
		.is_up = server->is_up != 0,
	};

	name_copy(stat.name, server->server->name);
	if (server->report) {
		stat.capacity_bytes = server->report->capacity_bytes;
		stat.granted_bytes = server->report->granted_bytes;
	}
	abi_give(out, size, &stat, sizeof(stat));
}

PUBLIC_CALL(int, afar_server_list,
	    (struct afar_session *session, uint64_t after, struct afar_server_stat *out,
	     unsigned max),
	    (session, after, out, max))
{
	const Afar__ServerStatus *server;
	Afar__Frame *reply;
	unsigned nr = 0;
	size_t size;
	int ret = out ? ABI_CHECK_OUT(out, afar_server_stat, name) : 0;

	if (ret == 0)
		ret = ask(session, out, max, "servers", &reply);
	if (ret)
		return ret;
	size = out->size;
	while (nr < max && (server = next_server(reply->reply->cluster_status, after))) {
		after = server->server->server;
		give_server(server, (char *)out + nr++ * size, size);
	}
	rpc_frame_free(reply);
	return (int)nr;
}

/* ---- Stores */

static const Afar__StoreStatus *next_store(const Afar__ClusterStatus *status, uint64_t after)
{
	const Afar__StoreStatus *next = NULL;

	for (size_t i = 0; i < status->n_stores; i++) {
		if (status->stores[i]->store > after &&
		    (!next || status->stores[i]->store < next->store))
			next = status->stores[i];
	}
	return next;
}

static void give_store(const Afar__StoreStatus *store, void *out, size_t size)
{
	const struct afar_store_stat stat = {
		.store = store->store,
		.server = store->server,
		.capacity_bytes = store->capacity_bytes,
		.granted_bytes = store->granted_bytes,
		.is_up = store->is_up != 0,
	};

	abi_give(out, size, &stat, sizeof(stat));
}

PUBLIC_CALL(int, afar_store_list,
	    (struct afar_session *session, uint64_t after, struct afar_store_stat *out,
	     unsigned max),
	    (session, after, out, max))
{
	const Afar__StoreStatus *store;
	Afar__Frame *reply;
	unsigned nr = 0;
	size_t size;
	int ret = out ? ABI_CHECK_OUT(out, afar_store_stat, reserved) : 0;

	if (ret == 0)
		ret = ask(session, out, max, "stores", &reply);
	if (ret)
		return ret;
	size = out->size;
	while (nr < max && (store = next_store(reply->reply->cluster_status, after))) {
		after = store->store;
		give_store(store, (char *)out + nr++ * size, size);
	}
	rpc_frame_free(reply);
	return (int)nr;
}
