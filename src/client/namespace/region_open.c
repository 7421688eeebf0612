/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions: the calls that make, find and end them. Reading and writing them is in transfer.c. */
#include "client/namespace/region.h"
#include "client/namespace/versions_handle.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/namespace/deferred_close.h"
#include "client/target/same_host.h"

int region_check(const struct afar_region *region)
{
	if (!handle_is(region, HANDLE_REGION))
		return error_fail(-EINVAL, "use a region: the handle is null or closed");
	return session_check(region->target.session);
}

struct afar_target *afar_region_target(struct afar_region *region)
{
	return handle_is(region, HANDLE_REGION) ? &region->target : NULL;
}

/* ---- From the manager's message to an open region */

static const struct target_kind region_kind = {
	.noun = "region",
	.may_shrink = true,
	.handle = HANDLE_REGION,
	.opcodes = 1U << AFAR_OP_READ | 1U << AFAR_OP_WRITE | 1U << AFAR_OP_FLUSH |
		   1U << AFAR_OP_ZERO | 1U << AFAR_OP_TRIM | 1U << AFAR_OP_FETCH_ADD |
		   1U << AFAR_OP_COMPARE_SWAP | 1U << AFAR_OP_SYNC | 1U << AFAR_OP_WILL_NEED,
};

static const struct target_kind cow_kind = {
	.noun = "copy-on-write region",
	.handle = HANDLE_REGION,
	.opcodes = 1U << AFAR_OP_READ | 1U << AFAR_OP_WRITE | 1U << AFAR_OP_FLUSH |
		   1U << AFAR_OP_ZERO | 1U << AFAR_OP_TRIM | 1U << AFAR_OP_SYNC |
		   1U << AFAR_OP_WILL_NEED,
};

static const struct target_kind volume_kind = {
	.noun = "volume",
	.is_named = true,
	.handle = HANDLE_REGION,
	.opcodes = 1U << AFAR_OP_READ | 1U << AFAR_OP_WRITE | 1U << AFAR_OP_FLUSH |
		   1U << AFAR_OP_SYNC | 1U << AFAR_OP_ZERO | 1U << AFAR_OP_TRIM |
		   1U << AFAR_OP_WILL_NEED,
};

static const struct target_kind files_kind = {
	.noun = "file system",
	.is_named = true,
	.outlives_servers = true,
	.handle = HANDLE_REGION,
	.opcodes = 1U << AFAR_OP_READ | 1U << AFAR_OP_WRITE | 1U << AFAR_OP_FLUSH |
		   1U << AFAR_OP_SYNC | 1U << AFAR_OP_ZERO | 1U << AFAR_OP_TRIM |
		   1U << AFAR_OP_WILL_NEED,
};

/* Rejects a region that is made for atomics that the session cannot do. */
static int check_atomics(const struct afar_target *target, bool is_made)
{
	if (!target->is_without_atomics || !is_made)
		return 0;
	return error_fail(-EOPNOTSUPP,
			  "allocate a region with AFAR_ALLOC_NIC_ATOMICS: no transport of ours to "
			  "its servers has atomics, as verbs has; allocate it without, and the "
			  "servers' processors do them");
}

static int region_new(struct afar_namespace *ns, const Afar__RegionInfo *info,
		      const struct target_kind *kind, bool is_made, struct afar_region **out)
{
	const struct target_description description = {
		.session = ns->session,
		.ns = ns->number,
		.ns_name = ns->name,
		.address = info->address,
		.generation = info->generation,
		.rights = info->rights & RIGHT_ALL,
		.has_nic_atomics = info->has_nic_atomics,
		.family = info->family,
		.layout = layout_describe(info),
	};
	struct afar_region *region = handle_new(HANDLE_REGION, sizeof(*region));
	int ret;

	if (!region)
		return error_code(-ENOMEM);
	region->ns = ns;
	region->stripe_bytes = info->stripe_bytes;
	region->width = info->width;
	region->is_unfinished = info->is_unfinished != 0;
	name_copy(region->name, info->name);
	ret = target_init(&region->target, info->family ? &cow_kind : kind, &description);
	if (ret) {
		handle_discard(region);
		return ret;
	}
	ret = check_atomics(&region->target, is_made);
	if (!ret && info->family)
		ret = versions_open(region, info);
	if (ret) {
		target_destroy(&region->target);
		handle_discard(region);
		return ret;
	}
	*out = region;
	return 0;
}

