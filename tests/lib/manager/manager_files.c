/* SPDX-License-Identifier: BSD-3-Clause */
/* See manager_files.h. */
#include "lib/manager/manager_files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <afar/afar.h>

#include "manager/members/principals.h"
#include "manager/regions/namespaces.h"

struct fake_client client, other;
uint64_t fs_number;

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

Afar__FileChange *change_of(Afar__Request *request)
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

Afar__Request *ask_make(uint64_t dir, const char *name, uint32_t mode, uint64_t handle,
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

Afar__Request *ask_remove(uint64_t dir, const char *name, bool is_directory)
{
	Afar__Request *request = ask_change(AFAR__FILE_CHANGE__WHAT_REMOVE);
	Afar__FileRemove *remove = MESSAGE_NEW(afar__file_remove, Afar__FileRemove);

	remove->dir = dir;
	remove->name = strdup(name);
	remove->is_directory = is_directory;
	change_of(request)->remove = remove;
	return request;
}

Afar__Request *ask_rename(uint64_t dir, const char *name, uint64_t new_dir, const char *new_name,
			  uint32_t flags)
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

Afar__Request *ask_link(uint64_t ino, uint64_t dir, const char *name)
{
	Afar__Request *request = ask_change(AFAR__FILE_CHANGE__WHAT_LINK);
	Afar__FileLink *link = MESSAGE_NEW(afar__file_link, Afar__FileLink);

	link->ino = ino;
	link->dir = dir;
	link->name = strdup(name);
	change_of(request)->link = link;
	return request;
}

Afar__Request *ask_size(uint64_t ino, uint64_t size)
{
	Afar__Request *request = ask_change(AFAR__FILE_CHANGE__WHAT_SET);
	Afar__FileSet *set = MESSAGE_NEW(afar__file_set, Afar__FileSet);

	set->ino = ino;
	set->mask = 8;
	set->size = size;
	change_of(request)->set = set;
	return request;
}

Afar__Request *ask_extend(uint64_t ino, uint64_t offset, uint64_t length)
{
	Afar__Request *request = ask_change(AFAR__FILE_CHANGE__WHAT_EXTEND);
	Afar__FileExtend *extend = MESSAGE_NEW(afar__file_extend, Afar__FileExtend);

	extend->ino = ino;
	extend->offset = offset;
	extend->length = length;
	change_of(request)->extend = extend;
	return request;
}

Afar__Request *ask_punch(uint64_t ino, uint64_t offset, uint64_t length)
{
	Afar__Request *request = ask_change(AFAR__FILE_CHANGE__WHAT_PUNCH);
	Afar__FilePunch *punch = MESSAGE_NEW(afar__file_punch, Afar__FilePunch);

	punch->ino = ino;
	punch->offset = offset;
	punch->length = length;
	change_of(request)->punch = punch;
	return request;
}

Afar__Request *ask_sync_close(uint64_t ino, uint64_t end, uint64_t handle)
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

Afar__FileHold *hold_of(Afar__Request *request)
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

Afar__Request *ask_file_open(uint64_t ino, uint64_t handle)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_OPEN);

	hold_of(request)->open = MESSAGE_NEW(afar__file_open, Afar__FileOpen);
	hold_of(request)->open->ino = ino;
	hold_of(request)->open->handle = handle;
	hold_of(request)->open->access = R_OK | W_OK;
	return request;
}

Afar__Request *ask_end(uint64_t ino, uint64_t end, uint64_t layout)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_END);

	hold_of(request)->end = MESSAGE_NEW(afar__file_end, Afar__FileEnd);
	hold_of(request)->end->ino = ino;
	hold_of(request)->end->end = end;
	hold_of(request)->end->layout = layout;
	return request;
}

Afar__Request *ask_file_close(uint64_t handle)
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

Afar__Request *ask_stat(uint64_t ino)
{
	Afar__Request *request = ask_file_look(AFAR__FILE_LOOK__WHAT_STAT);

	look_of(request)->stat = MESSAGE_NEW(afar__file_stat, Afar__FileStat);
	look_of(request)->stat->ino = ino;
	return request;
}

