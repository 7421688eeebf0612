/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scrubbing reads every block of a layer again and again, in the background and at a limited rate.
 * So a block that the device has lost is found while another copy may still exist. The scrub reads
 * through ftl_get(), which compares each block with the map's checksum. It writes only its own
 * position, now and then, as a record of the layer; the next scrub continues from there.
 *
 * The scrub has no clock. The layer's owner calls scrub_progress() after each ftl_poll() that ended
 * something, and at the time that scrub_progress() returned. At most `depth` reads of 64 KiB are at
 * the device, so other requests wait for no more than those. No function here blocks.
 *
 * Threads: the layer's.
 */
#ifndef FLASH_SCRUB_H
#define FLASH_SCRUB_H

#include <stdbool.h>
#include <stdint.h>

#include "flash/ftl.h"

#define SCRUB_RECORD (FTL_NR_RANGES - 1) /* the number of its record in the layer */
#define SCRUB_NEVER  UINT64_MAX

#define SCRUB_DEPTH_MAX 32U

struct scrub_options {
	uint64_t bytes_per_s; /* 0: no limit */
	unsigned depth;	      /* reads in flight, at most SCRUB_DEPTH_MAX; 0: 1 */
	bool is_once;	      /* makes one pass from the beginning, and keeps no record */
	uint64_t keep_blocks; /* writes its record after so many blocks; 0: 16384 (64 MiB) */
	uint64_t pause_ns;    /* between two passes; less than a second counts as a second */
	/* NULL, or called in ftl_poll() for each bad block: -EIO: it cannot be read; -EBADMSG: its
	 * bytes are not those that were written. */
	void (*bad)(void *context, uint64_t lba, int error);
	void *context;
};

struct scrub_stat {
	uint64_t passes;    /* that ended, of all scrubs of this layer */
	uint64_t position;  /* lba of the next block */
	uint64_t nr_blocks; /* read in this pass: all blocks of map pages, in use or not */
	uint64_t nr_bad;    /* bad blocks found in this pass */
	uint64_t last_bad;  /* bad blocks found in the last pass that ended */
};

struct scrub;

/* Makes a scrub, which starts no read yet. The layer must outlive it; `options` is copied. Returns
 * 0, or -ENOMEM. */
int scrub_open(struct ftl *ftl, const struct scrub_options *options, struct scrub **out);

/* Returns whether reads are in flight, or the record is being written. */
bool scrub_is_busy(const struct scrub *scrub);

/* Frees the scrub, which must not be busy unless the layer was abandoned. */
void scrub_close(struct scrub *scrub);

/*
 * Starts the reads that are due at `now_ns`, of a monotonic clock. Returns the time at which it
 * must be called again, even if no read ends before. SCRUB_NEVER: only after a read has ended; with
 * is_once, once the pass is over, not at all.
 */
uint64_t scrub_progress(struct scrub *scrub, uint64_t now_ns);

/* Starts no more reads, and writes the record. It is done when scrub_is_busy() is false. */
void scrub_stop(struct scrub *scrub);

/* Returns whether the only pass is over, with is_once. Otherwise false. */
bool scrub_has_ended(const struct scrub *scrub);

void scrub_stat(const struct scrub *scrub, struct scrub_stat *out);

#endif
