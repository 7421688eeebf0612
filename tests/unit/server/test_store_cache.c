/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that keeps pages is read over tcp or a driven lane, with a gate before its device. The tests count reads of
 * the device, and look at what readers see of changes meanwhile, and at what becomes of those who wait.
 */
#include <afar/error.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fabric/paged.h"
#include "lib/base/effort.h"
#include "lib/base/transport.h"
#include "lib/server/cached_bed.h"
#include "lib/server/flash_gate.h"
#include "lib/server/tested_lane.h"
#include "unit/group.h"

#define NR_READERS 32U
#define AT	   (8 * FTL_BLOCK) /* a page that tests are about */

/* ---- One read for all */

static void test_many_readers_of_a_page_read_the_device_once(void **state)
{
	static struct cached_reader readers[NR_READERS];
	struct store_work_stat before, after;
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, AT, FTL_BLOCK, true);
	before = cached_count(&bed);
	flash_gate_hold(FLASH_IO_READ);
	for (unsigned i = 0; i < NR_READERS; i++)
		cached_reader_begin(&bed, &readers[i], i % 4, AT);
	cached_await_counts(&bed, 1, NR_READERS - 1);
	flash_gate_release();
	for (unsigned i = 0; i < NR_READERS; i++) {
		assert_int_equal(cached_reader_end(&readers[i]), 0);
		assert_memory_equal(readers[i].bytes, bed.image + AT, FTL_BLOCK);
	}
	cached_expect(&bed, AT, FTL_BLOCK);
	after = cached_await_all(&bed, NR_READERS + 1);
	assert_int_equal(after.nr_hits, 1);
	assert_int_equal(after.device_reads - before.device_reads, 1);
	cached_bed_close(&bed);
}

/* Those who wait with a client get the page also if that has begun the read, and dies. When all have
 * died, it is kept. */
static void test_who_began_the_read_dies(void **state)
{
	static struct cached_reader readers[3];
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, AT, FTL_BLOCK, true);
	cached_write(&bed, 2 * AT, FTL_BLOCK, true);
	flash_gate_hold(FLASH_IO_READ);
	cached_reader_begin(&bed, &readers[0], 2, AT);
	cached_await_counts(&bed, 1, 0);
	cached_reader_begin(&bed, &readers[1], 3, AT);
	cached_reader_begin(&bed, &readers[2], 4, 2 * AT);
	cached_await_counts(&bed, 2, 1);
	cached_reader_close(&readers[0]);
	cached_reader_close(&readers[2]);
	while (progress_nr_connections(store_progress(bed.store)) > 2)
		test_pause();
	flash_gate_release();
	assert_int_equal(cached_reader_end(&readers[1]), 0);
	assert_memory_equal(readers[1].bytes, bed.image + AT, FTL_BLOCK);
	cached_expect(&bed, 2 * AT, FTL_BLOCK);
	assert_int_equal(cached_await_all(&bed, 4).nr_misses, 2);
	cached_bed_close(&bed);
}

static void test_errors_are_told_and_not_kept(void **state)
{
	static struct cached_reader readers[4];
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, AT, FTL_BLOCK, true);
	flash_gate_fail(FLASH_IO_READ, -EIO);
	for (unsigned i = 0; i < 4; i++)
		cached_reader_begin(&bed, &readers[i], i, AT);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(cached_reader_end(&readers[i]), -EIO);
	flash_gate_fail(FLASH_IO_READ, 0);
	cached_join(&bed, &bed.client, 1);
	cached_expect(&bed, AT, FTL_BLOCK);
	cached_expect(&bed, AT, FTL_BLOCK);
	assert_int_equal(cached_await_all(&bed, 6).nr_hits, 1);
	cached_bed_close(&bed);
}

/* All who wait hear of it, and nothing of theirs is touched afterwards. */
static void test_a_device_that_goes(void **state)
{
	static struct cached_reader readers[4];
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, AT, 2 * FTL_BLOCK, true);
	cached_expect(&bed, AT + FTL_BLOCK, FTL_BLOCK);
	flash_gate_hold(FLASH_IO_READ);
	for (unsigned i = 0; i < 4; i++)
		cached_reader_begin(&bed, &readers[i], i, AT);
	cached_await_counts(&bed, 2, 3);
	flash_gate_break(-EIO);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(cached_reader_end(&readers[i]), -EIO);
	assert_int_equal(cached_read(&bed, &bed.client, AT + FTL_BLOCK, FTL_BLOCK), -EIO);
	cached_bed_close(&bed);
}

