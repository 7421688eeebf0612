/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cleaner takes the segment that policy.h chooses, the victim. It finds the lbas of its valid
 * blocks and writes the blocks elsewhere, one batch at a time. Once those moves are durable the
 * victim is free. The cleaner works when no request is under way, in proportion to what users
 * write, or at once when they wait for a segment. Reads never wait for it.
 *
 * The summary has the lba that a block was written for, the shares have the others. Both may be out
 * of date. At the move, only the lbas whose map entry refers to the old place get the new one. Each
 * gets a record, and no poll comes in between. So the move neither undoes nor loses a put, a trim
 * or a clone that came meanwhile.
 *
 * If a block cannot be read, or no lba refers to it, its segment becomes BAD. The blocks in it stay
 * where they are until none is valid.
 *
 * If the map's page of an lba was damaged, the place of that lba is unknown, and the block may be
 * its. The cleaner moves such a block as it is. Once the lba was put or trimmed its place is known,
 * and the cleaner drops its claim to the block (FORMAT_RELEASE).
 */
#include "flash/write/cleaner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "flash/device/memory.h"
#include "flash/device/superblock.h"
#include "flash/ftl_private.h"
#include "flash/log/apply.h"
#include "flash/log/journal.h"
#include "flash/map/map.h"
#include "flash/map/segments.h"
#include "flash/write/ahead.h"
#include "flash/write/append.h"
#include "flash/write/policy.h"
#include "flash/write/put.h"
#include "flash/write/reclaim.h"

#define KEPT_FREE_MORE_MAX 8U /* segments, for bursts */
#define CREDIT_MAX	   256
#define CLEANER_GAP	   2U /* gaps of so many unwanted blocks are read along */
#define READS_BESIDE	   3U /* at a time, beside what users do */

static size_t summary_size(const struct ftl *ftl)
{
	return summary_blocks_for(ftl->layout.segment_blocks) * FTL_BLOCK;
}

int cleaner_open(struct cleaner *cleaner, struct ftl *ftl)
{
	cleaner->ftl = ftl;
	for (unsigned i = 0; i < FTL_STREAMS_MAX; i++)
		cleaner->pieces[i].ftl = ftl;
	cleaner->summary = aligned_alloc(FTL_BLOCK, summary_size(ftl));
	cleaner->memory =
		aligned_alloc(FTL_BLOCK, (size_t)(CLEANER_BLOCKS + CLEANER_GAP) * FTL_BLOCK);
	return cleaner->summary && cleaner->memory ? 0 : error_code(-ENOMEM);
}

void cleaner_close(struct cleaner *cleaner)
{
	free(cleaner->summary);
	free(cleaner->memory);
}

/* ---- when ---- */

static uint32_t nr_coming_free(const struct segments *segments)
{
	return segments->nr_by_state[FTL_SEGMENT_FREE] +
	       segments->nr_by_state[FTL_SEGMENT_PENDING] +
	       segments->nr_by_state[FTL_SEGMENT_DISCARD];
}

/*
 * Returns how many more segments should be free or about to be. Free segments are spare space that
 * saves no cleaning, so their number does not grow with the device. It is enough for streams to
 * open one when theirs is full, so that they do not mix, and for bursts.
 */
static uint32_t nr_missing(const struct ftl *ftl)
{
	uint32_t more = ftl->segments.nr / 128, coming = nr_coming_free(&ftl->segments);
	uint32_t wanted = CLEANER_RESERVE + 2 + ftl->streams.nr / 2 +
			  (more < KEPT_FREE_MORE_MAX ? more : KEPT_FREE_MORE_MAX);

	return coming < wanted ? wanted - coming : 0;
}

static bool is_needed(const struct ftl *ftl)
{
	return ftl->segments.nr_worn || nr_missing(ftl);
}

static bool is_urgent(const struct ftl *ftl)
{
	return ftl->is_starved || nr_coming_free(&ftl->segments) <= CLEANER_RESERVE + 1;
}

/*
 * Returns whether a batch may begin beside users' requests. For each block that users write, 1, 4,
 * 9 … may be moved; more as more segments are missing.
 */
