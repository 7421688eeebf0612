/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More clients than a server, or a manager, has descriptors for. Those that it has no room for are refused or wait, and
 * one line says so. Its memory stays bounded, whatever those it has taken ask for. Those that were there before are
 * served on. When the crowd has gone, others are let in again.
 *
 * AFAR_LONG=1: a crowd of 5000.
 */
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include <afar/error.h>

#include "intruder.h"
#include "lib/fabric/data_client.h"
#include "lib/rpc/control.h"
#include "rpc/message.h"
#include "town.h"

#define CROWD_SHORT   600
#define CROWD_MAX     5000
#define DATA_BYTES    (64 * KIB)  /* of a server's memory, for a data connection at most   */
#define MANAGER_BYTES (256 * KIB) /* of a manager's, for a control connection              */
#define SLACK_BYTES   (16 * MIB)  /* that an allocator keeps, and the honest client's share */

static struct town town;
static unsigned nr_crowd;

/* Daemons that are smaller than the crowd, in a process that is larger. */
static int start(void **state)
{
	struct rlimit limit;
	char descriptors[16];

	(void)state;
	nr_crowd = getenv("AFAR_LONG") ? CROWD_MAX : CROWD_SHORT;
	snprintf(descriptors, sizeof(descriptors), "%u", nr_crowd * 4 / 5);
	setenv("AFAR_TEST_DESCRIPTORS", descriptors, 1);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < 3 * nr_crowd) {
		fprintf(stderr, "a crowd of %u wants %u descriptors\n", nr_crowd, 3 * nr_crowd);
		return -1;
	}
	return town_open(&town);
}

static int stop(void **state)
{
	(void)state;
	town_close(&town);
	return 0;
}

/* ---- Data connections: each asks for all that it may and then says nothing */

struct greedy {
	struct fabric_endpoint *endpoint; /* NULL: it was refused */
	struct message_request requests[MESSAGE_CREDITS];
};

static void ask_for_all(struct greedy *greedy, const struct place *place)
{
	for (unsigned i = 0; i < MESSAGE_CREDITS; i++) {
		const struct fabric_piece piece = {&greedy->requests[i],
						   sizeof(greedy->requests[i]), NULL};

		/* Nothing of its memory is lent: it does not come to that, as long as it does not look. */
		greedy->requests[i] = (struct message_request){
			.kind = htole32(MESSAGE_PULL),
			.extent = htole64(place->first_extent),
			.length = htole64(MESSAGE_MOVE_MAX),
			.key = htole64(4711),
		};
		assert_int_equal(fabric_send(greedy->endpoint, &piece, i), 0);
	}
}

/* Sanitizers keep memory that was freed, and more beside. */
static void expect_bounded(uint64_t bytes, uint64_t bound)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	(void)bytes;
	(void)bound;
#else
	assert_true(bytes < bound + SLACK_BYTES);
#endif
}

/* True: it is in. */
static bool connect_greedy(struct data_client *data, struct rpc_connection *control,
			   const struct intruder *intruder, const struct place *place,
			   struct greedy *greedy)
{
	struct fabric_completion completion;
	struct fabric_event event;
	struct rpc_ticket ticket;

	assert_int_equal(
		intruder_ask_ticket(control, intruder->session, place->ns, RIGHT_ALL, &ticket), 0);
	assert_int_equal(fabric_connect(data->queue, place->data, &ticket, sizeof(ticket), greedy,
					&greedy->endpoint),
			 0);
	while (data_client_step(data, &completion, &event) != 2 ||
	       event.endpoint != greedy->endpoint)
		;
	if (event.kind == FABRIC_CONNECTED)
		return true;
	fabric_endpoint_close(greedy->endpoint);
	greedy->endpoint = NULL;
	return false;
}

