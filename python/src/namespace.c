/* SPDX-License-Identifier: BSD-3-Clause */
/* afar.Namespace: memory is reserved for it, and its regions are made, opened, listed and deleted through it. */
#include <string.h>

#include <afar/namespace.h>
#include <afar/region.h>

#include "errors.h"
#include "region.h"
#include "session.h"

const struct field namespace_fields[] = {
	FIELD(struct afar_namespace_stat, name, FIELD_TEXT),
	FIELD(struct afar_namespace_stat, tier, FIELD_TIER),
	FIELD(struct afar_namespace_stat, width, FIELD_U32),
	FIELD(struct afar_namespace_stat, stripe_bytes, FIELD_U64),
	FIELD(struct afar_namespace_stat, reserved_bytes, FIELD_U64),
	FIELD(struct afar_namespace_stat, allocated_bytes, FIELD_U64),
	FIELD(struct afar_namespace_stat, nr_regions, FIELD_U64),
	FIELD(struct afar_namespace_stat, owner, FIELD_TEXT),
	FIELD(struct afar_namespace_stat, rights, FIELD_U32),
	FIELD(struct afar_namespace_stat, max_bytes, FIELD_U64),
	{0},
};

static int namespace_close(struct object *object)
{
	return afar_namespace_close(object->handle);
}

static const struct object_kind namespace_kind = {"namespace", namespace_close, NULL};

static PyObject *namespace_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"session", "name", NULL};
	struct afar_namespace *ns = NULL;
	PyObject *parent, *self = NULL;
	const char *name;
	void *session;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!s:Namespace", names, session_type,
					 &parent, &name))
		return NULL;
	session = object_enter(parent);
	if (!session)
		return NULL;
	CALL(ret, afar_namespace_open(session, name, &ns));
	if (ret < 0)
		error_raise(ret);
	else if ((self = PyType_GenericAlloc(type, 0)))
		object_open((struct object *)self, &namespace_kind, ns, (struct object *)parent);
	else
		afar_namespace_close(ns);
	object_leave(parent);
	return self;
}

/* ---- Its memory and its rights --------------------------------------------------------------- */

static PyObject *namespace_stat(PyObject *self, PyObject *none)
{
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	void *ns = object_enter(self);
	PyObject *result;
	int ret;

	(void)none;
	if (!ns)
		return NULL;
	CALL(ret, afar_namespace_stat(ns, &stat));
	result = ret < 0 ? error_raise(ret) : stat_make(namespace_fields, &stat);
	object_leave(self);
	return result;
}

static PyObject *namespace_reserve(PyObject *self, PyObject *argument)
{
	uint64_t bytes;
	void *ns;
	int ret;

	if (take_u64(argument, "bytes", &bytes) || !(ns = object_enter(self)))
		return NULL;
	CALL(ret, afar_namespace_reserve(ns, bytes));
	return object_end(self, ret);
}

static PyObject *namespace_release(PyObject *self, PyObject *args)
{
	uint64_t bytes = UINT64_MAX, released = 0;
	void *ns;
	int ret;

	if (!PyArg_ParseTuple(args, "|O&:release", convert_u64, &bytes) ||
	    !(ns = object_enter(self)))
		return NULL;
	CALL(ret, afar_namespace_release(ns, bytes, &released));
	object_leave(self);
	return ret < 0 ? error_raise(ret) : PyLong_FromUnsignedLongLong(released);
}

static PyObject *namespace_grant(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"principal", "read", "write", NULL};
	const char *principal;
	int may_read = 0, may_write = 0, ret;
	unsigned rights;
	void *ns;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|$pp:grant", names, &principal,
					 &may_read, &may_write) ||
	    !(ns = object_enter(self)))
		return NULL;
	rights = (may_read || may_write ? AFAR_RIGHT_READ : 0) | (may_write ? AFAR_RIGHT_WRITE : 0);
	CALL(ret, afar_namespace_grant(ns, principal, rights));
	return object_end(self, ret);
}

/* ---- Its regions ----------------------------------------------------------------------------- */

static PyObject *namespace_create(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"name", "bytes", "first", "temporary", "unfinished", NULL};
	int is_first = 0, is_temporary = 0, is_unfinished = 0, ret;
	struct afar_region *region = NULL;
	const char *name;
	PyObject *result;
	uint64_t bytes;
	unsigned flags;
	void *ns;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "zO&|$ppp:create", names, &name,
					 convert_u64, &bytes, &is_first, &is_temporary,
					 &is_unfinished) ||
	    !(ns = object_enter(self)))
		return NULL;
	flags = (is_first ? AFAR_ALLOC_FIRST : 0) | (is_temporary ? AFAR_ALLOC_TEMPORARY : 0) |
		(is_unfinished ? AFAR_ALLOC_UNFINISHED : 0);
	CALL(ret, name ? afar_region_create(ns, name, bytes, flags, &region)
		       : afar_region_alloc(ns, bytes, flags, &region));
	result = ret < 0 ? error_raise(ret) : region_make(region, self);
	object_leave(self);
	return result;
}

