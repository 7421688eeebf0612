/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server with a part of a file system's pool ends. Names stay, what was there is lost and given to nobody
 * again, and the rest goes on, also after a restart of the manager.
 */
#include "lib/manager/manager_files.h"
#include "manager/regions/namespaces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "manager/regions/volumes.h"
#include "unit/group.h"

#define UNITS (POOL_BYTES / FILE_UNIT)

static const struct region *pool(void)
{
	return volume_region(ns_of(fs_number));
}

static bool is_lost(uint64_t pool_unit)
{
	return layout_piece_at(pool()->layout, pool_unit * FILE_UNIT, 1).lost != NULL;
}

/* ---- Counting units one by one */

struct units {
	uint64_t lost; /* of the whole pool */
	uint64_t lost_in_files;
	uint64_t in_files; /* and not lost */
};

static int count_run(void *argument, uint64_t ino, const struct run *run)
{
	struct units *units = argument;

	(void)ino;
	for (uint64_t i = 0; i < run->nr; i++) {
		units->lost_in_files += is_lost(run->pool_unit + i);
		units->in_files += !is_lost(run->pool_unit + i);
	}
	return 0;
}

static struct units count_units(void)
{
	struct units units = {0};

	for (uint64_t unit = 0; unit < pool()->length / FILE_UNIT; unit++)
		units.lost += is_lost(unit);
	assert_int_equal(record_range_all_runs(fs_of(), count_run, &units), 0);
	return units;
}

/* Each unit of the pool is in a file, free, being zeroed, or lost, and the file system says so. */
static struct units check_units(void)
{
	Afar__FileSystemInfo *info = files_info(fixture.core, ns_of(fs_number));
	struct units units = count_units();

	check_files();
	assert_int_equal(info->lost_bytes, units.lost_in_files * FILE_UNIT);
	assert_int_equal(info->pool_bytes, pool()->length - units.lost * FILE_UNIT);
	assert_int_equal(units.in_files * FILE_UNIT + info->free_bytes + info->pending_bytes,
			 info->pool_bytes);
	afar__file_system_info__free_unpacked(info, NULL);
	return units;
}

/* ---- What happens */

/* Its process ends, and begins anew with nothing. */
static void lose_server(size_t index)
{
	fixture_kill(&fixture, index);
	assert_int_equal(fixture_join(&fixture, index, 64 * MIB), 0);
	fixture_pump(&fixture);
}

/* Makes a file of so many units, which nobody has open. */
static uint64_t make_file(const char *name, uint64_t nr)
{
	Afar__FileAttributes attributes;

	assert_int_equal(file_do(&client, ask_make(ROOT, name, S_IFREG | 0644, 900, nr * FILE_UNIT),
				 &attributes),
			 0);
	FILE_DO(ask_sync_close(attributes.ino, nr * FILE_UNIT, 900), 0);
	return attributes.ino;
}

static void restart_and_claim(void)
{
	restart();
	reclaim_nothing();
}

