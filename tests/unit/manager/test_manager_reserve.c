/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's reservations: who is asked, what becomes of them when servers fail or clients go, and who is told. */
#include <stdio.h>
#include <string.h>

#include "lib/manager/manager_test.h"
#include "unit/group.h"

/* Most tests begin with two sessions, and namespace "a". */
static struct fake_client client, other;
static uint64_t ns;

static int begin(void **state)
{
	setup(state);
	client_open(&fixture, &client);
	client_open(&fixture, &other);
	ns = make_namespace(&fixture, &client, "a");
	return 0;
}

#define RESERVE_TEST(name) cmocka_unit_test_setup_teardown(name, begin, teardown)

static void again(void **state)
{
	teardown(state);
	begin(state);
}

/* Sends a reservation, which is answered later if a server is silent. */
static void send_reserve(struct fake_client *who, uint64_t bytes, Afar__Reply **reply)
{
	fixture_send(&fixture, who, ++who->next_id, ask_reserve(ns, bytes), reply);
	fixture_pump(&fixture);
}

static void expect_reserved(uint64_t bytes)
{
	assert_int_equal(ns_of(ns)->reserved_bytes, bytes);
	check_all(&fixture);
}

/* Two servers have 8 MiB each. */
static const struct {
	const char *what;
	uint64_t bytes;
	int status;
	uint64_t reserved; /* of the namespace's, behind it */
} limits[] = {
	{"nothing", 0, -EINVAL, 0},
	{"more than an address can count", UINT64_MAX, -EINVAL, 0},
	{"half of that", UINT64_MAX / 2, -ENOSPC, 0},
	{"a byte more than there is", 16 * MIB + 1, -ENOSPC, 0},
	{"half of it", 8 * MIB, 0, 8 * MIB},
	{"the rest", 8 * MIB - 1, 0, 16 * MIB},
	{"a byte more", 1, -ENOSPC, 16 * MIB},
};

static void test_reserve_limits(void **state)
{
	(void)state;
	EXPECT(&client, ask_reserve(ns, 1), -AFAR_ENOSERVER);
	fixture_join(&fixture, 0, 8 * MIB);
	fixture_join(&fixture, 1, 8 * MIB);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		expect_case(limits[i].what, &client, ask_reserve(ns, limits[i].bytes),
			    limits[i].status, NULL);
		expect_reserved(limits[i].reserved);
		assert_int_equal(fixture.servers[0].granted, limits[i].reserved / 2);
		assert_int_equal(fixture.servers[1].granted, limits[i].reserved / 2);
	}
	EXPECT(&client, ask_release(ns, 0), -EINVAL);
	EXPECT(&client, ask_release(ns, UINT64_MAX), 0);
	expect_reserved(0);
	EXPECT(&client, ask_delete("a", false), 0);
	check_empty(&fixture);
}

/* The limit holds for reservations one after the other, and for those that are under way together. */
static void test_reserve_up_to_the_limit(void **state)
{
	Afar__Reply *first, *second;
	Afar__Request *request = ask_create("limited", 0, 64 << 10);

	(void)state;
	fixture_join(&fixture, 0, 64 * MIB);
	request->namespace_create->policy->max_bytes = 8 * MIB;
	ns = create_namespace(&fixture, &client, request);
	EXPECT(&client, ask_reserve(ns, 8 * MIB + 1), -EDQUOT);
	EXPECT(&client, ask_reserve(ns, 2 * MIB), 0);
	fixture.servers[0].is_silent = true;
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 4 * MIB), &first);
	send_reserve(&other, 4 * MIB, &second);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	assert_non_null(first);
	assert_non_null(second);
	assert_int_equal(first->status + second->status, -EDQUOT);
	drop(first);
	drop(second);
	assert_int_equal(ns_of(ns)->reserved_bytes, 6 * MIB);
	EXPECT(&client, ask_reserve(ns, 2 * MIB), 0);
	EXPECT(&client, ask_release(ns, 4 * MIB), 0);
	EXPECT(&client, ask_reserve(ns, 4 * MIB), 0);
	check_all(&fixture);
}

