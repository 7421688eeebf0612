/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How connections end: closed by either side at any moment, or with the process of the peer. Nothing
 * else is touched, nothing is told twice, and what was in flight can be ended.
 */
#include "lib/fabric/fabric_fixture.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/child.h"
#include "lib/base/transport.h"
#include "unit/group.h"

#define CHILD_ARG "--target"

/* ---- Closing */

static void closes_while_connecting(void **state)
{
	struct client *client = *state;
	struct fabric_listener *listener;
	struct fabric_request request;
	struct fabric_event event;

	assert_int_equal(fabric_listen(client->fabric, any_port(), &listener), 0);
	/* Nobody answers there. Some get far enough to have sent their request, others not. */
	for (int i = 0; i < 20; i++) {
		struct fabric_endpoint *endpoint =
			connect_start(client->queue, listener->address, "x");

		for (int j = 0; j < i % 4; j++)
			assert_int_equal(fabric_queue_event(client->queue, &event), 0);
		fabric_endpoint_close(endpoint);
	}
	assert_int_equal(fabric_queue_event(client->queue, &event), 0);
	while (fabric_listener_next(listener, &request) == 0)
		fabric_reject(listener, &request);
	fabric_listener_close(listener);
	fabric_endpoint_close(client_connect(client));
}

static void drops_events_of_the_closed(void **state)
{
	struct client *client = *state;
	struct fabric_event event;

	/* Each is closed with its connection event still to come or just come. The next one, likely at
	 * the same address in memory, must not inherit that event. */
	for (int i = 0; i < 20; i++) {
		struct fabric_endpoint *endpoint =
			connect_start(client->queue, client->target.listener->address,
				      i % 2 == 0 ? "reject" : "ticket");
		struct pollfd fd = {.fd = fabric_queue_fd(client->queue), .events = POLLIN};
		unsigned before = atomic_load(&client->target.nr_requests);

		while (atomic_load(&client->target.nr_requests) < before + (i % 4 < 2)) {
			if (fabric_queue_arm(client->queue) == 0)
				poll(&fd, 1, 1);
			if (fabric_queue_event(client->queue, &event) != 0)
				break;
		}
		fabric_endpoint_close(endpoint);
		assert_int_equal(fabric_queue_event(client->queue, &event), 0);
	}
	fabric_endpoint_close(client_connect(client));
}

static void tells_when_the_peer_closes(void **state)
{
	struct client *client = *state;
	struct target other;
	struct fabric_endpoint *connecting;
	struct fabric_endpoint *accepting;
	uint8_t byte = 0;

	target_open(&other, any_port());
	connect_pair(client, &other, &connecting, &accepting);
	fabric_endpoint_close(accepting);
	await_closed(connecting, -ECONNRESET);
	assert_int_equal(start_one(connecting, true, &byte, 1, &other.all, 0, 1), -ENOTCONN);
	fabric_endpoint_close(connecting);
	target_close(&other);
}

/* A server that fences closes endpoints whatever their peers are doing. */
static void closes_in_the_middle_of_a_peers_transfer(void **state)
{
	struct client *client = *state;
	struct fabric_completion completion;
	struct fabric_endpoint *connecting;
	struct fabric_endpoint *accepting;
	uint8_t *mine = allocate(8 * MIB);
	volatile uint8_t *progress;
	struct target other;

	target_open(&other, any_port());
	for (unsigned round = 0; round < 10; round++) {
		bool is_write = round % 2 == 0;
		int nr_done = 0;

		memset(mine, is_write ? 0xff : 0, 8 * MIB);
		memset(other.data, is_write ? 0 : 0xff, 8 * MIB);
		progress = is_write ? other.data : mine;
		connect_pair(client, &other, &connecting, &accepting);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(
				start_one(connecting, is_write, mine, 8 * MIB, &other.all, 0, i),
				0);
		while (*progress == 0) {
			/* Where no target is needed, all may be done at once, but is told one by one. */
			nr_done += fabric_queue_poll(client->queue, &completion, 1);
			assert_true(nr_done == 0 || is_on_local());
			assert_int_equal(fabric_queue_poll(other.queue, &completion, 1), 0);
		}
		fabric_endpoint_close(accepting);
		memset(other.data, 0x5a, 8 * MIB);
		for (int i = nr_done; i < 4; i++) {
			bool has_failed = await_completion(client->queue).status < 0;

			/* Where no target is needed, all may have been done by then. */
			assert_true(has_failed || client->fabric->attributes.is_target_passive);
			assert_int_equal(fabric_queue_poll(other.queue, &completion, 1), 0);
		}
		await_closed(connecting, -ECONNRESET);
		fabric_endpoint_close(connecting);
		for (size_t i = 0; i < 8 * MIB; i += 8)
			assert_int_equal(other.data[i], 0x5a);
	}
	target_close(&other);
	free(mine);
}

