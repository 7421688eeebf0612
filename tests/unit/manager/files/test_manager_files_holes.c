/* SPDX-License-Identifier: BSD-3-Clause */
/* Room that comes around writes into holes, and what of it goes back. */
#include "lib/manager/manager_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include "manager/files/pool.h"
#include "unit/group.h"

#define POOL_UNITS (POOL_BYTES / FILE_UNIT)

static uint64_t free_units(void)
{
	return fs_of()->space.free_bytes / FILE_UNIT;
}

static Afar__Request *exact(Afar__Request *request)
{
	change_of(request)->extend->is_exact = true;
	return request;
}

/* Asks for one unit, having written so many that came beyond earlier ones. Returns what came around it. */
static struct units extend_hole(uint64_t file, uint64_t unit, uint64_t used, uint64_t *alone)
{
	Afar__Request *request = ask_extend(file, unit * FILE_UNIT, FILE_UNIT);
	struct units room = {unit, unit + 1};
	const Afar__FileResult *result;
	Afar__Reply *reply;

	change_of(request)->extend->gives_back = true;
	change_of(request)->extend->extra_used = used;
	reply = fixture_ask(&fixture, &client, request);
	assert_int_equal(reply->status, 0);
	result = reply->file_results->results[0];
	assert_int_equal(result->status, 0);
	for (size_t i = 0; i < result->n_extra; i += 2) {
		uint64_t end = result->extra[i] + result->extra[i + 1];

		assert_true(result->extra[i + 1] != 0);
		room.from = end == unit ? result->extra[i] : room.from;
		room.to = result->extra[i] == unit + 1 ? end : room.to;
	}
	if (alone)
		*alone = result->alone;
	drop(reply);
	return room;
}

static Afar__Request *ask_give_back(uint64_t file, uint64_t end, uint64_t handle, uint64_t alone,
				    const struct units *list, size_t nr)
{
	Afar__Request *request = ask_sync_close(file, end, handle);
	Afar__FileSync *sync = change_of(request)->sync;

	sync->alone = alone;
	sync->unwritten = calloc(2 * nr, sizeof(*sync->unwritten));
	for (size_t i = 0; i < nr; i++) {
		sync->unwritten[sync->n_unwritten++] = list[i].from;
		sync->unwritten[sync->n_unwritten++] = list[i].to - list[i].from;
	}
	return request;
}

/* Writes downwards, and says so: each hole is filled by few calls, up to its beginning and no farther. */
static void test_a_hole_gets_room_around(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644), used = 0;
	struct units room = {700, 701};
	unsigned nr_calls = 0;

	(void)state;
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(exact(ask_extend(file, 99 * FILE_UNIT, FILE_UNIT)), 0);
	FILE_DO(exact(ask_extend(file, 700 * FILE_UNIT, FILE_UNIT)), 0);
	for (uint64_t unit = 699; unit > 100; unit--) {
		if (unit >= room.from) {
			used++; /* without a word to the manager */
			continue;
		}
		room = extend_hole(file, unit, used, NULL);
		assert_int_equal(room.to, unit + 1);
		assert_true(room.from >= 100);
		used = 0;
		nr_calls++;
	}
	assert_true(nr_calls < 30);
	check_files();
	/* All of it goes back. */
	FILE_DO(ask_size(file, 0), 0);
	FILE_DO(ask_file_close(1), 0);
	fixture_advance(&fixture, 1000);
	assert_int_equal(free_units(), POOL_UNITS);
}

#define NR_WRITTEN_MAX 1024U
#define NR_SPARSE      256U

