/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces: thin calls to the manager, which checks the requests. */
#include "client/namespace/namespace.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/namespace/deferred_close.h"

int namespace_check(const struct afar_namespace *ns)
{
	if (!handle_is(ns, HANDLE_NAMESPACE))
		return error_fail(-EINVAL, "use a namespace: the handle is null or closed");
	return session_check(ns->session);
}

void name_copy(char *out, const char *name)
{
	size_t length = strnlen(name, AFAR_NAME_MAX);

	memcpy(out, name, length);
	out[length] = '\0';
}

/* ---- Kinds */

static enum namespace_kind kind_of(const Afar__NamespaceInfo *info)
{
	return info->files ? NAMESPACE_FILES : info->volume ? NAMESPACE_VOLUME : NAMESPACE_PLAIN;
}

/* How a kind is called, and the commands about it. */
static const struct {
	const char *noun, *nouns, *command;
} kinds[] = {
	[NAMESPACE_PLAIN] = {"namespace", "namespaces", "ns"},
	[NAMESPACE_VOLUME] = {"volume", "volumes", "volume"},
	[NAMESPACE_FILES] = {"file system", "file systems", "fs"},
};

/* ---- Telling */

static int list_after(struct afar_session *session, const char *after, Afar__Frame **reply)
{
	Afar__NamespaceList list = AFAR__NAMESPACE_LIST__INIT;

	list.after = (char *)after;
	return session_call_for(session, RPC_REQUEST(NAMESPACE_LIST, namespace_list, &list),
				AFAR__REPLY__RESULT_NAMESPACE_INFOS, reply);
}

/* Each struct of ours begins with its size. */
static size_t size_of(const void *out)
{
	size_t size;

	memcpy(&size, out, sizeof(size));
	return size;
}

int namespace_tell_all(struct afar_session *session, const struct namespace_telling *telling,
		       const char *after, void *out, unsigned max)
{
	char position[AFAR_NAME_MAX + 1] = "";
	size_t size, nr_namespaces;
	unsigned nr = 0;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!out || max == 0 || max > INT32_MAX)
		return error_fail(-EINVAL, "list %s: there is no room for them",
				  kinds[telling->kind].nouns);
	ret = abi_check_out(out, telling->oldest, telling->name);
	if (ret)
		return ret;
	size = size_of(out);
	name_copy(position, after ? after : "");
	do {
		const Afar__NamespaceInfos *infos;
		Afar__Frame *reply;

		ret = list_after(session, position, &reply);
		if (ret)
			return ret;
		infos = reply->reply->namespace_infos;
		nr_namespaces = infos->n_entries;
		for (size_t i = 0; i < nr_namespaces && nr < max; i++) {
			name_copy(position, infos->entries[i]->name);
			if (kind_of(infos->entries[i]) == telling->kind)
				telling->give(infos->entries[i], (char *)out + nr++ * size, size);
		}
		rpc_frame_free(reply);
	} while (nr_namespaces != 0 && nr < max);
	return (int)nr;
}

static Afar__NamespaceOpen ask_to_open(enum namespace_kind kind, const char *name)
{
	Afar__NamespaceOpen open = AFAR__NAMESPACE_OPEN__INIT;

	open.name = (char *)(uintptr_t)name;
	open.is_volume = kind != NAMESPACE_PLAIN;
	open.is_files = kind == NAMESPACE_FILES;
	return open;
}

int namespace_look(struct afar_session *session, enum namespace_kind kind, const char *name,
		   Afar__Frame **reply)
{
	Afar__NamespaceOpen open = ask_to_open(kind, name);
	int ret = session_call_for(session, RPC_REQUEST(NAMESPACE_OPEN, namespace_open, &open),
				   AFAR__REPLY__RESULT_NAMESPACE_INFO, reply);

	if (ret || kind_of((*reply)->reply->namespace_info) == kind)
		return ret;
	ret = error_fail(-ENOENT, "look at %s '%s': it is a %s, and no %s; see 'afar %s ls'",
			 kinds[kind].noun, name,
			 kinds[kind_of((*reply)->reply->namespace_info)].noun, kinds[kind].noun,
			 kinds[kind].command);
	rpc_frame_free(*reply);
	return ret;
}

