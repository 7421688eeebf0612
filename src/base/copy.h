/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between mappings of this machine. Transports use it where a copy is a transfer.
 *
 * On AMD's processors glibc changes its method for copies that are larger than a core's
 * second-level cache (x86_rep_movsb_stop_threshold). There the other method is a sixth slower, in
 * the caches and out of them. So we copy in smaller parts.
 */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <stddef.h>
#include <string.h>

#define COPY_PART ((size_t)256 << 10)

/* Copies like memcpy(). */
static inline void copy_memory(void *to, const void *from, size_t length)
{
	while (length > COPY_PART) {
		memcpy(to, from, COPY_PART);
		to = (char *)to + COPY_PART;
		from = (const char *)from + COPY_PART;
		length -= COPY_PART;
	}
	memcpy(to, from, length);
}

#endif
