/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters for the data path: one thread adds, without a locked instruction, and others may read meanwhile and see
 * what it was a moment ago. Header-only.
 */
#ifndef BASE_COUNTER_H
#define BASE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

struct counter {
	atomic_uint_least64_t value;
};

static inline uint64_t counter_get(const struct counter *counter)
{
	return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

/* On the one thread. */
static inline void counter_add(struct counter *counter, uint64_t more)
{
	atomic_store_explicit(&counter->value, counter_get(counter) + more, memory_order_relaxed);
}

/* For sums of what others say. */
static inline uint64_t saturating_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* For any of several threads. */
static inline void counter_add_shared(struct counter *counter, uint64_t more)
{
	atomic_fetch_add_explicit(&counter->value, more, memory_order_relaxed);
}

#endif
