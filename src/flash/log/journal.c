/* SPDX-License-Identifier: BSD-3-Clause */
/* Appends to the ring, writes and flushes it; see journal.h. */
#include "flash/log/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"
#include "base/log.h"

#define SLOTS_MAX 4U /* of one append, which go to one block */
/* A block takes at least so many slots: the next append may not fit into the rest. */
#define RECORDS_SURE (FORMAT_JOURNAL_RECORDS - (SLOTS_MAX - 1))
#define SPARE_BLOCKS 16U
#define ATTEMPTS     3U /* at writing a block */

struct journal_block {
	struct cds_list_head node;
	struct flash_io io;
	struct iovec iov;
	struct journal *journal;
	uint64_t sequence;
	unsigned attempts;
	unsigned nr_holds;
	bool has_ended;
	struct {
		alignas(FORMAT_BLOCK) struct format_journal_header header;
		struct format_record records[FORMAT_JOURNAL_RECORDS];
	} * bytes;
};

static struct journal_block *new_block(struct journal *journal)
{
	struct journal_block *block;

	if (!cds_list_empty(&journal->spare)) {
		block = cds_list_first_entry(&journal->spare, struct journal_block, node);
		cds_list_del(&block->node);
	} else {
		block = calloc(1, sizeof(*block));
		if (!block)
			return NULL;
		block->bytes = aligned_alloc(FORMAT_BLOCK, FORMAT_BLOCK);
		if (!block->bytes) {
			free(block);
			return NULL;
		}
		block->journal = journal;
	}
	memset(block->bytes, 0, FORMAT_BLOCK);
	return block;
}

static void free_block(struct journal_block *block)
{
	if (block)
		free(block->bytes);
	free(block);
}

int journal_open(struct journal *journal, struct flash_device *device,
		 const struct format_superblock *layout)
{
	*journal = (struct journal){.device = device,
				    .first = layout->journal_at,
				    .nr_blocks = layout->journal_blocks,
				    .seed = checksum_crc32c(layout->uuid, sizeof(layout->uuid))};
	CDS_INIT_LIST_HEAD(&journal->writing);
	CDS_INIT_LIST_HEAD(&journal->spare);
	for (unsigned i = 0; i < SPARE_BLOCKS; i++) {
		struct journal_block *block = new_block(journal);

		if (!block)
			return error_code(-ENOMEM);
		cds_list_add(&block->node, &journal->spare);
		journal->open = block;
	}
	cds_list_del(&journal->open->node);
	return 0;
}

void journal_close(struct journal *journal)
{
	struct journal_block *block, *next;

	if (!journal->spare.next)
		return;
	cds_list_for_each_entry_safe (block, next, &journal->writing, node)
		free_block(block);
	cds_list_for_each_entry_safe (block, next, &journal->spare, node)
		free_block(block);
	free_block(journal->open);
	*journal = (struct journal){0};
}

void journal_begin(struct journal *journal, uint64_t epoch, uint64_t sequence)
{
	journal->epoch = epoch;
	journal->sequence = sequence;
	journal->start = journal->written = journal->settled = journal->flushed = sequence;
	journal->wanted = journal->goal = journal->ahead = journal->told = sequence;
}

/* ---- room ---- */

static uint32_t blocks_for(uint32_t records)
{
	return (uint32_t)((records + RECORDS_SURE - 1) / RECORDS_SURE);
}

/*
 * Returns whether the ring has room for `records` more slots behind the open block, and for `seals`
 * blocks that are written half full. The block `start` + nr_blocks would overwrite the block
 * `start`.
 */
static bool fits(const struct journal *journal, uint32_t records, uint32_t seals)
{
	return (uint64_t)journal_used(journal) + blocks_for(records) + seals < journal->nr_blocks;
}

bool journal_reserve_spare(struct journal *journal, uint32_t nr, uint32_t kept)
{
	/* One of the seals is kept for the beginning of a checkpoint. */
	if (!fits(journal, journal->reserved + nr + kept, 2))
		return false;
	journal->reserved += nr;
	return true;
}

bool journal_reserve(struct journal *journal, uint32_t nr, uint32_t kept)
{
	if (journal_reserve_spare(journal, nr, kept))
		return true;
	journal->is_short = true;
	return false;
}

void journal_unreserve(struct journal *journal, uint32_t nr)
{
	assert(journal->reserved >= nr);
	journal->reserved -= nr;
}

/* ---- data that is yet to be written ---- */

/* Updates `written` and `settled`, and frees the blocks before `settled`. */
static void advance(struct journal *journal)
{
	struct journal_block *block, *next;

	if (journal->failed)
		return;
	cds_list_for_each_entry_safe (block, next, &journal->writing, node) {
		if (!block->has_ended)
			return;
		if (block->sequence == journal->written)
			journal->written++;
		if (block->nr_holds || block->sequence != journal->settled)
			continue;
		journal->settled++;
		cds_list_del(&block->node);
		cds_list_add(&block->node, &journal->spare);
	}
}

struct journal_block *journal_hold(struct journal *journal)
{
	journal->nr_held++;
	journal->open->nr_holds++;
	return journal->open;
}

void journal_settle(struct journal *journal, struct journal_block *block)
{
	assert(block->nr_holds > 0);
	journal->nr_held--;
	block->nr_holds--;
	advance(journal);
}

uint64_t journal_void(struct journal *journal, struct journal_block *block)
{
	journal->nr_held--;
	return block == journal->open ? journal->sequence : block->sequence;
}

/* ---- writing ---- */

static void submit(struct journal_block *block);

