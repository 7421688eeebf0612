/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The translation layer's door: bytes in and out, trims, clones, records, order, and what is
 * refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "lib/flash/flash_bed.h"
#include "unit/group.h"

static void test_nothing_is_zeros(void **state)
{
	struct bed bed;

	(void)state;
	bed_open(&bed);
	bed_expect(&bed, ftl_lba(3, 1000000), 0);
	bed_close(&bed);
}

static void test_bytes(void **state)
{
	enum { SIZE = 40 * FTL_BLOCK };
	uint8_t *model = calloc(1, SIZE), *data = flash_memory(SIZE + 64),
		*back = flash_memory(SIZE + 64);
	struct bed bed;
	unsigned dice = 1;

	(void)state;
	bed_open(&bed);
	for (unsigned i = 0; i < 300; i++) {
		size_t offset = (size_t)rand_r(&dice) % SIZE;
		size_t length = 1 + (size_t)rand_r(&dice) % (i % 3 ? 9000 : SIZE);
		size_t odd = i % 4 ? 0 : 1 + (size_t)rand_r(&dice) % 63;

		if (length > SIZE - offset)
			length = SIZE - offset;
		if (i % 5 == 0) {
			offset = offset / FTL_BLOCK * FTL_BLOCK;
			length = (length + FTL_BLOCK - 1) / FTL_BLOCK * FTL_BLOCK;
			if (length > SIZE - offset)
				length = SIZE - offset;
		}
		for (size_t at = 0; at < length; at++)
			data[odd + at] = (uint8_t)rand_r(&dice);
		memcpy(model + offset, data + odd, length);
		assert_int_equal(bed_put(&bed, ftl_lba(1, 500), offset, data + odd, length), 0);
		memset(back, 0xee, SIZE + 64);
		assert_int_equal(bed_get(&bed, ftl_lba(1, 500), offset, back + odd, length), 0);
		assert_memory_equal(back + odd, model + offset, length);
		if (i % 50 == 49) {
			assert_int_equal(bed_sync(&bed), 0);
			bed_reopen(&bed, i % 100 == 99);
		}
	}
	assert_int_equal(bed_get(&bed, ftl_lba(1, 500), 0, back, SIZE), 0);
	assert_memory_equal(back, model, SIZE);
	bed_close(&bed);
	free(model);
	free(data);
	free(back);
}

/* ---- Sums of callers */

#define SUMMED 40U /* blocks: pieces of a put are shorter */

static int put_with_sums(struct bed *bed, uint64_t lba, const uint8_t *data, unsigned nr,
			 const uint32_t *sums)
{
	struct bed_request request;

	bed_prepare_put(&request, lba, 0, data, nr * FTL_BLOCK);
	request.put.sums = sums;
	ftl_put(bed->ftl, &request.put);
	bed_wait(bed, &request);
	return request.put.result;
}

static int get_with_sums(struct bed *bed, uint64_t lba, uint64_t offset, uint8_t *data,
			 size_t length, uint32_t *sums)
{
	struct bed_request request = {.iov = {data, length}};

	request.get = (struct ftl_get){.lba = lba,
				       .offset = offset,
				       .length = length,
				       .iov = &request.iov,
				       .nr_iov = 1,
				       .sums = sums,
				       .done = bed_get_done};
	ftl_get(bed->ftl, &request.get);
	bed_wait(bed, &request);
	return request.get.result;
}

static void make_data(uint8_t *data, unsigned nr, uint32_t *sums, unsigned seed)
{
	for (size_t i = 0; i < nr * FTL_BLOCK; i++)
		data[i] = (uint8_t)rand_r(&seed);
	for (unsigned i = 0; i < nr; i++)
		sums[i] = checksum_crc32c(data + i * FTL_BLOCK, FTL_BLOCK);
}

static void expect_sums(struct bed *bed, uint64_t lba, const uint8_t *data, unsigned nr,
			const uint32_t *sums)
{
	uint8_t *back = flash_memory(nr * FTL_BLOCK + 1);
	uint32_t got[SUMMED] = {0};

	/* Aligned or not, it is read in other ways. */
	for (unsigned odd = 0; odd < 2; odd++) {
		memset(got, 0xee, sizeof(got));
		assert_int_equal(get_with_sums(bed, lba, 0, back + odd, nr * FTL_BLOCK, got), 0);
		assert_memory_equal(back + odd, data, nr * FTL_BLOCK);
		assert_memory_equal(got, sums, nr * sizeof(*sums));
	}
	free(back);
}

