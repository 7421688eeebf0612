/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zeroes parts of a namespace's memory for the manager, so that what one user gave back is zeros
 * before another gets it. Called by orders.c on the one thread that reserves and releases, so an
 * extent stays while a step works on it. The thread has other things to do, so a trim is done in
 * steps. Those of stores are store_trims.c's.
 */
#ifndef SERVER_TRIM_H
#define SERVER_TRIM_H

#include <stddef.h>
#include <stdint.h>

#include "server/memory/extent.h"

#define TRIM_STEP_BYTES ((uint64_t)16 << 20) /* a few milliseconds */

/* How far a trim has come. All zeros: it has not begun. */
struct trim_place {
	size_t range;
	uint64_t done; /* bytes of that range */
};

/* Checks that the trim can be done, and zeroes nothing. Errors, with a sentence: -EINVAL (no
 * multiples of 4 KiB), -AFAR_ELOST (the namespace has no such extent that it may write), -ERANGE. */
int trim_check(struct extent_pool *pool, uint64_t namespace, const struct extent_range *ranges,
	       size_t nr_ranges);

/* Zeroes the next TRIM_STEP_BYTES of ranges that were checked. 1: there is more to do; 0: this was the
 * last step. Between steps an extent may have been released: -AFAR_ELOST, with a sentence. */
int trim_step(struct extent_pool *pool, uint64_t namespace, const struct extent_range *ranges,
	      size_t nr_ranges, struct trim_place *place);

#endif
