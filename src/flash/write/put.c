/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts, until their pieces are staged. Cuts puts into pieces, orders pieces of the same blocks, and
 * gets all that a piece needs before it may be written. On every path, piece_end() gives all of it
 * back.
 *
 * No piece waits for a later one. Pieces get buffers and room in the journal in the order in which
 * they ask. A piece that is blocked by an earlier one holds neither.
 */
#include "flash/write/put.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "flash/device/memory.h"
#include "flash/ftl_private.h"
#include "flash/log/apply.h"
#include "flash/log/journal.h"
#include "flash/map/map.h"
#include "flash/map/segments.h"
#include "flash/write/ahead.h"
#include "flash/write/append.h"
#include "flash/write/cleaner.h"
#include "flash/write/order.h"
#include "flash/write/policy.h"
#include "flash/write/reclaim.h"

static void piece_step(struct piece *piece);

/*
 * Three steps of a write take pieces: cutting a put, splitting by streams, splitting at a segment's
 * end. Each keeps some for the later ones. Otherwise the holders of all pieces could wait for one
 * more. Parts that were split off are given back when they are written.
 */
#define KEPT_OF_PUTS (2 * SPLIT_PIECES)
#define KEPT_OF_RUNS SPLIT_PIECES

struct piece *piece_take(struct ftl *ftl, unsigned kept)
{
	struct piece *piece;

	if (ftl->nr_spare_pieces <= kept)
		return NULL;
	piece = cds_list_first_entry(&ftl->spare_pieces, struct piece, node);
	cds_list_del(&piece->node);
	ftl->nr_spare_pieces--;
	return piece;
}

void piece_give(struct ftl *ftl, struct piece *piece)
{
	cds_list_add(&piece->node, &ftl->spare_pieces);
	ftl->nr_spare_pieces++;
}

/* ---- ending ---- */

static void put_ended(struct ftl *ftl, struct ftl_put *put)
{
	order_end(&put->order);
	cds_list_add_tail(&put->node, &ftl->ended_puts);
}

static void piece_end(struct piece *piece, int result)
{
	struct ftl *ftl = piece->ftl;
	struct ftl_put *put = piece->put;

	cds_list_del(&piece->bucket);
	journal_unreserve(&ftl->journal, piece->reserved);
	if (piece->is_counted)
		ftl->growth -= piece->growth;
	for (unsigned i = 0; i < 2; i++) {
		if (piece->pages[i])
			map_unpin(piece->pages[i]);
	}
	bounce_give(ftl, piece->bounce);
	piece_give(ftl, piece);
	ftl->is_unblocked = true;
	if (result && !put->result)
		put->result = result;
	if (--put->nr_in_flight == 0 && put->started == put->length)
		put_ended(ftl, put);
	else
		ahead_note(put);
}

/* Ends the failed pieces whose void records a checkpoint has overtaken. */
static void end_lost(struct ftl *ftl)
{
	struct piece *piece, *next;

	cds_list_for_each_entry_safe (piece, next, &ftl->lost, node) {
		if (ahead_is_in_doubt(piece))
			continue;
		cds_list_del(&piece->node);
		piece_end(piece, piece->failure);
	}
}

/* Appends the piece's records and changes the map, once its data is written. */
static int record(struct piece *piece)
{
	struct ftl *ftl = piece->ftl;
	bool has_records = piece->ahead;
	int refusal = ftl_refusal(ftl);

	if (has_records)
		ahead_settle(piece);
	if (refusal)
		return refusal;
	for (uint32_t i = 0; i < piece->nr_blocks; i++) {
		struct format_entry entry = piece_entry(piece, i);

		ftl->segments.clock++;
		if (has_records)
			ftl_apply_ahead(ftl, piece->lba + i, entry, piece->pace);
		else
			ftl_record_put(ftl, piece->lba + i, entry, piece->pace);
	}
	if (!has_records)
		piece->reserved -= piece->nr_blocks;
	return 0;
}

void piece_written(struct piece *piece, int result)
{
	if (!piece->put) {
		cleaner_written(piece, result);
		return;
	}
	if (result && ahead_is_in_doubt(piece)) {
		piece->failure = result;
		cds_list_add_tail(&piece->node, &piece->ftl->lost);
		return;
	}
	piece_end(piece, result ? result : record(piece));
}

