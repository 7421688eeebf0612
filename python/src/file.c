/* SPDX-License-Identifier: BSD-3-Clause */
/* afar.File: an open file. Python's part makes io streams of it. */
#include <errno.h>
#include <fcntl.h>

#include "buffers.h"
#include "errors.h"
#include "fs.h"

static int file_close(struct object *object)
{
	return afar_file_close(object->handle);
}

static const struct object_kind file_kind = {"file", file_close, NULL};

static int open_path(const struct fs *fs, const struct path *path, int flags,
		     const struct afar_open_options *options, struct afar_file **out)
{
	struct afar_file_stat stat;
	uint64_t dir;
	int ret;

	if (flags & O_CREAT) {
		ret = path_walk_dir(fs, path, &dir);
		if (ret == 0 && (options->width || options->stripe_bytes))
			return afar_file_open_path(fs->object.handle, NULL, dir, path->name, flags,
						   options, out);
		return ret < 0 ? ret
			       : afar_file_create(fs->object.handle, NULL, dir, path->name,
						  options->mode, flags, out, NULL);
	}
	ret = path_walk(fs, path, flags & O_NOFOLLOW ? AFAR_WALK_NOFOLLOW : 0, &stat);
	return ret < 0 ? ret : afar_file_open(fs->object.handle, NULL, stat.ino, flags, out);
}

/* "O&": None, or a stripe unit in bytes and a number of servers. */
static int convert_layout(PyObject *object, void *out)
{
	struct afar_open_options *options = out;

	if (object == Py_None)
		return 1;
	if (!PyTuple_Check(object)) {
		PyErr_SetString(
			PyExc_TypeError,
			"layout: a tuple of bytes and servers, each 0 for the file system's");
		return 0;
	}
	return PyArg_ParseTuple(object, "O&O&:layout", convert_u64, &options->stripe_bytes,
				convert_u32, &options->width);
}

PyObject *file_make(PyObject *fs, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"path", "flags", "mode", "layout", NULL};
	struct afar_open_options options = {.size = sizeof(options), .mode = 0644};
	struct path path = {0};
	struct afar_file *file = NULL;
	PyObject *self = NULL;
	int flags = O_RDONLY, ret;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O&|iO&$O&:open_file", names,
					 path_convert, &path, &flags, convert_u32, &options.mode,
					 convert_layout, &options))
		return NULL;
	options.mode &= 07777;
	if ((flags & O_CREAT && path_need_name(&path, -EISDIR)) || !object_enter(fs))
		goto out;
	CALL(ret, open_path((struct fs *)fs, &path, flags, &options, &file));
	if (ret < 0)
		error_raise(ret);
	else if ((self = PyType_GenericAlloc(file_type, 0)))
		object_open((struct object *)self, &file_kind, file, (struct object *)fs);
	else
		afar_file_close(file);
	object_leave(fs);
out:
	path_free(&path);
	return self;
}

/* ---- Its bytes ------------------------------------------------------------------------------- */

static ssize_t read_file(void *handle, void *data, size_t length, uint64_t offset)
{
	return afar_file_pread(handle, data, length, offset);
}

static ssize_t write_file(void *handle, const void *data, size_t length, uint64_t offset,
			  unsigned flags)
{
	(void)flags;
	return afar_file_pwrite(handle, data, length, offset);
}

static const struct transfer_calls file_calls = {read_file, write_file, false};

static PyObject *file_read_into(PyObject *self, PyObject *const *args, Py_ssize_t nr,
				PyObject *names)
{
	return transfer_read_into(self, &file_calls, args, nr, names);
}

static PyObject *file_write(PyObject *self, PyObject *const *args, Py_ssize_t nr, PyObject *names)
{
	return transfer_write(self, &file_calls, args, nr, names);
}

static PyObject *file_read(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	return transfer_read(self, &file_calls, arguments, keywords);
}

