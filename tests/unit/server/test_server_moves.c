/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves on a server's data connections. The server pulls bytes out of a client's memory and pushes them into it, for those who
 * may, inside what is theirs. A client that lies about its memory loses its own connection. Nobody waits for a client that
 * stops in the middle, neither other clients nor the end of its session or of its memory.
 */
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "lib/server/server_cluster.h"
#include "rpc/message.h"
#include "unit/group.h"

#define NR_STOPPED 24U /* more than may be in flight at once */
#define MOVED	   ((uint64_t)64 << 10)

/* A client that can have bytes moved. */
struct mover_client {
	struct data_client *data;
	struct fabric_memory memory, messages;
	uint8_t *bytes; /* MESSAGE_MOVE_MAX, which the server may read and write */
	struct message_request requests[MESSAGE_CREDITS];
	struct message_reply replies[MESSAGE_CREDITS];
	unsigned nr_asked, nr_replies;
};

static void open_client(struct mover_client *client, struct data_client *data)
{
	struct fabric_domain *domain = data->fabric->domain;

	*client = (struct mover_client){.data = data, .bytes = malloc(MESSAGE_MOVE_MAX)};
	assert_non_null(client->bytes);
	assert_int_equal(
		fabric_memory_register(domain, client->bytes, MESSAGE_MOVE_MAX,
				       FABRIC_LOCAL | FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
				       &client->memory),
		0);
	assert_int_equal(fabric_memory_register(domain, client->requests, sizeof(client->requests),
						FABRIC_LOCAL, &client->messages),
			 0);
}

static void close_client(struct mover_client *client)
{
	fabric_memory_deregister(&client->memory);
	fabric_memory_deregister(&client->messages);
	free(client->bytes);
}

enum { SENT, RECEIVED };

/* Sends a request for its memory from `at` on, without waiting for anything. */
static void ask(struct mover_client *client, struct message_request request, uint64_t at)
{
	unsigned i = client->nr_asked++ % MESSAGE_CREDITS;
	const struct fabric_piece in = {&client->replies[i], sizeof(client->replies[i]), NULL};
	const struct fabric_piece out = {&client->requests[i], sizeof(client->requests[i]), NULL};

	client->requests[i] = (struct message_request){
		.kind = htole32(request.kind),
		.tag = htole32(i),
		.extent = htole64(request.extent),
		.offset = htole64(request.offset),
		.length = htole64(request.length),
		.address = htole64(client->memory.base + at),
		.key = htole64(request.key ? request.key : client->memory.key),
	};
	assert_int_equal(fabric_receive(client->data->endpoint, &in, RECEIVED), 0);
	assert_int_equal(fabric_send(client->data->endpoint, &out, SENT), 0);
}

/* Waits for the next reply; false: the connection has ended. */
static bool await(struct mover_client *client, int *status)
{
	struct fabric_completion completion;
	struct fabric_event event;
	const struct message_reply *reply = &client->replies[client->nr_replies % MESSAGE_CREDITS];

	for (;;) {
		int step = data_client_step(client->data, &completion, &event);

		if (step == 2 && event.kind == FABRIC_CLOSED) {
			data_client_disconnect(client->data);
			return false;
		}
		if (step == 1 && completion.status == 0 && completion.context == RECEIVED)
			break;
	}
	assert_int_equal(le32toh(reply->tag), client->nr_replies++ % MESSAGE_CREDITS);
	*status = (int)(int32_t)le32toh((uint32_t)reply->status);
	assert_true(reply->value == 0);
	return true;
}

static int move(struct mover_client *client, struct message_request request, uint64_t at)
{
	int status = 0;

	ask(client, request, at);
	assert_true(await(client, &status));
	return status;
}

static void test_bytes(void **state)
{
	static uint8_t expected[MESSAGE_MOVE_MAX], found[MESSAGE_MOVE_MAX];
	struct message_request request = {.kind = MESSAGE_PULL};
	struct mover_client client;
	struct fake_extent extent;
	struct cluster cluster;
	struct key_of key;

	(void)state;
	cluster_open(&cluster, 1);
	extent = reserve_one(&cluster, &key);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	open_client(&client, &cluster.data);
	request.extent = extent.extent;
	for (uint64_t length = 1; length <= MESSAGE_MOVE_MAX; length = length * 4 + length % 3) {
		request.kind = MESSAGE_PULL;
		request.length = length;
		request.offset = extent.length - length;
		fill(expected, length, (uint32_t)length);
		memcpy(client.bytes + MESSAGE_MOVE_MAX - length, expected, length);
		assert_int_equal(move(&client, request, MESSAGE_MOVE_MAX - length), 0);
		assert_int_equal(data_client_read(&cluster.data, found, length,
						  key.origin + request.offset, key.key),
				 0);
		assert_memory_equal(found, expected, length);
		memset(client.bytes, 0, MESSAGE_MOVE_MAX);
		request.kind = MESSAGE_PUSH;
		assert_int_equal(move(&client, request, 0), 0);
		assert_memory_equal(client.bytes, expected, length);
		assert_true(length == MESSAGE_MOVE_MAX || client.bytes[length] == 0);
	}
	close_client(&client);
	cluster_close(&cluster);
}

