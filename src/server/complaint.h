/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A limit on the log lines that strangers can cause: each gets its line, but a flood of strangers does
 * not flood the log.
 */
#ifndef SERVER_COMPLAINT_H
#define SERVER_COMPLAINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define COMPLAINT_BURST	      20U	  /* lines at once, and then */
#define COMPLAINT_INTERVAL_NS 1000000000U /* one in so long          */

struct complaints {
	_Atomic uint64_t
		paid_until; /* on clock_ns(): when the lines so far were due, one per interval */
};

/* Whether another line may be written. From any thread. */
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
