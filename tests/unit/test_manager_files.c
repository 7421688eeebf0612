/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files as the manager keeps them. After every step of the random test the records are compared with
 * each other (files/check.c): each unit of the pool is free, in one file, or being zeroed, and each
 * inode has the names that it says.
 */
#include "lib/manager_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <afar/afar.h>

#include "group.h"
#include "manager/files/table.h"
#include "manager/volumes.h"
#include "rpc/capability.h"

#define POOL_BYTES (4 * MIB)
#define ROOT	   1U

static struct fake_client client, other;
static uint64_t fs_number;

/* ---- Requests */

static Afar__Request *ask_fs(const char *name)
{
	Afar__Request *request = ask_volume(name);

	request->namespace_create->is_files = true;
	return request;
}

static Afar__Request *ask_fs_delete(const char *name)
{
	Afar__Request *request = ask_volume_delete(name);

	request->namespace_delete->is_files = true;
	return request;
}

static Afar__Request *new_request(Afar__Request__CallCase which)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);

	assert_non_null(request);
	request->call_case = which;
	return request;
}

static Afar__FileChange *change_of(Afar__Request *request)
{
	return request->files_change->operations[0];
}

/* A FilesChange of one operation, as uid 0. */
static Afar__Request *ask_change(Afar__FileChange__WhatCase what)
{
	Afar__Request *request = new_request(AFAR__REQUEST__CALL_FILES_CHANGE);

	request->files_change = MESSAGE_NEW(afar__files_change, Afar__FilesChange);
	request->files_change->fs = fs_number;
	request->files_change->operations = calloc(1, sizeof(Afar__FileChange *));
	request->files_change->operations[request->files_change->n_operations++] =
		MESSAGE_NEW(afar__file_change, Afar__FileChange);
	change_of(request)->what_case = what;
	return request;
}

static Afar__Request *ask_make(uint64_t dir, const char *name, uint32_t mode, uint64_t handle,
			       uint64_t bytes)
{
	Afar__Request *request = ask_change(AFAR__FILE_CHANGE__WHAT_MAKE);
	Afar__FileMake *make = MESSAGE_NEW(afar__file_make, Afar__FileMake);

	make->dir = dir;
	make->name = strdup(name);
	make->mode = mode;
	make->handle = handle;
	make->access = R_OK | W_OK;
	make->bytes = bytes;
	change_of(request)->make = make;
	return request;
}

static Afar__Request *ask_remove(uint64_t dir, const char *name, bool is_directory)
{
	Afar__Request *request = ask_change(AFAR__FILE_CHANGE__WHAT_REMOVE);
	Afar__FileRemove *remove = MESSAGE_NEW(afar__file_remove, Afar__FileRemove);

	remove->dir = dir;
	remove->name = strdup(name);
	remove->is_directory = is_directory;
	change_of(request)->remove = remove;
	return request;
}

static Afar__Request *ask_rename(uint64_t dir, const char *name, uint64_t new_dir,
				 const char *new_name, uint32_t flags)
{
	Afar__Request *request = ask_change(AFAR__FILE_CHANGE__WHAT_RENAME);
	Afar__FileRename *rename = MESSAGE_NEW(afar__file_rename, Afar__FileRename);

	rename->dir = dir;
	rename->name = strdup(name);
	rename->new_dir = new_dir;
	rename->new_name = strdup(new_name);
	rename->flags = flags;
	change_of(request)->rename = rename;
	return request;
}

static Afar__Request *ask_link(uint64_t ino, uint64_t dir, const char *name)
{
	Afar__Request *request = ask_change(AFAR__FILE_CHANGE__WHAT_LINK);
	Afar__FileLink *link = MESSAGE_NEW(afar__file_link, Afar__FileLink);

	link->ino = ino;
	link->dir = dir;
	link->name = strdup(name);
	change_of(request)->link = link;
	return request;
}

static Afar__Request *ask_size(uint64_t ino, uint64_t size)
{
	Afar__Request *request = ask_change(AFAR__FILE_CHANGE__WHAT_SET);
	Afar__FileSet *set = MESSAGE_NEW(afar__file_set, Afar__FileSet);

	set->ino = ino;
	set->mask = 8;
	set->size = size;
	change_of(request)->set = set;
	return request;
}

static Afar__Request *ask_extend(uint64_t ino, uint64_t offset, uint64_t length)
{
	Afar__Request *request = ask_change(AFAR__FILE_CHANGE__WHAT_EXTEND);
	Afar__FileExtend *extend = MESSAGE_NEW(afar__file_extend, Afar__FileExtend);

	extend->ino = ino;
	extend->offset = offset;
	extend->length = length;
	change_of(request)->extend = extend;
	return request;
}

