/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose process this is. */
#ifndef PRELOAD_PROCESSES_H
#define PRELOAD_PROCESSES_H

#include <stdbool.h>

/* Returns whether this is the process that began, and not the child of a vfork(), which has its memory. */
bool process_is_own(void);

#endif
