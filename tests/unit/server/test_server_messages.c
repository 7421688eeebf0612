/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages on a server's data connections: atomics add up whoever asks and however many at once. Requests
 * that somebody may not make, or that cannot be done, are refused and hurt nobody.
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

#define NR_CLIENTS 6U
#define NR_ADDS	   500U

static struct message_request wire_request(const struct message_request *request)
{
	return (struct message_request){
		.kind = htole32(request->kind),
		.tag = htole32(request->tag),
		.extent = htole64(request->extent),
		.offset = htole64(request->offset),
		.operand = htole64(request->operand),
		.compare = htole64(request->compare),
	};
}

enum { RECEIVED = 1, SENT = 2 };

/* Sends `length` bytes and waits for the reply; false when the connection ended instead. */
static bool ask_bytes(struct data_client *client, void *request, size_t length,
		      struct message_reply *reply)
{
	struct fabric_memory request_memory = data_client_lend(client, request, length);
	struct fabric_memory reply_memory = data_client_lend(client, reply, sizeof(*reply));
	const struct fabric_piece out = {request, length, request_memory.descriptor};
	const struct fabric_piece in = {reply, sizeof(*reply), reply_memory.descriptor};
	struct fabric_completion completion;
	struct fabric_event event;
	unsigned nr_done = 0;
	int step;

	assert_int_equal(fabric_receive(client->endpoint, &in, RECEIVED), 0);
	assert_int_equal(fabric_send(client->endpoint, &out, SENT), 0);
	while (nr_done < 2) {
		step = data_client_step(client, &completion, &event);
		if (step == 2 && event.kind == FABRIC_CLOSED)
			data_client_disconnect(client);
		if (!client->endpoint)
			break;
		nr_done += step == 1 && completion.status == 0;
	}
	fabric_memory_deregister(&request_memory);
	fabric_memory_deregister(&reply_memory);
	return nr_done == 2;
}

/* The status; the word's value before in `*value`. */
static int ask(struct data_client *client, struct message_request request, uint64_t *value)
{
	request.tag = 4711;
	return data_client_ask(client, &request, value);
}

static uint64_t read_word(struct data_client *client, const struct key_of *key, uint64_t offset)
{
	uint64_t word;

	assert_int_equal(
		data_client_read(client, &word, sizeof(word), key->origin + offset, key->key), 0);
	return le64toh(word);
}