/* ---- order ---- */

static bool is_before(const struct piece *piece, uint64_t ticket, uint64_t lba, uint64_t count)
{
	return piece->ticket < ticket && piece->lba < lba + count &&
	       lba < piece->lba + piece->nr_blocks;
}

static bool is_blocked(struct piece *piece)
{
	struct ftl *ftl = piece->ftl;
	struct piece *other;
	struct ftl_sweep *sweep;

	cds_list_for_each_entry (other, &ftl->buckets[piece_bucket(piece->lba)], bucket) {
		if (other == piece)
			break;
		if (is_before(other, piece->ticket, piece->lba, piece->nr_blocks))
			return true;
	}
	cds_list_for_each_entry (sweep, &ftl->sweeps, node) {
		if (sweep->order.ticket < piece->ticket &&
		    order_overlaps(&sweep->order, piece->lba, piece->nr_blocks))
			return true;
	}
	return false;
}

/* ---- making ready ---- */

static void stall(struct piece *piece)
{
	cds_list_add_tail(&piece->node, &piece->ftl->stalled);
}

static bool is_whole(const struct piece *piece)
{
	return piece->bytes % FTL_BLOCK == 0;
}

/*
 * Gives up a damaged page if the piece has whole blocks, which do not need the old places. The
 * other entries of the page become unknown.
 */
static int do_without(struct piece *piece, int damage)
{
	unsigned i = piece->pages[1] && map_is_loaded(piece->pages[0]);

	if (!map_is_damage(damage) || !is_whole(piece) || ftl_refusal(piece->ftl))
		return damage;
	return map_give_up(piece->pages[i], damage);
}

static void page_ready(struct ftl_waiter *waiter, int result)
{
	struct piece *piece = caa_container_of(waiter, struct piece, waiter);

	if (result)
		result = do_without(piece, result);
	if (result)
		piece_end(piece, result);
	else
		piece_step(piece);
}

/* Loads and pins the piece's pages. False: it waits, or has ended. */
static bool has_pages(struct piece *piece)
{
	struct ftl *ftl = piece->ftl;
	uint64_t end = map_page_end(piece->lba);
	unsigned nr = piece->lba + piece->nr_blocks > end ? 2 : 1;

	for (unsigned i = 0; i < nr; i++) {
		int ret;

		if (!piece->pages[i]) {
			ret = map_make(&ftl->map, i ? end : piece->lba, &piece->pages[i]);
			if (ret) {
				piece_end(piece, ret);
				return false;
			}
			map_pin(piece->pages[i]);
		}
		if (!map_is_loaded(piece->pages[i])) {
			piece->waiter.ready = page_ready;
			map_load(piece->pages[i], &piece->waiter);
			return false;
		}
	}
	return true;
}

/*
 * Counts the blocks that the piece adds to those in use. For these no old block becomes invalid,
 * because there is none, it is shared, or its place is unknown.
 */
static uint32_t growth_of(struct piece *piece)
{
	uint32_t growth = 0;

	for (uint32_t i = 0; i < piece->nr_blocks; i++) {
		const struct format_entry *entry =
			map_entry(piece_page(piece, piece->lba + i), piece->lba + i);

		growth += !entry->place || !map_is_known(entry) ||
			  segments_is_shared(&piece->ftl->segments, entry->place);
	}
	return growth;
}

void piece_count(struct piece *piece)
{
	struct ftl *ftl = piece->ftl;

	if (piece->is_counted)
		ftl->growth -= piece->growth;
	piece->growth = growth_of(piece);
	ftl->growth += piece->growth;
	piece->is_counted = true;
}

/* Returns whether more is on its way than there is room for. */
static bool is_over(const struct ftl *ftl)
{
	return ftl->segments.used + ftl->growth > segments_capacity(&ftl->segments);
}

