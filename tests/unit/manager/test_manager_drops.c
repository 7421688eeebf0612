/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions keep pages of files: which of them the manager asks to drop these, when, and for how long others wait for that. */
#include "lib/manager/manager_files.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rpc/capability.h"
#include "rpc/delegation.h"
#include "unit/group.h"

static uint64_t file, second; /* "f" and "g", which are there when each test begins */
static unsigned nr_recalls_before;

static int drops_begin(void **state)
{
	files_begin(state);
	file = must_make(ROOT, "f", S_IFREG | 0644);
	second = must_make(ROOT, "g", S_IFREG | 0644);
	return 0;
}

#define DROPS_TEST(name) cmocka_unit_test_setup_teardown(name, drops_begin, files_end)

/* Opens it to read, and would keep pages. */
static Afar__Request *ask_keep(uint64_t ino, uint64_t handle)
{
	Afar__Request *request = ask_file_open(ino, handle);

	hold_of(request)->open->access = R_OK | FILE_KEEPS_PAGES;
	return request;
}

static Afar__Request *ask_cut(uint64_t size, bool only_asks)
{
	Afar__Request *request = ask_size(file, size);

	change_of(request)->set->only_asks = only_asks;
	change_of(request)->set->is_given_up = !only_asks;
	return request;
}

/* ---- Opening */

static void expect_writers(Afar__Request *request, unsigned writers)
{
	Afar__Reply *reply = must(&client, request);

	assert_int_equal(reply->file_results->results[0]->writers, writers);
	drop(reply);
}

/* Its answer was lost, and the writer has closed the file meanwhile: the session is not asked to drop pages. */
static void test_opening_is_asked_once_more(void **state)
{
	(void)state;
	OTHER_DO(ask_file_open(file, 1), 0);
	expect_writers(ask_keep(file, 1), 2);
	OTHER_DO(ask_file_close(1), 0);
	expect_writers(ask_keep(file, 1), 2);
	/* Another handle may keep them. */
	expect_writers(ask_keep(file, 2), 1);
}

/* A session whose principal has these rights, and uses files as this user. */
static void open_as(struct fake_client *who, const char *name, uint32_t uid, uint32_t rights)
{
	EXPECT(&client, ask_user_key(name, uid, 100), 0);
	EXPECT(&client, ask_grant(fs_number, name, rights), 0);
	assert_int_equal(client_open_as(&fixture, who, name), 0);
}

/* Another one keeps pages of the file, and answers from memory what it is. */
static void keep_elsewhere(void)
{
	Afar__Request *request = ask_stat(file);

	request->files_look->wants_delegation = true;
	OTHER_DO(request, 0);
	OTHER_DO(ask_keep(file, 1), 0);
	fixture.nr_revokes = 0;
}

/* Nobody drops anything for who may not write. */
static void test_refused_openings_ask_nobody(void **state)
{
	struct fake_client reader = {0}, user = {0};

	(void)state;
	open_as(&reader, "reader", 0, RIGHT_READ);
	open_as(&user, "user", 1000, RIGHT_READ | RIGHT_WRITE);
	keep_elsewhere();
	EXPECT(&reader, ask_as(ask_file_open(file, 1), 0, 100, 0), -EACCES);
	assert_int_equal(file_do(&user, ask_as(ask_file_open(file, 1), 1000, 100, 0), NULL),
			 -EACCES);
	/* It says that it is root. */
	EXPECT(&user, ask_as(ask_file_open(file, 1), 0, 0, 0), -EACCES);
	assert_int_equal(fixture.nr_revokes, 0);
	/* Both drop what they have; here these are one session. */
	FILE_DO(ask_file_open(file, 1), 0);
	assert_int_equal(fixture.nr_revokes, 2);
}

static void test_refused_changes_ask_nobody(void **state)
{
	struct fake_client user = {0};

	(void)state;
	open_as(&user, "user", 1000, RIGHT_READ | RIGHT_WRITE);
	FILE_DO(ask_size(file, 9000), 0);
	keep_elsewhere();
	fixture.nr_recalls = 0;
	assert_int_equal(file_do(&user, ask_as(ask_size(file, 10), 1000, 100, 0), NULL), -EACCES);
	EXPECT(&user, ask_size(file, 10), -EACCES);
	FILE_DO(ask_make(ROOT, "f", S_IFREG | 0644, 1, 0), -EEXIST);
	assert_int_equal(fixture.nr_revokes, 0);
	assert_int_equal(fixture.nr_recalls, 0);
}

/* ---- Making files shorter */

static void note_recalls(uint64_t session, uint64_t ino)
{
	(void)session;
	(void)ino;
	nr_recalls_before = fixture.nr_recalls;
}

/* A session that has given it up cannot drop pages that it reads, because that waits for the change. */
static void test_dropped_before_it_is_given_up(void **state)
{
	(void)state;
	OTHER_DO(ask_keep(file, 1), 0);
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_size(file, 9000), 0);
	fixture.revoked = note_recalls;
	fixture.nr_revokes = 0;
	FILE_DO(ask_cut(100, true), 0);
	assert_int_equal(fixture.nr_revokes, 1);
	assert_int_equal(nr_recalls_before, 0);
	assert_int_equal(fixture.nr_recalls, 1);
	/* It is given up. */
	FILE_DO(ask_cut(100, false), 0);
	assert_int_equal(fixture.nr_revokes, 1);
	FILE_DO(ask_extend(file, 0, 90000), 0);
	FILE_DO(ask_punch(file, 8192, 4096), 0);
	assert_int_equal(fixture.nr_revokes, 2);
	assert_int_equal(nr_recalls_before, 1);
	assert_int_equal(fixture.nr_recalls, 2);
}

/* Others have gone on, because the session that makes it shorter has said nothing more for 10 s. */
static void test_given_up_anew(void **state)
{
	(void)state;
	OTHER_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_size(file, 9000), 0);
	FILE_DO(ask_cut(100, true), 0);
	fixture_advance(&fixture, 10100);
	OTHER_DO(ask_map(file), 0);
	FILE_DO(ask_size(file, 50), 0);
	assert_int_equal(fixture.nr_recalls, 2);
}

TEST_GROUP(manager_drops)
{
	const struct CMUnitTest tests[] = {
		DROPS_TEST(test_opening_is_asked_once_more),
		DROPS_TEST(test_refused_openings_ask_nobody),
		DROPS_TEST(test_refused_changes_ask_nobody),
		DROPS_TEST(test_dropped_before_it_is_given_up),
		DROPS_TEST(test_given_up_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