static bool may_go_on(struct ftl *ftl)
{
	struct cleaner *cleaner = &ftl->cleaner;
	uint64_t missing = nr_missing(ftl) + 1;
	uint64_t earned = (ftl->counts.user_blocks - cleaner->seen_blocks) * missing * missing;

	cleaner->seen_blocks = ftl->counts.user_blocks;
	cleaner->credit += earned < CREDIT_MAX ? (int64_t)earned : CREDIT_MAX;
	if (cleaner->credit > CREDIT_MAX)
		cleaner->credit = CREDIT_MAX;
	return is_urgent(ftl) || ftl->nr_requests == 0 || cleaner->credit > 0;
}

static void pay(struct cleaner *cleaner)
{
	cleaner->credit -= cleaner->nr;
	if (cleaner->credit < -CREDIT_MAX)
		cleaner->credit = -CREDIT_MAX;
}

/* ---- whose ---- */

static void page_ready(struct ftl_waiter *waiter, int result)
{
	struct cleaner *cleaner = caa_container_of(waiter, struct cleaner, waiter);

	cleaner->is_waiting = false;
	if (map_is_damage(result) && !ftl_refusal(cleaner->ftl))
		result = map_give_up(cleaner->page, result);
	if (result) {
		/* It is not known which lbas refer to this block, so it stays. */
		cleaner->has_failed = true;
		cleaner->index++;
	}
}

/* Releases a block that none of its candidates refers to. False: the journal has no room now. */
static bool release(struct ftl *ftl, uint32_t place, const struct share *first, uint32_t nr)
{
	if (!ftl->segments.nr_leaked) {
		log_error_some("flash: block %u of the device is valid, and nobody's", place);
		ftl->cleaner.has_failed = true;
		return true;
	}
	/* Each release takes the first off the list. */
	while (nr > 0 && reclaim_release(ftl, place, first->lba))
		nr--;
	return nr == 0;
}

/* Takes the block at `index` into the batch; false: not now. */
static bool gather_block(struct ftl *ftl, struct cleaner *cleaner, uint32_t index)
{
	uint32_t place = segment_place(&ftl->segments, cleaner->victim, index);
	struct cleaner_block *block = &cleaner->blocks[cleaner->nr];
	const struct share *first;
	struct share alone;
	uint32_t nr =
		segment_candidates(cleaner->victim, index, cleaner->summary[index], &alone, &first);

	*block = (struct cleaner_block){0};
	for (uint32_t i = 0; i < nr; i++) {
		uint64_t lba = first[i].lba;
		struct map_page *page = map_find(&ftl->map, lba);
		const struct format_entry *entry;

		if (page && !map_is_loaded(page)) {
			cleaner->is_waiting = true;
			cleaner->page = page;
			cleaner->waiter.ready = page_ready;
			map_load(page, &cleaner->waiter);
			return false;
		}
		entry = page ? map_entry(page, lba) : NULL;
		if (!entry || (map_is_known(entry) && entry->place != place))
			continue;
		/* An entry that refers to the place has the checksum; take that one. */
		if (block->from && (!block->is_unknown || !map_is_known(entry)))
			continue;
		*block = (struct cleaner_block){
			.lba = lba,
			.from = place,
			.crc = entry->crc,
			.stream = (uint8_t)policy_move(ftl, cleaner->victim, page, lba),
			.is_unknown = !map_is_known(entry)};
	}
	if (!block->from)
		return release(ftl, place, first, nr);
	cleaner->nr++;
	return true;
}