static int call_free(struct afar_namespace *ns, const char *name, uint64_t address,
		     uint64_t generation)
{
	Afar__RegionFree message = AFAR__REGION_FREE__INIT;

	message.namespace_ = ns->number;
	message.name = (char *)name;
	message.address = address;
	message.generation = generation;
	return session_call(ns->session, RPC_REQUEST(REGION_FREE, region_free, &message), NULL);
}

/* Gives back the reference of a call that could not be finished, and keeps the error. */
static int undo(struct afar_namespace *ns, const Afar__RegionInfo *info, bool was_made, int status)
{
	char why[512];

	strncpy(why, error_last_line(), sizeof(why) - 1);
	why[sizeof(why) - 1] = '\0';
	if (was_made)
		call_free(ns, "", info->address, info->generation);
	region_call_close(ns->session, ns->number, info->address, info->generation);
	return error_fail(status, "%s", why);
}

static int open_from_reply(struct afar_namespace *ns, Afar__Request *request,
			   const struct target_kind *kind, bool is_made, struct afar_region **out)
{
	const Afar__RegionInfo *info;
	Afar__Frame *reply;
	int ret;

	regions_settle(ns->session, true);
	ret = session_call(ns->session, request, &reply);
	if (ret)
		return ret;
	info = reply->reply->result_case == AFAR__REPLY__RESULT_REGION_INFO
		       ? reply->reply->region_info
		       : NULL;
	if (!info) {
		ret = error_fail(-AFAR_EMALFORMED,
				 "open a region: the manager answered something else");
	} else {
		ret = region_new(ns, info, kind, is_made, out);
		if (ret)
			ret = undo(ns, info, is_made, ret);
		else
			handle_use(&ns->handle);
	}
	rpc_frame_free(reply);
	return ret;
}

/* ---- Making and opening */

#define ALLOC_FLAGS                                                          \
	(AFAR_ALLOC_FIRST | AFAR_ALLOC_NIC_ATOMICS | AFAR_ALLOC_UNFINISHED | \
	 AFAR_ALLOC_TEMPORARY | AFAR_ALLOC_COW)

static int alloc_region(struct afar_namespace *ns, const char *name, uint64_t bytes, unsigned flags,
			struct afar_region **out)
{
	Afar__RegionAlloc alloc = AFAR__REGION_ALLOC__INIT;
	struct afar_region *region = NULL;
	int ret = namespace_check(ns);

	if (ret)
		return ret;
	if (flags & ~ALLOC_FLAGS)
		return error_fail(-EINVAL, "allocate a region: flags are unknown");
	alloc.namespace_ = ns->number;
	alloc.name = (char *)name;
	alloc.bytes = bytes;
	alloc.is_first = (flags & AFAR_ALLOC_FIRST) != 0;
	alloc.has_nic_atomics = (flags & AFAR_ALLOC_NIC_ATOMICS) != 0;
	alloc.is_temporary = (flags & AFAR_ALLOC_TEMPORARY) != 0;
	alloc.is_unfinished = alloc.is_temporary || (flags & AFAR_ALLOC_UNFINISHED) != 0;
	alloc.is_cow = (flags & AFAR_ALLOC_COW) != 0;
	ret = open_from_reply(ns, RPC_REQUEST(REGION_ALLOC, region_alloc, &alloc), &region_kind,
			      true, &region);
	if (ret == 0 && out)
		*out = region;
	else if (region)
		ret = afar_region_close(region);
	return ret;
}

PUBLIC_CALL_OF_CALLS(int, afar_region_alloc,
	    (struct afar_namespace *ns, uint64_t bytes, unsigned flags, struct afar_region **out),
	    (ns, bytes, flags, out))
{
	return alloc_region(ns, "", bytes, flags, out);
}

