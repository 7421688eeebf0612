/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue: endpoints and one epoll descriptor over their sockets. Polling is the hot path: one recv() for
 * each warm endpoint. The epoll descriptor is level-triggered, so nothing need be asked before
 * sleeping on it; what it looks for is only put right then.
 *
 * Where many endpoints move something at about the same time, most of those calls find nothing. Then each poll asks
 * epoll first, receives from those alone that it names, and leaves them to it again at once.
 *
 * Requests that are started between hold and release wait for the release, or for more of them, or for the next
 * poll, whichever is first.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "fabric/tcp/tcp.h"

#define PATIENCE      64 /* empty polls before an endpoint is left to epoll…        */
#define IDLE_COST     16 /* … of which one counts so many when no reply is due      */
#define ALWAYS_WARM   2	 /* so few cost less than asking epoll                      */
#define LOOK_POLLS    32 /* polls between looks for cold ones that have become ready… */
#define LOOK_COST     8	 /* … of which one in vain counts so many while any is cold */
#define READY_EVENTS  32
#define SPAN_POLLS    512 /* of these it is counted how many endpoints move something: … */
#define CROWD	      4	  /* … more are a crowd                                            */
#define HELD_BYTES    (64U << 10) /* of one endpoint: more is worth a system call of its own */
#define RELEASE_CALLS 8 /* for one endpoint: enough for all requests there may be, each in pieces */

/* ---- Warm and cold */

void tcp_queue_warm(struct tcp_queue *queue, struct tcp_endpoint *endpoint)
{
	if (endpoint->patience == 0) {
		cds_list_add_tail(&endpoint->warm, &queue->warm);
		queue->nr_warm++;
	}
	endpoint->patience = PATIENCE;
}

static void cool(struct tcp_queue *queue, struct tcp_endpoint *endpoint)
{
	if (endpoint->patience == 0)
		return;
	endpoint->patience = 0;
	cds_list_del(&endpoint->warm);
	queue->nr_warm--;
}

/* Room in the socket would let something go on. A request that lacks a place is taken when something
 * is sent. Behind a reply that waits for a pager nothing is; but a place may be there already. */
static bool wants_room(const struct tcp_endpoint *endpoint)
{
	if (tcp_stream_is_undecided(endpoint))
		return endpoint->lacks_place && tcp_stream_has_reply_place(endpoint);
	return endpoint->lacks_place || endpoint->out_next != endpoint->out_end;
}

static bool is_blocked(const struct tcp_endpoint *endpoint)
{
	return endpoint->lacks_receive || endpoint->lacks_place || endpoint->lacks_memory;
}

static uint32_t interest_of(const struct tcp_endpoint *endpoint)
{
	if (endpoint->state == TCP_IS_CONNECTING)
		return endpoint->has_greeted ? EPOLLIN : EPOLLOUT;
	/* Do not listen for what we do not take now, or it would wake us again and again. Owed
	 * replies are no reason not to listen: both ends may owe some, and then each would wait for
	 * the other. */
	return (is_blocked(endpoint) ? 0 : EPOLLIN) | (wants_room(endpoint) ? EPOLLOUT : 0);
}

/* Has epoll look for what the endpoint needs. */
static void tell_epoll(struct tcp_queue *queue, struct tcp_endpoint *endpoint)
{
	struct epoll_event event = {.events = interest_of(endpoint), .data.ptr = endpoint};

	if (event.events == endpoint->interest)
		return;
	if (epoll_ctl(queue->epoll_fd, EPOLL_CTL_MOD, endpoint->fd, &event) == 0)
		endpoint->interest = event.events;
}

static void warm_the_ready(struct tcp_queue *queue)
{
	struct epoll_event events[READY_EVENTS];
	int nr = epoll_wait(queue->epoll_fd, events, READY_EVENTS, 0);

	queue->polls_until_look = LOOK_POLLS;
	for (int i = 0; i < nr; i++) {
		struct tcp_endpoint *endpoint = events[i].data.ptr;

		if (endpoint->state == TCP_IS_CONNECTED &&
		    (events[i].events & (EPOLLHUP | EPOLLERR)) != 0)
			endpoint->is_hung = true;
		endpoint->is_ready = true;
		tcp_queue_warm(queue, endpoint);
	}
}

