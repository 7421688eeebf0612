/* SPDX-License-Identifier: BSD-3-Clause */
/* Files as the manager keeps them: names, room, who holds what, and the manager's end. */
#include "lib/manager/manager_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/manager/manager_beside.h"
#include "manager/regions/volumes.h"
#include "rpc/capability.h"
#include "unit/group.h"

/* ---- Names */

static void test_names(void **state)
{
	Afar__FileAttributes attributes;
	uint64_t dir = must_make(ROOT, "dir", S_IFDIR | 0755);
	uint64_t file = must_make(dir, "file", S_IFREG | 0644);
	char name[300];

	(void)state;
	FILE_DO(ask_make(dir, "file", S_IFREG | 0644, 0, 0), -EEXIST);
	FILE_DO(ask_make(file, "x", S_IFREG | 0644, 0, 0), -ENOTDIR);
	FILE_DO(ask_make(dir, "a/b", S_IFREG | 0644, 0, 0), -EINVAL);
	FILE_DO(ask_make(dir, "", S_IFREG | 0644, 0, 0), -ENOENT);
	FILE_DO(ask_make(dir, "..", S_IFDIR | 0755, 0, 0), -EEXIST);
	memset(name, 'n', sizeof(name));
	name[256] = '\0';
	FILE_DO(ask_make(dir, name, S_IFREG | 0644, 0, 0), -ENAMETOOLONG);
	name[255] = '\0';
	FILE_DO(ask_make(dir, name, S_IFREG | 0644, 0, 0), 0);
	FILE_DO(ask_remove(dir, name, false), 0);
	FILE_DO(ask_remove(ROOT, "dir", true), -ENOTEMPTY);
	FILE_DO(ask_remove(ROOT, "dir", false), -EISDIR);
	FILE_DO(ask_link(file, ROOT, "link"), 0);
	assert_int_equal(file_do(&client, ask_stat(file), &attributes), 0);
	assert_int_equal(attributes.nlink, 2);
	FILE_DO(ask_rename(ROOT, "link", dir, "file", 0), 0); /* the same file: both stay */
	FILE_DO(ask_walk("/dir/file", true), 0);
	FILE_DO(ask_walk("/link", true), 0);
	FILE_DO(ask_walk("/dir/file/", true), -ENOTDIR);
	FILE_DO(ask_walk("/dir/../dir/./file", true), 0);
	FILE_DO(ask_rename(ROOT, "dir", dir, "below", 0), -EINVAL);
	check_files();
	FILE_DO(ask_remove(dir, "file", false), 0);
	FILE_DO(ask_remove(ROOT, "link", false), 0);
	FILE_DO(ask_stat(file), -ESTALE);
	FILE_DO(ask_remove(ROOT, "dir", true), 0);
	/* Somebody may still work in it. */
	FILE_DO(ask_make(dir, "new", S_IFREG | 0644, 0, 0), -ENOENT);
	FILE_DO(ask_remove(dir, "file", false), -ENOENT);
	FILE_DO(ask_stat(dir), -ESTALE);
}

static void test_directories_change_places(void **state)
{
	uint64_t a = must_make(ROOT, "a", S_IFDIR | 0755), b = must_make(a, "b", S_IFDIR | 0755);
	Afar__FileAttributes attributes;

	(void)state;
	must_make(ROOT, "f", S_IFREG | 0644);
	FILE_DO(ask_rename(a, "b", ROOT, "f", 2), 0);
	assert_int_equal(file_do(&client, ask_walk("/f", true), &attributes), 0);
	assert_int_equal(attributes.ino, b);
	FILE_DO(ask_rename(ROOT, "a", b, "a", 2), -ENOENT);
	FILE_DO(ask_rename(ROOT, "a", b, "a", 0), 0);
	FILE_DO(ask_walk("/f/a/b", true), 0);
	FILE_DO(ask_rename(ROOT, "f", a, "c", 0), -EINVAL);
	FILE_DO(ask_rename(b, "a", ROOT, "f", 1), -EEXIST);
}

static void test_symbolic_links(void **state)
{
	Afar__Request *request;

	(void)state;
	must_make(must_make(ROOT, "d", S_IFDIR | 0755), "f", S_IFREG | 0644);
	request = ask_make(ROOT, "l", S_IFLNK, 0, 0);
	change_of(request)->make->target = strdup("d/../d");
	FILE_DO(request, 0);
	FILE_DO(ask_walk("/l/f", true), 0);
	request = ask_make(ROOT, "loop", S_IFLNK, 0, 0);
	change_of(request)->make->target = strdup("loop");
	FILE_DO(request, 0);
	FILE_DO(ask_walk("/loop", true), -ELOOP);
	FILE_DO(ask_walk("/loop", false), 0);
}

