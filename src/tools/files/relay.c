/* SPDX-License-Identifier: BSD-3-Clause */
/* See relay.h. Called by cat, and by put and get of standard input and output. */
#include "relay.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <afar/afar.h>

#define NR_SLOTS   4
#define SLOT_BYTES ((size_t)4 << 20)

/* Slots are filled and taken in turns; `filled` and `taken` count them. */
struct ring {
	struct relay *relay;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	char *buffers[NR_SLOTS];
	size_t lengths[NR_SLOTS];
	unsigned filled, taken;
	bool is_filling, is_taking;
};

static void fill_all(struct ring *ring)
{
	struct relay *relay = ring->relay;
	ssize_t length = 1;

	pthread_mutex_lock(&ring->lock);
	while (length > 0 && ring->is_taking) {
		if (ring->filled - ring->taken == NR_SLOTS) {
			pthread_cond_wait(&ring->changed, &ring->lock);
			continue;
		}
		pthread_mutex_unlock(&ring->lock);
		length = relay->fill(relay->context, ring->buffers[ring->filled % NR_SLOTS],
				     SLOT_BYTES);
		pthread_mutex_lock(&ring->lock);
		if (length > 0) {
			ring->lengths[ring->filled++ % NR_SLOTS] = (size_t)length;
			pthread_cond_signal(&ring->changed);
		}
	}
	if (length < 0)
		relay->fill_error = (int)length;
	ring->is_filling = false;
	pthread_cond_signal(&ring->changed);
	pthread_mutex_unlock(&ring->lock);
}

static void take_all(struct ring *ring)
{
	struct relay *relay = ring->relay;
	unsigned slot;

	pthread_mutex_lock(&ring->lock);
	/* Slots that were filled before a failure are taken, too. */
	while (!relay->take_error && (ring->is_filling || ring->taken != ring->filled)) {
		if (ring->taken == ring->filled) {
			pthread_cond_wait(&ring->changed, &ring->lock);
			continue;
		}
		slot = ring->taken % NR_SLOTS;
		pthread_mutex_unlock(&ring->lock);
		relay->take_error =
			relay->take(relay->context, ring->buffers[slot], ring->lengths[slot]);
		pthread_mutex_lock(&ring->lock);
		ring->taken++;
		pthread_cond_signal(&ring->changed);
	}
	ring->is_taking = false;
	pthread_cond_signal(&ring->changed);
	pthread_mutex_unlock(&ring->lock);
}

static void *run_other(void *argument)
{
	struct ring *ring = argument;
	struct relay *relay = ring->relay;

	(relay->fills_here ? take_all : fill_all)(ring);
	if (relay->fills_here ? relay->take_error : relay->fill_error)
		snprintf(relay->sentence, sizeof(relay->sentence), "%s", afar_last_error());
	return NULL;
}

/* Starts the other thread with all signals blocked: they are for this one. */
static int start(struct ring *ring, pthread_t *thread)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(thread, NULL, run_other, ring);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -ret;
}

int relay_run(struct relay *relay)
{
	struct ring ring = {.relay = relay,
			    .lock = PTHREAD_MUTEX_INITIALIZER,
			    .changed = PTHREAD_COND_INITIALIZER,
			    .is_filling = true,
			    .is_taking = true};
	pthread_t thread;
	int ret = 0;

	for (unsigned i = 0; i < NR_SLOTS; i++) {
		ring.buffers[i] = malloc(SLOT_BYTES);
		if (!ring.buffers[i])
			ret = -ENOMEM;
	}
	if (!ret)
		ret = start(&ring, &thread);
	if (!ret) {
		(relay->fills_here ? fill_all : take_all)(&ring);
		pthread_join(thread, NULL);
	}
	for (unsigned i = 0; i < NR_SLOTS; i++)
		free(ring.buffers[i]);
	if (!ret)
		ret = relay->take_error ? relay->take_error : relay->fill_error;
	return ret;
}
