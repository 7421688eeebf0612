/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Appends to segments. Pieces that are staged for a stream get places in the stream's open segment.
 * One write of the device takes as many of them as fit. A full segment gets its summary once all
 * writes of its data have ended. A segment without a valid block becomes free when the records that
 * made it so are durable.
 */
#include "flash/write/append.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "flash/device/memory.h"
#include "flash/device/superblock.h"
#include "flash/ftl_private.h"
#include "flash/log/journal.h"
#include "flash/map/map.h"
#include "flash/map/segments.h"
#include "flash/write/ahead.h"
#include "flash/write/cleaner.h"
#include "flash/write/put.h"
#include "flash/write/streams.h"

#define WRITES_PER_STREAM 8U
#define WRITE_ATTEMPTS	  8U
#define LISTS_KEPT	  8U /* of TABLES_NR_LISTS: for segments that wear out */

static bool is_cleaners(const struct piece *piece)
{
	return !piece->put;
}

static struct cds_list_head *stage_of(struct ftl *ftl, const struct piece *piece)
{
	struct appender *appender = &ftl->appenders[piece->stream];

	return is_cleaners(piece) ? &appender->moved : &appender->staged;
}

/* ---- closing ---- */

/*
 * Makes the segment FULL. Its data is written; its summary is too, or its lbas stay in memory and
 * in checkpoints.
 */
static void full(struct ftl *ftl, struct segment *segment)
{
	segment_set_state(&ftl->segments, segment, FTL_SEGMENT_FULL);
	if (segment->valid == 0)
		segment_retire(&ftl->segments, segment, journal_position(&ftl->journal));
}

/*
 * Handles a summary that could not be written, though not by the medium's fault. Queues it again;
 * after too many attempts the segment becomes full and keeps its list of lbas. False: too many
 * lists are in use for that.
 */
static bool can_do_without(struct ftl *ftl, struct segment *segment)
{
	if (++segment->attempts < WRITE_ATTEMPTS) {
		cds_list_add(&segment->node, &ftl->closing);
		return true;
	}
	if (ftl->segments.nr_lists + LISTS_KEPT >= TABLES_NR_LISTS)
		return false;
	full(ftl, segment);
	return true;
}

static void summary_written(struct flash_io *io)
{
	struct summary *summary = caa_container_of(io, struct summary, io);
	struct ftl *ftl = summary->ftl;
	struct segment *segment = summary->segment;

	cds_list_add(&summary->node, &ftl->spare_summaries);
	ftl->counts.write_errors += io->result != 0;
	if (io->result && !flash_device_is_media_error(io->result) && can_do_without(ftl, segment))
		return;
	if (io->result) {
		segment->is_worn = true;
		ftl->segments.nr_worn++;
		ftl->worn_at = clock_ns();
	} else {
		segment_drop_list(&ftl->segments, segment);
	}
	full(ftl, segment);
}

void summary_encode(const struct segments *segments, const struct segment *segment, void *out,
		    size_t size)
{
	struct format_summary head = {.segment = segment_number(segments, segment),
				      .opened = segment->opened};

	memset(out, 0, size);
	memcpy((char *)out + sizeof(head), segment->lbas, segment->next * sizeof(uint64_t));
	memcpy(out, &head, sizeof(head));
	head.crc = checksum_crc32c_seeded(segments->seed, out, size);
	memcpy(out, &head, sizeof(head));
}

bool summary_decode(const struct segments *segments, const struct segment *segment, void *bytes)
{
	size_t size = summary_blocks_for(segments->segment_blocks) * FTL_BLOCK;
	struct format_summary *head = bytes;
	uint32_t crc = head->crc;

	head->crc = 0;
	if (head->segment != segment_number(segments, segment) || head->opened != segment->opened ||
	    crc != checksum_crc32c_seeded(segments->seed, bytes, size))
		return false;
	memmove(bytes, head + 1, segments->data_blocks * sizeof(uint64_t));
	return true;
}

