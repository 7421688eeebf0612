/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The journal is a ring of blocks on the device that records what changed since the last
 * checkpoint. Records are appended to the open block, in memory. A block is written once: when it
 * is full, or when a caller waits for it. journal_progress() writes and flushes what callers want.
 *
 * Blocks are numbered by a sequence that never goes back. A record is durable when its block is
 * before `flushed`. All blocks before that, and the data that their records name, were written, and
 * then a flush began and ended. Most records are appended after their data has been written. If one
 * is appended earlier, its block is held until the data is written. No flush counts for a held
 * block, nor for any block behind it.
 *
 * Callers reserve room before they append, so an append cannot fail for lack of room. The journal
 * keeps room free for all that is reserved, even if blocks are written half full. It also keeps
 * room for the block that a checkpoint writes when it begins.
 *
 * No function here blocks. Threads: the layer's.
 */
#ifndef FLASH_JOURNAL_H
#define FLASH_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "flash/device/device.h"
#include "flash/format.h"

struct journal_block;

struct journal {
	struct flash_device *device;
	uint32_t first; /* block of the device */
	uint32_t nr_blocks;
	uint32_t seed; /* of checksums, so that blocks of an earlier layer do not count */
	uint64_t epoch;
	uint64_t start;	   /* recovery would begin with this block */
	uint64_t written;  /* all blocks before this have been written */
	uint64_t settled;  /* all before this have, and the data of their records */
	uint64_t flushed;  /* all before this survive the loss of power */
	uint64_t told;	   /* the most that a block on the device, or an anchor, says of that */
	uint64_t wanted;   /* callers wait until `flushed` is this */
	uint64_t ahead;	   /* blocks before this are to be written soon */
	uint64_t goal;	   /* the next flush begins when `settled` is this */
	uint64_t flushing; /* `flushed` becomes this when the flush ends */
	bool is_flushing;
	bool is_short;	   /* a caller waits for room: a checkpoint is wanted */
	uint32_t reserved; /* slots */
	uint32_t nr_held;  /* writes of data in flight whose records are here already */
	struct journal_block *open;
	uint64_t sequence;	      /* of the open block */
	struct cds_list_head writing; /* blocks from `settled` on */
	struct cds_list_head spare;
	struct flash_io flush;
	int failed; /* negative: the journal cannot be written any more */
	uint64_t nr_written, nr_flushes;
};

/* Makes an empty journal on the device, which must outlive it. Returns 0, or -ENOMEM; call
 * journal_close() in either case. */
int journal_open(struct journal *journal, struct flash_device *device,
		 const struct format_superblock *layout);
/* Frees the journal. Nothing may be in flight. */
void journal_close(struct journal *journal);

/* Begins at block `sequence` of `epoch`: no earlier block counts. */
void journal_begin(struct journal *journal, uint64_t epoch, uint64_t sequence);

/*
 * Reserves room for `nr` slots if room for `kept` more remains. A caller that may have to wait for
 * the cleaner keeps room for the cleaner. False: there is no room before the next checkpoint, which
 * is wanted from now on.
 */
bool journal_reserve(struct journal *journal, uint32_t nr, uint32_t kept);
/* Like journal_reserve(), but asks for no checkpoint: for a caller that can do without. */
bool journal_reserve_spare(struct journal *journal, uint32_t nr, uint32_t kept);
/* Gives back `nr` reserved slots. */
void journal_unreserve(struct journal *journal, uint32_t nr);

/* Appends `nr` slots to one block, at most 4. They must be reserved, and are not any more. */
void journal_append(struct journal *journal, const struct format_record *records, uint32_t nr);

/* Holds the open block for records that the caller appends next, before it writes their data. End
 * the hold with journal_settle() or journal_void(). */
struct journal_block *journal_hold(struct journal *journal);
/* Ends a hold: the data has been written. */
void journal_settle(struct journal *journal, struct journal_block *block);
/*
 * Notes that the data could not be written, so those records are void. The block stays held until
 * journal_release() of a higher sequence than the one returned. The caller has to ask for the
 * checkpoint that does so.
 */
uint64_t journal_void(struct journal *journal, struct journal_block *block);

/* Returns the sequence before which all appended records are. They are durable once `flushed` is at
 * least this. */
uint64_t journal_position(const struct journal *journal);

/*
 * Writes a block without records if none on the device says yet that all before it was flushed. Otherwise damage of the last block that
 * was flushed would look like a crash. Returns whether it does.
 */
bool journal_tell(struct journal *journal);

/* Asks for `flushed` to become at least `position`. */
void journal_want(struct journal *journal, uint64_t position);
/* Asks for the blocks before `position` to be written now; journal_want() will follow. */
void journal_want_written(struct journal *journal, uint64_t position);

/* Writes the open block if it has records. False: there is no room; a checkpoint is wanted. */
bool journal_seal(struct journal *journal);
/*
 * Writes the open block if it has records, in the room that is kept for a checkpoint's beginning.
 */
void journal_seal_for_checkpoint(struct journal *journal);

/* Starts the writes and flushes that are wanted. After an error it does nothing: see `failed`. */
void journal_progress(struct journal *journal);

/* Returns how many blocks of the ring are in use, from `start` on. */
static inline uint32_t journal_used(const struct journal *journal)
{
	return (uint32_t)(journal->sequence - journal->start);
}

/* Frees the ring's blocks before `sequence`: a checkpoint that includes them is durable. Ends the
 * holds on them. */
void journal_release(struct journal *journal, uint64_t sequence);

static inline struct format_record record_make(enum format_record_type type, uint64_t subject,
					       uint32_t place, uint32_t crc)
{
	return (struct format_record){
		.subject = (uint64_t)type << FORMAT_LBA_BITS | subject, .place = place, .crc = crc};
}

#endif
