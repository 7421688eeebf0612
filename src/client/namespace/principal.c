/* SPDX-License-Identifier: BSD-3-Clause */
/* Principals: their keys and their rights on namespaces. Thin calls to the manager, which checks
 * them. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <afar/file.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/namespace/namespace.h"

_Static_assert(AFAR_PRINCIPAL_MAX == KEY_PRINCIPAL_MAX, "one limit, said twice");
_Static_assert(AFAR_KEY_HEX_MAX == 2 * KEY_BYTES + 1, "a key in hex digits");

static void print_hex(const uint8_t *bytes, size_t length, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < length; i++) {
		*out++ = digits[bytes[i] >> 4];
		*out++ = digits[bytes[i] & 0xf];
	}
	*out = '\0';
}

static int add_key(struct afar_session *session, Afar__KeyAdd *add, char secret[AFAR_KEY_HEX_MAX])
{
	Afar__KeyAdded *added;
	Afar__Frame *reply;
	int ret;

	ret = session_call_for(session, RPC_REQUEST(KEY_ADD, key_add, add),
			       AFAR__REPLY__RESULT_KEY_ADDED, &reply);
	if (ret)
		return ret;
	added = reply->reply->key_added;
	if (added->secret.len == KEY_BYTES)
		print_hex(added->secret.data, KEY_BYTES, secret);
	else
		ret = error_fail(-AFAR_EMALFORMED, "add a key: the manager's has %zu bytes, not %d",
				 added->secret.len, KEY_BYTES);
	explicit_bzero(added->secret.data, added->secret.len);
	rpc_frame_free(reply);
	return ret;
}

PUBLIC_CALL(int, afar_key_add,
	    (struct afar_session *session, const char *name, unsigned flags,
	     char secret[AFAR_KEY_HEX_MAX]),
	    (session, name, flags, secret))
{
	Afar__KeyAdd add = AFAR__KEY_ADD__INIT;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!name || !secret || (flags & ~(AFAR_KEY_SERVER | AFAR_KEY_ANY_UID)))
		return error_fail(-EINVAL,
				  "add a key: name or secret is null, or flags are unknown");
	add.name = (char *)name;
	add.is_server = (flags & AFAR_KEY_SERVER) != 0;
	add.is_any = (flags & AFAR_KEY_ANY_UID) != 0;
	return add_key(session, &add, secret);
}

PUBLIC_CALL(int, afar_key_add_user,
	    (struct afar_session *session, const char *name, const struct afar_who *who,
	     char secret[AFAR_KEY_HEX_MAX]),
	    (session, name, who, secret))
{
	Afar__KeyAdd add = AFAR__KEY_ADD__INIT;
	uint32_t *gids;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!name || !secret || !who || who->size < sizeof(*who) ||
	    (who->nr_groups && !who->groups))
		return error_fail(
			-EINVAL,
			"add a key: name, secret or user is null, or its size was not set");
	gids = calloc((size_t)who->nr_groups + 1, sizeof(*gids));
	if (!gids)
		return error_code(-ENOMEM);
	gids[0] = who->gid;
	if (who->nr_groups)
		memcpy(&gids[1], who->groups, who->nr_groups * sizeof(*gids));
	add.name = (char *)name;
	add.has_uid = true;
	add.uid = who->uid;
	add.gids = gids;
	add.n_gids = (size_t)who->nr_groups + 1;
	ret = add_key(session, &add, secret);
	free(gids);
	return ret;
}

static void stat_from_info(const Afar__KeyInfo *info, struct afar_key_stat *out)
{
	size_t length = strnlen(info->name, AFAR_PRINCIPAL_MAX);

	*out = (struct afar_key_stat){
		.nr_sessions = info->nr_sessions,
		.reserved_bytes = info->reserved_bytes,
		.max_bytes = info->max_bytes,
	};
	memcpy(out->name, info->name, length);
	if (info->is_server)
		out->flags |= AFAR_KEY_SERVER;
	if (info->is_operator)
		out->flags |= AFAR_KEY_OPERATOR;
	if (info->is_any)
		out->flags |= AFAR_KEY_ANY_UID;
	if (info->has_uid) {
		out->flags |= AFAR_KEY_UID;
		out->uid = info->uid;
	}
}

static int compare_infos(const void *a, const void *b)
{
	const Afar__KeyInfo *const *left = a, *const *right = b;

	return strcmp((*left)->name, (*right)->name);
}

/* The manager tells all at once, in any order. */
static unsigned list_after(Afar__KeyInfos *infos, const char *after, void *out, size_t size,
			   unsigned max)
{
	struct afar_key_stat stat;
	unsigned count = 0;

	if (infos->n_entries)
		qsort(infos->entries, infos->n_entries, sizeof(*infos->entries), compare_infos);
	for (size_t i = 0; i < infos->n_entries && count < max; i++) {
		if (after && strcmp(infos->entries[i]->name, after) <= 0)
			continue;
		stat_from_info(infos->entries[i], &stat);
		abi_give((char *)out + count * size, size, &stat, sizeof(stat));
		count++;
	}
	return count;
}

