/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long to wait before the next attempt: twice as long each time, up to a limit, and not the same for all who have lost
 * something at once. Header-only; whoever has one guards it.
 */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>

#include "base/clock.h"

struct backoff {
	uint32_t min_ms, max_ms; /* 2 <= min_ms <= max_ms */
	uint32_t ms;		 /* of the next; 0: min_ms */
};

/* An attempt was good. */
static inline void backoff_reset(struct backoff *backoff)
{
	backoff->ms = 0;
}

/* An attempt has failed: from a half to all of what it is the turn of. Never 0. */
static inline uint32_t backoff_next_ms(struct backoff *backoff)
{
	uint32_t ms = backoff->ms > backoff->min_ms ? backoff->ms : backoff->min_ms;

	ms = ms < backoff->max_ms ? ms : backoff->max_ms;
	backoff->ms = ms < backoff->max_ms / 2 ? 2 * ms : backoff->max_ms;
	/* The clock's lowest digits may stand still. */
	return ms - (uint32_t)(clock_ns() / 64 % (ms / 2));
}

#endif