/* Sorts the batch by streams. Blocks of one stream keep their order. */
static void sort_batch(struct cleaner *cleaner)
{
	uint32_t next[FTL_STREAMS_MAX], slot = 0;

	memset(cleaner->nr_of_stream, 0, sizeof(cleaner->nr_of_stream));
	for (uint32_t i = 0; i < cleaner->nr; i++)
		cleaner->nr_of_stream[cleaner->blocks[i].stream]++;
	for (unsigned stream = 0; stream < FTL_STREAMS_MAX; stream++) {
		next[stream] = slot;
		slot += cleaner->nr_of_stream[stream];
	}
	for (uint32_t i = 0; i < cleaner->nr; i++) {
		struct cleaner_block *block = &cleaner->blocks[i];

		slot = next[block->stream]++;
		block->slot = (uint8_t)slot;
		cleaner->lbas[slot] = block->lba;
		cleaner->from[slot] = block->from;
		cleaner->crcs[slot] = block->crc;
		cleaner->has_crc[slot] = !block->is_unknown;
	}
}

/* ---- reading ---- */

static void read_run(struct ftl *ftl, uint32_t at, uint32_t nr);

static char *memory_of(const struct cleaner *cleaner, const struct cleaner_block *block)
{
	return cleaner->memory + (size_t)block->slot * FTL_BLOCK;
}

static void run_read(struct flash_io *io)
{
	struct cleaner_read *read = caa_container_of(io, struct cleaner_read, io);
	struct cleaner *cleaner = read->cleaner;
	uint32_t at = (uint32_t)(read - cleaner->reads), nr = read->nr;

	cleaner->nr_in_flight--;
	if (!io->result)
		return;
	if (nr == 1 || cleaner->ftl->is_abandoned) {
		const struct cleaner_block *block = &cleaner->blocks[at];

		/* Makes sure that check_batch() finds it bad. */
		cleaner->ftl->counts.read_errors++;
		cleaner->crcs[block->slot] = ~block_crc(block->lba, memory_of(cleaner, block));
		cleaner->has_crc[block->slot] = true;
		return;
	}
	for (uint32_t i = 0; i < nr; i++)
		read_run(cleaner->ftl, at + i, 1);
}

/* Fills in the iovecs for reading the blocks and the gaps between them. All gaps go to the same
 * memory. Returns how many iovecs there are. */
static unsigned run_iovecs(struct cleaner *cleaner, uint32_t at, uint32_t nr)
{
	char *gap = cleaner->memory + (size_t)CLEANER_BLOCKS * FTL_BLOCK;
	struct iovec *iov = &cleaner->iovs[(size_t)2 * at];
	uint32_t next = cleaner->blocks[at].from;
	unsigned nr_iov = 0;

	for (uint32_t i = at; i < at + nr; i++) {
		const struct cleaner_block *block = &cleaner->blocks[i];

		if (block->from > next)
			nr_iov = memory_add(iov, nr_iov, gap,
					    (size_t)(block->from - next) * FTL_BLOCK);
		nr_iov = memory_add(iov, nr_iov, memory_of(cleaner, block), FTL_BLOCK);
		next = block->from + 1;
	}
	return nr_iov;
}

static void read_run(struct ftl *ftl, uint32_t at, uint32_t nr)
{
	struct cleaner *cleaner = &ftl->cleaner;
	struct cleaner_read *read = &cleaner->reads[at];
	uint32_t first = cleaner->blocks[at].from, last = cleaner->blocks[at + nr - 1].from;

	read->cleaner = cleaner;
	read->nr = nr;
	read->io = (struct flash_io){.opcode = FLASH_IO_READ,
				     .offset = (uint64_t)first * FTL_BLOCK,
				     .length = (uint64_t)(last - first + 1) * FTL_BLOCK,
				     .iov = &cleaner->iovs[(size_t)2 * at],
				     .nr_iov = run_iovecs(cleaner, at, nr),
				     .done = run_read};
	cleaner->nr_in_flight++;
	flash_device_submit(ftl->device, &read->io);
}

/*
 * Returns how many reads may be in flight. A device cannot put users' requests first: they wait for
 * all that it has already. So it gets few of the cleaner's reads; more as more segments are
 * missing.
 */
static unsigned reads_at_a_time(const struct ftl *ftl)
{
	if (is_urgent(ftl) || ftl->nr_requests == 0)
		return CLEANER_BLOCKS;
	return READS_BESIDE * (nr_missing(ftl) + 1);
}

