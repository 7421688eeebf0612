/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Estimates update rates; see heat.h. For puts at random, the best estimate of the interval is the
 * observed time divided by the number of puts in it. The byte keeps that quotient and, up to a
 * limit, the number, so that older puts count less.
 */
#include "heat.h"

#define MEAN_INTERVAL (1U << 16)
#define OCTAVES_DOWN  (HEAT_LEVEL_MEAN / HEAT_OCTAVE)

#define LEVEL_BITS 6U
#define LEVEL_MASK (HEAT_LEVELS - 1)
#define PUTS_MAX   3U
#define HINT_PUTS  2U /* that a hint counts as, because it may be wrong */

/* The weight of the estimate so far, in halves of a put, by the number of puts that it rests on. */
static const uint64_t half_weights[PUTS_MAX + 1] = {1, 2, 4, 8};

/* 2^(i/4) in units of 2^-16. */
static const uint32_t quarters[HEAT_OCTAVE] = {65536, 77936, 92682, 110218};

/* Encodes a block's byte. 0 is the mean level with no puts: nothing is known. */
static uint8_t encode(unsigned level, unsigned nr_puts)
{
	return (uint8_t)(nr_puts << LEVEL_BITS | (level ^ HEAT_LEVEL_MEAN));
}

unsigned heat_level(uint8_t block)
{
	return (block & LEVEL_MASK) ^ HEAT_LEVEL_MEAN;
}

static unsigned nr_puts_of(uint8_t block)
{
	return block >> LEVEL_BITS;
}

void heat_init(struct heat *heat, uint64_t nr_blocks)
{
	heat->scale = ((uint64_t)MEAN_INTERVAL << 32) / nr_blocks;
	heat->longest = nr_blocks << OCTAVES_DOWN;
	heat->random = 0x9e3779b97f4a7c15;
	for (unsigned level = 0; level < HEAT_LEVELS; level++)
		heat->interval[level] = (uint32_t)(((uint64_t)quarters[level % HEAT_OCTAVE]
						    << (level / HEAT_OCTAVE)) >>
						   OCTAVES_DOWN);
}

static uint32_t draw(struct heat *heat)
{
	heat->random ^= heat->random << 13;
	heat->random ^= heat->random >> 7;
	heat->random ^= heat->random << 17;
	return (uint32_t)(heat->random >> 32);
}

/* Converts ticks to 2^-16 of the mean interval. */
static uint64_t scaled(const struct heat *heat, uint64_t survived)
{
	return ((survived < heat->longest ? survived : heat->longest) * heat->scale) >> 32;
}

/*
 * Rounds `interval` to one of the two levels around it, at random, so that the mean is exact and
 * small steps add up.
 */
static unsigned level_near(struct heat *heat, uint64_t interval)
{
	unsigned level;
	uint64_t gap;

	if (interval <= heat->interval[0])
		return 0;
	if (interval >= heat->interval[HEAT_LEVELS - 1])
		return HEAT_LEVELS - 1;
	level = ((unsigned)(63 - __builtin_clzll(interval)) - OCTAVES_DOWN) * HEAT_OCTAVE;
	while (heat->interval[level + 1] <= interval)
		level++;
	gap = heat->interval[level + 1] - heat->interval[level];
	return level + ((draw(heat) * gap >> 32) < interval - heat->interval[level]);
}

unsigned heat_put(struct heat *heat, uint8_t *block, uint64_t survived)
{
	unsigned nr_puts = nr_puts_of(*block);
	uint64_t weight = half_weights[nr_puts];
	uint64_t sum = weight * heat->interval[heat_level(*block)] + 2 * scaled(heat, survived);
	unsigned level = level_near(heat, sum / (weight + 2));

	*block = encode(level, nr_puts < PUTS_MAX ? nr_puts + 1 : PUTS_MAX);
	return level;
}

bool heat_is_known(uint8_t block)
{
	return nr_puts_of(block) > 0;
}

unsigned heat_told(uint8_t *block, uint8_t hint)
{
	unsigned colder = hint / (16 / HEAT_OCTAVE);
	unsigned level = HEAT_LEVELS - (colder ? colder : 1);

	*block = encode(level, HINT_PUTS);
	return level;
}

unsigned heat_moved(struct heat *heat, uint8_t *block, uint64_t survived)
{
	unsigned nr_puts = nr_puts_of(*block);
	uint64_t longer = 2 * scaled(heat, survived) / half_weights[nr_puts];
	unsigned level = level_near(heat, heat->interval[heat_level(*block)] + longer);

	*block = encode(level, nr_puts);
	return level;
}
