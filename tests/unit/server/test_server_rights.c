/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rights at a server: passes bind a connection to a session, capabilities give keys of the extents they
 * cover and no others. A key to read is not one to write. Everything else is refused, and whoever is honest
 * goes on undisturbed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "lib/base/transport.h"
#include "lib/rpc/control.h"
#include "lib/server/server_cluster.h"
#include "unit/group.h"

/* Until the server is a second old: what was good until second 0 has expired then. */
static void await_age(struct cluster *cluster)
{
	struct key pass;
	struct rpc_connection *connection;
	uint64_t deadline = clock_deadline_ms(FAKE_PATIENCE_MS);
	int status;

	assert_int_equal(pass_make(cluster->manager.signing_key, SESSION, 0, &pass), 0);
	do {
		assert_true(clock_ns() < deadline);
		status = try_control(cluster, &pass, &connection);
		if (status == 0) {
			control_close(connection);
		}
	} while (status == 0);
	assert_null(connection);
}

static void refuse_pass(struct cluster *cluster, const struct key *pass)
{
	struct rpc_connection *connection;

	assert_int_not_equal(try_control(cluster, pass, &connection), 0);
}

static void test_passes(void **state)
{
	struct rpc_connection *connection;
	struct cluster cluster;
	struct rpc_ticket ticket;
	struct key pass, other;
	uint8_t key[SIGNING_KEY_BYTES];

	(void)state;
	cluster_open(&cluster, 0);
	/* Keys of the cluster's principals mean nothing here, the join key itself included. */
	refuse_pass(&cluster, &cluster.manager.key);
	/* Another server's pass, an altered key, one for a later time or another session. */
	memset(key, 1, sizeof(key));
	assert_int_equal(pass_make(key, SESSION, 1000, &pass), 0);
	refuse_pass(&cluster, &pass);
	/* One that is good for so long that the end of its session would be forgotten before. */
	assert_int_equal(pass_make(cluster.manager.signing_key, SESSION,
				   cluster.manager.age_s + 2 * PASS_LIFETIME_MAX_S, &pass),
			 0);
	refuse_pass(&cluster, &pass);
	pass = fake_manager_pass(&cluster.manager, SESSION);
	pass.secret[31] ^= 1;
	refuse_pass(&cluster, &pass);
	pass.secret[31] ^= 1;
	other = fake_manager_pass(&cluster.manager, SESSION + 1);
	memcpy(other.identity, pass.identity, sizeof(other.identity));
	refuse_pass(&cluster, &other);
	strcat(pass.identity, "0");
	refuse_pass(&cluster, &pass);
	/* One that has expired; a connection made before lives on. */
	await_age(&cluster);
	assert_int_equal(get_ticket(&cluster, SESSION, &ticket), 0);
	/* A session that has ended. */
	assert_int_equal(fake_manager_end_session(&cluster.manager, SESSION + 2), 0);
	pass = fake_manager_pass(&cluster.manager, SESSION + 2);
	refuse_pass(&cluster, &pass);
	pass = fake_manager_pass(&cluster.manager, SESSION + 3);
	assert_int_equal(try_control(&cluster, &pass, &connection), 0);
	control_close(connection);
	cluster_close(&cluster);
}

#define NR_CONTROLS 40
#define NR_KEPT	    24

/* A session cannot take all the descriptors that a server has. */
static void test_not_too_many_connections(void **state)
{
	struct rpc_connection *connections[NR_CONTROLS];
	uint64_t deadline = clock_deadline_ms(FAKE_PATIENCE_MS);
	struct cluster cluster;
	struct key pass;

	(void)state;
	cluster_open(&cluster, 0);
	pass = fake_manager_pass(&cluster.manager, SESSION + 1);
	for (unsigned i = 0; i < NR_CONTROLS; i++)
		assert_int_equal(try_control(&cluster, &pass, &connections[i]), 0);
	for (unsigned i = 0; i < NR_CONTROLS - NR_KEPT; i++) {
		while (control_ping(connections[i]) == 0)
			assert_true(clock_ns() < deadline);
	}
	for (unsigned i = NR_CONTROLS - NR_KEPT; i < NR_CONTROLS; i++)
		assert_int_equal(control_ping(connections[i]), 0);
	/* Others' stay. */
	assert_int_equal(control_ping(cluster.control), 0);
	for (unsigned i = 0; i < NR_CONTROLS; i++) {
		control_close(connections[i]);
	}
	cluster_close(&cluster);
}