/* Writes so many units in any order, one of `step`. Returns how often it asks. */
static unsigned count_questions(const char *name, uint64_t nr, uint64_t step)
{
	uint64_t file = must_make(ROOT, name, S_IFREG | 0644), order[NR_WRITTEN_MAX], used = 0;
	bool has[NR_WRITTEN_MAX * 16] = {0};
	unsigned nr_calls = 0, seed = 1;

	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(exact(ask_extend(file, nr * step * FILE_UNIT, FILE_UNIT)), 0);
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t at = (unsigned)rand_r(&seed) % (i + 1);

		order[i] = order[at];
		order[at] = i * step;
	}
	for (uint64_t i = 0; i < nr; i++) {
		struct units room;

		if (has[order[i]]) {
			used++;
			continue;
		}
		room = extend_hole(file, order[i], used, NULL);
		for (uint64_t unit = room.from; unit < room.to; unit++)
			has[unit] = true;
		used = 0;
		nr_calls++;
	}
	FILE_DO(ask_file_close(1), 0);
	FILE_DO(ask_remove(ROOT, name, false), 0);
	fixture_advance(&fixture, 1000);
	return nr_calls;
}

/* Blocks in any order ask for few of them, and so do sparse ones. */
static void test_any_order_asks_seldom(void **state)
{
	(void)state;
	EXPECT(&client, ask_reserve(fs_number, 15 * POOL_BYTES), 0);
	EXPECT(&client, ask_resize(fs_number, 16 * POOL_BYTES), 0);
	assert_true(count_questions("all", NR_WRITTEN_MAX, 1) < NR_WRITTEN_MAX / 32);
	assert_true(count_questions("some", NR_SPARSE, 16) < NR_SPARSE / 3);
}

/* Writes here and there, and never around there: a limited part stays unwritten. An exact wish gets nothing around it, nor does a
 * client of before, which would give nothing back. */
static void test_little_is_left_in_holes(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644), all;
	Afar__Request *request;

	(void)state;
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(exact(ask_extend(file, 1000000 * FILE_UNIT, FILE_UNIT)), 0);
	EXPECT(&client, ask_limits(POOL_BYTES, 0), 0);
	all = free_units() + file_cached(fs_of(), file)->inode->nr_units;
	for (uint64_t i = 1; i < 200; i++) {
		extend_hole(file, i * 5000 % 1000000, 0, NULL);
		assert_true(all - free_units() <= i + 2 + POOL_UNITS / 8);
	}
	assert_true(all - free_units() > 200 + POOL_UNITS / 16);
	all = free_units();
	request = exact(ask_extend(file, 999000 * FILE_UNIT, FILE_UNIT));
	change_of(request)->extend->gives_back = true;
	change_of(request)->extend->extra_used = UINT64_MAX;
	FILE_DO(request, 0);
	assert_int_equal(all - free_units(), 1);
	assert_int_equal(file_cached(fs_of(), file)->inode->nr_behind, 0);
	FILE_DO(ask_extend(file, 998000 * FILE_UNIT, FILE_UNIT), 0);
	assert_int_equal(all - free_units(), 2);
}

/* A write into a hole gets the last unit that there is. */
static void test_holes_get_the_last_room(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644), nr;

	(void)state;
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(exact(ask_extend(file, 1000000 * FILE_UNIT, FILE_UNIT)), 0);
	EXPECT(&client, ask_limits(MIB, 0), 0);
	for (nr = 1; limits_room(fs_of()) != 0; nr++)
		extend_hole(file, nr * 300, UINT64_MAX, NULL);
	assert_int_equal(fs_of()->space.free_bytes, POOL_BYTES - MIB);
	FILE_DO(ask_extend(file, nr * 300 * FILE_UNIT, FILE_UNIT), -EDQUOT);
	EXPECT(&client, ask_limits(0, 0), 0);
	for (; free_units() != 0; nr++)
		extend_hole(file, nr * 300, UINT64_MAX, NULL);
	FILE_DO(ask_extend(file, nr * 300 * FILE_UNIT, FILE_UNIT), -ENOSPC);
	check_files();
}

#define NR_LEFT 16U

