/* SPDX-License-Identifier: BSD-3-Clause */
/* How much of this process's memory really is on huge pages: asked for they are often, and had when the kernel could. */
#ifndef MEMORY_HUGE_H
#define MEMORY_HUGE_H

#include <stdint.h>

/* Bytes on transparent and on reserved huge pages, now. The kernel walks the page tables for it. */
uint64_t memory_huge_measure(void);

/* The same as last measured: that is good for a hundred times as long as it took, and for a second at least.
 * Thread-safe. */
uint64_t memory_huge_bytes(void);

#endif