PUBLIC_CALL_OF_CALLS(int, afar_region_create,
	    (struct afar_namespace *ns, const char *name, uint64_t bytes, unsigned flags,
	     struct afar_region **out),
	    (ns, name, bytes, flags, out))
{
	if (!name || !name[0])
		return error_fail(-EINVAL, "create a region: it needs a name");
	return alloc_region(ns, name, bytes, flags, out);
}

PUBLIC_CALL(int, afar_region_finish, (struct afar_region *region), (region))
{
	Afar__RegionFinish finish = AFAR__REGION_FINISH__INIT;
	int ret = region_check(region);

	if (ret || !region->is_unfinished)
		return ret;
	finish.namespace_ = region->target.ns;
	finish.address = region->target.address;
	finish.generation = region->target.generation;
	return session_call(region->target.session,
			    RPC_REQUEST(REGION_FINISH, region_finish, &finish), NULL);
}

static int open_region(struct afar_namespace *ns, const char *name, uint64_t address,
		       struct afar_region **out)
{
	Afar__RegionOpen open = AFAR__REGION_OPEN__INIT;
	int ret = namespace_check(ns);

	if (ret)
		return ret;
	if (!out)
		return error_fail(-EINVAL,
				  "open a region: there is nowhere to put it (out is null)");
	open.namespace_ = ns->number;
	open.name = (char *)name;
	open.address = address;
	return open_from_reply(ns, RPC_REQUEST(REGION_OPEN, region_open, &open), &region_kind,
			       false, out);
}

PUBLIC_CALL(int, afar_region_open,
	    (struct afar_namespace *ns, const char *name, struct afar_region **out),
	    (ns, name, out))
{
	if (!name || !name[0])
		return error_fail(-EINVAL, "open a region: it needs a name");
	return open_region(ns, name, 0, out);
}

PUBLIC_CALL(int, afar_region_open_at,
	    (struct afar_namespace *ns, uint64_t address, struct afar_region **out),
	    (ns, address, out))
{
	return open_region(ns, "", address, out);
}

/* ---- Volumes */

static const struct target_kind *kind_in(const struct afar_namespace *ns)
{
	return ns->kind == NAMESPACE_FILES ? &files_kind : &volume_kind;
}

int region_make_volume(struct afar_namespace *ns, uint64_t bytes, struct afar_region **out)
{
	Afar__RegionAlloc alloc = AFAR__REGION_ALLOC__INIT;

	alloc.namespace_ = ns->number;
	alloc.bytes = bytes;
	alloc.is_volume = true;
	alloc.is_unfinished = true;
	return open_from_reply(ns, RPC_REQUEST(REGION_ALLOC, region_alloc, &alloc), kind_in(ns),
			       true, out);
}

int region_open_volume(struct afar_namespace *ns, uint32_t mode, uint64_t after,
		       struct afar_region **out)
{
	Afar__RegionOpen open = AFAR__REGION_OPEN__INIT;

	open.namespace_ = ns->number;
	open.mode = mode;
	open.after = after;
	return open_from_reply(ns, RPC_REQUEST(REGION_OPEN, region_open, &open), kind_in(ns), false,
			       out);
}

/* ---- Closing and ending */

PUBLIC_CALL(int, afar_region_close, (struct afar_region *region), (region))
{
	struct afar_namespace *ns;
	int ret = region_check(region);

	if (ret)
		return ret;
	ret = handle_close(region, HANDLE_REGION);
	if (ret == -EBUSY)
		return error_fail(ret,
				  "close a region: it is mapped, attached or has operations in "
				  "flight");
	if (ret)
		return error_fail(ret, "close a region: it is closed already");
	/* Nobody writes any more when others hear that it is closed. */
	same_host_close(&region->target);
	ns = region->ns;
	regions_settle(ns->session, true);
	if (target_is_in_doubt(&region->target))
		region_defer_close(region);
	else
		region_leave(region);
	handle_unuse(&ns->handle);
	return 0;
}

PUBLIC_CALL(int, afar_region_destroy, (struct afar_region *region), (region))
{
	int ret = region_check(region);

	return ret ? ret
		   : call_free(region->ns, "", region->target.address, region->target.generation);
}