static void test_only_ones_own_session(void **state)
{
	struct rpc_capability capability;
	struct cluster cluster;
	struct fake_extent extent;
	struct rpc_ticket ticket;
	struct key_of key;

	(void)state;
	cluster_open(&cluster, 0);
	extent = reserve_one(&cluster, &key);
	assert_int_equal(ask_ticket(&cluster, SESSION + 1, NAMESPACE, RIGHT_ALL, &ticket), -EACCES);
	assert_int_equal(ask_ticket(&cluster, 0, NAMESPACE, RIGHT_ALL, &ticket), -EINVAL);
	/* Not with its capability either. */
	capability = fake_manager_capability(&cluster.manager, SESSION + 1, NAMESPACE, RIGHT_ALL,
					     &extent.extent, 1);
	assert_int_equal(capability_sign(&capability, cluster.manager.signing_key), 0);
	assert_int_equal(ask_keys(&cluster, SESSION + 1, NAMESPACE, &extent.extent, 1, &capability,
				  sizeof(capability), &key),
			 -EACCES);
	assert_int_equal(ask_keys(&cluster, SESSION, NAMESPACE, &extent.extent, 1, &capability,
				  sizeof(capability), &key),
			 -EACCES);
	assert_non_null(strstr(afar_last_error(), "another session's"));
	/* For what it has keys of, and nothing else. */
	assert_int_equal(ask_ticket(&cluster, SESSION, NAMESPACE, RIGHT_ALL, &ticket), 0);
	assert_int_equal(ask_ticket(&cluster, SESSION, NAMESPACE, RIGHT_READ, &ticket), -EACCES);
	assert_int_equal(ask_ticket(&cluster, SESSION, NAMESPACE + 1, RIGHT_ALL, &ticket), -EACCES);
	assert_int_equal(ask_ticket(&cluster, SESSION, 0, RIGHT_ALL, &ticket), -EACCES);
	assert_int_equal(ask_ticket(&cluster, SESSION, NAMESPACE, 0, &ticket), -EACCES);
	assert_int_equal(ask_ticket(&cluster, SESSION, NAMESPACE, RIGHT_WRITE, &ticket), -EACCES);
	assert_int_equal(ask_ticket(&cluster, SESSION, NAMESPACE, UINT32_MAX, &ticket), -EACCES);
	assert_non_null(strstr(afar_last_error(), "none that there are"));
	cluster_close(&cluster);
}

/* Asks for `extents` with a capability that a manager has signed. */
static int ask_signed(struct cluster *cluster, struct rpc_capability capability, uint64_t *extents,
		      size_t nr_extents)
{
	struct key_of keys[8];

	assert_int_equal(capability_sign(&capability, cluster->manager.signing_key), 0);
	return ask_keys(cluster, SESSION, NAMESPACE, extents, nr_extents, &capability,
			sizeof(capability), keys);
}

