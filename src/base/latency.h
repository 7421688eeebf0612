/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts spans by powers of two of nanoseconds, and sums them: a quarter of a KiB for what daemons show of themselves
 * (histogram.h is finer, and eight times as large). Header-only.
 *
 * One thread adds at a time. Others may read meanwhile, and see each count as it was a moment ago.
 */
#ifndef BASE_LATENCY_H
#define BASE_LATENCY_H

#include <stdint.h>

#include "base/counter.h"

#define LATENCY_FIRST 10U /* the first bucket has spans below 1 << 10 ns, about a microsecond */
#define LATENCY_BUCKETS \
	27U /* the last one but one ends at 1 << 35 ns, 34 s; the last has the rest */

struct latency {
	struct counter counts[LATENCY_BUCKETS];
	struct counter sum_ns;
};

/* Bucket `i` has the spans below 1 << (LATENCY_FIRST + i) ns that no bucket before it has. */
static inline unsigned latency_bucket(uint64_t ns)
{
	unsigned bits = ns == 0 ? 0 : 64U - (unsigned)__builtin_clzll(ns);

	if (bits <= LATENCY_FIRST)
		return 0;
	return bits - LATENCY_FIRST < LATENCY_BUCKETS ? bits - LATENCY_FIRST : LATENCY_BUCKETS - 1;
}

static inline void latency_add(struct latency *latency, uint64_t ns)
{
	counter_add(&latency->counts[latency_bucket(ns)], 1);
	counter_add(&latency->sum_ns, ns);
}

static inline uint64_t latency_nr(const struct latency *latency)
{
	uint64_t nr = 0;

	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		nr = saturating_add(nr, counter_get(&latency->counts[i]));
	return nr;
}

/* Copies what another thread may be adding to. */
static inline void latency_copy(const struct latency *from, struct latency *to)
{
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		counter_set(&to->counts[i], counter_get(&from->counts[i]));
	counter_set(&to->sum_ns, counter_get(&from->sum_ns));
}

#endif
