/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Directories: making, removing, renaming and linking names. Each is done wholly or not at all, by the
 * one writer, so nobody sees half of it. The order of the checks is that of Linux, because programs
 * rely on which error comes first.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "manager/files/holds.h"
#include "manager/files/names.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

#define TARGET_MAX_BYTES 4095U
#define LINKS_MAX	 65000U
#define DEPTH_MAX	 4096U /* of directories: no walk to the root is longer */

#define RENAME_KEEPS	  1U
#define RENAME_EXCHANGES  2U
#define RENAME_WHITES_OUT 4U

/* A name of a directory, and the file that it stands for. */
struct entry {
	struct file *dir;
	const char *name;
	struct file *file; /* NULL: there is no such name */
};

/* Finds a name in a directory that `who` may search. */
static int find_entry(struct fs *fs, const struct who *who, uint64_t dir, const char *name,
		      struct entry *out)
{
	uint64_t ino;
	uint32_t type;
	int ret = check_name(name);

	*out = (struct entry){.name = name};
	if (ret == 0)
		ret = file_get_directory(fs, dir, &out->dir);
	if (ret == 0)
		ret = check_access(who, out->dir->inode, X_OK);
	if (ret == 0 && out->dir->inode->nlink == 0)
		ret = error_code(-ENOENT);
	if (ret != 0)
		return ret;
	ret = record_get_name(fs, dir, name, &ino, &type);
	if (ret == -ENOENT)
		return 0;
	return ret != 0 ? ret : file_get(fs, ino, &out->file);
}

static int fail_no_name(const char *name)
{
	return error_fail(-ENOENT, "find '%s': there is no such name", name);
}

/* Names and subdirectories come and go. */
static int change_directory(struct file *dir, int entries, int links)
{
	struct inode *inode = file_edit(dir);

	if (!inode)
		return error_code(-ENOMEM);
	inode->nr_entries += (uint64_t)(int64_t)entries;
	inode->nlink += (uint32_t)links;
	inode_touch(inode);
	file_put(dir);
	return 0;
}

/* In a sticky directory the owners of what is there, and of it, may take names away. */
static int check_sticky(const struct who *who, const struct entry *entry)
{
	const struct inode *dir = entry->dir->inode;

	if (!(dir->mode & S_ISVTX) || who->uid == 0 || who->uid == dir->uid ||
	    who->uid == entry->file->inode->uid)
		return 0;
	return error_fail(-EPERM, "take '%s' away: its directory is sticky, and uid %u owns it",
			  entry->name, entry->file->inode->uid);
}

/* ---- Making */

static int check_type(const struct who *who, uint32_t type, uint64_t rdev, const char *target)
{
	switch (type) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFIFO:
	case S_IFSOCK:
		return 0;
	case S_IFCHR:
		/* A whiteout leads to no device. */
		if (rdev == 0)
			return 0;
		__attribute__((fallthrough));
	case S_IFBLK:
		return who->uid == 0 ? 0 : error_fail(-EPERM, "make a device: uid 0 alone may");
	case S_IFLNK:
		if (target[0] == '\0')
			return error_fail(-ENOENT, "make a symbolic link: its target is empty");
		if (strlen(target) > TARGET_MAX_BYTES)
			return error_fail(-ENAMETOOLONG,
					  "make a symbolic link: its target has more than %u bytes",
					  TARGET_MAX_BYTES);
		return 0;
	default:
		return error_fail(-EINVAL, "make an inode: type 0%o is none", type);
	}
}

/* Sets the owner, and what the inode inherits. */
static void set_owner(struct inode *inode, const struct who *who, const struct inode *dir)
{
	inode->uid = who->uid;
	inode->gid = who->gid;
	if (!(dir->mode & S_ISGID))
		return;
	inode->gid = dir->gid;
	if (inode_is_directory(inode))
		inode->mode |= S_ISGID;
	else if (who->uid != 0 && !who_is_in(who, dir->gid))
		inode->mode &= ~(uint32_t)S_ISGID;
}

static void set_stripes(struct inode *inode, const Afar__FileMake *ask, const struct file *dir)
{
	if (!S_ISREG(inode->mode) && !inode_is_directory(inode))
		return;
	if (ask->stripe_bytes != 0 || ask->width != 0) {
		inode_set_stripes(inode, dir->fs, ask->stripe_bytes, ask->width);
	} else {
		inode->stripe_bytes = dir->inode->stripe_bytes;
		inode->width = dir->inode->width;
	}
}

static int make_inode(const struct who *who, const Afar__FileMake *ask, struct file *dir,
		      struct file **out)
{
	uint32_t type = ask->mode & S_IFMT;
	struct inode *inode;
	int ret = limits_check_inodes(dir->fs);

