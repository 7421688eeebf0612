/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and inodes: calls to the manager, which checks names and permissions. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/files/file.h"
#include "client/files/inode/fs_call.h"

#define XATTR_BYTES_MAX 65536U
#define LIST_BYTES_MAX	65536U

/* ---- What all calls begin and end with */

/* Counts the call in, and takes who asks. */
static int begin(struct afar_fs *fs, const struct afar_who *given, struct fs_who *who)
{
	int ret = fs_who_take(given, who);

	return ret ? ret : fs_enter(fs);
}

static int check_name(const char *name)
{
	if (!name)
		return error_fail(-EINVAL, "use a file: its name is null");
	if (strlen(name) > AFAR_FILE_NAME_MAX)
		return error_fail(-ENAMETOOLONG, "use a file: its name has %zu bytes; at most %u",
				  strlen(name), AFAR_FILE_NAME_MAX);
	return 0;
}

static int check_path(const char *path)
{
	if (!path)
		return error_fail(-EINVAL, "use a file: its path is null");
	if (strlen(path) > AFAR_FILE_PATH_MAX)
		return error_fail(-ENAMETOOLONG, "use a file: its path has %zu bytes; at most %u",
				  strlen(path), AFAR_FILE_PATH_MAX);
	return 0;
}

/* Carries out what is answered by attributes. */
static int ask_for_stat(struct afar_fs *fs, const struct fs_who *who, Afar__FileLook *operation,
			struct afar_file_stat *out)
{
	struct fs_answer answer;
	int ret = fs_check_stat(out, false);

	if (ret == 0)
		ret = fs_look_one(fs, who, operation, &answer);
	if (ret == 0) {
		ret = fs_give(answer.results[0], out);
		fs_answer_free(&answer);
	}
	if (ret == 0)
		inode_add_writes(fs, out);
	return ret;
}

/* And ends the call. */
static int look_for_stat(struct afar_fs *fs, const struct fs_who *who, Afar__FileLook *operation,
			 struct afar_file_stat *out)
{
	int ret = ask_for_stat(fs, who, operation, out);

	handle_unuse(&fs->handle);
	return ret;
}

/* Likewise; `out` may be NULL. The inode that it gives is in use. */
static int change_for_stat(struct afar_fs *fs, const struct fs_who *who,
			   Afar__FileChange *operation, struct afar_file_stat *out)
{
	unsigned finding, nr = 0;
	struct fs_answer answer;
	int ret;

	do {
		finding = used_begin(fs);
		ret = fs_check_stat(out, true);
		if (ret == 0)
			ret = fs_check_writable(fs, "change something");
		if (ret == 0)
			ret = fs_change_one(fs, who, operation, &answer);
		if (ret == 0) {
			ret = fs_give(answer.results[0], out);
			fs_answer_free(&answer);
		}
		used_end(fs, finding, ret == 0 && out ? out->ino : 0);
	} while (used_again(fs, ret, &nr));
	handle_unuse(&fs->handle);
	return ret;
}

/* Likewise, of what is answered by nothing. */
static int change(struct afar_fs *fs, const struct fs_who *who, Afar__FileChange *operation)
{
	int ret = fs_check_writable(fs, "change something");

	if (ret == 0)
		ret = fs_change_one(fs, who, operation, NULL);
	handle_unuse(&fs->handle);
	return ret;
}

/* ---- Finding */

static int look_up(struct afar_fs *fs, const struct fs_who *who, uint64_t dir, const char *name,
		   struct afar_file_stat *out)
{
	Afar__FileLookup lookup = AFAR__FILE_LOOKUP__INIT;
	int ret = fs_check_stat(out, false) ? 1 : attr_cache_lookup(fs, who, dir, name, out);

	if (ret == 0)
		inode_add_writes(fs, out);
	if (ret <= 0)
		return ret;
	lookup.dir = dir;
	lookup.name = (char *)name;
	return ask_for_stat(fs, who, FILE_LOOK(LOOKUP, lookup, &lookup), out);
}

