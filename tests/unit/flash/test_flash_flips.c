/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One block of a small layer is damaged: a bit flips, or the block becomes zeros. Whatever block that is, each block that can be
 * read afterwards is right, also after the layer was opened for good, or repaired. A check finds what has an effect. With
 * AFAR_THOROUGH every block of the device has its turn.
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
#include "flash/ftl_private.h"
#include "flash/log/checkpoint.h"
#include "flash/upkeep/check.h"
#include "flash/upkeep/repair.h"
#include "lib/base/effort.h"
#include "unit/group.h"

#define SIZE	  (2U << 20)
#define NR_RANGES 6U
#define NR_EACH	  4U /* blocks of a range, all in one page of the map */
#define NR_BLOCKS (NR_RANGES * NR_EACH)

enum ending { CLOSED, FORGOTTEN, RECOVERED, RECOVERED_TWICE, CUT_SHORT, NR_ENDINGS };

static struct bed bed;
static uint8_t expected[NR_BLOCKS]; /* 0: never written, or trimmed */
static uint8_t image[SIZE];
static struct {
	unsigned nr, nr_refused, nr_lost, nr_repaired, nr_given_up;
} counts;

static uint64_t lba_of(unsigned i)
{
	return ftl_lba(i / NR_EACH, i % NR_EACH);
}

/* ---- A layer with a history */

static void change(unsigned i, unsigned round)
{
	if (round % 7 == 3) {
		assert_int_equal(bed_trim(&bed, lba_of(i), 1, NULL), 0);
		expected[i] = 0;
	} else {
		expected[i] = (uint8_t)(round % 255 + 1);
		bed_fill(&bed, lba_of(i), expected[i]);
	}
	assert_int_equal(bed_sync(&bed), 0);
}

/* The first ranges change all the time, the last ones long ago. */
static void write_history(unsigned nr, unsigned *round)
{
	for (unsigned i = 0; i < nr; i++, ++*round)
		change(*round < NR_BLOCKS ? *round : *round * 5 % (NR_BLOCKS / 2), *round);
}

/* Does what a store does when it has a rest. */
static void rest(void)
{
	ftl_tell_synced(bed.ftl);
	while (flash_device_poll(bed.device, -1) > 0)
		;
}

static void make_layer(enum ending ending, unsigned nr_changes)
{
	const struct flash_fake_options device = {.size = SIZE,
						  .sector = 512,
						  .seed = 1,
						  .latency_max = ending == CUT_SHORT ? 20 : 1};
	const struct ftl_options options = {
		.segment_bytes = 65536, .journal_blocks = 16, .nr_map_pages = 8};
	unsigned round = 0;

	memset(expected, 0, sizeof(expected));
	bed_open_with(&bed, &device, &options);
	write_history(nr_changes, &round);
	for (unsigned i = RECOVERED; i <= (unsigned)ending && i <= RECOVERED_TWICE; i++) {
		rest();
		bed_reopen(&bed, false);
		write_history(3, &round);
	}
	rest();
	if (ending == CUT_SHORT) {
		bed.ftl->checkpoint.is_wanted = true;
		while (bed.ftl->checkpoint.stage != CHECKPOINT_FLUSHING)
			assert_true(ftl_poll(bed.ftl, 0) >= 0);
	}
	if (ending == CLOSED)
		assert_int_equal(ftl_close(bed.ftl), 0);
	else
		ftl_abandon(bed.ftl);
	flash_fake_peek(bed.device, 0, image, SIZE);
}

/* ---- What is to be true */

static void on_finding(void *context, enum check_area area, uint64_t at, const char *what)
{
	(void)context;
	(void)area;
	(void)at;
	assert_true(*what);
}

static uint64_t nr_lost_blocks;

static void on_lost(void *context, uint64_t at, const struct space_owner *owner, uint32_t range,
		    uint32_t first, uint32_t last)
{
	(void)context;
	(void)at;
	(void)owner;
	assert_true(range < NR_RANGES);
	assert_true(first <= last);
	nr_lost_blocks += last - first + 1;
}

static uint64_t check(void)
{
	const struct check_options options = {.with_data = true, .finding = on_finding};
	struct check_report report;

	return check_device(bed.device, &options, &report) ? 1 : report.nr_all;
}

