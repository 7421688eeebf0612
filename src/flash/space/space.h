/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The address space above a translation layer: ranges of a 64-bit space of 4 KiB blocks. Each range
 * is contiguous and has an owner; none overlaps another. An address is found in the layer by an
 * addition: the range's number, and the block in the range. So a range moves when its start
 * changes, and grows and shrinks when its length changes. Its blocks stay where they are, and keep
 * their names.
 *
 * The layer's records keep the table of ranges. A change is a request: a struct that the caller
 * embeds and fills. If something is wrong with it, the function says so at once by its result, and
 * nothing was begun. Otherwise the request is the space's until it calls `done` in ftl_poll().
 *
 * A change that ended with 0 survives the loss of power. One that ended with an error other than
 * -ENOSPC may have happened or not; the next open knows. After a crash each change is there as a
 * whole or not at all. The exception is a clone of several blocks: like a put, it is old or new
 * block by block.
 *
 * Room. A range has blocks of the device reserved: its whole length, unless it is thin. All
 * reservations together never exceed what the device can hold, nor what its map can. So -ENOSPC
 * comes when a range is made or grows, never from writing what was reserved. A thin range is longer
 * than its reservation. Its owner promises not to have more blocks written than that, and calls
 * space_reserve() before writing more. If the owner breaks the promise, puts may meet -ENOSPC, the
 * owner's and others'.
 *
 * A range has one change under way at a time; the next is refused with -EBUSY. Before you remove a
 * range, let everything in flight there end, and start nothing new: its number may be another
 * range's afterwards.
 *
 * Threads: the layer's.
 */
#ifndef FLASH_SPACE_H
#define FLASH_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flash/ftl.h"

/* Ranges and their records have numbers below this. Records from this number on belong to
 * others. */
#define SPACE_NR_RANGES (FTL_NR_RANGES - 16)

/* The most blocks that a range can have. */
#define SPACE_LENGTH_MAX (UINT64_C(1) << 32)

#define SPACE_ANYWHERE UINT64_MAX /* a start that the space chooses: the first gap where it fits */

#define SPACE_OWNER_BYTES 16U

/* The owner decides what it means. */
struct space_owner {
	uint8_t bytes[SPACE_OWNER_BYTES];
};

struct space_range {
	uint32_t id;
	struct space_owner owner;
	uint64_t start, length; /* addresses and blocks */
	uint64_t reserved;	/* blocks; less than `length`: it is thin */
	bool is_busy;		/* a change is under way, or one that failed will be repeated */
};

struct space;

/*
 * Opens the space of a layer. The layer must be idle, stays the caller's, and must outlive the
 * space. It continues, in the background, to shrink and remove ranges where a crash cut that off.
 * -EBADMSG, with a line: a record is no range, or two overlap; -ENOMEM.
 */
int space_open(struct ftl *ftl, struct space **out);

/* Frees the space, and does not touch the layer. Nothing may be under way (space_is_busy()), unless
 * the layer was abandoned. */
void space_close(struct space *space);

/* Returns whether something is under way, also in the background. ftl_poll() continues it. */
bool space_is_busy(const struct space *space);

/* ---- looking; constant until the next poll or request */

struct space_place {
	uint64_t lba;	/* for ftl_get(), ftl_put() … */
	uint64_t count; /* blocks from there to the range's end */
	uint32_t id;
};

/* Finds where `address` lies; false: in no range. Takes O(log n), and allocates nothing. */
bool space_find(const struct space *space, uint64_t address, struct space_place *out);

/* Describes a range; false: there is none of this number. */
bool space_stat(const struct space *space, uint32_t id, struct space_range *out);

/* The first range, in order of addresses, that ends behind `address`; false: there is none. */
bool space_next(const struct space *space, uint64_t address, struct space_range *out);

struct space_total {
	uint64_t nr_ranges;
	uint64_t length, reserved; /* blocks */
};

/* Adds up the ranges of one owner, or of all (NULL). Goes through all ranges. */
void space_total(const struct space *space, const struct space_owner *owner,
		 struct space_total *out);

/* ---- changing */

struct space_request {
	uint32_t id; /* which range; space_create() sets it */
	/* For space_create() and space_relocate(): where to. Afterwards: where the range is. */
	uint64_t start;
	uint64_t length;	  /* blocks */
	struct space_owner owner; /* space_create() */
	bool is_thin;	   /* space_create(): set aside only `reserved` blocks, not `length` */
	bool is_fixed;	   /* space_grow(): the range may not move */
	uint64_t reserved; /* blocks */
	uint64_t offset;   /* space_clone_range(): first block in range `id` */
	uint32_t target;   /* … to this range */
	uint64_t target_offset;
	void (*done)(struct space_request *request);
	int result;

	/* the space's until done */
	struct space *space;
	void (*step)(struct space_request *request, int result);
	struct ftl_record_change change;
	union {
		struct ftl_trim trim;
		struct ftl_clone clone;
		struct ftl_sync sync;
	} call;
};

/*
 * Errors of all of them. -EINVAL: a length of 0, one beyond SPACE_LENGTH_MAX, or an end beyond 64
 * bits. -ENOENT: no such range. -EBUSY; -ENOMEM. -ENOSPC: the reservation does not fit, or there
 * are no more numbers (or, as `result`: records). Also, as `result`, the layer's errors.
 */

/* Makes a range of `length` blocks of zeros at `start`. -EEXIST: other ranges are there. */
int space_create(struct space *space, struct space_request *request);

/*
 * Makes the range longer, `length` blocks in all: in place, or, if another range is in the way,
 * elsewhere (with is_fixed: -EEXIST). The reservation grows along, unless the range is thin.
 * `start` says where it is then.
 */
int space_grow(struct space *space, struct space_request *request);

/* Keeps the range's first `length` blocks, fewer than it has. The others cannot be found from now
 * on, and are lost. */
int space_shrink(struct space *space, struct space_request *request);

/* Reserves `reserved` blocks for the range, at most its length. */
int space_reserve(struct space *space, struct space_request *request);

/* Moves the range to `start`, which may overlap its place. Nothing is copied. -EEXIST: other ranges
 * are there. */
int space_relocate(struct space *space, struct space_request *request);

/* Ends the range. It cannot be found from now on. */
int space_remove(struct space *space, struct space_request *request);

/*
 * Makes `length` blocks from `target_offset` of range `target` a copy of those from `offset` of
 * range `id`. They share data until either is written. Within one range the two may not overlap:
 * -EINVAL.
 */
int space_clone_range(struct space *space, struct space_request *request);

#endif
