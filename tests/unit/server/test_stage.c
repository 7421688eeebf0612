/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves that go through a stage, on a fabric where nothing moves until the test says so. Every byte arrives, none on a way of
 * its own. A session has one share, however many connections. All that a connection had comes back when it is closed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/data/mover.h"
#include "unit/group.h"

#define NR_CLIENTS 24U
#define NR_PLACES  (NR_CLIENTS * MESSAGE_CREDITS)
#define NR_STEPS   4000U
#define NR_OTHERS  63U /* as many as there are buffers */
#define SLOT_BYTES MESSAGE_MOVE_MAX
#define KEY	   815

/* A connection, and, for each of its slots, memory at both ends. */
struct client {
	struct fabric_endpoint endpoint;
	struct mover_line line;
	bool is_there;
	struct {
		char *local, *remote; /* the server's, the client's */
		uint64_t length;
		bool is_pull, is_asked;
	} slots[MESSAGE_CREDITS];
};

struct flight {
	struct client *client;
	struct fabric_piece piece;
	char *remote;
	unsigned slot;
	bool is_pull;
};

static struct {
	struct flight flights[NR_PLACES];
	unsigned nr_flights, nr_done;
	struct mover mover;
	struct client clients[NR_CLIENTS];
	char *memory; /* all of it */
	uint64_t random;
} world;

static struct fabric_queue fabric_queue;

static uint64_t dice(uint64_t sides)
{
	world.random ^= world.random << 13;
	world.random ^= world.random >> 7;
	world.random ^= world.random << 17;
	return (world.random >> 16) % sides;
}

/* ---- The fabric */

static int begin(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		 uint64_t remote, uint64_t context, bool is_pull)
{
	struct flight *flight = &world.flights[world.nr_flights++];

	assert_true(world.nr_flights <= NR_PLACES);
	*flight = (struct flight){.client = endpoint->owner,
				  .piece = *pieces,
				  .remote = (char *)(uintptr_t)remote,
				  .slot = context & (MESSAGE_CREDITS - 1),
				  .is_pull = is_pull};
	/* Through the stage, and what is sent lies there already. */
	assert_true((char *)pieces->addr + pieces->length <= world.memory ||
		    (char *)pieces->addr >= world.memory + 2 * NR_PLACES * SLOT_BYTES);
	return 0;
}

static int begin_read(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		      unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	assert_int_equal(nr_pieces, 1);
	assert_int_equal(key, KEY);
	return begin(endpoint, pieces, remote, context, true);
}

static int begin_write(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		       unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	assert_int_equal(nr_pieces, 1);
	assert_int_equal(key, KEY);
	return begin(endpoint, pieces, remote, context, false);
}

static const struct fabric_ops ops = {
	.transport = "fake", .read = begin_read, .write = begin_write};
static struct fabric fabric = {.ops = &ops};

static void remove_flight(unsigned i)
{
	world.nr_flights--;
	memmove(&world.flights[i], &world.flights[i + 1],
		(world.nr_flights - i) * sizeof(world.flights[0]));
}

/* Number `i` in flight arrives. */
static void complete(unsigned i)
{
	struct flight flight = world.flights[i];

	remove_flight(i);
	if (flight.is_pull)
		memcpy(flight.piece.addr, flight.remote, flight.piece.length);
	else
		memcpy(flight.remote, flight.piece.addr, flight.piece.length);
	mover_end(&world.mover, &flight.client->line, flight.slot);
}

/* ---- Clients */

static void connect_client(unsigned i, uint64_t session)
{
	struct client *client = &world.clients[i];

	client->endpoint = (struct fabric_endpoint){&fabric_queue, client};
	mover_enter(&client->line, &client->endpoint, 256 * i);
	assert_int_equal(mover_join(&world.mover, &client->line, session), 0);
	client->is_there = true;
}

static void close_client(unsigned i)
{
	struct client *client = &world.clients[i];

	for (unsigned flight = world.nr_flights; flight-- > 0;) {
		if (world.flights[flight].client == client)
			remove_flight(flight);
	}
	mover_leave(&world.mover, &client->line);
	for (unsigned slot = 0; slot < MESSAGE_CREDITS; slot++)
		client->slots[slot].is_asked = false;
	client->is_there = false;
}

static void ask(unsigned i, unsigned slot, uint64_t length, bool is_pull)
{
	struct client *client = &world.clients[i];
	const struct message_request request = {
		.kind = is_pull ? MESSAGE_PULL : MESSAGE_PUSH,
		.length = length,
		.address = (uintptr_t)client->slots[slot].remote,
		.key = KEY,
	};
	uint64_t mark = dice(UINT64_MAX);

	client->slots[slot].length = length;
	client->slots[slot].is_pull = is_pull;
	client->slots[slot].is_asked = true;
	for (uint64_t at = 0; at < length; at += sizeof(mark), mark++) {
		uint64_t left = length - at < sizeof(mark) ? length - at : sizeof(mark);

		memcpy((is_pull ? client->slots[slot].remote : client->slots[slot].local) + at,
		       &mark, left);
	}
	mover_ask(&world.mover, &client->line, slot, &request, client->slots[slot].local);
}

