/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages of the map that are damaged: their blocks are lost until they are written anew, and nothing
 * else is.
 */
#include "lib/flash/flash_bed.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "flash/format.h"
#include "flash/ftl_private.h"
#include "unit/group.h"

#define PAGE  FORMAT_PAGE_ENTRIES
#define PAGES 3U
#define RANGE 1U

/* Another range, for churn. */
#define CHURNED	    7U
#define CHURN	    1500U
#define CHURN_PAGES 3U

enum damage { UNREADABLE, FLIPPED, STALE, NR_DAMAGES };

static const struct flash_fake_options device_options = {
	.size = 16U << 20, .sector = 512, .seed = 1};
static const struct ftl_options layout_options = {.segment_bytes = 65536};

static uint8_t byte_of(uint32_t block)
{
	return (uint8_t)(1 + block % 251);
}

static int get_block(struct bed *bed, uint64_t lba)
{
	uint8_t *data = flash_memory(FTL_BLOCK);
	int ret = bed_get(bed, lba, 0, data, FTL_BLOCK);

	free(data);
	return ret;
}

static struct ftl_stat stat_of(struct bed *bed)
{
	struct ftl_stat stat;

	ftl_stat(bed->ftl, &stat);
	return stat;
}

/* Without looking at everything, which would read all pages. */
static void restart(struct bed *bed, bool is_orderly)
{
	if (is_orderly)
		assert_int_equal(ftl_close(bed->ftl), 0);
	else
		ftl_abandon(bed->ftl);
	assert_int_equal(ftl_open(bed->device, 0, &bed->ftl), 0);
}

/* Where the copy that counts of the block's page lies, in bytes. */
static uint64_t copy_at(struct bed *bed, uint64_t lba)
{
	const struct map *map = &bed->ftl->map;
	const struct map_page *page = map_find(map, lba);

	assert_non_null(page);
	return (map->first + 2 * (uint64_t)page->slot + map->slots[page->slot].copy) * FTL_BLOCK;
}

static void damage_at(struct bed *bed, uint64_t at, enum damage damage)
{
	struct flash_fake_fault fault = {
		.opcode = FLASH_IO_READ, .length = FTL_BLOCK, .error = -EIO, .offset = at};
	uint64_t first = (uint64_t)bed->ftl->map.first * FTL_BLOCK;
	uint8_t *data = flash_memory(FTL_BLOCK);

	if (damage == UNREADABLE) {
		assert_int_equal(flash_fake_fail(bed->device, &fault), 0);
	} else {
		/* Or what the older copy is, as if the newer one had not been written. */
		flash_fake_peek(bed->device,
				damage == STALE ? first + ((at - first) ^ FTL_BLOCK) : at, data,
				FTL_BLOCK);
		data[2000] ^= damage == FLIPPED ? 4 : 0;
		assert_int_equal(flash_fake_poke(bed->device, at, data, FTL_BLOCK), 0);
	}
	free(data);
}

/* The page is on the device, and not in memory. */
static void damage_page(struct bed *bed, uint64_t lba, enum damage damage)
{
	assert_false(map_is_loaded(map_find(&bed->ftl->map, lba)));
	damage_at(bed, copy_at(bed, lba), damage);
}

static int code_of(enum damage damage)
{
	return damage == UNREADABLE ? -EIO : -EBADMSG;
}

/*
 * Some pages, of which both copies were written, the older ones with other places; none is in
 * memory. Their blocks lie among those of another range, so that these leave no segment empty.
 */
static void open_full(struct bed *bed)
{
	bed_open_with(bed, &device_options, &layout_options);
	for (unsigned round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < PAGES * PAGE; i++) {
			bed_fill(bed, ftl_lba(RANGE, i), byte_of(i + 1 - round));
			if (i < CHURN)
				bed_fill(bed, ftl_lba(CHURNED, i), 1);
		}
		restart(bed, true);
	}
}

