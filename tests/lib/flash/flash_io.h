/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of a flash device for tests, one at a time or counted, and memory that fits all
 * devices. A failure in here fails the test.
 */
#ifndef TESTS_FLASH_IO_H
#define TESTS_FLASH_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "flash/device/device.h"

/* Memory aligned to 4 KiB, of zeros: the caller's to free. */
void *flash_memory(size_t length);

struct test_io {
	struct flash_io io;
	struct iovec iov;
	unsigned nr_ended;
};

/* Runs when one ends: counts it. */
void test_io_ended(struct flash_io *io);
/* Submits an operation that ends by counting `nr_ended`. `memory` NULL: a discard or a flush. */
void test_io_submit(struct flash_device *device, struct test_io *test, enum flash_io_opcode opcode,
		    unsigned flags, uint64_t offset, void *memory, uint64_t length);
/* Waits until it has ended, once, and returns its result. */
int test_io_wait(struct flash_device *device, struct test_io *test);

/* These submit one and wait for it. */
int flash_read(struct flash_device *device, uint64_t offset, void *to, uint64_t length);
int flash_write(struct flash_device *device, unsigned flags, uint64_t offset, void *from,
		uint64_t length);
int flash_discard(struct flash_device *device, uint64_t offset, uint64_t length);
int flash_flush(struct flash_device *device);

#endif
