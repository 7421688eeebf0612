/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that keeps pages, and others that do not do their part. A client wants all pages at once, and
 * dies. A device answers late, or never, while many wait for one page. The machine is short of memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lib/base/effort.h"
#include "lib/server/cached_bed.h"
#include "lib/server/flash_gate.h"
#include "unit/group.h"

#define AT	   (8 * FTL_BLOCK) /* a page that many want */
#define NR_READERS 32U
#define NR_FRAMES  (CACHED_BYTES / FTL_BLOCK)

/* A process that reads by many connections, and looks at nothing that comes back. */
#define NR_CONNECTIONS 32U
#define NR_READS       31U /* by each: as many as there may be over any lane */

struct greedy {
	struct data_client clients[NR_CONNECTIONS];
	struct fabric_memory memory[NR_CONNECTIONS];
	uint8_t *bytes; /* of one read by each */
};

static void post(struct cached_bed *bed, struct greedy *greedy, unsigned connection, unsigned i)
{
	const struct fabric_piece piece = {
		.addr = greedy->bytes + (size_t)connection * FTL_BLOCK,
		.length = FTL_BLOCK,
		.descriptor = greedy->memory[connection].descriptor,
	};
	const uint64_t page = connection * NR_READS + i;

	assert_int_equal(fabric_read(greedy->clients[connection].endpoint, &piece, 1,
				     cached_remote(bed, page * FTL_BLOCK), bed->key.on[0].key, 1),
			 0);
}

/* Reads a page each time. All are on their way when this returns. */
static void greedy_open(struct cached_bed *bed, struct greedy *greedy)
{
	struct fabric_completion completion;

	greedy->bytes = malloc((size_t)NR_CONNECTIONS * FTL_BLOCK);
	assert_non_null(greedy->bytes);
	for (unsigned i = 0; i < NR_CONNECTIONS; i++) {
		struct data_client *client = &greedy->clients[i];

		data_client_open(client);
		fabric_queue_close(client->queue);
		assert_int_equal(fabric_queue_open(client->fabric, NR_READS, &client->queue), 0);
		cached_join(bed, client, 7);
		greedy->memory[i] =
			data_client_lend(client, greedy->bytes + (size_t)i * FTL_BLOCK, FTL_BLOCK);
		for (unsigned j = 0; j < NR_READS; j++)
			post(bed, greedy, i, j);
		assert_int_equal(fabric_queue_poll(client->queue, &completion, 1), 0);
	}
}

static void greedy_die(struct greedy *greedy)
{
	for (unsigned i = 0; i < NR_CONNECTIONS; i++) {
		fabric_memory_deregister(&greedy->memory[i]);
		data_client_close(&greedy->clients[i]);
	}
	free(greedy->bytes);
}

static void await_misses(struct cached_bed *bed, uint64_t nr)
{
	const uint64_t deadline = clock_deadline_ms(DATA_CLIENT_PATIENCE_MS);

	while (cached_count(bed).nr_misses < nr) {
		assert_true(clock_ns() < deadline);
		test_pause();
	}
}

static void await_connections(struct cached_bed *bed, unsigned nr)
{
	const uint64_t deadline = clock_deadline_ms(DATA_CLIENT_PATIENCE_MS);

	while (progress_nr_connections(store_progress(bed->store)) != nr) {
		assert_true(clock_ns() < deadline);
		test_pause();
	}
}

struct look {
	struct cached_bed *bed;
	struct cached_order order;
	struct cache_stat stat;
	uint32_t nr_backed; /* slabs that have memory */
};

static void run_look(void *argument)
{
	struct look *look = argument;

	cache_stat(look->bed->store->pages.cache, &look->stat);
	look->nr_backed = look->bed->store->pages.nr_backed;
	cached_order_done(&look->order, 0);
}

static struct look look_now(struct cached_bed *bed)
{
	struct look look = {.bed = bed};

	cached_order_open(&look.order);
	assert_int_equal(progress_run(store_progress(bed->store), run_look, &look), 0);
	cached_order_await(&look.order);
	return look;
}

/* Returns what the table itself has counted by now. */
static struct cache_stat look_at_table(struct cached_bed *bed)
{
	return look_now(bed).stat;
}