/* Finds room on the device for the piece. False: it waits, or has ended. */
static bool has_space(struct piece *piece)
{
	struct ftl *ftl = piece->ftl;

	if (piece->is_counted)
		return true;
	piece_count(piece);
	if (piece->growth && is_over(ftl) && !(append_forgive(ftl) && !is_over(ftl))) {
		if (reclaim_may_help(ftl)) {
			ftl->growth -= piece->growth;
			piece->is_counted = false;
			stall(piece);
			return false;
		}
		piece_end(piece, error_fail(-ENOSPC,
					    "write a block: all %llu blocks are in use; "
					    "trim some",
					    (unsigned long long)segments_capacity(&ftl->segments)));
		return false;
	}
	return true;
}

static void old_read(struct flash_io *io)
{
	struct piece *piece = caa_container_of(io, struct piece, io);
	struct ftl *ftl = piece->ftl;
	int ret = io->result;

	piece->reading->pins--;
	if (ret)
		ftl->counts.read_errors++;
	if (!ret && block_crc(piece->lba, piece->memory) != piece->reading_crc) {
		ftl->counts.crc_errors++;
		ret = -EBADMSG;
	}
	if (ret) {
		log_error_some("flash: block %u of range %u cannot be kept in part: %s",
			       ftl_lba_block(piece->lba), ftl_lba_range(piece->lba),
			       afar_strerror(ret));
		piece_end(piece, ret);
		return;
	}
	piece->is_read = true;
	piece_step(piece);
}

static void read_old(struct piece *piece, const struct format_entry *entry)
{
	struct ftl *ftl = piece->ftl;

	piece->reading = segment_of(&ftl->segments, entry->place);
	piece->reading->pins++;
	piece->reading_crc = entry->crc;
	piece->iov = (struct iovec){piece->memory, FTL_BLOCK};
	piece->io = (struct flash_io){.opcode = FLASH_IO_READ,
				      .offset = (uint64_t)entry->place * FTL_BLOCK,
				      .length = FTL_BLOCK,
				      .iov = &piece->iov,
				      .nr_iov = 1,
				      .done = old_read};
	flash_device_submit(ftl->device, &piece->io);
}

/*
 * Makes the piece's bytes complete, in memory that can be written. False: it waits, or has ended.
 */
static bool has_memory(struct piece *piece)
{
	struct ftl *ftl = piece->ftl;
	const struct format_entry *entry;

	if (piece->is_direct)
		return true;
	if (!piece->bounce) {
		piece->bounce = bounce_take(ftl, BOUNCES_FOR_GETS);
		if (!piece->bounce) {
			stall(piece);
			return false;
		}
		piece->memory = piece->bounce->bytes;
	}
	if (!is_whole(piece) && !piece->is_read) {
		struct map_page *page = piece_page(piece, piece->lba);
		int ret = map_tell_unknown(page, piece->lba);

		if (ret) {
			piece_end(piece, ret);
			return false;
		}
		entry = map_entry(page, piece->lba);
		if (entry->place) {
			read_old(piece, entry);
			return false;
		}
		memset(piece->memory, 0, FTL_BLOCK);
	}
	memory_gather(piece->put->iov, piece->iov_index, piece->iov_offset,
		      piece->memory + piece->at, piece->bytes);
	return true;
}

/* Makes the checksum of a block of the piece. -EBADMSG: its data is not what the put says. */
static int make_sum(struct piece *piece, uint32_t i, const void *data)
{
	const struct ftl_put *put = piece->put;
	uint64_t lba = piece->lba + i;
	uint32_t sum;

	if (!put->sums) {
		piece->crcs[i] = block_crc(lba, data);
		return 0;
	}
	sum = checksum_crc32c(data, FTL_BLOCK);
	piece->crcs[i] = block_crc_convert(lba, sum);
	if (sum == put->sums[lba - put->lba - put->offset / FTL_BLOCK])
		return 0;
	return error_fail(-EBADMSG,
			  "write block %u of range %u: its data has not the sum that it came with",
			  ftl_lba_block(lba), ftl_lba_range(lba));
}

static int make_sums(struct piece *piece)
{
	unsigned index = piece->iov_index;
	size_t offset = piece->iov_offset;
	int ret = 0;

	for (uint32_t i = 0; i < piece->nr_blocks && !ret; i++) {
		struct iovec block = {piece->memory ? piece->memory + i * FTL_BLOCK : NULL,
				      FTL_BLOCK};

		if (!piece->memory) {
			memory_iovecs(piece->put->iov, index, offset, FTL_BLOCK, &block, 0);
			memory_skip(piece->put->iov, &index, &offset, FTL_BLOCK);
		}
		ret = make_sum(piece, i, block.iov_base);
	}
	return ret;
}