static Afar__Request *ask_punch(uint64_t ino, uint64_t offset, uint64_t length)
{
	Afar__Request *request = ask_change(AFAR__FILE_CHANGE__WHAT_PUNCH);
	Afar__FilePunch *punch = MESSAGE_NEW(afar__file_punch, Afar__FilePunch);

	punch->ino = ino;
	punch->offset = offset;
	punch->length = length;
	change_of(request)->punch = punch;
	return request;
}

static Afar__Request *ask_sync_close(uint64_t ino, uint64_t end, uint64_t handle)
{
	Afar__Request *request = ask_change(AFAR__FILE_CHANGE__WHAT_SYNC);
	Afar__FileSync *sync = MESSAGE_NEW(afar__file_sync, Afar__FileSync);

	sync->ino = ino;
	sync->end = end;
	sync->close = handle;
	sync->is_trimmed = true;
	change_of(request)->sync = sync;
	return request;
}

static Afar__FileHold *hold_of(Afar__Request *request)
{
	return request->files_hold->operations[0];
}

static Afar__Request *ask_hold(Afar__FileHold__WhatCase what)
{
	Afar__Request *request = new_request(AFAR__REQUEST__CALL_FILES_HOLD);

	request->files_hold = MESSAGE_NEW(afar__files_hold, Afar__FilesHold);
	request->files_hold->fs = fs_number;
	request->files_hold->operations = calloc(1, sizeof(Afar__FileHold *));
	request->files_hold->operations[request->files_hold->n_operations++] =
		MESSAGE_NEW(afar__file_hold, Afar__FileHold);
	hold_of(request)->what_case = what;
	return request;
}

static Afar__Request *ask_file_open(uint64_t ino, uint64_t handle)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_OPEN);

	hold_of(request)->open = MESSAGE_NEW(afar__file_open, Afar__FileOpen);
	hold_of(request)->open->ino = ino;
	hold_of(request)->open->handle = handle;
	hold_of(request)->open->access = R_OK | W_OK;
	return request;
}

static Afar__Request *ask_end(uint64_t ino, uint64_t end, uint64_t layout)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_END);

	hold_of(request)->end = MESSAGE_NEW(afar__file_end, Afar__FileEnd);
	hold_of(request)->end->ino = ino;
	hold_of(request)->end->end = end;
	hold_of(request)->end->layout = layout;
	return request;
}

static Afar__Request *ask_file_close(uint64_t handle)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_CLOSE);

	hold_of(request)->close = MESSAGE_NEW(afar__file_close, Afar__FileClose);
	hold_of(request)->close->handle = handle;
	return request;
}

static Afar__FileLook *look_of(Afar__Request *request)
{
	return request->files_look->operations[0];
}

static Afar__Request *ask_file_look(Afar__FileLook__WhatCase what)
{
	Afar__Request *request = new_request(AFAR__REQUEST__CALL_FILES_LOOK);

	request->files_look = MESSAGE_NEW(afar__files_look, Afar__FilesLook);
	request->files_look->fs = fs_number;
	request->files_look->operations = calloc(1, sizeof(Afar__FileLook *));
	request->files_look->operations[request->files_look->n_operations++] =
		MESSAGE_NEW(afar__file_look, Afar__FileLook);
	look_of(request)->what_case = what;
	return request;
}

static Afar__Request *ask_stat(uint64_t ino)
{
	Afar__Request *request = ask_file_look(AFAR__FILE_LOOK__WHAT_STAT);

	look_of(request)->stat = MESSAGE_NEW(afar__file_stat, Afar__FileStat);
	look_of(request)->stat->ino = ino;
	return request;
}

static Afar__Request *ask_walk(const char *path, bool is_following)
{
	Afar__Request *request = ask_file_look(AFAR__FILE_LOOK__WHAT_WALK);

	look_of(request)->walk = MESSAGE_NEW(afar__file_walk, Afar__FileWalk);
	look_of(request)->walk->path = strdup(path);
	look_of(request)->walk->is_following = is_following;
	return request;
}

static Afar__Request *ask_check(void)
{
	Afar__Request *request = ask_file_look(AFAR__FILE_LOOK__WHAT_CHECK);

	look_of(request)->check = MESSAGE_NEW(afar__file_system_check, Afar__FileSystemCheck);
	return request;
}