PUBLIC_CALL(int, afar_fs_lookup,
	    (struct afar_fs *fs, const struct afar_who *given, uint64_t dir, const char *name,
	     struct afar_file_stat *out),
	    (fs, given, dir, name, out))
{
	struct fs_who who;
	unsigned finding;
	int ret = check_name(name);

	if (ret == 0)
		ret = begin(fs, given, &who);
	if (ret)
		return ret;
	finding = used_begin(fs);
	ret = look_up(fs, &who, dir, name, out);
	used_end(fs, finding, ret == 0 ? out->ino : 0);
	handle_unuse(&fs->handle);
	return ret;
}

PUBLIC_CALL(int, afar_fs_walk,
	    (struct afar_fs *fs, const struct afar_who *given, uint64_t dir, const char *path,
	     unsigned flags, unsigned access, struct afar_file_stat *out),
	    (fs, given, dir, path, flags, access, out))
{
	Afar__FileWalk walk = AFAR__FILE_WALK__INIT;
	struct fs_who who;
	int ret = check_path(path);

	if (ret == 0 && (flags & ~AFAR_WALK_NOFOLLOW))
		ret = error_fail(-EINVAL, "walk to '%s': flags are unknown", path);
	if (ret == 0)
		ret = begin(fs, given, &who);
	if (ret)
		return ret;
	walk.dir = dir;
	walk.path = (char *)path;
	walk.is_following = !(flags & AFAR_WALK_NOFOLLOW);
	walk.access = access;
	return look_for_stat(fs, &who, FILE_LOOK(WALK, walk, &walk), out);
}

PUBLIC_CALL(int, afar_fs_getattr,
	    (struct afar_fs *fs, uint64_t ino, struct afar_file_stat *out), (fs, ino, out))
{
	Afar__FileStat stat = AFAR__FILE_STAT__INIT;
	int ret = fs_enter(fs);

	if (ret)
		return ret;
	if (fs_check_stat(out, false) == 0 && attr_cache_stat(fs, ino, out) == 0) {
		inode_add_writes(fs, out);
		handle_unuse(&fs->handle);
		return 0;
	}
	stat.ino = ino;
	stat.asks_writers = true;
	return look_for_stat(fs, NULL, FILE_LOOK(STAT, stat, &stat), out);
}

/* Copies bytes of a result out, as much as there is room for. Returns how many there are; -ERANGE if
 * they are more. `size` 0 only asks. */
static ssize_t give_bytes(const Afar__FileResult *result, size_t most, void *out, size_t size)
{
	size_t length = result->data.len;

	if (length > most)
		return error_fail(-AFAR_EMALFORMED, "use a file: the manager answered too much");
	if (size == 0)
		return (ssize_t)length;
	if (length > size)
		return error_fail(-ERANGE, "use a file: there is room for %zu bytes of %zu", size,
				  length);
	if (length != 0)
		memcpy(out, result->data.data, length);
	return (ssize_t)length;
}

static ssize_t look_for_bytes(struct afar_fs *fs, const struct fs_who *who,
			      Afar__FileLook *operation, size_t most, void *out, size_t size)
{
	struct fs_answer answer;
	ssize_t ret = !out && size != 0
			      ? error_fail(-EINVAL, "use a file: there is no room (out is null)")
			      : fs_look_one(fs, who, operation, &answer);

	if (ret == 0) {
		ret = give_bytes(answer.results[0], most, out, size);
		fs_answer_free(&answer);
	}
	handle_unuse(&fs->handle);
	return ret;
}

