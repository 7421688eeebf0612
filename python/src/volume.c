/* SPDX-License-Identifier: BSD-3-Clause */
/* afar.Volume, and the session's methods about volumes. */
#include <afar/volume.h>

#include <string.h>

#include "buffers.h"
#include "errors.h"
#include "session.h"

static const struct field volume_fields[] = {
	FIELD(struct afar_volume_stat, name, FIELD_TEXT),
	FIELD(struct afar_volume_stat, bytes, FIELD_U64),
	FIELD(struct afar_volume_stat, stripe_bytes, FIELD_U64),
	FIELD(struct afar_volume_stat, tier, FIELD_TIER),
	FIELD(struct afar_volume_stat, width, FIELD_U32),
	FIELD(struct afar_volume_stat, rights, FIELD_U32),
	FIELD(struct afar_volume_stat, nr_readers, FIELD_U32),
	FIELD(struct afar_volume_stat, nr_writers, FIELD_U32),
	FIELD(struct afar_volume_stat, is_exclusive, FIELD_BOOL8),
	FIELD(struct afar_volume_stat, is_unfinished, FIELD_BOOL8),
	FIELD(struct afar_volume_stat, is_lost, FIELD_BOOL8),
	FIELD(struct afar_volume_stat, owner, FIELD_TEXT),
	FIELD(struct afar_volume_stat, holder, FIELD_TEXT),
	{0},
};

static int volume_close(struct object *object)
{
	return afar_volume_close(object->handle);
}

static const struct object_kind volume_kind = {"volume", volume_close, NULL};

static int convert_mode(PyObject *object, void *out)
{
	static const struct {
		const char *name;
		enum afar_volume_mode mode;
	} modes[] = {{"exclusive", AFAR_VOLUME_EXCLUSIVE},
		     {"shared", AFAR_VOLUME_SHARED},
		     {"read-only", AFAR_VOLUME_READ_ONLY}};

	for (size_t i = 0; PyUnicode_Check(object) && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (PyUnicode_CompareWithASCIIString(object, modes[i].name))
			continue;
		*(uint32_t *)out = modes[i].mode;
		return 1;
	}
	PyErr_Format(PyExc_ValueError, "mode is %R: it can be 'exclusive', 'shared' or 'read-only'",
		     object);
	return 0;
}

static PyObject *volume_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"session", "name", "mode", "retry", "take_over", NULL};
	struct afar_volume_options options = {.size = sizeof(options)};
	struct afar_volume *volume = NULL;
	PyObject *parent, *self = NULL;
	int takes_over = 0, ret;
	const char *name;
	void *session;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!s|O&$O&p:Volume", names,
					 session_type, &parent, &name, convert_mode, &options.mode,
					 convert_timeout, &options.retry_ms, &takes_over) ||
	    !(session = object_enter(parent)))
		return NULL;
	options.flags = takes_over ? AFAR_VOLUME_TAKE_OVER : 0;
	CALL(ret, afar_volume_open(session, name, &options, &volume));
	if (ret < 0)
		error_raise(ret);
	else if ((self = PyType_GenericAlloc(type, 0)))
		object_open((struct object *)self, &volume_kind, volume, (struct object *)parent);
	else
		afar_volume_close(volume);
	object_leave(parent);
	return self;
}

/* ---- Its bytes ------------------------------------------------------------------------------- */

static ssize_t read_volume(void *handle, void *data, size_t length, uint64_t offset)
{
	return afar_volume_pread(handle, data, length, offset);
}

static ssize_t write_volume(void *handle, const void *data, size_t length, uint64_t offset,
			    unsigned flags)
{
	return afar_volume_pwrite(handle, data, length, offset, flags);
}

static const struct transfer_calls volume_calls = {read_volume, write_volume, true};

static PyObject *volume_read_into(PyObject *self, PyObject *const *args, Py_ssize_t nr,
				  PyObject *names)
{
	return transfer_read_into(self, &volume_calls, args, nr, names);
}

static PyObject *volume_write(PyObject *self, PyObject *const *args, Py_ssize_t nr, PyObject *names)
{
	return transfer_write(self, &volume_calls, args, nr, names);
}

static PyObject *volume_read(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	return transfer_read(self, &volume_calls, arguments, keywords);
}

static PyObject *do_range(PyObject *self, PyObject *args, const char *format,
			  int (*call)(struct afar_volume *, uint64_t, uint64_t, unsigned))
{
	uint64_t offset, length;
	void *volume;
	int ret;

	if (!PyArg_ParseTuple(args, format, convert_u64, &offset, convert_u64, &length) ||
	    !(volume = object_enter(self)))
		return NULL;
	CALL(ret, call(volume, offset, length, 0));
	return object_end(self, ret);
}

static PyObject *volume_zero(PyObject *self, PyObject *args)
{
	return do_range(self, args, "O&O&:zero", afar_volume_zero);
}

