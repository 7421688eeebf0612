/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue watches an endpoint's socket, by epoll; its rings, while it is warm; and whether it has something to
 * tell. Code that changes an endpoint calls here; queue.c polls.
 */
#include <errno.h>
#include <sys/epoll.h>

#include "fabric/local/local.h"

void local_queue_warm(struct local_queue *queue, struct local_endpoint *endpoint)
{
	if (endpoint->state != LOCAL_IS_CONNECTED)
		return;
	if (endpoint->patience == 0) {
		atomic_store_explicit(&endpoint->mine->is_asleep, 0, memory_order_relaxed);
		cds_list_add_tail(&endpoint->warm, &queue->warm);
	}
	endpoint->patience = LOCAL_PATIENCE;
}

void local_queue_cool(struct local_endpoint *endpoint)
{
	if (endpoint->patience == 0)
		return;
	endpoint->patience = 0;
	cds_list_del(&endpoint->warm);
}

int local_queue_add(struct local_queue *queue, struct local_endpoint *endpoint)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = endpoint};

	if (epoll_ctl(queue->epoll_fd, EPOLL_CTL_ADD, endpoint->fd, &event) != 0)
		return -errno;
	cds_list_add_tail(&endpoint->connecting, &queue->connecting);
	return 0;
}

void local_queue_forget_socket(struct local_queue *queue, struct local_endpoint *endpoint)
{
	/* Closing it would not be enough: a forked child may have it open too. */
	epoll_ctl(queue->epoll_fd, EPOLL_CTL_DEL, endpoint->fd, NULL);
	local_queue_cool(endpoint);
}

void local_queue_remove(struct local_queue *queue, struct local_endpoint *endpoint)
{
	(void)queue;
	local_queue_cool(endpoint);
	cds_list_del(&endpoint->connecting);
	cds_list_del(&endpoint->eventful);
	cds_list_del(&endpoint->finished);
}

void local_queue_tell(struct local_queue *queue, struct local_endpoint *endpoint)
{
	cds_list_del(&endpoint->connecting);
	CDS_INIT_LIST_HEAD(&endpoint->connecting);
	cds_list_del(&endpoint->eventful);
	cds_list_add_tail(&endpoint->eventful, &queue->eventful);
}
