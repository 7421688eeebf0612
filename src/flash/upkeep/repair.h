/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Repairs a device that nobody uses, as far as it can be told what is right. A copy that is damaged is written from the other one. If
 * the last checkpoint is damaged, the one before it serves, with the journal. Where pages of that one's map are gone, too, their blocks
 * are given up: they answer -EBADMSG until they are written anew. Nothing ever becomes older than it was: a layer whose journal lacks
 * something is not repaired, because nobody can tell which blocks it was about.
 */
#ifndef FLASH_REPAIR_H
#define FLASH_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "flash/space/space.h"
#include "flash/upkeep/check.h"

struct repair_options {
	bool is_dry; /* the device is only read */
	/* Called for each thing that is to be repaired, as in struct check_options. */
	void (*finding)(void *context, enum check_area area, uint64_t at, const char *what);
	/* Called for each run of blocks that is given up, of the page of the map at block `at`. `owner` is that of their range; NULL: it
	 * is not known. */
	void (*lost)(void *context, uint64_t at, const struct space_owner *owner, uint32_t range,
		     uint32_t first, uint32_t last);
	void *context;
};

struct repair_report {
	uint64_t nr_findings;
	uint64_t nr_lost; /* blocks that are given up */
};

/*
 * Repairs the device, which stays the caller's; blocks. Returns 0: all that the report counts is repaired, or, with `is_dry`, can be.
 * Negative: nothing was changed, or not all, and error_last_line() says why: as superblock_read(); -EBADMSG: the layer is damaged beyond
 * repair; -ENOMEM; the device's own errors.
 */
int repair_device(struct flash_device *device, const struct repair_options *options,
		  struct repair_report *report);

#endif
