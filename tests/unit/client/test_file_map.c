/* SPDX-License-Identifier: BSD-3-Clause */
/* The cached runs of an inode: each unit is where it was said last to be, in as few runs as that takes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "client/files/inode/file_ahead.h"
#include "client/files/inode/file_around.h"
#include "client/files/inode/file_map.h"
#include "unit/group.h"

#define U	   FILE_UNIT
#define POOL_UNITS ((uint64_t)1000)
#define UNITS_MAX  (FILE_BYTES_MAX / FILE_UNIT)
#define NR_UNITS   64U /* of the file of random changes */
#define NR_CHANGES 20000U

static struct file_map map;

static int teardown(void **state)
{
	(void)state;
	file_map_free(&map);
	return 0;
}

#define MAP_TEST(name) cmocka_unit_test_teardown(name, teardown)

static void add(uint64_t unit, uint64_t pool_unit, uint64_t nr)
{
	const uint64_t run[] = {unit, pool_unit, nr};

	assert_int_equal(file_map_add(&map, run, 3), 0);
}

static void expect_piece(uint64_t offset, uint64_t length, uint64_t pool_offset, uint64_t got)
{
	struct file_piece piece = file_map_piece(&map, offset, length);

	assert_false(piece.is_hole);
	assert_int_equal(piece.pool_offset, pool_offset);
	assert_int_equal(piece.length, got);
}

static void expect_hole(uint64_t offset, uint64_t length, uint64_t got)
{
	struct file_piece piece = file_map_piece(&map, offset, length);

	assert_true(piece.is_hole);
	assert_int_equal(piece.length, got);
}

static void test_pieces(void **state)
{
	(void)state;
	expect_hole(0, 10, 10);
	expect_hole(5 * U, UINT64_MAX - 5 * U, UINT64_MAX - 5 * U);
	add(2, 100, 3);
	add(7, 50, 1);
	expect_hole(0, 100 * U, 2 * U);
	expect_hole(2 * U - 1, 100, 1);
	expect_piece(2 * U, 10, 100 * U, 10);
	expect_piece(2 * U + 7, 100 * U, 100 * U + 7, 3 * U - 7);
	expect_hole(5 * U, 100 * U, 2 * U);
	expect_piece(8 * U - 1, 100, 51 * U - 1, 1);
	expect_hole(8 * U, 3, 3);
	assert_true(file_map_covers(&map, 2 * U, 3 * U));
	assert_true(file_map_covers(&map, 3 * U + 5, 0));
	assert_false(file_map_covers(&map, 2 * U, 3 * U + 1));
	assert_false(file_map_covers(&map, 2 * U - 1, 2));
}

/* Runs that touch on both sides are one. */
static void test_joins(void **state)
{
	(void)state;
	add(0, 10, 2);
	add(4, 14, 2);
	assert_int_equal(map.nr, 2);
	add(2, 12, 2);
	assert_int_equal(map.nr, 1);
	assert_int_equal(map.runs[0].nr, 6);
	add(6, 17, 1); /* in the file alone */
	assert_int_equal(map.nr, 2);
	add(1, 11, 3); /* known */
	assert_int_equal(map.nr, 2);
}

static void test_cuts(void **state)
{
	(void)state;
	add(0, 10, 10);
	assert_int_equal(file_map_cut(&map, 3, 5), 0);
	assert_int_equal(map.nr, 2);
	expect_piece(2 * U, 100 * U, 12 * U, U);
	expect_hole(3 * U, 100 * U, 2 * U);
	expect_piece(5 * U, 100 * U, 15 * U, 5 * U);
	assert_int_equal(file_map_cut(&map, 8, UINT64_MAX), 0);
	expect_piece(5 * U, 100 * U, 15 * U, 3 * U);
	assert_int_equal(file_map_cut(&map, 8, UINT64_MAX), 0);
	assert_int_equal(file_map_cut(&map, 4, 4), 0);
	assert_int_equal(file_map_cut(&map, 0, 100), 0);
	assert_int_equal(map.nr, 0);
}

/* A piece that comes later takes the place of what was known. */
static void test_supersedes(void **state)
{
	(void)state;
	add(0, 10, 10);
	add(4, 100, 2);
	expect_piece(3 * U, 100 * U, 13 * U, U);
	expect_piece(4 * U, 100 * U, 100 * U, 2 * U);
	expect_piece(6 * U, 100 * U, 16 * U, 4 * U);
	add(0, 200, 20);
	assert_int_equal(map.nr, 1);
}