/* ---- Asking */

/* Its one result's status. The call as a whole succeeds. `attributes` may be NULL. */
static int file_do(struct fake_client *who, Afar__Request *request,
		   Afar__FileAttributes *attributes)
{
	Afar__Reply *reply = fixture_ask(&fixture, who, request);
	int status = reply->status;

	if (status == 0) {
		const Afar__FileResult *result = reply->file_results->results[0];

		assert_int_equal(reply->file_results->n_results, 1);
		status = result->status;
		if (attributes != NULL && result->attributes != NULL)
			*attributes = *result->attributes;
	}
	drop(reply);
	return status;
}

#define FILE_DO(request, status_) assert_int_equal(file_do(&client, (request), NULL), (status_))

static uint64_t must_make(uint64_t dir, const char *name, uint32_t mode)
{
	Afar__FileAttributes attributes;

	assert_int_equal(file_do(&client, ask_make(dir, name, mode, 0, 0), &attributes), 0);
	return attributes.ino;
}

/* Nothing is wrong with what is stored. */
static void check_files(void)
{
	Afar__Reply *reply = must(&client, ask_check());
	const Afar__FileResult *result = reply->file_results->results[0];

	assert_int_equal(result->status, 0);
	if (result->data.len != 0)
		fail_msg("%s", (const char *)result->data.data);
	drop(reply);
}

static struct fs *fs_of(void)
{
	return files_find(fixture.core, fs_number);
}

/* ---- What each test begins and ends with */

static void open_pool(struct fake_client *who)
{
	EXPECT(who, ask_volume_open(fs_number, VOLUME_SHARED), 0);
}

static int begin(void **state)
{
	Afar__Reply *reply;
	Afar__RegionInfo *info;

	setup(state);
	client_open(&fixture, &client);
	client_open(&fixture, &other);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(fixture_join(&fixture, i, 64 * MIB), 0);
	fixture_advance(&fixture, 4000);
	fs_number = create_namespace(&fixture, &client, ask_fs("f"));
	EXPECT(&client, ask_reserve(fs_number, POOL_BYTES), 0);
	info = must_open(&client, ask_volume_alloc(fs_number, POOL_BYTES), &reply);
	EXPECT(&client, ask_finish(info), 0);
	EXPECT(&client, ask_close(info), 0);
	drop(reply);
	open_pool(&client);
	open_pool(&other);
	return 0;
}

static int end(void **state)
{
	fixture.store.is_broken = false;
	fixture.store.fail_at = 0;
	fixture_pump(&fixture);
	check_files();
	client_lose(&fixture, &client);
	client_lose(&fixture, &other);
	fixture_advance(&fixture, 10000);
	assert_int_equal(client_open(&fixture, &client), 0);
	EXPECT(&client, ask_fs_delete("f"), 0);
	fixture_advance(&fixture, 10000);
	EXPECT(&client, ask_session_close(), 0);
	fixture_advance(&fixture, 10000);
	check_empty(&fixture); /* of records of files, too */
	return teardown(state);
}

#define FILES_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

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

static Afar__Request *ask_as(Afar__Request *request, uint32_t uid, uint32_t gid, uint32_t group)
{
	Afar__FileWho *who = MESSAGE_NEW(afar__file_who, Afar__FileWho);

	who->uid = uid;
	who->gid = gid;
	if (group != 0) {
		who->groups = calloc(1, sizeof(uint32_t));
		who->groups[who->n_groups++] = group;
	}
	if (request->call_case == AFAR__REQUEST__CALL_FILES_LOOK)
		request->files_look->who = who;
	else
		request->files_change->who = who;
	return request;
}

static Afar__Request *ask_user_key(const char *name, uint32_t uid, uint32_t gid)
{
	Afar__Request *request = ask_key_add(name, false);

	request->key_add->has_uid = true;
	request->key_add->uid = uid;
	request->key_add->gids = calloc(1, sizeof(uint32_t));
	request->key_add->gids[request->key_add->n_gids++] = gid;
	return request;
}

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

	/* What it has grown by counts when it is looked at next. */
	return (fs->space.free_bytes + volume_region(ns_of(fs_number))->length - fs->space.length) /
	       FILE_UNIT;
}

