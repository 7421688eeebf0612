/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the cleaner reads: few runs at a time beside users' puts, and over small gaps. And what it
 * does with a block that reads wrong. A watcher between layer and device sees what is submitted.
 * Blocks are put whole and the map is in memory, so all reads that it sees are the cleaner's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/flash/flash_bed.h"
#include "unit/group.h"

#define SEGMENT_BYTES (1U << 20)
/* Fewer that are free or on their way, and users may soon have to wait. */
#define NR_COMING_LEAST 5U

static struct watcher {
	const struct flash_device_ops *ops; /* the device's own */
	struct bed *bed;
	uint64_t nr_reads; /* submitted */
	uint64_t nr_reads_before;
	uint64_t at_once_max; /* reads, while segments were not short */
	uint64_t place;	      /* of a block, … */
	unsigned nr_over;     /* … and reads of others on both sides of it */
	uint64_t wrong;	      /* of a block that the next read finds to be another; 0: none */
	uint8_t right[FTL_BLOCK];
	void (*done)(struct flash_io *io); /* of that read */
} watcher;

static bool is_short(const struct bed *bed)
{
	struct ftl_stat stat;

	ftl_stat(bed->ftl, &stat);
	return stat.nr_by_state[FTL_SEGMENT_FREE] + stat.nr_by_state[FTL_SEGMENT_PENDING] +
		       stat.nr_by_state[FTL_SEGMENT_DISCARD] <
	       NR_COMING_LEAST;
}

static void watch_read(struct flash_device *device, const struct flash_io *io)
{
	struct flash_fake_counts counts;
	uint64_t at_once;

	flash_fake_counts(device, &counts);
	watcher.nr_reads++;
	at_once = watcher.nr_reads - (counts.nr_reads - watcher.nr_reads_before);
	if (at_once > watcher.at_once_max && !is_short(watcher.bed))
		watcher.at_once_max = at_once;
	watcher.nr_over +=
		io->offset < watcher.place && watcher.place + FTL_BLOCK < io->offset + io->length;
}

static void wrong_read(struct flash_io *io)
{
	assert_int_equal(
		flash_fake_poke(watcher.bed->device, watcher.wrong, watcher.right, FTL_BLOCK), 0);
	watcher.wrong = 0;
	io->done = watcher.done;
	io->done(io);
}

static void read_wrong(struct flash_device *device, struct flash_io *io)
{
	static const uint8_t noise[FTL_BLOCK] = {0xee};

	if (!watcher.wrong || watcher.done || io->offset > watcher.wrong ||
	    watcher.wrong + FTL_BLOCK > io->offset + io->length)
		return;
	flash_fake_peek(device, watcher.wrong, watcher.right, FTL_BLOCK);
	assert_int_equal(flash_fake_poke(device, watcher.wrong, noise, FTL_BLOCK), 0);
	watcher.done = io->done;
	io->done = wrong_read;
}

static void watch(struct flash_device *device, struct flash_io *io)
{
	if (io->opcode == FLASH_IO_READ) {
		watch_read(device, io);
		read_wrong(device, io);
	}
	watcher.ops->submit(device, io);
}

static void begin_watching(struct bed *bed, uint64_t place, uint64_t wrong)
{
	static struct flash_device_ops ops;
	struct flash_fake_counts counts;

	flash_fake_counts(bed->device, &counts);
	watcher = (struct watcher){.ops = bed->device->ops,
				   .bed = bed,
				   .place = place,
				   .wrong = wrong,
				   .nr_reads_before = counts.nr_reads};
	ops = *bed->device->ops;
	ops.submit = watch;
	bed->device->ops = &ops;
}

static void put_number(struct bed *bed, uint32_t lba, uint32_t number)
{
	uint32_t *data = flash_memory(FTL_BLOCK);

	memset(data, 0, FTL_BLOCK);
	data[0] = lba;
	data[1] = number;
	assert_int_equal(bed_put(bed, lba, 0, data, FTL_BLOCK), 0);
	free(data);
}

static void expect_number(struct bed *bed, uint32_t lba, uint32_t number)
{
	uint32_t *data = flash_memory(FTL_BLOCK);

	assert_int_equal(bed_get(bed, lba, 0, data, FTL_BLOCK), 0);
	assert_int_equal(data[0], lba);
	assert_int_equal(data[1], number);
	free(data);
}

