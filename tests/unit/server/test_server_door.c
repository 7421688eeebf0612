/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strangers at the data port. Those who connect and say nothing are put out, those who begin and do not go
 * on, too. Meanwhile a client gets in and works. And connections leave descriptors to others.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fabric/listener.h"
#include "lib/fabric/data_client.h"
#include "server/data/progress.h"
#include "unit/group.h"

#define NR_STRANGERS 600
#define NR_CLIENTS   100
#define SILENCE_MS   1000
#define PATIENCE_MS  20000

static const struct reach mine = {1, true};

struct port {
	struct fabric *fabric;
	struct domains *domains;
	struct domain *domain; /* that all are let into */
	struct progress *progress;
	struct fabric_memory memory;
	char lent[4096];
};

/* A client that says "each" gets a domain of its own. */
static int admit(void *context, const void *shown, size_t length, struct admission *out)
{
	static uint64_t next = 2;

	(void)context;
	*out = (struct admission){.session = 1, .reach = mine};
	if (length == 4 && memcmp(shown, "each", 4) == 0) {
		out->reach.namespace = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
		return 0;
	}
	return length == 4 && memcmp(shown, "good", 4) == 0 ? 0 : -EACCES;
}

static void on_changed(void *context)
{
	(void)context;
}

static void port_open_limited(struct port *port, uint32_t nr_descriptors_max)
{
	struct progress_options options = {.address = "127.0.0.1:0",
					   .nr_threads = 2,
					   .spin_us = 50,
					   .silence_ms = SILENCE_MS,
					   .nr_descriptors_max = nr_descriptors_max,
					   .admit = admit,
					   .changed = on_changed};

	memset(port, 0, sizeof(*port));
	assert_int_equal(fabric_open("tcp", &port->fabric), 0);
	options.fabric = port->fabric;
	assert_int_equal(domains_open(&port->fabric, 1, &port->domains), 0);
	assert_int_equal(domains_get(port->domains, mine, &port->domain), 0);
	options.domains = port->domains;
	assert_int_equal(progress_start(&options, &port->progress), 0);
	assert_int_equal(fabric_memory_register(port->domain->on[0], port->lent, sizeof(port->lent),
						FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
						&port->memory),
			 0);
}

static void port_open(struct port *port)
{
	port_open_limited(port, 0);
}

static void port_close(struct port *port)
{
	progress_stop(port->progress);
	fabric_memory_deregister(&port->memory);
	domains_put(port->domains, port->domain);
	domains_close(port->domains);
	fabric_close(port->fabric);
}

static int connect_silently(const char *address)
{
	struct sockaddr_in target = {.sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	target.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&target, sizeof(target)), 0);
	return fd;
}

/* Waits until the other side has closed it. */
static void await_end(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	char byte;

	assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
	assert_true(read(fd, &byte, 1) <= 0);
	close(fd);
}

/* Each client has its own place: what orders them is beyond a race detector's sight. */
static void use(struct port *port, struct data_client *client, uint64_t offset)
{
	uint64_t place = port->memory.base + offset;
	char back[4] = "";

	assert_int_equal(data_client_write(client, "here", 4, place, port->memory.key), 0);
	assert_int_equal(data_client_read(client, back, 4, place, port->memory.key), 0);
	assert_memory_equal(back, "here", 4);
}

static void test_silent_strangers_go(void **state)
{
	struct data_client before, meanwhile;
	int strangers[NR_STRANGERS];
	struct port port;

	(void)state;
	port_open(&port);
	data_client_open(&before);
	data_client_open(&meanwhile);
	assert_int_equal(data_client_connect(&before, progress_address(port.progress), "good", 4),
			 0);
	for (size_t i = 0; i < NR_STRANGERS; i++)
		strangers[i] = connect_silently(progress_address(port.progress));
	assert_int_equal(
		data_client_connect(&meanwhile, progress_address(port.progress), "good", 4), 0);
	use(&port, &meanwhile, 64);
	for (size_t i = 0; i < NR_STRANGERS; i++)
		await_end(strangers[i]);
	/* Clients may be as silent as they like. */
	use(&port, &before, 0);
	use(&port, &meanwhile, 64);
	data_client_close(&before);
	data_client_close(&meanwhile);
	port_close(&port);
}

static void test_a_few_strangers_go(void **state)
{
	struct port port;
	int stranger;

	(void)state;
	port_open(&port);
	stranger = connect_silently(progress_address(port.progress));
	await_end(stranger);
	/* The door has gone to sleep, and wakes up for the next. */
	stranger = connect_silently(progress_address(port.progress));
	await_end(stranger);
	port_close(&port);
}