static void expect_page(struct bed *bed, uint32_t page, int ret)
{
	for (uint32_t i = page * PAGE; i < (page + 1) * PAGE; i++) {
		if (ret)
			assert_int_equal(get_block(bed, ftl_lba(RANGE, i)), ret);
		else
			bed_expect(bed, ftl_lba(RANGE, i), byte_of(i));
	}
}

/* Over and over, until nothing lies where it lay. */
static void churn(struct bed *bed, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		bed_fill(bed, ftl_lba(CHURNED, i * 7919U % CHURN), (uint8_t)i);
}

/* Others go on until the blocks that are nobody's any more are found. */
static void reclaim(struct bed *bed)
{
	for (unsigned i = 0; stat_of(bed).leaked_blocks; i++) {
		assert_true(i < 1000);
		bed_fill(bed, ftl_lba(CHURNED, i), (uint8_t)i);
	}
}

/* Reading gives nothing up: what passes has passed. */
static void test_reads_wait_for_better_times(void **state)
{
	struct bed bed;

	(void)state;
	bed_open_with(&bed, &device_options, &layout_options);
	bed_fill(&bed, ftl_lba(RANGE, 600), 7);
	bed_fill(&bed, ftl_lba(RANGE, 0), 8);
	restart(&bed, true);
	damage_page(&bed, ftl_lba(RANGE, 600), UNREADABLE);
	assert_int_equal(get_block(&bed, ftl_lba(RANGE, 600)), -EIO);
	assert_int_equal(get_block(&bed, ftl_lba(RANGE, 777)), -EIO);
	assert_int_equal(bed_put(&bed, ftl_lba(RANGE, 600), 9, "x", 1), -EIO);
	assert_int_equal(bed_clone(&bed, ftl_lba(RANGE, 600), ftl_lba(2, 0), 1, NULL), -EIO);
	bed_expect(&bed, ftl_lba(RANGE, 0), 8);
	flash_fake_heal(bed.device);
	bed_expect(&bed, ftl_lba(RANGE, 600), 7);
	bed_expect(&bed, ftl_lba(RANGE, 777), 0);
	assert_int_equal(stat_of(&bed).damaged_pages, 0);
	assert_int_equal(ftl_audit(bed.ftl), 0);
	bed_close(&bed);
}

static void test_a_page_is_read_twice(void **state)
{
	struct flash_fake_fault fault = {
		.opcode = FLASH_IO_READ, .length = FTL_BLOCK, .error = -EIO, .nr = 1};
	struct bed bed;

	(void)state;
	bed_open_with(&bed, &device_options, &layout_options);
	bed_fill(&bed, ftl_lba(RANGE, 600), 7);
	restart(&bed, true);
	fault.offset = copy_at(&bed, ftl_lba(RANGE, 600));
	assert_int_equal(flash_fake_fail(bed.device, &fault), 0);
	bed_fill(&bed, ftl_lba(RANGE, 601), 9);
	bed_expect(&bed, ftl_lba(RANGE, 600), 7);
	bed_close(&bed);
}

/*
 * One page of three: the others are as before; in it, what is written lives again, and the rest
 * stays lost.
 */
