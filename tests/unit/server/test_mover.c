/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns among the moves that clients have asked a server for, on a fabric where nothing moves until the test says so. Clients
 * take turns however much one of them asks for, and so much and no more is in flight. A client that stops in the middle does
 * not hold others up.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "server/data/mover.h"
#include "unit/group.h"

#define NR_CLIENTS (2 * CROWD_LINES)
#define NR_FEW	   (CROWD_LINES / 2)
#define UNIT	   ((uint64_t)64 << 10)
#define FLIGHTS	   (NR_CLIENTS * MESSAGE_CREDITS)

struct client {
	struct fabric_endpoint endpoint;
	struct mover_line line;
	unsigned nr_begun, nr_done, nr_failed;
};

/* The fabric: what was begun and is not over, in that order. */
static struct {
	struct {
		struct client *client;
		uint64_t length;
		unsigned slot;
	} flights[FLIGHTS];
	unsigned nr_flights;
	int error; /* of what is begun next */
	struct mover mover;
	struct client clients[NR_CLIENTS];
} world;

static struct fabric_queue fabric_queue;

static int begin(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		 unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	struct client *client = endpoint->owner;

	assert_int_equal(nr_pieces, 1);
	assert_int_equal(remote, 4711);
	assert_int_equal(key, 815);
	if (world.error != 0)
		return world.error;
	client->nr_begun++;
	assert_true(world.nr_flights < FLIGHTS);
	world.flights[world.nr_flights].client = client;
	world.flights[world.nr_flights].length = pieces->length;
	world.flights[world.nr_flights++].slot = context & (MESSAGE_CREDITS - 1);
	return 0;
}

static const struct fabric_ops ops = {.transport = "fake", .read = begin, .write = begin};
static struct fabric fabric = {.ops = &ops};

static void on_done(struct mover_line *line, unsigned slot, int status)
{
	struct client *client = caa_container_of(line, struct client, line);

	assert_int_equal(line->moves[slot].state, MOVE_FREE);
	client->nr_done++;
	client->nr_failed += status != 0;
}

static int open_world(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	fabric_queue.fabric = &fabric;
	assert_int_equal(mover_open(&world.mover, 0, on_done), 0);
	for (unsigned i = 0; i < NR_CLIENTS; i++) {
		struct client *client = &world.clients[i];

		client->endpoint = (struct fabric_endpoint){&fabric_queue, client};
		mover_enter(&client->line, &client->endpoint, 256 * i);
	}
	return 0;
}

static void ask(struct client *client, unsigned slot, uint64_t length)
{
	static char bytes[1];
	const struct message_request request = {
		.kind = MESSAGE_PULL, .length = length, .address = 4711, .key = 815};

	mover_ask(&world.mover, &client->line, slot, &request, bytes);
}

/* Number `i` in flight is over. */
static void complete(unsigned i)
{
	struct client *client = world.flights[i].client;
	unsigned slot = world.flights[i].slot;

	world.nr_flights--;
	memmove(&world.flights[i], &world.flights[i + 1],
		(world.nr_flights - i) * sizeof(world.flights[0]));
	mover_end(&world.mover, &client->line, slot);
}

static void expect_bounds(void)
{
	uint64_t bytes = 0;

	assert_true(world.nr_flights <= MOVES_MAX);
	for (unsigned i = 0; i < world.nr_flights; i++)
		bytes += world.flights[i].length;
	assert_true(world.nr_flights == 1 || bytes <= MOVES_BYTES_MAX);
}

/* None of the first so many clients has begun more than another by more than that. */
static void expect_fair(unsigned nr_clients, unsigned difference)
{
	unsigned least = UINT32_MAX, most = 0;

	for (unsigned i = 0; i < nr_clients; i++) {
		unsigned nr = world.clients[i].nr_begun;

		least = nr < least ? nr : least;
		most = nr > most ? nr : most;
	}
	assert_true(most - least <= difference);
}

/* All ask for as much as they may, again and again. At no time has one got more than another by more than it may have in
 * flight. */