/* ---- Changes */

/* A read that is under way when its page changes answers those who have asked before. A reader
 * that asks when the change has ended sees it, and so do all later ones. */
static void test_a_page_changes_while_it_is_read(void **state)
{
	static struct cached_reader readers[3];
	uint8_t old[FTL_BLOCK];
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, AT, FTL_BLOCK, true);
	memcpy(old, bed.image + AT, FTL_BLOCK);
	flash_gate_hold(FLASH_IO_READ);
	cached_reader_begin(&bed, &readers[0], 2, AT);
	cached_reader_begin(&bed, &readers[1], 3, AT);
	cached_await_counts(&bed, 1, 1);
	cached_write(&bed, AT, FTL_BLOCK, true);
	cached_reader_begin(&bed, &readers[2], 4, AT);
	cached_await_counts(&bed, 2, 1);
	flash_gate_release();
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(cached_reader_end(&readers[i]), 0);
	assert_memory_equal(readers[0].bytes, old, FTL_BLOCK);
	assert_memory_equal(readers[1].bytes, old, FTL_BLOCK);
	assert_memory_equal(readers[2].bytes, bed.image + AT, FTL_BLOCK);
	cached_expect(&bed, AT, FTL_BLOCK);
	assert_int_equal(cached_await_all(&bed, 4).nr_hits, 1);
	cached_bed_close(&bed);
}

/* While a put is under way nothing of its block is kept: the layer may still have the old one. */
static void test_a_page_is_read_while_it_changes(void **state)
{
	struct fabric_piece piece = {.length = FTL_BLOCK};
	struct fabric_completion completion = {0};
	struct fabric_memory memory;
	uint8_t new[FTL_BLOCK];
	struct cached_reader reader;
	struct cached_bed bed;
	struct fabric_event event;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, AT, FTL_BLOCK, true);
	fill(new, FTL_BLOCK, 99);
	memory = data_client_lend(&bed.client, new, FTL_BLOCK);
	piece.addr = new;
	piece.descriptor = memory.descriptor;
	flash_gate_hold(FLASH_IO_WRITE);
	assert_int_equal(fabric_write(bed.client.endpoint, &piece, 1, cached_remote(&bed, AT),
				      bed.key.on[0].key, 1),
			 0);
	/* A server that fetches the bytes may need the client for that. */
	while (flash_gate_nr_held(FLASH_IO_WRITE) < 1) {
		assert_int_equal(fabric_queue_poll(bed.client.queue, &completion, 1), 0);
		test_pause();
	}
	cached_reader_begin(&bed, &reader, 2, AT);
	assert_int_equal(cached_reader_end(&reader), 0);
	assert_memory_equal(reader.bytes, bed.image + AT, FTL_BLOCK);
	flash_gate_release();
	while (data_client_step(&bed.client, &completion, &event) != 1)
		;
	assert_int_equal(completion.status, 0);
	memcpy(bed.image + AT, new, FTL_BLOCK);
	cached_expect(&bed, AT, FTL_BLOCK);
	cached_expect(&bed, AT, FTL_BLOCK);
	assert_int_equal(cached_await_all(&bed, 3).nr_past, 1);
	fabric_memory_deregister(&memory);
	cached_bed_close(&bed);
}

static void zero(struct cached_bed *bed, uint64_t at, uint64_t length, uint64_t flags)
{
	const struct message_request request = {.kind = MESSAGE_ZERO,
						.extent = bed->extent,
						.offset = at,
						.length = length,
						.flags = flags};
	uint64_t value;

	assert_int_equal(data_client_ask(&bed->client, &request, &value), 0);
}

static void change_put(struct cached_bed *bed)
{
	cached_write(bed, AT + FTL_BLOCK, FTL_BLOCK, false);
}

static void change_durably(struct cached_bed *bed)
{
	cached_write(bed, AT, FTL_BLOCK, true);
}