static void block_written(struct flash_io *io)
{
	struct journal_block *block = caa_container_of(io, struct journal_block, io);
	struct journal *journal = block->journal;

	if (io->result && !journal->failed && ++block->attempts < ATTEMPTS) {
		submit(block);
		return;
	}
	if (io->result && !journal->failed) {
		log_error(
			"flash: the journal cannot be written: %s; nothing can be changed any more",
			afar_strerror(io->result));
		journal->failed = -EIO;
	}
	block->has_ended = true;
	advance(journal);
}

static void submit(struct journal_block *block)
{
	struct journal *journal = block->journal;
	uint64_t at = journal->first + block->sequence % journal->nr_blocks;

	block->iov = (struct iovec){block->bytes, FORMAT_BLOCK};
	block->io = (struct flash_io){.opcode = FLASH_IO_WRITE,
				      .offset = at * FORMAT_BLOCK,
				      .length = FORMAT_BLOCK,
				      .iov = &block->iov,
				      .nr_iov = 1,
				      .done = block_written};
	flash_device_submit(journal->device, &block->io);
}

/* Submits the open block and begins another. */
static void write_open(struct journal *journal)
{
	struct journal_block *block = journal->open, *next = new_block(journal);
	struct format_journal_header *header = &block->bytes->header;

	if (journal->failed) {
		if (next)
			cds_list_add(&next->node, &journal->spare);
		header->nr_records = 0;
		return;
	}
	if (!next) {
		log_error("flash: no memory for the journal; nothing can be changed any more");
		journal->failed = -ENOMEM;
		header->nr_records = 0;
		return;
	}
	header->epoch = journal->epoch;
	header->sequence = journal->sequence;
	header->flushed = journal->told = journal->flushed;
	header->crc = checksum_crc32c_seeded(journal->seed, block->bytes, FORMAT_BLOCK);
	block->sequence = journal->sequence++;
	block->attempts = 0;
	block->has_ended = false;
	cds_list_add_tail(&block->node, &journal->writing);
	journal->nr_written++;
	submit(block);
	journal->open = next;
}

void journal_append(struct journal *journal, const struct format_record *records, uint32_t nr)
{
	struct format_journal_header *header = &journal->open->bytes->header;

	journal_unreserve(journal, nr);
	if (header->nr_records + nr > FORMAT_JOURNAL_RECORDS) {
		write_open(journal);
		header = &journal->open->bytes->header;
	}
	memcpy(&journal->open->bytes->records[header->nr_records], records, nr * sizeof(*records));
	header->nr_records += nr;
	if (header->nr_records == FORMAT_JOURNAL_RECORDS)
		write_open(journal);
}

uint64_t journal_position(const struct journal *journal)
{
	return journal->sequence + (journal->open->bytes->header.nr_records > 0);
}

bool journal_seal(struct journal *journal)
{
	if (journal->open->bytes->header.nr_records == 0)
		return true;
	if (!fits(journal, journal->reserved, 1)) {
		journal->is_short = true;
		return false;
	}
	write_open(journal);
	return true;
}

void journal_seal_for_checkpoint(struct journal *journal)
{
	if (journal->open->bytes->header.nr_records == 0)
		return;
	assert(fits(journal, journal->reserved, 0));
	write_open(journal);
}

/* ---- flushing ---- */

static void flush_ended(struct flash_io *io)
{
	struct journal *journal = caa_container_of(io, struct journal, flush);

	journal->is_flushing = false;
	if (io->result && !journal->failed) {
		log_error(
			"flash: the device cannot be flushed: %s; nothing can be changed any more",
			afar_strerror(io->result));
		journal->failed = -EIO;
	}
	if (!journal->failed && journal->flushing > journal->flushed)
		journal->flushed = journal->flushing;
}

bool journal_tell(struct journal *journal)
{
	if (journal->failed || journal->open->bytes->header.nr_records != 0 ||
	    journal->flushed <= journal->told || journal->flushed != journal->sequence ||
	    !fits(journal, journal->reserved, 3))
		return false;
	write_open(journal);
	return true;
}

void journal_want(struct journal *journal, uint64_t position)
{
	if (position > journal->wanted)
		journal->wanted = position;
}

void journal_want_written(struct journal *journal, uint64_t position)
{
	if (position > journal->ahead)
		journal->ahead = position;
}

void journal_progress(struct journal *journal)
{
	if (journal->failed)
		return;
	/* If there is no room for the seal, the blocks before it may be flushed all the same. */
	if (journal->sequence < journal->ahead)
		journal_seal(journal);
	if (journal->is_flushing || journal->flushed >= journal->wanted)
		return;
	/*
	 * The goal does not follow `wanted`, which may grow all the time: no flush would ever
	 * begin.
	 */
	if (journal->goal <= journal->flushed)
		journal->goal = journal->wanted;
	if (journal->sequence < journal->goal && !journal_seal(journal))
		return;
	if (journal->settled < journal->goal)
		return;
	journal->is_flushing = true;
	journal->flushing = journal->settled;
	journal->flush = (struct flash_io){.opcode = FLASH_IO_FLUSH, .done = flush_ended};
	journal->nr_flushes++;
	flash_device_submit(journal->device, &journal->flush);
}

void journal_release(struct journal *journal, uint64_t sequence)
{
	struct journal_block *block;

	journal->start = sequence;
	journal->is_short = false;
	if (sequence > journal->flushed)
		journal->flushed = sequence;
	if (sequence > journal->told)
		journal->told = sequence;
	/* Holds that are left there are of void records, which recovery will not read any more. */
	cds_list_for_each_entry (block, &journal->writing, node) {
		if (block->sequence < sequence)
			block->nr_holds = 0;
	}
	advance(journal);
}
