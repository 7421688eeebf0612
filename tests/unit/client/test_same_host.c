/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows on same-host memory: what is copied through them, and whatever keeps a call from that. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/epoch.h"
#include "client/queue/same_host_map.h"
#include "client/target/same_host.h"
#include "fabric/mapped.h"
#include "lib/client/fake_fabric.h"
#include "unit/group.h"

/* The memory that the servers have, and the gates of connections to them. */
static struct {
	_Alignas(8) uint8_t memory[FAKE_SERVERS][FAKE_UNIT];
	atomic_uint word[FAKE_SERVERS]; /* 1: they lend it */
	struct fabric_inside inside[EPOCH_NUMBERS];
	struct fabric_gate *gates[FAKE_SERVERS]; /* of the last windows; the targets own them */
	unsigned access;
	uint64_t length; /* of a window */
	unsigned nr_windows;
	unsigned nr_left; /* threads that were told that they were the last inside a shut gate */
} servers;

static void count_left(const struct fabric_gate *gate)
{
	(void)gate;
	servers.nr_left++;
}

static int open_window(struct fabric_endpoint *endpoint, uint64_t key, struct fabric_window *out)
{
	const size_t server = (size_t)(endpoint - world.endpoints);
	struct fabric_gate *gate = calloc(1, sizeof(*gate));

	assert_non_null(gate);
	assert_int_equal(key, server + 1);
	gate->word = &servers.word[server];
	gate->open = 1;
	gate->nr_users = 1;
	gate->inside = servers.inside;
	gate->left = count_left;
	servers.gates[server] = gate;
	*out = (struct fabric_window){.addr = servers.memory[server],
				      .length = servers.length,
				      .access = servers.access,
				      .gate = gate};
	servers.nr_windows++;
	return 0;
}

static const struct fabric_mapped_ops mapped_ops = {.window = open_window};

/* A target on some servers that are all connected, with windows. */
static struct afar_target *open_near(uint32_t nr_servers)
{
	struct afar_target *target;

	fake_open(8, false);
	memset(&servers, 0, sizeof(servers));
	servers.access = FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE;
	servers.length = FAKE_UNIT;
	world.fabric.mapped = &mapped_ops;
	target = fake_target(0, nr_servers);
	for (uint32_t i = 0; i < nr_servers; i++) {
		target->binding->keys[i * PEER_LANES_MAX].key = i + 1;
		servers.word[i] = 1;
		fake_connect(i);
	}
	same_host_map(target, world.queue);
	return target;
}

static void close_near(struct afar_target *target)
{
	same_host_close(target);
	assert_false(same_host_transfer(target, AFAR_OP_READ, NULL, 0, 0, 1));
	for (unsigned i = 0; i < EPOCH_NUMBERS; i++)
		assert_int_equal(servers.inside[i].nr, 0);
	fake_close();
	fake_target_free(target);
}

static bool move(struct afar_target *target, uint16_t opcode, void *data, size_t length,
		 uint64_t offset)
{
	const struct afar_iov iov = {.addr = data, .length = length};

	return same_host_transfer(target, opcode, &iov, 1, offset, length);
}

static bool can_read(struct afar_target *target, uint64_t offset)
{
	char byte;

	return move(target, AFAR_OP_READ, &byte, 1, offset);
}

static bool can_write(struct afar_target *target, uint64_t offset)
{
	char byte = 1;

	return move(target, AFAR_OP_WRITE, &byte, 1, offset);
}

/* ---- Copying */

