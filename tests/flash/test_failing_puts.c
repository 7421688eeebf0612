/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts with a sync behind each, on a device whose segments cannot be written for a while. The
 * journal has the records of such puts before their data is written; if the write fails the records
 * are void. Some puts are written elsewhere, some fail for good. The test cuts the power behind
 * every event. If a put was reported as failed, the old block is there; if a sync was reported, the
 * new one is.
 */
#include "lib/flash/flash_bed.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "flash/format.h"
#include "lib/flash/flash_fake_image.h"

#define BLOCKS	 12U
#define ROUNDS	 40U
#define AT_ONCE	 4U /* puts in flight, of different blocks */
#define ATTEMPTS 8U /* at a put                            */
#define DICE	 3U /* cuts behind an event                */
#define PAGES	 24U
#define SHORTER	 4U /* each fourth event only, with a sanitizer: the others are searched without */

/*
 * A value of a block, whose bytes are all `number`. It may be there from the event `began` until
 * `failed`; from `synced` on, no older value may.
 */
struct value {
	uint8_t number;
	uint64_t began, failed, synced; /* 0: not */
};

struct history {
	struct value values[ROUNDS + 1];
	unsigned nr;
};

static struct history histories[BLOCKS];

struct writer {
	struct ftl_put put;
	struct ftl_sync sync;
	struct bed *bed;
	struct value *value;
	struct iovec iov;
	uint8_t *memory;
	bool has_ended;
};

static uint64_t address(uint32_t block)
{
	return ftl_lba(5, 500 + block); /* of two pages of the map */
}

static void on_put(struct ftl_put *put)
{
	struct writer *writer = caa_container_of(put, struct writer, put);

	if (put->result)
		assert_int_equal(put->result, -EIO);
	if (put->result)
		writer->value->failed = flash_fake_events(writer->bed->device);
}

static void on_sync(struct ftl_sync *sync)
{
	struct writer *writer = caa_container_of(sync, struct writer, sync);

	assert_int_equal(sync->result, 0);
	if (!writer->value->failed)
		writer->value->synced = flash_fake_events(writer->bed->device);
	writer->has_ended = true;
}

static void begin(struct bed *bed, struct writer *writer, uint32_t block, uint8_t number)
{
	struct history *history = &histories[block];

	writer->bed = bed;
	writer->value = &history->values[history->nr++];
	*writer->value = (struct value){.number = number, .began = flash_fake_events(bed->device)};
	memset(writer->memory, number, FTL_BLOCK);
	writer->has_ended = false;
	writer->iov = (struct iovec){writer->memory, FTL_BLOCK};
	writer->put = (struct ftl_put){.lba = address(block),
				       .length = FTL_BLOCK,
				       .iov = &writer->iov,
				       .nr_iov = 1,
				       .done = on_put};
	writer->sync = (struct ftl_sync){.lba = address(block), .count = 1, .done = on_sync};
	ftl_put(bed->ftl, &writer->put);
	ftl_sync(bed->ftl, &writer->sync);
}

/*
 * The next `nr` writes to segments fail, each of which may have been done in part, or as a whole.
 */
static void fail_writes(struct bed *bed, unsigned nr)
{
	struct format_superblock superblock;
	struct flash_fake_fault fault = {.opcode = FLASH_IO_WRITE, .error = -EIO, .nr = nr};

	flash_fake_heal(bed->device);
	flash_fake_peek(bed->device, 0, &superblock, sizeof(superblock));
	fault.offset = (uint64_t)superblock.segments_at * FTL_BLOCK;
	fault.length = bed->device->size - FTL_BLOCK - fault.offset;
	assert_int_equal(flash_fake_fail(bed->device, &fault), 0);
}

/* Returns the number of the last value whose put did not fail. */
static uint8_t newest(uint32_t block)
{
	const struct history *history = &histories[block];
	unsigned i = history->nr;

	while (history->values[--i].failed)
		;
	return history->values[i].number;
}

/* Changes many pages of the map: a checkpoint of them takes longer than a put takes to fail. */
static void change_pages(struct bed *bed)
{
	for (uint32_t range = 0; range < PAGES; range++)
		bed_fill(bed, ftl_lba(100 + range, 0), 0x77);
}

static void run_round(struct bed *bed, unsigned round, struct writer *writers)
{
	for (unsigned i = 0; i < AT_ONCE; i++) {
		begin(bed, &writers[i], (round * 5 + i * 3) % BLOCKS, (uint8_t)(round * 4 + i));
		/* In every other round some are on their way when others come. */
		if (round % 8 > 3)
			assert_true(ftl_poll(bed->ftl, 0) >= 0);
	}
	for (unsigned i = 0; i < AT_ONCE; i++) {
		while (!writers[i].has_ended)
			assert_true(ftl_poll(bed->ftl, -1) >= 0);
	}
	for (uint32_t block = 0; block < BLOCKS; block++)
		bed_expect(bed, address(block), newest(block));
}

