/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A dispatcher thread on a queue, as quick as it can be made. It spins as long as a session does and sleeps
 * on the queue's descriptor then. A waiter that finds its completion does not enter the kernel, and is not
 * woken unless it sleeps (semaphores are futexes). Waiters do not spin: the dispatcher does it for them.
 */
#include "dispatcher.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "harness/harness.h"
#include "harness/scene.h"

#define SPIN_NS	      50000U /* the default of a session */
#define SLEEP_MS      10
#define STAND_BACK_NS 50U

struct waiter {
	sem_t bell; /* counts what has been handed over and not taken */
	struct request *box[DISPATCHER_IN_FLIGHT];
	unsigned nr_put;   /* the dispatcher's */
	unsigned nr_taken; /* the waiter's     */
};

struct dispatcher {
	struct afar_queue *queue;
	pthread_t thread;
	pthread_mutex_t lock; /* the queue is one thread's at a time                              */
	atomic_uint
		nr_wanting; /* submitters that have not got the lock: the dispatcher stands back */
	atomic_bool is_ending;
};

static int take_completions(struct dispatcher *dispatcher, struct afar_completion *done)
{
	int nr;

	while (atomic_load(&dispatcher->nr_wanting))
		clock_pause_ns(STAND_BACK_NS);
	pthread_mutex_lock(&dispatcher->lock);
	nr = afar_queue_wait(dispatcher->queue, done, DISPATCHER_IN_FLIGHT, 0, 0);
	pthread_mutex_unlock(&dispatcher->lock);
	return nr;
}

static void hand_over(const struct afar_completion *completion)
{
	struct request *request = (struct request *)(uintptr_t)completion->user_data;
	struct waiter *waiter = request->waiter;

	request->result = completion->result;
	waiter->box[waiter->nr_put++ % DISPATCHER_IN_FLIGHT] = request;
	sem_post(&waiter->bell);
}

static void sleep_on_queue(struct dispatcher *dispatcher)
{
	struct pollfd wait = {.events = POLLIN};
	bool is_armed;

	pthread_mutex_lock(&dispatcher->lock);
	is_armed = afar_queue_arm(dispatcher->queue) == 0;
	wait.fd = afar_queue_fd(dispatcher->queue);
	pthread_mutex_unlock(&dispatcher->lock);
	if (is_armed)
		poll(&wait, 1, SLEEP_MS);
}

static void *dispatch(void *argument)
{
	struct dispatcher *dispatcher = argument;
	struct afar_completion done[DISPATCHER_IN_FLIGHT];
	uint64_t spin_until = clock_ns() + SPIN_NS;

	while (!atomic_load(&dispatcher->is_ending)) {
		int nr = take_completions(dispatcher, done);

		for (int i = 0; i < nr; i++)
			hand_over(&done[i]);
		if (nr > 0) {
			spin_until = clock_ns() + SPIN_NS;
		} else if (clock_ns() > spin_until) {
			sleep_on_queue(dispatcher);
			spin_until = clock_ns() + SPIN_NS;
		}
	}
	return NULL;
}

int dispatcher_start(struct afar_queue *queue, struct dispatcher **out)
{
	struct dispatcher *dispatcher = calloc(1, sizeof(*dispatcher));
	int ret;

	if (!dispatcher)
		return bench_fail(-ENOMEM, "no memory for a dispatcher");
	dispatcher->queue = queue;
	/* Held for less than a sleep takes. */
	dispatcher->lock = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
	ret = pthread_create(&dispatcher->thread, NULL, dispatch, dispatcher);
	if (ret) {
		free(dispatcher);
		return bench_fail(-ret, "no thread for a dispatcher");
	}
	*out = dispatcher;
	return 0;
}

void dispatcher_stop(struct dispatcher *dispatcher)
{
	atomic_store(&dispatcher->is_ending, true);
	pthread_join(dispatcher->thread, NULL);
	pthread_mutex_destroy(&dispatcher->lock);
	free(dispatcher);
}

int waiter_new(struct waiter **out)
{
	struct waiter *waiter = calloc(1, sizeof(*waiter));

	if (!waiter)
		return bench_fail(-ENOMEM, "no memory for a waiter");
	sem_init(&waiter->bell, 0, 0);
	*out = waiter;
	return 0;
}

void waiter_free(struct waiter *waiter)
{
	if (!waiter)
		return;
	sem_destroy(&waiter->bell);
	free(waiter);
}

int dispatcher_submit(struct dispatcher *dispatcher, struct afar_op *op, struct request *request)
{
	int ret;

	op->user_data = (uintptr_t)request;
	atomic_fetch_add(&dispatcher->nr_wanting, 1);
	pthread_mutex_lock(&dispatcher->lock);
	atomic_fetch_sub(&dispatcher->nr_wanting, 1);
	ret = afar_queue_submit(dispatcher->queue, op, 1);
	pthread_mutex_unlock(&dispatcher->lock);
	return ret == 1 ? 0 : scene_fail("submit", ret < 0 ? ret : -EAGAIN);
}

struct request *waiter_wait(struct waiter *waiter)
{
	while (sem_wait(&waiter->bell))
		; /* a signal */
	return waiter->box[waiter->nr_taken++ % DISPATCHER_IN_FLIGHT];
}