static void test_reserve_waits_for_memory_being_released(void **state)
{
	Afar__Reply *reply;

	(void)state;
	fixture_join(&fixture, 0, 8 * MIB);
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	fixture.servers[0].is_silent = true;
	EXPECT(&client, ask_release(ns, UINT64_MAX), 0);
	send_reserve(&client, 8 * MIB, &reply);
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
	Afar__Reply *reply;

	(void)state;
	fixture_join(&fixture, 0, 8 * MIB);
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	must_open(&client, ask_alloc(ns, "r", MIB, false), &reply);
	drop(reply);
	fixture.servers[0].is_silent = true;
	EXPECT(&client, ask_session_close(), 0);
	EXPECT(&other, ask_delete("a", true), 0);
	ns = make_namespace(&fixture, &other, "b");
	send_reserve(&other, 8 * MIB, &reply);
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
	(void)state;
	for (size_t i = 0; i < 3; i++)
		fixture_join(&fixture, i, 16 * MIB);
	fixture.servers[1].refuse = -ENOMEM;
	EXPECT(&client, ask_reserve(ns, 24 * MIB), 0);
	assert_int_equal(ns_of(ns)->reserved_bytes, 24 * MIB);
	assert_int_equal(fixture.servers[1].granted, 0);
	/* The others get back what they gave when it does not suffice. */
	EXPECT(&client, ask_reserve(ns, 18 * MIB), -ENOSPC);
	assert_int_equal(fixture.servers[0].granted + fixture.servers[2].granted, 24 * MIB);
	fixture.servers[1].refuse = -EIO;
	expect_said(&client, ask_reserve(ns, 18 * MIB), -AFAR_ESERVER,
		    "server 'server-1' at 127.0.0.1:7501 failed (EIO)");
	fixture.servers[1].refuse = 0;
	check_all(&fixture);
	/* One that lies must rejoin, and give back. */
	fixture.servers[1].does_grant_wrong = true;
	EXPECT(&client, ask_reserve(ns, 18 * MIB), -AFAR_ESERVER);
	assert_null(fixture.servers[1].peer);
	assert_true(fixture.servers[1].granted > 0);
	fixture.servers[1].does_grant_wrong = false;
	assert_int_equal(fixture_join(&fixture, 1, 16 * MIB), 0);
	assert_int_equal(fixture.servers[1].granted, 0);
	check_all(&fixture);
}

/* Bytes that one has got are counted once, while they are being committed as well: the last ones are another's in the same
 * batch. */
static void test_reserve_beside_one_that_ends(void **state)
{
	Afar__Reply *first, *second;

	(void)state;
	fixture_join(&fixture, 0, 12 * MIB);
	fixture.servers[0].is_silent = true;
	send_reserve(&client, 8 * MIB, &first);
	fixture.servers[0].is_silent = false;
	assert_true(fixture_serve(&fixture));
	send_reserve(&client, 4 * MIB, &second);
	assert_int_equal(first->status, 0);
	assert_int_equal(second->status, 0);
	drop(first);
	drop(second);
	assert_int_equal(ns_of(ns)->reserved_bytes, 12 * MIB);
	EXPECT(&client, ask_reserve(ns, 2 * MIB), -ENOSPC);
	check_all(&fixture);
}

/* The server has been reconciled meanwhile, and what it granted was given back; nor does it matter that it failed. */
static void test_reserve_answered_over_a_former_connection(void **state)
{
	struct event *answer;
	Afar__Reply *reply;

	(void)state;
	fixture_join(&fixture, 0, 64 * MIB);
	/* A server that holds nothing is forgotten when it goes. */
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	for (int is_lost = 0; is_lost < 2; is_lost++) {
		fixture.servers[0].is_silent = true;
		send_reserve(&client, 8 * MIB, &reply);
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
		expect_reserved(8 * MIB);
	}
	EXPECT(&client, ask_reserve(ns, 56 * MIB), 0);
	check_all(&fixture);
}