static void is_quiescent_once_closed(void **state)
{
	struct client *client = *state;
	struct target *target = &client->target;
	const size_t unit = 1 * MIB;
	struct fabric_completion completion;

	fill(target->data, LENT, 21);
	for (unsigned round = 0; round < 12; round++) {
		struct fabric_endpoint *endpoint = client_connect(client);
		uint8_t *mine = allocate(8 * unit);

		for (unsigned i = 0; i < 8; i++)
			assert_int_equal(start_one(endpoint, round % 2 == 1, mine + i * unit, unit,
						   &target->all, i * unit, i),
					 0);
		for (unsigned i = 0; i < round / 2; i++)
			fabric_queue_poll(client->queue, &completion, 1);
		fabric_endpoint_close(endpoint);
		/* A late read into it would show here; freeing it lets the sanitizer see one later. */
		memset(mine, 0x5a, 8 * unit);
		for (unsigned i = 0; i < 100; i++)
			fabric_queue_poll(client->queue, &completion, 1);
		endpoint = client_connect(client);
		transfer_one(endpoint, false, target->data + LENT - 64, 64, &target->all, 0);
		for (size_t i = 0; i < 8 * unit; i++)
			assert_int_equal(mine[i], 0x5a);
		free(mine);
		fabric_endpoint_close(endpoint);
	}
}

static void ends_with_transfers_unfinished(void **state)
{
	struct client *client = *state;
	struct fabric_queue *queue;
	struct fabric_endpoint *endpoint;
	static uint8_t mine[1 << 20];

	/* Closed in the order endpoint, queue, without anybody taking the completions. */
	assert_int_equal(fabric_queue_open(client->fabric, DEPTH, &queue), 0);
	endpoint = connect_to(queue, client->target.listener->address);
	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(
			start_one(endpoint, i % 2, mine, sizeof(mine), &client->target.all, 0, i),
			0);
	fabric_endpoint_close(endpoint);
	fabric_queue_close(queue);
}

/* ---- A target that dies */

struct child {
	pid_t pid;
	char address[FABRIC_ADDRESS_MAX];
	struct fabric_memory memory;
};

/* The child lends memory, says where on standard output, and serves until killed. */
static int serve_as_child(void)
{
	struct target target;

	target_open(&target, any_port());
	printf("%s %llu %llu\n", target.listener->address, (unsigned long long)target.all.key,
	       (unsigned long long)target.all.base);
	fflush(stdout);
	target_run(&target);
	return 0;
}

static void child_start(struct child *child)
{
	unsigned long long key;
	unsigned long long base;
	int fds[2];
	FILE *out;

	assert_int_equal(pipe(fds), 0);
	child->pid = fork_child();
	assert_true(child->pid >= 0);
	if (child->pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		execl("/proc/self/exe", "unit_fabric", "fabric_ends", CHILD_ARG, NULL);
		_exit(127);
	}
	close(fds[1]);
	out = fdopen(fds[0], "r");
	assert_non_null(out);
	assert_int_equal(fscanf(out, "%63s %llu %llu", child->address, &key, &base), 3);
	fclose(out);
	child->memory = (struct fabric_memory){.key = key, .base = base};
}

static void child_stop(struct child *child)
{
	assert_int_equal(kill(child->pid, SIGSTOP), 0);
	assert_int_equal(waitpid(child->pid, NULL, WUNTRACED), child->pid);
}

static void child_kill(struct child *child)
{
	assert_int_equal(kill(child->pid, SIGKILL), 0);
	assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
}

static void needs_no_target_that_runs(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *endpoint;
	struct child child;
	uint8_t mine[4096], back[4096];

	if (!client->fabric->attributes.is_target_passive)
		skip();
	child_start(&child);
	endpoint = connect_to(client->queue, child.address);
	if (is_on_local()) /* the first transfer asks for the memory */
		transfer_one(endpoint, false, back, 1, &child.memory, 0);
	child_stop(&child);
	for (unsigned i = 0; i < 10000; i++) {
		uint64_t place = i % 1000 * sizeof(mine);

		fill(mine, sizeof(mine), i);
		transfer_one(endpoint, true, mine, sizeof(mine), &child.memory, place);
		transfer_one(endpoint, false, back, sizeof(back), &child.memory, place);
		assert_memory_equal(back, mine, sizeof(mine));
	}
	child_kill(&child);
	await_closed(endpoint, -ECONNRESET);
	assert_int_equal(start_one(endpoint, true, mine, 1, &child.memory, 0, 1), -ENOTCONN);
	fabric_endpoint_close(endpoint);
}