static void test_room_comes_back_zeroed(void **state)
{
	uint64_t all = POOL_BYTES / FILE_UNIT;
	Afar__FileAttributes attributes;

	(void)state;
	assert_int_equal(file_do(&client, ask_make(ROOT, "f", S_IFREG | 0644, 7, 100 * FILE_UNIT),
				 &attributes),
			 0);
	assert_int_equal(attributes.allocated, 100 * FILE_UNIT);
	assert_int_equal(free_units(), all - 100);
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

static void test_another_session_is_not_hurt(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);
	Afar__FileAttributes attributes;

	(void)state;
	assert_int_equal(file_do(&other, ask_file_open(file, 1), NULL), 0);
	assert_int_equal(file_do(&other, ask_extend(file, 0, 9000), &attributes), 0);
	assert_int_equal(file_do(&other, ask_end(file, 9000, attributes.layout), NULL), 0);
	assert_int_equal(file_do(&client, ask_stat(file), &attributes), 0);
	assert_int_equal(attributes.size, 9000);
	FILE_DO(ask_size(file, 10000), 0);
	assert_int_equal(fixture.nr_recalls, 0);
	FILE_DO(ask_size(file, 100), 0);
	assert_int_equal(fixture.nr_recalls, 1);
	/* What it tells of what it wrote before is too late. */
	assert_int_equal(file_do(&other, ask_end(file, 9000, attributes.layout), NULL), -ESTALE);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	FILE_DO(ask_stat(file), 0); /* it is open there */
	client_lose(&fixture, &other);
	fixture_advance(&fixture, 10000); /* its lease is over, and servers have answered */
	FILE_DO(ask_stat(file), -ESTALE);
	assert_int_equal(fs_of()->nr_inodes, 1);
}

static Afar__Request *ask_map(uint64_t ino)
{
	Afar__Request *request = ask_file_look(AFAR__FILE_LOOK__WHAT_MAP);

	look_of(request)->map = MESSAGE_NEW(afar__file_map, Afar__FileMap);
	look_of(request)->map->ino = ino;
	look_of(request)->map->length = 1U << 20;
	return request;
}

/* It is asked, and does not answer: it goes on meanwhile, others who ask where the bytes are wait, and the
 * change fails. */
static void test_a_session_that_is_stopped(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);
	Afar__Reply *shorter = NULL, *where = NULL;

	(void)state;
	assert_int_equal(file_do(&other, ask_file_open(file, 1), NULL), 0);
	assert_int_equal(file_do(&other, ask_extend(file, 0, 9000), NULL), 0);
	FILE_DO(ask_size(file, 9000), 0);
	fixture.are_clients_silent = true;
	fixture.time_ns = 4000000000U;
	fixture_send(&fixture, &client, ++client.next_id, ask_size(file, 100), &shorter);
	fixture_pump(&fixture);
	fixture_send(&fixture, &client, ++client.next_id, ask_map(file), &where);
	fixture_pump(&fixture);
	assert_int_equal(file_do(&other, ask_map(file), NULL), 0);
	assert_int_equal(file_do(&other, ask_extend(file, 0, 20000), NULL), 0);
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
	assert_int_equal(file_do(&other, ask_file_close(1), NULL), 0);
}

/* Both are asked to give the file up for the other: neither waits for ever. */
static void test_two_make_it_shorter(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);
	Afar__Reply *one = NULL, *two = NULL;

	(void)state;
	assert_int_equal(file_do(&other, ask_file_open(file, 1), NULL), 0);
	assert_int_equal(file_do(&client, ask_file_open(file, 2), NULL), 0);
	FILE_DO(ask_extend(file, 0, 90000), 0);
	FILE_DO(ask_size(file, 90000), 0);
	fixture.are_clients_silent = true;
	fixture.time_ns = 4000000000U;
	fixture_send(&fixture, &client, ++client.next_id, ask_size(file, 100), &one);
	fixture_pump(&fixture);
	assert_null(one);
	fixture_send(&fixture, &other, ++other.next_id, ask_size(file, 50), &two);
	fixture_pump(&fixture);
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

/* ---- Appending */

static Afar__Request *ask_append(uint64_t ino)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_APPEND);

	hold_of(request)->append = MESSAGE_NEW(afar__file_append, Afar__FileAppend);
	hold_of(request)->append->ino = ino;
	return request;
}

static Afar__Request *ask_appended(uint64_t ino)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_APPENDED);

	hold_of(request)->appended = MESSAGE_NEW(afar__file_appended, Afar__FileAppended);
	hold_of(request)->appended->ino = ino;
	return request;
}

