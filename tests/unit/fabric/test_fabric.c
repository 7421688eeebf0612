/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric seam at work: transfers of all sizes, refusals, many connections, sleeping. How connections begin
 * is test_fabric_connect.c's, how they end test_fabric_ends.c's.
 */
#include "lib/fabric/fabric_fixture.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/shared.h"
#include "lib/base/transport.h"
#include "unit/group.h"

#define NR_PEERS 100

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

/* A transfer that the target must refuse ends its own connection, `bad`, and no other. */
static void expect_refusal_on(struct client *client, struct fabric_endpoint *bad, bool is_write,
			      const struct fabric_memory *memory, uint64_t offset, size_t length)
{
	struct target *target = &client->target;
	struct fabric_endpoint *good = client_connect(client);
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

static void expect_refusal(struct client *client, bool is_write, const struct fabric_memory *memory,
			   uint64_t offset, size_t length)
{
	expect_refusal_on(client, client_connect(client), is_write, memory, offset, length);
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
	struct fabric_endpoint *users[2]; /* of the key, before it ends */
	struct fabric_memory gone;
	struct fabric_memory again;
	uint8_t byte;

	assert_int_equal(fabric_memory_register(target->fabric->domain, target->data, LENT,
						FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &again),
			 0);
	gone = again;
	transfer_one(endpoint, false, &byte, 1, &gone, 0);
	for (int i = 0; i < 2; i++) {
		users[i] = client_connect(client);
		transfer_one(users[i], false, &byte, 1, &gone, 0);
	}
	fabric_memory_deregister(&again);
	expect_refusal_on(client, users[0], false, &gone, 0, 1);
	expect_refusal_on(client, users[1], true, &gone, 0, 1);
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

TEST_GROUP(fabric)
{
#define WITH_TARGET(test) cmocka_unit_test_setup_teardown(test, client_setup, client_teardown)
	const struct CMUnitTest tests[] = {
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
