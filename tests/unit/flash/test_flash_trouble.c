/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The translation layer in trouble: no space, devices that fail, bytes that are not what was
 * written, devices that are not ours.
 */
#include "lib/flash/flash_bed.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "flash/device/superblock.h"
#include "flash/format.h"
#include "flash/ftl_private.h"
#include "flash/log/checkpoint.h"
#include "unit/group.h"

/* Where on the device the block's data is: its bytes are looked for. */
static uint64_t find(struct bed *bed, const void *bytes)
{
	uint8_t *data = flash_memory(FTL_BLOCK);

	for (uint64_t at = bed->device->size; at > 0;) {
		at -= FTL_BLOCK;
		flash_fake_peek(bed->device, at, data, FTL_BLOCK);
		if (memcmp(data, bytes, FTL_BLOCK) == 0) {
			free(data);
			return at;
		}
	}
	fail_msg("not found");
	return 0;
}

static uint64_t find_filled(struct bed *bed, uint8_t byte)
{
	uint8_t *data = flash_memory(FTL_BLOCK);
	uint64_t at;

	memset(data, byte, FTL_BLOCK);
	at = find(bed, data);
	free(data);
	return at;
}

static int get_block(struct bed *bed, uint64_t lba)
{
	uint8_t *data = flash_memory(FTL_BLOCK);
	int ret = bed_get(bed, lba, 0, data, FTL_BLOCK);

	free(data);
	return ret;
}

static void test_no_space(void **state)
{
	uint8_t *data = flash_memory(FTL_BLOCK);
	uint64_t nr = 0;
	struct bed bed;
	struct ftl_stat stat;
	int ret;

	(void)state;
	bed_open(&bed);
	memset(data, 0x42, FTL_BLOCK);
	while ((ret = bed_put(&bed, ftl_lba(1, (uint32_t)nr), 0, data, FTL_BLOCK)) == 0)
		nr++;
	assert_int_equal(ret, -ENOSPC);
	ftl_stat(bed.ftl, &stat);
	assert_int_equal(nr, stat.capacity_blocks);
	assert_int_equal(stat.free_blocks, 0);
	/* Blocks that are there can be read, overwritten as often as one likes, synced and
	 * trimmed. */
	for (uint64_t i = 0; i < 3 * nr; i++) {
		data[0] = (uint8_t)i;
		assert_int_equal(
			bed_put(&bed, ftl_lba(1, (uint32_t)(i * 7919 % nr)), 0, data, FTL_BLOCK),
			0);
	}
	assert_int_equal(bed_put(&bed, ftl_lba(2, 0), 0, data, FTL_BLOCK), -ENOSPC);
	assert_int_equal(bed_sync(&bed), 0);
	bed_reopen(&bed, false);
	for (uint64_t i = 0; i < nr; i++)
		assert_int_equal(get_block(&bed, ftl_lba(1, (uint32_t)i)), 0);
	assert_int_equal(bed_put(&bed, ftl_lba(2, 0), 0, data, FTL_BLOCK), -ENOSPC);
	assert_int_equal(bed_trim(&bed, ftl_lba(1, 17), 1, NULL), 0);
	assert_int_equal(bed_put(&bed, ftl_lba(2, 0), 0, data, FTL_BLOCK), 0);
	assert_int_equal(bed_put(&bed, ftl_lba(2, 1), 0, data, FTL_BLOCK), -ENOSPC);
	assert_int_equal(ftl_audit(bed.ftl), 0);
	bed_close(&bed);
	free(data);
}

/* A put that overwrites a shared block needs another, as one that writes a new block does. */
static void test_no_space_for_what_is_shared(void **state)
{
	const uint64_t here = ftl_lba(1, 17), there = ftl_lba(2, 0), beside = ftl_lba(1, 18);
	uint8_t *data = flash_memory(FTL_BLOCK);
	struct ftl_stat stat;
	uint32_t nr = 0;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	memset(data, 0x42, FTL_BLOCK);
	while (bed_put(&bed, ftl_lba(1, nr), 0, data, FTL_BLOCK) == 0)
		nr++;
	assert_int_equal(bed_clone(&bed, here, there, 1, NULL), 0);
	memset(data, 0x43, FTL_BLOCK);
	assert_int_equal(bed_put(&bed, here, 0, data, FTL_BLOCK), -ENOSPC);
	assert_int_equal(bed_put(&bed, there, 5, data, 1), -ENOSPC);
	assert_int_equal(bed_put(&bed, beside, 0, data, FTL_BLOCK), 0);
	/* With another it is shared no more. */
	assert_int_equal(bed_trim(&bed, ftl_lba(1, 19), 1, NULL), 0);
	assert_int_equal(bed_put(&bed, there, 0, data, FTL_BLOCK), 0);
	bed_expect(&bed, here, 0x42);
	assert_int_equal(bed_put(&bed, ftl_lba(2, 1), 0, data, FTL_BLOCK), -ENOSPC);
	memset(data, 0x44, FTL_BLOCK);
	assert_int_equal(bed_put(&bed, here, 0, data, FTL_BLOCK), 0);
	ftl_stat(bed.ftl, &stat);
	assert_int_equal(stat.used_blocks, stat.capacity_blocks);
	assert_int_equal(bed_sync(&bed), 0);
	bed_reopen(&bed, false);
	bed_expect(&bed, here, 0x44);
	bed_expect(&bed, there, 0x43);
	bed_expect(&bed, beside, 0x43);
	bed_close(&bed);
	free(data);
}