/* Sums are those of the data alone, wherever it lies, and whoever made them. */
static void test_sums_go_in_and_out(void **state)
{
	const uint64_t lba = ftl_lba(2, 777), clone = ftl_lba(7, 1);
	uint8_t *data = flash_memory(SUMMED * FTL_BLOCK + 1), *odd = data + 1;
	uint32_t sums[SUMMED];
	struct bed bed;

	(void)state;
	bed_open(&bed);
	make_data(data, SUMMED, sums, 1);
	assert_int_equal(put_with_sums(&bed, lba, data, SUMMED, sums), 0);
	expect_sums(&bed, lba, data, SUMMED, sums);
	make_data(odd, SUMMED, sums, 2);
	assert_int_equal(put_with_sums(&bed, lba + 3, odd, SUMMED - 3, sums), 0);
	expect_sums(&bed, lba + 3, odd, SUMMED - 3, sums);
	make_data(data, SUMMED, sums, 3);
	assert_int_equal(bed_put(&bed, lba, 0, data, SUMMED * FTL_BLOCK), 0);
	expect_sums(&bed, lba, data, SUMMED, sums);
	assert_int_equal(bed_clone(&bed, lba, clone, SUMMED, NULL), 0);
	expect_sums(&bed, clone, data, SUMMED, sums);
	assert_int_equal(bed_sync(&bed), 0);
	bed_reopen(&bed, false);
	expect_sums(&bed, clone, data, SUMMED, sums);
	/* A block that is not there has a sum, too. */
	assert_int_equal(bed_trim(&bed, lba + 1, 1, NULL), 0);
	memset(data + FTL_BLOCK, 0, FTL_BLOCK);
	sums[1] = checksum_crc32c(data + FTL_BLOCK, FTL_BLOCK);
	expect_sums(&bed, lba, data, SUMMED, sums);
	bed_close(&bed);
	free(data);
}

/* Whichever block it is, and however it is written: it stays old. */
static void test_a_block_without_its_sum_is_refused(void **state)
{
	uint8_t *old = flash_memory(SUMMED * FTL_BLOCK),
		*new = flash_memory(SUMMED * FTL_BLOCK + 1), *back = flash_memory(FTL_BLOCK);
	const uint64_t lba = ftl_lba(2, 500);
	uint32_t sums[SUMMED], sum;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	make_data(old, SUMMED, sums, 1);
	assert_int_equal(put_with_sums(&bed, lba, old, SUMMED, sums), 0);
	for (unsigned bad = 0; bad < SUMMED; bad++) {
		uint8_t *data = new + bad % 2;

		make_data(data, SUMMED, sums, 2 + bad);
		data[bad * FTL_BLOCK + bad * 100] ^= 1;
		assert_int_equal(put_with_sums(&bed, lba, data, SUMMED, sums), -EBADMSG);
		assert_int_equal(get_with_sums(&bed, lba + bad, 0, back, FTL_BLOCK, &sum), 0);
		assert_memory_equal(back, old + bad * FTL_BLOCK, FTL_BLOCK);
		assert_int_equal(sum, checksum_crc32c(back, FTL_BLOCK));
		assert_int_equal(bed_put(&bed, lba, 0, old, SUMMED * FTL_BLOCK), 0);
	}
	assert_int_equal(bed_sync(&bed), 0);
	bed_close(&bed);
	free(old);
	free(new);
	free(back);
}

/* The sum is what the layer keeps, also of a block that its device has changed. */
static void test_sums_are_not_of_what_was_read(void **state)
{
	uint8_t *data = flash_memory(FTL_BLOCK), *device = flash_memory(8 << 20), *at;
	const uint64_t lba = ftl_lba(2, 500);
	uint32_t sum, got = 0;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	make_data(data, 1, &sum, 1);
	assert_int_equal(put_with_sums(&bed, lba, data, 1, &sum), 0);
	flash_fake_peek(bed.device, 0, device, 8 << 20);
	at = memmem(device, 8 << 20, data, FTL_BLOCK);
	assert_non_null(at);
	assert_int_equal(flash_fake_poke(bed.device, (uint64_t)(at - device), "what?", 5), 0);
	assert_int_equal(get_with_sums(&bed, lba, 0, data, FTL_BLOCK, &got), -EBADMSG);
	assert_int_equal(got, sum);
	bed_close(&bed);
	free(data);
	free(device);
}

