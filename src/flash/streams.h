/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which stream a block is written to, so that what lies together dies together: by its origin (put by a user, put in
 * sequence over what was there, moved by the cleaner), its age and its update rate. Pure: the translation layer
 * and the simulator call it for every block they write. Whoever has a `struct streams` owns it; nothing to free.
 *
 * Streams are numbered from the hottest; each spans a factor of four in update rate. Moved blocks go by the same classes:
 * that they survived has made them colder. If there are at least three streams the last is for puts in sequence: blocks that are
 * overwritten one after the other were written one after the other, and will be again. They leave whole segments behind,
 * and need no spare.
 */
#ifndef FLASH_STREAMS_H
#define FLASH_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "flash/heat.h"

#define STREAMS_MAX	32U /* what callers may keep per stream in an array or a mask of bits */
#define STREAMS_DEFAULT 8U
#define STREAMS_RUNS	256U

/* Puts of one LBA after the other. */
struct streams_run {
	uint64_t next;	   /* the LBA that would continue it           */
	uint64_t began;	   /* write clock                              */
	uint32_t length;   /* blocks; 0: this entry is free            */
	uint32_t patience; /* how many others may yet want this entry  */
};

struct streams {
	unsigned nr;
	unsigned nr_heat; /* the first of them, by update rate */
	struct heat heat;
	struct streams_run runs[STREAMS_RUNS];
};

struct streams_put {
	uint64_t lba;
	uint64_t now; /* write clock                                                        */
	uint64_t
		survived; /* since its old segment was opened, or last written to: either will do */
	bool is_overwrite; /* there is such a version                                            */
	uint8_t hint;	   /* the caller's word about its update rate, as heat.h says; 0: none   */
	uint8_t *heat;	   /* the block's byte                                                   */
};

/* `nr` from 1 to STREAMS_MAX; `nr_blocks` as heat_init() has it. */
void streams_init(struct streams *streams, unsigned nr, uint64_t nr_blocks);

/*
 * The stream of a block that a user puts. `*pace`: if it belongs to a sequence of overwrites, after how many ticks of the write
 * clock the next block of it is to be expected, on average; else 0. It is for victims_lose().
 */
unsigned streams_put(struct streams *streams, const struct streams_put *put, uint64_t *pace);
/* The stream of a block that the cleaner moves, which was `survived` at its place. */
unsigned streams_move(struct streams *streams, uint8_t *heat, uint64_t survived);

/* Of the streams in `mask`, which is not 0, the one nearest to `stream`: where to write when no segment is left to be opened. */
unsigned streams_nearest(uint32_t mask, unsigned stream);

#endif