/* Starts the batch's reads. Small gaps are read too, because another read takes longer than another
 * block. */
static void read_batch(struct ftl *ftl)
{
	struct cleaner *cleaner = &ftl->cleaner;
	unsigned nr_max = reads_at_a_time(ftl);

	while (cleaner->next_read < cleaner->nr && cleaner->nr_in_flight < nr_max) {
		uint32_t at = cleaner->next_read, end = at + 1;

		while (end < cleaner->nr &&
		       cleaner->blocks[end].from - cleaner->blocks[end - 1].from <= CLEANER_GAP + 1)
			end++;
		cleaner->next_read = end;
		read_run(ftl, at, end - at);
	}
}

/* Takes the blocks with wrong checksums out of the batch. */
static void check_batch(struct ftl *ftl)
{
	struct cleaner *cleaner = &ftl->cleaner;
	uint32_t nr_bad[FTL_STREAMS_MAX] = {0};
	uint32_t nr = 0, end = cleaner->nr_of_stream[0];
	unsigned stream = 0;

	for (uint32_t i = 0; i < cleaner->nr; i++) {
		char *data = cleaner->memory + (size_t)i * FTL_BLOCK;

		while (i == end)
			end += cleaner->nr_of_stream[++stream];
		if (cleaner->has_crc[i] && block_crc(cleaner->lbas[i], data) != cleaner->crcs[i]) {
			log_error_some(
				"flash: block %u of range %u, block %u of the device, cannot be "
				"moved: it is not what was written",
				ftl_lba_block(cleaner->lbas[i]), ftl_lba_range(cleaner->lbas[i]),
				cleaner->from[i]);
			ftl->counts.crc_errors++;
			cleaner->has_failed = true;
			nr_bad[stream]++;
			continue;
		}
		if (nr != i)
			memcpy(cleaner->memory + (size_t)nr * FTL_BLOCK, data, FTL_BLOCK);
		cleaner->lbas[nr] = cleaner->lbas[i];
		cleaner->from[nr] = cleaner->from[i];
		nr++;
	}
	for (stream = 0; stream < FTL_STREAMS_MAX; stream++)
		cleaner->nr_of_stream[stream] -= nr_bad[stream];
	cleaner->nr = nr;
}

/* ---- writing ---- */

static void stage_run(struct ftl *ftl, unsigned stream, uint32_t at, uint32_t nr)
{
	struct cleaner *cleaner = &ftl->cleaner;
	struct piece *piece = &cleaner->pieces[stream];

	piece->lbas = &cleaner->lbas[at];
	piece->from = &cleaner->from[at];
	piece->nr_blocks = nr;
	piece->bytes = nr * FTL_BLOCK;
	piece->memory = cleaner->memory + (size_t)at * FTL_BLOCK;
	piece->stream = stream;
	piece->reserved = nr + RECORDS_MORE;
	piece->attempts = 0;
	append_stage(ftl, piece);
}

/* Stages the batch. False: the journal has no room now. */
static bool write_batch(struct ftl *ftl)
{
	struct cleaner *cleaner = &ftl->cleaner;
	uint32_t nr = cleaner->nr, at = 0;

	for (unsigned stream = 0; stream < FTL_STREAMS_MAX; stream++)
		nr += cleaner->nr_of_stream[stream] ? RECORDS_MORE : 0;
	if (!journal_reserve(&ftl->journal, nr, 0))
		return false;
	cleaner->nr_left = cleaner->nr;
	for (unsigned stream = 0; stream < FTL_STREAMS_MAX; stream++) {
		if (cleaner->nr_of_stream[stream])
			stage_run(ftl, stream, at, cleaner->nr_of_stream[stream]);
		at += cleaner->nr_of_stream[stream];
	}
	return true;
}

/* Returns the entry of `lba`; NULL: its page is not loaded. */
static const struct format_entry *entry_of(const struct ftl *ftl, uint64_t lba)
{
	static const struct format_entry nowhere;
	const struct map_page *page = map_find(&ftl->map, lba);

	if (!page)
		return &nowhere;
	return map_is_loaded(page) ? map_entry(page, lba) : NULL;
}

