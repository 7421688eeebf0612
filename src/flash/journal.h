/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The journal: a ring of blocks that tell what changed since the last checkpoint. Records are appended to a block in memory;
 * it is written when it is full, or when somebody waits for it, once, and never again. journal_progress() writes and flushes
 * what is wanted.
 *
 * A record is durable when its block is before `flushed`: all blocks before that, and the data that their records name, were
 * written, and then a flush began and ended. Most records are appended after the write of their data has ended. One that is
 * appended ahead of it has its block held meanwhile: no flush counts for a block that is held, nor for any behind it.
 *
 * Nobody appends who has not reserved, so an append cannot fail for lack of room: room for all that is reserved is kept free,
 * also when blocks are written half full, plus what a checkpoint needs to begin.
 */
#ifndef FLASH_JOURNAL_H
#define FLASH_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "flash/device.h"
#include "flash/format.h"

struct journal_block;

struct journal {
	struct flash_device *device;
	uint32_t first; /* block of the device */
	uint32_t nr_blocks;
	uint32_t seed; /* of sums: what another layer left is not whole  */
	uint64_t epoch;
	uint64_t start;	   /* the block that recovery would begin with      */
	uint64_t written;  /* all blocks before this have been written      */
	uint64_t settled;  /* so have these, and their records' data        */
	uint64_t flushed;  /* and these survive                             */
	uint64_t wanted;   /* somebody waits for `flushed` to be this       */
	uint64_t ahead;	   /* blocks before this are to be written soon     */
	uint64_t goal;	   /* what the next flush waits for, of it          */
	uint64_t flushing; /* what the flush under way will make of flushed */
	bool is_flushing;
	bool is_short;	   /* somebody waits for room: a checkpoint is wanted */
	uint32_t reserved; /* records                                       */
	uint32_t nr_held;  /* writes of data with records ahead, in flight  */
	struct journal_block *open;
	uint64_t sequence;	      /* of the open block                             */
	struct cds_list_head writing; /* from `settled` on                  */
	struct cds_list_head spare;
	struct flash_io flush;
	int failed; /* negative: it cannot be written any more      */
	uint64_t nr_written, nr_flushes;
};

int journal_open(struct journal *journal, struct flash_device *device,
		 const struct format_superblock *layout);
/* Nothing is in flight. */
void journal_close(struct journal *journal);

/* Goes on with block `sequence` as the first that counts, which anchors say from now on. */
void journal_begin(struct journal *journal, uint64_t epoch, uint64_t sequence);

/*
 * Room for `nr` records (slots) that leaves room for `kept` more, or false: wait for a checkpoint. Those who may have to wait for
 * the cleaner keep room for it.
 */
bool journal_reserve(struct journal *journal, uint32_t nr, uint32_t kept);
/* The same for who can do without: no checkpoint is written for its sake. */
bool journal_reserve_spare(struct journal *journal, uint32_t nr, uint32_t kept);
void journal_unreserve(struct journal *journal, uint32_t nr);

/* Appends `nr` slots, which are reserved and stay together. */
void journal_append(struct journal *journal, const struct format_record *records, uint32_t nr);

/* Holds the open block for records that are appended next, ahead of their data. */
struct journal_block *journal_hold(struct journal *journal);
/* That data has been written. */
void journal_settle(struct journal *journal, struct journal_block *block);
/*
 * That data could not be written, so those records are void: the block stays held until a checkpoint has begun and ended, for
 * which the caller cares. Its sequence: journal_release() of a higher one is what ends it.
 */
uint64_t journal_void(struct journal *journal, struct journal_block *block);

/* All appended records are in blocks before this; `flushed` at this or behind it means that they are durable. */
uint64_t journal_position(const struct journal *journal);

/* Somebody needs flushed >= position. */
void journal_want(struct journal *journal, uint64_t position);
/* Somebody will, and the blocks before it may be written already. */
void journal_want_written(struct journal *journal, uint64_t position);

/* Writes the open block if it has records; false: not yet, there is no room. */
bool journal_seal(struct journal *journal);
/* The same, with the room that is kept for it: at the beginning of a checkpoint. */
void journal_seal_for_checkpoint(struct journal *journal);

/* Starts the writes and flushes that are wanted. */
void journal_progress(struct journal *journal);

/* Blocks from `start` on. */
static inline uint32_t journal_used(const struct journal *journal)
{
	return (uint32_t)(journal->sequence - journal->start);
}

/* Recovery would begin at `sequence` from now on, and all before it is durable. */
void journal_release(struct journal *journal, uint64_t sequence);

static inline struct format_record record_make(enum format_record_type type, uint64_t subject,
					       uint32_t place, uint32_t crc)
{
	return (struct format_record){
		.subject = (uint64_t)type << FORMAT_LBA_BITS | subject, .place = place, .crc = crc};
}

#endif
