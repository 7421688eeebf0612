/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `flash` on the device alone, on which the layers above it stand. They compare a file by our io_uring
 * with the same file by fio's.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "flash.h"
#include "flash/device/uring.h"

/* ---- The target */

static int open_device(const char *path, void **target)
{
	struct flash_device *device;
	int ret = flash_device_open_path(path, 0, &device);

	if (ret)
		return bench_fail(ret, "%s", error_last_line());
	*target = device;
	return 0;
}

static void close_device(void *target)
{
	flash_device_close(target);
}

static uint64_t device_size(void *target)
{
	const struct flash_device *device = target;

	return device->size;
}

static void io_ended(struct flash_io *io)
{
	struct flash_request *request = caa_container_of(io, struct flash_request, io);

	request->done(request, io->result);
}

static void submit_to_device(void *target, struct flash_request *request)
{
	request->io = (struct flash_io){
		.opcode = request->is_write ? FLASH_IO_WRITE : FLASH_IO_READ,
		.flags = request->is_durable ? FLASH_IO_DURABLE : 0,
		.offset = request->offset,
		.length = request->memory.iov_len,
		.iov = &request->memory,
		.nr_iov = 1,
		.done = io_ended,
	};
	flash_device_submit(target, &request->io);
}

static int poll_device(void *target, int timeout_ms)
{
	return flash_device_poll(target, timeout_ms);
}

const struct flash_target flash_target_device = {
	.open = open_device,
	.close = close_device,
	.size = device_size,
	.submit = submit_to_device,
	.poll = poll_device,
};

/* ---- Rows */

/* Not constant: without fio they are skipped. */
static struct bench_row rows[] = {
	{"device, read 4 KiB random, depth 1", "k/s", BENCH_HIGHER, FLASH_FIO, BENCH_REPORTED,
	 FLASH_LOAD(.is_random = true, .block = 4 * KIB, .depth = 1), flash_rows_run_ours,
	 flash_rows_run_fio},
	{"device, read 4 KiB random, depth 32", "k/s", BENCH_HIGHER, FLASH_FIO, BENCH_REPORTED,
	 FLASH_LOAD(.is_random = true, .block = 4 * KIB, .depth = 32), flash_rows_run_ours,
	 flash_rows_run_fio},
	{"device, read 1 MiB, depth 8", "GB/s", BENCH_HIGHER, FLASH_FIO, BENCH_REPORTED,
	 FLASH_LOAD(.block = MIB, .depth = 8), flash_rows_run_ours, flash_rows_run_fio},
	{"device, write 1 MiB, depth 8", "GB/s", BENCH_HIGHER, FLASH_FIO, BENCH_REPORTED,
	 FLASH_LOAD(.is_write = true, .block = MIB, .depth = 8), flash_rows_run_ours,
	 flash_rows_run_fio},
};

static void teardown(void *state)
{
	struct flash_stage *stage = state;

	if (!stage)
		return;
	if (stage->opened)
		close_device(stage->opened);
	flash_file_remove(&stage->fios);
	free(stage);
}

static int setup(void **state)
{
	struct flash_stage *stage;
	int ret;

	if (flash_fio_missing()) {
		bench_skip(rows, NR_ROWS(rows), flash_fio_missing());
		return 0;
	}
	stage = calloc(1, sizeof(*stage));
	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	stage->target = &flash_target_device;
	ret = flash_file_make(&stage->fios, FLASH_FILE_BYTES);
	if (!ret)
		ret = open_device(stage->fios.path, &stage->opened);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

const struct bench_stage flash_device_stage = {setup, teardown, rows, NR_ROWS(rows)};
