/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both ends of both ways. A message is its bytes, and the answer one byte: taken or dropped. The naive receiver reads from all
 * connections in turns, a few packets at a time, as a network delivers them. The plain one reads all that there is of a
 * message. Owns the sockets, the child and the memory.
 */
#include "naive.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/congestion.h"
#include "harness/harness.h"
#include "harness/process.h"
#include "raw_fabric.h"

#define TURN_BYTES   ((size_t)8 << 10) /* that the receiver takes from a connection at a time */
#define READY_EVENTS 64
#define SPIN_NS \
	UINT64_C(50000) /* of the plain receiver before it sleeps, as a server of Afar does */
#define TAKEN	'T'
#define DROPPED 'D'

/* ---- The receiver, in the child */

struct sender {
	int fd;
	size_t have; /* of the message that is coming */
	char *slot;  /* where it goes; NULL: nowhere, it is dropped */
};

struct receiver {
	enum naive_way way;
	size_t size;
	uint64_t memory_bytes;
	uint64_t offset; /* into that: of the next message */
	unsigned nr_senders;
	int listener, epoll_fd;
	struct sender *senders;
	char *memory, *pool, *nowhere;
	char *free_slots[NAIVE_SLOTS];
	unsigned nr_free;
};

static int prepare_receiver(struct receiver *receiver)
{
	receiver->memory = bench_memory_map(receiver->memory_bytes);
	receiver->pool = bench_memory_map(NAIVE_SLOTS * receiver->size);
	receiver->nowhere = bench_memory_map(TURN_BYTES);
	receiver->senders = calloc(receiver->nr_senders, sizeof(*receiver->senders));
	receiver->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!receiver->memory || !receiver->pool || !receiver->nowhere || !receiver->senders ||
	    receiver->epoll_fd < 0)
		return -ENOMEM;
	for (unsigned i = 0; i < NAIVE_SLOTS; i++)
		receiver->free_slots[receiver->nr_free++] = receiver->pool + i * receiver->size;
	return 0;
}

static int accept_all(struct receiver *receiver)
{
	for (unsigned i = 0; i < receiver->nr_senders; i++) {
		struct sender *sender = &receiver->senders[i];
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = sender};

		sender->fd = accept4(receiver->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (sender->fd < 0 ||
		    epoll_ctl(receiver->epoll_fd, EPOLL_CTL_ADD, sender->fd, &event))
			return -errno;
	}
	return 0;
}

/* Where the next message ends: one behind the other, over all of the memory. */
static uint64_t next_offset(struct receiver *receiver)
{
	uint64_t offset = receiver->offset;

	receiver->offset = (offset + receiver->size) % receiver->memory_bytes;
	return offset;
}

/* The whole message has come. */
static int answer(struct receiver *receiver, struct sender *sender)
{
	char word = sender->slot ? TAKEN : DROPPED;

	if (sender->slot) {
		if (receiver->way == WITHOUT_FLOW_CONTROL) {
			memcpy(receiver->memory + next_offset(receiver), sender->slot,
			       receiver->size);
			receiver->free_slots[receiver->nr_free++] = sender->slot;
		}
	}
	sender->slot = NULL;
	sender->have = 0;
	return send(sender->fd, &word, 1, MSG_NOSIGNAL) == 1 ? 0 : -EPIPE;
}

static char *take_slot(struct receiver *receiver)
{
	if (receiver->way == PLAIN_SOCKETS)
		return receiver->memory + next_offset(receiver);
	return receiver->nr_free > 0 ? receiver->free_slots[--receiver->nr_free] : NULL;
}

static int take(struct receiver *receiver, struct sender *sender)
{
	size_t left = receiver->size - sender->have;
	ssize_t nr;

	if (sender->have == 0)
		sender->slot = take_slot(receiver);
	if (receiver->way == WITHOUT_FLOW_CONTROL && left > TURN_BYTES)
		left = TURN_BYTES;
	nr = recv(sender->fd, sender->slot ? sender->slot + sender->have : receiver->nowhere, left,
		  0);
	if (nr <= 0)
		return nr < 0 && errno == EAGAIN ? 0 : -EPIPE;
	sender->have += (size_t)nr;
	return sender->have == receiver->size ? answer(receiver, sender) : 0;
}

