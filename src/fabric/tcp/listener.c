/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listeners: strangers connect and say hello; who has said it becomes a request, to be accepted
 * (endpoint.c) or rejected. Until then a stranger costs a descriptor and less than 300 bytes. There
 * are never more than STRANGERS_MAX: one more, and the one that has waited longest goes. When the
 * machine or the process is short of something that a connection takes, nobody is accepted for
 * PAUSE_MS: who connects has to wait.
 *
 * A listener owns its socket, the alarm that ends a pause, an epoll over these and the strangers' sockets, and the
 * strangers. Any thread may call; a lock orders them.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "fabric/address.h"
#include "fabric/tcp/tcp.h"

#define STRANGERS_MAX 1024U
#define BACKLOG	      1024
#define STEPS_MAX     256U /* of one call: strangers that trickle must not keep it */
#define PAUSE_MS      50

struct tcp_stranger {
	struct cds_list_head node; /* in tcp_listener.strangers */
	int fd;
	uint64_t since; /* on clock_ns() */
	struct sockaddr_storage address;
	uint32_t nr_bytes; /* of the hello have come */
	struct tcp_hello hello;
};

struct tcp_listener {
	struct fabric_listener base;
	int fd;
	int epoll_fd;
	int alarm_fd; /* a timer: a pause is over */
	pthread_mutex_t lock;
	struct cds_list_head strangers; /* the oldest first */
	size_t nr_strangers;
	struct tcp_stranger *sorted[STRANGERS_MAX]; /* by a sweep */
};

/* ---- Strangers */

static void take_off(struct tcp_listener *listener, struct tcp_stranger *stranger)
{
	epoll_ctl(listener->epoll_fd, EPOLL_CTL_DEL, stranger->fd, NULL);
	cds_list_del(&stranger->node);
	listener->nr_strangers--;
}

static void put_out(struct tcp_listener *listener, struct tcp_stranger *stranger)
{
	take_off(listener, stranger);
	close(stranger->fd);
	free(stranger);
}

static void put_oldest_out(struct tcp_listener *listener)
{
	if (listener->nr_strangers > 0)
		put_out(listener,
			cds_list_first_entry(&listener->strangers, struct tcp_stranger, node));
}

static void let_in(struct tcp_listener *listener, int fd, const struct sockaddr_storage *address)
{
	struct tcp_stranger *stranger = calloc(1, sizeof(*stranger));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = stranger};

	if (!stranger)
		goto out_close;
	stranger->fd = fd;
	stranger->since = clock_ns();
	stranger->address = *address;
	if (epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
		goto out_free;
	cds_list_add_tail(&stranger->node, &listener->strangers);
	listener->nr_strangers++;
	return;

out_free:
	free(stranger);
out_close:
	close(fd);
}

static void watch_socket(struct tcp_listener *listener, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = &listener->fd};

	epoll_ctl(listener->epoll_fd, EPOLL_CTL_MOD, listener->fd, &event);
}

/* The socket stays readable while nobody can be accepted, and must not keep anybody awake. */
static void pause_accepting(struct tcp_listener *listener)
{
	const struct itimerspec soon = {.it_value.tv_nsec = PAUSE_MS * 1000000L};

	if (timerfd_settime(listener->alarm_fd, 0, &soon, NULL) == 0)
		watch_socket(listener, 0);
}

static void resume_accepting(struct tcp_listener *listener)
{
	static const struct itimerspec never;

	timerfd_settime(listener->alarm_fd, 0, &never, NULL);
	watch_socket(listener, EPOLLIN);
}

/* -EAGAIN, or what there is a shortage of. */
static int accept_one(struct tcp_listener *listener)
{
	struct sockaddr_storage address = {0};
	socklen_t length = sizeof(address);
	int fd, error;

	if (listener->nr_strangers == STRANGERS_MAX)
		put_oldest_out(listener);
	fd = accept4(listener->fd, (struct sockaddr *)&address, &length,
		     SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		let_in(listener, fd, &address);
		return -EAGAIN;
	}
	error = errno;
	if (!error_is_shortage(error))
		return -EAGAIN;
	/* Nobody's silence may cost others their turn. */
	put_oldest_out(listener);
	pause_accepting(listener);
	return -error;
}

/* How long the hello is, as far as one can tell. 0: it is none. */
static uint32_t hello_bytes(const struct tcp_stranger *stranger)
{
	const struct tcp_hello *hello = &stranger->hello;
	uint16_t private_length = le16toh(hello->private_length);

	if (stranger->nr_bytes < TCP_HELLO_HEAD)
		return TCP_HELLO_HEAD;
	if (le32toh(hello->magic) != TCP_WIRE_MAGIC ||
	    le16toh(hello->version) != TCP_WIRE_VERSION || private_length > FABRIC_PRIVATE_MAX)
		return 0;
	return TCP_HELLO_HEAD + private_length;
}

