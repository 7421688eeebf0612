/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of a file system: the most bytes and inodes that it may have. Its pool may have more than
 * its files are allowed, because the limit was lowered. */
#include <errno.h>

#include <afar/afar.h>

#include "base/log.h"
#include "base/text.h"
#include "manager/connections/live.h"
#include "manager/connections/rights.h"
#include "manager/files/pool.h"
#include "manager/files/table.h"
#include "manager/jobs/quota.h"
#include "manager/tables/placement.h"

bool limits_allow_inode(const struct fs *fs)
{
	/* The root directory is not counted: nobody has made it. */
	return fs->max_inodes == 0 || fs->nr_inodes <= fs->max_inodes;
}

int limits_check_inodes(const struct fs *fs)
{
	if (limits_allow_inode(fs))
		return 0;
	return error_fail(-EDQUOT,
			  "make a file in file system '%s': it may have %llu file%s and "
			  "director%s, and has them; remove some, or see 'afar fs set --max-files'",
			  fs_namespace(fs)->name, (unsigned long long)fs->max_inodes,
			  text_plural(fs->max_inodes), fs->max_inodes == 1 ? "y" : "ies");
}

uint64_t limits_room(const struct fs *fs)
{
	const struct namespace *ns = fs_namespace(fs);
	const struct region *region = volume_region(ns);
	uint64_t used;

	if (ns->max_bytes == 0 || !region)
		return UINT64_MAX;
	/* Lost bytes are neither free nor used. */
	used = fs->space.length - layout_lost_bytes(region->layout) - fs->space.free_bytes -
	       fs->pending_bytes;
	return used < ns->max_bytes ? (ns->max_bytes - used) / FILE_UNIT : 0;
}

int limits_check_units(const struct fs *fs, uint64_t nr)
{
	if (nr <= limits_room(fs))
		return 0;
	return error_fail(
		-EDQUOT,
		"make room for %llu KiB in file system '%s': it may have %llu MiB; remove "
		"files, or see 'afar fs set --max'",
		(unsigned long long)(nr * FILE_UNIT >> 10), fs_namespace(fs)->name,
		(unsigned long long)(fs_namespace(fs)->max_bytes >> 20));
}

int files_limit(struct core *core, struct session *session, struct event *event)
{
	const Afar__FilesLimit *ask = event->request->files_limit;
	struct namespace *ns;
	struct fs *fs;
	int ret = core_namespace(core, session, "limit a file system", ask->fs, RIGHT_OWN, &ns);

	if (ret < 0)
		return ret;
	fs = files_find(core, ask->fs);
	if (!fs)
		return error_fail(-EINVAL, "limit '%s': it is no file system; see 'afar fs ls'",
				  ns->name);
	ret = undo_room(core->undo, 2);
	if (ret < 0)
		return ret;
	undo_set(core->undo, ns->max_bytes, ask->max_bytes);
	undo_set(core->undo, fs->max_inodes, ask->max_inodes);
	store_put_namespace(core->store, ns);
	fs_put(fs);
	log_info("file system '%s' may have %llu bytes and %llu files now (0: no limit)", ns->name,
		 (unsigned long long)ask->max_bytes, (unsigned long long)ask->max_inodes);
	return 0;
}

static uint64_t pool_room(const struct pool *pool)
{
	uint64_t taken = pool->granted_bytes + pool->pending_bytes;

	return pool_is_writable(pool) && pool->capacity_bytes > taken ? pool->capacity_bytes - taken
								      : 0;
}

bool limits_home_has_room(const struct core *core, const struct layout_home *home)
{
	const struct pool *pool = state_pool(core->state, home);

	return pool && pool_room(pool) >= PLACEMENT_EXTENT_UNIT;
}

uint64_t limits_pool_room(const struct core *core, const struct namespace *ns)
{
	const struct flash_store *store;
	const struct server *server;
	uint64_t room = 0, limit = quota_room(core, ns);

	cds_list_for_each_entry (server, &core->state->servers, node)
		if (ns->tier == AFAR_TIER_DRAM)
			room += pool_room(&server->dram);
	cds_list_for_each_entry (store, &core->state->stores, node)
		if (ns->tier == AFAR_TIER_FLASH)
			room += pool_room(&store->pool);
	return room < limit ? room : limit;
}
