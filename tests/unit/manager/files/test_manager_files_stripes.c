/* SPDX-License-Identifier: BSD-3-Clause */
/* Files with stripes of their own, whose servers have no room for them. */
#include <sys/stat.h>

#include "lib/manager/manager_files.h"
#include "manager/regions/volumes.h"
#include "unit/group.h"

#define SERVER_BYTES (64 * MIB)
#define STRIPE	     65536U

static const struct layout *pool_layout(void)
{
	return volume_region(ns_of(fs_number))->layout;
}

/* A file of one server: of the pool's home `home`. */
static uint64_t make_at(uint32_t home, const char *name, uint64_t stripe_bytes)
{
	char other_name[] = "0";
	uint64_t ino;

	do {
		Afar__Request *request = ask_make(ROOT, name, S_IFREG | 0644, 0, 0);
		Afar__FileAttributes attributes;

		change_of(request)->make->width = 1;
		change_of(request)->make->stripe_bytes = stripe_bytes;
		assert_int_equal(file_do(&client, request, &attributes), 0);
		ino = attributes.ino;
		if (ino % 2 != home) {
			FILE_DO(ask_rename(ROOT, name, ROOT, other_name, 0), 0);
			FILE_DO(ask_remove(ROOT, other_name, false), 0);
		}
	} while (ino % 2 != home);
	FILE_DO(ask_file_open(ino, ino), 0);
	return ino;
}

struct count {
	uint64_t ino, nr_there, nr;
	uint32_t home;
};

static int count_run(void *argument, uint64_t ino, const struct run *run)
{
	struct count *count = argument;

	for (uint64_t i = 0; i < run->nr && ino == count->ino && run->unit < FILE_SLOT_UNIT; i++) {
		struct layout_piece at =
			layout_piece_at(pool_layout(), (run->pool_unit + i) * FILE_UNIT, FILE_UNIT);

		count->nr++;
		count->nr_there += at.copy->home == count->home;
	}
	return 0;
}

/* The file has so many bytes at a home of the pool, and so many elsewhere. */
static void expect_at(uint64_t ino, uint32_t home, uint64_t there, uint64_t elsewhere)
{
	struct count count = {.ino = ino, .home = home};

	assert_int_equal(record_range_all_runs(fs_of(), count_run, &count), 0);
	assert_int_equal(count.nr_there * FILE_UNIT, there);
	assert_int_equal((count.nr - count.nr_there) * FILE_UNIT, elsewhere);
}

static void end_file(uint64_t ino, const char *name)
{
	FILE_DO(ask_file_close(ino), 0);
	FILE_DO(ask_remove(ROOT, name, false), 0);
	fixture_advance(&fixture, 1000);
}

static Afar__Request *exactly(Afar__Request *request, bool may_stray)
{
	change_of(request)->extend->is_exact = true;
	change_of(request)->extend->may_stray = may_stray;
	return request;
}

static uint64_t room_of(uint32_t home)
{
	const struct pool *pool = state_pool(fixture.core->state, &pool_layout()->homes[home]);

	return pool->capacity_bytes - pool->granted_bytes;
}

/* Another namespace has all that one of the servers could still lend. Files that belong there stray at once; those of the other server
 * ask for a larger pool. */
static void test_a_server_that_can_lend_no_more(void **state)
{
	const uint64_t half = POOL_BYTES / 2;
	uint64_t number, full_file, file;
	uint32_t full;

	(void)state;
	number = create_namespace(&fixture, &client, ask_create("narrow", 1, 0));
	EXPECT(&client, ask_reserve(number, SERVER_BYTES - half), 0);
	full = room_of(0) == 0 ? 0 : 1;
	assert_int_equal(room_of(full), 0);
	assert_int_equal(room_of(1 - full), SERVER_BYTES - half);

	full_file = make_at(full, "full", MIB);
	FILE_DO(exactly(ask_extend(full_file, 0, half + STRIPE), false), 0);
	expect_at(full_file, full, half, STRIPE);
	file = make_at(1 - full, "file", MIB);
	FILE_DO(exactly(ask_extend(file, 0, half), false), -ENOSPC);
	FILE_DO(exactly(ask_extend(file, 0, half - STRIPE), false), 0);
	expect_at(file, 1 - full, half - STRIPE, 0);
	end_file(full_file, "full");
	/* There is room elsewhere, which it takes only if it may. */
	FILE_DO(exactly(ask_extend(file, half - STRIPE, STRIPE), false), 0);
	FILE_DO(exactly(ask_extend(file, half, STRIPE), false), -ENOSPC);
	FILE_DO(exactly(ask_extend(file, half, STRIPE), true), 0);
	expect_at(file, 1 - full, half, STRIPE);
	check_files();
	EXPECT(&client, ask_delete("narrow", true), 0);
}

