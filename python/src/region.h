/* SPDX-License-Identifier: BSD-3-Clause */
/* afar.Region, which namespaces make. */
#ifndef AFAR_PYTHON_REGION_H
#define AFAR_PYTHON_REGION_H

#include <afar/region.h>

#include "convert.h"
#include "object.h"

extern const struct field region_fields[];

/* Makes an object of an open region, which it takes; `ns` is a Namespace. NULL, with an exception,
 * and the region is closed. */
PyObject *region_make(struct afar_region *region, PyObject *ns);

/* region.attach(offset=0, length=None, *, writable=False) */
PyObject *attachment_make(PyObject *region, PyObject *arguments, PyObject *keywords);

/* Bytes of an open region. */
uint64_t region_length(PyObject *region);

#endif