enum hello { HELLO_PART, HELLO_WHOLE, HELLO_NONE };

static enum hello listen_to(struct tcp_stranger *stranger)
{
	uint32_t wanted;
	ssize_t nr;

	while ((wanted = hello_bytes(stranger)) > stranger->nr_bytes) {
		nr = recv(stranger->fd, (uint8_t *)&stranger->hello + stranger->nr_bytes,
			  wanted - stranger->nr_bytes, MSG_DONTWAIT);
		if (nr < 0 && (errno == EAGAIN || errno == EINTR))
			return HELLO_PART;
		if (nr <= 0)
			return HELLO_NONE;
		stranger->nr_bytes += (uint32_t)nr;
	}
	return wanted == 0 ? HELLO_NONE : HELLO_WHOLE;
}

/* ---- Requests: strangers that have said hello, and belong to whoever has the request */

static void fill_request(struct tcp_stranger *stranger, struct fabric_request *out)
{
	memset(out, 0, sizeof(*out));
	out->handle = stranger;
	out->private_length = le16toh(stranger->hello.private_length);
	memcpy(out->private_data, stranger->hello.private_data, out->private_length);
	fabric_address_print(&stranger->address, out->peer);
}

static int hear_stranger(struct tcp_listener *listener, struct tcp_stranger *stranger,
			 struct fabric_request *out)
{
	switch (listen_to(stranger)) {
	case HELLO_PART:
		return -EAGAIN;
	case HELLO_NONE:
		put_out(listener, stranger);
		return -EAGAIN;
	case HELLO_WHOLE:
		break;
	}
	take_off(listener, stranger);
	fill_request(stranger, out);
	return 0;
}

/* One thing that the epoll tells. 0: it was a request; -EAGAIN: something else; -ENOENT: there is nothing; else
 * as accept_one(). */
static int take_one(struct tcp_listener *listener, struct fabric_request *out)
{
	struct epoll_event event;

	/* One by one: whoever is told of may be put out on account of another. */
	if (epoll_wait(listener->epoll_fd, &event, 1, 0) != 1)
		return -ENOENT;
	if (event.data.ptr == &listener->fd)
		return accept_one(listener);
	if (event.data.ptr == &listener->alarm_fd) {
		resume_accepting(listener);
		return -EAGAIN;
	}
	return hear_stranger(listener, event.data.ptr, out);
}

int tcp_listener_next(struct fabric_listener *base, struct fabric_request *out)
{
	struct tcp_listener *listener = tcp_container(base, struct tcp_listener);
	int ret = -EAGAIN;

	pthread_mutex_lock(&listener->lock);
	for (unsigned i = 0; i < STEPS_MAX && ret == -EAGAIN; i++)
		ret = take_one(listener, out);
	pthread_mutex_unlock(&listener->lock);
	if (ret == 0 || ret == -EAGAIN)
		return ret;
	if (ret == -ENOENT)
		return -EAGAIN;
	return error_fail(ret, "accept on %s: %s; clients have to wait", base->address,
			  afar_strerror(ret));
}

int tcp_request_take(struct fabric_request *request)
{
	struct tcp_stranger *stranger = request->handle;
	int fd = stranger->fd;

	free(stranger);
	request->handle = NULL;
	return fd;
}

/* A request that failed to be accepted may come here with nothing left. */
void tcp_reject(struct fabric_listener *base, struct fabric_request *request)
{
	(void)base;
	if (request->handle)
		close(tcp_request_take(request));
}

/* ---- Sweeping */

/* By host, the longest there first. */
static int compare_turns(const void *a, const void *b)
{
	const struct tcp_stranger *left = *(struct tcp_stranger *const *)a;
	const struct tcp_stranger *right = *(struct tcp_stranger *const *)b;
	int order = fabric_address_compare_hosts(&left->address, &right->address);

	return order != 0 ? order : (left->since > right->since) - (left->since < right->since);
}

/* Ends the connections of strangers from one host that have waited too long, or are too many. */
static void put_some_out(struct tcp_listener *listener, struct tcp_stranger **strangers, size_t nr,
			 const struct fabric_patience *patience, uint64_t now)
{
	size_t nr_left = nr;

	for (size_t i = 0; i < nr; i++) {
		uint32_t limit_ms =
			nr_left > patience->nr_per_host ? patience->crowd_ms : patience->silence_ms;

		if (now - strangers[i]->since < (uint64_t)limit_ms * 1000000U)
			break;
		put_out(listener, strangers[i]);
		nr_left--;
	}
}