static void change_part(struct cached_bed *bed)
{
	cached_write(bed, AT + 100, 700, false);
}

static void change_edges(struct cached_bed *bed)
{
	cached_write(bed, AT + FTL_BLOCK - 3, 2 * FTL_BLOCK, false);
}

static void change_all(struct cached_bed *bed)
{
	for (uint64_t at = 0; at < CACHED_EXTENT_BYTES; at += FABRIC_PAGED_MAX)
		cached_write(bed, at, FABRIC_PAGED_MAX, false);
}

static void change_by_zeros(struct cached_bed *bed)
{
	memset(bed->image + AT + 10, 0, 3 * FTL_BLOCK);
	zero(bed, AT + 10, 3 * FTL_BLOCK, MESSAGE_ZERO_DURABLE);
}

static void change_by_a_few_zeros(struct cached_bed *bed)
{
	memset(bed->image + AT + 10, 0, 10);
	zero(bed, AT + 10, 10, 0);
}

static void change_by_zeros_and_trim(struct cached_bed *bed)
{
	memset(bed->image + AT, 0, CACHED_EXTENT_BYTES - AT);
	zero(bed, AT, CACHED_EXTENT_BYTES - AT, MESSAGE_ZERO_TRIM);
}

static void change_by_trim(struct cached_bed *bed)
{
	const struct extent_range ranges[] = {{bed->extent, AT, FTL_BLOCK},
					      {bed->extent, AT + 2 * FTL_BLOCK, FTL_BLOCK}};
	struct cached_order order;

	cached_order_open(&order);
	assert_int_equal(
		store_trim(bed->store, CACHED_NAMESPACE, ranges, 2, cached_order_done, &order), 0);
	cached_order_await(&order);
	memset(bed->image + AT, 0, FTL_BLOCK);
	memset(bed->image + AT + 2 * FTL_BLOCK, 0, FTL_BLOCK);
}

/* Another extent has the range's number. */
static void change_owner(struct cached_bed *bed)
{
	const struct store_extent *extent =
		cds_list_first_entry(&bed->store->extents, struct store_extent, node);
	const uint32_t range = extent->range;

	cached_release_extent(bed);
	cached_make_extent(bed);
	extent = cds_list_first_entry(&bed->store->extents, struct store_extent, node);
	assert_int_equal(extent->range, range);
	cached_join(bed, &bed->client, 1);
}

/* After each kind of change the pages that were kept are as they are in the layer; others are still
 * kept. */
static void test_what_changes_is_not_kept(void **state)
{
	static const struct {
		const char *name;
		void (*change)(struct cached_bed *bed);
	} changes[] = {
		{"put", change_put},
		{"durable put", change_durably},
		{"put of a part", change_part},
		{"put over edges", change_edges},
		{"put of all", change_all},
		{"zeros", change_by_zeros},
		{"a few zeros", change_by_a_few_zeros},
		{"zeros and trim", change_by_zeros_and_trim},
		{"trim", change_by_trim},
		{"owner", change_owner},
	};
	struct store_work_stat before, after;
	uint64_t nr_reads = 0;
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		cached_write(&bed, AT - FTL_BLOCK, 5 * FTL_BLOCK, false);
		for (unsigned round = 0; round < 2; round++) {
			for (unsigned j = 0; j < 5; j++)
				cached_expect(&bed, AT + (j - 1ULL) * FTL_BLOCK, FTL_BLOCK);
		}
		nr_reads += 10;
		before = cached_await_all(&bed, nr_reads);
		changes[i].change(&bed);
		for (unsigned j = 0; j < 5; j++) {
			const uint64_t at = AT + (j - 1ULL) * FTL_BLOCK;

			assert_int_equal(cached_read(&bed, &bed.client, at, FTL_BLOCK), 0);
			if (memcmp(bed.bytes, bed.image + at, FTL_BLOCK) != 0)
				fail_msg("%s: block %u is not what it should be", changes[i].name,
					 j);
		}
		nr_reads += 5;
		after = cached_await_all(&bed, nr_reads);
		assert_true(after.nr_misses > before.nr_misses);
		if (changes[i].change == change_part)
			assert_int_equal(after.nr_hits - before.nr_hits, 4);
	}
	cached_bed_close(&bed);
}