static void test_forged_capabilities(void **state)
{
	struct rpc_capability good, bad;
	uint8_t key[SIGNING_KEY_BYTES];
	struct fake_extent extent;
	struct cluster cluster;
	struct key_of keys;
	uint8_t *bytes = (uint8_t *)&bad;

	(void)state;
	cluster_open(&cluster, 0);
	extent = reserve_one(&cluster, &keys);
	good = fake_manager_capability(&cluster.manager, SESSION, NAMESPACE, RIGHT_ALL,
				       &extent.extent, 1);
	assert_int_equal(capability_sign(&good, cluster.manager.signing_key), 0);
	/* Every byte counts, and so does the number of them. */
	for (size_t i = 0; i < sizeof(bad); i++) {
		bad = good;
		bytes[i] ^= 1;
		assert_int_equal(ask_keys(&cluster, SESSION, NAMESPACE, &extent.extent, 1, &bad,
					  sizeof(bad), &keys),
				 -EACCES);
	}
	assert_int_equal(ask_keys(&cluster, SESSION, NAMESPACE, &extent.extent, 1, NULL, 0, &keys),
			 -EACCES);
	assert_int_equal(ask_keys(&cluster, SESSION, NAMESPACE, &extent.extent, 1, &good,
				  sizeof(good) - 1, &keys),
			 -EACCES);
	bad = fake_manager_capability(&cluster.manager, SESSION, NAMESPACE, RIGHT_ALL,
				      &extent.extent, 1);
	memset(key, 1, sizeof(key));
	assert_int_equal(capability_sign(&bad, key), 0);
	assert_int_equal(
		ask_keys(&cluster, SESSION, NAMESPACE, &extent.extent, 1, &bad, sizeof(bad), &keys),
		-EACCES);
	assert_int_equal(ask_keys(&cluster, SESSION, NAMESPACE + 1, &extent.extent, 1, &good,
				  sizeof(good), &keys),
			 -EACCES);
	assert_int_equal(ask_keys(&cluster, SESSION, NAMESPACE, &extent.extent, 1, &good,
				  sizeof(good), &keys),
			 0);
	cluster_close(&cluster);
}

static void test_capabilities_that_do_not_fit(void **state)
{
	struct rpc_capability good, bad;
	uint64_t extents[4], turned[2], twice[2];
	struct fake_extent extent;
	struct cluster cluster;
	struct key_of key;

	(void)state;
	cluster_open(&cluster, 0);
	for (size_t i = 0; i < 4; i++) {
		extent = reserve_one(&cluster, &key);
		extents[i] = extent.extent;
	}
	good = fake_manager_capability(&cluster.manager, SESSION, NAMESPACE, RIGHT_ALL, extents, 2);
	assert_int_equal(ask_signed(&cluster, good, extents, 2), 0);
	/* Fewer, more, others, not in order, twice. */
	assert_int_equal(ask_signed(&cluster, good, extents, 0), -EACCES);
	assert_int_equal(ask_signed(&cluster, good, extents, 1), -EACCES);
	assert_int_equal(ask_signed(&cluster, good, extents, 3), -EACCES);
	assert_int_equal(ask_signed(&cluster, good, extents + 1, 2), -EACCES);
	turned[0] = extents[1];
	turned[1] = extents[0];
	assert_int_equal(ask_signed(&cluster, good, turned, 2), -EACCES);
	twice[0] = twice[1] = extents[0];
	assert_int_equal(ask_signed(&cluster, good, twice, 2), -EACCES);
	/* Capabilities that a manager would not sign, or has signed for others. */
	bad = good;
	bad.rights = 0;
	assert_int_equal(ask_signed(&cluster, bad, extents, 2), -EACCES);
	bad.rights = RIGHT_WRITE;
	assert_int_equal(ask_signed(&cluster, bad, extents, 2), -EACCES);
	bad.rights = RIGHT_ALL + 1 + RIGHT_READ;
	assert_int_equal(ask_signed(&cluster, bad, extents, 2), -EACCES);
	bad = good;
	bad.incarnation++;
	assert_int_equal(ask_signed(&cluster, bad, extents, 2), -EACCES);
	bad = good;
	bad.session++;
	assert_int_equal(ask_signed(&cluster, bad, extents, 2), -EACCES);
	bad = good;
	bad.namespace ++;
	assert_int_equal(ask_signed(&cluster, bad, extents, 2), -EACCES);
	bad = good;
	bad.expiry = 0;
	await_age(&cluster);
	assert_int_equal(ask_signed(&cluster, bad, extents, 2), -EACCES);
	assert_int_equal(ask_signed(&cluster, good, extents, 2), 0);
	/* For so long that the end of its session would be forgotten before. */
	bad = good;
	bad.expiry += PASS_LIFETIME_MAX_S;
	assert_int_equal(ask_signed(&cluster, bad, extents, 2), -EACCES);
	/* Good, but the extent is not there any more. */
	assert_int_equal(fake_manager_release(&cluster.manager, extents[1]), 0);
	assert_int_equal(ask_signed(&cluster, good, extents, 2), -AFAR_ELOST);
	cluster_close(&cluster);
}