void summary_read_io(const struct ftl *ftl, const struct segment *segment, struct flash_io *io,
		     struct iovec *iov, void *bytes)
{
	const struct segments *segments = &ftl->segments;
	size_t size = summary_blocks_for(segments->segment_blocks) * FTL_BLOCK;

	*iov = (struct iovec){bytes, size};
	*io = (struct flash_io){
		.opcode = FLASH_IO_READ,
		.offset = (uint64_t)segment_place(segments, segment, segments->data_blocks) *
			  FTL_BLOCK,
		.length = size,
		.iov = iov,
		.nr_iov = 1};
}

static void write_summary(struct ftl *ftl, struct segment *segment)
{
	struct segments *segments = &ftl->segments;
	size_t size = summary_blocks_for(segments->segment_blocks) * FTL_BLOCK;
	struct summary *summary = cds_list_first_entry(&ftl->spare_summaries, struct summary, node);

	cds_list_del(&summary->node);
	summary_encode(segments, segment, summary->bytes, size);
	ftl->counts.summary_blocks += size / FTL_BLOCK;
	summary->segment = segment;
	summary->iov = (struct iovec){summary->bytes, size};
	summary->io = (struct flash_io){
		.opcode = FLASH_IO_WRITE,
		.offset = (uint64_t)segment_place(segments, segment, segments->data_blocks) *
			  FTL_BLOCK,
		.length = size,
		.iov = &summary->iov,
		.nr_iov = 1,
		.done = summary_written};
	flash_device_submit(ftl->device, &summary->io);
}

static void summarise(struct ftl *ftl)
{
	while (!cds_list_empty(&ftl->closing) && !cds_list_empty(&ftl->spare_summaries)) {
		struct segment *segment = cds_list_first_entry(&ftl->closing, struct segment, node);

		cds_list_del(&segment->node);
		if (segment->is_worn || segment->valid == 0)
			full(ftl, segment);
		else
			write_summary(ftl, segment);
	}
}

/* Ends appending to the segment. Queues it for its summary once no write of it is in flight. */
static void close_segment(struct ftl *ftl, struct segment *segment)
{
	struct appender *appender = &ftl->appenders[segment->stream];

	if (appender->open == segment)
		appender->open = NULL;
	if (segment->state == FTL_SEGMENT_OPEN)
		segment_set_state(&ftl->segments, segment, FTL_SEGMENT_CLOSING);
	if (segment->writing == 0)
		cds_list_add_tail(&segment->node, &ftl->closing);
}

/* ---- writing ---- */

/* Stages the pieces of a failed write again. Those that failed too often end with `code`. */
static void restage(struct ftl *ftl, struct write *write, int code)
{
	/* They go in front of the others, in their order. */
	while (!cds_list_empty(&write->pieces)) {
		struct piece *piece = cds_list_entry(write->pieces.prev, struct piece, node);

		cds_list_del(&piece->node);
		if (++piece->attempts < WRITE_ATTEMPTS)
			cds_list_add(&piece->node, stage_of(ftl, piece));
		else
			piece_written(piece, code);
	}
}

static void wear(struct ftl *ftl, struct segment *segment, struct write *write)
{
	struct piece *piece = cds_list_first_entry(&write->pieces, struct piece, node);
	struct format_record record =
		record_make(FORMAT_WORN, segment_number(&ftl->segments, segment), 0, 0);

	ftl->counts.write_errors++;
	if (segment->is_worn)
		return;
	log_warn_some("flash: segment %u cannot be written: %s; it rests",
		      segment_number(&ftl->segments, segment), afar_strerror(write->io.result));
	segment->is_worn = true;
	ftl->segments.nr_worn++;
	ftl->worn_at = clock_ns();
	/* Without the record, only one more write fails, after the next recovery. */
	if (piece->reserved > piece->nr_blocks + 1) {
		journal_append(&ftl->journal, &record, 1);
		piece->reserved--;
	}
}

