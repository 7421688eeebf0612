/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cleaner. It moves the valid blocks out of a segment, a batch at a time, so that the segment
 * becomes free.
 */
#ifndef FLASH_CLEANER_H
#define FLASH_CLEANER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "flash/device/device.h"
#include "flash/ftl.h"
#include "flash/write/put.h"

#define CLEANER_BLOCKS	64U  /* moved at a time                    */
#define CLEANER_RESERVE 3U   /* free segments that only the cleaner may open; see appender_for() */
#define CLEANER_LAST	2U   /* of them, so many only if no segment is open */
#define CLEANER_RECORDS 128U /* room in the journal that a batch needs at most */

_Static_assert(CLEANER_RECORDS >= CLEANER_BLOCKS + RECORDS_MORE * FTL_STREAMS_MAX,
	       "a batch of the cleaner");

enum cleaner_stage {
	CLEANER_IDLE,
	CLEANER_SUMMARY, /* is being read                     */
	CLEANER_GATHER,	 /* pages of the map are being loaded */
	CLEANER_READ,
	CLEANER_CHECKED, /* waits for room in the journal */
	CLEANER_WRITE,
};

struct cleaner {
	struct ftl *ftl;
	enum cleaner_stage stage;
	struct segment *victim;
	uint32_t index;	       /* of the victim: where the next batch begins */
	uint32_t nr;	       /* blocks in this batch                       */
	uint32_t nr_left;      /* of them, not written yet                   */
	uint32_t next_read;    /* of them: the first that no read was begun for */
	unsigned nr_in_flight; /* reads                                 */
	bool has_failed;       /* a block of the victim cannot be read, or no lba refers to it */
	bool is_waiting;
	struct map_page *page; /* that it waits for */
	int64_t credit;	       /* blocks that it may move beside users' I/O */
	uint64_t seen_blocks;  /* blocks of users that it has got credit for */
	uint64_t *summary;
	char *memory;
	/* the batch, as its blocks lie in the victim */
	struct cleaner_block {
		uint64_t lba;
		uint32_t from;
		uint32_t crc;
		uint8_t stream;
		uint8_t slot;	 /* where it is in the arrays below */
		bool is_unknown; /* the lba's place is unknown: it may be another's; has no crc */
	} blocks[CLEANER_BLOCKS];
	/* the batch sorted by streams, for pieces; in the order of `memory` */
	uint64_t lbas[CLEANER_BLOCKS];
	uint32_t from[CLEANER_BLOCKS];
	uint32_t crcs[CLEANER_BLOCKS];
	bool has_crc[CLEANER_BLOCKS];
	uint32_t nr_of_stream[FTL_STREAMS_MAX];
	struct piece pieces[FTL_STREAMS_MAX];
	struct ftl_waiter waiter;
	struct cleaner_read {
		struct flash_io io;
		struct cleaner *cleaner;
		uint32_t nr;
	} reads[CLEANER_BLOCKS];	       /* of the blocks from the same index on */
	struct iovec iovs[2 * CLEANER_BLOCKS]; /* of the same blocks, and the gaps behind them */
	struct flash_io io;		       /* the summary */
	struct iovec iov;
};

/* 0, or -ENOMEM. */
int cleaner_open(struct cleaner *cleaner, struct ftl *ftl);
void cleaner_close(struct cleaner *cleaner);
/* Does what the cleaner can do now; less while users' requests are under way. */
void cleaner_progress(struct ftl *ftl);
/* The cleaner's piece has been written, or failed. */
void cleaner_written(struct piece *piece, int result);

#endif
