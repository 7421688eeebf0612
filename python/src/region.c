/* SPDX-License-Identifier: BSD-3-Clause */
/* afar.Region: read, written, sliced, sealed. Namespaces make them. */
#include "region.h"

#include <afar/queue.h>

#include "buffers.h"
#include "errors.h"

const struct field region_fields[] = {
	FIELD(struct afar_region_stat, address, FIELD_U64),
	FIELD(struct afar_region_stat, length, FIELD_U64),
	FIELD(struct afar_region_stat, name, FIELD_TEXT),
	FIELD(struct afar_region_stat, width, FIELD_U32),
	FIELD(struct afar_region_stat, nr_references, FIELD_U32),
	FIELD(struct afar_region_stat, stripe_bytes, FIELD_U64),
	FIELD(struct afar_region_stat, is_lost, FIELD_BOOL32),
	FIELD(struct afar_region_stat, rights, FIELD_U32),
	FIELD(struct afar_region_stat, is_sealed, FIELD_BOOL32),
	FIELD(struct afar_region_stat, is_unfinished, FIELD_BOOL32),
	FIELD(struct afar_region_stat, version, FIELD_U64),
	{0},
};

struct region {
	struct object object;
	uint64_t length;
};

static int region_close(struct object *object)
{
	return afar_region_close(object->handle);
}

static const struct object_kind region_kind = {"region", region_close, NULL};

PyObject *region_make(struct afar_region *region, PyObject *ns)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};
	PyObject *self = NULL;
	int ret;

	CALL(ret, afar_region_stat(region, &stat));
	if (ret < 0)
		error_raise(ret);
	else
		self = PyType_GenericAlloc(region_type, 0);
	if (!self) {
		CALL(ret, afar_region_close(region));
		return NULL;
	}
	object_open((struct object *)self, &region_kind, region, (struct object *)ns);
	((struct region *)self)->length = stat.length;
	return self;
}

uint64_t region_length(PyObject *region)
{
	return ((struct region *)region)->length;
}

/* ---- Reading and writing --------------------------------------------------------------------- */

static ssize_t read_region(void *handle, void *data, size_t length, uint64_t offset)
{
	return afar_region_pread(handle, data, length, offset);
}

static ssize_t write_region(void *handle, const void *data, size_t length, uint64_t offset,
			    unsigned flags)
{
	(void)flags;
	return afar_region_pwrite(handle, data, length, offset);
}

static const struct transfer_calls region_calls = {read_region, write_region, false};

static PyObject *region_read_into(PyObject *self, PyObject *const *args, Py_ssize_t nr,
				  PyObject *names)
{
	return transfer_read_into(self, &region_calls, args, nr, names);
}

static PyObject *region_write(PyObject *self, PyObject *const *args, Py_ssize_t nr, PyObject *names)
{
	return transfer_write(self, &region_calls, args, nr, names);
}

static PyObject *region_read(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	return transfer_read(self, &region_calls, arguments, keywords);
}

/* ---- region[a:b] ----------------------------------------------------------------------------- */

static Py_ssize_t region_size(PyObject *self)
{
	if (!((struct object *)self)->handle) {
		error_closed("region");
		return -1;
	}
	if (region_length(self) > PY_SSIZE_T_MAX) {
		PyErr_SetString(PyExc_OverflowError, "the region is longer than len() can say");
		return -1;
	}
	return (Py_ssize_t)region_length(self);
}

/* A slice without a step, or one byte by its number. From the end if it is negative, as in any
 * sequence. */
