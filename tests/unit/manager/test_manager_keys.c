/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's principals: which calls are for whom, how keys are added and revoked, and what becomes
 * of their sessions. */
#include <string.h>

#include "lib/manager/manager_test.h"
#include "unit/group.h"

/* Each test begins with this session. */
static struct fake_client admin;

static int begin(void **state)
{
	setup(state);
	return client_open(&fixture, &admin);
}

#define KEYS_TEST(name) cmocka_unit_test_setup_teardown(name, begin, teardown)

static Afar__Request *ask_ping(void)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);

	request->call_case = AFAR__REQUEST__CALL_PING;
	request->ping = MESSAGE_NEW(afar__ping, Afar__Ping);
	return request;
}

static Afar__Request *ask_report(void)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);

	request->call_case = AFAR__REQUEST__CALL_SERVER_REPORT;
	request->server_report = MESSAGE_NEW(afar__server_report, Afar__ServerReport);
	return request;
}

static bool has_key(const char *name)
{
	uint8_t secret[KEY_BYTES];

	return keyring_find(fixture.keyring, name, secret);
}

static void add(const char *name, bool is_server, uint8_t secret[KEY_BYTES])
{
	Afar__Reply *reply = must(&admin, ask_key_add(name, is_server));

	assert_string_equal(reply->key_added->name, name);
	assert_int_equal(reply->key_added->secret.len, KEY_BYTES);
	if (secret != NULL)
		memcpy(secret, reply->key_added->secret.data, KEY_BYTES);
	drop(reply);
}

static void test_calls_are_for_kinds(void **state)
{
	struct fake_client alice, server = {.principal = "server"};
	struct fake_server *fake = &fixture.servers[0];

	(void)state;
	add("alice", false, NULL);
	assert_int_equal(client_open_as(&fixture, &alice, "alice"), 0);
	EXPECT(&alice, ask_create("a", 0, 0), 0);
	EXPECT(&alice, ask_ping(), 0);
	expect_said(&alice, ask_report(), -EACCES, "'alice' has the key of a client");
	expect_said(&alice, ask_key_add("bob", false), -EACCES, "'alice' is no operator");
	EXPECT(&alice, ask_key_list(), -EACCES);
	EXPECT(&alice, ask_key_revoke("alice"), -EACCES);
	/* With a client's key nobody joins, nor with an operator's. */
	fake->principal = "alice";
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), -EACCES);
	fake->principal = "admin";
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), -EACCES);
	fake->principal = NULL;
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	/* With a server's nobody opens sessions or asks anything. */
	server.peer = fake->peer;
	EXPECT(&server, ask_ping(), 0);
	EXPECT(&server, ask_report(), 0);
	expect_said(&server, ask_status(), -EACCES, "join key");
	EXPECT(&server, ask_key_add("bob", false), -EACCES);
	assert_int_equal(client_open_as(&fixture, &server, "server"), -EACCES);
	assert_int_equal(client_open_as(&fixture, &server, "stranger"), -AFAR_EAUTH);
	check_all(&fixture);
}

static const struct {
	const char *what, *name;
	bool is_server;
	int status;
} names[] = {
	{"no name", "", false, -EINVAL},
	{"a space", "a b", false, -EINVAL},
	{"a slash", "pass/1/2", false, -EINVAL},
	{"a colon", "a:b", false, -EINVAL},
	{"33 bytes", "123456789012345678901234567890123", false, -EINVAL},
	{"32 bytes", "12345678901234567890123456789012", false, 0},
	{"all that is allowed", "Alice.B_c@d-e", false, 0},
	{"a client's, for a server", "Alice.B_c@d-e", true, -EEXIST},
	{"the operator's, of a file", "admin", false, -EEXIST},
	{"the servers', of a file", "server", true, -EEXIST},
};

static void test_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		expect_case(names[i].what, &admin, ask_key_add(names[i].name, names[i].is_server),
			    names[i].status, names[i].status == -EEXIST ? "has one" : NULL);
	expect_said(&admin, ask_key_revoke("admin"), -EINVAL, "operator's key");
	expect_said(&admin, ask_key_revoke("server"), -EINVAL, "server.key");
	EXPECT(&admin, ask_key_revoke("nobody"), -ENOENT);
	EXPECT(&admin, ask_key_revoke(""), -ENOENT);
	check_all(&fixture);
}

/* A call that comes again answers the same secret, in one batch, later, and after a restart; until it is
 * settled. */
