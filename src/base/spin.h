/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spinning: a thread that waits looks again and again for what it waits for. Where more threads spin than
 * there are cores, the awaited one may need the spinner's core. So a spinner gives its core up after a while,
 * and between all looks as long as somebody takes it: the time that a yield takes tells.
 */
#ifndef BASE_SPIN_H
#define BASE_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define SPIN_ALONE_NS \
	20000U /* between yields that nobody needs: longer than a round trip over tcp */
#define SPIN_CROWDED_NS \
	4000U /* a yield that takes longer let somebody else run; one alone takes about 1 µs */

/* What a thread has learnt of its core. Zeroed, it is the core's only one. */
struct spin {
	uint64_t yield_at;
	bool is_crowded;
};

/* Begins a wait, or goes on with one after progress. */
static inline void spin_begin(struct spin *spin, uint64_t now)
{
	spin->yield_at = spin->is_crowded ? now : now + SPIN_ALONE_NS;
}

/* Call this between two looks. Gives the core up if it is time to; returns the time. */
static inline uint64_t spin_pause(struct spin *spin, uint64_t now)
{
	uint64_t begun = now;

	if (now < spin->yield_at)
		return now;
	sched_yield();
	now = clock_ns();
	spin->is_crowded = now - begun > SPIN_CROWDED_NS;
	spin_begin(spin, now);
	return now;
}

#endif
