/* SPDX-License-Identifier: BSD-3-Clause */
/* Inodes whose last name has gone: they stay as long as a session says that it uses them. */
#include "lib/manager/manager_files.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "unit/group.h"

#define ASKED_AFTER_MS 10U
#define LONG_MS	       60000U

static uint64_t file, used;
static uint64_t user; /* the session that uses it */

static char name[16]; /* that it was asked by last */
static uint64_t dir;

static bool uses(uint64_t session, const Afar__FileGone *gone)
{
	if (session != user || gone->ino != used)
		return false;
	snprintf(name, sizeof(name), "%s", gone->name);
	dir = gone->dir;
	return true;
}

static int gone_begin(void **state)
{
	files_begin(state);
	fixture.uses = uses;
	file = used = must_make(ROOT, "f", S_IFREG | 0644);
	user = other.session;
	OTHER_DO(ask_to_be_asked(), 0);
	return 0;
}

static int gone_end(void **state)
{
	check_files();
	return files_end(state);
}

#define GONE_TEST(name) cmocka_unit_test_setup_teardown(name, gone_begin, gone_end)

static void expect_links(uint64_t ino, uint32_t nr)
{
	Afar__FileAttributes attributes;

	assert_int_equal(file_do(&other, ask_stat(ino), &attributes), 0);
	assert_int_equal(attributes.nlink, nr);
}

static void test_stays_while_it_is_used(void **state)
{
	(void)state;
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	expect_links(file, 0);
	fixture_advance(&fixture, ASKED_AFTER_MS);
	assert_int_equal(fixture.nr_gone_asks, 1);
	fixture_advance(&fixture, LONG_MS);
	expect_links(file, 0);
	check_files();
	/* It can be opened, and outlives that. */
	OTHER_DO(ask_file_open(file, 5), 0);
	OTHER_DO(ask_file_close(5), 0);
	fixture_advance(&fixture, LONG_MS);
	expect_links(file, 0);
	OTHER_DO(ask_forget(file), 0);
	OTHER_DO(ask_stat(file), -ESTALE);
	/* It was asked once. */
	assert_int_equal(fixture.nr_gone_asks, 1);
}

/* Its units may be others' by now: it ends when an operator says that they are not. */
static void test_suspect_ones_stay(void **state)
{
	struct fs *fs = files_find(fixture.core, fs_number);
	uint64_t nr;

	(void)state;
	used = 0;
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	nr = fs->nr_inodes;
	ns_of(fs_number)->is_suspect = true; /* while they are asked */
	fixture_advance(&fixture, LONG_MS);
	assert_int_equal(fixture.nr_gone_asks, 0);
	assert_int_equal(fs->nr_inodes, nr);
	ns_of(fs_number)->is_suspect = false;
	OTHER_DO(ask_file_open(file, 5), 0);
	ns_of(fs_number)->is_suspect = true; /* while it is open */
	client_lose(&fixture, &other);
	fixture_advance(&fixture, LONG_MS);
	assert_int_equal(fs->nr_inodes, nr);
	EXPECT(&client, ask_accept_namespace("f"), 0);
	fixture_advance(&fixture, LONG_MS);
	fixture_advance(&fixture, LONG_MS);
	assert_int_equal(fs->nr_inodes, nr - 1);
	client_open(&fixture, &other);
}

static void test_ends_when_nobody_uses_it(void **state)
{
	(void)state;
	used = 0;
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	expect_links(file, 0);
	fixture_advance(&fixture, ASKED_AFTER_MS);
	OTHER_DO(ask_stat(file), -ESTALE);
	assert_int_equal(fixture.nr_gone_asks, 1);
}

/* The file that replaces it has its name, and a removed directory takes no names any more. */
static void test_other_ways_to_go(void **state)
{
	uint64_t folder = must_make(ROOT, "d", S_IFDIR | 0755);

	(void)state;
	must_make(ROOT, "g", S_IFREG | 0644);
	FILE_DO(ask_rename(ROOT, "g", ROOT, "f", 0), 0);
	fixture_advance(&fixture, ASKED_AFTER_MS);
	expect_links(file, 0);
	OTHER_DO(ask_forget(file), 0);
	OTHER_DO(ask_stat(file), -ESTALE);

	used = folder;
	FILE_DO(ask_remove(ROOT, "d", true), 0);
	fixture_advance(&fixture, ASKED_AFTER_MS);
	expect_links(folder, 0);
	OTHER_DO(ask_lookup(folder, "x"), -ENOENT);
	OTHER_DO(ask_make(folder, "x", S_IFREG | 0644, 0, 0), -ENOENT);
	OTHER_DO(ask_forget(folder), 0);
	OTHER_DO(ask_stat(folder), -ESTALE);
}

/* Many go in one question. */
static void test_asked_together(void **state)
{
	static const char *const names[] = {"0", "1", "2", "3", "4", "5", "6", "7"};

	(void)state;
	for (size_t i = 0; i < 8; i++)
		must_make(ROOT, names[i], S_IFREG | 0644);
	for (size_t i = 0; i < 8; i++)
		FILE_DO(ask_remove(ROOT, names[i], false), 0);
	fixture_advance(&fixture, ASKED_AFTER_MS);
	fixture_advance(&fixture, ASKED_AFTER_MS);
	assert_int_equal(fixture.nr_gone_asks, 1);
	assert_int_equal(fs_of()->nr_inodes, 2); /* the root, and "f" */
}

