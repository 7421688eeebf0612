/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters for the data path. One thread adds, without a locked instruction. Others may read
 * meanwhile, and see a value of a moment ago. Header-only.
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

/* Only the counter's own thread may call it. */
static inline void counter_add(struct counter *counter, uint64_t more)
{
	atomic_store_explicit(&counter->value, counter_get(counter) + more, memory_order_relaxed);
}

/* Likewise: for what may also fall. */
static inline void counter_set(struct counter *counter, uint64_t value)
{
	atomic_store_explicit(&counter->value, value, memory_order_relaxed);
}

/* Adds without overflow. Use it for numbers that peers send. */
static inline uint64_t saturating_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Any thread may call it, if no thread calls counter_add(). */
static inline void counter_add_shared(struct counter *counter, uint64_t more)
{
	atomic_fetch_add_explicit(&counter->value, more, memory_order_relaxed);
}

#endif
