/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers from Python are checked here before libafar sees them; its structs become afar.Stat. */
#include "convert.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include <afar/namespace.h>

static PyObject *stat_class; /* afar.errors.Stat */

/* ---- Arguments ------------------------------------------------------------------------------- */

static int take_unsigned(PyObject *object, const char *name, uint64_t max, uint64_t *out)
{
	PyObject *number = PyNumber_Index(object), *zero = NULL;
	uint64_t value;
	int is_negative = -1;

	if (!number)
		return -1;
	zero = PyLong_FromLong(0);
	if (zero)
		is_negative = PyObject_RichCompareBool(number, zero, Py_LT);
	Py_XDECREF(zero);
	if (is_negative) {
		if (is_negative > 0)
			PyErr_Format(PyExc_ValueError, "%s is %R: it cannot be negative", name,
				     number);
		Py_DECREF(number);
		return -1;
	}
	value = PyLong_AsUnsignedLongLong(number);
	if ((value == UINT64_MAX && PyErr_Occurred()) || value > max) {
		PyErr_Clear();
		PyErr_Format(PyExc_ValueError, "%s is %R: %llu is the most", name, number,
			     (unsigned long long)max);
		Py_DECREF(number);
		return -1;
	}
	Py_DECREF(number);
	*out = value;
	return 0;
}

int take_u64(PyObject *object, const char *name, uint64_t *out)
{
	return take_unsigned(object, name, UINT64_MAX, out);
}

int convert_u64(PyObject *object, void *out)
{
	return !take_unsigned(object, "the number", UINT64_MAX, out);
}

int convert_u32(PyObject *object, void *out)
{
	uint64_t value;

	if (take_unsigned(object, "the number", UINT32_MAX, &value))
		return 0;
	*(uint32_t *)out = (uint32_t)value;
	return 1;
}

int convert_tier(PyObject *object, void *out)
{
	uint32_t *tier = out;

	if (PyUnicode_Check(object) && !PyUnicode_CompareWithASCIIString(object, "dram"))
		*tier = AFAR_TIER_DRAM;
	else if (PyUnicode_Check(object) && !PyUnicode_CompareWithASCIIString(object, "flash"))
		*tier = AFAR_TIER_FLASH;
	else
		return PyErr_Format(PyExc_ValueError, "tier is %R: it can be 'dram' or 'flash'",
				    object),
		       0;
	return 1;
}

/* Milliseconds, rounded up, so that a short time does not become 0. */
static int take_milliseconds(PyObject *object, double *out)
{
	double seconds = PyFloat_AsDouble(object);

	if (seconds == -1.0 && PyErr_Occurred())
		return -1;
	if (!(seconds >= 0) || seconds > INT_MAX / 1000.0) {
		PyErr_Format(PyExc_ValueError, "the time is %R: it can be from 0 to %d seconds",
			     object, INT_MAX / 1000);
		return -1;
	}
	*out = ceil(seconds * 1000);
	return 0;
}

int convert_timeout(PyObject *object, void *out)
{
	double milliseconds;

	if (take_milliseconds(object, &milliseconds))
		return 0;
	*(uint32_t *)out = (uint32_t)milliseconds;
	return 1;
}

int convert_wait(PyObject *object, void *out)
{
	double milliseconds = -1;

	if (object != Py_None && take_milliseconds(object, &milliseconds))
		return 0;
	*(int *)out = (int)milliseconds;
	return 1;
}

/* ---- Results --------------------------------------------------------------------------------- */

int stat_load(void)
{
	PyObject *module = PyImport_ImportModule("afar.errors");

	if (!module)
		return -1;
	stat_class = PyObject_GetAttrString(module, "Stat");
	Py_DECREF(module);
	return stat_class ? 0 : -1;
}

static PyObject *field_make(enum field_kind kind, const char *data)
{
	uint8_t u8;
	uint32_t u32;
	uint64_t u64;
	int64_t i64;

	switch (kind) {
	case FIELD_U8:
	case FIELD_BOOL8:
		memcpy(&u8, data, sizeof(u8));
		return kind == FIELD_U8 ? PyLong_FromUnsignedLong(u8) : PyBool_FromLong(u8);
	case FIELD_U32:
	case FIELD_BOOL32:
	case FIELD_TIER:
		memcpy(&u32, data, sizeof(u32));
		if (kind == FIELD_TIER)
			return PyUnicode_FromString(u32 == AFAR_TIER_FLASH ? "flash" : "dram");
		return kind == FIELD_U32 ? PyLong_FromUnsignedLong(u32) : PyBool_FromLong(u32 != 0);
	case FIELD_U64:
		memcpy(&u64, data, sizeof(u64));
		return PyLong_FromUnsignedLongLong(u64);
	case FIELD_I64:
		memcpy(&i64, data, sizeof(i64));
		return PyLong_FromLongLong(i64);
	case FIELD_TEXT:
		return TEXT(data);
	}
	return NULL;
}

PyObject *stat_make(const struct field *fields, const void *data)
{
	PyObject *members = PyDict_New(), *nothing = PyTuple_New(0), *stat = NULL;

	if (!members || !nothing)
		goto out;
	for (; fields->name; fields++) {
		PyObject *value = field_make(fields->kind, (const char *)data + fields->offset);
		int ret = value ? PyDict_SetItemString(members, fields->name, value) : -1;

		Py_XDECREF(value);
		if (ret)
			goto out;
	}
	stat = PyObject_Call(stat_class, nothing, members);
out:
	Py_XDECREF(members);
	Py_XDECREF(nothing);
	return stat;
}

int list_add(PyObject *list, PyObject *item)
{
	int ret = item ? PyList_Append(list, item) : -1;

	Py_XDECREF(item);
	return ret;
}

PyObject *list_all(long (*next)(void *state, PyObject *list), void *state)
{
	PyObject *list = PyList_New(0);
	long nr = 1;

	while (list && nr > 0)
		nr = next(state, list);
	if (nr < 0)
		Py_CLEAR(list);
	return list;
}
