/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's limits of what may be reserved, for a namespace and for all that a principal owns. Tests who sets
 * them, whom they stop, and reservations that are under way together. */
#include <string.h>

#include "lib/manager/manager_test.h"
#include "unit/group.h"

/* Each test begins so: alice owns two namespaces, and may have 8 MiB. */
static struct fake_client admin, alice, bob;
static uint64_t first, second;

static int begin(void **state)
{
	setup(state);
	client_open(&fixture, &admin);
	EXPECT(&admin, ask_key_add("alice", false), 0);
	EXPECT(&admin, ask_key_add("bob", false), 0);
	EXPECT(&admin, ask_key_limit("alice", 8 * MIB), 0);
	client_open_as(&fixture, &alice, "alice");
	client_open_as(&fixture, &bob, "bob");
	fixture_join(&fixture, 0, 64 * MIB);
	first = make_namespace(&fixture, &alice, "first");
	second = make_namespace(&fixture, &alice, "second");
	return 0;
}

#define QUOTA_TEST(name) cmocka_unit_test_setup_teardown(name, begin, teardown)

static const struct principal *key_of(const char *name)
{
	return state_principal_named(fixture.core->state, name);
}

/* Both namespaces have so much together, and the server has granted no more. */
static void expect_reserved(uint64_t bytes)
{
	assert_int_equal(ns_of(first)->reserved_bytes + ns_of(second)->reserved_bytes, bytes);
	assert_int_equal(key_of("alice")->reserved_bytes, bytes);
	assert_int_equal(fixture.servers[0].granted, bytes);
	check_all(&fixture);
}

static void restart(void)
{
	fixture_restart(&fixture);
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(client_resume(&fixture, &admin), 0);
	assert_int_equal(client_resume(&fixture, &alice), 0);
	assert_int_equal(client_resume(&fixture, &bob), 0);
}

static void test_all_that_one_owns(void **state)
{
	uint64_t others;

	(void)state;
	EXPECT(&alice, ask_reserve(first, 6 * MIB), 0);
	expect_said(&alice, ask_reserve(second, 4 * MIB), -EDQUOT,
		    "reserve 4 MiB for 'second': the limit of its owner 'alice' is 8 MiB, and all "
		    "that 'alice' owns has 6 MiB");
	/* Whoever asks. */
	expect_said(&admin, ask_reserve(second, 4 * MIB), -EDQUOT, "owner 'alice' is 8 MiB");
	EXPECT(&alice, ask_reserve(second, 2 * MIB), 0);
	EXPECT(&alice, ask_reserve(first, 1), -EDQUOT);
	expect_reserved(8 * MIB);
	/* A key without a limit, and an operator, have none. */
	others = make_namespace(&fixture, &bob, "bobs");
	EXPECT(&bob, ask_reserve(others, 20 * MIB), 0);
	EXPECT(&admin, ask_reserve(make_namespace(&fixture, &admin, "admins"), 20 * MIB), 0);
	EXPECT(&bob, ask_release(others, UINT64_MAX), 0);
	EXPECT(&admin, ask_delete("admins", false), 0);
	restart();
	EXPECT(&alice, ask_reserve(first, 1), -EDQUOT);
	/* Bytes that are released or removed can be had again. */
	EXPECT(&alice, ask_release(first, 2 * MIB), 0);
	EXPECT(&alice, ask_reserve(second, 2 * MIB), 0);
	EXPECT(&alice, ask_delete("first", false), 0);
	first = make_namespace(&fixture, &alice, "first");
	EXPECT(&alice, ask_reserve(first, 4 * MIB), 0);
	expect_reserved(8 * MIB);
}

/* A limit below what is reserved takes nothing away, and lets nothing grow. */
static void test_limits_change(void **state)
{
	(void)state;
	EXPECT(&alice, ask_reserve(first, 8 * MIB), 0);
	EXPECT(&admin, ask_key_limit("alice", 2 * MIB), 0);
	expect_reserved(8 * MIB);
	EXPECT(&alice, ask_reserve(first, 2 * MIB), -EDQUOT);
	EXPECT(&alice, ask_release(first, 4 * MIB), 0);
	EXPECT(&alice, ask_reserve(first, 2 * MIB), -EDQUOT);
	EXPECT(&alice, ask_alloc(first, "r", MIB, false), 0);
	/* Nothing has changed when it could not be committed. */
	fixture.store.fail_at = 1;
	EXPECT(&admin, ask_key_limit("alice", 0), -ENOSPC);
	fixture_advance(&fixture, 2000);
	assert_int_equal(key_of("alice")->max_bytes, 2 * MIB);
	restart();
	assert_int_equal(key_of("alice")->max_bytes, 2 * MIB);
	EXPECT(&admin, ask_key_limit("alice", 0), 0);
	EXPECT(&alice, ask_reserve(first, 16 * MIB), 0);
	expect_reserved(20 * MIB);
	restart();
	assert_int_equal(key_of("alice")->max_bytes, 0);
}

