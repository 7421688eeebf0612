/* SPDX-License-Identifier: BSD-3-Clause */
/* Exceptions: afar.Error and its kin, with the library's code and line. */
#ifndef AFAR_PYTHON_ERRORS_H
#define AFAR_PYTHON_ERRORS_H

#include <Python.h>

/* Loads the exceptions that afar/errors.py has. 0, or -1 with an exception. */
int errors_load(void);

/*
 * Raises what the thread's last call of libafar failed with, `code` being negative. At once after
 * that call, because its line is the last one's. A signal that has come meanwhile comes first.
 * Return NULL.
 */
PyObject *error_raise(long code);
/* Raises `code` with a line of this module's. */
PyObject *error_raise_line(long code, const char *line);
/* Makes that exception, and raises nothing. `line` may be NULL: the last failure's. */
PyObject *error_make(long code, const char *line);
/* Raise what this module finds by itself. */
PyObject *error_closed(const char *what);
PyObject *error_busy(const char *what, const char *why);

#endif