/*
 * More at once than there are segments free, buffers, and room in the journal; and odd reads
 * between them.
 */
static void test_many_large_puts(void **state)
{
	enum { NR = 60, BLOCKS = 128 };
	const struct flash_fake_options device = {
		.size = 8U << 20, .sector = 512, .seed = 1, .latency_max = 5};
	const struct ftl_options options = {.segment_bytes = 65536, .journal_blocks = 16};
	struct bed_request *puts = calloc(NR, sizeof(*puts));
	uint8_t *data = flash_memory(BLOCKS * FTL_BLOCK + FTL_BLOCK),
		*back = flash_memory(2 * FTL_BLOCK);
	struct bed bed;

	(void)state;
	assert_non_null(puts);
	bed_open_with(&bed, &device, &options);
	for (size_t i = 0; i < BLOCKS * FTL_BLOCK + FTL_BLOCK; i++)
		data[i] = (uint8_t)(i * 7 + i / 509);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < NR; i++)
			bed_begin_put(&bed, &puts[i], ftl_lba(1, i % 9 * BLOCKS), i % 3,
				      data + i % 5, BLOCKS * FTL_BLOCK - 8);
		assert_int_equal(bed_get(&bed, ftl_lba(1, 5), 3, back + 1, 5000), 0);
		for (unsigned i = 0; i < NR; i++) {
			bed_wait(&bed, &puts[i]);
			assert_int_equal(puts[i].put.result, 0);
		}
	}
	/* The last to block 0 was the 55th: from byte 0, of data + 4. */
	assert_int_equal(bed_get(&bed, ftl_lba(1, 0), 0, back, 2 * FTL_BLOCK), 0);
	assert_memory_equal(back, data + 54 % 5, 2 * FTL_BLOCK);
	assert_int_equal(ftl_audit(bed.ftl), 0);
	bed_close(&bed);
	free(puts);
	free(data);
	free(back);
}

/*
 * With a sync behind each. Records ahead of their data want twice the room in the journal, and do
 * without where there is not so much. When their writes fail they need it.
 */
static void test_many_large_puts_with_syncs(void **state)
{
	enum { NR = 60, BLOCKS = 128 };
	const struct flash_fake_options device = {
		.size = 8U << 20, .sector = 512, .seed = 1, .latency_max = 5};
	const struct ftl_options options = {.segment_bytes = 65536, .journal_blocks = 16};
	const struct flash_fake_fault fault = {.opcode = FLASH_IO_WRITE,
					       .offset = 2U << 20,
					       .length = 5U << 20,
					       .error = -EIO,
					       .skip = 5,
					       .nr = 8};
	struct bed_request *puts = calloc(NR, sizeof(*puts)), *syncs = calloc(NR, sizeof(*syncs));
	uint8_t *data = flash_memory(BLOCKS * FTL_BLOCK);
	struct ftl_stat stat;
	struct bed bed;

	(void)state;
	assert_non_null(puts);
	assert_non_null(syncs);
	memset(data, 0x5a, BLOCKS * FTL_BLOCK);
	bed_open_with(&bed, &device, &options);
	assert_int_equal(flash_fake_fail(bed.device, &fault), 0);
	for (unsigned i = 0; i < NR; i++) {
		uint64_t lba = ftl_lba(1, i % 9 * BLOCKS);

		bed_begin_put(&bed, &puts[i], lba, 0, data, BLOCKS * FTL_BLOCK);
		syncs[i] = (struct bed_request){
			.sync = {.lba = lba, .count = BLOCKS, .done = bed_sync_done}};
		ftl_sync(bed.ftl, &syncs[i].sync);
	}
	for (unsigned i = 0; i < NR; i++) {
		bed_wait(&bed, &puts[i]);
		assert_int_equal(puts[i].put.result, 0);
		bed_wait(&bed, &syncs[i]);
		assert_int_equal(syncs[i].sync.result, 0);
	}
	ftl_stat(bed.ftl, &stat);
	assert_true(stat.records_ahead > stat.records_void);
	assert_true(stat.records_void > 0);
	bed_reopen(&bed, false);
	bed_expect(&bed, ftl_lba(1, 9 * BLOCKS - 1), 0x5a);
	bed_close(&bed);
	free(puts);
	free(syncs);
	free(data);
}