static bool has_journal(struct piece *piece)
{
	uint32_t nr = piece->nr_blocks + RECORDS_MORE;

	if (piece->reserved)
		return true;
	if (!journal_reserve(&piece->ftl->journal, nr, CLEANER_RECORDS)) {
		stall(piece);
		return false;
	}
	piece->reserved = nr;
	return true;
}

/* Returns how many blocks from the first on go to the first one's stream. */
static uint32_t run_of(const struct piece *piece)
{
	uint32_t nr = 1;

	while (nr < piece->nr_blocks && piece->streams[nr] == piece->streams[0])
		nr++;
	return nr;
}

/* Stages each run of blocks of one stream as a piece. */
static void stage_runs(struct ftl *ftl, struct piece *piece)
{
	while (piece) {
		uint32_t nr = run_of(piece);
		struct piece *rest = NULL;

		if (nr < piece->nr_blocks) {
			rest = piece_split(ftl, piece, nr, KEPT_OF_RUNS);
			if (!rest) {
				stall(piece);
				return;
			}
		}
		piece->stream = piece->streams[0];
		append_stage(ftl, piece);
		piece = rest;
	}
}

static void piece_step(struct piece *piece)
{
	struct ftl *ftl = piece->ftl;
	int ret = ftl_refusal(ftl);

	if (ret) {
		piece_end(piece, ret);
		return;
	}
	if (!piece->is_ready) {
		if (!has_pages(piece) || !has_space(piece) || !has_journal(piece) ||
		    !has_memory(piece))
			return;
		ret = make_sums(piece);
		if (ret) {
			piece_end(piece, ret);
			return;
		}
		policy_put(ftl, piece);
		piece->is_ready = true;
	}
	stage_runs(ftl, piece);
}

/* ---- cutting ---- */

static uint32_t cut_whole(struct ftl *ftl, const struct ftl_put *put, uint64_t lba, size_t left,
			  bool *is_direct)
{
	uint32_t nr = PIECE_BLOCKS - (uint32_t)(lba & (PIECE_BLOCKS - 1)), direct;

	if (nr > left / FTL_BLOCK)
		nr = (uint32_t)(left / FTL_BLOCK);
	if (nr > ftl->segments.data_blocks)
		nr = ftl->segments.data_blocks;
	direct = memory_direct_blocks(put->iov, put->nr_iov, put->iov_index, put->iov_offset,
				      ftl->device->sector, nr);
	*is_direct = direct > 0;
	if (direct)
		return direct;
	return nr < BOUNCE_BLOCKS ? nr : BOUNCE_BLOCKS;
}

static struct piece *cut(struct ftl *ftl, struct ftl_put *put)
{
	struct piece *piece = piece_take(ftl, KEPT_OF_PUTS);
	uint64_t byte = put->offset + put->started;
	size_t left = put->length - put->started;

	if (!piece)
		return NULL;
	piece->put = put;
	piece->ticket = put->order.ticket;
	piece->lba = put->lba + byte / FTL_BLOCK;
	piece->pages_lba = piece->lba;
	piece->lbas = NULL;
	piece->at = byte % FTL_BLOCK;
	piece->memory = NULL;
	piece->bounce = NULL;
	piece->attempts = piece->reserved = piece->growth = 0;
	piece->ahead = NULL;
	piece->void_at = 0;
	piece->pages[0] = piece->pages[1] = NULL;
	piece->is_direct = piece->is_counted = piece->is_read = piece->is_ready = false;
	piece->iov_index = put->iov_index;
	piece->iov_offset = put->iov_offset;
	if (piece->at || left < FTL_BLOCK) {
		piece->nr_blocks = 1;
		piece->bytes = FTL_BLOCK - piece->at;
		if (piece->bytes > left)
			piece->bytes = (uint32_t)left;
	} else {
		piece->nr_blocks = cut_whole(ftl, put, piece->lba, left, &piece->is_direct);
		piece->bytes = piece->nr_blocks * FTL_BLOCK;
	}
	memory_skip(put->iov, &put->iov_index, &put->iov_offset, piece->bytes);
	put->started += piece->bytes;
	put->nr_in_flight++;
	return piece;
}

