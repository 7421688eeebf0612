/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests what each call for locks of files answers, and that locks exclude each other between sessions while the
 * manager is killed again and again. The test counts locks in its own memory, too: so nobody is ever in with somebody
 * else, however short that is.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <afar/file.h>

#include "lib/api/api.h"
#include "lib/base/effort.h"
#include "lib/base/processes.h"

#define NR_SESSIONS 3U
#define NR_THREADS  (2 * NR_SESSIONS)
#define NR_BLOCKS   6U
#define BLOCK	    AFAR_FILE_BLOCK
#define NR_KILLS    4U

static struct afar_session *sessions[NR_SESSIONS];
static struct afar_fs *systems[NR_SESSIONS];
static struct afar_file *files[NR_SESSIONS]; /* the same one */
static uint64_t ino;

static void open_file(unsigned i, int flags, struct afar_file **out)
{
	assert_int_equal(afar_file_open(systems[i], NULL, ino, flags, out), 0);
}

static int open_all(void **state)
{
	const struct afar_fs_options options = {.size = sizeof(options), .retry_ms = 60000};
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .tier = AFAR_TIER_DRAM},
		.uid = geteuid(),
		.gid = getegid(),
	};
	struct afar_fs_stat stat = {.size = sizeof(stat)};

	(void)state;
	assert_int_equal(afar_fs_create(session, "locked", &policy, NULL), 0);
	for (unsigned i = 0; i < NR_SESSIONS; i++) {
		assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &sessions[i]), 0);
		assert_int_equal(afar_fs_open(sessions[i], "locked", &options, &systems[i]), 0);
	}
	assert_int_equal(afar_fs_stat(systems[0], &stat), 0);
	assert_int_equal(afar_file_create(systems[0], NULL, stat.root, "file", 0600, O_RDWR,
					  &files[0], NULL),
			 0);
	ino = afar_file_ino(files[0]);
	for (unsigned i = 1; i < NR_SESSIONS; i++)
		open_file(i, O_RDWR, &files[i]);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_SESSIONS; i++) {
		assert_int_equal(afar_file_close(files[i]), 0);
		assert_int_equal(afar_fs_close(systems[i]), 0);
		assert_int_equal(afar_session_close(sessions[i]), 0);
	}
	assert_int_equal(afar_fs_delete(session, "locked"), 0);
	return 0;
}

static struct afar_lock range(uint32_t mode, uint64_t owner, uint64_t start, uint64_t length)
{
	return (struct afar_lock){.size = sizeof(struct afar_lock),
				  .mode = mode,
				  .owner = owner,
				  .start = start,
				  .length = length,
				  .pid = 1000 + (uint32_t)owner};
}

static int lock_range(struct afar_file *file, uint32_t mode, uint64_t owner, uint64_t start,
		      uint64_t length, int timeout_ms)
{
	struct afar_lock lock = range(mode, owner, start, length);

	return afar_file_lock(file, &lock, timeout_ms);
}

static int lock_whole(struct afar_file *file, uint32_t mode, int timeout_ms)
{
	struct afar_lock lock = {
		.size = sizeof(lock), .mode = mode, .is_whole = 1, .owner = (uintptr_t)file};

	return afar_file_lock(file, &lock, timeout_ms);
}

static int unlock_all(struct afar_file *file, uint64_t owner)
{
	return lock_range(file, AFAR_LOCK_NONE, owner, 0, 0, 0);
}

/* ---- What the calls answer */