static void test_a_key_to_read_is_not_to_write(void **state)
{
	struct key_of both, both_again = {0}, read = {0}, read_again = {0};
	struct fake_extent extent;
	struct cluster cluster;
	char word[8] = "";

	(void)state;
	cluster_open(&cluster, 0);
	extent = reserve_one(&cluster, &both);
	assert_int_equal(get_keys_with(&cluster, NAMESPACE, RIGHT_READ, &extent.extent, 1, &read),
			 0);
	assert_int_equal(
		get_keys_with(&cluster, NAMESPACE, RIGHT_READ, &extent.extent, 1, &read_again), 0);
	assert_int_equal(get_keys(&cluster, NAMESPACE, &extent.extent, 1, &both_again), 0);
	assert_true(read.key != both.key);
	assert_true(read.key == read_again.key && both.key == both_again.key);
	/* Chosen at random from all there are: nobody guesses one. A NIC's are what they are. */
	if (is_on_tcp())
		assert_true(read.key > UINT32_MAX && both.key > UINT32_MAX);

	assert_int_equal(connect_data(&cluster, SESSION), 0);
	assert_int_equal(data_client_write(&cluster.data, "before", 7, both.origin, both.key), 0);
	/* On a connection to read, neither key writes. */
	assert_int_equal(connect_data_for(&cluster, SESSION, NAMESPACE, RIGHT_READ), 0);
	assert_int_equal(data_client_read(&cluster.data, word, 7, read.origin, read.key), 0);
	assert_string_equal(word, "before");
	assert_int_not_equal(data_client_write(&cluster.data, "after!", 7, read.origin, read.key),
			     0);
	assert_int_equal(connect_data_for(&cluster, SESSION, NAMESPACE, RIGHT_READ), 0);
	assert_int_not_equal(data_client_write(&cluster.data, "after!", 7, both.origin, both.key),
			     0);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	assert_int_equal(data_client_read(&cluster.data, word, 7, both.origin, both.key), 0);
	assert_string_equal(word, "before");

	/* Both end with the extent. */
	assert_int_equal(fake_manager_release(&cluster.manager, extent.extent), 0);
	data_client_await_closed(&cluster.data);
	assert_int_equal(connect_data_for(&cluster, SESSION, NAMESPACE, RIGHT_READ), 0);
	assert_int_not_equal(data_client_read(&cluster.data, word, 7, read.origin, read.key), 0);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	assert_int_not_equal(data_client_read(&cluster.data, word, 7, both.origin, both.key), 0);
	cluster_close(&cluster);
}

/* A session that was given more since goes on with what it had. */
static void test_fewer_rights_than_one_may_have(void **state)
{
	struct key_of read = {0}, again = {0};
	struct fake_extent extent;
	struct rpc_ticket ticket;
	struct cluster cluster;
	struct key_of both;
	char word[8] = "";

	(void)state;
	cluster_open(&cluster, 0);
	extent = reserve_one(&cluster, &both);
	connect_control(&cluster, SESSION + 1);
	cluster.wanted = RIGHT_READ;
	assert_int_equal(get_keys(&cluster, NAMESPACE, &extent.extent, 1, &read), 0);
	assert_true(read.key != both.key);
	/* It is entitled to just that. */
	assert_int_equal(ask_ticket(&cluster, SESSION + 1, NAMESPACE, RIGHT_ALL, &ticket), -EACCES);
	assert_int_equal(ask_ticket(&cluster, SESSION + 1, NAMESPACE, RIGHT_READ, &ticket), 0);
	assert_int_equal(data_client_connect(&cluster.data, cluster.manager.data[0], &ticket,
					     sizeof(ticket)),
			 0);
	assert_int_equal(data_client_read(&cluster.data, word, 7, read.origin, read.key), 0);
	assert_int_equal(get_keys_with(&cluster, NAMESPACE, RIGHT_READ, &extent.extent, 1, &again),
			 0);
	assert_true(again.key == read.key);
	/* Not the other way round, and nothing that there is not. */
	for (uint32_t wanted = RIGHT_WRITE; wanted <= RIGHT_ALL + 1; wanted++) {
		cluster.wanted = wanted;
		assert_int_equal(
			get_keys_with(&cluster, NAMESPACE, RIGHT_READ, &extent.extent, 1, &again),
			-EACCES);
	}
	cluster.wanted = RIGHT_WRITE;
	assert_int_equal(get_keys(&cluster, NAMESPACE, &extent.extent, 1, &again), -EACCES);
	cluster_close(&cluster);
}

