/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests about names: one call of the library each, in the name of whoever asks. */
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "leases.h"
#include "session.h"

#define STAT_INIT                                     \
	{                                             \
		.size = sizeof(struct afar_file_stat) \
	}

/* Finds an inode by its number alone, as of a file handle (open_by_handle_at(2), NFS). The kernel knows whether the
 * asker may. Numbers are never used twice in a file system. */
static int find_itself(const struct mount *mount, uint64_t ino, struct afar_file_stat *out)
{
	int ret = afar_fs_use(mount->fs, ino);

	if (ret)
		return ret;
	ret = afar_fs_getattr(mount->fs, ino, out);
	/* Somebody else has it open still: no name leads there any more, so no handle does. */
	if (!ret && out->nlink == 0)
		ret = -ESTALE;
	if (ret)
		afar_fs_forget(mount->fs, ino, 1);
	return ret;
}

void forget_node(struct mount *mount, fuse_ino_t node, uint64_t nr)
{
	/* Without a session there is nothing to forget: its end has forgotten all. */
	if (session_enter(mount) == 0)
		afar_fs_forget(mount->fs, ino_of(mount, node), nr);
	session_leave(mount, 0);
}

static void reply_entry(fuse_req_t req, const struct fuse_entry_param *entry)
{
	if (fuse_reply_entry(req, entry))
		forget_node(mount_of(req), entry->ino, 1);
}

/* Answers with a name's node, which the kernel knows then, if `ret` is 0. */
static void answer_entry(fuse_req_t req, int64_t ret, const struct afar_file_stat *stat)
{
	struct fuse_entry_param entry;

	if (ret) {
		answer(req, ret);
		return;
	}
	fill_entry(mount_of(req), stat, &entry);
	reply_entry(req, &entry);
}

/* Likewise, and the kernel may answer from the attributes for as long as leases.h says. */
static void answer_found(fuse_req_t req, int64_t ret, struct afar_file_stat *stat)
{
	struct mount *mount = mount_of(req);
	struct fuse_entry_param entry;
	double seconds;

	if (ret) {
		answer(req, ret);
		return;
	}
	seconds = lease_give(mount, stat);
	fill_entry(mount, stat, &entry);
	entry.attr_timeout = seconds = lease_in_time(seconds);
	reply_entry(req, &entry);
	lease_given(mount, stat->ino, seconds);
}

void do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct mount *mount = mount_of(req);
	struct afar_file_stat stat = STAT_INIT;
	struct asker asker;
	const struct afar_who *who = find_asker(req, &asker);

	if (strcmp(name, ".") == 0) {
		answer_found(req, CALL(mount, find_itself(mount, ino_of(mount, parent), &stat)),
			     &stat);
		return;
	}
	answer_found(
		req,
		CALL(mount, afar_fs_lookup(mount->fs, who, ino_of(mount, parent), name, &stat)),
		&stat);
}

void do_forget(fuse_req_t req, fuse_ino_t node, uint64_t nr)
{
	forget_node(mount_of(req), node, nr);
	fuse_reply_none(req);
}

void do_forget_multi(fuse_req_t req, size_t nr, struct fuse_forget_data *nodes)
{
	for (size_t i = 0; i < nr; i++)
		forget_node(mount_of(req), nodes[i].ino, nodes[i].nlookup);
	fuse_reply_none(req);
}

void do_readlink(fuse_req_t req, fuse_ino_t node)
{
	struct mount *mount = mount_of(req);
	char target[AFAR_FILE_PATH_MAX + 1];
	int64_t length = CALL(mount, afar_fs_readlink(mount->fs, ino_of(mount, node), target,
						      sizeof(target) - 1));

	if (length < 0) {
		answer(req, length);
		return;
	}
	target[length] = '\0';
	fuse_reply_readlink(req, target);
}

static void make(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev,
		 const char *target)
{
	struct mount *mount = mount_of(req);
	struct afar_file_stat stat = STAT_INIT;
	struct asker asker;
	const struct afar_who *who = find_asker(req, &asker);

	lease_stop(mount, ino_of(mount, parent));
	answer_entry(req,
		     CALL(mount, afar_fs_make(mount->fs, who, ino_of(mount, parent), name, mode,
					      rdev, target, &stat)),
		     &stat);
}

void do_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	make(req, parent, name, mode, S_ISCHR(mode) || S_ISBLK(mode) ? rdev : 0, NULL);
}

void do_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	make(req, parent, name, S_IFDIR | mode, 0, NULL);
}

void do_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	make(req, parent, name, S_IFLNK | 0777, 0, target);
}

void do_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct mount *mount = mount_of(req);
	struct asker asker;
	const struct afar_who *who = find_asker(req, &asker);

	lease_stop(mount, ino_of(mount, parent));
	answer(req, CALL(mount, afar_fs_unlink(mount->fs, who, ino_of(mount, parent), name)));
}

void do_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct mount *mount = mount_of(req);
	struct asker asker;
	const struct afar_who *who = find_asker(req, &asker);

	lease_stop(mount, ino_of(mount, parent));
	answer(req, CALL(mount, afar_fs_rmdir(mount->fs, who, ino_of(mount, parent), name)));
}

void do_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
	       const char *new_name, unsigned flags)
{
	struct mount *mount = mount_of(req);
	unsigned ours = 0;
	struct asker asker;
	const struct afar_who *who = find_asker(req, &asker);

	if (flags & RENAME_NOREPLACE)
		ours |= AFAR_RENAME_NOREPLACE;
	if (flags & RENAME_EXCHANGE)
		ours |= AFAR_RENAME_EXCHANGE;
	if (flags & RENAME_WHITEOUT)
		ours |= AFAR_RENAME_WHITEOUT;
	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT)) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	lease_stop(mount, ino_of(mount, parent));
	lease_stop(mount, ino_of(mount, new_parent));
	answer(req, CALL(mount, afar_fs_rename(mount->fs, who, ino_of(mount, parent), name,
					       ino_of(mount, new_parent), new_name, ours)));
}

void do_link(fuse_req_t req, fuse_ino_t node, fuse_ino_t parent, const char *name)
{
	struct mount *mount = mount_of(req);
	struct afar_file_stat stat = STAT_INIT;
	struct asker asker;
	const struct afar_who *who = find_asker(req, &asker);

	lease_stop(mount, ino_of(mount, parent));
	answer_entry(req,
		     CALL(mount, afar_fs_link(mount->fs, who, ino_of(mount, node),
					      ino_of(mount, parent), name, &stat)),
		     &stat);
}