static void test_answers(void **state)
{
	struct afar_file *reader;
	struct afar_lock lock;

	(void)state;
	open_file(1, O_RDONLY, &reader);
	expect_error(afar_file_lock(files[0], NULL, 0), -EINVAL);
	expect_error(lock_range(files[0], 3, 1, 0, 1, 0), -EINVAL);
	expect_error(lock_range(files[0], AFAR_LOCK_SHARED, 1, INT64_MAX, 2, 0), -EINVAL);
	lock = range(AFAR_LOCK_SHARED, 1, 0, 1);
	lock.is_whole = 2;
	expect_error(afar_file_lock(files[0], &lock, 0), -EINVAL);
	lock = range(AFAR_LOCK_SHARED, 1, 0, 1);
	lock.reserved = 1;
	expect_error(afar_file_lock(files[0], &lock, 0), -EINVAL);
	expect_error(afar_file_lock_cancel(files[0], NULL), -EINVAL);
	expect_error(afar_file_lock_stat(files[0], NULL), -EINVAL);
	expect_error(lock_range(reader, AFAR_LOCK_EXCLUSIVE, 1, 0, 1, 0), -EBADF);

	assert_int_equal(lock_range(files[0], AFAR_LOCK_EXCLUSIVE, 1, 100, 100, 0), 0);
	assert_int_equal(lock_range(files[0], AFAR_LOCK_SHARED, 1, 120, 10, 0), 0);
	assert_int_equal(afar_file_nr_locks(files[0]), 3);
	assert_int_equal(afar_file_nr_locks(files[1]), 0);
	expect_error(lock_range(reader, AFAR_LOCK_SHARED, 1, 0, 0, 0), -EAGAIN);
	expect_error(lock_range(reader, AFAR_LOCK_SHARED, 1, 0, 0, 20), -ETIMEDOUT);
	assert_int_equal(lock_range(reader, AFAR_LOCK_SHARED, 1, 120, 10, -1), 0);
	expect_error(lock_range(files[0], AFAR_LOCK_EXCLUSIVE, 2, 0, 101, 0), -EAGAIN);

	lock = range(AFAR_LOCK_SHARED, 9, 0, 0);
	assert_int_equal(afar_file_lock_stat(files[2], &lock), 0);
	assert_int_equal(lock.mode, AFAR_LOCK_EXCLUSIVE);
	assert_int_equal(lock.start, 100);
	assert_int_equal(lock.length, 20);
	assert_int_equal(lock.pid, 0);
	lock = range(AFAR_LOCK_SHARED, 9, 150, 0);
	assert_int_equal(afar_file_lock_stat(files[0], &lock), 0);
	assert_int_equal(lock.start, 130);
	assert_int_equal(lock.owner, 1);
	assert_int_equal(lock.pid, 1001);
	lock = range(AFAR_LOCK_SHARED, 9, 200, 0);
	assert_int_equal(afar_file_lock_stat(files[0], &lock), 0);
	assert_int_equal(lock.mode, AFAR_LOCK_NONE);

	assert_int_equal(afar_file_close(reader), 0);
	assert_int_equal(lock_range(files[0], AFAR_LOCK_EXCLUSIVE, 1, 0, 0, 0), 0);
	assert_int_equal(afar_file_nr_locks(files[0]), 1);
	assert_int_equal(unlock_all(files[0], 1), 0);
	assert_int_equal(afar_file_nr_locks(files[0]), 0);
}

static void test_whole_files(void **state)
{
	struct afar_file *first, *second;

	(void)state;
	open_file(0, O_RDONLY, &first);
	open_file(0, O_RDONLY, &second);
	assert_int_equal(lock_whole(first, AFAR_LOCK_SHARED, 0), 0);
	assert_int_equal(lock_whole(second, AFAR_LOCK_SHARED, 0), 0);
	assert_int_equal(lock_range(files[1], AFAR_LOCK_EXCLUSIVE, 1, 0, 0, 0), 0);
	/* Its old lock is given up first. */
	expect_error(lock_whole(first, AFAR_LOCK_EXCLUSIVE, 0), -EAGAIN);
	assert_int_equal(afar_file_nr_locks(first), 0);
	assert_int_equal(lock_whole(second, AFAR_LOCK_EXCLUSIVE, 0), 0);
	expect_error(lock_whole(files[1], AFAR_LOCK_SHARED, 0), -EAGAIN);
	assert_int_equal(afar_file_close(second), 0);
	assert_int_equal(lock_whole(files[1], AFAR_LOCK_EXCLUSIVE, 0), 0);
	assert_int_equal(lock_whole(files[1], AFAR_LOCK_NONE, 0), 0);
	assert_int_equal(unlock_all(files[1], 1), 0);
	assert_int_equal(afar_file_close(first), 0);
}

/* ---- Waiting */

struct waiter {
	struct afar_file *file;
	struct afar_lock lock;
	uint32_t is_cancelled;
	int status;
};

/* Waits for the lock. If it is told of a circle, it gives up what it has. */
static void *wait_for_it(void *argument)
{
	struct waiter *waiter = argument;

	waiter->lock.is_cancelled = &waiter->is_cancelled;
	waiter->status = afar_file_lock(waiter->file, &waiter->lock, -1);
	if (waiter->status == -EDEADLK)
		unlock_all(waiter->file, waiter->lock.owner);
	return NULL;
}

