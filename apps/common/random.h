/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers that look random, each computed for itself from a seed and its place in the row. */
#ifndef APPS_COMMON_RANDOM_H
#define APPS_COMMON_RANDOM_H

#include <stdint.h>

/* Mixes the bits of a number: each of them changes about half of the result's. */
static inline uint64_t random_mix(uint64_t bits)
{
	bits = (bits ^ (bits >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	bits = (bits ^ (bits >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	return bits ^ (bits >> 32);
}

/* The `i`th number of the row `seed`. */
static inline uint64_t random_at(uint64_t seed, uint64_t i)
{
	return random_mix(random_mix(seed + 1) + i);
}

#endif
