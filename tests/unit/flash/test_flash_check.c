/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The offline check: what is whole is said to be, each kind of damage is found where it is, and
 * nothing is written.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "flash/format.h"
#include "flash/upkeep/check.h"
#include "lib/flash/flash_space_bed.h"
#include "unit/group.h"

#define NR_BLOCKS 700U

static struct bed bed;
static struct format_superblock layout;
static uint64_t found_at[CHECK_NR_AREAS];
static char found_what[CHECK_NR_AREAS][256];

static const struct ftl_options small_layout = {
	.segment_bytes = 64U << 10, .journal_blocks = 64, .nr_records = 20};

static void on_finding(void *context, enum check_area area, uint64_t at, const char *what)
{
	(void)context;
	assert_true(*what);
	found_at[area] = at;
	snprintf(found_what[area], sizeof(found_what[area]), "%s", what);
}

static int check(struct check_report *report)
{
	const struct check_options options = {.with_data = true, .finding = on_finding};
	struct flash_fake_counts before, after;
	int ret;

	flash_fake_counts(bed.device, &before);
	ret = check_device(bed.device, &options, report);
	flash_fake_counts(bed.device, &after);
	assert_int_equal(after.nr_writes, before.nr_writes);
	assert_int_equal(after.nr_discards, before.nr_discards);
	return ret;
}

static void expect_clean(void)
{
	struct check_report report;

	assert_int_equal(check(&report), 0);
	for (unsigned area = 0; area < CHECK_NR_AREAS; area++) {
		if (report.nr_findings[area])
			fail_msg("%s: at %lu", check_area_name(area),
				 (unsigned long)found_at[area]);
	}
	assert_int_equal(report.nr_all, 0);
	assert_true(report.is_open);
}

/* Findings in this area, and in none else. */
static void expect_findings(enum check_area area, uint64_t nr, uint64_t at)
{
	struct check_report report;

	assert_int_equal(check(&report), 0);
	for (unsigned other = 0; other < CHECK_NR_AREAS; other++) {
		if (report.nr_findings[other] != (other == area ? nr : 0))
			fail_msg("%s: %lu findings", check_area_name(other),
				 (unsigned long)report.nr_findings[other]);
	}
	assert_int_equal(found_at[area], at);
}

/*
 * A layer with a checkpoint, full segments, and a journal of some blocks behind, as a crash leaves
 * it.
 */
static int set_up(void **state)
{
	uint32_t id = 0;

	(void)state;
	space_bed_open(&bed, &space_bed_device, &small_layout);
	assert_int_equal(range_create(&bed, "a", SPACE_ANYWHERE, NR_BLOCKS, &id), 0);
	for (uint32_t block = 0; block < NR_BLOCKS; block++)
		assert_int_equal(put_word(&bed, ftl_lba(id, block), 1000 + block), 0);
	space_bed_reopen(&bed);
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(put_word(&bed, ftl_lba(id, i), 2000 + i), 0);
		assert_int_equal(range_reserve(&bed, id, 100 + i), 0);
	}
	ftl_abandon(bed.ftl);
	space_close(bed.space);
	flash_fake_peek(bed.device, 0, &layout, sizeof(layout));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	flash_device_close(bed.device);
	return 0;
}

static void flip(uint64_t block, uint32_t at)
{
	uint8_t byte;

	flash_fake_peek(bed.device, block * FORMAT_BLOCK + at, &byte, 1);
	byte ^= 0x40;
	assert_int_equal(flash_fake_poke(bed.device, block * FORMAT_BLOCK + at, &byte, 1), 0);
}

static struct format_anchor anchor_of(uint64_t copy)
{
	struct format_anchor anchor;

	flash_fake_peek(bed.device, (FORMAT_ANCHOR_AT + copy) * FORMAT_BLOCK, &anchor,
			sizeof(anchor));
	return anchor;
}

static uint64_t newest(void)
{
	return anchor_of(1).generation > anchor_of(0).generation;
}

