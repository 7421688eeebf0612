/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `flash` through the translation layer, against fio. For reads, fio has the very file that the layer is in. For writes, it
 * has a raw one of as many bytes as the layer is used of. The layer has twice as many, so half of it is in use. It stays open from row to
 * row, as a server's does, with its map in memory.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "flash.h"
#include "flash/device/uring.h"

#define LAYER_FILE_BYTES (2 * FLASH_FILE_BYTES)
#define TIB_BLOCKS	 (1024.0 * (double)GIB / FTL_BLOCK)

/* ---- The target */

struct layer {
	struct flash_device *device;
	struct ftl *ftl;
	uint64_t bytes; /* of it in use */
};

static void end_layer(struct layer *layer, void (*end)(struct ftl *ftl))
{
	if (layer->ftl)
		end(layer->ftl);
	if (layer->device)
		flash_device_close(layer->device);
	free(layer);
}

static void close_ftl(struct ftl *ftl)
{
	ftl_close(ftl);
}

static void close_layer(void *target)
{
	end_layer(target, close_ftl);
}

void flash_layer_abandon(void *target)
{
	end_layer(target, ftl_abandon);
}

int flash_layer_create(const char *path, uint32_t journal_blocks)
{
	const struct ftl_options options = {.is_forced = true, .journal_blocks = journal_blocks};
	struct flash_device *device;
	int ret = flash_device_open_path(path, 0, &device);

	if (!ret) {
		ret = ftl_create(device, &options);
		flash_device_close(device);
	}
	return ret ? bench_fail(ret, "%s", error_last_line()) : 0;
}

int flash_layer_open(const char *path, uint64_t bytes, void **target)
{
	struct layer *layer = calloc(1, sizeof(*layer));
	int ret;

	if (!layer)
		return bench_fail(-ENOMEM, "no memory for the layer");
	layer->bytes = bytes;
	ret = flash_device_open_path(path, 0, &layer->device);
	if (!ret)
		ret = ftl_open(layer->device, 0, &layer->ftl);
	if (ret) {
		close_layer(layer);
		return bench_fail(ret, "%s", error_last_line());
	}
	*target = layer;
	return 0;
}

static int open_layer(const char *path, void **target)
{
	return flash_layer_open(path, FLASH_FILE_BYTES, target);
}

static uint64_t layer_size(void *target)
{
	const struct layer *layer = target;

	return layer->bytes;
}

static void get_ended(struct ftl_get *get)
{
	struct flash_request *request = caa_container_of(get, struct flash_request, layer.get);

	request->done(request, get->result);
}

static void put_ended(struct ftl_put *put)
{
	struct flash_request *request = caa_container_of(put, struct flash_request, layer.put);

	if (!request->is_durable)
		request->done(request, put->result);
}

/* The put that it covers has ended. */
static void sync_ended(struct ftl_sync *sync)
{
	struct flash_request *request = caa_container_of(sync, struct flash_request, layer.sync);
	int ret = request->layer.put.result;

	request->done(request, ret ? ret : sync->result);
}

static void put(struct layer *layer, struct flash_request *request, uint64_t lba)
{
	request->layer.put = (struct ftl_put){.lba = lba,
					      .length = request->memory.iov_len,
					      .iov = &request->memory,
					      .nr_iov = 1,
					      .done = put_ended};
	ftl_put(layer->ftl, &request->layer.put);
	if (!request->is_durable)
		return;
	request->layer.sync = (struct ftl_sync){
		.lba = lba, .count = request->memory.iov_len / FTL_BLOCK, .done = sync_ended};
	ftl_sync(layer->ftl, &request->layer.sync);
}

static void synced(struct ftl_sync *sync)
{
	sync->done = NULL;
}

int flash_layer_sync(void *target)
{
	struct layer *layer = target;
	struct ftl_sync sync = {.count = FTL_ALL, .done = synced};

	ftl_sync(layer->ftl, &sync);
	while (sync.done) {
		int ret = ftl_poll(layer->ftl, -1);

		if (ret < 0)
			return bench_fail(ret, "the layer: %s", error_last_line());
	}
	return sync.result ? bench_fail(sync.result, "sync the layer") : 0;
}

static void submit_to_layer(void *target, struct flash_request *request)
{
	struct layer *layer = target;
	uint64_t lba = request->offset / FTL_BLOCK;

	if (request->is_write) {
		put(layer, request, lba);
		return;
	}
	request->layer.get = (struct ftl_get){.lba = lba,
					      .length = request->memory.iov_len,
					      .iov = &request->memory,
					      .nr_iov = 1,
					      .done = get_ended};
	ftl_get(layer->ftl, &request->layer.get);
}

static int poll_layer(void *target, int timeout_ms)
{
	struct layer *layer = target;

	return ftl_poll(layer->ftl, timeout_ms);
}

const struct flash_target flash_target_layer = {
	.open = open_layer,
	.close = close_layer,
	.size = layer_size,
	.submit = submit_to_layer,
	.poll = poll_layer,
};

/* ---- The stage */

struct layer_stage {
	struct flash_stage rows; /* first: flash_rows_run_ours() finds it by that */
	struct flash_file file;
	struct ftl_stat before; /* the last measurement of ours: nothing happens after it */
};

static double share(uint64_t part, uint64_t whole)
{
	return whole > 0 ? (double)part / (double)whole : 0;
}

