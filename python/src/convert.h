/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments and results: numbers, paths, and the library's structs as afar.Stat. */
#ifndef AFAR_PYTHON_CONVERT_H
#define AFAR_PYTHON_CONVERT_H

#include <Python.h>

#include <stddef.h>
#include <stdint.h>

/* Takes an int of 0 to 2^64 - 1; `name` is for the exception. 0, or -1 with one. */
int take_u64(PyObject *object, const char *name, uint64_t *out);

/* For "O&" of PyArg_Parse…: into a uint64_t, a uint32_t, an enum afar_tier as uint32_t ("dram",
 * "flash"), or milliseconds as a uint32_t from seconds. */
int convert_u64(PyObject *object, void *out);
int convert_u32(PyObject *object, void *out);
int convert_tier(PyObject *object, void *out);
int convert_timeout(PyObject *object, void *out);
/* Seconds, or None for no limit, to an int of milliseconds, which is then -1. */
int convert_wait(PyObject *object, void *out);

enum field_kind {
	FIELD_U8,
	FIELD_U32,
	FIELD_U64,
	FIELD_I64,
	FIELD_BOOL8,
	FIELD_BOOL32,
	FIELD_TEXT,
	FIELD_TIER,
};

/* A member of a struct, and the name of the attribute that it becomes. */
struct field {
	const char *name;
	size_t offset;
	enum field_kind kind;
};

#define FIELD(type, member, kind) {#member, offsetof(type, member), kind}

int stat_load(void);
/* Makes an afar.Stat of a struct; `fields` ends with a name of NULL. */
PyObject *stat_make(const struct field *fields, const void *data);

/* A name or a path as the system's bytes are decoded. */
#define TEXT(bytes) PyUnicode_DecodeFSDefault(bytes)

/* Appends an item, and takes it. 0, or -1 with an exception, also if it is NULL. */
int list_add(PyObject *list, PyObject *item);

/* Calls `next` until it adds nothing more: it lists what comes after `state`, and returns how many it
 * put into `list`, or -1 with an exception. Returns the list. */
PyObject *list_all(long (*next)(void *state, PyObject *list), void *state);

#endif
