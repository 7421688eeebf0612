/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes memory by the buffer protocol, and moves bytes from and to it. See buffers.h. */
#include "buffers.h"

#include <limits.h>

#include <afar/queue.h>

#include "convert.h"
#include "errors.h"

/* ---- Memory of others ------------------------------------------------------------------------ */

/* A torch tensor has no buffer, but shares its memory with a numpy array. NULL, with an exception. */
static PyObject *array_of_tensor(PyObject *object)
{
	PyObject *plain, *array;

	if (!PyObject_HasAttrString(object, "detach") || !PyObject_HasAttrString(object, "numpy")) {
		PyErr_Format(PyExc_TypeError, "a buffer is needed, such as bytes, bytearray or an "
					      "array, not %R",
			     (PyObject *)Py_TYPE(object));
		return NULL;
	}
	plain = PyObject_CallMethod(object, "detach", NULL);
	array = plain ? PyObject_CallMethod(plain, "numpy", NULL) : NULL;
	Py_XDECREF(plain);
	return array;
}

/* Says in one line why the memory cannot be taken. */
static int refuse(PyObject *object, bool is_target)
{
	Py_buffer view;
	bool is_whole;

	if (PyErr_ExceptionMatches(PyExc_MemoryError))
		return -1;
	PyErr_Clear();
	if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO))
		return -1;
	is_whole = PyBuffer_IsContiguous(&view, 'C');
	if (!is_whole)
		PyErr_SetString(PyExc_ValueError,
				is_target ? "the buffer is not contiguous: read into a contiguous "
					    "one, and copy that"
					  : "the buffer is not contiguous: give a contiguous copy, "
					    "such as numpy.ascontiguousarray() makes");
	else
		PyErr_SetString(PyExc_TypeError, "the buffer is read-only: give one that can be "
						 "written, such as a bytearray");
	PyBuffer_Release(&view);
	return -1;
}

int buffer_take(PyObject *object, bool is_target, Py_buffer *view)
{
	PyObject *array = NULL;
	int ret;

	if (!PyObject_CheckBuffer(object)) {
		array = array_of_tensor(object);
		if (!array)
			return -1;
		object = array;
	}
	ret = PyObject_GetBuffer(object, view, is_target ? PyBUF_WRITABLE : PyBUF_SIMPLE);
	if (ret)
		ret = refuse(object, is_target);
	Py_XDECREF(array); /* the view holds it */
	return ret;
}

/* ---- Memory of our own ----------------------------------------------------------------------- */

int buffer_lend(PyObject *self, Py_buffer *view, void *data, size_t length, bool is_read_only,
		int flags)
{
	if (PyBuffer_FillInfo(view, self, data, (Py_ssize_t)length, is_read_only, flags))
		return -1;
	((struct object *)self)->nr_views++;
	return 0;
}

void buffer_return(PyObject *self, Py_buffer *view)
{
	(void)view;
	((struct object *)self)->nr_views--;
}

/* ---- Methods --------------------------------------------------------------------------------- */

struct arguments {
	PyObject *buffer;
	uint64_t offset;
	unsigned flags;
};

static int take_named(struct arguments *out, const char *method, bool has_durable, PyObject *name,
		      PyObject *value)
{
	if (!PyUnicode_CompareWithASCIIString(name, "offset"))
		return take_u64(value, "offset", &out->offset);
	if (!out->buffer && !PyUnicode_CompareWithASCIIString(name, "buffer")) {
		out->buffer = value;
		return 0;
	}
	if (has_durable && !PyUnicode_CompareWithASCIIString(name, "durable")) {
		int is_durable = PyObject_IsTrue(value);

		out->flags = is_durable > 0 ? AFAR_OP_DURABLE : 0;
		return is_durable < 0 ? -1 : 0;
	}
	PyErr_Format(PyExc_TypeError, "%s() has no argument %R", method, name);
	return -1;
}

