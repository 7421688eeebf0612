/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's reservations: who is asked, what becomes of them when servers fail or clients go, and who is told. */
#include <stdio.h>
#include <string.h>

#include "group.h"
#include "lib/manager_test.h"

static void test_reserve_limits(void **state)
{
	struct fake_client client;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	ns = make_namespace(&fixture, &client, "a");
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 1)), -AFAR_ENOSERVER);
	fixture_join(&fixture, 0, 8 * MIB);
	fixture_join(&fixture, 1, 8 * MIB);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 0)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, UINT64_MAX)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, UINT64_MAX / 2)), -ENOSPC);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 16 * MIB + 1)), -ENOSPC);
	check_all(&fixture);
	assert_int_equal(ns_of(ns)->reserved_bytes, 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB)), 0);
	assert_int_equal(fixture.servers[0].granted, 4 * MIB);
	assert_int_equal(fixture.servers[1].granted, 4 * MIB);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB - 1)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 1)), -ENOSPC);
	check_all(&fixture);
	assert_int_equal(fixture_do(&fixture, &client, ask_release(ns, 0)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_release(ns, UINT64_MAX)), 0);
	assert_int_equal(ns_of(ns)->reserved_bytes, 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_delete("a", false)), 0);
	check_empty(&fixture);
}

/* The limit holds for reservations one after the other, and for those that are under way together. */
static void test_reserve_up_to_the_limit(void **state)
{
	struct fake_client client, other;
	Afar__Reply *first, *second;
	Afar__Request *request = ask_create("a", 0, 64 << 10);
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	client_open(&fixture, &other);
	fixture_join(&fixture, 0, 64 * MIB);
	request->namespace_create->policy->max_bytes = 8 * MIB;
	ns = create_namespace(&fixture, &client, request);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB + 1)), -EDQUOT);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 2 * MIB)), 0);
	fixture.servers[0].is_silent = true;
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 4 * MIB), &first);
	fixture_send(&fixture, &other, ++other.next_id, ask_reserve(ns, 4 * MIB), &second);
	fixture_pump(&fixture);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	assert_non_null(first);
	assert_non_null(second);
	assert_int_equal(first->status + second->status, -EDQUOT);
	drop(first);
	drop(second);
	assert_int_equal(ns_of(ns)->reserved_bytes, 6 * MIB);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 2 * MIB)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_release(ns, 4 * MIB)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 4 * MIB)), 0);
	check_all(&fixture);
}

static void test_reserve_waits_for_memory_being_released(void **state)
{
	struct fake_client client;
	Afar__Reply *reply;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 8 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB)), 0);
	fixture.servers[0].is_silent = true;
	assert_int_equal(fixture_do(&fixture, &client, ask_release(ns, UINT64_MAX)), 0);
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &reply);
	fixture_pump(&fixture);
	assert_null(reply);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	assert_non_null(reply);
	assert_int_equal(reply->status, 0);
	drop(reply);
	check_all(&fixture);
}

/* A deleted namespace gives its memory back when the session that had a region open is fenced. */
static void test_reserve_waits_for_a_deleted_namespace(void **state)
{
	struct fake_client former, client;
	Afar__Reply *reply;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &former);
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 8 * MIB);
	ns = make_namespace(&fixture, &former, "a");
	EXPECT(&former, ask_reserve(ns, 8 * MIB), 0);
	must_open(&former, ask_alloc(ns, "r", MIB, false), &reply);
	drop(reply);
	fixture.servers[0].is_silent = true;
	EXPECT(&former, ask_session_close(), 0);
	EXPECT(&client, ask_delete("a", true), 0);
	ns = make_namespace(&fixture, &client, "b");
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &reply);
	fixture_pump(&fixture);
	assert_null(reply);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	assert_non_null(reply);
	assert_int_equal(reply->status, 0);
	drop(reply);
	check_all(&fixture);
}

static void test_reserve_goes_on_without_a_server_that_fails(void **state)
{
	struct fake_client client;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	for (size_t i = 0; i < 3; i++)
		fixture_join(&fixture, i, 16 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	fixture.servers[1].refuse = -ENOMEM;
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 24 * MIB)), 0);
	assert_int_equal(ns_of(ns)->reserved_bytes, 24 * MIB);
	assert_int_equal(fixture.servers[1].granted, 0);
	/* What the others gave goes back when it does not suffice. */
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 18 * MIB)), -ENOSPC);
	assert_int_equal(fixture.servers[0].granted + fixture.servers[2].granted, 24 * MIB);
	fixture.servers[1].refuse = -EIO;
	expect_said(&client, ask_reserve(ns, 18 * MIB), -AFAR_ESERVER,
		    "server 'server-1' at 127.0.0.1:7501 failed (EIO)");
	fixture.servers[1].refuse = 0;
	check_all(&fixture);
	/* One that lies must rejoin, and give back. */
	fixture.servers[1].does_grant_wrong = true;
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 18 * MIB)), -AFAR_ESERVER);
	assert_null(fixture.servers[1].peer);
	assert_true(fixture.servers[1].granted > 0);
	fixture.servers[1].does_grant_wrong = false;
	assert_int_equal(fixture_join(&fixture, 1, 16 * MIB), 0);
	assert_int_equal(fixture.servers[1].granted, 0);
	check_all(&fixture);
}