static void test_addition_is_done_once(void **state)
{
	uint8_t secret[KEY_BYTES] = {0}, other[KEY_BYTES];
	Afar__Reply *first, *second;
	uint64_t id;

	(void)state;
	id = ++admin.next_id;
	fixture_send(&fixture, &admin, id, ask_key_add("alice", false), &first);
	fixture_send(&fixture, &admin, id, ask_key_add("alice", false), &second);
	fixture_pump(&fixture);
	assert_int_equal(first->status, 0);
	assert_int_equal(second->status, 0);
	memcpy(secret, first->key_added->secret.data, KEY_BYTES);
	assert_memory_equal(second->key_added->secret.data, secret, KEY_BYTES);
	drop(first);
	drop(second);
	fixture_restart(&fixture);
	assert_int_equal(client_resume(&fixture, &admin), 0);
	fixture_send(&fixture, &admin, id, ask_key_add("alice", false), &first);
	fixture_pump(&fixture);
	assert_memory_equal(first->key_added->secret.data, secret, KEY_BYTES);
	drop(first);
	assert_true(keyring_find(fixture.keyring, "alice", other));
	assert_memory_equal(other, secret, KEY_BYTES);
	add("bob", false, other);
	assert_memory_not_equal(other, secret, KEY_BYTES);
	assert_int_equal(fixture.core->state->nr_principals, 2);
	check_all(&fixture);
	fixture_send(&fixture, &admin, id, ask_key_add("alice", false), &first);
	fixture_pump(&fixture);
	assert_int_equal(first->status, -EINVAL);
	drop(first);
}

/* The list has them in this order. */
static const struct {
	const char *name;
	bool is_operator, is_server;
	uint32_t nr_sessions;
} listed[] = {
	{"admin", true, false, 1},  {"alice", false, false, 2},
	{"rack", false, true, 1}, /* one more has lost its connection */
	{"server", false, true, 1}, {"zoe", false, false, 0},
};

static void test_list(void **state)
{
	struct fake_client alice[2];
	Afar__Reply *reply;

	(void)state;
	add("zoe", false, NULL);
	add("alice", false, NULL);
	add("rack", true, NULL);
	client_open_as(&fixture, &alice[0], "alice");
	client_open_as(&fixture, &alice[1], "alice");
	for (size_t i = 0; i < 3; i++) {
		fixture.servers[i].principal = i == 0 ? NULL : "rack";
		assert_int_equal(fixture_join(&fixture, i, 64 * MIB), 0);
	}
	fixture_disconnect(&fixture, 2);
	reply = must(&admin, ask_key_list());
	assert_int_equal(reply->key_infos->n_entries, sizeof(listed) / sizeof(listed[0]));
	for (size_t i = 0; i < sizeof(listed) / sizeof(listed[0]); i++) {
		const Afar__KeyInfo *info = reply->key_infos->entries[i];

		assert_string_equal(info->name, listed[i].name);
		if (info->is_operator != listed[i].is_operator ||
		    info->is_server != listed[i].is_server ||
		    info->nr_sessions != listed[i].nr_sessions)
			fail_msg("%s: %d %d %u", info->name, info->is_operator, info->is_server,
				 info->nr_sessions);
	}
	drop(reply);
}