static int take_range(PyObject *self, PyObject *key, Py_ssize_t *start, Py_ssize_t *length)
{
	Py_ssize_t size = region_size(self), stop, step;

	if (size < 0)
		return -1;
	if (PySlice_Check(key)) {
		if (PySlice_Unpack(key, start, &stop, &step))
			return -1;
		if (step != 1) {
			PyErr_SetString(PyExc_ValueError, "slices of a region have no step: read the "
							  "range, and slice that");
			return -1;
		}
		*length = PySlice_AdjustIndices(size, start, &stop, step);
		return 0;
	}
	*start = PyNumber_AsSsize_t(key, PyExc_IndexError);
	if (*start == -1 && PyErr_Occurred())
		return -1;
	*start += *start < 0 ? size : 0;
	*length = 1;
	if (*start >= 0 && *start < size)
		return 0;
	PyErr_Format(PyExc_IndexError, "byte %R of a region of %zd", key, size);
	return -1;
}

static PyObject *region_get(PyObject *self, PyObject *key)
{
	PyObject *bytes, *byte;
	Py_ssize_t start, length;

	if (take_range(self, key, &start, &length))
		return NULL;
	bytes = transfer_bytes(self, &region_calls, (size_t)length, (uint64_t)start);
	if (!bytes || PySlice_Check(key))
		return bytes;
	byte = PyLong_FromLong((unsigned char)*PyBytes_AsString(bytes));
	Py_DECREF(bytes);
	return byte;
}

static int put_bytes(PyObject *self, const void *data, size_t length, Py_ssize_t start)
{
	void *region = object_enter(self);
	ssize_t ret;

	if (!region)
		return -1;
	CALL(ret, afar_region_pwrite(region, data, length, (uint64_t)start));
	object_leave(self);
	if (ret < 0)
		error_raise(ret);
	return ret < 0 ? -1 : 0;
}

static int region_set(PyObject *self, PyObject *key, PyObject *value)
{
	Py_ssize_t start, length;
	Py_buffer view;
	int ret = -1;

	if (!value) {
		PyErr_SetString(PyExc_TypeError, "a region's bytes can be written, not deleted");
		return -1;
	}
	if (take_range(self, key, &start, &length))
		return -1;
	if (!PySlice_Check(key)) {
		long number = PyLong_AsLong(value);
		unsigned char byte = (unsigned char)number;

		if (number == -1 && PyErr_Occurred())
			return -1;
		if (number == byte)
			return put_bytes(self, &byte, 1, start);
		PyErr_Format(PyExc_ValueError, "a byte is 0 to 255, not %ld", number);
		return -1;
	}
	if (buffer_take(value, false, &view))
		return -1;
	if (view.len == length)
		ret = put_bytes(self, view.buf, (size_t)length, start);
	else
		PyErr_Format(PyExc_ValueError,
			     "%zd bytes for a slice of %zd: a region does not change its length",
			     view.len, length);
	PyBuffer_Release(&view);
	return ret;
}

/* ---- Atomics, and what ends or seals it ------------------------------------------------------ */

static PyObject *region_fetch_add(PyObject *self, PyObject *args)
{
	uint64_t offset, operand, before;
	void *region;
	int ret;

	if (!PyArg_ParseTuple(args, "O&O&:fetch_add", convert_u64, &offset, convert_u64,
			      &operand) ||
	    !(region = object_enter(self)))
		return NULL;
	CALL(ret, afar_region_fetch_add(region, offset, operand, &before));
	object_leave(self);
	return ret < 0 ? error_raise(ret) : PyLong_FromUnsignedLongLong(before);
}

static PyObject *region_compare_swap(PyObject *self, PyObject *args)
{
	uint64_t offset, compare, operand, before;
	void *region;
	int ret;

	if (!PyArg_ParseTuple(args, "O&O&O&:compare_swap", convert_u64, &offset, convert_u64,
			      &compare, convert_u64, &operand) ||
	    !(region = object_enter(self)))
		return NULL;
	CALL(ret, afar_region_compare_swap(region, offset, compare, operand, &before));
	object_leave(self);
	return ret < 0 ? error_raise(ret) : PyLong_FromUnsignedLongLong(before);
}

