/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of the translation layer. It makes a 64-bit space of 4 KiB blocks, which survives
 * its process, from a device that wants to be written front to back. Callers read and write blocks
 * by bytes, trim them, clone them by remapping, and sync. Below, the layer appends blocks to
 * segments, a map says where each block is, and a cleaner makes room.
 *
 * Everything is asynchronous. A request is a struct that the caller embeds, fills and submits by
 * its function. The caller then leaves it and the memory that it names alone, until the layer calls
 * its `done`. Only ftl_poll() calls `done`. From then on the request is the caller's again: `done`
 * itself may free it or submit it anew. Submitting never fails; `result` says what went wrong.
 * Nothing is allocated per request.
 *
 * Threads: a layer and its device belong to one thread; there are no locks. The layer works only in
 * ftl_poll().
 *
 * Promises:
 *  - Requests that change the same block (put, trim, clone) take effect in the order of submission.
 *  - A get sees, block by block, every put, trim and clone that had ended when it was submitted, or
 *    a later one.
 *  - A sync that ends with 0 makes durable all that had ended, or was submitted, before the sync
 *    was submitted. Everything else is, block by block, old or new after a crash, never torn and
 *    never another block's.
 *  - A block that was never written, or was trimmed, reads as zeros.
 *  - A block that the device returns other than it was written is -EBADMSG. The checksum covers the
 *    block's address too, so it catches a swapped or stale block. A block that the device cannot
 *    read is -EIO. All other blocks live on.
 *  - If a page of the map cannot be read, its up to 510 blocks report the same errors. Putting
 *    whole blocks and trimming mends those blocks.
 *  - -ENOSPC comes before anything is lost. Reads, trims, syncs and overwriting unshared blocks go
 *    on.
 *  - If the journal can no longer be written, every change is -EIO, and reads go on.
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

#include "flash/device/device.h"
#include "flash/request.h"

#define FTL_BLOCK 4096U

/*
 * A block's address: its range in the upper half, its number in the range in the lower. Ranges are
 * numbers below FTL_NR_RANGES; the caller gives them a meaning. A range's map grows as it is
 * written.
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

/* How a device is laid out. 0 everywhere is right for most. Sizes that do not fit are rounded, not
 * refused. */
struct ftl_options {
	/* 0: 4 MiB, less on devices below 256 MiB, or the device's discard unit if that is more. */
	uint32_t segment_bytes;
	/* 4 KiB blocks of the journal's ring; 0: by capacity. A checkpoint begins at half. */
	uint32_t journal_blocks;
	uint32_t nr_map_pages; /* at most; a page has 510 blocks of a range; 0: by capacity */
	uint32_t nr_records;   /* small records (below), at most; 0: by capacity */
	bool is_forced;	       /* over whatever is there, even a layer of ours */
};

/*
 * Makes an empty layer on `device`. Blocks. -EEXIST: the device holds something, which the line
 * names (unless is_forced). -ENOSPC: it is too small. -EINVAL: its sector is neither 512 nor 4096.
 * Or the device's own errors.
 */
int ftl_create(struct flash_device *device, const struct ftl_options *options);

/* Nothing is written to the device, not even by recovery. Everything that would change something is
 * -EROFS. */
#define FTL_READ_ONLY 1U

/*
 * For a repair. If an older checkpoint has to serve, and pages of its map are gone, the layer is opened all the same. Each block of such
 * a page is -EBADMSG, but for those that the journal tells of.
 */
#define FTL_LOSSY 2U

/* `n` streams (docs/flash.md), 1 to FTL_STREAMS_MAX, instead of as many as pay: for comparisons and
 * tests. */
#define FTL_STREAMS(n)	((unsigned)(n) << 8)
#define FTL_STREAMS_MAX 8U

/*
 * Opens the layer of `device`, which stays the caller's and must outlive the layer. Blocks: it
 * recovers what a crash left, and takes longer the more is in the journal. -EINVAL: there is no
 * layer, or the device was cut short. -EPROTONOSUPPORT: the layer is of a newer version. -EBADMSG:
 * it is damaged beyond what recovery may repair. Or -ENOMEM, or the device's own errors.
 * The details are in error_last_line().
 */
int ftl_open(struct flash_device *device, unsigned flags, struct ftl **out);

/*
 * Call it when nothing has been asked for a while. Has the journal say that what was synced last was synced: until then damage of its last
 * block looks like a crash. Returns whether something is written for that, by the next poll.
 */
bool ftl_tell_synced(struct ftl *ftl);

/*
 * Makes everything durable and frees the layer; blocks. No request may be in flight. It frees the
 * layer in any case; negative: changes that were not synced may be lost.
 */
int ftl_close(struct ftl *ftl);

/* Acts as a loss of power would: frees the layer and writes nothing more. Requests in flight are
 * forgotten; their `done` is not called. */
