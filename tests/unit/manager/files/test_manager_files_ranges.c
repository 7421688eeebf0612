/* SPDX-License-Identifier: BSD-3-Clause */
/* One question makes room for many ranges of a file. Each gets its room, or none does. */
#include "lib/manager/manager_files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "manager/files/pool.h"
#include "unit/group.h"

#define POOL_UNITS (POOL_BYTES / FILE_UNIT)
#define RANGES_MAX 4096U

static uint64_t free_units(void)
{
	return fs_of()->space.free_bytes / FILE_UNIT;
}

static const struct inode *inode_of(uint64_t file)
{
	return file_cached(fs_of(), file)->inode;
}

/* `numbers`: where each begins, and how many units it has. */
static Afar__Request *ask_ranges(uint64_t file, const uint64_t *numbers, size_t nr)
{
	Afar__Request *request = ask_extend(file, 0, 0);
	Afar__FileExtend *extend = change_of(request)->extend;

	extend->ranges = calloc(nr, sizeof(*extend->ranges));
	assert_non_null(extend->ranges);
	memcpy(extend->ranges, numbers, nr * sizeof(*numbers));
	extend->n_ranges = nr;
	return request;
}

static Afar__Request *giving_back(Afar__Request *request)
{
	change_of(request)->extend->gives_back = true;
	return request;
}

static Afar__Request *exact(Afar__Request *request)
{
	change_of(request)->extend->is_exact = true;
	return request;
}

static uint64_t make_open(const char *name)
{
	uint64_t file = must_make(ROOT, name, S_IFREG | 0644);

	FILE_DO(ask_file_open(file, 1), 0);
	return file;
}

static void test_bad_lists_are_refused(void **state)
{
	static const struct {
		const char *what;
		uint64_t numbers[4];
		size_t nr;
		int status;
	} cases[] = {
		{"a range lacks its end", {5, 1, 7}, 3, -E2BIG},
		{"a range is empty", {5, 1, 7, 0}, 4, -EINVAL},
		{"they descend", {7, 1, 5, 1}, 4, -EINVAL},
		{"one begins in another", {5, 3, 7, 1}, 4, -EINVAL},
		{"they are the same", {5, 1, 5, 1}, 4, -EINVAL},
		{"one is too far", {5, 1, UINT64_MAX, 1}, 4, -EINVAL},
		{"one is too long", {5, UINT64_MAX}, 2, -EINVAL},
		{"one ends too far", {FILE_SIZE_MAX / FILE_UNIT, 1}, 2, -EINVAL},
	};
	static uint64_t many[2 * RANGES_MAX + 2];
	uint64_t file = make_open("f"), left;

	(void)state;
	FILE_DO(exact(ask_extend(file, 1000 * FILE_UNIT, FILE_UNIT)), 0);
	left = free_units();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		expect_file_case(cases[i].what, &client,
				 ask_ranges(file, cases[i].numbers, cases[i].nr), cases[i].status);
		assert_int_equal(free_units(), left);
	}
	for (uint64_t i = 0; i <= RANGES_MAX; i++) {
		many[2 * i] = 2 * i;
		many[2 * i + 1] = 1;
	}
	FILE_DO(ask_ranges(file, many, 2 * RANGES_MAX + 2), -E2BIG);
	/* So many are too few for the pool. */
	FILE_DO(ask_ranges(file, many, 2 * RANGES_MAX), -ENOSPC);
	assert_int_equal(inode_of(file)->nr_units, 1);
	assert_int_equal(free_units(), left);
	OTHER_DO(ask_ranges(file, many, 2), -EBADF);
	/* They may touch. */
	FILE_DO(ask_ranges(file, (const uint64_t[]){3, 2, 5, 1}, 4), 0);
	assert_int_equal(inode_of(file)->nr_units, 1 + 3);
}

#define NR_RANGES 8U
#define NR_BEFORE 60U
#define NR_MORE	  1U /* too few for room around all of them */

/* Within a limit of so many units, and the pool. */
static void expect_all_or_none(uint64_t limit, int refusal)
{
	uint64_t numbers[2 * NR_RANGES], file = make_open("f"), before = free_units();
	Afar__Request *request;

	for (uint64_t i = 0; i < NR_RANGES; i++) {
		numbers[2 * i] = 10 + 20 * i;
		numbers[2 * i + 1] = 2;
	}
	/* A writer of so much would get room around all of them. */
	FILE_DO(exact(ask_extend(file, 1000 * FILE_UNIT, NR_BEFORE * FILE_UNIT)), 0);
	if (limit != 0)
		EXPECT(&client, ask_limits((POOL_UNITS - free_units() + limit) * FILE_UNIT, 0), 0);
	before = free_units();
	numbers[2 * NR_RANGES - 1] += NR_MORE + 1;
	FILE_DO(giving_back(ask_ranges(file, numbers, 2 * NR_RANGES)), refusal);
	assert_int_equal(free_units(), before);
	/* The manager goes without room around them first. */
	numbers[2 * NR_RANGES - 1] -= NR_MORE + 1;
	request = giving_back(ask_ranges(file, numbers, 2 * NR_RANGES));
	FILE_DO(request, 0);
	assert_true(before - free_units() >= 2 * NR_RANGES);
	check_files();
	FILE_DO(ask_size(file, 0), 0);
	FILE_DO(ask_file_close(1), 0);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	EXPECT(&client, ask_limits(0, 0), 0);
	fixture_advance(&fixture, 1000);
}