/* ---- Crowds */

static bool is_crowded(const struct tcp_queue *queue)
{
	return queue->nr_moved > CROWD || queue->nr_moved_before > CROWD;
}

static void note_poll(struct tcp_queue *queue)
{
	if (--queue->polls_until_span > 0)
		return;
	queue->polls_until_span = SPAN_POLLS;
	queue->span++;
	queue->nr_moved_before = queue->nr_moved;
	queue->nr_moved = 0;
}

static void note_moved(struct tcp_queue *queue, struct tcp_endpoint *endpoint)
{
	if (endpoint->moved_in_span == queue->span)
		return;
	endpoint->moved_in_span = queue->span;
	queue->nr_moved++;
}

/* ---- Endpoints */

int tcp_queue_add(struct tcp_queue *queue, struct tcp_endpoint *endpoint)
{
	struct epoll_event event = {.events = interest_of(endpoint), .data.ptr = endpoint};

	if (epoll_ctl(queue->epoll_fd, EPOLL_CTL_ADD, endpoint->fd, &event) != 0)
		return -errno;
	endpoint->interest = event.events;
	queue->nr_endpoints++;
	if (endpoint->state == TCP_IS_CONNECTING)
		cds_list_add_tail(&endpoint->connecting, &queue->connecting);
	tcp_queue_warm(queue, endpoint);
	return 0;
}

void tcp_queue_forget_socket(struct tcp_queue *queue, struct tcp_endpoint *endpoint)
{
	/* Closing it would not be enough: a forked child may have it open too. */
	epoll_ctl(queue->epoll_fd, EPOLL_CTL_DEL, endpoint->fd, NULL);
}

void tcp_queue_remove(struct tcp_queue *queue, struct tcp_endpoint *endpoint)
{
	cool(queue, endpoint);
	queue->nr_endpoints--;
	cds_list_del(&endpoint->connecting);
	cds_list_del(&endpoint->eventful);
	cds_list_del(&endpoint->held);
}

void tcp_queue_tell(struct tcp_queue *queue, struct tcp_endpoint *endpoint)
{
	cds_list_del(&endpoint->connecting);
	CDS_INIT_LIST_HEAD(&endpoint->connecting);
	cds_list_del(&endpoint->eventful);
	cds_list_add_tail(&endpoint->eventful, &queue->eventful);
}

/* ---- Holding */

static void stop_holding(struct tcp_endpoint *endpoint)
{
	cds_list_del(&endpoint->held);
	CDS_INIT_LIST_HEAD(&endpoint->held);
}

/* Polls send what finds no room in the socket, and everything behind it. */
void tcp_queue_send(struct tcp_queue *queue, struct tcp_endpoint *endpoint, bool is_first,
		    uint64_t bytes)
{
	if (queue->is_holding && is_first) {
		cds_list_del(&endpoint->held);
		cds_list_add_tail(&endpoint->held, &queue->held);
		endpoint->held_bytes = 0;
	}
	if (!cds_list_empty(&endpoint->held)) {
		endpoint->held_bytes += bytes;
		if (endpoint->held_bytes < HELD_BYTES)
			return;
		stop_holding(endpoint);
		is_first = true;
	}
	if (is_first)
		tcp_stream_flush(endpoint);
}

void tcp_queue_hold(struct fabric_queue *base)
{
	tcp_container(base, struct tcp_queue)->is_holding = true;
}

void tcp_queue_release(struct fabric_queue *base)
{
	struct tcp_queue *queue = tcp_container(base, struct tcp_queue);
	struct tcp_endpoint *endpoint, *next;

	queue->is_holding = false;
	cds_list_for_each_entry_safe (endpoint, next, &queue->held, held) {
		stop_holding(endpoint);
		for (unsigned i = 0; i < RELEASE_CALLS; i++) {
			if (endpoint->state != TCP_IS_CONNECTED || !tcp_stream_flush(endpoint))
				break;
		}
	}
}

