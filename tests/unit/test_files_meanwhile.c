/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program is told that its bytes are durable, or that they are in the file, although another thread synced or another session
 * cut the file meanwhile. Each case happens at its worst moment here, because the seam below waits for it.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/fs_call.h"
#include "group.h"

#define LAYOUT	5U
#define NR_LATE 2U /* threads that sync while another one's sync runs */

static struct afar_namespace ns;
static struct afar_region pool;
static struct afar_fs fs;
static struct file_inode inode;

/* ---- The seams. NULL: calls go where they went. */

static int (*meanwhile_sync)(void);
static int (*meanwhile_hold)(const Afar__FileHold *operation);
static sem_t *waits; /* threads that are about to wait */

int __real_target_sync(struct afar_target *target);
int __wrap_target_sync(struct afar_target *target);
int __real_pthread_cond_wait(pthread_cond_t *changed, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *changed, pthread_mutex_t *lock);
int __real_fs_hold_one(struct afar_fs *of, const struct fs_who *who, Afar__FileHold *operation,
		       struct fs_answer *out);
int __wrap_fs_hold_one(struct afar_fs *of, const struct fs_who *who, Afar__FileHold *operation,
		       struct fs_answer *out);

int __wrap_target_sync(struct afar_target *target)
{
	return meanwhile_sync ? meanwhile_sync() : __real_target_sync(target);
}

/* The lock is held until the thread waits, so whoever takes it next finds the thread waiting. */
int __wrap_pthread_cond_wait(pthread_cond_t *changed, pthread_mutex_t *lock)
{
	if (waits && changed == &fs.changed)
		sem_post(waits);
	return __real_pthread_cond_wait(changed, lock);
}

int __wrap_fs_hold_one(struct afar_fs *of, const struct fs_who *who, Afar__FileHold *operation,
		       struct fs_answer *out)
{
	return meanwhile_hold ? meanwhile_hold(operation)
			      : __real_fs_hold_one(of, who, operation, out);
}

static int setup(void **state)
{
	(void)state;
	pool.target.is_flash = true;
	fs = (struct afar_fs){.ns = &ns, .region = &pool};
	writes_init(&fs.writes);
	pthread_mutex_init(&fs.lock, NULL);
	pthread_cond_init(&fs.changed, NULL);
	inode = (struct file_inode){.ino = 7, .fs = &fs, .layout = LAYOUT};
	pthread_mutex_init(&inode.lock, NULL);
	pthread_cond_init(&inode.told, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	meanwhile_sync = NULL;
	meanwhile_hold = NULL;
	pthread_cond_destroy(&inode.told);
	pthread_mutex_destroy(&inode.lock);
	pthread_cond_destroy(&fs.changed);
	pthread_mutex_destroy(&fs.lock);
	writes_free(&fs.writes);
	return 0;
}

#define MEANWHILE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- Syncs. The first one has made durable what was written before it, and then others begin. */

static struct {
	unsigned nr_syncs; /* of the pool */
	unsigned nr_at_end[NR_LATE];
	int status; /* of the second sync */
	int ended[NR_LATE];
	pthread_t threads[NR_LATE];
	sem_t waiting;
} late;

static void *sync_late(void *number)
{
	const uintptr_t i = (uintptr_t)number;

	late.ended[i] = fs_sync_pool(&fs);
	late.nr_at_end[i] = late.nr_syncs;
	return NULL;
}

static int begin_others(void)
{
	if (++late.nr_syncs > 1)
		return late.status;
	for (uintptr_t i = 0; i < NR_LATE; i++)
		assert_int_equal(pthread_create(&late.threads[i], NULL, sync_late, (void *)i), 0);
	for (unsigned i = 0; i < NR_LATE; i++)
		sem_wait(&late.waiting);
	return 0;
}

static void sync_with_others(int status)
{
	late.nr_syncs = 0;
	late.status = status;
	sem_init(&late.waiting, 0, 0);
	waits = &late.waiting;
	meanwhile_sync = begin_others;
	assert_int_equal(fs_sync_pool(&fs), 0);
	for (unsigned i = 0; i < NR_LATE; i++)
		pthread_join(late.threads[i], NULL);
	waits = NULL;
	sem_destroy(&late.waiting);
	/* They have synced anew, once for both. */
	assert_int_equal(late.nr_syncs, 2);
	for (unsigned i = 0; i < NR_LATE; i++) {
		assert_int_equal(late.nr_at_end[i], 2);
		assert_int_equal(late.ended[i], status);
	}
}

static void joins_no_sync_that_has_begun(void **state)
{
	(void)state;
	sync_with_others(0);
	/* So the end of the second is theirs, and not that of the first. */
	sync_with_others(-ENOMEM);
}

/* ---- Ends. The manager is told of one, and its answer comes when the file is another. */

static uint64_t told_end;
static unsigned nr_told;
static bool is_cut;

static int tell(const Afar__FileHold *operation)
{
	told_end = operation->end->end;
	nr_told++;
	if (is_cut)
		inode.layout++;
	return 0;
}

static void writes_again_what_was_cut_meanwhile(void **state)
{
	(void)state;
	nr_told = 0;
	meanwhile_hold = tell;
	is_cut = false;
	assert_int_equal(inode_tell_end(&inode, 100, LAYOUT), 0);
	assert_int_equal(told_end, 100);
	assert_int_equal(inode.size, 100);
	is_cut = true;
	assert_int_equal(inode_tell_end(&inode, 200, LAYOUT), -ESTALE);
	assert_int_equal(inode.size, 100);
	/* It was cut before the manager was told: that one is not. */
	assert_int_equal(inode_tell_end(&inode, 300, LAYOUT), -ESTALE);
	assert_int_equal(nr_told, 2);
	is_cut = false;
	assert_int_equal(inode_tell_end(&inode, 300, LAYOUT + 1), 0);
	assert_int_equal(inode.size, 300);
}

TEST_GROUP(files_meanwhile)
{
	const struct CMUnitTest tests[] = {
		MEANWHILE_TEST(joins_no_sync_that_has_begun),
		MEANWHILE_TEST(writes_again_what_was_cut_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