static void test_ended_session(void **state)
{
	uint64_t deadline = clock_deadline_ms(FAKE_PATIENCE_MS);
	struct rpc_ticket ticket;
	struct cluster cluster;
	struct key_of key;

	(void)state;
	cluster_open(&cluster, 0);
	reserve_one(&cluster, &key);
	connect_control(&cluster, SESSION + 1);
	assert_int_equal(fake_manager_end_session(&cluster.manager, SESSION + 1), 0);
	/* Its control connection is closed; until that is through, it gets nothing. */
	assert_int_not_equal(ask_ticket(&cluster, SESSION + 1, NAMESPACE, RIGHT_ALL, &ticket), 0);
	while (control_ping(cluster.control) == 0)
		assert_true(clock_ns() < deadline);
	connect_control(&cluster, SESSION);
	assert_int_equal(get_ticket(&cluster, SESSION, &ticket), 0);
	cluster_close(&cluster);
}

/* Somebody remembers a key, or was told it, and tries it on a connection for something else. */
static void test_a_key_opens_nothing_elsewhere(void **state)
{
	struct fake_extent extent;
	struct cluster cluster;
	struct key_of key;
	char word[8] = "";

	(void)state;
	cluster_open(&cluster, 0);
	extent = reserve_one(&cluster, &key);
	assert_int_equal(connect_data(&cluster, SESSION), 0);
	assert_int_equal(data_client_write(&cluster.data, "before", 7, key.origin, key.key), 0);
	assert_int_equal(fake_manager_end_session(&cluster.manager, SESSION), 0);
	assert_int_not_equal(data_client_write(&cluster.data, "after!", 7, key.origin, key.key), 0);

	assert_int_equal(connect_data_for(&cluster, SESSION + 1, NAMESPACE + 1, RIGHT_ALL), 0);
	assert_int_not_equal(data_client_read(&cluster.data, word, 7, key.origin, key.key), 0);
	assert_int_equal(connect_data_for(&cluster, SESSION + 1, NAMESPACE, RIGHT_READ), 0);
	assert_int_not_equal(data_client_write(&cluster.data, "after!", 7, key.origin, key.key), 0);
	/* A session that may do as much finds what the first one left. */
	assert_int_equal(connect_data(&cluster, SESSION + 1), 0);
	assert_int_equal(get_keys(&cluster, NAMESPACE, &extent.extent, 1, &key), 0);
	assert_int_equal(data_client_read(&cluster.data, word, 7, key.origin, key.key), 0);
	assert_string_equal(word, "before");
	cluster_close(&cluster);
}

TEST_GROUP(server_rights)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passes),
		cmocka_unit_test(test_not_too_many_connections),
		cmocka_unit_test(test_only_ones_own_session),
		cmocka_unit_test(test_forged_capabilities),
		cmocka_unit_test(test_capabilities_that_do_not_fit),
		cmocka_unit_test(test_a_key_to_read_is_not_to_write),
		cmocka_unit_test(test_a_key_opens_nothing_elsewhere),
		cmocka_unit_test(test_fewer_rights_than_one_may_have),
		cmocka_unit_test(test_ended_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