static void refuse_staged(struct cds_list_head *staged, int refusal);

/* Handles a failed write. Only a medium error wears out the segment; other errors pass, or concern
 * all segments. */
static void failed(struct ftl *ftl, struct segment *segment, struct write *write)
{
	int code = write->io.result;
	struct piece *piece;

	cds_list_for_each_entry (piece, &write->pieces, node)
		ahead_void(piece);
	if (flash_device_is_media_error(code)) {
		wear(ftl, segment, write);
		restage(ftl, write, -EIO);
		return;
	}
	ftl->counts.write_errors++;
	if (flash_device_is_gone(code)) {
		ftl_fail(ftl, code);
		refuse_staged(&write->pieces, code);
	} else if (code == -ENOSPC) {
		/* Not -ENOSPC, which says that the layer is full: nobody makes room there by removing what is in it. */
		log_error_some(
			"flash: a write failed: the file system that the device's file is in is "
			"full; make room there");
		refuse_staged(&write->pieces,
			      error_fail(-EIO, "write blocks: the file system that the device's "
					       "file is in is full; make room there"));
	} else {
		restage(ftl, write, code);
	}
}

static void written(struct flash_io *io)
{
	struct write *write = caa_container_of(io, struct write, io);
	struct ftl *ftl = write->ftl;
	struct segment *segment = write->segment;
	struct piece *piece, *next;

	ftl->appenders[write->stream].nr_writing--;
	segment->writing--;
	segment->pins--;
	if (io->result) {
		failed(ftl, segment, write);
	} else {
		cds_list_for_each_entry_safe (piece, next, &write->pieces, node) {
			cds_list_del(&piece->node);
			piece_written(piece, 0);
		}
	}
	cds_list_add(&write->node, &ftl->spare_writes);
	if (segment->state == FTL_SEGMENT_CLOSING ||
	    (segment->is_worn && segment->state == FTL_SEGMENT_OPEN))
		close_segment(ftl, segment);
}

/*
 * Opens a segment for the stream. Its record takes room that the piece has reserved. False: there
 * is none now.
 */
static bool open_segment(struct ftl *ftl, unsigned stream, struct piece *piece)
{
	struct segments *segments = &ftl->segments;
	uint32_t kept_lists = is_cleaners(piece) ? 0 : LISTS_KEPT;
	struct format_record record;
	struct segment *segment;

	if (segments->nr_lists + kept_lists >= TABLES_NR_LISTS)
		return false;
	/* A piece that was staged again may have used up its room. */
	if (piece->reserved <= piece->nr_blocks) {
		if (!journal_reserve(&ftl->journal, 1, 0))
			return false;
		piece->reserved++;
	}
	segment = cds_list_first_entry(&segments->free, struct segment, node);
	if (segment_begin(segments, segment, stream))
		return false;
	record = record_make(FORMAT_OPEN, segment_number(segments, segment), stream, 0);
	journal_append(&ftl->journal, &record, 1);
	piece->reserved--;
	ftl->appenders[stream].open = segment;
	return true;
}

static uint32_t open_streams(const struct ftl *ftl)
{
	uint32_t mask = 0;

	for (unsigned stream = 0; stream < ftl->streams.nr; stream++) {
		if (ftl->appenders[stream].open)
			mask |= UINT32_C(1) << stream;
	}
	return mask;
}

/*
 * Finds the appender for a piece of the cleaner's; NULL: there is none now. If free segments are
 * short, it is that of the nearest stream with an open segment.
 *
 * The cleaner can always finish. When it begins a victim, CLEANER_LAST segments are free or about
 * to be. It opens one of them only if no segment is open, and from then on users, who could fill
 * it, may not write to any. The blocks left to be moved are less than a segment, so it opens no
 * other; and then the victim itself becomes free.
 */
