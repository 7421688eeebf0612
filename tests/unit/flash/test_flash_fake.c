/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fake flash device is for faults where they were asked for, any order, and power cuts that
 * lose what they may and nothing else. These tests do not say again what test_flash_device.c says
 * of all devices.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/flash/flash_fake.h"
#include "lib/flash/flash_fake_image.h"
#include "lib/flash/flash_io.h"
#include "unit/group.h"

#define SIZE	    ((uint64_t)4 << 20)
#define SECTOR	    ((uint64_t)512)
#define PAGE	    ((uint64_t)4096)
#define NR_SECTORS  (PAGE / SECTOR)
#define NR_SEEDS    200U
#define NR_RECORDED 10000U

static struct flash_device *open_fake(bool can_lose_power, unsigned latency_max)
{
	const struct flash_fake_options options = {.size = SIZE,
						   .sector = SECTOR,
						   .discard_unit = PAGE,
						   .seed = 42,
						   .latency_max = latency_max,
						   .can_lose_power = can_lose_power};
	struct flash_device *device;

	assert_int_equal(flash_fake_open(&options, &device), 0);
	return device;
}

static struct flash_device *restart(struct flash_device *device, uint64_t seed)
{
	struct flash_device *next;

	assert_int_equal(flash_fake_restart(device, seed, &next), 0);
	flash_device_close(device);
	return next;
}

static void write_page(struct flash_device *device, unsigned flags, uint64_t page, char byte)
{
	static char *memory;

	if (!memory)
		memory = flash_memory(PAGE);
	memset(memory, byte, PAGE);
	assert_int_equal(flash_write(device, flags, page * PAGE, memory, PAGE), 0);
}

/* The byte that all of a sector has. */
static char sector_at(const struct flash_device *device, uint64_t offset)
{
	char sector[SECTOR];

	flash_fake_peek(device, offset, sector, SECTOR);
	for (uint64_t i = 1; i < SECTOR; i++)
		assert_int_equal(sector[i], sector[0]);
	return sector[0];
}

/* How many sectors of a page have it. */
static unsigned sectors_with(const struct flash_device *device, uint64_t page, char byte)
{
	unsigned nr = 0;

	for (uint64_t i = 0; i < NR_SECTORS; i++)
		nr += sector_at(device, page * PAGE + i * SECTOR) == byte;
	return nr;
}

/* ---- Faults */

static int read_page(struct flash_device *device, uint64_t page)
{
	char *memory = flash_memory(PAGE);
	int ret = flash_read(device, page * PAGE, memory, PAGE);

	free(memory);
	return ret;
}

static void fails_where_it_is_told(void **state)
{
	struct flash_device *device = open_fake(false, 1);
	const struct flash_fake_fault lasting = {.opcode = FLASH_IO_READ,
						 .offset = 5 * PAGE + SECTOR,
						 .length = SECTOR,
						 .error = -EIO};
	const struct flash_fake_fault twice = {.opcode = FLASH_IO_READ,
					       .offset = 9 * PAGE,
					       .length = PAGE,
					       .error = -ENODATA,
					       .skip = 1,
					       .nr = 2};

	(void)state;
	assert_int_equal(flash_fake_fail(device, &lasting), 0);
	assert_int_equal(flash_fake_fail(device, &twice), 0);
	write_page(device, 0, 5, 'x');
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(read_page(device, 5), -EIO);
	assert_int_equal(read_page(device, 4), 0);
	assert_int_equal(read_page(device, 6), 0);
	assert_int_equal(read_page(device, 9), 0);
	assert_int_equal(read_page(device, 9), -ENODATA);
	assert_int_equal(read_page(device, 9), -ENODATA);
	assert_int_equal(read_page(device, 9), 0);
	flash_fake_heal(device);
	assert_int_equal(read_page(device, 5), 0);
	flash_device_close(device);
}

static void failing_writes_are_there_in_part(void **state)
{
	struct flash_device *device = open_fake(false, 1);
	const struct flash_fake_fault fault = {
		.opcode = FLASH_IO_WRITE, .length = SIZE, .error = -EIO};
	char *memory = flash_memory(PAGE);
	bool was_some = false, was_none = false, was_all = false;

	(void)state;
	assert_int_equal(flash_fake_fail(device, &fault), 0);
	memset(memory, 'n', PAGE);
	for (uint64_t page = 0; page < 200; page++) {
		unsigned nr;

		assert_int_equal(flash_write(device, 0, page * PAGE, memory, PAGE), -EIO);
		nr = sectors_with(device, page, 'n');
		assert_int_equal(nr + sectors_with(device, page, 0), NR_SECTORS);
		was_none |= nr == 0;
		was_all |= nr == NR_SECTORS;
		was_some |= nr > 0 && nr < NR_SECTORS;
	}
	assert_true(was_none && was_some && was_all);
	free(memory);
	flash_device_close(device);
}