void ftl_abandon(struct ftl *ftl);

/*
 * Makes progress and calls `done` of what has ended. If requests are under way and none has ended,
 * it waits for at most `timeout_ms` (0: not at all, -1: as long as it takes). Returns how many
 * ended, or negative: the device is beyond use.
 */
int ftl_poll(struct ftl *ftl, int timeout_ms);

/* Returns whether anything has moved on in the last poll, also if no request ended. More may have ended
 * at the device already, and more may be ready to start: poll again. */
bool ftl_has_moved(const struct ftl *ftl);

/* A descriptor that becomes readable when ftl_poll() would find something, for edges: see flash_device_ops; -1: the device has none.
 * Requests that are submitted outside of ftl_poll() need a poll of 0 to start. Sleep on it only
 * after a poll that ended nothing and in which nothing has moved. */
int ftl_fd(struct ftl *ftl);

/* Returns why nothing can be changed any more, negative, while reads go on; 0: it can. Later failures
 * do not change the answer. */
int ftl_failure(const struct ftl *ftl);

/* ---- reading and writing ---- */

/*
 * Reads `length` bytes from byte `offset` of block `lba` into `iov`, whose lengths add up to
 * `length`. `offset` may be beyond FTL_BLOCK. Fast, without a copy, if blocks are whole and memory
 * is aligned to the device's sector.
 */
struct ftl_get {
	uint64_t lba;
	uint64_t offset;
	size_t length;
	const struct iovec *iov;
	unsigned nr_iov;
	/* NULL, or where the CRC32C of each block's data goes: as the layer keeps it, not as it is
	 * of what was read. `offset` and `length` are then in whole blocks. */
	uint32_t *sums;
	/* NULL, or called for each block, in any order: the block's bytes, `length` from byte `at`
	 * of the request, are there, or failed. */
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
 * How often the caller expects a block to change. FTL_HEAT_MEAN is the average block; 16 more means
 * twice as often. Heat only decides which blocks are written together.
 */
#define FTL_HEAT_UNKNOWN 0U
#define FTL_HEAT_MEAN	 128U
#define FTL_HEAT_BRIEF	 (FTL_HEAT_MEAN + 3 * 16) /* for callers who know no number: soon … */
#define FTL_HEAT_COLD	 (FTL_HEAT_MEAN - 3 * 16) /* … and not for long */

/*
 * Writes bytes, as ftl_get reads them. A block that is given in part keeps the rest. Each block is
 * old or new after a crash; of a put of several blocks, any may be new.
 */
struct ftl_put {
	uint64_t lba;
	uint64_t offset;
	size_t length;
	const struct iovec *iov;
	unsigned nr_iov;
	/* NULL, or the CRC32C of each block's data, as its maker knows it. A block whose data is
	 * other than its sum is -EBADMSG, and stays old. The layer keeps what follows from the sum.
	 * `offset` and `length` are then in whole blocks. */
	const uint32_t *sums;
	uint8_t heat; /* FTL_HEAT_UNKNOWN, or as above */
	void (*done)(struct ftl_put *put);
	int result;

	/* the layer's until done */
	struct cds_list_head node;
	struct ftl_order order;
	size_t started; /* bytes */
	unsigned nr_in_flight;
	/* In flight too; their records are in the journal before their data is written. */
	unsigned nr_ahead;
	unsigned iov_index;
	size_t iov_offset;
};

void ftl_get(struct ftl *ftl, struct ftl_get *get);
void ftl_put(struct ftl *ftl, struct ftl_put *put);

/*
 * Ends when all that was submitted before, and changes blocks of [lba, lba + count), has ended and
 * survives the loss of power. Quickest when submitted right after a put, without a poll between:
 * data and journal are then written at the same time.
 */
struct ftl_sync {
	uint64_t lba;
	uint64_t count;
	void (*done)(struct ftl_sync *sync);
	int result;