/* Reads as many pages as there are frames, and of these the last half again: that is there. */
static void expect_all_frames_work(struct cached_bed *bed)
{
	const unsigned nr_again = NR_FRAMES / 2;
	struct cache_stat before;

	for (uint64_t i = 0; i < NR_FRAMES; i++)
		cached_expect(bed, i * FTL_BLOCK, FTL_BLOCK);
	before = look_at_table(bed);
	assert_int_equal(before.nr_used, NR_FRAMES);
	for (uint64_t i = NR_FRAMES - nr_again; i < NR_FRAMES; i++)
		cached_expect(bed, i * FTL_BLOCK, FTL_BLOCK);
	assert_int_equal(look_at_table(bed).nr_hits, before.nr_hits + nr_again);
}

/* It gets no more than its share: what another wants is read beside that, and who waits for one of its
 * pages gets that. Pages that nobody waits for any more are kept, and each frame is of use again. */
static void test_a_client_wants_all_and_dies(void **state)
{
	static struct cached_reader same, other;
	struct cache_stat before;
	struct greedy greedy;
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	for (uint64_t at = 0; at < CACHED_EXTENT_BYTES; at += MIB)
		cached_write(&bed, at, MIB, false);
	flash_gate_hold(FLASH_IO_READ);
	greedy_open(&bed, &greedy);
	await_misses(&bed, 2 * NR_CONNECTIONS);
	cached_reader_begin(&bed, &same, 2, 0);
	cached_reader_begin(&bed, &other, 3, CACHED_EXTENT_BYTES - FTL_BLOCK);
	while (look_at_table(&bed).nr_shared == 0)
		test_pause();
	greedy_die(&greedy);
	await_connections(&bed, 3);
	before = look_at_table(&bed);
	flash_gate_release();
	assert_int_equal(cached_reader_end(&same), 0);
	assert_memory_equal(same.bytes, bed.image, FTL_BLOCK);
	assert_int_equal(cached_reader_end(&other), 0);
	assert_memory_equal(other.bytes, bed.image + CACHED_EXTENT_BYTES - FTL_BLOCK, FTL_BLOCK);
	cached_expect(&bed, 0, FTL_BLOCK);
	assert_int_equal(look_at_table(&bed).nr_hits, before.nr_hits + 1);
	expect_all_frames_work(&bed);
	cached_bed_close(&bed);
}

static void begin_readers(struct cached_bed *bed, struct cached_reader *readers)
{
	flash_gate_hold(FLASH_IO_READ);
	for (unsigned i = 0; i < NR_READERS; i++)
		cached_reader_begin(bed, &readers[i], 2 + i % 4, AT);
	cached_await_counts(bed, 2, NR_READERS - 1);
}

/* While a device does not answer for one page, others are read from memory, and written. Half of
 * those who wait leave. */
static void go_on_meanwhile(struct cached_bed *bed, struct cached_reader *readers)
{
	cached_expect(bed, 2 * AT, FTL_BLOCK);
	cached_write(bed, 4 * AT, FTL_BLOCK, true);
	for (unsigned i = 0; i < NR_READERS; i += 2)
		cached_reader_close(&readers[i]);
	await_connections(bed, 1 + NR_READERS / 2);
	cached_expect(bed, 2 * AT, FTL_BLOCK);
}

static void test_a_device_answers_late(void **state)
{
	static struct cached_reader readers[NR_READERS];
	struct store_work_stat before;
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, AT, FTL_BLOCK, true);
	cached_write(&bed, 2 * AT, FTL_BLOCK, true);
	cached_expect(&bed, 2 * AT, FTL_BLOCK);
	before = cached_await_all(&bed, 1);
	begin_readers(&bed, readers);
	go_on_meanwhile(&bed, readers);
	flash_gate_release();
	for (unsigned i = 1; i < NR_READERS; i += 2) {
		assert_int_equal(cached_reader_end(&readers[i]), 0);
		assert_memory_equal(readers[i].bytes, bed.image + AT, FTL_BLOCK);
	}
	cached_expect(&bed, AT, FTL_BLOCK);
	assert_int_equal(cached_await_all(&bed, 1 + NR_READERS + 3).device_reads,
			 before.device_reads + 1);
	cached_bed_close(&bed);
}