/* A region is known by its name, or by its address. */
static int take_region(PyObject *argument, const char **name, uint64_t *address)
{
	*name = NULL;
	if (!PyUnicode_Check(argument))
		return take_u64(argument, "the region's address", address);
	*name = take_text(argument);
	return *name ? 0 : -1;
}

static PyObject *namespace_open(PyObject *self, PyObject *argument)
{
	struct afar_region *region = NULL;
	PyObject *result;
	const char *name;
	uint64_t address;
	void *ns;
	int ret;

	if (take_region(argument, &name, &address) || !(ns = object_enter(self)))
		return NULL;
	CALL(ret, name ? afar_region_open(ns, name, &region)
		       : afar_region_open_at(ns, address, &region));
	result = ret < 0 ? error_raise(ret) : region_make(region, self);
	object_leave(self);
	return result;
}

static PyObject *namespace_delete(PyObject *self, PyObject *argument)
{
	const char *name;
	uint64_t address;
	void *ns;
	int ret;

	if (take_region(argument, &name, &address) || !(ns = object_enter(self)))
		return NULL;
	CALL(ret, name ? afar_region_delete(ns, name) : afar_region_delete_at(ns, address));
	return object_end(self, ret);
}

struct regions {
	void *ns;
	struct afar_region_stat stats[32];
	uint64_t after;
};

static long next_regions(void *state, PyObject *list)
{
	struct regions *all = state;
	int nr;

	all->stats[0].size = sizeof(all->stats[0]);
	CALL(nr, afar_region_list(all->ns, all->after, all->stats, 32));
	if (nr < 0)
		return error_raise(nr), -1;
	for (int i = 0; i < nr; i++) {
		if (list_add(list, stat_make(region_fields, &all->stats[i])))
			return -1;
	}
	if (nr)
		all->after = all->stats[nr - 1].address;
	return nr;
}

static PyObject *namespace_regions(PyObject *self, PyObject *none)
{
	(void)none;
	return object_list(self, next_regions, sizeof(struct regions));
}

static PyMethodDef namespace_methods[] = {
	OBJECT_METHODS,
	{"stat", namespace_stat, METH_NOARGS, PyDoc_STR("stat()\n--\n\nIts policy and its use.")},
	{"reserve", namespace_reserve, METH_O,
	 PyDoc_STR("reserve(bytes)\n--\n\nGets servers' memory ready, ahead of time. Slow.")},
	{"release", namespace_release, METH_VARARGS,
	 PyDoc_STR("release(bytes=all)\n--\n\nGives unused memory back. Returns how much.")},
	{"grant", KEYWORD_METHOD(namespace_grant),
	 PyDoc_STR("grant(principal, *, read=False, write=False)\n--\n\nReplaces its rights.")},
	{"create", KEYWORD_METHOD(namespace_create),
	 PyDoc_STR("create(name, bytes, *, first=False, temporary=False, unfinished=False)\n--\n\n"
		   "Makes a region and opens it. With None for a name it has an address alone.")},
	{"open", namespace_open, METH_O,
	 PyDoc_STR("open(region)\n--\n\nOpens a region, by its name or its address.")},
	{"delete", namespace_delete, METH_O,
	 PyDoc_STR("delete(region)\n--\n\nFrees a region, by its name or its address.")},
	{"regions", namespace_regions, METH_NOARGS,
	 PyDoc_STR("regions()\n--\n\nLists them, in order of their addresses.")},
	{0},
};

static PyGetSetDef namespace_getters[] = {OBJECT_GETTERS, {0}};

static PyType_Slot namespace_slots[] = {
	{Py_tp_doc, "Namespace(session, name)\n--\n\nAn open namespace: memory with a name."},
	{Py_tp_new, namespace_new},
	{Py_tp_dealloc, object_dealloc},
	{Py_tp_methods, namespace_methods},
	{Py_tp_getset, namespace_getters},
	{0, NULL},
};

PyType_Spec namespace_spec = {"afar._afar.Namespace", sizeof(struct object), 0, Py_TPFLAGS_DEFAULT,
			      namespace_slots};