	if (ret == 0)
		ret = stripes_check(dir->fs, ask->stripe_bytes, ask->width);
	if (ret == 0)
		ret = file_new(dir->fs, ask->mode & (S_IFMT | 07777U),
			       type == S_IFLNK ? ask->target : NULL, out);
	inode = ret == 0 ? file_edit(*out) : NULL;
	if (!inode)
		return ret < 0 ? ret : error_code(-ENOMEM);
	set_owner(inode, who, dir->inode);
	set_stripes(inode, ask, dir);
	inode->rdev = ask->rdev;
	if (type == S_IFLNK)
		inode->mode = S_IFLNK | 0777U;
	if (type == S_IFDIR) {
		inode->nlink = 2;
		inode->parent = dir->ino;
	}
	if (type == S_IFREG && ask->bytes != 0 &&
	    !(ask->goes_without && !pool_has_room(dir->fs, ask->bytes)))
		ret = file_prepare(*out, ask->bytes);
	if (ret == 0)
		file_put(*out);
	return ret;
}

/* Makes a file as open(2) says of O_TMPFILE. Nothing of the directory changes. */
static int make_nameless(struct fs *fs, const struct who *who, const Afar__FileMake *ask,
			 struct file **out)
{
	struct inode *inode;
	struct file *dir;
	int ret = file_get_directory(fs, ask->dir, &dir);

	if (ret == 0 && (!S_ISREG(ask->mode) || ask->handle == 0 || ask->name[0] != '\0'))
		ret = error_fail(-EINVAL,
				 "make a file without a name: it has one, is no file, or nobody "
				 "opens it");
	if (ret == 0)
		ret = check_access(who, dir->inode, W_OK | X_OK);
	if (ret == 0 && dir->inode->nlink == 0)
		ret = error_code(-ENOENT);
	if (ret == 0)
		ret = make_inode(who, ask, dir, out);
	if (ret != 0)
		return ret;
	inode = file_edit(*out);
	if (!inode)
		return error_code(-ENOMEM);
	inode->nlink = 0;
	inode->is_linkable = ask->is_linkable;
	file_put(*out);
	return 0;
}

int name_make(struct fs *fs, const struct who *who, const Afar__FileMake *ask, struct file **out,
	      bool *is_made)
{
	uint32_t type = ask->mode & S_IFMT;
	struct entry entry;
	int ret;

	*is_made = false;
	if (ask->is_nameless) {
		ret = make_nameless(fs, who, ask, out);
		*is_made = ret == 0;
		return ret;
	}
	if (strcmp(ask->name, ".") == 0 || strcmp(ask->name, "..") == 0)
		return error_fail(-EEXIST, "make '%s': it is always there", ask->name);
	ret = find_entry(fs, who, ask->dir, ask->name, &entry);
	if (ret != 0)
		return ret;
	if (entry.file) {
		*out = entry.file;
		return ask->may_exist && type == S_IFREG
			       ? 0
			       : error_fail(-EEXIST, "make '%s': it is there", ask->name);
	}
	ret = check_access(who, entry.dir->inode, W_OK);
	if (ret == 0)
		ret = check_type(who, type, ask->rdev, ask->target);
	if (ret == 0)
		ret = make_inode(who, ask, entry.dir, out);
	if (ret != 0)
		return ret;
	record_put_name(fs, ask->dir, ask->name, (*out)->ino, type);
	*is_made = true;
	return change_directory(entry.dir, 1, type == S_IFDIR ? 1 : 0);
}

/* ---- Removing */

/* One of its names has gone, from a directory that is told of that by the caller. */
static int drop_link(struct file *file, const struct entry *entry)
{
	struct inode *inode = file_edit(file);
	int ret = inode ? 0 : error_code(-ENOMEM);

	if (ret != 0)
		return ret;
	inode->nlink = inode_is_directory(inode) ? 0 : inode->nlink - 1;
	inode_touch_change(inode);
	file_put(file);
	if (inode->nlink == 0)
		gone_note_name(file, entry->dir->ino, entry->name);
	return file_settle(file);
}

static int check_kind(const struct entry *entry, bool is_directory)
{
	const struct inode *inode = entry->file->inode;

	if (is_directory && !inode_is_directory(inode))
		return error_fail(-ENOTDIR, "remove directory '%s': it is none", entry->name);
	if (!is_directory && inode_is_directory(inode))
		return error_fail(-EISDIR, "remove '%s': it is a directory", entry->name);
	if (is_directory && inode->nr_entries != 0)
		return error_fail(-ENOTEMPTY, "remove directory '%s': %llu names are in it",
				  entry->name, (unsigned long long)inode->nr_entries);
	return 0;
}