PUBLIC_CALL(ssize_t, afar_fs_readlink, (struct afar_fs *fs, uint64_t ino, char *out, size_t size),
	    (fs, ino, out, size))
{
	Afar__FileReadLink read_link = AFAR__FILE_READ_LINK__INIT;
	char target[AFAR_FILE_PATH_MAX];
	ssize_t ret = fs_enter(fs);

	if (ret)
		return ret;
	if (!out || size == 0) {
		handle_unuse(&fs->handle);
		return error_fail(-EINVAL, "read a symbolic link: there is no room for it");
	}
	read_link.ino = ino;
	ret = look_for_bytes(fs, NULL, FILE_LOOK(READ_LINK, read_link, &read_link), sizeof(target),
			     target, sizeof(target));
	/* Cuts it to the room that there is, as readlink(2) does. */
	if (ret > 0 && (size_t)ret > size)
		ret = (ssize_t)size;
	if (ret > 0)
		memcpy(out, target, (size_t)ret);
	return ret;
}

/* ---- Listing */

static int check_entry(const Afar__FileEntry *entry, const char *after)
{
	size_t length = strlen(entry->name);

	if (length == 0 || length > AFAR_FILE_NAME_MAX || strchr(entry->name, '/') ||
	    strcmp(entry->name, after) <= 0)
		return error_fail(-AFAR_EMALFORMED,
				  "list a directory: the manager answered a name that cannot be "
				  "there");
	return fs_check_attributes(entry->attributes);
}

/* Returns how many it gave. */
static int give_entries(struct afar_fs *fs, const Afar__FileList *list,
			const Afar__FileResult *result, struct afar_dirent *out, unsigned max)
{
	const unsigned nr = result->n_entries < max ? (unsigned)result->n_entries : max;
	const size_t size = out->size;

	for (unsigned i = 0; i < nr; i++) {
		struct afar_dirent *to = (struct afar_dirent *)((char *)out + i * size);
		const Afar__FileEntry *entry = result->entries[i];
		int ret = check_entry(entry, i == 0 ? list->after : result->entries[i - 1]->name);

		if (ret)
			return ret;
		to->size = size;
		strcpy(to->name, entry->name);
		to->stat.size = size - offsetof(struct afar_dirent, stat);
		fs_give_attributes(entry->attributes, &to->stat);
		/* The manager knows nothing of it just now. */
		if (list->with_attributes && to->stat.nlink != 0)
			inode_add_writes(fs, &to->stat);
	}
	return (int)nr;
}

PUBLIC_CALL(int, afar_fs_readdir,
	    (struct afar_fs *fs, const struct afar_who *given, uint64_t dir, const char *after,
	     bool with_attributes, struct afar_dirent *out, unsigned max),
	    (fs, given, dir, after, with_attributes, out, max))
{
	Afar__FileList list = AFAR__FILE_LIST__INIT;
	struct fs_answer answer;
	struct fs_who who;
	int ret = check_name(after ? after : "");

	if (ret == 0 && (!out || max == 0 || max > INT32_MAX))
		ret = error_fail(-EINVAL, "list a directory: there is no room for names");
	if (ret == 0)
		ret = ABI_CHECK_OUT(out, afar_dirent, stat.gid);
	if (ret == 0)
		ret = begin(fs, given, &who);
	if (ret)
		return ret;
	list.dir = dir;
	list.after = (char *)(after ? after : "");
	list.max = max;
	list.with_attributes = with_attributes;
	ret = fs_look_one(fs, &who, FILE_LOOK(LIST, list, &list), &answer);
	if (ret == 0) {
		ret = give_entries(fs, &list, answer.results[0], out, max);
		fs_answer_free(&answer);
	}
	handle_unuse(&fs->handle);
	return ret;
}

/* ---- Making, removing, renaming */

