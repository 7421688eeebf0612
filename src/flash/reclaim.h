/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds blocks that are valid and nobody's, which damage of the map leaves behind; see reclaim.c.
 */
#ifndef FLASH_RECLAIM_H
#define FLASH_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "flash/device.h"
#include "flash/ftl.h"

struct reclaim {
	bool is_under_way;
	bool is_reading;
	bool is_waiting;  /* for a page of the map */
	bool is_thorough; /* pages are read for it */
	bool has_been_thorough;
	bool is_complete;	 /* nothing was passed over yet                      */
	bool has_believed;	 /* a page not in memory to refer to the block            */
	uint32_t at;		 /* the segment that is looked at                    */
	uint32_t index;		 /* and its block                                    */
	struct segment *segment; /* that one, taken, with its summary; NULL: not yet */
	uint64_t nr_let_go;	 /* when it began                                    */
	uint64_t nr_before;	 /* may have leaked before the layer was opened      */
	uint64_t nr_unknown;	 /* how often somebody did not know whether a block is his */
	uint64_t *summary;
	struct ftl_waiter waiter;
	struct flash_io io;
	struct iovec iov;
};

/* 0, or -ENOMEM. */
int reclaim_open(struct reclaim *reclaim, struct ftl *ftl);
void reclaim_close(struct reclaim *reclaim);
/* Looks on, where there is something to be found and nothing else to do. */
void reclaim_progress(struct ftl *ftl);
/* Whether who lacks room should wait for what is found. */
bool reclaim_may_help(struct ftl *ftl);
/*
 * Records that the block, which might be that of `lba`, is not. False: the journal has no room now.
 */
bool reclaim_release(struct ftl *ftl, uint32_t place, uint64_t lba);

#endif
