/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that are sockets; see tcp_peer.h. */
#include "lib/fabric/tcp_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

/* ---- A peer */

static struct sockaddr_in address_of(const char *address)
{
	struct sockaddr_in peer = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	peer.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	return peer;
}

int open_peer(const char *address)
{
	const struct sockaddr_in peer = address_of(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&peer, sizeof(peer)), 0);
	return fd;
}

void say(int fd, const void *data, size_t length)
{
	const uint8_t *bytes = data;

	while (length > 0) {
		ssize_t nr = send(fd, bytes, length, MSG_NOSIGNAL);

		if (nr <= 0)
			return;
		bytes += nr;
		length -= (size_t)nr;
	}
}

bool hear(int fd, void *data, size_t length)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	uint8_t *bytes = data;

	while (length > 0) {
		ssize_t nr;

		assert_int_equal(poll(&ready, 1, GRACE_MS), 1);
		nr = recv(fd, bytes, length, 0);
		if (nr <= 0)
			return false;
		bytes += nr;
		length -= (size_t)nr;
	}
	return true;
}

void expect_end(int fd)
{
	uint8_t byte;

	assert_false(hear(fd, &byte, 1));
	close(fd);
}

struct tcp_hello hello_of(uint16_t private_length)
{
	return (struct tcp_hello){.magic = htole32(TCP_WIRE_MAGIC),
				  .version = htole16(TCP_WIRE_VERSION),
				  .private_length = htole16(private_length)};
}

void expect_welcome(int fd)
{
	struct tcp_welcome welcome;

	assert_true(hear(fd, &welcome, sizeof(welcome)));
	assert_int_equal(le32toh(welcome.magic), TCP_WIRE_MAGIC);
	assert_int_equal(le16toh(welcome.version), TCP_WIRE_VERSION);
	assert_int_equal(welcome.reserved, 0);
}

int join(const char *address)
{
	const struct tcp_hello hello = hello_of(0);
	int fd = open_peer(address);

	say(fd, &hello, TCP_HELLO_HEAD);
	expect_welcome(fd);
	return fd;
}

struct tcp_frame frame_of(uint32_t type, uint64_t key, uint64_t offset, uint64_t length)
{
	return (struct tcp_frame){.type = htole32(type),
				  .length = htole64(length),
				  .key = htole64(key),
				  .offset = htole64(offset)};
}

void expect_reply(int fd, uint32_t type, uint64_t length)
{
	struct tcp_frame reply;

	assert_true(hear(fd, &reply, TCP_FRAME_SHORT));
	assert_int_equal(le32toh(reply.type), type);
	assert_int_equal(reply.word, 0);
	assert_int_equal(le64toh(reply.length), length);
}

void await_request(struct fabric_listener *listener, struct fabric_request *request)
{
	uint64_t deadline = clock_deadline_ms(GRACE_MS);

	while (fabric_listener_next(listener, request) != 0)
		assert_true(clock_ns() < deadline);
}

int accept_peer(struct target *target, struct fabric_endpoint **out)
{
	const struct tcp_hello hello = hello_of(0);
	int fd = open_peer(target->listener->address), one = 1;
	struct fabric_request request;

	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
	say(fd, &hello, TCP_HELLO_HEAD);
	await_request(target->listener, &request);
	assert_int_equal(
		fabric_accept(&request, target->queue, target->fabric->domain, target, out), 0);
	assert_int_equal(await_event(target->queue).kind, FABRIC_CONNECTED);
	expect_welcome(fd);
	return fd;
}

/* ---- A liar: a client of ours has connected to it */

void liar_open(struct liar *liar, struct client *client, const void *welcome, size_t length)
{
	struct sockaddr_in name = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t name_length = sizeof(name);
	struct fabric_event event;
	struct tcp_hello hello;
	char address[64];

	assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &name_length), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(name.sin_port));
	liar->client = client;
	liar->endpoint = connect_start(client->queue, address, "x");
	liar->fd = accept(listener, NULL, NULL);
	close(listener);
	while (recv(liar->fd, &hello, sizeof(hello), MSG_PEEK | MSG_DONTWAIT) <= 0)
		assert_int_equal(fabric_queue_event(client->queue, &event), 0);
	assert_true(hear(liar->fd, &hello, TCP_HELLO_HEAD + 1));
	assert_int_equal(hello.private_data[0], 'x');
	say(liar->fd, welcome, length);
}

void liar_join(struct liar *liar, struct client *client)
{
	const struct tcp_welcome welcome = {htole32(TCP_WIRE_MAGIC), htole16(TCP_WIRE_VERSION), 0};

	liar_open(liar, client, &welcome, sizeof(welcome));
	assert_int_equal(await_event(client->queue).kind, FABRIC_CONNECTED);
}

void liar_close(struct liar *liar)
{
	fabric_endpoint_close(liar->endpoint);
	close(liar->fd);
}
