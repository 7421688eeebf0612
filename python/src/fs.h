/* SPDX-License-Identifier: BSD-3-Clause */
/* afar.FileSystem and afar.File: names by their paths from the root. */
#ifndef AFAR_PYTHON_FS_H
#define AFAR_PYTHON_FS_H

#include <afar/file.h>

#include "convert.h"
#include "object.h"

struct fs {
	struct object object;
	uint64_t root; /* inode number */
};

extern const struct field file_fields[];

/* A path from the root, and its parts: where the last name's directory is, and the name. */
struct path {
	PyObject *bytes; /* of the whole */
	char *text;	 /* a copy, which is cut behind the directory */
	const char *dir, *name;
};

/* "O&": into a struct path; also for str, bytes and os.PathLike. Free it with path_free(). */
int path_convert(PyObject *object, void *out);
void path_free(struct path *path);

/* Find what a whole path leads to, or its last name's directory; without the GIL. 0, or a code. */
int path_walk(const struct fs *fs, const struct path *path, unsigned flags,
	      struct afar_file_stat *out);
int path_walk_dir(const struct fs *fs, const struct path *path, uint64_t *dir);

/* Raises `code` if the path has no last name, because it is the root's. 0, or -1. */
int path_need_name(const struct path *path, int code);

/* fs.open_file(path, flags, mode=0o644, *, layout=None) */
PyObject *file_make(PyObject *fs, PyObject *arguments, PyObject *keywords);

/* Methods of afar.FileSystem that fs_names.c has. */
PyObject *fs_stat(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *fs_scan(PyObject *self, PyObject *args);
PyObject *fs_mkdir(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *fs_symlink(PyObject *self, PyObject *args);
PyObject *fs_readlink(PyObject *self, PyObject *args);
PyObject *fs_link(PyObject *self, PyObject *args);
PyObject *fs_unlink(PyObject *self, PyObject *args);
PyObject *fs_rmdir(PyObject *self, PyObject *args);
PyObject *fs_rename(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *fs_set(PyObject *self, PyObject *arguments, PyObject *keywords);

#define FS_NAME_METHODS                                                                            \
	{"stat", KEYWORD_METHOD(fs_stat),                                                          \
	 PyDoc_STR("stat(path, *, follow=True)\n--\n\nDescribes what a path leads to.")},          \
		{"scan", fs_scan, METH_VARARGS,                                                    \
		 PyDoc_STR("scan(path='/')\n--\n\nLists a directory as pairs of a name and its "   \
			   "stat(), in order of the names.")},                                     \
		{"mkdir", KEYWORD_METHOD(fs_mkdir),                                                \
		 PyDoc_STR("mkdir(path, mode=0o755)\n--\n\nMakes a directory.")},                  \
		{"symlink", fs_symlink, METH_VARARGS,                                              \
		 PyDoc_STR("symlink(target, path)\n--\n\nMakes a symbolic link.")},                \
		{"readlink", fs_readlink, METH_VARARGS,                                            \
		 PyDoc_STR("readlink(path)\n--\n\nWhere a symbolic link leads.")},                 \
		{"link", fs_link, METH_VARARGS,                                                    \
		 PyDoc_STR("link(path, new)\n--\n\nGives a file one more name.")},                 \
		{"unlink", fs_unlink, METH_VARARGS,                                                \
		 PyDoc_STR("unlink(path)\n--\n\nRemoves a name that is no directory's.")},         \
		{"rmdir", fs_rmdir, METH_VARARGS,                                                  \
		 PyDoc_STR("rmdir(path)\n--\n\nRemoves an empty directory.")},                     \
		{"rename", KEYWORD_METHOD(fs_rename),                                              \
		 PyDoc_STR("rename(path, new, *, replace=True, exchange=False)\n--\n\nRenames at " \
			   "once for everybody.")},                                                \
	{                                                                                          \
		"set", KEYWORD_METHOD(fs_set),                                                     \
			PyDoc_STR("set(path, *, mode, uid, gid, bytes, atime, mtime, "             \
				  "follow=True)\n--\n\nSets attributes; times are nanoseconds.")   \
	}

#endif
