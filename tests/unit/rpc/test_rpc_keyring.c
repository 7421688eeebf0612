/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A listener asks its keyring anew for each stranger, at the handshake's beginning and end, so that
 * keys appear and vanish while a daemon listens.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "lib/rpc/rpc_world.h"
#include "unit/group.h"

/* Keys that come and go. The second call of `find`, at the handshake's end, can have another
 * answer. */
static struct {
	pthread_mutex_t lock;
	struct key keys[2];
	struct key_list list;
	unsigned nr_found;
	unsigned vanish_after;	/* that many finds the key is gone; 0: never */
	unsigned replace_after; /* that many finds it is another one         */
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool find(void *context, const char *identity, uint8_t secret[KEY_BYTES])
{
	bool is_found;

	assert_ptr_equal(context, &ring);
	pthread_mutex_lock(&ring.lock);
	is_found = key_list_find(&ring.list, identity, secret);
	if (is_found) {
		ring.nr_found++;
		if (ring.nr_found == ring.vanish_after)
			ring.list.nr_keys = 0;
		if (ring.nr_found == ring.replace_after)
			ring.keys[0].secret[KEY_BYTES - 1] ^= 1;
	}
	pthread_mutex_unlock(&ring.lock);
	return is_found;
}

static void set_keys(size_t nr_keys)
{
	pthread_mutex_lock(&ring.lock);
	ring.list.nr_keys = nr_keys;
	pthread_mutex_unlock(&ring.lock);
}

static int ring_start(void **state)
{
	const struct rpc_keyring keyring = {find, &ring};

	world_start(state);
	ring.keys[0] = good_key;
	ring.keys[1] = other_key;
	ring.list = (struct key_list){ring.keys, 0};
	ring.nr_found = ring.vanish_after = ring.replace_after = 0;
	assert_int_equal(rpc_listen(world.server_loop, "127.0.0.1:0", &keyring, &echo_handlers,
				    &world.server, &world.listener),
			 0);
	world.port = (uint16_t)atoi(strrchr(rpc_listener_address(world.listener), ':') + 1);
	return 0;
}

static void expect_refused(const struct key *key)
{
	const unsigned nr_opened = world.client.nr_opened, nr_closed = world.client.nr_closed;
	struct rpc_connection *connection = world_connect(key, &echo_handlers);

	assert_int_equal(await_closed(&world.client, nr_closed + 1), -AFAR_EAUTH);
	assert_int_equal(world.client.nr_opened, nr_opened);
	rpc_connection_unref(connection);
}

static struct rpc_connection *expect_open(const struct key *key)
{
	const unsigned nr_opened = world.server.nr_opened;
	struct rpc_connection *connection = world_connect(key, &echo_handlers);

	await_opened(&world.server, nr_opened + 1);
	assert_int_equal(call_ping(connection), 0);
	return connection;
}

static void test_key_appears(void **state)
{
	struct rpc_connection *connection;

	(void)state;
	expect_refused(&good_key);
	set_keys(1);
	connection = expect_open(&good_key);
	assert_string_equal(rpc_connection_identity(world.server.last), good_key.identity);
	expect_refused(&other_key);
	rpc_connection_unref(connection);
}

/* A connection that is in stays in: to close is the owner's. */
static void test_key_vanishes(void **state)
{
	struct rpc_connection *connection;

	(void)state;
	set_keys(2);
	connection = expect_open(&good_key);
	rpc_connection_unref(expect_open(&other_key));
	set_keys(0);
	assert_int_equal(call_ping(connection), 0);
	expect_refused(&good_key);
	expect_refused(&other_key);
	rpc_connection_unref(connection);
}

/* A client's end is open when it has sent its last message: it hears of the refusal after that. */
static void expect_refused_at_the_end(void)
{
	struct rpc_connection *connection = world_connect(&good_key, &echo_handlers);
	int status;

	status = await_closed(&world.client, 1);
	assert_true(status == -ECONNRESET || status == -AFAR_EAUTH);
	assert_int_not_equal(call_ping(connection), 0);
	assert_int_equal(world.server.nr_opened, 0);
	assert_int_equal(world.server.nr_closed, 0);
	assert_int_equal(ring.nr_found, 1 + !!ring.replace_after);
	rpc_connection_unref(connection);
}

static void test_key_vanishes_during_the_handshake(void **state)
{
	(void)state;
	set_keys(1);
	ring.vanish_after = 1;
	expect_refused_at_the_end();
}

static void test_key_is_replaced_during_the_handshake(void **state)
{
	(void)state;
	set_keys(1);
	ring.replace_after = 1;
	expect_refused_at_the_end();
}

static void test_key_list(void **state)
{
	struct key_list list = {ring.keys, 2}, none = {NULL, 0};
	uint8_t secret[KEY_BYTES] = {0};

	(void)state;
	ring.keys[0] = good_key;
	ring.keys[1] = other_key;
	assert_true(key_list_find(&list, "bob", secret));
	assert_memory_equal(secret, other_key.secret, KEY_BYTES);
	assert_false(key_list_find(&list, "bo", secret));
	assert_false(key_list_find(&list, "", secret));
	assert_false(key_list_find(&none, "bob", secret));
}

#define in_world(test) cmocka_unit_test_setup_teardown(test, ring_start, world_stop)

TEST_GROUP(rpc_keyring)
{
	const struct CMUnitTest tests[] = {
		in_world(test_key_appears),
		in_world(test_key_vanishes),
		in_world(test_key_vanishes_during_the_handshake),
		in_world(test_key_is_replaced_during_the_handshake),
		cmocka_unit_test(test_key_list),
	};

	return cmocka_run_group_tests_name("rpc_keyring", tests, NULL, NULL);
}
