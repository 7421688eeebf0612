/* SPDX-License-Identifier: BSD-3-Clause */
/* afar.Attachment: a region's memory itself, where its servers are on this machine; memoryview() and
 * numpy.frombuffer() of it copy nothing. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "buffers.h"
#include "errors.h"
#include "region.h"

struct attachment {
	struct object object;
	size_t length;
	pid_t owner; /* a forked child does not have the memory */
	bool is_writable;
};

static int attachment_close(struct object *object)
{
	return afar_region_detach(object->parent->handle, object->handle);
}

static const struct object_kind attachment_kind = {"attachment", attachment_close, NULL};

PyObject *attachment_make(PyObject *region, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"offset", "length", "writable", NULL};
	PyObject *length_given = Py_None, *offset_given = NULL, *self = NULL;
	uint64_t offset = 0, length;
	struct attachment *attachment;
	int is_writable = 0, ret;
	void *handle, *addr = NULL;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OO$p:attach", names, &offset_given,
					 &length_given, &is_writable) ||
	    (offset_given && take_u64(offset_given, "offset", &offset)))
		return NULL;
	length = region_length(region) - (offset < region_length(region) ? offset : 0);
	if (length_given != Py_None && take_u64(length_given, "length", &length))
		return NULL;
	handle = object_enter(region);
	if (!handle)
		return NULL;
	CALL(ret, afar_region_attach(handle, offset, (size_t)length,
				     is_writable ? PROT_READ | PROT_WRITE : PROT_READ, &addr));
	if (ret < 0) {
		error_raise(ret);
	} else if (!(self = PyType_GenericAlloc(attachment_type, 0))) {
		CALL(ret, afar_region_detach(handle, addr));
	} else {
		attachment = (struct attachment *)self;
		attachment->length = (size_t)length;
		attachment->owner = getpid();
		attachment->is_writable = is_writable;
		object_open(&attachment->object, &attachment_kind, addr, (struct object *)region);
	}
	object_leave(region);
	return self;
}

static int attachment_lend(PyObject *self, Py_buffer *view, int flags)
{
	struct attachment *attachment = (struct attachment *)self;

	view->obj = NULL;
	if (attachment->owner != getpid()) {
		error_raise_line(-AFAR_EFORKED, "the memory is attached in the parent process: "
						"attach it again after fork");
		return -1;
	}
	if (!object_enter(self))
		return -1;
	object_leave(self);
	return buffer_lend(self, view, attachment->object.handle, attachment->length,
			   !attachment->is_writable, flags);
}

static Py_ssize_t attachment_size(PyObject *self)
{
	return (Py_ssize_t)((struct attachment *)self)->length;
}

static PyMethodDef attachment_methods[] = {OBJECT_METHODS, {0}};

static PyGetSetDef attachment_getters[] = {OBJECT_GETTERS, {0}};

static PyType_Slot attachment_slots[] = {
	{Py_tp_doc, "A region's memory, as Region.attach() gives it. It cannot be closed while views of "
		    "it are there. Touching it when its server has ended, or in a forked child, "
		    "ends the process by SIGSEGV."},
	{Py_tp_dealloc, object_dealloc},
	{Py_tp_methods, attachment_methods},
	{Py_tp_getset, attachment_getters},
	{Py_bf_getbuffer, attachment_lend},
	{Py_bf_releasebuffer, buffer_return},
	{Py_sq_length, attachment_size},
	{0, NULL},
};

PyType_Spec attachment_spec = {"afar._afar.Attachment", sizeof(struct attachment), 0,
			       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
			       attachment_slots};