static void test_a_page_hurts_its_blocks_alone(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 2U * NR_DAMAGES; n++) {
		enum damage damage = n / 2;
		struct bed bed;

		open_full(&bed);
		damage_page(&bed, ftl_lba(RANGE, PAGE), damage);
		expect_page(&bed, 0, 0);
		expect_page(&bed, 1, code_of(damage));
		expect_page(&bed, 2, 0);
		assert_int_equal(ftl_audit(bed.ftl), 0);
		/* A whole block, part of another, and then of that one. */
		assert_int_equal(bed_put(&bed, ftl_lba(RANGE, PAGE + 5), 7, "x", 1),
				 code_of(damage));
		bed_fill(&bed, ftl_lba(RANGE, PAGE + 5), 0xaa);
		assert_int_equal(bed_put(&bed, ftl_lba(RANGE, PAGE + 6), 7, "x", 1),
				 code_of(damage));
		assert_int_equal(bed_put(&bed, ftl_lba(RANGE, PAGE + 5), 7, "\xaa", 1), 0);
		bed_expect(&bed, ftl_lba(RANGE, PAGE + 5), 0xaa);
		assert_int_equal(get_block(&bed, ftl_lba(RANGE, PAGE + 6)), code_of(damage));
		assert_int_equal(bed_clone(&bed, ftl_lba(RANGE, PAGE + 5), ftl_lba(4, 0), 2, NULL),
				 code_of(damage));
		bed_expect(&bed, ftl_lba(4, 1), 0);
		assert_int_equal(bed_trim(&bed, ftl_lba(RANGE, PAGE + 9), 2, NULL), 0);
		assert_int_equal(stat_of(&bed).damaged_pages, 1);
		assert_int_equal(stat_of(&bed).leaked_blocks, 3);
		assert_int_equal(ftl_audit(bed.ftl), 0);
		assert_int_equal(bed_sync(&bed), 0);
		/* Restarts by a checkpoint, or by the journal: what was given up once stays so. */
		restart(&bed, n % 2);
		flash_fake_heal(bed.device);
		restart(&bed, true);
		assert_int_equal(stat_of(&bed).damaged_pages, 1);
		assert_int_equal(ftl_audit(bed.ftl), 0);
		assert_int_equal(stat_of(&bed).damaged_pages, 1);
		assert_int_equal(get_block(&bed, ftl_lba(RANGE, PAGE + 6)), -EBADMSG);
		assert_int_equal(bed_put(&bed, ftl_lba(RANGE, PAGE + 6), 7, "x", 1), -EBADMSG);
		bed_expect(&bed, ftl_lba(RANGE, PAGE + 5), 0xaa);
		bed_expect(&bed, ftl_lba(RANGE, PAGE + 10), 0);
		expect_page(&bed, 0, 0);
		expect_page(&bed, 2, 0);
		/* The way out. */
		assert_int_equal(bed_trim(&bed, ftl_lba(RANGE, PAGE), PAGE, NULL), 0);
		for (uint32_t i = 0; i < PAGE; i++)
			bed_expect(&bed, ftl_lba(RANGE, PAGE + i), 0);
		assert_int_equal(stat_of(&bed).damaged_pages, 0);
		assert_int_equal(bed_sync(&bed), 0);
		restart(&bed, n % 2);
		assert_int_equal(stat_of(&bed).damaged_pages, 0);
		assert_int_equal(stat_of(&bed).map_slots_used, 2 + CHURN_PAGES);
		bed_fill(&bed, ftl_lba(RANGE, PAGE + 1), 0x77);
		expect_page(&bed, 0, 0);
		expect_page(&bed, 2, 0);
		assert_int_equal(ftl_audit(bed.ftl), 0);
		bed_close(&bed);
	}
}

/* A trim of all of it ends it at once. */
static void test_a_whole_page_is_trimmed(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 2U * NR_DAMAGES; n++) {
		struct bed bed;

		open_full(&bed);
		damage_page(&bed, ftl_lba(RANGE, PAGE), n / 2);
		assert_int_equal(bed_trim(&bed, ftl_lba(RANGE, PAGE - 9), PAGE + 9, NULL), 0);
		assert_int_equal(bed_sync(&bed), 0);
		restart(&bed, n % 2);
		for (uint32_t i = PAGE - 9; i < 2 * PAGE; i++)
			bed_expect(&bed, ftl_lba(RANGE, i), 0);
		expect_page(&bed, 2, 0);
		assert_int_equal(stat_of(&bed).damaged_pages, 0);
		assert_int_equal(ftl_audit(bed.ftl), 0);
		bed_close(&bed);
	}
}