static void expect_no_room(uint64_t ino, uint64_t bytes, int status)
{
	FILE_DO(exactly(ask_extend(ino, 0, bytes), false), status);
	expect_at(ino, 0, 0, 0);
}

/* A request makes room for so many stripes at most, and for none of the finest where the pool's are finer. */
static void test_stripes_of_one_request(void **state)
{
	uint64_t file = make_at(0, "fine", STRIPE);
	Afar__Request *request;

	(void)state;
	expect_no_room(file, (uint64_t)STRIPE * 16384, -ENOSPC);
	expect_no_room(file, (uint64_t)STRIPE * 16384 * 2, -E2BIG);
	ns_of(fs_number)->stripe_bytes /= 32;
	request = ask_make(ROOT, "g", S_IFREG | 0644, 0, 0);
	change_of(request)->make->width = 1;
	FILE_DO(request, -EINVAL);
	FILE_DO(exactly(ask_extend(file, 0, POOL_BYTES), false), 0);
	expect_at(file, 0, POOL_BYTES / 2, POOL_BYTES / 2);
	ns_of(fs_number)->stripe_bytes *= 32;
}

/* The other server's room is in so many pieces that the search for this one's ends before it has seen them all. */
static void test_a_search_ends(void **state)
{
	const uint64_t bytes = 72 * MIB;
	struct space *space = &fs_of()->space;
	uint64_t file, missed = 0, nr_units;

	(void)state;
	EXPECT(&client, ask_reserve(fs_number, bytes - POOL_BYTES), 0);
	EXPECT(&client, ask_resize(fs_number, bytes), 0);
	file = make_at(0, "f", STRIPE);
	FILE_DO(exactly(ask_extend(file, 0, FILE_UNIT), false), 0); /* looks at the pool */
	nr_units = space->length / FILE_UNIT;
	assert_true(room_of(0) >= 2 * MIB);
	/* Nobody hears of it. */
	for (uint64_t i = 0; i < nr_units; i++) {
		struct layout_piece at = layout_piece_at(pool_layout(), i * FILE_UNIT, FILE_UNIT);

		if ((at.copy->home == 0 || i % 2 == 0) &&
		    space_take_at(space, i * FILE_UNIT, FILE_UNIT) < 0)
			missed++;
	}
	assert_int_equal(missed, 1); /* the file's */
	FILE_DO(exactly(ask_extend(file, FILE_UNIT, STRIPE), false), 0);
	expect_at(file, 0, FILE_UNIT, STRIPE);
	end_file(file, "f");
	space_end(space);
	assert_int_equal(space_begin(space, bytes), 0);
	/* Its records are as it is again, too. */
	file = make_at(0, "f", MIB);
	FILE_DO(exactly(ask_extend(file, 0, bytes), true), 0);
	end_file(file, "f");
	restart();
	reclaim_nothing();
	assert_int_equal(fs_of()->space.free_bytes, bytes);
}

/* ---- Records of free room */

static size_t nr_put;

void __real_store_put_bytes(struct store *store, struct store_key key, const void *data,
			    size_t length);
void __wrap_store_put_bytes(struct store *store, struct store_key key, const void *data,
			    size_t length);

void __wrap_store_put_bytes(struct store *store, struct store_key key, const void *data,
			    size_t length)
{
	nr_put += length == SPACE_SEGMENT_BYTES / FILE_UNIT / 8;
	__real_store_put_bytes(store, key, data, length);
}

/* Each stripe is taken by itself, and changes the same record. */
static void test_stripes_share_records(void **state)
{
	uint64_t file = make_at(0, "f", STRIPE);

	(void)state;
	nr_put = 0;
	FILE_DO(exactly(ask_extend(file, 0, POOL_BYTES / 2), false), 0);
	assert_int_equal(nr_put, 1);
	expect_at(file, 0, POOL_BYTES / 2, 0);
}

TEST_GROUP(manager_files_stripes)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(test_a_server_that_can_lend_no_more),
		FILES_TEST(test_stripes_of_one_request),
		FILES_TEST(test_a_search_ends),
		FILES_TEST(test_stripes_share_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
