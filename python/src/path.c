/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths of files: taken apart, and found. All are from the root of their file system. */
#include <errno.h>
#include <string.h>

#include "errors.h"
#include "fs.h"

/* Cuts the last name off a path, and the slashes around it. */
static void cut(struct path *path)
{
	char *text = path->text, *end = text + strlen(text), *name;

	while (end > text && end[-1] == '/')
		*--end = 0;
	name = strrchr(text, '/');
	path->name = name ? name + 1 : text;
	if (name)
		*name = 0;
	path->dir = name && *text ? text : "/";
}

int path_convert(PyObject *object, void *out)
{
	struct path *path = out;

	if (!object) { /* another argument could not be taken */
		path_free(path);
		return 1;
	}
	if (!PyUnicode_FSConverter(object, &path->bytes))
		return 0;
	path->text = PyMem_Malloc((size_t)PyBytes_Size(path->bytes) + 1);
	if (!path->text) {
		Py_CLEAR(path->bytes);
		PyErr_NoMemory();
		return 0;
	}
	strcpy(path->text, PyBytes_AsString(path->bytes));
	cut(path);
	return Py_CLEANUP_SUPPORTED;
}

void path_free(struct path *path)
{
	Py_CLEAR(path->bytes);
	PyMem_Free(path->text);
	path->text = NULL;
}

int path_walk(const struct fs *fs, const struct path *path, unsigned flags,
	      struct afar_file_stat *out)
{
	const char *whole = PyBytes_AsString(path->bytes);

	out->size = sizeof(*out);
	return afar_fs_walk(fs->object.handle, NULL, fs->root, *whole ? whole : "/", flags, 0, out);
}

int path_walk_dir(const struct fs *fs, const struct path *path, uint64_t *dir)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_walk(fs->object.handle, NULL, fs->root, path->dir, 0, 0, &stat);

	*dir = stat.ino;
	return ret;
}

int path_need_name(const struct path *path, int code)
{
	if (*path->name)
		return 0;
	error_raise_line(code, "the path is that of the root directory, which is there and stays");
	return -1;
}