/*
 * The cleaner moves what may be the lost blocks' on, at the cost of no segment; and finds out what
 * is nobody's.
 */
static void test_the_cleaner_keeps_what_it_cannot_know(void **state)
{
	(void)state;
	for (enum damage damage = 0; damage < NR_DAMAGES; damage++) {
		struct bed bed;

		open_full(&bed);
		damage_page(&bed, ftl_lba(RANGE, PAGE), damage);
		churn(&bed, 15000);
		assert_true(stat_of(&bed).segments_cleaned > 100);
		assert_int_equal(stat_of(&bed).nr_by_state[FTL_SEGMENT_BAD], 0);
		assert_int_equal(stat_of(&bed).used_blocks, PAGES * PAGE + CHURN);
		assert_int_equal(ftl_audit(bed.ftl), 0);
		restart(&bed, false);
		expect_page(&bed, 0, 0);
		expect_page(&bed, 2, 0);
		for (uint32_t i = PAGE; i < 2 * PAGE; i++)
			assert_true(get_block(&bed, ftl_lba(RANGE, i)) < 0);
		assert_int_equal(ftl_audit(bed.ftl), 0);
		assert_int_equal(bed_trim(&bed, ftl_lba(RANGE, PAGE), PAGE, NULL), 0);
		assert_int_equal(stat_of(&bed).leaked_blocks, PAGE);
		reclaim(&bed);
		assert_int_equal(stat_of(&bed).used_blocks, (PAGES - 1) * PAGE + CHURN);
		assert_int_equal(bed_sync(&bed), 0);
		restart(&bed, false);
		assert_int_equal(stat_of(&bed).leaked_blocks, 0);
		assert_int_equal(ftl_audit(bed.ftl), 0);
		expect_page(&bed, 0, 0);
		expect_page(&bed, 2, 0);
		bed_close(&bed);
	}
}

/*
 * The journal has blocks of the page, and segments that others of it left: it is opened, and has
 * what the journal says.
 */
static void test_recovery_meets_a_damaged_page(void **state)
{
	(void)state;
	for (enum damage damage = 0; damage < NR_DAMAGES; damage++) {
		struct bed bed;
		uint64_t generation;

		open_full(&bed);
		generation = bed.ftl->checkpoint.anchor.generation;
		for (unsigned round = 0; round < 8; round++) {
			for (uint32_t i = PAGE; i < PAGE + 400; i++)
				bed_fill(&bed, ftl_lba(RANGE, i), (uint8_t)(round + i));
		}
		assert_int_equal(bed_sync(&bed), 0);
		assert_int_equal(bed.ftl->checkpoint.anchor.generation, generation);
		damage_at(&bed, copy_at(&bed, ftl_lba(RANGE, PAGE)), damage);
		for (unsigned start = 0; start < 3; start++) {
			restart(&bed, start == 2);
			if (start == 0)
				assert_true(stat_of(&bed).replayed_records > 3000);
			for (uint32_t i = PAGE; i < PAGE + 400; i++)
				bed_expect(&bed, ftl_lba(RANGE, i), (uint8_t)(7 + i));
			for (uint32_t i = PAGE + 400; i < 2 * PAGE; i++)
				assert_int_equal(get_block(&bed, ftl_lba(RANGE, i)),
						 start ? -EBADMSG : code_of(damage));
			expect_page(&bed, 0, 0);
			expect_page(&bed, 2, 0);
			assert_int_equal(stat_of(&bed).damaged_pages, 1);
			assert_int_equal(ftl_audit(bed.ftl), 0);
			churn(&bed, 1000);
		}
		bed_close(&bed);
	}
}

/*
 * Some of those who share blocks are lost: the others live, go on sharing, and free what is theirs
 * alone.
 */
