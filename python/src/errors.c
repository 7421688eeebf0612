/* SPDX-License-Identifier: BSD-3-Clause */
/* From the library's codes to Python's exceptions; afar/errors.py says which is which. */
#include "errors.h"

#include <errno.h>

#include <afar/error.h>

static PyObject *make_error;   /* afar.errors.make(errno, code, line) */
static PyObject *closed_error; /* afar.errors.ClosedError */

int errors_load(void)
{
	PyObject *module = PyImport_ImportModule("afar.errors");

	if (!module)
		return -1;
	make_error = PyObject_GetAttrString(module, "make");
	closed_error = PyObject_GetAttrString(module, "ClosedError");
	Py_DECREF(module);
	return make_error && closed_error ? 0 : -1;
}

PyObject *error_make(long code, const char *line)
{
	const char *name = afar_error_name((int)code);

	if (!line || !*line)
		line = afar_strerror((int)code);
	return PyObject_CallFunction(make_error, "lss", code < 0 ? -code : code, name, line);
}

static PyObject *raise_made(PyObject *error)
{
	if (error)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(error);
	return NULL;
}

PyObject *error_raise(long code)
{
	PyObject *error;

	if (code == -ENOMEM)
		return PyErr_NoMemory();
	error = error_make(code, afar_last_error());
	if (PyErr_CheckSignals()) {
		Py_XDECREF(error);
		return NULL;
	}
	return raise_made(error);
}

PyObject *error_raise_line(long code, const char *line)
{
	return raise_made(error_make(code, line));
}

PyObject *error_closed(const char *what)
{
	PyObject *line = PyUnicode_FromFormat("the %s is closed: open it again", what);

	if (line)
		raise_made(PyObject_CallFunction(closed_error, "iOs", EBADF, line, "EBADF"));
	Py_XDECREF(line);
	return NULL;
}

PyObject *error_busy(const char *what, const char *why)
{
	PyObject *line = PyUnicode_FromFormat("the %s is in use: %s", what, why);

	if (line)
		raise_made(PyObject_CallFunction(make_error, "isO", EBUSY, "EBUSY", line));
	Py_XDECREF(line);
	return NULL;
}
