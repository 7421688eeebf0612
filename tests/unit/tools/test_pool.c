/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool's threads do all jobs, keep what waits little, and do what was held back last; and the set of inodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/files/inodes.h"
#include "tools/files/pool.h"
#include "unit/group.h"

#define NR_WORK	 100U /* that a listing makes */
#define DEPTH	 4    /* of listings, each making two */
#define WAIT_MS	 1000
#define NR_LISTS 15U /* 1 + 2 + 4 + 8 */

struct world {
	struct pool pool;
	atomic_uint nr_worked, nr_listed, nr_rests, most_waiting;
	bool is_held_back; /* work that waits for the end of all listings; under the pool's lock */
};

struct list {
	struct pool_job job;
	struct world *world;
	int depth;
};

static void work(struct pool_job *job, struct pool_worker *worker)
{
	struct world *world = worker->pool->context;

	memset(worker->buffer, 1, worker->pool->buffer_bytes);
	atomic_fetch_add(&world->nr_worked, 1);
	free(job);
}

static void work_rest(struct pool_job *job, struct pool_worker *worker)
{
	struct world *world = worker->pool->context;

	assert_int_equal(atomic_load(&world->nr_listed), NR_LISTS);
	atomic_fetch_add(&world->nr_rests, 1);
	free(job);
}

static struct pool_job *make_job(void (*run)(struct pool_job *job, struct pool_worker *worker))
{
	struct pool_job *job = calloc(1, sizeof(*job));

	assert_non_null(job);
	job->run = run;
	return job;
}

static void add_list(struct world *world, int depth);

static void list(struct pool_job *job, struct pool_worker *worker)
{
	struct list *self = (struct list *)job;
	struct world *world = self->world;

	for (unsigned i = 0; i < NR_WORK; i++) {
		pool_add_work(&world->pool, make_job(work));
		pool_relieve(worker);
		pthread_mutex_lock(&world->pool.lock);
		if (world->pool.nr_waiting > atomic_load(&world->most_waiting))
			atomic_store(&world->most_waiting, world->pool.nr_waiting);
		pthread_mutex_unlock(&world->pool.lock);
	}
	for (int i = 0; self->depth > 1 && i < 2; i++)
		add_list(world, self->depth - 1);
	atomic_fetch_add(&world->nr_listed, 1);
	free(self);
}

static void add_list(struct world *world, int depth)
{
	struct list *self = calloc(1, sizeof(*self));

	assert_non_null(self);
	*self = (struct list){.job = {.run = list}, .world = world, .depth = depth};
	pool_add_list(&world->pool, &self->job);
}

static struct pool_job *take_rest(void *context)
{
	struct world *world = context;
	bool was_held_back = world->is_held_back;

	world->is_held_back = false;
	return was_held_back ? make_job(work_rest) : NULL;
}

static void test_all_is_done(void **state)
{
	struct world world = {.is_held_back = true};

	(void)state;
	world.pool.buffer_bytes = 4096;
	world.pool.rest = take_rest;
	world.pool.context = &world;
	assert_int_equal(pool_begin(&world.pool), 0);
	add_list(&world, DEPTH);
	while (!pool_wait(&world.pool, WAIT_MS))
		;
	assert_int_equal(atomic_load(&world.nr_worked), NR_LISTS * NR_WORK);
	assert_int_equal(atomic_load(&world.nr_rests), 1);
	assert_true(atomic_load(&world.most_waiting) < 64);

	/* Work that is held back is done even if nothing is listed. */
	world.is_held_back = true;
	while (!pool_wait(&world.pool, WAIT_MS))
		;
	assert_int_equal(atomic_load(&world.nr_rests), 2);
	pool_end(&world.pool);
}

static void test_inodes_are_told_apart(void **state)
{
	struct inodes inodes = {0};
	void **value;
	int is_new;

	(void)state;
	for (uintptr_t i = 1; i <= 5000; i++) {
		value = inodes_find(&inodes, i % 3, i / 3, &is_new);
		assert_non_null(value);
		assert_true(is_new);
		*value = (void *)i;
	}
	for (uintptr_t i = 1; i <= 5000; i++) {
		value = inodes_find(&inodes, i % 3, i / 3, &is_new);
		assert_false(is_new);
		assert_ptr_equal(*value, (void *)i);
	}
	inodes_free(&inodes, NULL);
}

TEST_GROUP(pool)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_is_done),
		cmocka_unit_test(test_inodes_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