static void test_those_who_share_with_a_damaged_page(void **state)
{
	enum { NR = 200 };
	const uint32_t from = PAGE - NR / 2;

	(void)state;
	for (enum damage damage = 0; damage < NR_DAMAGES; damage++) {
		struct bed bed;

		open_full(&bed);
		for (unsigned copy = 2; copy < 4; copy++)
			assert_int_equal(bed_clone(&bed, ftl_lba(RANGE, from), ftl_lba(copy, from),
						   NR, NULL),
					 0);
		restart(&bed, true);
		damage_page(&bed, ftl_lba(RANGE, PAGE), damage);
		damage_page(&bed, ftl_lba(2, 0), damage);
		assert_int_equal(bed_clone(&bed, ftl_lba(RANGE, PAGE + 9), ftl_lba(9, 0), 9, NULL),
				 code_of(damage));
		/* The target may be damaged. */
		assert_int_equal(bed_clone(&bed, ftl_lba(3, from), ftl_lba(2, from), 100, NULL), 0);
		churn(&bed, 15000);
		for (uint32_t i = from; i < from + NR; i++) {
			bed_expect(&bed, ftl_lba(3, i), byte_of(i));
			if (i < PAGE)
				bed_expect(&bed, ftl_lba(RANGE, i), byte_of(i));
			if (i >= PAGE || i < from + 100)
				bed_expect(&bed, ftl_lba(2, i), byte_of(i));
			else
				assert_true(get_block(&bed, ftl_lba(2, i)) < 0);
		}
		assert_int_equal(ftl_audit(bed.ftl), 0);
		restart(&bed, false);
		assert_int_equal(ftl_audit(bed.ftl), 0);
		for (uint32_t copy = 1; copy < 4; copy++)
			assert_int_equal(bed_trim(&bed, ftl_lba(copy, 0), PAGES * PAGE, NULL), 0);
		assert_true(stat_of(&bed).leaked_blocks > 0);
		reclaim(&bed);
		assert_int_equal(stat_of(&bed).used_blocks, CHURN);
		assert_int_equal(stat_of(&bed).nr_by_state[FTL_SEGMENT_BAD], 0);
		assert_int_equal(ftl_audit(bed.ftl), 0);
		bed_close(&bed);
	}
}

/* RANGE's second page cannot be read, whose blocks range 2 has as well if they are shared. */
static void open_unreadable(struct bed *bed, bool is_shared)
{
	const uint64_t lba = ftl_lba(RANGE, PAGE);

	open_full(bed);
	if (is_shared)
		assert_int_equal(bed_clone(bed, lba, ftl_lba(2, PAGE), PAGE, NULL), 0);
	restart(bed, true);
	damage_page(bed, lba, UNREADABLE);
}

/*
 * The layer finds the blocks that are nobody's, all is made durable, power goes, and the device can
 * read the page again after all.
 */
static void reclaim_and_heal(struct bed *bed)
{
	reclaim(bed);
	assert_int_equal(bed_sync(bed), 0);
	flash_fake_heal(bed->device);
	restart(bed, false);
}

/*
 * The layer searches for what was given up, and releases it. Then power goes, and the device can
 * read the page again after all.
 */
static void test_a_page_is_readable_after_a_crash(void **state)
{
	(void)state;
	for (unsigned is_shared = 0; is_shared < 2; is_shared++) {
		struct bed bed;

		open_unreadable(&bed, is_shared);
		assert_int_equal(bed_trim(&bed, ftl_lba(RANGE, PAGE), PAGE, NULL), 0);
		assert_int_equal(stat_of(&bed).leaked_blocks, PAGE);
		reclaim_and_heal(&bed);
		for (uint32_t i = PAGE; i < 2 * PAGE; i++) {
			bed_expect(&bed, ftl_lba(RANGE, i), 0);
			if (is_shared)
				bed_expect(&bed, ftl_lba(2, i), byte_of(i));
		}
		assert_int_equal(ftl_audit(bed.ftl), 0);
		bed_close(&bed);
	}
}