static PyObject *volume_trim(PyObject *self, PyObject *args)
{
	return do_range(self, args, "O&O&:trim", afar_volume_trim);
}

static PyObject *volume_sync(PyObject *self, PyObject *none)
{
	void *volume = object_enter(self);
	int ret;

	(void)none;
	if (!volume)
		return NULL;
	CALL(ret, afar_volume_sync(volume));
	return object_end(self, ret);
}

static PyObject *volume_stat(PyObject *self, PyObject *none)
{
	struct afar_volume_stat stat = {.size = sizeof(stat)};
	void *volume = object_enter(self);
	PyObject *result;
	int ret;

	(void)none;
	if (!volume)
		return NULL;
	CALL(ret, afar_volume_stat(volume, &stat));
	result = ret < 0 ? error_raise(ret) : stat_make(volume_fields, &stat);
	object_leave(self);
	return result;
}

/* ---- The session's methods ------------------------------------------------------------------- */

PyObject *session_create_volume(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"name", "bytes", "tier", "width", "stripe_bytes", NULL};
	struct afar_policy policy = {.size = sizeof(policy)};
	const char *name;
	uint64_t bytes;
	void *session;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "sO&|$O&O&O&:create_volume", names,
					 &name, convert_u64, &bytes, convert_tier, &policy.tier,
					 convert_u32, &policy.width, convert_u64,
					 &policy.stripe_bytes) ||
	    !(session = object_enter(self)))
		return NULL;
	CALL(ret, afar_volume_create(session, name, bytes, &policy, NULL));
	return object_end(self, ret);
}

PyObject *session_resize_volume(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"name", "bytes", NULL};
	const char *name;
	uint64_t bytes;
	void *session;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "sO&:resize_volume", names, &name,
					 convert_u64, &bytes) ||
	    !(session = object_enter(self)))
		return NULL;
	CALL(ret, afar_volume_resize(session, name, bytes));
	return object_end(self, ret);
}

PyObject *session_delete_volume(PyObject *self, PyObject *argument)
{
	const char *name = take_text(argument);
	void *session = name ? object_enter(self) : NULL;
	int ret;

	if (!session)
		return NULL;
	CALL(ret, afar_volume_delete(session, name));
	return object_end(self, ret);
}

struct volumes {
	void *session;
	struct afar_volume_stat stats[32];
	char after[AFAR_NAME_MAX + 1];
};

static long next_volumes(void *state, PyObject *list)
{
	struct volumes *all = state;
	int nr;

	all->stats[0].size = sizeof(all->stats[0]);
	CALL(nr, afar_volume_list(all->session, *all->after ? all->after : NULL, all->stats, 32));
	if (nr < 0)
		return error_raise(nr), -1;
	for (int i = 0; i < nr; i++) {
		if (list_add(list, stat_make(volume_fields, &all->stats[i])))
			return -1;
	}
	if (nr)
		memcpy(all->after, all->stats[nr - 1].name, sizeof(all->after));
	return nr;
}

PyObject *session_volumes(PyObject *self, PyObject *none)
{
	(void)none;
	return object_list(self, next_volumes, sizeof(struct volumes));
}

static PyMethodDef volume_methods[] = {
	OBJECT_METHODS,
	{"read_into", FAST_METHOD(volume_read_into), READ_INTO_DOC},
	{"write", FAST_METHOD(volume_write),
	 PyDoc_STR(
		 "write(buffer, offset=0, durable=False)\n--\n\nWrites all of the buffer, without "
		 "a copy; with `durable` it outlives loss of power. Returns how many bytes.")},
	{"read", KEYWORD_METHOD(volume_read), READ_DOC},
	{"zero", volume_zero, METH_VARARGS,
	 PyDoc_STR("zero(offset, length)\n--\n\nHas a range read as zeros.")},
	{"trim", volume_trim, METH_VARARGS,
	 PyDoc_STR("trim(offset, length)\n--\n\nGives a range's blocks back.")},
	{"sync", volume_sync, METH_NOARGS,
	 PyDoc_STR("sync()\n--\n\nMakes durable what was written, if it is on flash.")},
	{"stat", volume_stat, METH_NOARGS, PyDoc_STR("stat()\n--\n\nDescribes it as it is now.")},
	{0},
};

static PyGetSetDef volume_getters[] = {OBJECT_GETTERS, {0}};

static PyType_Slot volume_slots[] = {
	{Py_tp_doc, "Volume(session, name, mode='exclusive', *, retry=0, take_over=False)\n--\n\n"
		    "An open volume: a remote disk."},
	{Py_tp_new, volume_new},
	{Py_tp_dealloc, object_dealloc},
	{Py_tp_methods, volume_methods},
	{Py_tp_getset, volume_getters},
	{0, NULL},
};

PyType_Spec volume_spec = {"afar._afar.Volume", sizeof(struct object), 0, Py_TPFLAGS_DEFAULT,
			   volume_slots};
