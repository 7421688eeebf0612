/* SPDX-License-Identifier: BSD-3-Clause */
/* afar.Queue: many operations in flight from one thread. Holds the memory of each until it has completed. */
#include <errno.h>

#include <afar/queue.h>

#include <afar/file.h>
#include <afar/volume.h>

#include "buffers.h"
#include "convert.h"
#include "errors.h"
#include "memory.h"

/* An operation in flight. Its address is its user_data. */
struct operation {
	struct operation *next, **link;
	PyObject *target; /* counted, and in use */
	PyObject *token;  /* counted; what the program knows it by */
	Py_buffer view;
	struct afar_iov iov;
};

struct queue {
	struct object object;
	struct operation *operations;
};

static void operation_free(struct operation *operation)
{
	*operation->link = operation->next;
	if (operation->next)
		operation->next->link = operation->link;
	if (operation->view.obj)
		PyBuffer_Release(&operation->view);
	object_leave(operation->target);
	Py_DECREF(operation->target);
	Py_DECREF(operation->token);
	PyMem_Free(operation);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static int queue_close(struct object *object)
{
	return afar_queue_close(object->handle);
}

/* Ends what is in flight: the library must not touch the memory after this. */
static int cancel_all(struct afar_queue *handle, const struct operation *operations, unsigned nr)
{
	struct afar_completion completions[16];
	int ret = 0;

	for (; operations; operations = operations->next) {
		ret = afar_queue_cancel(handle, (uint64_t)(uintptr_t)operations);
		if (ret < 0)
			return ret;
	}
	while (nr && ret >= 0) {
		ret = afar_queue_wait(handle, completions, 16, 1, -1);
		nr -= ret > 0 ? (unsigned)ret : 0;
	}
	return ret;
}

static int queue_prepare(struct object *object, bool is_last)
{
	struct queue *queue = (struct queue *)object;
	unsigned nr = 0;
	int ret;

	(void)is_last;
	for (struct operation *each = queue->operations; each; each = each->next)
		nr++;
	object->is_closing = true;
	CALL(ret, cancel_all(object->handle, queue->operations, nr));
	object->is_closing = false;
	/* Otherwise this is a forked child, whose memory no transfer of the parent touches. */
	if (ret < 0 && ret != -AFAR_EFORKED && !is_last) {
		error_raise(ret);
		return -1;
	}
	while (queue->operations)
		operation_free(queue->operations);
	return 0;
}

static const struct object_kind queue_kind = {"queue", queue_close, queue_prepare};

static PyObject *queue_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"session", "depth", NULL};
	struct afar_queue_options options = {.size = sizeof(options)};
	struct afar_queue *queue = NULL;
	PyObject *parent, *self = NULL;
	void *session;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!|O&:Queue", names, session_type,
					 &parent, convert_u32, &options.depth) ||
	    !(session = object_enter(parent)))
		return NULL;
	CALL(ret, afar_queue_open(session, &options, &queue));
	if (ret < 0)
		error_raise(ret);
	else if ((self = PyType_GenericAlloc(type, 0)))
		object_open((struct object *)self, &queue_kind, queue, (struct object *)parent);
	else
		afar_queue_close(queue);
	object_leave(parent);
	return self;
}

/* One thread at a time uses it. */
static struct afar_queue *queue_enter(PyObject *self)
{
	struct object *object = (struct object *)self;

	if (object->handle && object->nr_calls) {
		error_busy("queue", "another thread is inside a call; use a queue for each thread");
		return NULL;
	}
	return object_enter(self);
}

/* ---- Submitting ------------------------------------------------------------------------------ */

static struct afar_target *target_of(PyObject *object)
{
	struct afar_target *target;
	void *handle;

	if (!PyObject_IsInstance(object, (PyObject *)region_type) &&
	    !PyObject_IsInstance(object, (PyObject *)volume_type) &&
	    !PyObject_IsInstance(object, (PyObject *)file_type)) {
		PyErr_Format(PyExc_TypeError, "an afar.Region, Volume or File is needed, not %R",
			     object);
		return NULL;
	}
	handle = object_enter(object);
	if (!handle)
		return NULL;
	object_leave(object);
	if (PyObject_IsInstance(object, (PyObject *)region_type))
		target = afar_region_target(handle);
	else if (PyObject_IsInstance(object, (PyObject *)volume_type))
		target = afar_volume_target(handle);
	else
		target = afar_file_target(handle);
	if (!target)
		error_raise_line(-EINVAL,
				 "no queue can use it: it is a directory, or a volume that was "
				 "opened with `retry`");
	return target;
}

