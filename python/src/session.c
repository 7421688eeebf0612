/* SPDX-License-Identifier: BSD-3-Clause */
/* afar.Session: opened here, and what is made, listed and deleted through it. */
#include <stdlib.h>
#include <string.h>

#include <afar/volume.h>

#include "buffers.h"
#include "convert.h"
#include "errors.h"
#include "session.h"

/* Memory of arrays of more than 64 KiB that stays registered where the transport wants that. */
#define REGISTRATION_BYTES (1ULL << 30)

static int session_close(struct object *object)
{
	return afar_session_close(object->handle);
}

static const struct object_kind session_kind = {"session", session_close, NULL};

static PyObject *session_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {
		"uri",	   "key_file",		 "timeout",    "path", "cache_bytes",
		"spin_us", "registration_bytes", "congestion", NULL};
	struct afar_session_options options = {.size = sizeof(options),
					       .registration_bytes = REGISTRATION_BYTES};
	PyObject *key_file = NULL, *self = NULL;
	struct afar_session *session;
	const char *uri = NULL;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(
		    arguments, keywords, "|z$O&O&zO&O&O&z:Session", names, &uri,
		    PyUnicode_FSConverter, &key_file, convert_timeout, &options.timeout_ms,
		    &options.path, convert_u64, &options.cache_bytes, convert_u32, &options.spin_us,
		    convert_u64, &options.registration_bytes, &options.congestion))
		return NULL;
	if (key_file)
		options.key_file = PyBytes_AsString(key_file);
	CALL(ret, afar_session_open(uri, &options, &session));
	if (ret < 0) {
		error_raise(ret);
	} else {
		self = PyType_GenericAlloc(type, 0);
		if (self)
			object_open((struct object *)self, &session_kind, session, NULL);
		else
			afar_session_close(session);
	}
	Py_XDECREF(key_file);
	return self;
}

/* ---- About the session and its cluster ------------------------------------------------------- */

/* Makes a str of text that the library has allocated, and frees it. */
static PyObject *give_text(PyObject *self, int (*ask)(struct afar_session *session, char **out))
{
	void *session = object_enter(self);
	PyObject *result;
	char *text = NULL;
	int ret;

	if (!session)
		return NULL;
	CALL(ret, ask(session, &text));
	result = ret < 0 ? error_raise(ret) : TEXT(text);
	free(text);
	object_leave(self);
	return result;
}

static PyObject *session_status(PyObject *self, PyObject *none)
{
	(void)none;
	return give_text(self, afar_session_status);
}

static PyObject *session_uri(PyObject *self, PyObject *none)
{
	(void)none;
	return give_text(self, afar_session_uri);
}

static PyObject *session_stat(PyObject *self, PyObject *none)
{
	static const struct field fields[] = {
		FIELD(struct afar_session_stat, cached_bytes, FIELD_U64),
		FIELD(struct afar_session_stat, cached_bytes_max, FIELD_U64),
		FIELD(struct afar_session_stat, nr_cache_hits, FIELD_U64),
		FIELD(struct afar_session_stat, nr_cache_misses, FIELD_U64),
		FIELD(struct afar_session_stat, nr_registrations, FIELD_U64),
		FIELD(struct afar_session_stat, registered_bytes, FIELD_U64),
		FIELD(struct afar_session_stat, nr_bounced, FIELD_U64),
		FIELD(struct afar_session_stat, kept_bytes, FIELD_U64),
		FIELD(struct afar_session_stat, nr_kept, FIELD_U64),
		FIELD(struct afar_session_stat, nr_kept_hits, FIELD_U64),
		FIELD(struct afar_session_stat, nr_kept_misses, FIELD_U64),
		FIELD(struct afar_session_stat, nr_paths, FIELD_U32),
		FIELD(struct afar_session_stat, nr_blocking_queues, FIELD_U32),
		FIELD(struct afar_session_stat, number, FIELD_U64),
		FIELD(struct afar_session_stat, has_ended, FIELD_BOOL32),
		{0},
	};
	struct afar_session_stat stat = {.size = sizeof(stat)};
	void *session = object_enter(self);
	PyObject *result;
	int ret;

	(void)none;
	if (!session)
		return NULL;
	CALL(ret, afar_session_stat(session, &stat));
	result = ret < 0 ? error_raise(ret) : stat_make(fields, &stat);
	object_leave(self);
	return result;
}