static struct appender *appender_for_moved(struct ftl *ftl, unsigned stream, struct piece *piece)
{
	struct appender *appender = &ftl->appenders[stream];
	uint32_t nr_free = ftl->segments.nr_by_state[FTL_SEGMENT_FREE];
	uint32_t mask = nr_free > CLEANER_LAST ? 0 : open_streams(ftl);

	if (appender->open)
		return appender;
	if (mask)
		return &ftl->appenders[streams_nearest(mask, stream)];
	ftl->is_starved = ftl->is_starved || !nr_free;
	return nr_free && open_segment(ftl, stream, piece) ? appender : NULL;
}

/* Finds the appender for a piece of a put; NULL: it waits for the cleaner. Streams are mixed only
 * when the cleaner can free nothing. */
static struct appender *appender_for(struct ftl *ftl, unsigned stream, struct piece *piece)
{
	struct appender *appender = &ftl->appenders[stream];
	uint32_t nr_free = ftl->segments.nr_by_state[FTL_SEGMENT_FREE];
	uint32_t mask;

	if (nr_free >= CLEANER_LAST && appender->open)
		return appender;
	if (nr_free > CLEANER_RESERVE)
		return open_segment(ftl, stream, piece) ? appender : NULL;
	mask = ftl->is_mixing ? open_streams(ftl) : 0;
	if (mask)
		return &ftl->appenders[streams_nearest(mask, stream)];
	ftl->is_starved = true;
	return NULL;
}

struct piece *piece_split(struct ftl *ftl, struct piece *piece, uint32_t nr, unsigned kept)
{
	struct piece *rest = piece_take(ftl, kept);

	if (!rest)
		return NULL;
	memcpy((char *)rest + offsetof(struct piece, put),
	       (char *)piece + offsetof(struct piece, put),
	       sizeof(*piece) - offsetof(struct piece, put));
	rest->nr_blocks = piece->nr_blocks - nr;
	rest->lba += nr;
	if (rest->lbas)
		rest->lbas += nr;
	if (rest->from)
		rest->from += nr;
	if (rest->memory)
		rest->memory += (size_t)nr * FTL_BLOCK;
	else
		memory_skip(piece->put->iov, &rest->iov_index, &rest->iov_offset,
			    (size_t)nr * FTL_BLOCK);
	memmove(rest->crcs, &piece->crcs[nr], rest->nr_blocks * sizeof(rest->crcs[0]));
	memmove(rest->streams, &piece->streams[nr], rest->nr_blocks);
	piece->nr_blocks = nr;
	piece->bytes = nr * FTL_BLOCK;
	rest->bytes = rest->nr_blocks * FTL_BLOCK;
	piece->reserved = nr;
	rest->reserved -= nr;
	/* Both pieces hold the buffer and the pages that the one held. */
	if (piece->bounce)
		piece->bounce->users++;
	for (unsigned i = 0; i < 2; i++) {
		if (piece->pages[i])
			map_pin(piece->pages[i]);
	}
	if (piece->is_counted) {
		rest->is_counted = false;
		piece_count(piece);
		piece_count(rest);
	}
	if (piece->put) {
		piece->put->nr_in_flight++;
		cds_list_add(&rest->bucket, &piece->bucket);
	}
	return rest;
}

/* Splits the piece after `nr` blocks, and stages the rest behind it. False: no spare piece. */
static bool split(struct ftl *ftl, struct piece *piece, uint32_t nr)
{
	struct piece *rest = piece_split(ftl, piece, nr, 0);

	if (rest)
		cds_list_add(&rest->node, &piece->node);
	return rest;
}