PUBLIC_CALL(int, afar_fs_make,
	    (struct afar_fs *fs, const struct afar_who *given, uint64_t dir, const char *name,
	     uint32_t mode, uint64_t rdev, const char *target, struct afar_file_stat *out),
	    (fs, given, dir, name, mode, rdev, target, out))
{
	Afar__FileMake make = AFAR__FILE_MAKE__INIT;
	struct fs_who who;
	int ret = check_name(name);

	if (ret == 0 && target)
		ret = check_path(target);
	if (ret == 0)
		ret = begin(fs, given, &who);
	if (ret)
		return ret;
	make.dir = dir;
	make.name = (char *)name;
	make.mode = mode;
	make.rdev = rdev;
	make.target = (char *)(target ? target : "");
	return change_for_stat(fs, &who, FILE_CHANGE(MAKE, make, &make), out);
}

static int remove_name(struct afar_fs *fs, const struct afar_who *given, Afar__FileRemove *message)
{
	struct fs_who who;
	int ret = check_name(message->name);

	if (ret == 0)
		ret = begin(fs, given, &who);
	if (ret)
		return ret;
	return change(fs, &who, FILE_CHANGE(REMOVE, remove, message));
}

PUBLIC_CALL(int, afar_fs_unlink,
	    (struct afar_fs *fs, const struct afar_who *given, uint64_t dir, const char *name),
	    (fs, given, dir, name))
{
	Afar__FileRemove message = AFAR__FILE_REMOVE__INIT;

	message.dir = dir;
	message.name = (char *)name;
	return remove_name(fs, given, &message);
}

PUBLIC_CALL(int, afar_fs_rmdir,
	    (struct afar_fs *fs, const struct afar_who *given, uint64_t dir, const char *name),
	    (fs, given, dir, name))
{
	Afar__FileRemove message = AFAR__FILE_REMOVE__INIT;

	message.dir = dir;
	message.name = (char *)name;
	message.is_directory = true;
	return remove_name(fs, given, &message);
}

PUBLIC_CALL(int, afar_fs_unlink_lost,
	    (struct afar_fs *fs, const struct afar_who *given, const struct afar_lost_file *file),
	    (fs, given, file))
{
	Afar__FileRemove message = AFAR__FILE_REMOVE__INIT;
	struct afar_lost_file lost = {0};
	int ret = file ? ABI_TAKE(&lost, file, afar_lost_file, path) : 0;

	if (ret)
		return ret;
	if (lost.ino == 0)
		return error_fail(-EINVAL, "remove a file that has lost bytes: it is none");
	message.dir = lost.dir;
	message.name = (char *)lost.name;
	message.ino = lost.ino;
	return remove_name(fs, given, &message);
}

PUBLIC_CALL(int, afar_fs_link,
	    (struct afar_fs *fs, const struct afar_who *given, uint64_t ino, uint64_t dir,
	     const char *name, struct afar_file_stat *out),
	    (fs, given, ino, dir, name, out))
{
	Afar__FileLink message = AFAR__FILE_LINK__INIT;
	struct fs_who who;
	int ret = check_name(name);

	if (ret == 0)
		ret = begin(fs, given, &who);
	if (ret)
		return ret;
	message.ino = ino;
	message.dir = dir;
	message.name = (char *)name;
	return change_for_stat(fs, &who, FILE_CHANGE(LINK, link, &message), out);
}

PUBLIC_CALL(int, afar_fs_rename,
	    (struct afar_fs *fs, const struct afar_who *given, uint64_t dir, const char *name,
	     uint64_t new_dir, const char *new_name, unsigned flags),
	    (fs, given, dir, name, new_dir, new_name, flags))
{
	Afar__FileRename message = AFAR__FILE_RENAME__INIT;
	struct fs_who who;
	int ret = check_name(name);

	if (ret == 0)
		ret = check_name(new_name);
	if (ret == 0 &&
	    (flags & ~(AFAR_RENAME_NOREPLACE | AFAR_RENAME_EXCHANGE | AFAR_RENAME_WHITEOUT)))
		ret = error_fail(-EINVAL, "rename '%s': flags are unknown", name);
	if (ret == 0)
		ret = begin(fs, given, &who);
	if (ret)
		return ret;
	message.dir = dir;
	message.name = (char *)name;
	message.new_dir = new_dir;
	message.new_name = (char *)new_name;
	message.flags = flags;
	return change(fs, &who, FILE_CHANGE(RENAME, rename, &message));
}