static void loses_a_write_and_fails_a_flush(void **state)
{
	struct flash_device *device = open_fake(true, 1);
	const struct flash_fake_fault lost = {
		.opcode = FLASH_IO_WRITE, .length = SIZE, .error = 0, .nr = 1};
	const struct flash_fake_fault failing = {.opcode = FLASH_IO_FLUSH, .error = -EIO, .nr = 1};
	bool was_lost = false;

	(void)state;
	write_page(device, FLASH_IO_DURABLE, 1, 'o');
	assert_int_equal(flash_fake_fail(device, &lost), 0);
	write_page(device, FLASH_IO_DURABLE, 1, 'n');
	assert_int_equal(sectors_with(device, 1, 'o'), NR_SECTORS);
	/* A flush that failed kept nothing. */
	assert_int_equal(flash_fake_fail(device, &failing), 0);
	for (uint64_t seed = 0; seed < NR_SEEDS && !was_lost; seed++) {
		flash_fake_heal(device);
		write_page(device, FLASH_IO_DURABLE, 2, 'o');
		write_page(device, 0, 2, 'w');
		assert_int_equal(flash_fake_fail(device, &failing), 0);
		assert_int_equal(flash_flush(device), -EIO);
		device = restart(device, seed);
		was_lost = sectors_with(device, 2, 'w') == 0;
	}
	assert_true(was_lost);
	assert_int_equal(sectors_with(device, 1, 'o'), NR_SECTORS);
	flash_device_close(device);
}

static void pokes_are_seen_and_survive(void **state)
{
	struct flash_device *device = open_fake(true, 1);

	(void)state;
	write_page(device, FLASH_IO_DURABLE, 3, 'a');
	assert_int_equal(flash_fake_poke(device, 3 * PAGE + 7, "b", 1), 0);
	for (unsigned i = 0; i < 2; i++) {
		char found[3];

		flash_fake_peek(device, 3 * PAGE + 6, found, sizeof(found));
		assert_memory_equal(found, "aba", 3);
		device = restart(device, i);
	}
	flash_device_close(device);
}

static void tells_of_memory_that_changed(void **state)
{
	struct flash_device *device = open_fake(true, 1);
	char *memory = flash_memory(PAGE);
	struct test_io test;

	(void)state;
	test_io_submit(device, &test, FLASH_IO_WRITE, 0, 0, memory, PAGE);
	memory[17] = 'x';
	assert_int_equal(test_io_wait(device, &test), -EFAULT);
	free(memory);
	flash_device_close(device);
}

/* ---- Order */

/* The order in which three writes to one sector ended, by what is there. */
static unsigned orders_seen(bool is_in_order, unsigned latency_max)
{
	unsigned seen = 0;

	for (uint64_t seed = 0; seed < NR_SEEDS; seed++) {
		const struct flash_fake_options options = {.size = SIZE,
							   .sector = SECTOR,
							   .seed = seed,
							   .latency_max = latency_max,
							   .is_in_order = is_in_order};
		char *memory = flash_memory(3 * SECTOR);
		struct test_io tests[3];
		struct flash_device *device;
		unsigned nr_ended = 0;

		assert_int_equal(flash_fake_open(&options, &device), 0);
		for (unsigned i = 0; i < 3; i++) {
			memset(memory + i * SECTOR, (int)i, SECTOR);
			test_io_submit(device, &tests[i], FLASH_IO_WRITE, 0, 0, memory + i * SECTOR,
				       SECTOR);
		}
		while (nr_ended < 3)
			nr_ended += (unsigned)flash_device_poll(device, -1);
		seen |= 1U << sector_at(device, 0);
		flash_device_close(device);
		free(memory);
	}
	return seen;
}

static void ends_in_any_order_or_as_given(void **state)
{
	(void)state;
	assert_int_equal(orders_seen(false, 1), 7);
	assert_int_equal(orders_seen(false, 4), 7);
	assert_int_equal(orders_seen(true, 1), 4);
}

