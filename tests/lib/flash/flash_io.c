/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of a flash device; see flash_io.h. */
#include "lib/flash/flash_io.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <urcu/list.h>

#include <cmocka.h>

void *flash_memory(size_t length)
{
	void *memory = NULL;

	assert_int_equal(posix_memalign(&memory, 4096, length), 0);
	memset(memory, 0, length);
	return memory;
}

void test_io_ended(struct flash_io *io)
{
	caa_container_of(io, struct test_io, io)->nr_ended++;
}

void test_io_submit(struct flash_device *device, struct test_io *test, enum flash_io_opcode opcode,
		    unsigned flags, uint64_t offset, void *memory, uint64_t length)
{
	*test = (struct test_io){.io = {.opcode = opcode,
					.flags = flags,
					.offset = offset,
					.length = length,
					.done = test_io_ended,
					.result = 1},
				 .iov = {memory, length}};
	test->io.iov = memory ? &test->iov : NULL;
	test->io.nr_iov = memory ? 1 : 0;
	flash_device_submit(device, &test->io);
}

int test_io_wait(struct flash_device *device, struct test_io *test)
{
	while (test->nr_ended == 0)
		assert_true(flash_device_poll(device, -1) >= 0);
	assert_int_equal(test->nr_ended, 1);
	return test->io.result;
}

static int run(struct flash_device *device, enum flash_io_opcode opcode, unsigned flags,
	       uint64_t offset, void *memory, uint64_t length)
{
	struct test_io test;

	test_io_submit(device, &test, opcode, flags, offset, memory, length);
	return test_io_wait(device, &test);
}

int flash_read(struct flash_device *device, uint64_t offset, void *to, uint64_t length)
{
	return run(device, FLASH_IO_READ, 0, offset, to, length);
}

int flash_write(struct flash_device *device, unsigned flags, uint64_t offset, void *from,
		uint64_t length)
{
	return run(device, FLASH_IO_WRITE, flags, offset, from, length);
}

int flash_discard(struct flash_device *device, uint64_t offset, uint64_t length)
{
	return run(device, FLASH_IO_DISCARD, 0, offset, NULL, length);
}

int flash_flush(struct flash_device *device)
{
	return run(device, FLASH_IO_FLUSH, 0, 0, NULL, 0);
}
