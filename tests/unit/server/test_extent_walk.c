/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool of extents at random: a walk against a model, and several threads at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "lib/server/extent_bed.h"
#include "unit/group.h"

/* ---- A random walk: the model knows who has what, and every extent bears its holder's mark. */

#define WALK_CAPACITY (64 * MIB)
#define WALK_STEPS    400
#define WALK_HELD_MAX 64

static unsigned random_below(unsigned *state, unsigned limit)
{
	*state = *state * 1103515245U + 12345U;
	return (*state >> 16) % limit;
}

static uint64_t mark_of(const struct extent_info *extent)
{
	return extent->extent * 0x9e3779b97f4a7c15U ^ extent->namespace;
}

/* First and last word: somebody else's extent over this one would touch one of them, or be found by
 * its own. */
static void mark(struct extent_bed *bed, const struct extent_info *extent)
{
	uint64_t word = mark_of(extent), zero[2] = {1, 1};

	assert_int_equal(extent_bed_transfer(bed, extent, 0, &zero[0], 8, 0), 0);
	assert_int_equal(extent_bed_transfer(bed, extent, 0, &zero[1], 8, extent->length - 8), 0);
	assert_true(zero[0] == 0 && zero[1] == 0);
	assert_int_equal(extent_bed_transfer(bed, extent, 1, &word, 8, 0), 0);
	assert_int_equal(extent_bed_transfer(bed, extent, 1, &word, 8, extent->length - 8), 0);
}

static void check_mark(struct extent_bed *bed, const struct extent_info *extent)
{
	uint64_t words[2] = {0, 0};

	assert_int_equal(extent_bed_transfer(bed, extent, 0, &words[0], 8, 0), 0);
	assert_int_equal(extent_bed_transfer(bed, extent, 0, &words[1], 8, extent->length - 8), 0);
	assert_true(words[0] == mark_of(extent) && words[1] == mark_of(extent));
}

static void check_listed(struct extent_bed *bed, const struct extent_info *held, size_t nr_held)
{
	struct extent_info *listed;
	size_t nr_listed, i, j;

	assert_int_equal(extent_pool_list(bed->pool, &listed, &nr_listed), 0);
	assert_int_equal(nr_listed, nr_held);
	for (i = 0; i < nr_held; i++) {
		for (j = 0; j < nr_listed; j++) {
			if (memcmp(&held[i], &listed[j], sizeof(held[i])) == 0)
				break;
		}
		assert_true(j < nr_listed);
	}
	free(listed);
}

static void walk(uint64_t pool_bytes, unsigned random)
{
	struct extent_info held[WALK_HELD_MAX], *got;
	uint64_t granted = 0, bytes;
	size_t nr_held = 0, nr_got, i;
	struct extent_bed bed;
	int status;

	extent_bed_open(&bed, WALK_CAPACITY, pool_bytes);
	for (unsigned step = 0; step < WALK_STEPS; step++) {
		if (random_below(&random, 2) == 0) {
			bytes = (1 + random_below(&random, 12)) * 2 * MIB;
			status = extent_pool_reserve(bed.pool, 1 + random_below(&random, 3), bytes,
						     CLOCK_NEVER, &got, &nr_got);
			assert_int_equal(status, granted + bytes <= WALK_CAPACITY ? 0 : -ENOSPC);
			if (status != 0)
				continue;
			assert_true(nr_held + nr_got <= WALK_HELD_MAX);
			for (i = 0; i < nr_got; i++) {
				mark(&bed, &got[i]);
				held[nr_held++] = got[i];
				granted += got[i].length;
				bytes -= got[i].length;
			}
			assert_int_equal(bytes, 0);
			free(got);
		} else if (nr_held > 0) {
			i = random_below(&random, (unsigned)nr_held);
			check_mark(&bed, &held[i]);
			granted -= held[i].length;
			extent_bed_settle(&bed);
			assert_int_equal(extent_pool_release(bed.pool, &held[i].extent, 1), 1);
			held[i] = held[--nr_held];
		}
		assert_int_equal(extent_bed_stat(&bed).granted_bytes, granted);
		assert_true(granted + extent_bed_stat(&bed).clean_bytes <= WALK_CAPACITY);
		if (step % 50 == 0)
			check_listed(&bed, held, nr_held);
	}
	for (i = 0; i < nr_held; i++)
		check_mark(&bed, &held[i]);
	extent_bed_close(&bed);
}

static void test_walk(void **state)
{
	(void)state;
	walk(0, 1);
	walk(8 * MIB, 2);
}

/* ---- Several threads reserve and release at once */

#define NR_THREADS 4
#define NR_TURNS   50

struct worker {
	pthread_t thread;
	struct extent_bed *bed;
	unsigned number;
	int nr_wrong;
};

static void *worker_run(void *argument)
{
	struct worker *worker = argument;
	unsigned random = worker->number + 1;
	struct extent_info *got;
	size_t nr_got, i;
	uint64_t bytes;
	int status;

	for (unsigned turn = 0; turn < NR_TURNS; turn++) {
		/* Together at most the capacity: each must always succeed. */
		bytes = (1 + random_below(&random, 4)) * 2 * MIB;
		status = extent_pool_reserve(worker->bed->pool, worker->number + 1, bytes,
					     CLOCK_NEVER, &got, &nr_got);
		if (status != 0) {
			worker->nr_wrong++;
			continue;
		}
		for (i = 0; i < nr_got; i++)
			worker->nr_wrong +=
				extent_pool_release(worker->bed->pool, &got[i].extent, 1) != 1;
		free(got);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct worker workers[NR_THREADS];
	struct extent_bed bed;
	unsigned i;

	(void)state;
	extent_bed_open(&bed, NR_THREADS * 8 * MIB, 0);
	for (i = 0; i < NR_THREADS; i++) {
		workers[i] = (struct worker){.bed = &bed, .number = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]),
				 0);
	}
	for (i = 0; i < NR_THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].nr_wrong, 0);
	}
	assert_int_equal(extent_bed_stat(&bed).granted_bytes, 0);
	extent_bed_await_scrubbed(&bed);
	extent_bed_close(&bed);
}

TEST_GROUP(extent_walk)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walk),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