static bool has_record(struct ftl *ftl, struct piece *piece)
{
	if (piece->reserved == 0) {
		/*
		 * More lbas share the block than at the beginning. Without room for another record
		 * they keep the old place.
		 */
		if (!journal_reserve(&ftl->journal, 1, 0))
			return false;
		piece->reserved++;
	}
	piece->reserved--;
	return true;
}

/*
 * Returns whether a write to an lba that refers to the block is in flight, and has its record in
 * the journal. The record of a move would come behind it, with an older value. So the block stays
 * where it is, and becomes invalid when the write has ended.
 */
static bool is_overtaken(struct ftl *ftl, uint32_t index, uint64_t lba)
{
	const struct share *first;
	uint32_t nr = segment_shares(ftl->cleaner.victim, index, &first);
	bool is_ahead = !nr && ahead_has(ftl, lba);

	for (uint32_t i = 0; i < nr; i++)
		is_ahead = is_ahead || ahead_has(ftl, first[i].lba);
	return is_ahead;
}

/* Gives the new place to all lbas that refer to the block at `from`. */
static void move_block(struct ftl *ftl, struct piece *piece, uint32_t from, uint32_t to,
		       uint64_t lba)
{
	struct segment *victim = ftl->cleaner.victim;
	uint32_t index = segment_index(&ftl->segments, from);

	if (ftl->journal.nr_held && is_overtaken(ftl, index, lba))
		return;
	while (segment_is_valid(&ftl->segments, victim, index)) {
		const struct format_entry *entry;
		const struct share *first;

		if (segment_shares(victim, index, &first))
			lba = first->lba;
		entry = entry_of(ftl, lba);
		if (!entry || !has_record(ftl, piece))
			return;
		if (entry->place == from)
			ftl_record_move(ftl, lba, (struct format_entry){to, entry->crc});
		else if (!map_is_known(entry))
			ftl_record_carry(ftl, lba, from, to);
		else
			ftl_record_release(ftl, lba, from);
	}
}

void cleaner_written(struct piece *piece, int result)
{
	struct ftl *ftl = piece->ftl;
	struct cleaner *cleaner = &ftl->cleaner;

	for (uint32_t i = 0; i < piece->nr_blocks && !result && !ftl_refusal(ftl); i++)
		move_block(ftl, piece, piece->from[i], piece->place + i, piece->lbas[i]);
	journal_unreserve(&ftl->journal, piece->reserved);
	cleaner->nr_left -= piece->nr_blocks;
	if (piece->is_pooled)
		piece_give(ftl, piece);
}

/* ---- the victim ---- */

static void finish(struct ftl *ftl)
{
	struct segments *segments = &ftl->segments;
	struct cleaner *cleaner = &ftl->cleaner;
	struct segment *victim = cleaner->victim;

	cleaner->victim = NULL;
	cleaner->stage = CLEANER_IDLE;
	ftl->counts.segments_cleaned++;
	if (victim->valid == 0) {
		segment_retire(segments, victim, journal_position(&ftl->journal));
	} else if (cleaner->has_failed) {
		log_error_some("flash: segment %u is given up with %u blocks in it",
			       segment_number(segments, victim), victim->valid);
		segments->nr_worn -= victim->is_worn;
		segment_drop_list(segments, victim);
		segment_set_state(segments, victim, FTL_SEGMENT_BAD);
	} else {
		segment_set_state(segments, victim, FTL_SEGMENT_FULL);
	}
}

static void summary_read(struct flash_io *io)
{
	struct ftl *ftl = caa_container_of(io, struct ftl, cleaner.io);
	struct cleaner *cleaner = &ftl->cleaner;

	cleaner->stage = CLEANER_GATHER;
	if (!io->result && summary_decode(&ftl->segments, cleaner->victim, cleaner->summary))
		return;
	log_error_some("flash: the summary of segment %u cannot be read",
		       segment_number(&ftl->segments, cleaner->victim));
	cleaner->has_failed = true;
	cleaner->index = ftl->segments.data_blocks;
}

