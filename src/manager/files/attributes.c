/* SPDX-License-Identifier: BSD-3-Clause */
/* Permissions to use an inode; its mode, owner and times; extended attributes. The rules are those
 * of POSIX, and of Linux where that says nothing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "manager/files/holds.h"
#include "manager/files/names.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

#define SET_MODE      0x1U
#define SET_UID	      0x2U
#define SET_GID	      0x4U
#define SET_SIZE      0x8U
#define SET_ATIME     0x10U
#define SET_MTIME     0x20U
#define SET_ATIME_NOW 0x40U
#define SET_MTIME_NOW 0x80U
#define SET_STRIPES   0x100U
#define SET_ALL	      0x1ffU

/* Limits for all attributes of an inode: what listxattr(2) can tell, and as much as 256 of the
 * largest. */
#define XATTR_NAMES_MAX	 65536U
#define XATTR_VALUES_MAX (256U * XATTR_VALUE_BYTES)

/* ---- Permissions */

bool who_is_in(const struct who *who, uint32_t gid)
{
	if (who->gid == gid)
		return true;
	for (size_t i = 0; i < who->nr_groups; i++)
		if (who->groups[i] == gid)
			return true;
	return false;
}

bool who_may(const struct who *who, const struct inode *inode, uint32_t access)
{
	uint32_t granted;

	/* The superuser may do everything, but run what nobody may run. */
	if (who->uid == 0)
		return !(access & X_OK) || inode_is_directory(inode) || (inode->mode & 0111);
	if (who->uid == inode->uid)
		granted = inode->mode >> 6;
	else if (who_is_in(who, inode->gid))
		granted = inode->mode >> 3;
	else
		granted = inode->mode;
	return (access & ~granted & 7U) == 0;
}

int check_access(const struct who *who, const struct inode *inode, uint32_t access)
{
	if (who_may(who, inode, access))
		return 0;
	return error_fail(-EACCES, "use an inode of uid %u: uid %u may not %s it", inode->uid,
			  who->uid,
			  access & W_OK	  ? "write"
			  : access & R_OK ? "read"
					  : "search");
}

/* ---- Setting */

static bool owns(const struct who *who, const struct inode *inode)
{
	return who->uid == 0 || who->uid == inode->uid;
}

static int fail_owner(const struct who *who, const struct inode *inode, const char *asked)
{
	return error_fail(-EPERM, "%s: uid %u owns the inode, and not uid %u", asked, inode->uid,
			  who->uid);
}

static int check_times(const struct who *who, const struct inode *inode, const Afar__FileSet *ask)
{
	uint32_t explicit = ask->mask & (SET_ATIME | SET_MTIME);
	uint32_t now = ask->mask & (SET_ATIME_NOW | SET_MTIME_NOW);

	if ((explicit == 0 && now == 0) || owns(who, inode))
		return 0;
	if (explicit != 0)
		return fail_owner(who, inode, "set times");
	return check_access(who, inode, W_OK);
}

static int check_owner(const struct who *who, const struct inode *inode, const Afar__FileSet *ask)
{
	if (who->uid == 0)
		return 0;
	if ((ask->mask & SET_UID) && (ask->uid != inode->uid || who->uid != inode->uid))
		return fail_owner(who, inode, "set the owner");
	if ((ask->mask & SET_GID) &&
	    (who->uid != inode->uid || (ask->gid != inode->gid && !who_is_in(who, ask->gid))))
		return fail_owner(who, inode, "set the group");
	return 0;
}

static int check_stripes(const struct file *file, const struct who *who, const Afar__FileSet *ask)
{
	if (!owns(who, file->inode))
		return fail_owner(who, file->inode, "set a layout");
	if (!inode_is_directory(file->inode))
		return error_fail(
			-ENOTDIR,
			"set the layout of inode %llu: it is no directory, and the bytes of a "
			"file stay where they are",
			(unsigned long long)file->ino);
	return stripes_check(file->fs, ask->stripe_bytes, ask->width);
}

