/* SPDX-License-Identifier: BSD-3-Clause */
/* The module afar._afar: its types, which files beside this one have. Python's part is in afar/. */
#include <afar/version.h>

#include "convert.h"
#include "errors.h"
#include "object.h"

PyTypeObject *session_type, *namespace_type, *region_type, *attachment_type, *buffer_type,
	*queue_type, *volume_type, *fs_type, *file_type, *array_type;

static struct {
	const char *name;
	PyType_Spec *spec;
	PyTypeObject **type;
} types[] = {
	{"Session", &session_spec, &session_type},
	{"Namespace", &namespace_spec, &namespace_type},
	{"Region", &region_spec, &region_type},
	{"Attachment", &attachment_spec, &attachment_type},
	{"Buffer", &buffer_spec, &buffer_type},
	{"Queue", &queue_spec, &queue_type},
	{"Volume", &volume_spec, &volume_type},
	{"FileSystem", &fs_spec, &fs_type},
	{"File", &file_spec, &file_type},
	{"Array", &array_spec, &array_type},
};

/* Types and exceptions are the process's: there is one interpreter. */
static struct PyModuleDef module_definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "afar._afar",
	.m_doc = "libafar's objects.",
	.m_size = -1,
};

/* Adds the release of the library that runs, which may be newer than the headers. */
static int add_version(PyObject *module)
{
	unsigned version = afar_version();
	PyObject *text = PyUnicode_FromFormat("%u.%u.%u", version / 1000000, version / 1000 % 1000,
					      version % 1000);
	int ret = text ? PyModule_AddObjectRef(module, "version", text) : -1;

	Py_XDECREF(text);
	return ret;
}

PyMODINIT_FUNC PyInit__afar(void);

PyMODINIT_FUNC PyInit__afar(void)
{
	PyObject *module = PyModule_Create(&module_definition);

	if (!module || errors_load() || stat_load())
		goto fail;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		PyObject *type = PyType_FromSpec(types[i].spec);

		*types[i].type = (PyTypeObject *)type;
		if (!type || PyModule_AddObjectRef(module, types[i].name, type))
			goto fail;
	}
	if (add_version(module))
		goto fail;
	return module;
fail:
	Py_XDECREF(module);
	return NULL;
}
