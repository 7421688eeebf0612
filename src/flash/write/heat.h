/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Estimates how often a block is overwritten. The estimate takes one byte per block, which the
 * caller keeps and passes in; zero: nothing is known yet. Pure: it allocates nothing, reads no
 * clock and does no I/O. No function here fails. streams.c turns the estimates into streams.
 *
 * The byte holds the estimated interval between two puts of the block, in quarters of an octave. It
 * also holds the number of puts that the estimate rests on. It is updated by how long the block has
 * survived at its place. A put ends an interval; a move by the cleaner says that the interval is at
 * least that much longer. Puts at random have no memory, so each stay at a place counts by itself.
 * One time per segment is then enough: when it was opened, or last written to. No time per block is
 * needed.
 *
 * Time is the write clock: the number of blocks that users have put. A level counts intervals, so a
 * higher level is colder. HEAT_LEVEL_MEAN is a block that is put as often as the average block;
 * four levels more, half as often.
 */
#ifndef FLASH_HEAT_H
#define FLASH_HEAT_H

#include <stdbool.h>
#include <stdint.h>

#define HEAT_LEVELS	64U
#define HEAT_LEVEL_MEAN 32U
#define HEAT_OCTAVE	4U /* so many levels more mean twice the interval */

/* The caller's hint about a block's rate: 0 is none, HEAT_HINT_MEAN the average rate; 16 more mean
 * twice the rate. */
#define HEAT_HINT_MEAN 128U

struct heat {
	uint64_t scale;	  /* survived × scale >> 32 is in 2^-16 of the mean interval */
	uint64_t longest; /* write clock: a longer stay counts as this */
	uint64_t random;  /* state of the generator, for rounding without bias */
	uint32_t interval[HEAT_LEVELS]; /* of each level, in 2^-16 of the mean interval */
};

/* Sets up `heat` for `nr_blocks` blocks that can be put: those in use, or all of the device's; at
 * least 1. */
void heat_init(struct heat *heat, uint64_t nr_blocks);

/* Notes a put of the block, `survived` ticks after it came to its place. Returns its new level. */
unsigned heat_put(struct heat *heat, uint8_t *block, uint64_t survived);
/* Returns whether the estimate rests on a put. */
bool heat_is_known(uint8_t block);
/* Begins the estimate anew with the caller's `hint`, which is not 0. Returns the block's level. */
unsigned heat_told(uint8_t *block, uint8_t hint);
/* Notes that the cleaner moves the block, `survived` ticks after it came to its place. Returns its
 * new level. */
unsigned heat_moved(struct heat *heat, uint8_t *block, uint64_t survived);
/* Returns the block's level. */
unsigned heat_level(uint8_t block);

#endif
