/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric seam at work: listening, connecting, transfers of all sizes, refusals, many connections,
 * sleeping. How connections end is test_fabric_ends.c's.
 */
#include "fabric_fixture.h"

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

#include "../transport.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/shared.h"

#define NR_PEERS 100

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
		assert_true(action.sa_handler == SIG_DFL);
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

/* ---- Transfers */

static void moves_bytes_of_all_sizes(void **state)
{
	struct client *client = *state;
	struct target *target = &client->target;
	struct fabric_endpoint *endpoint = client_connect(client);
	const size_t sizes[] = {1, 64, 4096, 64 << 10, 8 * MIB};
	uint8_t *mine = allocate(8 * MIB);
	uint8_t *back = allocate(8 * MIB);

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t offset = 4096 * i + i;

		fill(mine, sizes[i], i);
		memset(back, 0, sizes[i]);
		transfer_one(endpoint, true, mine, sizes[i], &target->all, offset);
		/* Completed means: it is there, not: it will be. */
		assert_memory_equal(target->data + offset, mine, sizes[i]);
		transfer_one(endpoint, false, back, sizes[i], &target->read_only, offset);
		assert_memory_equal(back, mine, sizes[i]);
	}
	free(mine);
	free(back);
	fabric_endpoint_close(endpoint);
}

static void gathers_and_scatters(void **state)
{
	struct client *client = *state;
	struct target *target = &client->target;
	struct fabric_endpoint *endpoint = client_connect(client);
	const size_t lengths[FABRIC_IOV_MAX] = {1, 3 * MIB, 4096, 5 * MIB - 4097};
	struct fabric_piece pieces[FABRIC_IOV_MAX + 1] = {0};
	struct fabric_completion completion;
	uint8_t *mine = allocate(16 * MIB);
	void *descriptor = descriptor_of(client->fabric, mine, 16 * MIB);
	size_t place = 0;

	/* Pieces with gaps between them, of a buffer twice as long. */
	for (unsigned i = 0; i < FABRIC_IOV_MAX; i++) {
		pieces[i].addr = mine + 2 * place;
		pieces[i].length = lengths[i];
		pieces[i].descriptor = descriptor;
		place += lengths[i];
	}
	assert_int_equal(place, 8 * MIB);
	fill(mine, 16 * MIB, 11);
	assert_int_equal(fabric_write(endpoint, pieces, FABRIC_IOV_MAX, target->all.base + 5,
				      target->all.key, FABRIC_CONTEXT_MAX),
			 0);
	completion = await_completion(client->queue);
	assert_int_equal(completion.context, FABRIC_CONTEXT_MAX);
	assert_int_equal(completion.status, 0);
	place = 5;
	for (unsigned i = 0; i < FABRIC_IOV_MAX; i++) {
		assert_memory_equal(target->data + place, pieces[i].addr, lengths[i]);
		memset(pieces[i].addr, 0, lengths[i]);
		place += lengths[i];
	}
	assert_int_equal(fabric_read(endpoint, pieces, FABRIC_IOV_MAX, target->all.base + 5,
				     target->all.key, 0),
			 0);
	assert_int_equal(await_completion(client->queue).context, 0);
	place = 5;
	for (unsigned i = 0; i < FABRIC_IOV_MAX; i++) {
		assert_memory_equal(target->data + place, pieces[i].addr, lengths[i]);
		place += lengths[i];
	}
	assert_int_equal(fabric_read(endpoint, pieces, FABRIC_IOV_MAX + 1, 0, target->all.key, 0),
			 -EINVAL);
	assert_int_equal(fabric_read(endpoint, pieces, 0, 0, target->all.key, 0), -EINVAL);
	assert_int_equal(
		fabric_read(endpoint, pieces, 1, 0, target->all.key, FABRIC_CONTEXT_MAX + 1),
		-EINVAL);
	free(mine);
	fabric_endpoint_close(endpoint);
}

static void starts_nothing_that_cannot_be(void **state)
{
	struct client *client = *state;
	const struct fabric_attributes *attributes = &client->fabric->attributes;
	struct fabric_endpoint *endpoint = client_connect(client);
	struct fabric_memory *all = &client->target.all;
	struct fabric_piece pieces[] = {
		{client->target.data, (size_t)attributes->transfer_bytes_max, NULL},
		{client->target.data, 1, NULL},
	};
	struct fabric_completion completion;

	if (attributes->needs_local_registration) {
		assert_int_equal(fabric_write(endpoint, pieces, 1, all->base, all->key, 1),
				 -EINVAL);
		pieces[0].descriptor = pieces[1].descriptor =
			descriptor_of(client->fabric, client->target.data, LENT);
	}
	if (attributes->transfer_bytes_max < SIZE_MAX) {
		assert_int_equal(fabric_write(endpoint, pieces, 2, all->base, all->key, 1),
				 -EMSGSIZE);
		assert_int_equal(fabric_read(endpoint, pieces, 2, all->base, all->key, 1),
				 -EMSGSIZE);
	}
	assert_int_equal(fabric_queue_poll(client->queue, &completion, 1), 0);
	fabric_endpoint_close(endpoint);
}

