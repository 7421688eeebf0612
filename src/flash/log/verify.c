/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads back the blocks that the journal's last records name; see verify.h. */

#include "flash/log/verify.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "flash/device/blocking.h"
#include "flash/map/map.h"

#define READS	    32U
#define READ_BLOCKS 16U

struct verify_read {
	struct flash_io io;
	struct iovec iov;
	struct verify_block *blocks;
	size_t nr;
	char *memory;
	bool is_busy;
};

static void check(struct verify_block *block, const char *data)
{
	block->is_there = block_crc(block->lba, data) == block->crc;
}

static void ended(struct flash_io *io)
{
	struct verify_read *read = caa_container_of(io, struct verify_read, io);

	for (size_t i = 0; i < read->nr && !io->result; i++)
		check(&read->blocks[i], read->memory + i * FTL_BLOCK);
	read->is_busy = false;
}

static void begin(struct flash_device *device, struct verify_read *read,
		  struct verify_block *blocks, size_t nr)
{
	read->blocks = blocks;
	read->nr = nr;
	read->is_busy = true;
	read->iov = (struct iovec){read->memory, nr * FTL_BLOCK};
	read->io = (struct flash_io){.opcode = FLASH_IO_READ,
				     .offset = (uint64_t)blocks->place * FTL_BLOCK,
				     .length = nr * FTL_BLOCK,
				     .iov = &read->iov,
				     .nr_iov = 1,
				     .done = ended};
	flash_device_submit(device, &read->io);
}

/* Reads each block of a failed read again by itself. */
static void settle(struct flash_device *device, struct verify_read *read)
{
	if (!read->nr || !read->io.result)
		return;
	for (size_t i = 0; i < read->nr; i++) {
		struct verify_block *block = &read->blocks[i];
		int ret = blocking_read(device, block->place, read->memory, 1);

		if (ret)
			log_warn_some(
				"flash: block %u of range %u is left as it was before its last "
				"write: %s",
				ftl_lba_block(block->lba), ftl_lba_range(block->lba),
				afar_strerror(ret));
		else
			check(block, read->memory);
	}
}

static size_t run_length(const struct verify_block *blocks, size_t nr)
{
	size_t length = 1;

	while (length < nr && length < READ_BLOCKS &&
	       blocks[length].place == blocks[0].place + length)
		length++;
	return length;
}

static int verify_some(struct flash_device *device, struct verify_read *reads,
		       struct verify_block *blocks, size_t nr, size_t *done)
{
	bool is_busy = true;

	*done = 0;
	for (unsigned i = 0; i < READS; i++) {
		size_t length = *done < nr ? run_length(&blocks[*done], nr - *done) : 0;

		reads[i].nr = 0;
		if (length)
			begin(device, &reads[i], &blocks[*done], length);
		*done += length;
	}
	while (is_busy) {
		int ret = flash_device_poll(device, -1);

		if (ret < 0)
			return ret;
		is_busy = false;
		for (unsigned i = 0; i < READS; i++)
			is_busy = is_busy || reads[i].is_busy;
	}
	for (unsigned i = 0; i < READS; i++)
		settle(device, &reads[i]);
	return 0;
}

int verify_blocks(struct flash_device *device, struct verify_block *blocks, size_t nr)
{
	struct verify_read *reads = calloc(READS, sizeof(*reads));
	char *memory = aligned_alloc(FTL_BLOCK, (size_t)READS * READ_BLOCKS * FTL_BLOCK);
	int ret = reads && memory ? 0 : error_code(-ENOMEM);

	for (unsigned i = 0; i < READS && !ret; i++)
		reads[i].memory = memory + (size_t)i * READ_BLOCKS * FTL_BLOCK;
	while (nr && !ret) {
		size_t done;

		ret = verify_some(device, reads, blocks, nr, &done);
		blocks += done;
		nr -= done;
	}
	free(memory);
	free(reads);
	return ret;
}
