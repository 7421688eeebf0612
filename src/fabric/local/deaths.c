/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notices servers that have died. A transfer is a copy, which succeeds as long as the memory is
 * mapped, even if the server is gone. The copying thread looks at the link, not at the socket,
 * because that would be a system call. So another thread sleeps on all sockets, and writes into the
 * link what a dead server cannot: that it has ended.
 *
 * The socket tells of the end when the last process has closed it. A pid could be another process's
 * by then, and a robust lock in the link would hold pointers of the peer's.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "fabric/local/local.h"

#define EVENTS_MAX 16

static struct local_fabric *fabric_of(const struct local_endpoint *endpoint)
{
	return local_container(endpoint->base.queue->fabric, struct local_fabric);
}

int local_deaths_open(struct local_fabric *fabric)
{
	fabric->deaths_fd = epoll_create1(EPOLL_CLOEXEC);
	if (fabric->deaths_fd < 0)
		return error_code(-errno);
	pthread_mutex_init(&fabric->deaths_lock, NULL);
	return 0;
}

void local_deaths_close(struct local_fabric *fabric)
{
	pthread_mutex_destroy(&fabric->deaths_lock);
	close(fabric->deaths_fd);
}

bool local_deaths_watch(struct local_endpoint *endpoint)
{
	struct local_fabric *fabric = fabric_of(endpoint);
	/* One report is enough, and must not keep the waiting thread awake. */
	struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = endpoint};

	pthread_mutex_lock(&fabric->deaths_lock);
	endpoint->is_watched =
		epoll_ctl(fabric->deaths_fd, EPOLL_CTL_ADD, endpoint->fd, &event) == 0;
	pthread_mutex_unlock(&fabric->deaths_lock);
	return endpoint->is_watched;
}

void local_deaths_forget(struct local_endpoint *endpoint)
{
	struct local_fabric *fabric = fabric_of(endpoint);

	if (!endpoint->is_watched)
		return;
	pthread_mutex_lock(&fabric->deaths_lock);
	epoll_ctl(fabric->deaths_fd, EPOLL_CTL_DEL, endpoint->fd, NULL);
	pthread_mutex_unlock(&fabric->deaths_lock);
	endpoint->is_watched = false;
}

int local_deaths_fd(struct fabric *base)
{
	return local_container(base, struct local_fabric)->deaths_fd;
}

void local_deaths_note(struct fabric *base)
{
	struct local_fabric *fabric = local_container(base, struct local_fabric);
	struct epoll_event events[EVENTS_MAX];
	int nr;

	pthread_mutex_lock(&fabric->deaths_lock);
	do {
		nr = epoll_wait(fabric->deaths_fd, events, EVENTS_MAX, 0);
		for (int i = 0; i < nr; i++) {
			const struct local_endpoint *endpoint = events[i].data.ptr;

			atomic_store(&endpoint->theirs->nr_revoked, LOCAL_ENDED);
		}
	} while (nr == EVENTS_MAX);
	pthread_mutex_unlock(&fabric->deaths_lock);
}
