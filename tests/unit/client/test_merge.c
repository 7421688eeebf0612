/* SPDX-License-Identifier: BSD-3-Clause */
/* Merging: each piece of a list is in one merged piece, where it was, and all that touch are in few. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/blocking/merge.h"
#include "client/target/apart.h"
#include "lib/base/bytes.h"
#include "unit/group.h"

#define TARGET_BYTES (4 * MIB)
#define UNIT	     (256 * KIB)
#define NR_MAX	     8192U
#define GAP	     100U

static struct layout *layout;
static uint8_t *there, *memory;
static struct target_piece list[NR_MAX];

static int setup(void **state)
{
	const struct layout_home homes[2] = {{.server = 1, .life = 1}, {.server = 2, .life = 1}};

	(void)state;
	layout = layout_new();
	there = malloc(TARGET_BYTES);
	memory = malloc(2 * TARGET_BYTES);
	return !layout || !there || !memory || layout_add_group(layout, TARGET_BYTES / 2, UNIT) ||
	       layout_add_chunk(layout, &homes[0], 1, 0) ||
	       layout_add_chunk(layout, &homes[1], 2, 0);
}

static int teardown(void **state)
{
	(void)state;
	layout_free(layout);
	free(there);
	free(memory);
	return 0;
}

static void put(unsigned i, uint64_t offset, uint64_t at, uint64_t length)
{
	list[i] = (struct target_piece){
		.memory = {.addr = memory + at, .length = length},
		.offset = offset,
		.status = PIECE_LEFT,
	};
}

static void shuffle(unsigned nr)
{
	unsigned random = 7;

	for (unsigned i = nr - 1; i > 0; i--) {
		struct target_piece piece = list[i];
		unsigned other;

		random = random * 1103515245 + 12345;
		other = (random >> 8) % (i + 1);
		list[i] = list[other];
		list[other] = piece;
	}
}

/* Carries out a round as servers would. Returns how many merged pieces it had. */
static unsigned carry_out(struct merge *merge)
{
	unsigned nr_members = 0;

	for (unsigned i = 0; i < merge->nr_merged; i++) {
		struct target_piece *piece = &merge->merged[i];

		assert_int_equal(piece->status, PIECE_LEFT);
		assert_true(piece->memory.length <= MERGE_LENGTH_MAX);
		if (merge->nr_members[i] > 1)
			assert_int_equal(piece->offset / UNIT,
					 (piece->offset + piece->memory.length - 1) / UNIT);
		if (merge->is_write)
			memcpy(there + piece->offset, piece->memory.addr, piece->memory.length);
		else
			memcpy(piece->memory.addr, there + piece->offset, piece->memory.length);
		piece->status = 0;
		nr_members += merge->nr_members[i];
	}
	assert_int_equal(nr_members, merge->next - merge->begin);
	return merge->nr_merged;
}

/* Moves the list. Returns how many transfers that takes. */
static unsigned move(unsigned nr, bool is_write)
{
	struct merge merge;
	unsigned nr_merged = 0;

	assert_true(merge_begin(&merge, list, nr, is_write, GAP));
	while (merge_next(&merge, layout)) {
		nr_merged += carry_out(&merge);
		assert_false(merge_take(&merge));
	}
	merge_end(&merge);
	for (unsigned i = 0; i < nr; i++)
		assert_int_equal(list[i].status, 0);
	return nr_merged;
}

static void expect_moved(unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		assert_memory_equal(there + list[i].offset, list[i].memory.addr,
				    list[i].memory.length);
}

/* Pieces of `length`, which touch in the target, and lie `gap` apart in memory. */
static unsigned move_touching(unsigned nr, uint64_t length, uint64_t gap, bool is_shuffled,
			      bool is_write)
{
	unsigned nr_merged;

	fill(memory, 2 * TARGET_BYTES, is_write ? 1 : 2);
	fill(there, TARGET_BYTES, 3);
	for (unsigned i = 0; i < nr; i++)
		put(i, i * length, i * (length + gap), length);
	if (is_shuffled)
		shuffle(nr);
	nr_merged = move(nr, is_write);
	expect_moved(nr);
	return nr_merged;
}

static void test_touching(void **state)
{
	(void)state;
	for (int is_write = 0; is_write < 2; is_write++) {
		for (int is_shuffled = 0; is_shuffled < 2; is_shuffled++) {
			/* In memory, too: to the end of the unit of the layout. */
			assert_int_equal(move_touching(4096, 512, 0, is_shuffled, is_write), 8);
			assert_int_equal(move_touching(4096, 8, 0, is_shuffled, is_write), 1);
			/* Not in memory: so much as the buffer takes. */
			assert_int_equal(move_touching(4096, 512, 1, is_shuffled, is_write), 32);
			assert_int_equal(move_touching(4096, 8, 8, is_shuffled, is_write), 1);
			/* Long ones stay what they are, where they are. */
			assert_int_equal(
				move_touching(100, MERGE_PIECE_MAX + 512, 1, is_shuffled, is_write),
				100);
		}
	}
}

/* More merged pieces than a round has: those that touch are two by two. */
static void test_rounds(void **state)
{
	const unsigned nr = NR_MAX;

	(void)state;
	fill(memory, TARGET_BYTES, 1);
	for (unsigned i = 0; i < nr; i++)
		put(i, i / 2 * 256 + i % 2 * 50, i * 64, 50);
	shuffle(nr);
	assert_int_equal(move(nr, true), nr / 2);
	expect_moved(nr);
}