int name_remove(struct fs *fs, const struct who *who, const Afar__FileRemove *ask)
{
	struct entry entry;
	bool is_directory;
	int ret = find_entry(fs, who, ask->dir, ask->name, &entry);

	if (ret == 0 && !entry.file)
		ret = fail_no_name(ask->name);
	if (ret == 0 && ask->ino != 0 && entry.file->ino != ask->ino)
		ret = error_fail(-ESTALE, "remove '%s': it is another file now", ask->name);
	if (ret == 0)
		ret = check_access(who, entry.dir->inode, W_OK);
	if (ret == 0)
		ret = check_sticky(who, &entry);
	if (ret == 0)
		ret = check_kind(&entry, ask->is_directory);
	if (ret != 0)
		return ret;
	is_directory = inode_is_directory(entry.file->inode);
	record_delete_name(fs, ask->dir, ask->name);
	ret = change_directory(entry.dir, -1, is_directory ? -1 : 0);
	return ret == 0 ? drop_link(entry.file, &entry) : ret;
}

/* ---- Renaming */

/* A directory must not come into itself, or into one below it. */
static int check_ancestors(struct fs *fs, const struct file *moved, uint64_t dir)
{
	struct file *file;
	int ret;

	for (unsigned depth = 0; depth < DEPTH_MAX; depth++) {
		if (dir == moved->ino)
			return error_fail(-EINVAL, "rename a directory: into itself");
		if (dir == fs->root)
			return 0;
		ret = file_get_directory(fs, dir, &file);
		if (ret < 0)
			return ret;
		dir = file->inode->parent;
	}
	return error_fail(-ELOOP, "rename a directory: more than %u directories are above it",
			  DEPTH_MAX);
}

/* A directory that moves to another one changes its "..". */
static int check_move(struct fs *fs, const struct who *who, const struct entry *from,
		      const struct file *to)
{
	int ret;

	if (!inode_is_directory(from->file->inode) || from->dir == to)
		return 0;
	ret = check_ancestors(fs, from->file, to->ino);
	return ret == 0 ? check_access(who, from->file->inode, W_OK) : ret;
}

static int check_replaced(const struct entry *from, const struct entry *to)
{
	bool is_directory = inode_is_directory(from->file->inode);
	const struct inode *replaced = to->file->inode;

	if (is_directory && !inode_is_directory(replaced))
		return error_fail(-ENOTDIR, "rename directory '%s' to '%s': that is none",
				  from->name, to->name);
	if (!is_directory && inode_is_directory(replaced))
		return error_fail(-EISDIR, "rename '%s' to '%s': that is a directory", from->name,
				  to->name);
	if (is_directory && replaced->nr_entries != 0)
		return error_fail(-ENOTEMPTY, "rename '%s' to '%s': %llu names are in that",
				  from->name, to->name, (unsigned long long)replaced->nr_entries);
	return 0;
}

static int check_rename(struct fs *fs, const struct who *who, const struct entry *from,
			const struct entry *to, uint32_t flags)
{
	bool is_exchange = flags & RENAME_EXCHANGES;
	int ret = 0;

	if (flags & ~(RENAME_KEEPS | RENAME_EXCHANGES | RENAME_WHITES_OUT) ||
	    (is_exchange && flags != RENAME_EXCHANGES))
		return error_fail(-EINVAL, "rename: flags 0x%x are none", flags);
	if (!from->file)
		return fail_no_name(from->name);
	if (to->file && (flags & RENAME_KEEPS))
		return error_fail(-EEXIST, "rename to '%s': it is there", to->name);
	if (!to->file && is_exchange)
		return fail_no_name(to->name);
	/* Before permissions, as Linux does. */
	if (inode_is_directory(from->file->inode) && from->dir != to->dir)
		ret = check_ancestors(fs, from->file, to->dir->ino);
	if (ret == 0)
		ret = check_access(who, from->dir->inode, W_OK);
	if (ret == 0)
		ret = check_sticky(who, from);
	if (ret == 0)
		ret = check_access(who, to->dir->inode, W_OK);
	if (ret == 0 && to->file)
		ret = check_sticky(who, to);
	if (ret == 0 && to->file && !is_exchange && from->file != to->file)
		ret = check_replaced(from, to);
	if (ret == 0)
		ret = check_move(fs, who, from, to->dir);
	if (ret == 0 && is_exchange)
		ret = check_move(fs, who, to, from->dir);
	return ret;
}

/* It is in `dir` now, under a name that the caller has put. */
static int arrive(struct file *file, const struct file *dir)
{
	struct inode *inode = file_edit(file);

	if (!inode)
		return error_code(-ENOMEM);
	if (inode_is_directory(inode))
		inode->parent = dir->ino;
	inode_touch_change(inode);
	file_put(file);
	return 0;
}

