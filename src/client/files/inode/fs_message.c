/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages about files: who asks, and the attributes that come back. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/files/inode/fs_call.h"

/* ---- Who asks */

static int take_process(struct fs_who *out)
{
	gid_t groups[NGROUPS_MAX];
	int nr = getgroups(NGROUPS_MAX, groups);

	out->message.uid = geteuid();
	out->message.gid = getegid();
	for (int i = 0; i < nr && i < (int)FS_WHO_GROUPS_MAX; i++)
		out->groups[out->message.n_groups++] = groups[i];
	return 0;
}

int fs_who_take(const struct afar_who *given, struct fs_who *out)
{
	struct afar_who who;
	int ret;

	afar__file_who__init(&out->message);
	out->message.groups = out->groups;
	if (!given)
		return take_process(out);
	ret = ABI_TAKE(&who, given, afar_who, reserved);
	if (ret)
		return ret;
	if (who.reserved || (who.nr_groups != 0 && !who.groups))
		return error_fail(-EINVAL, "use files: who asks has groups that are null, or what "
					   "is reserved is not 0");
	out->message.uid = who.uid;
	out->message.gid = who.gid;
	out->message.n_groups =
		who.nr_groups < FS_WHO_GROUPS_MAX ? who.nr_groups : FS_WHO_GROUPS_MAX;
	if (out->message.n_groups != 0)
		memcpy(out->groups, who.groups, out->message.n_groups * sizeof(*who.groups));
	return 0;
}

void fs_who_copy(struct fs_who *to, const struct fs_who *from)
{
	*to = *from;
	to->message.groups = to->groups;
}

int fs_fail_malformed(const char *what)
{
	return error_fail(-AFAR_EMALFORMED, "use files: the manager answered %s", what);
}

/* ---- Attributes */

int fs_check_attributes(const Afar__FileAttributes *attributes)
{
	if (!attributes || attributes->ino == 0 || attributes->size > FILE_BYTES_MAX ||
	    attributes->allocated > INT64_MAX)
		return fs_fail_malformed("attributes that no inode has");
	return 0;
}

int fs_check_stat(const struct afar_file_stat *out, bool may_be_null)
{
	if (out)
		return ABI_CHECK_OUT(out, afar_file_stat, gid);
	return may_be_null ? 0 : error_fail(-EINVAL, "look at a file: out is null");
}

void fs_give_attributes(const Afar__FileAttributes *attributes, struct afar_file_stat *out)
{
	const struct afar_file_stat stat = {
		.ino = attributes->ino,
		.rdev = attributes->rdev,
		.bytes = attributes->size,
		.allocated = attributes->allocated,
		.atime = attributes->atime,
		.mtime = attributes->mtime,
		.ctime = attributes->ctime,
		.change = attributes->change,
		.mode = attributes->mode,
		.nlink = attributes->nlink,
		.uid = attributes->uid,
		.gid = attributes->gid,
		.stripe_bytes = attributes->stripe_bytes,
		.width = attributes->width,
	};

	abi_give(out, out->size, &stat, sizeof(stat));
}

int fs_give(const Afar__FileResult *result, struct afar_file_stat *out)
{
	int ret = fs_check_attributes(result->attributes);

	if (ret == 0 && out)
		fs_give_attributes(result->attributes, out);
	return ret;
}