static void test_files_outlive_a_server(void **state)
{
	uint64_t number = pool()->layout_number, nr_free, large = make_file("large", 600);
	Afar__FileAttributes attributes;
	struct units lost, now;

	(void)state;
	make_file("small", 1);
	lose_server(1);
	lost = check_units();
	assert_int_equal(lost.lost, UNITS / 2);
	assert_true(lost.lost_in_files > 100 && lost.in_files > 100);
	assert_true(pool()->layout_number > number);
	assert_false(pool()->is_lost);
	assert_int_equal(file_do(&client, ask_stat(large), &attributes), 0);
	assert_int_equal(attributes.size, 600 * FILE_UNIT);
	assert_int_equal(attributes.allocated, 600 * FILE_UNIT);
	FILE_DO(ask_rename(ROOT, "large", ROOT, "moved", 0), 0);
	EXPECT(&client, ask_volume_open(fs_number, VOLUME_SHARED), 0);

	/* Files that are made now get nothing of it, up to the last unit, also after a restart. */
	nr_free = fs_of()->space.free_bytes / FILE_UNIT;
	assert_int_equal(nr_free, UNITS / 2 - lost.in_files);
	restart_and_claim();
	check_units();
	make_file("new", nr_free);
	now = check_units();
	assert_int_equal(now.in_files, lost.in_files + nr_free);
	assert_int_equal(now.lost_in_files, lost.lost_in_files);
	FILE_DO(ask_make(ROOT, "more", S_IFREG | 0644, 7, FILE_UNIT), -ENOSPC);
	restart_and_claim();
	FILE_DO(ask_make(ROOT, "more", S_IFREG | 0644, 7, FILE_UNIT), -ENOSPC);
	EXPECT(&client, ask_reserve(fs_number, POOL_BYTES), 0);
	EXPECT(&client, ask_resize(fs_number, 2 * POOL_BYTES), 0);
	make_file("more", UNITS);
	now = check_units();
	assert_int_equal(now.lost, lost.lost);
	assert_int_equal(now.lost_in_files, lost.lost_in_files);

	/* Lost units of files that go are nobody's: neither free nor to be zeroed. */
	FILE_DO(ask_size(large, 300 * FILE_UNIT), 0);
	now = check_units();
	assert_true(now.lost_in_files < lost.lost_in_files && now.lost_in_files > 0);
	FILE_DO(ask_remove(ROOT, "moved", false), 0);
	FILE_DO(ask_remove(ROOT, "small", false), 0);
	fixture_advance(&fixture, 2000);
	assert_int_equal(fs_of()->pending_bytes, 0);
	now = check_units();
	assert_int_equal(now.lost_in_files, 0);
	assert_int_equal(now.lost, lost.lost);
	restart_and_claim();
	check_units();
}

/* An operator removes a server that is gone, and then all that is left ends. */
static void test_all_servers_are_lost(void **state)
{
	uint64_t large = make_file("large", 600);
	struct units units;

	(void)state;
	fixture_kill(&fixture, 1);
	EXPECT(&client, ask_server_remove(fixture.servers[1].number), 0);
	units = check_units();
	assert_int_equal(units.lost, UNITS / 2);
	lose_server(0);
	units = check_units();
	assert_int_equal(units.lost, UNITS);
	assert_int_equal(units.lost_in_files, 600);
	assert_int_equal(pool()->layout->nr_homes, 0);
	FILE_DO(ask_stat(large), 0);
	EXPECT(&other, ask_volume_open(fs_number, VOLUME_SHARED), 0);
	assert_int_equal(fixture_join(&fixture, 1, 64 * MIB), 0);
	EXPECT(&client, ask_reserve(fs_number, POOL_BYTES), 0);
	EXPECT(&client, ask_resize(fs_number, 2 * POOL_BYTES), 0);
	make_file("new", UNITS);
	units = check_units();
	assert_int_equal(units.in_files, UNITS);
}

/* Nobody waits for what files gave back, and the server had not zeroed yet. */
static void test_what_is_being_zeroed_is_lost(void **state)
{
	struct units units;

	(void)state;
	make_file("f", 600);
	make_file("g", 1);
	fixture.servers[0].refuse_to_zero = fixture.servers[1].refuse_to_zero = -EIO;
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	assert_int_equal(fs_of()->pending_bytes, 600 * FILE_UNIT);
	lose_server(1);
	units = check_units();
	assert_true(fs_of()->pending_bytes > 0 && fs_of()->pending_bytes < 600 * FILE_UNIT);
	restart_and_claim();
	check_units();
	fixture.servers[0].refuse_to_zero = fixture.servers[1].refuse_to_zero = 0;
	fixture_advance(&fixture, 2000);
	assert_int_equal(fs_of()->pending_bytes, 0);
	assert_int_equal(fs_of()->space.free_bytes, POOL_BYTES / 2 - units.in_files * FILE_UNIT);
	check_units();
	/* All of a list may be lost. */
	fixture.servers[0].refuse_to_zero = fixture.servers[1].refuse_to_zero = -EIO;
	FILE_DO(ask_remove(ROOT, "g", false), 0);
	lose_server(0);
	assert_int_equal(fs_of()->pending_bytes, 0);
	assert_true(cds_list_empty(&fs_of()->scrubs));
	check_units();
	fixture.servers[0].refuse_to_zero = fixture.servers[1].refuse_to_zero = 0;
}

