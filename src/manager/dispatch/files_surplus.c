/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of a pool that nobody has needed for long go back by themselves. */
#include "manager/dispatch/files_surplus.h"
#include "base/log.h"
#include "manager/files/pool.h"
#include "manager/files/table.h"
#include "manager/regions/namespaces.h"

#define KEEP_BYTES_MIN ((uint64_t)64 << 20)
#define WATCH_NS       UINT64_C(600000000000) /* what nobody has needed for so long goes back */

/* Returns how much stays free for files that grow: a quarter of what they have. A pool without any goes as a whole. */
static uint64_t keep_bytes(const struct fs *fs, const struct region *region)
{
	uint64_t used = fs->space.length - layout_lost_bytes(region->layout) - fs->space.free_bytes;

	if (used == 0)
		return 0;
	return used / 4 > KEEP_BYTES_MIN ? used / 4 : KEEP_BYTES_MIN;
}

static const struct region *watched_pool(const struct fs *fs)
{
	const struct namespace *ns = fs_namespace(fs);
	const struct region *region = ns ? volume_region(ns) : NULL;

	return region && !region->is_unfinished && !region->is_lost && !ns->is_suspect &&
			       fs->space.free_bytes != 0
		       ? region
		       : NULL;
}

void shrink_drive(struct fs *fs)
{
	const struct region *region = watched_pool(fs);
	uint64_t now = core_now(fs_core(fs)), keep;

	if (!region || fs->watched_since == 0) {
		fs->watched_since = region ? now : 0;
		fs->least_free = fs->space.free_bytes;
		return;
	}
	if (fs->space.free_bytes < fs->least_free)
		fs->least_free = fs->space.free_bytes;
	if (now - fs->watched_since < WATCH_NS)
		return;
	keep = keep_bytes(fs, region);
	fs->surplus = fs->least_free > keep ? fs->least_free - keep : 0;
	fs->watched_since = now;
	fs->least_free = fs->space.free_bytes;
}

int shrink_work(struct fs *fs)
{
	struct namespace *ns = fs_namespace(fs);
	uint64_t bytes = fs->surplus, given = 0;
	int ret;

	if (bytes == 0 || !ns)
		return 0;
	fs->surplus = 0;
	/* Somebody may be about to make the pool larger by what it has not grown into. */
	if (pool_unused_bytes(ns) != 0 || ns->is_suspect)
		return 0;
	ret = namespace_give_back(fs_core(fs), ns, bytes, &given);
	if (ret == 0 && given != 0)
		log_info("file system '%s' gives %llu MiB back, which no file has needed for long",
			 ns->name, (unsigned long long)(given >> 20));
	return ret;
}

uint64_t shrink_next(const struct fs *fs)
{
	if (fs->surplus != 0)
		return 0;
	return fs->watched_since != 0 ? fs->watched_since + WATCH_NS : CORE_NEVER;
}
