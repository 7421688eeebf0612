/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric seam: opening, listening and connecting. test_fabric.c has what moves then, test_fabric_ends.c
 * how connections end.
 */
#include "lib/fabric/fabric_fixture.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/shared.h"
#include "lib/base/transport.h"
#include "unit/group.h"

/* ---- Opening and listening */

static void opens_only_what_there_is(void **state)
{
	struct fabric *fabric;

	(void)state;
	assert_int_equal(fabric_open("carrier-pigeon", &fabric), -EINVAL);
	assert_non_null(strstr(afar_last_error(), "carrier-pigeon"));
	assert_int_equal(fabric_open(test_transport(), &fabric), 0);
	assert_string_equal(fabric->attributes.transport, test_transport());
	assert_int_equal(fabric->attributes.is_target_passive, !is_on_tcp());
	assert_int_equal(fabric->attributes.needs_local_registration,
			 !is_on_tcp() && !is_on_local());
	assert_int_equal(fabric->attributes.iov_max, FABRIC_IOV_MAX);
	assert_true(fabric->attributes.transfer_bytes_max >= 8 * MIB);
	if (!is_on_tcp() && !is_on_local()) /* libfabric's */
		assert_string_equal(getenv("FI_MR_CACHE_MAX_COUNT"), "0");
	fabric_close(fabric);
}

static void leaves_signals_alone(void **state)
{
	const int signals[] = {SIGINT, SIGTERM};
	struct sigaction action;

	/* A library that libfabric brings along catches them. */
	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		assert_int_equal(sigaction(signals[i], NULL, &action), 0);
		assert_true(action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN);
	}
}

static void says_why_it_cannot_listen(void **state)
{
	struct client *client = *state;
	struct fabric_listener *listener;
	const char *bad[] = {"",
			     "127.0.0.1",
			     "127.0.0.1:",
			     "127.0.0.1:x",
			     "127.0.0.1:65536",
			     "127.0.0.1:-1",
			     ":7000",
			     "::1:7000",
			     "[]:7000"};

	if (is_on_local())
		skip(); /* test_fabric_local.c has its addresses */
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(fabric_listen(client->fabric, bad[i], &listener), -EINVAL);
	assert_int_equal(fabric_listen(client->fabric, client->target.listener->address, &listener),
			 -EADDRINUSE);
	assert_non_null(strstr(afar_last_error(), client->target.listener->address));
	assert_non_null(strstr(afar_last_error(), "another port"));
	assert_int_equal(fabric_listen(client->fabric, "192.0.2.77:0", &listener), -EADDRNOTAVAIL);
}

/* An address is this machine's, as the tests' transport knows it. */
static void expect_host(const char *address)
{
	size_t length = strlen(test_host());

	assert_memory_equal(address, test_host(), length);
	assert_int_equal(address[length], ':');
}

static void advertises_the_real_port(void **state)
{
	struct client *client = *state;
	struct fabric_listener *listener;
	unsigned port;
	char end;

	expect_host(client->target.listener->address);
	if (is_on_local())
		skip();
	assert_int_equal(
		sscanf(strchr(client->target.listener->address, ':'), ":%u%c", &port, &end), 1);
	assert_true(port > 0 && port < 65536);
	assert_int_equal(fabric_listen(client->fabric, "0.0.0.0:0", &listener), 0);
	assert_int_equal(sscanf(listener->address, "0.0.0.0:%u%c", &port, &end), 1);
	assert_true(port > 0 && port < 65536);
	fabric_listener_close(listener);
}

static bool has_ipv6_loopback(void)
{
	FILE *file = fopen("/proc/net/if_inet6", "r");
	char line[128];
	bool found = false;

	while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
		found = strncmp(line, "00000000000000000000000000000001 ", 33) == 0;
	if (file != NULL)
		fclose(file);
	return found;
}

/* A bare machine may have no /etc/hosts. */
static bool has_localhost(void)
{
	struct addrinfo *found;

	if (getaddrinfo("localhost", NULL, NULL, &found) != 0)
		return false;
	freeaddrinfo(found);
	return true;
}

static void connects_by_ipv6_and_by_name(void **state)
{
	struct client *client = *state;
	struct target ipv6;
	struct fabric_endpoint *endpoint;
	char by_name[FABRIC_ADDRESS_MAX];
	uint8_t byte = 7;

	if (!is_on_tcp()) /* there may be no device for these addresses */
		skip();
	if (has_ipv6_loopback()) {
		target_open(&ipv6, "[::1]:0");
		assert_memory_equal(ipv6.listener->address, "[::1]:", 6);
		assert_int_equal(pthread_create(&ipv6.thread, NULL, target_run, &ipv6), 0);
		endpoint = connect_to(client->queue, ipv6.listener->address);
		assert_memory_equal(ipv6.last.peer, "[::1]:", 6);
		transfer_one(endpoint, true, &byte, 1, &ipv6.all, 0);
		assert_int_equal(ipv6.data[0], 7);
		fabric_endpoint_close(endpoint);
		target_stop(&ipv6);
	}
	snprintf(by_name, sizeof(by_name), "localhost%s",
		 strchr(client->target.listener->address, ':'));
	if (has_localhost()) {
		endpoint = connect_start(client->queue, by_name, "");
		if (await_event(client->queue).kind == FABRIC_CONNECTED) /* it may be ::1 only */
			transfer_one(endpoint, true, &byte, 1, &client->target.all, 0);
		fabric_endpoint_close(endpoint);
	}
	assert_int_equal(fabric_connect(client->queue, "no-port", NULL, 0, NULL, &endpoint),
			 -EINVAL);
}

/* ---- Connecting */