static void test_data_connections(void **state)
{
	struct greedy *crowd = calloc(nr_crowd, sizeof(*crowd));
	struct rpc_connection *control;
	struct intruder intruder;
	struct data_client data;
	struct remote remote;
	struct place place;
	unsigned nr_in = 0;
	uint64_t before;

	(void)state;
	assert_non_null(crowd);
	intruder_open(&intruder, town.host, town.port, &town.mallory);
	intruder_make_region(&intruder, intruder_make_namespace(&intruder, "crowd", 2 * MIB),
			     2 * MIB, &place);
	assert_int_equal(intruder_enter(&intruder, place.control, &place.pass, &control), 0);
	assert_int_equal(intruder_ask_keys(control, intruder.session, &place, &remote), 0);
	data_client_open(&data);
	before = town_server_bytes();
	for (unsigned i = 0; i < nr_crowd; i++)
		nr_in += connect_greedy(&data, control, &intruder, &place, &crowd[i]);
	assert_in_range(nr_in, nr_crowd / 3, nr_crowd * 3 / 5);
	assert_true(town_server_says("too many connections") > 0);
	for (unsigned i = 0; i < nr_crowd; i++) {
		if (crowd[i].endpoint)
			ask_for_all(&crowd[i], &place);
	}
	town_expect_peace(&town, 1);
	town_expect_peace(&town, 0);
	print_message("%u of %u are in, %llu KiB each\n", nr_in, nr_crowd,
		      (unsigned long long)((town_server_bytes() - before) / nr_in / KIB));
	expect_bounded(town_server_bytes(), before + nr_in * DATA_BYTES);

	for (unsigned i = 0; i < nr_crowd; i++) {
		if (crowd[i].endpoint)
			fabric_endpoint_close(crowd[i].endpoint);
	}
	while (!connect_greedy(&data, control, &intruder, &place, &crowd[0]))
		sched_yield();
	fabric_endpoint_close(crowd[0].endpoint);
	town_expect_peace(&town, 0);
	data_client_close(&data);
	control_close(control);
	intruder_close(&intruder);
	free(crowd);
}

/* ---- Control connections to the manager */

static void expect_status(void)
{
	char *json = NULL;

	assert_int_equal(afar_session_status(town.admin, &json), 0);
	free(json);
}

static sem_t nr_opened;

static void on_opened(struct rpc_connection *connection)
{
	(void)connection;
	sem_post(&nr_opened);
}

/* One after another, as those who have not proved their key are dropped when they are too many. False: the manager takes no
 * more. */
static bool await_opened(void)
{
	struct timespec soon;

	for (;;) {
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_sec++;
		if (sem_timedwait(&nr_opened, &soon) == 0)
			return true;
		if (town_manager_says("clients have to wait") > 0)
			return false;
	}
}

static void test_control_connections(void **state)
{
	static const struct rpc_handlers handlers = {.opened = on_opened};
	struct rpc_connection **crowd = calloc(nr_crowd, sizeof(struct rpc_connection *));
	uint64_t before = town_manager_bytes();
	struct intruder late;
	struct rpc_loop *loop;
	unsigned nr_in = 0;
	bool is_open = true;

	(void)state;
	assert_non_null(crowd);
	assert_int_equal(sem_init(&nr_opened, 0, 0), 0);
	assert_int_equal(rpc_loop_start("crowd", &loop), 0);
	while (is_open) {
		assert_true(nr_in < nr_crowd);
		assert_int_equal(rpc_connect(loop, town.host, town.port, &town.mallory, &handlers,
					     NULL, &crowd[nr_in++]),
				 0);
		is_open = await_opened();
	}
	for (unsigned i = 0; i < 10; i++)
		expect_status();
	town_expect_peace(&town, 0);
	print_message("%u of the crowd are in, %llu KiB of the manager each\n", nr_in,
		      (unsigned long long)((town_manager_bytes() - before) / nr_in / KIB));
	expect_bounded(town_manager_bytes(), before + nr_in * MANAGER_BYTES);

	for (unsigned i = 0; i < nr_in; i++) {
		rpc_connection_close(crowd[i]);
		rpc_connection_unref(crowd[i]);
	}
	intruder_open(&late, town.host, town.port, &town.mallory);
	intruder_close(&late);
	expect_status();
	town_expect_peace(&town, 0);
	rpc_loop_stop(loop);
	free(crowd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_data_connections),
		cmocka_unit_test(test_control_connections),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
