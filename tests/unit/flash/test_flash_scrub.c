/* SPDX-License-Identifier: BSD-3-Clause */
/* The scrub: what it finds, how fast it goes by a clock of the test's, and where it goes on. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "flash/upkeep/scrub.h"
#include "lib/flash/flash_space_bed.h"
#include "unit/group.h"

#define SECOND	  UINT64_C(1000000000)
#define NR_BLOCKS 1100U /* of three pages of the map */
#define READ	  65536U

struct found {
	unsigned nr;
	uint64_t lba;
	int error;
};

static struct bed bed;
static struct scrub *scrub;
static struct found found;

static void on_bad(void *context, uint64_t lba, int error)
{
	struct found *into = context;

	into->nr++;
	into->lba = lba;
	into->error = error;
}

static struct scrub_options once = {.is_once = true, .bad = on_bad, .context = &found};

static uint64_t word_of(uint32_t block)
{
	return UINT64_C(0x1122334400000000) + block;
}

static int set_up(void **state)
{
	(void)state;
	space_bed_open(&bed, &space_bed_device, &space_bed_layout);
	for (uint32_t block = 0; block < NR_BLOCKS; block++)
		assert_int_equal(put_word(&bed, ftl_lba(3, block), word_of(block)), 0);
	found = (struct found){0};
	scrub = NULL;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	space_bed_close(&bed);
	return 0;
}

/* Lets what is in flight end. */
static void finish_reads(void)
{
	while (scrub_is_busy(scrub))
		assert_true(ftl_poll(bed.ftl, -1) >= 0);
}

static void scrub_all(const struct scrub_options *options)
{
	assert_int_equal(scrub_open(bed.ftl, options, &scrub), 0);
	while (!scrub_has_ended(scrub)) {
		scrub_progress(scrub, 0);
		finish_reads();
	}
	scrub_close(scrub);
}

/* Where the newest copy of the block with this word lies on the device. */
static uint64_t offset_of(uint64_t word)
{
	uint64_t here[2];

	for (uint64_t offset = 0; offset < bed.device->size; offset += FTL_BLOCK) {
		flash_fake_peek(bed.device, offset + 1024, here, sizeof(here));
		if (here[0] == word && here[1] == word)
			return offset;
	}
	fail_msg("block %lx is not on the device", (unsigned long)word);
	return 0;
}

static void flip_byte(uint64_t offset)
{
	uint8_t byte;

	flash_fake_peek(bed.device, offset, &byte, 1);
	byte ^= 0x10;
	assert_int_equal(flash_fake_poke(bed.device, offset, &byte, 1), 0);
}

static void nothing_is_wrong(void **state)
{
	struct scrub_stat stat;

	(void)state;
	for (unsigned depth = 1; depth <= 100; depth *= 10) {
		once.depth = depth;
		assert_int_equal(scrub_open(bed.ftl, &once, &scrub), 0);
		while (!scrub_has_ended(scrub)) {
			assert_true(scrub_progress(scrub, 0) == SCRUB_NEVER);
			finish_reads();
		}
		scrub_stat(scrub, &stat);
		scrub_close(scrub);
		assert_int_equal(found.nr, 0);
		assert_int_equal(stat.nr_bad, 0);
		assert_in_range(stat.nr_blocks, NR_BLOCKS, 3 * 510 + 16);
	}
	once.depth = 0;
}

static void changed_blocks_are_found(void **state)
{
	static const uint32_t blocks[] = {0, 509, 510, 777, NR_BLOCKS - 1};

	(void)state;
	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		uint64_t offset = offset_of(word_of(blocks[i]));

		found = (struct found){0};
		flip_byte(offset + 4000);
		scrub_all(&once);
		assert_int_equal(found.nr, 1);
		assert_int_equal(found.lba, ftl_lba(3, blocks[i]));
		assert_int_equal(found.error, -EBADMSG);
		flip_byte(offset + 4000);
	}
}

