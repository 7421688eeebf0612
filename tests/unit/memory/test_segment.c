/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments and their cache: content, alignment, refusals, reuse, limits, threads. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/shared.h"
#include "memory/available.h"
#include "memory/huge.h"
#include "memory/segment.h"
#include "unit/group.h"

#define MIB ((size_t)1 << 20)

static int is_zero(const void *memory, size_t length)
{
	const uint8_t *bytes = memory;

	return bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0;
}

/* Every page of it is there: the kernel says so, nobody has touched it. */
static int is_resident(void *memory, size_t length)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), nr_pages = length / page, i;
	unsigned char *vector = malloc(nr_pages);
	int is_all = 1;

	assert_non_null(vector);
	assert_int_equal(mincore(memory, length, vector), 0);
	for (i = 0; i < nr_pages; i++)
		is_all &= vector[i] & 1;
	free(vector);
	return is_all;
}

/* Returns whether an address is mapped at all. */
static int is_mapped(void *memory)
{
	unsigned char vector;

	return mincore(memory, 1, &vector) == 0;
}

static void test_map(void **state)
{
	static const size_t lengths[] = {2 * MIB, 6 * MIB, 130 * MIB};
	enum segment_backing backing;
	unsigned nr_threads;
	void *memory;
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		for (nr_threads = 0; nr_threads < 4; nr_threads++) {
			assert_int_equal(segment_map(lengths[i], nr_threads, &memory, &backing), 0);
			assert_int_equal((uintptr_t)memory % SEGMENT_MIN, 0);
			assert_true(is_resident(memory, lengths[i]));
			assert_true(is_zero(memory, lengths[i]));
			memset(memory, 0x5a, lengths[i]);
			segment_unmap(memory, lengths[i]);
			assert_false(is_mapped(memory));
		}
	}
}

static void test_map_shared(void **state)
{
	static const size_t lengths[] = {2 * MIB, 6 * MIB, 130 * MIB};
	void *memory, *again;
	unsigned nr_threads;
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		for (nr_threads = 0; nr_threads < 3; nr_threads++) {
			assert_int_equal(segment_map_shared(lengths[i], nr_threads, &memory), 0);
			assert_int_equal((uintptr_t)memory % SEGMENT_MIN, 0);
			assert_true(is_resident(memory, lengths[i]));
			assert_true(is_zero(memory, lengths[i]));
			memset(memory, 0x5a, lengths[i]);
			/* Each is a piece of its own, and no part of one is. */
			assert_true(shared_descriptor(memory, lengths[i]) >= 0);
			assert_int_equal(shared_descriptor(memory, lengths[i] - 4096), -1);
			assert_int_equal(segment_map_shared(2 * MIB, 1, &again), 0);
			assert_int_not_equal(shared_descriptor(again, 2 * MIB),
					     shared_descriptor(memory, lengths[i]));
			segment_unmap(again, 2 * MIB);
			segment_unmap(memory, lengths[i]);
			assert_false(is_mapped(memory));
			assert_int_equal(shared_descriptor(memory, lengths[i]), -1);
		}
	}
	assert_int_equal(segment_map_shared(4096, 1, &memory), -EINVAL);
	assert_int_equal(segment_map_shared((size_t)1 << 50, 1, &memory), -ENOMEM);
	assert_int_equal(segment_fits((uint64_t)1 << 50), -ENOMEM);
	assert_int_equal(segment_fits(2 * MIB), 0);
}

static void test_unmap_part(void **state)
{
	enum segment_backing backing;
	char *memory;

	(void)state;
	assert_int_equal(segment_map(8 * MIB, 0, (void **)&memory, &backing), 0);
	segment_unmap(memory + 2 * MIB, 4 * MIB);
	assert_true(is_mapped(memory));
	assert_false(is_mapped(memory + 2 * MIB));
	assert_false(is_mapped(memory + 6 * MIB - 1));
	assert_true(is_mapped(memory + 6 * MIB));
	segment_unmap(memory, 2 * MIB);
	segment_unmap(memory + 6 * MIB, 2 * MIB);
}

