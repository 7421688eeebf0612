/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools: making one, and making it larger when files need more than it has. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/files/pool/fs_lost.h"
#include "client/namespace/region.h"

#define STEP_BYTES  ((uint64_t)64 << 20) /* that a pool gets at least, on each server */
#define EXTENT_UNIT ((uint64_t)2 << 20)	 /* that reserving rounds up to */
#define GROW_ROUNDS 8U
#define FIRST_WIDTH \
	4U /* servers that a new pool is made for, because it is not known how many there are */

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return bytes / unit * unit + (bytes % unit != 0 ? unit : 0);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int reserve(struct afar_namespace *ns, uint64_t bytes)
{
	int ret;

	call_nest();
	ret = namespace_reserve(ns, bytes);
	call_unnest();
	return ret;
}

static bool is_too_much(int error)
{
	return error == -ENOSPC || error == -EDQUOT; /* of the pool, or of all that its owner has */
}

/* Reserves as much as can be had, from `bytes` down to `least`. Gives how much that is. */
static int reserve_some(struct afar_namespace *ns, uint64_t *bytes, uint64_t least)
{
	int ret;

	for (;;) {
		ret = reserve(ns, *bytes);
		if (!is_too_much(ret) || *bytes <= least)
			return ret;
		*bytes = larger(round_up(*bytes / 2, EXTENT_UNIT), least);
	}
}

/* ---- Making */

int fs_make_pool(struct afar_namespace *ns)
{
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_region *region;
	uint64_t bytes;
	int ret = afar_namespace_stat(ns, &stat);

	if (ret)
		return ret;
	bytes = STEP_BYTES * smaller(larger(stat.width, 1), FIRST_WIDTH);
	if (stat.max_bytes != 0)
		bytes = larger(smaller(bytes, stat.max_bytes / EXTENT_UNIT * EXTENT_UNIT),
			       EXTENT_UNIT);
	ret = reserve_some(ns, &bytes, EXTENT_UNIT);
	if (ret == 0)
		ret = region_make_volume(ns, bytes, &region);
	if (ret)
		return ret;
	ret = afar_region_finish(region);
	afar_region_close(region);
	return ret;
}

/* ---- Growing */

static int call_resize(struct afar_fs *fs, uint64_t bytes)
{
	Afar__VolumeResize resize = AFAR__VOLUME_RESIZE__INIT;

	resize.namespace_ = fs->ns->number;
	resize.bytes = bytes;
	return session_call_until(fs->ns->session, fs_deadline(fs),
				  RPC_REQUEST(VOLUME_RESIZE, volume_resize, &resize), NULL);
}

static int fail_limit(const struct afar_fs *fs, uint64_t max_bytes)
{
	return error_fail(-EDQUOT,
			  "make room for files in '%s': it may have %llu MiB, and has them; remove "
			  "files",
			  fs->ns->name, (unsigned long long)(max_bytes >> 20));
}

/* Chooses how long the pool is to become, and at least; `has`: what it has now. All without what is
 * lost. */
static int choose(const struct afar_fs *fs, const struct afar_namespace_stat *stat, uint64_t has,
		  uint64_t bytes, uint64_t *wanted, uint64_t *least)
{
	uint64_t width = smaller(larger(fs->region->width, 1), 64);
	uint64_t step = larger(larger(STEP_BYTES * width, has / 8), bytes);

	*least = round_up(has + bytes, EXTENT_UNIT);
	*wanted = round_up(has + step, EXTENT_UNIT);
	if (stat->max_bytes == 0)
		return 0;
	if (*least > stat->max_bytes)
		return fail_limit(fs, stat->max_bytes);
	*wanted = larger(smaller(*wanted, stat->max_bytes / EXTENT_UNIT * EXTENT_UNIT), *least);
	return 0;
}

static int grow(struct afar_fs *fs, uint64_t bytes)
{
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_fs_stat files = {.size = sizeof(files)};
	uint64_t lost = fs_lost_bytes(fs), has = fs_pool(fs)->length - lost;
	uint64_t wanted, least, missing;
	int ret;

	call_nest();
	ret = afar_namespace_stat(fs->ns, &stat);
	if (ret == 0)
		ret = afar_fs_stat(fs, &files);
	call_unnest();
	/* The free room fits a part of it, unless it is at servers that are away. */
	if (ret == 0 && files.free_bytes < bytes)
		bytes -= files.free_bytes;
	if (ret == 0)
		ret = choose(fs, &stat, has, bytes, &wanted, &least);
	if (ret)
		return ret;
	/* Another session may have reserved, and not yet made the pool larger. */
	if (wanted > stat.reserved_bytes) {
		uint64_t lacks = least > stat.reserved_bytes ? least - stat.reserved_bytes : 0;

		missing = wanted - stat.reserved_bytes;
		ret = reserve_some(fs->ns, &missing, larger(lacks, EXTENT_UNIT));
		wanted = stat.reserved_bytes + missing;
		if (is_too_much(ret) && lacks == 0) {
			wanted = stat.reserved_bytes;
			ret = 0;
		}
	}
	return ret == 0 ? call_resize(fs, wanted + lost) : ret;
}

/* Room may be given back between what we ask and what we do about it: then both begin anew. */
static int grow_in_rounds(struct afar_fs *fs, uint64_t pool_bytes, uint64_t bytes)
{
	int ret = grow(fs, bytes), looked;

	for (unsigned i = 1; i < GROW_ROUNDS && (ret == -AFAR_ERESERVE || ret == -EINVAL); i++) {
		looked = target_look(fs_pool(fs));
		if (looked || fs_pool(fs)->length > pool_bytes)
			return looked;
		ret = grow(fs, bytes);
	}
	return ret;
}

int fs_grow(struct afar_fs *fs, uint64_t pool_bytes, uint64_t bytes)
{
	struct afar_target *pool = fs_pool(fs);
	char why[ERROR_LINE_BYTES];
	int ret, looked;

	pthread_mutex_lock(&fs->growing);
	ret = target_look(pool);
	if (ret == 0 && pool->length <= pool_bytes) {
		ret = grow_in_rounds(fs, pool_bytes, bytes);
		strncpy(why, error_last_line(), sizeof(why) - 1);
		why[sizeof(why) - 1] = '\0';
		looked = target_look(pool);
		/* Another session has been quicker. */
		if (ret && looked == 0 && pool->length > pool_bytes)
			ret = 0;
		else if (ret)
			ret = error_fail(ret, "%s", why);
		else
			ret = looked;
	}
	pthread_mutex_unlock(&fs->growing);
	return ret;
}
