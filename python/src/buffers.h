/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes between the library and whatever has Python's buffer protocol: bytes, bytearray, mmap, array, numpy
 * arrays, and torch tensors of this machine's memory. They move from and to that memory itself. It is held for
 * the transfer: who resizes a bytearray meanwhile gets BufferError.
 */
#ifndef AFAR_PYTHON_BUFFERS_H
#define AFAR_PYTHON_BUFFERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "object.h"

/* Takes the memory of `object`, for PyBuffer_Release(). It must be in one piece. 0, or -1 with an exception. */
int buffer_take(PyObject *object, bool is_target, Py_buffer *view);

/* Fills a view of `length` bytes of an object's memory in, for its bf_getbuffer. */
int buffer_lend(PyObject *self, Py_buffer *view, void *data, size_t length, bool is_read_only,
		int flags);
void buffer_return(PyObject *self, Py_buffer *view);

/* How a kind of object moves bytes. The handle is the object's. */
struct transfer_calls {
	ssize_t (*read)(void *handle, void *data, size_t length, uint64_t offset);
	ssize_t (*write)(void *handle, const void *data, size_t length, uint64_t offset,
			 unsigned flags);
	bool has_durable; /* write(durable=True) gives it AFAR_OP_DURABLE */
};

/* Methods: read_into(buffer, offset=0), write(buffer, offset=0[, durable=False]), read(length, offset=0). */
PyObject *transfer_read_into(PyObject *self, const struct transfer_calls *calls,
			     PyObject *const *args, Py_ssize_t nr, PyObject *names);
PyObject *transfer_write(PyObject *self, const struct transfer_calls *calls, PyObject *const *args,
			 Py_ssize_t nr, PyObject *names);
PyObject *transfer_read(PyObject *self, const struct transfer_calls *calls, PyObject *arguments,
			PyObject *keywords);
/* Reads a range as bytes. */
PyObject *transfer_bytes(PyObject *self, const struct transfer_calls *calls, size_t length,
			 uint64_t offset);

#define READ_INTO_DOC                                                                              \
	PyDoc_STR("read_into(buffer, offset=0)\n--\n\nReads as many bytes as the buffer has, "     \
		  "without a copy. Returns how many.")
#define WRITE_DOC                                                                                  \
	PyDoc_STR("write(buffer, offset=0)\n--\n\nWrites all of the buffer, without a copy. "      \
		  "Returns how many bytes.")
#define READ_DOC PyDoc_STR("read(length, offset=0)\n--\n\nReads into new bytes.")

#endif
