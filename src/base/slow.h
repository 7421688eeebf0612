/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of the log about operations that took long, of all parts of a daemon. At most 10 a second are
 * written; then one says how many were not. Thread-safe.
 */
#ifndef BASE_SLOW_H
#define BASE_SLOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

#define SLOW_SHOWN_MAX 10U /* lines in a second */

/* Operations that take at least so long are slow; 0: none is, and nobody need take times. */
extern _Atomic uint64_t slow_threshold_ns;

static inline bool slow_is_on(void)
{
	return atomic_load_explicit(&slow_threshold_ns, memory_order_relaxed) != 0;
}

/* True: it took long enough for a line. */
static inline bool slow_is(uint64_t took_ns)
{
	const uint64_t threshold = atomic_load_explicit(&slow_threshold_ns, memory_order_relaxed);

	return threshold != 0 && took_ns >= threshold;
}

/* Writes a line for an operation that has ended `now`, on clock_ns(). `fields` go with it in JSON. Returns whether it was
 * written. */
__attribute__((format(printf, 5, 6))) bool slow_write(const char *file, uint64_t now,
						      const struct log_field *fields,
						      size_t nr_fields, const char *format, ...);

/* Says how many lines were not written, if their second is over. Call it at the end of any operation: it
 * costs a load. */
void slow_tell(uint64_t now);

#endif
