/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much memory this process may still populate without waking the OOM killer, which does not ask:
 * what the machine has left and what its control group (version 1 or 2, every level) lets it have.
 */
#ifndef MEMORY_AVAILABLE_H
#define MEMORY_AVAILABLE_H

#include <stdint.h>

/* Bytes that ordinary pages can still take, as the kernel estimates it; UINT64_MAX if it does not say. */
uint64_t memory_available(void);

/* The machine's memory, or the control group's limit where that is less. */
uint64_t memory_limit(void);

/* Bytes of reserved 2 MiB huge pages that nobody has or was promised. */
uint64_t memory_available_huge(void);

#endif
