/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each object of the module has a handle of libafar, a parent that it was opened through, and children.
 * An object closes its children before itself.
 *
 * All of this is read and changed with the GIL held. Calls of the library run without it, between
 * object_enter() and object_leave(): nobody closes a handle that a call uses.
 */
#ifndef AFAR_PYTHON_OBJECT_H
#define AFAR_PYTHON_OBJECT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

struct object;

struct object_kind {
	const char *what; /* "region" */
	/* Closes object->handle; called without the GIL. Returns 0 or a code of libafar. */
	int (*close)(struct object *object);
	/* Before that, and before an object that was never closed is freed; with the GIL. Returns 0, or -1
	 * with an exception, and the object stays open. `is_last`: it cannot stay. May be NULL. */
	int (*prepare)(struct object *object, bool is_last);
};

struct object {
	PyObject ob_base;
	const struct object_kind *kind;
	void *handle;		 /* NULL: closed */
	struct object *parent;	 /* counted; NULL: a session */
	struct object *children; /* not counted: each takes itself out */
	struct object *next, **link;
	unsigned nr_calls; /* that use the handle now */
	unsigned nr_views; /* of its memory, which others have */
	bool is_closing;
};

/* Have the object own a handle that was opened through `parent`, or give it up. */
void object_open(struct object *object, const struct object_kind *kind, void *handle,
		 struct object *parent);

/* Returns the handle, which stays open until object_leave(); NULL, with an exception: it is closed. */
void *object_enter(PyObject *self);
void object_leave(PyObject *self);
/* Leaves, and returns None, or NULL with what a call failed with. */
PyObject *object_end(PyObject *self, long ret);

/* Returns a list of all that `next` adds (list_all()). Its state has so many bytes, zeroed, and begins with the handle, which
 * stays open meanwhile. NULL, with an exception. */
PyObject *object_list(PyObject *self, long (*next)(void *state, PyObject *list), size_t bytes);

/* Fails unless `object` is one of this kind; for arguments. Gives it as an object. */
struct object *object_of(PyObject *argument, PyTypeObject *type);

/* Methods and slots that all have. */
PyObject *object_close(PyObject *self, PyObject *none);
PyObject *object_self(PyObject *self, PyObject *none);
PyObject *object_exit(PyObject *self, PyObject *arguments);
PyObject *object_is_closed(PyObject *self, void *none);
void object_dealloc(PyObject *self);

#define OBJECT_METHODS                                                                        \
	{"close", object_close, METH_NOARGS,                                                  \
	 PyDoc_STR("close()\n--\n\nCloses this, and first all that was opened through it.")}, \
		{"__enter__", object_self, METH_NOARGS, NULL},                                \
	{                                                                                     \
		"__exit__", object_exit, METH_VARARGS, NULL                                   \
	}

#define OBJECT_GETTERS                                                                      \
	{                                                                                   \
		"closed", object_is_closed, NULL, PyDoc_STR("Whether it was closed."), NULL \
	}

/* A call of libafar without the GIL. */
#define CALL(result, call)                                         \
	do {                                                       \
		PyThreadState *thread_state = PyEval_SaveThread(); \
		(result) = (call);                                 \
		PyEval_RestoreThread(thread_state);                \
	} while (0)

/* A method of METH_VARARGS | METH_KEYWORDS, in a table. */
#define KEYWORD_METHOD(function) \
	(PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS
#define FAST_METHOD(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS

/* ---- Types, each made by its file ------------------------------------------------------------ */

extern PyTypeObject *session_type, *namespace_type, *region_type, *attachment_type, *buffer_type,
	*queue_type, *volume_type, *fs_type, *file_type;

extern PyType_Spec session_spec, namespace_spec, region_spec, attachment_spec, buffer_spec,
	queue_spec, volume_spec, fs_spec, file_spec;

#endif
