/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions keep pages of files: which of them the manager asks to drop these, when, and for how long others wait for that. */
#include "lib/manager/manager_files.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "manager/files/holds.h"
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

/* Asks to answer from memory what it is. */
static Afar__Request *ask_delegated(uint64_t ino)
{
	Afar__Request *request = ask_stat(ino);

	request->files_look->wants_delegation = true;
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
	OTHER_DO(ask_delegated(file), 0);
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

/* Others drop the pages of all files that are opened together, and tell of their writes together. */
static void test_a_message_for_a_batch(void **state)
{
	Afar__Request *request = ask_delegated(ROOT);

	(void)state;
	request->files_look->takes_many = true;
	OTHER_DO(request, 0);
	OTHER_DO(ask_keep(file, 1), 0);
	OTHER_DO(ask_keep(second, 2), 0);
	request = ask_file_open(file, 1);
	add_operations(request, ask_file_open(second, 2));
	fixture.nr_revokes = fixture.nr_revoke_calls = 0;
	drop(must(&client, request));
	assert_int_equal(fixture.nr_revokes, 2);
	assert_int_equal(fixture.nr_revoke_calls, 1);
	OTHER_DO(ask_file_open(file, 3), 0);
	OTHER_DO(ask_file_open(second, 4), 0);
	request = ask_delegated(file);
	add_operations(request, ask_delegated(second));
	for (size_t i = 0; i < 2; i++)
		request->files_look->operations[i]->stat->asks_writers = true;
	drop(must(&client, request));
	assert_int_equal(fixture.nr_revokes, 4);
	assert_int_equal(fixture.nr_revoke_calls, 2);
}

/* A question that is answered says nothing of one of another kind, which was begun after it, and sent with it. */
static void test_who_answers_one_kind_owes_the_other(void **state)
{
	const uint64_t third = must_make(ROOT, "h", S_IFREG | 0644);
	Afar__Request *request = ask_delegated(ROOT);
	Afar__Reply *opened;

	(void)state;
	request->files_look->takes_many = true;
	OTHER_DO(request, 0);
	OTHER_DO(ask_file_open(file, 1), 0);
	OTHER_DO(ask_file_open(second, 2), 0);
	OTHER_DO(ask_keep(third, 3), 0);
	request = ask_keep(file, 1);
	add_operations(request, ask_file_open(third, 2));
	add_operations(request, ask_keep(second, 3));
	fixture.nr_revoke_calls = 0;
	fixture.silent_ino = third;
	file_send(&client, request, &opened);
	fixture_pump(&fixture);
	assert_int_equal(fixture.nr_revoke_calls, 1);
	assert_true(silence_next(fs_of()) != CORE_NEVER);
	fixture_advance(&fixture, DELEGATION_KEPT_MS);
	fixture.silent_ino = 0;
	expect_answer(opened, 0, NULL);
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

/* ---- Times */

#define SET_TIME 5

static Afar__Request *ask_time(void)
{
	Afar__Request *request = ask_size(file, 0);

	change_of(request)->set->mask = 32;
	change_of(request)->set->mtime = SET_TIME;
	return request;
}

static Afar__Request *ask_told(uint64_t number)
{
	Afar__Request *request = ask_end(file, 0, 0);

	hold_of(request)->end->number = number;
	return request;
}

/* Commits a write; tells of nothing new if `number` has come. */
static Afar__Request *ask_written(uint64_t number, uint64_t close)
{
	Afar__Request *request = ask_sync_close(file, 0, close);

	change_of(request)->sync->is_trimmed = false;
	change_of(request)->sync->is_written = true;
	change_of(request)->sync->unless_told = number;
	return request;
}

static void expect_time(bool stays)
{
	Afar__FileAttributes attributes;

	assert_int_equal(file_do(&client, ask_stat(file), &attributes), 0);
	assert_true(stays == (attributes.mtime == SET_TIME));
	FILE_DO(ask_time(), 0);
}

/* A writer closes before it has heard that the manager knows of its write, and somebody has set the time meanwhile. */
static void test_set_times_stay_when_writers_close(void **state)
{
	(void)state;
	OTHER_DO(ask_file_open(file, 1), 0);
	OTHER_DO(ask_file_open(file, 2), 0);
	OTHER_DO(ask_told(7), 0);
	expect_time(false);
	OTHER_DO(ask_written(7, 1), 0);
	expect_time(true);
	/* An older one tells of nothing later. */
	OTHER_DO(ask_written(6, 0), 0);
	expect_time(true);
	/* This one was lost. */
	OTHER_DO(ask_written(8, 0), 0);
	expect_time(false);
	OTHER_DO(ask_written(0, 0), 0);
	expect_time(false);
	/* It was another session that told. */
	FILE_DO(ask_file_open(file, 3), 0);
	FILE_DO(ask_written(7, 0), 0);
	expect_time(false);
	/* The manager does not know any more what had come. */
	restart();
	reclaim_nothing();
	OTHER_DO(ask_file_open(file, 4), 0);
	OTHER_DO(ask_written(7, 0), 0);
	expect_time(false);
}

/* ---- Who answers nothing */

#define NR_FILES 20U

static uint64_t files[NR_FILES];

/* The client has to wait for somebody. Meanwhile the manager finds out who does not answer at all. */
static bool has_waited(Afar__Request *request)
{
	Afar__Reply *reply;
	bool has;

	file_send(&client, request, &reply);
	has = !reply;
	for (unsigned i = 0; i < 2 && !reply; i++)
		fixture_advance(&fixture, DELEGATION_KEPT_MS / 2);
	expect_result(&reply, 0);
	return has;
}

/* Another one has the first half open to read, and keeps pages, and the others to write. It knows the directory. */
static void use_elsewhere(void)
{
	char name[8];

	for (unsigned i = 0; i < NR_FILES; i++) {
		snprintf(name, sizeof(name), "%u", i);
		files[i] = must_make(ROOT, name, S_IFREG | 0644);
		OTHER_DO(i < NR_FILES / 2 ? ask_keep(files[i], i + 1)
					  : ask_file_open(files[i], i + 1),
			 0);
	}
	OTHER_DO(ask_delegated(ROOT), 0);
	fixture.nr_revokes = 0;
}

static unsigned count_waits(void)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < NR_FILES / 2; i++)
		nr += has_waited(ask_file_open(files[i], i + 1));
	for (unsigned i = NR_FILES / 2; i < NR_FILES; i++) {
		Afar__Request *request = ask_stat(files[i]);

		request->files_look->operations[0]->stat->asks_writers = true;
		nr += has_waited(request);
		nr += has_waited(ask_keep(files[i], i + 1));
	}
	return nr + has_waited(ask_make(ROOT, "new", S_IFREG | 0644, 0, 0));
}

