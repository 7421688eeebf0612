/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scrubbing: reads every block of a layer again and again, in the background and no faster than it may, so that what a device
 * has lost is known while something else may still have it. It reads as anybody does, through ftl_get(), which compares with
 * the map's checksum; nothing is written but, now and then, how far it has come, as a record of the layer's: the
 * next one goes on from there.
 *
 * Time comes from outside. Whoever owns the layer calls scrub_progress() after each ftl_poll() that ended something, and when
 * the time has come that it says. It has `depth` reads of 64 KiB at the device at most, so nobody waits for more than those.
 */
#ifndef FLASH_SCRUB_H
#define FLASH_SCRUB_H

#include <stdbool.h>
#include <stdint.h>

#include "flash/ftl.h"

#define SCRUB_RECORD (FTL_NR_RANGES - 1) /* its record's number */
#define SCRUB_NEVER  UINT64_MAX

#define SCRUB_DEPTH_MAX 32U

struct scrub_options {
	uint64_t bytes_per_s; /* 0: as fast as it goes                                        */
	unsigned depth;	      /* reads in flight, 0: 1                                        */
	bool is_once;	      /* one pass from the beginning, of which nothing is kept        */
	uint64_t keep_blocks; /* it keeps how far it is after so many, 0: 16384 (64 MiB)      */
	uint64_t pause_ns;    /* between the end of a pass and the next, at least a second    */
	/* NULL or: the block could not be read (-EIO) or is not what was written (-EBADMSG). From ftl_poll(). */
	void (*bad)(void *context, uint64_t lba, int error);
	void *context;
};

struct scrub_stat {
	uint64_t passes;    /* ended, by all scrubs of this layer                */
	uint64_t position;  /* the next block                                    */
	uint64_t nr_blocks; /* looked at in this pass; of its pages, in use or not */
	uint64_t nr_bad;    /* in this pass                                      */
	uint64_t last_bad;  /* in the last pass that ended                       */
};

struct scrub;

/* Begins nothing yet. The layer outlives it. -ENOMEM. */
int scrub_open(struct ftl *ftl, const struct scrub_options *options, struct scrub **out);

/* Reads are in flight, or a record is being kept. */
bool scrub_is_busy(const struct scrub *scrub);

/* Not busy, or the layer was abandoned. */
void scrub_close(struct scrub *scrub);

/*
 * Begins the reads that may begin at `now_ns`, of a clock that never goes back. When to call it again at the latest:
 * SCRUB_NEVER: when a read has ended, or, with is_once, never.
 */
uint64_t scrub_progress(struct scrub *scrub, uint64_t now_ns);

/* Begins no more reads, and keeps how far it is. scrub_is_busy() says when that is done. */
void scrub_stop(struct scrub *scrub);

/* With is_once: the pass is over. */
bool scrub_has_ended(const struct scrub *scrub);

void scrub_stat(const struct scrub *scrub, struct scrub_stat *out);

#endif