static uint32_t type_of(const struct file *file)
{
	return file->inode->mode & S_IFMT;
}

static int links_of(const struct file *file)
{
	return inode_is_directory(file->inode) ? 1 : 0;
}

static int exchange(struct fs *fs, const struct entry *from, const struct entry *to)
{
	int links = links_of(to->file) - links_of(from->file), ret;

	record_put_name(fs, from->dir->ino, from->name, to->file->ino, type_of(to->file));
	record_put_name(fs, to->dir->ino, to->name, from->file->ino, type_of(from->file));
	ret = change_directory(from->dir, 0, from->dir == to->dir ? 0 : links);
	if (ret == 0)
		ret = change_directory(to->dir, 0, from->dir == to->dir ? 0 : -links);
	if (ret == 0)
		ret = arrive(from->file, to->dir);
	return ret == 0 ? arrive(to->file, from->dir) : ret;
}

/* Puts a whiteout where a name was: an overlay takes it for the absence of what a layer below has there. */
static int white_out(struct fs *fs, const struct who *who, const struct entry *entry)
{
	Afar__FileMake make = AFAR__FILE_MAKE__INIT;
	struct file *file;
	int ret;

	make.mode = S_IFCHR;
	ret = make_inode(who, &make, entry->dir, &file);
	if (ret == 0)
		record_put_name(fs, entry->dir->ino, entry->name, file->ino, S_IFCHR);
	return ret;
}

static int replace(struct fs *fs, const struct who *who, const struct entry *from,
		   const struct entry *to, bool is_whiting_out)
{
	int links = links_of(from->file);
	int ret = 0;

	if (is_whiting_out)
		ret = white_out(fs, who, from);
	else
		record_delete_name(fs, from->dir->ino, from->name);
	record_put_name(fs, to->dir->ino, to->name, from->file->ino, type_of(from->file));
	if (ret == 0)
		ret = change_directory(from->dir, is_whiting_out ? 0 : -1, -links);
	/* A directory that is replaced is one, too. */
	if (ret == 0)
		ret = change_directory(to->dir, to->file ? 0 : 1, to->file ? 0 : links);
	if (ret == 0)
		ret = arrive(from->file, to->dir);
	return ret == 0 && to->file ? drop_link(to->file, to) : ret;
}

int name_rename(struct fs *fs, const struct who *who, const Afar__FileRename *ask)
{
	struct entry from, to;
	int ret = find_entry(fs, who, ask->dir, ask->name, &from);

	if (ret == 0)
		ret = find_entry(fs, who, ask->new_dir, ask->new_name, &to);
	if (ret == 0)
		ret = check_rename(fs, who, &from, &to, ask->flags);
	if (ret != 0)
		return ret;
	/* Two names of one file: POSIX leaves both. */
	if (from.file == to.file)
		return 0;
	return ask->flags & RENAME_EXCHANGES
		       ? exchange(fs, &from, &to)
		       : replace(fs, who, &from, &to, ask->flags & RENAME_WHITES_OUT);
}

/* ---- Linking */

int name_link(struct fs *fs, const struct who *who, const Afar__FileLink *ask, struct file **out)
{
	struct entry entry;
	struct inode *inode;
	int ret = file_get(fs, ask->ino, out);

	if (ret == 0)
		ret = find_entry(fs, who, ask->dir, ask->name, &entry);
	if (ret != 0)
		return ret;
	if (entry.file)
		return error_fail(-EEXIST, "link to '%s': it is there", ask->name);
	ret = check_access(who, entry.dir->inode, W_OK);
	if (ret != 0)
		return ret;
	if (inode_is_directory((*out)->inode))
		return error_fail(-EPERM, "link to '%s': directories have one name", ask->name);
	if ((*out)->inode->nlink == 0 &&
	    !((*out)->inode->is_linkable && file_is_held(*out) && !(*out)->is_gone))
		return error_fail(-ENOENT, "link to '%s': the file's last name has gone",
				  ask->name);
	if ((*out)->inode->nlink >= LINKS_MAX)
		return error_fail(-EMLINK, "link to '%s': the file has %u names", ask->name,
				  LINKS_MAX);
	inode = file_edit(*out);
	if (!inode)
		return error_code(-ENOMEM);
	if (inode->nlink++ == 0)
		record_delete_unlinked(fs, ask->ino);
	inode->is_linkable = false;
	inode_touch_change(inode);
	file_put(*out);
	record_put_name(fs, ask->dir, ask->name, ask->ino, type_of(*out));
	return change_directory(entry.dir, 1, 0);
}
