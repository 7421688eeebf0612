/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tells how much memory this process may still populate without waking the OOM killer, which does
 * not ask. It looks at what the machine has left, and at what the process's control group (version
 * 1 or 2, every level) lets it have.
 */
#ifndef MEMORY_AVAILABLE_H
#define MEMORY_AVAILABLE_H

#include <stdint.h>

/* Returns the bytes that ordinary pages can still take, as the kernel estimates them; UINT64_MAX:
 * it does not say. */
uint64_t memory_available(void);

/* Returns the machine's memory, or the control group's limit if that is less. */
uint64_t memory_limit(void);

/* Returns the bytes of reserved 2 MiB huge pages that nobody has or was promised. */
uint64_t memory_available_huge(void);

#endif