/* Frames out of which replies were sent are free again when their pages change. */
static void test_replies_leave_nothing_behind(void **state)
{
	enum { NR_PAGES = 200 };
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	for (unsigned i = 0; i < 2 * NR_PAGES; i++)
		cached_expect(&bed, i % NR_PAGES * (uint64_t)FTL_BLOCK, FTL_BLOCK);
	assert_int_equal(cached_await_all(&bed, 2 * NR_PAGES).cached_bytes, NR_PAGES * FTL_BLOCK);
	cached_write(&bed, 0, NR_PAGES * FTL_BLOCK, false);
	cached_expect(&bed, 0, FTL_BLOCK);
	assert_int_equal(cached_await_all(&bed, 2 * NR_PAGES + 1).cached_bytes, FTL_BLOCK);
	cached_bed_close(&bed);
}

/* Reads of more than 64 KiB neither use what is kept nor add to it. */
static void test_long_reads_go_past(void **state)
{
	struct store_work_stat before, after;
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, 0, MIB, false);
	cached_expect(&bed, 100, 64 * KIB);
	cached_expect(&bed, 100, 64 * KIB);
	before = cached_await_all(&bed, 34);
	assert_int_equal(before.nr_hits, 17);
	cached_expect(&bed, 0, 64 * KIB + 1);
	cached_expect(&bed, 0, MIB);
	after = cached_await_all(&bed, 34);
	assert_int_equal(after.cached_bytes, 17 * FTL_BLOCK);
	cached_bed_close(&bed);
}

/* ---- Reads of those who keep nothing */

static void expect_once(struct cached_bed *bed, uint64_t at, uint64_t length)
{
	struct fabric_memory memory = data_client_lend(&bed->client, bed->bytes, length);
	const struct fabric_piece piece = {bed->bytes, length, memory.descriptor};
	struct fabric_completion completion = {0};
	struct fabric_event event;

	memset(bed->bytes, 0x77, length);
	assert_int_equal(fabric_paged_transfer(bed->client.endpoint, FABRIC_PAGED_ONCE, &piece, 1,
					       cached_remote(bed, at), bed->key.on[0].key, 1),
			 0);
	while (data_client_step(&bed->client, &completion, &event) != 1)
		;
	fabric_memory_deregister(&memory);
	assert_int_equal(completion.status, 0);
	assert_memory_equal(bed->bytes, bed->image + at, length);
}

/* They take no frame, of one block or of several. A page that was there goes before all others. */
static void test_reads_once_keep_nothing(void **state)
{
	enum { NR_PAGES = CACHED_BYTES / FTL_BLOCK, MORE = 8 };
	struct store_work_stat before, after;
	struct cached_bed bed;

	(void)state;
	if (is_on_driven())
		skip(); /* hints do not go along there */
	cached_bed_open(&bed, CACHED_BYTES);
	for (uint64_t at = 0; at < CACHED_EXTENT_BYTES; at += MIB)
		cached_write(&bed, at, MIB, false);
	for (uint64_t i = 0; i < NR_PAGES; i++)
		cached_expect(&bed, i * FTL_BLOCK, FTL_BLOCK);
	before = cached_await_all(&bed, NR_PAGES);
	assert_int_equal(before.cached_bytes, CACHED_BYTES);
	for (uint64_t i = 0; i < MORE; i++)
		expect_once(&bed, (NR_PAGES + i) * FTL_BLOCK, FTL_BLOCK);
	after = cached_await_all(&bed, NR_PAGES + MORE);
	assert_int_equal(after.nr_past - before.nr_past, MORE);
	assert_int_equal(after.nr_misses, before.nr_misses);
	expect_once(&bed, 5 * FTL_BLOCK, FTL_BLOCK);
	expect_once(&bed, 7 * FTL_BLOCK + 100, 2 * FTL_BLOCK - 200);
	before = cached_await_all(&bed, NR_PAGES + MORE + 3);
	assert_int_equal(before.nr_hits - after.nr_hits, 3);
	for (uint64_t i = 0; i < 3; i++)
		cached_expect(&bed, (NR_PAGES + i) * FTL_BLOCK, FTL_BLOCK);
	for (uint64_t i = 0; i < NR_PAGES; i++) {
		if (i != 5 && i != 7 && i != 8)
			cached_expect(&bed, i * FTL_BLOCK, FTL_BLOCK);
	}
	after = cached_await_all(&bed, 2 * NR_PAGES + MORE + 3);
	assert_int_equal(after.nr_misses - before.nr_misses, 3);
	cached_bed_close(&bed);
}