static uint32_t next_descriptor(void)
{
	int next = dup(STDERR_FILENO);

	assert_true(next >= 0);
	close(next);
	return (uint32_t)next;
}

/* However much a connection takes: a domain of its own costs more than a place in one that is there. */
static void test_leaves_descriptors_to_others(void **state)
{
	static struct data_client clients[NR_CLIENTS];
	const uint32_t max = next_descriptor() + 100;
	struct port port;
	unsigned nr = 0;
	int status;

	(void)state;
	port_open_limited(&port, max);
	do {
		assert_true(nr < NR_CLIENTS);
		data_client_open(&clients[nr]);
		status = data_client_connect(&clients[nr++], progress_address(port.progress),
					     "each", 4);
	} while (status == 0);
	assert_true(nr > 1);
	assert_true(next_descriptor() < max + 20);
	data_client_close(&clients[--nr]);
	data_client_close(&clients[--nr]);
	data_client_open(&clients[nr]);
	/* The server hears of it by and by. */
	while (data_client_connect(&clients[nr], progress_address(port.progress), "each", 4) != 0)
		;
	for (nr++; nr > 0; nr--)
		data_client_close(&clients[nr - 1]);
	port_close(&port);
}

static void test_half_a_word(void **state)
{
	struct port port;
	int strangers[3];

	(void)state;
	port_open(&port);
	for (size_t i = 0; i < 3; i++) {
		strangers[i] = connect_silently(progress_address(port.progress));
		assert_int_equal(write(strangers[i], "\x03\x00\x00\x00", i + 1), i + 1);
	}
	for (size_t i = 0; i < 3; i++)
		await_end(strangers[i]);
	port_close(&port);
}

/* Until the listener has taken in so many silent strangers; nobody is ended. */
static void await_strangers(struct fabric_listener *listener, size_t nr_strangers)
{
	const struct fabric_patience endless = {
		.silence_ms = UINT32_MAX, .nr_per_host = UINT32_MAX, .crowd_ms = UINT32_MAX};
	uint64_t deadline = clock_deadline_ms(PATIENCE_MS);
	struct fabric_request request;

	while (fabric_listener_sweep(listener, &endless) != nr_strangers) {
		assert_int_equal(fabric_listener_next(listener, &request), -EAGAIN);
		assert_true(clock_ns() < deadline);
	}
}

static size_t count_open(const int *fds, size_t nr_fds)
{
	struct pollfd ready = {.events = POLLIN};
	size_t nr_open = 0;

	for (size_t i = 0; i < nr_fds; i++) {
		ready.fd = fds[i];
		nr_open += poll(&ready, 1, 0) == 0;
	}
	return nr_open;
}

static void test_who_goes_when(void **state)
{
	const struct fabric_patience crowd = {
		.silence_ms = UINT32_MAX, .nr_per_host = 2, .crowd_ms = 0};
	const struct fabric_patience none = {0};
	struct fabric_listener *listener;
	struct fabric *fabric;
	int strangers[5];

	(void)state;
	assert_int_equal(fabric_open("tcp", &fabric), 0);
	assert_int_equal(fabric_listen(fabric, "127.0.0.1:0", &listener), 0);
	for (size_t i = 0; i < 5; i++) {
		strangers[i] = connect_silently(listener->address);
		await_strangers(listener, i + 1);
	}
	assert_int_equal(count_open(strangers, 5), 5);
	/* The first of a crowd go. */
	assert_int_equal(fabric_listener_sweep(listener, &crowd), 5);
	for (size_t i = 0; i < 3; i++)
		await_end(strangers[i]);
	await_strangers(listener, 2);
	assert_int_equal(fabric_listener_sweep(listener, &crowd), 2);
	assert_int_equal(count_open(strangers + 3, 2), 2);
	assert_int_equal(fabric_listener_sweep(listener, &none), 2);
	await_end(strangers[3]);
	await_end(strangers[4]);
	await_strangers(listener, 0);
	fabric_listener_close(listener);
	fabric_close(fabric);
}

static void test_stops_with_strangers(void **state)
{
	struct port port;
	int stranger;

	(void)state;
	port_open(&port);
	stranger = connect_silently(progress_address(port.progress));
	port_close(&port);
	close(stranger);
}

TEST_GROUP(server_door)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_silent_strangers_go),
		cmocka_unit_test(test_a_few_strangers_go),
		cmocka_unit_test(test_leaves_descriptors_to_others),
		cmocka_unit_test(test_half_a_word),
		cmocka_unit_test(test_who_goes_when),
		cmocka_unit_test(test_stops_with_strangers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