/* The commit with which a server joins again, or goes, fails: nothing is lost before it does. */
static void test_a_commit_that_fails(void **state)
{
	struct units units;

	(void)state;
	make_file("f", 600);
	make_file("g", 100);
	fixture.servers[0].refuse_to_zero = -EIO;
	FILE_DO(ask_remove(ROOT, "g", false), 0);
	fixture_kill(&fixture, 1);
	fixture.store.fail_at = 1;
	fixture.store.failure = -ENOSPC;
	EXPECT(&client, ask_server_remove(fixture.servers[1].number), -ENOSPC);
	fixture.store.fail_at = 0;
	units = check_units();
	assert_int_equal(units.lost, 0);
	assert_int_equal(fs_of()->pending_bytes, 100 * FILE_UNIT);
	EXPECT(&client, ask_server_remove(fixture.servers[1].number), 0);
	units = check_units();
	assert_int_equal(units.lost, UNITS / 2);
	fixture.servers[0].refuse_to_zero = 0;
	assert_int_equal(fixture_join(&fixture, 1, 64 * MIB), 0);
}

/* A server ends before whoever makes a file system has finished. */
static void test_while_it_is_made(void **state)
{
	uint64_t first = fs_number;
	Afar__Request *request = ask_volume("made");
	Afar__RegionInfo *info;
	Afar__Reply *reply;
	struct units units;

	(void)state;
	request->namespace_create->is_files = true;
	fs_number = create_namespace(&fixture, &client, request);
	EXPECT(&client, ask_reserve(fs_number, POOL_BYTES), 0);
	info = must_open(&client, ask_volume_alloc(fs_number, POOL_BYTES), &reply);
	lose_server(1);
	EXPECT(&client, ask_finish(info), 0);
	make_file("f", 200);
	units = check_units();
	assert_int_equal(units.lost, UNITS / 2);
	assert_int_equal(units.lost_in_files, 0);
	assert_int_equal(units.in_files, 200);
	restart_and_claim();
	check_units();
	EXPECT(&client, ask_close(info), 0);
	drop(reply);
	request = ask_volume_delete("made");
	request->namespace_delete->is_files = true;
	EXPECT(&client, request, 0);
	fs_number = first;
	reclaim_nothing();
	fixture_advance(&fixture, 2000);
}

/* ---- Listing */

struct listed {
	unsigned nr;
	uint64_t lost_bytes; /* of the last */
	char paths[256];     /* one behind another, with '\n' */
};

static struct listed list_lost(uint64_t after)
{
	Afar__Reply *reply = must(&client, ask_lost(after));
	const Afar__FileResult *result = reply->file_results->results[0];
	struct listed listed = {.nr = (unsigned)result->n_lost};
	size_t length = 0;

	assert_int_equal(result->status, 0);
	assert_false(result->is_more);
	for (size_t i = 0; i < result->n_lost; i++) {
		listed.lost_bytes = result->lost[i]->bytes;
		length += (size_t)snprintf(listed.paths + length, sizeof(listed.paths) - length,
					   "%s\n", result->lost[i]->path);
	}
	drop(reply);
	return listed;
}

static void test_they_are_listed(void **state)
{
	uint64_t dir = must_make(ROOT, "dir", S_IFDIR | 0755);
	uint64_t below = must_make(dir, "below", S_IFDIR | 0755);
	uint64_t one = make_file("one", 500), two;
	struct fake_client guest;
	struct listed listed;

	(void)state;
	assert_int_equal(list_lost(0).nr, 0);
	FILE_DO(ask_link(one, below, "also"), 0);
	two = make_file("two", 400);
	FILE_DO(ask_rename(ROOT, "two", dir, "moved", 0), 0);
	lose_server(1);
	listed = list_lost(0);
	assert_string_equal(listed.paths, "/one\n/dir/below/also\n/dir/moved\n");
	assert_int_equal(list_lost(one).nr, 1);
	assert_string_equal(list_lost(one).paths, "/dir/moved\n");
	assert_int_equal(list_lost(two).nr, 0);
	check_units();
	/* One that is open outlives its name. */
	FILE_DO(ask_file_open(two, 5), 0);
	FILE_DO(ask_remove(dir, "moved", false), 0);
	listed = list_lost(one);
	assert_int_equal(listed.nr, 1);
	assert_string_equal(listed.paths, "\n");
	FILE_DO(ask_file_close(5), 0);
	assert_int_equal(list_lost(one).nr, 0);
	listed = list_lost(0);
	assert_int_equal(listed.nr, 2);
	assert_int_equal(listed.lost_bytes, fs_of()->nr_lost_units * FILE_UNIT);

	/* For whoever may check it. */
	EXPECT(&client, ask_user_key("guest", 0, 0), 0);
	EXPECT(&client, ask_grant(fs_number, "guest", RIGHT_ALL), 0);
	client_open_as(&fixture, &guest, "guest");
	EXPECT(&guest, ask_lost(0), -EACCES);
	client_lose(&fixture, &guest);
	EXPECT(&client, ask_key_revoke("guest"), 0);
}

