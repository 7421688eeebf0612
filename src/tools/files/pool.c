/* SPDX-License-Identifier: BSD-3-Clause */
/* See pool.h. Called by the copying and removing of trees. Owns the threads and their buffers. */
#include "pool.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"

#define WAITING_MAX 32 /* work that may wait before those that list help */

/* ---- Adding and taking jobs: with the pool locked */

static void append_work(struct pool *pool, struct pool_job *job)
{
	job->next = NULL;
	*pool->work_end = job;
	pool->work_end = &job->next;
	pool->nr_waiting++;
	pthread_cond_signal(&pool->has_jobs);
}

/* Once no listing can add to the work that is held back, it is work like any other. */
static void add_rest(struct pool *pool)
{
	struct pool_job *job = pool->lists || pool->nr_listing ? NULL : pool->rest(pool->context);

	if (job)
		append_work(pool, job);
}

static struct pool_job *take_work(struct pool *pool)
{
	struct pool_job *job = pool->work;

	if (job) {
		pool->work = job->next;
		if (!pool->work)
			pool->work_end = &pool->work;
		pool->nr_waiting--;
		pool->nr_working++;
	}
	return job;
}

static struct pool_job *take_list(struct pool *pool)
{
	struct pool_job *job = pool->lists;

	if (job) {
		pool->lists = job->next;
		pool->nr_listing++;
	}
	return job;
}

static bool is_idle(const struct pool *pool)
{
	return !pool->work && !pool->lists && !pool->nr_working && !pool->nr_listing;
}

/* Runs the job unlocked. `*running` counts it meanwhile. */
static void run(struct pool_worker *worker, struct pool_job *job, unsigned *running)
{
	struct pool *pool = worker->pool;

	pthread_mutex_unlock(&pool->lock);
	job->run(job, worker);
	pthread_mutex_lock(&pool->lock);
	--*running;
	add_rest(pool);
	if (is_idle(pool))
		pthread_cond_broadcast(&pool->is_idle);
}

static void *work(void *argument)
{
	struct pool_worker *worker = argument;
	struct pool *pool = worker->pool;
	struct pool_job *job;

	pthread_mutex_lock(&pool->lock);
	while (!pool->is_ending) {
		if ((job = take_work(pool)))
			run(worker, job, &pool->nr_working);
		else if ((job = take_list(pool)))
			run(worker, job, &pool->nr_listing);
		else
			pthread_cond_wait(&pool->has_jobs, &pool->lock);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

void pool_relieve(struct pool_worker *worker)
{
	struct pool *pool = worker->pool;
	struct pool_job *job;

	pthread_mutex_lock(&pool->lock);
	while (pool->nr_waiting > WAITING_MAX && (job = take_work(pool)))
		run(worker, job, &pool->nr_working);
	pthread_mutex_unlock(&pool->lock);
}

void pool_add_work(struct pool *pool, struct pool_job *job)
{
	pthread_mutex_lock(&pool->lock);
	append_work(pool, job);
	pthread_mutex_unlock(&pool->lock);
}

void pool_add_list(struct pool *pool, struct pool_job *job)
{
	pthread_mutex_lock(&pool->lock);
	job->next = pool->lists;
	pool->lists = job;
	pthread_cond_signal(&pool->has_jobs);
	pthread_mutex_unlock(&pool->lock);
}

/* ---- The threads */

/* Gets memory that takes room only once it is used. */
static char *get_buffer(size_t bytes)
{
	void *buffer =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return buffer == MAP_FAILED ? NULL : buffer;
}

/* Starts the next worker. Returns 0 or an errno. */
static int start(struct pool *pool)
{
	struct pool_worker *worker = &pool->workers[pool->nr_workers];
	int ret;

	*worker = (struct pool_worker){.pool = pool, .buffer = get_buffer(pool->buffer_bytes)};
	if (!worker->buffer)
		return ENOMEM;
	ret = pthread_create(&worker->thread, NULL, work, worker);
	if (ret)
		munmap(worker->buffer, pool->buffer_bytes);
	else
		pool->nr_workers++;
	return ret;
}

int pool_begin(struct pool *pool)
{
	pthread_condattr_t clock;
	sigset_t all, before;
	int ret = 0;

	pool->work_end = &pool->work;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->has_jobs, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&pool->is_idle, &clock);
	pthread_condattr_destroy(&clock);
	/* Signals are for the thread that waits. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (!ret && pool->nr_workers < POOL_WORKERS)
		ret = start(pool);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (pool->nr_workers)
		return 0; /* fewer will do */
	pool_end(pool);
	return -ret;
}

bool pool_wait(struct pool *pool, int timeout_ms)
{
	const struct timespec until = clock_to_timespec(clock_deadline_ms(timeout_ms));
	bool is_done;

	pthread_mutex_lock(&pool->lock);
	add_rest(pool);
	if (!is_idle(pool))
		pthread_cond_timedwait(&pool->is_idle, &pool->lock, &until);
	is_done = is_idle(pool);
	pthread_mutex_unlock(&pool->lock);
	return is_done;
}

void pool_end(struct pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->is_ending = true;
	pthread_cond_broadcast(&pool->has_jobs);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < pool->nr_workers; i++) {
		pthread_join(pool->workers[i].thread, NULL);
		munmap(pool->workers[i].buffer, pool->buffer_bytes);
	}
	pthread_cond_destroy(&pool->is_idle);
	pthread_cond_destroy(&pool->has_jobs);
	pthread_mutex_destroy(&pool->lock);
}