static void test_turns(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_FEW; i++) {
		for (unsigned slot = 0; slot < MESSAGE_CREDITS; slot++)
			ask(&world.clients[i], slot, UNIT);
	}
	for (unsigned nr = 0; nr < 10000; nr++) {
		struct client *client;
		unsigned which, slot;

		mover_begin(&world.mover, 0);
		expect_bounds();
		assert_int_equal(world.nr_flights, MOVES_MAX);
		expect_fair(NR_FEW, MOVES_OF_LINE_MAX);
		which = nr * 7 % world.nr_flights;
		client = world.flights[which].client;
		slot = world.flights[which].slot;
		complete(which);
		ask(client, slot, UNIT);
	}
}

/* All have one move at a time, and ask for the next when it is over. Returns how many clients have had a turn after so
 * many moves. */
static unsigned serve_crowd(uint64_t length, unsigned nr_moves)
{
	unsigned nr_served = 0;

	for (unsigned i = 0; i < NR_CLIENTS; i++)
		ask(&world.clients[i], 0, length);
	for (unsigned nr = 0; nr < nr_moves; nr++) {
		struct client *client;

		mover_begin(&world.mover, 0);
		expect_bounds();
		assert_int_equal(world.nr_flights, MOVES_MAX);
		client = world.flights[nr * 7 % MOVES_MAX].client;
		complete(nr * 7 % MOVES_MAX);
		ask(client, 0, length);
	}
	for (unsigned i = 0; i < NR_CLIENTS; i++)
		nr_served += world.clients[i].nr_begun > 0;
	return nr_served;
}

/* In a crowd few are served at a time, each for a turn of several moves; but nobody has two turns before all have one. */
static void test_crowd(void **state)
{
	(void)state;
	assert_true(serve_crowd(UNIT, MOVES_MAX * (CROWD_TURN - 1)) < 2 * MOVES_MAX);
	expect_fair(NR_CLIENTS, CROWD_TURN);
}

static void test_turns_in_crowd(void **state)
{
	(void)state;
	assert_int_equal(serve_crowd(UNIT, 3 * NR_CLIENTS * CROWD_TURN), NR_CLIENTS);
	expect_fair(NR_CLIENTS, CROWD_TURN);
}

/* A large move gains nothing by that: a turn is one move. */
static void test_large_in_crowd(void **state)
{
	(void)state;
	assert_int_equal(serve_crowd(UNIT + 1, NR_CLIENTS), NR_CLIENTS);
	expect_fair(NR_CLIENTS, 1);
}

/* One client that asks for much, and large things, does not come before those that ask for little, and later. */
static void test_greedy(void **state)
{
	struct client *greedy = &world.clients[0];

	(void)state;
	for (unsigned slot = 0; slot < MESSAGE_CREDITS; slot++)
		ask(greedy, slot, MESSAGE_MOVE_MAX);
	mover_begin(&world.mover, 0);
	assert_int_equal(greedy->nr_begun, MOVES_OF_LINE_MAX);
	for (unsigned i = 1; i < NR_CLIENTS; i++)
		ask(&world.clients[i], 0, 1);
	for (unsigned nr_left = NR_CLIENTS - 1; nr_left > 0; nr_left--) {
		mover_begin(&world.mover, 0);
		expect_bounds();
		assert_true(greedy->nr_begun <= MOVES_OF_LINE_MAX);
		assert_ptr_not_equal(world.flights[world.nr_flights - 1].client, greedy);
		complete(world.nr_flights - 1);
	}
	while (world.nr_flights > 0) {
		complete(0);
		mover_begin(&world.mover, 0);
		expect_bounds();
	}
	for (unsigned i = 0; i < NR_CLIENTS; i++)
		assert_int_equal(world.clients[i].nr_done, i == 0 ? MESSAGE_CREDITS : 1);
	assert_true(mover_wakes_at(&world.mover) == CLOCK_NEVER);
}