static void test_no_map_pages(void **state)
{
	const struct flash_fake_options device = {.size = 8U << 20, .sector = 4096, .seed = 1};
	const struct ftl_options options = {.segment_bytes = 65536, .nr_map_pages = 4};
	struct bed bed;

	(void)state;
	bed_open_with(&bed, &device, &options);
	for (unsigned i = 0; i < 4; i++)
		bed_fill(&bed, ftl_lba(i, 0), (uint8_t)(1 + i));
	assert_int_equal(bed_put(&bed, ftl_lba(9, 0), 0, "x", 1), -ENOSPC);
	assert_int_equal(bed_trim(&bed, ftl_lba(2, 0), 1, NULL), 0);
	bed_fill(&bed, ftl_lba(9, 0), 0x99);
	assert_int_equal(bed_sync(&bed), 0);
	bed_reopen(&bed, false);
	bed_expect(&bed, ftl_lba(9, 0), 0x99);
	bed_expect(&bed, ftl_lba(2, 0), 0);
	bed_expect(&bed, ftl_lba(3, 0), 4);
	bed_close(&bed);
}

static void test_a_block_cannot_be_read(void **state)
{
	struct flash_fake_fault fault = {
		.opcode = FLASH_IO_READ, .length = FTL_BLOCK, .error = -EIO};
	uint8_t *data = flash_memory(3 * FTL_BLOCK);
	struct bed_request request = {.iov = {data, 3 * FTL_BLOCK}};
	struct bed bed;
	struct ftl_stat stat;

	(void)state;
	bed_open(&bed);
	for (unsigned i = 0; i < 60; i++)
		bed_fill(&bed, i, (uint8_t)(1 + i));
	fault.offset = find_filled(&bed, 1 + 20);
	assert_int_equal(flash_fake_fail(bed.device, &fault), 0);
	request.get = (struct ftl_get){.lba = 19,
				       .length = 3 * FTL_BLOCK,
				       .iov = &request.iov,
				       .nr_iov = 1,
				       .done = bed_get_done};
	ftl_get(bed.ftl, &request.get);
	bed_wait(&bed, &request);
	assert_int_equal(request.get.result, -EIO);
	assert_int_equal(data[0], 20);
	assert_int_equal(data[2 * FTL_BLOCK], 22);
	/* A part of it cannot be changed, all of it can. The rest lives, also through cleaning. */
	assert_int_equal(bed_put(&bed, 20, 5, "x", 1), -EIO);
	for (unsigned round = 0; round < 40; round++) {
		for (unsigned i = 100; i < 100 + 60; i++)
			bed_fill(&bed, i, (uint8_t)round);
	}
	for (unsigned i = 0; i < 60; i += 2)
		bed_fill(&bed, i == 20 ? 21 : i, (uint8_t)(1 + (i == 20 ? 21 : i)));
	for (unsigned i = 0; i < 60; i++) {
		if (i == 20)
			assert_int_equal(get_block(&bed, i), -EIO);
		else
			bed_expect(&bed, i, (uint8_t)(1 + i));
	}
	ftl_stat(bed.ftl, &stat);
	assert_true(stat.read_errors > 0);
	bed_fill(&bed, 20, 0x55);
	bed_expect(&bed, 20, 0x55);
	bed_reopen(&bed, true);
	bed_expect(&bed, 20, 0x55);
	bed_close(&bed);
	free(data);
}

static void test_writes_fail(void **state)
{
	struct flash_fake_fault fault = {
		.opcode = FLASH_IO_WRITE, .offset = 6U << 20, .length = 200000, .error = -EIO};
	uint8_t *data = flash_memory(FTL_BLOCK);
	struct bed bed;
	struct ftl_stat stat;

	(void)state;
	bed_open(&bed);
	assert_int_equal(flash_fake_fail(bed.device, &fault), 0);
	ftl_stat(bed.ftl, &stat);
	for (unsigned i = 0; i < 3 * stat.capacity_blocks; i++)
		bed_fill(&bed, ftl_lba(1, i * 7 % 800), (uint8_t)(i * 7 % 800));
	for (unsigned i = 0; i < 800; i++)
		bed_expect(&bed, ftl_lba(1, i), (uint8_t)i);
	ftl_stat(bed.ftl, &stat);
	assert_true(stat.write_errors > 0);
	assert_int_equal(bed_sync(&bed), 0);
	bed_reopen(&bed, false);
	for (unsigned i = 0; i < 800; i++)
		bed_expect(&bed, ftl_lba(1, i), (uint8_t)i);
	for (unsigned i = 0; i < 3 * stat.capacity_blocks; i++)
		bed_fill(&bed, ftl_lba(1, i * 7 % 800), (uint8_t)(i * 7 % 800));
	ftl_stat(bed.ftl, &stat);
	assert_true(stat.nr_by_state[FTL_SEGMENT_BAD] > 0);
	/* They have another chance then. */
	bed_reopen(&bed, true);
	ftl_stat(bed.ftl, &stat);
	assert_int_equal(stat.nr_by_state[FTL_SEGMENT_BAD], 0);
	for (unsigned i = 0; i < 800; i++)
		bed_expect(&bed, ftl_lba(1, i), (uint8_t)i);
	bed_close(&bed);
	free(data);
}

static void fail_segments(struct bed *bed, int error, unsigned nr)
{
	struct flash_fake_fault fault = {.opcode = FLASH_IO_WRITE, .error = error, .nr = nr};
	struct format_superblock superblock;

	flash_fake_peek(bed->device, 0, &superblock, sizeof(superblock));
	fault.offset = (uint64_t)superblock.segments_at * FTL_BLOCK;
	fault.length = (uint64_t)superblock.nr_segments * superblock.segment_blocks * FTL_BLOCK;
	assert_int_equal(flash_fake_fail(bed->device, &fault), 0);
}