static PyObject *file_append(PyObject *self, PyObject *buffer)
{
	PyObject *result = NULL;
	uint64_t offset;
	Py_buffer view;
	ssize_t ret;
	void *file;

	if (buffer_take(buffer, false, &view))
		return NULL;
	file = object_enter(self);
	if (file) {
		CALL(ret, afar_file_append(file, view.buf, (size_t)view.len, 0, &offset));
		result = ret < 0 ? error_raise(ret) : PyLong_FromUnsignedLongLong(offset);
		object_leave(self);
	}
	PyBuffer_Release(&view);
	return result;
}

/* ---- About it -------------------------------------------------------------------------------- */

static PyObject *file_stat(PyObject *self, PyObject *none)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	void *file = object_enter(self);
	PyObject *result;
	int ret;

	(void)none;
	if (!file)
		return NULL;
	CALL(ret, afar_file_stat(file, &stat));
	result = ret < 0 ? error_raise(ret) : stat_make(file_fields, &stat);
	object_leave(self);
	return result;
}

static PyObject *file_truncate(PyObject *self, PyObject *argument)
{
	uint64_t bytes;
	void *file;
	int ret;

	if (take_u64(argument, "bytes", &bytes) || !(file = object_enter(self)))
		return NULL;
	CALL(ret, afar_file_truncate(file, bytes));
	return object_end(self, ret);
}

static PyObject *file_sync(PyObject *self, PyObject *none)
{
	void *file = object_enter(self);
	int ret;

	(void)none;
	if (!file)
		return NULL;
	CALL(ret, afar_file_sync(file));
	return object_end(self, ret);
}

static PyObject *file_flush(PyObject *self, PyObject *none)
{
	void *file = object_enter(self);
	int ret;

	(void)none;
	if (!file)
		return NULL;
	CALL(ret, afar_file_flush(file));
	return object_end(self, ret);
}

static PyObject *file_read_ahead(PyObject *self, PyObject *argument)
{
	int is_sequential = PyObject_IsTrue(argument), ret;
	void *file = is_sequential < 0 ? NULL : object_enter(self);

	if (!file)
		return NULL;
	CALL(ret,
	     afar_file_advise(file, is_sequential ? AFAR_ADVICE_SEQUENTIAL : AFAR_ADVICE_NORMAL));
	return object_end(self, ret);
}

static PyMethodDef file_methods[] = {
	OBJECT_METHODS,
	{"read_into", FAST_METHOD(file_read_into),
	 PyDoc_STR(
		 "read_into(buffer, offset=0)\n--\n\nReads without a copy. Returns how many bytes: "
		 "fewer than the buffer has at the end of the file alone.")},
	{"write", FAST_METHOD(file_write), WRITE_DOC},
	{"read", KEYWORD_METHOD(file_read), READ_DOC},
	{"append", file_append, METH_O,
	 PyDoc_STR("append(buffer)\n--\n\nWrites at the end. Returns where that was.")},
	{"stat", file_stat, METH_NOARGS, PyDoc_STR("stat()\n--\n\nDescribes it as it is now.")},
	{"truncate", file_truncate, METH_O,
	 PyDoc_STR("truncate(bytes)\n--\n\nMakes it shorter, or longer with zeros.")},
	{"sync", file_sync, METH_NOARGS,
	 PyDoc_STR("sync()\n--\n\nMakes durable what was written, if it is on flash.")},
	{"flush", file_flush, METH_NOARGS,
	 PyDoc_STR("flush()\n--\n\nHas everybody see its size and times.")},
	{"read_ahead", file_read_ahead, METH_O,
	 PyDoc_STR("read_ahead(is_on)\n--\n\nSays that it is read from front to back.")},
	{0},
};

static PyGetSetDef file_getters[] = {OBJECT_GETTERS, {0}};

static PyType_Slot file_slots[] = {
	{Py_tp_doc,
	 "An open file. FileSystem.open_file() makes it; FileSystem.open() makes a stream."},
	{Py_tp_dealloc, object_dealloc},
	{Py_tp_methods, file_methods},
	{Py_tp_getset, file_getters},
	{0, NULL},
};

PyType_Spec file_spec = {"afar._afar.File", sizeof(struct object), 0,
			 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, file_slots};
