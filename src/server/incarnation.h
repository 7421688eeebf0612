/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who the server is until it stops: a number, and the key that passes and capabilities for it are signed
 * with, which the manager alone is told. Both expire by the age of the incarnation.
 */
#ifndef SERVER_INCARNATION_H
#define SERVER_INCARNATION_H

#include <stdint.h>

#include "base/clock.h"
#include "rpc/pass.h"

struct incarnation {
	uint64_t number; /* not 0 */
	uint64_t began;	 /* on clock_ns() */
	uint8_t signing_key[SIGNING_KEY_BYTES];
};

/* At random, from now on. -EIO with a sentence. */
int incarnation_draw(struct incarnation *out);

/* In whole seconds. */
static inline uint32_t incarnation_age_s(const struct incarnation *incarnation)
{
	return (uint32_t)((clock_ns() - incarnation->began) / 1000000000U);
}

#endif