static uint64_t capacity_of(struct bed *bed)
{
	struct ftl_stat stat;

	ftl_stat(bed->ftl, &stat);
	return stat.capacity_blocks;
}

/* An error that is not about the medium is no reason to give segments up: it passes, or is told. */
static void test_writes_fail_for_other_reasons(void **state)
{
	static const int passing[] = {-EAGAIN, -ENOMEM, -ETIMEDOUT};
	uint8_t *data = flash_memory(FTL_BLOCK);
	uint64_t capacity;
	struct bed bed;

	(void)state;
	memset(data, 0x11, FTL_BLOCK);
	bed_open(&bed);
	capacity = capacity_of(&bed);
	/* Data, and summaries in between. */
	for (unsigned i = 0; i < 300; i++) {
		fail_segments(&bed, passing[i % 3], 1 + i % 5);
		bed_fill(&bed, i, (uint8_t)i);
		flash_fake_heal(bed.device);
	}
	assert_int_equal(capacity_of(&bed), capacity);
	/* The error of a file that grows, where nothing is left to grow into. */
	fail_segments(&bed, -ENOSPC, 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(bed_put(&bed, 1000 + i, 0, data, FTL_BLOCK), -EIO);
	assert_non_null(strstr(error_last_line(), "file system"));
	assert_int_equal(capacity_of(&bed), capacity);
	flash_fake_heal(bed.device);
	bed_fill(&bed, 1000, 0x22);
	for (unsigned i = 0; i < 300; i++)
		bed_expect(&bed, i, (uint8_t)i);
	assert_int_equal(bed_sync(&bed), 0);
	bed_reopen(&bed, false);
	assert_int_equal(capacity_of(&bed), capacity);
	/* It is gone. */
	fail_segments(&bed, -ENODEV, 0);
	assert_int_equal(bed_put(&bed, 1000, 0, data, FTL_BLOCK), -ENODEV);
	flash_fake_heal(bed.device);
	assert_int_equal(bed_put(&bed, 1000, 0, data, FTL_BLOCK), -ENODEV);
	assert_int_equal(capacity_of(&bed), capacity);
	bed_expect(&bed, 1000, 0x22);
	assert_int_equal(ftl_close(bed.ftl), -ENODEV);
	flash_device_close(bed.device);
	free(data);
}

/* Wears out segments until nothing can be written any more; then the device is well again. */
static void wear_out(struct bed *bed, uint8_t *data)
{
	int ret = 0;

	fail_segments(bed, -EIO, 0);
	for (unsigned i = 0; i < 10000 && ret != -ENOSPC; i++)
		ret = bed_put(bed, 2000 + i % 10, 0, data, FTL_BLOCK);
	assert_int_equal(ret, -ENOSPC);
	flash_fake_heal(bed->device);
}

/* Each write fails for a while: that costs no room for good. */
static void test_a_device_is_well_again(void **state)
{
	uint8_t *data = flash_memory(FTL_BLOCK);
	uint64_t capacity;
	struct bed bed;

	(void)state;
	memset(data, 0x33, FTL_BLOCK);
	bed_open(&bed);
	capacity = capacity_of(&bed);
	for (unsigned i = 0; i < 300; i++)
		bed_fill(&bed, i, (uint8_t)i);
	wear_out(&bed, data);
	/* Segments rest a while before they are tried again. */
	assert_int_equal(bed_put(&bed, 2000, 0, data, FTL_BLOCK), -ENOSPC);
	bed.ftl->worn_at = 0;
	for (unsigned i = 0; i < 2 * capacity; i++)
		bed_fill(&bed, 1000 + i % 300, (uint8_t)i);
	/* A few had something in them, and were emptied later. */
	assert_true(capacity_of(&bed) + 4 * bed.ftl->segments.data_blocks >= capacity);
	/* Blocks that were written there since the last checkpoint are found again. */
	wear_out(&bed, data);
	assert_int_equal(checkpoint_write_now(bed.ftl), 0);
	assert_int_equal(bed_put(&bed, 2000, 0, data, FTL_BLOCK), -ENOSPC);
	assert_int_equal(checkpoint_write_now(bed.ftl), 0);
	assert_true(bed.ftl->segments.nr_by_state[FTL_SEGMENT_BAD] > 10);
	bed.ftl->worn_at = 0;
	for (unsigned i = 0; i < 200; i++)
		bed_fill(&bed, 1400 + i, (uint8_t)i);
	assert_int_equal(bed_sync(&bed), 0);
	bed_reopen(&bed, false);
	for (unsigned i = 0; i < 200; i++)
		bed_expect(&bed, 1400 + i, (uint8_t)i);
	/* Opened again, it does not wait. */
	wear_out(&bed, data);
	bed_reopen(&bed, false);
	for (unsigned i = 0; i < 300; i++)
		bed_fill(&bed, 1000 + i, (uint8_t)i);
	assert_int_equal(bed_sync(&bed), 0);
	bed_reopen(&bed, true);
	assert_int_equal(capacity_of(&bed), capacity);
	for (unsigned i = 0; i < 300; i++) {
		bed_expect(&bed, i, (uint8_t)i);
		bed_expect(&bed, 1000 + i, (uint8_t)i);
	}
	bed_close(&bed);
	free(data);
}

/*
 * A put with a sync behind it that is refused for good: the layer goes on, and writes checkpoints
 * as before.
 */
static void test_a_synced_put_is_refused(void **state)
{
	uint8_t *data = flash_memory(FTL_BLOCK);
	struct bed_request put, sync = {.sync = {.count = FTL_ALL, .done = bed_sync_done}};
	struct bed bed;

	(void)state;
	memset(data, 0x22, FTL_BLOCK);
	bed_open(&bed);
	bed_fill(&bed, 1, 0x11);
	fail_segments(&bed, -ENOSPC, 1);
	bed_begin_put(&bed, &put, 1, 0, data, FTL_BLOCK);
	ftl_sync(bed.ftl, &sync.sync);
	bed_wait(&bed, &put);
	bed_wait(&bed, &sync);
	assert_int_equal(put.put.result, -EIO);
	assert_int_equal(sync.sync.result, 0);
	bed_reopen(&bed, false);
	bed_expect(&bed, 1, 0x11);
	bed_close(&bed);
	free(data);
}

/*
 * It may have been written when power was lost, or never: like what is not there, it is as if it
 * had not been put.
 */
static void test_what_was_put_last_cannot_be_read(void **state)
{
	struct flash_fake_fault fault = {
		.opcode = FLASH_IO_READ, .length = FTL_BLOCK, .error = -EIO};
	struct bed bed;
	struct ftl_stat stat;

	(void)state;
	bed_open(&bed);
	bed_fill(&bed, 1, 0x11);
	assert_int_equal(bed_sync(&bed), 0);
	bed_fill(&bed, 1, 0x22);
	bed_fill(&bed, 2, 0x33);
	assert_int_equal(bed_sync(&bed), 0);
	fault.offset = find_filled(&bed, 0x22);
	assert_int_equal(flash_fake_fail(bed.device, &fault), 0);
	bed_reopen(&bed, false);
	ftl_stat(bed.ftl, &stat);
	assert_int_equal(stat.dropped_records, 1);
	bed_expect(&bed, 1, 0x11);
	bed_expect(&bed, 2, 0x33);
	bed_close(&bed);
}

/*
 * With every number of streams, also far more than pay: overwriting goes on when every block is in
 * use.
 */
static void test_full_with_streams(void **state)
{
	const struct flash_fake_options device = {.size = 2U << 20, .sector = 512, .seed = 1};
	const struct ftl_options options = {.segment_bytes = 65536};
	enum { BLOCKS = 8 };
	uint8_t *data = flash_memory(BLOCKS * FTL_BLOCK);
	unsigned dice = 1;

	(void)state;
	for (unsigned streams = 1; streams <= FTL_STREAMS_MAX; streams++) {
		struct bed bed;
		struct ftl_stat stat;
		uint32_t nr;

		bed_open_with(&bed, &device, &options);
		assert_int_equal(ftl_close(bed.ftl), 0);
		assert_int_equal(ftl_open(bed.device, FTL_STREAMS(streams), &bed.ftl), 0);
		ftl_stat(bed.ftl, &stat);
		nr = (uint32_t)stat.capacity_blocks;
		memset(data, 0x5a, BLOCKS * FTL_BLOCK);
		/*
		 * All that is not in use is in open segments, of streams that nothing more is put
		 * to.
		 */
		for (uint32_t i = 0; i < nr; i++) {
			struct bed_request request;

			bed_prepare_put(&request, i, 0, data, FTL_BLOCK);
			request.put.heat = (uint8_t)(i < 8 ? 16 + 32 * i : FTL_HEAT_MEAN);
			ftl_put(bed.ftl, &request.put);
			bed_wait(&bed, &request);
			assert_int_equal(request.put.result, 0);
		}
		assert_int_equal(bed_put(&bed, nr, 0, data, FTL_BLOCK), -ENOSPC);
		for (uint32_t i = 0; i < 2 * nr; i += BLOCKS) {
			struct bed_request request;
			uint32_t range = rand_r(&dice) % 4 ? nr / 5 : nr;

			bed_prepare_put(&request, (uint32_t)rand_r(&dice) % (range - BLOCKS), 0,
					data, BLOCKS * FTL_BLOCK);
			request.put.heat = (uint8_t)(rand_r(&dice) % 3 ? 0 : rand_r(&dice) % 256);
			ftl_put(bed.ftl, &request.put);
			bed_wait(&bed, &request);
			assert_int_equal(request.put.result, 0);
		}
		ftl_stat(bed.ftl, &stat);
		assert_int_equal(stat.used_blocks, nr);
		bed_reopen(&bed, true);
		bed_expect(&bed, nr - 1, 0x5a);
		bed_close(&bed);
	}
	free(data);
}

static void test_the_journal_cannot_be_written(void **state)
{
	struct flash_fake_fault fault = {.opcode = FLASH_IO_WRITE, .error = -EIO};
	struct format_superblock superblock;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	flash_fake_peek(bed.device, 0, &superblock, sizeof(superblock));
	fault.offset = superblock.journal_at * FTL_BLOCK;
	fault.length = superblock.journal_blocks * FTL_BLOCK;
	bed_fill(&bed, 3, 0x33);
	assert_int_equal(bed_sync(&bed), 0);
	assert_int_equal(flash_fake_fail(bed.device, &fault), 0);
	bed_fill(&bed, 3, 0x44);
	assert_int_equal(bed_sync(&bed), -EIO);
	assert_int_equal(bed_put(&bed, 4, 0, "x", 1), -EIO);
	assert_int_equal(bed_trim(&bed, 3, 1, NULL), -EIO);
	bed_expect(&bed, 3, 0x44);
	assert_int_equal(ftl_close(bed.ftl), -EIO);
	flash_fake_heal(bed.device);
	assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), 0);
	assert_int_equal(get_block(&bed, 3), 0);
	bed_close(&bed);
}