/* Describes what the layer did for the writes of the last measurement. */
static void describe(const struct flash_stage *rows, char *out, size_t size)
{
	const struct layer_stage *stage = caa_container_of(rows, struct layer_stage, rows);
	const struct layer *layer = rows->opened;
	const struct ftl_stat *was = &stage->before;
	struct ftl_stat is;
	uint64_t blocks;

	ftl_stat(layer->ftl, &is);
	blocks = is.user_blocks - was->user_blocks;
	if (blocks == 0)
		return;
	snprintf(out, size,
		 "; blocks in a device write %.1f, moved %.2f and journal %.3f of one put, flushes "
		 "%llu, checkpoints %llu",
		 share(blocks, is.device_writes - was->device_writes),
		 share(is.moved_blocks - was->moved_blocks, blocks),
		 share(is.journal_written - was->journal_written, blocks),
		 (unsigned long long)(is.flushes - was->flushes),
		 (unsigned long long)(is.checkpoints - was->checkpoints));
}

static int run_ours(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct layer_stage *stage = state;
	const struct layer *layer = stage->rows.opened;

	ftl_stat(layer->ftl, &stage->before);
	return flash_rows_run_ours(state, row, repetition, value);
}

/* GiB for a TiB, from what the layer has in memory for the blocks in use. All of their map has been read or written. */
static int run_map(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct layer_stage *stage = state;
	const struct layer *layer = stage->rows.opened;
	struct ftl_stat stat;

	(void)row, (void)repetition;
	ftl_stat(layer->ftl, &stat);
	*value = (double)stat.map_bytes / (double)stat.used_blocks * TIB_BLOCKS / (double)GIB;
	bench_note("of %llu blocks in use: %llu bytes; on the device two copies of 4 KiB for each "
		   "510 blocks",
		   (unsigned long long)stat.used_blocks, (unsigned long long)stat.map_bytes);
	return 0;
}

#define FIO_DSYNC "fio on a raw file: io_uring, O_DIRECT, each write RWF_DSYNC, same size and depth"

/* Not constant: without fio they are skipped. */
static struct bench_row rows[] = {
	{"layer, read 4 KiB random, depth 1", "k/s", BENCH_HIGHER, FLASH_FIO, 0.95,
	 FLASH_LOAD(.is_random = true, .block = 4 * KIB, .depth = 1), run_ours, flash_rows_run_fio},
	{"layer, read 4 KiB random, depth 32", "k/s", BENCH_HIGHER, FLASH_FIO, 0.95,
	 FLASH_LOAD(.is_random = true, .block = 4 * KIB, .depth = 32), run_ours,
	 flash_rows_run_fio},
	{"layer, read 1 MiB, depth 8", "GB/s", BENCH_HIGHER, FLASH_FIO, 0.95,
	 FLASH_LOAD(.block = MIB, .depth = 8), run_ours, flash_rows_run_fio},
	{"layer, write 1 MiB, depth 8", "GB/s", BENCH_HIGHER, FLASH_FIO, 0.95,
	 FLASH_LOAD(.is_write = true, .block = MIB, .depth = 8), run_ours, flash_rows_run_fio},
	{"layer, write 4 KiB random, depth 32", "k/s", BENCH_HIGHER, FLASH_FIO, 1.2,
	 FLASH_LOAD(.is_write = true, .is_random = true, .block = 4 * KIB, .depth = 32), run_ours,
	 flash_rows_run_fio},
	{"layer, write 4 KiB random, each synced, depth 1", "k/s", BENCH_HIGHER, FIO_DSYNC, 0.9,
	 FLASH_LOAD(.is_write = true, .is_durable = true, .is_random = true, .block = 4 * KIB,
		    .depth = 1),
	 run_ours, flash_rows_run_fio},
	{"layer, write 4 KiB random, each synced, depth 32", "k/s", BENCH_HIGHER, FIO_DSYNC,
	 BENCH_REPORTED,
	 FLASH_LOAD(.is_write = true, .is_durable = true, .is_random = true, .block = 4 * KIB,
		    .depth = 32),
	 run_ours, flash_rows_run_fio},
	{"layer, memory of the map for 1 TiB", "GiB", BENCH_LOWER, NULL, BENCH_REPORTED, NULL,
	 run_map, NULL},
};

static void teardown(void *state)
{
	struct layer_stage *stage = state;

	if (!stage)
		return;
	if (stage->rows.opened)
		close_layer(stage->rows.opened);
	flash_file_remove(&stage->rows.fios);
	flash_file_remove(&stage->file);
	free(stage);
}

static int fill(struct layer_stage *stage)
{
	int ret = flash_file_make(&stage->rows.fios, FLASH_FILE_BYTES);

	if (!ret)
		ret = flash_file_make(&stage->file, LAYER_FILE_BYTES);
	if (!ret)
		ret = flash_layer_create(stage->file.path, 0);
	if (!ret)
		ret = open_layer(stage->file.path, &stage->rows.opened);
	return ret ? ret : flash_load_fill(&flash_target_layer, stage->rows.opened, 1);
}

static int setup(void **state)
{
	struct layer_stage *stage;
	int ret;

	if (flash_fio_missing()) {
		bench_skip(rows, NR_ROWS(rows), flash_fio_missing());
		return 0;
	}
	stage = calloc(1, sizeof(*stage));
	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	stage->rows.target = &flash_target_layer;
	stage->rows.describe = describe;
	stage->rows.reads = stage->file.path;
	ret = fill(stage);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

const struct bench_stage flash_layer_stage = {setup, teardown, rows, NR_ROWS(rows)};

#define WRITES_ROW 3 /* of those above */
const struct bench_stage flash_layer_writes_stage = {setup, teardown, &rows[WRITES_ROW], 1};
