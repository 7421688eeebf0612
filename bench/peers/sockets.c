/* SPDX-License-Identifier: BSD-3-Clause */
/* The clients of the servers that stores are compared with. */
#include "sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/congestion.h"
#include "harness/harness.h"
#include "harness/process.h"
#include "sockets_server.h"

#define READY_EVENTS 64
#define WORD_BYTES   8U /* the answer to a write */

/* A request goes out as a whole: the header lies before its block. */
struct asking {
	struct sockets_request request;
	char block[SOCKETS_BLOCK];
};

struct client {
	int fd;
	size_t have; /* of the answer */
};

struct sockets {
	struct sockets_server server;
	struct child child;
	uint64_t bytes;
	uint64_t place; /* of the last request */
	int epoll_fd;
	unsigned nr_clients;
	struct client *clients;
	struct asking asking;
	char answer[SOCKETS_BLOCK];
	/* The order: */
	const struct sockets_order *order;
	uint64_t end;
	unsigned nr_busy;
	uint64_t nr;
};

static int fail(const char *what)
{
	int ret = errno ? -errno : -EPIPE;

	return bench_fail(ret, "the server to compare with: %s: %s", what, strerror(-ret));
}

/* ---- One order */

/* Scatters operations like a herd (herd.c). */
static uint64_t next_offset(struct sockets *sockets)
{
	uint64_t nr_places = sockets->bytes / SOCKETS_BLOCK;

	sockets->place = (sockets->place * UINT64_C(6364136223846793005) + 1) & (nr_places - 1);
	return sockets->place * SOCKETS_BLOCK;
}

static int ask(struct sockets *sockets, struct client *client)
{
	struct asking *asking = &sockets->asking;
	size_t length = sockets->order->is_write ? sizeof(*asking) : sizeof(asking->request);

	asking->request =
		(struct sockets_request){next_offset(sockets), sockets->order->is_write, 0};
	client->have = 0;
	/* One request is in flight, so the socket has room for all of it. */
	if (send(client->fd, asking, length, MSG_NOSIGNAL) != (ssize_t)length)
		return fail("send");
	return 0;
}

static int take(struct sockets *sockets, struct client *client)
{
	size_t length = sockets->order->is_write ? WORD_BYTES : SOCKETS_BLOCK;
	ssize_t nr = recv(client->fd, sockets->answer, length - client->have, MSG_DONTWAIT);

	if (nr <= 0)
		return nr < 0 && errno == EAGAIN ? 0 : fail("receive");
	client->have += (size_t)nr;
	if (client->have < length)
		return 0;
	if (clock_ns() >= sockets->end) {
		sockets->nr_busy--;
		return 0;
	}
	sockets->nr++;
	return ask(sockets, client);
}

static int serve_all(struct sockets *sockets)
{
	struct epoll_event events[READY_EVENTS];
	int ret = 0;

	sockets->nr = 0;
	sockets->nr_busy = sockets->order->nr_clients;
	for (unsigned i = 0; i < sockets->order->nr_clients && !ret; i++)
		ret = ask(sockets, &sockets->clients[i]);
	while (!ret && sockets->nr_busy > 0) {
		int nr = epoll_wait(sockets->epoll_fd, events, READY_EVENTS, 0);

		for (int i = 0; i < nr && !ret; i++)
			ret = take(sockets, events[i].data.ptr);
	}
	return ret;
}

/* So that sendfile() finds nothing in memory, as the others do. */
static int make_cold(const struct sockets *sockets)
{
	int fd = open(sockets->server.path, O_RDONLY | O_CLOEXEC);
	int ret;

	if (fd < 0)
		return fail("open the file");
	ret = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	return ret ? bench_fail(-ret, "drop the file from memory: %s", strerror(ret)) : 0;
}

int sockets_run(struct sockets *sockets, const struct sockets_order *order,
		struct sockets_result *result)
{
	uint64_t begin, cpu_ns;
	int ret = make_cold(sockets);

	if (ret)
		return ret;
	sockets->order = order;
	cpu_ns = process_cpu_ns(sockets->child.pid);
	begin = clock_ns();
	sockets->end = begin + order->span_ns;
	ret = serve_all(sockets);
	result->elapsed_ns = clock_ns() - begin;
	result->server_cpu_ns = process_cpu_ns(sockets->child.pid) - cpu_ns;
	result->nr = sockets->nr;
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

static int connect_all(struct sockets *sockets, const struct sockaddr_in *address)
{
	const int one = 1;

	for (unsigned i = 0; i < sockets->nr_clients; i++) {
		struct client *client = &sockets->clients[i];
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};

		client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (client->fd < 0)
			return fail("connect");
		congestion_apply(client->fd);
		if (connect(client->fd, (const struct sockaddr *)address, sizeof(*address)))
			return fail("connect");
		setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (epoll_ctl(sockets->epoll_fd, EPOLL_CTL_ADD, client->fd, &event))
			return fail("connect");
	}
	return 0;
}

static int start_server(struct sockets *sockets, struct sockaddr_in *address)
{
	char word;
	int ret;

	sockets->server.listener = listen_on_loopback(address);
	if (sockets->server.listener < 0)
		return -EIO;
	ret = child_start(&sockets->child, sockets_server_main, &sockets->server);
	close(sockets->server.listener);
	if (ret)
		return ret;
	ret = child_receive(&sockets->child, &word, 1);
	return ret ? bench_fail(ret, "the server to compare with has ended early") : 0;
}

void sockets_close(struct sockets *sockets)
{
	if (!sockets)
		return;
	child_stop(&sockets->child);
	for (unsigned i = 0; i < sockets->nr_clients && sockets->clients; i++) {
		if (sockets->clients[i].fd > 0)
			close(sockets->clients[i].fd);
	}
	if (sockets->epoll_fd > 0)
		close(sockets->epoll_fd);
	free(sockets->clients);
	free(sockets);
}

int sockets_open(enum sockets_way way, const char *path, uint64_t bytes, unsigned nr_clients,
		 struct sockets **out)
{
	struct sockets *sockets = calloc(1, sizeof(*sockets));
	struct sockaddr_in address;
	int ret;

	if (!sockets)
		return bench_fail(-ENOMEM, "no memory for the suite");
	sockets->server =
		(struct sockets_server){.way = way, .path = path, .nr_clients = nr_clients};
	sockets->bytes = bytes;
	sockets->nr_clients = nr_clients;
	ret = start_server(sockets, &address);
	if (!ret) {
		sockets->clients = calloc(nr_clients, sizeof(*sockets->clients));
		sockets->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		if (!sockets->clients || sockets->epoll_fd < 0)
			ret = bench_fail(-ENOMEM, "no memory for the suite");
	}
	if (!ret)
		ret = connect_all(sockets, &address);
	if (ret)
		sockets_close(sockets);
	else
		*out = sockets;
	return ret;
}