static int wait_for_senders(const struct receiver *receiver, struct epoll_event *events)
{
	uint64_t until = receiver->way == PLAIN_SOCKETS ? clock_ns() + SPIN_NS : 0;
	int nr;

	do {
		nr = epoll_wait(receiver->epoll_fd, events, READY_EVENTS, 0);
	} while (nr == 0 && clock_ns() < until);
	return nr ? nr : epoll_wait(receiver->epoll_fd, events, READY_EVENTS, -1);
}

static int receiver_main(int channel, void *argument)
{
	struct receiver *receiver = argument;
	struct epoll_event events[READY_EVENTS];
	const struct child parent = {.channel = channel};
	int ret = prepare_receiver(receiver);

	if (!ret)
		ret = child_send(&parent, "", 1);
	if (!ret)
		ret = accept_all(receiver);
	while (!ret) {
		int nr = wait_for_senders(receiver, events);

		for (int i = 0; i < nr && !ret; i++)
			ret = take(receiver, events[i].data.ptr);
	}
	return 1;
}

/* ---- The clients */

struct pusher {
	int fd;
	size_t sent;	 /* of its message */
	uint64_t offset; /* of that */
	uint32_t interest;
};

struct naive {
	struct receiver receiver; /* what the child begins with */
	struct child child;
	char *memory;	 /* of which the messages are */
	uint64_t offset; /* into that: of the next one */
	int epoll_fd;
	unsigned nr_pushers;
	struct pusher *pushers;

	uint64_t end; /* of the run, on clock_ns() */
	unsigned nr_busy;
	struct naive_result *result;
};

static int fail(const char *what)
{
	int ret = errno ? -errno : -EPIPE;

	return bench_fail(ret, "the sockets to compare with: %s: %s", what, strerror(-ret));
}

static int watch(struct naive *naive, struct pusher *pusher, uint32_t interest)
{
	struct epoll_event event = {.events = interest, .data.ptr = pusher};

	if (interest == pusher->interest)
		return 0;
	pusher->interest = interest;
	return epoll_ctl(naive->epoll_fd, EPOLL_CTL_MOD, pusher->fd, &event) ? fail("watch") : 0;
}

static int push(struct naive *naive, struct pusher *pusher)
{
	size_t size = naive->receiver.size;
	ssize_t nr = send(pusher->fd, naive->memory + pusher->offset + pusher->sent,
			  size - pusher->sent, MSG_NOSIGNAL);

	if (nr < 0 && errno != EAGAIN)
		return fail("send");
	pusher->sent += nr > 0 ? (size_t)nr : 0;
	return watch(naive, pusher, pusher->sent < size ? EPOLLOUT : EPOLLIN);
}

/* One message behind the other, over all of the memory. */
static int push_next(struct naive *naive, struct pusher *pusher)
{
	pusher->sent = 0;
	pusher->offset = naive->offset;
	naive->offset = (naive->offset + naive->receiver.size) % naive->receiver.memory_bytes;
	return push(naive, pusher);
}

static int take_answer(struct naive *naive, struct pusher *pusher)
{
	char word;
	ssize_t nr = recv(pusher->fd, &word, 1, 0);

	if (nr != 1)
		return nr < 0 && errno == EAGAIN ? 0 : fail("receive an answer");
	if (clock_ns() >= naive->end) {
		naive->nr_busy--;
		return 0;
	}
	if (word == TAKEN) {
		naive->result->nr++;
		return push_next(naive, pusher);
	}
	naive->result->nr_dropped++;
	pusher->sent = 0;
	return push(naive, pusher);
}

int naive_run(struct naive *naive, unsigned nr_clients, uint64_t span_ns,
	      struct naive_result *result)
{
	struct epoll_event events[READY_EVENTS];
	int ret = 0;