static void begin(struct ftl *ftl, struct segment *victim)
{
	struct cleaner *cleaner = &ftl->cleaner;

	segment_set_state(&ftl->segments, victim, FTL_SEGMENT_CLEANING);
	cleaner->victim = victim;
	cleaner->index = 0;
	cleaner->has_failed = false;
	ftl->is_mixing = false;
	if (victim->lbas) {
		memcpy(cleaner->summary, victim->lbas, victim->next * sizeof(uint64_t));
		cleaner->stage = CLEANER_GATHER;
		return;
	}
	cleaner->stage = CLEANER_SUMMARY;
	summary_read_io(ftl, victim, &cleaner->io, &cleaner->iov, cleaner->summary);
	cleaner->io.done = summary_read;
	flash_device_submit(ftl->device, &cleaner->io);
}

static void choose(struct ftl *ftl)
{
	const uint32_t *nr = ftl->segments.nr_by_state;
	bool is_possible = is_needed(ftl) && append_has_place(ftl);
	struct segment *victim = is_possible ? policy_victim(ftl) : NULL;

	if (victim) {
		begin(ftl, victim);
		return;
	}
	if (!ftl->is_starved || append_is_writing(ftl) || nr[FTL_SEGMENT_PENDING] ||
	    nr[FTL_SEGMENT_DISCARD] || nr[FTL_SEGMENT_CLOSING] || nr[FTL_SEGMENT_CLEANING])
		return;
	/* No segment can be freed: only the open ones are left. */
	if (ftl->is_mixing && !append_forgive(ftl))
		append_refuse(ftl, -ENOSPC);
	ftl->is_mixing = true;
}

static void gather(struct ftl *ftl)
{
	struct cleaner *cleaner = &ftl->cleaner;
	uint32_t data_blocks = ftl->segments.data_blocks;

	if (cleaner->nr == 0 && !may_go_on(ftl))
		return;
	while (cleaner->index < data_blocks && cleaner->nr < CLEANER_BLOCKS) {
		if (cleaner->is_waiting)
			return;
		if (segment_is_valid(&ftl->segments, cleaner->victim, cleaner->index) &&
		    !gather_block(ftl, cleaner, cleaner->index))
			return;
		cleaner->index++;
	}
	if (cleaner->nr == 0) {
		finish(ftl);
		return;
	}
	cleaner->stage = CLEANER_READ;
	cleaner->next_read = 0;
	pay(cleaner);
	sort_batch(cleaner);
	read_batch(ftl);
}

/* Ends the batch when all of it is written, and gathers the next. */
static void go_on_writing(struct ftl *ftl)
{
	struct cleaner *cleaner = &ftl->cleaner;

	if (cleaner->nr_left || cleaner->stage != CLEANER_WRITE)
		return;
	cleaner->nr = 0;
	cleaner->stage = CLEANER_GATHER;
	gather(ftl);
}

void cleaner_progress(struct ftl *ftl)
{
	struct cleaner *cleaner = &ftl->cleaner;

	if (ftl_refusal(ftl))
		return;
	/* Too many segments are worn out: no place is left for moved blocks, nor for users'. */
	if (ftl->is_starved && !append_has_place(ftl) && !append_forgive(ftl))
		append_refuse(ftl, -ENOSPC);
	switch (cleaner->stage) {
	case CLEANER_IDLE:
		choose(ftl);
		break;
	case CLEANER_SUMMARY:
		break;
	case CLEANER_GATHER:
		gather(ftl);
		break;
	case CLEANER_READ:
		read_batch(ftl);
		if (cleaner->nr_in_flight)
			break;
		check_batch(ftl);
		cleaner->stage = CLEANER_CHECKED;
		__attribute__((fallthrough));
	case CLEANER_CHECKED:
		if (cleaner->nr && !write_batch(ftl))
			break;
		cleaner->stage = CLEANER_WRITE;
		__attribute__((fallthrough));
	case CLEANER_WRITE:
		go_on_writing(ftl);
		break;
	}
}