/* ---- Who asks */

static void test_nobody_is_believed_to_be_another(void **state)
{
	struct fake_client user, nobody;

	(void)state;
	EXPECT(&client, ask_user_key("user", 1000, 100), 0);
	EXPECT(&client, ask_key_add("nobody", false), 0);
	EXPECT(&client, ask_grant(fs_number, "user", RIGHT_ALL), 0);
	EXPECT(&client, ask_grant(fs_number, "nobody", RIGHT_ALL), 0);
	client_open_as(&fixture, &user, "user");
	client_open_as(&fixture, &nobody, "nobody");
	EXPECT(&user, ask_as(ask_walk("/", true), 1000, 100, 0), 0);
	EXPECT(&user, ask_as(ask_walk("/", true), 1000, 100, 100), 0);
	EXPECT(&user, ask_as(ask_walk("/", true), 1001, 100, 0), -EACCES);
	EXPECT(&user, ask_as(ask_walk("/", true), 0, 0, 0), -EACCES);
	EXPECT(&user, ask_walk("/", true), -EACCES); /* says nothing: uid 0 */
	EXPECT(&user, ask_as(ask_walk("/", true), 1000, 101, 0), -EACCES);
	EXPECT(&user, ask_as(ask_walk("/", true), 1000, 100, 101), -EACCES);
	EXPECT(&user, ask_as(ask_make(ROOT, "f", S_IFREG | 0644, 0, 0), 0, 0, 0), -EACCES);
	EXPECT(&nobody, ask_as(ask_walk("/", true), 1000, 100, 0), -EACCES);
	EXPECT(&nobody, ask_as(ask_walk("/", true), 65534, 65534, 0), -EACCES);
	/* The root directory is uid 0's, 0755. */
	assert_int_equal(file_do(&user,
				 ask_as(ask_make(ROOT, "f", S_IFREG | 0644, 0, 0), 1000, 100, 0),
				 NULL),
			 -EACCES);
	client_lose(&fixture, &user);
	client_lose(&fixture, &nobody);
	EXPECT(&client, ask_key_revoke("user"), 0);
	EXPECT(&client, ask_key_revoke("nobody"), 0);
}

/* ---- Room */

static uint64_t free_units(void)
{
	const struct fs *fs = fs_of();

	/* The pool's growth counts when it is looked at next. */
	return (fs->space.free_bytes + volume_region(ns_of(fs_number))->length - fs->space.length) /
	       FILE_UNIT;
}

static void expect_allocated(uint64_t ino, uint64_t bytes)
{
	Afar__FileAttributes attributes;

	assert_int_equal(file_do(&client, ask_stat(ino), &attributes), 0);
	assert_int_equal(attributes.allocated, bytes);
}

static void test_room_comes_back_zeroed(void **state)
{
	uint64_t all = POOL_BYTES / FILE_UNIT;
	Afar__FileAttributes attributes;

	(void)state;
	assert_int_equal(file_do(&client, ask_make(ROOT, "f", S_IFREG | 0644, 7, 100 * FILE_UNIT),
				 &attributes),
			 0);
	/* It is told of what was asked for later, or written. */
	assert_int_equal(attributes.allocated, 0);
	assert_int_equal(free_units(), all - 100);
	FILE_DO(ask_extend(attributes.ino, 0, 10 * FILE_UNIT), 0);
	expect_allocated(attributes.ino, 10 * FILE_UNIT);
	FILE_DO(ask_end(attributes.ino, 20 * FILE_UNIT, attributes.layout), 0);
	expect_allocated(attributes.ino, 20 * FILE_UNIT);
	fixture.servers[0].refuse_to_zero = -EIO;
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	assert_int_equal(free_units(), all - 100); /* it is open */
	FILE_DO(ask_file_close(7), 0);
	assert_int_equal(free_units(), all - 100); /* a server has not zeroed it */
	assert_int_equal(fs_of()->pending_bytes, 100 * FILE_UNIT);
	check_files();
	fixture.servers[0].refuse_to_zero = 0;
	fixture_advance(&fixture, 2000);
	assert_int_equal(free_units(), all);
	assert_true(fixture.servers[0].nr_zeroed > 1 && fixture.servers[1].nr_zeroed > 0);
}

/* Room that is free in older records may have others' bytes. It is given to nobody before it is zeroed, and the pool grows into
 * nothing that was reserved before. */
