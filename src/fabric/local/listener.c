/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listeners: strangers connect and say hello; who has said it becomes a request, to be accepted
 * (endpoint.c) or rejected. Until then a stranger costs a descriptor and less than 100 bytes. There
 * are never more than STRANGERS_MAX: one more, and the one that has waited longest goes.
 *
 * A listener owns its socket and the file that it is, an epoll over it and the strangers' sockets, and the
 * strangers. Any thread may call; a lock orders them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "fabric/local/local.h"

#define STRANGERS_MAX 1024U
#define STEPS_MAX     256U /* of one call: strangers must not keep it */

struct local_stranger {
	struct cds_list_head node; /* in local_listener.strangers */
	int fd;
	uint64_t since; /* on clock_ns() */
};

struct local_listener {
	struct fabric_listener base;
	int fd;
	int epoll_fd;
	int spare_fd; /* given up to put somebody out when there are no descriptors left */
	bool is_bound;
	pthread_mutex_t lock;
	struct cds_list_head strangers; /* the oldest first */
	size_t nr_strangers;
};

/* ---- Strangers */

static void take_off(struct local_listener *listener, struct local_stranger *stranger)
{
	epoll_ctl(listener->epoll_fd, EPOLL_CTL_DEL, stranger->fd, NULL);
	cds_list_del(&stranger->node);
	listener->nr_strangers--;
}

static void put_out(struct local_listener *listener, struct local_stranger *stranger)
{
	take_off(listener, stranger);
	close(stranger->fd);
	free(stranger);
}

static struct local_stranger *oldest(const struct local_listener *listener)
{
	return cds_list_first_entry(&listener->strangers, struct local_stranger, node);
}

static void put_oldest_out(struct local_listener *listener)
{
	if (listener->nr_strangers > 0)
		put_out(listener, oldest(listener));
}

/* The file's mode keeps others out, unless somebody has changed it. */
static void let_in(struct local_listener *listener, int fd)
{
	struct local_stranger *stranger = calloc(1, sizeof(*stranger));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = stranger};

	if (!stranger || !local_place_is_trusted(fd) ||
	    epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
		free(stranger);
		close(fd);
		return;
	}
	stranger->fd = fd;
	stranger->since = clock_ns();
	cds_list_add_tail(&stranger->node, &listener->strangers);
	listener->nr_strangers++;
}

