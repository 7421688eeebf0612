/* SPDX-License-Identifier: BSD-3-Clause */
/* afar.Buffer: registered once, for any number of transfers. Queues over verbs take nothing else. */
#include "memory.h"

#include "buffers.h"
#include "convert.h"
#include "errors.h"

struct memory {
	struct object object;
	void *data;
	size_t length;
	bool is_registered; /* the memory is another object's: */
	bool is_read_only;
	Py_buffer view;
};

static int memory_close(struct object *object)
{
	return afar_buffer_unregister(object->handle);
}

static const struct object_kind memory_kind = {"buffer", memory_close, NULL};

/* Makes an object without a handle. */
static struct memory *memory_new_of(PyTypeObject *type)
{
	return (struct memory *)PyType_GenericAlloc(type, 0);
}

static int register_view(struct memory *memory, void *session, struct afar_buffer **out)
{
	struct afar_memory given = {.size = sizeof(given),
				    .kind = AFAR_MEMORY_HOST,
				    .addr = memory->view.buf,
				    .length = (uint64_t)memory->view.len};
	unsigned access = AFAR_ACCESS_READ;
	int ret;

	if (!memory->view.readonly)
		access |= AFAR_ACCESS_WRITE;
	CALL(ret, afar_buffer_register(session, &given, access, out));
	return ret;
}

/* Buffer(session, length) allocates; Buffer(session, object) registers memory of others. */
static PyObject *memory_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"session", "memory", NULL};
	struct afar_buffer *buffer = NULL;
	struct memory *memory = NULL;
	PyObject *parent, *given;
	uint64_t length = 0;
	void *session;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!O:Buffer", names, session_type,
					 &parent, &given) ||
	    (PyLong_Check(given) && take_u64(given, "the length", &length)) ||
	    !(session = object_enter(parent)))
		return NULL;
	memory = memory_new_of(type);
	if (!memory)
		goto out;
	if (PyLong_Check(given)) {
		CALL(ret, afar_buffer_alloc(session, length, &buffer));
	} else {
		if (PyObject_GetBuffer(given, &memory->view, PyBUF_WRITABLE)) {
			PyErr_Clear();
			if (buffer_take(given, false, &memory->view)) {
				Py_CLEAR(memory);
				goto out;
			}
		}
		memory->is_registered = true;
		ret = register_view(memory, session, &buffer);
	}
	if (ret < 0) {
		error_raise(ret);
		Py_CLEAR(memory);
		goto out;
	}
	memory->data = memory->is_registered ? memory->view.buf : afar_buffer_data(buffer);
	memory->length = memory->is_registered ? (size_t)memory->view.len : (size_t)length;
	memory->is_read_only = memory->is_registered && memory->view.readonly;
	object_open(&memory->object, &memory_kind, buffer, (struct object *)parent);
out:
	object_leave(parent);
	return (PyObject *)memory;
}

static void memory_dealloc(PyObject *self)
{
	struct memory *memory = (struct memory *)self;
	Py_buffer view = memory->view;
	bool is_registered = memory->is_registered;

	object_dealloc(self);
	if (is_registered)
		PyBuffer_Release(&view);
}

static int memory_lend(PyObject *self, Py_buffer *view, int flags)
{
	struct memory *memory = (struct memory *)self;

	view->obj = NULL;
	if (!object_enter(self))
		return -1;
	object_leave(self);
	return buffer_lend(self, view, memory->data, memory->length, memory->is_read_only, flags);
}

static Py_ssize_t memory_size(PyObject *self)
{
	return (Py_ssize_t)((struct memory *)self)->length;
}

struct afar_buffer *memory_find(struct object *session, const void *addr, size_t length)
{
	for (struct object *child = session->children; child; child = child->next) {
		const struct memory *memory = (const struct memory *)child;
		size_t offset;

		if (child->kind != &memory_kind || !child->handle || child->is_closing ||
		    (const char *)addr < (const char *)memory->data)
			continue;
		offset = (size_t)((const char *)addr - (const char *)memory->data);
		if (offset <= memory->length && length <= memory->length - offset)
			return child->handle;
	}
	return NULL;
}

static PyMethodDef memory_methods[] = {OBJECT_METHODS, {0}};

static PyGetSetDef memory_getters[] = {OBJECT_GETTERS, {0}};

static PyType_Slot memory_slots[] = {
	{Py_tp_doc, "Buffer(session, memory)\n--\n\nMemory that is registered for transfers: of so "
		    "many bytes, on huge pages if there are any, or that of an array."},
	{Py_tp_new, memory_new},
	{Py_tp_dealloc, memory_dealloc},
	{Py_tp_methods, memory_methods},
	{Py_tp_getset, memory_getters},
	{Py_bf_getbuffer, memory_lend},
	{Py_bf_releasebuffer, buffer_return},
	{Py_sq_length, memory_size},
	{0, NULL},
};

PyType_Spec buffer_spec = {"afar._afar.Buffer", sizeof(struct memory), 0, Py_TPFLAGS_DEFAULT,
			   memory_slots};
