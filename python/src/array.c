/* SPDX-License-Identifier: BSD-3-Clause */
/* afar.Array's part in C: arrays in regions and files, and parts of them as they lie in memory that has Python's buffer protocol. Python's
 * part is in afar/array.py: indexes, and numpy's arrays and types. */
#include <string.h>

#include <afar/array.h>

#include "convert.h"
#include "errors.h"
#include "object.h"

#define DIMENSIONS_MAX AFAR_ARRAY_DIMENSIONS_MAX

static int array_close(struct object *object)
{
	return afar_array_close(object->handle);
}

static const struct object_kind array_kind = {"array", array_close, NULL};

/* ---- Arguments ------------------------------------------------------------------------------- */

/* Takes a tuple of numbers. Returns how many, or -1 with an exception. */
static int take_numbers(PyObject *tuple, const char *name, uint64_t out[DIMENSIONS_MAX])
{
	Py_ssize_t nr = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;

	if (nr < 0 || nr > DIMENSIONS_MAX) {
		PyErr_Format(PyExc_ValueError, "%s is %R: a tuple of at most %d numbers is needed",
			     name, tuple, DIMENSIONS_MAX);
		return -1;
	}
	for (Py_ssize_t i = 0; i < nr; i++)
		if (take_u64(PyTuple_GetItem(tuple, i), name, &out[i]))
			return -1;
	return (int)nr;
}

static int take_strides(PyObject *tuple, int nr, int64_t out[DIMENSIONS_MAX])
{
	if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != nr) {
		PyErr_SetString(PyExc_ValueError, "there is not a stride for each dimension");
		return -1;
	}
	for (int i = 0; i < nr; i++) {
		out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
		if (out[i] == -1 && PyErr_Occurred())
			return -1;
	}
	return 0;
}

/* For "O&": extent, block, bytes of a record, flags, type. */
static int convert_shape(PyObject *object, void *out)
{
	struct afar_array_shape *shape = out;
	PyObject *extent, *block;
	const char *type;
	int nr, nr_blocks;

	*shape = (struct afar_array_shape){.size = sizeof(*shape)};
	if (!PyTuple_Check(object)) {
		PyErr_SetString(PyExc_TypeError, "a shape is a tuple");
		return 0;
	}
	if (!PyArg_ParseTuple(object, "OOO&O&s", &extent, &block, convert_u64, &shape->record_bytes,
			      convert_u32, &shape->flags, &type))
		return 0;
	nr = take_numbers(extent, "shape", shape->extent);
	nr_blocks = nr < 0 ? -1 : take_numbers(block, "block", shape->block);
	if (nr_blocks < 0)
		return 0;
	if ((nr_blocks != 0 && nr_blocks != nr) || strlen(type) > AFAR_ARRAY_TYPE_MAX) {
		PyErr_Format(PyExc_ValueError,
			     nr_blocks != 0 && nr_blocks != nr
				     ? "there is not a block for each dimension"
				     : "the type is too long for an array: %s",
			     type);
		return 0;
	}
	shape->nr_dimensions = (uint32_t)nr;
	strcpy(shape->type, type);
	return 1;
}

/* ---- Making and opening ---------------------------------------------------------------------- */

static int open_array(void *place, bool is_file, const struct afar_array_shape *shape,
		      struct afar_array **out)
{
	if (shape)
		return is_file ? afar_array_create_file(place, shape, out)
			       : afar_array_create(place, shape, out);
	return is_file ? afar_array_open_file(place, out) : afar_array_open(place, out);
}

static PyObject *array_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"place", "shape", NULL};
	struct afar_array_shape shape = {0};
	struct afar_array *array = NULL;
	PyObject *place, *self = NULL;
	int is_file, ret;
	void *handle;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|O&:Array", names, &place,
					 convert_shape, &shape))
		return NULL;
	is_file = PyObject_IsInstance(place, (PyObject *)file_type);
	if (is_file < 0 || (!is_file && !object_of(place, region_type)) ||
	    !(handle = object_enter(place)))
		return NULL;
	CALL(ret, open_array(handle, is_file, shape.size ? &shape : NULL, &array));
	if (ret < 0)
		error_raise(ret);
	else if ((self = PyType_GenericAlloc(type, 0)))
		object_open((struct object *)self, &array_kind, array, (struct object *)place);
	else
		afar_array_close(array);
	object_leave(place);
	return self;
}

static PyObject *array_bytes(PyObject *none, PyObject *argument)
{
	struct afar_array_shape shape;
	uint64_t bytes;
	int ret;

	(void)none;
	if (!convert_shape(argument, &shape))
		return NULL;
	ret = afar_array_bytes(&shape, &bytes);
	return ret < 0 ? error_raise(ret) : PyLong_FromUnsignedLongLong(bytes);
}

static PyObject *numbers_make(const uint64_t *numbers, unsigned nr)
{
	PyObject *tuple = PyTuple_New(nr);

	for (unsigned i = 0; i < nr && tuple; i++) {
		PyObject *number = PyLong_FromUnsignedLongLong(numbers[i]);

		if (!number || PyTuple_SetItem(tuple, i, number))
			Py_CLEAR(tuple);
	}
	return tuple;
}