static void test_older_free_room_is_zeroed(void **state)
{
	uint64_t all = POOL_BYTES / FILE_UNIT;
	unsigned nr_zeroed;

	(void)state;
	FILE_DO(ask_make(ROOT, "g", S_IFREG | 0644, 0, 100 * FILE_UNIT), 0);
	EXPECT(&client, ask_reserve(fs_number, POOL_BYTES), 0);
	assert_int_equal(ns_of(fs_number)->reserved_bytes, 2 * POOL_BYTES);
	nr_zeroed = fixture.servers[0].nr_zeroed;
	ns_of(fs_number)->is_suspect = true;
	fixture.servers[0].refuse_to_zero = -EIO;
	fixture.store.fail_at = 1;
	EXPECT(&client, ask_accept_namespace("f"), -ENOSPC);
	assert_int_equal(free_units(), all - 100);
	assert_true(ns_of(fs_number)->is_suspect);
	fixture_advance(&fixture, 2000);
	EXPECT(&client, ask_accept_namespace("f"), 0);
	assert_int_equal(ns_of(fs_number)->reserved_bytes, POOL_BYTES);
	assert_int_equal(free_units(), 0);
	assert_int_equal(fs_of()->pending_bytes, (all - 100) * FILE_UNIT);
	check_files();
	fixture.servers[0].refuse_to_zero = 0;
	fixture_advance(&fixture, 2000);
	assert_int_equal(free_units(), all - 100);
	assert_true(fixture.servers[0].nr_zeroed > nr_zeroed);
}

static void test_full(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);

	(void)state;
	FILE_DO(ask_extend(file, 0, 4096), -EBADF);
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_extend(file, 0, POOL_BYTES + 1), -ENOSPC);
	assert_int_equal(free_units(), POOL_BYTES / FILE_UNIT);
	FILE_DO(ask_extend(file, 8192, POOL_BYTES), 0);
	assert_int_equal(free_units(), 0);
	FILE_DO(ask_extend(file, 0, 1), -ENOSPC);
	EXPECT(&client, ask_reserve(fs_number, POOL_BYTES), 0);
	EXPECT(&client, ask_resize(fs_number, 2 * POOL_BYTES), 0);
	FILE_DO(ask_extend(file, 0, 1), 0);
	EXPECT(&client, ask_resize(fs_number, POOL_BYTES), -EINVAL);
}

static Afar__Request *ask_unprepare(uint64_t ino)
{
	Afar__Request *request = ask_punch(ino, 0, FILE_UNIT);

	change_of(request)->punch->is_spare = true;
	return request;
}

static void test_what_came_with_the_making_goes_if_nobody_has_used_it(void **state)
{
	uint64_t all = POOL_BYTES / FILE_UNIT, file;
	Afar__FileAttributes attributes;

	(void)state;
	assert_int_equal(
		file_do(&client, ask_make(ROOT, "f", S_IFREG | 0644, 1, FILE_UNIT), &attributes),
		0);
	FILE_DO(ask_unprepare(attributes.ino), 0);
	assert_int_equal(free_units(), all);

	/* Another session opens it, and writes: that is not taken away again. */
	assert_int_equal(
		file_do(&client, ask_make(ROOT, "g", S_IFREG | 0644, 2, FILE_UNIT), &attributes),
		0);
	file = attributes.ino;
	assert_int_equal(file_do(&other, ask_file_open(file, 1), &attributes), 0);
	OTHER_DO(ask_end(file, 100, attributes.layout), 0);
	FILE_DO(ask_unprepare(file), 0);
	assert_int_equal(free_units(), all - 1);
	expect_size(file, 100);
	expect_allocated(file, FILE_UNIT);

	/* Nor is what another one has asked room for. */
	assert_int_equal(
		file_do(&client, ask_make(ROOT, "h", S_IFREG | 0644, 3, FILE_UNIT), &attributes),
		0);
	file = attributes.ino;
	OTHER_DO(ask_file_open(file, 2), 0);
	OTHER_DO(ask_extend(file, 0, 1), 0);
	FILE_DO(ask_unprepare(file), 0);
	expect_allocated(file, FILE_UNIT);
	check_files();
}

/* A sync, or a close, tells where the file ended before it was made shorter. */
static void test_an_end_that_comes_late(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);

	(void)state;
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_extend(file, 0, 9000), 0);
	FILE_DO(ask_sync_close(file, 9000, 0), 0);
	FILE_DO(ask_size(file, 100), 0);
	FILE_DO(ask_sync_close(file, 9000, 1), 0);
	expect_size(file, 100);
}

/* Somebody from before a restart has not told what he has open. A change that waits for that in vain changes
 * nothing. */