static void test_one_appends_at_a_time(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644);
	Afar__Reply *waiting = NULL;

	(void)state;
	FILE_DO(ask_append(file), -EBADF);
	FILE_DO(ask_file_open(file, 1), 0);
	assert_int_equal(file_do(&other, ask_file_open(file, 1), NULL), 0);
	FILE_DO(ask_append(file), 0);
	FILE_DO(ask_append(file), 0); /* it came again */
	fixture_send(&fixture, &other, ++other.next_id, ask_append(file), &waiting);
	fixture_pump(&fixture);
	assert_null(waiting);
	FILE_DO(ask_end(file, 500, 0), 0);
	assert_null(waiting);
	FILE_DO(ask_appended(file), 0);
	assert_non_null(waiting);
	assert_int_equal(waiting->file_results->results[0]->status, 0);
	assert_int_equal(waiting->file_results->results[0]->attributes->size, 500);
	drop(waiting);
	waiting = NULL;
	/* It goes with the last handle, and with the session. */
	fixture_send(&fixture, &client, ++client.next_id, ask_append(file), &waiting);
	fixture_pump(&fixture);
	assert_null(waiting);
	assert_int_equal(file_do(&other, ask_file_close(1), NULL), 0);
	assert_non_null(waiting);
	drop(waiting);
	waiting = NULL;
	assert_int_equal(file_do(&other, ask_file_open(file, 2), NULL), 0);
	fixture_send(&fixture, &other, ++other.next_id, ask_append(file), &waiting);
	fixture_pump(&fixture);
	client_lose(&fixture, &client);
	assert_null(waiting);
	fixture_advance(&fixture, 10000);
	assert_non_null(waiting);
	drop(waiting);
	assert_int_equal(client_open(&fixture, &client), 0);
	open_pool(&client);
}

/* ---- Ends of the manager */

static Afar__Request *ask_claim_of(uint64_t handle, uint64_t ino, uint64_t size, uint64_t layout)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_CLAIM);
	Afar__FileClaim *claim = MESSAGE_NEW(afar__file_claim, Afar__FileClaim);

	claim->is_last = true;
	hold_of(request)->claim = claim;
	if (handle == 0)
		return request;
	claim->handles = calloc(1, sizeof(uint64_t));
	claim->inos = calloc(1, sizeof(uint64_t));
	claim->accesses = calloc(1, sizeof(uint32_t));
	claim->ends = calloc(1, sizeof(uint64_t));
	claim->layouts = calloc(1, sizeof(uint64_t));
	claim->n_handles = claim->n_inos = claim->n_accesses = claim->n_ends = 1;
	claim->n_layouts = 1;
	claim->handles[0] = handle;
	claim->inos[0] = ino;
	claim->accesses[0] = R_OK | W_OK;
	claim->ends[0] = size;
	claim->layouts[0] = layout;
	return request;
}

static Afar__Request *ask_claim(uint64_t handle, uint64_t ino, uint64_t size)
{
	return ask_claim_of(handle, ino, size, 0);
}

static void restart(void)
{
	fixture_restart(&fixture);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(fixture_join(&fixture, i, fixture.servers[i].capacity), 0);
	assert_int_equal(client_resume(&fixture, &client), 0);
	assert_int_equal(client_resume(&fixture, &other), 0);
}

static void test_claims(void **state)
{
	Afar__FileAttributes attributes;
	Afar__Reply *waiting = NULL;
	uint64_t file;

	(void)state;
	assert_int_equal(file_do(&other, ask_make(ROOT, "f", S_IFREG | 0644, 5, 8192), &attributes),
			 0);
	file = attributes.ino;
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	restart();
	/* Nobody knows yet who holds what: changes wait. */
	fixture_send(&fixture, &client, ++client.next_id, ask_make(ROOT, "g", S_IFREG, 0, 0),
		     &waiting);
	fixture_pump(&fixture);
	assert_null(waiting);
	FILE_DO(ask_claim(0, 0, 0), 0);
	assert_null(waiting);
	FILE_DO(ask_stat(file), 0);
	/* An end of another layout is one from before somebody made the file shorter. */
	assert_int_equal(file_do(&other, ask_claim_of(5, file, 7000, 3), NULL), 0);
	assert_int_equal(file_do(&other, ask_claim(5, file, 5000), NULL), 0);
	fixture_pump(&fixture);
	expect_answer(waiting, 0, NULL);
	assert_int_equal(file_do(&client, ask_stat(file), &attributes), 0);
	assert_int_equal(attributes.size, 5000);
	assert_int_equal(file_do(&other, ask_file_close(5), NULL), 0);
	FILE_DO(ask_stat(file), -ESTALE);
}