/* A write of all that is left gets nothing around it. */
static void test_holes_get_all_that_is_left(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);
	Afar__Request *request;

	(void)state;
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(exact(ask_extend(file, 0, 200 * FILE_UNIT)), 0);
	FILE_DO(exact(ask_extend(file, 1000 * FILE_UNIT, FILE_UNIT)), 0);
	EXPECT(&client, ask_limits((201 + NR_LEFT) * FILE_UNIT, 0), 0);
	assert_int_equal(limits_room(fs_of()), NR_LEFT);
	request = ask_extend(file, 601 * FILE_UNIT, NR_LEFT * FILE_UNIT);
	change_of(request)->extend->gives_back = true;
	FILE_DO(request, 0);
	assert_int_equal(limits_room(fs_of()), 0);
	check_files();
}

/* Makes a file of which `client` has written two units of three far from each other, and got room around and ahead. */
static uint64_t make_holes(const char *name, struct units *list, uint64_t *alone)
{
	uint64_t file = must_make(ROOT, name, S_IFREG | 0644);

	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(exact(ask_extend(file, 0, 200 * FILE_UNIT)), 0);
	FILE_DO(exact(ask_extend(file, 1000 * FILE_UNIT, FILE_UNIT)), 0);
	FILE_DO(ask_end(file, 1001 * FILE_UNIT, 0), 0);
	list[0] = extend_hole(file, 600, 0, alone);
	assert_true(list[0].to - list[0].from >= 32);
	/* Unit 600 is written, and lies between what is not. */
	list[1] = (struct units){601, list[0].to};
	list[0].to = 600;
	return file;
}

/* Room that the writer has got and not written goes back when he closes the file, once it is zeros. */
static void test_unwritten_room_goes_back(void **state)
{
	uint64_t file, alone, all, first;
	struct units list[2];
	Afar__Request *request;

	(void)state;
	file = make_holes("f", list, &alone);
	all = free_units() + file_cached(fs_of(), file)->inode->nr_units;
	first = alone;
	assert_true(alone != 0);
	request = ask_give_back(file, 0, 1, alone, list, 2);
	/* Bad lists. */
	change_of(request)->sync->unwritten[2] = 600;
	change_of(request)->sync->unwritten[0] = 601;
	FILE_DO(request, -EINVAL);
	request = ask_give_back(file, 0, 1, alone, list, 2);
	change_of(request)->sync->unwritten[3] = UINT64_MAX;
	FILE_DO(request, -EINVAL);
	request = ask_give_back(file, 0, 1, alone, list, 2);
	change_of(request)->sync->n_unwritten = 3;
	change_of(request)->sync->unwritten[1] = 0;
	FILE_DO(request, -EINVAL);
	assert_true(all - free_units() > 202 + 30);
	/* Servers have to zero it first: others may have seen what they thought was theirs. */
	fixture.servers[0].refuse_to_zero = -EIO;
	fixture.servers[1].refuse_to_zero = -EIO;
	FILE_DO(ask_give_back(file, 0, 1, alone, list, 2), 0);
	assert_true(fs_of()->pending_bytes != 0);
	fixture.servers[0].refuse_to_zero = 0;
	fixture.servers[1].refuse_to_zero = 0;
	fixture_advance(&fixture, 5000);
	assert_int_equal(fs_of()->pending_bytes, 0);
	assert_int_equal(all - free_units(), 202);
	assert_int_equal(file_cached(fs_of(), file)->inode->nr_behind, 0);
	check_files();
	restart();
	reclaim_nothing();
	assert_int_equal(free_units(), POOL_UNITS - 202);

	/* Opened anew by the same one: nobody else could write meanwhile. */
	FILE_DO(ask_file_open(file, 1), 0);
	extend_hole(file, 800, 0, &alone);
	assert_true(alone > first);
	FILE_DO(ask_file_close(1), 0);
	FILE_DO(ask_file_open(file, 1), 0);
	first = alone;
	extend_hole(file, 500, 0, &alone);
	assert_int_equal(alone, first);
	check_files();
}

static Afar__Request *ask_to_read(uint64_t file, uint64_t handle)
{
	Afar__Request *request = ask_file_open(file, handle);

	hold_of(request)->open->access = R_OK;
	return request;
}