static void test_changes_that_wait_for_claims_in_vain(void **state)
{
	Afar__Reply *removed = NULL, *opened = NULL;
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);

	(void)state;
	restart();
	FILE_DO(ask_reclaim(0, 0, 0), 0);
	fixture.time_ns = 1000000000;
	fixture_send(&fixture, &client, client.next_id++, ask_remove(ROOT, "f", false), &removed);
	fixture_send(&fixture, &client, client.next_id++, ask_file_open(file, 1), &opened);
	fixture_pump(&fixture);
	assert_true(!removed && !opened);
	fixture_advance(&fixture, 800);
	expect_answer(removed, -EBUSY, "not told yet");
	expect_answer(opened, -EBUSY, "not told yet");
	fixture.time_ns = 0;
	OTHER_DO(ask_reclaim(0, 0, 0), 0);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
}

/* A file of the other's, who has it open as 1 and has asked for all of its room. */
static uint64_t make_elsewhere(uint64_t bytes)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);

	OTHER_DO(ask_file_open(file, 1), 0);
	OTHER_DO(ask_extend(file, 0, bytes), 0);
	FILE_DO(ask_size(file, bytes), 0);
	return file;
}

static void test_another_session_is_not_hurt(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);
	Afar__FileAttributes attributes;

	(void)state;
	OTHER_DO(ask_file_open(file, 1), 0);
	assert_int_equal(file_do(&other, ask_extend(file, 0, 9000), &attributes), 0);
	OTHER_DO(ask_end(file, 9000, attributes.layout), 0);
	expect_size(file, 9000);
	FILE_DO(ask_size(file, 10000), 0);
	assert_int_equal(fixture.nr_recalls, 0);
	FILE_DO(ask_size(file, 100), 0);
	assert_int_equal(fixture.nr_recalls, 1);
	/* It tells too late of what it wrote before. */
	OTHER_DO(ask_end(file, 9000, attributes.layout), -ESTALE);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	FILE_DO(ask_stat(file), 0); /* it is open there */
	client_lose(&fixture, &other);
	fixture_advance(&fixture, 10000); /* its lease is over, and servers have answered */
	FILE_DO(ask_stat(file), -ESTALE);
	assert_int_equal(fs_of()->nr_inodes, 1);
}

/* It is asked, and does not answer: it goes on meanwhile, others who ask where the bytes are wait, and the change fails. */
static void test_a_session_that_is_stopped(void **state)
{
	uint64_t file = make_elsewhere(9000);
	Afar__Reply *shorter = NULL, *where = NULL;

	(void)state;
	fixture.are_clients_silent = true;
	fixture.time_ns = 4000000000U;
	file_send(&client, ask_size(file, 100), &shorter);
	file_send(&client, ask_map(file), &where);
	OTHER_DO(ask_map(file), 0);
	OTHER_DO(ask_extend(file, 0, 20000), 0);
	assert_null(shorter);
	assert_null(where);
	fixture_advance(&fixture, 3500);
	assert_non_null(shorter);
	assert_int_equal(shorter->file_results->results[0]->status, -EBUSY);
	assert_non_null(where);
	assert_true(where->file_results->results[0]->n_runs >= 3);
	drop(shorter);
	drop(where);
	fixture.are_clients_silent = false;
	fixture.time_ns = 0;
	fixture_pump(&fixture);
	FILE_DO(ask_size(file, 100), 0);
	OTHER_DO(ask_file_close(1), 0);
}

/* Both are asked to give the file up for the other: neither waits for ever. */
static void test_two_make_it_shorter(void **state)
{
	uint64_t file = make_elsewhere(90000);
	Afar__Reply *one = NULL, *two = NULL;

	(void)state;
	FILE_DO(ask_file_open(file, 2), 0);
	fixture.are_clients_silent = true;
	fixture.time_ns = 4000000000U;
	file_send(&client, ask_size(file, 100), &one);
	assert_null(one);
	file_send(&other, ask_size(file, 50), &two);
	fixture.are_clients_silent = false;
	fixture_pump(&fixture);
	assert_non_null(one);
	assert_non_null(two);
	assert_int_equal(one->file_results->results[0]->status, 0);
	assert_int_equal(two->file_results->results[0]->status, 0);
	assert_int_equal(two->file_results->results[0]->attributes->size, 50);
	drop(one);
	drop(two);
	fixture.time_ns = 0;
}

/* The call that makes it shorter has no time limit. It waits for others for 10 s all the same, and
 * then fails. */
static void test_a_recall_ends(void **state)
{
	uint64_t file = make_elsewhere(9000);
	Afar__Reply *shorter = NULL;

	(void)state;
	fixture.are_clients_silent = true;
	file_send(&client, ask_size(file, 100), &shorter);
	fixture_advance(&fixture, 9000);
	assert_null(shorter);
	fixture_advance(&fixture, 1100);
	expect_result(&shorter, -EBUSY);
	fixture.are_clients_silent = false;
	fixture_pump(&fixture);
}

