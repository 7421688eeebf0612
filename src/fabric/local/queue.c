/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue: endpoints and one epoll descriptor over their sockets. Transfers are done when they are posted:
 * polling hands out their completions, without a system call. The epoll descriptor is
 * level-triggered and always looks for the same, so before sleeping only the peers must be told to
 * ring.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "fabric/local/exchange.h"
#include "fabric/local/references.h"

#define LOOK_POLLS   128 /* polls between looks at epoll when there is something else             */
#define READY_EVENTS 32

/* ---- Polling */

static void look(struct local_queue *queue)
{
	struct epoll_event events[READY_EVENTS];
	int nr = epoll_wait(queue->epoll_fd, events, READY_EVENTS, 0);

	queue->polls_until_look = LOOK_POLLS;
	for (int i = 0; i < nr; i++) {
		struct local_endpoint *endpoint = events[i].data.ptr;

		if (endpoint->state == LOCAL_IS_CONNECTING)
			local_endpoint_greet(endpoint);
		else
			local_hear(endpoint);
	}
}

/* Any part may end the connection. */
static bool progress(struct local_endpoint *endpoint)
{
	bool has_moved = local_ring_progress(endpoint);

	has_moved |= local_ask_progress(endpoint);
	if (local_serve_progress(endpoint))
		has_moved = endpoint->base.queue->has_moved = true;
	return has_moved;
}

static void poll_endpoint(struct local_endpoint *endpoint)
{
	if (progress(endpoint)) {
		if (endpoint->patience > 0) /* it has not ended with that */
			endpoint->patience = LOCAL_PATIENCE;
		return;
	}
	if (endpoint->patience > 1)
		endpoint->patience--;
	else if (endpoint->patience == 1 && local_ring_sleep(endpoint))
		local_queue_cool(endpoint);
}

static void take_one(struct local_endpoint *endpoint, struct fabric_completion *out)
{
	const struct local_done *done = &endpoint->done[endpoint->done_first++ % LOCAL_DONE_MAX];

	*out = done->completion;
	if (done->is_receive)
		endpoint->nr_receives--;
	else
		endpoint->nr_requests--;
}

static unsigned take_finished(struct local_queue *queue, struct fabric_completion *out,
			      unsigned max)
{
	struct local_endpoint *endpoint;
	unsigned nr = 0;

	while (nr < max && !cds_list_empty(&queue->finished)) {
		endpoint = cds_list_first_entry(&queue->finished, struct local_endpoint, finished);
		while (nr < max && endpoint->done_first != endpoint->done_end)
			take_one(endpoint, &out[nr++]);
		cds_list_del(&endpoint->finished);
		/* The others are first next time. */
		if (endpoint->done_first != endpoint->done_end)
			cds_list_add_tail(&endpoint->finished, &queue->finished);
		else
			CDS_INIT_LIST_HEAD(&endpoint->finished);
	}
	return nr;
}

int local_queue_poll(struct fabric_queue *base, struct fabric_completion *out, unsigned max)
{
	struct local_queue *queue = local_container(base, struct local_queue);
	struct local_endpoint *endpoint, *next;

	if (max == 0)
		return 0;
	base->has_moved = false;
	if (--queue->polls_until_look == 0 ||
	    (cds_list_empty(&queue->warm) && cds_list_empty(&queue->finished)))
		look(queue);
	cds_list_for_each_entry_safe (endpoint, next, &queue->warm, warm)
		poll_endpoint(endpoint);
	base->has_moved |= local_serve_poll(queue);
	return (int)take_finished(queue, out, max);
}

/* ---- Events */

int local_queue_event(struct fabric_queue *base, struct fabric_event *out)
{
	struct local_queue *queue = local_container(base, struct local_queue);
	struct local_endpoint *endpoint, *next;

	look(queue);
	cds_list_for_each_entry_safe (endpoint, next, &queue->connecting, connecting)
		local_endpoint_greet(endpoint);
	if (cds_list_empty(&queue->eventful))
		return 0;
	endpoint = cds_list_first_entry(&queue->eventful, struct local_endpoint, eventful);
	out->endpoint = &endpoint->base;
	out->status = 0;
	if (endpoint->told == LOCAL_IS_CONNECTING &&
	    (endpoint->state == LOCAL_IS_CONNECTED || endpoint->was_connected)) {
		out->kind = FABRIC_CONNECTED;
		endpoint->told = LOCAL_IS_CONNECTED;
	} else {
		out->kind = FABRIC_CLOSED;
		out->status = endpoint->was_connected ? -ECONNRESET : -ECONNREFUSED;
		endpoint->told = LOCAL_IS_CLOSED;
	}
	/* An ending endpoint has nothing to tell until it is closed. */
	if (endpoint->told == endpoint->state || endpoint->state == LOCAL_IS_ENDING) {
		cds_list_del(&endpoint->eventful);
		CDS_INIT_LIST_HEAD(&endpoint->eventful);
	}
	return 1;
}

/* ---- Sleeping */

int local_queue_fd(struct fabric_queue *base)
{
	return local_container(base, struct local_queue)->epoll_fd;
}

int local_queue_arm(struct fabric_queue *base)
{
	struct local_queue *queue = local_container(base, struct local_queue);
	struct local_endpoint *endpoint, *next;

	if (!cds_list_empty(&queue->finished) || !cds_list_empty(&queue->eventful) ||
	    !cds_list_empty(&queue->moving))
		return -EAGAIN;
	cds_list_for_each_entry_safe (endpoint, next, &queue->warm, warm) {
		if (!local_ring_sleep(endpoint))
			return -EAGAIN;
		local_queue_cool(endpoint);
	}
	return 0;
}

/* ---- Opening and closing */

static bool has_news(const struct local_endpoint *endpoint)
{
	return local_ask_has_news(endpoint) || local_serve_has_news(endpoint);
}

static void close_exchange(struct local_endpoint *endpoint)
{
	local_serve_close(endpoint);
	local_ask_close(endpoint);
	local_references_close(endpoint->references);
	endpoint->references = NULL;
}

static const struct local_paged_calls paged_calls = {
	.take_paged = local_ask_take_paged,
	.has_room = local_ask_has_room,
	.begin = local_ask_begin,
	.find = local_ask_find,
	.hand_over = local_serve_hand_over,
	.has_news = has_news,
	.close = close_exchange,
};

int local_queue_open(struct fabric *fabric, uint32_t depth, struct fabric_queue **out)
{
	struct local_queue *queue = calloc(1, sizeof(*queue));
	int ret;

	if (!queue)
		return error_code(-ENOMEM);
	queue->base.fabric = fabric;
	queue->paged = &paged_calls;
	queue->depth = depth == 0 ? 1 : depth > LOCAL_DEPTH_MAX ? LOCAL_DEPTH_MAX : depth;
	queue->polls_until_look = LOOK_POLLS;
	CDS_INIT_LIST_HEAD(&queue->warm);
	CDS_INIT_LIST_HEAD(&queue->connecting);
	CDS_INIT_LIST_HEAD(&queue->eventful);
	CDS_INIT_LIST_HEAD(&queue->finished);
	CDS_INIT_LIST_HEAD(&queue->moving);
	CDS_INIT_LIST_HEAD(&queue->lacking);
	queue->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (queue->epoll_fd < 0) {
		ret = -errno;
		free(queue);
		return error_code(ret);
	}
	*out = &queue->base;
	return 0;
}

void local_queue_close(struct fabric_queue *base)
{
	struct local_queue *queue = local_container(base, struct local_queue);

	local_life_close(queue);
	close(queue->epoll_fd);
	free(queue);
}