static void test_what_is_wrong(void **state)
{
	static const struct {
		uint64_t numbers[6];
		size_t nr;
		int expected;
	} cases[] = {
		{{0}, 0, 0},
		{{0, 0, POOL_UNITS}, 3, 0},
		{{1, 5, 2, 3, 1, 1}, 6, 0},
		{{1, 5}, 2, -AFAR_EMALFORMED},
		{{1, 5, 2, 3}, 4, -AFAR_EMALFORMED},
		{{1, 5, 0}, 3, -AFAR_EMALFORMED},
		{{UINT64_MAX, 5, 2}, 3, -AFAR_EMALFORMED},
		{{1, UINT64_MAX, 2}, 3, -AFAR_EMALFORMED},
		{{1, 5, UINT64_MAX}, 3, -AFAR_EMALFORMED},
		{{UNITS_MAX - 2, 5, 2}, 3, 0},
		{{UNITS_MAX - 1, 5, 2}, 3, -AFAR_EMALFORMED},
		{{UNITS_MAX, 5, 1}, 3, -AFAR_EMALFORMED},
		{{1, 5, 2, 2, 8, 1}, 6, -AFAR_EMALFORMED},
		{{4, 5, 2, 2, 8, 1}, 6, -AFAR_EMALFORMED},
		{{1, POOL_UNITS, 1}, 3, -ERANGE},
		{{1, POOL_UNITS - 1, 2}, 3, -ERANGE},
		{{1, 5, 2, 2, POOL_UNITS, 1}, 6, -AFAR_EMALFORMED},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_int_equal(file_map_check(cases[i].numbers, cases[i].nr, POOL_UNITS * U),
				 cases[i].expected);
}

static uint64_t below(uint64_t limit)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (state >> 33) % limit;
}

static void expect_like(const uint64_t *model)
{
	for (uint64_t unit = 0; unit < NR_UNITS; unit++) {
		struct file_piece piece = file_map_piece(&map, unit * U + 1, 1);

		assert_int_equal(piece.is_hole, model[unit] == 0);
		if (model[unit] != 0)
			assert_int_equal(piece.pool_offset, model[unit] * U + 1);
	}
	for (size_t i = 1; i < map.nr; i++) {
		const struct file_run *left = &map.runs[i - 1], *right = &map.runs[i];

		assert_true(left->unit + left->nr <= right->unit);
		assert_false(left->unit + left->nr == right->unit &&
			     left->pool_unit + left->nr == right->pool_unit);
	}
}

static void test_random_changes(void **state)
{
	uint64_t model[NR_UNITS] = {0}; /* where in the pool; 0: nowhere */

	(void)state;
	for (unsigned i = 0; i < NR_CHANGES; i++) {
		uint64_t from = below(NR_UNITS), nr = 1 + below(NR_UNITS - from);
		uint64_t pool = below(4) ? from + 1 : 1 + below(POOL_UNITS - NR_UNITS);
		bool is_cut = below(3) == 0;

		nr = below(4) ? 1 + nr / 8 : nr;
		if (is_cut)
			assert_int_equal(file_map_cut(&map, from, from + nr), 0);
		else
			add(from, pool, nr);
		for (uint64_t unit = from; unit < from + nr; unit++)
			model[unit] = is_cut ? 0 : pool + (unit - from);
		expect_like(model);
	}
}

/* Units of what came ahead count once each, however they are written. */
static void test_ahead(void **state)
{
	struct file_ahead ahead = {0};

	(void)state;
	file_ahead_note(&ahead, 0, 100 * U);
	assert_int_equal(ahead.nr_written, 0);
	file_ahead_begin(&ahead, 10, 30);
	file_ahead_note(&ahead, 0, 10 * U);
	file_ahead_note(&ahead, 30 * U, U);
	file_ahead_note(&ahead, 15 * U + 1, 0);
	assert_int_equal(ahead.nr_written, 0);
	file_ahead_note(&ahead, 9 * U, U + 1);
	file_ahead_note(&ahead, 10 * U + 5, U);
	assert_int_equal(ahead.nr_written, 2);
	file_ahead_note(&ahead, 29 * U + 1, 5 * U);
	assert_int_equal(ahead.nr_written, 3);
	file_ahead_note(&ahead, 0, 100 * U);
	assert_int_equal(ahead.nr_written, 20);
	file_ahead_begin(&ahead, 30, 30 + FILE_AHEAD_MAX + 1);
	file_ahead_note(&ahead, 0, 100 * U);
	assert_int_equal(ahead.nr_written, 0);
	assert_int_equal(ahead.to, 0);
	file_ahead_begin(&ahead, 30, 31);
	file_ahead_end(&ahead);
}

#define AROUND_UNITS 1000U

/* It has those of `is_unwritten`, and says so. */
static void compare_around(const struct file_around *around, const bool *is_unwritten)
{
	uint64_t *list, unit = 0;
	size_t nr = file_around_list(around, &list);

	for (size_t i = 0; i < nr; i += 2) {
		assert_true(unit == 0 || list[i] > unit);
		for (; unit < list[i]; unit++)
			assert_false(is_unwritten[unit]);
		for (; unit < list[i] + list[i + 1]; unit++)
			assert_true(is_unwritten[unit]);
	}
	for (; unit < AROUND_UNITS; unit++)
		assert_false(is_unwritten[unit]);
	free(list);
	for (unit = 0; unit < AROUND_UNITS; unit++)
		assert_true(!is_unwritten[unit] || file_around_may_have(around, unit * U + 1, 1));
	assert_int_equal(nr != 0, file_around_may_have(around, 0, AROUND_UNITS * U));
}

