/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses how long to wait before the next attempt. The wait doubles each time, up to a limit. It
 * differs at random, so that clients that lost the same thing at once do not all come back at once.
 * Header-only; its owner guards it.
 */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>

#include "base/clock.h"

struct backoff {
	uint32_t min_ms, max_ms; /* 2 <= min_ms <= max_ms */
	uint32_t ms;		 /* before the next attempt, at most; 0: min_ms */
};

/* Call it after an attempt that succeeded. */
static inline void backoff_reset(struct backoff *backoff)
{
	backoff->ms = 0;
}

/* Call it after an attempt that failed. Returns how long to wait: from half to all of the current
 * wait, and never 0. */
static inline uint32_t backoff_next_ms(struct backoff *backoff)
{
	uint32_t ms = backoff->ms > backoff->min_ms ? backoff->ms : backoff->min_ms;

	ms = ms < backoff->max_ms ? ms : backoff->max_ms;
	backoff->ms = ms < backoff->max_ms / 2 ? 2 * ms : backoff->max_ms;
	/* The clock's lowest digits may stand still, so they are left out. */
	return ms - (uint32_t)(clock_ns() / 64 % (ms / 2));
}

#endif