static void test_all_get_room_or_none(void **state)
{
	uint64_t other_file = must_make(ROOT, "other", S_IFREG | 0644), left;

	(void)state;
	expect_all_or_none(2 * NR_RANGES + NR_MORE, -EDQUOT);
	/* Another file leaves so much. */
	FILE_DO(ask_file_open(other_file, 2), 0);
	left = NR_BEFORE + 2 * NR_RANGES + NR_MORE;
	FILE_DO(exact(ask_extend(other_file, 0, (free_units() - left) * FILE_UNIT)), 0);
	expect_all_or_none(0, -ENOSPC);
	FILE_DO(ask_file_close(2), 0);
}

/* ---- Many lists, beside what they should have done */

#define NR_UNITS 600U
#define NR_LISTS 60U

enum { NOTHING, EXTRA, ASKED };

/* Lists units that nothing is known of, as a writer does. Returns how many numbers that is. */
static size_t choose(const uint8_t *units, uint64_t *numbers)
{
	size_t nr = 0;

	for (uint64_t unit = (unsigned)rand() % 50; unit < NR_UNITS;) {
		uint64_t end = unit;

		while (end < NR_UNITS && end - unit < 4 && units[end] == NOTHING)
			end++;
		if (end != unit) {
			numbers[nr++] = unit;
			numbers[nr++] = end - unit;
		}
		unit = end + (unsigned)rand() % 100 + (end == unit);
	}
	return nr;
}

static void mark(uint8_t *units, const uint64_t *numbers, size_t nr, uint8_t as)
{
	for (size_t i = 0; i < nr; i += 2)
		for (uint64_t unit = numbers[i]; unit < numbers[i] + numbers[i + 1]; unit++) {
			assert_true(unit < 4 * NR_UNITS);
			assert_int_equal(units[unit], NOTHING);
			units[unit] = as;
		}
}

/* The answer tells where all that has come is. */
static void expect_told(const Afar__FileResult *result, const uint64_t *numbers, size_t nr)
{
	for (size_t i = 0; i < nr; i += 2)
		for (uint64_t unit = numbers[i]; unit < numbers[i] + numbers[i + 1]; unit++) {
			bool is_told = false;

			for (size_t r = 0; r < result->n_runs; r += 3)
				is_told |= unit >= result->runs[r] &&
					   unit < result->runs[r] + result->runs[r + 2];
			assert_true(is_told);
		}
	for (size_t r = 3; r < result->n_runs; r += 3)
		assert_true(result->runs[r] >= result->runs[r - 3] + result->runs[r - 1]);
}

static void extend_some(uint64_t file, uint8_t *units)
{
	uint64_t numbers[2 * NR_UNITS], nr_extra = 0, nr_all = 0;
	size_t nr = choose(units, numbers);
	const Afar__FileResult *result;
	const struct inode *inode;
	Afar__Reply *reply;

	if (nr == 0)
		return;
	reply = fixture_ask(&fixture, &client, giving_back(ask_ranges(file, numbers, nr)));
	assert_int_equal(reply->status, 0);
	result = reply->file_results->results[0];
	assert_int_equal(result->status, 0);
	mark(units, numbers, nr, ASKED);
	mark(units, result->extra, result->n_extra, EXTRA);
	expect_told(result, numbers, nr);
	expect_told(result, result->extra, result->n_extra);
	drop(reply);
	for (size_t i = 0; i < (size_t)4 * NR_UNITS; i++) {
		nr_all += units[i] != NOTHING;
		nr_extra += units[i] == EXTRA;
	}
	inode = inode_of(file);
	assert_int_equal(inode->nr_units, nr_all);
	assert_int_equal(inode->nr_behind + inode->spare_to - inode->spare_from, nr_extra);
}

static void test_lists_get_what_they_lack(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 10; seed++) {
		uint8_t units[4 * NR_UNITS] = {0};
		uint64_t file = make_open("f");

		srand(seed);
		for (unsigned i = 0; i < NR_LISTS; i++)
			extend_some(file, units);
		check_files();
		FILE_DO(ask_file_close(1), 0);
		FILE_DO(ask_remove(ROOT, "f", false), 0);
		fixture_advance(&fixture, 1000);
		assert_int_equal(free_units(), POOL_UNITS);
	}
}

/* A writer is killed between asking and closing. Room behind the end goes back at once. Room before it goes back when the file is
 * made shorter. */
static void test_a_killed_writer_loses_no_room(void **state)
{
	uint64_t file, numbers[] = {10, 2, 40, 3, 90, 1, 120, 2};

	(void)state;
	file = make_open("f");
	FILE_DO(giving_back(ask_ranges(file, numbers, 8)), 0);
	assert_true(inode_of(file)->nr_units >= 8);
	client_lose(&fixture, &client);
	fixture_advance(&fixture, 10000);
	assert_int_equal(free_units(), POOL_UNITS);
	assert_int_equal(client_open(&fixture, &client), 0);
	open_pool(&client);
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(giving_back(ask_ranges(file, numbers, 8)), 0);
	FILE_DO(ask_end(file, 100 * FILE_UNIT, inode_of(file)->layout), 0);
	client_lose(&fixture, &client);
	fixture_advance(&fixture, 10000);
	assert_true(POOL_UNITS - free_units() >= 6 && POOL_UNITS - free_units() <= 100);
	assert_int_equal(client_open(&fixture, &client), 0);
	open_pool(&client);
	check_files();
	FILE_DO(ask_size(file, 0), 0);
	fixture_advance(&fixture, 1000);
	assert_int_equal(free_units(), POOL_UNITS);
}

TEST_GROUP(manager_files_ranges)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(test_bad_lists_are_refused),
		FILES_TEST(test_all_get_room_or_none),
		FILES_TEST(test_lists_get_what_they_lack),
		FILES_TEST(test_a_killed_writer_loses_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
