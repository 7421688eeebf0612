/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's sessions and servers: who is who, and what is left when one of them goes. */
#include <string.h>

#include "lib/manager/manager_test.h"
#include "unit/group.h"

/* ---- Sessions */

static void test_sessions_are_checked(void **state)
{
	struct fake_client client, thief;
	Afar__Reply *reply;

	(void)state;
	assert_int_equal(client_open(&fixture, &client), 0);
	assert_int_equal(client_open(&fixture, &thief), 0);
	assert_true(client.session != 0 && client.session < (uint64_t)1 << 63);
	/* Another's number on one's own connection. */
	fixture_send(&fixture, &(struct fake_client){thief.peer, client.session, {0}, 0}, 9,
		     ask_create("a", 0, 0), &reply);
	fixture_pump(&fixture);
	assert_int_equal(reply->status, -AFAR_ESESSION);
	drop(reply);
	/* And its resumption without the secret. */
	thief.session = client.session;
	assert_int_equal(client_resume(&fixture, &thief), -AFAR_ESESSION);
	memcpy(thief.secret, client.secret, STATE_SECRET_BYTES);
	thief.secret[STATE_SECRET_BYTES - 1] ^= 1;
	assert_int_equal(client_resume(&fixture, &thief), -AFAR_ESESSION);
	/* The old connection of a resumed session counts no more. */
	thief = client;
	assert_int_equal(client_resume(&fixture, &client), 0);
	fixture_send(&fixture, &thief, 10, ask_create("a", 0, 0), &reply);
	fixture_pump(&fixture);
	assert_int_equal(reply->status, -AFAR_ESESSION);
	drop(reply);
	EXPECT(&client, ask_create("a", 0, 0), 0);
	EXPECT(&client, ask_session_close(), 0);
	EXPECT(&client, ask_create("b", 0, 0), -AFAR_ESESSION);
	assert_int_equal(client_resume(&fixture, &client), -AFAR_ESESSION);
	check_all(&fixture);
}

static void test_lease(void **state)
{
	struct fake_client client;

	(void)state;
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	client_open(&fixture, &client);
	client_lose(&fixture, &client);
	fixture_advance(&fixture, FIXTURE_LEASE_MS - 1);
	assert_int_equal(client_resume(&fixture, &client), 0);
	client_lose(&fixture, &client);
	assert_int_equal(core_next_run(fixture.core), fixture.now + FIXTURE_LEASE_MS * 1000000ULL);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	assert_int_equal(client_resume(&fixture, &client), -AFAR_ESESSION);
	/* A fresh one after the manager's restart. */
	client_open(&fixture, &client);
	fixture_restart(&fixture);
	fixture_advance(&fixture, FIXTURE_LEASE_MS - 1);
	assert_int_equal(client_resume(&fixture, &client), 0);
	fixture_restart(&fixture);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	assert_int_equal(client_resume(&fixture, &client), -AFAR_ESESSION);
	assert_true(cds_list_empty(&fixture.core->state->sessions));
	check_all(&fixture);
}

/* The memory of an ended session's freed regions waits for the servers that hold it, and no others. */
static void test_end_waits_for_servers(void **state)
{
	struct fake_client client, other;
	Afar__Reply *reply;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	client_open(&fixture, &other);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	fixture_join(&fixture, 1, 64 * MIB);
	EXPECT(&client, ask_free(must_open(&client, ask_alloc(ns, "", 4 * MIB, false), &reply)), 0);
	drop(reply);
	must_open(&client, ask_alloc(ns, "kept", MIB, false), &reply);
	drop(reply);
	fixture.servers[0].is_silent = true;
	fixture.servers[1].is_silent = true;
	EXPECT(&client, ask_session_close(), 0);
	assert_int_equal(ns_of(ns)->allocated_bytes, 5 * MIB);
	/* Nobody has it open for those who ask. */
	reply = fixture_ask(&fixture, &other, ask_regions(ns, 0, 0));
	assert_int_equal(reply->region_infos->n_entries, 1);
	assert_int_equal(reply->region_infos->entries[0]->nr_references, 0);
	drop(reply);
	check_all(&fixture);
	/* Not even over restarts of the manager and lost connections. */
	fixture_restart(&fixture);
	fixture_join(&fixture, 0, 64 * MIB);
	client_resume(&fixture, &other);
	assert_int_equal(ns_of(ns)->allocated_bytes, 5 * MIB);
	fixture_disconnect(&fixture, 0);
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(ns_of(ns)->allocated_bytes, 5 * MIB);
	/* Deleting the namespace waits too. */
	EXPECT(&other, ask_delete("a", true), 0);
	assert_int_equal(fixture.servers[0].granted, 8 * MIB);
	EXPECT(&other, ask_create("a", 0, 0), 0);
	EXPECT(&other, ask_delete("a", true), 0);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	assert_true(fixture.servers[0].nr_session_ends > 0);
	assert_int_equal(fixture.servers[0].granted, 0);
	fixture.servers[1].is_silent = false;
	fixture_join(&fixture, 1, 64 * MIB);
	check_empty(&fixture);
}