static void takes_its_time(void **state)
{
	struct flash_device *device = open_fake(false, 100);
	uint64_t longest = 0;

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		uint64_t before = flash_fake_ticks(device), took;

		assert_int_equal(read_page(device, i), 0);
		took = flash_fake_ticks(device) - before;
		assert_in_range(took, 1, 100);
		longest = took > longest ? took : longest;
	}
	assert_true(longest > 50);
	flash_device_close(device);
}

/* ---- Cuts, live */

static void flushed_writes_survive(void **state)
{
	struct flash_device *device = open_fake(true, 3);

	(void)state;
	for (uint64_t seed = 0; seed < NR_SEEDS; seed++) {
		write_page(device, 0, 1, (char)(seed % 100));
		assert_int_equal(flash_flush(device), 0);
		write_page(device, FLASH_IO_DURABLE, 2, (char)(seed % 100));
		device = restart(device, seed);
		assert_int_equal(sectors_with(device, 1, (char)(seed % 100)), NR_SECTORS);
		assert_int_equal(sectors_with(device, 2, (char)(seed % 100)), NR_SECTORS);
	}
	flash_device_close(device);
}

struct outcomes {
	unsigned nr_whole, nr_none, nr_torn;
};

static void count_outcome(struct outcomes *outcomes, const struct flash_device *device,
			  uint64_t page, char before, char after)
{
	unsigned nr = sectors_with(device, page, after);

	assert_int_equal(nr + sectors_with(device, page, before), NR_SECTORS);
	outcomes->nr_whole += nr == NR_SECTORS;
	outcomes->nr_none += nr == 0;
	outcomes->nr_torn += nr > 0 && nr < NR_SECTORS;
}

/* Both ended and in flight: whole, not at all, and torn between sectors, each by itself. */
static void unflushed_writes_may_survive(void **state)
{
	struct outcomes ended = {0}, in_flight = {0};
	unsigned nr_later_alone = 0;
	char *memory = flash_memory(PAGE);

	(void)state;
	memset(memory, 'f', PAGE);
	for (uint64_t seed = 0; seed < NR_SEEDS; seed++) {
		struct flash_device *device = open_fake(true, 1);
		struct test_io test;

		for (uint64_t page = 1; page <= 3; page++)
			write_page(device, FLASH_IO_DURABLE, page, 'o');
		write_page(device, 0, 1, 'n');
		write_page(device, 0, 2, 'n');
		test_io_submit(device, &test, FLASH_IO_WRITE, FLASH_IO_DURABLE, 3 * PAGE, memory,
			       PAGE);
		flash_fake_cut_after(device, 0);
		assert_int_equal(flash_device_poll(device, -1), -ENODEV);
		device = restart(device, seed);
		assert_int_equal(test.nr_ended, 0);
		count_outcome(&ended, device, 1, 'o', 'n');
		count_outcome(&in_flight, device, 3, 'o', 'f');
		nr_later_alone += sectors_with(device, 1, 'n') == 0 &&
				  sectors_with(device, 2, 'n') == NR_SECTORS;
		flash_device_close(device);
	}
	assert_true(ended.nr_whole > 0 && ended.nr_none > 0 && ended.nr_torn > 0);
	assert_true(in_flight.nr_whole > 0 && in_flight.nr_none > 0 && in_flight.nr_torn > 0);
	assert_true(nr_later_alone > 0);
	free(memory);
}

/* The data from before a durable write does not come back, not even in a later cut. */
static void earlier_writes_do_not_come_back(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < NR_SEEDS; seed++) {
		struct flash_device *device = open_fake(true, 1);

		write_page(device, 0, 1, 'a');
		write_page(device, FLASH_IO_DURABLE, 1, 'b');
		device = restart(device, seed);
		assert_int_equal(sectors_with(device, 1, 'b'), NR_SECTORS);
		write_page(device, 0, 1, 'c');
		device = restart(device, seed + 1);
		if (sectors_with(device, 1, 'c') == 0)
			assert_int_equal(sectors_with(device, 1, 'b'), NR_SECTORS);
		flash_device_close(device);
	}
}