/* Returns how many blocks cannot be read. */
static unsigned expect_all(uint64_t block)
{
	uint8_t *data = flash_memory(FTL_BLOCK);
	unsigned nr_bad = 0;

	for (unsigned i = 0; i < NR_BLOCKS; i++) {
		int ret = bed_get(&bed, lba_of(i), 0, data, FTL_BLOCK);

		if (ret == 0 && (data[0] != expected[i] || memcmp(data, data + 1, FTL_BLOCK - 1)))
			fail_msg("block %lu is damaged, and %u of range %u is %u, not %u",
				 (unsigned long)block, i % NR_EACH, i / NR_EACH, data[0],
				 expected[i]);
		if (ret)
			assert_int_equal(ret, -EBADMSG);
		nr_bad += ret != 0;
	}
	free(data);
	return nr_bad;
}

static int repair(bool is_dry)
{
	const struct repair_options options = {
		.is_dry = is_dry, .finding = on_finding, .lost = on_lost};
	struct flash_fake_counts before, after;
	struct repair_report report;
	int ret;

	nr_lost_blocks = 0;
	flash_fake_counts(bed.device, &before);
	ret = repair_device(bed.device, &options, &report);
	flash_fake_counts(bed.device, &after);
	if (is_dry)
		assert_int_equal(after.nr_writes, before.nr_writes);
	if (ret == 0)
		assert_int_equal(report.nr_lost, nr_lost_blocks);
	return ret;
}

/* Opened for good, and once more, what cannot be read is no more than before. */
static void go_on(uint64_t block, unsigned nr_bad)
{
	uint64_t lba = lba_of(0);

	assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), 0);
	assert_true(expect_all(block) <= nr_bad);
	bed_fill(&bed, lba, 0xee);
	assert_int_equal(bed_sync(&bed), 0);
	ftl_abandon(bed.ftl);
	assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), 0);
	bed_expect(&bed, lba, 0xee);
	bed_fill(&bed, lba, expected[0]);
	if (!expected[0])
		assert_int_equal(bed_trim(&bed, lba, 1, NULL), 0);
	assert_true(expect_all(block) <= nr_bad);
	assert_int_equal(ftl_close(bed.ftl), 0);
}

static void try(uint64_t block)
{
	int ret = ftl_open(bed.device, FTL_READ_ONLY, &bed.ftl);
	unsigned nr_bad = 0;

	counts.nr++;
	if (ret) {
		assert_int_equal(ret, -EBADMSG);
		counts.nr_refused++;
	} else {
		nr_bad = expect_all(block);
		ftl_abandon(bed.ftl);
	}
	counts.nr_lost += nr_bad > 0;
	if ((ret || nr_bad) && check() == 0)
		fail_msg("block %lu is damaged, and a check says that all is well",
			 (unsigned long)block);
	ret = repair(true);
	if (ret) {
		assert_int_equal(ret, -EBADMSG);
		assert_int_equal(repair(false), ret);
		assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), -EBADMSG);
		return;
	}
	assert_int_equal(repair(false), 0);
	counts.nr_repaired++;
	counts.nr_given_up += nr_lost_blocks > 0;
	go_on(block, nr_bad + (unsigned)nr_lost_blocks);
	if (nr_bad == 0)
		assert_int_equal(repair(true), 0);
}

/* `at` beyond the block: it becomes zeros. */
static void damage_more(uint64_t block, unsigned at)
{
	uint8_t bytes[FTL_BLOCK];

	memcpy(bytes, &image[block * FTL_BLOCK], FTL_BLOCK);
	if (at < FTL_BLOCK)
		bytes[at] ^= (uint8_t)(1U << at % 8);
	else
		memset(bytes, 0, FTL_BLOCK);
	assert_int_equal(flash_fake_poke(bed.device, block * FTL_BLOCK, bytes, FTL_BLOCK), 0);
}

static void damage(uint64_t block, unsigned at)
{
	assert_int_equal(flash_fake_poke(bed.device, 0, image, SIZE), 0);
	damage_more(block, at);
}

