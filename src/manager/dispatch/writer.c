/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that runs the core: sleeps until there are events or the core's next run is due. A question that comes
 * while it sleeps, or while it waits for the metastore, is answered by the thread that has it. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "manager/dispatch/writer.h"

struct writer {
	struct core
		*core; /* for the thread; while `is_idle` or `is_lent`, for whoever has the lock */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct cds_list_head queue; /* of events */
	uint64_t next_run;	    /* when the thread wakes by itself */
	bool is_idle;		    /* the thread sleeps, and the queue is empty */
	atomic_bool is_lent;	    /* the thread waits for the metastore */
	bool is_stopping;
};

static struct timespec time_of(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000U),
				 .tv_nsec = (long)(ns % 1000000000U)};
}

/* Sleeps until somebody wakes it or the core's next run is due. False: that is due. */
static bool sleep_on(struct writer *writer)
{
	struct timespec deadline;
	int ret;

	writer->next_run = core_next_run(writer->core);
	deadline = time_of(writer->next_run);
	writer->is_idle = true;
	if (writer->next_run == UINT64_MAX)
		ret = pthread_cond_wait(&writer->wake, &writer->lock);
	else
		ret = pthread_cond_timedwait(&writer->wake, &writer->lock, &deadline);
	writer->is_idle = false;
	return ret != ETIMEDOUT;
}

/* Waits for events; false at the end. */
static bool take_events(struct writer *writer, struct cds_list_head *events)
{
	bool is_going_on;

	pthread_mutex_lock(&writer->lock);
	while (cds_list_empty(&writer->queue) && !writer->is_stopping && sleep_on(writer))
		;
	is_going_on = !cds_list_empty(&writer->queue) || !writer->is_stopping;
	cds_list_splice(&writer->queue, events);
	CDS_INIT_LIST_HEAD(&writer->queue);
	pthread_mutex_unlock(&writer->lock);
	return is_going_on;
}

/* True: nothing in the queue, up to the event if it is there, has to be handled before it. */
static bool can_overtake(const struct writer *writer, const struct event *event)
{
	const struct event *earlier;

	cds_list_for_each_entry (earlier, &writer->queue, node) {
		if (earlier == event)
			break;
		if (!core_can_overtake(event, earlier))
			return false;
	}
	return true;
}

/* Answers what has come since the batch began, as far as it need not wait for its commit. */
static void answer_queue(struct writer *writer)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &writer->queue, node) {
		if (!can_overtake(writer, event))
			continue;
		cds_list_del(&event->node);
		if (!core_answer(writer->core, event))
			cds_list_add_tail(&event->node, &next->node);
	}
}

static void lend(void *argument, bool is_lent)
{
	struct writer *writer = argument;

	/* Before the lock, so that nobody begins another answer while the thread waits for that. */
	if (!is_lent)
		atomic_store(&writer->is_lent, false);
	pthread_mutex_lock(&writer->lock);
	if (is_lent) {
		answer_queue(writer);
		atomic_store(&writer->is_lent, true);
	}
	pthread_mutex_unlock(&writer->lock);
}

static void *run(void *argument)
{
	struct writer *writer = argument;
	CDS_LIST_HEAD(events);

	while (take_events(writer, &events))
		core_run(writer->core, &events);
	return NULL;
}

int writer_start(struct core *core, struct writer **out)
{
	struct writer *writer = calloc(1, sizeof(*writer));
	pthread_condattr_t attributes;
	sigset_t all, old;
	int ret;

	if (!writer)
		return error_code(-ENOMEM);
	writer->core = core;
	core_set_lend(core, lend, writer);
	CDS_INIT_LIST_HEAD(&writer->queue);
	pthread_mutex_init(&writer->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&writer->wake, &attributes);
	pthread_condattr_destroy(&attributes);

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&writer->thread, NULL, run, writer);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret != 0) {
		pthread_cond_destroy(&writer->wake);
		pthread_mutex_destroy(&writer->lock);
		free(writer);
		return error_fail(-ret, "start the manager's writer thread: no thread can be made");
	}
	pthread_setname_np(writer->thread, "afar-writer");
	*out = writer;
	return 0;
}

/* With the lock held. Returns whether the thread is to wake. */
static bool take_in(struct writer *writer, struct event *event)
{
	if (writer->is_idle && core_answer(writer->core, event))
		return core_next_run(writer->core) < writer->next_run;
	if (writer->is_lent && can_overtake(writer, event) && core_answer(writer->core, event))
		return false;
	cds_list_add_tail(&event->node, &writer->queue);
	writer->is_idle = false;
	return true;
}

void writer_submit(struct writer *writer, struct event *event)
{
	pthread_mutex_lock(&writer->lock);
	/* With the lock held: the event may be the last one, and the writer gone with it. */
	if (take_in(writer, event))
		pthread_cond_signal(&writer->wake);
	pthread_mutex_unlock(&writer->lock);
}

void writer_stop(struct writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	writer->is_stopping = true;
	pthread_cond_signal(&writer->wake);
	pthread_mutex_unlock(&writer->lock);
	pthread_join(writer->thread, NULL);
	pthread_cond_destroy(&writer->wake);
	pthread_mutex_destroy(&writer->lock);
	free(writer);
}