static void test_reserve_repeated_joins_the_running_job(void **state)
{
	Afar__Reply *first, *second, *third;

	(void)state;
	fixture_join(&fixture, 0, 64 * MIB);
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
	Afar__Reply *first, *second;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		fixture_join(&fixture, i, 64 * MIB);
	fixture.servers[1].is_silent = true;
	fixture.time_ns = 4000000000U;
	send_reserve(&client, 12 * MIB, &first);
	assert_true(core_next_run(fixture.core) <= fixture.now + 3000000000U);
	fixture_advance(&fixture, 2999);
	assert_null(first);
	fixture_advance(&fixture, 1);
	assert_non_null(first);
	assert_int_equal(first->status, -ETIMEDOUT);
	assert_non_null(strstr(first->message, "server 'server-1' at 127.0.0.1:7501 did not"));
	assert_non_null(strstr(first->message, "in 3 s; 8 of 12 MiB are granted so far"));
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
	Afar__Reply *answer;

	(void)state;
	fixture_join(&fixture, 0, 16 * MIB);
	EXPECT(&client, ask_reserve(ns, 16 * MIB), 0);
	fixture.servers[0].is_silent = true;
	EXPECT(&client, ask_release(ns, UINT64_MAX), 0);
	fixture.time_ns = 400000000U;
	send_reserve(&client, 8 * MIB, &answer);
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

/* ---- Undoing */

static void end_session(void)
{
	EXPECT(&client, ask_session_close(), 0);
}
static void delete_namespace(void)
{
	EXPECT(&other, ask_delete("a", false), 0);
}
static void lose_server(void)
{
	fixture_disconnect(&fixture, 1);
}
static void kill_server(void)
{
	fixture_kill(&fixture, 1);
}
static void kill_manager(void)
{
	fixture_restart(&fixture);
	assert_int_equal(client_resume(&fixture, &other), 0);
}

/* In the middle of a reservation, of which server 1 has granted its part. Without server 1, server 0 does it alone. */
static const struct {
	const char *what;
	void (*happens)(void);
	int status;
} ends[] = {
	{"its session ends", end_session, -AFAR_ESESSION},
	{"its namespace is deleted", delete_namespace, -ENOENT},
	{"a server loses its connection", lose_server, 0},
	{"a server restarts", kill_server, 0},
	{"the manager is killed, which loses its servers first", kill_manager, -ENOSPC},
};

static void test_reserve_undoes_itself(void **state)
{
	Afar__Reply *reply;

	for (size_t kind = 0; kind < sizeof(ends) / sizeof(ends[0]); kind++) {
		fixture_join(&fixture, 0, 64 * MIB);
		fixture_join(&fixture, 1, 64 * MIB);
		fixture.servers[0].is_silent = true;
		send_reserve(&client, 8 * MIB, &reply);
		assert_null(reply);
		assert_int_equal(fixture.servers[1].granted, 4 * MIB);
		ends[kind].happens();
		fixture.servers[0].is_silent = false;
		fixture_pump(&fixture);
		for (size_t i = 0; i < 2; i++)
			if (fixture.servers[i].peer == NULL)
				assert_int_equal(fixture_join(&fixture, i, 64 * MIB), 0);
		fixture_pump(&fixture);
		if (reply == NULL || reply->status != ends[kind].status)
			fail_msg("%s: %d, and not %d", ends[kind].what,
				 reply == NULL ? 1 : reply->status, ends[kind].status);
		drop(reply);
		check_all(&fixture);
		if (ns_of(ns) != NULL)
			EXPECT(&other, ask_delete("a", false), 0);
		check_empty(&fixture);
		again(state);
	}
}

/* The client hears at once; what other servers have granted, and what one still will, is given back. */
static void test_reserve_is_cancelled(void **state)
{
	Afar__Reply *first, *second, *others;

	(void)state;
	fixture_join(&fixture, 0, 64 * MIB);
	fixture_join(&fixture, 1, 64 * MIB);
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	EXPECT(&client, ask_cancel(ns), 0); /* it is done: it stays */
	fixture.servers[0].is_silent = true;
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &first);
	send_reserve(&other, 16 * MIB, &others);
	assert_int_equal(fixture.servers[1].granted, 16 * MIB);
	EXPECT(&client, ask_cancel(ns), 0);
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
	Afar__Reply *first, *second;

	for (int does_return = 0; does_return < 2; does_return++) {
		fixture_join(&fixture, 0, 64 * MIB);
		fixture.servers[0].is_silent = true;
		send_reserve(&client, 8 * MIB, &first);
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
		EXPECT(&other, ask_delete("a", false), 0);
		check_empty(&fixture);
		again(state);
	}
}

static void test_reserve_then_alloc_the_same(void **state)
{
	Afar__RegionInfo *region;
	Afar__Reply *reply;
	char name[32];

	(void)state;
	client_open(&fixture, &client);
	for (size_t nr_servers = 1; nr_servers <= 5; nr_servers++) {
		fixture_join(&fixture, nr_servers - 1, (uint64_t)4 << 30);
		for (int round = 0; round < 200; round++) {
			uint64_t bytes = 1 + random_below((uint64_t)1 << (1 + random_below(30)));

			snprintf(name, sizeof(name), "n%zu-%d", nr_servers, round);
			reply = fixture_ask(&fixture, &client,
					    ask_create(name, (uint32_t)random_below(7),
						       (uint64_t)4096 << random_below(12)));
			ns = reply->namespace_info->namespace_;
			drop(reply);
			for (int times = 0; times < 3; times++) {
				EXPECT(&client, ask_reserve(ns, bytes), 0);
				region =
					must_open(&client, ask_alloc(ns, "", bytes, false), &reply);
				assert_int_equal(region->length, bytes);
				EXPECT(&client, ask_close(region), 0);
				drop(reply);
			}
			if (round % 20 == 0)
				check_all(&fixture);
			EXPECT(&client, ask_delete(name, true), 0);
		}
	}
	check_empty(&fixture);
}

TEST_GROUP(manager_reserve)
{
	const struct CMUnitTest tests[] = {
		RESERVE_TEST(test_reserve_limits),
		RESERVE_TEST(test_reserve_up_to_the_limit),
		RESERVE_TEST(test_reserve_waits_for_memory_being_released),
		RESERVE_TEST(test_reserve_waits_for_a_deleted_namespace),
		RESERVE_TEST(test_reserve_goes_on_without_a_server_that_fails),
		RESERVE_TEST(test_reserve_beside_one_that_ends),
		RESERVE_TEST(test_reserve_answered_over_a_former_connection),
		RESERVE_TEST(test_reserve_repeated_joins_the_running_job),
		RESERVE_TEST(test_reserve_tells_who_does_not_answer),
		RESERVE_TEST(test_reserve_tells_who_does_not_release),
		RESERVE_TEST(test_reserve_undoes_itself),
		RESERVE_TEST(test_reserve_is_cancelled),
		RESERVE_TEST(test_reserve_that_nobody_hears_of),
		TEST(test_reserve_then_alloc_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