/* ---- Lacking a pager's memory */

void tcp_queue_lack(struct tcp_queue *queue, struct tcp_endpoint *endpoint)
{
	if (endpoint->lacks_memory)
		return;
	endpoint->lacks_memory = true;
	cds_list_add_tail(&endpoint->lacking, &queue->lacking);
}

void tcp_queue_stop_lacking(struct tcp_endpoint *endpoint)
{
	if (!endpoint->lacks_memory)
		return;
	endpoint->lacks_memory = false;
	cds_list_del(&endpoint->lacking);
}

/* Puts those that lack memory before all others, in their order, because others would take it. */
__attribute__((cold)) static void warm_the_lacking(struct tcp_queue *queue)
{
	struct cds_list_head *node;
	struct tcp_endpoint *endpoint;

	cds_list_for_each_prev(node, &queue->lacking)
	{
		endpoint = cds_list_entry(node, struct tcp_endpoint, lacking);
		tcp_queue_warm(queue, endpoint);
		cds_list_move(&endpoint->warm, &queue->warm);
	}
}

/* ---- Polling */

/* An endpoint that has ended is warm as long as it has completions to tell. */
static void tell_rest(struct tcp_queue *queue, struct tcp_endpoint *endpoint, struct tcp_sink *sink)
{
	tcp_endpoint_fail_rest(endpoint, sink);
	if (!tcp_sink_is_full(sink))
		cool(queue, endpoint);
}

static void leave_to_epoll(struct tcp_queue *queue, struct tcp_endpoint *endpoint)
{
	tell_epoll(queue, endpoint);
	cool(queue, endpoint);
}

static void lose_patience(struct tcp_queue *queue, struct tcp_endpoint *endpoint)
{
	unsigned cost = endpoint->expected_first != endpoint->expected_end ? 1 : IDLE_COST;

	if (endpoint->patience > cost)
		endpoint->patience -= cost;
	else
		leave_to_epoll(queue, endpoint);
}

/* True: something has moved. */
static bool poll_endpoint(struct tcp_queue *queue, struct tcp_endpoint *endpoint, bool is_crowd,
			  struct tcp_sink *sink)
{
	bool may_receive = !is_crowd || endpoint->is_ready, has_moved = false;

	endpoint->is_ready = false;
	if (endpoint->state == TCP_IS_CONNECTING)
		tcp_endpoint_greet(endpoint);
	else if (endpoint->state == TCP_IS_CONNECTED)
		has_moved = tcp_stream_progress(endpoint, may_receive, sink);
	if (has_moved)
		note_moved(queue, endpoint);
	if (endpoint->state == TCP_IS_CLOSED)
		tell_rest(queue, endpoint, sink);
	else if (is_crowd && !tcp_sink_is_full(sink))
		leave_to_epoll(queue, endpoint);
	else if (has_moved || is_crowd || queue->nr_warm <= ALWAYS_WARM)
		endpoint->patience = PATIENCE;
	else
		lose_patience(queue, endpoint);
	return has_moved;
}

int tcp_queue_poll(struct fabric_queue *base, struct fabric_completion *out, unsigned max)
{
	struct tcp_queue *queue = tcp_container(base, struct tcp_queue);
	struct tcp_sink sink = {.out = out, .max = max};
	struct tcp_endpoint *endpoint, *next;
	bool is_crowd = is_crowded(queue);

	queue->polls_until_look -=
		base->has_moved || queue->nr_warm == queue->nr_endpoints ? 1 : LOOK_COST;
	base->has_moved = false;
	if (max == 0)
		return 0;
	queue->is_drained = true;
	note_poll(queue);
	if (!cds_list_empty(&queue->lacking))
		warm_the_lacking(queue);
	if (is_crowd || cds_list_empty(&queue->warm) || queue->polls_until_look <= 0)
		warm_the_ready(queue);
	cds_list_for_each_entry_safe (endpoint, next, &queue->warm, warm) {
		/* Begin the next time with the endpoints that were left out. */
		if (tcp_sink_is_full(&sink)) {
			cds_list_del(&queue->warm);
			cds_list_add_tail(&queue->warm, &endpoint->warm);
			break;
		}
		if (poll_endpoint(queue, endpoint, is_crowd, &sink))
			base->has_moved = true;
	}
	if (tcp_sink_is_full(&sink))
		queue->is_drained = false;
	return (int)sink.nr;
}

