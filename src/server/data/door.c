/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door's thread sweeps the listener after a knock, and again while there are silent strangers.
 * The pauses between sweeps keep their cost low, however many descriptors there are. Owns the
 * thread.
 */
#include "server/data/door.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define NR_PER_HOST 64U	 /* silent at once; one more, and the oldest is closed sooner */
#define SWEEPS	    10U	 /* in silence_ms; a crowd is closed after one */
#define SWEEP_SHARE 100U /* the pause after a sweep is so many times as long */

struct door {
	struct fabric_listener *listener;
	struct fabric_patience patience;
	struct log_limit complaints;
	pthread_t thread;

	atomic_bool is_knocked;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* knocked, or stopping */
	bool is_stopping;
};

/* Pauses after a sweep that took `took_ns`; ends early when the door stops. The caller holds the
 * lock. */
static void pause_after(struct door *door, uint64_t took_ns)
{
	uint64_t pause_ns = (uint64_t)door->patience.crowd_ms * 1000000U;
	struct timespec until;
	int ret = 0;

	if (pause_ns < took_ns * SWEEP_SHARE)
		pause_ns = took_ns * SWEEP_SHARE;
	until = clock_to_timespec(clock_ns() + pause_ns);
	while (!door->is_stopping && ret != ETIMEDOUT)
		ret = pthread_cond_timedwait(&door->changed, &door->lock, &until);
}

/* Closes connections that are silent for too long. Returns how many are silent. */
static size_t sweep(struct door *door)
{
	size_t nr_silent = fabric_listener_sweep(door->listener, &door->patience);

	if (nr_silent > NR_PER_HOST)
		log_limited(&door->complaints, LOG_LEVEL_WARN,
			    "%zu data connections on which nobody says anything", nr_silent);
	return nr_silent;
}

static void *door_run(void *argument)
{
	struct door *door = argument;
	uint64_t took_ns = 0, began;
	size_t nr_silent = 0;

	pthread_mutex_lock(&door->lock);
	for (;;) {
		while (!door->is_stopping && nr_silent == 0 && !atomic_load(&door->is_knocked))
			pthread_cond_wait(&door->changed, &door->lock);
		pause_after(door, took_ns);
		if (door->is_stopping)
			break;
		atomic_store(&door->is_knocked, false);
		pthread_mutex_unlock(&door->lock);
		began = clock_ns();
		nr_silent = sweep(door);
		took_ns = clock_ns() - began;
		pthread_mutex_lock(&door->lock);
	}
	pthread_mutex_unlock(&door->lock);
	return NULL;
}

void door_knock(struct door *door)
{
	if (atomic_load(&door->is_knocked))
		return;
	pthread_mutex_lock(&door->lock);
	atomic_store(&door->is_knocked, true);
	pthread_cond_signal(&door->changed);
	pthread_mutex_unlock(&door->lock);
}

static int start_thread(struct door *door)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&door->thread, NULL, door_run, door);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret != 0)
		return error_fail(-ret, "start the data port: no thread; raise the limit of "
					"processes");
	pthread_setname_np(door->thread, "afar-door");
	return 0;
}

int door_start(struct fabric_listener *listener, uint32_t silence_ms, struct door **out)
{
	struct door *door = calloc(1, sizeof(*door));
	pthread_condattr_t attributes;
	int ret;

	if (!door)
		return error_code(-ENOMEM);
	door->listener = listener;
	door->patience = (struct fabric_patience){
		.silence_ms = silence_ms,
		.nr_per_host = NR_PER_HOST,
		.crowd_ms = silence_ms / SWEEPS,
	};
	pthread_mutex_init(&door->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&door->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	ret = start_thread(door);
	if (ret != 0) {
		pthread_cond_destroy(&door->changed);
		pthread_mutex_destroy(&door->lock);
		free(door);
		return ret;
	}
	*out = door;
	return 0;
}

void door_stop(struct door *door)
{
	if (!door)
		return;
	pthread_mutex_lock(&door->lock);
	door->is_stopping = true;
	pthread_cond_signal(&door->changed);
	pthread_mutex_unlock(&door->lock);
	pthread_join(door->thread, NULL);
	pthread_cond_destroy(&door->changed);
	pthread_mutex_destroy(&door->lock);
	free(door);
}
