/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects with a handle: opened, used, closed with what was opened through them. See object.h. */
#include "object.h"

#include <errno.h>

#include "convert.h"
#include "errors.h"

void object_open(struct object *object, const struct object_kind *kind, void *handle,
		 struct object *parent)
{
	object->kind = kind;
	object->handle = handle;
	object->parent = parent;
	if (!parent)
		return;
	Py_INCREF(&parent->ob_base);
	object->next = parent->children;
	object->link = &parent->children;
	if (object->next)
		object->next->link = &object->next;
	parent->children = object;
}

static void take_out(struct object *object)
{
	if (!object->link)
		return;
	*object->link = object->next;
	if (object->next)
		object->next->link = object->link;
	object->link = NULL;
	object->next = NULL;
}

void *object_enter(PyObject *self)
{
	struct object *object = (struct object *)self;

	if (!object->handle || object->is_closing) {
		error_closed(object->kind ? object->kind->what : "object");
		return NULL;
	}
	object->nr_calls++;
	return object->handle;
}

void object_leave(PyObject *self)
{
	((struct object *)self)->nr_calls--;
}

PyObject *object_end(PyObject *self, long ret)
{
	object_leave(self);
	if (ret < 0)
		return error_raise(ret);
	Py_RETURN_NONE;
}

PyObject *object_list(PyObject *self, long (*next)(void *state, PyObject *list), size_t bytes)
{
	void **state = PyMem_Calloc(1, bytes);
	PyObject *list = NULL;

	if (!state)
		return PyErr_NoMemory();
	state[0] = object_enter(self);
	if (state[0]) {
		list = list_all(next, state);
		object_leave(self);
	}
	PyMem_Free(state);
	return list;
}

struct object *object_of(PyObject *argument, PyTypeObject *type)
{
	int is_one = PyObject_IsInstance(argument, (PyObject *)type);

	if (is_one > 0)
		return (struct object *)argument;
	if (!is_one) {
		PyObject *name = PyType_GetName(type);

		PyErr_Format(PyExc_TypeError, "an afar.%S is needed, not %R", name, argument);
		Py_XDECREF(name);
	}
	return NULL;
}

/* Closes the object after all that was opened through it. 0, or -1 with an exception. */
static int close_all(struct object *object)
{
	int ret = 0;

	while (object->handle && object->children) {
		struct object *child = object->children;

		Py_INCREF(&child->ob_base);
		ret = close_all(child);
		Py_DECREF(&child->ob_base);
		if (ret)
			return ret;
	}
	if (!object->handle) { /* another thread was quicker */
		take_out(object);
		return 0;
	}
	if (object->nr_calls || object->is_closing) {
		error_busy(object->kind->what, "another thread is inside a call");
		return -1;
	}
	if (object->nr_views) {
		PyErr_Format(
			PyExc_BufferError,
			"the %s has memory that %u views use: release these before it is closed",
			object->kind->what, object->nr_views);
		return -1;
	}
	if (object->kind->prepare && object->kind->prepare(object, false))
		return -1;
	object->is_closing = true; /* calls find it closed */
	CALL(ret, object->kind->close(object));
	object->is_closing = false;
	if (ret != -EBUSY) {
		object->handle = NULL;
		take_out(object);
	}
	if (ret < 0)
		error_raise(ret);
	return ret < 0 ? -1 : 0;
}

PyObject *object_close(PyObject *self, PyObject *none)
{
	(void)none;
	if (close_all((struct object *)self))
		return NULL;
	Py_RETURN_NONE;
}

PyObject *object_self(PyObject *self, PyObject *none)
{
	struct object *object = (struct object *)self;

	(void)none;
	if (!object->handle)
		return error_closed(object->kind ? object->kind->what : "object");
	Py_INCREF(self);
	return self;
}

PyObject *object_exit(PyObject *self, PyObject *arguments)
{
	(void)arguments;
	return object_close(self, NULL);
}

PyObject *object_is_closed(PyObject *self, void *none)
{
	(void)none;
	return PyBool_FromLong(!((struct object *)self)->handle);
}

/* Children hold their parent, so there are none any more. A handle that is still open is closed,
 * and nobody hears of a failure: the session's end does what is left. */
void object_dealloc(PyObject *self)
{
	struct object *object = (struct object *)self;
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
	PyObject *kind, *value, *traceback;
	int ret;

	PyErr_Fetch(&kind, &value, &traceback);
	take_out(object); /* before others run: they would find what has no references */
	if (object->handle) {
		if (object->kind->prepare && object->kind->prepare(object, true))
			PyErr_Clear();
		CALL(ret, object->kind->close(object));
		(void)ret;
		object->handle = NULL;
	}
	if (object->parent)
		Py_DECREF(&object->parent->ob_base);
	PyErr_Restore(kind, value, traceback);
	release(self);
	Py_DECREF(type);
}