static void copies_between_pieces_and_servers(void **state)
{
	struct afar_target *target = open_near(3);
	uint8_t first[5000], second[7000], none[1], back[12000];
	const struct afar_iov iov[] = {
		{.addr = first, .length = sizeof(first)},
		{.addr = NULL, .length = 0},
		{.addr = second, .length = sizeof(second)},
		{.addr = none, .length = 0},
	};

	(void)state;
	for (size_t i = 0; i < 12000; i++)
		*(i < 5000 ? &first[i] : &second[i - 5000]) = (uint8_t)(i * 7 + i / 256);
	assert_true(same_host_transfer(target, AFAR_OP_WRITE, iov, 4, 100, 12000));
	for (size_t i = 0; i < 12000; i++)
		assert_int_equal(servers.memory[(i + 100) / FAKE_UNIT][(i + 100) % FAKE_UNIT],
				 (uint8_t)(i * 7 + i / 256));
	assert_int_equal(servers.memory[0][99], 0);
	assert_int_equal(servers.memory[2][12100 - 2 * FAKE_UNIT], 0);
	assert_true(move(target, AFAR_OP_READ, back, sizeof(back), 100));
	assert_memory_equal(back, first, 5000);
	assert_memory_equal(back + 5000, second, 7000);
	memset(first, 0, sizeof(first));
	memset(second, 0, sizeof(second));
	assert_true(same_host_transfer(target, AFAR_OP_READ, iov, 4, 100, 12000));
	assert_memory_equal(back, first, 5000);
	assert_memory_equal(back + 5000, second, 7000);
	close_near(target);
}

static void leaves_the_empty_to_queues(void **state)
{
	struct afar_target *target = open_near(1);

	(void)state;
	assert_false(move(target, AFAR_OP_READ, NULL, 0, 0));
	close_near(target);
}

/* One server's memory is elsewhere: what touches it goes over a queue, the rest does not. */
static void copies_what_is_near_alone(void **state)
{
	struct afar_target *target = open_near(3);
	uint8_t two[2];

	(void)state;
	same_host_close(target);
	world.queue->paths[1]->state = PATH_DOWN;
	same_host_map(target, world.queue);
	assert_true(can_read(target, FAKE_UNIT - 1));
	assert_false(can_read(target, FAKE_UNIT));
	assert_false(move(target, AFAR_OP_READ, two, 2, FAKE_UNIT - 1));
	assert_true(can_read(target, 2 * FAKE_UNIT));
	/* There it is. */
	world.queue->paths[1]->state = PATH_UP;
	same_host_map(target, world.queue);
	assert_true(move(target, AFAR_OP_READ, two, 2, FAKE_UNIT - 1));
	close_near(target);
}

static void takes_windows_once(void **state)
{
	struct afar_target *target = open_near(2);

	(void)state;
	assert_int_equal(servers.nr_windows, 2);
	/* They are counted by themselves, and not as connections (afar_session_stat()). */
	assert_true(cds_list_empty(&world.session.counts.paths));
	same_host_map(target, world.queue);
	assert_int_equal(servers.nr_windows, 2);
	servers.word[1] = 0;
	assert_false(can_read(target, FAKE_UNIT));
	servers.word[1] = 1;
	assert_int_equal(servers.nr_windows, 2);
	close_near(target);
}

static int add(struct afar_target *target, uint64_t offset, uint64_t operand, uint64_t *before)
{
	const struct afar_iov iov = {.addr = before, .length = sizeof(*before)};
	const struct afar_op op = {.opcode = AFAR_OP_FETCH_ADD,
				   .target = target,
				   .offset = offset,
				   .iov = &iov,
				   .nr_iov = before ? 1 : 0,
				   .operand = operand};

	return same_host_atomic(&op);
}

static int swap(struct afar_target *target, uint64_t compare, uint64_t operand, uint64_t *before)
{
	const struct afar_iov iov = {.addr = before, .length = sizeof(*before)};
	const struct afar_op op = {.opcode = AFAR_OP_COMPARE_SWAP,
				   .target = target,
				   .iov = &iov,
				   .nr_iov = 1,
				   .compare = compare,
				   .operand = operand};

	return same_host_atomic(&op);
}

static void does_atomics(void **state)
{
	struct afar_target *target = open_near(2);
	uint64_t before = 9;

	(void)state;
	assert_int_equal(add(target, FAKE_UNIT + 8, 5, &before), 0);
	assert_int_equal(before, 0);
	assert_int_equal(add(target, FAKE_UNIT + 8, UINT64_MAX, NULL), 0);
	assert_int_equal(servers.memory[1][8], 4);
	assert_int_equal(swap(target, 1, 7, &before), 0);
	assert_int_equal(before, 0);
	assert_int_equal(servers.memory[0][0], 0);
	assert_int_equal(swap(target, 0, 7, &before), 0);
	assert_int_equal(before, 0);
	assert_int_equal(servers.memory[0][0], 7);
	close_near(target);
}

