/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The translation layer where history is damaged, and where everything that is limited is at its
 * limit at once.
 */
#include "lib/flash/flash_bed.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "flash/device/superblock.h"
#include "flash/format.h"
#include "flash/ftl_private.h"
#include "unit/group.h"

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

/* Polls until all have ended; fails the test if they never do. */
static void wait_all(struct bed *bed, const struct bed_request *requests, unsigned nr)
{
	for (unsigned i = 0, polls = 0; i < nr; polls++) {
		if (requests[i].has_ended) {
			i++;
			continue;
		}
		assert_true(ftl_poll(bed->ftl, 0) >= 0);
		if (polls > 2000000)
			fail_msg("request %u of %u never ends", i, nr);
	}
}

/*
 * A block of the journal in the midst of what was synced: what is behind it must not be dropped
 * without a word.
 */
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

/* The anchor before the newest is of another epoch: what came after it is found. */
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
		assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), 0);
		bed_expect(&bed, 1, 0x22);
		bed_reopen(&bed, is_orderly);
		bed_expect(&bed, 1, 0x22);
		bed_close(&bed);
	}
}

/* A clone whose record says that it is done, of a put whose data is gone. */
static void test_a_clone_that_is_done_has_its_data(void **state)
{
	const struct ftl_record_change change = {.id = 7, .data = "done"};
	uint8_t *data = flash_memory(FTL_BLOCK), *wanted = flash_memory(FTL_BLOCK);
	struct bed bed;
	uint32_t place;
	int ret;

	(void)state;
	bed_open(&bed);
	bed_fill(&bed, 1, 0x11);
	assert_int_equal(bed_sync(&bed), 0);
	bed_fill(&bed, 1, 0x22);
	assert_int_equal(bed_clone(&bed, 1, ftl_lba(3, 1), 1, &change), 0);
	place = map_entry(map_find(&bed.ftl->map, 1), 1)->place;
	assert_int_equal(bed_sync(&bed), 0);
	ftl_abandon(bed.ftl);
	/* Overwrites the block, as if it had not survived. */
	assert_int_equal(flash_fake_poke(bed.device, (uint64_t)place * FTL_BLOCK, "lost", 4), 0);
	assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), 0);
	memset(wanted, 0x22, FTL_BLOCK);
	ret = bed_get(&bed, ftl_lba(3, 1), 0, data, FTL_BLOCK);
	if (ftl_record(bed.ftl, 7) && ret != -EBADMSG)
		assert_memory_equal(data, wanted, FTL_BLOCK);
	bed_close(&bed);
	free(data);
	free(wanted);
}

/*
 * Users have reserved what the journal has room for, and wait for a segment; the cleaner needs room
 * in the journal for that.
 */
static void test_the_journal_is_full_of_reservations(void **state)
{
	const struct flash_fake_options device = {.size = 32U << 20, .sector = 4096, .seed = 3};
	const struct ftl_options options = {.segment_bytes = 1U << 20, .journal_blocks = 16};
	enum { NR = 30, BLOCKS = 128 };
	uint8_t *data = flash_memory((size_t)BLOCKS * FTL_BLOCK);
	struct bed_request *requests = calloc(NR, sizeof(*requests));
	struct ftl_stat stat;
	struct bed bed;

	(void)state;
	bed_open_with(&bed, &device, &options);
	ftl_stat(bed.ftl, &stat);
	memset(data, 1, (size_t)BLOCKS * FTL_BLOCK);
	for (uint32_t i = 0; i < stat.capacity_blocks; i++)
		assert_int_equal(bed_put(&bed, i, 0, data, FTL_BLOCK), 0);
	for (uint32_t i = 0; i < 4 * stat.capacity_blocks; i++)
		assert_int_equal(
			bed_put(&bed, i * 7919ULL % stat.capacity_blocks, 0, data, FTL_BLOCK), 0);
	for (unsigned round = 0; round < 10; round++) {
		for (unsigned i = 0; i < NR; i++)
			bed_begin_put(&bed, &requests[i], (uint64_t)i * BLOCKS, 0, data,
				      (size_t)BLOCKS * FTL_BLOCK);
		wait_all(&bed, requests, NR);
		for (unsigned i = 0; i < NR; i++)
			assert_int_equal(requests[i].put.result, 0);
	}
	bed_close(&bed);
	free(requests);
	free(data);
}

/*
 * No segment can be written any more, but all else can: everybody hears of it, nobody waits
 * forever.
 */