/*
 * The crash comes after a put by which a block became nobody's. The record of the put is there, and
 * its data is not: the block is as it was.
 */
static void test_a_put_that_let_go_is_not_there_after_a_crash(void **state)
{
	struct flash_fake_fault fault = {.opcode = FLASH_IO_WRITE, .nr = 1};
	struct bed bed;

	(void)state;
	for (unsigned is_shared = 0; is_shared < 2; is_shared++) {
		open_unreadable(&bed, is_shared);
		fault.offset = (uint64_t)bed.ftl->segments.first * FTL_BLOCK;
		fault.length = device_options.size - fault.offset;
		assert_int_equal(flash_fake_fail(bed.device, &fault), 0);
		bed_fill(&bed, ftl_lba(RANGE, PAGE), 0xaa);
		assert_int_equal(bed_trim(&bed, ftl_lba(RANGE, PAGE + 1), PAGE - 1, NULL), 0);
		reclaim_and_heal(&bed);
		assert_int_equal(stat_of(&bed).dropped_records, 1);
		bed_expect(&bed, ftl_lba(RANGE, PAGE), byte_of(PAGE));
		assert_int_equal(ftl_audit(bed.ftl), 0);
		bed_fill(&bed, ftl_lba(RANGE, PAGE), 0xbb);
		bed_expect(&bed, ftl_lba(RANGE, PAGE), 0xbb);
		if (is_shared)
			bed_expect(&bed, ftl_lba(2, PAGE), byte_of(PAGE));
		assert_int_equal(ftl_audit(bed.ftl), 0);
		bed_close(&bed);
	}
}

static uint32_t free_place(struct bed *bed)
{
	const struct segments *segments = &bed->ftl->segments;

	return segment_place(segments, cds_list_first_entry(&segments->free, struct segment, node),
			     3);
}

/* Its sum is right, but one entry is of a block that nobody has: that one is lost. */
static void test_an_entry_contradicts_the_segments(void **state)
{
	struct format_page page;
	struct bed bed;
	uint64_t at;

	(void)state;
	for (unsigned n = 0; n < 2; n++) {
		open_full(&bed);
		at = copy_at(&bed, ftl_lba(RANGE, PAGE));
		flash_fake_peek(bed.device, at, &page, sizeof(page));
		page.entries[17].place = n ? 12 : free_place(&bed);
		page.crc = 0;
		page.crc = checksum_crc32c(&page, sizeof(page));
		assert_int_equal(flash_fake_poke(bed.device, at, &page, sizeof(page)), 0);
		for (uint32_t i = PAGE; i < 2 * PAGE; i++) {
			if (i == PAGE + 17)
				assert_int_equal(get_block(&bed, ftl_lba(RANGE, i)), -EBADMSG);
			else
				bed_expect(&bed, ftl_lba(RANGE, i), byte_of(i));
		}
		assert_int_equal(stat_of(&bed).damaged_pages, 1);
		bed_fill(&bed, ftl_lba(RANGE, PAGE + 17), byte_of(PAGE + 17));
		expect_page(&bed, 1, 0);
		assert_int_equal(stat_of(&bed).damaged_pages, 0);
		assert_int_equal(bed_sync(&bed), 0);
		restart(&bed, n);
		expect_page(&bed, 1, 0);
		assert_int_equal(ftl_audit(bed.ftl), 0);
		bed_close(&bed);
	}
}

