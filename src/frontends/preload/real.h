/* SPDX-License-Identifier: BSD-3-Clause */
/* The C library's own functions, of those that this library takes the place of. */
#ifndef PRELOAD_REAL_H
#define PRELOAD_REAL_H

#include <stdatomic.h>
#include <stddef.h>

/* Takes a function's place in the program. */
#define TAKEN __attribute__((visibility("default")))

/* Never NULL. Needs no memory, so that an allocator may call what needs it. */
void *real_find(const char *name);

/* REAL(read)(fd, data, size) */
#define REAL(function)                                                                  \
	({                                                                              \
		static void *_Atomic address_;                                          \
		void *found_ = atomic_load_explicit(&address_, memory_order_relaxed);   \
		if (__builtin_expect(!found_, 0)) {                                     \
			found_ = real_find(#function);                                  \
			atomic_store_explicit(&address_, found_, memory_order_relaxed); \
		}                                                                       \
		(__typeof__(&(function)))found_;                                        \
	})

#endif