/* The first write into the journal waits outside of the device. */
static struct {
	const struct flash_device_ops *ops; /* the device's own */
	uint64_t journal, length;
	struct flash_io *kept;
} keeper;

static void keep_first(struct flash_device *device, struct flash_io *io)
{
	if (!keeper.kept && io->opcode == FLASH_IO_WRITE && io->offset >= keeper.journal &&
	    io->offset < keeper.journal + keeper.length)
		keeper.kept = io;
	else
		keeper.ops->submit(device, io);
}

/* With it the places come free that the journal's blocks before it are still on their way to. */
static void test_a_checkpoint_waits_for_the_journal(void **state)
{
	struct format_superblock superblock;
	struct flash_device_ops ops;
	struct bed bed;
	uint64_t nr;

	(void)state;
	bed_open(&bed);
	flash_fake_peek(bed.device, 0, &superblock, sizeof(superblock));
	keeper.ops = bed.device->ops;
	keeper.journal = superblock.journal_at * FTL_BLOCK;
	keeper.length = superblock.journal_blocks * FTL_BLOCK;
	keeper.kept = NULL;
	ops = *keeper.ops;
	ops.submit = keep_first;
	bed.device->ops = &ops;
	bed_fill(&bed, 3, 0x33);
	nr = bed.ftl->counts.checkpoints;
	bed.ftl->checkpoint.is_wanted = true;
	for (unsigned i = 0; i < 1000; i++)
		assert_true(ftl_poll(bed.ftl, -1) >= 0);
	assert_non_null(keeper.kept);
	assert_int_equal(bed.ftl->counts.checkpoints, nr);
	/* It arrives. */
	bed.device->ops = keeper.ops;
	flash_device_submit(bed.device, keeper.kept);
	while (bed.ftl->counts.checkpoints == nr)
		assert_true(ftl_poll(bed.ftl, -1) >= 0);
	bed_reopen(&bed, false);
	bed_expect(&bed, 3, 0x33);
	bed_close(&bed);
}

