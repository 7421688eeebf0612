/* SPDX-License-Identifier: BSD-3-Clause */
/* The translation layer where history is damaged, and where everything that is limited is at its limit at once. */
#include "flash_bed.h"

#include "flash/format.h"
#include "flash/ftl_private.h"

static struct format_superblock superblock_of(struct bed *bed)
{
	struct format_superblock superblock;

	flash_fake_peek(bed->device, 0, &superblock, sizeof(superblock));
	return superblock;
}

static uint64_t journal_offset(struct bed *bed, uint64_t sequence)
{
	struct format_superblock superblock = superblock_of(bed);

	return (superblock.journal_at + sequence % superblock.journal_blocks) * FTL_BLOCK;
}

static unsigned newest_anchor(struct bed *bed)
{
	struct format_anchor anchors[2];

	for (unsigned i = 0; i < 2; i++)
		flash_fake_peek(bed->device, (1 + i) * FTL_BLOCK, &anchors[i], sizeof(anchors[i]));
	return anchors[1].generation > anchors[0].generation;
}

/* A block of the journal in the midst of what was synced: what is behind it must not be dropped without a word. */
static void test_the_journal_is_damaged_in_its_midst(void **state)
{
	struct bed bed;
	uint64_t sequence;

	(void)state;
	for (unsigned bad = 0; bad < 9; bad++) {
		bed_open(&bed);
		sequence = bed.ftl->journal.sequence;
		for (unsigned i = 0; i < 10; i++) {
			bed_fill(&bed, i, (uint8_t)(1 + i));
			assert_int_equal(bed_sync(&bed), 0);
		}
		ftl_abandon(bed.ftl);
		assert_int_equal(flash_fake_poke(bed.device,
						 journal_offset(&bed, sequence + bad) + 99, "x", 1),
				 0);
		assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), -EBADMSG);
		flash_device_close(bed.device);
	}
}

/* One that is not needed does not matter; one that may be is told. */
static void test_the_journal_cannot_be_read(void **state)
{
	struct flash_fake_fault fault = {
		.opcode = FLASH_IO_READ, .length = FTL_BLOCK, .error = -EIO};
	struct bed bed;
	uint64_t sequence;

	(void)state;
	bed_open(&bed);
	for (unsigned i = 0; i < 3; i++)
		bed_fill(&bed, i, (uint8_t)(1 + i));
	assert_int_equal(bed_sync(&bed), 0);
	sequence = bed.ftl->journal.sequence;
	ftl_abandon(bed.ftl);
	fault.offset = journal_offset(&bed, sequence - 1);
	assert_int_equal(flash_fake_fail(bed.device, &fault), 0);
	assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), -EIO);
	flash_fake_heal(bed.device);
	fault.offset = journal_offset(&bed, sequence + 1);
	assert_int_equal(flash_fake_fail(bed.device, &fault), 0);
	assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), 0);
	for (unsigned i = 0; i < 3; i++)
		bed_expect(&bed, i, (uint8_t)(1 + i));
	bed_close(&bed);
}

/* The anchor before the newest is of another epoch: what came after it must not be dropped without a word. */
static void test_the_newest_anchor_is_lost_after_a_start(void **state)
{
	struct bed bed;

	(void)state;
	for (unsigned is_orderly = 0; is_orderly < 2; is_orderly++) {
		bed_open(&bed);
		bed_fill(&bed, 1, 0x11);
		assert_int_equal(bed_sync(&bed), 0);
		bed_reopen(&bed, is_orderly);
		bed_fill(&bed, 1, 0x22);
		assert_int_equal(bed_sync(&bed), 0);
		ftl_abandon(bed.ftl);
		assert_int_equal(
			flash_fake_poke(bed.device, (1 + newest_anchor(&bed)) * FTL_BLOCK, "x", 1),
			0);
		assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), -EBADMSG);
		flash_device_close(bed.device);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_journal_is_damaged_in_its_midst),
		cmocka_unit_test(test_the_journal_cannot_be_read),
		cmocka_unit_test(test_the_newest_anchor_is_lost_after_a_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
