/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests about attributes: those of inodes, of the file system, and extended ones. */
#include "mount.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "leases.h"
#include "session.h"

#define XATTR_BYTES_MAX 65536U /* the kernel's limit, of a value and of a list */
#define ID_BITS		(S_ISUID | S_ISGID)
/* Told to those who read it, and in no list: `afar umount` waits for this process. */
#define XATTR_PROCESS	 "user.afar.process"
#define XATTR_CAPABILITY "security.capability"

/* ---- Of inodes */

static int get(const struct mount *mount, uint64_t ino, const struct fuse_file_info *info,
	       struct afar_file_stat *out)
{
	struct afar_file *file;
	int ret = file_of(mount, info, &file);

	*out = (struct afar_file_stat){.size = sizeof(*out)};
	if (ret)
		return ret;
	return file ? afar_file_stat(file, out) : afar_fs_getattr(mount->fs, ino, out);
}

void do_getattr(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info)
{
	struct mount *mount = mount_of(req);
	struct afar_file_stat stat;
	double seconds;
	int64_t ret;

	if (file_has_pages(info)) {
		do_getattr_to_read(req, info);
		return;
	}
	ret = CALL(mount, get(mount, ino_of(mount, node), info, &stat));
	if (ret) {
		answer(req, ret);
		return;
	}
	seconds = lease_in_time(lease_give(mount, &stat));
	answer_attributes_for(req, &stat, seconds);
	lease_given(mount, stat.ino, seconds);
}

static unsigned mask_of(int mask)
{
	static const struct {
		int theirs;
		unsigned ours;
	} bits[] = {
		{FUSE_SET_ATTR_MODE, AFAR_SET_MODE},
		{FUSE_SET_ATTR_UID, AFAR_SET_UID},
		{FUSE_SET_ATTR_GID, AFAR_SET_GID},
		{FUSE_SET_ATTR_SIZE, AFAR_SET_SIZE},
	};
	unsigned ours = 0;

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		if (mask & bits[i].theirs)
			ours |= bits[i].ours;
	}
	/* "Now" comes with the other bit, too. */
	if (mask & FUSE_SET_ATTR_ATIME_NOW)
		ours |= AFAR_SET_ATIME_NOW;
	else if (mask & FUSE_SET_ATTR_ATIME)
		ours |= AFAR_SET_ATIME;
	if (mask & FUSE_SET_ATTR_MTIME_NOW)
		ours |= AFAR_SET_MTIME_NOW;
	else if (mask & FUSE_SET_ATTR_MTIME)
		ours |= AFAR_SET_MTIME;
	return ours;
}

/* Returns whether this does no more than to drop setuid and setgid. */
static bool is_dropping_ids(const struct mount *mount, uint64_t ino, unsigned mask,
			    const struct afar_file_stat *to)
{
	struct afar_file_stat now;

	if (!(mask & AFAR_SET_MODE) || mask & (AFAR_SET_UID | AFAR_SET_GID))
		return false;
	return get(mount, ino, NULL, &now) == 0 && (to->mode & 07777 & ~(now.mode & 07777)) == 0 &&
	       ((now.mode ^ to->mode) & 07777 & ~(unsigned)ID_BITS) == 0;
}

/* A write of somebody who is not the owner makes the kernel drop setuid and setgid, in the writer's
 * name. The manager takes that for a chmod() and refuses it. */
static int set(const struct mount *mount, const struct afar_who *who, uint64_t ino, unsigned mask,
	       const struct afar_file_stat *to, struct afar_file_stat *out)
{
	int ret = afar_fs_setattr(mount->fs, who, ino, mask, to, out);

	if (ret == -EPERM && is_dropping_ids(mount, ino, mask, to))
		ret = afar_fs_setattr(mount->fs, &superuser, ino, mask, to, out);
	return ret;
}

/* A program that has the file open to write may change its size, whatever has become of its
 * mode. */
static int set_all(const struct mount *mount, const struct afar_who *who, uint64_t ino,
		   unsigned mask, const struct afar_file_stat *to,
		   const struct fuse_file_info *info, struct afar_file_stat *out)
{
	struct afar_file *file;
	int ret = file_of(mount, info, &file);

	if (!ret && file && mask & AFAR_SET_SIZE) {
		ret = afar_file_truncate(file, to->bytes);
		mask &= ~AFAR_SET_SIZE;
	}
	if (ret)
		return ret;
	return mask ? set(mount, who, ino, mask, to, out) : get(mount, ino, info, out);
}

void do_setattr(fuse_req_t req, fuse_ino_t node, struct stat *to, int mask,
		struct fuse_file_info *info)
{
	struct mount *mount = mount_of(req);
	const unsigned ours = mask_of(mask);
	const struct afar_file_stat values = {
		.size = sizeof(values),
		.bytes = (uint64_t)to->st_size,
		.mode = to->st_mode,
		.uid = to->st_uid,
		.gid = to->st_gid,
		.atime = afar_file_time(to->st_atim),
		.mtime = afar_file_time(to->st_mtim),
	};
	struct afar_file_stat stat = {.size = sizeof(stat)};
	struct asker asker;
	const struct afar_who *who = find_asker(req, &asker);
	answer_attributes(
		req,
		CALL(mount, set_all(mount, who, ino_of(mount, node), ours, &values, info, &stat)),
		&stat);
}