/* Deeper than devices are: what finds no room is started later. */
static void bears_deep_queues(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *endpoint;
	struct fabric_queue *queue;
	const unsigned nr = 10000;
	uint8_t *mine = allocate(64);
	struct fabric_piece piece = {mine, 64, descriptor_of(client->fabric, mine, 64)};
	struct fabric_memory *all = &client->target.all;
	struct fabric_completion completion;
	unsigned nr_started = 0, nr_done = 0;
	int rc;

	assert_int_equal(fabric_queue_open(client->fabric, 65536, &queue), 0);
	endpoint = connect_to(queue, client->target.listener->address);
	while (nr_done < nr) {
		rc = nr_started < nr ? fabric_write(endpoint, &piece, 1, all->base + nr_started,
						    all->key, nr_started)
				     : -EAGAIN;
		if (rc == 0) {
			nr_started++;
			continue;
		}
		assert_int_equal(rc, -EAGAIN);
		completion = await_completion(queue);
		assert_int_equal(completion.status, 0);
		nr_done++;
	}
	fabric_endpoint_close(endpoint);
	fabric_queue_close(queue);
	free(mine);
}

static void keeps_many_in_flight(void **state)
{
	struct client *client = *state;
	struct target *target = &client->target;
	struct fabric_endpoint *endpoint = client_connect(client);
	const size_t unit = 64 << 10;
	uint8_t *mine = allocate(DEPTH * unit);
	uint8_t *back = allocate(DEPTH * unit);
	bool is_done[DEPTH];

	fill(mine, DEPTH * unit, 3);
	for (int is_write = 1; is_write >= 0; is_write--) {
		uint8_t *local = is_write ? mine : back;

		memset(is_done, 0, sizeof(is_done));
		for (unsigned i = 0; i < DEPTH; i++)
			assert_int_equal(start_one(endpoint, is_write, local + i * unit, unit,
						   &target->all, i * unit, i),
					 0);
		for (unsigned i = 0; i < DEPTH; i++) {
			struct fabric_completion completion = await_completion(client->queue);

			assert_int_equal(completion.status, 0);
			assert_true(completion.context < DEPTH && !is_done[completion.context]);
			is_done[completion.context] = true;
		}
	}
	assert_memory_equal(back, mine, DEPTH * unit);
	free(mine);
	free(back);
	fabric_endpoint_close(endpoint);
}

/* ---- Wrong keys and ranges */

/* A transfer that the target must refuse ends its own connection, and no other. */
static void expect_refusal(struct client *client, bool is_write, const struct fabric_memory *memory,
			   uint64_t offset, size_t length)
{
	struct target *target = &client->target;
	struct fabric_endpoint *good = client_connect(client);
	struct fabric_endpoint *bad = client_connect(client);
	uint8_t *mine = allocate(length);
	struct fabric_completion completion;

	memset(mine, 0xbb, length);
	memset(target->data, 0xaa, LENT);
	assert_int_equal(start_one(bad, is_write, mine, length, memory, offset, 9), 0);
	completion = await_completion(client->queue);
	assert_int_equal(completion.context, 9);
	assert_true(completion.status < 0);
	await_closed(bad, -ECONNRESET);
	fabric_endpoint_close(bad);
	for (size_t i = 0; i < length; i++)
		assert_int_equal(mine[i], 0xbb);
	for (size_t i = 0; i < LENT; i += 512)
		assert_int_equal(target->data[i], 0xaa);

	transfer_one(good, is_write, mine, 1, &target->all, 0);
	fabric_endpoint_close(good);
	free(mine);
}

static void refuses_wrong_keys(void **state)
{
	struct client *client = *state;
	struct fabric_memory wrong = client->target.all;

	wrong.key ^= 1;
	expect_refusal(client, false, &wrong, 0, 64);
	expect_refusal(client, true, &wrong, 0, 64);
	wrong.key = 0;
	expect_refusal(client, false, &wrong, 0, 64);
	expect_refusal(client, true, &client->target.read_only, 0, 64);
}