/* ---- Servers */

static void test_new_incarnation_loses_regions(void **state)
{
	Afar__RegionInfo *striped;
	struct fake_client client;
	Afar__Reply *reply, *other;
	uint64_t ns, number;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	fixture_join(&fixture, 1, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 16 * MIB), 0);
	striped = must_open(&client, ask_alloc(ns, "striped", 8 * MIB, false), &reply);
	assert_int_equal(striped->width, 2);
	number = fixture.servers[1].number;
	fixture_kill(&fixture, 1);
	/* Down: it can be opened, and used as soon as the server is back. */
	EXPECT(&client, ask_open(ns, "striped", 0), 0);
	EXPECT(&client, ask_alloc(ns, "", 5 * MIB, false), -AFAR_ERESERVE);
	EXPECT(&client, ask_alloc(ns, "", 4 * MIB, false), 0);
	assert_int_equal(fixture_join(&fixture, 1, 64 * MIB), 0);
	assert_int_equal(fixture.servers[1].number, number);
	assert_int_equal(ns_of(ns)->reserved_bytes, 8 * MIB);
	assert_int_equal(ns_of(ns)->allocated_bytes, 8 * MIB);
	check_all(&fixture);
	EXPECT(&client, ask_open(ns, "striped", 0), -AFAR_ELOST);
	other = fixture_ask(&fixture, &client, ask_regions(ns, 0, 1));
	assert_true(other->region_infos->entries[0]->is_lost);
	drop(other);
	fixture_restart(&fixture);
	fixture_join(&fixture, 0, 64 * MIB);
	fixture_join(&fixture, 1, 64 * MIB);
	client_resume(&fixture, &client);
	EXPECT(&client, ask_open(ns, "striped", 0), -AFAR_ELOST);
	check_all(&fixture);
	EXPECT(&client, ask_free(striped), 0);
	EXPECT(&client, ask_close(striped), 0);
	drop(reply);
	EXPECT(&client, ask_session_close(), 0);
	client_open(&fixture, &client);
	EXPECT(&client, ask_delete("a", true), 0);
	check_empty(&fixture);
}

static void test_release_while_down_happens_at_rejoin(void **state)
{
	struct fake_client client;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 16 * MIB), 0);
	fixture_disconnect(&fixture, 0);
	EXPECT(&client, ask_delete("a", false), 0);
	assert_int_equal(fixture.servers[0].granted, 16 * MIB);
	check_all(&fixture);
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(fixture.servers[0].granted, 0);
	check_empty(&fixture);
	/* One that holds nothing is forgotten, and gets another number. */
	fixture_disconnect(&fixture, 0);
	assert_true(cds_list_empty(&fixture.core->state->servers));
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(fixture.servers[0].number, 2);
}

static void test_extent_missing_at_rejoin_is_lost(void **state)
{
	struct fake_client client;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 4 * MIB), 0);
	EXPECT(&client, ask_alloc(ns, "r", MIB, false), 0);
	fixture.servers[0].extents[0] = (struct fake_extent){500, 77, 2 * MIB};
	fixture.servers[0].granted = 2 * MIB;
	fixture_disconnect(&fixture, 0);
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(fixture.servers[0].nr_extents, 0); /* the unknown one is released */
	assert_int_equal(ns_of(ns)->reserved_bytes, 0);
	EXPECT(&client, ask_open(ns, "r", 0), -AFAR_ELOST);
	check_all(&fixture);
}

static void test_two_servers_with_one_number(void **state)
{
	(void)state;
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	fixture.servers[1].number = fixture.servers[0].number;
	assert_int_equal(fixture_join(&fixture, 1, 64 * MIB), -EBUSY);
	assert_non_null(fixture.servers[0].peer);
	/* Asked whether it lives, it does not answer. */
	fixture.servers[0].is_silent = true;
	assert_int_equal(fixture_join(&fixture, 1, 64 * MIB), -EBUSY);
	fixture_disconnect(&fixture, 0);
	assert_int_equal(fixture_join(&fixture, 1, 64 * MIB), 0);
	check_all(&fixture);
}

TEST_GROUP(manager_sessions)
{
	const struct CMUnitTest tests[] = {
		TEST(test_sessions_are_checked),
		TEST(test_lease),
		TEST(test_end_waits_for_servers),
		TEST(test_new_incarnation_loses_regions),
		TEST(test_release_while_down_happens_at_rejoin),
		TEST(test_extent_missing_at_rejoin_is_lost),
		TEST(test_two_servers_with_one_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