static void superblocks(void **state)
{
	struct check_report report;

	(void)state;
	expect_clean();
	flip(0, 50);
	expect_findings(CHECK_SUPERBLOCK, 1, 0);
	flip(0, 50);
	flip(layout.nr_blocks - 1, 20);
	expect_findings(CHECK_SUPERBLOCK, 1, layout.nr_blocks - 1);
	flip(0, 50);
	assert_int_equal(check(&report), -EBADMSG);
	flip(0, 50);
	flip(layout.nr_blocks - 1, 20);
	for (uint32_t at = 0; at < 12; at++) { /* what it is, and which version */
		flip(0, at);
		expect_findings(CHECK_SUPERBLOCK, 1, 0);
		flip(0, at);
	}
	flip(0, 0); /* neither is one of ours any more */
	flip(layout.nr_blocks - 1, 0);
	assert_int_equal(check(&report), -EINVAL);
	flip(layout.nr_blocks - 1,
	     0); /* one is, but damaged: nobody is to hear that there is none */
	flip(layout.nr_blocks - 1, 20);
	assert_int_equal(check(&report), -EBADMSG);
}

static void anchors(void **state)
{
	uint64_t older = FORMAT_ANCHOR_AT + !newest();

	(void)state;
	flip(older, 30);
	expect_findings(CHECK_ANCHOR, 1, older);
}

static void tables(void **state)
{
	struct check_report report;
	uint64_t at = layout.tables_at + newest() * layout.tables_blocks;

	(void)state;
	flip(at, 60);
	expect_findings(CHECK_RECOVERY, 1, at);
	/* Those before are damaged, too. */
	flip(layout.tables_at + !newest() * layout.tables_blocks, 60);
	assert_int_equal(check(&report), 0);
	assert_int_equal(report.nr_findings[CHECK_RECOVERY], 1);
	assert_false(report.is_open);
}

static void journal(void **state)
{
	struct check_report report;
	uint64_t first = anchor_of(newest()).sequence % layout.journal_blocks;

	(void)state;
	/* One of those that others behind it say were flushed. */
	flip(layout.journal_at + (first + 2) % layout.journal_blocks, 3000);
	assert_int_equal(check(&report), 0);
	assert_int_equal(report.nr_findings[CHECK_JOURNAL], 1);
	assert_int_equal(found_at[CHECK_JOURNAL],
			 layout.journal_at + (first + 2) % layout.journal_blocks);
}

/*
 * Finds the copy that counts of the page of block 510, which the journal does not change: that with
 * the higher generation.
 */
static uint64_t page_at(void)
{
	static struct format_page page[2];

	for (uint64_t at = layout.map_at; at < layout.segments_at; at += 2) {
		flash_fake_peek(bed.device, at * FORMAT_BLOCK, page, sizeof(page));
		if (page[0].page == 1 || page[1].page == 1)
			return at + (page[1].generation > page[0].generation);
	}
	fail_msg("the page is not on the device");
	return 0;
}

static void map_pages(void **state)
{
	struct check_report report;
	uint64_t at = page_at();

	(void)state;
	flip(at, 2000);
	expect_findings(CHECK_MAP, 1, at);
	assert_non_null(strstr(found_what[CHECK_MAP], "blocks 510 to 1019 of range 0: their page"));
	/* The check tells of what was given up, too, and of what leaked by that; and then it is
	 * over. */
	assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), 0);
	assert_int_equal(space_open(bed.ftl, &bed.space), 0);
	assert_int_equal(put_word(&bed, ftl_lba(0, 600), 1), 0);
	space_bed_close_layer(&bed);
	assert_int_equal(check(&report), 0);
	assert_int_equal(report.nr_all, 1);
	assert_int_equal(report.nr_findings[CHECK_MAP], 1);
	assert_non_null(strstr(found_what[CHECK_MAP], "blocks 510 to 1019 of range 0: where 509"));
	assert_int_equal(report.stat.damaged_pages, 1);
	assert_int_equal(report.stat.leaked_blocks, 1);
	assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), 0);
	assert_int_equal(space_open(bed.ftl, &bed.space), 0);
	assert_int_equal(range_shrink(&bed, 0, 510), 0);
	space_bed_close_layer(&bed);
	assert_int_equal(check(&report), 0);
	assert_int_equal(report.nr_all, 0);
	assert_int_equal(report.stat.damaged_pages, 0);
}

