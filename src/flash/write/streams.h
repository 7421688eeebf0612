/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses the stream that a block is written to. Blocks of one stream share segments, so they
 * should become invalid at about the same time. The choice depends on the block's age, update rate
 * and origin. The origin is a user's put, a put in a sequential overwrite, or a move by the
 * cleaner. The translation layer and the simulator ask for every block that they write. Pure: it
 * does no I/O, reads no clock and cannot fail. `struct streams` is the caller's and owns no memory.
 *
 * Streams are numbered from the hottest; each spans a factor of four in update rate. Moved blocks
 * use the same streams: because they survived, their estimated rate is lower. If there are at least
 * three streams, the last is for sequential overwrites. Such blocks were written one after the
 * other and will be overwritten in that order again, so whole segments become invalid without
 * cleaning.
 */
#ifndef FLASH_STREAMS_H
#define FLASH_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "flash/write/heat.h"

#define STREAMS_MAX	32U /* so that a mask of streams fits in 32 bits */
#define STREAMS_DEFAULT 8U
#define STREAMS_RUNS	256U

/* A run of puts to consecutive LBAs. */
struct streams_run {
	uint64_t next;	   /* the LBA that would continue the run */
	uint64_t began;	   /* write clock */
	uint32_t length;   /* blocks; 0: the entry is free */
	uint32_t patience; /* so many shorter runs are turned away before one replaces this */
};

struct streams {
	unsigned nr;
	unsigned nr_heat; /* so many, the first, are chosen by update rate */
	struct heat heat;
	struct streams_run runs[STREAMS_RUNS];
};

struct streams_put {
	uint64_t lba;
	uint64_t now; /* write clock */
	/* Ticks since the old version's segment was opened, or last written to: either will do. */
	uint64_t survived;
	bool is_overwrite; /* there is an old version */
	uint8_t hint;	   /* the caller's hint, see HEAT_HINT_MEAN; 0: none */
	uint8_t *heat;	   /* the block's byte, see heat.h; updated */
};

/* Sets up `nr` streams, from 1 to STREAMS_MAX. `nr_blocks` is as in heat_init(). */
void streams_init(struct streams *streams, unsigned nr, uint64_t nr_blocks);

/*
 * Returns the stream of a block that a user puts. If the block belongs to a sequential overwrite,
 * `*pace` is the average number of ticks per block of that sequence; otherwise 0. victims_lose()
 * takes it.
 */
unsigned streams_put(struct streams *streams, const struct streams_put *put, uint64_t *pace);
/*
 * Returns the stream of a block that the cleaner moves, `survived` ticks after it came to its
 * place. Updates `*heat`.
 */
unsigned streams_move(struct streams *streams, uint8_t *heat, uint64_t survived);

/* Returns the stream in `mask`, which is not 0, that is nearest to `stream`. For writing when no
 * segment can be opened. */
unsigned streams_nearest(uint32_t mask, unsigned stream);

#endif