static PyObject *array_describe(PyObject *self, PyObject *none)
{
	struct afar_array_shape shape = {.size = sizeof(shape)};
	PyObject *extent = NULL, *block = NULL, *result = NULL;
	void *array = object_enter(self);
	int ret;

	(void)none;
	if (!array)
		return NULL;
	ret = afar_array_stat(array, &shape);
	if (ret < 0) {
		error_raise(ret);
	} else {
		extent = numbers_make(shape.extent, shape.nr_dimensions);
		block = numbers_make(shape.block, shape.nr_dimensions);
		if (extent && block)
			result = Py_BuildValue("OOKIs", extent, block,
					       (unsigned long long)shape.record_bytes, shape.flags,
					       shape.type);
		Py_XDECREF(extent);
		Py_XDECREF(block);
	}
	object_leave(self);
	return result;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

struct part {
	struct afar_slab slab;
	int64_t memory_strides[DIMENSIONS_MAX];
	Py_buffer view;
};

/* The memory has the part's dimensions, with strides of its own. */
static int take_memory(struct part *part, int nr)
{
	bool fits = part->view.ndim == nr;

	for (int i = 0; i < nr && fits; i++) {
		fits = (uint64_t)part->view.shape[i] == part->slab.count[i];
		part->memory_strides[i] = part->view.strides[i];
	}
	part->slab.memory_stride = part->memory_strides;
	if (fits)
		return 0;
	PyErr_SetString(PyExc_ValueError, "the buffer does not have the shape of the part");
	return -1;
}

static int take_part(PyObject *arguments, int flags, struct part *part)
{
	PyObject *buffer, *start, *count, *stride;
	int nr;

	part->slab = (struct afar_slab){.size = sizeof(part->slab)};
	if (!PyArg_ParseTuple(arguments, "OOOO", &buffer, &start, &count, &stride))
		return -1;
	nr = take_numbers(start, "start", part->slab.start);
	if (nr < 0 || take_numbers(count, "count", part->slab.count) != nr ||
	    take_strides(stride, nr, part->slab.stride)) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_ValueError, "start and count differ in length");
		return -1;
	}
	if (PyObject_GetBuffer(buffer, &part->view, flags))
		return -1;
	if (take_memory(part, nr) == 0)
		return 0;
	PyBuffer_Release(&part->view);
	return -1;
}

/* The buffer's items are records of the array; afar/array.py sees to that, and this checks it. */
static int check_record(void *array, const struct part *part)
{
	struct afar_array_shape shape = {.size = sizeof(shape)};
	int ret = afar_array_stat(array, &shape);

	if (ret == 0 && shape.nr_dimensions == (uint32_t)part->view.ndim &&
	    shape.record_bytes == (uint64_t)part->view.itemsize)
		return 0;
	if (ret < 0)
		error_raise(ret);
	else
		PyErr_SetString(PyExc_ValueError, "the buffer's items are not as the array's");
	return -1;
}

static PyObject *move(PyObject *self, PyObject *arguments, bool is_read)
{
	PyObject *result = NULL;
	struct part part;
	void *array;
	ssize_t ret;

	if (take_part(arguments, PyBUF_STRIDES | (is_read ? PyBUF_WRITABLE : 0), &part))
		return NULL;
	array = object_enter(self);
	if (array && check_record(array, &part) == 0) {
		if (is_read)
			CALL(ret, afar_array_read(array, &part.slab, part.view.buf));
		else
			CALL(ret, afar_array_write(array, &part.slab, part.view.buf));
		result = ret < 0 ? error_raise(ret) : PyLong_FromSsize_t(ret);
	}
	if (array)
		object_leave(self);
	PyBuffer_Release(&part.view);
	return result;
}

static PyObject *array_read_part(PyObject *self, PyObject *arguments)
{
	return move(self, arguments, true);
}

static PyObject *array_write_part(PyObject *self, PyObject *arguments)
{
	return move(self, arguments, false);
}

static PyMethodDef array_methods[] = {
	OBJECT_METHODS,
	{"_bytes", array_bytes, METH_O | METH_STATIC, NULL},
	{"_describe", array_describe, METH_NOARGS, NULL},
	{"_read_part", array_read_part, METH_VARARGS, NULL},
	{"_write_part", array_write_part, METH_VARARGS, NULL},
	{0},
};

static PyGetSetDef array_getters[] = {OBJECT_GETTERS, {0}};

static PyType_Slot array_slots[] = {
	{Py_tp_doc, "An array in a region or a file; see afar.Array."},
	{Py_tp_new, array_new},
	{Py_tp_dealloc, object_dealloc},
	{Py_tp_methods, array_methods},
	{Py_tp_getset, array_getters},
	{0, NULL},
};

PyType_Spec array_spec = {"afar._afar.Array", sizeof(struct object), 0,
			  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, array_slots};