static void refuses_wrong_ranges(void **state)
{
	struct client *client = *state;
	struct target *target = &client->target;

	expect_refusal(client, false, &target->small, 4096, 1);
	expect_refusal(client, true, &target->small, 4095, 2);
	expect_refusal(client, true, &target->small, 0, 4097);
	expect_refusal(client, false, &target->all, LENT - 4096, 4097);
	/* Before the beginning, and around the end of the address space. */
	expect_refusal(client, true, &target->small, UINT64_MAX, 1);
	expect_refusal(client, true, &target->small, UINT64_MAX - 63, 128);
	expect_refusal(client, false, &target->small, 1ULL << 63, 64);
}

static void refuses_deregistered_keys(void **state)
{
	struct client *client = *state;
	struct target *target = &client->target;
	struct fabric_endpoint *endpoint = client_connect(client);
	struct fabric_memory gone;
	struct fabric_memory again;
	uint8_t byte;

	assert_int_equal(fabric_memory_register(target->fabric->domain, target->data, LENT,
						FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &again),
			 0);
	gone = again;
	transfer_one(endpoint, false, &byte, 1, &gone, 0);
	fabric_memory_deregister(&again);
	expect_refusal(client, false, &gone, 0, 1);
	expect_refusal(client, true, &gone, 0, 1);
	assert_int_equal(fabric_memory_register(target->fabric->domain, target->data, LENT,
						FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &again),
			 0);
	assert_true(again.key != gone.key);
	expect_refusal(client, true, &gone, 0, 1);
	transfer_one(endpoint, false, &byte, 1, &again, 0);
	fabric_memory_deregister(&again);
	fabric_endpoint_close(endpoint);
}

static void refuses_keys_of_other_domains(void **state)
{
	struct client *client = *state;
	struct target *target = &client->target;
	struct fabric_endpoint *endpoint;
	struct fabric_domain *other;
	struct fabric_memory memory;
	uint8_t byte;

	assert_int_equal(fabric_domain_open(target->fabric, &other), 0);
	assert_int_equal(fabric_memory_register(other, target->data, LENT,
						FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &memory),
			 0);
	expect_refusal(client, false, &memory, 0, 1);
	expect_refusal(client, true, &memory, 0, 1);
	endpoint = client_connect(client);
	transfer_one(endpoint, false, &byte, 1, &target->all, 0);
	fabric_memory_deregister(&memory);
	fabric_domain_close(other);
	fabric_endpoint_close(endpoint);
}

static void registers_only_what_is_needed(void **state)
{
	struct client *client = *state;
	struct fabric_memory memory;
	uint8_t byte;

	assert_int_equal(
		fabric_memory_register(client->fabric->domain, &byte, 1, FABRIC_LOCAL, &memory), 0);
	assert_int_equal(memory.handle == NULL,
			 !client->fabric->attributes.needs_local_registration);
	fabric_memory_deregister(&memory);
}

/* ---- Many connections */

static void serves_many_on_one_queue(void **state)
{
	struct client *client = *state;
	struct target *target = &client->target;
	const size_t unit = 64 << 10;
	struct fabric_endpoint *peers[NR_PEERS];
	uint8_t *mine = allocate(NR_PEERS * unit);
	uint8_t *back = allocate(NR_PEERS * unit);

	fill(mine, NR_PEERS * unit, 5);
	for (unsigned i = 0; i < NR_PEERS; i++)
		peers[i] = connect_start(client->queue, target->listener->address, "");
	for (unsigned i = 0; i < NR_PEERS; i++)
		assert_int_equal(await_event(client->queue).kind, FABRIC_CONNECTED);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < NR_PEERS; i++)
			assert_int_equal(start_one(peers[i], true, mine + i * unit, unit,
						   &target->all, i * unit, i),
					 0);
		for (unsigned i = 0; i < NR_PEERS; i++)
			assert_int_equal(await_completion(client->queue).status, 0);
		assert_memory_equal(target->data, mine, NR_PEERS * unit);
		memset(back, 0, NR_PEERS * unit);
		for (unsigned i = 0; i < NR_PEERS; i++)
			assert_int_equal(start_one(peers[i], false, back + i * unit, unit,
						   &target->all, i * unit, i),
					 0);
		for (unsigned i = 0; i < NR_PEERS; i++)
			assert_int_equal(await_completion(client->queue).status, 0);
		assert_memory_equal(back, mine, NR_PEERS * unit);
		/* Give up places in both CQs and take them again. */
		for (unsigned i = round; i < NR_PEERS; i += 3) {
			fabric_endpoint_close(peers[i]);
			peers[i] = client_connect(client);
		}
	}
	/* One at a time, each after the others have long been idle. */
	for (unsigned i = 0; i < NR_PEERS; i++)
		transfer_one(peers[i], true, mine, unit, &target->all, 0);
	for (unsigned i = 0; i < NR_PEERS; i++)
		fabric_endpoint_close(peers[i]);
	free(mine);
	free(back);
}