/* A flush keeps what ended before it was submitted, and nothing more. */
static void a_flush_keeps_what_had_ended(void **state)
{
	bool was_lost = false;

	(void)state;
	for (uint64_t seed = 0; seed < NR_SEEDS; seed++) {
		const struct flash_fake_options options = {.size = SIZE,
							   .sector = SECTOR,
							   .is_in_order = true,
							   .can_lose_power = true};
		char *memory = flash_memory(PAGE);
		struct flash_device *device;
		struct test_io write, flush;

		assert_int_equal(flash_fake_open(&options, &device), 0);

		memset(memory, 'n', PAGE);
		write_page(device, 0, 2, 'n');
		test_io_submit(device, &write, FLASH_IO_WRITE, 0, PAGE, memory, PAGE);
		test_io_submit(device, &flush, FLASH_IO_FLUSH, 0, 0, NULL, 0);
		while (write.nr_ended + flush.nr_ended < 2)
			assert_true(flash_device_poll(device, -1) >= 0);
		device = restart(device, seed);
		was_lost |= sectors_with(device, 1, 'n') == 0;
		assert_int_equal(sectors_with(device, 2, 'n'), NR_SECTORS);
		flash_device_close(device);
		free(memory);
	}
	assert_true(was_lost);
}

/* Behind the n-th event: who submitted is not told of what ended with it. */
static void is_cut_behind_an_event(void **state)
{
	struct flash_device *device = open_fake(true, 1);
	char *memory = flash_memory(PAGE);
	struct test_io test;

	(void)state;
	write_page(device, 0, 0, 'a');
	assert_int_equal(flash_fake_events(device), 2);
	flash_fake_cut_after(device, 3);
	write_page(device, 0, 1, 'b');
	assert_int_equal(flash_fake_events(device), 4);
	assert_false(flash_fake_is_cut(device));
	test_io_submit(device, &test, FLASH_IO_WRITE, 0, 0, memory, PAGE);
	assert_true(flash_fake_is_cut(device));
	assert_int_equal(flash_device_poll(device, -1), -ENODEV);
	assert_int_equal(flash_fake_events(device), 5);
	assert_int_equal(test.nr_ended, 0);
	device = restart(device, 0);
	flash_fake_cut_after(device, 2);
	test_io_submit(device, &test, FLASH_IO_WRITE, 0, 0, memory, PAGE);
	assert_false(flash_fake_is_cut(device));
	assert_int_equal(flash_device_poll(device, -1), -ENODEV);
	assert_int_equal(test.nr_ended, 0);
	free(memory);
	flash_device_close(device);
}

static void needs_to_be_told_that_it_can(void **state)
{
	struct flash_device *device = open_fake(false, 1), *next;

	(void)state;
	assert_int_equal(flash_fake_restart(device, 0, &next), -EINVAL);
	flash_device_close(device);
}

/* ---- Cuts, recorded */

/*
 * A page by the test's own count: what surely is there, and what may be, as numbers of writes.
 */
struct page_history {
	uint64_t event;	  /* at which it changed                           */
	uint8_t surely;	  /* the newest that must be there, or a newer one */
	uint8_t possibly; /* the newest that may be there                  */
};

struct trace {
	struct flash_fake_log *log;
	struct page_history *history[64]; /* of 64 pages, in the order of events */
	size_t nr[64];
};

static void remember(struct trace *trace, uint64_t page, struct page_history now)
{
	size_t nr = trace->nr[page];

	if (nr % 64 == 0)
		trace->history[page] =
			realloc(trace->history[page], (nr + 64) * sizeof(struct page_history));
	assert_non_null(trace->history[page]);
	trace->history[page][nr] = now;
	trace->nr[page]++;
}

/*
 * Pages are written with growing numbers, one write of a page at a time, some durably, with flushes
 * in between. When a write is submitted its number becomes possible at the next event; it is sure
 * once it, or a flush behind it, has ended.
 */
static void record(struct trace *trace)
{
	struct flash_device *device = open_fake(true, 2);
	char *memory = flash_memory(PAGE);
	uint8_t surely[64] = {0}, newest[64] = {0};
	uint64_t dice = 99;

	assert_int_equal(flash_fake_record(device, &trace->log), 0);
	for (unsigned i = 0; i < NR_RECORDED; i++) {
		uint64_t page = dice_below(&dice, 64);
		bool is_durable = dice_below(&dice, 4) == 0;

		if (dice_below(&dice, 50) == 0) {
			assert_int_equal(flash_flush(device), 0);
			for (page = 0; page < 64; page++) {
				surely[page] = newest[page];
				remember(trace, page,
					 (struct page_history){flash_fake_events(device),
							       surely[page], newest[page]});
			}
			continue;
		}
		if (newest[page] == UINT8_MAX)
			continue;
		memset(memory, ++newest[page], PAGE);
		remember(trace, page,
			 (struct page_history){flash_fake_events(device) + 1, surely[page],
					       newest[page]});
		assert_int_equal(flash_write(device, is_durable ? FLASH_IO_DURABLE : 0, page * PAGE,
					     memory, PAGE),
				 0);
		if (is_durable)
			surely[page] = newest[page];
		remember(trace, page,
			 (struct page_history){flash_fake_events(device), surely[page],
					       newest[page]});
	}
	assert_int_equal(flash_fake_events(device), flash_fake_log_events(trace->log));
	flash_device_close(device);
	free(memory);
}