	/* the layer's until done */
	struct cds_list_head node;
	uint64_t ticket;
	uint64_t target;  /* of the journal; 0: a request that it waits for has not ended */
	uint64_t ahead;	  /* what target will be; 0: not all records are in the journal */
	uint64_t nr_void; /* records void at that time; if more are now, `ahead` is not valid */
};

/* All of a layer: lba 0, count FTL_ALL. */
#define FTL_ALL UINT64_MAX

void ftl_sync(struct ftl *ftl, struct ftl_sync *sync);

/* ---- records: what the address space keeps here ---- */

/*
 * Records: a few small ones, which the address space keeps here. Each has a number below
 * FTL_NR_RANGES. The layer keeps them in memory, journal and checkpoints, and does not look at
 * their bytes.
 *
 * A change of a record is atomic, and takes effect in order with the trims and clones around it. It
 * goes alone (with a trim of no blocks), or with the last step of a trim or clone. In that case a
 * record found after a crash says that all of that trim or clone is done.
 *
 * To shrink a range, write a record of the intent; then trim, with a change to the record without
 * the intent. If you find an intent after opening, repeat the trim.
 */
#define FTL_RECORD_BYTES 48U

struct ftl_record_change {
	uint32_t id;
	bool is_removal;
	uint8_t data[FTL_RECORD_BYTES];
};

/* The record's FTL_RECORD_BYTES, or NULL. Valid until the next poll. */
const void *ftl_record(struct ftl *ftl, uint32_t id);

/* The lowest number from `id` on that has a record; FTL_NR_RANGES: none. */
uint32_t ftl_record_next(struct ftl *ftl, uint32_t id);

/*
 * Blocks [lba, lba + count) of one range read as zeros afterwards, and take no room. The change of
 * a record follows; it comes alone if count is 0. -ENOSPC: there are nr_records already.
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
 * Makes [target, target + count) a copy of [source, source + count), in steps. The two share data
 * until either is written. They must not overlap. The change of a record follows. -ENOSPC: no more
 * blocks can be shared, or no map pages are left; the steps that were done stay.
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
	FTL_SEGMENT_OPEN,     /* blocks are appended */
	FTL_SEGMENT_CLOSING,  /* takes no more blocks; its summary is not on the device yet */
	FTL_SEGMENT_FULL,     /* may be cleaned */
	FTL_SEGMENT_CLEANING, /* the cleaner is at it */
	FTL_SEGMENT_PENDING,  /* nothing in it is valid; free once that is durable */
	FTL_SEGMENT_DISCARD,  /* is being discarded */
	FTL_SEGMENT_BAD, /* a write failed, or it holds what cannot be read: used again when the layer is opened, or full */
	FTL_NR_SEGMENT_STATES,
};

struct ftl_stat {
	/* constant */
	uint64_t capacity_blocks; /* that can be in use at once, without the cleaner's reserve */
	uint32_t nr_segments;
	uint32_t segment_blocks; /* of 4 KiB, data alone */
	uint32_t journal_blocks;
	uint32_t map_slots;
	uint64_t shares_max; /* limit of `shares` */
	/* now */
	uint64_t used_blocks; /* of the device: a shared one counts once */
	uint64_t free_blocks; /* room for puts to blocks that hold nothing */
	uint32_t nr_by_state[FTL_NR_SEGMENT_STATES];
	uint32_t map_slots_used;
	uint64_t map_bytes; /* of memory: pages, with estimates of rates, and tables */
	/* Addresses of blocks that are, or were, shared: a clone of n blocks adds at most 2n. */
	uint64_t shares;
	uint32_t journal_used; /* blocks that the next recovery would read */
	/* since it was opened */
	uint64_t gets, puts, syncs, trims, clones;
	uint64_t user_blocks;	  /* written for puts */
	uint64_t moved_blocks;	  /* written by the cleaner */
	uint64_t summary_blocks;  /* written to the ends of segments */
	uint64_t map_pages;	  /* written by checkpoints */
	uint64_t table_blocks;	  /* written by checkpoints */
	uint64_t journal_written; /* blocks of the journal */
	/* Writes for puts: fewer than user_blocks if blocks go out together. */
	uint64_t device_writes;
	uint64_t device_reads;	/* reads for gets: fewer than blocks if those are adjacent */
	uint64_t records_ahead; /* records in the journal before their data was written */
	uint64_t records_void;	/* of records_ahead: their data could not be written */
	uint64_t flushes, checkpoints, discards;
	uint64_t segments_cleaned;
	uint64_t crc_errors, read_errors, write_errors;
	/* of damage of the map */
	/* With blocks whose place is unknown; counts only pages that were read. */
	uint32_t damaged_pages;
	uint64_t leaked_blocks; /* at most: of used_blocks, nobody's, until the cleaner sees them */
	/* of recovery */
	uint64_t replayed_blocks;  /* of the journal */
	uint64_t replayed_records; /* in them                   */
	uint64_t verified_records; /* their data was read */
	uint64_t dropped_records;  /* their data was not there */
};

void ftl_stat(const struct ftl *ftl, struct ftl_stat *stat);

/*
 * The first block from `lba` on that may hold something; FTL_NONE: there is none. It answers by
 * whole pages of the map. For going through all blocks, while they change.
 */
#define FTL_NONE UINT64_MAX

uint64_t ftl_next(struct ftl *ftl, uint64_t lba);

/*
 * Counts everything anew from the map and compares it with the tables: valid blocks of each
 * segment, sharing, slots. Reads all map pages; blocks. No request may be in flight. 0, or -EBADMSG
 * and a line that says what is wrong. Blocks that damaged pages do not tell of are no error by
 * themselves.
 */
int ftl_audit(struct ftl *ftl);

#endif