PUBLIC_CALL(int, afar_key_list,
	    (struct afar_session *session, const char *after, struct afar_key_stat *out,
	     unsigned max),
	    (session, after, out, max))
{
	Afar__KeyList list = AFAR__KEY_LIST__INIT;
	Afar__Frame *reply;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!out || max == 0 || max > INT32_MAX)
		return error_fail(-EINVAL, "list keys: there is no room for them");
	ret = ABI_CHECK_OUT(out, afar_key_stat, nr_sessions);
	if (ret)
		return ret;
	ret = session_call_for(session, RPC_REQUEST(KEY_LIST, key_list, &list),
			       AFAR__REPLY__RESULT_KEY_INFOS, &reply);
	if (ret)
		return ret;
	ret = (int)list_after(reply->reply->key_infos, after, out, out->size, max);
	rpc_frame_free(reply);
	return ret;
}

PUBLIC_CALL(int, afar_key_revoke, (struct afar_session *session, const char *name),
	    (session, name))
{
	Afar__KeyRevoke revoke = AFAR__KEY_REVOKE__INIT;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!name)
		return error_fail(-EINVAL, "revoke a key: its name is null");
	revoke.name = (char *)name;
	return session_call(session, RPC_REQUEST(KEY_REVOKE, key_revoke, &revoke), NULL);
}

PUBLIC_CALL(int, afar_key_limit,
	    (struct afar_session *session, const char *name, uint64_t max_bytes),
	    (session, name, max_bytes))
{
	Afar__KeyLimit limit = AFAR__KEY_LIMIT__INIT;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!name)
		return error_fail(-EINVAL, "limit a key: its name is null");
	limit.name = (char *)name;
	limit.max_bytes = max_bytes;
	return session_call(session, RPC_REQUEST(KEY_LIMIT, key_limit, &limit), NULL);
}

PUBLIC_CALL(int, afar_namespace_limit, (struct afar_namespace *ns, uint64_t max_bytes),
	    (ns, max_bytes))
{
	Afar__NamespaceLimit limit = AFAR__NAMESPACE_LIMIT__INIT;
	int ret = namespace_check(ns);

	if (ret)
		return ret;
	limit.namespace_ = ns->number;
	limit.max_bytes = max_bytes;
	return session_call(ns->session, RPC_REQUEST(NAMESPACE_LIMIT, namespace_limit, &limit),
			    NULL);
}

PUBLIC_CALL(int, afar_namespace_grant,
	    (struct afar_namespace *ns, const char *principal, unsigned rights),
	    (ns, principal, rights))
{
	Afar__NamespaceGrant grant = AFAR__NAMESPACE_GRANT__INIT;
	int ret = namespace_check(ns);

	if (ret)
		return ret;
	if (!principal || (rights & ~(AFAR_RIGHT_READ | AFAR_RIGHT_WRITE)) ||
	    rights == AFAR_RIGHT_WRITE)
		return error_fail(-EINVAL,
				  "grant rights on namespace %s: the principal is null, or the "
				  "rights are not none, read, or read and write",
				  ns->name);
	grant.namespace_ = ns->number;
	grant.principal = (char *)principal;
	grant.rights = rights;
	return session_call(ns->session, RPC_REQUEST(NAMESPACE_GRANT, namespace_grant, &grant),
			    NULL);
}
