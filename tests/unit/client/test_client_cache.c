/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading through a program's cache. The source is this test: it knows each byte, counts what is read of it, and fails at times. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/cache/cache.h"
#include "lib/base/effort.h"
#include "unit/group.h"

#define LENGTH	   ((uint64_t)1000 * CACHE_BLOCK + 77)
#define READ_MAX   ((size_t)300 * CACHE_BLOCK) /* more than a piece */
#define NR_THREADS 4U

static struct afar_cache cache;
static atomic_uint nr_reads, fails_each; /* 0: never */
static atomic_bool holds_up;

static uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)(offset * 31 + offset / CACHE_BLOCK * 7);
}

static uint64_t nr_shared(void)
{
	uint64_t nr = 0;

	for (unsigned i = 0; i < cache.nr_shards; i++) {
		struct cache_stat stat;

		pthread_mutex_lock(&cache.shards[i].lock);
		cache_stat(cache.shards[i].table, &stat);
		pthread_mutex_unlock(&cache.shards[i].lock);
		nr += stat.nr_shared;
	}
	return nr;
}

static int read_source(void *argument, void *data, size_t length, uint64_t offset)
{
	const unsigned each = atomic_load(&fails_each);
	const unsigned nr = atomic_fetch_add(&nr_reads, 1) + 1;

	(void)argument;
	assert_true(length > 0 && offset + length <= LENGTH);
	while (atomic_load(&holds_up) && nr_shared() < NR_THREADS - 1)
		sched_yield();
	if (each != 0 && nr % each == 0)
		return -EIO;
	for (size_t i = 0; i < length; i++)
		((uint8_t *)data)[i] = byte_at(offset + i);
	return 0;
}

static const struct cache_source source = {.range = 7, .length = LENGTH, .read = read_source};

static void begin(uint64_t nr_pages)
{
	memset(&cache, 0, sizeof(cache));
	assert_int_equal(cache_begin(&cache, nr_pages * CACHE_BLOCK), 0);
	atomic_store(&nr_reads, 0);
	atomic_store(&fails_each, 0);
	atomic_store(&holds_up, false);
}

/* Returns 0 or the error, having looked at each byte and at those beside them. */
static int read_and_look(uint8_t *memory, size_t length, uint64_t offset)
{
	int ret;

	memory[0] = memory[length + 1] = 0xee;
	ret = cache_read(&cache, &source, memory + 1, length, offset);
	assert_int_equal(memory[0], 0xee);
	assert_int_equal(memory[length + 1], 0xee);
	for (size_t i = 0; i < length && ret == 0; i++)
		if (memory[i + 1] != byte_at(offset + i))
			fail_msg("byte %zu of %zu at %llu is wrong", i, length,
				 (unsigned long long)offset);
	return ret;
}

static void reads_what_is_missing_alone(void **state)
{
	uint8_t *memory = malloc(READ_MAX + 2);

	(void)state;
	assert_non_null(memory);
	begin(2048);
	/* A part of a page brings all of it. */
	assert_int_equal(read_and_look(memory, 10, 5 * CACHE_BLOCK + 100), 0);
	assert_int_equal(read_and_look(memory, CACHE_BLOCK, 5 * CACHE_BLOCK), 0);
	assert_int_equal(atomic_load(&nr_reads), 1);
	/* Neighbours come as one, but for those that are there. */
	assert_int_equal(read_and_look(memory, 10 * CACHE_BLOCK, 0), 0);
	assert_int_equal(atomic_load(&nr_reads), 3);
	assert_int_equal(read_and_look(memory, 10 * CACHE_BLOCK, 0), 0);
	assert_int_equal(atomic_load(&nr_reads), 3);
	/* The last page is shorter. */
	assert_int_equal(read_and_look(memory, 77, LENGTH - 77), 0);
	assert_int_equal(read_and_look(memory, 1, LENGTH - 1), 0);
	assert_int_equal(atomic_load(&nr_reads), 4);
	cache_end(&cache);
	free(memory);
}

static void keeps_no_page_that_failed(void **state)
{
	uint8_t memory[2 * CACHE_BLOCK + 2];

	(void)state;
	begin(64);
	atomic_store(&fails_each, 1);
	assert_int_equal(read_and_look(memory, sizeof(memory) - 2, 0), -EIO);
	assert_int_equal(read_and_look(memory, 3, 9), -EIO);
	atomic_store(&fails_each, 0);
	assert_int_equal(read_and_look(memory, sizeof(memory) - 2, 0), 0);
	cache_end(&cache);
}

static void *read_one(void *argument)
{
	uint8_t memory[102];

	*(int *)argument = read_and_look(memory, 100, 3 * CACHE_BLOCK + 50);
	return NULL;
}

/* Its first read goes on when all the others wait for it. */
static void read_at_once(unsigned fails, unsigned expected_reads, int nr_errors)
{
	pthread_t threads[NR_THREADS];
	int results[NR_THREADS];

	begin(64);
	atomic_store(&fails_each, fails);
	atomic_store(&holds_up, true);
	for (unsigned i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_one, &results[i]), 0);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		nr_errors -= results[i] != 0;
	}
	assert_int_equal(atomic_load(&nr_reads), expected_reads);
	assert_int_equal(nr_errors, 0);
	cache_end(&cache);
}

static void reads_a_page_once_for_all(void **state)
{
	(void)state;
	read_at_once(0, 1, 0);
	/* Those who waited try it themselves, each for its own bytes. */
	read_at_once(1, NR_THREADS, NR_THREADS);
}

struct reader {
	pthread_t thread;
	unsigned seed, nr_rounds, nr_errors;
};

static void *read_anything(void *argument)
{
	struct reader *reader = argument;
	uint8_t *memory = malloc(READ_MAX + 2);

	assert_non_null(memory);
	for (unsigned i = 0; i < reader->nr_rounds; i++) {
		const uint64_t offset = (uint64_t)rand_r(&reader->seed) % LENGTH;
		const size_t most = rand_r(&reader->seed) % 2 ? 600 : READ_MAX;
		size_t length = (size_t)rand_r(&reader->seed) % most + 1;

		if (length > LENGTH - offset)
			length = LENGTH - offset;
		reader->nr_errors += read_and_look(memory, length, offset) != 0;
	}
	free(memory);
	return NULL;
}

/* From a cache of fewer pages than a piece has, to one that has room for all. */
static void threads_read_anything(void **state)
{
	const uint64_t sizes[] = {16, 100, 700, 8192};

	(void)state;
	for (unsigned i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct reader readers[NR_THREADS] = {0};
		unsigned nr_errors = 0;

		begin(sizes[i / 2]);
		atomic_store(&fails_each, i % 2 ? 13 : 0);
		for (unsigned k = 0; k < NR_THREADS; k++) {
			readers[k].seed = 100 * i + k;
			readers[k].nr_rounds = (unsigned)test_effort(30, 300, 30000);
			assert_int_equal(pthread_create(&readers[k].thread, NULL, read_anything,
							&readers[k]),
					 0);
		}
		for (unsigned k = 0; k < NR_THREADS; k++) {
			assert_int_equal(pthread_join(readers[k].thread, NULL), 0);
			nr_errors += readers[k].nr_errors;
		}
		assert_int_equal(nr_errors != 0, i % 2);
		cache_end(&cache);
	}
}

TEST_GROUP(client_cache)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_is_missing_alone),
		cmocka_unit_test(keeps_no_page_that_failed),
		cmocka_unit_test(reads_a_page_once_for_all),
		cmocka_unit_test(threads_read_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