/* ---- Pages that will be needed */

static int will_need(struct cached_bed *bed, uint64_t at, uint64_t length)
{
	const struct message_request request = {
		.kind = MESSAGE_WILL_NEED, .extent = bed->extent, .offset = at, .length = length};
	uint64_t value;

	return data_client_ask(&bed->client, &request, &value);
}

static struct store_work_stat await_ahead(struct cached_bed *bed, uint64_t nr)
{
	struct store_work_stat stat = cached_count(bed);

	while (stat.nr_ahead < nr) {
		test_pause();
		stat = cached_count(bed);
	}
	return stat;
}

/* The reply comes before the device has answered. Readers wait for the read that is under way. */
static void test_what_will_be_needed_is_read(void **state)
{
	static struct cached_reader reader;
	struct store_work_stat before, after;
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, 0, MIB, true);
	before = cached_count(&bed);
	flash_gate_hold(FLASH_IO_READ);
	assert_int_equal(will_need(&bed, AT + 100, 4 * FTL_BLOCK), 0);
	await_ahead(&bed, 5);
	cached_reader_begin(&bed, &reader, 2, AT);
	cached_await_counts(&bed, before.nr_misses, 1);
	flash_gate_release();
	assert_int_equal(cached_reader_end(&reader), 0);
	assert_memory_equal(reader.bytes, bed.image + AT, FTL_BLOCK);
	for (unsigned i = 1; i < 5; i++)
		cached_expect(&bed, AT + i * FTL_BLOCK, FTL_BLOCK);
	after = cached_await_all(&bed, 5);
	assert_int_equal(after.nr_misses, before.nr_misses);
	assert_int_equal(after.nr_hits, 4);
	assert_int_equal(after.nr_ahead, 5);
	/* They are there: nothing is read. */
	assert_int_equal(will_need(&bed, AT, 5 * FTL_BLOCK), 0);
	assert_int_equal(will_need(&bed, AT + 5 * FTL_BLOCK, 1), 0);
	assert_int_equal(await_ahead(&bed, 6).nr_ahead, 6);
	cached_bed_close(&bed);
}

/* A page that changes meanwhile is not kept. */
static void test_what_will_be_needed_changes(void **state)
{
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, AT, FTL_BLOCK, true);
	flash_gate_hold(FLASH_IO_READ);
	assert_int_equal(will_need(&bed, AT, FTL_BLOCK), 0);
	await_ahead(&bed, 1);
	cached_write(&bed, AT, FTL_BLOCK, false);
	flash_gate_release();
	cached_expect(&bed, AT, FTL_BLOCK);
	assert_int_equal(cached_await_all(&bed, 1).nr_hits, 0);
	cached_bed_close(&bed);
}

/* A client that says it of everything, again and again, has some pages read, and no page of others goes that is
 * read often. */
static void test_needing_too_much(void **state)
{
	enum { NR_PAGES = CACHED_BYTES / FTL_BLOCK, NR_HOT = NR_PAGES / 2, NR_ROUNDS = 3 };
	struct store_work_stat before, after;
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	for (uint64_t at = 0; at < CACHED_EXTENT_BYTES; at += MIB)
		cached_write(&bed, at, MIB, false);
	for (unsigned i = 0; i < NR_ROUNDS * NR_HOT; i++)
		cached_expect(&bed, i % NR_HOT * FTL_BLOCK, FTL_BLOCK);
	before = cached_await_all(&bed, NR_ROUNDS * NR_HOT);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(will_need(&bed, (2 + i % 2) * MIB, MIB), 0);
	after = cached_count(&bed);
	assert_in_range(await_ahead(&bed, 1).nr_ahead, 1, NR_PAGES / 4);
	for (unsigned i = 0; i < NR_HOT; i++)
		cached_expect(&bed, i * FTL_BLOCK, FTL_BLOCK);
	after = cached_await_all(&bed, (NR_ROUNDS + 1) * NR_HOT);
	assert_int_equal(after.nr_hits - before.nr_hits, NR_HOT);
	/* The space goes while it is read. */
	flash_gate_hold(FLASH_IO_READ);
	assert_int_equal(will_need(&bed, MIB, MIB), 0);
	cached_release_extent(&bed);
	flash_gate_release();
	cached_bed_close(&bed);
}