/* Two blocks that changed places are each as they were written, and are not whose they are. */
static void swapped_blocks_are_found(void **state)
{
	uint64_t one = offset_of(word_of(5)), other = offset_of(word_of(6));
	char bytes[FTL_BLOCK], others[FTL_BLOCK];

	(void)state;
	flash_fake_peek(bed.device, one, bytes, sizeof(bytes));
	flash_fake_peek(bed.device, other, others, sizeof(others));
	assert_int_equal(flash_fake_poke(bed.device, one, others, sizeof(others)), 0);
	assert_int_equal(flash_fake_poke(bed.device, other, bytes, sizeof(bytes)), 0);
	scrub_all(&once);
	assert_int_equal(found.nr, 2);
}

static void unreadable_blocks_are_found(void **state)
{
	const struct flash_fake_fault fault = {.opcode = FLASH_IO_READ,
					       .offset = offset_of(word_of(700)),
					       .length = FTL_BLOCK,
					       .error = -EIO};

	(void)state;
	assert_int_equal(flash_fake_fail(bed.device, &fault), 0);
	scrub_all(&once);
	assert_int_equal(found.nr, 1);
	assert_int_equal(found.lba, ftl_lba(3, 700));
	assert_int_equal(found.error, -EIO);
	flash_fake_heal(bed.device);
}

static uint64_t reads(void)
{
	struct flash_fake_counts counts;

	flash_fake_counts(bed.device, &counts);
	return counts.bytes_read;
}

/*
 * One read a second, whatever happens in between; and what was not read in a pause is not made up
 * for.
 */
static void it_goes_no_faster_than_it_may(void **state)
{
	struct scrub_options options = {.bytes_per_s = READ, .depth = 4};
	uint64_t now = 7 * SECOND, before;

	(void)state;
	assert_int_equal(scrub_open(bed.ftl, &options, &scrub), 0);
	for (unsigned second = 0; second < 20; second++) {
		before = reads();
		assert_int_equal(scrub_progress(scrub, now), now + SECOND);
		finish_reads();
		assert_int_equal(reads() - before, READ);
		assert_int_equal(scrub_progress(scrub, now + SECOND - 1), now + SECOND);
		assert_false(scrub_is_busy(scrub));
		now += second == 10 ? 100 * SECOND : SECOND;
	}
	scrub_stop(scrub);
	finish_reads();
	scrub_close(scrub);
}

static void it_goes_on_where_it_stood(void **state)
{
	struct scrub_options options = {.bad = on_bad, .context = &found};
	struct scrub_stat stat, again;
	unsigned nr = 0;

	(void)state;
	flip_byte(offset_of(word_of(1000)) + 1);
	assert_int_equal(scrub_open(bed.ftl, &options, &scrub), 0);
	for (unsigned i = 0; i < 20; i++) {
		scrub_progress(scrub, 0);
		finish_reads();
	}
	scrub_stop(scrub);
	assert_true(scrub_progress(scrub, SECOND) == SCRUB_NEVER);
	finish_reads();
	scrub_stat(scrub, &stat);
	assert_int_equal(stat.position, ftl_lba(3, 20 * 16));
	assert_int_equal(found.nr, 0);
	scrub_close(scrub);
	space_bed_reopen(&bed);
	assert_int_equal(scrub_open(bed.ftl, &options, &scrub), 0);
	scrub_stat(scrub, &again);
	assert_int_equal(again.position, stat.position);
	assert_int_equal(again.nr_blocks, stat.nr_blocks);
	do {
		scrub_progress(scrub, 0);
		finish_reads();
		scrub_stat(scrub, &stat);
		nr++;
	} while (!stat.passes && nr < 1000);
	assert_int_equal(stat.passes, 1);
	assert_int_equal(stat.position, 0);
	assert_int_equal(stat.last_bad, 1);
	assert_int_equal(found.lba, ftl_lba(3, 1000));
	/* The next pass comes after a pause. */
	assert_int_equal(scrub_progress(scrub, 5), SECOND);
	assert_false(scrub_is_busy(scrub));
	scrub_close(scrub);
}