static void test_nobody_claims(void **state)
{
	Afar__FileAttributes attributes;

	(void)state;
	assert_int_equal(file_do(&other, ask_make(ROOT, "f", S_IFREG | 0644, 5, 8192), &attributes),
			 0);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	restart();
	FILE_DO(ask_claim(0, 0, 0), 0);
	FILE_DO(ask_stat(attributes.ino), 0);
	client_lose(&fixture, &other);
	fixture_advance(&fixture, 900); /* ours lives on */
	FILE_DO(ask_stat(attributes.ino), 0);
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

/* ---- At random */

#define NR_INODES  48U
#define NR_NAMES   6U
#define NR_STEPS   20000U
#define POOL_UNITS (POOL_BYTES / FILE_UNIT)

/*
 * What a client believes: the parts of the pool that it would write to, of the files that it has open. None
 * of them may ever be free, or another file's. It believes what it was told until it closes the file,
 * gives it up, makes it shorter, or its session is fenced everywhere.
 */
struct belief {
	uint64_t ino; /* 0: nothing */
	bool units[POOL_UNITS];
};

/* An open file of a client's. */
struct opened {
	uint64_t handle; /* 0: none */
	uint64_t ino;
};

static struct actor {
	struct fake_client *client;
	bool is_lost; /* its session is being ended */
	struct opened opened[NR_INODES];
	struct belief beliefs[NR_INODES];
} actors[2];

static uint64_t inodes[NR_INODES]; /* numbers that were given */
static uint64_t next_handle;

static uint64_t any_inode(void)
{
	return inodes[random_below(NR_INODES)];
}

static void forget(struct actor *actor, uint64_t ino)
{
	for (size_t i = 0; i < NR_INODES; i++)
		if (actor->beliefs[i].ino == ino)
			actor->beliefs[i] = (struct belief){0};
}

static void forget_all(struct actor *actor)
{
	memset(actor->opened, 0, sizeof(actor->opened));
	memset(actor->beliefs, 0, sizeof(actor->beliefs));
}

static void note_recall(uint64_t session, uint64_t ino)
{
	for (size_t i = 0; i < 2; i++)
		if (actors[i].client->session == session)
			forget(&actors[i], ino);
}

static void believe(struct actor *actor, uint64_t ino, const Afar__FileResult *result)
{
	struct belief *belief = NULL;

	for (size_t i = 0; i < NR_INODES; i++)
		if (actor->beliefs[i].ino == ino)
			belief = &actor->beliefs[i];
	for (size_t i = 0; i < NR_INODES && belief == NULL; i++)
		if (actor->beliefs[i].ino == 0)
			belief = &actor->beliefs[i];
	assert_non_null(belief);
	belief->ino = ino;
	for (size_t i = 0; i + 2 < result->n_runs; i += 3)
		for (uint64_t unit = 0; unit < result->runs[i + 2]; unit++)
			belief->units[result->runs[i + 1] + unit] = true;
}

/* ---- Whose the pool is */

static uint64_t owners[POOL_UNITS]; /* 0: nobody's, 1: being zeroed; else 2 + ino */

static int note_owner(void *argument, uint64_t ino, const struct run *run)
{
	(void)argument;
	for (uint64_t i = 0; i < run->nr; i++)
		owners[run->pool_unit + i] = 2 + ino;
	return 0;
}

static void check_beliefs(void)
{
	memset(owners, 0, sizeof(owners));
	assert_int_equal(record_range_all_runs(fs_of(), note_owner, NULL), 0);
	for (size_t i = 0; i < 2; i++)
		for (size_t j = 0; j < NR_INODES; j++) {
			const struct belief *belief = &actors[i].beliefs[j];

			for (size_t unit = 0; unit < POOL_UNITS && belief->ino != 0; unit++)
				if (belief->units[unit] && owners[unit] != 2 + belief->ino)
					fail_msg("client %zu would write unit %zu for inode %llu: "
						 "it "
						 "is %llu's",
						 i, unit, (unsigned long long)belief->ino,
						 (unsigned long long)owners[unit]);
		}
}

/* ---- Steps */

static struct opened *find_opened(struct actor *actor, uint64_t handle)
{
	for (size_t i = 0; i < NR_INODES; i++)
		if (actor->opened[i].handle == handle)
			return &actor->opened[i];
	return NULL;
}

static void note_closed(struct actor *actor, uint64_t handle)
{
	struct opened *opened = handle != 0 ? find_opened(actor, handle) : NULL;
	uint64_t ino;

	if (opened == NULL)
		return;
	ino = opened->ino;
	*opened = (struct opened){0};
	for (size_t i = 0; i < NR_INODES; i++)
		if (actor->opened[i].ino == ino)
			return;
	forget(actor, ino);
}

static Afar__Request *any_request(struct actor *actor)
{
	char name[2] = {(char)('a' + random_below(NR_NAMES)), 0};
	char other_name[2] = {(char)('a' + random_below(NR_NAMES)), 0};
	const struct opened *opened = &actor->opened[random_below(NR_INODES)];
	bool has_room = find_opened(actor, 0) != NULL;

	switch (random_below(14)) {
	case 0:
	case 1:
		return ask_make(any_inode(), name, S_IFREG | 0644,
				has_room && random_below(2) ? ++next_handle : 0,
				random_below(2) * random_below(65536));
	case 2:
		return ask_make(any_inode(), name, S_IFDIR | 0755, 0, 0);
	case 3:
		return ask_remove(any_inode(), name, random_below(2));
	case 4:
	case 5:
		return ask_rename(any_inode(), name, any_inode(), other_name,
				  (uint32_t)random_below(3));
	case 6:
		return ask_link(any_inode(), any_inode(), name);
	case 7:
	case 8:
		return ask_size(any_inode(), random_below(200000));
	case 9:
		return ask_extend(opened->ino, random_below(200000), 1 + random_below(50000));
	case 10:
		return ask_punch(opened->ino, random_below(100000), random_below(50000));
	case 11:
	case 12:
		return has_room ? ask_file_open(any_inode(), ++next_handle)
				: ask_file_close(opened->handle);
	default:
		return random_below(2)
			       ? ask_file_close(opened->handle)
			       : ask_sync_close(opened->ino, random_below(200000), opened->handle);
	}
}

static void note_opened(struct actor *actor, uint64_t handle, const Afar__FileResult *result)
{
	struct opened *opened = find_opened(actor, 0);

	assert_non_null(opened);
	*opened = (struct opened){handle, result->attributes->ino};
	believe(actor, result->attributes->ino, result);
}

/* What it believes once a change has been answered. */
static void note_change(struct actor *actor, const Afar__FileChange *ask,
			const Afar__FileResult *result)
{
	switch (ask->what_case) {
	case AFAR__FILE_CHANGE__WHAT_MAKE:
		if (ask->make->handle != 0)
			note_opened(actor, ask->make->handle, result);
		break;
	case AFAR__FILE_CHANGE__WHAT_EXTEND:
		believe(actor, ask->extend->ino, result);
		break;
	case AFAR__FILE_CHANGE__WHAT_SET:
		forget(actor, ask->set->ino);
		break;
	case AFAR__FILE_CHANGE__WHAT_PUNCH:
		forget(actor, ask->punch->ino);
		break;
	case AFAR__FILE_CHANGE__WHAT_SYNC:
		/* It may have given back what lies behind the end. */
		forget(actor, ask->sync->ino);
		note_closed(actor, ask->sync->close);
		break;
	default:
		break;
	}
}

static void note_hold(struct actor *actor, const Afar__FileHold *ask,
		      const Afar__FileResult *result)
{
	if (ask->what_case == AFAR__FILE_HOLD__WHAT_OPEN)
		note_opened(actor, ask->open->handle, result);
	else if (ask->what_case == AFAR__FILE_HOLD__WHAT_CLOSE)
		note_closed(actor, ask->close->handle);
}

static void note_inode(const Afar__FileResult *result)
{
	if (result->attributes == NULL)
		return;
	for (size_t i = 0; i < NR_INODES; i++)
		if (inodes[i] == result->attributes->ino)
			return;
	inodes[1 + random_below(NR_INODES - 1)] = result->attributes->ino;
}

/* The request is its to read until the core has freed it: a copy is made. */
static Afar__Request *copy_request(const Afar__Request *request)
{
	size_t length = afar__request__get_packed_size(request);
	uint8_t *packed = malloc(length + 1);
	Afar__Request *copy;

	afar__request__pack(request, packed);
	copy = afar__request__unpack(NULL, length, packed);
	free(packed);
	return copy;
}

static void act(struct actor *actor)
{
	Afar__Request *request = any_request(actor), *copy = copy_request(request);
	Afar__Reply *reply = fixture_ask(&fixture, actor->client, request);
	const Afar__FileResult *result =
		reply->status == 0 ? reply->file_results->results[0] : NULL;

	if (result != NULL && result->status == 0) {
		note_inode(result);
		if (copy->call_case == AFAR__REQUEST__CALL_FILES_CHANGE)
			note_change(actor, change_of(copy), result);
		else
			note_hold(actor, hold_of(copy), result);
	}
	afar__request__free_unpacked(copy, NULL);
	drop(reply);
}

/* ---- What goes wrong */

static void claim(struct actor *actor)
{
	Afar__Request *request = ask_claim(0, 0, 0);
	Afar__FileClaim *ask = hold_of(request)->claim;

	ask->handles = calloc(NR_INODES, sizeof(uint64_t));
	ask->inos = calloc(NR_INODES, sizeof(uint64_t));
	ask->accesses = calloc(NR_INODES, sizeof(uint32_t));
	ask->ends = calloc(NR_INODES, sizeof(uint64_t));
	ask->layouts = calloc(NR_INODES, sizeof(uint64_t));
	for (size_t i = 0; i < NR_INODES; i++) {
		if (actor->opened[i].handle == 0)
			continue;
		ask->handles[ask->n_handles++] = actor->opened[i].handle;
		ask->inos[ask->n_inos++] = actor->opened[i].ino;
		ask->accesses[ask->n_accesses++] = R_OK | W_OK;
		ask->ends[ask->n_ends++] = random_below(100000);
		ask->layouts[ask->n_layouts++] = random_below(3);
	}
	assert_int_equal(file_do(actor->client, request, NULL), 0);
}

static void restart_and_claim(void)
{
	restart();
	claim(&actors[0]);
	claim(&actors[1]);
	fixture_advance(&fixture, 10);
}

/* Its session ends. A server does not answer at first: what it posted there may still land. */
static void lose(struct actor *actor)
{
	fixture.servers[0].is_silent = true;
	client_lose(&fixture, actor->client);
	fixture_advance(&fixture, 2 * FIXTURE_LEASE_MS);
	check_beliefs();
	for (unsigned i = 0; i < 10; i++) {
		struct actor *left = actor == &actors[0] ? &actors[1] : &actors[0];

		/* Without a server that answers, a change may have to wait. */
		if (left->client->peer != NULL && fixture.servers[0].peer != NULL)
			fixture_pump(&fixture);
		check_beliefs();
	}
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	forget_all(actor);
	memset(actor->client, 0, sizeof(*actor->client));
	assert_int_equal(client_open(&fixture, actor->client), 0);
	open_pool(actor->client);
}

static void disturb(void)
{
	if (random_below(512) == 0)
		restart_and_claim();
	if (random_below(1024) == 0)
		lose(&actors[1]);
	if (random_below(64) == 0)
		fixture.servers[0].refuse_to_zero = random_below(2) ? -EIO : 0;
	if (random_below(64) == 0)
		fixture_advance(&fixture, 2);
}

static void test_at_random(void **state)
{
	(void)state;
	memset(actors, 0, sizeof(actors));
	actors[0].client = &client;
	actors[1].client = &other;
	fixture.recalled = note_recall;
	for (size_t i = 0; i < NR_INODES; i++)
		inodes[i] = ROOT;
	for (unsigned i = 0; i < NR_STEPS; i++) {
		if (random_below(8) == 0) {
			fixture.store.fail_at = 1;
			fixture.store.failure = -ENOSPC;
		}
		act(&actors[random_below(2)]);
		fixture.store.fail_at = 0;
		check_beliefs();
		if (random_below(8) == 0)
			check_files();
		disturb();
	}
	fixture.servers[0].refuse_to_zero = 0;
	restart_and_claim();
	fixture_advance(&fixture, 3000);
	check_files();
	assert_int_equal(fs_of()->pending_bytes, 0);
}

TEST_GROUP(manager_files)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(test_names),
		FILES_TEST(test_directories_change_places),
		FILES_TEST(test_symbolic_links),
		FILES_TEST(test_nobody_is_believed_to_be_another),
		FILES_TEST(test_room_comes_back_zeroed),
		FILES_TEST(test_full),
		FILES_TEST(test_another_session_is_not_hurt),
		FILES_TEST(test_a_session_that_is_stopped),
		FILES_TEST(test_two_make_it_shorter),
		FILES_TEST(test_one_appends_at_a_time),
		FILES_TEST(test_claims),
		FILES_TEST(test_nobody_claims),
		FILES_TEST(test_what_comes_again_is_answered_again),
		FILES_TEST(test_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