static void test_stale_and_swapped_blocks(void **state)
{
	uint8_t *a = flash_memory(FTL_BLOCK), *b = flash_memory(FTL_BLOCK),
		*old = flash_memory(FTL_BLOCK);
	uint64_t at_a, at_b;
	struct bed bed;
	struct ftl_stat stat;

	(void)state;
	bed_open(&bed);
	bed_fill(&bed, 1, 0xa1);
	bed_fill(&bed, 2, 0xb2);
	at_a = find_filled(&bed, 0xa1);
	at_b = find_filled(&bed, 0xb2);
	flash_fake_peek(bed.device, at_a, a, FTL_BLOCK);
	flash_fake_peek(bed.device, at_b, b, FTL_BLOCK);
	assert_int_equal(flash_fake_poke(bed.device, at_a, b, FTL_BLOCK), 0);
	assert_int_equal(flash_fake_poke(bed.device, at_b, a, FTL_BLOCK), 0);
	assert_int_equal(get_block(&bed, 1), -EBADMSG);
	assert_int_equal(get_block(&bed, 2), -EBADMSG);
	assert_int_equal(flash_fake_poke(bed.device, at_a, a, FTL_BLOCK), 0);
	assert_int_equal(flash_fake_poke(bed.device, at_b, b, FTL_BLOCK), 0);
	bed_expect(&bed, 1, 0xa1);
	/* Puts what block 1 was before at the place of what it is. */
	memcpy(old, a, FTL_BLOCK);
	bed_fill(&bed, 1, 0xa2);
	assert_int_equal(flash_fake_poke(bed.device, find_filled(&bed, 0xa2), old, FTL_BLOCK), 0);
	assert_int_equal(get_block(&bed, 1), -EBADMSG);
	ftl_stat(bed.ftl, &stat);
	assert_int_equal(stat.crc_errors, 3);
	bed_expect(&bed, 2, 0xb2);
	bed_close(&bed);
	free(a);
	free(b);
	free(old);
}