/* A revoked principal's sessions end, wherever they are, and are fenced; its connections are closed. */
static void test_revocation_ends_sessions(void **state)
{
	struct fake_client there, away, bob;
	Afar__RegionInfo *region;
	Afar__Reply *reply, *status;
	uint8_t secret[KEY_BYTES];
	uint64_t ns;

	(void)state;
	fixture_join(&fixture, 0, 64 * MIB);
	add("alice", false, NULL);
	add("bob", false, NULL);
	client_open_as(&fixture, &there, "alice");
	client_open_as(&fixture, &away, "alice");
	client_open_as(&fixture, &bob, "bob");
	ns = make_namespace(&fixture, &there, "a");
	EXPECT(&there, ask_reserve(ns, 8 * MIB), 0);
	region = must_open(&there, ask_alloc(ns, "r", MIB, false), &reply);
	EXPECT(&away, ask_open(ns, "r", 0), 0);
	EXPECT(&away, ask_free(region), 0);
	drop(reply);
	client_lose(&fixture, &away);

	fixture.servers[0].is_silent = true;
	EXPECT(&admin, ask_key_revoke("alice"), 0);
	assert_false(keyring_find(fixture.keyring, "alice", secret));
	EXPECT(&there, ask_status(), -AFAR_EAUTH);
	there.principal = "alice"; /* as if its handshake was just before */
	assert_int_equal(client_resume(&fixture, &there), -AFAR_EAUTH);
	assert_int_equal(ns_of(ns)->allocated_bytes, MIB);
	status = must(&admin, ask_status());
	assert_int_equal(status->cluster_status->n_sessions, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(status->cluster_status->sessions[i]->is_ending,
				 strcmp(status->cluster_status->sessions[i]->principal, "alice") ==
					 0);
	drop(status);
	check_all(&fixture);
	/* The manager restarts before the server has answered. */
	fixture_restart(&fixture);
	assert_false(has_key("alice"));
	assert_true(has_key("bob"));
	assert_int_equal(client_resume(&fixture, &admin), 0);
	assert_int_equal(ns_of(ns)->allocated_bytes, MIB);
	fixture.servers[0].is_silent = false;
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(fixture.servers[0].nr_session_ends, 2);
	assert_int_equal(ns_of(ns)->allocated_bytes, 0);
	assert_true(cds_list_empty(&fixture.core->state->ending));
	/* Others are not touched; whose namespace it was, it is. */
	assert_int_equal(client_resume(&fixture, &bob), 0);
	EXPECT(&bob, ask_status(), 0);
	reply = must(&admin, ask_namespace("a"));
	assert_string_equal(reply->namespace_info->owner, "alice");
	drop(reply);
	EXPECT(&admin, ask_delete("a", true), 0);
	check_empty(&fixture);
}

/* Its name can be given again, and has what the name has; connections of before do not have the name. */
static void test_name_is_given_again(void **state)
{
	uint8_t old[KEY_BYTES], new[KEY_BYTES];
	struct fake_client before, alice;
	Afar__Reply *revoked, *reply, *late;
	uint64_t ns;

	(void)state;
	add("alice", false, old);
	client_open_as(&fixture, &before, "alice");
	ns = make_namespace(&fixture, &before, "a");
	for (int times = 0; times < 2; times++) {
		/* Later, or in the same batch. */
		fixture_send(&fixture, &admin, ++admin.next_id, ask_key_revoke("alice"), &revoked);
		if (times == 0)
			fixture_pump(&fixture);
		fixture_send(&fixture, &admin, ++admin.next_id, ask_key_add("alice", false),
			     &reply);
		fixture_send(&fixture, &before, ++before.next_id, ask_status(), &late);
		fixture_pump(&fixture);
		assert_int_equal(revoked->status, 0);
		assert_int_equal(reply->status, 0);
		assert_int_equal(late->status, -AFAR_EAUTH);
		drop(revoked);
		drop(late);
		memcpy(new, reply->key_added->secret.data, KEY_BYTES);
		drop(reply);
		assert_memory_not_equal(old, new, KEY_BYTES);
		assert_true(keyring_find(fixture.keyring, "alice", old));
		assert_memory_equal(old, new, KEY_BYTES);
		EXPECT(&before, ask_status(), -AFAR_EAUTH);
		assert_int_equal(client_open_as(&fixture, &alice, "alice"), 0);
		EXPECT(&alice, ask_reserve(ns, 1), -AFAR_ENOSERVER);
		before = alice;
		check_all(&fixture);
	}
	/* And when the batch fails, nothing is done. */
	fixture.store.fail_at = 1;
	fixture_send(&fixture, &admin, ++admin.next_id, ask_key_revoke("alice"), &revoked);
	fixture_send(&fixture, &admin, ++admin.next_id, ask_key_add("alice", false), &reply);
	fixture_pump(&fixture);
	assert_int_equal(revoked->status, -ENOSPC);
	assert_int_equal(reply->status, -EEXIST);
	drop(revoked);
	drop(reply);
	assert_true(keyring_find(fixture.keyring, "alice", new));
	assert_memory_equal(old, new, KEY_BYTES);
	check_all(&fixture);
}

/* A server's: its connections are closed, what it holds stays, and it comes back with another key of its name. */
static void test_revocation_of_a_server(void **state)
{
	uint64_t ns;

	(void)state;
	add("rack", true, NULL);
	fixture.servers[0].principal = "rack";
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	assert_int_equal(fixture_join(&fixture, 1, 64 * MIB), 0);
	ns = make_namespace(&fixture, &admin, "a");
	EXPECT(&admin, ask_reserve(ns, 8 * MIB), 0);
	EXPECT(&admin, ask_key_revoke("rack"), 0);
	assert_null(fixture.servers[0].peer);
	assert_non_null(fixture.servers[1].peer);
	assert_int_equal(ns_of(ns)->reserved_bytes, 8 * MIB);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), -AFAR_EAUTH);
	add("rack", true, NULL);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	assert_int_equal(ns_of(ns)->reserved_bytes, 8 * MIB);
	EXPECT(&admin, ask_alloc(ns, "", 8 * MIB, false), 0);
	check_all(&fixture);
}