static void test_absurd(void **state)
{
	static const size_t uneven[] = {0, 1, 4096, SEGMENT_MIN - 1, SEGMENT_MIN + 4096, SIZE_MAX};
	uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
	/* Whatever others free meanwhile. */
	uint64_t more_than_there_is =
		2 * pages * (uint64_t)getpagesize() / SEGMENT_MIN * SEGMENT_MIN;
	const size_t absurd[] = {SIZE_MAX / SEGMENT_MIN * SEGMENT_MIN, (size_t)1 << 62,
				 (size_t)1 << 46, more_than_there_is};
	enum segment_backing backing;
	struct segment_cache *cache;
	void *memory;
	int is_fresh;
	size_t i;

	(void)state;
	assert_int_equal(segment_cache_open(UINT64_MAX, &cache), 0);
	for (i = 0; i < sizeof(uneven) / sizeof(*uneven); i++) {
		assert_int_equal(segment_map(uneven[i], 0, &memory, &backing), -EINVAL);
		assert_int_equal(segment_cache_take(cache, uneven[i], &memory, &is_fresh), -EINVAL);
	}
	for (i = 0; i < sizeof(absurd) / sizeof(*absurd); i++) {
		assert_int_equal(segment_map(absurd[i], 0, &memory, &backing), -ENOMEM);
		assert_int_equal(segment_cache_take(cache, absurd[i], &memory, &is_fresh), -ENOMEM);
	}
	/* None of these left a promise behind that would be in the way of others. */
	assert_int_equal(segment_map(2 * MIB, 0, &memory, &backing), 0);
	segment_unmap(memory, 2 * MIB);
	segment_cache_close(cache);
}

static void test_scrub(void **state)
{
	enum segment_backing backing;
	uint8_t *memory;

	(void)state;
	assert_int_equal(segment_map(6 * MIB, 0, (void **)&memory, &backing), 0);
	memset(memory, 0xa5, 6 * MIB);
	segment_scrub(memory + 2 * MIB, 2 * MIB);
	assert_true(is_zero(memory + 2 * MIB, 2 * MIB));
	assert_int_equal(memory[2 * MIB - 1], 0xa5);
	assert_int_equal(memory[4 * MIB], 0xa5);
	segment_unmap(memory, 6 * MIB);
}

static void *take(struct segment_cache *cache, size_t length, int expect_fresh)
{
	void *memory;
	int is_fresh;

	assert_int_equal(segment_cache_take(cache, length, &memory, &is_fresh), 0);
	assert_int_equal(is_fresh, expect_fresh);
	return memory;
}

static void test_cache_best_fit(void **state)
{
	struct segment_cache_stat stat;
	struct segment_cache *cache;
	char *large, *middle, *small, *got;

	(void)state;
	assert_int_equal(segment_cache_open(UINT64_MAX, &cache), 0);
	large = take(cache, 16 * MIB, 1);
	middle = take(cache, 8 * MIB, 1);
	small = take(cache, 2 * MIB, 1);
	/* Neighbours by chance would be one piece: keep them apart. */
	segment_unmap(large + 14 * MIB, 2 * MIB);
	segment_unmap(middle + 6 * MIB, 2 * MIB);
	segment_cache_give(cache, large, 14 * MIB);
	segment_cache_give(cache, middle, 6 * MIB);
	segment_cache_give(cache, small, 2 * MIB);
	assert_int_equal(segment_cache_bytes(cache), 22 * MIB);

	/* 4 MiB: the middle one is the best fit, and is split. */
	got = take(cache, 4 * MIB, 0);
	assert_ptr_equal(got, middle);
	assert_int_equal(segment_cache_bytes(cache), 18 * MIB);
	assert_true(take(cache, 14 * MIB, 0) == (void *)large);
	/* Memory that was split and comes back is whole again. */
	segment_cache_give(cache, got, 4 * MIB);
	assert_true(take(cache, 6 * MIB, 0) == (void *)middle);
	assert_int_equal(segment_cache_bytes(cache), 2 * MIB);
	segment_cache_stat(cache, &stat);
	assert_int_equal(stat.nr_hits, 3);
	assert_int_equal(stat.nr_misses, 3);
	assert_int_equal(stat.bytes, 2 * MIB);
	assert_true(stat.bytes_max == UINT64_MAX);

	segment_unmap(middle, 6 * MIB);
	segment_unmap(large, 14 * MIB);
	segment_cache_close(cache);
	assert_false(is_mapped(small));
}

static void test_cache_keeps_content(void **state)
{
	struct segment_cache *cache;
	char *memory;

	(void)state;
	assert_int_equal(segment_cache_open(4 * MIB, &cache), 0);
	memory = take(cache, 4 * MIB, 1);
	memset(memory, 7, 4 * MIB);
	segment_cache_give(cache, memory, 4 * MIB);
	memory = take(cache, 4 * MIB, 0);
	assert_int_equal(memory[4 * MIB - 1], 7);
	segment_cache_give(cache, memory, 4 * MIB);
	segment_cache_close(cache);
}