/* A session has again what it gave up for one change when it has asked where the bytes are. The next
 * change must not count on the first answer, also if it is a shrink only in the middle of its call. */
static void test_given_up_once(void **state)
{
	uint64_t file = make_elsewhere(90000);
	Afar__Request *both;
	Afar__Reply *reply;

	(void)state;
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_size(file, 50), 0);
	assert_int_equal(fixture.nr_recalls, 1);
	OTHER_DO(ask_extend(file, 0, 90000), 0);
	both = ask_size(file, 90000);
	add_operations(both, ask_size(file, 50));
	reply = must(&client, both);
	assert_int_equal(reply->file_results->results[0]->status, 0);
	assert_int_equal(reply->file_results->results[1]->status, -EBUSY);
	drop(reply);
	check_files();
}

/* The session that makes it shorter zeroes what is left behind the end, while others have given the
 * file up. */
static void test_given_up_until_its_end_is_zeroed(void **state)
{
	uint64_t file = make_elsewhere(9000);
	Afar__Request *first = ask_size(file, 100), *late = ask_size(file, 100);
	Afar__Request *second = ask_size(file, 100);
	Afar__Reply *where = NULL;

	(void)state;
	FILE_DO(ask_file_open(file, 1), 0);
	/* Nobody was asked before. */
	change_of(late)->set->is_given_up = true;
	FILE_DO(late, -EAGAIN);
	fixture.nr_recalls = 0;
	change_of(first)->set->only_asks = true;
	FILE_DO(first, 0);
	assert_int_equal(fixture.nr_recalls, 1);
	file_send(&other, ask_map(file), &where);
	assert_null(where);
	FILE_DO(ask_map(file), 0);
	expect_size(file, 9000);
	change_of(second)->set->is_given_up = true;
	FILE_DO(second, 0);
	fixture_pump(&fixture);
	assert_non_null(where);
	assert_int_equal(where->file_results->results[0]->attributes->size, 100);
	drop(where);
	assert_int_equal(fixture.nr_recalls, 1);
}

/* It took too long: others have gone on. */
static void test_given_up_for_ten_seconds(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);
	Afar__Request *first = ask_size(file, 100), *second = ask_size(file, 100);
	Afar__Reply *where = NULL;

	(void)state;
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_extend(file, 0, 9000), 0);
	FILE_DO(ask_size(file, 9000), 0);
	change_of(first)->set->only_asks = true;
	FILE_DO(first, 0);
	/* Nobody had it open; who opens it now waits as well. */
	file_send(&other, ask_file_open(file, 1), &where);
	assert_null(where);
	fixture_advance(&fixture, 9000);
	assert_null(where);
	fixture_advance(&fixture, 1100);
	expect_result(&where, 0);
	change_of(second)->set->is_given_up = true;
	FILE_DO(second, -EAGAIN);
	FILE_DO(ask_size(file, 100), 0);
}

static void test_who_may_tell_and_check(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);
	Afar__Request *reading = ask_file_open(file, 2);
	struct fake_client user;

	(void)state;
	OTHER_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_end(file, 1U << 30, 0), -EBADF);
	hold_of(reading)->open->access = R_OK;
	FILE_DO(reading, 0);
	FILE_DO(ask_end(file, 1U << 30, 0), -EBADF);
	FILE_DO(ask_file_close(2), 0);
	EXPECT(&client, ask_user_key("user", 1000, 100), 0);
	EXPECT(&client, ask_grant(fs_number, "user", RIGHT_ALL), 0);
	client_open_as(&fixture, &user, "user");
	EXPECT(&user, ask_check(), -EACCES);
	client_lose(&fixture, &user);
	EXPECT(&client, ask_key_revoke("user"), 0);
}

/* ---- Files without a name */

static Afar__Request *ask_nameless(uint64_t dir, uint64_t handle, bool is_linkable)
{
	Afar__Request *request = ask_make(dir, "", S_IFREG | 0644, handle, 0);

	change_of(request)->make->is_nameless = true;
	change_of(request)->make->is_linkable = is_linkable;
	return request;
}

