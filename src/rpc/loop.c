/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One thread that sleeps in epoll: descriptors, timers and posted work. All other code in rpc/ runs
 * on it. Owns the memory that rpc_loop_post(), _timer() and _watch() allocate. Listeners and
 * connections are its residents, which it evicts before it ends.
 *
 * An idle loop sleeps without a timeout: only events and timers that are due wake it.
 */
#include "rpc/loop.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "rpc/buffer_cap.h"

#define LOOP_BATCH 64 /* events fetched by one epoll_wait() */

struct rpc_loop {
	atomic_uint references;
	pthread_t thread;
	int epoll;
	int wakeup; /* eventfd, edge-triggered: never read */

	/* The loop's thread alone. */
	struct epoll_event batch[LOOP_BATCH];
	int batch_position, batch_end;
	struct buffer_cap buffer_cap; /* has its own rules */
	struct log_limit complaints;  /* about strangers */

	pthread_mutex_t lock; /* guards what follows; taken last, held briefly */
	bool is_stopping;     /* no new residents */
	bool is_stopped;      /* no new tasks     */
	uint64_t wakes_at;    /* when the thread wakes by itself */
	struct cds_list_head tasks;
	struct cds_list_head timers; /* by deadline */
	struct cds_list_head residents;
	struct cds_list_head watches;
};

/* rpc_loop_post(), _timer() and _watch() allocate these. */
struct loop_post {
	struct loop_task task;
	void (*run)(void *argument);
	void *argument;
};
struct loop_alarm {
	struct loop_timer timer;
	void (*run)(void *argument);
	void *argument;
};
struct loop_watch {
	struct loop_source source;
	struct cds_list_head entry;
	void (*ready)(void *argument);
	void *argument;
};

static __thread struct rpc_loop *current_loop;

bool loop_is_current(const struct rpc_loop *loop)
{
	return current_loop == loop;
}

void loop_ref(struct rpc_loop *loop)
{
	atomic_fetch_add_explicit(&loop->references, 1, memory_order_relaxed);
}

void loop_unref(struct rpc_loop *loop)
{
	if (atomic_fetch_sub_explicit(&loop->references, 1, memory_order_acq_rel) != 1)
		return;
	pthread_mutex_destroy(&loop->lock);
	free(loop);
}

/* Wakes the thread. The caller holds the lock, because the descriptor is closed after
 * `is_stopped`. */
static void wake(struct rpc_loop *loop)
{
	if (!loop->is_stopped && !loop_is_current(loop))
		eventfd_write(loop->wakeup, 1);
}

struct log_limit *loop_complaints(struct rpc_loop *loop)
{
	return &loop->complaints;
}

struct buffer_cap *loop_buffer_cap(struct rpc_loop *loop)
{
	return &loop->buffer_cap;
}

/* ---- Tasks */

bool loop_task_queue(struct rpc_loop *loop, struct loop_task *task)
{
	bool is_new;

	pthread_mutex_lock(&loop->lock);
	is_new = !task->is_queued && !loop->is_stopped;
	if (is_new) {
		if (cds_list_empty(&loop->tasks))
			wake(loop);
		task->is_queued = true;
		cds_list_add_tail(&task->entry, &loop->tasks);
	}
	pthread_mutex_unlock(&loop->lock);
	return is_new;
}

static struct loop_task *take_task(struct rpc_loop *loop, struct cds_list_head *tasks)
{
	struct loop_task *task = NULL;

	pthread_mutex_lock(&loop->lock);
	if (!cds_list_empty(tasks)) {
		task = cds_list_first_entry(tasks, struct loop_task, entry);
		cds_list_del(&task->entry);
		task->is_queued = false;
	}
	pthread_mutex_unlock(&loop->lock);
	return task;
}

/* Runs only the tasks queued by now: those that they queue wait until the descriptors have had
 * their turn. */
static void run_tasks(struct rpc_loop *loop)
{
	CDS_LIST_HEAD(tasks);
	struct loop_task *task;

	pthread_mutex_lock(&loop->lock);
	cds_list_splice(&loop->tasks, &tasks);
	CDS_INIT_LIST_HEAD(&loop->tasks);
	pthread_mutex_unlock(&loop->lock);
	while ((task = take_task(loop, &tasks)))
		task->run(task);
}