static void test_cancelled(void **state)
{
	struct waiter waiter = {.file = files[1], .lock = range(AFAR_LOCK_EXCLUSIVE, 1, 0, 1)};
	pthread_t thread;

	(void)state;
	assert_int_equal(lock_range(files[0], AFAR_LOCK_EXCLUSIVE, 1, 0, 0, 0), 0);
	/* The thread waits already or is about to. */
	for (unsigned i = 0; i < 3; i++) {
		waiter.is_cancelled = 0;
		assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &waiter), 0);
		assert_int_equal(afar_file_lock_cancel(files[1], &waiter.is_cancelled), 0);
		pthread_join(thread, NULL);
		assert_int_equal(waiter.status, -EINTR);
	}
	waiter.is_cancelled = 0;
	assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &waiter), 0);
	assert_int_equal(unlock_all(files[0], 1), 0);
	pthread_join(thread, NULL);
	assert_int_equal(waiter.status, 0);
	assert_int_equal(afar_file_lock_cancel(files[1], &waiter.is_cancelled),
			 0); /* it is too late */
	expect_error(lock_range(files[0], AFAR_LOCK_SHARED, 1, 0, 1, 0), -EAGAIN);
	assert_int_equal(unlock_all(files[1], 1), 0);
}

static void test_circle(void **state)
{
	struct waiter waiter = {.file = files[1], .lock = range(AFAR_LOCK_EXCLUSIVE, 1, 0, 1)};
	pthread_t thread;
	int ret;

	(void)state;
	assert_int_equal(lock_range(files[0], AFAR_LOCK_EXCLUSIVE, 1, 0, 1, 0), 0);
	assert_int_equal(lock_range(files[1], AFAR_LOCK_EXCLUSIVE, 1, 1, 1, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &waiter), 0);
	/* One of the two is told, whoever comes last. */
	ret = lock_range(files[0], AFAR_LOCK_EXCLUSIVE, 1, 1, 1, -1);
	if (ret == -EDEADLK)
		assert_int_equal(unlock_all(files[0], 1), 0);
	pthread_join(thread, NULL);
	assert_int_equal(ret + waiter.status, -EDEADLK);
	assert_int_equal(unlock_all(files[0], 1), 0);
	assert_int_equal(unlock_all(files[1], 1), 0);
}

/* ---- The manager is killed */

/* It is told again of all that is locked, also of what waits meanwhile. */
static void test_locks_outlive_the_manager(void **state)
{
	struct waiter waiter = {.file = files[2], .lock = range(AFAR_LOCK_EXCLUSIVE, 1, 0, 30)};
	struct afar_file *closed;
	pthread_t thread;

	(void)state;
	open_file(0, O_RDWR, &closed);
	assert_int_equal(lock_range(files[0], AFAR_LOCK_EXCLUSIVE, 1, 0, 30, 0), 0);
	assert_int_equal(lock_range(files[0], AFAR_LOCK_SHARED, 1, 10, 10, 0), 0);
	assert_int_equal(lock_range(closed, AFAR_LOCK_EXCLUSIVE, 1, 50, 10, 0), 0);
	assert_int_equal(lock_whole(files[0], AFAR_LOCK_SHARED, 0), 0);
	assert_int_equal(afar_file_close(closed), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &waiter), 0);
	cluster_kill_manager(cluster);
	assert_int_equal(cluster_restart_manager(cluster), 0);
	expect_error(lock_range(files[1], AFAR_LOCK_SHARED, 1, 9, 1, 0), -EAGAIN);
	expect_error(lock_range(files[1], AFAR_LOCK_EXCLUSIVE, 1, 19, 1, 0), -EAGAIN);
	expect_error(lock_range(files[1], AFAR_LOCK_SHARED, 1, 20, 1, 0), -EAGAIN);
	expect_error(lock_whole(files[1], AFAR_LOCK_EXCLUSIVE, 0), -EAGAIN);
	assert_int_equal(lock_range(files[1], AFAR_LOCK_SHARED, 1, 10, 10, 0), 0);
	assert_int_equal(lock_range(files[1], AFAR_LOCK_SHARED, 1, 30, 0, 0), 0);
	assert_int_equal(lock_whole(files[1], AFAR_LOCK_SHARED, 0), 0);
	assert_int_equal(unlock_all(files[1], 1), 0);
	assert_int_equal(unlock_all(files[0], 1), 0);
	pthread_join(thread, NULL);
	assert_int_equal(waiter.status, 0);
}

/* ---- Many at once, while the manager is killed */