static void survives_a_killed_target(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *endpoint;
	struct fabric_endpoint *good = client_connect(client);
	struct fabric_completion completion;
	struct child child;
	const size_t unit = MIB / 4;
	uint8_t *mine = allocate(DEPTH * unit);
	bool has_ended[DEPTH] = {false};

	if (client->fabric->attributes.is_target_passive) {
		fabric_endpoint_close(good);
		free(mine);
		skip(); /* it would not notice: see needs_no_target_that_runs() */
	}
	child_start(&child);
	endpoint = connect_to(client->queue, child.address);
	child_stop(&child);
	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(start_one(endpoint, i % 2, mine + i * unit, unit, &child.memory,
					   i * unit, i),
				 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(fabric_queue_poll(client->queue, &completion, 1), 0);
	child_kill(&child);

	for (unsigned i = 0; i < DEPTH; i++) {
		completion = await_completion(client->queue);
		assert_true(completion.status < 0);
		assert_true(completion.context < DEPTH && !has_ended[completion.context]);
		has_ended[completion.context] = true;
	}
	assert_int_equal(start_one(endpoint, true, mine, 1, &child.memory, 0, 1), -ENOTCONN);
	assert_int_equal(fabric_queue_poll(client->queue, &completion, 1), 0);
	await_closed(endpoint, -ECONNRESET);
	fabric_endpoint_close(endpoint);
	free(mine);
	transfer_one(good, false, &(uint8_t){0}, 1, &client->target.all, 0);
	fabric_endpoint_close(good);
}

static void survives_a_target_killed_in_mid_answer(void **state)
{
	struct client *client = *state;
	const size_t unit = 8 * MIB;
	const unsigned nr = 6;
	uint8_t *mine = allocate(unit);
	volatile uint8_t *first = mine;

	for (unsigned round = 0; round < 4; round++) {
		struct fabric_completion completion;
		struct fabric_endpoint *endpoint;
		bool has_ended[6] = {false};
		struct child child;

		child_start(&child);
		endpoint = connect_to(client->queue, child.address);
		memset(mine, 0xff, unit);
		transfer_one(endpoint, true, mine, unit, &child.memory, 0);
		memset(mine, 0, unit);
		for (unsigned i = 0; i < nr - 2; i++)
			assert_int_equal(
				start_one(endpoint, false, mine, unit, &child.memory, 0, i), 0);
		while (*first == 0)
			assert_int_equal(fabric_queue_poll(client->queue, &completion, 1), 0);
		child_stop(&child);
		/* Its end resets the connection, because it leaves bytes unread. We notice by
		 * reading or, in every other round, by writing. */
		assert_int_equal(start_one(endpoint, true, mine, 1, &child.memory, 0, nr - 2), 0);
		if (round % 2 == 0)
			child_kill(&child);
		assert_int_equal(start_one(endpoint, true, mine, 1, &child.memory, 0, nr - 1), 0);
		if (round % 2 != 0)
			child_kill(&child);
		for (unsigned i = 0; i < nr; i++) {
			completion = await_completion(client->queue);
			assert_true(completion.context < nr && !has_ended[completion.context]);
			has_ended[completion.context] = true;
		}
		for (unsigned i = 0; i < 100; i++)
			assert_int_equal(fabric_queue_poll(client->queue, &completion, 1), 0);
		await_closed(endpoint, -ECONNRESET);
		fabric_endpoint_close(endpoint);
	}
	free(mine);
	fabric_endpoint_close(client_connect(client));
}

static void hears_of_a_killed_target_asleep(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *endpoint;
	struct child child;

	child_start(&child);
	endpoint = connect_to(client->queue, child.address);
	child_kill(&child);
	await_closed(endpoint, -ECONNRESET);
	fabric_endpoint_close(endpoint);
}

TEST_GROUP(fabric_ends)
{
#define WITH_TARGET(test) cmocka_unit_test_setup_teardown(test, client_setup, client_teardown)
	const struct CMUnitTest tests[] = {
		WITH_TARGET(closes_while_connecting),
		WITH_TARGET(drops_events_of_the_closed),
		WITH_TARGET(tells_when_the_peer_closes),
		WITH_TARGET(closes_in_the_middle_of_a_peers_transfer),
		WITH_TARGET(is_quiescent_once_closed),
		WITH_TARGET(ends_with_transfers_unfinished),
		WITH_TARGET(needs_no_target_that_runs),
		WITH_TARGET(survives_a_killed_target),
		WITH_TARGET(survives_a_target_killed_in_mid_answer),
		WITH_TARGET(hears_of_a_killed_target_asleep),
	};

	if (argc == 2 && strcmp(argv[1], CHILD_ARG) == 0)
		return serve_as_child();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