static void test_sums_are_of_whole_blocks(void **state)
{
	uint8_t *data = flash_memory(2 * FTL_BLOCK);
	uint32_t sums[2];
	struct bed_request request;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	make_data(data, 2, sums, 1);
	for (unsigned i = 0; i < 3; i++) {
		bed_prepare_put(&request, 1, i % 2, data, FTL_BLOCK + (i < 2 ? 0 : 1));
		request.put.sums = sums;
		ftl_put(bed.ftl, &request.put);
		bed_wait(&bed, &request);
		assert_int_equal(request.put.result, i ? -EINVAL : 0);
		assert_int_equal(
			get_with_sums(&bed, 1, i % 2, data, FTL_BLOCK + (i < 2 ? 0 : 1), sums),
			i ? -EINVAL : 0);
	}
	bed_close(&bed);
	free(data);
}

/* ---- Requests */

static uint64_t pages_seen;

static void page_ended(struct ftl_get *get, size_t at, size_t length, int result)
{
	(void)get;
	assert_int_equal(result, 0);
	assert_true(at % FTL_BLOCK == 0 && length == FTL_BLOCK);
	assert_false(pages_seen >> at / FTL_BLOCK & 1);
	pages_seen |= UINT64_C(1) << at / FTL_BLOCK;
}

static void test_each_page_is_told(void **state)
{
	struct bed bed;
	uint8_t *data = flash_memory(64 * FTL_BLOCK);
	struct bed_request request = {.iov = {data, 64 * FTL_BLOCK}};

	(void)state;
	bed_open(&bed);
	for (unsigned i = 0; i < 64; i += 3)
		bed_fill(&bed, ftl_lba(0, i), (uint8_t)i);
	pages_seen = 0;
	request.get = (struct ftl_get){.length = 64 * FTL_BLOCK,
				       .iov = &request.iov,
				       .nr_iov = 1,
				       .page = page_ended,
				       .done = bed_get_done};
	ftl_get(bed.ftl, &request.get);
	bed_wait(&bed, &request);
	assert_true(pages_seen == UINT64_MAX);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(data[i * FTL_BLOCK + 17], i % 3 ? 0 : i);
	bed_close(&bed);
	free(data);
}

static void test_trim(void **state)
{
	struct bed bed;
	struct ftl_stat stat;

	(void)state;
	bed_open(&bed);
	for (unsigned i = 505; i < 515; i++)
		bed_fill(&bed, ftl_lba(2, i), 0x77);
	assert_int_equal(bed_trim(&bed, ftl_lba(2, 508), 5, NULL), 0);
	for (unsigned i = 505; i < 515; i++)
		bed_expect(&bed, ftl_lba(2, i), i >= 508 && i < 513 ? 0 : 0x77);
	assert_int_equal(bed_trim(&bed, ftl_lba(2, 0), UINT64_C(1) << 32, NULL), 0);
	ftl_stat(bed.ftl, &stat);
	assert_int_equal(stat.used_blocks, 0);
	bed_reopen(&bed, true);
	bed_expect(&bed, ftl_lba(2, 505), 0);
	/* Its pages of the map are gone too. */
	ftl_stat(bed.ftl, &stat);
	assert_int_equal(stat.map_slots_used, 0);
	bed_close(&bed);
}