/* More than one answer tells of: each once, in order. */
static void test_a_long_list_comes_in_parts(void **state)
{
	const uint64_t nr = 9000;
	uint64_t after = 0, nr_listed = 0, nr_parts = 0;
	bool is_more = true;
	char name[16];

	(void)state;
	EXPECT(&client, ask_reserve(fs_number, 40 * MIB), 0);
	EXPECT(&client, ask_resize(fs_number, 40 * MIB), 0);
	for (uint64_t i = 0; i < nr; i++) {
		snprintf(name, sizeof(name), "%u", (unsigned)i);
		FILE_DO(ask_make(ROOT, name, S_IFREG | 0644, 0, FILE_UNIT), 0);
	}
	lose_server(1);
	while (is_more) {
		Afar__Reply *reply = must(&client, ask_lost(after));
		const Afar__FileResult *result = reply->file_results->results[0];

		assert_int_equal(result->status, 0);
		for (size_t i = 0; i < result->n_lost; i++) {
			assert_true(result->lost[i]->ino > after);
			assert_int_equal(result->lost[i]->bytes, FILE_UNIT);
			after = result->lost[i]->ino;
			nr_listed++;
		}
		is_more = result->is_more;
		nr_parts++;
		drop(reply);
	}
	assert_true(nr_parts > 1);
	assert_int_equal(nr_listed, fs_of()->nr_lost_units);
	check_units();
}

#define LONG_NAME	  250
#define NAMES_OF_ONE_FILE 5000U /* of 4000 bytes each: more than one answer takes */

/* Makes directories in each other until a path is nearly as long as one may be. */
static uint64_t make_deep(char name[LONG_NAME + 1])
{
	uint64_t dir = ROOT;

	memset(name, 'd', LONG_NAME);
	name[LONG_NAME] = '\0';
	for (unsigned i = 0; i < 15; i++)
		dir = must_make(dir, name, S_IFDIR | 0755);
	return dir;
}

/* Its names come in several answers: each once. */
static void test_a_file_with_many_names(void **state)
{
	char name[LONG_NAME + 1];
	uint64_t dir = make_deep(name), file = make_file("f", 500),
		 other_file = make_file("g", 400);
	uint64_t after = 0;
	unsigned nr_parts = 0, nr_names = 0, nr_others = 0;
	uint32_t nr_told = 0;
	bool is_more = true;

	(void)state;
	for (unsigned i = 1; i < NAMES_OF_ONE_FILE; i++) {
		snprintf(name + 8, sizeof(name) - 8, "%0240u", i);
		FILE_DO(ask_link(file, dir, name), 0);
	}
	lose_server(1);
	while (is_more) {
		Afar__Request *request = ask_lost(after);
		const Afar__FileResult *result;
		Afar__Reply *reply;

		request->files_look->operations[0]->lost->names = nr_told;
		reply = must(&client, request);
		result = reply->file_results->results[0];
		assert_int_equal(result->status, 0);
		for (size_t i = 0; i < result->n_lost; i++) {
			unsigned number = 0;

			nr_told = result->lost[i]->ino == after ? nr_told + 1 : 1;
			after = result->lost[i]->ino;
			nr_others += after == other_file;
			if (after != file)
				continue;
			/* In order of their names, behind the one in the root. */
			if (nr_names != 0)
				number = (unsigned)strtoul(result->lost[i]->name + 8, NULL, 10);
			assert_int_equal(number, nr_names);
			nr_names++;
		}
		is_more = result->is_more;
		nr_parts++;
		drop(reply);
	}
	assert_int_equal(nr_names, NAMES_OF_ONE_FILE);
	assert_int_equal(nr_others, 1);
	assert_int_equal(nr_parts, 2);
}

