/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tests of the manager's files share this: a file system with two sessions, made anew for every
 * test, and the requests about it. A request is the caller's, of one operation, and asks as uid 0.
 */
#ifndef TESTS_MANAGER_FILES_H
#define TESTS_MANAGER_FILES_H

#include "lib/manager/manager_test.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

#define POOL_BYTES (4 * MIB)
#define ROOT	   1U

extern struct fake_client client, other;
extern uint64_t fs_number;

#define FILES_TEST(name)	   cmocka_unit_test_setup_teardown(name, files_begin, files_end)
#define FILE_DO(request, status_)  assert_int_equal(file_do(&client, (request), NULL), (status_))
#define OTHER_DO(request, status_) assert_int_equal(file_do(&other, (request), NULL), (status_))

/* Its operation. */
Afar__FileChange *change_of(Afar__Request *request);

/* `handle`: 0: it is not opened. */
Afar__Request *ask_make(uint64_t dir, const char *name, uint32_t mode, uint64_t handle,
			uint64_t bytes);
Afar__Request *ask_remove(uint64_t dir, const char *name, bool is_directory);
Afar__Request *ask_rename(uint64_t dir, const char *name, uint64_t new_dir, const char *new_name,
			  uint32_t flags);
Afar__Request *ask_link(uint64_t ino, uint64_t dir, const char *name);
Afar__Request *ask_size(uint64_t ino, uint64_t size);
Afar__Request *ask_extend(uint64_t ino, uint64_t offset, uint64_t length);
Afar__Request *ask_punch(uint64_t ino, uint64_t offset, uint64_t length);
Afar__Request *ask_sync_close(uint64_t ino, uint64_t end, uint64_t handle);
Afar__FileHold *hold_of(Afar__Request *request);
Afar__Request *ask_file_open(uint64_t ino, uint64_t handle);
Afar__Request *ask_end(uint64_t ino, uint64_t end, uint64_t layout);
Afar__Request *ask_file_close(uint64_t handle);
Afar__Request *ask_stat(uint64_t ino);
Afar__Request *ask_lookup(uint64_t dir, const char *name);
Afar__Request *ask_walk(const char *path, bool is_following);
Afar__Request *ask_check(void);
/* Which files have lost something, of inodes above `after`. */
Afar__Request *ask_lost(uint64_t after);
/* Says who asks; returns the request. `group`: 0: none. */
Afar__Request *ask_as(Afar__Request *request, uint32_t uid, uint32_t gid, uint32_t group);
Afar__Request *ask_user_key(const char *name, uint32_t uid, uint32_t gid);
Afar__Request *ask_map(uint64_t ino);
Afar__Request *ask_limits(uint64_t max_bytes, uint64_t max_inodes);
Afar__Request *ask_append(uint64_t ino);
Afar__Request *ask_appended(uint64_t ino);
Afar__Request *ask_appended_more(uint64_t ino);
/* Claims one handle, and that it is the last; of layout 0. `handle`: 0: none. */
Afar__Request *ask_reclaim_of(uint64_t handle, uint64_t ino, uint64_t size, uint64_t layout);
Afar__Request *ask_reclaim(uint64_t handle, uint64_t ino, uint64_t size);
/* A claim of nothing: the session is asked which inodes it uses. */
Afar__Request *ask_to_be_asked(void);
Afar__Request *ask_forget(uint64_t ino);
/* `mode`: 0: unlocked, 1: shared, 2: exclusive; of ranges. `wait_ms`: 0: it does not wait. */
Afar__Request *ask_lock(uint64_t handle, uint64_t owner, uint32_t mode, uint64_t start,
			uint64_t length, uint32_t wait_ms);
/* Asks what is in the way of such a lock. */
Afar__Request *ask_lock_look(uint64_t handle, uint64_t owner, uint32_t mode, uint64_t start,
			     uint64_t length);
Afar__Request *ask_lock_cancel(uint64_t wait);
/* Adds one to a claim. */
void claim_lock(Afar__Request *request, uint64_t handle, uint64_t owner, uint32_t mode,
		uint64_t start, uint64_t length);
/* Adds the operations of `more` to the request, and takes it over. */
void add_operations(Afar__Request *request, Afar__Request *more);

/* The manager and the sessions come back; nobody has claimed anything. */
void restart(void);
/* Both sessions claim that they have nothing open, as after a restart. */
void reclaim_nothing(void);
/* Asks; returns the status of its one result. The call as a whole may fail, too. `attributes` may be
 * NULL. */
int file_do(struct fake_client *who, Afar__Request *request, Afar__FileAttributes *attributes);
/* Asks what a row of a table of cases asks; a failure names the row. */
void expect_file_case(const char *what, struct fake_client *who, Afar__Request *request,
		      int status);
/* Sends it; the answer may come later. */
void file_send(struct fake_client *who, Afar__Request *request, Afar__Reply **answer);
/* Fails unless the answer has come with this status in its first result. Drops it, and sets it to NULL. */
void expect_result(Afar__Reply **answer, int status);
uint64_t must_make(uint64_t dir, const char *name, uint32_t mode);
/* The file is so long, as `client` is told. */
void expect_size(uint64_t ino, uint64_t bytes);
/* Nothing is wrong with what is stored. */
void check_files(void);
struct fs *fs_of(void);
/* The session has the pool open from now on. */
void open_pool(struct fake_client *who);
int files_begin(void **state);
int files_begin_on_flash(void **state);
int files_end(void **state);

#endif