int file_check_set(const struct file *file, const struct who *who, const struct session *session,
		   const Afar__FileSet *ask)
{
	const struct inode *inode = file->inode;
	const struct hold *hold;
	int ret;

	if (ask->mask & ~SET_ALL)
		return error_fail(-EINVAL, "set attributes: 0x%x are none", ask->mask & ~SET_ALL);
	if ((ask->mask & SET_MODE) && !owns(who, inode))
		return fail_owner(who, inode, "set permissions");
	ret = check_owner(who, inode, ask);
	if (ret == 0)
		ret = check_times(who, inode, ask);
	if (ret == 0 && (ask->mask & SET_STRIPES))
		ret = check_stripes(file, who, ask);
	if (ret < 0 || !(ask->mask & SET_SIZE))
		return ret;
	if (inode_is_directory(inode))
		return error_fail(-EISDIR, "set the size of inode %llu: it is a directory",
				  (unsigned long long)file->ino);
	if (!S_ISREG(inode->mode))
		return error_fail(-EINVAL, "set the size of inode %llu: it is no file",
				  (unsigned long long)file->ino);
	hold = ask->handle != 0 ? hold_find(file->fs, session->number, ask->handle) : NULL;
	if (hold && hold->file == file && (hold->access & W_OK))
		return 0;
	return check_access(who, inode, W_OK);
}

static void set_mode(struct inode *inode, const struct who *who, uint32_t mode)
{
	mode &= 07777U;
	if (who->uid != 0 && !inode_is_directory(inode) && !who_is_in(who, inode->gid))
		mode &= ~(uint32_t)S_ISGID;
	inode->mode = (inode->mode & ~07777U) | mode;
}

/* Another owner must not get what the old one let everybody run as him. */
static void set_owner(struct inode *inode, const Afar__FileSet *ask)
{
	if (ask->mask & SET_UID)
		inode->uid = ask->uid;
	if (ask->mask & SET_GID)
		inode->gid = ask->gid;
	if (!(ask->mask & (SET_UID | SET_GID)) || inode_is_directory(inode))
		return;
	inode->mode &= ~(uint32_t)S_ISUID;
	if (inode->mode & S_IXGRP)
		inode->mode &= ~(uint32_t)S_ISGID;
}

static void set_times(struct inode *inode, const Afar__FileSet *ask)
{
	if (ask->mask & SET_ATIME)
		inode->atime = ask->atime;
	if (ask->mask & SET_MTIME)
		inode->mtime = ask->mtime;
	if (ask->mask & SET_ATIME_NOW)
		inode->atime = inode->ctime;
	if (ask->mask & SET_MTIME_NOW)
		inode->mtime = inode->ctime;
}

int file_set(struct fs *fs, const struct who *who, const struct session *session,
	     const Afar__FileSet *ask, struct file **out)
{
	struct inode *inode;
	int ret = file_get(fs, ask->ino, out);

	if (ret == 0)
		ret = file_check_set(*out, who, session, ask);
	if (ret == 0 && (ask->mask & SET_SIZE))
		ret = end_check(*out, session);
	/* Somebody may have made it as short meanwhile: then nobody was asked. */
	if (ret == 0 && ask->only_asks)
		return (ask->mask & SET_SIZE) && ask->size < (*out)->inode->size
			       ? file_give_up(*out, session)
			       : 0;
	if (ret == 0 && ask->is_given_up && !recall_is_kept(*out, session))
		return error_fail(-EAGAIN,
				  "make inode %llu shorter: others who gave it up for that have "
				  "gone on; ask them again",
				  (unsigned long long)ask->ino);
	if (ret == 0 && (ask->mask & SET_SIZE))
		ret = file_resize(*out, session, ask->size);
	inode = ret == 0 ? file_edit(*out) : NULL;
	if (!inode)
		return ret < 0 ? ret : error_code(-ENOMEM);
	inode_touch_change(inode);
	set_owner(inode, ask);
	if (ask->mask & SET_MODE)
		set_mode(inode, who, ask->mode);
	/* A program that runs as another user or group loses that when somebody but root writes
	 * it. */
	if ((ask->mask & SET_SIZE) && who->uid != 0) {
		inode->mode &= ~(uint32_t)S_ISUID;
		if (inode->mode & S_IXGRP)
			inode->mode &= ~(uint32_t)S_ISGID;
	}
	set_times(inode, ask);
	if (ask->mask & SET_STRIPES)
		inode_set_stripes(inode, fs, ask->stripe_bytes, ask->width);
	file_put(*out);
	return 0;
}