static void check_pages(const struct trace *trace, const struct flash_device *device,
			const size_t at[64])
{
	for (uint64_t page = 0; page < 64; page++) {
		struct page_history now =
			at[page] ? trace->history[page][at[page] - 1] : (struct page_history){0};

		for (uint64_t i = 0; i < NR_SECTORS; i++) {
			uint8_t found = (uint8_t)sector_at(device, page * PAGE + i * SECTOR);

			assert_in_range(found, now.surely, now.possibly);
		}
	}
}

static void every_cut_of_a_record_keeps_what_it_must(void **state)
{
	struct trace trace = {0};
	size_t at[64] = {0};
	uint64_t nr_events;

	(void)state;
	record(&trace);
	nr_events = flash_fake_log_events(trace.log);
	assert_true(nr_events > NR_RECORDED);
	for (uint64_t n = 0; n <= nr_events; n++) {
		struct flash_device *device;

		for (uint64_t page = 0; page < 64; page++) {
			while (at[page] < trace.nr[page] &&
			       trace.history[page][at[page]].event <= n)
				at[page]++;
		}
		assert_int_equal(flash_fake_image_at(trace.log, n, n, &device), 0);
		if (n % 8 == 0) /* looking at all of it takes longer than making it */
			check_pages(&trace, device, at);
		flash_device_close(device);
	}
	flash_fake_log_close(trace.log);
	for (unsigned page = 0; page < 64; page++)
		free(trace.history[page]);
}

static char *survivor(struct flash_fake_log *log, uint64_t nr_events, uint64_t seed)
{
	struct flash_device *device;
	char *all = flash_memory(8 * PAGE);

	assert_int_equal(flash_fake_image_at(log, nr_events, seed, &device), 0);
	flash_fake_peek(device, 0, all, 8 * PAGE);
	/* A write to one image is not in the next. */
	write_page(device, FLASH_IO_DURABLE, 2, 'Z');
	flash_device_close(device);
	return all;
}

static void a_record_is_the_same_from_any_side(void **state)
{
	struct flash_device *device = open_fake(false, 1);
	struct flash_fake_log *log;
	uint64_t nr;

	(void)state;
	assert_int_equal(flash_fake_record(device, &log), 0);
	for (unsigned i = 0; i < 100; i++) {
		write_page(device, i % 7 == 0 ? FLASH_IO_DURABLE : 0, i % 8, (char)(i + 1));
		if (i % 16 == 15)
			assert_int_equal(flash_flush(device), 0);
	}
	flash_device_close(device);
	nr = flash_fake_log_events(log);
	for (uint64_t n = 0; n < nr; n += 7) {
		char *before = survivor(log, n, 5), *at_end = survivor(log, nr, 5);
		char *after = survivor(log, n, 5);

		assert_memory_equal(before, after, 8 * PAGE);
		free(before);
		free(at_end);
		free(after);
	}
	assert_int_equal(flash_fake_image_at(log, nr + 1, 0, &device), -EINVAL);
	flash_fake_log_close(log);
}