static void post_run(struct loop_task *task)
{
	struct loop_post *post = caa_container_of(task, struct loop_post, task);

	post->run(post->argument);
	free(post);
}

int rpc_loop_post(struct rpc_loop *loop, void (*run)(void *argument), void *argument)
{
	struct loop_post *post = calloc(1, sizeof(*post));

	if (!post)
		return error_code(-ENOMEM);
	post->task.run = post_run;
	post->run = run;
	post->argument = argument;
	if (!loop_task_queue(loop, &post->task)) {
		free(post);
		return error_code(-ECANCELED);
	}
	return 0;
}

struct loop_errand {
	struct loop_task task;
	void (*run)(void *argument);
	void *argument;
	sem_t is_done;
};

static void errand_run(struct loop_task *task)
{
	struct loop_errand *errand = caa_container_of(task, struct loop_errand, task);

	errand->run(errand->argument);
	sem_post(&errand->is_done);
}

void loop_run(struct rpc_loop *loop, void (*run)(void *argument), void *argument)
{
	struct loop_errand errand = {.task.run = errand_run, .run = run, .argument = argument};

	if (loop_is_current(loop)) {
		run(argument);
		return;
	}
	sem_init(&errand.is_done, 0, 0);
	if (loop_task_queue(loop, &errand.task))
		while (sem_wait(&errand.is_done))
			;
	sem_destroy(&errand.is_done);
}

/* ---- Timers */

/* Inserts a timer by its deadline. Searches from the end, because deadlines mostly come in order
 * (often with the same timeout). */
static void insert_timer(struct rpc_loop *loop, struct loop_timer *timer)
{
	struct cds_list_head *place = loop->timers.prev;

	while (place != &loop->timers &&
	       cds_list_entry(place, struct loop_timer, entry)->deadline > timer->deadline)
		place = place->prev;
	cds_list_add(&timer->entry, place);
}

static void remove_timer(struct loop_timer *timer)
{
	if (timer->is_set)
		cds_list_del(&timer->entry);
	timer->is_set = false;
}

bool loop_timer_set(struct rpc_loop *loop, struct loop_timer *timer, uint64_t deadline)
{
	bool is_set;

	pthread_mutex_lock(&loop->lock);
	remove_timer(timer);
	is_set = deadline != CLOCK_NEVER && !loop->is_stopped;
	if (is_set) {
		timer->deadline = deadline;
		timer->is_set = true;
		insert_timer(loop, timer);
		if (deadline < loop->wakes_at) {
			loop->wakes_at = deadline;
			wake(loop);
		}
	}
	pthread_mutex_unlock(&loop->lock);
	return is_set;
}

void loop_timer_cancel(struct rpc_loop *loop, struct loop_timer *timer)
{
	pthread_mutex_lock(&loop->lock);
	remove_timer(timer);
	pthread_mutex_unlock(&loop->lock);
}

static struct loop_timer *take_timer(struct rpc_loop *loop, uint64_t now)
{
	struct loop_timer *timer = NULL;

	pthread_mutex_lock(&loop->lock);
	if (!cds_list_empty(&loop->timers)) {
		timer = cds_list_first_entry(&loop->timers, struct loop_timer, entry);
		if (timer->deadline <= now)
			remove_timer(timer);
		else
			timer = NULL;
	}
	pthread_mutex_unlock(&loop->lock);
	return timer;
}

static void run_timers(struct rpc_loop *loop)
{
	uint64_t now = clock_ns();
	struct loop_timer *timer;

	while ((timer = take_timer(loop, now)))
		timer->run(timer);
}

static void alarm_run(struct loop_timer *timer)
{
	struct loop_alarm *alarm = caa_container_of(timer, struct loop_alarm, timer);

	alarm->run(alarm->argument);
	free(alarm);
}

int rpc_loop_timer(struct rpc_loop *loop, uint32_t delay_ms, void (*run)(void *argument),
		   void *argument)
{
	struct loop_alarm *alarm = calloc(1, sizeof(*alarm));

	if (!alarm)
		return error_code(-ENOMEM);
	alarm->timer.run = alarm_run;
	alarm->run = run;
	alarm->argument = argument;
	if (!loop_timer_set(loop, &alarm->timer, clock_deadline_ms(delay_ms))) {
		free(alarm);
		return error_code(-ECANCELED);
	}
	return 0;
}