/* ---- Extended attributes */

static bool begins(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0 && name[strlen(prefix)] != '\0';
}

static int check_xattr(const struct who *who, const struct inode *inode, const char *name,
		       uint32_t access)
{
	size_t length = strlen(name);

	if (length > XATTR_NAME_MAX)
		return error_fail(-ERANGE, "use an extended attribute: its name has %zu bytes",
				  length);
	if (begins(name, "user.")) {
		if (!S_ISREG(inode->mode) && !inode_is_directory(inode))
			return access & W_OK ? error_fail(-EPERM,
							  "set '%s': only files and directories "
							  "have such attributes",
							  name)
					     : error_code(-ENODATA);
		if ((inode->mode & S_ISVTX) && (access & W_OK) && inode_is_directory(inode) &&
		    !owns(who, inode))
			return fail_owner(who, inode, "set an extended attribute");
		return check_access(who, inode, access);
	}
	if (begins(name, "trusted."))
		return who->uid == 0   ? 0
		       : access & W_OK ? error_fail(-EPERM, "set '%s': uid 0 alone may", name)
				       : error_code(-ENODATA);
	if (begins(name, "security."))
		return access & W_OK && who->uid != 0
			       ? error_fail(-EPERM, "set '%s': uid 0 alone may", name)
			       : 0;
	return error_fail(-EOPNOTSUPP,
			  "use an extended attribute '%s': names begin with user., trusted. or "
			  "security.",
			  name);
}

int file_get_xattr(struct fs *fs, const struct who *who, const Afar__FileGetXattr *ask,
		   Afar__FileResult *result)
{
	struct file *file;
	size_t length;
	void *value;
	int ret = file_get(fs, ask->ino, &file);

	if (ret == 0)
		ret = check_xattr(who, file->inode, ask->name, R_OK);
	if (ret == 0)
		ret = record_get_xattr(fs, ask->ino, ask->name, &value, &length);
	if (ret != 0)
		return ret;
	result->data.data = value;
	result->data.len = length;
	return 0;
}

struct xattr_names {
	const struct who *who;
	char *text;
	size_t length;
};

static int add_xattr_name(void *argument, const char *name)
{
	struct xattr_names *names = argument;
	size_t length = strlen(name) + 1;
	char *more;

	if (names->who->uid != 0 && begins(name, "trusted."))
		return 0;
	more = realloc(names->text, names->length + length);
	if (!more)
		return error_code(-ENOMEM);
	names->text = more;
	memcpy(more + names->length, name, length);
	names->length += length;
	return 0;
}

int file_list_xattrs(struct fs *fs, const struct who *who, const Afar__FileListXattrs *ask,
		     Afar__FileResult *result)
{
	struct xattr_names names = {.who = who};
	struct file *file;
	int ret = file_get(fs, ask->ino, &file);

	if (ret == 0 && file->inode->nr_xattrs != 0)
		ret = record_range_xattrs(fs, ask->ino, add_xattr_name, &names);
	if (ret < 0) {
		free(names.text);
		return ret;
	}
	result->data.data = (uint8_t *)names.text;
	result->data.len = names.length;
	return 0;
}

/* The room that an attribute of an inode takes. */
struct xattr_cost {
	int nr, names_length, values_length;
};

/* Adds it to what the inode's take, and puts the inode. */
static int count_xattrs(struct file *file, const struct xattr_cost *more)
{
	struct inode *inode = file_edit(file);

	if (!inode)
		return error_code(-ENOMEM);
	inode->nr_xattrs += (uint32_t)more->nr;
	inode->xattr_names_length += (uint32_t)more->names_length;
	inode->xattr_values_length += (uint32_t)more->values_length;
	if (inode->nr_xattrs == 0)
		inode->xattr_names_length = inode->xattr_values_length = 0;
	inode_touch_change(inode);
	file_put(file);
	return 0;
}

