/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks a device that nobody uses, and writes nothing to it. It checks the structures at fixed
 * places by their checksums. Then it opens the layer read-only, counts everything anew and
 * compares. On request it also checks every block by its checksum.
 */
#ifndef FLASH_CHECK_H
#define FLASH_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "flash/device/device.h"
#include "flash/ftl.h"

enum check_area {
	CHECK_SUPERBLOCK, /* both copies */
	/*
	 * Both copies. One that is not whole is no finding: power may have gone during its write.
	 */
	CHECK_ANCHOR,
	CHECK_JOURNAL,	/* the blocks that the next recovery reads */
	CHECK_RECOVERY, /* the checkpoint's tables: whatever makes ftl_open() fail */
	CHECK_MAP,	/* the current copy of each page */
	CHECK_SUMMARY,	/* of each full segment: the lbas of its blocks */
	CHECK_COUNTS,	/* ftl_audit() */
	CHECK_RANGES,	/* the address space's ranges */
	CHECK_DATA,	/* the blocks of data */
	CHECK_NR_AREAS,
};

struct check_options {
	bool with_data;
	uint64_t bytes_per_s; /* limit for CHECK_DATA; 0: none */
	/* Called for each thing that is wrong. `at` is a block of the device, in CHECK_DATA an lba;
	 * `what` is one line, valid during the call. */
	void (*finding)(void *context, enum check_area area, uint64_t at, const char *what);
	/* NULL, or asked now and then: true ends the check with -ECANCELED. */
	bool (*is_cancelled)(void *context);
	void *context;
};

struct check_report {
	uint64_t nr_examined[CHECK_NR_AREAS]; /* copies, blocks, pages … that were checked */
	uint64_t nr_findings[CHECK_NR_AREAS];
	uint64_t nr_all;      /* sum of nr_findings */
	bool is_open;	      /* else areas after CHECK_RECOVERY could not be checked */
	struct ftl_stat stat; /* if is_open */
};

/*
 * Checks the device, which stays the caller's; blocks. Returns 0 if it was checked: the report says
 * what was found. Negative: it could not be checked, and error_last_line() says why. -EINVAL: it
 * has no layer, or was cut short. -EPROTONOSUPPORT: the layer is of a newer version. -EBADMSG: both
 * superblocks are damaged. -ENOMEM; -ECANCELED; the device's own errors.
 */
int check_device(struct flash_device *device, const struct check_options *options,
		 struct check_report *report);

/* Returns the area's name for users: "superblock", "map" … */
const char *check_area_name(enum check_area area);

#endif
