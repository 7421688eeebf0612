/* SPDX-License-Identifier: BSD-3-Clause */
/* Views of an inode's runs: they find what the map had, and are replaced when that has changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/files/inode/file_view.h"
#include "unit/group.h"

#define U FILE_UNIT

static struct file_map map;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file_view *_Atomic place;

static int teardown(void **state)
{
	(void)state;
	view_close(&place);
	file_map_free(&map);
	return 0;
}

#define VIEW_TEST(name) cmocka_unit_test_teardown(name, teardown)

static void add(uint64_t unit, uint64_t pool_unit, uint64_t nr)
{
	const uint64_t run[] = {unit, pool_unit, nr};

	assert_int_equal(file_map_add(&map, run, 3), 0);
}

static const struct file_view *refresh(uint64_t size)
{
	view_refresh(&place, &lock, &map, &size);
	return place;
}

static void expect_found(uint64_t offset, uint64_t length, uint64_t found, uint64_t at)
{
	uint64_t pool_offset = UINT64_MAX;

	assert_int_equal(view_find(place, offset, length, &pool_offset), found);
	if (found != 0)
		assert_int_equal(pool_offset, at);
}

static void test_finds_what_the_map_had(void **state)
{
	(void)state;
	assert_null(refresh(9 * U));
	add(1, 100, 2);
	add(3, 200, 1);
	add(7, 300, 2);
	assert_non_null(refresh(9 * U));
	expect_found(0, U, 0, 0);
	expect_found(U + 5, U, U, 100 * U + 5);
	expect_found(2 * U, 2 * U, U, 101 * U); /* as far as the run goes */
	expect_found(3 * U, U, U, 200 * U);
	expect_found(4 * U, 1, 0, 0);
	expect_found(8 * U + 1, U, U - 1, 301 * U + 1);
	expect_found(U, 1, 1, 100 * U); /* behind the one that was found last */
}

static void test_stays_while_the_map_does(void **state)
{
	const struct file_view *before;

	(void)state;
	add(0, 100, 4);
	before = refresh(U);
	assert_int_equal(before->size, U);
	add(1, 101, 2); /* which it knows */
	assert_ptr_equal(refresh(3 * U), before);
	assert_int_equal(before->size, 3 * U);
	assert_ptr_equal(refresh(2 * U), before);
	assert_int_equal(before->size, 3 * U);
}

/* There are as many runs as before. */
static void test_other_runs(void **state)
{
	(void)state;
	add(0, 100, 4);
	refresh(4 * U);
	add(0, 200, 4);
	refresh(4 * U);
	expect_found(U, U, U, 201 * U);
	add(4, 204, 1);
	refresh(5 * U);
	expect_found(0, 5 * U, 5 * U, 200 * U);
	/* Forgotten, and another file's since. */
	view_close(&place);
	file_map_free(&map);
	add(0, 300, 5);
	refresh(U);
	expect_found(0, U, U, 300 * U);
	assert_int_equal(place->size, U);
}

TEST_GROUP(file_view)
{
	const struct CMUnitTest tests[] = {
		VIEW_TEST(test_finds_what_the_map_had),
		VIEW_TEST(test_stays_while_the_map_does),
		VIEW_TEST(test_other_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