static void test_made_without_a_name(void **state)
{
	uint64_t dir = must_make(ROOT, "dir", S_IFDIR | 0755);
	Afar__FileAttributes attributes;
	uint64_t file;

	(void)state;
	FILE_DO(ask_nameless(dir, 0, true), -EINVAL);
	assert_int_equal(file_do(&client, ask_nameless(dir, 1, true), &attributes), 0);
	file = attributes.ino;
	assert_int_equal(attributes.nlink, 0);
	check_files();
	/* It goes when it is closed. */
	FILE_DO(ask_file_close(1), 0);
	FILE_DO(ask_stat(file), -ESTALE);
	/* Or gets a name, once. */
	assert_int_equal(file_do(&client, ask_nameless(dir, 2, true), &attributes), 0);
	file = attributes.ino;
	FILE_DO(ask_link(file, dir, "f"), 0);
	FILE_DO(ask_link(file, dir, "g"), 0);
	check_files();
	FILE_DO(ask_file_close(2), 0);
	assert_int_equal(file_do(&client, ask_stat(file), &attributes), 0);
	assert_int_equal(attributes.nlink, 2);
	FILE_DO(ask_remove(dir, "f", false), 0);
	FILE_DO(ask_file_open(file, 3), 0);
	FILE_DO(ask_remove(dir, "g", false), 0);
	FILE_DO(ask_link(file, dir, "f"), -ENOENT);
	FILE_DO(ask_file_close(3), 0);
	assert_int_equal(file_do(&client, ask_nameless(dir, 4, false), &attributes), 0);
	FILE_DO(ask_link(attributes.ino, dir, "f"), -ENOENT);
	FILE_DO(ask_file_close(4), 0);
	FILE_DO(ask_remove(ROOT, "dir", true), 0);
	FILE_DO(ask_nameless(dir, 5, true), -ENOENT);
	check_files();
}

/* ---- Extended attributes */

static Afar__Request *ask_xattr_of(uint64_t ino, const char *name, size_t length)
{
	Afar__Request *request = ask_xattr(ino, name, "");
	ProtobufCBinaryData *value = &change_of(request)->set_xattr->value;

	free(value->data);
	value->data = calloc(1, length + 1);
	value->len = length;
	return request;
}

/* A file has as many as can be listed, and of values as many bytes as before names were counted. */
static void test_many_extended_attributes(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644),
		 large = must_make(ROOT, "g", S_IFREG | 0644);
	Afar__FileAttributes attributes;
	char name[256];

	(void)state;
	for (unsigned i = 0; i < 65536 / 16; i++) {
		snprintf(name, sizeof(name), "user.%010u", i);
		FILE_DO(ask_xattr(file, name, "value"), 0);
	}
	FILE_DO(ask_xattr(file, "user.another", "value"), -ENOSPC);
	FILE_DO(ask_xattr(file, name, "another value"), 0);
	FILE_DO(ask_no_xattr(file, name), 0);
	FILE_DO(ask_xattr(file, "user.another", "value"), 0);
	FILE_DO(ask_xattr(file, "user.b", "value"), -ENOSPC);
	assert_int_equal(file_do(&client, ask_stat(file), &attributes), 0);
	assert_false(attributes.has_no_xattrs);
	for (unsigned i = 0; i < 256; i++) {
		snprintf(name, sizeof(name), "user.%u", i);
		FILE_DO(ask_xattr_of(large, name, 65536), 0);
	}
	FILE_DO(ask_xattr_of(large, "user.another", 1), -ENOSPC);
	FILE_DO(ask_no_xattr(large, "user.0"), 0);
	FILE_DO(ask_xattr_of(large, "user.0", 65536), 0);
	FILE_DO(ask_xattr_of(large, "user.another", 0), 0);
	FILE_DO(ask_xattr_of(large, "user.7", 65535), 0);
	FILE_DO(ask_xattr_of(large, "user.another", 1), 0);
	for (unsigned i = 0; i < 256; i++) {
		snprintf(name, sizeof(name), "user.%u", i);
		FILE_DO(ask_no_xattr(large, name), 0);
	}
	FILE_DO(ask_no_xattr(large, "user.another"), 0);
	assert_int_equal(file_do(&client, ask_stat(large), &attributes), 0);
	assert_true(attributes.has_no_xattrs);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
}

/* ---- Appending */