static void begin(struct ftl *ftl, struct piece *piece)
{
	cds_list_add_tail(&piece->bucket, &ftl->buckets[piece_bucket(piece->lba)]);
	piece->is_blocked = is_blocked(piece);
	if (piece->is_blocked)
		cds_list_add_tail(&piece->node, &ftl->blocked);
	else
		piece_step(piece);
}

/* Cuts the put into pieces and begins them. False: no piece is free now. */
static bool go_on(struct ftl *ftl, struct ftl_put *put)
{
	while (put->started < put->length && !put->result) {
		struct piece *piece;

		/* The piece may end in begin(); the put must not end yet. */
		put->nr_in_flight++;
		piece = cut(ftl, put);
		if (piece)
			begin(ftl, piece);
		put->nr_in_flight--;
		if (!piece)
			return false;
	}
	put->started = put->length;
	cds_list_del(&put->node);
	if (put->nr_in_flight == 0)
		put_ended(ftl, put);
	else
		ahead_note(put);
	return true;
}

static void retry(struct cds_list_head *list)
{
	struct piece *piece, *next;
	struct cds_list_head again;

	CDS_INIT_LIST_HEAD(&again);
	cds_list_splice(list, &again);
	CDS_INIT_LIST_HEAD(list);
	cds_list_for_each_entry_safe (piece, next, &again, node) {
		cds_list_del(&piece->node);
		piece_step(piece);
	}
}

static void unblock(struct ftl *ftl)
{
	struct piece *piece, *next;

	ftl->is_unblocked = false;
	cds_list_for_each_entry_safe (piece, next, &ftl->blocked, node) {
		if (is_blocked(piece))
			continue;
		cds_list_del(&piece->node);
		piece->is_blocked = false;
		piece_step(piece);
	}
}

void puts_progress(struct ftl *ftl)
{
	end_lost(ftl);
	retry(&ftl->stalled);
	while (ftl->is_unblocked)
		unblock(ftl);
	while (!cds_list_empty(&ftl->puts)) {
		struct ftl_put *put = cds_list_first_entry(&ftl->puts, struct ftl_put, node);
		bool is_large = put->length >= PIECE_BLOCKS / 2 * FTL_BLOCK;

		if (!go_on(ftl, put))
			break;
		/* The device writes this put while the next one's checksums are computed. */
		if (is_large)
			append_progress(ftl);
	}
}

static int check_put(const struct ftl_put *put)
{
	uint64_t end;

	if (__builtin_add_overflow(put->offset, put->length, &end) ||
	    !ftl_is_range(put->lba, end / FTL_BLOCK + (end % FTL_BLOCK != 0)))
		return error_fail(-EINVAL, "write blocks: they are not of one range");
	if (!memory_is_whole(put->iov, put->nr_iov, put->length))
		return error_fail(-EINVAL, "write blocks: the memory is not of the length");
	if (put->sums && (put->offset % FTL_BLOCK || put->length % FTL_BLOCK))
		return error_fail(-EINVAL, "write blocks with sums: they are not whole");
	return 0;
}

void ftl_put(struct ftl *ftl, struct ftl_put *put)
{
	uint64_t first = put->lba + put->offset / FTL_BLOCK;

	ftl->nr_requests++;
	ftl->counts.puts++;
	put->started = 0;
	put->nr_in_flight = put->nr_ahead = 0;
	put->iov_index = 0;
	put->iov_offset = 0;
	put->result = check_put(put);
	if (!put->result)
		put->result = ftl_refusal(ftl);
	put->order.lba[0] = first;
	put->order.count[0] = (put->offset % FTL_BLOCK + put->length + FTL_BLOCK - 1) / FTL_BLOCK;
	put->order.count[1] = 0;
	order_begin(ftl, &put->order);
	/* A put that was refused ends in its turn, in a poll. */
	cds_list_add_tail(&put->node, &ftl->puts);
}
