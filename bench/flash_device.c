/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `flash` on the device alone, what the layers above it stand on: a file by our io_uring against the same file
 * by fio's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "flash.h"
#include "flash/uring.h"

#define BAR 0.95

/* ---- The target */

static int open_device(const char *path, void **target)
{
	struct flash_device *device;
	int status = flash_device_open_path(path, 0, &device);

	if (status)
		return bench_fail(status, "%s", error_last_line());
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

const struct flash_target flash_target_device = {open_device, close_device, device_size,
						 submit_to_device, poll_device};

/* ---- Rows */

struct device_stage {
	struct flash_file file;
	double cpu_ns[2]; /* of the last measurement: ours, fio's */
};

/* As operations or bytes, whatever the row is in. */
static double value_of(const struct flash_load *load, const struct flash_figures *figures)
{
	return load->is_random ? figures->per_second / 1e3
			       : figures->per_second * (double)load->block / 1e9;
}

static void note(const struct device_stage *state)
{
	bench_note("CPU of one operation: ours %.1f µs, fio's %.1f µs", state->cpu_ns[0] / 1e3,
		   state->cpu_ns[1] / 1e3);
}

static int run_ours(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct device_stage *state = stage;
	const struct flash_load *load = row->parameters;
	struct flash_figures figures = {0};
	int status = flash_load_run(&flash_target_device, state->file.path, load, &figures);

	(void)repetition;
	*value = value_of(load, &figures);
	state->cpu_ns[0] = figures.cpu_ns;
	note(state);
	return status;
}

static int run_fio(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct device_stage *state = stage;
	const struct flash_load *load = row->parameters;
	struct flash_figures figures = {0};
	int status = flash_fio_run(state->file.path, load, &figures);

	(void)repetition;
	*value = value_of(load, &figures);
	state->cpu_ns[1] = figures.cpu_ns;
	note(state);
	return status;
}

#define LOAD(...) (&(const struct flash_load){__VA_ARGS__})
#define FIO	  "fio on the same file: io_uring, O_DIRECT, same size and depth"

/* Not constant: without fio they are skipped. */
static struct bench_row rows[] = {
	{"device, read 4 KiB random, depth 1", "k/s", BENCH_HIGHER, FIO, BAR,
	 LOAD(.is_random = true, .block = 4 * KIB, .depth = 1), run_ours, run_fio},
	{"device, read 4 KiB random, depth 32", "k/s", BENCH_HIGHER, FIO, BAR,
	 LOAD(.is_random = true, .block = 4 * KIB, .depth = 32), run_ours, run_fio},
	{"device, read 1 MiB, depth 8", "GB/s", BENCH_HIGHER, FIO, BAR,
	 LOAD(.block = MIB, .depth = 8), run_ours, run_fio},
	{"device, write 1 MiB, depth 8", "GB/s", BENCH_HIGHER, FIO, BAR,
	 LOAD(.is_write = true, .block = MIB, .depth = 8), run_ours, run_fio},
};

static void skip_rows(const char *why)
{
	for (unsigned i = 0; i < NR_ROWS(rows); i++) {
		rows[i].reference_is = why;
		rows[i].run_ours = NULL;
		rows[i].run_reference = NULL;
	}
}

static void teardown(void *stage)
{
	struct device_stage *state = stage;

	if (!state)
		return;
	flash_file_remove(&state->file);
	free(state);
}

/* What was never written reads as zeros that no storage was asked for. */
static int setup(void **stage)
{
	struct device_stage *state;
	int status;

	if (flash_fio_missing()) {
		skip_rows(flash_fio_missing());
		return 0;
	}
	state = calloc(1, sizeof(*state));
	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	status = flash_file_make(&state->file);
	if (!status)
		status = flash_load_fill(&flash_target_device, state->file.path);
	if (status)
		teardown(state);
	else
		*stage = state;
	return status;
}

const struct bench_stage flash_device_stage = {setup, teardown, rows, NR_ROWS(rows)};