static void on_done(struct mover_line *line, unsigned slot, int status)
{
	struct client *client = caa_container_of(line, struct client, line);

	assert_int_equal(status, 0);
	assert_true(client->slots[slot].is_asked);
	assert_memory_equal(client->slots[slot].local, client->slots[slot].remote,
			    client->slots[slot].length);
	client->slots[slot].is_asked = false;
	world.nr_done++;
}

static int open_world(void **state)
{
	char *next;

	(void)state;
	memset(&world, 0, sizeof(world));
	world.random = 4711;
	fabric_queue.fabric = &fabric;
	world.memory = malloc(2 * NR_PLACES * SLOT_BYTES);
	assert_non_null(world.memory);
	next = world.memory;
	for (unsigned i = 0; i < NR_CLIENTS; i++) {
		for (unsigned slot = 0; slot < MESSAGE_CREDITS; slot++) {
			world.clients[i].slots[slot].local = next;
			world.clients[i].slots[slot].remote = next + SLOT_BYTES;
			next += 2 * SLOT_BYTES;
		}
	}
	assert_int_equal(mover_open(&world.mover, ZONES_BYTES, on_done), 0);
	return 0;
}

/* All buffers are back, and the books closed. */
static int close_world(void **state)
{
	struct zones_stat stat;

	(void)state;
	for (unsigned i = 0; i < NR_CLIENTS; i++) {
		if (world.clients[i].is_there)
			close_client(i);
	}
	zones_stat(world.mover.stage.zones, &stat);
	assert_true(stat.free_bytes == stat.bytes);
	assert_true(cds_list_empty(&world.mover.stage.guests));
	assert_int_equal(world.mover.nr_counted, 0);
	assert_true(world.mover.bytes == 0);
	mover_close(&world.mover);
	free(world.memory);
	return 0;
}

static void finish_all(void)
{
	mover_begin(&world.mover, 0);
	while (world.nr_flights > 0) {
		complete(0);
		mover_begin(&world.mover, 0);
	}
}

/* ---- The tests */

static void test_every_byte(void **state)
{
	static const uint64_t lengths[] = {
		1, 4095, ZONE_LEAST, ZONE_LEAST + 1, MESSAGE_MOVE_MAX - 1, MESSAGE_MOVE_MAX};

	(void)state;
	connect_client(0, 1);
	for (unsigned slot = 0; slot < 6; slot++)
		ask(0, slot, lengths[slot], slot % 2);
	finish_all();
	assert_int_equal(world.nr_done, 6);
}

/* Others have all buffers of 1 MiB and more: it goes in parts, one after the other. */
static void test_in_parts(void **state)
{
	struct zone_holder others[3] = {0};
	struct zones *zones = world.mover.stage.zones;
	struct zone_buffer *buffers[3];
	unsigned nr_parts = 0;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		buffers[i] = zones_take(zones, &others[i], i ? MESSAGE_MOVE_MAX : ZONE_MOST);
		assert_non_null(buffers[i]);
	}
	connect_client(0, 1);
	ask(0, 0, MESSAGE_MOVE_MAX, true);
	mover_begin(&world.mover, 0);
	while (world.nr_flights > 0) {
		assert_int_equal(world.nr_flights, 1);
		assert_int_equal(world.flights[0].piece.length, MESSAGE_MOVE_MAX / 2);
		complete(0);
		nr_parts++;
		mover_begin(&world.mover, 0);
	}
	assert_int_equal(nr_parts, 2);
	assert_int_equal(world.nr_done, 1);
	for (unsigned i = 0; i < 3; i++)
		zones_give(zones, buffers[i]);
}