/* What one has got is counted once, while it is being committed as well: the last bytes are another's in the same batch. */
static void test_reserve_beside_one_that_ends(void **state)
{
	struct fake_client client;
	Afar__Reply *first, *second;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 12 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	fixture.servers[0].is_silent = true;
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &first);
	fixture_pump(&fixture);
	fixture.servers[0].is_silent = false;
	assert_true(fixture_serve(&fixture));
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 4 * MIB), &second);
	fixture_pump(&fixture);
	assert_int_equal(first->status, 0);
	assert_int_equal(second->status, 0);
	drop(first);
	drop(second);
	assert_int_equal(ns_of(ns)->reserved_bytes, 12 * MIB);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 2 * MIB)), -ENOSPC);
	check_all(&fixture);
}

/* The server has been reconciled meanwhile, and what it granted was given back; nor does it matter that it failed. */
static void test_reserve_answered_over_a_former_connection(void **state)
{
	struct fake_client client;
	struct event *answer;
	Afar__Reply *reply;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	/* Who holds nothing is forgotten when it goes. */
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB)), 0);
	for (int is_lost = 0; is_lost < 2; is_lost++) {
		fixture.servers[0].is_silent = true;
		fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &reply);
		fixture_pump(&fixture);
		fixture.servers[0].is_silent = false;
		assert_true(fixture_serve(&fixture));
		answer = cds_list_first_entry(&fixture.events, struct event, node);
		cds_list_del(&answer->node);
		if (is_lost) {
			drop(answer->answer);
			answer->answer = NULL;
			answer->status = -ECONNRESET;
		}
		fixture_disconnect(&fixture, 0);
		assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
		assert_int_equal(fixture.servers[0].granted, 8 * MIB);
		assert_null(reply);
		cds_list_add_tail(&answer->node, &fixture.events);
		fixture_pump(&fixture);
		assert_non_null(reply);
		assert_int_equal(reply->status, -AFAR_ESERVER);
		drop(reply);
		assert_non_null(fixture.servers[0].peer);
		assert_int_equal(ns_of(ns)->reserved_bytes, 8 * MIB);
		check_all(&fixture);
	}
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 56 * MIB)), 0);
	check_all(&fixture);
}

static void test_reserve_repeated_joins_the_running_job(void **state)
{
	struct fake_client client;
	Afar__Reply *first, *second, *third;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	fixture.servers[0].is_silent = true;
	client.next_id++;
	fixture_send(&fixture, &client, client.next_id, ask_reserve(ns, 8 * MIB), &first);
	fixture_pump(&fixture);
	client_lose(&fixture, &client);
	assert_int_equal(client_resume(&fixture, &client), 0);
	fixture_send(&fixture, &client, client.next_id, ask_reserve(ns, 8 * MIB), &second);
	fixture_pump(&fixture);
	assert_null(second);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	assert_int_equal(first->status, 0);
	assert_int_equal(second->status, 0);
	assert_int_equal(second->namespace_info->reserved_bytes, 8 * MIB);
	/* And when it is done, also over a restart. */
	fixture_restart(&fixture);
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(client_resume(&fixture, &client), 0);
	send_again(&client, client.next_id, ask_reserve(ns, 8 * MIB), &third);
	fixture_pump(&fixture);
	assert_int_equal(third->status, 0);
	assert_int_equal(ns_of(ns)->reserved_bytes, 8 * MIB);
	drop(first);
	drop(second);
	drop(third);
	check_all(&fixture);
}

