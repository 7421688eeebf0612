/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A log-linear histogram of spans in nanoseconds. Each power of two is cut into eight buckets, so a
 * span is known to one part in eight. The table takes 2 KiB, from 1 ns to a minute. Header-only.
 * Clients count with it, the manager checks what they say, and tools show it.
 *
 * One thread adds. Others may read meanwhile, and see each count as it was a moment ago.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/counter.h"

#define HISTOGRAM_CUT	  3U  /* a power of two has 1 << HISTOGRAM_CUT buckets */
#define HISTOGRAM_POWERS  36U /* longer spans go to the last bucket */
#define HISTOGRAM_BUCKETS ((HISTOGRAM_POWERS - HISTOGRAM_CUT + 1U) << HISTOGRAM_CUT)

struct histogram {
	struct counter counts[HISTOGRAM_BUCKETS];
};

static inline unsigned histogram_bucket(uint64_t ns)
{
	unsigned power, bucket;

	if (ns < 1U << HISTOGRAM_CUT)
		return (unsigned)ns;
	power = 63U - (unsigned)__builtin_clzll(ns);
	/* The bits below the highest choose among the power's buckets. */
	bucket = ((power - HISTOGRAM_CUT) << HISTOGRAM_CUT) +
		 (unsigned)(ns >> (power - HISTOGRAM_CUT));
	return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* Returns the longest span of a bucket; the last bucket has longer ones, too. */
static inline uint64_t histogram_ns(unsigned bucket)
{
	unsigned power = bucket >> HISTOGRAM_CUT;
	uint64_t first, size;

	if (power == 0)
		return bucket;
	size = UINT64_C(1) << (power - 1);
	first = ((UINT64_C(1) << HISTOGRAM_CUT) + (bucket & ((1U << HISTOGRAM_CUT) - 1))) * size;
	return first + size - 1;
}

static inline void histogram_add(struct histogram *histogram, uint64_t ns, uint64_t weight)
{
	counter_add(&histogram->counts[histogram_bucket(ns)], weight);
}

/*
 * Returns the span that `per_mille` of those counted do not exceed: the upper end of its bucket. 0:
 * none were counted. The counts may be any numbers.
 */
static inline uint64_t histogram_quantile(const uint64_t counts[HISTOGRAM_BUCKETS],
					  unsigned per_mille)
{
	uint64_t total = 0, seen = 0, wanted;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		total = saturating_add(total, counts[i]);
	if (total == 0)
		return 0;
	/* The rank of that span, counted from 1: total * per_mille / 1000, rounded up. */
	wanted = total / 1000 * per_mille + (total % 1000 * per_mille + 999) / 1000;
	if (wanted == 0)
		wanted = 1;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen = saturating_add(seen, counts[i]);
		if (seen >= wanted)
			return histogram_ns(i);
	}
	return histogram_ns(HISTOGRAM_BUCKETS - 1);
}

#endif