int namespace_tell(struct afar_session *session, const struct namespace_telling *telling,
		   const char *name, void *out)
{
	Afar__Frame *reply;
	int ret = out ? abi_check_out(out, telling->oldest, telling->name)
		      : error_fail(-EINVAL, "look at a %s: out is null", kinds[telling->kind].noun);

	if (ret == 0)
		ret = namespace_look(session, telling->kind, name, &reply);
	if (ret)
		return ret;
	telling->give(reply->reply->namespace_info, out, size_of(out));
	rpc_frame_free(reply);
	return 0;
}

/* ---- Opening, creating, deleting */

static int open_from_reply(struct afar_session *session, Afar__Request *request,
			   struct afar_namespace **out)
{
	struct afar_namespace *ns;
	Afar__Frame *reply;
	int ret = session_call_for(session, request, AFAR__REPLY__RESULT_NAMESPACE_INFO, &reply);

	if (ret)
		return ret;
	ns = handle_new(HANDLE_NAMESPACE, sizeof(*ns));
	if (ns) {
		ns->session = session;
		ns->number = reply->reply->namespace_info->namespace_;
		ns->identity = reply->reply->namespace_info->identity;
		ns->kind = kind_of(reply->reply->namespace_info);
		name_copy(ns->name, reply->reply->namespace_info->name);
		handle_use(&session->handle);
		*out = ns;
	}
	rpc_frame_free(reply);
	return ns ? 0 : error_code(-ENOMEM);
}

int namespace_make(struct afar_session *session, const struct namespace_wish *wish,
		   struct afar_namespace **out)
{
	struct afar_policy policy = {0};
	Afar__NamespaceCreate create = AFAR__NAMESPACE_CREATE__INIT;
	Afar__Policy wanted = AFAR__POLICY__INIT;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!wish->name)
		return error_fail(-EINVAL, "create a namespace: its name is null");
	if (wish->policy) {
		ret = ABI_TAKE(&policy, wish->policy, afar_policy, stripe_bytes);
		if (ret)
			return ret;
	}
	wanted.tier = policy.tier;
	wanted.width = policy.width;
	wanted.stripe_bytes = policy.stripe_bytes;
	wanted.max_bytes = policy.max_bytes;
	create.name = (char *)wish->name;
	create.policy = &wanted;
	create.is_volume = wish->kind != NAMESPACE_PLAIN;
	create.is_files = wish->kind == NAMESPACE_FILES;
	create.root_uid = wish->root_uid;
	create.root_gid = wish->root_gid;
	create.root_mode = wish->root_mode;
	create.max_inodes = wish->max_inodes;
	return open_from_reply(session, RPC_REQUEST(NAMESPACE_CREATE, namespace_create, &create),
			       out);
}

PUBLIC_CALL_OF_CALLS(int, afar_namespace_create,
	    (struct afar_session *session, const char *name, const struct afar_policy *policy,
	     struct afar_namespace **out),
	    (session, name, policy, out))
{
	const struct namespace_wish wish = {.name = name, .policy = policy};
	struct afar_namespace *ns = NULL;
	int ret = namespace_make(session, &wish, &ns);

	if (ret == 0 && out)
		*out = ns;
	else if (ret == 0)
		ret = afar_namespace_close(ns);
	return ret;
}

int namespace_open(struct afar_session *session, enum namespace_kind kind, const char *name,
		   struct afar_namespace **out)
{
	Afar__NamespaceOpen open;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!name || !out)
		return error_fail(-EINVAL, "open a %s: name or out is null", kinds[kind].noun);
	open = ask_to_open(kind, name);
	return open_from_reply(session, RPC_REQUEST(NAMESPACE_OPEN, namespace_open, &open), out);
}