static void test_cache_limit(void **state)
{
	struct segment_cache *cache;
	char *first, *second, *third;

	(void)state;
	assert_int_equal(segment_cache_open(10 * MIB, &cache), 0);
	first = take(cache, 6 * MIB, 1);
	second = take(cache, 6 * MIB, 1);
	third = take(cache, 14 * MIB, 1);
	segment_unmap(first + 4 * MIB, 2 * MIB);
	segment_unmap(second + 4 * MIB, 2 * MIB);
	segment_unmap(third + 12 * MIB, 2 * MIB);

	segment_cache_give(cache, first, 4 * MIB);
	segment_cache_give(cache, second, 4 * MIB);
	assert_int_equal(segment_cache_bytes(cache), 8 * MIB);
	/* The oldest go, and what is longer than the limit is kept up to it. */
	segment_cache_give(cache, third, 12 * MIB);
	assert_int_equal(segment_cache_bytes(cache), 10 * MIB);
	assert_false(is_mapped(first));
	assert_false(is_mapped(second));
	assert_true(is_mapped(third));
	assert_false(is_mapped(third + 10 * MIB));
	segment_cache_close(cache);

	assert_int_equal(segment_cache_open(0, &cache), 0);
	first = take(cache, 2 * MIB, 1);
	segment_cache_give(cache, first, 2 * MIB);
	assert_int_equal(segment_cache_bytes(cache), 0);
	assert_false(is_mapped(first));
	segment_cache_close(cache);
}

#define NR_THREADS 4
#define NR_TURNS   60

struct worker {
	pthread_t thread;
	struct segment_cache *cache;
	unsigned number;
	int nr_wrong;
};

/* Takes, marks, checks and gives back; a segment that two hold at once shows a foreign mark. */
static void *worker_run(void *argument)
{
	struct worker *worker = argument;
	unsigned random = worker->number + 1, turn;
	size_t length[3], i, offset;
	int is_fresh;
	char *held[3];

	for (turn = 0; turn < NR_TURNS; turn++) {
		for (i = 0; i < 3; i++) {
			random = random * 1103515245U + 12345U;
			length[i] = (1 + (random >> 16) % 4) * SEGMENT_MIN;
			if (segment_cache_take(worker->cache, length[i], (void **)&held[i],
					       &is_fresh) != 0) {
				worker->nr_wrong++;
				length[i] = 0;
			}
			for (offset = 0; offset < length[i]; offset += 4096)
				held[i][offset] = (char)(worker->number * 3 + i + 1);
		}
		for (i = 0; i < 3; i++) {
			for (offset = 0; offset < length[i]; offset += 4096)
				worker->nr_wrong +=
					held[i][offset] != (char)(worker->number * 3 + i + 1);
			if (length[i] > 0)
				segment_cache_give(worker->cache, held[i], length[i]);
		}
	}
	return NULL;
}

static void test_cache_threads(void **state)
{
	struct worker workers[NR_THREADS];
	struct segment_cache *cache;
	unsigned i;

	(void)state;
	assert_int_equal(segment_cache_open(32 * MIB, &cache), 0);
	for (i = 0; i < NR_THREADS; i++) {
		workers[i] = (struct worker){.cache = cache, .number = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]),
				 0);
	}
	for (i = 0; i < NR_THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].nr_wrong, 0);
	}
	assert_true(segment_cache_bytes(cache) <= 32 * MIB);
	segment_cache_close(cache);
}

static void test_available(void **state)
{
	uint64_t limit = memory_limit();

	(void)state;
	assert_true(limit > 0);
	assert_true(memory_available() > 0);
	assert_true(memory_available() <=
		    (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
	assert_true(limit <= (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
}

/* Sums up what the kernel tells of each mapping. */
static uint64_t huge_bytes_by_mapping(void)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long long kib;
	uint64_t bytes = 0;
	char line[512];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "AnonHugePages: %llu kB", &kib) == 1 ||
		    sscanf(line, "Private_Hugetlb: %llu kB", &kib) == 1)
			bytes += (uint64_t)kib << 10;
	fclose(file);
	return bytes;
}

/* Memory that is asked for huge pages, and gets some, is counted as long as it is there. */
static void test_huge_bytes(void **state)
{
	uint64_t before = memory_huge_measure();
	enum segment_backing backing;
	void *memory;

	(void)state;
	assert_int_equal(segment_map(32 * MIB, 1, &memory, &backing), 0);
	assert_int_equal(memory_huge_measure(), huge_bytes_by_mapping());
	if (backing == SEGMENT_HUGETLB)
		assert_int_equal(memory_huge_measure(), before + 32 * MIB);
	segment_unmap(memory, 32 * MIB);
	assert_int_equal(memory_huge_measure(), huge_bytes_by_mapping());
	assert_int_equal(memory_huge_bytes(), huge_bytes_by_mapping());
}

TEST_GROUP(segment)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map),
		cmocka_unit_test(test_map_shared),
		cmocka_unit_test(test_unmap_part),
		cmocka_unit_test(test_absurd),
		cmocka_unit_test(test_scrub),
		cmocka_unit_test(test_cache_best_fit),
		cmocka_unit_test(test_cache_keeps_content),
		cmocka_unit_test(test_cache_limit),
		cmocka_unit_test(test_cache_threads),
		cmocka_unit_test(test_available),
		cmocka_unit_test(test_huge_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
