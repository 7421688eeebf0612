/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods of afar.FileSystem about names: found, listed, made, renamed, removed. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "errors.h"
#include "fs.h"

const struct field file_fields[] = {
	FIELD(struct afar_file_stat, ino, FIELD_U64),
	FIELD(struct afar_file_stat, bytes, FIELD_U64),
	FIELD(struct afar_file_stat, allocated, FIELD_U64),
	FIELD(struct afar_file_stat, mode, FIELD_U32),
	FIELD(struct afar_file_stat, nlink, FIELD_U32),
	FIELD(struct afar_file_stat, uid, FIELD_U32),
	FIELD(struct afar_file_stat, gid, FIELD_U32),
	FIELD(struct afar_file_stat, rdev, FIELD_U64),
	FIELD(struct afar_file_stat, atime, FIELD_I64),
	FIELD(struct afar_file_stat, mtime, FIELD_I64),
	FIELD(struct afar_file_stat, ctime, FIELD_I64),
	FIELD(struct afar_file_stat, change, FIELD_U64),
	{0},
};

/* ---- Finding and listing --------------------------------------------------------------------- */

PyObject *fs_stat(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"path", "follow", NULL};
	struct path path = {0};
	struct afar_file_stat stat;
	PyObject *result = NULL;
	int follows = 1, ret;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O&|$p:stat", names, path_convert,
					 &path, &follows))
		return NULL;
	if (object_enter(self)) {
		CALL(ret,
		     path_walk((struct fs *)self, &path, follows ? 0 : AFAR_WALK_NOFOLLOW, &stat));
		result = ret < 0 ? error_raise(ret) : stat_make(file_fields, &stat);
		object_leave(self);
	}
	path_free(&path);
	return result;
}

#define ENTRIES 64

struct listing {
	struct afar_fs *fs;
	uint64_t dir;
	char after[AFAR_FILE_NAME_MAX + 1];
	struct afar_dirent entries[ENTRIES];
};

/* Has the attributes of an entry that came without, because the manager could not tell them then. The call waits for them. -ESTALE: it has been
 * removed. */
static int complete(struct listing *all, struct afar_dirent *entry)
{
	int ret = 0;

	if (entry->stat.nlink == 0)
		CALL(ret, afar_fs_getattr(all->fs, entry->stat.ino, &entry->stat));
	return ret;
}

static int add_entry(struct listing *all, struct afar_dirent *entry, PyObject *list)
{
	PyObject *name, *stat, *pair;
	int ret = complete(all, entry);

	if (ret == -ESTALE)
		return 0;
	if (ret)
		return error_raise(ret), -1;
	name = TEXT(entry->name);
	stat = name ? stat_make(file_fields, &entry->stat) : NULL;
	pair = stat ? PyTuple_Pack(2, name, stat) : NULL;
	Py_XDECREF(name);
	Py_XDECREF(stat);
	return list_add(list, pair);
}

static long next_entries(void *state, PyObject *list)
{
	struct listing *all = state;
	int nr;

	all->entries[0].size = sizeof(all->entries[0]);
	CALL(nr, afar_fs_readdir(all->fs, NULL, all->dir, *all->after ? all->after : NULL, true,
				 all->entries, ENTRIES));
	if (nr < 0)
		return error_raise(nr), -1;
	for (int i = 0; i < nr; i++)
		if (add_entry(all, &all->entries[i], list))
			return -1;
	if (nr)
		memcpy(all->after, all->entries[nr - 1].name, sizeof(all->after));
	return nr;
}

PyObject *fs_scan(PyObject *self, PyObject *args)
{
	struct listing *all = PyMem_Calloc(1, sizeof(*all));
	struct afar_file_stat stat;
	struct path path = {0};
	PyObject *list = NULL, *root = NULL;
	int ret;

	if (!all)
		return PyErr_NoMemory();
	if (!PyArg_ParseTuple(args, "|O&:scan", path_convert, &path))
		goto out;
	if (!path.bytes) {
		root = PyUnicode_FromString("/");
		if (!root || !path_convert(root, &path))
			goto out;
	}
	all->fs = object_enter(self);
	if (!all->fs)
		goto out;
	CALL(ret, path_walk((struct fs *)self, &path, 0, &stat));
	all->dir = stat.ino;
	list = ret < 0 ? error_raise(ret) : list_all(next_entries, all);
	object_leave(self);
out:
	Py_XDECREF(root);
	path_free(&path);
	PyMem_Free(all);
	return list;
}

