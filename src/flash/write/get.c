/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets. Whole blocks in aligned memory are read directly into it, as many at once as are adjacent
 * on the device. Others go through a buffer. Each block's checksum is compared before the block is
 * reported as read. The layer does not write a segment again while it is being read. So a get
 * returns the data that the map named when the read began, whatever is put meanwhile.
 */
#include "flash/write/get.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "flash/device/memory.h"
#include "flash/ftl_private.h"
#include "flash/map/map.h"
#include "flash/map/segments.h"
#include "flash/write/put.h"

static void get_ended(struct ftl *ftl, struct ftl_get *get)
{
	cds_list_add_tail(&get->node, &ftl->ended_gets);
}

static void page_ended(struct ftl *ftl, struct ftl_get *get, size_t at, size_t bytes, int result)
{
	if (result && !get->result)
		get->result = result;
	if (get->page && !ftl->is_abandoned)
		get->page(get, at, bytes, result);
}

/* ---- what the device has read ---- */

/* Returns whether a block is what was written; gives its sum, if that is wanted. */
static bool is_good(const struct read *read, uint32_t i, const void *data)
{
	uint64_t lba = read->lba + i;
	uint32_t *sums = read->get->sums, sum;

	if (!sums)
		return block_crc(lba, data) == read->crcs[i];
	sum = block_crc_convert(lba, read->crcs[i]);
	sums[read->at / FTL_BLOCK + i] = sum;
	return checksum_crc32c(data, FTL_BLOCK) == sum;
}

static int check_block(struct read *read, uint32_t i, const void *data)
{
	struct ftl *ftl = read->ftl;
	uint64_t lba = read->lba + i;
	uint64_t place = read->io.offset / FTL_BLOCK + i;

	if (is_good(read, i, data))
		return 0;
	ftl->counts.crc_errors++;
	return error_fail(-EBADMSG,
			  "read block %u of range %u: it lies in block %llu of the device, and is "
			  "not what was written",
			  ftl_lba_block(lba), ftl_lba_range(lba), (unsigned long long)place);
}

static void check_direct(struct read *read)
{
	struct ftl_get *get = read->get;
	unsigned index = read->iov_index;
	size_t offset = read->iov_offset;

	for (uint32_t i = 0; i < read->nr_blocks; i++) {
		struct iovec block;

		memory_iovecs(get->iov, index, offset, FTL_BLOCK, &block, 0);
		memory_skip(get->iov, &index, &offset, FTL_BLOCK);
		page_ended(read->ftl, get, read->at + (size_t)i * FTL_BLOCK, FTL_BLOCK,
			   check_block(read, i, block.iov_base));
	}
}

static void check_bounced(struct read *read)
{
	struct ftl_get *get = read->get;
	unsigned index = read->iov_index;
	size_t offset = read->iov_offset, at = read->at;
	uint32_t left = read->bytes, skip = read->skip;

	for (uint32_t i = 0; i < read->nr_blocks; i++) {
		const char *data = read->bounce->bytes + (size_t)i * FTL_BLOCK;
		uint32_t bytes = left < FTL_BLOCK - skip ? left : FTL_BLOCK - skip;
		int ret = check_block(read, i, data);

		if (!ret)
			memory_scatter(get->iov, index, offset, data + skip, bytes);
		memory_skip(get->iov, &index, &offset, bytes);
		page_ended(read->ftl, get, at, bytes, ret);
		at += bytes;
		left -= bytes;
		skip = 0;
	}
}

/* Reads each block of a failed read again by itself, so that only the bad ones fail. */
static void read_failed(struct read *read);

static void read_ended(struct flash_io *io)
{
	struct read *read = caa_container_of(io, struct read, io);
	struct ftl *ftl = read->ftl;
	struct ftl_get *get = read->get;

	if (io->result) {
		read_failed(read);
	} else if (read->bounce) {
		check_bounced(read);
	} else {
		check_direct(read);
	}
	read->segment->pins--;
	bounce_give(ftl, read->bounce);
	cds_list_add(&read->node, &ftl->spare_reads);
	if (--get->nr_in_flight == 0 && !get->is_queued)
		get_ended(ftl, get);
}

static void submit(struct read *read, uint64_t place)
{
	read->get->nr_in_flight++;
	read->ftl->counts.device_reads++;
	read->segment = segment_of(&read->ftl->segments, (uint32_t)place);
	read->segment->pins++;
	read->io.opcode = FLASH_IO_READ;
	read->io.flags = 0;
	read->io.offset = place * FTL_BLOCK;
	read->io.length = (uint64_t)read->nr_blocks * FTL_BLOCK;
	read->io.iov = read->iov;
	read->io.done = read_ended;
	flash_device_submit(read->ftl->device, &read->io);
}

