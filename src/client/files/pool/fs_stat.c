/* SPDX-License-Identifier: BSD-3-Clause */
/* Describing file systems. */
#include <stddef.h>
#include <string.h>

#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/files/fs.h"

static void give_stat(const Afar__NamespaceInfo *info, void *out, size_t size)
{
	struct afar_fs_stat stat = {
		.root = info->files->root,
		.pool_bytes = info->files->pool_bytes,
		.free_bytes = info->files->free_bytes,
		.pending_bytes = info->files->pending_bytes,
		.room_bytes = info->files->room_bytes,
		.nr_inodes = info->files->nr_inodes,
		.max_inodes = info->files->max_inodes,
		.lost_bytes = info->files->lost_bytes,
		.rights = info->rights,
	};

	name_copy(stat.name, info->name);
	memcpy(stat.owner, info->owner, strnlen(info->owner, AFAR_PRINCIPAL_MAX));
	if (info->policy) {
		stat.tier = info->policy->tier;
		stat.stripe_bytes = info->policy->stripe_bytes;
		stat.max_bytes = info->policy->max_bytes;
	}
	if (info->volume) {
		stat.width = info->volume->width;
		stat.nr_clients = info->volume->nr_readers + info->volume->nr_writers;
		stat.is_lost = info->volume->is_lost != 0;
	}
	abi_give(out, size, &stat, sizeof(stat));
}

static const struct namespace_telling telling = {
	.kind = NAMESPACE_FILES,
	.name = "afar_fs_stat",
	.oldest = ABI_SIZE(afar_fs_stat, owner),
	.give = give_stat,
};

PUBLIC_CALL(int, afar_fs_list,
	    (struct afar_session *session, const char *after, struct afar_fs_stat *out,
	     unsigned max),
	    (session, after, out, max))
{
	return namespace_tell_all(session, &telling, after, out, max);
}

PUBLIC_CALL(int, afar_fs_stat_by_name,
	    (struct afar_session *session, const char *name, struct afar_fs_stat *out),
	    (session, name, out))
{
	int ret = fs_check_name(session, name);

	return ret ? ret : namespace_tell(session, &telling, name, out);
}

uint64_t afar_fs_identity(const struct afar_fs *fs)
{
	return fs ? fs->ns->identity : 0;
}

PUBLIC_CALL(int, afar_fs_stat, (struct afar_fs *fs, struct afar_fs_stat *out), (fs, out))
{
	int ret = fs_enter(fs);

	if (ret)
		return ret;
	ret = namespace_tell(fs->ns->session, &telling, fs->ns->name, out);
	handle_unuse(&fs->handle);
	return ret;
}