/* Until it was open, nobody was asked. Then its last name is told, for those who remember names. */
static void test_asked_when_it_is_closed(void **state)
{
	(void)state;
	FILE_DO(ask_file_open(file, 3), 0);
	FILE_DO(ask_link(file, ROOT, "g"), 0);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	FILE_DO(ask_remove(ROOT, "g", false), 0);
	fixture_advance(&fixture, LONG_MS);
	assert_int_equal(fixture.nr_gone_asks, 0);
	FILE_DO(ask_file_close(3), 0);
	fixture_advance(&fixture, ASKED_AFTER_MS);
	assert_string_equal(name, "g");
	assert_int_equal(dir, ROOT);
	expect_links(file, 0);
	OTHER_DO(ask_forget(file), 0);
	OTHER_DO(ask_stat(file), -ESTALE);
}

/* One that does not answer counts as if it had all of them open. */
static void test_one_that_does_not_answer(void **state)
{
	(void)state;
	used = 0;
	fixture.silent_peer = other.peer;
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	fixture_advance(&fixture, LONG_MS);
	assert_int_equal(file_do(&client, ask_stat(file), NULL), 0);
	client_lose(&fixture, &other);
	fixture_advance(&fixture, 2 * FIXTURE_LEASE_MS);
	FILE_DO(ask_stat(file), -ESTALE);
	/* Nobody is asked any more. */
	file = must_make(ROOT, "f", S_IFREG | 0644);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	FILE_DO(ask_stat(file), -ESTALE);
}

static void test_the_end_of_who_uses_it(void **state)
{
	(void)state;
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	fixture_advance(&fixture, ASKED_AFTER_MS);
	client_lose(&fixture, &other);
	assert_int_equal(file_do(&client, ask_stat(file), NULL), 0);
	fixture_advance(&fixture, 2 * FIXTURE_LEASE_MS);
	FILE_DO(ask_stat(file), -ESTALE);
}

/* Its connection was lost when it was asked. */
static void test_asked_again_when_it_is_back(void **state)
{
	(void)state;
	fixture.silent_peer = other.peer;
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	fixture_advance(&fixture, ASKED_AFTER_MS);
	client_lose(&fixture, &other);
	assert_int_equal(client_resume(&fixture, &other), 0);
	fixture_advance(&fixture, 2000);
	assert_int_equal(fixture.nr_gone_asks, 1);
	expect_links(file, 0);
	OTHER_DO(ask_forget(file), 0);
	OTHER_DO(ask_stat(file), -ESTALE);
}

/* The manager has forgotten who used what, and asks again. */
static void test_restart(void **state)
{
	uint64_t unused = must_make(ROOT, "g", S_IFREG | 0644);

	(void)state;
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	FILE_DO(ask_remove(ROOT, "g", false), 0);
	fixture_advance(&fixture, ASKED_AFTER_MS);
	FILE_DO(ask_stat(unused), -ESTALE);
	restart();
	FILE_DO(ask_reclaim(0, 0, 0), 0);
	OTHER_DO(ask_to_be_asked(), 0);
	expect_links(file, 0);
	fixture_advance(&fixture, LONG_MS);
	assert_int_equal(fixture.nr_gone_asks, 2);
	expect_links(file, 0);
	OTHER_DO(ask_forget(file), 0);
	OTHER_DO(ask_stat(file), -ESTALE);
}

/* An answer whose batch is not committed is asked for again. */
static void test_a_failed_commit(void **state)
{
	(void)state;
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	fixture.store.fail_at = 1;
	fixture.store.failure = -ENOSPC;
	fixture_advance(&fixture, ASKED_AFTER_MS);
	FILE_DO(ask_forget(file), 0);
	fixture.store.fail_at = 0;
	fixture_advance(&fixture, LONG_MS);
	expect_links(file, 0);
	OTHER_DO(ask_forget(file), 0);
	fixture_advance(&fixture, LONG_MS);
	OTHER_DO(ask_stat(file), -ESTALE);
}

/* A change that lacks what removed files have waits for them. */
static void test_room_that_comes_back(void **state)
{
	Afar__Reply *made = NULL;

	(void)state;
	used = 0;
	fs_of()->max_inodes = 1;
	FILE_DO(ask_make(ROOT, "g", S_IFREG | 0644, 0, 0), -EDQUOT);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	file_send(&client, ask_make(ROOT, "g", S_IFREG | 0644, 0, 0), &made);
	fixture_pump(&fixture);
	expect_result(&made, 0);
	/* But not for ever. */
	fixture.silent_peer = other.peer;
	FILE_DO(ask_remove(ROOT, "g", false), 0);
	file_send(&client, ask_make(ROOT, "h", S_IFREG | 0644, 0, 0), &made);
	fixture_advance(&fixture, 500);
	assert_null(made);
	fixture_advance(&fixture, 500);
	expect_result(&made, -EDQUOT);
}

TEST_GROUP(manager_files_gone)
{
	const struct CMUnitTest tests[] = {
		GONE_TEST(test_stays_while_it_is_used),
		GONE_TEST(test_suspect_ones_stay),
		GONE_TEST(test_ends_when_nobody_uses_it),
		GONE_TEST(test_other_ways_to_go),
		GONE_TEST(test_asked_together),
		GONE_TEST(test_asked_when_it_is_closed),
		GONE_TEST(test_one_that_does_not_answer),
		GONE_TEST(test_the_end_of_who_uses_it),
		GONE_TEST(test_asked_again_when_it_is_back),
		GONE_TEST(test_restart),
		GONE_TEST(test_a_failed_commit),
		GONE_TEST(test_room_that_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
