/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session has files open that its programs have closed. It closes them before another one takes a file's last name, or opens it to write. So room
 * goes back. The manager asks once, and waits once for a session that does not answer.
 */
#include "lib/manager/manager_files.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rpc/delegation.h"
#include "unit/group.h"

static uint64_t file, second; /* "f" and "g", which are there when each test begins */
static Afar__Reply *closed, *opened;
static bool takes_many; /* whoever opens files takes questions about several inodes */

/* The other session has let go of what it kept before it answers. Its handles are the inodes' numbers. */
static void let_go(uint64_t session, uint64_t ino)
{
	(void)session;
	drop(closed);
	fixture_send(&fixture, &other, ++other.next_id, ask_file_close(ino), &closed);
}

static int kept_begin(void **state)
{
	files_begin(state);
	file = must_make(ROOT, "f", S_IFREG | 0644);
	second = must_make(ROOT, "g", S_IFREG | 0644);
	fixture.revoked = let_go;
	takes_many = false;
	return 0;
}

static int kept_end(void **state)
{
	drop(closed);
	closed = NULL;
	return files_end(state);
}

#define KEPT_TEST(name) cmocka_unit_test_setup_teardown(name, kept_begin, kept_end)

static Afar__Request *ask_read(uint64_t ino, uint32_t access, bool wants_delegation)
{
	Afar__Request *request = ask_file_open(ino, ino);

	request->files_hold->takes_many = takes_many;

	hold_of(request)->open->access = access;
	hold_of(request)->open->wants_delegation = wants_delegation;
	return request;
}

/* Opens it, and says whether it is delegated. */
static bool open_delegated(uint64_t ino)
{
	Afar__Reply *reply = must(&other, ask_read(ino, R_OK, true));
	bool is_delegated = reply->file_results->results[0]->is_delegated &&
			    reply->file_results->delegation != 0;

	drop(reply);
	return is_delegated;
}

/* Likewise several, each with an answer of its own. */
static Afar__Reply *all_closed[2];
static unsigned nr_closings;

static void let_both_go(uint64_t session, uint64_t ino)
{
	(void)session;
	assert_true(nr_closings < 2);
	fixture_send(&fixture, &other, ++other.next_id, ask_file_close(ino),
		     &all_closed[nr_closings++]);
}

static void expect_gone(uint64_t ino)
{
	FILE_DO(ask_stat(ino), -ESTALE);
	check_files();
}

static void test_opening_delegates(void **state)
{
	(void)state;
	open_pool(&other);
	assert_true(open_delegated(file));
	/* The writer has it dropped, once, and so closed. */
	FILE_DO(ask_file_open(file, 1), 0);
	assert_int_equal(fixture.nr_revokes, 1);
	assert_false(open_delegated(file));
}

static void test_removed(void **state)
{
	(void)state;
	open_pool(&other);
	assert_true(open_delegated(file));
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	assert_int_equal(fixture.nr_revokes, 1);
	expect_gone(file);
}

/* It is not delegated any more, so nothing would have to be dropped. */
static void test_removed_after_that_ran_out(void **state)
{
	(void)state;
	open_pool(&other);
	assert_true(open_delegated(file));
	fixture_advance(&fixture, DELEGATION_KEPT_MS);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	assert_int_equal(fixture.nr_revokes, 1);
	expect_gone(file);
}

static void test_replaced(void **state)
{
	(void)state;
	OTHER_DO(ask_read(file, R_OK, false), 0);
	FILE_DO(ask_rename(ROOT, "g", ROOT, "f", 0), 0);
	assert_int_equal(fixture.nr_revokes, 1);
	expect_gone(file);
}

/* It is asked about all of them by one message, if it takes that. */
static void test_removed_together(void **state)
{
	Afar__Request *request;

	(void)state;
	takes_many = true;
	nr_closings = 0;
	fixture.revoked = let_both_go;
	open_pool(&other);
	assert_true(open_delegated(file));
	assert_true(open_delegated(second));
	fixture_advance(&fixture, DELEGATION_KEPT_MS);
	request = ask_remove(ROOT, "f", false);
	add_operations(request, ask_remove(ROOT, "g", false));
	drop(must(&client, request));
	assert_int_equal(fixture.nr_revokes, 2);
	assert_int_equal(fixture.nr_revoke_calls, 1);
	expect_gone(file);
	expect_gone(second);
	drop(all_closed[0]);
	drop(all_closed[1]);
}

