/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between mappings of this machine. Transports use it where a copy is a transfer.
 *
 * On AMD's processors glibc copies long lengths by `rep movsb`, which has two weak points there. So we copy
 * in our own way:
 *
 * - It changes its method for copies that are larger than a core's second-level cache
 *   (x86_rep_movsb_stop_threshold). The other method is a sixth slower, in the caches and out of them. So
 *   we copy in smaller parts.
 * - It is slow where the destination is 1 to 31 bytes further into its page than the source is into its own.
 *   It takes four to five times as long then (Zen 3, measured; glibc bug 30994). A large buffer of malloc()
 *   begins 16 bytes into a page, and what is read begins with one. So we copy by vectors then.
 */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define COPY_PART     ((size_t)256 << 10)
#define COPY_REP_MIN  2048U /* glibc copies less by vectors */
#define COPY_REP_SLOW 32U

/* Copies like memcpy(), by vectors. */
void copy_by_vectors(void *to, const void *from, size_t length);

static inline bool copy_is_slow_by_rep(const void *to, const void *from, size_t length)
{
	size_t ahead = ((uintptr_t)to - (uintptr_t)from) % 4096U;

	return ahead - 1 < COPY_REP_SLOW - 1 && length > COPY_REP_MIN;
}

/* Copies like memcpy(). */
static inline void copy_memory(void *to, const void *from, size_t length)
{
	if (copy_is_slow_by_rep(to, from, length)) {
		copy_by_vectors(to, from, length);
		return;
	}
	while (length > COPY_PART) {
		memcpy(to, from, COPY_PART);
		to = (char *)to + COPY_PART;
		from = (const char *)from + COPY_PART;
		length -= COPY_PART;
	}
	memcpy(to, from, length);
}

#endif
