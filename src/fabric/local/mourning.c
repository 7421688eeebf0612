/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers that have died. A transfer is a copy, which goes well as long as the memory is mapped, whether the server is
 * there or not; and who copies looks at the link, not at the socket, which would be a system call. So somebody who
 * sleeps on all of the sockets writes into the link what the server cannot write any more: that it has ended.
 *
 * The socket tells when the last process has it closed; a pid could be another's by then, and a robust lock in the link
 * would have the peer's pointers in it.
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

int local_mourning_open(struct local_fabric *fabric)
{
	fabric->mourn_fd = epoll_create1(EPOLL_CLOEXEC);
	if (fabric->mourn_fd < 0)
		return error_code(-errno);
	pthread_mutex_init(&fabric->mourn_lock, NULL);
	return 0;
}

void local_mourning_close(struct local_fabric *fabric)
{
	pthread_mutex_destroy(&fabric->mourn_lock);
	close(fabric->mourn_fd);
}

bool local_mourning_watch(struct local_endpoint *endpoint)
{
	struct local_fabric *fabric = fabric_of(endpoint);
	/* Once is enough, and must not keep who is to mourn awake. */
	struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = endpoint};

	pthread_mutex_lock(&fabric->mourn_lock);
	endpoint->is_watched =
		epoll_ctl(fabric->mourn_fd, EPOLL_CTL_ADD, endpoint->fd, &event) == 0;
	pthread_mutex_unlock(&fabric->mourn_lock);
	return endpoint->is_watched;
}

void local_mourning_forget(struct local_endpoint *endpoint)
{
	struct local_fabric *fabric = fabric_of(endpoint);

	if (!endpoint->is_watched)
		return;
	pthread_mutex_lock(&fabric->mourn_lock);
	epoll_ctl(fabric->mourn_fd, EPOLL_CTL_DEL, endpoint->fd, NULL);
	pthread_mutex_unlock(&fabric->mourn_lock);
	endpoint->is_watched = false;
}

int local_mourn_fd(struct fabric *base)
{
	return local_container(base, struct local_fabric)->mourn_fd;
}

void local_mourn(struct fabric *base)
{
	struct local_fabric *fabric = local_container(base, struct local_fabric);
	struct epoll_event events[EVENTS_MAX];
	int nr;

	pthread_mutex_lock(&fabric->mourn_lock);
	do {
		nr = epoll_wait(fabric->mourn_fd, events, EVENTS_MAX, 0);
		for (int i = 0; i < nr; i++) {
			const struct local_endpoint *endpoint = events[i].data.ptr;

			atomic_store(&endpoint->theirs->nr_revoked, LOCAL_ENDED);
		}
	} while (nr == EVENTS_MAX);
	pthread_mutex_unlock(&fabric->mourn_lock);
}