/* The scrub has not looked at what it is reading when it stops. */
static void it_reads_again_what_it_did_not_see(void **state)
{
	struct scrub_options options = {.depth = 3};
	struct scrub_stat stat;

	(void)state;
	assert_int_equal(scrub_open(bed.ftl, &options, &scrub), 0);
	for (unsigned i = 0; i < 5; i++) {
		scrub_progress(scrub, 0);
		finish_reads();
	}
	scrub_progress(scrub, 0);
	scrub_stop(scrub);
	finish_reads();
	scrub_close(scrub);
	assert_int_equal(scrub_open(bed.ftl, &options, &scrub), 0);
	scrub_stat(scrub, &stat);
	assert_int_equal(stat.position, ftl_lba(3, 5 * 3 * 16));
	scrub_close(scrub);
}

/*
 * After a crash it goes on from where it last kept how far it was, and never beyond what was looked
 * at.
 */
static void it_keeps_how_far_it_is(void **state)
{
	struct scrub_options options = {.keep_blocks = 64, .depth = 3};
	struct ftl_stat before, after;
	struct scrub_stat stat;

	(void)state;
	assert_int_equal(scrub_open(bed.ftl, &options, &scrub), 0);
	ftl_stat(bed.ftl, &before);
	for (unsigned i = 0; i < 10; i++) {
		scrub_progress(scrub, 0);
		finish_reads();
	}
	ftl_stat(bed.ftl, &after);
	assert_in_range(after.trims - before.trims, 4, 10);
	scrub_close(scrub);
	assert_int_equal(scrub_open(bed.ftl, &options, &scrub), 0);
	scrub_stat(scrub, &stat);
	assert_in_range(stat.position, ftl_lba(3, 300), ftl_lba(3, 480));
	scrub_close(scrub);
}

/* The scrub takes neither writers nor the cleaner, who moves, for damage, and they are served. */
static void nobody_is_in_the_way(void **state)
{
	struct scrub_options options = {.bad = on_bad, .context = &found};
	uint64_t now = 0;

	(void)state;
	assert_int_equal(scrub_open(bed.ftl, &options, &scrub), 0);
	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t block = i * 7919 % NR_BLOCKS;

		scrub_progress(scrub, now += SECOND / 100);
		assert_int_equal(put_word(&bed, ftl_lba(3, block), word_of(i)), 0);
		assert_int_equal(get_word(&bed, ftl_lba(3, block)), word_of(i));
	}
	scrub_stop(scrub);
	finish_reads();
	assert_int_equal(found.nr, 0);
	scrub_close(scrub);
}

static void nothing_to_read(void **state)
{
	struct scrub_options options = {.pause_ns = 5 * SECOND};
	struct scrub_stat stat;

	(void)state;
	assert_int_equal(ftl_next(bed.ftl, 0), ftl_lba(3, 0));
	assert_int_equal(ftl_next(bed.ftl, ftl_lba(3, 5)), ftl_lba(3, 5));
	assert_true(ftl_next(bed.ftl, ftl_lba(3, 510 * 3)) == FTL_NONE);
	assert_true(ftl_next(bed.ftl, ftl_lba(4, 0)) == FTL_NONE);
	assert_true(ftl_next(bed.ftl, FTL_NONE) == FTL_NONE);
	space_bed_close(&bed);
	space_bed_open(&bed, &space_bed_device, &space_bed_layout);
	assert_true(ftl_next(bed.ftl, 0) == FTL_NONE);
	assert_int_equal(scrub_open(bed.ftl, &options, &scrub), 0);
	assert_int_equal(scrub_progress(scrub, 0), 5 * SECOND);
	finish_reads();
	assert_int_equal(scrub_progress(scrub, 5 * SECOND), 10 * SECOND);
	finish_reads();
	scrub_stat(scrub, &stat);
	assert_int_equal(stat.passes, 2);
	scrub_close(scrub);
}

TEST_GROUP(flash_scrub)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_wrong, set_up, tear_down),
		cmocka_unit_test_setup_teardown(changed_blocks_are_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(swapped_blocks_are_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(unreadable_blocks_are_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(it_goes_no_faster_than_it_may, set_up, tear_down),
		cmocka_unit_test_setup_teardown(it_goes_on_where_it_stood, set_up, tear_down),
		cmocka_unit_test_setup_teardown(it_reads_again_what_it_did_not_see, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(it_keeps_how_far_it_is, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nobody_is_in_the_way, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nothing_to_read, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("flash_scrub", tests, NULL, NULL);
}