/* It stays, so whoever has it open may keep it. */
static void test_one_of_two_names(void **state)
{
	(void)state;
	OTHER_DO(ask_read(file, R_OK, false), 0);
	FILE_DO(ask_link(file, ROOT, "h"), 0);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	assert_int_equal(fixture.nr_revokes, 0);
	FILE_DO(ask_remove(ROOT, "h", false), 0);
	assert_int_equal(fixture.nr_revokes, 1);
}

/* The last one that closes it gives room behind its end back: that is the writer. */
static void test_written(void **state)
{
	(void)state;
	OTHER_DO(ask_read(file, R_OK, false), 0);
	FILE_DO(ask_file_open(file, 1), 0);
	assert_int_equal(fixture.nr_revokes, 1);
	assert_true(file_cached(fs_of(), file)->holds.next->next ==
		    &file_cached(fs_of(), file)->holds);
}

/* The session does not close what its programs have open. */
static void test_open(void **state)
{
	(void)state;
	fixture.revoked = NULL;
	OTHER_DO(ask_read(file, R_OK, false), 0);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	assert_int_equal(fixture.nr_revokes, 1);
	FILE_DO(ask_stat(file), 0);
	OTHER_DO(ask_file_close(file), 0);
	expect_gone(file);
}

/* ---- One that does not answer */

static void send_open(uint64_t ino)
{
	opened = NULL;
	file_send(&client, ask_file_open(ino, ino), &opened);
}

static void test_silent_for_many_files(void **state)
{
	(void)state;
	OTHER_DO(ask_read(file, R_OK | FILE_KEEPS_PAGES, false), 0);
	OTHER_DO(ask_read(second, R_OK | FILE_KEEPS_PAGES, false), 0);
	fixture.silent_peer = other.peer;
	send_open(file);
	assert_null(opened);
	/* Then it is probed. */
	fixture_advance(&fixture, DELEGATION_KEPT_MS / 2);
	fixture_advance(&fixture, DELEGATION_KEPT_MS / 2);
	expect_result(&opened, 0);
	send_open(second);
	expect_result(&opened, 0);
	FILE_DO(ask_remove(ROOT, "g", false), 0);
	/* It goes on, and is waited for again. */
	fixture.silent_peer = NULL;
	fixture_pump(&fixture);
	FILE_DO(ask_file_close(file), 0);
	OTHER_DO(ask_read(file, R_OK | FILE_KEEPS_PAGES, false), 0);
	fixture.silent_peer = other.peer;
	send_open(file);
	assert_null(opened);
	fixture.silent_peer = NULL;
	fixture_pump(&fixture);
	expect_result(&opened, 0);
}

/* Another one was slow to drop its pages. That takes nothing off the second that this one has to close the file. */
static void test_asked_behind_a_slow_one(void **state)
{
	struct fake_client third = {0};

	(void)state;
	fixture.revoked = NULL;
	assert_int_equal(client_open(&fixture, &third), 0);
	OTHER_DO(ask_read(file, R_OK | FILE_KEEPS_PAGES, false), 0);
	assert_int_equal(file_do(&third, ask_read(file, R_OK, false), NULL), 0);
	fixture.silent_ino = file;
	send_open(file);
	fixture_advance(&fixture, DELEGATION_KEPT_MS * 9 / 10);
	fixture.silent_peer = third.peer;
	fixture.silent_ino = 0;
	fixture_pump(&fixture);
	fixture_advance(&fixture, DELEGATION_KEPT_MS * 9 / 10);
	assert_null(opened);
	fixture.silent_peer = NULL;
	fixture_pump(&fixture);
	expect_result(&opened, 0);
}

TEST_GROUP(manager_kept)
{
	const struct CMUnitTest tests[] = {
		KEPT_TEST(test_opening_delegates),
		KEPT_TEST(test_removed),
		KEPT_TEST(test_removed_after_that_ran_out),
		KEPT_TEST(test_replaced),
		KEPT_TEST(test_removed_together),
		KEPT_TEST(test_one_of_two_names),
		KEPT_TEST(test_written),
		KEPT_TEST(test_open),
		KEPT_TEST(test_silent_for_many_files),
		KEPT_TEST(test_asked_behind_a_slow_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