/* Nobody could be accepted for want of a descriptor, and the socket would stay readable. */
static void turn_one_away(struct local_listener *listener)
{
	put_oldest_out(listener);
	if (listener->spare_fd >= 0)
		close(listener->spare_fd);
	close(accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void accept_one(struct local_listener *listener)
{
	int fd;

	if (listener->nr_strangers == STRANGERS_MAX)
		put_oldest_out(listener);
	fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		let_in(listener, fd);
	else if (errno == EMFILE || errno == ENFILE)
		turn_one_away(listener);
}

/* ---- Requests: strangers that have said hello, and belong to whoever has the request */

/* A hello is one packet. False: it is none. Descriptors that come with it are not taken. */
static bool hear_hello(const struct local_stranger *stranger, struct local_hello *out)
{
	ssize_t nr = recv(stranger->fd, out, sizeof(*out), MSG_DONTWAIT | MSG_TRUNC);

	return nr >= (ssize_t)LOCAL_HELLO_HEAD && out->magic == LOCAL_WIRE_MAGIC &&
	       out->version == LOCAL_WIRE_VERSION && out->private_length <= FABRIC_PRIVATE_MAX &&
	       nr == (ssize_t)(LOCAL_HELLO_HEAD + out->private_length);
}

static void fill_request(struct local_stranger *stranger, const struct local_hello *hello,
			 struct fabric_request *out)
{
	struct ucred peer = {0};
	socklen_t length = sizeof(peer);

	getsockopt(stranger->fd, SOL_SOCKET, SO_PEERCRED, &peer, &length);
	memset(out, 0, sizeof(*out));
	out->handle = stranger;
	out->private_length = hello->private_length;
	memcpy(out->private_data, hello->private_data, out->private_length);
	snprintf(out->peer, sizeof(out->peer), "unix:process %d of user %u", peer.pid, peer.uid);
}

/* One thing that the epoll tells. 0: it was a request; -EAGAIN: something else; -ENOENT: there is nothing. */
static int take_one(struct local_listener *listener, struct fabric_request *out)
{
	struct local_hello hello = {0};
	struct epoll_event event;
	struct local_stranger *stranger;

	/* One by one: whoever is told of may be put out on account of another. */
	if (epoll_wait(listener->epoll_fd, &event, 1, 0) != 1)
		return -ENOENT;
	stranger = event.data.ptr;
	if (!stranger) {
		accept_one(listener);
		return -EAGAIN;
	}
	if (!hear_hello(stranger, &hello)) {
		put_out(listener, stranger);
		return -EAGAIN;
	}
	take_off(listener, stranger);
	fill_request(stranger, &hello, out);
	return 0;
}

int local_listener_next(struct fabric_listener *base, struct fabric_request *out)
{
	struct local_listener *listener = local_container(base, struct local_listener);
	int ret = -EAGAIN;

	pthread_mutex_lock(&listener->lock);
	for (unsigned i = 0; i < STEPS_MAX && ret == -EAGAIN; i++)
		ret = take_one(listener, out);
	pthread_mutex_unlock(&listener->lock);
	return ret == 0 ? 0 : -EAGAIN;
}

int local_request_take(struct fabric_request *request)
{
	struct local_stranger *stranger = request->handle;
	int fd = stranger->fd;

	free(stranger);
	request->handle = NULL;
	return fd;
}

/* A request that failed to be accepted may come here with nothing left. */
void local_reject(struct fabric_listener *base, struct fabric_request *request)
{
	(void)base;
	if (request->handle)
		close(local_request_take(request));
}

/* All are from one host. */
size_t local_listener_sweep(struct fabric_listener *base, const struct fabric_patience *patience)
{
	struct local_listener *listener = local_container(base, struct local_listener);
	size_t nr_found;
	uint64_t now;

	pthread_mutex_lock(&listener->lock);
	nr_found = listener->nr_strangers;
	now = clock_ns();
	while (listener->nr_strangers > 0) {
		uint32_t limit_ms = listener->nr_strangers > patience->nr_per_host
					    ? patience->crowd_ms
					    : patience->silence_ms;

		if (now - oldest(listener)->since < (uint64_t)limit_ms * 1000000U)
			break;
		put_oldest_out(listener);
	}
	pthread_mutex_unlock(&listener->lock);
	return nr_found;
}

/* ---- Opening and closing */

static int open_socket(struct local_listener *listener, const struct sockaddr_un *place)
{
	int ret;

	listener->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener->fd < 0)
		return -errno;
	ret = local_place_bind(listener->fd, place);
	if (ret == 0)
		ret = local_place_print(place, listener->base.address);
	listener->is_bound = ret == 0;
	return ret;
}

static int open_descriptors(struct local_listener *listener, const struct sockaddr_un *place)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	int ret = open_socket(listener, place);

	if (ret != 0)
		return ret;
	listener->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (listener->epoll_fd < 0)
		return -errno;
	if (epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, listener->fd, &event) != 0)
		return -errno;
	listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return listener->spare_fd < 0 ? -errno : 0;
}

static void close_descriptors(struct local_listener *listener)
{
	const int fds[] = {listener->fd, listener->epoll_fd, listener->spare_fd};

	if (listener->is_bound)
		local_place_remove(listener->base.address);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

int local_listen(struct fabric *fabric, const char *address, struct fabric_listener **out)
{
	struct local_listener *listener;
	struct sockaddr_un place;
	int ret = local_place_choose(address, &place);

	if (ret != 0)
		return ret;
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return error_code(-ENOMEM);
	listener->base.fabric = fabric;
	listener->fd = listener->epoll_fd = listener->spare_fd = -1;
	CDS_INIT_LIST_HEAD(&listener->strangers);
	ret = open_descriptors(listener, &place);
	if (ret != 0) {
		close_descriptors(listener);
		free(listener);
		return error_fail(
			ret, "listen on unix:%s: %s%s", place.sun_path, afar_strerror(ret),
			ret == -EADDRINUSE	? "; another server is there: choose another path"
			: ret == -EADDRNOTAVAIL ? "; make its folder first"
						: "");
	}
	pthread_mutex_init(&listener->lock, NULL);
	*out = &listener->base;
	return 0;
}

void local_listener_close(struct fabric_listener *base)
{
	struct local_listener *listener = local_container(base, struct local_listener);

	while (listener->nr_strangers > 0)
		put_oldest_out(listener);
	close_descriptors(listener);
	pthread_mutex_destroy(&listener->lock);
	free(listener);
}

int local_listener_fd(struct fabric_listener *base)
{
	return local_container(base, struct local_listener)->epoll_fd;
}
