/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of a server's lanes a client goes by: all of the first transport that works. The server is a fake that
 * lets everybody in at data ports which a test may have listen or not.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/client/fake_cluster.h"
#include "server/data/progress.h"
#include "unit/group.h"

static struct {
	struct fabric *fabric;
	struct domains *domains;
	struct progress *ports[2];
	pthread_mutex_t lock;
	pthread_cond_t changed;
} data = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int let_in(void *context, const void *shown, size_t length, struct admission *out)
{
	(void)context;
	(void)shown;
	(void)length;
	*out = (struct admission){.session = SESSION, .reach = {1, true}};
	return 0;
}

static void on_changed(void *context)
{
	(void)context;
	pthread_mutex_lock(&data.lock);
	pthread_cond_broadcast(&data.changed);
	pthread_mutex_unlock(&data.lock);
}

/* Waits, because connections that were given up on the way may still be seen for a moment. */
static void await_connections(unsigned nr_at_first, unsigned nr_at_second)
{
	pthread_mutex_lock(&data.lock);
	while (progress_nr_connections(data.ports[0]) != nr_at_first ||
	       progress_nr_connections(data.ports[1]) != nr_at_second)
		pthread_cond_wait(&data.changed, &data.lock);
	pthread_mutex_unlock(&data.lock);
}

static int start_ports(void **state)
{
	struct progress_options options = {
		.address = "127.0.0.1:0",
		.nr_threads = 1,
		.admit = let_in,
		.changed = on_changed,
	};

	assert_int_equal(fabric_open("tcp", &data.fabric), 0);
	assert_int_equal(domains_open(&data.fabric, 1, &data.domains), 0);
	options.fabric = data.fabric;
	options.domains = data.domains;
	for (int i = 0; i < 2; i++)
		assert_int_equal(progress_start(&options, &data.ports[i]), 0);
	return start_fakes(state);
}

static int stop_ports(void **state)
{
	for (int i = 0; i < 2; i++)
		progress_stop(data.ports[i]);
	domains_close(data.domains);
	fabric_close(data.fabric);
	return stop_fakes(state);
}

static void add_lane(const char *transport, const char *address)
{
	fakes({
		fake.is.lanes[fake.is.nr_lanes].transport = transport;
		fake.is.lanes[fake.is.nr_lanes++].address = address;
	});
}

static int open_without_lanes(void **state)
{
	open_session(state);
	fakes(fake.is.nr_lanes = 0);
	return 0;
}

/* Connects a queue; what is at the ports then, and how many tickets that took. */
static void expect_connected(struct afar_region *region, unsigned nr_at_first,
			     unsigned nr_at_second, unsigned nr_tickets)
{
	struct afar_queue *queue;

	fakes(fake.nr_tickets = 0);
	assert_int_equal(afar_queue_open(fake.session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	await_connections(nr_at_first, nr_at_second);
	expect_fake(nr_tickets, nr_tickets);
	assert_int_equal(afar_queue_close(queue), 0);
	await_connections(0, 0);
}

static void test_takes_all_of_a_transport(void **state)
{
	struct afar_region *region;

	(void)state;
	add_lane("tcp", progress_address(data.ports[0]));
	add_lane("tcp", progress_address(data.ports[1]));
	region = open_region();
	expect_connected(region, 1, 1, 2);
	assert_int_equal(afar_region_close(region), 0);
}

/* The client does not soon try a lane again that was refused. With one ticket more the server closes what it
 * had over that lane. */
static void test_goes_on_without_a_dead_one(void **state)
{
	struct afar_region *region;

	(void)state;
	add_lane("tcp", progress_address(data.ports[0]));
	add_lane("tcp", DATA_NOWHERE);
	region = open_region();
	expect_connected(region, 1, 0, 2 * 2 + 1 + 1);
	expect_connected(region, 1, 0, 1);
	assert_int_equal(afar_region_close(region), 0);
}

/* A port that takes connections and says nothing, as if the wire behind it were cut. */
static int listen_silently(char *address, size_t size)
{
	struct sockaddr_in name = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(name);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(listener >= 0);
	assert_int_equal(bind(listener, (const struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &length), 0);
	snprintf(address, size, "127.0.0.1:%u", ntohs(name.sin_port));
	return listener;
}

/* Though both are of one transport, and there is no other. */
static void test_goes_on_without_a_silent_one(void **state)
{
	struct afar_region *region;
	char address[32];
	int listener = listen_silently(address, sizeof(address));

	(void)state;
	add_lane("tcp", progress_address(data.ports[0]));
	add_lane("tcp", address);
	region = open_region();
	expect_connected(region, 1, 0, 2 + 1 + 1);
	expect_connected(region, 1, 0, 1);
	assert_int_equal(afar_region_close(region), 0);
	close(listener);
}

/* The lanes are not to blame for a server that is slow to let anybody in: it takes longer than they may. */
static void test_waits_for_slow_tickets(void **state)
{
	struct afar_region *region;

	(void)state;
	add_lane("tcp", progress_address(data.ports[0]));
	add_lane("tcp", progress_address(data.ports[1]));
	region = open_region();
	fakes(fake.is.ticket_ms = 1600);
	expect_connected(region, 1, 1, 2);
	assert_int_equal(afar_region_close(region), 0);
}

static void test_passes_over_what_it_does_not_know(void **state)
{
	struct afar_region *region;

	(void)state;
	add_lane("pigeon", "loft 7");
	add_lane("a transport with a very long name", "x");
	add_lane("tcp", progress_address(data.ports[1]));
	region = open_region();
	expect_connected(region, 0, 1, 1);
	assert_int_equal(afar_region_close(region), 0);
}

static void test_all_dead(void **state)
{
	struct afar_region *region;
	struct afar_queue *queue;

	(void)state;
	add_lane("tcp", DATA_NOWHERE);
	add_lane("tcp", DATA_NOWHERE);
	region = open_region();
	assert_int_equal(afar_queue_open(fake.session, NULL, &queue), 0);
	/* Those that rest are tried when there is nothing else. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(afar_queue_connect(queue, afar_region_target(region)),
				 -AFAR_ESERVER);
		assert_non_null(strstr(afar_last_error(), DATA_NOWHERE));
	}
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_region_close(region), 0);
}

static void test_no_lane(void **state)
{
	struct afar_region *region;

	(void)state;
	assert_int_equal(afar_region_open(fake.ns, "r", &region), -AFAR_ESERVER);
	assert_non_null(strstr(afar_last_error(), "no lane"));
}

#define with_lanes(test) cmocka_unit_test_setup_teardown(test, open_without_lanes, close_session)

TEST_GROUP(lanes)
{
	const struct CMUnitTest tests[] = {
		with_lanes(test_takes_all_of_a_transport),
		with_lanes(test_goes_on_without_a_dead_one),
		with_lanes(test_goes_on_without_a_silent_one),
		with_lanes(test_waits_for_slow_tickets),
		with_lanes(test_passes_over_what_it_does_not_know),
		with_lanes(test_all_dead),
		with_lanes(test_no_lane),
	};

	return cmocka_run_group_tests(tests, start_ports, stop_ports);
}
