/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of the translation layer: a 64-bit space of 4 KiB blocks that survives its process on a device that wants to be
 * written front to back. Blocks are read and written by bytes, trimmed, cloned by remapping and synced; below, they are
 * appended to segments, a map says where each is, and a cleaner makes room.
 *
 * Everything is asynchronous. A request is a struct that the caller embeds and fills, gives away by its function, and leaves
 * be, together with the memory it names, until its `done` is called, which happens in ftl_poll() alone; then it is the
 * caller's again, who may free it or submit it anew from within `done`. Requests never fail on submission: what is wrong is
 * `result`. Nothing is allocated per request.
 *
 * Threads: a layer and its device belong to one thread; there are no locks. It does not move by itself, only in ftl_poll().
 *
 * What is promised:
 *  - Requests that change the same block (put, trim, clone) take effect in the order they were submitted.
 *  - A get sees, block by block, every put, trim and clone that had ended when it was submitted, or a later one.
 *  - What had ended before a sync was submitted, or was submitted before it, survives the loss of power once the sync has
 *    ended with 0. Everything else is, block by block, old or new after a crash, never torn and never another block's.
 *  - A block that was never written, or was trimmed, reads as zeros.
 *  - A block that comes back from the device other than it was written is -EBADMSG (the checksum is of its address too, so a
 *    swapped or stale block is caught), one that the device cannot read -EIO; the others live on. So are the up to 510 blocks
 *    of a page of the map, where it is that which cannot be read; puts of whole blocks and trims end that for their blocks.
 *  - -ENOSPC is said before anything is lost: reads, trims, syncs and the overwriting of blocks that are not shared go on.
 *  - Once the journal cannot be written any more all that would change something is -EIO, and reads go on.
 *
 * docs/flash.md says how.
 */
#ifndef FLASH_FTL_H
#define FLASH_FTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <urcu/list.h>

#include "flash/device.h"

#define FTL_BLOCK 4096U

/*
 * The address of a block: a range in the upper half, the block in the range in the lower. Ranges are numbers below
 * FTL_NR_RANGES that the caller gives a meaning; a range's map grows with what is written in it.
 */
#define FTL_NR_RANGES (1U << 24)

static inline uint64_t ftl_lba(uint32_t range, uint32_t block)
{
	return (uint64_t)range << 32 | block;
}

static inline uint32_t ftl_lba_range(uint64_t lba)
{
	return (uint32_t)(lba >> 32);
}

static inline uint32_t ftl_lba_block(uint64_t lba)
{
	return (uint32_t)lba;
}

struct ftl;

/* How a device is laid out; 0 everywhere is right for most. Sizes that do not fit are rounded, not refused. */
struct ftl_options {
	uint32_t
		segment_bytes; /* 0: 4 MiB, less on devices below 256 MiB, or what the device discards at once where that is more */
	uint32_t
		journal_blocks; /* 4 KiB blocks of the journal's ring, 0: by capacity; half of it is a checkpoint */
	uint32_t
		nr_map_pages; /* map pages there can be, 510 blocks of a range each; 0: by capacity          */
	uint32_t
		nr_records; /* small records there can be (below); 0: by capacity                         */
	bool is_forced; /* over whatever is there, a layer of ours included                           */
};

/*
 * Makes an empty layer on `device`. Blocks. -EEXIST: it holds something (unless is_forced), which the line names, -ENOSPC: it is too
 * small, -EINVAL: its sector is neither 512 nor 4096; what the device says.
 */
int ftl_create(struct flash_device *device, const struct ftl_options *options);

#define FTL_READ_ONLY \
	1U /* nothing is written to the device, not even what recovery would: all that changes is -EROFS */

/* To `n` streams (docs/flash.md), 1 to FTL_STREAMS_MAX, instead of as many as pay: for comparisons and tests. */
#define FTL_STREAMS(n)	((unsigned)(n) << 8)
#define FTL_STREAMS_MAX 8U

/*
 * Opens the layer of `device`, which stays the caller's and must outlive it. Blocks: recovers what a crash left, in time that
 * grows with the journal. -EINVAL: no layer is there, or its device was cut; -EPROTONOSUPPORT: a newer one; -EBADMSG: it is
 * damaged beyond what recovery may repair; -ENOMEM; what the device says. error_last_line() says which.
 */
int ftl_open(struct flash_device *device, unsigned flags, struct ftl **out);

/*
 * No request is in flight. Makes everything durable and frees the layer; blocks. Frees it in any case; negative: what was
 * not synced may be gone.
 */
int ftl_close(struct ftl *ftl);

/* As the loss of power would: frees the layer and writes nothing more. Requests in flight are forgotten, no `done` is called. */
void ftl_abandon(struct ftl *ftl);

/*
 * Moves everything on and calls `done` of what has ended; if there is something under way and nothing has ended, waits for at
 * most `timeout_ms` (0: not at all, -1: as long as it takes). How many requests ended, or negative: the device is beyond use.
 */
int ftl_poll(struct ftl *ftl, int timeout_ms);

