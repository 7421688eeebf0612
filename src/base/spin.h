/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spinning: a thread looks again and again for what it waits for. If more threads spin than there
 * are cores, the awaited thread may need the spinner's core. So a spinner yields its core after a
 * while. It yields between all looks as long as another thread takes the core, which it learns from
 * how long a yield takes.
 */
#ifndef BASE_SPIN_H
#define BASE_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define SPIN_ALONE_NS \
	20000U /* between yields that nobody takes: longer than a round trip over tcp */
#define SPIN_CROWDED_NS \
	2000U /* a longer yield let another thread run: 3 µs, if that one yielded at once; a yield \
		 that nobody takes is less than 1 µs */

/* A thread's knowledge of its core. When zeroed, it assumes that the core is the thread's alone. */
struct spin {
	uint64_t yield_at;
	bool is_crowded;
};

/* Begins a wait, or continues one after progress. */
static inline void spin_begin(struct spin *spin, uint64_t now)
{
	spin->yield_at = spin->is_crowded ? now : now + SPIN_ALONE_NS;
}

/* Call it between two looks. It yields the core if it is time to. Returns the time. */
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