/* ---- Of the file system */

void do_statfs(fuse_req_t req, fuse_ino_t node)
{
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	struct mount *mount = mount_of(req);
	int64_t ret = CALL(mount, afar_fs_stat(mount->fs, &stat));
	uint64_t used, whole, free_bytes, free_inodes;
	struct statvfs out;

	(void)node;
	if (ret) {
		answer(req, ret);
		return;
	}
	/* Its pool may have more than it may use now, because the limit was lowered. */
	used = stat.pool_bytes - stat.free_bytes - stat.pending_bytes;
	whole = stat.pool_bytes + stat.room_bytes;
	if (stat.max_bytes && whole > stat.max_bytes)
		whole = stat.max_bytes > used ? stat.max_bytes : used;
	free_bytes = whole - used;
	/* Each inode that has bytes takes a block at least. */
	free_inodes = free_bytes / AFAR_FILE_BLOCK;
	if (stat.max_inodes && free_inodes + stat.nr_inodes > stat.max_inodes + 1)
		free_inodes =
			stat.nr_inodes > stat.max_inodes ? 0 : stat.max_inodes + 1 - stat.nr_inodes;
	out = (struct statvfs){
		.f_bsize = AFAR_FILE_BLOCK,
		.f_frsize = AFAR_FILE_BLOCK,
		.f_blocks = whole / AFAR_FILE_BLOCK,
		.f_bfree = free_bytes / AFAR_FILE_BLOCK,
		.f_bavail = free_bytes / AFAR_FILE_BLOCK,
		.f_files = stat.nr_inodes + free_inodes,
		.f_ffree = free_inodes,
		.f_favail = free_inodes,
		.f_namemax = AFAR_FILE_NAME_MAX,
	};
	fuse_reply_statfs(req, &out);
}

/* ---- Extended ones */

/* Returns 0 if the library is to be asked about the name, else the error. The kernel asks for
 * capabilities before every write. They have no meaning here, so that costs no call. */
static int refuse_name(const char *name, bool is_set)
{
	const char *dot = strchr(name, '.');

	if (dot && !dot[1])
		return EINVAL;
	if (strncmp(name, "system.", 7) == 0)
		return EOPNOTSUPP;
	if (strcmp(name, XATTR_CAPABILITY) == 0)
		return is_set ? EOPNOTSUPP : ENODATA;
	return 0;
}

void do_setxattr(fuse_req_t req, fuse_ino_t node, const char *name, const char *value, size_t size,
		 int flags)
{
	struct mount *mount = mount_of(req);
	struct asker asker;
	const struct afar_who *who = find_asker(req, &asker);
	const int refused = refuse_name(name, true);

	lease_stop(mount, ino_of(mount, node));
	if (refused)
		fuse_reply_err(req, refused);
	else
		answer(req, CALL(mount, afar_fs_setxattr(mount->fs, who, ino_of(mount, node), name,
							 value, size, flags)));
}

/* Answers with `length` bytes, or with how many they are if no more was asked. */
static void answer_bytes(fuse_req_t req, int64_t length, const char *bytes, size_t size)
{
	if (length < 0)
		answer(req, length);
	else if (size == 0)
		fuse_reply_xattr(req, (size_t)length);
	else if ((size_t)length > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, bytes, (size_t)length);
}

void do_getxattr(fuse_req_t req, fuse_ino_t node, const char *name, size_t size)
{
	struct mount *mount = mount_of(req);
	struct asker asker;
	const struct afar_who *who = find_asker(req, &asker);
	const int refused = refuse_name(name, false);
	int64_t length;
	char *value;

	if (refused) {
		fuse_reply_err(req, refused);
		return;
	}
	if (size > XATTR_BYTES_MAX)
		size = XATTR_BYTES_MAX;
	value = malloc(size ? size : 1);
	length = value ? CALL(mount, afar_fs_getxattr(mount->fs, who, ino_of(mount, node), name,
						      value, size))
		       : -ENOMEM;
	answer_bytes(req, length, value, size);
	free(value);
}

void do_listxattr(fuse_req_t req, fuse_ino_t node, size_t size)
{
	struct mount *mount = mount_of(req);
	struct asker asker;
	const struct afar_who *who = find_asker(req, &asker);
	int64_t length;
	char *names;

	if (size > XATTR_BYTES_MAX)
		size = XATTR_BYTES_MAX;
	names = malloc(size ? size : 1);
	length = names ? CALL(mount,
			      afar_fs_listxattr(mount->fs, who, ino_of(mount, node), names, size))
		       : -ENOMEM;
	answer_bytes(req, length, names, size);
	free(names);
}

void do_removexattr(fuse_req_t req, fuse_ino_t node, const char *name)
{
	struct mount *mount = mount_of(req);
	struct asker asker;
	const struct afar_who *who = find_asker(req, &asker);
	const int refused = refuse_name(name, false);

	lease_stop(mount, ino_of(mount, node));
	if (refused)
		fuse_reply_err(req, refused);
	else
		answer(req,
		       CALL(mount, afar_fs_removexattr(mount->fs, who, ino_of(mount, node), name)));
}