/* It is given up in the end. Those who have left are not told, and the frame is not used again. */
static void test_a_device_never_answers(void **state)
{
	static struct cached_reader readers[NR_READERS];
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, CACHED_BYTES);
	cached_write(&bed, AT, FTL_BLOCK, true);
	cached_write(&bed, 2 * AT, FTL_BLOCK, true);
	cached_expect(&bed, 2 * AT, FTL_BLOCK);
	begin_readers(&bed, readers);
	go_on_meanwhile(&bed, readers);
	flash_gate_break(-EIO);
	for (unsigned i = 1; i < NR_READERS; i += 2)
		assert_int_equal(cached_reader_end(&readers[i]), -EIO);
	assert_int_equal(cached_read(&bed, &bed.client, 2 * AT, FTL_BLOCK), -EIO);
	cached_bed_close(&bed);
}

/* ---- A machine that is short of memory */

#define ROOM	 (4 * MIB) /* of the cache: a frame for each page of the extent */
#define NR_PAGES (CACHED_EXTENT_BYTES / FTL_BLOCK)

static void await_cache_bytes(struct cached_bed *bed, uint64_t bytes)
{
	const uint64_t deadline = clock_deadline_ms(DATA_CLIENT_PATIENCE_MS);

	while (cached_count(bed).cache_bytes != bytes) {
		assert_true(clock_ns() < deadline);
		test_pause();
	}
}

static void run_later(void *argument)
{
	struct look *look = argument;

	pages_ease(&look->bed->store->pages, clock_ns() + UINT64_C(61000000000));
	look->bed->store->is_count_due = true;
	cached_order_done(&look->order, 0);
}

/* Tells the store that a minute has passed. */
static void ease(struct cached_bed *bed)
{
	struct look look = {.bed = bed};

	cached_order_open(&look.order);
	assert_int_equal(progress_run(store_progress(bed->store), run_later, &look), 0);
	cached_order_await(&look.order);
}

static void expect_all(struct cached_bed *bed)
{
	for (uint64_t i = 0; i < NR_PAGES; i++)
		cached_expect(bed, i * FTL_BLOCK, FTL_BLOCK);
}

/* It gets half of the cache's memory, as soon as no read goes there any more, and 2 MiB stay. A minute
 * later the store takes it again. */
static void test_memory_is_given_back(void **state)
{
	static struct cached_reader reader;
	struct cached_bed bed;

	(void)state;
	cached_bed_open(&bed, ROOM);
	for (uint64_t at = 0; at < CACHED_EXTENT_BYTES; at += MIB)
		cached_write(&bed, at, MIB, false);
	for (uint64_t i = 0; i < NR_PAGES - 1; i++)
		cached_expect(&bed, i * FTL_BLOCK, FTL_BLOCK);
	flash_gate_hold(FLASH_IO_READ);
	cached_reader_begin(&bed, &reader, 2, (NR_PAGES - 1ULL) * FTL_BLOCK);
	flash_gate_await(FLASH_IO_READ, 1);
	assert_int_equal(store_press(bed.store), 0);
	await_cache_bytes(&bed, ROOM / 2);
	assert_int_equal(look_now(&bed).nr_backed, 2);
	cached_expect(&bed, 0, FTL_BLOCK);
	flash_gate_release();
	assert_int_equal(cached_reader_end(&reader), 0);
	assert_memory_equal(reader.bytes, bed.image + (NR_PAGES - 1ULL) * FTL_BLOCK, FTL_BLOCK);
	while (look_now(&bed).nr_backed > 1)
		test_pause();
	expect_all(&bed);
	assert_int_equal(store_press(bed.store), 0);
	assert_int_equal(look_at_table(&bed).nr_frames, ROOM / 2 / FTL_BLOCK);
	ease(&bed);
	await_cache_bytes(&bed, ROOM);
	expect_all(&bed);
	expect_all(&bed);
	assert_int_equal(look_at_table(&bed).nr_used, NR_PAGES);
	cached_bed_close(&bed);
}

TEST_GROUP(store_cache_trouble)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_client_wants_all_and_dies),
		cmocka_unit_test(test_a_device_answers_late),
		cmocka_unit_test(test_a_device_never_answers),
		cmocka_unit_test(test_memory_is_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