/* Random changes, beside a list of the same. Writes in [ahead, ahead + 100) count elsewhere. */
static void test_around(void **state)
{
	bool is_unwritten[AROUND_UNITS] = {0};
	struct file_around around = {0};
	uint64_t nr_written = 0;
	unsigned seed = 1;

	(void)state;
	file_around_told(&around, 0, 7);
	for (unsigned i = 0; i < NR_CHANGES; i++) {
		uint64_t from = (unsigned)rand_r(&seed) % AROUND_UNITS;
		uint64_t nr = (unsigned)rand_r(&seed) % 200, ahead = (unsigned)rand_r(&seed) % 900;
		uint64_t to = from + nr < AROUND_UNITS ? from + nr : AROUND_UNITS;
		bool is_write = i % 3 != 0;

		if (is_write)
			file_around_note(&around, from * U + 1, to > from ? (to - from) * U - 1 : 0,
					 ahead, ahead + 100);
		else
			file_around_add(&around, from, to);
		for (uint64_t unit = from; unit < to; unit++) {
			nr_written += is_write && is_unwritten[unit] && unit - ahead >= 100;
			is_unwritten[unit] = !is_write;
		}
		assert_int_equal(around.nr_written, nr_written);
		if (i % 8 == 0)
			compare_around(&around, is_unwritten);
	}
	file_around_told(&around, nr_written, 7);
	assert_int_equal(around.nr_written, 0);
	compare_around(&around, is_unwritten);
	file_around_note(&around, 0, AROUND_UNITS * U, 0, 0);
	assert_int_equal(around.nr, 0);
	/* A manager that gives too much. */
	file_around_add(&around, 5, UINT64_MAX);
	assert_int_equal(around.nr, FILE_AROUND_MAX);
	file_around_add(&around, 9, 2);
	file_around_end(&around);
	file_around_told(&around, 7, 7);
	assert_int_equal(around.nr_written, 0);
}

/* Nothing goes back of what others may have written, nor while operations on queues may. */
static void test_what_goes_back(void **state)
{
	struct file_around around = {0};
	uint64_t *list;

	(void)state;
	file_around_told(&around, 0, 7);
	file_around_add(&around, 64, 128);
	assert_int_equal(file_around_list(&around, &list), 2);
	assert_true(list[0] == 64 && list[1] == 64);
	free(list);
	around.is_kept = true;
	assert_int_equal(file_around_list(&around, &list), 0);
	around.is_kept = false;
	/* Another session opens it to write: it may have done so before the answer. */
	file_around_told(&around, 0, 0);
	file_around_add(&around, 200, 201);
	assert_false(file_around_gives(&around));
	assert_int_equal(file_around_list(&around, &list), 0);
	/* It has closed it. */
	file_around_told(&around, 0, 8);
	assert_false(file_around_gives(&around));
	file_around_add(&around, 300, 301);
	assert_int_equal(file_around_list(&around, &list), 2);
	assert_true(list[0] == 300 && list[1] == 1);
	free(list);
	/* The manager has restarted. */
	file_around_told(&around, 0, 9);
	assert_false(file_around_gives(&around));
	file_around_end(&around);
}

/* A manager takes so many ranges. Each block of 64 units has 32 of one unit; some have one that is longer. */
static void test_around_longest(void **state)
{
	const size_t nr_blocks = FILE_AROUND_LIST_MAX / 32 + 100,
		     max = 2 * (size_t)FILE_AROUND_LIST_MAX;
	struct file_around around = {0};
	size_t nr_long = 0;
	uint64_t *list;

	(void)state;
	file_around_told(&around, 0, 7);
	for (uint64_t unit = 0; unit < nr_blocks * 64; unit += 2)
		file_around_add(&around, unit, unit + 1);
	assert_int_equal(file_around_list(&around, &list), max);
	free(list);
	for (uint64_t unit = 0; unit < nr_blocks * 64; unit += 256)
		file_around_add(&around, unit, unit + 2);
	assert_int_equal(file_around_list(&around, &list), max);
	for (size_t i = 0; i < max; i += 2) {
		assert_true(i == 0 || list[i] > list[i - 2]);
		nr_long += list[i + 1] > 1;
	}
	assert_int_equal(nr_long, (nr_blocks * 64 + 255) / 256);
	free(list);
	file_around_end(&around);
}

TEST_GROUP(file_map)
{
	const struct CMUnitTest tests[] = {
		MAP_TEST(test_pieces),	       MAP_TEST(test_joins),
		MAP_TEST(test_cuts),	       MAP_TEST(test_supersedes),
		MAP_TEST(test_what_is_wrong),  MAP_TEST(test_random_changes),
		MAP_TEST(test_ahead),	       MAP_TEST(test_around),
		MAP_TEST(test_around_longest), MAP_TEST(test_what_goes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