static void test_clone(void **state)
{
	struct bed bed;
	struct ftl_stat stat;

	(void)state;
	bed_open(&bed);
	for (unsigned i = 0; i < 20; i++)
		bed_fill(&bed, ftl_lba(1, 500 + i), (uint8_t)(1 + i));
	bed_fill(&bed, ftl_lba(2, 0), 0xaa);
	assert_int_equal(bed_clone(&bed, ftl_lba(1, 499), ftl_lba(2, 0), 22, NULL), 0);
	assert_int_equal(bed_clone(&bed, ftl_lba(2, 0), ftl_lba(3, 7), 22, NULL), 0);
	ftl_stat(bed.ftl, &stat);
	assert_int_equal(stat.used_blocks, 20);
	bed_fill(&bed, ftl_lba(1, 505), 0xbb);
	bed_fill(&bed, ftl_lba(3, 7 + 1), 0xcc);
	assert_int_equal(bed_trim(&bed, ftl_lba(1, 0), 1000, NULL), 0);
	for (unsigned round = 0; round < 2; round++) {
		bed_expect(&bed, ftl_lba(2, 0), 0);
		bed_expect(&bed, ftl_lba(2, 21), 0);
		for (unsigned i = 0; i < 20; i++) {
			bed_expect(&bed, ftl_lba(1, 500 + i), 0);
			bed_expect(&bed, ftl_lba(2, 1 + i), (uint8_t)(1 + i));
			bed_expect(&bed, ftl_lba(3, 8 + i), i ? (uint8_t)(1 + i) : 0xcc);
		}
		assert_int_equal(bed_sync(&bed), 0);
		bed_reopen(&bed, false);
	}
	ftl_stat(bed.ftl, &stat);
	assert_int_equal(stat.used_blocks, 21);
	bed_close(&bed);
}

static void test_records(void **state)
{
	struct ftl_record_change change = {.id = 70, .data = "the first"};
	struct bed bed;

	(void)state;
	bed_open(&bed);
	assert_null(ftl_record(bed.ftl, 70));
	assert_int_equal(bed_trim(&bed, 0, 0, &change), 0);
	change = (struct ftl_record_change){.id = 12, .data = "with a clone"};
	bed_fill(&bed, ftl_lba(1, 0), 1);
	assert_int_equal(bed_clone(&bed, ftl_lba(1, 0), ftl_lba(2, 0), 1, &change), 0);
	assert_int_equal(bed_sync(&bed), 0);
	bed_reopen(&bed, false);
	assert_string_equal(ftl_record(bed.ftl, 70), "the first");
	assert_string_equal(ftl_record(bed.ftl, 12), "with a clone");
	assert_int_equal(ftl_record_next(bed.ftl, 0), 12);
	assert_int_equal(ftl_record_next(bed.ftl, 13), 70);
	assert_int_equal(ftl_record_next(bed.ftl, 71), FTL_NR_RANGES);
	change = (struct ftl_record_change){.id = 70, .is_removal = true};
	assert_int_equal(bed_trim(&bed, ftl_lba(1, 0), 1, &change), 0);
	bed_reopen(&bed, true);
	assert_null(ftl_record(bed.ftl, 70));
	assert_non_null(ftl_record(bed.ftl, 12));
	bed_close(&bed);
}

static struct ftl *changing; /* NULL: no more */

static void change_again(struct ftl_trim *trim)
{
	assert_int_equal(trim->result, 0);
	if (changing)
		ftl_trim(changing, trim);
	else
		bed_trim_done(trim);
}

/*
 * Nobody syncs, and the journal never rests; what recovery has to verify stays bounded all the
 * same.
 */
static void test_flushed_meanwhile(void **state)
{
	enum { NR = 8, UNFLUSHED_MAX = 300 /* blocks; 256, and what is on its way */ };
	/* Slow enough that a block of the journal is always on its way. */
	const struct flash_fake_options device = {
		.size = 32U << 20, .sector = 512, .seed = 1, .latency_max = 64};
	const struct ftl_options options = {.segment_bytes = 65536, .journal_blocks = 4096};
	struct ftl_record_change change = {.id = 70, .data = "again and again"};
	struct bed_request requests[NR] = {0};
	struct ftl_stat before, stat;
	struct bed bed;

	(void)state;
	bed_open_with(&bed, &device, &options);
	ftl_stat(bed.ftl, &before);
	changing = bed.ftl;
	for (unsigned i = 0; i < NR; i++) {
		requests[i].trim = (struct ftl_trim){.change = &change, .done = change_again};
		ftl_trim(bed.ftl, &requests[i].trim);
	}
	do {
		assert_true(ftl_poll(bed.ftl, -1) >= 0);
		ftl_stat(bed.ftl, &stat);
		assert_true(stat.journal_written <
			    UNFLUSHED_MAX * (1 + stat.flushes - before.flushes));
	} while (stat.journal_written < 1000);
	assert_int_equal(stat.checkpoints, before.checkpoints); /* they flush too */
	changing = NULL;
	for (unsigned i = 0; i < NR; i++)
		bed_wait(&bed, &requests[i]);
	bed_close(&bed);
}

