/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The address space above a translation layer: ranges of a 64-bit space of 4 KiB blocks, each contiguous and owned by
 * somebody, none overlapping another. Where an address lies in the layer is an addition: the block in the range behind the
 * range's number. So a range moves by a change of its start alone, and grows and shrinks by its length; its blocks stay where
 * they are, and who they are.
 *
 * The table of ranges is kept as the layer's records. What changes it is a request, a struct that the caller embeds and
 * fills. What is wrong with it is said at once, by the function's result: then nothing was begun. Else `done` is called in
 * ftl_poll(), and until then the request is the space's. Ended with 0, a change survives the loss of power; ended with an
 * error other than -ENOSPC it may have happened or not, the next open knows. After a crash each change is there as a whole or not
 * at all; but a clone of several blocks is, as a put, old or new block by block.
 *
 * Room. A range has blocks of the device reserved, all of its length unless it is thin. What is reserved in all ranges together
 * is never more than the device can hold, nor than its map can: so -ENOSPC is said when a range is made or grows, and
 * never to who writes what was reserved. A thin range is longer than what is reserved for it. Its owner promises to have no more
 * blocks written than that, and has more reserved before he writes more (space_reserve()); an owner who does not keep
 * that may meet -ENOSPC in a put, and have others meet it.
 *
 * A range has one change under way at a time; the next is refused with -EBUSY. Who removes a range has nothing in flight there
 * and nothing to come: its number may be another range's afterwards.
 *
 * Threads: the layer's.
 */
#ifndef FLASH_SPACE_H
#define FLASH_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flash/ftl.h"

/* Numbers of ranges, and of their records, are below this; records above it are others'. */
#define SPACE_NR_RANGES (FTL_NR_RANGES - 16)

/* Blocks that a range can have. */
#define SPACE_LENGTH_MAX (UINT64_C(1) << 32)

#define SPACE_ANYWHERE UINT64_MAX /* a start that the space chooses: the first gap where it fits */

#define SPACE_OWNER_BYTES 16U

/* What it means is its owner's business. */
struct space_owner {
	uint8_t bytes[SPACE_OWNER_BYTES];
};

struct space_range {
	uint32_t id;
	struct space_owner owner;
	uint64_t start, length; /* addresses and blocks                               */
	uint64_t reserved;	/* blocks; less than `length`: it is thin             */
	bool is_busy;		/* a change is under way, or one that failed is to be repeated */
};

struct space;

/*
 * The space of a layer, which must be idle, stays the caller's and outlives it. Shrinkings and removals that a crash cut off are
 * gone on with in the background. -EBADMSG with a line: a record is no range, or two overlap; -ENOMEM.
 */
int space_open(struct ftl *ftl, struct space **out);

/* Nothing is under way (space_is_busy()), or the layer was abandoned. Frees it, and does not touch the layer. */
void space_close(struct space *space);

/* Something is under way, be it in the background: ftl_poll() gets on with it. */
bool space_is_busy(const struct space *space);

/* ---- looking; constant until the next poll or request */

struct space_place {
	uint64_t lba;	/* for ftl_get(), ftl_put() …            */
	uint64_t count; /* blocks from there to the range's end  */
	uint32_t id;
};

/* Where `address` lies; false: nowhere. In O(log n), and allocates nothing. */
bool space_find(const struct space *space, uint64_t address, struct space_place *out);

/* The range; false: there is none of this number. */
bool space_stat(const struct space *space, uint32_t id, struct space_range *out);

/* The first range that ends behind `address`; false: there is none. In order of addresses. */
bool space_next(const struct space *space, uint64_t address, struct space_range *out);

struct space_total {
	uint64_t nr_ranges;
	uint64_t length, reserved; /* blocks */
};

/* Of one owner, or NULL: of all. Goes through all ranges. */
void space_total(const struct space *space, const struct space_owner *owner,
		 struct space_total *out);

/* ---- changing */

struct space_request {
	uint32_t id;	/* which range; space_create(): says which it became  */
	uint64_t start; /* space_create(), space_relocate(): where. Afterwards where the range is */
	uint64_t length;	  /* blocks                                             */
	struct space_owner owner; /* space_create()                                     */
	bool is_thin;	   /* space_create(): only `reserved` blocks are set aside, not `length` */
	bool is_fixed;	   /* space_grow(): it may not move                      */
	uint64_t reserved; /* blocks                                             */
	uint64_t offset;   /* space_clone_range(): first block in range `id`     */
	uint32_t target;   /* … to this range                                    */
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
 * All of them: -EINVAL: a length of 0, one beyond SPACE_LENGTH_MAX, or an end beyond 64 bits; -ENOENT: no such range; -EBUSY;
 * -ENOSPC: what would be reserved does not fit, or there are no more numbers (or, as `result`: records); -ENOMEM; and as
 * `result` what the layer says.
 */

/* A range of `length` blocks of zeros at `start`. -EEXIST: others are there. */
int space_create(struct space *space, struct space_request *request);

/*
 * Gives the range `length` blocks, more than it has: behind it, or, when another range is there, elsewhere (unless is_fixed:
 * -EEXIST). What is reserved grows along, unless it is thin. `start` says where it is now.
 */
int space_grow(struct space *space, struct space_request *request);

/* Leaves the range its first `length` blocks, fewer than it has. The others cannot be found from now on, and are lost. */
int space_shrink(struct space *space, struct space_request *request);

/* From now on `reserved` blocks are reserved for the range, at most its length. */
int space_reserve(struct space *space, struct space_request *request);

/* Moves the range to `start`, which may overlap where it is; nothing is copied. -EEXIST: others are there. */
int space_relocate(struct space *space, struct space_request *request);

/* Ends the range. It cannot be found from now on. */
int space_remove(struct space *space, struct space_request *request);

/*
 * Has `length` blocks from `target_offset` of range `target` become those from `offset` of range `id`: shared until either is
 * written. In one range the two may not overlap: -EINVAL.
 */
int space_clone_range(struct space *space, struct space_request *request);

#endif