/* A layer with most of its blocks in use, put in order. How many there are. */
static uint32_t open_filled(struct bed *bed)
{
	const struct flash_fake_options device = {
		.size = 40U << 20, .sector = 512, .seed = 1, .latency_max = 3};
	const struct ftl_options options = {.segment_bytes = SEGMENT_BYTES};
	struct ftl_stat stat;
	uint32_t nr;

	bed_open_with(bed, &device, &options);
	ftl_stat(bed->ftl, &stat);
	nr = (uint32_t)stat.capacity_blocks * 9 / 10;
	for (uint32_t lba = 0; lba < nr; lba++)
		put_number(bed, lba, 0);
	return nr;
}

static uint64_t place_of(struct bed *bed, uint32_t lba)
{
	uint32_t *data = flash_memory(FTL_BLOCK);
	uint64_t at = bed->device->size;

	do {
		assert_true(at > 0);
		at -= FTL_BLOCK;
		flash_fake_peek(bed->device, at, data, FTL_BLOCK);
	} while (data[0] != lba || data[1] != 0 || data[2] != 0);
	free(data);
	return at;
}

/* Puts all blocks anew but each `step`-th, so that segments are cleaned in which those are left. */
static void overwrite_between(struct bed *bed, uint32_t nr, unsigned step, uint64_t place,
			      uint64_t wrong, struct ftl_stat *stat)
{
	begin_watching(bed, place, wrong);
	for (uint32_t lba = 0; lba < nr; lba++) {
		if (lba % step)
			put_number(bed, lba, 1);
	}
	ftl_stat(bed->ftl, stat);
	bed->device->ops = watcher.ops;
	for (uint32_t lba = 0; lba < nr; lba++)
		expect_number(bed, lba, lba % step != 0);
	assert_int_equal(ftl_audit(bed->ftl), 0);
}

/* A batch has 64 blocks, each in a run of its own. */
static void test_few_reads_at_a_time(void **state)
{
	struct bed bed;
	struct ftl_stat stat;
	uint32_t nr = open_filled(&bed);

	(void)state;
	overwrite_between(&bed, nr, 4, 0, 0, &stat);
	assert_true(stat.moved_blocks > nr / 8);
	assert_true(watcher.nr_reads >= stat.moved_blocks);
	assert_in_range(watcher.at_once_max, 2, 16);
	bed_close(&bed);
}

/* Blocks in a gap are nobody's: one that cannot be read does no harm to those around it. */
static void test_gaps_are_read_over(void **state)
{
	struct flash_fake_fault fault = {
		.opcode = FLASH_IO_READ, .length = FTL_BLOCK, .error = -EIO, .nr = 1};
	struct bed bed;
	struct ftl_stat stat;
	uint32_t nr = open_filled(&bed);

	(void)state;
	fault.offset = place_of(&bed, nr / 2 | 1);
	assert_int_equal(flash_fake_fail(bed.device, &fault), 0);
	overwrite_between(&bed, nr, 2, fault.offset, 0, &stat);
	assert_true(stat.moved_blocks > nr / 4);
	assert_true(watcher.nr_reads < stat.moved_blocks / 4);
	assert_true(watcher.nr_over > 0);
	assert_int_equal(stat.read_errors, 0);
	assert_int_equal(stat.nr_by_state[FTL_SEGMENT_BAD], 0);
	bed_close(&bed);
}

/* The device says something else once: what is there stays there, and is found again. */
static void test_what_reads_wrong_is_not_moved(void **state)
{
	struct bed bed;
	struct ftl_stat stat;
	uint32_t nr = open_filled(&bed);

	(void)state;
	overwrite_between(&bed, nr, 4, 0, place_of(&bed, nr / 8 * 4), &stat);
	assert_non_null(watcher.done);
	assert_int_equal(stat.crc_errors, 1);
	assert_int_equal(stat.nr_by_state[FTL_SEGMENT_BAD], 1);
	bed_close(&bed);
}

TEST_GROUP(flash_cleaner)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_few_reads_at_a_time),
		cmocka_unit_test(test_gaps_are_read_over),
		cmocka_unit_test(test_what_reads_wrong_is_not_moved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