static int check_xattr_room(const struct inode *inode, const char *name,
			    const struct xattr_cost *more)
{
	if (more->names_length > 0 &&
	    inode->xattr_names_length + (uint32_t)more->names_length > XATTR_NAMES_MAX)
		return error_fail(-ENOSPC,
				  "set '%s': the inode has %u extended attributes; their names may "
				  "have %u bytes together",
				  name, inode->nr_xattrs, XATTR_NAMES_MAX);
	if (more->values_length > 0 &&
	    inode->xattr_values_length + (uint32_t)more->values_length > XATTR_VALUES_MAX)
		return error_fail(
			-ENOSPC,
			"set '%s': the inode has %u extended attributes; their values may "
			"have %u bytes together",
			name, inode->nr_xattrs, XATTR_VALUES_MAX);
	return 0;
}

int file_set_xattr(struct fs *fs, const struct who *who, const Afar__FileSetXattr *ask)
{
	struct xattr_cost more = {.values_length = (int)ask->value.len};
	struct file *file;
	size_t length;
	void *old = NULL;
	bool is_there;
	int ret = file_get(fs, ask->ino, &file);

	if (ret == 0)
		ret = check_xattr(who, file->inode, ask->name, W_OK);
	if (ret != 0)
		return ret;
	if (ask->value.len > XATTR_VALUE_BYTES)
		return error_fail(-E2BIG, "set '%s': %zu bytes; at most %u can be stored",
				  ask->name, ask->value.len, XATTR_VALUE_BYTES);
	ret = record_get_xattr(fs, ask->ino, ask->name, &old, &length);
	if (ret < 0 && ret != -ENODATA)
		return ret;
	is_there = ret == 0;
	if (is_there)
		free(old);
	if (is_there && (ask->flags & XATTR_CREATE))
		return error_code(-EEXIST);
	if (!is_there && (ask->flags & XATTR_REPLACE))
		return error_code(-ENODATA);
	if (is_there) {
		more.values_length -= (int)length;
	} else {
		more.nr = 1;
		more.names_length = (int)strlen(ask->name) + 1;
	}
	ret = check_xattr_room(file->inode, ask->name, &more);
	if (ret != 0)
		return ret;
	record_put_xattr(fs, ask->ino, ask->name, ask->value.data, ask->value.len);
	return count_xattrs(file, &more);
}

int file_remove_xattr(struct fs *fs, const struct who *who, const Afar__FileRemoveXattr *ask)
{
	struct xattr_cost less = {.nr = -1, .names_length = -(int)strlen(ask->name) - 1};
	struct file *file;
	size_t length;
	void *old;
	int ret = file_get(fs, ask->ino, &file);

	if (ret == 0)
		ret = check_xattr(who, file->inode, ask->name, W_OK);
	if (ret == 0)
		ret = record_get_xattr(fs, ask->ino, ask->name, &old, &length);
	if (ret != 0)
		return ret;
	free(old);
	less.values_length = -(int)length;
	record_delete_xattr(fs, ask->ino, ask->name);
	return count_xattrs(file, &less);
}

/* ---- What results tell */

Afar__FileAttributes *attributes_of(const struct file *file)
{
	Afar__FileAttributes *attributes = MESSAGE_NEW(afar__file_attributes, Afar__FileAttributes);
	const struct inode *inode = file->inode;

	if (!attributes)
		return NULL;
	attributes->ino = file->ino;
	attributes->mode = inode->mode;
	attributes->nlink = inode->nlink;
	attributes->uid = inode->uid;
	attributes->gid = inode->gid;
	attributes->rdev = inode->rdev;
	attributes->size = inode_is_directory(inode) ? FILE_UNIT : inode->size;
	attributes->allocated = inode_asked_units(inode) * FILE_UNIT;
	attributes->atime = inode->atime;
	attributes->mtime = inode->mtime;
	attributes->ctime = inode->ctime;
	attributes->change = inode->change;
	attributes->layout = inode->layout;
	attributes->has_no_xattrs = inode->nr_xattrs == 0;
	attributes->stripe_bytes = inode->stripe_bytes;
	attributes->width = inode->width;
	return attributes;
}