static void test_what_cannot_be_needed(void **state)
{
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	assert_int_equal(will_need(&bed, 0, 0), -EINVAL);
	assert_int_equal(will_need(&bed, 0, MESSAGE_NEED_MAX + 1), -EINVAL);
	assert_int_equal(will_need(&bed, CACHED_EXTENT_BYTES, 1), -ERANGE);
	assert_int_equal(will_need(&bed, UINT64_MAX - 5, 10), -ERANGE);
	bed.extent += 77;
	assert_int_equal(will_need(&bed, 0, 1), -AFAR_ELOST);
	bed.extent -= 77;
	cached_bed_close(&bed);
	cached_bed_open(&bed, 0);
	assert_int_equal(will_need(&bed, 0, MIB), 0);
	cached_bed_close(&bed);
}

/* ---- Checked reads */

static int read_checked(struct cached_bed *bed, uint64_t at, uint64_t length)
{
	struct fabric_memory memory = data_client_lend(&bed->client, bed->bytes, length);
	const struct fabric_piece piece = {bed->bytes, length, memory.descriptor};
	struct fabric_completion completion = {0};
	struct fabric_event event;

	memset(bed->bytes, 0x77, length);
	assert_int_equal(fabric_paged_transfer(bed->client.endpoint, FABRIC_PAGED_CHECKED, &piece,
					       1, cached_remote(bed, at), bed->key.on[0].key, 1),
			 0);
	while (data_client_step(&bed->client, &completion, &event) != 1)
		;
	fabric_memory_deregister(&memory);
	return completion.status;
}

struct damage {
	struct cached_bed *bed;
	struct cached_order *order;
};

/* Changes a bit of the extent's first page in its frame. On the store's thread. */
static void run_damage(void *argument)
{
	const struct damage *damage = argument;
	struct store *store = damage->bed->store;
	const struct store_extent *extent =
		cds_list_first_entry(&store->extents, struct store_extent, node);
	struct cache_frame *frame = cache_pin(store->pages.cache, store_extent_cached(extent), 0);

	frame->bytes[77] ^= 1;
	cache_unpin(store->pages.cache, frame);
	cached_order_done(damage->order, 0);
}

/* The sums that readers compare are the layer's, and not made of what lies in the frame. */
static void test_sums_are_kept(void **state)
{
	static const uint64_t lengths[] = {FTL_BLOCK, 3 * FTL_BLOCK, 16 * FTL_BLOCK,
					   20 * FTL_BLOCK};
	struct cached_order order;
	struct cached_bed bed;
	struct damage damage = {.bed = &bed};

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, 0, 18 * FTL_BLOCK, false);
	for (unsigned round = 0; round < 2; round++) {
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			assert_int_equal(read_checked(&bed, 0, lengths[i]), 0);
			assert_memory_equal(bed.bytes, bed.image, lengths[i]);
		}
	}
	cached_await_all(&bed, 2 * (1 + 3 + 16));
	cached_order_open(&order);
	damage.order = &order;
	assert_int_equal(progress_run(store_progress(bed.store), run_damage, &damage), 0);
	cached_order_await(&order);
	assert_int_equal(read_checked(&bed, 0, FTL_BLOCK), -EBADMSG);
	assert_int_equal(read_checked(&bed, 0, 3 * FTL_BLOCK), -EBADMSG);
	cached_bed_close(&bed);
}

/* ---- Writes of parts of a block */

#define PART 64U

/* Begins a write, and behind it a read of a page that is kept. So the write has come when that read is
 * counted. */