/* So many as fill all places stop in the middle. After a while the others go on without them. */
static void test_stopped(void **state)
{
	(void)state;
	for (unsigned i = 0; i < MOVES_MAX; i++) {
		for (unsigned slot = 0; slot < MESSAGE_CREDITS; slot++)
			ask(&world.clients[i], slot, UNIT);
	}
	mover_begin(&world.mover, 1000);
	assert_int_equal(world.nr_flights, MOVES_MAX);
	ask(&world.clients[NR_CLIENTS - 1], 0, UNIT);
	mover_begin(&world.mover, 1000 + MOVE_PATIENCE_NS - 1);
	assert_int_equal(world.nr_flights, MOVES_MAX);
	assert_true(mover_wakes_at(&world.mover) == 1000 + MOVE_PATIENCE_NS);
	/* Once each for all that they may have in flight. */
	mover_begin(&world.mover, 1000 + MOVE_PATIENCE_NS);
	assert_int_equal(world.nr_flights, 2 * MOVES_MAX);
	mover_begin(&world.mover, 1000 + 2 * MOVE_PATIENCE_NS);
	assert_int_equal(world.nr_flights, 2 * MOVES_MAX + 1);
	assert_ptr_equal(world.flights[2 * MOVES_MAX].client, &world.clients[NR_CLIENTS - 1]);
	assert_true(mover_wakes_at(&world.mover) == CLOCK_NEVER);
	/* They go on, and get what they have asked for. */
	while (world.nr_flights > 0) {
		complete(0);
		mover_begin(&world.mover, 1000 + 2 * MOVE_PATIENCE_NS);
	}
	for (unsigned i = 0; i < MOVES_MAX; i++)
		assert_int_equal(world.clients[i].nr_done, MESSAGE_CREDITS);
	assert_int_equal(world.mover.nr_counted, 0);
	assert_true(world.mover.bytes == 0);
}

/* Its connection has ended, with moves that wait, are in flight, and are overdue. */
static void test_leaving(void **state)
{
	struct client *leaver = &world.clients[0], *other = &world.clients[1];

	(void)state;
	for (unsigned slot = 0; slot < MESSAGE_CREDITS; slot++)
		ask(leaver, slot, MESSAGE_MOVE_MAX);
	mover_begin(&world.mover, 0);
	for (unsigned slot = 0; slot < MESSAGE_CREDITS; slot++) {
		ask(other, slot, MESSAGE_MOVE_MAX);
		ask(&world.clients[2], slot, MESSAGE_MOVE_MAX);
	}
	mover_begin(&world.mover, MOVE_PATIENCE_NS);
	assert_int_equal(leaver->nr_begun, MOVES_OF_LINE_MAX);
	mover_leave(&world.mover, &leaver->line);
	for (unsigned i = 0; i < world.nr_flights;) {
		if (world.flights[i].client == leaver)
			memmove(&world.flights[i], &world.flights[i + 1],
				(--world.nr_flights - i) * sizeof(world.flights[0]));
		else
			i++;
	}
	mover_begin(&world.mover, MOVE_PATIENCE_NS);
	expect_bounds();
	while (world.nr_flights > 0) {
		complete(0);
		mover_begin(&world.mover, MOVE_PATIENCE_NS);
	}
	assert_int_equal(leaver->nr_done, 0);
	assert_int_equal(other->nr_done, MESSAGE_CREDITS);
	assert_int_equal(world.mover.nr_counted, 0);
	assert_true(world.mover.bytes == 0);
}

/* A move that cannot be begun is over, and the next has its turn. */
static void test_failing(void **state)
{
	(void)state;
	for (unsigned slot = 0; slot < MESSAGE_CREDITS; slot++)
		ask(&world.clients[0], slot, UNIT);
	world.error = -ENOTCONN;
	mover_begin(&world.mover, 0);
	assert_int_equal(world.clients[0].nr_failed, MESSAGE_CREDITS);
	assert_int_equal(world.mover.nr_counted, 0);
	world.error = 0;
	ask(&world.clients[1], 0, UNIT);
	mover_begin(&world.mover, 0);
	complete(0);
	assert_int_equal(world.clients[1].nr_done, 1);
	assert_int_equal(world.clients[1].nr_failed, 0);
}

TEST_GROUP(mover)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_turns, open_world),
		cmocka_unit_test_setup(test_crowd, open_world),
		cmocka_unit_test_setup(test_turns_in_crowd, open_world),
		cmocka_unit_test_setup(test_large_in_crowd, open_world),
		cmocka_unit_test_setup(test_greedy, open_world),
		cmocka_unit_test_setup(test_stopped, open_world),
		cmocka_unit_test_setup(test_leaving, open_world),
		cmocka_unit_test_setup(test_failing, open_world),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