PyObject *fs_readlink(PyObject *self, PyObject *args)
{
	char target[AFAR_FILE_PATH_MAX + 1];
	struct path path = {0};
	struct afar_file_stat stat;
	PyObject *result = NULL;
	ssize_t ret;
	void *fs;

	if (!PyArg_ParseTuple(args, "O&:readlink", path_convert, &path))
		return NULL;
	fs = object_enter(self);
	if (fs) {
		CALL(ret, path_walk((struct fs *)self, &path, AFAR_WALK_NOFOLLOW, &stat));
		if (ret >= 0)
			CALL(ret, afar_fs_readlink(fs, stat.ino, target, sizeof(target)));
		result = ret < 0 ? error_raise(ret)
				 : PyUnicode_DecodeFSDefaultAndSize(target, (Py_ssize_t)ret);
		object_leave(self);
	}
	path_free(&path);
	return result;
}

/* ---- Making and removing --------------------------------------------------------------------- */

/* Does something with the last name of a path, in its directory. */
typedef int (*name_call)(struct afar_fs *fs, uint64_t dir, const char *name, const void *argument);

static int do_in_dir(const struct fs *fs, const struct path *path, name_call call,
		     const void *argument)
{
	uint64_t dir;
	int ret = path_walk_dir(fs, path, &dir);

	return ret < 0 ? ret : call(fs->object.handle, dir, path->name, argument);
}

/* Takes the path, and frees it. `code`: the root has no name. */
static PyObject *do_name(PyObject *self, struct path *path, name_call call, const void *argument,
			 int code)
{
	PyObject *result = NULL;
	int ret;

	if (!path_need_name(path, code) && object_enter(self)) {
		CALL(ret, do_in_dir((struct fs *)self, path, call, argument));
		result = object_end(self, ret);
	}
	path_free(path);
	return result;
}

static int call_mkdir(struct afar_fs *fs, uint64_t dir, const char *name, const void *mode)
{
	return afar_fs_make(fs, NULL, dir, name, S_IFDIR | *(const uint32_t *)mode, 0, NULL, NULL);
}

PyObject *fs_mkdir(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"path", "mode", NULL};
	struct path path = {0};
	uint32_t mode = 0755;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O&|O&:mkdir", names, path_convert,
					 &path, convert_u32, &mode))
		return NULL;
	mode &= 07777;
	return do_name(self, &path, call_mkdir, &mode, -EEXIST);
}

static int call_symlink(struct afar_fs *fs, uint64_t dir, const char *name, const void *target)
{
	return afar_fs_make(fs, NULL, dir, name, S_IFLNK | 0777, 0, target, NULL);
}

PyObject *fs_symlink(PyObject *self, PyObject *args)
{
	PyObject *target = NULL, *result = NULL;
	struct path path = {0};

	if (!PyArg_ParseTuple(args, "O&O&:symlink", PyUnicode_FSConverter, &target, path_convert,
			      &path))
		return NULL;
	result = do_name(self, &path, call_symlink, PyBytes_AsString(target), -EEXIST);
	Py_DECREF(target);
	return result;
}

static int call_unlink(struct afar_fs *fs, uint64_t dir, const char *name, const void *none)
{
	(void)none;
	return afar_fs_unlink(fs, NULL, dir, name);
}

PyObject *fs_unlink(PyObject *self, PyObject *args)
{
	struct path path = {0};

	if (!PyArg_ParseTuple(args, "O&:unlink", path_convert, &path))
		return NULL;
	return do_name(self, &path, call_unlink, NULL, -EISDIR);
}

static int call_rmdir(struct afar_fs *fs, uint64_t dir, const char *name, const void *none)
{
	(void)none;
	return afar_fs_rmdir(fs, NULL, dir, name);
}

PyObject *fs_rmdir(PyObject *self, PyObject *args)
{
	struct path path = {0};

	if (!PyArg_ParseTuple(args, "O&:rmdir", path_convert, &path))
		return NULL;
	return do_name(self, &path, call_rmdir, NULL, -EBUSY);
}