static atomic_bool is_over;
static atomic_int nr_writers[NR_BLOCKS], nr_readers[NR_BLOCKS]; /* that are in */
static atomic_ullong nr_writes, nr_steps;
static _Atomic(const char *) failure;

struct actor {
	unsigned number;
	unsigned seed;
};

static void complain(const char *what)
{
	const char *none = NULL;

	if (atomic_compare_exchange_strong(&failure, &none, what))
		is_over = true;
}

/* Counts a number in a block up, which comes out right only if nobody else does meanwhile. */
static int count_up(struct afar_file *file, unsigned block)
{
	uint64_t number = 0;
	ssize_t ret = afar_file_pread(file, &number, sizeof(number), block * (uint64_t)BLOCK);

	if (ret >= 0) {
		number++;
		ret = afar_file_pwrite(file, &number, sizeof(number), block * (uint64_t)BLOCK);
	}
	return ret < 0 ? (int)ret : 0;
}

static void be_in(const struct actor *actor, unsigned first, unsigned end, bool is_writer)
{
	struct afar_file *file = files[actor->number % NR_SESSIONS];

	for (unsigned i = first; i < end; i++) {
		atomic_fetch_add(is_writer ? &nr_writers[i] : &nr_readers[i], 1);
		if (nr_writers[i] > (is_writer ? 1 : 0) || (is_writer && nr_readers[i] != 0))
			complain("two are in that exclude each other");
	}
	if (is_writer && count_up(file, first) < 0)
		complain("counting failed");
	nr_writes += is_writer;
	for (unsigned i = first; i < end; i++)
		atomic_fetch_sub(is_writer ? &nr_writers[i] : &nr_readers[i], 1);
}

static void step(struct actor *actor)
{
	struct afar_file *file = files[actor->number % NR_SESSIONS];
	unsigned first = (unsigned)rand_r(&actor->seed) % NR_BLOCKS;
	unsigned end = first + 1 + (unsigned)rand_r(&actor->seed) % (NR_BLOCKS - first);
	bool is_writer = rand_r(&actor->seed) % 2;
	bool is_waiting = rand_r(&actor->seed) % 4 != 0;
	int ret = lock_range(file, is_writer ? AFAR_LOCK_EXCLUSIVE : AFAR_LOCK_SHARED,
			     actor->number, first * (uint64_t)BLOCK,
			     (end - first) * (uint64_t)BLOCK, is_waiting ? -1 : 0);

	if (ret == -EAGAIN && !is_waiting)
		return;
	if (ret != 0) {
		complain("locking failed");
		return;
	}
	be_in(actor, first, end, is_writer);
	if (unlock_all(file, actor->number) != 0)
		complain("unlocking failed");
	nr_steps++;
}

static void *act(void *argument)
{
	while (!is_over)
		step(argument);
	return NULL;
}

static void await_steps(uint64_t nr)
{
	uint64_t until = nr_steps + nr;

	while (nr_steps < until && !is_over)
		test_pause();
}

static void test_nobody_is_in_with_another(void **state)
{
	struct actor actors[NR_THREADS];
	pthread_t threads[NR_THREADS];
	uint64_t number, sum = 0;

	(void)state;
	for (unsigned i = 0; i < NR_THREADS; i++) {
		actors[i] = (struct actor){i, i + 1};
		assert_int_equal(pthread_create(&threads[i], NULL, act, &actors[i]), 0);
	}
	for (unsigned i = 0; i < test_effort(NR_KILLS, 4 * NR_KILLS, 100); i++) {
		await_steps(200);
		cluster_kill_manager(cluster);
		assert_int_equal(cluster_restart_manager(cluster), 0);
	}
	await_steps(200);
	is_over = true;
	for (unsigned i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	if (failure)
		fail_msg("%s", failure);
	for (unsigned i = 0; i < NR_BLOCKS; i++) {
		number = 0;
		assert_true(afar_file_pread(files[0], &number, sizeof(number),
					    i * (uint64_t)BLOCK) >= 0);
		sum += number;
	}
	assert_int_equal(sum, nr_writes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_answers, open_all, close_all),
		cmocka_unit_test_setup_teardown(test_whole_files, open_all, close_all),
		cmocka_unit_test_setup_teardown(test_cancelled, open_all, close_all),
		cmocka_unit_test_setup_teardown(test_circle, open_all, close_all),
		cmocka_unit_test_setup_teardown(test_locks_outlive_the_manager, open_all,
						close_all),
		cmocka_unit_test_setup_teardown(test_nobody_is_in_with_another, open_all,
						close_all),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
