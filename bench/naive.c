/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both ends of the naive way. A message is its bytes, and the answer one byte: taken or dropped. The receiver reads from all
 * connections in turns, a few packets at a time, as a network delivers them. Owns the sockets, the child and the memory.
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
#include "harness.h"
#include "process.h"
#include "raw_fabric.h"

#define TURN_BYTES   ((size_t)8 << 10) /* that the receiver takes from a connection at a time */
#define READY_EVENTS 64
#define TAKEN	     'T'
#define DROPPED	     'D'

/* ---- The receiver, in the child */

struct sender {
	int fd;
	size_t have; /* of the message that is coming */
	char *slot;  /* where it goes; NULL: nowhere, it is dropped */
	uint64_t offset;
};

struct receiver {
	size_t size;
	uint64_t memory_bytes;
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
		sender->offset = i * receiver->size % receiver->memory_bytes;
		if (sender->fd < 0 ||
		    epoll_ctl(receiver->epoll_fd, EPOLL_CTL_ADD, sender->fd, &event))
			return -errno;
	}
	return 0;
}

/* The whole message has come. */
static int answer(struct receiver *receiver, struct sender *sender)
{
	char word = sender->slot ? TAKEN : DROPPED;

	if (sender->slot) {
		memcpy(receiver->memory + sender->offset, sender->slot, receiver->size);
		sender->offset = (sender->offset + receiver->nr_senders * receiver->size) %
				 receiver->memory_bytes;
		receiver->free_slots[receiver->nr_free++] = sender->slot;
	}
	sender->slot = NULL;
	sender->have = 0;
	return send(sender->fd, &word, 1, MSG_NOSIGNAL) == 1 ? 0 : -EPIPE;
}

static int take(struct receiver *receiver, struct sender *sender)
{
	size_t left = receiver->size - sender->have;
	ssize_t nr;

	if (sender->have == 0 && receiver->nr_free > 0)
		sender->slot = receiver->free_slots[--receiver->nr_free];
	nr = recv(sender->fd, sender->slot ? sender->slot + sender->have : receiver->nowhere,
		  left < TURN_BYTES ? left : TURN_BYTES, 0);
	if (nr <= 0)
		return nr < 0 && errno == EAGAIN ? 0 : -EPIPE;
	sender->have += (size_t)nr;
	return sender->have == receiver->size ? answer(receiver, sender) : 0;
}

static int receiver_main(int channel, void *argument)
{
	struct receiver *receiver = argument;
	struct epoll_event events[READY_EVENTS];
	const struct child parent = {.channel = channel};
	int status = prepare_receiver(receiver);

	if (!status)
		status = child_send(&parent, "", 1);
	if (!status)
		status = accept_all(receiver);
	while (!status) {
		int nr = epoll_wait(receiver->epoll_fd, events, READY_EVENTS, -1);

		for (int i = 0; i < nr && !status; i++)
			status = take(receiver, events[i].data.ptr);
	}
	return 1;
}

/* ---- The clients */

struct pusher {
	int fd;
	size_t sent; /* of its message */
	uint32_t interest;
};

struct naive {
	struct receiver receiver; /* what the child begins with */
	struct child child;
	char *message;
	int epoll_fd;
	unsigned nr_pushers;
	struct pusher *pushers;

	uint64_t end; /* of the run, on clock_ns() */
	unsigned nr_busy;
	struct naive_result *result;
};

static int fail(const char *what)
{
	int status = errno ? -errno : -EPIPE;

	return bench_fail(status, "the naive way: %s: %s", what, strerror(-status));
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
	ssize_t nr =
		send(pusher->fd, naive->message + pusher->sent, size - pusher->sent, MSG_NOSIGNAL);

	if (nr < 0 && errno != EAGAIN)
		return fail("send");
	pusher->sent += nr > 0 ? (size_t)nr : 0;
	return watch(naive, pusher, pusher->sent < size ? EPOLLOUT : EPOLLIN);
}

static int take_answer(struct naive *naive, struct pusher *pusher)
{
	char word;
	ssize_t nr = recv(pusher->fd, &word, 1, 0);

	if (nr != 1)
		return nr < 0 && errno == EAGAIN ? 0 : fail("receive an answer");
	pusher->sent = 0;
	if (clock_ns() >= naive->end) {
		naive->nr_busy--;
		return 0;
	}
	if (word == TAKEN)
		naive->result->nr++;
	else
		naive->result->nr_dropped++;
	return push(naive, pusher);
}

int naive_run(struct naive *naive, unsigned nr_clients, uint64_t span_ns,
	      struct naive_result *result)
{
	struct epoll_event events[READY_EVENTS];
	int status = 0;

	*result = (struct naive_result){.elapsed_ns = span_ns};
	naive->result = result;
	naive->end = clock_ns() + span_ns;
	naive->nr_busy = nr_clients;
	for (unsigned i = 0; i < nr_clients && !status; i++)
		status = push(naive, &naive->pushers[i]);
	while (!status && naive->nr_busy > 0) {
		int nr = epoll_wait(naive->epoll_fd, events, READY_EVENTS, 0);

		for (int i = 0; i < nr && !status; i++) {
			struct pusher *pusher = events[i].data.ptr;

			status = pusher->sent < naive->receiver.size ? push(naive, pusher)
								     : take_answer(naive, pusher);
		}
	}
	return status;
}

/* ---- Opening and closing */

static int listen_on_loopback(struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*address =
		(struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
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
		if (pusher->fd < 0 ||
		    connect(pusher->fd, (const struct sockaddr *)address, sizeof(*address)))
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
	int status;

	naive->receiver.listener = listen_on_loopback(address);
	if (naive->receiver.listener < 0)
		return -EIO;
	status = child_start(&naive->child, receiver_main, &naive->receiver);
	close(naive->receiver.listener);
	if (status)
		return status;
	status = child_receive(&naive->child, &word, 1);
	return status ? bench_fail(status, "the naive receiver has ended early") : 0;
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
	bench_memory_unmap(naive->message, naive->receiver.size);
	free(naive->pushers);
	free(naive);
}

int naive_open(unsigned nr_clients, size_t size, uint64_t memory_bytes, struct naive **out)
{
	struct naive *naive = calloc(1, sizeof(*naive));
	struct sockaddr_in address;
	int status;

	if (!naive)
		return bench_fail(-ENOMEM, "no memory for the suite");
	naive->receiver = (struct receiver){
		.size = size, .memory_bytes = memory_bytes, .nr_senders = nr_clients};
	naive->nr_pushers = nr_clients;
	status = start_receiver(naive, &address);
	if (!status) {
		naive->pushers = calloc(nr_clients, sizeof(*naive->pushers));
		naive->message = bench_memory_map(size);
		naive->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		if (!naive->pushers || !naive->message || naive->epoll_fd < 0)
			status = bench_fail(-ENOMEM, "no memory for the suite");
	}
	if (!status)
		status = connect_all(naive, &address);
	if (status) {
		naive_close(naive);
		return status;
	}
	*out = naive;
	return 0;
}
