/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of how often a block is overwritten: one byte a block, which its owner keeps and passes in (zero: nothing is
 * known yet). Pure: no memory, no clock, no I/O of its own. streams.c turns the answers into streams.
 *
 * The byte holds an estimate of the interval between two puts of the block, in quarters of an octave, and how many puts
 * it rests on. It learns from how long the block has survived at its place: a put ends an interval, a move by the
 * cleaner says that it is at least that much longer. If puts come at random, surviving has no memory, so each stretch
 * counts by itself, and the only time that has to be known is that of the place: its segment's (when it was opened,
 * or last written to), not one per block.
 *
 * Time is the write clock: the number of blocks that users have put. Levels are relative to the blocks that there are:
 * HEAT_LEVEL_MEAN is a block that is put as often as the average one; four levels more, half as often.
 */
#ifndef FLASH_HEAT_H
#define FLASH_HEAT_H

#include <stdint.h>

#define HEAT_LEVELS	64U
#define HEAT_LEVEL_MEAN 32U
#define HEAT_OCTAVE	4U /* levels that double the interval */

/*
 * What a caller may know: 0 is nothing, HEAT_HINT_MEAN the average block's rate, and 16 more double the rate.
 */
#define HEAT_HINT_MEAN 128U

struct heat {
	uint64_t scale;			/* survived × scale >> 32: in 2^-16 of the mean interval */
	uint64_t longest;		/* what has survived longer counts as this               */
	uint64_t random;		/* for rounding without bias                             */
	uint32_t interval[HEAT_LEVELS]; /* of each level, in 2^-16 of the mean interval          */
};

/* `nr_blocks` that can be put: those that are in use, or all of the device; at least 1. */
void heat_init(struct heat *heat, uint64_t nr_blocks);

/* The block is put, `survived` after it came to its place. Returns its level from now on. */
unsigned heat_put(struct heat *heat, uint8_t *block, uint64_t survived);
/* The caller knows the rate of what is put: `hint`, which is not 0. Returns the level. */
unsigned heat_told(uint8_t *block, uint8_t hint);
/* The block is moved by the cleaner, `survived` after it came to its place. Returns its level from now on. */
unsigned heat_moved(struct heat *heat, uint8_t *block, uint64_t survived);
/* What is known of it now. */
unsigned heat_level(uint8_t block);

#endif