/* A writer pays for the far pages that it writes, not for the way there. */
static void test_far_blocks_cost_little(void **state)
{
	const uint32_t ranges[] = {0, 5, 1000000, FTL_NR_RANGES - 1};
	const uint32_t blocks[] = {0, 4000000000U, UINT32_MAX};
	uint64_t before, at = 0;
	struct bed bed;

	(void)state;
	bed_open_with(&bed, &device_options, &layout_options);
	before = stat_of(&bed).map_bytes;
	for (unsigned n = 0; n < 12; n++)
		bed_fill(&bed, ftl_lba(ranges[n / 3], blocks[n % 3]), (uint8_t)(1 + n));
	assert_true(stat_of(&bed).map_bytes - before < 12 * 16384 + 4 * 300000 + 600000);
	restart(&bed, true);
	for (unsigned n = 0; n < 12; n++) {
		bed_expect(&bed, ftl_lba(ranges[n / 3], blocks[n % 3]), (uint8_t)(1 + n));
		at = ftl_next(bed.ftl, at);
		assert_int_equal(at, ftl_lba(ranges[n / 3], blocks[n % 3] / PAGE * PAGE));
		at = map_page_end(at);
	}
	assert_int_equal(ftl_next(bed.ftl, at), FTL_NONE);
	for (unsigned n = 0; n < 12; n++)
		assert_int_equal(bed_trim(&bed, ftl_lba(ranges[n / 3], blocks[n % 3]), 1, NULL), 0);
	restart(&bed, true);
	assert_int_equal(ftl_next(bed.ftl, 0), FTL_NONE);
	bed_close(&bed);
}

/* ---- anything, with damage again and again */

enum { RANGES = 3, BLOCKS = 700, ROUNDS = 60, STEPS = 40 };

/* Each block's contents, and whether it may be lost, or is old or new. */
static struct {
	uint8_t byte;
	bool may_be_lost;
	bool may_be_any;
	bool is_cloned; /* since the start: what was lost of the source may be lost of it */
} model[RANGES][BLOCKS];

static void set_model(uint32_t range, uint32_t block, uint8_t byte)
{
	memset(&model[range][block], 0, sizeof(model[range][block]));
	model[range][block].byte = byte;
}

static void random_clone(struct bed *bed, uint32_t from, uint32_t to, uint32_t block, uint32_t nr)
{
	int ret = bed_clone(bed, ftl_lba(from, block), ftl_lba(to, block), nr, NULL);
	bool has_lost = false;

	for (uint32_t i = block; i < block + nr; i++) {
		has_lost = has_lost || model[from][i].may_be_lost || model[from][i].may_be_any;
		model[to][i] = model[from][i];
		model[to][i].is_cloned = true;
		model[to][i].may_be_any = model[to][i].may_be_any || ret;
	}
	if (ret) {
		assert_int_equal(ret, -EBADMSG);
		assert_true(has_lost);
	}
}

static void random_step(struct bed *bed, unsigned *dice)
{
	uint32_t range = (uint32_t)rand_r(dice) % RANGES, block = (uint32_t)rand_r(dice) % BLOCKS;
	uint32_t nr = 1 + (uint32_t)rand_r(dice) % 40, to = (uint32_t)rand_r(dice) % RANGES;
	uint8_t byte = (uint8_t)rand_r(dice);
	int kind = rand_r(dice) % 8;

	if (nr > BLOCKS - block)
		nr = BLOCKS - block;
	if (kind == 1 && to != range) {
		random_clone(bed, range, to, block, nr);
		return;
	}
	if (kind == 0)
		assert_int_equal(bed_trim(bed, ftl_lba(range, block), nr, NULL), 0);
	for (uint32_t i = 0; i < nr; i++) {
		if (kind)
			bed_fill(bed, ftl_lba(range, block + i), byte);
		set_model(range, block + i, kind ? byte : 0);
	}
}