static void test_removing_another_file_is_refused(void **state)
{
	uint64_t old = make_file("f", 1);
	Afar__Request *request = ask_remove(ROOT, "f", false);

	(void)state;
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	make_file("f", 1);
	change_of(request)->remove->ino = old;
	FILE_DO(request, -ESTALE);
	FILE_DO(ask_walk("/f", true), 0);
	request = ask_remove(ROOT, "f", false);
	change_of(request)->remove->ino = old + 1;
	FILE_DO(request, 0);
}

/* ---- Before it is lost */

#define UNITS_COUNTED	  560U /* of the large file below */
#define UNITS_OF_ONE_CALL (5 * 65536 / FILE_UNIT)

/* Counts the files with bytes on the server, with calls that look at `max` runs each. */
static Afar__LossCounted count_files(struct fake_client *who, uint64_t server, uint32_t max)
{
	Afar__LossCounted sum = AFAR__LOSS_COUNTED__INIT;
	Afar__Reply *reply;
	unsigned nr_calls = 0;

	do {
		reply = must(who, ask_loss_count(server, fs_number, &sum, max));
		sum.nr_files += reply->loss_counted->nr_files;
		sum.bytes += reply->loss_counted->bytes;
		sum.ino = reply->loss_counted->ino;
		sum.unit = reply->loss_counted->unit;
		sum.counted = reply->loss_counted->counted;
		drop(reply);
		nr_calls++;
	} while (sum.ino != 0);
	assert_true(max != 1 || nr_calls > sum.nr_files);
	/* No call looks at all of a long run. */
	assert_true(max != 1 || nr_calls >= UNITS_COUNTED / UNITS_OF_ONE_CALL);
	return sum;
}

static void test_what_is_lost_is_told_before(void **state)
{
	Afar__FileAttributes attributes;
	Afar__LossCounted counted;
	struct units lost;
	Afar__Reply *reply;
	uint64_t server = fixture.servers[1].number, large;

	(void)state;
	make_file("small", 1);
	make_file("empty", 0);
	/* Holes give the file many runs. */
	FILE_DO(ask_make(ROOT, "large", S_IFREG | 0644, 901, 600 * FILE_UNIT), 0);
	assert_int_equal(file_do(&client, ask_walk("/large", true), &attributes), 0);
	large = attributes.ino;
	FILE_DO(ask_punch(large, 10 * FILE_UNIT, 20 * FILE_UNIT), 0);
	FILE_DO(ask_punch(large, 300 * FILE_UNIT, 20 * FILE_UNIT), 0);
	fixture_kill(&fixture, 1);
	reply = must(&client, ask_loss_list(server, 0));
	assert_int_equal(reply->loss_infos->n_entries, 1);
	assert_true(reply->loss_infos->entries[0]->is_files);
	assert_int_equal(reply->loss_infos->entries[0]->namespace_, fs_number);
	assert_int_equal(reply->loss_infos->entries[0]->bytes, POOL_BYTES / 2);
	drop(reply);
	reply = must(&client, ask_loss_list(server, fs_number));
	assert_int_equal(reply->loss_infos->n_entries, 0);
	drop(reply);
	EXPECT(&client, ask_loss_list(99, 0), -ENOENT);
	counted = count_files(&client, server, 1);
	assert_int_equal(counted.bytes, count_files(&client, server, 0).bytes);
	assert_int_equal(counted.nr_files, count_files(&client, server, 0).nr_files);
	assert_true(counted.nr_files == 1 || counted.nr_files == 2);
	assert_int_equal(fixture_join(&fixture, 1, 64 * MIB), 0);
	fixture_pump(&fixture);
	lost = check_units();
	assert_int_equal(counted.bytes, lost.lost_in_files * FILE_UNIT);
}

TEST_GROUP(manager_files_lost)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(test_files_outlive_a_server),
		FILES_TEST(test_what_is_lost_is_told_before),
		FILES_TEST(test_all_servers_are_lost),
		FILES_TEST(test_what_is_being_zeroed_is_lost),
		FILES_TEST(test_a_commit_that_fails),
		FILES_TEST(test_while_it_is_made),
		FILES_TEST(test_they_are_listed),
		FILES_TEST(test_a_long_list_comes_in_parts),
		FILES_TEST(test_a_file_with_many_names),
		FILES_TEST(test_removing_another_file_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
