/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checking a device that nobody uses, without writing to it: what stands at fixed places by its checksums; what the layer
 * recovers from it by counting everything anew; and, if wanted, every block by its checksum. Blocks.
 */
#ifndef FLASH_CHECK_H
#define FLASH_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "flash/device.h"
#include "flash/ftl.h"

enum check_area {
	CHECK_SUPERBLOCK, /* both copies                                             */
	CHECK_ANCHOR,	  /* both: one that was being written when power went is no finding */
	CHECK_JOURNAL,	  /* what the next recovery reads                            */
	CHECK_RECOVERY,	  /* tables of the checkpoint, and all that ftl_open() says  */
	CHECK_MAP,	  /* the copy of each page that counts                       */
	CHECK_SUMMARY,	  /* whose the blocks of each full segment are               */
	CHECK_COUNTS,	  /* ftl_audit()                                             */
	CHECK_RANGES,	  /* the address space's                                     */
	CHECK_DATA,	  /* the blocks themselves                                   */
	CHECK_NR_AREAS,
};

struct check_options {
	bool with_data;
	uint64_t bytes_per_s; /* of data, 0: as fast as it goes */
	/* Each thing that is wrong, one line; `at` is a block of the device, of CHECK_DATA an lba. */
	void (*finding)(void *context, enum check_area area, uint64_t at, const char *what);
	/* NULL or: ends the check, with -ECANCELED. */
	bool (*is_cancelled)(void *context);
	void *context;
};

struct check_report {
	uint64_t nr_examined[CHECK_NR_AREAS]; /* copies, blocks, pages, … that were looked at */
	uint64_t nr_findings[CHECK_NR_AREAS];
	uint64_t nr_all; /* findings                         */
	bool is_open; /* the layer could be opened: else what comes after CHECK_RECOVERY was not looked at */
	struct ftl_stat stat;
};

/*
 * 0: it was checked, what was found is in the report. Negative, with a line: it could not be: -EINVAL: no layer is there, or its
 * device was cut, -EPROTONOSUPPORT: a newer one, -ENOMEM, -ECANCELED, what the device says.
 */
int check_device(struct flash_device *device, const struct check_options *options,
		 struct check_report *report);

/* "superblock", "map" … */
const char *check_area_name(enum check_area area);

#endif