static void writer_begin(struct cached_bed *bed, struct cached_reader *writer, uint64_t session,
			 uint64_t at, bool is_durable)
{
	struct fabric_piece in = {.addr = writer->bytes, .length = PART};
	struct fabric_piece out = {.addr = writer->bytes + PART, .length = PART};
	const uint64_t key = bed->key.on[0].key;

	data_client_open(&writer->client);
	cached_join(bed, &writer->client, session);
	memcpy(writer->bytes, bed->image + at, PART);
	writer->memory = data_client_lend(&writer->client, writer->bytes, FTL_BLOCK);
	in.descriptor = out.descriptor = writer->memory.descriptor;
	assert_int_equal(
		fabric_paged_transfer(writer->client.endpoint,
				      FABRIC_PAGED_WRITE | (is_durable ? FABRIC_PAGED_DURABLE : 0),
				      &in, 1, cached_remote(bed, at), key, 1),
		0);
	assert_int_equal(
		fabric_read(writer->client.endpoint, &out, 1, cached_remote(bed, 2 * AT), key, 2),
		0);
}

/* Returns how the write has ended. */
static int writer_end(struct cached_reader *writer)
{
	struct fabric_completion completion = {0};
	struct fabric_event event;
	int status = 0;

	for (unsigned nr = 0; nr < 2;) {
		if (data_client_step(&writer->client, &completion, &event) != 1)
			continue;
		status = completion.context == 1 ? completion.status : status;
		nr++;
	}
	cached_reader_close(writer);
	return status;
}

static void await_hits(struct cached_bed *bed, uint64_t nr_hits)
{
	const uint64_t deadline = clock_deadline_ms(DATA_CLIENT_PATIENCE_MS);

	while (cached_count(bed).nr_hits != nr_hits) {
		assert_true(clock_ns() < deadline);
		test_pause();
	}
}

/* Writes that come while one of their page is at the layer are few puts, whoever writes and whether it
 * shall be durable. The last one adjoins no other. */
static void test_writes_of_a_page_are_merged(void **state)
{
	static struct cached_reader writers[NR_READERS];
	struct store_work_stat before, after;
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, AT, FTL_BLOCK, true);
	cached_expect(&bed, AT, FTL_BLOCK);
	cached_expect(&bed, 2 * AT, FTL_BLOCK);
	before = cached_await_all(&bed, 2);
	fill(bed.image + AT, 31 * PART, 1000);
	fill(bed.image + AT + 40 * PART, PART, 1001);
	flash_gate_hold(FLASH_IO_READ);
	writer_begin(&bed, &writers[0], 1, AT, false);
	flash_gate_await(FLASH_IO_READ, 1);
	for (unsigned i = 1; i < NR_READERS; i++)
		writer_begin(&bed, &writers[i], i % 4, AT + (i == 31 ? 40 : i) * PART, i % 2);
	await_hits(&bed, NR_READERS);
	flash_gate_release();
	for (unsigned i = 0; i < NR_READERS; i++)
		assert_int_equal(writer_end(&writers[i]), 0);
	cached_expect(&bed, AT, FTL_BLOCK);
	after = cached_await_all(&bed, 2 + NR_READERS + 1);
	assert_int_equal(after.nr_merged, 29);
	assert_int_equal(after.user_blocks - before.user_blocks, 3);
	cached_bed_close(&bed);
}

/* A durable write is answered when a flush has ended, another one of the same put before. */
static void test_merged_writes_are_answered_apart(void **state)
{
	static struct cached_reader writers[3];
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, AT, FTL_BLOCK, true);
	cached_expect(&bed, 2 * AT, FTL_BLOCK);
	cached_await_all(&bed, 1);
	fill(bed.image + AT, 3 * PART, 1000);
	flash_gate_hold(FLASH_IO_READ);
	flash_gate_hold(FLASH_IO_FLUSH);
	writer_begin(&bed, &writers[0], 1, AT, false);
	flash_gate_await(FLASH_IO_READ, 1);
	writer_begin(&bed, &writers[1], 2, AT + PART, true);
	writer_begin(&bed, &writers[2], 3, AT + 2 * PART, false);
	await_hits(&bed, 2 + 1);
	flash_gate_let(FLASH_IO_READ);
	assert_int_equal(writer_end(&writers[0]), 0);
	assert_int_equal(writer_end(&writers[2]), 0);
	flash_gate_await(FLASH_IO_FLUSH, 1);
	cached_expect(&bed, AT, FTL_BLOCK);
	assert_int_equal(
		fabric_queue_poll(writers[1].client.queue, &(struct fabric_completion){0}, 1), 0);
	flash_gate_release();
	assert_int_equal(writer_end(&writers[1]), 0);
	assert_int_equal(cached_await_all(&bed, 5).nr_merged, 1);
	cached_bed_close(&bed);
}

