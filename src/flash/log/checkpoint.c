/* SPDX-License-Identifier: BSD-3-Clause */
/* Freezing, writing and committing; see checkpoint.h. */

#include "flash/log/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "flash/device/superblock.h"
#include "flash/ftl_private.h"
#include "flash/log/journal.h"
#include "flash/map/map.h"

#define TABLES_AT_ONCE 64U /* blocks in one write */

int checkpoint_open(struct ftl *ftl)
{
	struct checkpoint *checkpoint = &ftl->checkpoint;
	size_t size = (size_t)ftl->layout.tables_blocks * FORMAT_BLOCK;

	CDS_INIT_LIST_HEAD(&checkpoint->frozen);
	CDS_INIT_LIST_HEAD(&checkpoint->spare);
	checkpoint->slots = calloc(ftl->layout.nr_slots, sizeof(*checkpoint->slots));
	checkpoint->tables = aligned_alloc(FORMAT_BLOCK, size);
	checkpoint->anchor_block = aligned_alloc(FORMAT_BLOCK, FORMAT_BLOCK);
	if (!checkpoint->slots || !checkpoint->tables || !checkpoint->anchor_block)
		return error_code(-ENOMEM);
	/* A quarter of the device's depth at most, because users' requests go on meanwhile. */
	for (unsigned i = 0; i < CHECKPOINT_PAGES && (i == 0 || i < ftl->device->depth / 4); i++) {
		struct checkpoint_write *write = &checkpoint->writes[i];

		write->ftl = ftl;
		write->memory = aligned_alloc(FORMAT_BLOCK, sizeof(*write->memory));
		if (!write->memory)
			return error_code(-ENOMEM);
		cds_list_add(&write->node, &checkpoint->spare);
	}
	return 0;
}

void checkpoint_close(struct ftl *ftl)
{
	struct checkpoint *checkpoint = &ftl->checkpoint;

	for (unsigned i = 0; i < CHECKPOINT_PAGES; i++)
		free(checkpoint->writes[i].memory);
	free(checkpoint->slots);
	free(checkpoint->tables);
	free(checkpoint->anchor_block);
}

/* ---- beginning ---- */

static void begin(struct ftl *ftl)
{
	struct checkpoint *checkpoint = &ftl->checkpoint;
	struct format_anchor *next = &checkpoint->next;

	*next = checkpoint->anchor;
	next->generation++;
	/* Pages carry the low half, where 0 means no copy. Adding 2 keeps the parity. */
	if ((uint32_t)next->generation == 0)
		next->generation += 2;
	memcpy(next->uuid, ftl->layout.uuid, sizeof(next->uuid));
	journal_seal_for_checkpoint(&ftl->journal);
	next->sequence = ftl->journal.sequence;
	next->epoch = ftl->journal.epoch;
	map_freeze(&ftl->map, &checkpoint->frozen);
	next->tables_bytes = tables_encode(ftl, next->generation);
	if (!next->tables_bytes) {
		ftl_fail(ftl, error_fail(-EIO, "the tables have outgrown their place"));
		return;
	}
	checkpoint->tables_blocks = (next->tables_bytes + FORMAT_BLOCK - 1) / FORMAT_BLOCK;
	memset(checkpoint->tables + next->tables_bytes, 0,
	       checkpoint->tables_blocks * FORMAT_BLOCK - next->tables_bytes);
	next->tables_crc = 0;
	for (uint64_t i = 0; i < checkpoint->tables_blocks; i++)
		next->tables_crc = checksum_crc32c_seeded(
			next->tables_crc, checkpoint->tables + i * FORMAT_BLOCK, FORMAT_BLOCK);
	checkpoint->tables_written = 0;
	checkpoint->nr_slots = 0;
	checkpoint->is_wanted = false;
	checkpoint->stage = CHECKPOINT_WRITING;
}

/* ---- writing ---- */

static void failed(struct ftl *ftl, const char *what, int code)
{
	log_error("flash: %s cannot be written: %s", what, afar_strerror(code));
	ftl_fail(ftl, -EIO);
}

static void page_written(struct flash_io *io)
{
	struct checkpoint_write *write = caa_container_of(io, struct checkpoint_write, io);
	struct checkpoint *checkpoint = &write->ftl->checkpoint;

	checkpoint->nr_in_flight--;
	cds_list_add(&write->node, &checkpoint->spare);
	if (io->result)
		failed(write->ftl, "the map", io->result);
}

static void write_page(struct ftl *ftl, struct map_page *page)
{
	struct checkpoint *checkpoint = &ftl->checkpoint;
	struct checkpoint_write *write =
		cds_list_first_entry(&checkpoint->spare, struct checkpoint_write, node);

	cds_list_del(&write->node);
	cds_list_del(&page->frozen);
	checkpoint->slots[checkpoint->nr_slots++] = page->slot;
	map_copy_out(page, (uint32_t)checkpoint->next.generation, write->memory);
	write->iov = (struct iovec){write->memory, FORMAT_BLOCK};
	write->io = (struct flash_io){.opcode = FLASH_IO_WRITE,
				      .offset = map_other_copy(&ftl->map, page) * FORMAT_BLOCK,
				      .length = FORMAT_BLOCK,
				      .iov = &write->iov,
				      .nr_iov = 1,
				      .done = page_written};
	checkpoint->nr_in_flight++;
	ftl->counts.map_pages++;
	flash_device_submit(ftl->device, &write->io);
}

static void tables_written(struct flash_io *io)
{
	struct ftl *ftl = caa_container_of(io, struct ftl, checkpoint.io);

	ftl->checkpoint.nr_in_flight--;
	ftl->checkpoint.is_writing_tables = false;
	if (io->result)
		failed(ftl, "a checkpoint's tables", io->result);
}