Afar__Request *ask_lookup(uint64_t dir, const char *name)
{
	Afar__Request *request = ask_file_look(AFAR__FILE_LOOK__WHAT_LOOKUP);

	look_of(request)->lookup = MESSAGE_NEW(afar__file_lookup, Afar__FileLookup);
	look_of(request)->lookup->dir = dir;
	look_of(request)->lookup->name = strdup(name);
	return request;
}

Afar__Request *ask_walk(const char *path, bool is_following)
{
	Afar__Request *request = ask_file_look(AFAR__FILE_LOOK__WHAT_WALK);

	look_of(request)->walk = MESSAGE_NEW(afar__file_walk, Afar__FileWalk);
	look_of(request)->walk->path = strdup(path);
	look_of(request)->walk->is_following = is_following;
	return request;
}

Afar__Request *ask_check(void)
{
	Afar__Request *request = ask_file_look(AFAR__FILE_LOOK__WHAT_CHECK);

	look_of(request)->check = MESSAGE_NEW(afar__file_system_check, Afar__FileSystemCheck);
	return request;
}

Afar__Request *ask_lost(uint64_t after)
{
	Afar__Request *request = ask_file_look(AFAR__FILE_LOOK__WHAT_LOST);

	look_of(request)->lost = MESSAGE_NEW(afar__file_system_lost, Afar__FileSystemLost);
	look_of(request)->lost->after = after;
	return request;
}

/* ---- Requests on behalf of users, and of sessions */

Afar__Request *ask_as(Afar__Request *request, uint32_t uid, uint32_t gid, uint32_t group)
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

Afar__Request *ask_user_key(const char *name, uint32_t uid, uint32_t gid)
{
	Afar__Request *request = ask_key_add(name, false);

	request->key_add->has_uid = true;
	request->key_add->uid = uid;
	request->key_add->gids = calloc(1, sizeof(uint32_t));
	request->key_add->gids[request->key_add->n_gids++] = gid;
	return request;
}

Afar__Request *ask_map(uint64_t ino)
{
	Afar__Request *request = ask_file_look(AFAR__FILE_LOOK__WHAT_MAP);

	look_of(request)->map = MESSAGE_NEW(afar__file_map, Afar__FileMap);
	look_of(request)->map->ino = ino;
	look_of(request)->map->length = 1U << 20;
	return request;
}

Afar__Request *ask_limits(uint64_t max_bytes, uint64_t max_inodes)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);

	assert_non_null(request);
	request->call_case = AFAR__REQUEST__CALL_FILES_LIMIT;
	request->files_limit = MESSAGE_NEW(afar__files_limit, Afar__FilesLimit);
	request->files_limit->fs = fs_number;
	request->files_limit->max_bytes = max_bytes;
	request->files_limit->max_inodes = max_inodes;
	return request;
}

Afar__Request *ask_append(uint64_t ino)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_APPEND);

	hold_of(request)->append = MESSAGE_NEW(afar__file_append, Afar__FileAppend);
	hold_of(request)->append->ino = ino;
	return request;
}

Afar__Request *ask_appended(uint64_t ino)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_APPENDED);

	hold_of(request)->appended = MESSAGE_NEW(afar__file_appended, Afar__FileAppended);
	hold_of(request)->appended->ino = ino;
	return request;
}

Afar__Request *ask_appended_more(uint64_t ino)
{
	Afar__Request *request = ask_appended(ino);

	hold_of(request)->appended->is_more = true;
	return request;
}

Afar__Request *ask_reclaim_of(uint64_t handle, uint64_t ino, uint64_t size, uint64_t layout)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_RECLAIM);
	Afar__FileReclaim *reclaim = MESSAGE_NEW(afar__file_reclaim, Afar__FileReclaim);

	reclaim->is_last = true;
	hold_of(request)->reclaim = reclaim;
	if (handle == 0)
		return request;
	reclaim->handles = calloc(1, sizeof(uint64_t));
	reclaim->inos = calloc(1, sizeof(uint64_t));
	reclaim->accesses = calloc(1, sizeof(uint32_t));
	reclaim->ends = calloc(1, sizeof(uint64_t));
	reclaim->layouts = calloc(1, sizeof(uint64_t));
	reclaim->n_handles = reclaim->n_inos = reclaim->n_accesses = reclaim->n_ends = 1;
	reclaim->n_layouts = 1;
	reclaim->handles[0] = handle;
	reclaim->inos[0] = ino;
	reclaim->accesses[0] = R_OK | W_OK;
	reclaim->ends[0] = size;
	reclaim->layouts[0] = layout;
	return request;
}