static int link_paths(const struct fs *fs, const struct path *path, const struct path *new_path)
{
	struct afar_file_stat stat;
	uint64_t dir;
	int ret = path_walk(fs, path, AFAR_WALK_NOFOLLOW, &stat);

	ret = ret < 0 ? ret : path_walk_dir(fs, new_path, &dir);
	if (ret < 0)
		return ret;
	return afar_fs_link(fs->object.handle, NULL, stat.ino, dir, new_path->name, NULL);
}

PyObject *fs_link(PyObject *self, PyObject *args)
{
	struct path path = {0}, new_path = {0};
	PyObject *result = NULL;
	int ret;

	if (!PyArg_ParseTuple(args, "O&O&:link", path_convert, &path, path_convert, &new_path))
		return NULL;
	if (!path_need_name(&new_path, -EEXIST) && object_enter(self)) {
		CALL(ret, link_paths((struct fs *)self, &path, &new_path));
		result = object_end(self, ret);
	}
	path_free(&path);
	path_free(&new_path);
	return result;
}

static int rename_paths(const struct fs *fs, const struct path *path, const struct path *new_path,
			unsigned flags)
{
	uint64_t dir, new_dir;
	int ret = path_walk_dir(fs, path, &dir);

	ret = ret < 0 ? ret : path_walk_dir(fs, new_path, &new_dir);
	if (ret < 0)
		return ret;
	return afar_fs_rename(fs->object.handle, NULL, dir, path->name, new_dir, new_path->name,
			      flags);
}

PyObject *fs_rename(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"path", "new", "replace", "exchange", NULL};
	struct path path = {0}, new_path = {0};
	int replaces = 1, exchanges = 0, ret;
	PyObject *result = NULL;
	unsigned flags;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O&O&|$pp:rename", names,
					 path_convert, &path, path_convert, &new_path, &replaces,
					 &exchanges))
		return NULL;
	flags = (replaces ? 0 : AFAR_RENAME_NOREPLACE) | (exchanges ? AFAR_RENAME_EXCHANGE : 0);
	if (!path_need_name(&path, -EBUSY) && !path_need_name(&new_path, -EEXIST) &&
	    object_enter(self)) {
		CALL(ret, rename_paths((struct fs *)self, &path, &new_path, flags));
		result = object_end(self, ret);
	}
	path_free(&path);
	path_free(&new_path);
	return result;
}

/* ---- Attributes ------------------------------------------------------------------------------ */

static int set_attributes(const struct fs *fs, const struct path *path, unsigned flags,
			  unsigned mask, const struct afar_file_stat *to)
{
	struct afar_file_stat stat;
	int ret = path_walk(fs, path, flags, &stat);

	return ret < 0 ? ret : afar_fs_setattr(fs->object.handle, NULL, stat.ino, mask, to, NULL);
}

PyObject *fs_set(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"path",	 "mode",  "uid",    "gid", "bytes",
				"atime", "mtime", "follow", NULL};
	PyObject *given[6] = {NULL}, *result = NULL;
	struct afar_file_stat to = {.size = sizeof(to)};
	struct path path = {0};
	int follows = 1, ret;
	unsigned mask;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O&|$OOOOOOp:set", names,
					 path_convert, &path, &given[0], &given[1], &given[2],
					 &given[3], &given[4], &given[5], &follows))
		return NULL;
	mask = (given[0] ? AFAR_SET_MODE : 0) | (given[1] ? AFAR_SET_UID : 0) |
	       (given[2] ? AFAR_SET_GID : 0) | (given[3] ? AFAR_SET_SIZE : 0) |
	       (given[4] ? AFAR_SET_ATIME : 0) | (given[5] ? AFAR_SET_MTIME : 0);
	to.atime = given[4] ? PyLong_AsLongLong(given[4]) : 0;
	to.mtime = given[5] ? PyLong_AsLongLong(given[5]) : 0;
	if (PyErr_Occurred() || (given[0] && !convert_u32(given[0], &to.mode)) ||
	    (given[1] && !convert_u32(given[1], &to.uid)) ||
	    (given[2] && !convert_u32(given[2], &to.gid)) ||
	    (given[3] && take_u64(given[3], "bytes", &to.bytes)))
		goto out;
	if (object_enter(self)) {
		CALL(ret, set_attributes((struct fs *)self, &path, follows ? 0 : AFAR_WALK_NOFOLLOW,
					 mask, &to));
		result = object_end(self, ret);
	}
out:
	path_free(&path);
	return result;
}