/* One session with many connections takes what it may, and stops. It has half, and others go on beside it. */
static void test_one_session_has_one_share(void **state)
{
	struct zones_stat stat;

	(void)state;
	for (unsigned i = 0; i < NR_CLIENTS - 1; i++) {
		connect_client(i, 1);
		for (unsigned slot = 0; slot < MESSAGE_CREDITS; slot++)
			ask(i, slot, MESSAGE_MOVE_MAX, true);
	}
	/* A move that does not come for so long is not counted any more. */
	for (uint64_t round = 0; round < 20; round++)
		mover_begin(&world.mover, round * MOVE_PATIENCE_NS);
	zones_stat(world.mover.stage.zones, &stat);
	assert_true(stat.free_bytes >= stat.bytes / 2);
	assert_true(stat.free_bytes < stat.bytes / 2 + ZONE_MOST);
	assert_true(mover_wakes_at(&world.mover) == CLOCK_NEVER);
	connect_client(NR_CLIENTS - 1, 2);
	ask(NR_CLIENTS - 1, 0, MESSAGE_MOVE_MAX, true);
	mover_begin(&world.mover, 20 * MOVE_PATIENCE_NS);
	assert_ptr_equal(world.flights[world.nr_flights - 1].client,
			 &world.clients[NR_CLIENTS - 1]);
	complete(world.nr_flights - 1);
	while (world.nr_done == 0) {
		mover_begin(&world.mover, 20 * MOVE_PATIENCE_NS);
		complete(world.nr_flights - 1);
	}
	assert_false(world.clients[NR_CLIENTS - 1].slots[0].is_asked);
}

static uint64_t free_bytes(void)
{
	struct zones_stat stat;

	zones_stat(world.mover.stage.zones, &stat);
	return stat.free_bytes;
}

/* Nothing is left. A client that waits goes on when others' connections are closed, in the middle of their
 * moves. */
static void test_closing_gives_back(void **state)
{
	struct zone_holder others[NR_OTHERS] = {0};
	struct zone_buffer *buffers[NR_OTHERS];
	unsigned nr_clients = 0, nr_others = 0;

	(void)state;
	while (free_bytes() > 8 * ZONE_LEAST) {
		buffers[nr_others] =
			zones_take(world.mover.stage.zones, &others[nr_others], ZONE_MOST);
		assert_non_null(buffers[nr_others++]);
	}
	while (free_bytes() > 0) {
		assert_true(nr_clients + 1 < NR_CLIENTS);
		connect_client(nr_clients, nr_clients + 1);
		for (unsigned slot = 0; slot < MESSAGE_CREDITS; slot++)
			ask(nr_clients, slot, MESSAGE_MOVE_MAX, true);
		nr_clients++;
		for (uint64_t round = 0; round < 10; round++)
			mover_begin(&world.mover, (10 * nr_clients + round) * MOVE_PATIENCE_NS);
	}
	connect_client(nr_clients, nr_clients + 1);
	ask(nr_clients, 0, ZONE_LEAST, false);
	mover_begin(&world.mover, 1000 * MOVE_PATIENCE_NS);
	assert_ptr_not_equal(world.flights[world.nr_flights - 1].client,
			     &world.clients[nr_clients]);
	assert_true(mover_wakes_at(&world.mover) == CLOCK_NEVER);
	for (unsigned i = 0; i < nr_clients; i++)
		close_client(i);
	assert_true(mover_wakes_at(&world.mover) != CLOCK_NEVER);
	finish_all();
	assert_int_equal(world.nr_done, 1);
	while (nr_others > 0)
		zones_give(world.mover.stage.zones, buffers[--nr_others]);
}

/* Clients of few sessions come, ask, and go; what is in flight arrives in any order. */
static void test_at_random(void **state)
{
	uint64_t now = 0;

	(void)state;
	for (unsigned step = 0; step < NR_STEPS; step++) {
		unsigned i = (unsigned)dice(NR_CLIENTS), slot = (unsigned)dice(MESSAGE_CREDITS);
		bool is_long = dice(8) == 0;

		if (!world.clients[i].is_there)
			connect_client(i, 1 + dice(6));
		else if (dice(200) == 0)
			close_client(i);
		else if (!world.clients[i].slots[slot].is_asked)
			ask(i, slot, 1 + dice(is_long ? MESSAGE_MOVE_MAX : 2 * ZONE_LEAST),
			    dice(2));
		now += dice(MOVE_PATIENCE_NS);
		mover_begin(&world.mover, now);
		if (world.nr_flights > 0 && dice(3) > 0)
			complete((unsigned)dice(world.nr_flights));
	}
	finish_all();
	for (unsigned i = 0; i < NR_CLIENTS; i++) {
		for (unsigned slot = 0; slot < MESSAGE_CREDITS; slot++)
			assert_false(world.clients[i].slots[slot].is_asked);
	}
	assert_true(world.nr_done > NR_STEPS / 10);
}

TEST_GROUP(stage)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_every_byte, open_world, close_world),
		cmocka_unit_test_setup_teardown(test_in_parts, open_world, close_world),
		cmocka_unit_test_setup_teardown(test_one_session_has_one_share, open_world,
						close_world),
		cmocka_unit_test_setup_teardown(test_closing_gives_back, open_world, close_world),
		cmocka_unit_test_setup_teardown(test_at_random, open_world, close_world),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