/* While it runs it proves by its signing key which one it is, so it can come with another key, and its memory stays. */
static void test_another_key_of_a_server(void **state)
{
	uint64_t ns;

	(void)state;
	add("rack", true, NULL);
	add("rack-2", true, NULL);
	fixture.servers[0].principal = "rack";
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	ns = make_namespace(&fixture, &admin, "a");
	EXPECT(&admin, ask_reserve(ns, 8 * MIB), 0);
	fixture.servers[0].principal = "rack-2";
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	EXPECT(&admin, ask_key_revoke("rack"), 0);
	assert_non_null(fixture.servers[0].peer);
	assert_int_equal(ns_of(ns)->reserved_bytes, 8 * MIB);
	check_all(&fixture);
	/* Its place is the new key's, and nobody else's who comes from another start. */
	add("rack", true, NULL);
	fixture_kill(&fixture, 0);
	fixture.servers[0].principal = "rack";
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), -EACCES);
	fixture.servers[0].principal = "rack-2";
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	check_all(&fixture);
}

static void test_failed_commits(void **state)
{
	uint8_t secret[KEY_BYTES];
	struct fake_client alice;

	(void)state;
	fixture.store.fail_at = 1;
	EXPECT(&admin, ask_key_add("alice", false), -ENOSPC);
	assert_false(has_key("alice"));
	fixture_advance(&fixture, 2000);
	add("alice", false, secret);
	client_open_as(&fixture, &alice, "alice");
	EXPECT(&alice, ask_create("a", 0, 0), 0);
	/* Not revoked: its key is good, and its session comes back. */
	fixture.store.fail_at = 1;
	EXPECT(&admin, ask_key_revoke("alice"), -ENOSPC);
	assert_true(has_key("alice"));
	assert_int_equal(client_resume(&fixture, &alice), 0);
	EXPECT(&alice, ask_namespace("a"), 0);
	check_all(&fixture);
	EXPECT(&admin, ask_key_revoke("alice"), 0);
	assert_false(has_key("alice"));
	assert_int_equal(client_resume(&fixture, &alice), -AFAR_EAUTH);
	check_all(&fixture);
}

/* Revoked and used in one batch: what comes behind the revocation has no principal. */
static void test_requests_behind_a_revocation(void **state)
{
	Afar__Reply *before, *revoked, *behind, *reading;
	struct fake_client alice;

	(void)state;
	add("alice", false, NULL);
	client_open_as(&fixture, &alice, "alice");
	fixture_send(&fixture, &alice, 10, ask_create("a", 0, 0), &before);
	fixture_send(&fixture, &alice, 11, ask_status(), &reading);
	fixture_send(&fixture, &admin, ++admin.next_id, ask_key_revoke("alice"), &revoked);
	fixture_send(&fixture, &alice, 12, ask_create("b", 0, 0), &behind);
	fixture_pump(&fixture);
	assert_int_equal(before->status, 0);
	assert_int_equal(revoked->status, 0);
	assert_int_equal(behind->status, -AFAR_EAUTH);
	assert_int_equal(reading->status, -AFAR_EAUTH);
	drop(before);
	drop(revoked);
	drop(behind);
	drop(reading);
	check_all(&fixture);
}

static void test_session_belongs_to_its_principal(void **state)
{
	struct fake_client alice, thief;
	Afar__Reply *reply;

	(void)state;
	add("alice", false, NULL);
	add("mallory", false, NULL);
	client_open_as(&fixture, &alice, "alice");
	/* Number and secret do not suffice, not even for an operator. */
	thief = alice;
	thief.principal = "mallory";
	assert_int_equal(client_resume(&fixture, &thief), -AFAR_ESESSION);
	thief.principal = "admin";
	assert_int_equal(client_resume(&fixture, &thief), -AFAR_ESESSION);
	fixture_restart(&fixture);
	thief.principal = "mallory";
	assert_int_equal(client_resume(&fixture, &thief), -AFAR_ESESSION);
	assert_int_equal(client_resume(&fixture, &alice), 0);
	/* Each sees its own sessions; an operator all. */
	reply = must(&alice, ask_status());
	assert_int_equal(reply->cluster_status->n_sessions, 1);
	assert_string_equal(reply->cluster_status->sessions[0]->principal, "alice");
	assert_true(reply->cluster_status->sessions[0]->is_connected);
	drop(reply);
	assert_int_equal(client_resume(&fixture, &admin), 0);
	reply = must(&admin, ask_status());
	assert_int_equal(reply->cluster_status->n_sessions, 2);
	drop(reply);
}

TEST_GROUP(manager_keys)
{
	const struct CMUnitTest tests[] = {
		KEYS_TEST(test_calls_are_for_kinds),
		KEYS_TEST(test_names),
		KEYS_TEST(test_addition_is_done_once),
		KEYS_TEST(test_list),
		KEYS_TEST(test_revocation_ends_sessions),
		KEYS_TEST(test_name_is_given_again),
		KEYS_TEST(test_revocation_of_a_server),
		KEYS_TEST(test_another_key_of_a_server),
		KEYS_TEST(test_failed_commits),
		KEYS_TEST(test_requests_behind_a_revocation),
		KEYS_TEST(test_session_belongs_to_its_principal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