/* Readable when ftl_poll() would find something; -1: the device has none. Requests submitted outside want a poll of 0 to start. */
int ftl_fd(struct ftl *ftl);

/* ---- what the layer keeps in requests ---- */

/* Where a request stands among those that change something: [0] is changed, [1] is read or not there. */
struct ftl_order {
	struct cds_list_head node;
	uint64_t ticket;
	uint64_t lba[2];
	uint64_t count[2];
	bool is_awaited;  /* a sync waits for it                          */
	bool is_recorded; /* all its records are in the journal's blocks  */
};

/* Who waits for a page of the map. */
struct ftl_waiter {
	struct cds_list_head node;
	void (*ready)(struct ftl_waiter *waiter, int result);
};

struct map_page;

/* A trim or a clone, which go through their blocks a page of the map at a time. */
struct ftl_sweep {
	struct cds_list_head node;
	struct ftl_order order;
	struct ftl_waiter waiter;
	struct ftl *ftl;
	struct map_page *page; /* that it waits for */
	uint64_t position;     /* blocks done       */
	int result;
	uint64_t flushed; /* of the journal, before it may begin */
	bool is_clone;
	bool is_first; /* of those with blocks in common */
	bool is_started;
	bool is_waiting;
};

/* ---- reading and writing ---- */

/*
 * `length` bytes from byte `offset` of block `lba` (offset may be beyond FTL_BLOCK) into `iov`, whose lengths add up to it.
 * Fast, without a copy, where blocks are whole and memory is aligned to the device's sector.
 */
struct ftl_get {
	uint64_t lba;
	uint64_t offset;
	size_t length;
	const struct iovec *iov;
	unsigned nr_iov;
	/* NULL or: the bytes of one block, `length` from byte `at` of the request, are there, or failed. Any order. */
	void (*page)(struct ftl_get *get, size_t at, size_t length, int result);
	void (*done)(struct ftl_get *get);
	int result; /* 0, or what the first bad block said; the bytes of good blocks are there */

	/* the layer's until done */
	struct cds_list_head node;
	struct ftl_waiter waiter;
	struct ftl *ftl;
	size_t started; /* bytes */
	unsigned nr_in_flight;
	unsigned iov_index;
	size_t iov_offset;
	bool is_waiting;
	bool is_queued;
};

/*
 * How often a block will change, as far as the caller knows: that of the average block, 16 more are twice as often. It only
 * decides with what else it is written.
 */
#define FTL_HEAT_UNKNOWN 0U
#define FTL_HEAT_MEAN	 128U

/*
 * The other way. Blocks of which only a part is given keep the rest. Each block is old or new after a crash; a put of several
 * may have any of them.
 */
struct ftl_put {
	uint64_t lba;
	uint64_t offset;
	size_t length;
	const struct iovec *iov;
	unsigned nr_iov;
	uint8_t heat; /* FTL_HEAT_UNKNOWN, or as above */
	void (*done)(struct ftl_put *put);
	int result;

	/* the layer's until done */
	struct cds_list_head node;
	struct ftl_order order;
	size_t started; /* bytes */
	unsigned nr_in_flight;
	unsigned
		nr_ahead; /* of them, those whose records are in the journal before their data is written */
	unsigned iov_index;
	size_t iov_offset;
};

void ftl_get(struct ftl *ftl, struct ftl_get *get);
void ftl_put(struct ftl *ftl, struct ftl_put *put);

/*
 * What was submitted before and changes blocks of [lba, lba + count) has ended and survives the loss of power. Quickest when
 * it is submitted together with a put, without a poll between: then data and journal are written at the same time.
 */
struct ftl_sync {
	uint64_t lba;
	uint64_t count;
	void (*done)(struct ftl_sync *sync);
	int result;

	/* the layer's until done */
	struct cds_list_head node;
	uint64_t ticket;
	uint64_t target;  /* of the journal; 0: what it waits for has not ended        */
	uint64_t ahead;	  /* what that will be; 0: not all records are in the journal */
	uint64_t nr_void; /* how many were void then: if more are, it will not        */
};

/* All of a layer: lba 0, count FTL_ALL. */
#define FTL_ALL UINT64_MAX

void ftl_sync(struct ftl *ftl, struct ftl_sync *sync);

/* ---- records: what the address space keeps here ---- */

/*
 * A few small records, each known by a number below FTL_NR_RANGES, kept in memory, journal and checkpoints as bytes that mean
 * nothing here. A change of one is atomic. It takes effect in order with the trims and clones around it: by itself (a trim of
 * no blocks), or together with the last step of a trim or clone, of which it says after a crash that all of it is done.
 * So a range is shrunk by: a record that tells the intent; a trim whose change is the record without it. Who finds an
 * intent when it opens repeats the trim.
 */
#define FTL_RECORD_BYTES 48U

struct ftl_record_change {
	uint32_t id;
	bool is_removal;
	uint8_t data[FTL_RECORD_BYTES];
};

/* The record's FTL_RECORD_BYTES, or NULL. Valid until the next poll. */
const void *ftl_record(struct ftl *ftl, uint32_t id);

