/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport local against servers that are not ours. Their sockets and links say what they like
 * to an end that asks for memory, and lend what is no memory. Whatever is wrong ends that
 * connection and touches nothing.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/mapped.h"
#include "lib/fabric/fabric_fixture.h"
#include "lib/fabric/local_peer.h"
#include "unit/group.h"

struct server {
	int fd;
	struct folder folder;
};

static void open_server(struct server *server)
{
	struct sockaddr_un place = {.sun_family = AF_UNIX};

	server->folder = make_folder();
	strcpy(place.sun_path, server->folder.socket);
	server->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(server->fd, (const struct sockaddr *)&place, sizeof(place)), 0);
	assert_int_equal(listen(server->fd, 8), 0);
}

static void close_server(struct server *server)
{
	close(server->fd);
	unlink(server->folder.socket);
	remove_folder(&server->folder);
}

static int make_file(size_t length, unsigned seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)length), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* Accepts a connection of the client's, and hears its hello. */
static struct local_peer meet(struct client *client, struct server *server,
			      struct fabric_endpoint **endpoint)
{
	struct local_hello hello;
	struct local_peer peer = {.fd = -1};

	*endpoint = connect_start(client->queue, server->folder.address, "x");
	peer.fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(peer.fd >= 0);
	assert_int_equal(recv(peer.fd, &hello, sizeof(hello), 0), LOCAL_HELLO_HEAD + 1);
	return peer;
}

static void expect_no_link(struct client *client, struct server *server, uint64_t length, int fd)
{
	struct local_message message = local_talk_message(LOCAL_WELCOME, 0);
	struct fabric_endpoint *endpoint;
	struct local_peer peer = meet(client, server, &endpoint);

	message.length = length;
	local_peer_say_message(&peer, &message, fd);
	if (fd >= 0)
		close(fd);
	await_closed(endpoint, -ECONNREFUSED);
	fabric_endpoint_close(endpoint);
	local_peer_close(&peer);
}

static void takes_links_that_are_some_alone(void **state)
{
	const uint64_t length = sizeof(struct local_link);
	struct client *client = *state;
	struct server server;

	open_server(&server);
	expect_no_link(client, &server, length, -1);
	expect_no_link(client, &server, length, open("/dev/null", O_RDWR | O_CLOEXEC));
	expect_no_link(client, &server, length, open("/tmp", O_RDONLY | O_CLOEXEC));
	expect_no_link(client, &server, length, make_file(length, 0));
	expect_no_link(client, &server, length, make_file(length - 4096, F_SEAL_SHRINK));
	expect_no_link(client, &server, length, make_file(0, F_SEAL_SHRINK));
	expect_no_link(client, &server, length + 1, make_file(length, F_SEAL_SHRINK));
	close_server(&server);
}

static struct local_peer welcome(struct client *client, struct server *server,
				 struct fabric_endpoint **endpoint)
{
	struct local_message message = local_talk_message(LOCAL_WELCOME, 0);
	int fd = make_file(sizeof(struct local_link), F_SEAL_SHRINK);
	struct local_peer peer = meet(client, server, endpoint);

	message.length = sizeof(struct local_link);
	local_peer_say_message(&peer, &message, fd);
	close(fd);
	assert_int_equal(await_event(client->queue).kind, FABRIC_CONNECTED);
	return peer;
}

static void expect_no_memory(struct client *client, struct server *server, uint64_t key,
			     uint64_t length, uint8_t access, int fd)
{
	const struct fabric_memory wanted = {.key = 42};
	struct local_message message = local_talk_message(LOCAL_LEND, key);
	struct fabric_completion completion;
	struct fabric_endpoint *endpoint;
	struct local_peer peer = welcome(client, server, &endpoint);
	uint8_t byte = 0xaa;

	assert_int_equal(start_one(endpoint, false, &byte, 1, &wanted, 0, 1), 0);
	message.length = length;
	message.access = access;
	local_peer_say_message(&peer, &message, fd);
	if (fd >= 0)
		close(fd);
	completion = await_completion(client->queue);
	assert_true(completion.status < 0);
	await_closed(endpoint, -ECONNRESET);
	assert_int_equal(byte, 0xaa);
	fabric_endpoint_close(endpoint);
	local_peer_close(&peer);
}