static void test_refusals(void **state)
{
	struct message_request request = {.kind = MESSAGE_PULL, .length = 8};
	struct fake_extent mine, others;
	struct mover_client client;
	struct cluster cluster;
	size_t nr_extents = 1;
	struct key_of key;
	uint64_t word = 1;

	(void)state;
	cluster_open(&cluster, 1);
	mine = reserve_one(&cluster, &key);
	assert_int_equal(fake_manager_reserve(&cluster.manager, NAMESPACE + 1, 2 * MIB, &others,
					      &nr_extents),
			 0);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	open_client(&client, &cluster.data);
	memset(client.bytes, 'x', MESSAGE_MOVE_MAX);
	for (request.kind = MESSAGE_PULL; request.kind <= MESSAGE_PUSH; request.kind++) {
		request.extent = mine.extent;
		request.offset = mine.length - 7;
		assert_int_equal(move(&client, request, 0), -ERANGE);
		request.offset = mine.length;
		assert_int_equal(move(&client, request, 0), -ERANGE);
		request.offset = UINT64_MAX - 3;
		assert_int_equal(move(&client, request, 0), -ERANGE);
		request.offset = 0;
		request.length = 0;
		assert_int_equal(move(&client, request, 0), -EINVAL);
		request.length = MESSAGE_MOVE_MAX + 1;
		assert_int_equal(move(&client, request, 0), -EINVAL);
		request.length = UINT64_MAX;
		assert_int_equal(move(&client, request, 0), -EINVAL);
		request.length = 8;
		request.extent = others.extent;
		assert_int_equal(move(&client, request, 0), -AFAR_ELOST);
		request.extent = 0;
		assert_int_equal(move(&client, request, 0), -AFAR_ELOST);
	}
	assert_int_equal(data_client_read(&cluster.data, &word, sizeof(word), key.origin, key.key),
			 0);
	assert_true(word == 0);

	/* This connection may read only. */
	assert_int_equal(connect_data_for(&cluster, SESSION, NAMESPACE, RIGHT_READ), 0);
	request.extent = mine.extent;
	client.nr_asked = client.nr_replies = 0;
	request.kind = MESSAGE_PULL;
	assert_int_equal(move(&client, request, 0), -EACCES);
	request.kind = MESSAGE_PUSH;
	assert_int_equal(move(&client, request, 0), 0);
	assert_true(client.bytes[0] == 0 && client.bytes[8] == 'x');

	/* An extent that was released is nobody's. */
	assert_int_equal(fake_manager_release(&cluster.manager, mine.extent), 0);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	client.nr_asked = client.nr_replies = 0;
	assert_int_equal(move(&client, request, 0), -AFAR_ELOST);
	close_client(&client);
	cluster_close(&cluster);
}

/* A client whose memory is not what it says loses its connection, and nobody else anything. */
static void test_liars(void **state)
{
	struct message_request request = {.length = 8};
	struct mover_client liar, honest;
	struct data_client other;
	struct rpc_ticket ticket;
	struct cluster cluster;
	struct key_of key;
	int status;

	(void)state;
	cluster_open(&cluster, 1);
	request.extent = reserve_one(&cluster, &key).extent;
	data_client_open(&other);
	assert_int_equal(get_ticket(&cluster, SESSION, &ticket), 0);
	assert_int_equal(
		data_client_connect(&other, cluster.manager.data[0], &ticket, sizeof(ticket)), 0);
	open_client(&honest, &other);
	open_client(&liar, &cluster.data);
	for (request.kind = MESSAGE_PULL; request.kind <= MESSAGE_PUSH; request.kind++) {
		for (unsigned lie = 0; lie < 2; lie++) {
			assert_int_equal(connect_data(&cluster, SESSION), 0);
			liar.nr_asked = liar.nr_replies = 0;
			request.key = lie == 0 ? 1 : 0;
			ask(&liar, request, lie == 0 ? 0 : MESSAGE_MOVE_MAX - 7);
			assert_false(await(&liar, &status));
			request.key = 0;
			assert_int_equal(move(&honest, request, 0), 0);
		}
	}
	close_client(&liar);
	close_client(&honest);
	data_client_close(&other);
	cluster_close(&cluster);
}