static PyObject *region_stat(PyObject *self, PyObject *none)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};
	void *region = object_enter(self);
	PyObject *result;
	int ret;

	(void)none;
	if (!region)
		return NULL;
	CALL(ret, afar_region_stat(region, &stat));
	result = ret < 0 ? error_raise(ret) : stat_make(region_fields, &stat);
	object_leave(self);
	return result;
}

static PyObject *do_call(PyObject *self, int (*call)(struct afar_region *region))
{
	void *region = object_enter(self);
	int ret;

	if (!region)
		return NULL;
	CALL(ret, call(region));
	return object_end(self, ret);
}

static PyObject *region_sync(PyObject *self, PyObject *none)
{
	(void)none;
	return do_call(self, afar_region_sync);
}

static PyObject *region_seal(PyObject *self, PyObject *none)
{
	(void)none;
	return do_call(self, afar_region_seal);
}

static PyObject *region_finish(PyObject *self, PyObject *none)
{
	(void)none;
	return do_call(self, afar_region_finish);
}

static PyObject *region_destroy(PyObject *self, PyObject *none)
{
	(void)none;
	return do_call(self, afar_region_destroy);
}

static PyObject *region_verify(PyObject *self, PyObject *none)
{
	void *region = object_enter(self);
	uint64_t bad;
	int ret;

	(void)none;
	if (!region)
		return NULL;
	CALL(ret, afar_region_verify(region, 0, region_length(self), &bad));
	return object_end(self, ret);
}

static PyMethodDef region_methods[] = {
	OBJECT_METHODS,
	{"read_into", FAST_METHOD(region_read_into), READ_INTO_DOC},
	{"write", FAST_METHOD(region_write), WRITE_DOC},
	{"read", KEYWORD_METHOD(region_read), READ_DOC},
	{"attach", KEYWORD_METHOD(attachment_make),
	 PyDoc_STR("attach(offset=0, length=None, *, writable=False)\n--\n\nThe memory itself, where "
		   "its servers are on this machine: memoryview() of that copies nothing.")},
	{"fetch_add", region_fetch_add, METH_VARARGS,
	 PyDoc_STR("fetch_add(offset, operand)\n--\n\nAdds to a 64-bit word, at once for all. "
		   "Returns what it was.")},
	{"compare_swap", region_compare_swap, METH_VARARGS,
	 PyDoc_STR("compare_swap(offset, compare, operand)\n--\n\nSets a 64-bit word to `operand` "
		   "if it is `compare`. Returns what it was.")},
	{"stat", region_stat, METH_NOARGS, PyDoc_STR("stat()\n--\n\nWhat the manager knows of it.")},
	{"sync", region_sync, METH_NOARGS,
	 PyDoc_STR("sync()\n--\n\nMakes it durable, if it is on flash.")},
	{"seal", region_seal, METH_NOARGS,
	 PyDoc_STR("seal()\n--\n\nMakes it immutable, for good and for everybody.")},
	{"verify", region_verify, METH_NOARGS,
	 PyDoc_STR("verify()\n--\n\nCompares a sealed region with its sums.")},
	{"finish", region_finish, METH_NOARGS,
	 PyDoc_STR("finish()\n--\n\nSays that a temporary or unfinished one is complete.")},
	{"destroy", region_destroy, METH_NOARGS, PyDoc_STR("destroy()\n--\n\nFrees it, for all.")},
	{0},
};

static PyGetSetDef region_getters[] = {OBJECT_GETTERS, {0}};

static PyType_Slot region_slots[] = {
	{Py_tp_doc, "An open region: bytes of other machines' memory. Namespace.create() and "
		    "Namespace.open() make it."},
	{Py_tp_dealloc, object_dealloc},
	{Py_tp_methods, region_methods},
	{Py_tp_getset, region_getters},
	{Py_mp_length, region_size},
	{Py_mp_subscript, region_get},
	{Py_mp_ass_subscript, region_set},
	{0, NULL},
};

PyType_Spec region_spec = {"afar._afar.Region", sizeof(struct region), 0,
			   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, region_slots};