/* Moves the first staged piece to the write, at the next place of the segment. */
static void take_piece(struct ftl *ftl, struct write *write, struct piece *piece)
{
	struct segment *segment = write->segment;
	struct flash_io *io = &write->io;
	size_t bytes = (size_t)piece->nr_blocks * FTL_BLOCK;

	piece->place = segment_place(&ftl->segments, segment, segment->next);
	for (uint32_t i = 0; i < piece->nr_blocks; i++)
		segment->lbas[segment->next + i] = piece_lba(piece, i);
	segment->next += piece->nr_blocks;
	if (piece->memory)
		io->nr_iov = memory_add(write->iov, io->nr_iov, piece->memory, bytes);
	else
		io->nr_iov = memory_iovecs(piece->put->iov, piece->iov_index, piece->iov_offset,
					   bytes, write->iov, io->nr_iov);
	io->length += bytes;
	if (is_cleaners(piece))
		ftl->counts.moved_blocks += piece->nr_blocks;
	else
		ftl->counts.user_blocks += piece->nr_blocks;
	ahead_place(piece);
	cds_list_del(&piece->node);
	cds_list_add_tail(&piece->node, &write->pieces);
}

static void fill(struct ftl *ftl, struct write *write, struct cds_list_head *staged)
{
	uint32_t room = ftl->segments.data_blocks - write->segment->next, nr = 0;

	if (room > PIECE_BLOCKS)
		room = PIECE_BLOCKS;
	while (!cds_list_empty(staged) && nr < room) {
		struct piece *piece = cds_list_first_entry(staged, struct piece, node);

		if (piece->nr_blocks > room - nr && !split(ftl, piece, room - nr))
			break;
		nr += piece->nr_blocks;
		take_piece(ftl, write, piece);
	}
}

/* Submits one write of the pieces in `staged`. False: nothing can be written now. */
static bool write_staged(struct ftl *ftl, unsigned stream, struct cds_list_head *staged)
{
	struct piece *first = cds_list_first_entry(staged, struct piece, node);
	struct appender *appender;
	struct segment *segment;
	struct write *write;

	if (cds_list_empty(&ftl->spare_writes))
		return false;
	appender = is_cleaners(first) ? appender_for_moved(ftl, stream, first)
				      : appender_for(ftl, stream, first);
	if (!appender || appender->nr_writing == WRITES_PER_STREAM)
		return false;
	segment = appender->open;
	write = cds_list_first_entry(&ftl->spare_writes, struct write, node);
	write->segment = segment;
	write->stream = segment->stream;
	write->io = (struct flash_io){
		.opcode = FLASH_IO_WRITE,
		.offset =
			(uint64_t)segment_place(&ftl->segments, segment, segment->next) * FTL_BLOCK,
		.iov = write->iov,
		.done = written};
	fill(ftl, write, staged);
	if (cds_list_empty(&write->pieces))
		return false;
	cds_list_del(&write->node);
	appender->nr_writing++;
	segment->writing++;
	segment->pins++;
	ftl->counts.device_writes += !is_cleaners(first);
	flash_device_submit(ftl->device, &write->io);
	if (segment->next == ftl->segments.data_blocks)
		close_segment(ftl, segment);
	return true;
}

void append_stage(struct ftl *ftl, struct piece *piece)
{
	cds_list_add_tail(&piece->node, stage_of(ftl, piece));
}

/* Ends all pieces in the list with the error `refusal`. */
static void refuse_staged(struct cds_list_head *staged, int refusal)
{
	while (!cds_list_empty(staged)) {
		struct piece *piece = cds_list_first_entry(staged, struct piece, node);

		cds_list_del(&piece->node);
		piece_written(piece, refusal);
	}
}

bool append_is_writing(const struct ftl *ftl)
{
	for (unsigned stream = 0; stream < FTL_STREAMS_MAX; stream++) {
		if (ftl->appenders[stream].nr_writing)
			return true;
	}
	return false;
}

bool append_has_place(const struct ftl *ftl)
{
	const uint32_t *nr = ftl->segments.nr_by_state;

	for (unsigned stream = 0; stream < FTL_STREAMS_MAX; stream++) {
		if (ftl->appenders[stream].open)
			return true;
	}
	return nr[FTL_SEGMENT_FREE] || nr[FTL_SEGMENT_PENDING] || nr[FTL_SEGMENT_DISCARD] ||
	       nr[FTL_SEGMENT_CLOSING] || append_is_writing(ftl);
}