/* All who wait hear of it, those in the batch and those behind it. */
static void test_a_device_that_goes_with_writes(void **state)
{
	static struct cached_reader writers[8];
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, AT, FTL_BLOCK, true);
	cached_expect(&bed, 2 * AT, FTL_BLOCK);
	flash_gate_hold(FLASH_IO_READ);
	for (unsigned i = 0; i < 8; i++)
		writer_begin(&bed, &writers[i], i % 4, AT + i * PART, i % 2);
	await_hits(&bed, 8);
	flash_gate_break(-EIO);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(writer_end(&writers[i]), -EIO);
	cached_bed_close(&bed);
}

/* ---- Everything */

static unsigned dice(unsigned sides)
{
	static uint64_t random = 12345;

	random ^= random << 13;
	random ^= random >> 7;
	random ^= random << 17;
	return (unsigned)(random >> 32) % sides;
}

/* Any reads and changes, one after the other, with twice as many blocks as frames. */
static void test_like_memory(void **state)
{
	const uint64_t nr = test_effort(3000, 6000, 300000);
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	for (uint64_t i = 0; i < nr; i++) {
		const uint64_t at = dice(CACHED_EXTENT_BYTES);
		uint64_t length = 1 + dice(dice(4) == 0 ? 80 * KIB : 3 * FTL_BLOCK);

		if (length > CACHED_EXTENT_BYTES - at)
			length = CACHED_EXTENT_BYTES - at;
		switch (dice(8)) {
		case 0:
			cached_write(&bed, at, length, dice(4) == 0);
			break;
		case 1:
			memset(bed.image + at, 0, length);
			zero(&bed, at, length, 0);
			break;
		default:
			cached_expect(&bed, at, length);
		}
	}
	cached_bed_close(&bed);
}

/* Without a cache nothing is kept, and nothing counted. */
static void test_without(void **state)
{
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, 0);
	cached_write(&bed, AT, FTL_BLOCK, true);
	cached_expect(&bed, AT, FTL_BLOCK);
	cached_expect(&bed, AT, FTL_BLOCK);
	assert_null(bed.store->pages.cache);
	assert_int_equal(cached_count(&bed).nr_misses, 0);
	cached_bed_close(&bed);
}

TEST_GROUP(store_cache)
{
	/* Over a driven lane the bytes of writes come in any order, and no read behind them tells that they have. */
	const struct CMUnitTest merging[] = {
		cmocka_unit_test(test_writes_of_a_page_are_merged),
		cmocka_unit_test(test_merged_writes_are_answered_apart),
		cmocka_unit_test(test_a_device_that_goes_with_writes),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_readers_of_a_page_read_the_device_once),
		cmocka_unit_test(test_who_began_the_read_dies),
		cmocka_unit_test(test_errors_are_told_and_not_kept),
		cmocka_unit_test(test_a_device_that_goes),
		cmocka_unit_test(test_a_page_changes_while_it_is_read),
		cmocka_unit_test(test_a_page_is_read_while_it_changes),
		cmocka_unit_test(test_what_changes_is_not_kept),
		cmocka_unit_test(test_replies_leave_nothing_behind),
		cmocka_unit_test(test_long_reads_go_past),
		cmocka_unit_test(test_reads_once_keep_nothing),
		cmocka_unit_test(test_what_will_be_needed_is_read),
		cmocka_unit_test(test_what_will_be_needed_changes),
		cmocka_unit_test(test_needing_too_much),
		cmocka_unit_test(test_what_cannot_be_needed),
		cmocka_unit_test(test_sums_are_kept),
		cmocka_unit_test(test_like_memory),
		cmocka_unit_test(test_without),
	};

	int nr_failed = cmocka_run_group_tests(tests, NULL, NULL);

	return is_on_driven() ? nr_failed : nr_failed + cmocka_run_group_tests(merging, NULL, NULL);
}