/* Which server it is, and before the client would give up and blame the manager. */
static void test_reserve_tells_who_does_not_answer(void **state)
{
	struct fake_client client;
	Afar__Reply *first, *second;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	for (size_t i = 0; i < 3; i++)
		fixture_join(&fixture, i, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	fixture.servers[1].is_silent = true;
	fixture.time_ns = 4000000000U;
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 12 * MIB), &first);
	fixture_pump(&fixture);
	assert_true(core_next_run(fixture.core) <= fixture.now + 3000000000U);
	fixture_advance(&fixture, 2999);
	assert_null(first);
	fixture_advance(&fixture, 1);
	assert_non_null(first);
	assert_int_equal(first->status, -ETIMEDOUT);
	assert_non_null(strstr(first->message, "server 'server-1' at 127.0.0.1:7501 did not"));
	assert_non_null(strstr(first->message, "outcome unknown"));
	assert_null(strstr(first->message, "more"));
	assert_true(core_next_run(fixture.core) > fixture.now); /* nobody spins for it */
	/* It goes on, and who asks again hears how it ends. */
	fixture_send(&fixture, &client, client.next_id, ask_reserve(ns, 12 * MIB), &second);
	fixture_pump(&fixture);
	assert_null(second);
	fixture.servers[1].is_silent = false;
	fixture_pump(&fixture);
	assert_int_equal(second->status, 0);
	assert_int_equal(ns_of(ns)->reserved_bytes, 12 * MIB);
	drop(first);
	drop(second);
	check_all(&fixture);
}

/* Nor does a server that has to give memory back first. */
static void test_reserve_tells_who_does_not_release(void **state)
{
	struct fake_client client;
	Afar__Reply *answer;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 16 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 16 * MIB), 0);
	fixture.servers[0].is_silent = true;
	EXPECT(&client, ask_release(ns, UINT64_MAX), 0);
	fixture.time_ns = 400000000U;
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &answer);
	fixture_pump(&fixture);
	fixture_advance(&fixture, 299);
	assert_null(answer);
	fixture_advance(&fixture, 1);
	assert_non_null(answer);
	assert_int_equal(answer->status, -ETIMEDOUT);
	assert_non_null(strstr(answer->message, "server 'server-0' at 127.0.0.1:7500 did not rel"));
	drop(answer);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	check_all(&fixture);
}

/* In the middle of a reservation: the session ends, the namespace is deleted, the server loses its
 * connection, restarts, or the manager is killed. */
static void test_reserve_undoes_itself(void **state)
{
	struct fake_client client, other;
	Afar__Reply *reply;
	uint64_t ns;

	(void)state;
	for (int kind = 0; kind < 5; kind++) {
		client_open(&fixture, &client);
		client_open(&fixture, &other);
		fixture_join(&fixture, 0, 64 * MIB);
		fixture_join(&fixture, 1, 64 * MIB);
		ns = make_namespace(&fixture, &client, "a");
		fixture.servers[0].is_silent = true;
		fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &reply);
		fixture_pump(&fixture);
		assert_null(reply);
		assert_int_equal(fixture.servers[1].granted, 4 * MIB);
		if (kind == 0)
			assert_int_equal(fixture_do(&fixture, &client, ask_session_close()), 0);
		if (kind == 1)
			assert_int_equal(fixture_do(&fixture, &other, ask_delete("a", false)), 0);
		if (kind == 2)
			fixture_disconnect(&fixture, 1);
		if (kind == 3)
			fixture_kill(&fixture, 1);
		fixture.servers[0].is_silent = kind == 4;
		fixture_pump(&fixture);
		if (kind == 4)
			fixture_restart(&fixture);
		fixture.servers[0].is_silent = false;
		for (size_t i = 0; i < 2; i++)
			if (fixture.servers[i].peer == NULL)
				assert_int_equal(fixture_join(&fixture, i, 64 * MIB), 0);
		fixture_pump(&fixture);
		assert_non_null(reply);
		/* Without server 1, server 0 does it alone. */
		if (kind == 4)
			assert_true(reply->status < 0);
		else
			assert_int_equal(reply->status, kind == 0   ? -AFAR_ESESSION
							: kind == 1 ? -ENOENT
								    : 0);
		drop(reply);
		check_all(&fixture);
		if (kind == 4)
			assert_int_equal(client_resume(&fixture, &other), 0);
		if (kind != 1)
			assert_int_equal(fixture_do(&fixture, &other, ask_delete("a", false)), 0);
		check_empty(&fixture);
	}
}

/* The client hears at once; what other servers have granted, and what one still will, is given back. */
static void test_reserve_is_cancelled(void **state)
{
	struct fake_client client, other;
	Afar__Reply *first, *second, *others;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	client_open(&fixture, &other);
	fixture_join(&fixture, 0, 64 * MIB);
	fixture_join(&fixture, 1, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_cancel(ns)),
			 0); /* it is done: it stays */
	fixture.servers[0].is_silent = true;
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &first);
	fixture_send(&fixture, &other, ++other.next_id, ask_reserve(ns, 16 * MIB), &others);
	fixture_pump(&fixture);
	assert_int_equal(fixture.servers[1].granted, 16 * MIB);
	assert_int_equal(fixture_do(&fixture, &client, ask_cancel(ns)), 0);
	assert_non_null(first);
	assert_int_equal(first->status, -ECANCELED);
	assert_null(others);
	assert_int_equal(fixture.servers[1].granted, 12 * MIB);
	/* One that comes again finds it as it is, and is told when that is over, or cancelled again. */
	fixture_send(&fixture, &client, client.next_id - 1, ask_reserve(ns, 8 * MIB), &second);
	fixture_pump(&fixture);
	assert_null(second);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	assert_int_equal(second->status, -ECANCELED);
	assert_int_equal(others->status, 0);
	assert_int_equal(ns_of(ns)->reserved_bytes, 24 * MIB);
	drop(first);
	drop(second);
	drop(others);
	check_all(&fixture);
}