/* ---- Descriptors */

int loop_source_add(struct rpc_loop *loop, struct loop_source *source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};

	return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) ? -errno : 0;
}

void loop_source_remove(struct rpc_loop *loop, struct loop_source *source)
{
	epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
	for (int i = loop->batch_position; i < loop->batch_end; i++)
		if (loop->batch[i].data.ptr == source)
			loop->batch[i].data.ptr = NULL;
}

static void watch_ready(struct loop_source *source, uint32_t events)
{
	struct loop_watch *watch = caa_container_of(source, struct loop_watch, source);

	(void)events;
	watch->ready(watch->argument);
}

int rpc_loop_watch(struct rpc_loop *loop, int fd, void (*ready)(void *argument), void *argument)
{
	struct loop_watch *watch = calloc(1, sizeof(*watch));
	int ret;

	if (!watch)
		return error_code(-ENOMEM);
	watch->source.fd = fd;
	watch->source.ready = watch_ready;
	watch->ready = ready;
	watch->argument = argument;
	/* With the lock held, because the loop may unwatch the descriptor as soon as it is in the
	 * epoll set. */
	pthread_mutex_lock(&loop->lock);
	ret = loop->is_stopped ? -ECANCELED : loop_source_add(loop, &watch->source, EPOLLIN);
	if (!ret)
		cds_list_add(&watch->entry, &loop->watches);
	pthread_mutex_unlock(&loop->lock);
	if (ret)
		free(watch);
	return ret ? error_code(ret) : 0;
}

static struct loop_watch *take_watch(struct rpc_loop *loop, int fd)
{
	struct loop_watch *watch, *found = NULL;

	pthread_mutex_lock(&loop->lock);
	cds_list_for_each_entry (watch, &loop->watches, entry) {
		if (watch->source.fd == fd) {
			found = watch;
			cds_list_del(&found->entry);
			break;
		}
	}
	pthread_mutex_unlock(&loop->lock);
	return found;
}

void rpc_loop_unwatch(struct rpc_loop *loop, int fd)
{
	struct loop_watch *watch = take_watch(loop, fd);

	if (!watch)
		return;
	loop_source_remove(loop, &watch->source);
	free(watch);
}

/* ---- Residents */

int loop_resident_add(struct rpc_loop *loop, struct loop_resident *resident)
{
	int ret = -ECANCELED;

	pthread_mutex_lock(&loop->lock);
	if (!loop->is_stopping) {
		cds_list_add_tail(&resident->entry, &loop->residents);
		ret = 0;
	}
	pthread_mutex_unlock(&loop->lock);
	return ret;
}

void loop_resident_remove(struct rpc_loop *loop, struct loop_resident *resident)
{
	pthread_mutex_lock(&loop->lock);
	cds_list_del(&resident->entry);
	pthread_mutex_unlock(&loop->lock);
}

/* Returns the next resident to evict. If there is none, and no task either, the loop counts as
 * stopped. */
static struct loop_resident *next_resident(struct rpc_loop *loop)
{
	struct loop_resident *resident = NULL;

	pthread_mutex_lock(&loop->lock);
	if (!cds_list_empty(&loop->residents))
		resident = cds_list_first_entry(&loop->residents, struct loop_resident, entry);
	else if (cds_list_empty(&loop->tasks))
		loop->is_stopped = true;
	pthread_mutex_unlock(&loop->lock);
	return resident;
}

/* ---- The thread */

/*
 * Returns how long to sleep. If `wakes_at` keeps the time of a cancelled timer, the thread wakes
 * once in vain. In return, a series of calls with the same timeout does not wake it for each.
 */
static int sleep_ms(struct rpc_loop *loop)
{
	uint64_t first = CLOCK_NEVER;
	int timeout_ms;

	pthread_mutex_lock(&loop->lock);
	if (!cds_list_empty(&loop->timers))
		first = cds_list_first_entry(&loop->timers, struct loop_timer, entry)->deadline;
	if (first < loop->wakes_at || loop->wakes_at <= clock_ns())
		loop->wakes_at = first;
	timeout_ms = clock_remaining_ms(loop->wakes_at);
	if (!cds_list_empty(&loop->tasks) || loop->is_stopping)
		timeout_ms = 0;
	pthread_mutex_unlock(&loop->lock);
	return timeout_ms;
}