static void write_tables(struct ftl *ftl)
{
	struct checkpoint *checkpoint = &ftl->checkpoint;
	uint64_t at = checkpoint->tables_written, nr = checkpoint->tables_blocks - at;

	if (nr > TABLES_AT_ONCE)
		nr = TABLES_AT_ONCE;
	checkpoint->iov = (struct iovec){checkpoint->tables + at * FORMAT_BLOCK, nr * FORMAT_BLOCK};
	checkpoint->io = (struct flash_io){
		.opcode = FLASH_IO_WRITE,
		.offset =
			(tables_at(&ftl->layout, checkpoint->next.generation) + at) * FORMAT_BLOCK,
		.length = nr * FORMAT_BLOCK,
		.iov = &checkpoint->iov,
		.nr_iov = 1,
		.done = tables_written};
	checkpoint->tables_written += nr;
	checkpoint->is_writing_tables = true;
	checkpoint->nr_in_flight++;
	ftl->counts.table_blocks += nr;
	flash_device_submit(ftl->device, &checkpoint->io);
}

static void anchored(struct flash_io *io);

static void flushed(struct flash_io *io)
{
	struct ftl *ftl = caa_container_of(io, struct ftl, checkpoint.io);
	struct checkpoint *checkpoint = &ftl->checkpoint;

	checkpoint->nr_in_flight--;
	if (io->result) {
		failed(ftl, "a checkpoint", io->result);
		return;
	}
	/* The layer failed meanwhile, so this checkpoint must not be committed. */
	if (ftl->failed)
		return;
	anchor_encode(&checkpoint->next, checkpoint->anchor_block);
	checkpoint->stage = CHECKPOINT_ANCHORING;
	checkpoint->iov = (struct iovec){checkpoint->anchor_block, FORMAT_BLOCK};
	checkpoint->io =
		(struct flash_io){.opcode = FLASH_IO_WRITE,
				  .flags = FLASH_IO_DURABLE,
				  .offset = anchor_at(checkpoint->next.generation) * FORMAT_BLOCK,
				  .length = FORMAT_BLOCK,
				  .iov = &checkpoint->iov,
				  .nr_iov = 1,
				  .done = anchored};
	checkpoint->nr_in_flight++;
	flash_device_submit(ftl->device, &checkpoint->io);
}

static void write_some(struct ftl *ftl)
{
	struct checkpoint *checkpoint = &ftl->checkpoint;

	while (!cds_list_empty(&checkpoint->frozen) && !cds_list_empty(&checkpoint->spare))
		write_page(ftl, cds_list_first_entry(&checkpoint->frozen, struct map_page, frozen));
	if (!checkpoint->is_writing_tables &&
	    checkpoint->tables_written < checkpoint->tables_blocks)
		write_tables(ftl);
	/*
	 * Wait until the journal's blocks before the checkpoint are written. The commit frees their
	 * places in the ring, and a late write must not overwrite a new block there.
	 */
	if (checkpoint->nr_in_flight || ftl->journal.written < checkpoint->next.sequence)
		return;
	if (ftl->map.is_image_lost) {
		ftl_fail(ftl, -ENOMEM);
		return;
	}
	checkpoint->stage = CHECKPOINT_FLUSHING;
	checkpoint->io = (struct flash_io){.opcode = FLASH_IO_FLUSH, .done = flushed};
	checkpoint->nr_in_flight++;
	ftl->counts.flushes++;
	flash_device_submit(ftl->device, &checkpoint->io);
}

/* ---- committing ---- */

static void anchored(struct flash_io *io)
{
	struct ftl *ftl = caa_container_of(io, struct ftl, checkpoint.io);
	struct checkpoint *checkpoint = &ftl->checkpoint;

	checkpoint->nr_in_flight--;
	if (io->result) {
		failed(ftl, "an anchor", io->result);
		return;
	}
	checkpoint->anchor = checkpoint->next;
	for (uint32_t i = 0; i < checkpoint->nr_slots; i++)
		map_flip(&ftl->map, checkpoint->slots[i], (uint32_t)checkpoint->next.generation);
	journal_release(&ftl->journal, checkpoint->next.sequence);
	checkpoint->stage = CHECKPOINT_IDLE;
	ftl->counts.checkpoints++;
}

/* A checkpoint is due at half of the ring: the other half is for records that come while it is
 * written. */
bool checkpoint_is_due(const struct ftl *ftl)
{
	uint32_t used = journal_used(&ftl->journal);

	if (ftl->checkpoint.stage != CHECKPOINT_IDLE)
		return false;
	return ftl->checkpoint.is_wanted || used >= ftl->journal.nr_blocks / 2 ||
	       (ftl->journal.is_short && used > 0);
}

void checkpoint_progress(struct ftl *ftl)
{
	struct checkpoint *checkpoint = &ftl->checkpoint;

	if (ftl_refusal(ftl))
		return;
	if (checkpoint_is_due(ftl) && !ftl->journal.nr_held)
		begin(ftl);
	if (checkpoint->stage == CHECKPOINT_WRITING)
		write_some(ftl);
}

int checkpoint_write_now(struct ftl *ftl)
{
	struct checkpoint *checkpoint = &ftl->checkpoint;
	uint64_t generation = checkpoint->anchor.generation;

	checkpoint->is_wanted = true;
	while (checkpoint->is_wanted || checkpoint->stage != CHECKPOINT_IDLE ||
	       checkpoint->anchor.generation == generation) {
		int ret;

		checkpoint_progress(ftl);
		ret = ftl_refusal(ftl);
		if (ret)
			return ret;
		ret = flash_device_poll(ftl->device, -1);
		if (ret < 0)
			return ret;
	}
	return 0;
}
