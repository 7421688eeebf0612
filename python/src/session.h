/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods of afar.Session that stand with what they make; and how structs become afar.Stat. */
#ifndef AFAR_PYTHON_SESSION_H
#define AFAR_PYTHON_SESSION_H

#include "convert.h"
#include "object.h"

extern const struct field namespace_fields[];

PyObject *session_create_volume(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *session_resize_volume(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *session_delete_volume(PyObject *self, PyObject *name);
PyObject *session_volumes(PyObject *self, PyObject *none);

#define SESSION_VOLUME_METHODS                                                                     \
	{"create_volume", KEYWORD_METHOD(session_create_volume),                                   \
	 PyDoc_STR("create_volume(name, bytes, *, tier='dram', width=0, stripe_bytes=0)\n--\n\n"   \
		   "Makes a volume, all zeros.")},                                                 \
		{"resize_volume", KEYWORD_METHOD(session_resize_volume),                           \
		 PyDoc_STR("resize_volume(name, bytes)\n--\n\nChanges a volume's size.")},         \
		{"delete_volume", session_delete_volume, METH_O,                                   \
		 PyDoc_STR("delete_volume(name)\n--\n\nDeletes a volume.")},                       \
	{                                                                                          \
		"volumes", session_volumes, METH_NOARGS,                                           \
			PyDoc_STR("volumes()\n--\n\nLists volumes, in order of their names.")      \
	}

PyObject *session_create_fs(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *session_delete_fs(PyObject *self, PyObject *name);
PyObject *session_file_systems(PyObject *self, PyObject *none);

#define SESSION_FS_METHODS                                                                         \
	{"create_fs", KEYWORD_METHOD(session_create_fs),                                           \
	 PyDoc_STR("create_fs(name, *, tier='dram', width=0, stripe_bytes=0, max_bytes=0, "        \
		   "max_inodes=0, mode=0o755)\n--\n\n"                                             \
		   "Makes a file system. Its root directory is this user's.")},                    \
		{"delete_fs", session_delete_fs, METH_O,                                           \
		 PyDoc_STR("delete_fs(name)\n--\n\nDeletes a file system with all that is in "     \
			   "it.")},                                                                \
	{                                                                                          \
		"file_systems", session_file_systems, METH_NOARGS,                                 \
			PyDoc_STR("file_systems()\n--\n\nLists file systems, in order of their "   \
				  "names.")                                                        \
	}

#endif