static void test_what_is_no_layer(void **state)
{
	const struct flash_fake_options options = {.size = 8U << 20, .sector = 512, .seed = 1};
	const struct ftl_options forced = {.segment_bytes = 65536, .is_forced = true},
				 plain = {.segment_bytes = 65536};
	struct format_superblock superblock;
	struct flash_device *device, *small;
	uint8_t *data = flash_memory(FTL_BLOCK);
	struct ftl *ftl;

	(void)state;
	assert_int_equal(flash_fake_open(&options, &device), 0);
	assert_int_equal(ftl_open(device, 0, &ftl), -EINVAL);
	assert_int_equal(flash_fake_poke(device, 1024, "\x53\xef", 2), 0);
	assert_int_equal(ftl_create(device, &plain), -EEXIST);
	assert_int_equal(ftl_open(device, 0, &ftl), -EINVAL);
	assert_int_equal(ftl_create(device, &forced), 0);
	assert_int_equal(ftl_create(device, &plain), -EEXIST);
	/* A newer one, which its copy is, too. */
	flash_fake_peek(device, 0, &superblock, sizeof(superblock));
	for (unsigned i = 0; i < 2; i++) {
		superblock.version += i == 0 ? 1U : -1U;
		assert_int_equal(flash_fake_poke(device, 0, &superblock, sizeof(superblock)), 0);
		assert_int_equal(flash_fake_poke(device, options.size - FTL_BLOCK, &superblock,
						 sizeof(superblock)),
				 0);
		assert_int_equal(ftl_open(device, 0, &ftl), i == 0 ? -EPROTONOSUPPORT : 0);
	}
	assert_int_equal(ftl_close(ftl), 0);
	/* Any byte of it is damaged, and its copy serves. */
	for (size_t at = 0; at < sizeof(superblock); at++) {
		uint8_t byte = ((const uint8_t *)&superblock)[at], damaged = byte ^ 8;

		assert_int_equal(flash_fake_poke(device, at, &damaged, 1), 0);
		assert_int_equal(ftl_open(device, 0, &ftl), 0);
		assert_int_equal(ftl_close(ftl), 0);
		assert_int_equal(flash_fake_poke(device, at, &byte, 1), 0);
	}
	superblock.nr_segments++;
	assert_int_equal(flash_fake_poke(device, 0, &superblock, sizeof(superblock)), 0);
	assert_int_equal(ftl_open(device, 0, &ftl), 0);
	assert_int_equal(ftl_close(ftl), 0);
	assert_int_equal(flash_fake_poke(device, options.size - FTL_BLOCK, "x", 1), 0);
	assert_int_equal(ftl_open(device, 0, &ftl), -EBADMSG);
	superblock.nr_segments--;
	assert_int_equal(flash_fake_poke(device, 0, &superblock, sizeof(superblock)), 0);
	/* Cut off. */
	assert_int_equal(
		flash_fake_open(&(struct flash_fake_options){.size = 4U << 20, .sector = 512},
				&small),
		0);
	for (uint64_t at = 0; at < 4U << 20; at += FTL_BLOCK) {
		flash_fake_peek(device, at, data, FTL_BLOCK);
		assert_int_equal(flash_fake_poke(small, at, data, FTL_BLOCK), 0);
	}
	assert_int_equal(ftl_open(small, 0, &ftl), -EINVAL);
	flash_device_close(small);
	/* Both anchors. */
	assert_int_equal(flash_fake_poke(device, FTL_BLOCK, "x", 1), 0);
	assert_int_equal(flash_fake_poke(device, 2 * FTL_BLOCK, "x", 1), 0);
	assert_int_equal(ftl_open(device, 0, &ftl), -EBADMSG);
	flash_device_close(device);
	assert_int_equal(
		flash_fake_open(&(struct flash_fake_options){.size = 1U << 20, .sector = 512},
				&small),
		0);
	assert_int_equal(ftl_create(small, &plain), -ENOSPC);
	flash_device_close(small);
	free(data);
}

/*
 * An anchor that is lost: the one before it serves if the journal still has everything since, or
 * the loss is told. Nothing is silently older than it was.
 */
static void test_the_newest_anchor_is_lost(void **state)
{
	unsigned nr_told = 0;

	(void)state;
	for (unsigned nr = 40; nr < 100; nr++) {
		struct format_anchor anchors[2];
		struct bed bed;
		unsigned newest;
		int ret;

		bed_open(&bed);
		for (unsigned i = 0; i < nr; i++) {
			bed_fill(&bed, i % 10, (uint8_t)i);
			assert_int_equal(bed_sync(&bed), 0);
		}
		ftl_abandon(bed.ftl);
		for (unsigned i = 0; i < 2; i++)
			flash_fake_peek(bed.device, (1 + i) * FTL_BLOCK, &anchors[i],
					sizeof(anchors[i]));
		newest = anchors[1].generation > anchors[0].generation;
		assert_int_equal(flash_fake_poke(bed.device, (1 + newest) * FTL_BLOCK, "x", 1), 0);
		ret = ftl_open(bed.device, 0, &bed.ftl);
		nr_told += ret == -EBADMSG;
		if (ret)
			assert_int_equal(ret, -EBADMSG);
		for (unsigned i = nr - 10; i < nr && !ret; i++)
			bed_expect(&bed, i % 10, (uint8_t)i);
		if (!ret)
			assert_int_equal(ftl_close(bed.ftl), 0);
		flash_device_close(bed.device);
	}
	print_message("%u of 60 were told\n", nr_told);
}