static size_t host_end(struct tcp_stranger *const *sorted, size_t nr, size_t begin)
{
	size_t end = begin + 1;

	while (end < nr &&
	       fabric_address_compare_hosts(&sorted[begin]->address, &sorted[end]->address) == 0)
		end++;
	return end;
}

size_t tcp_listener_sweep(struct fabric_listener *base, const struct fabric_patience *patience)
{
	struct tcp_listener *listener = tcp_container(base, struct tcp_listener);
	struct tcp_stranger *stranger;
	size_t nr = 0, begin, end;
	uint64_t now;

	pthread_mutex_lock(&listener->lock);
	now = clock_ns();
	cds_list_for_each_entry (stranger, &listener->strangers, node)
		listener->sorted[nr++] = stranger;
	qsort(listener->sorted, nr, sizeof(*listener->sorted), compare_turns);
	for (begin = 0; begin < nr; begin = end) {
		end = host_end(listener->sorted, nr, begin);
		put_some_out(listener, &listener->sorted[begin], end - begin, patience, now);
	}
	pthread_mutex_unlock(&listener->lock);
	return nr;
}

/* ---- Opening and closing */

static int open_socket(struct tcp_listener *listener, const struct fabric_address *local)
{
	struct sockaddr_storage name = {0};
	socklen_t length = sizeof(name);
	const int one = 1;
	int ret;

	listener->fd =
		socket(local->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener->fd < 0)
		return -errno;
	/* A port whose last connections are only being forgotten is free; one that is listened on is not. */
	setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	ret = tcp_congestion_listen(listener->fd, listener->base.fabric->congestion,
				    &local->storage);
	if (ret != 0)
		return ret;
	if (bind(listener->fd, (const struct sockaddr *)&local->storage, local->length) != 0 ||
	    listen(listener->fd, BACKLOG) != 0 ||
	    getsockname(listener->fd, (struct sockaddr *)&name, &length) != 0)
		return -errno;
	fabric_address_print(&name, listener->base.address);
	return 0;
}

static int open_descriptors(struct tcp_listener *listener, const struct fabric_address *local)
{
	struct epoll_event socket_event = {.events = EPOLLIN, .data.ptr = &listener->fd};
	struct epoll_event alarm_event = {.events = EPOLLIN, .data.ptr = &listener->alarm_fd};
	int ret = open_socket(listener, local);

	if (ret != 0)
		return ret;
	listener->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (listener->epoll_fd < 0)
		return -errno;
	listener->alarm_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (listener->alarm_fd < 0 ||
	    epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, listener->fd, &socket_event) != 0 ||
	    epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, listener->alarm_fd, &alarm_event) != 0)
		return -errno;
	return 0;
}

static void close_descriptors(struct tcp_listener *listener)
{
	const int fds[] = {listener->fd, listener->epoll_fd, listener->alarm_fd};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

int tcp_listen(struct fabric *fabric, const char *address, struct fabric_listener **out)
{
	struct tcp_listener *listener;
	struct fabric_address local;
	int ret = fabric_address_resolve("listen on", address, true, &local);

	if (ret != 0)
		return ret;
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return error_code(-ENOMEM);
	listener->base.fabric = fabric;
	listener->fd = listener->epoll_fd = listener->alarm_fd = -1;
	CDS_INIT_LIST_HEAD(&listener->strangers);
	ret = open_descriptors(listener, &local);
	if (ret != 0) {
		close_descriptors(listener);
		free(listener);
		return error_fail(ret, "listen on %s: %s%s", address, afar_strerror(ret),
				  ret == -EADDRINUSE ? "; choose another port, or port 0 for any"
				  : ret == -EADDRNOTAVAIL ? "; choose an address of this machine"
							  : "");
	}
	pthread_mutex_init(&listener->lock, NULL);
	*out = &listener->base;
	return 0;
}

void tcp_listener_close(struct fabric_listener *base)
{
	struct tcp_listener *listener = tcp_container(base, struct tcp_listener);

	while (listener->nr_strangers > 0)
		put_oldest_out(listener);
	close_descriptors(listener);
	pthread_mutex_destroy(&listener->lock);
	free(listener);
}

void tcp_listener_congestion(struct fabric_listener *base, char out[static FABRIC_CONGESTION_MAX])
{
	tcp_congestion_get(tcp_container(base, struct tcp_listener)->fd, out);
}

int tcp_listener_fd(struct fabric_listener *base)
{
	return tcp_container(base, struct tcp_listener)->epoll_fd;
}