/* ---- Events */

/* Greets connecting endpoints, so that a caller that waits for a connection need not poll. */
static void greet_all(struct tcp_queue *queue)
{
	struct tcp_endpoint *endpoint, *next;

	cds_list_for_each_entry_safe (endpoint, next, &queue->connecting, connecting)
		tcp_endpoint_greet(endpoint);
}

int tcp_queue_event(struct fabric_queue *base, struct fabric_event *out)
{
	struct tcp_queue *queue = tcp_container(base, struct tcp_queue);
	struct tcp_endpoint *endpoint;

	if (!cds_list_empty(&queue->connecting))
		greet_all(queue);
	if (cds_list_empty(&queue->eventful))
		return 0;
	endpoint = cds_list_first_entry(&queue->eventful, struct tcp_endpoint, eventful);
	out->endpoint = &endpoint->base;
	out->status = 0;
	if (endpoint->told == TCP_IS_CONNECTING &&
	    (endpoint->state == TCP_IS_CONNECTED || endpoint->was_connected)) {
		out->kind = FABRIC_CONNECTED;
		endpoint->told = TCP_IS_CONNECTED;
	} else {
		out->kind = FABRIC_CLOSED;
		out->status = !endpoint->was_connected ? -ECONNREFUSED
			      : endpoint->is_silent    ? -ETIMEDOUT
						       : -ECONNRESET;
		endpoint->told = TCP_IS_CLOSED;
	}
	if (endpoint->told == endpoint->state) {
		cds_list_del(&endpoint->eventful);
		CDS_INIT_LIST_HEAD(&endpoint->eventful);
	}
	return 1;
}

/* ---- Sleeping */

int tcp_queue_fd(struct fabric_queue *base)
{
	return tcp_container(base, struct tcp_queue)->epoll_fd;
}

int tcp_queue_arm(struct fabric_queue *base)
{
	struct tcp_queue *queue = tcp_container(base, struct tcp_queue);
	struct tcp_sink nowhere = {.max = 0};
	struct tcp_endpoint *endpoint;

	if (!queue->is_drained || !cds_list_empty(&queue->eventful))
		return -EAGAIN;
	cds_list_for_each_entry (endpoint, &queue->warm, warm) {
		tcp_stream_reap(endpoint, &nowhere);
		/* It has ended, or sent a message, and that is not told yet. */
		if (endpoint->state == TCP_IS_CLOSED || endpoint->out_first != endpoint->out_next)
			return -EAGAIN;
		tell_epoll(queue, endpoint);
	}
	/* Replies that were taken off may have made room in a pager. */
	return queue->is_drained ? 0 : -EAGAIN;
}

/* ---- Opening and closing */

int tcp_queue_open(struct fabric *fabric, uint32_t depth, struct fabric_queue **out)
{
	struct tcp_queue *queue = calloc(1, sizeof(*queue));
	int ret;

	if (!queue)
		return error_code(-ENOMEM);
	queue->base.fabric = fabric;
	queue->depth = depth == 0 ? 1 : depth > TCP_DEPTH_MAX ? TCP_DEPTH_MAX : depth;
	queue->is_drained = true;
	queue->polls_until_look = LOOK_POLLS;
	queue->polls_until_span = SPAN_POLLS;
	queue->span = 1;
	CDS_INIT_LIST_HEAD(&queue->warm);
	CDS_INIT_LIST_HEAD(&queue->connecting);
	CDS_INIT_LIST_HEAD(&queue->eventful);
	CDS_INIT_LIST_HEAD(&queue->held);
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

void tcp_queue_close(struct fabric_queue *base)
{
	struct tcp_queue *queue = tcp_container(base, struct tcp_queue);

	close(queue->epoll_fd);
	free(queue);
}