static void test_no_segment_can_be_written(void **state)
{
	struct flash_fake_fault fault = {.opcode = FLASH_IO_WRITE, .error = -EIO};
	struct format_superblock superblock;
	uint8_t *data = flash_memory(FTL_BLOCK);
	struct ftl_stat stat;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	ftl_stat(bed.ftl, &stat);
	memset(data, 1, FTL_BLOCK);
	for (uint32_t i = 0; i < 3 * stat.capacity_blocks; i++)
		assert_int_equal(
			bed_put(&bed, i * 7919ULL % stat.capacity_blocks, 0, data, FTL_BLOCK), 0);
	superblock = superblock_of(&bed);
	fault.offset = (uint64_t)superblock.segments_at * FTL_BLOCK;
	fault.length = (uint64_t)superblock.nr_segments * superblock.segment_blocks * FTL_BLOCK;
	assert_int_equal(flash_fake_fail(bed.device, &fault), 0);
	for (unsigned i = 0; i < 200; i++) {
		struct bed_request request;

		bed_begin_put(&bed, &request, i, 0, data, FTL_BLOCK);
		wait_all(&bed, &request, 1);
		assert_true(request.put.result < 0);
	}
	for (uint32_t i = 0; i < stat.capacity_blocks; i++)
		bed_expect(&bed, i, 1);
	assert_int_equal(bed_sync(&bed), 0);
	ftl_close(bed.ftl);
	flash_device_close(bed.device);
	free(data);
}

static char order_of_end[4];
static unsigned nr_ended;

static void told(struct ftl_trim *trim)
{
	order_of_end[nr_ended++] = "Rab"[trim->change ? 0 : trim->lba == 1 ? 1 : 2];
	bed_trim_done(trim);
}

/* A change of a record, and a trim that was submitted behind it. */
static void test_records_are_not_overtaken(void **state)
{
	const struct flash_fake_options device = {
		.size = 8U << 20, .sector = 512, .seed = 1, .latency_max = 20};
	const struct ftl_options options = {.segment_bytes = 65536};
	const struct ftl_record_change change = {.id = 7, .data = "intent"};
	uint8_t *data = flash_memory(FTL_BLOCK);
	struct bed_request put, trims[3] = {0};
	struct bed bed;

	(void)state;
	bed_open_with(&bed, &device, &options);
	memset(data, 1, FTL_BLOCK);
	bed_fill(&bed, ftl_lba(2, 0), 9);
	bed_begin_put(&bed, &put, 1, 0, data, FTL_BLOCK);
	trims[0].trim = (struct ftl_trim){.lba = 1, .count = 1, .done = told};
	trims[1].trim = (struct ftl_trim){.change = &change, .done = told};
	trims[2].trim = (struct ftl_trim){.lba = ftl_lba(2, 0), .count = 1, .done = told};
	for (unsigned i = 0; i < 3; i++)
		ftl_trim(bed.ftl, &trims[i].trim);
	wait_all(&bed, trims, 3);
	assert_string_equal(order_of_end, "aRb");
	bed_wait(&bed, &put);
	bed_close(&bed);
	free(data);
}

/* Lists are few: a segment that only waits to be free has none, so users do not wait for its. */
static void test_what_is_to_be_free_has_no_list(void **state)
{
	const struct flash_fake_options device = {
		.size = 8U << 20, .sector = 4096, .seed = 3, .latency_max = 40};
	const struct ftl_options options = {.segment_bytes = 32768, .journal_blocks = 256};
	enum { NR = 64 };
	uint8_t *data = flash_memory(FTL_BLOCK);
	struct bed_request requests[NR] = {0};
	struct bed bed;
	unsigned nr_pending = 0;

	(void)state;
	bed_open_with(&bed, &device, &options);
	memset(data, 1, FTL_BLOCK);
	for (unsigned begun = 0; begun < 2000;) {
		const struct segments *segments = &bed.ftl->segments;

		for (unsigned i = 0; i < NR; i++) {
			if (begun >= NR && !requests[i].has_ended)
				continue;
			bed_begin_put(&bed, &requests[i], i, 0, data, FTL_BLOCK);
			begun++;
		}
		assert_true(ftl_poll(bed.ftl, 0) >= 0);
		for (uint32_t i = 0; i < segments->nr; i++) {
			if (segments->at[i].state != FTL_SEGMENT_PENDING)
				continue;
			assert_null(segments->at[i].lbas);
			nr_pending++;
		}
	}
	assert_true(nr_pending > 0);
	wait_all(&bed, requests, NR);
	bed_close(&bed);
	free(data);
}

/* The generation's low half, which pages carry, goes through zero. */
static void test_generations_wrap(void **state)
{
	struct bed bed;

	(void)state;
	bed_open(&bed);
	bed.ftl->checkpoint.anchor.generation |= 0xfffffff8;
	for (unsigned i = 0; i < 14; i++) {
		bed_fill(&bed, ftl_lba(i, 0), (uint8_t)(1 + i));
		assert_int_equal(checkpoint_write_now(bed.ftl), 0);
	}
	assert_true(bed.ftl->checkpoint.anchor.generation >> 32);
	bed_reopen(&bed, true);
	for (unsigned i = 0; i < 14; i++)
		bed_expect(&bed, ftl_lba(i, 0), (uint8_t)(1 + i));
	bed_close(&bed);
}