static void test_limit_of_a_namespace(void **state)
{
	Afar__Reply *reply;

	(void)state;
	EXPECT(&admin, ask_key_limit("alice", 0), 0);
	EXPECT(&alice, ask_limit(first, 4 * MIB), 0);
	expect_said(&alice, ask_reserve(first, 6 * MIB), -EDQUOT,
		    "'first': its limit is 4 MiB, and it has 0 MiB");
	EXPECT(&alice, ask_reserve(first, 4 * MIB), 0);
	EXPECT(&alice, ask_reserve(second, 6 * MIB), 0);
	EXPECT(&admin, ask_limit(first, 2 * MIB), 0);
	restart();
	expect_said(&alice, ask_reserve(first, 1), -EDQUOT, "its limit is 2 MiB, and it has 4 MiB");
	reply = must(&alice, ask_namespace("first"));
	assert_int_equal(reply->namespace_info->policy->max_bytes, 2 * MIB);
	drop(reply);
	/* Raised by whoever owns it, but not beyond what that one may have. */
	EXPECT(&alice, ask_limit(first, 0), 0);
	EXPECT(&admin, ask_key_limit("alice", 12 * MIB), 0);
	EXPECT(&alice, ask_reserve(first, 4 * MIB), -EDQUOT);
	EXPECT(&alice, ask_reserve(first, 2 * MIB), 0);
	expect_reserved(12 * MIB);
}

static const struct {
	const char *what, *name;
	int status;
	const char *said;
} names[] = {
	{"nobody", "nobody", -ENOENT, "'nobody': there is none; see 'afar key ls'"},
	{"no name", "", -ENOENT, NULL},
	{"too long a name", "123456789012345678901234567890123", -ENOENT, NULL},
	{"an operator", "admin", -EINVAL, "it is an operator's, which has no limit"},
	{"a file's server", "server", -EINVAL, "it is a server's"},
	{"another server", "rack", -EINVAL, "it is a server's"},
	{"a client", "bob", 0, NULL},
};