static void test_one_appends_at_a_time(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);
	Afar__Reply *waiting = NULL;

	(void)state;
	FILE_DO(ask_append(file), -EBADF);
	FILE_DO(ask_file_open(file, 1), 0);
	OTHER_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_append(file), 0);
	FILE_DO(ask_append(file), 0); /* it came again */
	file_send(&other, ask_append(file), &waiting);
	assert_null(waiting);
	FILE_DO(ask_end(file, 500, 0), 0);
	assert_null(waiting);
	FILE_DO(ask_appended(file), 0);
	assert_non_null(waiting);
	assert_int_equal(waiting->file_results->results[0]->status, 0);
	assert_int_equal(waiting->file_results->results[0]->attributes->size, 500);
	drop(waiting);
	waiting = NULL;
	/* A session that says that more follows keeps it, and goes on at once; for 100 ms. */
	OTHER_DO(ask_append(file), 0);
	OTHER_DO(ask_appended_more(file), 0);
	file_send(&client, ask_append(file), &waiting);
	assert_null(waiting);
	OTHER_DO(ask_append(file), 0);
	fixture_advance(&fixture, 200);
	assert_null(waiting);
	OTHER_DO(ask_appended_more(file), 0);
	fixture_advance(&fixture, 99);
	assert_null(waiting);
	fixture_advance(&fixture, 1);
	expect_result(&waiting, 0);
	OTHER_DO(ask_appended(file), 0); /* too late to matter */
	/* And for 500 ms in all, or those who always say so would keep others out. */
	FILE_DO(ask_appended_more(file), 0);
	file_send(&other, ask_append(file), &waiting);
	for (unsigned ms = 0; ms < 500; ms += 50) {
		assert_null(waiting);
		fixture_advance(&fixture, 50);
		FILE_DO(ask_append(file), 0);
		assert_null(waiting);
		FILE_DO(ask_appended_more(file), 0);
	}
	expect_result(&waiting, 0);
	OTHER_DO(ask_appended(file), 0);
	FILE_DO(ask_append(file), 0);
	FILE_DO(ask_appended_more(file), 0);
	fixture_advance(&fixture, 1000);
	FILE_DO(ask_append(file), 0);
	FILE_DO(ask_appended_more(file), 0);
	file_send(&other, ask_append(file), &waiting);
	assert_null(waiting);
	fixture_advance(&fixture, 100);
	expect_result(&waiting, 0);
	OTHER_DO(ask_appended(file), 0);
	FILE_DO(ask_append(file), 0);
	file_send(&other, ask_append(file), &waiting);
	assert_null(waiting);
	FILE_DO(ask_appended(file), 0);
	expect_result(&waiting, 0);
	/* It goes with the last handle, and with the session. */
	file_send(&client, ask_append(file), &waiting);
	assert_null(waiting);
	OTHER_DO(ask_file_close(1), 0);
	expect_result(&waiting, 0);
	OTHER_DO(ask_file_open(file, 2), 0);
	file_send(&other, ask_append(file), &waiting);
	client_lose(&fixture, &client);
	assert_null(waiting);
	fixture_advance(&fixture, 10000);
	expect_result(&waiting, 0);
	assert_int_equal(client_open(&fixture, &client), 0);
	open_pool(&client);
}

/* ---- Ends of the manager */

/* The last one to have it open, of those who have told, closes it: another one has still to tell. */
static void test_closed_before_all_have_claimed(void **state)
{
	Afar__FileAttributes attributes;
	uint64_t file;

	(void)state;
	assert_int_equal(file_do(&other, ask_make(ROOT, "f", S_IFREG | 0644, 5, 8192), &attributes),
			 0);
	file = attributes.ino;
	FILE_DO(ask_file_open(file, 6), 0);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	restart();
	FILE_DO(ask_reclaim(6, file, 0), 0);
	FILE_DO(ask_file_close(6), 0);
	OTHER_DO(ask_reclaim(5, file, 0), 0);
	FILE_DO(ask_stat(file), 0);
	OTHER_DO(ask_file_close(5), 0);
	FILE_DO(ask_stat(file), -ESTALE);
	check_files();
}

/* A writer ends without closing the file, which others have open: what it told outlives the manager. */
static void test_an_end_outlives_who_told_of_it(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);
	Afar__Request *reading = ask_file_open(file, 1);

	(void)state;
	hold_of(reading)->open->access = R_OK;
	FILE_DO(reading, 0);
	OTHER_DO(ask_file_open(file, 1), 0);
	OTHER_DO(ask_end(file, 500, 0), 0);
	client_lose(&fixture, &other);
	fixture_advance(&fixture, 10000);
	fixture_restart(&fixture);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(fixture_join(&fixture, i, fixture.servers[i].capacity), 0);
	assert_int_equal(client_resume(&fixture, &client), 0);
	FILE_DO(ask_reclaim(0, 0, 0), 0);
	expect_size(file, 500);
}