/* And has done nothing. */
static void leaves_atomics_to_others(void **state)
{
	struct afar_target *target = open_near(1);
	uint64_t before = 9;

	(void)state;
	servers.word[0] = 2;
	assert_int_equal(add(target, 0, 1, &before), -EAGAIN);
	servers.word[0] = 1;
	target->has_nic_atomics = true;
	assert_int_equal(add(target, 0, 1, &before), -EAGAIN);
	target->has_nic_atomics = false;
	world.reaches[0].nr_in_doubt = 1;
	assert_int_equal(add(target, 0, 1, &before), -EAGAIN);
	world.reaches[0].nr_in_doubt = 0;
	same_host_close(target);
	target->rights = RIGHT_READ;
	same_host_map(target, world.queue);
	assert_int_equal(add(target, 0, 1, &before), -EAGAIN);
	assert_int_equal(before, 9);
	assert_int_equal(servers.memory[0][0], 0);
	close_near(target);
}

/* ---- What keeps a call from it */

static void stops_at_a_shut_gate(void **state)
{
	struct afar_target *target = open_near(2);

	(void)state;
	servers.word[0] = 2;
	assert_false(can_read(target, 0));
	assert_false(can_write(target, 0));
	assert_true(can_read(target, FAKE_UNIT));
	assert_true(can_write(target, FAKE_UNIT));
	close_near(target);
}

static bool choose_first(const void *argument, uint64_t *offset)
{
	(void)argument;
	*offset = 0;
	return true;
}

/*
 * A server takes its memory back in the midst of an access, so the access does not count. The gate's word is where the access
 * puts its bytes, so each access shuts the gate that it is inside.
 */
static void counts_nothing_that_came_too_late(void **state)
{
	struct afar_target *target = open_near(1);
	atomic_uint *word = (atomic_uint *)(void *)servers.memory[0];
	unsigned shut = 2, back;

	(void)state;
	servers.gates[0]->word = word;
	*word = 1;
	assert_false(move(target, AFAR_OP_WRITE, &shut, sizeof(shut), 0));
	assert_int_equal(servers.nr_left, 1);
	*word = 1;
	assert_false(same_host_transfer_chosen(target, AFAR_OP_WRITE, &shut, sizeof(shut),
					       choose_first, NULL));
	assert_int_equal(servers.nr_left, 2);
	*word = 1;
	assert_int_equal(add(target, 0, 1, NULL), -AFAR_ESERVER);
	assert_int_equal(servers.nr_left, 3);
	/* One that leaves the word as it is counts. */
	*word = shut = 1;
	assert_true(move(target, AFAR_OP_WRITE, &shut, sizeof(shut), 0));
	/* A read puts its bytes where the caller wants them, so the word is there. */
	servers.gates[0]->word = &servers.word[0];
	*word = 2;
	assert_false(move(target, AFAR_OP_READ, &servers.word[0], sizeof(back), 0));
	assert_int_equal(servers.nr_left, 4);
	servers.word[0] = 1;
	assert_true(move(target, AFAR_OP_READ, &back, sizeof(back), 0));
	assert_int_equal(back, 2);
	close_near(target);
}

static void waits_for_loose_writes(void **state)
{
	struct afar_target *target = open_near(1);

	(void)state;
	world.reaches[0].nr_in_doubt = 1;
	assert_false(can_write(target, 0));
	assert_int_equal(servers.memory[0][0], 0);
	world.reaches[0].nr_in_doubt = 0;
	assert_true(can_write(target, 0));
	close_near(target);
}

static void heeds_seals(void **state)
{
	struct afar_target *target = open_near(1);

	(void)state;
	target->binding->is_ready = false;
	assert_false(can_read(target, 0));
	assert_false(can_write(target, 0));
	/* It was sealed: its memory is another, which may be read alone. */
	same_host_close(target);
	target->binding->is_ready = target->is_sealed = true;
	same_host_map(target, world.queue);
	assert_true(can_read(target, 0));
	assert_false(can_write(target, 0));
	close_near(target);
}