/* Pieces that are done already stay out of it. One that is in two units of the layout is alone. */
static void test_parts(void **state)
{
	(void)state;
	fill(memory, TARGET_BYTES, 1);
	fill(there, TARGET_BYTES, 2);
	put(0, UNIT - 150, 0, 100);
	put(1, UNIT - 50, 200, 100); /* in two */
	put(2, UNIT + 50, 400, 100);
	put(3, UNIT + 150, 600, 100);
	put(4, UNIT + 250, 800, 100);
	list[4].status = 0;
	assert_int_equal(move(5, true), 3);
	expect_moved(4);
	assert_memory_not_equal(there + UNIT + 250, memory + 800, 100);
}

/* The client does a list as it is if its pieces lie apart, or if it writes some bytes twice. */
static void test_not_merged(void **state)
{
	struct merge merge;

	(void)state;
	put(0, 0, 0, 100);
	assert_false(merge_begin(&merge, list, 1, true, GAP));
	put(1, 101, 100, 100);
	assert_false(merge_begin(&merge, list, 2, true, GAP));
	put(2, 201, 200, 100);
	put(3, 300, 300, 100); /* a byte of it is that of the one before */
	assert_false(merge_begin(&merge, list, 4, true, GAP));
	list[3].status = 0;
	assert_true(merge_begin(&merge, list, 4, true, GAP));
	merge_end(&merge);
}

static void test_reads_that_overlap(void **state)
{
	(void)state;
	fill(there, TARGET_BYTES, 1);
	for (unsigned i = 0; i < 100; i++) {
		put(2 * i, i * 60, i * 1000, 100);
		put(2 * i + 1, i * 60 + 100, i * 1000 + 500, 20);
	}
	shuffle(200);
	assert_true(move(200, false) <= 200);
	expect_moved(200);
}

/* Reads of pieces that nearly touch are one transfer, if all that is between them may be read. */
static void test_gaps(void **state)
{
	static const struct {
		uint64_t gap, reach;
		unsigned nr; /* transfers of ten pieces of 50 bytes */
	} cases[] = {
		{GAP, TARGET_BYTES, 1}, {GAP + 1, TARGET_BYTES, 10}, {GAP, 0, 10}, {1, 0, 10},
		{GAP, 5 * 150, 5},	{GAP, 5 * 150 - 1, 6},
	};

	(void)state;
	fill(there, TARGET_BYTES, 1);
	for (unsigned c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
		memset(memory, 0xee, TARGET_BYTES);
		for (unsigned i = 0; i < 10; i++) {
			put(i, i * (50 + cases[c].gap), i * 64, 50);
			list[i].reach = cases[c].reach;
		}
		put(10, MIB, 2000,
		    50); /* and two that touch, so that there is something to merge */
		put(11, MIB + 50, 2100, 50);
		shuffle(12);
		assert_int_equal(move(12, false), cases[c].nr + 1);
		expect_moved(12);
		for (unsigned i = 0; i < 10; i++)
			assert_int_equal(count_bytes(memory + i * 64 + 50, 14, 0xee), 14);
	}
}

/* Nothing is read beside what is asked, so a gap that is not worth it makes no work. Writes have no gaps. */
static void test_gaps_of_writes(void **state)
{
	struct merge merge;

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		put(i, i * 60, i * 64, 50);
		list[i].reach = TARGET_BYTES;
	}
	assert_false(merge_begin(&merge, list, 10, true, GAP));
	assert_false(merge_begin(&merge, list, 10, false, 9));
	assert_true(merge_begin(&merge, list, 10, false, 10));
	merge_end(&merge);
}

/* Damage that a merged piece finds is that of one piece or another: all are done again. The way to a server is that of all. */
static void test_failures(void **state)
{
	static const struct {
		int status;
		bool is_again;
	} failures[] = {{-EBADMSG, true},    {-EIO, true},	  {-AFAR_ELOST, true},
			{-ETIMEDOUT, false}, {-ECANCELED, false}, {-AFAR_ESERVER, false}};
	struct merge merge;

	(void)state;
	for (unsigned f = 0; f < sizeof(failures) / sizeof(*failures); f++) {
		memset(memory, 0xee, TARGET_BYTES);
		for (unsigned i = 0; i < 10; i++)
			put(i, i * 64, i * 100, 64);
		put(10, MIB, 2000, 64);
		assert_true(merge_begin(&merge, list, 11, false, GAP));
		assert_true(merge_next(&merge, layout));
		assert_int_equal(merge.nr_merged, 2);
		memset(merge.merged[0].memory.addr, 0xdd, 640);
		merge.merged[0].status = failures[f].status;
		merge.merged[1].status = failures[f].status;
		assert_int_equal(merge_take(&merge), failures[f].is_again);
		for (unsigned i = 0; i < 10; i++)
			assert_int_equal(list[i].status,
					 failures[f].is_again ? PIECE_LEFT : failures[f].status);
		assert_int_equal(list[10].status, failures[f].status); /* it was alone */
		assert_int_equal(count_bytes(memory, 1000, 0xee), 1000);
		merge_end(&merge);
	}
}

TEST_GROUP(merge)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_touching),
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_not_merged),
		cmocka_unit_test(test_reads_that_overlap),
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_gaps_of_writes),
		cmocka_unit_test(test_failures),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