static void test_claims(void **state)
{
	Afar__FileAttributes attributes;
	Afar__Reply *waiting = NULL, *asking = NULL;
	uint64_t file;

	(void)state;
	assert_int_equal(file_do(&other, ask_make(ROOT, "f", S_IFREG | 0644, 5, 8192), &attributes),
			 0);
	file = attributes.ino;
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	restart();
	/* Nobody knows yet who holds what, and where it ends: changes and questions wait. */
	fixture_send(&fixture, &client, ++client.next_id, ask_make(ROOT, "g", S_IFREG, 0, 0),
		     &waiting);
	file_send(&client, ask_stat(file), &asking);
	assert_true(!waiting && !asking);
	FILE_DO(ask_reclaim(0, 0, 0), 0);
	assert_true(!waiting && !asking);
	OTHER_DO(ask_reclaim(5, file, 5000), 0);
	/* An end of another layout is one from before somebody made the file shorter. */
	OTHER_DO(ask_reclaim_of(5, file, 7000, 3), 0);
	fixture_pump(&fixture);
	expect_answer(waiting, 0, NULL);
	assert_int_equal(asking->file_results->results[0]->attributes->size, 5000);
	expect_answer(asking, 0, NULL);
	expect_size(file, 5000);
	OTHER_DO(ask_file_close(5), 0);
	FILE_DO(ask_stat(file), -ESTALE);
}

static Afar__Request *ask_commit(uint64_t ino, uint64_t end)
{
	Afar__Request *request = ask_sync_close(ino, end, 0);

	change_of(request)->sync->is_trimmed = false;
	return request;
}

/* A session that has it open to read may have it committed, and tell nothing of it. */
static void test_a_reader_commits_what_others_told(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);
	Afar__Request *reading = ask_file_open(file, 1);

	(void)state;
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_end(file, 500, 0), 0);
	OTHER_DO(ask_commit(file, 0), -EBADF);
	hold_of(reading)->open->access = R_OK;
	OTHER_DO(reading, 0);
	OTHER_DO(ask_commit(file, 600), -EBADF);
	OTHER_DO(ask_commit(file, 0), 0);
	restart();
	reclaim_nothing();
	expect_size(file, 500);
}

static void test_nobody_claims(void **state)
{
	Afar__FileAttributes attributes;
	Afar__Reply *asking = NULL;

	(void)state;
	assert_int_equal(file_do(&other, ask_make(ROOT, "f", S_IFREG | 0644, 5, 8192), &attributes),
			 0);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	restart();
	FILE_DO(ask_reclaim(0, 0, 0), 0);
	client_lose(&fixture, &other);
	fixture_advance(&fixture, 900); /* ours lives on */
	/* Questions wait for reclaims no longer than for servers. */
	file_send(&client, ask_stat(attributes.ino), &asking);
	assert_null(asking);
	fixture_advance(&fixture, 3000);
	expect_answer(asking, 0, NULL);
	fixture_advance(&fixture, 10000);
	FILE_DO(ask_stat(attributes.ino), -ESTALE);
}

static void test_what_comes_again_is_answered_again(void **state)
{
	Afar__Reply *first, *second = NULL;
	uint64_t id;

	(void)state;
	first = must(&client, ask_make(ROOT, "f", S_IFREG | 0644, 0, 0));
	id = client.next_id;
	send_again(&client, id, ask_make(ROOT, "f", S_IFREG | 0644, 0, 0), &second);
	fixture_pump(&fixture);
	assert_non_null(second);
	assert_int_equal(second->status, 0);
	assert_int_equal(second->file_results->results[0]->status, 0);
	assert_int_equal(second->file_results->results[0]->attributes->ino,
			 first->file_results->results[0]->attributes->ino);
	drop(first);
	drop(second);
}

TEST_GROUP(manager_files)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(test_names),
		FILES_TEST(test_directories_change_places),
		FILES_TEST(test_symbolic_links),
		FILES_TEST(test_nobody_is_believed_to_be_another),
		FILES_TEST(test_room_comes_back_zeroed),
		FILES_TEST(test_older_free_room_is_zeroed),
		FILES_TEST(test_full),
		FILES_TEST(test_what_came_with_the_making_goes_if_nobody_has_used_it),
		FILES_TEST(test_an_end_that_comes_late),
		FILES_TEST(test_changes_that_wait_for_claims_in_vain),
		FILES_TEST(test_another_session_is_not_hurt),
		FILES_TEST(test_a_session_that_is_stopped),
		FILES_TEST(test_two_make_it_shorter),
		FILES_TEST(test_a_recall_ends),
		FILES_TEST(test_given_up_once),
		FILES_TEST(test_given_up_until_its_end_is_zeroed),
		FILES_TEST(test_given_up_for_ten_seconds),
		FILES_TEST(test_who_may_tell_and_check),
		FILES_TEST(test_made_without_a_name),
		FILES_TEST(test_many_extended_attributes),
		FILES_TEST(test_one_appends_at_a_time),
		FILES_TEST(test_closed_before_all_have_claimed),
		FILES_TEST(test_an_end_outlives_who_told_of_it),
		FILES_TEST(test_claims),
		FILES_TEST(test_a_reader_commits_what_others_told),
		FILES_TEST(test_nobody_claims),
		FILES_TEST(test_what_comes_again_is_answered_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