Afar__Request *ask_reclaim(uint64_t handle, uint64_t ino, uint64_t size)
{
	return ask_reclaim_of(handle, ino, size, 0);
}

Afar__Request *ask_to_be_asked(void)
{
	Afar__Request *request = ask_reclaim(0, 0, 0);

	hold_of(request)->reclaim->answers_gone = true;
	return request;
}

Afar__Request *ask_forget(uint64_t ino)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_FORGET);
	Afar__FileForget *forget = MESSAGE_NEW(afar__file_forget, Afar__FileForget);

	forget->inos = calloc(1, sizeof(*forget->inos));
	forget->inos[forget->n_inos++] = ino;
	hold_of(request)->forget = forget;
	return request;
}

static Afar__FileLock *new_lock(uint64_t handle, uint64_t owner, uint32_t mode, uint64_t start,
				uint64_t length)
{
	Afar__FileLock *lock = MESSAGE_NEW(afar__file_lock, Afar__FileLock);

	lock->handle = handle;
	lock->owner = owner;
	lock->kind = 1;
	lock->mode = mode;
	lock->start = start;
	lock->length = length;
	lock->pid = (uint32_t)owner;
	return lock;
}

Afar__Request *ask_lock(uint64_t handle, uint64_t owner, uint32_t mode, uint64_t start,
			uint64_t length, uint32_t wait_ms)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_LOCK);

	hold_of(request)->lock = new_lock(handle, owner, mode, start, length);
	hold_of(request)->lock->wait_ms = wait_ms;
	return request;
}

Afar__Request *ask_lock_look(uint64_t handle, uint64_t owner, uint32_t mode, uint64_t start,
			     uint64_t length)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_LOCK_LOOK);

	hold_of(request)->lock_look = MESSAGE_NEW(afar__file_lock_look, Afar__FileLockLook);
	hold_of(request)->lock_look->lock = new_lock(handle, owner, mode, start, length);
	return request;
}

Afar__Request *ask_lock_cancel(uint64_t wait)
{
	Afar__Request *request = ask_hold(AFAR__FILE_HOLD__WHAT_LOCK_CANCEL);

	hold_of(request)->lock_cancel = MESSAGE_NEW(afar__file_lock_cancel, Afar__FileLockCancel);
	hold_of(request)->lock_cancel->wait = wait;
	return request;
}

void claim_lock(Afar__Request *request, uint64_t handle, uint64_t owner, uint32_t mode,
		uint64_t start, uint64_t length)
{
	Afar__FileReclaim *reclaim = hold_of(request)->reclaim;

	reclaim->locks =
		reallocarray(reclaim->locks, reclaim->n_locks + 1, sizeof(*reclaim->locks));
	assert_non_null(reclaim->locks);
	reclaim->locks[reclaim->n_locks++] = new_lock(handle, owner, mode, start, length);
}

void restart(void)
{
	fixture_restart(&fixture);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(fixture_join(&fixture, i, fixture.servers[i].capacity), 0);
	assert_int_equal(client_resume(&fixture, &client), 0);
	assert_int_equal(client_resume(&fixture, &other), 0);
}

void reclaim_nothing(void)
{
	FILE_DO(ask_reclaim(0, 0, 0), 0);
	OTHER_DO(ask_reclaim(0, 0, 0), 0);
}