/* The layer has failed and makes no room in the journal any more: syncs end. */
static void test_syncs_end_when_all_is_over(void **state)
{
	struct bed_request request = {0};
	struct bed bed;

	(void)state;
	bed_open(&bed);
	bed_fill(&bed, 1, 0x11);
	bed.ftl->journal.reserved += bed.ftl->journal.nr_blocks * 254;
	ftl_fail(bed.ftl, -EIO);
	request.sync = (struct ftl_sync){.count = FTL_ALL, .done = bed_sync_done};
	ftl_sync(bed.ftl, &request.sync);
	wait_all(&bed, &request, 1);
	assert_int_equal(request.sync.result, -EIO);
	assert_int_equal(ftl_close(bed.ftl), -EIO);
	flash_device_close(bed.device);
}

/* Forgotten in the midst of a checkpoint: what is in flight ends, and nothing follows it. */
static void test_what_is_abandoned_commits_nothing(void **state)
{
	const struct flash_fake_options device = {
		.size = 8U << 20, .sector = 512, .seed = 1, .latency_max = 20};
	const struct ftl_options options = {.segment_bytes = 65536};
	struct format_anchor before, after;
	unsigned newest;
	struct bed bed;

	(void)state;
	bed_open_with(&bed, &device, &options);
	bed_fill(&bed, 1, 0x11);
	assert_int_equal(bed_sync(&bed), 0);
	newest = newest_anchor(&bed);
	flash_fake_peek(bed.device, (2 - newest) * FTL_BLOCK, &before, sizeof(before));
	bed.ftl->checkpoint.is_wanted = true;
	while (bed.ftl->checkpoint.stage != CHECKPOINT_FLUSHING)
		assert_true(ftl_poll(bed.ftl, 0) >= 0);
	ftl_abandon(bed.ftl);
	assert_int_equal(newest_anchor(&bed), newest);
	flash_fake_peek(bed.device, (2 - newest) * FTL_BLOCK, &after, sizeof(after));
	assert_memory_equal(&before, &after, sizeof(after));
	assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), 0);
	bed_expect(&bed, 1, 0x11);
	bed_close(&bed);
}

/* A device of 20 TiB of zeros, but for two blocks. */
struct vast {
	struct flash_device device;
	struct cds_list_head ended;
	struct {
		uint64_t offset;
		char bytes[FTL_BLOCK];
	} blocks[2];
};

static void vast_submit(struct flash_device *device, struct flash_io *io)
{
	struct vast *vast = caa_container_of(device, struct vast, device);

	io->result = 0;
	for (unsigned i = 0; i < 2 && io->opcode != FLASH_IO_FLUSH; i++) {
		if (vast->blocks[i].offset != io->offset)
			continue;
		if (io->opcode == FLASH_IO_WRITE)
			memcpy(vast->blocks[i].bytes, io->iov->iov_base, FTL_BLOCK);
		else
			memcpy(io->iov->iov_base, vast->blocks[i].bytes, FTL_BLOCK);
	}
	cds_list_add_tail(&io->node, &vast->ended);
}

static int vast_poll(struct flash_device *device, int timeout_ms)
{
	(void)timeout_ms;
	return flash_device_end_all(&caa_container_of(device, struct vast, device)->ended);
}

/* More than places have bits for: the copy of the superblock is found all the same. */
static void test_the_superblock_of_a_vast_device(void **state)
{
	static const struct flash_device_ops ops = {.submit = vast_submit, .poll = vast_poll};
	const struct ftl_options usual = {0};
	struct vast *vast = calloc(1, sizeof(*vast));
	struct format_superblock made, found;

	(void)state;
	CDS_INIT_LIST_HEAD(&vast->ended);
	vast->device = (struct flash_device){&ops, UINT64_C(20) << 40, 4096, 0, 1};
	assert_int_equal(superblock_plan(&vast->device, &usual, &made), 0);
	assert_true(made.nr_blocks < vast->device.size / FTL_BLOCK);
	vast->blocks[1].offset = (made.nr_blocks - 1) * FTL_BLOCK;
	assert_int_equal(superblock_write(&vast->device, &made), 0);
	vast->blocks[0].bytes[40] ^= 1;
	assert_int_equal(superblock_read(&vast->device, &found), 0);
	assert_memory_equal(found.uuid, made.uuid, sizeof(made.uuid));
	free(vast);
}

TEST_GROUP(flash_damage)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_journal_is_damaged_in_its_midst),
		cmocka_unit_test(test_the_journal_cannot_be_read),
		cmocka_unit_test(test_the_newest_anchor_is_lost_after_a_start),
		cmocka_unit_test(test_a_clone_that_is_done_has_its_data),
		cmocka_unit_test(test_the_journal_is_full_of_reservations),
		cmocka_unit_test(test_no_segment_can_be_written),
		cmocka_unit_test(test_records_are_not_overtaken),
		cmocka_unit_test(test_what_is_to_be_free_has_no_list),
		cmocka_unit_test(test_generations_wrap),
		cmocka_unit_test(test_syncs_end_when_all_is_over),
		cmocka_unit_test(test_what_is_abandoned_commits_nothing),
		cmocka_unit_test(test_the_superblock_of_a_vast_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