static void carries_private_data(void **state)
{
	struct client *client = *state;
	const struct fabric_request *request = &client->target.last;
	char data[FABRIC_PRIVATE_MAX + 1];
	struct fabric_endpoint *endpoint;

	memset(data, 'p', sizeof(data));
	assert_int_equal(fabric_connect(client->queue, client->target.listener->address, data,
					sizeof(data), NULL, &endpoint),
			 -EINVAL);
	data[FABRIC_PRIVATE_MAX] = '\0';
	endpoint = connect_start(client->queue, client->target.listener->address, data);
	assert_int_equal(await_event(client->queue).kind, FABRIC_CONNECTED);
	assert_int_equal(request->private_length, FABRIC_PRIVATE_MAX);
	assert_memory_equal(request->private_data, data, FABRIC_PRIVATE_MAX);
	expect_host(request->peer);
	fabric_endpoint_close(endpoint);
}

static void is_refused_when_rejected(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *endpoint =
		connect_start(client->queue, client->target.listener->address, "reject");
	uint8_t byte = 0;

	assert_int_equal(start_one(endpoint, true, &byte, 1, &client->target.all, 0, 1), -ENOTCONN);
	await_closed(endpoint, -ECONNREFUSED);
	fabric_endpoint_close(endpoint);
	/* One's rejection is nothing to the next. */
	fabric_endpoint_close(client_connect(client));
}

static void is_refused_where_nobody_listens(void **state)
{
	struct client *client = *state;
	struct fabric_listener *listener;
	struct fabric_endpoint *endpoint;
	char address[FABRIC_ADDRESS_MAX];

	assert_int_equal(fabric_listen(client->fabric, any_port(), &listener), 0);
	strcpy(address, listener->address);
	fabric_listener_close(listener);

	if (is_on_local()) { /* with the listener, its socket goes */
		assert_int_equal(fabric_connect(client->queue, address, NULL, 0, NULL, &endpoint),
				 -EHOSTUNREACH);
		return;
	}
	for (int i = 0; i < 3; i++) {
		endpoint = connect_start(client->queue, address, "");
		await_closed(endpoint, -ECONNREFUSED);
		fabric_endpoint_close(endpoint);
	}
}

/* A transfer of the accepting end's, with nobody but this thread to move it. */
static void transfer_back(struct client *client, struct target *other,
			  struct fabric_endpoint *accepting, bool is_write, uint8_t *data,
			  size_t length, const struct fabric_memory *memory)
{
	struct fabric_completion completion;

	assert_int_equal(start_one(accepting, is_write, data, length, memory, 0, 5), 0);
	while (fabric_queue_poll(other->queue, &completion, 1) == 0)
		assert_int_equal(fabric_queue_poll(client->queue, &completion, 1), 0);
	assert_int_equal(completion.context, 5);
	assert_int_equal(completion.status, 0);
}

static void serves_the_accepting_end_too(void **state)
{
	struct client *client = *state;
	struct target other;
	struct fabric_endpoint *connecting;
	struct fabric_endpoint *accepting;
	struct fabric_memory memory;
	uint8_t *theirs = map_shared(4096);
	uint8_t mine[4096];

	fill(mine, sizeof(mine), 31);
	assert_int_equal(fabric_memory_register(client->fabric->domain, theirs, sizeof(mine),
						FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &memory),
			 0);
	target_open(&other, any_port());
	connect_pair(client, &other, &connecting, &accepting);
	transfer_back(client, &other, accepting, true, mine, sizeof(mine), &memory);
	assert_memory_equal(theirs, mine, sizeof(mine));
	memset(mine, 0, sizeof(mine));
	transfer_back(client, &other, accepting, false, mine, sizeof(mine), &memory);
	assert_memory_equal(mine, theirs, sizeof(mine));
	fabric_endpoint_close(connecting);
	fabric_endpoint_close(accepting);
	fabric_memory_deregister(&memory);
	shared_unmap(theirs);
	target_close(&other);
}

/* Anybody may come to the port too. */
static void is_not_held_up_by_strangers(void **state)
{
	struct client *client = *state;
	const char *address = client->target.listener->address;
	struct sockaddr_in peer = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	const size_t lengths[] = {0, 1, 7, 8, 64, 4096};
	int strangers[2 * sizeof(lengths) / sizeof(lengths[0])];
	uint8_t noise[4096];
	unsigned nr = 0;

	if (!is_on_tcp())
		skip();
	fill(noise, sizeof(noise), 77);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		for (unsigned stays = 0; stays < 2; stays++) {
			int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

			assert_true(fd >= 0);
			assert_int_equal(connect(fd, (void *)&peer, sizeof(peer)), 0);
			send(fd, noise, lengths[i], MSG_NOSIGNAL);
			if (stays)
				strangers[nr++] = fd;
			else
				close(fd);
		}
		fabric_endpoint_close(client_connect(client));
	}
	while (nr > 0)
		close(strangers[--nr]);
	fabric_endpoint_close(client_connect(client));
}

TEST_GROUP(fabric_connect)
{
#define WITH_TARGET(test) cmocka_unit_test_setup_teardown(test, client_setup, client_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens_only_what_there_is),
		cmocka_unit_test(leaves_signals_alone),
		WITH_TARGET(says_why_it_cannot_listen),
		WITH_TARGET(advertises_the_real_port),
		WITH_TARGET(connects_by_ipv6_and_by_name),
		WITH_TARGET(carries_private_data),
		WITH_TARGET(is_refused_when_rejected),
		WITH_TARGET(is_refused_where_nobody_listens),
		WITH_TARGET(serves_the_accepting_end_too),
		WITH_TARGET(is_not_held_up_by_strangers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