/* The lowest number from `id` that has a record; FTL_NR_RANGES: none. */
uint32_t ftl_record_next(struct ftl *ftl, uint32_t id);

/*
 * Blocks [lba, lba + count) of one range read as zeros afterwards and take no room. Then, or alone if count is 0, the change
 * of a record. -ENOSPC: there are nr_records already.
 */
struct ftl_trim {
	uint64_t lba;
	uint64_t count;
	const struct ftl_record_change *change; /* NULL: none */
	void (*done)(struct ftl_trim *trim);
	int result;

	struct ftl_sweep sweep; /* the layer's until done */
};

void ftl_trim(struct ftl *ftl, struct ftl_trim *trim);

/*
 * [target, target + count) become what [source, source + count) are, in steps: the data is shared until either is written.
 * Neither may overlap the other. Then the change of a record. -ENOSPC: no more blocks can be shared, or map pages; what was
 * cloned up to there stays.
 */
struct ftl_clone {
	uint64_t source;
	uint64_t target;
	uint64_t count;
	const struct ftl_record_change *change; /* NULL: none */
	void (*done)(struct ftl_clone *clone);
	int result;

	struct ftl_sweep sweep; /* the layer's until done */
};

void ftl_clone(struct ftl *ftl, struct ftl_clone *clone);

/* ---- what it does ---- */

enum ftl_segment_state {
	FTL_SEGMENT_FREE,
	FTL_SEGMENT_OPEN, /* blocks are appended                                                    */
	FTL_SEGMENT_CLOSING, /* no more are; its summary is not on the device yet                      */
	FTL_SEGMENT_FULL, /* may be cleaned                                                         */
	FTL_SEGMENT_CLEANING, /* the cleaner's                                                          */
	FTL_SEGMENT_PENDING, /* nothing in it is valid; waits until that survives the loss of power    */
	FTL_SEGMENT_DISCARD, /* is being discarded                                                     */
	FTL_SEGMENT_BAD, /* failed to be written, or holds what cannot be read: never used again   */
	FTL_NR_SEGMENT_STATES,
};

struct ftl_stat {
	/* constant */
	uint64_t capacity_blocks; /* that can be in use at a time: without the cleaner's reserve  */
	uint32_t nr_segments;
	uint32_t segment_blocks; /* of 4 KiB, data alone                                         */
	uint32_t journal_blocks;
	uint32_t map_slots;
	uint64_t shares_max; /* addresses of shared blocks there can be */
	/* now */
	uint64_t used_blocks; /* of the device: a shared one counts once                      */
	uint64_t free_blocks; /* that can be put to blocks that hold nothing                  */
	uint32_t nr_by_state[FTL_NR_SEGMENT_STATES];
	uint32_t map_slots_used;
	uint64_t map_bytes; /* of memory: pages, with what is known of rates, and tables     */
	uint64_t
		shares; /* addresses of blocks that are, or were, shared: a clone of n adds 2n at most */
	uint32_t journal_used; /* blocks that the next recovery would read                     */
	/* since it was opened */
	uint64_t gets, puts, syncs, trims, clones;
	uint64_t user_blocks;	  /* written for puts                                             */
	uint64_t moved_blocks;	  /* written by the cleaner                                       */
	uint64_t summary_blocks;  /* written to the ends of segments                              */
	uint64_t map_pages;	  /* written by checkpoints                                       */
	uint64_t table_blocks;	  /* written by checkpoints                                       */
	uint64_t journal_written; /* blocks of the journal                                        */
	uint64_t device_writes;	  /* operations for puts: less than user_blocks where they gather */
	uint64_t records_ahead;	  /* of the journal, appended before their data was written       */
	uint64_t records_void;	  /* of them, those whose data could not be written               */
	uint64_t flushes, checkpoints, discards;
	uint64_t segments_cleaned;
	uint64_t crc_errors, read_errors, write_errors;
	/* of damage of the map */
	uint32_t
		damaged_pages; /* with blocks of which it is not known where they lie; as far as pages were read */
	uint64_t
		leaked_blocks; /* at most: of used_blocks, without being anybody's, until the cleaner sees them */
	/* of recovery */
	uint64_t replayed_blocks;  /* of the journal            */
	uint64_t replayed_records; /* in them                   */
	uint64_t verified_records; /* whose data was read       */
	uint64_t dropped_records;  /* whose data was not there  */
};

void ftl_stat(const struct ftl *ftl, struct ftl_stat *stat);

/*
 * The first block from `lba` on that may hold something, which those of one page of the map do together; FTL_NONE: there is
 * none. To go through all blocks, while they change.
 */
#define FTL_NONE UINT64_MAX

uint64_t ftl_next(struct ftl *ftl, uint64_t lba);

/*
 * Counts everything anew from the map and compares it with the tables: valid blocks of each segment, sharing, slots. Reads all
 * map pages; blocks; no request is in flight. 0, or -EBADMSG and a line of what is wrong. What damaged pages do not tell is no
 * error by itself.
 */
int ftl_audit(struct ftl *ftl);

#endif