/* All was granted while the client was away: it has it when it is back, and nobody if it never is. */
static void test_reserve_that_nobody_hears_of(void **state)
{
	struct fake_client client, other;
	Afar__Reply *first, *second;
	uint64_t ns;

	(void)state;
	for (int does_return = 0; does_return < 2; does_return++) {
		client_open(&fixture, &other);
		client_open(&fixture, &client);
		fixture_join(&fixture, 0, 64 * MIB);
		ns = make_namespace(&fixture, &other, "a");
		fixture.servers[0].is_silent = true;
		fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &first);
		fixture_pump(&fixture);
		client_lose(&fixture, &client);
		fixture.servers[0].is_silent = false;
		fixture_pump(&fixture);
		assert_int_equal(ns_of(ns)->reserved_bytes, 0);
		assert_int_equal(fixture.servers[0].granted, 8 * MIB);
		if (does_return) {
			assert_int_equal(client_resume(&fixture, &client), 0);
			fixture_send(&fixture, &client, client.next_id, ask_reserve(ns, 8 * MIB),
				     &second);
			fixture_pump(&fixture);
			assert_int_equal(second->status, 0);
			drop(second);
		} else {
			fixture_advance(&fixture, FIXTURE_LEASE_MS);
			fixture_pump(&fixture);
		}
		assert_int_equal(ns_of(ns)->reserved_bytes, does_return ? 8 * MIB : 0);
		assert_int_equal(fixture.servers[0].granted, does_return ? 8 * MIB : 0);
		assert_int_equal(first->status, does_return ? 0 : -AFAR_ESESSION);
		drop(first);
		check_all(&fixture);
		assert_int_equal(fixture_do(&fixture, &other, ask_delete("a", false)), 0);
		check_empty(&fixture);
	}
}

static void test_reserve_then_alloc_the_same(void **state)
{
	struct fake_client client;
	Afar__RegionInfo *region;
	Afar__Reply *reply;
	char name[32];

	(void)state;
	client_open(&fixture, &client);
	for (size_t nr_servers = 1; nr_servers <= 5; nr_servers++) {
		fixture_join(&fixture, nr_servers - 1, (uint64_t)4 << 30);
		for (int round = 0; round < 200; round++) {
			uint64_t bytes = 1 + random_below((uint64_t)1 << (1 + random_below(30)));
			uint64_t ns;

			snprintf(name, sizeof(name), "n%zu-%d", nr_servers, round);
			reply = fixture_ask(&fixture, &client,
					    ask_create(name, (uint32_t)random_below(7),
						       (uint64_t)4096 << random_below(12)));
			ns = reply->namespace_info->namespace_;
			drop(reply);
			for (int times = 0; times < 3; times++) {
				assert_int_equal(
					fixture_do(&fixture, &client, ask_reserve(ns, bytes)), 0);
				region =
					must_open(&client, ask_alloc(ns, "", bytes, false), &reply);
				assert_int_equal(region->length, bytes);
				assert_int_equal(fixture_do(&fixture, &client, ask_close(region)),
						 0);
				drop(reply);
			}
			if (round % 20 == 0)
				check_all(&fixture);
			assert_int_equal(fixture_do(&fixture, &client, ask_delete(name, true)), 0);
		}
	}
	check_empty(&fixture);
}

TEST_GROUP(manager_reserve)
{
	const struct CMUnitTest tests[] = {
		TEST(test_reserve_limits),
		TEST(test_reserve_up_to_the_limit),
		TEST(test_reserve_waits_for_memory_being_released),
		TEST(test_reserve_waits_for_a_deleted_namespace),
		TEST(test_reserve_goes_on_without_a_server_that_fails),
		TEST(test_reserve_beside_one_that_ends),
		TEST(test_reserve_answered_over_a_former_connection),
		TEST(test_reserve_repeated_joins_the_running_job),
		TEST(test_reserve_tells_who_does_not_answer),
		TEST(test_reserve_tells_who_does_not_release),
		TEST(test_reserve_undoes_itself),
		TEST(test_reserve_is_cancelled),
		TEST(test_reserve_that_nobody_hears_of),
		TEST(test_reserve_then_alloc_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