/* By hand, because it is on the data path: a buffer and an offset, by place or by name. */
static int take_arguments(struct arguments *out, const char *method, bool has_durable,
			  PyObject *const *args, Py_ssize_t nr, PyObject *names)
{
	Py_ssize_t nr_names = names ? PyTuple_Size(names) : 0;

	*out = (struct arguments){.buffer = nr > 0 ? args[0] : NULL};
	if (nr > 2) {
		PyErr_Format(PyExc_TypeError, "%s() takes a buffer and an offset, not %zd arguments",
			     method, nr);
		return -1;
	}
	if (nr == 2 && take_u64(args[1], "offset", &out->offset))
		return -1;
	for (Py_ssize_t i = 0; i < nr_names; i++) {
		if (take_named(out, method, has_durable, PyTuple_GetItem(names, i), args[nr + i]))
			return -1;
	}
	if (out->buffer)
		return 0;
	PyErr_Format(PyExc_TypeError, "%s() needs a buffer", method);
	return -1;
}

PyObject *transfer_read_into(PyObject *self, const struct transfer_calls *calls,
			     PyObject *const *args, Py_ssize_t nr, PyObject *names)
{
	struct arguments arguments;
	PyObject *result = NULL;
	Py_buffer view;
	void *handle;
	ssize_t ret;

	if (take_arguments(&arguments, "read_into", false, args, nr, names) ||
	    buffer_take(arguments.buffer, true, &view))
		return NULL;
	handle = object_enter(self);
	if (handle) {
		CALL(ret, calls->read(handle, view.buf, (size_t)view.len, arguments.offset));
		result = ret < 0 ? error_raise(ret) : PyLong_FromSsize_t(ret);
		object_leave(self);
	}
	PyBuffer_Release(&view);
	return result;
}

PyObject *transfer_write(PyObject *self, const struct transfer_calls *calls, PyObject *const *args,
			 Py_ssize_t nr, PyObject *names)
{
	struct arguments arguments;
	PyObject *result = NULL;
	Py_buffer view;
	void *handle;
	ssize_t ret;

	if (take_arguments(&arguments, "write", calls->has_durable, args, nr, names) ||
	    buffer_take(arguments.buffer, false, &view))
		return NULL;
	handle = object_enter(self);
	if (handle) {
		CALL(ret, calls->write(handle, view.buf, (size_t)view.len, arguments.offset,
				       arguments.flags));
		result = ret < 0 ? error_raise(ret) : PyLong_FromSsize_t(ret);
		object_leave(self);
	}
	PyBuffer_Release(&view);
	return result;
}

PyObject *transfer_bytes(PyObject *self, const struct transfer_calls *calls, size_t length,
			 uint64_t offset)
{
	PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
	void *handle = bytes ? object_enter(self) : NULL;
	ssize_t ret;

	if (!handle) {
		Py_XDECREF(bytes);
		return NULL;
	}
	CALL(ret, calls->read(handle, PyBytes_AsString(bytes), length, offset));
	if (ret < 0) {
		Py_CLEAR(bytes);
		error_raise(ret);
	} else if ((size_t)ret < length) { /* the end of a file */
		PyObject *whole = bytes;

		bytes = PyBytes_FromStringAndSize(PyBytes_AsString(whole), ret);
		Py_DECREF(whole);
	}
	object_leave(self);
	return bytes;
}

PyObject *transfer_read(PyObject *self, const struct transfer_calls *calls, PyObject *arguments,
			PyObject *keywords)
{
	static char *names[] = {"length", "offset", NULL};
	PyObject *length_given, *offset_given = NULL;
	uint64_t length, offset = 0;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|O:read", names, &length_given,
					 &offset_given) ||
	    take_u64(length_given, "length", &length) ||
	    (offset_given && take_u64(offset_given, "offset", &offset)))
		return NULL;
	if (length > PY_SSIZE_T_MAX)
		return PyErr_NoMemory();
	return transfer_bytes(self, calls, (size_t)length, offset);
}