/* Recovery is cut as well. */
static void an_image_can_lose_power(void **state)
{
	struct flash_device *device = open_fake(true, 1), *second;
	struct flash_fake_log *log;
	struct outcomes outcomes = {0};

	(void)state;
	assert_int_equal(flash_fake_record(device, &log), 0);
	write_page(device, FLASH_IO_DURABLE, 1, 'o');
	write_page(device, FLASH_IO_DURABLE, 4, 'k');
	flash_device_close(device);
	for (uint64_t seed = 0; seed < NR_SEEDS; seed++) {
		assert_int_equal(flash_fake_image_at(log, 4, seed, &device), 0);
		assert_int_equal(flash_fake_image_at(log, 4, seed, &second), -EBUSY);
		write_page(device, 0, 1, 'n');
		device = restart(device, seed);
		count_outcome(&outcomes, device, 1, 'o', 'n');
		assert_int_equal(sectors_with(device, 4, 'k'), NR_SECTORS);
		device = restart(device, seed + 1);
		assert_int_equal(sectors_with(device, 4, 'k'), NR_SECTORS);
		flash_device_close(device);
	}
	assert_true(outcomes.nr_whole > 0 && outcomes.nr_none > 0 && outcomes.nr_torn > 0);
	flash_fake_log_close(log);
}

static void records_from_the_start_only(void **state)
{
	struct flash_device *device = open_fake(true, 1);
	struct flash_fake_log *log;

	(void)state;
	write_page(device, 0, 0, 'a');
	assert_int_equal(flash_fake_record(device, &log), -EBUSY);
	flash_device_close(device);
}

/* ---- Discards and counts */

static void discards_leave_anything(void **state)
{
	struct flash_device *device = open_fake(true, 1);
	bool was_old = false, was_zero = false, was_else = false;

	(void)state;
	for (unsigned i = 0; i < NR_SEEDS; i++) {
		char found;

		write_page(device, 0, 1, 'a');
		write_page(device, FLASH_IO_DURABLE, 2, 'b');
		assert_int_equal(flash_discard(device, PAGE, PAGE), 0);
		found = sector_at(device, PAGE);
		was_old |= found == 'a';
		was_zero |= found == 0;
		was_else |= found != 'a' && found != 0;
		device = restart(device, i);
		assert_int_equal(sectors_with(device, 2, 'b'), NR_SECTORS);
	}
	assert_true(was_old && was_zero && was_else);
	flash_device_close(device);
}

static void counts_what_it_did(void **state)
{
	struct flash_device *device = open_fake(false, 1);
	struct flash_fake_counts counts;

	(void)state;
	write_page(device, 0, 1, 'a');
	assert_int_equal(read_page(device, 1), 0);
	assert_int_equal(read_page(device, 2), 0);
	assert_int_equal(flash_flush(device), 0);
	assert_int_equal(flash_discard(device, 0, PAGE), 0);
	flash_fake_counts(device, &counts);
	assert_int_equal(counts.nr_writes, 1);
	assert_int_equal(counts.bytes_written, PAGE);
	assert_int_equal(counts.nr_reads, 2);
	assert_int_equal(counts.bytes_read, 2 * PAGE);
	assert_int_equal(counts.nr_flushes, 1);
	assert_int_equal(counts.nr_discards, 1);
	flash_device_close(device);
}

static void refuses_odd_sizes(void **state)
{
	static const struct flash_fake_options odd[] = {
		{.size = 0, .sector = 512},
		{.size = 8192, .sector = 1024},
		{.size = 4096 + 512, .sector = 4096},
		{.size = 8192, .sector = 4096, .discard_unit = 512},
	};
	struct flash_device *device;

	(void)state;
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		assert_int_equal(flash_fake_open(&odd[i], &device), -EINVAL);
}

TEST_GROUP(flash_fake)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fails_where_it_is_told),
		cmocka_unit_test(failing_writes_are_there_in_part),
		cmocka_unit_test(loses_a_write_and_fails_a_flush),
		cmocka_unit_test(pokes_are_seen_and_survive),
		cmocka_unit_test(tells_of_memory_that_changed),
		cmocka_unit_test(ends_in_any_order_or_as_given),
		cmocka_unit_test(takes_its_time),
		cmocka_unit_test(flushed_writes_survive),
		cmocka_unit_test(unflushed_writes_may_survive),
		cmocka_unit_test(earlier_writes_do_not_come_back),
		cmocka_unit_test(a_flush_keeps_what_had_ended),
		cmocka_unit_test(is_cut_behind_an_event),
		cmocka_unit_test(needs_to_be_told_that_it_can),
		cmocka_unit_test(every_cut_of_a_record_keeps_what_it_must),
		cmocka_unit_test(a_record_is_the_same_from_any_side),
		cmocka_unit_test(an_image_can_lose_power),
		cmocka_unit_test(records_from_the_start_only),
		cmocka_unit_test(discards_leave_anything),
		cmocka_unit_test(counts_what_it_did),
		cmocka_unit_test(refuses_odd_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
