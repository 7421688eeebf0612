/* SPDX-License-Identifier: BSD-3-Clause */
/* afar.Buffer: memory that is registered for transfers, the library's or an array's. */
#ifndef AFAR_PYTHON_MEMORY_H
#define AFAR_PYTHON_MEMORY_H

#include <afar/buffer.h>

#include "object.h"

/* Returns the open buffer of the session that has all of a range, or NULL. */
struct afar_buffer *memory_find(struct object *session, const void *addr, size_t length);

#endif