static void check_cut(struct flash_fake_log *log, uint64_t event, uint64_t seed)
{
	uint8_t *data = flash_memory(FTL_BLOCK), *wanted = flash_memory(FTL_BLOCK);
	struct bed bed;

	assert_int_equal(flash_fake_image_at(log, event, seed, &bed.device), 0);
	assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), 0);
	for (uint32_t block = 0; block < BLOCKS; block++) {
		const struct history *history = &histories[block];
		bool is_known = false;

		assert_int_equal(bed_get(&bed, address(block), 0, data, FTL_BLOCK), 0);
		for (unsigned i = history->nr; i-- > 0 && !is_known;) {
			const struct value *value = &history->values[i];

			if (value->began > event || (value->failed && value->failed <= event))
				continue;
			memset(wanted, value->number, FTL_BLOCK);
			is_known = memcmp(data, wanted, FTL_BLOCK) == 0;
			/* Nothing older may be there. */
			if (value->synced && value->synced <= event)
				break;
		}
		if (!is_known)
			fail_msg("cut %llu, seed %llu: block %u reads as %u",
				 (unsigned long long)event, (unsigned long long)seed, block,
				 data[0]);
	}
	assert_int_equal(ftl_audit(bed.ftl), 0);
	ftl_abandon(bed.ftl);
	flash_device_close(bed.device);
	free(data);
	free(wanted);
}

static struct flash_fake_log *record(uint64_t *first)
{
	const struct flash_fake_options device = {.size = 32U << 20,
						  .sector = 512,
						  .seed = 3,
						  .latency_max = 4,
						  .depth = 4,
						  .can_lose_power = true};
	const struct ftl_options layout = {
		.segment_bytes = 65536, .journal_blocks = 16, .nr_map_pages = 100};
	struct writer writers[AT_ONCE] = {0};
	struct flash_fake_log *log;
	struct ftl_stat stat;
	unsigned nr_failed = 0;
	struct bed bed;

	for (unsigned i = 0; i < AT_ONCE; i++)
		writers[i].memory = flash_memory(FTL_BLOCK);
	assert_int_equal(flash_fake_open(&device, &bed.device), 0);
	assert_int_equal(flash_fake_record(bed.device, &log), 0);
	assert_int_equal(ftl_create(bed.device, &layout), 0);
	*first = flash_fake_events(bed.device);
	assert_int_equal(ftl_open(bed.device, FTL_STREAMS(1), &bed.ftl), 0);
	for (uint32_t block = 0; block < BLOCKS; block++)
		histories[block] = (struct history){.values = {{.synced = 1}}, .nr = 1};
	for (unsigned round = 0; round < ROUNDS; round++) {
		if (round % 4 == 3)
			change_pages(&bed);
		/*
		 * More than a put is tried, since what is moved out of such segments meets them
		 * too.
		 */
		fail_writes(&bed, round % 4 == 3 ? 2 * ATTEMPTS : 1 + round % 4);
		run_round(&bed, round, writers);
	}
	ftl_stat(bed.ftl, &stat);
	for (uint32_t block = 0; block < BLOCKS; block++) {
		for (unsigned i = 0; i < histories[block].nr; i++)
			nr_failed += histories[block].values[i].failed > 0;
	}
	assert_true(nr_failed >= ROUNDS / 8);
	assert_true(stat.records_void > nr_failed);
	assert_true(stat.records_ahead > AT_ONCE * ROUNDS / 2);
	assert_int_equal(ftl_close(bed.ftl), 0);
	flash_device_close(bed.device);
	for (unsigned i = 0; i < AT_ONCE; i++)
		free(writers[i].memory);
	return log;
}

static void test_power_is_cut_while_puts_fail(void **state)
{
	bool is_short = getenv("AFAR_FLASH_OPS");
	uint64_t first, nr;
	struct flash_fake_log *log = record(&first);

	(void)state;
	nr = flash_fake_log_events(log);
	for (uint64_t event = first; event <= nr; event += is_short ? SHORTER : 1) {
		for (uint64_t seed = 0; seed < DICE; seed++)
			check_cut(log, event, event * DICE + seed);
	}
	flash_fake_log_close(log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_power_is_cut_while_puts_fail),
	};

	if (!getenv("AFAR_LOG"))
		log_set_level(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