	*result = (struct naive_result){.elapsed_ns = span_ns};
	naive->result = result;
	naive->end = clock_ns() + span_ns;
	naive->nr_busy = nr_clients;
	for (unsigned i = 0; i < nr_clients && !ret; i++)
		ret = push_next(naive, &naive->pushers[i]);
	while (!ret && naive->nr_busy > 0) {
		int nr = epoll_wait(naive->epoll_fd, events, READY_EVENTS, 0);

		for (int i = 0; i < nr && !ret; i++) {
			struct pusher *pusher = events[i].data.ptr;

			ret = pusher->sent < naive->receiver.size ? push(naive, pusher)
								  : take_answer(naive, pusher);
		}
	}
	return ret;
}

/* ---- Opening and closing */

static int listen_on_loopback(struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*address =
		(struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	if (listener >= 0)
		congestion_apply(listener);
	if (listener < 0 || bind(listener, (struct sockaddr *)address, length) ||
	    listen(listener, SOMAXCONN) ||
	    getsockname(listener, (struct sockaddr *)address, &length))
		fail("listen");
	return listener;
}

static int connect_all(struct naive *naive, const struct sockaddr_in *address)
{
	const int one = 1;

	for (unsigned i = 0; i < naive->nr_pushers; i++) {
		struct pusher *pusher = &naive->pushers[i];
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = pusher};

		pusher->interest = EPOLLIN;
		pusher->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (pusher->fd < 0)
			return fail("connect");
		congestion_apply(pusher->fd);
		if (connect(pusher->fd, (const struct sockaddr *)address, sizeof(*address)))
			return fail("connect");
		setsockopt(pusher->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (fcntl(pusher->fd, F_SETFL, O_NONBLOCK) ||
		    epoll_ctl(naive->epoll_fd, EPOLL_CTL_ADD, pusher->fd, &event))
			return fail("connect");
	}
	return 0;
}

static int start_receiver(struct naive *naive, struct sockaddr_in *address)
{
	char word;
	int ret;

	naive->receiver.listener = listen_on_loopback(address);
	if (naive->receiver.listener < 0)
		return -EIO;
	ret = child_start(&naive->child, receiver_main, &naive->receiver);
	close(naive->receiver.listener);
	if (ret)
		return ret;
	ret = child_receive(&naive->child, &word, 1);
	return ret ? bench_fail(ret, "the receiver of the sockets has ended early") : 0;
}

void naive_close(struct naive *naive)
{
	if (!naive)
		return;
	child_stop(&naive->child);
	for (unsigned i = 0; i < naive->nr_pushers && naive->pushers; i++) {
		if (naive->pushers[i].fd > 0)
			close(naive->pushers[i].fd);
	}
	if (naive->epoll_fd > 0)
		close(naive->epoll_fd);
	bench_memory_unmap(naive->memory, naive->receiver.memory_bytes);
	free(naive->pushers);
	free(naive);
}

int naive_open(enum naive_way way, unsigned nr_clients, size_t size, uint64_t memory_bytes,
	       struct naive **out)
{
	struct naive *naive = calloc(1, sizeof(*naive));
	struct sockaddr_in address;
	int ret;

	if (!naive)
		return bench_fail(-ENOMEM, "no memory for the suite");
	naive->receiver = (struct receiver){
		.way = way, .size = size, .memory_bytes = memory_bytes, .nr_senders = nr_clients};
	naive->nr_pushers = nr_clients;
	ret = start_receiver(naive, &address);
	if (!ret) {
		naive->pushers = calloc(nr_clients, sizeof(*naive->pushers));
		naive->memory = bench_memory_map(memory_bytes);
		naive->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		if (!naive->pushers || !naive->memory || naive->epoll_fd < 0)
			ret = bench_fail(-ENOMEM, "no memory for the suite");
	}
	if (!ret)
		ret = connect_all(naive, &address);
	if (ret) {
		naive_close(naive);
		return ret;
	}
	*out = naive;
	return 0;
}
