/* SPDX-License-Identifier: BSD-3-Clause */
/* afar.FileSystem: opened, described, synced; and the session's methods about file systems. */
#include "fs.h"

#include <string.h>
#include <unistd.h>

#include "errors.h"
#include "session.h"

static const struct field fs_fields[] = {
	FIELD(struct afar_fs_stat, name, FIELD_TEXT),
	FIELD(struct afar_fs_stat, pool_bytes, FIELD_U64),
	FIELD(struct afar_fs_stat, free_bytes, FIELD_U64),
	FIELD(struct afar_fs_stat, room_bytes, FIELD_U64),
	FIELD(struct afar_fs_stat, nr_inodes, FIELD_U64),
	FIELD(struct afar_fs_stat, max_bytes, FIELD_U64),
	FIELD(struct afar_fs_stat, max_inodes, FIELD_U64),
	FIELD(struct afar_fs_stat, stripe_bytes, FIELD_U64),
	FIELD(struct afar_fs_stat, tier, FIELD_TIER),
	FIELD(struct afar_fs_stat, width, FIELD_U32),
	FIELD(struct afar_fs_stat, rights, FIELD_U32),
	FIELD(struct afar_fs_stat, nr_clients, FIELD_U32),
	FIELD(struct afar_fs_stat, is_lost, FIELD_BOOL8),
	FIELD(struct afar_fs_stat, lost_bytes, FIELD_U64),
	FIELD(struct afar_fs_stat, owner, FIELD_TEXT),
	{0},
};

static int fs_close(struct object *object)
{
	return afar_fs_close(object->handle);
}

static const struct object_kind fs_kind = {"file system", fs_close, NULL};

static int open_fs(void *session, const char *name, const struct afar_fs_options *options,
		   struct afar_fs **out, uint64_t *root)
{
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_open(session, name, options, out);

	if (ret < 0)
		return ret;
	ret = afar_fs_stat(*out, &stat);
	*root = stat.root;
	if (ret < 0)
		afar_fs_close(*out);
	return ret;
}

static PyObject *fs_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"session", "name", "read_only", "retry", NULL};
	struct afar_fs_options options = {.size = sizeof(options)};
	PyObject *parent, *self = NULL;
	struct afar_fs *fs = NULL;
	int is_read_only = 0, ret;
	const char *name;
	uint64_t root = 0;
	void *session;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!s|$pO&:FileSystem", names,
					 session_type, &parent, &name, &is_read_only,
					 convert_timeout, &options.retry_ms) ||
	    !(session = object_enter(parent)))
		return NULL;
	options.flags = is_read_only ? AFAR_FS_READ_ONLY : 0;
	CALL(ret, open_fs(session, name, &options, &fs, &root));
	if (ret < 0) {
		error_raise(ret);
	} else if ((self = PyType_GenericAlloc(type, 0))) {
		object_open((struct object *)self, &fs_kind, fs, (struct object *)parent);
		((struct fs *)self)->root = root;
	} else {
		afar_fs_close(fs);
	}
	object_leave(parent);
	return self;
}

static PyObject *fs_statistics(PyObject *self, PyObject *none)
{
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	void *fs = object_enter(self);
	PyObject *result;
	int ret;

	(void)none;
	if (!fs)
		return NULL;
	CALL(ret, afar_fs_stat(fs, &stat));
	result = ret < 0 ? error_raise(ret) : stat_make(fs_fields, &stat);
	object_leave(self);
	return result;
}

static PyObject *fs_sync(PyObject *self, PyObject *none)
{
	void *fs = object_enter(self);
	int ret;

	(void)none;
	if (!fs)
		return NULL;
	CALL(ret, afar_fs_sync(fs));
	return object_end(self, ret);
}

/* ---- The session's methods ------------------------------------------------------------------- */

PyObject *session_create_fs(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"name",	     "tier",	   "width", "stripe_bytes",
				"max_bytes", "max_inodes", "mode",  NULL};
	struct afar_policy pool = {.size = sizeof(pool)};
	struct afar_fs_policy policy = {
		.size = sizeof(policy), .pool = &pool, .uid = geteuid(), .gid = getegid()};
	const char *name;
	void *session;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|$O&O&O&O&O&O&:create_fs", names,
					 &name, convert_tier, &pool.tier, convert_u32, &pool.width,
					 convert_u64, &pool.stripe_bytes, convert_u64,
					 &pool.max_bytes, convert_u64, &policy.max_inodes,
					 convert_u32, &policy.mode) ||
	    !(session = object_enter(self)))
		return NULL;
	CALL(ret, afar_fs_create(session, name, &policy, NULL));
	return object_end(self, ret);
}

PyObject *session_delete_fs(PyObject *self, PyObject *argument)
{
	const char *name = take_text(argument);
	void *session = name ? object_enter(self) : NULL;
	int ret;

	if (!session)
		return NULL;
	CALL(ret, afar_fs_delete(session, name));
	return object_end(self, ret);
}

struct file_systems {
	void *session;
	struct afar_fs_stat stats[32];
	char after[AFAR_NAME_MAX + 1];
};

static long next_file_systems(void *state, PyObject *list)
{
	struct file_systems *all = state;
	int nr;

	all->stats[0].size = sizeof(all->stats[0]);
	CALL(nr, afar_fs_list(all->session, *all->after ? all->after : NULL, all->stats, 32));
	if (nr < 0)
		return error_raise(nr), -1;
	for (int i = 0; i < nr; i++) {
		if (list_add(list, stat_make(fs_fields, &all->stats[i])))
			return -1;
	}
	if (nr)
		memcpy(all->after, all->stats[nr - 1].name, sizeof(all->after));
	return nr;
}

PyObject *session_file_systems(PyObject *self, PyObject *none)
{
	(void)none;
	return object_list(self, next_file_systems, sizeof(struct file_systems));
}

static PyMethodDef fs_methods[] = {
	OBJECT_METHODS,
	{"statistics", fs_statistics, METH_NOARGS,
	 PyDoc_STR("statistics()\n--\n\nWhat room it has, and who has it open.")},
	{"sync", fs_sync, METH_NOARGS,
	 PyDoc_STR("sync()\n--\n\nMakes all that was written durable, if it is on flash.")},
	{"open_file", KEYWORD_METHOD(file_make),
	 PyDoc_STR("open_file(path, flags=os.O_RDONLY, mode=0o644, *, layout=None)\n--\n\n"
		   "Opens a file, with flags of os.open(). One that is made may get a layout: a "
		   "stripe "
		   "unit in bytes, and a number of servers; 0 is the file system's.")},
	FS_NAME_METHODS,
	{0},
};

static PyGetSetDef fs_getters[] = {OBJECT_GETTERS, {0}};

static PyType_Slot fs_slots[] = {
	{Py_tp_doc,
	 "FileSystem(session, name, *, read_only=False, retry=0)\n--\n\nAn open file system. "
	 "Paths are from its root."},
	{Py_tp_new, fs_new},
	{Py_tp_dealloc, object_dealloc},
	{Py_tp_methods, fs_methods},
	{Py_tp_getset, fs_getters},
	{0, NULL},
};

PyType_Spec fs_spec = {"afar._afar.FileSystem", sizeof(struct fs), 0,
		       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, fs_slots};