static unsigned random_check(struct bed *bed)
{
	uint8_t *data = flash_memory(FTL_BLOCK);
	unsigned nr_lost = 0;

	for (uint32_t n = 0; n < RANGES * BLOCKS; n++) {
		uint32_t range = n / BLOCKS, block = n % BLOCKS;
		int ret = bed_get(bed, ftl_lba(range, block), 0, data, FTL_BLOCK);

		nr_lost += ret != 0;
		if (ret && (ret != -EBADMSG ||
			    (!model[range][block].may_be_lost && !model[range][block].may_be_any)))
			fail_msg("block %u of range %u is lost: %d", block, range, ret);
		if (!ret && !model[range][block].may_be_any &&
		    (data[0] != model[range][block].byte || data[4095] != data[0]))
			fail_msg("block %u of range %u is %#x, not %#x", block, range, data[0],
				 model[range][block].byte);
	}
	free(data);
	assert_int_equal(ftl_audit(bed->ftl), 0);
	return nr_lost;
}

/*
 * One of the pages that have a copy; what the journal says since is lost with the copy for those
 * who were cloned alone.
 */
static void random_damage(struct bed *bed, unsigned *dice)
{
	uint32_t range = (uint32_t)rand_r(dice) % RANGES, number = (uint32_t)rand_r(dice) % 2;
	const struct map_page *page = map_find(&bed->ftl->map, ftl_lba(range, number * PAGE));

	if (!page || !bed->ftl->map.slots[page->slot].generation)
		return;
	damage_at(bed, copy_at(bed, ftl_lba(range, number * PAGE)), FLIPPED);
	for (uint32_t n = 0; n < RANGES * BLOCKS; n++) {
		bool is_there = n / BLOCKS == range && n % BLOCKS / PAGE == number;

		if (is_there || model[n / BLOCKS][n % BLOCKS].is_cloned)
			model[n / BLOCKS][n % BLOCKS].may_be_lost = true;
	}
}

static void anything_with_damage(unsigned dice)
{
	const struct flash_fake_options device = {.size = 24U << 20, .sector = 512, .seed = 1};
	uint64_t nr_cleaned = 0;
	unsigned nr_lost = 0;
	struct bed bed;

	memset(model, 0, sizeof(model));
	bed_open_with(&bed, &device, &layout_options);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < STEPS; i++)
			random_step(&bed, &dice);
		nr_lost += random_check(&bed);
		assert_int_equal(bed_sync(&bed), 0);
		nr_cleaned += stat_of(&bed).segments_cleaned;
		random_damage(&bed, &dice);
		restart(&bed, round % 3 == 0);
		for (uint32_t n = 0; n < RANGES * BLOCKS; n++)
			model[n / BLOCKS][n % BLOCKS].is_cloned = false;
		if (rand_r(&dice) % 2)
			nr_lost += random_check(&bed);
	}
	assert_true(nr_lost > 0);
	assert_true(nr_cleaned > 0);
	assert_int_equal(stat_of(&bed).nr_by_state[FTL_SEGMENT_BAD], 0);
	bed_close(&bed);
}

static void test_anything_with_damage(void **state)
{
	/* The second of those runs out of room, and the last has clones of what was damaged. */
	const unsigned dices[] = {1, 55, 500};

	(void)state;
	for (unsigned i = 0; i < sizeof(dices) / sizeof(dices[0]); i++)
		anything_with_damage(dices[i]);
}

TEST_GROUP(flash_map)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_wait_for_better_times),
		cmocka_unit_test(test_a_page_is_read_twice),
		cmocka_unit_test(test_a_page_hurts_its_blocks_alone),
		cmocka_unit_test(test_a_whole_page_is_trimmed),
		cmocka_unit_test(test_the_cleaner_keeps_what_it_cannot_know),
		cmocka_unit_test(test_recovery_meets_a_damaged_page),
		cmocka_unit_test(test_those_who_share_with_a_damaged_page),
		cmocka_unit_test(test_a_page_is_readable_after_a_crash),
		cmocka_unit_test(test_a_put_that_let_go_is_not_there_after_a_crash),
		cmocka_unit_test(test_an_entry_contradicts_the_segments),
		cmocka_unit_test(test_far_blocks_cost_little),
		cmocka_unit_test(test_anything_with_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