static void any_block(void **state)
{
	const unsigned step = (unsigned)test_effort(4000, 4000, 500);

	(void)state;
	for (unsigned ending = 0; ending < NR_ENDINGS; ending++) {
		struct format_superblock layout;
		uint64_t nr_blocks = SIZE / FTL_BLOCK;

		make_layer(ending, 90);
		memcpy(&layout, image, sizeof(layout));
		counts.nr = counts.nr_refused = counts.nr_lost = counts.nr_repaired = 0;
		for (uint64_t block = 0; block < nr_blocks; block++) {
			if (block == layout.segments_at && test_effort(1, 0, 0))
				block = nr_blocks - 1;
			for (unsigned at = 20; at < FTL_BLOCK + step; at += step) {
				damage(block, at);
				try(block);
			}
		}
		print_message("%u: %u damaged, %u refused, %u lost blocks, %u repaired\n", ending,
			      counts.nr, counts.nr_refused, counts.nr_lost, counts.nr_repaired);
		assert_true(counts.nr_refused < counts.nr);
		flash_device_close(bed.device);
	}
}

/* The newest anchor or its tables are damaged, and so is a page of the map. The layer is not opened before somebody has given up
 * the page's blocks. */
static void a_page_of_the_older_checkpoint(void **state)
{
	(void)state;
	counts.nr_refused = counts.nr_given_up = counts.nr_lost = 0;
	for (unsigned nr = 90; nr < 98; nr++) {
		struct format_superblock layout;
		struct format_anchor newest;

		make_layer(nr % 3 ? FORGOTTEN : RECOVERED, nr);
		memcpy(&layout, image, sizeof(layout));
		assert_int_equal(anchor_read(bed.device, &layout, &newest), 0);
		for (uint64_t page = layout.map_at; page < layout.segments_at; page++) {
			for (unsigned with_tables = 0; with_tables < 2; with_tables++) {
				damage(with_tables ? tables_at(&layout, newest.generation)
						   : anchor_at(newest.generation),
				       FTL_BLOCK);
				damage_more(page, FTL_BLOCK);
				try(page);
			}
		}
		flash_device_close(bed.device);
	}
	print_message("%u refused, of which %u were repaired by giving blocks up\n",
		      counts.nr_refused, counts.nr_given_up);
	assert_true(counts.nr_given_up > 0);
	assert_int_equal(counts.nr_lost, 0);
}

/* The newest anchor cannot be read, so the other one serves; the opening is cut short, and then the device has the anchor again. */
static void an_anchor_that_comes_back(void **state)
{
	unsigned nr_cut = 0;

	(void)state;
	for (unsigned nr = 90; nr < 98; nr++) {
		for (unsigned nr_written = 0; nr_written < 12; nr_written++) {
			const struct flash_fake_fault fault = {.opcode = FLASH_IO_WRITE,
							       .length = SIZE,
							       .error = -EIO,
							       .skip = nr_written};
			struct format_superblock layout;
			struct format_anchor newest;
			uint64_t at;

			make_layer(FORGOTTEN, nr);
			memcpy(&layout, image, sizeof(layout));
			assert_int_equal(anchor_read(bed.device, &layout, &newest), 0);
			at = anchor_at(newest.generation);
			damage(at, FTL_BLOCK);
			assert_int_equal(flash_fake_fail(bed.device, &fault), 0);
			if (ftl_open(bed.device, 0, &bed.ftl) == 0)
				ftl_abandon(bed.ftl);
			else
				nr_cut++;
			flash_fake_heal(bed.device);
			assert_int_equal(flash_fake_poke(bed.device, at * FTL_BLOCK,
							 &image[at * FTL_BLOCK], FTL_BLOCK),
					 0);
			if (ftl_open(bed.device, FTL_READ_ONLY, &bed.ftl) == 0) {
				expect_all(at);
				assert_int_equal(ftl_audit(bed.ftl), 0);
				ftl_abandon(bed.ftl);
			}
			flash_device_close(bed.device);
		}
	}
	print_message("%u openings were cut short\n", nr_cut);
	assert_true(nr_cut > 0);
}

TEST_GROUP(flash_flips)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_block),
		cmocka_unit_test(a_page_of_the_older_checkpoint),
		cmocka_unit_test(an_anchor_that_comes_back),
	};

	return cmocka_run_group_tests_name("flash_flips", tests, NULL, NULL);
}
