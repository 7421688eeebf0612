/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts that are verbs' own: devices and which of them an address belongs to, IPv6, and short
 * writes. The provider sends those inline. scripts/guest/network makes what these want; without it they
 * are skipped.
 */
#include "lib/fabric/fabric_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "lib/base/transport.h"
#include "unit/group.h"

#define SHORT_BYTES 64U
#define LONG_BYTES  65536U

/* Any port of a host that the environment names; NULL, and the test is skipped, if it does not. */
static const char *port_at(const char *variable)
{
	const char *host = getenv(variable);
	static char address[FABRIC_ADDRESS_MAX];

	if (host == NULL)
		return NULL;
	snprintf(address, sizeof(address), "%s:0", host);
	return address;
}

struct end {
	struct target target;
	struct fabric *fabric;
	struct fabric_queue *queue;
	struct fabric_endpoint *endpoint;
};

static void end_open(struct end *end, const char *address)
{
	target_open(&end->target, address);
	assert_int_equal(pthread_create(&end->target.thread, NULL, target_run, &end->target), 0);
	assert_int_equal(
		fabric_open_at(test_transport(), end->target.listener->address, &end->fabric), 0);
	assert_int_equal(fabric_queue_open(end->fabric, DEPTH, &end->queue), 0);
	end->endpoint = connect_to(end->queue, end->target.listener->address);
}

static void end_close(struct end *end)
{
	fabric_endpoint_close(end->endpoint);
	fabric_queue_close(end->queue);
	close_fabric(end->fabric);
	target_stop(&end->target);
}

static void expect_transfers(struct end *end, unsigned seed)
{
	uint8_t *mine = allocate(LONG_BYTES), *back = allocate(LONG_BYTES);

	fill(mine, LONG_BYTES, seed);
	transfer_one(end->endpoint, true, mine, LONG_BYTES, &end->target.all, 4096);
	transfer_one(end->endpoint, false, back, LONG_BYTES, &end->target.all, 4096);
	assert_memory_equal(back, mine, LONG_BYTES);
	free(mine);
	free(back);
}

static void takes_the_device_of_the_address(void **state)
{
	const char *other = port_at("AFAR_TEST_OTHER_DEVICE");
	struct end ends[2] = {0};
	struct fabric_endpoint *endpoint;

	(void)state;
	if (other == NULL)
		skip();
	end_open(&ends[0], any_port());
	end_open(&ends[1], other);
	/* Both at once, by turns. */
	for (unsigned i = 0; i < 6; i++)
		expect_transfers(&ends[i % 2], i);
	for (unsigned i = 0; i < 2; i++) {
		const char *own = ends[i].target.listener->address;
		const char *foreign = ends[1 - i].target.listener->address;

		assert_true(fabric_reaches(ends[i].fabric, own));
		assert_false(fabric_reaches(ends[i].fabric, foreign));
		assert_int_equal(fabric_connect(ends[i].queue, foreign, NULL, 0, NULL, &endpoint),
				 -EHOSTUNREACH);
		assert_non_null(strstr(afar_last_error(), foreign));
		assert_non_null(strstr(afar_last_error(), "device"));
	}
	end_close(&ends[0]);
	end_close(&ends[1]);
}

static void is_not_there_without_a_device(void **state)
{
	struct fabric *fabric;

	(void)state;
	if (is_on_tcp())
		skip();
	assert_int_equal(fabric_open_at(test_transport(), "192.0.2.77:0", &fabric), -ENODEV);
	assert_non_null(strstr(afar_last_error(), "192.0.2.77"));
	assert_int_equal(fabric_open_at(test_transport(), "nonsense", &fabric), -EINVAL);
	assert_int_equal(fabric_open_at(test_transport(), "0.0.0.0:0", &fabric), 0);
	fabric_close(fabric);
	assert_int_equal(fabric_open_at(test_transport(), "[::]:0", &fabric), 0);
	fabric_close(fabric);
}

static void connects_by_ipv6(void **state)
{
	const char *address = port_at("AFAR_TEST_HOST6");
	struct end end = {0};

	(void)state;
	if (address == NULL)
		skip();
	end_open(&end, address);
	assert_int_equal(end.target.listener->address[0], '[');
	assert_int_equal(end.target.last.peer[0], '[');
	expect_transfers(&end, 7);
	end_close(&end);
}

/*
 * A short write's bytes are in the request, and nobody looks whether their memory is registered as is said. The
 * NIC reads a long one's, and looks.
 */
static void sends_short_writes_inline(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *endpoint;
	uint8_t *mine, *registered;
	struct fabric_piece piece;

	if (is_on_tcp())
		skip();
	mine = allocate(LONG_BYTES);
	registered = allocate(LONG_BYTES);
	fill(mine, LONG_BYTES, 5);
	piece = (struct fabric_piece){mine, SHORT_BYTES,
				      descriptor_of(client->fabric, registered, LONG_BYTES)};
	endpoint = client_connect(client);
	assert_int_equal(fabric_write(endpoint, &piece, 1, client->target.all.base,
				      client->target.all.key, 1),
			 0);
	assert_int_equal(await_completion(client->queue).status, 0);
	assert_memory_equal(client->target.data, mine, SHORT_BYTES);
	piece.length = LONG_BYTES;
	assert_int_equal(fabric_write(endpoint, &piece, 1, client->target.all.base,
				      client->target.all.key, 2),
			 0);
	assert_true(await_completion(client->queue).status < 0);
	fabric_endpoint_close(endpoint);
	free(registered);
	free(mine);
}

TEST_GROUP(fabric_verbs)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_the_device_of_the_address),
		cmocka_unit_test(is_not_there_without_a_device),
		cmocka_unit_test(connects_by_ipv6),
		cmocka_unit_test_setup_teardown(sends_short_writes_inline, client_setup,
						client_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