/* Clients that have asked for all they may, and then do nothing; one of them goes away. */
struct stopped {
	struct cluster cluster;
	struct fake_extent extent;
	struct key_of key;
	struct data_client data[NR_STOPPED];
	struct mover_client clients[NR_STOPPED];
};

static void stop_some(struct stopped *world)
{
	struct message_request request = {.length = MESSAGE_MOVE_MAX};
	struct rpc_ticket ticket;

	cluster_open(&world->cluster, 1);
	world->extent = reserve_one(&world->cluster, &world->key);
	request.extent = world->extent.extent;
	for (unsigned i = 0; i < NR_STOPPED; i++) {
		data_client_open(&world->data[i]);
		assert_int_equal(get_ticket(&world->cluster, SESSION + i, &ticket), 0);
		assert_int_equal(data_client_connect(&world->data[i],
						     world->cluster.manager.data[0], &ticket,
						     sizeof(ticket)),
				 0);
		open_client(&world->clients[i], &world->data[i]);
		memset(world->clients[i].bytes, 'S', MESSAGE_MOVE_MAX);
		request.kind = i % 2 ? MESSAGE_PULL : MESSAGE_PUSH;
		for (unsigned slot = 0; slot < MESSAGE_CREDITS; slot++)
			ask(&world->clients[i], request, 0);
	}
	data_client_disconnect(&world->data[0]);
	assert_int_equal(connect_data(&world->cluster, SESSION + NR_STOPPED), 0);
}

static void end_stopped(struct stopped *world)
{
	for (unsigned i = 0; i < NR_STOPPED; i++) {
		data_client_disconnect(&world->data[i]);
		close_client(&world->clients[i]);
		data_client_close(&world->data[i]);
	}
	cluster_close(&world->cluster);
}

static void test_stopped(void **state)
{
	static struct stopped world;
	struct message_request request = {.kind = MESSAGE_PULL, .length = MOVED};
	struct mover_client honest;
	int status;

	(void)state;
	stop_some(&world);
	open_client(&honest, &world.cluster.data);
	request.extent = world.extent.extent;
	request.offset = MIB;
	for (unsigned i = 0; i < 20; i++) {
		request.kind = i % 2 ? MESSAGE_PUSH : MESSAGE_PULL;
		assert_int_equal(move(&honest, request, 0), 0);
	}
	/* The client that goes on gets what it has asked for. */
	for (unsigned slot = 0; slot < MESSAGE_CREDITS; slot++) {
		assert_true(await(&world.clients[1], &status));
		assert_int_equal(status, 0);
	}
	close_client(&honest);
	end_stopped(&world);
}

/* Somebody else has all of the server's memory, and finds it as new. */
static void expect_clean_memory(struct cluster *cluster)
{
	uint8_t *found = malloc(CAPACITY), *zeros = calloc(1, CAPACITY);
	struct fake_extent extents[16];
	size_t nr_extents = 16;
	struct key_of key = {0};

	assert_true(found && zeros);
	assert_int_equal(fake_manager_reserve(&cluster->manager, NAMESPACE + 1, CAPACITY, extents,
					      &nr_extents),
			 0);
	assert_int_equal(connect_data_for(cluster, SESSION + NR_STOPPED, NAMESPACE + 1, RIGHT_ALL),
			 0);
	for (size_t i = 0; i < nr_extents; i++) {
		assert_int_equal(get_keys(cluster, NAMESPACE + 1, &extents[i].extent, 1, &key), 0);
		assert_int_equal(
			data_client_read(&cluster->data, found, key.length, key.origin, key.key),
			0);
		assert_memory_equal(found, zeros, key.length);
	}
	free(found);
	free(zeros);
}

/* The end of their sessions, and of the memory, is not held up; nothing of theirs lands in what is next there. */
static void test_fenced(void **state)
{
	static struct stopped world;
	int status;

	(void)state;
	stop_some(&world);
	for (uint64_t i = 1; i <= 2; i++)
		assert_int_equal(fake_manager_end_session(&world.cluster.manager, SESSION + i), 0);
	assert_int_equal(fake_manager_release(&world.cluster.manager, world.extent.extent), 0);
	/* Those that go on find that their connection has ended. */
	for (unsigned i = 1; i < NR_STOPPED; i++) {
		while (await(&world.clients[i], &status))
			assert_int_equal(status, 0);
	}
	expect_clean_memory(&world.cluster);
	end_stopped(&world);
}

TEST_GROUP(server_moves)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),  cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_liars),  cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_fenced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