static void takes_memory_that_is_some_alone(void **state)
{
	struct client *client = *state;
	struct server server;

	open_server(&server);
	expect_no_memory(client, &server, 42, 4096, FABRIC_REMOTE_READ, -1);
	expect_no_memory(client, &server, 43, 4096, FABRIC_REMOTE_READ,
			 make_file(4096, F_SEAL_SHRINK));
	expect_no_memory(client, &server, 42, 4096, FABRIC_REMOTE_READ, make_file(4096, 0));
	expect_no_memory(client, &server, 42, 8192, FABRIC_REMOTE_READ,
			 make_file(4096, F_SEAL_SHRINK));
	expect_no_memory(client, &server, 42, UINT64_MAX, FABRIC_REMOTE_READ,
			 make_file(4096, F_SEAL_SHRINK));
	expect_no_memory(client, &server, 42, 0, FABRIC_REMOTE_READ, make_file(0, F_SEAL_SHRINK));
	expect_no_memory(client, &server, 42, 4096, 0xff, make_file(4096, F_SEAL_SHRINK));
	expect_no_memory(client, &server, 42, 4096, FABRIC_REMOTE_WRITE,
			 make_file(4096, F_SEAL_SHRINK)); /* not to read */
	expect_no_memory(client, &server, 42, 4096, FABRIC_REMOTE_READ,
			 open("/dev/zero", O_RDWR | O_CLOEXEC));
	close_server(&server);
}

/* A link that says that memory is revoked, without a message, is over at once. */
static void ends_over_a_wrong_count(void **state)
{
	const struct fabric_memory memory = {.key = 42};
	struct local_message message = local_talk_message(LOCAL_LEND, 42);
	struct fabric_endpoint *endpoint;
	struct client *client = *state;
	struct server server;
	struct local_peer peer;
	int fd = make_file(4096, F_SEAL_SHRINK), link;
	struct local_link *mapped;
	uint8_t byte;

	open_server(&server);
	peer = meet(client, &server, &endpoint);
	link = make_file(sizeof(*mapped), F_SEAL_SHRINK);
	mapped = mmap(NULL, sizeof(*mapped), PROT_READ | PROT_WRITE, MAP_SHARED, link, 0);
	assert_true(mapped != MAP_FAILED);
	peer.link = mapped;
	message.type = LOCAL_WELCOME;
	message.length = sizeof(*mapped);
	local_peer_say_message(&peer, &message, link);
	close(link);
	assert_int_equal(await_event(client->queue).kind, FABRIC_CONNECTED);
	message = local_talk_message(LOCAL_LEND, 42);
	message.length = 4096;
	message.access = FABRIC_REMOTE_READ;
	assert_int_equal(start_one(endpoint, false, &byte, 1, &memory, 0, 1), 0);
	local_peer_say_message(&peer, &message, fd);
	close(fd);
	assert_int_equal(await_completion(client->queue).status, 0);
	transfer_one(endpoint, false, &byte, 1, &memory, 4095);
	atomic_store(&mapped->sides[LOCAL_ACCEPTING_SIDE].nr_revoked, 1);
	assert_int_equal(start_one(endpoint, false, &byte, 1, &memory, 0, 1), -ENOTCONN);
	await_closed(endpoint, -ECONNRESET);
	fabric_endpoint_close(endpoint);
	local_peer_close(&peer);
	close_server(&server);
}

/* The server has died: who copies from its memory hears of it without looking after his queue. */
static void sees_who_dies(void **state)
{
	const struct fabric_memory memory = {.key = 42};
	struct local_message message = local_talk_message(LOCAL_LEND, 42);
	struct fabric_endpoint *endpoint;
	struct client *client = *state;
	struct server server;
	struct local_peer peer;
	struct pollfd deaths = {.fd = fabric_deaths_fd(client->fabric), .events = POLLIN};
	int fd = make_file(4096, F_SEAL_SHRINK);
	uint8_t byte;

	open_server(&server);
	peer = welcome(client, &server, &endpoint);
	assert_int_equal(start_one(endpoint, false, &byte, 1, &memory, 0, 1), 0);
	message.length = 4096;
	message.access = FABRIC_REMOTE_READ;
	local_peer_say_message(&peer, &message, fd);
	close(fd);
	assert_int_equal(await_completion(client->queue).status, 0);
	assert_int_equal(poll(&deaths, 1, 0), 0);
	fabric_note_deaths(client->fabric); /* for nobody */
	transfer_one(endpoint, false, &byte, 1, &memory, 0);
	local_peer_close(&peer);
	assert_int_equal(poll(&deaths, 1, GRACE_MS), 1);
	fabric_note_deaths(client->fabric);
	assert_int_equal(poll(&deaths, 1, 0), 0);
	assert_int_equal(start_one(endpoint, false, &byte, 1, &memory, 0, 2), -ENOTCONN);
	await_closed(endpoint, -ECONNRESET);
	fabric_endpoint_close(endpoint);
	close_server(&server);
}

TEST_GROUP(fabric_local_servers)
{
#define WITH_TARGET(test) cmocka_unit_test_setup_teardown(test, client_setup, client_teardown)
	const struct CMUnitTest tests[] = {
		WITH_TARGET(takes_links_that_are_some_alone),
		WITH_TARGET(takes_memory_that_is_some_alone),
		WITH_TARGET(ends_over_a_wrong_count),
		WITH_TARGET(sees_who_dies),
	};

	setenv("AFAR_TEST_TRANSPORT", "local", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