/* ---- What is made, listed and deleted by its name -------------------------------------------- */

static PyObject *session_create_namespace(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"name", "tier", "width", "stripe_bytes", "max_bytes", NULL};
	struct afar_policy policy = {.size = sizeof(policy)};
	const char *name;
	void *session;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|$O&O&O&O&:create_namespace", names,
					 &name, convert_tier, &policy.tier, convert_u32,
					 &policy.width, convert_u64, &policy.stripe_bytes,
					 convert_u64, &policy.max_bytes))
		return NULL;
	session = object_enter(self);
	if (!session)
		return NULL;
	CALL(ret, afar_namespace_create(session, name, &policy, NULL));
	return object_end(self, ret);
}

static PyObject *session_delete_namespace(PyObject *self, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"name", "regions", NULL};
	int with_regions = 0, ret;
	const char *name;
	void *session;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|$p:delete_namespace", names, &name,
					 &with_regions))
		return NULL;
	session = object_enter(self);
	if (!session)
		return NULL;
	CALL(ret, afar_namespace_delete(session, name, with_regions ? AFAR_DELETE_REGIONS : 0));
	return object_end(self, ret);
}

struct namespaces {
	void *session;
	struct afar_namespace_stat stats[32];
	char after[AFAR_NAME_MAX + 1];
};

static long next_namespaces(void *state, PyObject *list)
{
	struct namespaces *all = state;
	int nr;

	all->stats[0].size = sizeof(all->stats[0]);
	CALL(nr,
	     afar_namespace_list(all->session, *all->after ? all->after : NULL, all->stats, 32));
	if (nr < 0)
		return error_raise(nr), -1;
	for (int i = 0; i < nr; i++) {
		if (list_add(list, stat_make(namespace_fields, &all->stats[i])))
			return -1;
	}
	if (nr)
		memcpy(all->after, all->stats[nr - 1].name, sizeof(all->after));
	return nr;
}

static PyObject *session_namespaces(PyObject *self, PyObject *none)
{
	(void)none;
	return object_list(self, next_namespaces, sizeof(struct namespaces));
}

static PyMethodDef session_methods[] = {
	OBJECT_METHODS,
	{"uri", session_uri, METH_NOARGS,
	 PyDoc_STR("uri()\n--\n\nA URI that opens another session of the same principal.")},
	{"status_json", session_status, METH_NOARGS,
	 PyDoc_STR("status_json()\n--\n\nThe cluster as `afar status --json` shows it.")},
	{"stat", session_stat, METH_NOARGS,
	 PyDoc_STR("stat()\n--\n\nWhat the session keeps for reuse.")},
	{"create_namespace", KEYWORD_METHOD(session_create_namespace),
	 PyDoc_STR("create_namespace(name, *, tier='dram', width=0, stripe_bytes=0, "
		   "max_bytes=0)\n--\n\nMakes a namespace.")},
	{"delete_namespace", KEYWORD_METHOD(session_delete_namespace),
	 PyDoc_STR("delete_namespace(name, *, regions=False)\n--\n\nDeletes a namespace; with "
		   "`regions` also those that it has.")},
	{"namespaces", session_namespaces, METH_NOARGS,
	 PyDoc_STR("namespaces()\n--\n\nLists them, in order of their names.")},
	SESSION_VOLUME_METHODS,
	SESSION_FS_METHODS,
	{0},
};

static PyGetSetDef session_getters[] = {OBJECT_GETTERS, {0}};

static PyType_Slot session_slots[] = {
	{Py_tp_doc, "Session(uri=None, *, key_file=None, timeout=30, path=None)\n--\n\n"
		    "A session with the cluster at `uri`, by default the one of $AFAR_CLUSTER. "
		    "Any number of threads may use it."},
	{Py_tp_new, session_new},
	{Py_tp_dealloc, object_dealloc},
	{Py_tp_methods, session_methods},
	{Py_tp_getset, session_getters},
	{0, NULL},
};

PyType_Spec session_spec = {"afar._afar.Session", sizeof(struct object), 0,
			    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, session_slots};