struct worker {
	struct client *client;
	struct fabric_queue *queue;
	pthread_t thread;
	unsigned seed;
};

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct target *target = &worker->client->target;
	const size_t unit = 64 << 10;
	uint64_t offset = worker->seed * unit;
	uint8_t *mine = allocate(unit);
	uint8_t *back = allocate(unit);

	for (unsigned i = 0; i < 5; i++) {
		struct fabric_endpoint *endpoint =
			connect_to(worker->queue, target->listener->address);

		for (unsigned j = 0; j < 20; j++) {
			fill(mine, unit, worker->seed * 1000 + i * 100 + j);
			transfer_one(endpoint, true, mine, unit, &target->all, offset);
			transfer_one(endpoint, false, back, unit, &target->all, offset);
			assert_memory_equal(back, mine, unit);
		}
		fabric_endpoint_close(endpoint);
	}
	free(mine);
	free(back);
	return NULL;
}

static void serves_queues_of_several_threads(void **state)
{
	struct client *client = *state;
	struct worker workers[2];

	for (unsigned i = 0; i < 2; i++) {
		workers[i].client = client;
		workers[i].seed = i;
		assert_int_equal(fabric_queue_open(client->fabric, DEPTH, &workers[i].queue), 0);
	}
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; i < 2; i++)
		fabric_queue_close(workers[i].queue);
}

/* ---- Sleeping */

static void wakes_for_completions_and_events(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *endpoint = client_connect(client);
	struct pollfd fd = {.fd = fabric_queue_fd(client->queue), .events = POLLIN};
	struct fabric_completion completion;
	struct fabric_event event;
	uint8_t *mine = allocate(4 * MIB);
	unsigned nr_sleeps = 0;

	for (unsigned i = 0; i < 50; i++) {
		bool is_write = i % 2;
		bool is_done = false;

		assert_int_equal(start_one(endpoint, is_write, mine, 1 + i % 3 * MIB,
					   &client->target.all, 0, i),
				 0);
		while (!is_done) {
			is_done = fabric_queue_poll(client->queue, &completion, 1) == 1;
			if (!is_done && fabric_queue_arm(client->queue) == 0) {
				nr_sleeps++;
				assert_int_equal(poll(&fd, 1, GRACE_MS), 1);
			}
		}
		assert_int_equal(completion.context, i);
		assert_int_equal(completion.status, 0);
	}
	if (is_on_tcp()) /* soft-RoCE may do all of the work in the call that starts it */
		assert_true(nr_sleeps > 0);
	/* Nothing to do: it can be armed, and stays quiet. */
	while (fabric_queue_arm(client->queue) != 0) {
		assert_int_equal(fabric_queue_poll(client->queue, &completion, 1), 0);
		assert_int_equal(fabric_queue_event(client->queue, &event), 0);
	}
	assert_int_equal(poll(&fd, 1, 0), 0);
	fabric_endpoint_close(endpoint);
	free(mine);
}

static void does_not_sleep_on_work(void **state)
{
	struct client *client = *state;
	struct target *target = &client->target;
	struct fabric_endpoint *endpoint = client_connect(client);
	struct fabric_completion completion;
	uint8_t bytes[8];
	unsigned nr = 0;
	uint64_t deadline = clock_deadline_ms(GRACE_MS);

	/* Several come at once and are taken one by one: the rest forbids sleeping. */
	memset(target->data, 0, 4096);
	for (unsigned i = 0; i < 8; i++) {
		bytes[i] = 1;
		assert_int_equal(start_one(endpoint, true, &bytes[i], 1, &target->all, i, i), 0);
	}
	while (nr < 8) {
		if (fabric_queue_poll(client->queue, &completion, 1) == 1) {
			nr++;
			if (nr < 8)
				assert_int_equal(fabric_queue_arm(client->queue), -EAGAIN);
		}
		assert_true(clock_ns() < deadline);
	}
	fabric_endpoint_close(endpoint);
}

int main(void)
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
		WITH_TARGET(moves_bytes_of_all_sizes),
		WITH_TARGET(gathers_and_scatters),
		WITH_TARGET(starts_nothing_that_cannot_be),
		WITH_TARGET(bears_deep_queues),
		WITH_TARGET(keeps_many_in_flight),
		WITH_TARGET(refuses_wrong_keys),
		WITH_TARGET(refuses_wrong_ranges),
		WITH_TARGET(refuses_deregistered_keys),
		WITH_TARGET(refuses_keys_of_other_domains),
		WITH_TARGET(registers_only_what_is_needed),
		WITH_TARGET(serves_many_on_one_queue),
		WITH_TARGET(serves_queues_of_several_threads),
		WITH_TARGET(wakes_for_completions_and_events),
		WITH_TARGET(does_not_sleep_on_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
