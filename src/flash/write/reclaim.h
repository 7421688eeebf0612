/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds valid blocks to which no lba refers. Damage of the map leaves them behind; see reclaim.c.
 */
#ifndef FLASH_RECLAIM_H
#define FLASH_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "flash/device/device.h"
#include "flash/ftl.h"

struct reclaim {
	bool is_under_way;
	bool is_reading;
	bool is_waiting;  /* for a page of the map */
	bool is_thorough; /* this search reads pages that are not in memory */
	bool has_been_thorough;
	bool is_complete;	 /* no segment was skipped yet */
	bool has_believed;	 /* a block was kept because a page was not in memory */
	uint32_t at;		 /* the segment that is searched */
	uint32_t index;		 /* and its block */
	struct segment *segment; /* `at`, taken for its summary; NULL: not taken */
	uint64_t nr_let_go;	 /* of segments.h, when the search began */
	uint64_t nr_before;	 /* blocks that may have leaked before the layer was opened */
	uint64_t nr_unknown;	 /* times that a block was kept for an lba of unknown place */
	uint64_t *summary;
	struct ftl_waiter waiter;
	struct flash_io io;
	struct iovec iov;
};

/* 0, or -ENOMEM. */
int reclaim_open(struct reclaim *reclaim, struct ftl *ftl);
void reclaim_close(struct reclaim *reclaim);
/* Begins a search if blocks have leaked and no page is damaged any more, and continues it. */
void reclaim_progress(struct ftl *ftl);
/* Returns whether a put that lacks room should wait for a search, which it begins if it may find
 * blocks. */
bool reclaim_may_help(struct ftl *ftl);
/* Records that the block at `place` is not that of `lba`, of which it might have been. False: the
 * journal has no room now. */
bool reclaim_release(struct ftl *ftl, uint32_t place, uint64_t lba);

#endif