PUBLIC_CALL(int, afar_namespace_open,
	    (struct afar_session *session, const char *name, struct afar_namespace **out),
	    (session, name, out))
{
	return namespace_open(session, NAMESPACE_PLAIN, name, out);
}

PUBLIC_CALL(int, afar_namespace_close, (struct afar_namespace *ns), (ns))
{
	int ret = namespace_check(ns);

	if (ret)
		return ret;
	ret = handle_close(ns, HANDLE_NAMESPACE);
	if (ret == -EBUSY)
		return error_fail(ret,
				  "close namespace %s: regions of it are open; close them first",
				  ns->name);
	if (ret)
		return error_fail(ret, "close a namespace: it is closed already");
	handle_unuse(&ns->session->handle);
	handle_retire(ns);
	return 0;
}

int namespace_end(struct afar_session *session, const char *name, unsigned flags,
		  enum namespace_kind kind)
{
	Afar__NamespaceDelete delete = AFAR__NAMESPACE_DELETE__INIT;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!name || (flags & ~AFAR_DELETE_REGIONS))
		return error_fail(-EINVAL, "remove a %s: name is null or flags are unknown",
				  kinds[kind].noun);
	delete.name = (char *)name;
	delete.with_regions = (flags & AFAR_DELETE_REGIONS) != 0;
	delete.is_volume = kind != NAMESPACE_PLAIN;
	delete.is_files = kind == NAMESPACE_FILES;
	regions_settle(session, true);
	return session_call(session, RPC_REQUEST(NAMESPACE_DELETE, namespace_delete, &delete),
			    NULL);
}

PUBLIC_CALL(int, afar_namespace_delete,
	    (struct afar_session *session, const char *name, unsigned flags),
	    (session, name, flags))
{
	return namespace_end(session, name, flags, NAMESPACE_PLAIN);
}

/* ---- Looking */

static void give_stat(const Afar__NamespaceInfo *info, void *out, size_t size)
{
	struct afar_namespace_stat stat = {
		.reserved_bytes = info->reserved_bytes,
		.allocated_bytes = info->allocated_bytes,
		.nr_regions = info->nr_regions,
		.rights = info->rights,
		.owner_reserved_bytes = info->owner_reserved_bytes,
		.owner_max_bytes = info->owner_max_bytes,
	};

	name_copy(stat.name, info->name);
	memcpy(stat.owner, info->owner, strnlen(info->owner, AFAR_PRINCIPAL_MAX));
	if (info->policy) {
		stat.tier = info->policy->tier;
		stat.max_bytes = info->policy->max_bytes;
		stat.width = info->policy->width;
		stat.stripe_bytes = info->policy->stripe_bytes;
	}
	abi_give(out, size, &stat, sizeof(stat));
}

PUBLIC_CALL(int, afar_namespace_list,
	    (struct afar_session *session, const char *after, struct afar_namespace_stat *out,
	     unsigned max),
	    (session, after, out, max))
{
	Afar__NamespaceList list = AFAR__NAMESPACE_LIST__INIT;
	Afar__Frame *reply;
	size_t count, size;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!out || max == 0 || max > INT32_MAX)
		return error_fail(-EINVAL, "list namespaces: there is no room for them");
	ret = ABI_CHECK_OUT(out, afar_namespace_stat, nr_regions);
	if (ret)
		return ret;
	size = out->size;
	list.after = (char *)(after ? after : "");
	list.max = max;
	ret = session_call_for(session, RPC_REQUEST(NAMESPACE_LIST, namespace_list, &list),
			       AFAR__REPLY__RESULT_NAMESPACE_INFOS, &reply);
	if (ret)
		return ret;
	count = reply->reply->namespace_infos->n_entries;
	if (count > max)
		count = max;
	for (size_t i = 0; i < count; i++)
		give_stat(reply->reply->namespace_infos->entries[i], (char *)out + i * size, size);
	rpc_frame_free(reply);
	return (int)count;
}