static PyObject *queue_connect(PyObject *self, PyObject *argument)
{
	struct afar_target *target = target_of(argument);
	struct afar_queue *queue = target ? queue_enter(self) : NULL;
	int ret;

	if (!queue)
		return NULL;
	object_enter(argument);
	CALL(ret, afar_queue_connect(queue, target));
	object_leave(argument);
	return object_end(self, ret);
}

/* Takes what the operation needs until it completes; the view may be of nothing. */
static struct operation *operation_make(PyObject *self, PyObject *target, PyObject *token,
					Py_buffer *view)
{
	struct queue *queue = (struct queue *)self;
	struct operation *operation = PyMem_Calloc(1, sizeof(*operation));

	if (!operation || !object_enter(target)) {
		PyMem_Free(operation);
		PyBuffer_Release(view);
		return operation ? NULL : (struct operation *)PyErr_NoMemory();
	}
	Py_INCREF(target);
	Py_INCREF(token);
	operation->target = target;
	operation->token = token;
	operation->view = *view;
	operation->iov = (struct afar_iov){
		.buffer = memory_find(queue->object.parent, view->buf, (size_t)view->len),
		.addr = view->buf,
		.length = (size_t)view->len,
	};
	operation->next = queue->operations;
	operation->link = &queue->operations;
	if (operation->next)
		operation->next->link = &operation->next;
	queue->operations = operation;
	return operation;
}

/* Submits one operation. True: it was taken; False: the queue is full. */
static PyObject *submit(PyObject *self, PyObject *target_object, PyObject *token, Py_buffer *view,
			struct afar_op *op)
{
	struct afar_target *target = target_of(target_object);
	struct afar_queue *queue = target ? queue_enter(self) : NULL;
	struct operation *operation;
	int ret;

	if (!queue) {
		PyBuffer_Release(view);
		return NULL;
	}
	operation = operation_make(self, target_object, token, view);
	if (!operation) {
		object_leave(self);
		return NULL;
	}
	op->target = target;
	op->user_data = (uint64_t)(uintptr_t)operation;
	if (view->buf) {
		op->iov = &operation->iov;
		op->nr_iov = 1;
	}
	ret = afar_queue_submit(queue, op, 1); /* which never blocks */
	object_leave(self);
	if (ret < 0)
		error_raise(ret);
	if (ret <= 0)
		operation_free(operation);
	return ret < 0 ? NULL : PyBool_FromLong(ret);
}

static PyObject *submit_transfer(PyObject *self, PyObject *arguments, PyObject *keywords,
				 enum afar_opcode opcode)
{
	static char *names[] = {"target", "buffer", "offset", "token", "after", "durable", NULL};
	PyObject *target, *buffer, *offset = NULL, *token = Py_None;
	struct afar_op op = {.opcode = (uint16_t)opcode};
	int is_after = 0, is_durable = 0;
	Py_buffer view;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO|OO$pp", names, &target, &buffer,
					 &offset, &token, &is_after, &is_durable) ||
	    (offset && take_u64(offset, "offset", &op.offset)) ||
	    buffer_take(buffer, opcode == AFAR_OP_READ, &view))
		return NULL;
	op.flags = (is_after ? AFAR_OP_AFTER : 0) | (is_durable ? AFAR_OP_DURABLE : 0);
	return submit(self, target, token, &view, &op);
}

static PyObject *queue_read_into(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	return submit_transfer(self, arguments, keywords, AFAR_OP_READ);
}

static PyObject *queue_write(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	return submit_transfer(self, arguments, keywords, AFAR_OP_WRITE);
}

static PyObject *submit_plain(PyObject *self, PyObject *args, enum afar_opcode opcode)
{
	struct afar_op op = {.opcode = (uint16_t)opcode};
	PyObject *target, *token = Py_None;
	Py_buffer nothing = {.obj = NULL};

	if (!PyArg_ParseTuple(args, "O|O", &target, &token))
		return NULL;
	return submit(self, target, token, &nothing, &op);
}

static PyObject *queue_flush(PyObject *self, PyObject *args)
{
	return submit_plain(self, args, AFAR_OP_FLUSH);
}

static PyObject *queue_sync(PyObject *self, PyObject *args)
{
	return submit_plain(self, args, AFAR_OP_SYNC);
}

/* ---- Reaping --------------------------------------------------------------------------------- */

/* The token and the count of bytes, or the exception. */
static PyObject *reaped(struct afar_queue *queue, const struct afar_completion *completion)
{
	struct operation *operation = (struct operation *)(uintptr_t)completion->user_data;
	PyObject *result, *pair;

	if (completion->result < 0) {
		afar_queue_explain(queue, completion);
		result = error_make((long)completion->result, afar_last_error());
	} else {
		result = PyLong_FromLongLong(completion->result);
	}
	pair = result ? PyTuple_Pack(2, operation->token, result) : NULL;
	Py_XDECREF(result);
	operation_free(operation);
	return pair;
}

