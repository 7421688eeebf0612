/* SPDX-License-Identifier: BSD-3-Clause */
/* Tells how much of this process's memory really is on huge pages. We often ask for them, and the
 * kernel gives them if it can. */
#ifndef MEMORY_HUGE_H
#define MEMORY_HUGE_H

#include <stdint.h>

/* Measures the bytes on transparent and on reserved huge pages now. It is slow, because the kernel
 * walks the page tables. */
uint64_t memory_huge_measure(void);

/* Returns the last measurement. It measures anew if that is older than a hundred times as long as
 * it took, and older than a second. Thread-safe. */
uint64_t memory_huge_bytes(void);

#endif