/* ---- Attributes */

/* Sets the size by way of an open file, which zeroes what has to be. */
static int set_size(struct afar_fs *fs, const struct fs_who *who, uint64_t ino, uint64_t bytes)
{
	struct afar_file *file;
	int ret = file_open(fs, who, ino, O_WRONLY, &file), closed;

	if (ret)
		return ret;
	ret = file_resize(file, who, bytes);
	closed = file_close(file);
	return ret ? ret : closed;
}

static Afar__FileSet message_of(uint64_t ino, unsigned mask, const struct afar_file_stat *to)
{
	Afar__FileSet message = AFAR__FILE_SET__INIT;

	message.ino = ino;
	message.mask = mask;
	message.mode = to->mode;
	message.uid = to->uid;
	message.gid = to->gid;
	message.atime = to->atime;
	message.mtime = to->mtime;
	return message;
}

#define TIMES (AFAR_SET_MTIME | AFAR_SET_MTIME_NOW)

static int setattr(struct afar_fs *fs, const struct fs_who *who, uint64_t ino, unsigned mask,
		   const struct afar_file_stat *to, struct afar_file_stat *out)
{
	unsigned rest = mask & ~AFAR_SET_SIZE;
	Afar__FileSet message = message_of(ino, rest, to);
	struct fs_answer answer;
	bool is_touched;
	int ret = mask & AFAR_SET_SIZE ? set_size(fs, who, ino, to->bytes) : 0;

	if (ret || (rest == 0 && !out))
		return ret;
	/* With an empty mask it would still change the ctime. */
	if (rest == 0) {
		Afar__FileStat stat = AFAR__FILE_STAT__INIT;

		stat.ino = ino;
		ret = fs_look_one(fs, who, FILE_LOOK(STAT, stat, &stat), &answer);
	} else {
		/* Earlier writes are told no more: the time that is set now replaces theirs. */
		if (rest & TIMES)
			ret = fs_know_end(fs, ino);
		if (ret)
			return ret;
		is_touched = rest & TIMES && inode_untouch(fs, ino);
		ret = fs_change_one(fs, who, FILE_CHANGE(SET, set, &message), &answer);
		if (ret && is_touched)
			inode_touch_again(fs, ino);
	}
	if (ret)
		return ret;
	ret = fs_give(answer.results[0], out);
	fs_answer_free(&answer);
	if (ret == 0 && out)
		inode_add_writes(fs, out);
	return ret;
}

#define SET_ALL                                                                         \
	(AFAR_SET_MODE | AFAR_SET_UID | AFAR_SET_GID | AFAR_SET_SIZE | AFAR_SET_ATIME | \
	 AFAR_SET_MTIME | AFAR_SET_ATIME_NOW | AFAR_SET_MTIME_NOW)

PUBLIC_CALL(int, afar_fs_setattr,
		     (struct afar_fs *fs, const struct afar_who *given, uint64_t ino,
		      unsigned mask, const struct afar_file_stat *to, struct afar_file_stat *out),
		     (fs, given, ino, mask, to, out))
{
	struct fs_who who;
	int ret;

	if (!to || (mask & ~SET_ALL))
		return error_fail(-EINVAL, "set attributes: they are null, or the mask has bits "
					   "that are unknown");
	ret = fs_check_stat(to, false);
	if (ret == 0)
		ret = fs_check_stat(out, true);
	if (ret == 0)
		ret = begin(fs, given, &who);
	if (ret)
		return ret;
	ret = fs_check_writable(fs, "set attributes");
	if (ret == 0)
		ret = setattr(fs, &who, ino, mask, to, out);
	handle_unuse(&fs->handle);
	return ret;
}

