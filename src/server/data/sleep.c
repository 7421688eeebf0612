/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping: a progress thread has one epoll descriptor over its commands, its queues, the listeners and the engine. It is
 * level-triggered, but for the engine's descriptor, which nobody has to read then. A thread that sleeps while the device works
 * saves a system call for each request.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "server/data/progress_private.h"

#define EVENTS (2 + 2 * PORTS_MAX) /* as many as there are descriptors: no edge is left behind */
#define UNWATCHED_MS \
	1 /* between looks at an engine for whose descriptor the kernel has no memory */

enum watched { WATCHED_OTHERS, WATCHED_LISTENERS };

static int watch(const struct progress_thread *thread, int fd, uint32_t events, enum watched which)
{
	struct epoll_event event = {.events = events, .data.u32 = which};

	if (fd >= 0 && epoll_ctl(thread->sleep_fd, EPOLL_CTL_ADD, fd, &event) != 0)
		return -errno;
	return 0;
}

static int watch_all(const struct progress_thread *thread)
{
	const struct progress *progress = thread->progress;
	const bool is_first = thread == &progress->threads[0];
	int ret = watch(thread, thread->wake_fd, EPOLLIN, WATCHED_OTHERS);

	for (unsigned i = 0; i < progress->nr_ports && ret == 0; i++) {
		ret = watch(thread, fabric_queue_fd(thread->queues[i]), EPOLLIN, WATCHED_OTHERS);
		if (ret == 0 && is_first)
			ret = watch(thread, fabric_listener_fd(progress->ports[i].listener),
				    EPOLLIN, WATCHED_LISTENERS);
	}
	return ret;
}

int sleep_open(struct progress_thread *thread)
{
	int ret;

	thread->engine_fd = -1;
	thread->sleep_fd = epoll_create1(EPOLL_CLOEXEC);
	if (thread->sleep_fd < 0)
		return error_code(-errno);
	ret = watch_all(thread);
	if (ret != 0)
		close(thread->sleep_fd);
	return ret == 0 ? 0 : error_code(ret);
}

static void forget(const struct progress_thread *thread, int fd)
{
	if (fd >= 0)
		epoll_ctl(thread->sleep_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* Asks the engine before each sleep: it gets ready to wake us, or its device has gone. False: it cannot be watched. */
static bool watch_engine(struct progress_thread *thread)
{
	const struct progress_engine *engine = thread->progress->options.engine;
	const int fd = engine ? engine->fd(engine->context) : -1;

	if (fd == thread->engine_fd)
		return true;
	forget(thread, thread->engine_fd);
	thread->engine_fd = watch(thread, fd, EPOLLIN | EPOLLET, WATCHED_OTHERS) == 0 ? fd : -1;
	return thread->engine_fd == fd;
}

bool sleep_for(struct progress_thread *thread, int ms)
{
	struct epoll_event events[EVENTS];
	bool has_callers = false;
	int nr;

	if (!watch_engine(thread))
		ms = UNWATCHED_MS;
	nr = epoll_wait(thread->sleep_fd, events, EVENTS, ms);
	for (int i = 0; i < nr; i++)
		has_callers |= events[i].data.u32 == WATCHED_LISTENERS;
	return has_callers;
}

void sleep_for_engine_alone(struct progress_thread *thread)
{
	const struct progress *progress = thread->progress;

	for (unsigned i = 0; i < progress->nr_ports; i++) {
		forget(thread, fabric_queue_fd(thread->queues[i]));
		forget(thread, fabric_listener_fd(progress->ports[i].listener));
	}
}