bool append_forgive(struct ftl *ftl)
{
	uint32_t nr;

	if (!ftl->segments.nr_by_state[FTL_SEGMENT_BAD] ||
	    clock_ns() < ftl->worn_at + APPEND_WORN_REST_NS)
		return false;
	ftl->worn_at = clock_ns();
	nr = segments_forgive(&ftl->segments);
	if (nr)
		log_warn("flash: there is no other room, so %u segments that could not be written "
			 "are tried again",
			 nr);
	return nr != 0;
}

void append_refuse(struct ftl *ftl, int code)
{
	for (unsigned stream = 0; stream < FTL_STREAMS_MAX; stream++) {
		refuse_staged(&ftl->appenders[stream].moved, code);
		refuse_staged(&ftl->appenders[stream].staged, code);
	}
}

static void write_all(struct ftl *ftl, unsigned stream, struct cds_list_head *staged, int refusal)
{
	if (refusal)
		refuse_staged(staged, refusal);
	while (!cds_list_empty(staged) && write_staged(ftl, stream, staged))
		;
}

void append_progress(struct ftl *ftl)
{
	int refusal = ftl_refusal(ftl);

	ftl->is_starved = false;
	for (unsigned stream = 0; stream < FTL_STREAMS_MAX; stream++)
		write_all(ftl, stream, &ftl->appenders[stream].moved, refusal);
	for (unsigned stream = 0; stream < FTL_STREAMS_MAX; stream++)
		write_all(ftl, stream, &ftl->appenders[stream].staged, refusal);
	summarise(ftl);
}

/* ---- the way back ---- */

static void freed(struct ftl *ftl, struct segment *segment)
{
	struct segments *segments = &ftl->segments;

	segment_drop_list(segments, segment);
	if (segment->is_worn)
		segments->nr_worn--;
	segment_set_state(segments, segment, segment->is_worn ? FTL_SEGMENT_BAD : FTL_SEGMENT_FREE);
}

static void discarded(struct flash_io *io)
{
	struct ftl *ftl = caa_container_of(io, struct ftl, discard);
	struct segment *segment = ftl->discarding;

	/* A failed discard does no harm. */
	ftl->discarding = NULL;
	freed(ftl, segment);
}

static void discard(struct ftl *ftl, struct segment *segment)
{
	ftl->discarding = segment;
	ftl->counts.discards++;
	segment_set_state(&ftl->segments, segment, FTL_SEGMENT_DISCARD);
	ftl->discard = (struct flash_io){
		.opcode = FLASH_IO_DISCARD,
		.offset = (uint64_t)segment_place(&ftl->segments, segment, 0) * FTL_BLOCK,
		.length = (uint64_t)ftl->segments.segment_blocks * FTL_BLOCK,
		.done = discarded};
	flash_device_submit(ftl->device, &ftl->discard);
}

static bool can_discard(const struct ftl *ftl)
{
	uint64_t unit = ftl->device->discard_unit;

	return unit && (uint64_t)ftl->segments.segment_blocks * FTL_BLOCK % unit == 0 &&
	       (uint64_t)ftl->segments.first * FTL_BLOCK % unit == 0;
}

void release_progress(struct ftl *ftl)
{
	struct segments *segments = &ftl->segments;
	struct segment *segment, *next;
	bool is_short = segments->nr_by_state[FTL_SEGMENT_FREE] <= CLEANER_RESERVE + 1;

	if (ftl_refusal(ftl))
		return;
	cds_list_for_each_entry_safe (segment, next, &segments->pending, node) {
		if (segment->tag > ftl->journal.flushed) {
			if (is_short)
				journal_want(&ftl->journal, segment->tag);
			continue;
		}
		if (segment->pins)
			continue;
		if (!can_discard(ftl) || segment->is_worn)
			freed(ftl, segment);
		else if (!ftl->discarding)
			discard(ftl, segment);
	}
}
