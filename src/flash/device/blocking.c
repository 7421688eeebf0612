/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that are waited for; see blocking.h. */
#include "flash/device/blocking.h"

#include <errno.h>
#include <stdbool.h>

#include "flash/format.h"

#define BLOCKS_AT_ONCE 256U /* of 4 KiB in one operation */

struct waited {
	struct flash_io io;
	bool has_ended;
};

static void ended(struct flash_io *io)
{
	caa_container_of(io, struct waited, io)->has_ended = true;
}

static int wait_for(struct flash_device *device, struct flash_io io)
{
	struct waited waited = {.io = io};

	waited.io.done = ended;
	flash_device_submit(device, &waited.io);
	while (!waited.has_ended) {
		int ret = flash_device_poll(device, -1);

		if (ret < 0)
			return ret;
	}
	return waited.io.result;
}

static int transfer(struct flash_device *device, enum flash_io_opcode opcode, unsigned flags,
		    uint64_t block, void *memory, size_t nr_blocks)
{
	int ret = 0;

	for (size_t at = 0; at < nr_blocks && !ret; at += BLOCKS_AT_ONCE) {
		size_t nr = nr_blocks - at < BLOCKS_AT_ONCE ? nr_blocks - at : BLOCKS_AT_ONCE;
		struct iovec iov = {(char *)memory + at * FORMAT_BLOCK, nr * FORMAT_BLOCK};

		ret = wait_for(device, (struct flash_io){.opcode = opcode,
							 .flags = flags,
							 .offset = (block + at) * FORMAT_BLOCK,
							 .length = iov.iov_len,
							 .iov = &iov,
							 .nr_iov = 1});
	}
	return ret;
}

int blocking_read(struct flash_device *device, uint64_t block, void *memory, size_t nr_blocks)
{
	return transfer(device, FLASH_IO_READ, 0, block, memory, nr_blocks);
}

int blocking_write(struct flash_device *device, uint64_t block, const void *memory,
		   size_t nr_blocks, unsigned flags)
{
	return transfer(device, FLASH_IO_WRITE, flags, block, (void *)(uintptr_t)memory, nr_blocks);
}

int blocking_flush(struct flash_device *device)
{
	return wait_for(device, (struct flash_io){.opcode = FLASH_IO_FLUSH});
}