/* ---- Extended attributes */

/* Returns whether the manager would say that there is none of that name, if the inode has none at all. `ls -l` asks for
 * one of each file. For names of `user.` the manager has to say whether `who` may read them. */
static bool is_told_to_all(const char *name)
{
	static const char *const prefixes[] = {"security.", "trusted."};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0 &&
		    name[strlen(prefixes[i])])
			return true;
	return false;
}

PUBLIC_CALL(ssize_t, afar_fs_getxattr,
	    (struct afar_fs *fs, const struct afar_who *given, uint64_t ino, const char *name,
	     void *out, size_t size),
	    (fs, given, ino, name, out, size))
{
	Afar__FileGetXattr message = AFAR__FILE_GET_XATTR__INIT;
	struct fs_who who;
	int ret = check_name(name);

	if (ret == 0)
		ret = begin(fs, given, &who);
	if (ret)
		return ret;
	if (is_told_to_all(name) && attr_cache_no_xattrs(fs, ino)) {
		handle_unuse(&fs->handle);
		return error_code(-ENODATA);
	}
	message.ino = ino;
	message.name = (char *)name;
	return look_for_bytes(fs, &who, FILE_LOOK(GET_XATTR, get_xattr, &message), XATTR_BYTES_MAX,
			      out, size);
}

PUBLIC_CALL(ssize_t, afar_fs_listxattr,
	    (struct afar_fs *fs, const struct afar_who *given, uint64_t ino, char *out,
	     size_t size),
	    (fs, given, ino, out, size))
{
	Afar__FileListXattrs message = AFAR__FILE_LIST_XATTRS__INIT;
	struct fs_who who;
	int ret = begin(fs, given, &who);

	if (ret)
		return ret;
	if ((out || size == 0) && attr_cache_no_xattrs(fs, ino)) {
		handle_unuse(&fs->handle);
		return 0;
	}
	message.ino = ino;
	return look_for_bytes(fs, &who, FILE_LOOK(LIST_XATTRS, list_xattrs, &message),
			      LIST_BYTES_MAX, out, size);
}

PUBLIC_CALL(int, afar_fs_setxattr,
	    (struct afar_fs *fs, const struct afar_who *given, uint64_t ino, const char *name,
	     const void *value, size_t length, int flags),
	    (fs, given, ino, name, value, length, flags))
{
	Afar__FileSetXattr message = AFAR__FILE_SET_XATTR__INIT;
	struct fs_who who;
	int ret = check_name(name);

	if (ret == 0 && ((!value && length != 0) || flags < 0))
		ret = error_fail(-EINVAL, "set an extended attribute: it is null, or flags are "
					  "unknown");
	if (ret == 0 && length > XATTR_BYTES_MAX)
		ret = error_fail(-E2BIG, "set an extended attribute of %zu bytes: at most %u",
				 length, XATTR_BYTES_MAX);
	if (ret == 0)
		ret = begin(fs, given, &who);
	if (ret)
		return ret;
	message.ino = ino;
	message.name = (char *)name;
	message.value.data = (uint8_t *)value;
	message.value.len = length;
	message.flags = (uint32_t)flags;
	return change(fs, &who, FILE_CHANGE(SET_XATTR, set_xattr, &message));
}

PUBLIC_CALL(int, afar_fs_removexattr,
	    (struct afar_fs *fs, const struct afar_who *given, uint64_t ino, const char *name),
	    (fs, given, ino, name))
{
	Afar__FileRemoveXattr message = AFAR__FILE_REMOVE_XATTR__INIT;
	struct fs_who who;
	int ret = check_name(name);

	if (ret == 0)
		ret = begin(fs, given, &who);
	if (ret)
		return ret;
	message.ino = ino;
	message.name = (char *)name;
	return change(fs, &who, FILE_CHANGE(REMOVE_XATTR, remove_xattr, &message));
}