static void test_who_may_limit_whom(void **state)
{
	(void)state;
	EXPECT(&admin, ask_key_add("rack", true), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		expect_case(names[i].what, &admin, ask_key_limit(names[i].name, 4 * MIB),
			    names[i].status, names[i].said);
	expect_said(&alice, ask_key_limit("alice", 0), -EACCES,
		    "limit key 'alice': only operators may");
	expect_said(&alice, ask_key_limit("bob", MIB), -EACCES, "only operators may");
	EXPECT(&bob, ask_limit(first, 0), -ENOENT);
	EXPECT(&alice, ask_grant(first, "bob", RIGHT_ALL), 0);
	expect_said(&bob, ask_limit(first, 0), -EACCES, "'bob' does not own namespace 'first'");
	EXPECT(&admin, ask_limit(12345, 0), -ENOENT);
	assert_int_equal(key_of("alice")->max_bytes, 8 * MIB);
	assert_int_equal(key_of("bob")->max_bytes, 4 * MIB);
	check_all(&fixture);
}

/* The owner of a namespace is told of the limit, and operators are; others who may use it are
 * not. */
static void test_who_is_told(void **state)
{
	struct fake_client *const clients[] = {&alice, &admin, &bob};
	const Afar__KeyInfo *info;
	Afar__Reply *reply;

	(void)state;
	EXPECT(&alice, ask_reserve(second, 2 * MIB), 0);
	EXPECT(&alice, ask_grant(first, "bob", RIGHT_ALL), 0);
	for (size_t i = 0; i < 3; i++) {
		reply = must(clients[i], ask_namespace("first"));
		assert_int_equal(reply->namespace_info->owner_max_bytes, i < 2 ? 8 * MIB : 0);
		assert_int_equal(reply->namespace_info->owner_reserved_bytes, i < 2 ? 2 * MIB : 0);
		drop(reply);
	}
	reply = must(&admin, ask_key_list());
	assert_int_equal(reply->key_infos->n_entries, 4);
	info = reply->key_infos->entries[1];
	assert_string_equal(info->name, "alice");
	assert_int_equal(info->max_bytes, 8 * MIB);
	assert_int_equal(info->reserved_bytes, 2 * MIB);
	drop(reply);
	/* A name that is given again has what it owns, and no limit. */
	EXPECT(&admin, ask_key_revoke("alice"), 0);
	EXPECT(&admin, ask_reserve(second, 8 * MIB), 0);
	EXPECT(&admin, ask_key_add("alice", false), 0);
	assert_int_equal(key_of("alice")->max_bytes, 0);
	expect_reserved(10 * MIB);
}

/* ---- Together */

static Afar__Reply *replies[4];

/* Sends reservations, 4 MiB each, by turns for the one namespace and the other, while the server keeps what
 * it is asked. */
static void send_four(void)
{
	fixture.servers[0].is_silent = true;
	for (size_t i = 0; i < 4; i++) {
		fixture_send(&fixture, &alice, ++alice.next_id,
			     ask_reserve(i % 2 == 0 ? first : second, 4 * MIB), &replies[i]);
		fixture_pump(&fixture);
		assert_null(replies[i]);
	}
}

/* So much is asked of the server, or granted and in no table yet. */
static void expect_asked(uint64_t bytes)
{
	assert_int_equal(core_live_server(fixture.core, fixture.servers[0].number)->pending_bytes,
			 bytes);
}

static void let_server_answer(void)
{
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
}

static void test_those_under_way_together(void **state)
{
	static const int statuses[] = {0, 0, -EDQUOT, -EDQUOT};

	(void)state;
	send_four();
	/* Its server was asked for no more than the limit allows. */
	expect_asked(8 * MIB);
	let_server_answer();
	for (size_t i = 0; i < 4; i++)
		expect_answer(replies[i], statuses[i], NULL);
	expect_reserved(8 * MIB);
}

/* A namespace's limit likewise, also of one whose owner has none. */
static void test_those_for_one_namespace(void **state)
{
	(void)state;
	EXPECT(&admin, ask_key_limit("alice", 0), 0);
	EXPECT(&admin, ask_limit(first, 4 * MIB), 0);
	send_four();
	expect_asked(12 * MIB); /* the third waits for the first */
	let_server_answer();
	for (size_t i = 0; i < 4; i++)
		expect_answer(replies[i], i == 2 ? -EDQUOT : 0, NULL);
	expect_reserved(12 * MIB);
}

/* Those behind get what those before them do not, in the order in which they came. */
static void test_those_behind_one_that_fails(void **state)
{
	static const int statuses[] = {-ECANCELED, 0, -ECANCELED, 0};

	(void)state;
	send_four();
	EXPECT(&alice, ask_cancel(first), 0);
	/* A server may still populate what was cancelled. */
	expect_asked(8 * MIB);
	let_server_answer();
	for (size_t i = 0; i < 4; i++)
		expect_answer(replies[i], statuses[i], NULL);
	expect_reserved(8 * MIB);
}

/* The limit is lowered while servers populate memory: they get it back. */
static void test_lowered_meanwhile(void **state)
{
	(void)state;
	send_four();
	EXPECT(&admin, ask_key_limit("alice", 4 * MIB), 0);
	let_server_answer();
	for (size_t i = 0; i < 4; i++)
		expect_answer(replies[i], i == 0 ? 0 : -EDQUOT, NULL);
	expect_reserved(4 * MIB);
}

/* A client that waits for others' reservations is told so in time, and not that a server is
 * slow. */
static void test_waiting_is_told(void **state)
{
	Afar__Reply *waiting;

	(void)state;
	send_four();
	fixture.time_ns = 400000000U;
	fixture_send(&fixture, &alice, ++alice.next_id, ask_reserve(first, 2 * MIB), &waiting);
	fixture_pump(&fixture);
	fixture_advance(&fixture, 300);
	expect_answer(waiting, -ETIMEDOUT, "reservations that began before it have not ended");
	let_server_answer();
	for (size_t i = 0; i < 4; i++)
		expect_answer(replies[i], i < 2 ? 0 : -EDQUOT, NULL);
	expect_reserved(8 * MIB);
}

/* Sealing copies into memory of its own, which the owner's limit counts, too. */
static void test_sealing(void **state)
{
	Afar__RegionInfo *region;
	Afar__Reply *reply;

	(void)state;
	EXPECT(&alice, ask_reserve(first, 8 * MIB), 0);
	region = must_open(&alice, ask_alloc(first, "r", 3 * MIB, false), &reply);
	expect_said(&alice, ask_seal(region), -EDQUOT,
		    "seal the region at 0x1000: reserve 4 MiB for 'first': the limit of "
		    "its owner 'alice' is 8 MiB");
	expect_reserved(8 * MIB);
	EXPECT(&admin, ask_key_limit("alice", 12 * MIB), 0);
	EXPECT(&alice, ask_seal(region), 0);
	expect_reserved(12 * MIB);
	drop(reply);
}

TEST_GROUP(manager_quota)
{
	const struct CMUnitTest tests[] = {
		QUOTA_TEST(test_all_that_one_owns),
		QUOTA_TEST(test_limits_change),
		QUOTA_TEST(test_limit_of_a_namespace),
		QUOTA_TEST(test_who_may_limit_whom),
		QUOTA_TEST(test_who_is_told),
		QUOTA_TEST(test_those_under_way_together),
		QUOTA_TEST(test_those_for_one_namespace),
		QUOTA_TEST(test_those_behind_one_that_fails),
		QUOTA_TEST(test_lowered_meanwhile),
		QUOTA_TEST(test_waiting_is_told),
		QUOTA_TEST(test_sealing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