#define MOVE_OPERATIONS(to, from)                                                                 \
	do {                                                                                      \
		(to)->operations =                                                                \
			reallocarray((to)->operations, (to)->n_operations + (from)->n_operations, \
				     sizeof(*(to)->operations));                                  \
		assert_non_null((to)->operations);                                                \
		for (size_t i = 0; i < (from)->n_operations; i++)                                 \
			(to)->operations[(to)->n_operations++] = (from)->operations[i];           \
		(from)->n_operations = 0;                                                         \
	} while (0)

void add_operations(Afar__Request *request, Afar__Request *more)
{
	assert_int_equal(request->call_case, more->call_case);
	if (request->call_case == AFAR__REQUEST__CALL_FILES_LOOK)
		MOVE_OPERATIONS(request->files_look, more->files_look);
	else if (request->call_case == AFAR__REQUEST__CALL_FILES_HOLD)
		MOVE_OPERATIONS(request->files_hold, more->files_hold);
	else
		MOVE_OPERATIONS(request->files_change, more->files_change);
	afar__request__free_unpacked(more, NULL);
}

/* ---- Asking */

/* Its one result's status. The call as a whole succeeds. `attributes` may be NULL. */
int file_do(struct fake_client *who, Afar__Request *request, Afar__FileAttributes *attributes)
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

void expect_file_case(const char *what, struct fake_client *who, Afar__Request *request, int status)
{
	int is = file_do(who, request, NULL);

	if (is != status)
		fail_msg("%s: %d, and not %d", what, is, status);
}

void file_send(struct fake_client *who, Afar__Request *request, Afar__Reply **answer)
{
	fixture_send(&fixture, who, ++who->next_id, request, answer);
	fixture_pump(&fixture);
}

void expect_result(Afar__Reply **answer, int status)
{
	assert_non_null(*answer);
	assert_int_equal((*answer)->status, 0);
	assert_int_equal((*answer)->file_results->results[0]->status, status);
	drop(*answer);
	*answer = NULL;
}

uint64_t must_make(uint64_t dir, const char *name, uint32_t mode)
{
	Afar__FileAttributes attributes;

	assert_int_equal(file_do(&client, ask_make(dir, name, mode, 0, 0), &attributes), 0);
	return attributes.ino;
}

void expect_size(uint64_t ino, uint64_t bytes)
{
	Afar__FileAttributes attributes;

	assert_int_equal(file_do(&client, ask_stat(ino), &attributes), 0);
	assert_int_equal(attributes.size, bytes);
}

/* Nothing is wrong with what is stored. */
void check_files(void)
{
	Afar__Reply *reply = must(&client, ask_check());
	const Afar__FileResult *result = reply->file_results->results[0];

	assert_int_equal(result->status, 0);
	if (result->data.len != 0)
		fail_msg("%s", (const char *)result->data.data);
	drop(reply);
}

struct fs *fs_of(void)
{
	return files_find(fixture.core, fs_number);
}

/* ---- What each test begins and ends with */

void open_pool(struct fake_client *who)
{
	EXPECT(who, ask_volume_open(fs_number, VOLUME_SHARED), 0);
}

static int begin_on(uint32_t tier)
{
	Afar__Request *request = ask_fs("f");
	Afar__Reply *reply;
	Afar__RegionInfo *info;

	client_open(&fixture, &client);
	client_open(&fixture, &other);
	for (size_t i = 0; i < 2 && tier == AFAR_TIER_FLASH; i++)
		fixture_plug(&fixture, i, i, 64 * MIB);
	join_servers(2);
	fixture_advance(&fixture, 4000);
	request->namespace_create->policy->tier = tier;
	fs_number = create_namespace(&fixture, &client, request);
	EXPECT(&client, ask_reserve(fs_number, POOL_BYTES), 0);
	info = must_open(&client, ask_volume_alloc(fs_number, POOL_BYTES), &reply);
	EXPECT(&client, ask_finish(info), 0);
	EXPECT(&client, ask_close(info), 0);
	drop(reply);
	open_pool(&client);
	open_pool(&other);
	return 0;
}

int files_begin(void **state)
{
	setup(state);
	return begin_on(AFAR_TIER_DRAM);
}

int files_begin_on_flash(void **state)
{
	setup(state);
	return begin_on(AFAR_TIER_FLASH);
}

int files_end(void **state)
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