/*
 * The tables of the newest checkpoint are damaged: those before serve, with the journal, or it is told. A crash and a recovery
 * may be between the two. Nothing is silently older than it was.
 */
static void test_the_newest_tables_are_damaged(void **state)
{
	unsigned nr_told = 0, nr_good = 0;

	(void)state;
	for (unsigned nr = 20; nr < 140; nr++) {
		struct format_superblock superblock;
		struct format_anchor anchor;
		unsigned reopened_at = nr % 3 ? nr - nr % 17 : UINT32_MAX;
		struct bed bed;
		int ret;

		bed_open(&bed);
		for (unsigned i = 0; i < nr; i++) {
			if (i == reopened_at)
				bed_reopen(&bed, nr % 2);
			bed_fill(&bed, i % 10, (uint8_t)i);
			assert_int_equal(bed_sync(&bed), 0);
		}
		ftl_abandon(bed.ftl);
		flash_fake_peek(bed.device, 0, &superblock, sizeof(superblock));
		assert_int_equal(anchor_read(bed.device, &superblock, &anchor), 0);
		assert_int_equal(
			flash_fake_poke(bed.device,
					tables_at(&superblock, anchor.generation) * FTL_BLOCK + 100,
					"damaged", 7),
			0);
		ret = ftl_open(bed.device, 0, &bed.ftl);
		if (ret) {
			assert_int_equal(ret, -EBADMSG);
			nr_told++;
			flash_device_close(bed.device);
			continue;
		}
		nr_good++;
		for (unsigned twice = 0; twice < 2; twice++) {
			for (unsigned i = nr - 10; i < nr; i++)
				bed_expect(&bed, i % 10, (uint8_t)i);
			bed_reopen(&bed, true);
		}
		bed_close(&bed);
	}
	print_message("%u served, %u were told\n", nr_good, nr_told);
	assert_true(nr_good > 60);
}

/*
 * Power is lost twice while the same block of the journal is written. The first write leaves its
 * first sector alone, the second all but that. Together they make no block.
 */
static void test_two_torn_blocks_do_not_make_one(void **state)
{
	uint8_t *first = flash_memory(FTL_BLOCK), *second = flash_memory(FTL_BLOCK);
	struct bed bed;
	uint64_t at;

	(void)state;
	bed_open(&bed);
	at = (bed.ftl->layout.journal_at +
	      bed.ftl->journal.sequence % bed.ftl->layout.journal_blocks) *
	     (uint64_t)FTL_BLOCK;
	bed_fill(&bed, 7, 1);
	assert_int_equal(bed_sync(&bed), 0);
	flash_fake_peek(bed.device, at, first, FTL_BLOCK);
	memset(first + 512, 0xff, FTL_BLOCK - 512);
	assert_int_equal(flash_fake_poke(bed.device, at, first, FTL_BLOCK), 0);
	bed_reopen(&bed, false);
	flash_fake_peek(bed.device, at, first, FTL_BLOCK);
	bed_fill(&bed, 7, 2);
	assert_int_equal(bed_sync(&bed), 0);
	flash_fake_peek(bed.device, at, second, FTL_BLOCK);
	memcpy(second, first, 512);
	assert_int_equal(flash_fake_poke(bed.device, at, second, FTL_BLOCK), 0);
	bed_reopen(&bed, false);
	bed_expect(&bed, 7, 0);
	bed_close(&bed);
	free(first);
	free(second);
}

TEST_GROUP(flash_trouble)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_torn_blocks_do_not_make_one),
		cmocka_unit_test(test_the_newest_tables_are_damaged),
		cmocka_unit_test(test_no_space),
		cmocka_unit_test(test_no_space_for_what_is_shared),
		cmocka_unit_test(test_many_large_puts),
		cmocka_unit_test(test_many_large_puts_with_syncs),
		cmocka_unit_test(test_no_map_pages),
		cmocka_unit_test(test_a_block_cannot_be_read),
		cmocka_unit_test(test_writes_fail),
		cmocka_unit_test(test_writes_fail_for_other_reasons),
		cmocka_unit_test(test_a_device_is_well_again),
		cmocka_unit_test(test_a_synced_put_is_refused),
		cmocka_unit_test(test_what_was_put_last_cannot_be_read),
		cmocka_unit_test(test_full_with_streams),
		cmocka_unit_test(test_the_journal_cannot_be_written),
		cmocka_unit_test(test_a_checkpoint_waits_for_the_journal),
		cmocka_unit_test(test_stale_and_swapped_blocks),
		cmocka_unit_test(test_what_is_no_layer),
		cmocka_unit_test(test_the_newest_anchor_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