PUBLIC_CALL(int, afar_region_delete, (struct afar_namespace *ns, const char *name), (ns, name))
{
	int ret = namespace_check(ns);

	if (ret)
		return ret;
	if (!name || !name[0])
		return error_fail(-EINVAL, "delete a region: it needs a name");
	return call_free(ns, name, 0, 0);
}

PUBLIC_CALL(int, afar_region_delete_at, (struct afar_namespace *ns, uint64_t address),
	    (ns, address))
{
	int ret = namespace_check(ns);

	return ret ? ret : call_free(ns, "", address, 0);
}

/* ---- Looking */

static void give_stat(const Afar__RegionInfo *info, void *out, size_t size)
{
	struct afar_region_stat stat = {
		.address = info->address,
		.length = info->length,
		.width = info->width,
		.nr_references = info->nr_references,
		.stripe_bytes = info->stripe_bytes,
		.is_lost = info->is_lost != 0,
		.rights = info->rights,
		.has_nic_atomics = info->has_nic_atomics != 0,
		.is_sealed = info->is_sealed != 0,
		.is_unfinished = info->is_unfinished != 0,
		.version = info->version,
		.nr_older = info->nr_older,
		.nr_older_references = info->nr_older_references,
	};

	name_copy(stat.name, info->name);
	name_copy(stat.writer, info->writer);
	abi_give(out, size, &stat, sizeof(stat));
}

/* Gets the manager's list. On 0 `*reply` is the caller's, with `*infos` inside. */
static int list_regions(struct afar_namespace *ns, uint64_t after, uint32_t max,
			Afar__Frame **reply, const Afar__RegionInfos **infos)
{
	Afar__RegionList list = AFAR__REGION_LIST__INIT;
	int ret;

	list.namespace_ = ns->number;
	list.after = after;
	list.max = max;
	ret = session_call_for(ns->session, RPC_REQUEST(REGION_LIST, region_list, &list),
			       AFAR__REPLY__RESULT_REGION_INFOS, reply);
	if (ret)
		return ret;
	*infos = (*reply)->reply->region_infos;
	return 0;
}

PUBLIC_CALL(int, afar_region_list,
	    (struct afar_namespace *ns, uint64_t after, struct afar_region_stat *out,
	     unsigned max),
	    (ns, after, out, max))
{
	const Afar__RegionInfos *infos;
	Afar__Frame *reply;
	size_t size;
	int ret = namespace_check(ns);

	if (ret)
		return ret;
	if (!out || max == 0 || max > INT32_MAX)
		return error_fail(-EINVAL, "list regions: there is no room for them");
	ret = ABI_CHECK_OUT(out, afar_region_stat, rights);
	if (ret)
		return ret;
	size = out->size;
	ret = list_regions(ns, after, max, &reply, &infos);
	if (ret)
		return ret;
	ret = (int)(infos->n_entries < max ? infos->n_entries : max);
	for (int i = 0; i < ret; i++)
		give_stat(infos->entries[i], (char *)out + (size_t)i * size, size);
	rpc_frame_free(reply);
	return ret;
}

PUBLIC_CALL(int, afar_region_stat, (struct afar_region *region, struct afar_region_stat *out),
	    (region, out))
{
	const Afar__RegionInfos *infos;
	Afar__Frame *reply;
	int ret = region_check(region);

	if (ret)
		return ret;
	if (!out)
		return error_fail(-EINVAL, "stat a region: out is null");
	ret = ABI_CHECK_OUT(out, afar_region_stat, rights);
	if (ret)
		return ret;
	ret = list_regions(region->ns, region->target.address - 1, 1, &reply, &infos);
	if (ret)
		return ret;
	/* The first address may have been freed and taken by another region since. */
	if (infos->n_entries == 1 && target_is_of(&region->target, infos->entries[0]))
		give_stat(infos->entries[0], out, out->size);
	else
		ret = error_fail(-AFAR_EFREED, "stat the region at %#llx: it was freed",
				 (unsigned long long)region->target.address);
	/* It may have become shorter, and as long as before. */
	if (!ret && !region->versions && target_is_older(&region->target, infos->entries[0]))
		ret = target_look(&region->target);
	rpc_frame_free(reply);
	return ret;
}