/* Others may have written there, or may still read. Then it stays until the file is made shorter. */
static void test_unwritten_room_stays(void **state)
{
	uint64_t alone, again, file, nr;
	struct units list[2];
	enum { WRITES, WROTE, READS, RESTARTED, OTHER_NUMBER, NR };

	(void)state;
	for (unsigned how = 0; how < NR; how++) {
		char name[] = {(char)('a' + how), '\0'};

		file = make_holes(name, list, &alone);
		if (how == WRITES || how == WROTE)
			OTHER_DO(ask_file_open(file, 1), 0);
		if (how == WRITES) {
			extend_hole(file, 900, 0, &again);
			assert_int_equal(again, 0);
		}
		if (how == WROTE) {
			OTHER_DO(ask_file_close(1), 0);
			extend_hole(file, 900, 0, &again);
			assert_true(again > alone);
		}
		if (how == READS)
			OTHER_DO(ask_to_read(file, 1), 0);
		if (how == RESTARTED) {
			restart();
			OTHER_DO(ask_reclaim(0, 0, 0), 0);
			FILE_DO(ask_reclaim_of(1, file, 1001 * FILE_UNIT, 0), 0);
		}
		if (how == OTHER_NUMBER)
			alone++;
		nr = file_cached(fs_of(), file)->inode->nr_units;
		FILE_DO(ask_give_back(file, 0, 1, alone, list, 2), 0);
		assert_true(file_cached(fs_of(), file)->inode->nr_units + 1 >= nr);
		if (how == WRITES || how == READS)
			OTHER_DO(ask_file_close(1), 0);
		FILE_DO(ask_size(file, 0), 0);
		fixture_advance(&fixture, 1000);
		assert_int_equal(free_units(), POOL_UNITS);
		check_files();
	}
	/* The writer is killed. */
	file = make_holes("k", list, &alone);
	nr = file_cached(fs_of(), file)->inode->nr_units;
	client_lose(&fixture, &client);
	fixture_advance(&fixture, 10000);
	assert_int_equal(free_units(), POOL_UNITS - nr);
	assert_int_equal(client_open(&fixture, &client), 0);
	open_pool(&client);
	FILE_DO(ask_remove(ROOT, "k", false), 0);
	fixture_advance(&fixture, 1000);
	assert_int_equal(free_units(), POOL_UNITS);
}

/* A run may lose its beginning, its end, parts, or all of it; a hole loses nothing. */
static void test_many_parts_go_back(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644), alone, all;
	struct units list[400];

	(void)state;
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(exact(ask_extend(file, 10 * FILE_UNIT, 790 * FILE_UNIT)), 0);
	FILE_DO(ask_end(file, 1001 * FILE_UNIT, 0), 0);
	extend_hole(file, 1000, 0, &alone);
	all = free_units() + file_cached(fs_of(), file)->inode->nr_units;
	for (uint64_t i = 0; i < 400; i++)
		list[i] = (struct units){2 * i + 1, 2 * i + 2};
	list[399].to = 900;
	FILE_DO(ask_give_back(file, 0, 1, alone, list, 400), 0);
	fixture_advance(&fixture, 1000);
	assert_int_equal(all - free_units(), 395 + 1);
	check_files();
	restart();
	reclaim_nothing();
	assert_int_equal(free_units(), POOL_UNITS - 396);
	check_files();
	FILE_DO(ask_size(file, 0), 0);
	fixture_advance(&fixture, 1000);
	assert_int_equal(free_units(), POOL_UNITS);
}

TEST_GROUP(manager_files_holes)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(test_a_hole_gets_room_around),
		FILES_TEST(test_any_order_asks_seldom),
		FILES_TEST(test_little_is_left_in_holes),
		FILES_TEST(test_holes_get_the_last_room),
		FILES_TEST(test_holes_get_all_that_is_left),
		FILES_TEST(test_unwritten_room_goes_back),
		FILES_TEST(test_unwritten_room_stays),
		FILES_TEST(test_many_parts_go_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