/* An entry that the sum of its page does not contradict, but the segments do. */
static void map_entries(void **state)
{
	struct format_page page;
	uint64_t at = page_at();
	struct check_report report;

	(void)state;
	flash_fake_peek(bed.device, at * FORMAT_BLOCK, &page, sizeof(page));
	page.entries[3].place = 7;
	page.crc = 0;
	page.crc = checksum_crc32c(&page, sizeof(page));
	assert_int_equal(flash_fake_poke(bed.device, at * FORMAT_BLOCK, &page, sizeof(page)), 0);
	assert_int_equal(check(&report), 0);
	assert_int_equal(report.nr_all, 1);
	assert_int_equal(report.nr_findings[CHECK_MAP], 1);
}

/* The first segment that has a summary. */
static void summaries(void **state)
{
	struct format_summary head;
	uint64_t at = 0;

	(void)state;
	for (uint32_t i = 0; i < layout.nr_segments; i++) {
		at = layout.segments_at + (i + 1) * (uint64_t)layout.segment_blocks - 1;
		flash_fake_peek(bed.device, at * FORMAT_BLOCK, &head, sizeof(head));
		if (head.crc && head.segment == i)
			break;
	}
	flip(at, 100);
	expect_findings(CHECK_SUMMARY, 1, at);
}

static void data_blocks(void **state)
{
	uint64_t words[2];

	(void)state;
	for (uint64_t at = layout.segments_at; at < layout.nr_blocks - 1; at++) {
		flash_fake_peek(bed.device, at * FORMAT_BLOCK + 512, words, sizeof(words));
		if (words[0] == 1000 + 333 && words[1] == words[0])
			flip(at, 7);
	}
	expect_findings(CHECK_DATA, 1, ftl_lba(0, 333));
}

static void ranges(void **state)
{
	static const uint8_t zeros[FTL_RECORD_BYTES];
	struct format_journal_header header;
	struct format_record records[FORMAT_JOURNAL_RECORDS];
	uint32_t seed = checksum_crc32c(layout.uuid, sizeof(layout.uuid));
	uint8_t block[FORMAT_BLOCK];

	(void)state;
	/*
	 * Has the journal's last record of a range, which takes four slots, say that it has no
	 * blocks.
	 */
	for (uint32_t i = 0; i < layout.journal_blocks; i++) {
		uint64_t at = (layout.journal_at + i) * (uint64_t)FORMAT_BLOCK;

		flash_fake_peek(bed.device, at, block, sizeof(block));
		memcpy(&header, block, sizeof(header));
		memcpy(records, block + sizeof(header), sizeof(records));
		for (uint32_t n = 0; n + 3 < header.nr_records && n < FORMAT_JOURNAL_RECORDS; n++) {
			if (records[n].subject >> FORMAT_LBA_BITS == FORMAT_KEEP)
				memcpy(&records[n + 1], zeros, sizeof(zeros));
		}
		memcpy(block + sizeof(header), records, sizeof(records));
		header.crc = 0;
		memcpy(block, &header, sizeof(header));
		header.crc = checksum_crc32c_seeded(seed, block, sizeof(block));
		memcpy(block, &header, sizeof(header));
		assert_int_equal(flash_fake_poke(bed.device, at, block, sizeof(block)), 0);
	}
	expect_findings(CHECK_RANGES, 1, 0);
}

static bool always(void *context)
{
	(void)context;
	return true;
}

static void it_can_be_cancelled(void **state)
{
	const struct check_options options = {
		.with_data = true, .finding = on_finding, .is_cancelled = always};
	struct check_report report;

	(void)state;
	assert_int_equal(check_device(bed.device, &options, &report), -ECANCELED);
}

TEST_GROUP(flash_check)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(superblocks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(anchors, set_up, tear_down),
		cmocka_unit_test_setup_teardown(tables, set_up, tear_down),
		cmocka_unit_test_setup_teardown(journal, set_up, tear_down),
		cmocka_unit_test_setup_teardown(map_pages, set_up, tear_down),
		cmocka_unit_test_setup_teardown(map_entries, set_up, tear_down),
		cmocka_unit_test_setup_teardown(summaries, set_up, tear_down),
		cmocka_unit_test_setup_teardown(data_blocks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ranges, set_up, tear_down),
		cmocka_unit_test_setup_teardown(it_can_be_cancelled, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("flash_check", tests, NULL, NULL);
}