static void run_events(struct rpc_loop *loop)
{
	loop->batch_position = 0;
	loop->batch_end = epoll_wait(loop->epoll, loop->batch, LOOP_BATCH, sleep_ms(loop));
	while (loop->batch_position < loop->batch_end) {
		struct epoll_event *event = &loop->batch[loop->batch_position++];
		struct loop_source *source = event->data.ptr;

		if (source)
			source->ready(source, event->events);
	}
}

static bool is_stopping(struct rpc_loop *loop)
{
	bool answer;

	pthread_mutex_lock(&loop->lock);
	answer = loop->is_stopping;
	pthread_mutex_unlock(&loop->lock);
	return answer;
}

static void evict_all(struct rpc_loop *loop)
{
	struct loop_resident *resident;

	do {
		while ((resident = next_resident(loop)))
			resident->evict(resident);
		run_tasks(loop);
	} while (!loop->is_stopped); /* only this thread sets it */
}

static void *loop_main(void *argument)
{
	struct rpc_loop *loop = argument;

	current_loop = loop;
	while (!is_stopping(loop)) {
		run_events(loop);
		run_timers(loop);
		run_tasks(loop);
	}
	evict_all(loop);
	return NULL;
}

/* Starts the thread with all signals blocked: it inherits the caller's mask. */
static int start_thread(struct rpc_loop *loop, const char *name)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = -pthread_create(&loop->thread, NULL, loop_main, loop);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!ret)
		pthread_setname_np(loop->thread, name);
	return ret;
}

static int open_descriptors(struct rpc_loop *loop)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};

	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll < 0)
		return -errno;
	loop->wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->wakeup < 0 || epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->wakeup, &event))
		return -errno;
	return 0;
}

static void close_descriptors(struct rpc_loop *loop)
{
	if (loop->wakeup >= 0)
		close(loop->wakeup);
	if (loop->epoll >= 0)
		close(loop->epoll);
}

int rpc_loop_start(const char *name, struct rpc_loop **out)
{
	struct rpc_loop *loop = calloc(1, sizeof(*loop));
	int ret;

	if (!loop)
		return error_code(-ENOMEM);
	atomic_init(&loop->references, 1);
	pthread_mutex_init(&loop->lock, NULL);
	buffer_cap_init(&loop->buffer_cap);
	CDS_INIT_LIST_HEAD(&loop->tasks);
	CDS_INIT_LIST_HEAD(&loop->timers);
	CDS_INIT_LIST_HEAD(&loop->residents);
	CDS_INIT_LIST_HEAD(&loop->watches);
	loop->wakes_at = CLOCK_NEVER;
	loop->epoll = loop->wakeup = -1;

	ret = open_descriptors(loop);
	if (!ret)
		ret = start_thread(loop, name);
	if (ret) {
		close_descriptors(loop);
		loop_unref(loop);
		return error_fail(ret, "start of the thread %s: %s", name, afar_strerror(ret));
	}
	*out = loop;
	return 0;
}

static void free_leftovers(struct rpc_loop *loop)
{
	struct loop_watch *watch, *next_watch;
	struct loop_timer *timer, *next_timer;

	cds_list_for_each_entry_safe (watch, next_watch, &loop->watches, entry) {
		free(watch);
	}
	/* The residents have cancelled theirs. */
	cds_list_for_each_entry_safe (timer, next_timer, &loop->timers, entry) {
		assert(timer->run == alarm_run);
		free(caa_container_of(timer, struct loop_alarm, timer));
	}
}

void rpc_loop_stop(struct rpc_loop *loop)
{
	pthread_mutex_lock(&loop->lock);
	loop->is_stopping = true;
	wake(loop);
	pthread_mutex_unlock(&loop->lock);
	pthread_join(loop->thread, NULL);
	free_leftovers(loop);
	close_descriptors(loop);
	loop_unref(loop);
}
