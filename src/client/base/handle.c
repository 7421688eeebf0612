/* SPDX-License-Identifier: BSD-3-Clause */
/* Checked handles, and the ring in which the last closed ones wait before they are freed. */
#include "client/base/handle.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define NR_RETIRED 256

static pthread_mutex_t retired_lock = PTHREAD_MUTEX_INITIALIZER;
static void *retired[NR_RETIRED];
static unsigned next_retired;

void *handle_new(enum handle_kind kind, size_t size)
{
	struct handle *handle = calloc(1, size);

	if (handle)
		atomic_store_explicit(&handle->kind, kind, memory_order_release);
	return handle;
}

void handle_discard(void *object)
{
	free(object);
}

int handle_close(void *object, enum handle_kind kind)
{
	struct handle *handle = object;
	uint32_t none;

	if (!handle_is(object, kind))
		return -EINVAL;
	none = atomic_load(&handle->nr_users) & HANDLE_GATE;
	if (!atomic_compare_exchange_strong(&handle->nr_users, &none, none | HANDLE_SHUT))
		return none & HANDLE_SHUT ? -EINVAL : -EBUSY;
	atomic_store_explicit(&handle->kind, HANDLE_CLOSED, memory_order_release);
	return 0;
}

void handle_reopen(void *object, enum handle_kind kind)
{
	struct handle *handle = object;

	atomic_store_explicit(&handle->kind, kind, memory_order_release);
	/* Threads that find it shut count themselves in for a moment. */
	atomic_fetch_and(&handle->nr_users, ~HANDLE_SHUT);
}

void handle_retire(void *object)
{
	void *oldest;

	pthread_mutex_lock(&retired_lock);
	oldest = retired[next_retired];
	retired[next_retired] = object;
	next_retired = (next_retired + 1) % NR_RETIRED;
	pthread_mutex_unlock(&retired_lock);
	free(oldest);
}

/* Frees all, so that a leak checker reports only real leaks. */
__attribute__((destructor)) static void free_retired(void)
{
	for (unsigned i = 0; i < NR_RETIRED; i++) {
		free(retired[i]);
		retired[i] = NULL;
	}
}