static struct read *take_read(struct ftl *ftl)
{
	struct read *read;

	if (cds_list_empty(&ftl->spare_reads))
		return NULL;
	read = cds_list_first_entry(&ftl->spare_reads, struct read, node);
	cds_list_del(&read->node);
	return read;
}

static void report_error(struct read *read, size_t at, uint32_t i, uint32_t bytes)
{
	uint64_t lba = read->lba + i, place = read->io.offset / FTL_BLOCK + i;

	read->ftl->counts.read_errors++;
	error_line("read block %u of range %u: block %llu of the device cannot be read",
		   ftl_lba_block(lba), ftl_lba_range(lba), (unsigned long long)place);
	log_error_some("flash: %s", error_last_line());
	page_ended(read->ftl, read->get, at, bytes, read->io.result);
}

static void read_failed(struct read *read)
{
	struct ftl_get *get = read->get;
	size_t at = read->at;
	uint32_t left = read->bytes, skip = read->skip;
	unsigned index = read->iov_index;
	size_t offset = read->iov_offset;

	for (uint32_t i = 0; i < read->nr_blocks; i++) {
		uint32_t bytes = left < FTL_BLOCK - skip ? left : FTL_BLOCK - skip;
		struct read *one =
			read->nr_blocks > 1 && !read->bounce ? take_read(read->ftl) : NULL;

		if (one) {
			one->get = get;
			one->at = at;
			one->lba = read->lba + i;
			one->nr_blocks = 1;
			one->skip = 0;
			one->bytes = bytes;
			one->bounce = NULL;
			one->iov_index = index;
			one->iov_offset = offset;
			one->crcs[0] = read->crcs[i];
			one->io.nr_iov = memory_iovecs(get->iov, index, offset, bytes, one->iov, 0);
			submit(one, read->io.offset / FTL_BLOCK + i);
		} else {
			report_error(read, at, i, bytes);
		}
		memory_skip(get->iov, &index, &offset, bytes);
		at += bytes;
		left -= bytes;
		skip = 0;
	}
}

/* ---- beginning ---- */

static void advance(struct ftl_get *get, size_t bytes)
{
	memory_skip(get->iov, &get->iov_index, &get->iov_offset, bytes);
	get->started += bytes;
}

/* Ends the block at the cursor with an error, because its place is not known. */
static void pass_over(struct ftl *ftl, struct ftl_get *get, int result)
{
	uint64_t byte = get->offset + get->started;
	size_t bytes = FTL_BLOCK - byte % FTL_BLOCK;

	if (bytes > get->length - get->started)
		bytes = get->length - get->started;
	page_ended(ftl, get, get->started, bytes, result);
	advance(get, bytes);
}

static void page_ready(struct ftl_waiter *waiter, int result)
{
	struct ftl_get *get = caa_container_of(waiter, struct ftl_get, waiter);

	get->is_waiting = false;
	/* The next block loads the page again. */
	if (result)
		pass_over(get->ftl, get, result);
}

/* Returns how many blocks from `lba` on are adjacent on the device, within one page of the map. */
static uint32_t run_length(const struct ftl *ftl, const struct map_page *page, uint64_t lba,
			   uint32_t nr_max)
{
	uint64_t room = map_page_end(lba) - lba;
	const struct format_entry *entries = map_entry(page, lba);
	uint32_t left = ftl->segments.data_blocks - segment_index(&ftl->segments, entries[0].place);
	uint32_t nr = 1;

	if (nr_max > room)
		nr_max = (uint32_t)room;
	if (nr_max > left)
		nr_max = left;
	while (nr < nr_max && entries[nr].place == entries[0].place + nr)
		nr++;
	return nr;
}

/* Starts a read of blocks from the cursor on, whose places are known. False: no buffer or read is
 * free now. */