/*
 * Puts of one block that are in flight at a time, a part and the whole, take effect in their order.
 */
static void test_order(void **state)
{
	enum { NR = 50 };
	struct bed_request puts[NR], trim = {0};
	uint8_t *data = flash_memory(NR * FTL_BLOCK), *back = flash_memory(FTL_BLOCK);
	struct bed bed;

	(void)state;
	bed_open(&bed);
	memset(data, 0x11, FTL_BLOCK);
	bed_begin_put(&bed, &puts[0], 5, 0, data, FTL_BLOCK);
	trim.trim = (struct ftl_trim){.lba = 4, .count = 2, .done = bed_trim_done};
	ftl_trim(bed.ftl, &trim.trim);
	for (unsigned i = 1; i < NR; i++) {
		memset(data + i * FTL_BLOCK, (int)i, FTL_BLOCK);
		bed_begin_put(&bed, &puts[i], 5, i, data + i * FTL_BLOCK, 100);
	}
	for (unsigned i = 0; i < NR; i++) {
		bed_wait(&bed, &puts[i]);
		assert_int_equal(puts[i].put.result, 0);
	}
	assert_int_equal(bed_get(&bed, 5, 0, back, FTL_BLOCK), 0);
	for (unsigned i = 0; i < NR + 110; i++)
		assert_int_equal(back[i], i < NR ? i : i < NR - 1 + 100 ? NR - 1 : 0);
	bed_close(&bed);
	free(data);
	free(back);
}

static void test_what_is_wrong_is_refused(void **state)
{
	uint8_t *data = flash_memory(FTL_BLOCK);
	struct bed bed;

	(void)state;
	bed_open(&bed);
	assert_int_equal(bed_put(&bed, ftl_lba(FTL_NR_RANGES, 0), 0, data, 1), -EINVAL);
	assert_int_equal(bed_put(&bed, ftl_lba(1, UINT32_MAX), 0, data, FTL_BLOCK), 0);
	assert_int_equal(bed_put(&bed, ftl_lba(1, UINT32_MAX), 1, data, FTL_BLOCK), -EINVAL);
	assert_int_equal(bed_put(&bed, 1, UINT64_MAX, data, FTL_BLOCK), -EINVAL);
	assert_int_equal(bed_get(&bed, 1, UINT64_MAX - 5, data, FTL_BLOCK), -EINVAL);
	assert_int_equal(bed_trim(&bed, ftl_lba(1, 5), UINT64_C(1) << 32, NULL), -EINVAL);
	assert_int_equal(bed_clone(&bed, 10, 15, 6, NULL), -EINVAL);
	assert_int_equal(bed_clone(&bed, 10, ftl_lba(1, UINT32_MAX), 2, NULL), -EINVAL);
	assert_int_equal(bed_put(&bed, 1, 0, data, 0), 0);
	assert_int_equal(bed_get(&bed, 1, 0, data, 0), 0);
	bed_close(&bed);
	free(data);
}

static void test_read_only(void **state)
{
	struct flash_fake_counts before, after;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	bed_fill(&bed, 9, 0x99);
	assert_int_equal(bed_sync(&bed), 0);
	ftl_abandon(bed.ftl);
	flash_fake_counts(bed.device, &before);
	assert_int_equal(ftl_open(bed.device, FTL_READ_ONLY, &bed.ftl), 0);
	bed_expect(&bed, 9, 0x99);
	assert_int_equal(bed_put(&bed, 9, 0, "x", 1), -EROFS);
	assert_int_equal(bed_trim(&bed, 9, 1, NULL), -EROFS);
	assert_int_equal(ftl_audit(bed.ftl), 0);
	assert_int_equal(ftl_close(bed.ftl), 0);
	flash_fake_counts(bed.device, &after);
	assert_int_equal(before.nr_writes, after.nr_writes);
	assert_int_equal(ftl_open(bed.device, 0, &bed.ftl), 0);
	bed_expect(&bed, 9, 0x99);
	bed_close(&bed);
}

/* ---- Polls that do not wait */

/* A device that counts what was submitted since its last poll began: only the next one starts it. */
struct lazy_device {
	struct flash_device device;
	struct flash_device *below;
	unsigned nr_not_started;
	int nr_under_way; /* submitted, and not ended */
};