PUBLIC_CALL(int, afar_namespace_stat, (struct afar_namespace *ns, struct afar_namespace_stat *out),
	    (ns, out))
{
	Afar__NamespaceOpen open;
	Afar__Frame *reply;
	int ret = namespace_check(ns);

	if (ret)
		return ret;
	if (!out)
		return error_fail(-EINVAL, "stat namespace %s: out is null", ns->name);
	ret = ABI_CHECK_OUT(out, afar_namespace_stat, nr_regions);
	if (ret)
		return ret;
	open = ask_to_open(ns->kind, ns->name);
	ret = session_call_for(ns->session, RPC_REQUEST(NAMESPACE_OPEN, namespace_open, &open),
			       AFAR__REPLY__RESULT_NAMESPACE_INFO, &reply);
	if (ret)
		return ret;
	if (reply->reply->namespace_info->namespace_ == ns->number)
		give_stat(reply->reply->namespace_info, out, out->size);
	else
		ret = error_fail(-ENOENT,
				 "stat namespace %s: it was deleted, and another has its name",
				 ns->name);
	rpc_frame_free(reply);
	return ret;
}

/* ---- Reservation */

int namespace_reserve(struct afar_namespace *ns, uint64_t bytes)
{
	Afar__NamespaceReserve reserve = AFAR__NAMESPACE_RESERVE__INIT;
	int ret = namespace_check(ns);

	if (ret)
		return ret;
	reserve.namespace_ = ns->number;
	reserve.bytes = bytes;
	return session_call(ns->session,
			    RPC_REQUEST(NAMESPACE_RESERVE, namespace_reserve, &reserve), NULL);
}

PUBLIC_CALL(int, afar_namespace_reserve, (struct afar_namespace *ns, uint64_t bytes), (ns, bytes))
{
	int ret = namespace_check(ns);

	if (ret)
		return ret;
	if (ns->kind == NAMESPACE_VOLUME)
		return error_fail(-EINVAL,
				  "reserve memory for '%s': it is a volume, which has its room; "
				  "'afar volume resize' makes it larger",
				  ns->name);
	if (ns->kind == NAMESPACE_FILES)
		return error_fail(-EINVAL,
				  "reserve memory for '%s': it is a file system, which reserves "
				  "what it needs; copy files into it with 'afar put'",
				  ns->name);
	return namespace_reserve(ns, bytes);
}

PUBLIC_CALL(int, afar_namespace_reserve_cancel, (struct afar_namespace *ns), (ns))
{
	Afar__ReserveCancel cancel = AFAR__RESERVE_CANCEL__INIT;
	int ret = namespace_check(ns);

	if (ret)
		return ret;
	cancel.namespace_ = ns->number;
	return session_tell(ns->session, RPC_REQUEST(RESERVE_CANCEL, reserve_cancel, &cancel));
}

PUBLIC_CALL(int, afar_namespace_release,
	    (struct afar_namespace *ns, uint64_t bytes, uint64_t *released), (ns, bytes, released))
{
	Afar__NamespaceRelease release = AFAR__NAMESPACE_RELEASE__INIT;
	Afar__Frame *reply;
	int ret = namespace_check(ns);

	if (ret)
		return ret;
	release.namespace_ = ns->number;
	release.bytes = bytes;
	ret = session_call_for(ns->session,
			       RPC_REQUEST(NAMESPACE_RELEASE, namespace_release, &release),
			       AFAR__REPLY__RESULT_NAMESPACE_RELEASED, &reply);
	if (ret)
		return ret;
	if (released)
		*released = reply->reply->namespace_released->bytes;
	rpc_frame_free(reply);
	return 0;
}
