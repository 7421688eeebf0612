/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waits for the writer to show the cluster (view.h). Whoever waits may give up before that: the last of the two frees what
 * they share.
 */
#include "manager/view.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "manager/dispatch/writer.h"
#include "manager/manager_private.h"

struct viewing {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_over, is_abandoned;
	Afar__ClusterStatus *status; /* NULL: there was no memory */
};

static struct viewing *viewing_new(void)
{
	struct viewing *viewing = calloc(1, sizeof(*viewing));
	pthread_condattr_t attributes;

	if (!viewing)
		return NULL;
	pthread_mutex_init(&viewing->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&viewing->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	return viewing;
}

static void viewing_free(struct viewing *viewing)
{
	if (viewing->status)
		afar__cluster_status__free_unpacked(viewing->status, NULL);
	pthread_cond_destroy(&viewing->changed);
	pthread_mutex_destroy(&viewing->lock);
	free(viewing);
}

/* On the writer's thread. */
static void viewed(void *argument, Afar__ClusterStatus *status)
{
	struct viewing *viewing = argument;
	bool is_abandoned;

	pthread_mutex_lock(&viewing->lock);
	viewing->status = status;
	viewing->is_over = true;
	is_abandoned = viewing->is_abandoned;
	pthread_cond_signal(&viewing->changed);
	pthread_mutex_unlock(&viewing->lock);
	if (is_abandoned)
		viewing_free(viewing);
}

int manager_view(struct manager *manager, unsigned timeout_ms, Afar__ClusterStatus **out)
{
	struct timespec until = clock_to_timespec(clock_deadline_ms(timeout_ms));
	struct viewing *viewing = viewing_new();
	struct event *event = event_new(EVENT_VIEW, NULL);
	bool is_over;
	int ret = 0;

	if (!viewing || !event) {
		if (viewing)
			viewing_free(viewing);
		if (event)
			event_free(event);
		return -ENOMEM;
	}
	event->call = viewing;
	event->viewed = viewed;
	writer_submit(manager->writer, event);

	pthread_mutex_lock(&viewing->lock);
	while (!viewing->is_over && ret != ETIMEDOUT)
		ret = pthread_cond_timedwait(&viewing->changed, &viewing->lock, &until);
	is_over = viewing->is_over;
	viewing->is_abandoned = !is_over;
	pthread_mutex_unlock(&viewing->lock);
	if (!is_over)
		return -ETIMEDOUT;
	*out = viewing->status;
	viewing->status = NULL;
	viewing_free(viewing);
	return *out ? 0 : -ENOMEM;
}

const struct manager_counts *manager_counts(const struct manager *manager)
{
	return core_counts(manager->core);
}