static void test_atomics(void **state)
{
	struct fake_extent extent;
	struct cluster cluster;
	struct key_of key;
	uint64_t value;

	(void)state;
	cluster_open(&cluster, 1);
	extent = reserve_one(&cluster, &key);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	for (uint64_t i = 0; i < 20; i++) {
		const struct message_request add = {
			.kind = MESSAGE_FETCH_ADD, .extent = extent.extent, .operand = 3};

		assert_int_equal(ask(&cluster.data, add, &value), 0);
		assert_int_equal(value, 3 * i);
	}
	assert_int_equal(read_word(&cluster.data, &key, 0), 60);
	assert_int_equal(read_word(&cluster.data, &key, 8), 0);

	/* The last word; only what is expected is replaced. */
	struct message_request swap = {.kind = MESSAGE_COMPARE_SWAP,
				       .extent = extent.extent,
				       .offset = extent.length - 8,
				       .compare = 0,
				       .operand = UINT64_MAX};

	assert_int_equal(ask(&cluster.data, swap, &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(ask(&cluster.data, swap, &value), 0);
	assert_true(value == UINT64_MAX);
	swap.compare = UINT64_MAX;
	swap.operand = 5;
	assert_int_equal(ask(&cluster.data, swap, &value), 0);
	assert_int_equal(read_word(&cluster.data, &key, extent.length - 8), 5);
	cluster_close(&cluster);
}

static void expect_status(struct cluster *cluster, struct message_request request, int status)
{
	uint64_t value;

	assert_int_equal(ask(&cluster->data, request, &value), status);
	if (status != 0)
		assert_int_equal(value, 0);
}

static void test_refusals(void **state)
{
	struct fake_extent mine, others;
	struct message_request request;
	struct cluster cluster;
	size_t nr_extents = 1;
	struct key_of key;

	(void)state;
	cluster_open(&cluster, 1);
	mine = reserve_one(&cluster, &key);
	assert_int_equal(fake_manager_reserve(&cluster.manager, NAMESPACE + 1, 2 * MIB, &others,
					      &nr_extents),
			 0);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	request = (struct message_request){
		.kind = MESSAGE_FETCH_ADD, .extent = mine.extent, .operand = 1};
	for (uint64_t offset = 1; offset < 8; offset++) {
		request.offset = offset;
		expect_status(&cluster, request, -EINVAL);
	}
	request.offset = mine.length;
	expect_status(&cluster, request, -ERANGE);
	request.offset = UINT64_MAX - 7;
	expect_status(&cluster, request, -ERANGE);
	request.offset = 0;
	request.kind = 0;
	expect_status(&cluster, request, -EOPNOTSUPP);
	request.kind = UINT32_MAX;
	expect_status(&cluster, request, -EOPNOTSUPP);
	request.kind = MESSAGE_COMPARE_SWAP;
	request.extent = others.extent;
	expect_status(&cluster, request, -AFAR_ELOST);
	request.extent = 0;
	expect_status(&cluster, request, -AFAR_ELOST);
	assert_int_equal(read_word(&cluster.data, &key, 0), 0);

	/* This connection may read only. */
	assert_int_equal(connect_data_for(&cluster, SESSION, NAMESPACE, RIGHT_READ), 0);
	request.extent = mine.extent;
	expect_status(&cluster, request, -EACCES);
	request.kind = MESSAGE_FETCH_ADD;
	expect_status(&cluster, request, -EACCES);

	/* An extent that was released is nobody's. */
	assert_int_equal(fake_manager_release(&cluster.manager, mine.extent), 0);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	expect_status(&cluster, request, -AFAR_ELOST);
	cluster_close(&cluster);
}

/* ---- Zeros */

static void expect_zero(struct cluster *cluster, const struct fake_extent *extent, uint64_t offset,
			uint64_t length, uint64_t flags, int status)
{
	expect_status(cluster,
		      (struct message_request){.kind = MESSAGE_ZERO,
					       .extent = extent->extent,
					       .offset = offset,
					       .length = length,
					       .flags = flags},
		      status);
}

static void expect_model(struct cluster *cluster, const struct key_of *key, const uint8_t *model)
{
	static uint8_t found[MIB];

	for (uint64_t at = 0; at < key->length; at += MIB) {
		assert_int_equal(
			data_client_read(&cluster->data, found, MIB, key->origin + at, key->key),
			0);
		assert_memory_equal(found, model + at, MIB);
	}
}

/* The bytes that are named and no others, at any offset. */
static void test_zeros(void **state)
{
	static const struct {
		uint64_t offset, length;
	} ranges[] = {{1, 1}, {4095, 2}, {10000, 12345}, {MIB - 3, 7}, {12, MIB}, {2 * MIB - 1, 1}};
	static uint8_t model[2 * MIB];
	struct fake_extent extent;
	struct cluster cluster;
	struct key_of key;

	(void)state;
	cluster_open(&cluster, 1);
	extent = reserve_one(&cluster, &key);
	assert_int_equal(extent.length, sizeof(model));
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	fill(model, sizeof(model), 1);
	assert_int_equal(
		data_client_write(&cluster.data, model, sizeof(model), key.origin, key.key), 0);
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		/* A trim may leave all of it. */
		expect_zero(&cluster, &extent, ranges[i].offset, ranges[i].length,
			    MESSAGE_ZERO_TRIM, 0);
		expect_model(&cluster, &key, model);
		expect_zero(&cluster, &extent, ranges[i].offset, ranges[i].length, 0, 0);
		memset(model + ranges[i].offset, 0, ranges[i].length);
		expect_model(&cluster, &key, model);
	}
	cluster_close(&cluster);
}

static void test_refused_zeros(void **state)
{
	static uint8_t model[2 * MIB];
	struct fake_extent mine, others, none = {0};
	struct cluster cluster;
	size_t nr_extents = 1;
	struct key_of key;

	(void)state;
	cluster_open(&cluster, 1);
	mine = reserve_one(&cluster, &key);
	assert_int_equal(fake_manager_reserve(&cluster.manager, NAMESPACE + 1, 2 * MIB, &others,
					      &nr_extents),
			 0);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	memset(model, 7, sizeof(model));
	assert_int_equal(
		data_client_write(&cluster.data, model, sizeof(model), key.origin, key.key), 0);
	/* A trim of what does not answer 0 is refused, too. */
	for (uint64_t flags = 0; flags <= MESSAGE_ZERO_TRIM; flags += MESSAGE_ZERO_TRIM) {
		expect_zero(&cluster, &mine, 0, 0, flags, -EINVAL);
		expect_zero(&cluster, &mine, 0, MESSAGE_ZERO_MAX + 1, flags, -EINVAL);
		expect_zero(&cluster, &mine, 0, UINT64_MAX, flags, -EINVAL);
		expect_zero(&cluster, &mine, 0, 8, flags | 4, -EINVAL);
		expect_zero(&cluster, &mine, 0, 8, flags | UINT64_C(1) << 63, -EINVAL);
		expect_zero(&cluster, &mine, 0, 8, flags | MESSAGE_ZERO_DURABLE, -EOPNOTSUPP);
		expect_zero(&cluster, &mine, mine.length, 1, flags, -ERANGE);
		expect_zero(&cluster, &mine, mine.length - 8, 9, flags, -ERANGE);
		expect_zero(&cluster, &mine, UINT64_MAX - 3, 8, flags, -ERANGE);
		expect_zero(&cluster, &others, 0, 8, flags, -AFAR_ELOST);
		expect_zero(&cluster, &none, 0, 8, flags, -AFAR_ELOST);
	}
	assert_int_equal(connect_data_for(&cluster, SESSION, NAMESPACE, RIGHT_READ), 0);
	expect_zero(&cluster, &mine, 0, 8, 0, -EACCES);
	expect_zero(&cluster, &mine, 0, 8, MESSAGE_ZERO_TRIM, -EACCES);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	expect_model(&cluster, &key, model);
	assert_int_equal(fake_manager_release(&cluster.manager, mine.extent), 0);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	expect_zero(&cluster, &mine, 0, 8, 0, -AFAR_ELOST);
	cluster_close(&cluster);
}

/* ---- Noise, and many */

static void test_malformed(void **state)
{
	struct data_client other;
	struct message_reply reply;
	struct rpc_ticket ticket;
	struct cluster cluster;
	struct key_of key;
	uint8_t noise[256];

	(void)state;
	cluster_open(&cluster, 1);
	reserve_one(&cluster, &key);
	data_client_open(&other);
	assert_int_equal(get_ticket(&cluster, SESSION, &ticket), 0);
	assert_int_equal(
		data_client_connect(&other, cluster.manager.data[0], &ticket, sizeof(ticket)), 0);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	memset(noise, 0xa5, sizeof(noise));
	/* Too short: what is missing is 0. */
	assert_true(ask_bytes(&cluster.data, noise, 8, &reply));
	assert_int_equal(reply.tag, htole32(0xa5a5a5a5));
	assert_int_equal((int32_t)le32toh((uint32_t)reply.status), -EOPNOTSUPP);
	assert_true(ask_bytes(&cluster.data, noise, 1, &reply));
	/* Too long: the connection's end, and nobody else's. */
	assert_false(ask_bytes(&cluster.data, noise, sizeof(noise), &reply));
	assert_int_equal(read_word(&other, &key, 0), 0);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	assert_int_equal(read_word(&cluster.data, &key, 0), 0);
	data_client_close(&other);
	cluster_close(&cluster);
}

/* More requests at once than the server waits for: each has its reply, in order. */
static void test_more_than_the_credits(void **state)
{
	struct message_request requests[4 * MESSAGE_CREDITS];
	struct message_reply replies[4 * MESSAGE_CREDITS];
	struct fabric_memory request_memory, reply_memory;
	struct fabric_completion completion;
	struct fake_extent extent;
	struct fabric_event event;
	struct cluster cluster;
	unsigned nr_done = 0;
	struct key_of key;

	(void)state;
	cluster_open(&cluster, 1);
	extent = reserve_one(&cluster, &key);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	request_memory = data_client_lend(&cluster.data, requests, sizeof(requests));
	reply_memory = data_client_lend(&cluster.data, replies, sizeof(replies));
	for (uint32_t i = 0; i < 4 * MESSAGE_CREDITS; i++) {
		const struct message_request request = {
			.kind = MESSAGE_FETCH_ADD, .tag = i, .extent = extent.extent, .operand = 1};
		const struct fabric_piece in = {&replies[i], sizeof(replies[i]),
						reply_memory.descriptor};
		const struct fabric_piece out = {&requests[i], sizeof(requests[i]),
						 request_memory.descriptor};
		int status = -EAGAIN;

		requests[i] = wire_request(&request);
		while (status == -EAGAIN) {
			status = fabric_receive(cluster.data.endpoint, &in, RECEIVED);
			if (status == -EAGAIN)
				nr_done +=
					data_client_step(&cluster.data, &completion, &event) == 1;
		}
		assert_int_equal(status, 0);
		for (status = -EAGAIN; status == -EAGAIN;) {
			status = fabric_send(cluster.data.endpoint, &out, SENT);
			if (status == -EAGAIN)
				nr_done +=
					data_client_step(&cluster.data, &completion, &event) == 1;
		}
		assert_int_equal(status, 0);
	}
	while (nr_done < 2 * 4 * MESSAGE_CREDITS)
		nr_done += data_client_step(&cluster.data, &completion, &event) == 1;
	for (uint32_t i = 0; i < 4 * MESSAGE_CREDITS; i++) {
		assert_int_equal(le32toh(replies[i].tag), i);
		assert_int_equal(replies[i].status, 0);
		assert_int_equal(le64toh(replies[i].value), i);
	}
	fabric_memory_deregister(&request_memory);
	fabric_memory_deregister(&reply_memory);
	cluster_close(&cluster);
}

/* On several progress threads, one word: nothing is lost. */
struct adder {
	pthread_t thread;
	struct data_client client;
	uint64_t extent;
};

static void *add_up(void *argument)
{
	struct adder *adder = argument;
	struct message_request request = wire_request(&(struct message_request){
		.kind = MESSAGE_FETCH_ADD, .extent = adder->extent, .operand = 1});
	struct message_reply reply;

	for (unsigned i = 0; i < NR_ADDS; i++) {
		if (!ask_bytes(&adder->client, &request, sizeof(request), &reply) ||
		    reply.status != 0)
			return NULL;
	}
	return adder;
}

static void test_many_add_up(void **state)
{
	static struct adder adders[NR_CLIENTS];
	struct fake_extent extent;
	struct rpc_ticket ticket;
	struct cluster cluster;
	struct key_of key;
	void *result;

	(void)state;
	cluster_open(&cluster, 3);
	extent = reserve_one(&cluster, &key);
	for (unsigned i = 0; i < NR_CLIENTS; i++) {
		adders[i].extent = extent.extent;
		data_client_open(&adders[i].client);
		assert_int_equal(get_ticket(&cluster, SESSION + i, &ticket), 0);
		assert_int_equal(data_client_connect(&adders[i].client, cluster.manager.data[0],
						     &ticket, sizeof(ticket)),
				 0);
	}
	for (unsigned i = 0; i < NR_CLIENTS; i++)
		assert_int_equal(pthread_create(&adders[i].thread, NULL, add_up, &adders[i]), 0);
	for (unsigned i = 0; i < NR_CLIENTS; i++) {
		assert_int_equal(pthread_join(adders[i].thread, &result), 0);
		assert_non_null(result);
	}
	assert_int_equal(read_word(&adders[0].client, &key, 0), NR_CLIENTS * NR_ADDS);
	for (unsigned i = 0; i < NR_CLIENTS; i++)
		data_client_close(&adders[i].client);
	cluster_close(&cluster);
}

TEST_GROUP(server_messages)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_atomics),	      cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_malformed),     cmocka_unit_test(test_more_than_the_credits),
		cmocka_unit_test(test_many_add_up),   cmocka_unit_test(test_zeros),
		cmocka_unit_test(test_refused_zeros),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
