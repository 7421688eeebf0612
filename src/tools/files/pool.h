/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A few threads that work off jobs, which may make more jobs: for commands that treat whole trees. There
 * are two kinds. Work makes no jobs but work, and goes first. Listing makes any; the last listed goes
 * first. So what waits stays little.
 */
#ifndef TOOLS_POOL_H
#define TOOLS_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define POOL_WORKERS 8

struct pool;

struct pool_worker {
	struct pool *pool;
	char *buffer; /* of the pool's buffer_bytes, for the job that runs; not for listing */
	pthread_t thread;
};

/* A job is part of something of the caller's. The pool does not touch it once it runs. */
struct pool_job {
	struct pool_job *next;
	void (*run)(struct pool_job *job, struct pool_worker *worker);
};

struct pool {
	size_t buffer_bytes;
	/* Gives the work that has been held back, once no listing can add to it. NULL: there is none. Called
	 * with the pool locked. */
	struct pool_job *(*rest)(void *context);
	void *context;

	struct pool_worker workers[POOL_WORKERS];
	unsigned nr_workers;
	pthread_mutex_t lock;
	pthread_cond_t has_jobs, is_idle;
	struct pool_job *work, **work_end, *lists;
	unsigned nr_waiting; /* work that is not taken yet */
	unsigned nr_working, nr_listing;
	bool is_ending;
};

/* Starts the threads; the caller has set buffer_bytes, rest and context. Returns 0 or a negative errno. */
int pool_begin(struct pool *pool);
/* Waits up to `timeout_ms` until there is nothing to do. Returns whether that is so. */
bool pool_wait(struct pool *pool, int timeout_ms);
/* Ends the threads, which must have nothing to do. */
void pool_end(struct pool *pool);

/* Add a job. */
void pool_add_work(struct pool *pool, struct pool_job *job);
void pool_add_list(struct pool *pool, struct pool_job *job);
/* For a job that lists: does work itself while much of it waits, so that no more is made than can be done. */
void pool_relieve(struct pool_worker *worker);

#endif