static void keeps_to_rights(void **state)
{
	struct afar_target *target = open_near(1);

	(void)state;
	same_host_close(target);
	target->rights = RIGHT_READ;
	same_host_map(target, world.queue);
	assert_true(can_read(target, 0));
	assert_false(can_write(target, 0));
	same_host_close(target);
	target->rights = RIGHT_ALL;
	servers.access = FABRIC_REMOTE_READ;
	same_host_map(target, world.queue);
	assert_true(can_read(target, 0));
	assert_false(can_write(target, 0));
	close_near(target);
}

/* A layout that says more than there is reaches nothing behind it, nor its first bytes. */
static void stays_inside_windows(void **state)
{
	static const struct {
		uint64_t remote, window;
		bool is_inside;
	} cases[] = {
		{0, FAKE_UNIT, true},
		{8, FAKE_UNIT + 8, true},
		{8, FAKE_UNIT, false},
		{0, FAKE_UNIT - 1, false},
		{0, 0, false},
		{UINT64_MAX - 7, FAKE_UNIT, false}, /* its end is beyond the last address */
		{1, FAKE_UNIT + 8, false},	    /* no atomic has a place there */
	};
	struct afar_target *target = open_near(1);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		same_host_close(target);
		target->binding->keys[0].remote = cases[i].remote;
		servers.length = cases[i].window;
		same_host_map(target, world.queue);
		assert_int_equal(can_read(target, 0), cases[i].is_inside);
	}
	close_near(target);
}

static void does_not_use_what_is_closed(void **state)
{
	struct afar_target *target = open_near(1);
	struct afar_buffer buffer = {.handle.kind = HANDLE_BUFFER};
	uint8_t byte;
	const struct afar_iov iov = {.buffer = &buffer, .addr = &byte, .length = 1};

	(void)state;
	assert_true(same_host_transfer(target, AFAR_OP_READ, &iov, 1, 0, 1));
	assert_int_equal(handle_close(&buffer, HANDLE_BUFFER), 0);
	assert_false(same_host_transfer(target, AFAR_OP_READ, &iov, 1, 0, 1));
	assert_true(can_read(target, 0));
	assert_int_equal(handle_close(target, HANDLE_REGION), 0);
	assert_false(can_read(target, 0));
	target->handle.nr_users = 0;
	close_near(target);
}

/* ---- Closing */

struct holder {
	sem_t holds;
	struct afar_target *target;
	atomic_bool has_gone;
};

static void *hold(void *argument)
{
	struct holder *holder = argument;

	epoch_enter();
	sem_post(&holder->holds);
	while (holder->target->same_host)
		;
	holder->has_gone = true;
	epoch_exit();
	return NULL;
}

/* same_host_close() lets a thread that is at a copy end it before the windows are given back. */
static void waits_for_who_copies(void **state)
{
	struct holder holder = {.target = open_near(1)};
	pthread_t thread;

	(void)state;
	sem_init(&holder.holds, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, hold, &holder), 0);
	sem_wait(&holder.holds);
	same_host_close(holder.target);
	assert_true(holder.has_gone);
	pthread_join(thread, NULL);
	sem_destroy(&holder.holds);
	close_near(holder.target);
}

TEST_GROUP(same_host)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_between_pieces_and_servers),
		cmocka_unit_test(leaves_the_empty_to_queues),
		cmocka_unit_test(copies_what_is_near_alone),
		cmocka_unit_test(takes_windows_once),
		cmocka_unit_test(does_atomics),
		cmocka_unit_test(leaves_atomics_to_others),
		cmocka_unit_test(stops_at_a_shut_gate),
		cmocka_unit_test(counts_nothing_that_came_too_late),
		cmocka_unit_test(waits_for_loose_writes),
		cmocka_unit_test(heeds_seals),
		cmocka_unit_test(keeps_to_rights),
		cmocka_unit_test(stays_inside_windows),
		cmocka_unit_test(does_not_use_what_is_closed),
		cmocka_unit_test(waits_for_who_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
