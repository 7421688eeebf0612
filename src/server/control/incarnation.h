/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The identity of a server until it stops: a number, and the key that signs passes and capabilities
 * for it. Only the manager is told the key. Passes and capabilities expire by the age of the
 * incarnation.
 */
#ifndef SERVER_INCARNATION_H
#define SERVER_INCARNATION_H

#include <stdint.h>

#include "base/clock.h"
#include "rpc/pass.h"

struct incarnation {
	uint64_t number; /* not 0 */
	uint64_t began;	 /* on clock_ns(); atomic */
	uint8_t signing_key[SIGNING_KEY_BYTES];
};

/* Draws a random incarnation, which begins now. -EIO, with a sentence. */
int incarnation_draw(struct incarnation *out);

/* Returns the incarnation's age in whole seconds. */
static inline uint32_t incarnation_age_s(const struct incarnation *incarnation)
{
	uint64_t began = __atomic_load_n(&incarnation->began, __ATOMIC_ACQUIRE);

	return (uint32_t)((clock_ns() - began) / 1000000000U);
}

/* Makes it so much older that no pass and no capability of before is good any more. The manager learns that with the next join. */
static inline void incarnation_age(struct incarnation *incarnation)
{
	__atomic_sub_fetch(&incarnation->began, (PASS_LIFETIME_MAX_S + 1) * UINT64_C(1000000000),
			   __ATOMIC_RELEASE);
}

#endif
