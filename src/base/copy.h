/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between mappings of this machine, for those who make transfers of them.
 *
 * glibc copies what is larger than a core's second-level cache, on AMD's processors, in another way than what is smaller
 * (x86_rep_movsb_stop_threshold), and there that is a sixth slower, in the caches and out of them. So it is given parts.
 */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <stddef.h>
#include <string.h>

#define COPY_PART ((size_t)256 << 10)

/* As memcpy(). */
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