static bool begin_read(struct ftl *ftl, struct ftl_get *get, struct map_page *page, uint64_t lba,
		       uint32_t skip)
{
	size_t left = get->length - get->started;
	uint32_t nr_max =
		left / FTL_BLOCK < PIECE_BLOCKS ? (uint32_t)(left / FTL_BLOCK) : PIECE_BLOCKS;
	uint32_t nr = skip ? 0
			   : memory_direct_blocks(get->iov, get->nr_iov, get->iov_index,
						  get->iov_offset, ftl->device->sector, nr_max);
	const struct format_entry *entries = map_entry(page, lba);
	struct read *read = take_read(ftl);

	if (!read)
		return false;
	read->bounce = nr ? NULL : bounce_take(ftl, 0);
	if (!nr && !read->bounce) {
		cds_list_add(&read->node, &ftl->spare_reads);
		return false;
	}
	read->get = get;
	read->at = get->started;
	read->lba = lba;
	read->skip = skip;
	read->iov_index = get->iov_index;
	read->iov_offset = get->iov_offset;
	if (nr) {
		read->nr_blocks = run_length(ftl, page, lba, nr);
		read->bytes = read->nr_blocks * FTL_BLOCK;
		read->io.nr_iov = memory_iovecs(get->iov, get->iov_index, get->iov_offset,
						read->bytes, read->iov, 0);
	} else {
		nr_max =
			(uint32_t)((skip +
				    (left < BOUNCE_BLOCKS * FTL_BLOCK ? left
								      : BOUNCE_BLOCKS * FTL_BLOCK) +
				    FTL_BLOCK - 1) /
				   FTL_BLOCK);
		if (nr_max > BOUNCE_BLOCKS)
			nr_max = BOUNCE_BLOCKS;
		read->nr_blocks = run_length(ftl, page, lba, nr_max);
		read->bytes = read->nr_blocks * FTL_BLOCK - skip;
		if (read->bytes > left)
			read->bytes = (uint32_t)left;
		read->iov[0] =
			(struct iovec){read->bounce->bytes, (size_t)read->nr_blocks * FTL_BLOCK};
		read->io.nr_iov = 1;
	}
	for (uint32_t i = 0; i < read->nr_blocks; i++)
		read->crcs[i] = entries[i].crc;
	advance(get, read->bytes);
	submit(read, entries[0].place);
	return true;
}

static void read_zeros(struct ftl *ftl, struct ftl_get *get, uint32_t skip)
{
	size_t at = get->started, bytes = FTL_BLOCK - skip;

	if (bytes > get->length - at)
		bytes = get->length - at;
	memory_zero(get->iov, get->iov_index, get->iov_offset, bytes);
	if (get->sums)
		get->sums[at / FTL_BLOCK] = CHECKSUM_OF_ZEROS;
	advance(get, bytes);
	page_ended(ftl, get, at, bytes, 0);
}

/* Starts all reads of the get that can start. False: no read can start now, of any get. */
static bool go_on(struct ftl *ftl, struct ftl_get *get)
{
	while (get->started < get->length && !get->is_waiting) {
		uint64_t byte = get->offset + get->started;
		uint64_t lba = get->lba + byte / FTL_BLOCK;
		struct map_page *page = map_find(&ftl->map, lba);

		if (page && !map_is_loaded(page)) {
			get->is_waiting = true;
			get->waiter.ready = page_ready;
			map_load(page, &get->waiter);
		} else if (!page || !map_entry(page, lba)->place) {
			read_zeros(ftl, get, byte % FTL_BLOCK);
		} else if (!map_is_known(map_entry(page, lba))) {
			pass_over(ftl, get, map_tell_unknown(page, lba));
		} else if (!begin_read(ftl, get, page, lba, byte % FTL_BLOCK)) {
			return false;
		}
	}
	return true;
}

void gets_progress(struct ftl *ftl)
{
	struct ftl_get *get, *next;

	cds_list_for_each_entry_safe (get, next, &ftl->gets, node) {
		if (!go_on(ftl, get))
			break;
		if (get->is_waiting)
			continue;
		cds_list_del(&get->node);
		get->is_queued = false;
		if (get->nr_in_flight == 0)
			get_ended(ftl, get);
	}
}

static int check_get(const struct ftl_get *get)
{
	uint64_t end;

	if (__builtin_add_overflow(get->offset, get->length, &end) ||
	    !ftl_is_range(get->lba, end / FTL_BLOCK + (end % FTL_BLOCK != 0)))
		return error_fail(-EINVAL, "read blocks: they are not of one range");
	if (!memory_is_whole(get->iov, get->nr_iov, get->length))
		return error_fail(-EINVAL, "read blocks: the memory is not of the length");
	if (get->sums && (get->offset % FTL_BLOCK || get->length % FTL_BLOCK))
		return error_fail(-EINVAL, "read blocks with sums: they are not whole");
	return 0;
}

void ftl_get(struct ftl *ftl, struct ftl_get *get)
{
	ftl->nr_requests++;
	ftl->counts.gets++;
	get->ftl = ftl;
	get->started = 0;
	get->nr_in_flight = 0;
	get->iov_index = 0;
	get->iov_offset = 0;
	get->is_waiting = false;
	get->is_queued = true;
	get->result = check_get(get);
	if (get->result)
		get->started = get->length;
	cds_list_add_tail(&get->node, &ftl->gets);
}