static struct lazy_device *lazy_of(struct flash_device *device)
{
	return caa_container_of(device, struct lazy_device, device);
}

static void lazy_submit(struct flash_device *device, struct flash_io *io)
{
	lazy_of(device)->nr_not_started++;
	lazy_of(device)->nr_under_way++;
	flash_device_submit(lazy_of(device)->below, io);
}

static int lazy_poll(struct flash_device *device, int timeout_ms)
{
	int nr = flash_device_poll(lazy_of(device)->below, timeout_ms);

	lazy_of(device)->nr_not_started = 0;
	lazy_of(device)->nr_under_way -= nr;
	return nr;
}

static const struct flash_device_ops lazy_ops = {.submit = lazy_submit, .poll = lazy_poll};

static void lazy_open(struct lazy_device *lazy, struct bed *bed)
{
	const struct flash_fake_options device = {.size = 8U << 20, .sector = 512, .seed = 1};
	const struct ftl_options options = {.segment_bytes = 65536, .nr_map_pages = 50};

	bed_open_with(bed, &device, &options);
	assert_int_equal(ftl_close(bed->ftl), 0);
	lazy->below = bed->device;
	lazy->device = *bed->device;
	lazy->device.ops = &lazy_ops;
	assert_int_equal(ftl_open(&lazy->device, 0, &bed->ftl), 0);
}

/* A caller that is told of nothing, and that nothing has moved, sleeps until something that was
 * started has ended. */
static void lazy_wait(struct lazy_device *lazy, struct bed *bed, const struct bed_request *request)
{
	while (!request->has_ended) {
		int nr = ftl_poll(bed->ftl, 0);

		assert_true(nr >= 0 && (nr > 0 || lazy->nr_not_started == 0));
		assert_true(nr > 0 || ftl_has_moved(bed->ftl) || lazy->nr_under_way > 0);
	}
}

static void test_nothing_waits_for_a_poll(void **state)
{
	uint8_t *data = flash_memory(FTL_BLOCK);
	struct ftl_sync sync = {.count = FTL_ALL};
	struct bed_request put, synced;
	struct lazy_device lazy;
	struct bed bed;

	(void)state;
	lazy_open(&lazy, &bed);
	for (unsigned i = 0; i < 300; i++) {
		bed_begin_put(&bed, &put, i % 7, 0, data, FTL_BLOCK);
		synced = (struct bed_request){.sync = sync};
		synced.sync.done = bed_sync_done;
		lazy_wait(&lazy, &bed, &put);
		ftl_sync(bed.ftl, &synced.sync);
		lazy_wait(&lazy, &bed, &synced);
	}
	bed_close(&bed);
	free(data);
}

/* Others have their turn in the middle of it, and nothing of it is under way at the device then. */
static void test_a_long_trim_goes_on(void **state)
{
	struct bed_request trim = {.trim = {.lba = ftl_lba(2, 0), .count = UINT64_C(1) << 32}};
	struct lazy_device lazy;
	struct bed bed;

	(void)state;
	lazy_open(&lazy, &bed);
	for (unsigned i = 0; i < 40; i++) /* each in a page of the map of its own */
		bed_fill(&bed, ftl_lba(2, i * 510), 0x77);
	assert_int_equal(bed_sync(&bed), 0);
	trim.trim.done = bed_trim_done;
	ftl_trim(bed.ftl, &trim.trim);
	lazy_wait(&lazy, &bed, &trim);
	assert_int_equal(trim.trim.result, 0);
	bed_close(&bed);
}

TEST_GROUP(flash_ftl)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_zeros),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_sums_go_in_and_out),
		cmocka_unit_test(test_a_block_without_its_sum_is_refused),
		cmocka_unit_test(test_sums_are_not_of_what_was_read),
		cmocka_unit_test(test_sums_are_of_whole_blocks),
		cmocka_unit_test(test_each_page_is_told),
		cmocka_unit_test(test_trim),
		cmocka_unit_test(test_clone),
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_flushed_meanwhile),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_what_is_wrong_is_refused),
		cmocka_unit_test(test_read_only),
		cmocka_unit_test(test_nothing_waits_for_a_poll),
		cmocka_unit_test(test_a_long_trim_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