static bool is_delegated_elsewhere(uint64_t ino)
{
	Afar__Reply *reply = must(&other, ask_delegated(ino));
	bool is = reply->file_results->results[0]->is_delegated;

	drop(reply);
	return is;
}

/* Whatever others do, they wait for it once. When it answers again, it drops what it has missed. */
static void test_silent_one_is_awaited_once(void **state)
{
	(void)state;
	use_elsewhere();
	fixture.are_clients_silent = true;
	assert_int_equal(count_waits(), 1);
	/* It asks, and may answer nothing from memory. */
	assert_false(is_delegated_elsewhere(second));
	fixture.are_clients_silent = false;
	fixture_pump(&fixture);
	assert_int_equal(fixture.nr_probes, 1);
	assert_int_equal(fixture.nr_revokes,
			 NR_FILES / 2 + 1); /* pages of each; the first once more */
	fixture_advance(&fixture, 1);
	assert_true(is_delegated_elsewhere(second));
	/* It is asked as ever. */
	FILE_DO(ask_file_close(1), 0);
	OTHER_DO(ask_keep(files[0], 99), 0);
	assert_false(has_waited(ask_file_open(files[0], 99)));
	assert_int_equal(fixture.nr_revokes, NR_FILES / 2 + 2);
}

/* Nobody asks anything between. */
static void test_silent_one_comes_back(void **state)
{
	(void)state;
	use_elsewhere();
	fixture.silent_peer = other.peer;
	assert_int_equal(count_waits(), 1);
	assert_int_equal(client_resume(&fixture, &other), 0);
	assert_false(is_delegated_elsewhere(second));
	assert_int_equal(fixture.nr_revokes, NR_FILES / 2); /* the first once more */
	assert_true(is_delegated_elsewhere(second));
	fixture.silent_peer = NULL;
	fixture_pump(&fixture);
}

/* It is not connected. */
static void test_one_that_is_away_is_awaited_once(void **state)
{
	(void)state;
	use_elsewhere();
	fixture.core->lease_ns *= 100;
	client_lose(&fixture, &other);
	fixture.core->lease_ns /= 100;
	assert_int_equal(count_waits(), 1);
	assert_int_equal(client_resume(&fixture, &other), 0);
	assert_false(is_delegated_elsewhere(second));
	assert_true(is_delegated_elsewhere(second));
}

/* Its connection ends while it is probed. */
static void test_a_lost_connection_is_no_answer(void **state)
{
	(void)state;
	use_elsewhere();
	fixture.silent_peer = other.peer;
	assert_true(has_waited(ask_file_open(files[0], 1)));
	fixture.core->lease_ns *= 100;
	client_lose(&fixture, &other);
	fixture.core->lease_ns /= 100;
	fixture.silent_peer = NULL;
	assert_false(has_waited(ask_file_open(files[1], 2)));
	assert_int_equal(client_resume(&fixture, &other), 0);
	assert_false(is_delegated_elsewhere(second));
	assert_true(is_delegated_elsewhere(second));
}

/* Dropping pages of one file may take long. Others are dropped meanwhile, before anybody writes them. */
static void test_slow_one_is_not_silent(void **state)
{
	(void)state;
	use_elsewhere();
	fixture.silent_ino = files[0];
	assert_true(has_waited(ask_file_open(files[0], 1)));
	assert_int_equal(fixture.nr_probes, 1);
	for (unsigned i = 1; i < NR_FILES / 2; i++) {
		assert_false(has_waited(ask_file_open(files[i], i + 1)));
		assert_int_equal(fixture.nr_revokes, i);
	}
	fixture.silent_ino = 0;
	fixture_pump(&fixture);
}

TEST_GROUP(manager_drops)
{
	const struct CMUnitTest tests[] = {
		DROPS_TEST(test_opening_is_asked_once_more),
		DROPS_TEST(test_refused_openings_ask_nobody),
		DROPS_TEST(test_refused_changes_ask_nobody),
		DROPS_TEST(test_a_message_for_a_batch),
		DROPS_TEST(test_who_answers_one_kind_owes_the_other),
		DROPS_TEST(test_dropped_before_it_is_given_up),
		DROPS_TEST(test_given_up_anew),
		DROPS_TEST(test_set_times_stay_when_writers_close),
		DROPS_TEST(test_silent_one_is_awaited_once),
		DROPS_TEST(test_silent_one_comes_back),
		DROPS_TEST(test_one_that_is_away_is_awaited_once),
		DROPS_TEST(test_a_lost_connection_is_no_answer),
		DROPS_TEST(test_slow_one_is_not_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
