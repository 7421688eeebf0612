/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that read ahead, of a server that does not answer: others go on, and files are closed. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/files/file.h"
#include "unit/group.h"

#define REQUEST	  ((size_t)64 << 10)
#define AWAY	  1U   /* the inode whose server may be away */
#define NR_WARM	  128U /* reads after which the window is as long as it gets */
#define NR_BEHIND 32U  /* of what is there by then */
#define NR_FILLS  2U   /* that a file may have under way */

static struct afar_region pool;
static struct afar_fs fs;
static struct file_inode *away, *there;
static sem_t answers, begun, ended;
static atomic_bool is_away;
static bool is_promised; /* by nobody */

uint64_t __real_fs_promise_quiet(struct afar_fs *of, uint64_t ino, int timeout_ms);
uint64_t __wrap_fs_promise_quiet(struct afar_fs *of, uint64_t ino, int timeout_ms);

uint64_t __wrap_fs_promise_quiet(struct afar_fs *of, uint64_t ino, int timeout_ms)
{
	return is_promised ? 1 : __real_fs_promise_quiet(of, ino, timeout_ms);
}

uint64_t __real_attr_cache_since(struct attr_cache *cache, uint64_t ino);
uint64_t __wrap_attr_cache_since(struct attr_cache *cache, uint64_t ino);

uint64_t __wrap_attr_cache_since(struct attr_cache *cache, uint64_t ino)
{
	return is_promised ? 1 : __real_attr_cache_since(cache, ino);
}

/* Fills a block; of `away` when its server answers. */
static ssize_t read_ahead(struct file_inode *inode, void *data, size_t length, uint64_t offset)
{
	(void)offset;
	if (inode->ino != AWAY)
		sem_post(&ended);
	if (inode->ino == AWAY && atomic_load(&is_away)) {
		sem_post(&begun);
		sem_wait(&answers);
	}
	((char *)data)[length - 1] = 'x';
	return (ssize_t)length;
}

static int setup(void **state)
{
	(void)state;
	fs = (struct afar_fs){.region = &pool};
	pthread_mutex_init(&fs.lock, NULL);
	pthread_cond_init(&fs.changed, NULL);
	for (unsigned i = 0; i < FS_BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&fs.inodes[i]);
	writes_init(&fs.writes);
	attr_cache_init(&fs.attr_cache);
	fs_streams_init(&fs.streams);
	sem_init(&answers, 0, 0);
	sem_init(&begun, 0, 0);
	sem_init(&ended, 0, 0);
	away = inode_get(&fs, AWAY);
	there = inode_get(&fs, AWAY + 1);
	away->size = there->size = (uint64_t)1 << 30;
	is_promised = true;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fs_streams_await(&fs.streams);
	fs_streams_end(&fs.streams);
	is_promised = false;
	sem_destroy(&ended);
	sem_destroy(&begun);
	sem_destroy(&answers);
	attr_cache_free(&fs.attr_cache);
	writes_free(&fs.writes);
	pthread_cond_destroy(&fs.changed);
	pthread_mutex_destroy(&fs.lock);
	return 0;
}

#define STREAM_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static bool read_one(struct afar_file *file, unsigned i)
{
	static char data[REQUEST];

	return file_stream_read(file, data, REQUEST, (uint64_t)i * REQUEST, read_ahead);
}

/* Waits until all is there that is wanted. */
static void await_threads(void)
{
	bool are_idle = false;

	while (!are_idle) {
		sched_yield();
		pthread_mutex_lock(&fs.streams.lock);
		are_idle = fs.streams.nr_idle == fs.streams.nr_threads &&
			   cds_list_empty(&fs.streams.waiting);
		pthread_mutex_unlock(&fs.streams.lock);
	}
}

/* The server goes away when the file is being read, and threads wait for it. */
static void begin_waiting(struct afar_file *file)
{
	for (unsigned i = 0; i < NR_WARM; i++) {
		read_one(file, i);
		await_threads();
	}
	atomic_store(&is_away, true);
	for (unsigned i = NR_WARM; i < NR_WARM + NR_BEHIND; i++)
		assert_true(read_one(file, i));
	for (unsigned i = 0; i < NR_FILLS; i++)
		sem_wait(&begun);
}

static void answer(void)
{
	atomic_store(&is_away, false);
	for (unsigned i = 0; i < NR_FILLS; i++)
		sem_post(&answers);
}

/* A file whose server is away does not take all threads. */
static void leaves_threads_to_others(void **state)
{
	struct afar_file stuck = {.fs = &fs, .inode = away}, other = {.fs = &fs, .inode = there};

	(void)state;
	begin_waiting(&stuck);
	for (unsigned i = 0; i < 2; i++)
		read_one(&other, i);
	sem_wait(&ended);
	assert_int_equal(sem_trywait(&begun), -1);
	file_stream_end(&other);
	answer();
	/* It goes on. */
	await_threads();
	assert_true(read_one(&stuck, NR_WARM + NR_BEHIND));
	file_stream_end(&stuck);
	inode_put(there);
	inode_put(away);
}

/* Closing a file waits for no server; the memory stays until that has answered. */
static void closes_while_it_is_filled(void **state)
{
	struct afar_file stuck = {.fs = &fs, .inode = away};

	(void)state;
	begin_waiting(&stuck);
	file_stream_end(&stuck);
	inode_put(away);
	inode_put(there);
	answer();
	fs_streams_await(&fs.streams);
	assert_int_equal(fs.streams.nr_left, 0);
}

TEST_GROUP(file_stream)
{
	const struct CMUnitTest tests[] = {
		STREAM_TEST(leaves_threads_to_others),
		STREAM_TEST(closes_while_it_is_filled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