#define REAPED_MAX 64

static PyObject *queue_wait(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"min", "timeout", NULL};
	struct afar_completion completions[REAPED_MAX];
	uint32_t min = 1;
	int timeout_ms = -1, ret;
	struct afar_queue *queue;
	PyObject *list;
	bool is_bad = false;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O&O&:wait", names, convert_u32,
					 &min, convert_wait, &timeout_ms) ||
	    !(list = PyList_New(0)))
		return NULL;
	queue = queue_enter(self);
	if (!queue)
		goto fail;
	min = min < REAPED_MAX ? min : REAPED_MAX;
	CALL(ret, afar_queue_wait(queue, completions, REAPED_MAX, min, timeout_ms));
	if (ret < 0)
		error_raise(ret);
	for (int i = 0; i < ret; i++) /* all of them: nobody else would free them */
		is_bad |= list_add(list, reaped(queue, &completions[i])) != 0;
	object_leave(self);
	if (ret >= 0 && !is_bad)
		return list;
fail:
	Py_DECREF(list);
	return NULL;
}

static PyObject *queue_fileno(PyObject *self, PyObject *none)
{
	struct afar_queue *queue = object_enter(self);
	int ret;

	(void)none;
	if (!queue)
		return NULL;
	ret = afar_queue_fd(queue);
	object_leave(self);
	return ret < 0 ? error_raise(ret) : PyLong_FromLong(ret);
}

static PyObject *queue_arm(PyObject *self, PyObject *none)
{
	struct afar_queue *queue = queue_enter(self);
	int ret;

	(void)none;
	if (!queue)
		return NULL;
	ret = afar_queue_arm(queue);
	object_leave(self);
	if (ret < 0 && ret != -EAGAIN)
		return error_raise(ret);
	return PyBool_FromLong(!ret);
}

static Py_ssize_t queue_size(PyObject *self)
{
	Py_ssize_t nr = 0;

	for (struct operation *each = ((struct queue *)self)->operations; each; each = each->next)
		nr++;
	return nr;
}

static PyMethodDef queue_methods[] = {
	OBJECT_METHODS,
	{"connect", queue_connect, METH_O,
	 PyDoc_STR(
		 "connect(target)\n--\n\nConnects the queue to a target's servers, ahead of time, "
		 "and again after a failure.")},
	{"read_into", KEYWORD_METHOD(queue_read_into),
	 PyDoc_STR(
		 "read_into(target, buffer, offset=0, token=None, *, after=False)\n--\n\nSubmits a "
		 "read. False: the queue is full.")},
	{"write", KEYWORD_METHOD(queue_write),
	 PyDoc_STR("write(target, buffer, offset=0, token=None, *, after=False, "
		   "durable=False)\n--\n\nSubmits a write. False: the queue is full.")},
	{"flush", queue_flush, METH_VARARGS,
	 PyDoc_STR("flush(target, token=None)\n--\n\nSubmits a flush.")},
	{"sync", queue_sync, METH_VARARGS,
	 PyDoc_STR("sync(target, token=None)\n--\n\nSubmits a sync.")},
	{"wait", KEYWORD_METHOD(queue_wait),
	 PyDoc_STR("wait(min=1, timeout=None)\n--\n\nReaps completions: pairs of a token, and a "
		   "count "
		   "of bytes or an afar.Error.")},
	{"fileno", queue_fileno, METH_NOARGS,
	 PyDoc_STR("fileno()\n--\n\nPolls readable when there may be completions; see arm().")},
	{"arm", queue_arm, METH_NOARGS,
	 PyDoc_STR("arm()\n--\n\nCall this before sleeping on fileno(). False: reap now.")},
	{0},
};

static PyGetSetDef queue_getters[] = {OBJECT_GETTERS, {0}};

static PyType_Slot queue_slots[] = {
	{Py_tp_doc,
	 "Queue(session, depth=256)\n--\n\nMany operations in flight, of one thread at a time. "
	 "len() says how many. afar.aio has it for asyncio."},
	{Py_tp_new, queue_new},
	{Py_tp_dealloc, object_dealloc},
	{Py_tp_methods, queue_methods},
	{Py_tp_getset, queue_getters},
	{Py_sq_length, queue_size},
	{0, NULL},
};

PyType_Spec queue_spec = {"afar._afar.Queue", sizeof(struct queue), 0, Py_TPFLAGS_DEFAULT,
			  queue_slots};
