/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits the log lines that strangers (peers that have not authenticated) can cause: each gets its
 * line, but a flood of them does not flood the log.
 */
#ifndef SERVER_COMPLAINT_H
#define SERVER_COMPLAINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define COMPLAINT_BURST	      20U	  /* lines at once */
#define COMPLAINT_INTERVAL_NS 1000000000U /* then one line in this time */

struct complaints {
	/* On clock_ns(): when the lines so far would have been due, at one per interval. */
	_Atomic uint64_t paid_until;
};

/* True if another line may be written, and counts it. Any thread may call it. */
static inline bool complaints_allow(struct complaints *complaints)
{
	uint64_t now = clock_ns(), paid = atomic_load(&complaints->paid_until), next;

	do {
		if (paid > now + (COMPLAINT_BURST - 1) * (uint64_t)COMPLAINT_INTERVAL_NS)
			return false;
		next = (paid > now ? paid : now) + COMPLAINT_INTERVAL_NS;
	} while (!atomic_compare_exchange_weak(&complaints->paid_until, &paid, next));
	return true;
}

#endif
