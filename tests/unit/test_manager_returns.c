/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's core after a start: who comes back, who may not, and what waits for whom. */
#include "group.h"
#include "manager_test.h"

/* A cluster with a server, a namespace and 16 MiB reserved, whose manager has just restarted. */
static uint64_t restarted(struct fake_client *client)
{
	uint64_t ns;

	client_open(&fixture, client);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, client, "a");
	assert_int_equal(fixture_do(&fixture, client, ask_reserve(ns, 16 * MIB)), 0);
	fixture_restart(&fixture);
	client_resume(&fixture, client);
	return ns;
}

static void expect_status(Afar__Reply *reply, int status)
{
	if (reply == NULL)
		fail_msg("there is no answer");
	else
		assert_int_equal(reply->status, status);
	afar__reply__free_unpacked(reply, NULL);
}

static void test_alloc_and_reserve_wait_for_servers(void **state)
{
	Afar__Reply *alloc = NULL, *reserve = NULL;
	struct fake_client client;
	uint64_t ns = restarted(&client);

	(void)state;
	fixture_send(&fixture, &client, 101, ask_alloc(ns, "r", 8 * MIB, false), &alloc);
	fixture_send(&fixture, &client, 102, ask_reserve(ns, 8 * MIB), &reserve);
	fixture_pump(&fixture);
	assert_null(alloc);
	assert_null(reserve);
	/* Who waits can cancel it. */
	assert_int_equal(fixture_do(&fixture, &client, ask_cancel(ns)), 0);
	expect_status(reserve, -ECANCELED);
	fixture_send(&fixture, &client, 103, ask_reserve(ns, 8 * MIB), &reserve);
	fixture_pump(&fixture);
	assert_null(reserve);
	/* What needs no server does not wait. */
	assert_int_equal(fixture_do(&fixture, &client, ask_create("b", 0, 0)), 0);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	fixture_pump(&fixture);
	expect_status(alloc, 0);
	expect_status(reserve, 0);
	check_all(&fixture);
}

static void test_they_do_not_wait_for_ever(void **state)
{
	Afar__Reply *alloc = NULL;
	struct fake_client client;
	uint64_t ns = restarted(&client);

	(void)state;
	fixture_send(&fixture, &client, 101, ask_alloc(ns, "r", 8 * MIB, false), &alloc);
	fixture_pump(&fixture);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	assert_null(alloc);
	/* Nothing else need happen for it to end: the core asks to be run then. */
	assert_int_equal(core_next_run(fixture.core), fixture.core->started_at + CORE_RECOVERY_NS);
	fixture_advance(&fixture, 3000 - FIXTURE_LEASE_MS);
	expect_status(alloc, -AFAR_ERESERVE);
	check_all(&fixture);
}

static void test_client_gone_while_it_waits(void **state)
{
	Afar__Reply *alloc = NULL;
	struct fake_client client;
	uint64_t ns = restarted(&client);

	(void)state;
	fixture_send(&fixture, &client, 101, ask_alloc(ns, "r", 8 * MIB, false), &alloc);
	fixture_pump(&fixture);
	client_lose(&fixture, &client);
	fixture_pump(&fixture);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	fixture_pump(&fixture);
	/* Its session lives, but not on that connection: the retry finds the call not done. */
	expect_status(alloc, -AFAR_ESESSION);
	client_resume(&fixture, &client);
	assert_int_equal(fixture_do(&fixture, &client, ask_open(ns, "r", 0)), -ENOENT);
	fixture_send(&fixture, &client, 101, ask_alloc(ns, "r", 8 * MIB, false), &alloc);
	fixture_pump(&fixture);
	expect_status(alloc, 0);
	check_all(&fixture);
}

static void test_stop_while_they_wait(void **state)
{
	Afar__Reply *alloc = NULL;
	struct fake_client client;
	uint64_t ns = restarted(&client);

	(void)state;
	fixture_send(&fixture, &client, 101, ask_alloc(ns, "r", 8 * MIB, false), &alloc);
	fixture_pump(&fixture);
	fixture_restart(&fixture);
	expect_status(alloc, -ESHUTDOWN);
}

/* A number of another cluster could be that of a server here that is down, whose data would be lost. */
static void test_server_of_another_cluster(void **state)
{
	struct fake_client client;
	uint64_t ns = restarted(&client);

	(void)state;
	fixture.servers[1].number = fixture.servers[0].number;
	strcpy(fixture.servers[1].cluster, "another");
	assert_int_equal(fixture_join(&fixture, 1, 64 * MIB), -EINVAL);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, "r", 8 * MIB, false)), 0);
	check_all(&fixture);
}

static Afar__Request *ask_delete_region(uint64_t ns, const char *name, uint64_t address)
{
	Afar__Request *request = calloc(1, sizeof(*request));
	Afar__RegionFree *message = calloc(1, sizeof(*message));

	afar__request__init(request);
	afar__region_free__init(message);
	message->namespace_ = ns;
	message->name = strdup(name);
	message->address = address;
	request->call_case = AFAR__REQUEST__CALL_REGION_FREE;
	request->region_free = message;
	return request;
}

static void test_lost_region_is_freed_by_name(void **state)
{
	struct fake_client client;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	fixture_do(&fixture, &client, ask_reserve(ns, 16 * MIB));
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, "r", MIB, false)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_session_close()), 0);
	fixture_kill(&fixture, 0);
	fixture_join(&fixture, 0, 64 * MIB);
	client_open(&fixture, &client);
	assert_int_equal(fixture_do(&fixture, &client, ask_open(ns, "r", 0)), -AFAR_ELOST);
	assert_int_equal(fixture_do(&fixture, &client, ask_delete_region(ns, "q", 0)), -ENOENT);
	assert_int_equal(fixture_do(&fixture, &client, ask_delete_region(ns, "", 4097)), -ENOENT);
	assert_int_equal(fixture_do(&fixture, &client, ask_delete_region(ns, "r", 0)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_delete_region(ns, "r", 0)), -ENOENT);
	assert_int_equal(
		fixture_do(&fixture, &client, ask_delete_region(ns, "", AFAR_FIRST_ADDRESS)),
		-ENOENT);
	assert_int_equal(fixture_do(&fixture, &client, ask_delete("a", false)), 0);
	check_empty(&fixture);
}

/* Says that it is the first server, which another key was used for. */
static void expect_impostor(const char *principal)
{
	struct fake_server *impostor = &fixture.servers[1];

	impostor->principal = principal;
	impostor->number = fixture.servers[0].number;
	strcpy(impostor->cluster, fixture.servers[0].cluster);
	assert_int_equal(fixture_join(&fixture, 1, 64 * MIB), -EACCES);
	assert_non_null(strstr(afar_last_error(), "the key of 'rack'"));
	assert_non_null(strstr(afar_last_error(), "remove server.id"));
	fixture_kill(&fixture, 1);
	impostor->number = 0;
	impostor->cluster[0] = '\0';
}

static void test_numbers_belong_to_keys(void **state)
{
	struct fake_server *server = &fixture.servers[0];
	struct fake_client admin;
	uint64_t ns, number;

	(void)state;
	client_open(&fixture, &admin);
	EXPECT(&admin, ask_key_add("rack", true), 0);
	EXPECT(&admin, ask_key_add("mallory", true), 0);
	server->principal = "rack";
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	number = server->number;
	ns = make_namespace(&fixture, &admin, "a");
	EXPECT(&admin, ask_reserve(ns, 8 * MIB), 0);

	/* Neither while it is up, nor while it is down, nor when the manager has forgotten it all but the store. */
	expect_impostor("mallory");
	assert_non_null(server->peer);
	fixture_disconnect(&fixture, 0);
	expect_impostor("mallory");
	expect_impostor(NULL);
	fixture_restart(&fixture);
	expect_impostor("mallory");
	assert_int_equal(client_resume(&fixture, &admin), 0);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	assert_int_equal(ns_of(ns)->reserved_bytes, 8 * MIB);

	/* One with its name and address, that says no number, is another server. */
	fixture_kill(&fixture, 0);
	server->principal = "mallory";
	server->number = 0;
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	assert_int_not_equal(server->number, number);
	assert_int_equal(ns_of(ns)->reserved_bytes, 8 * MIB);
	fixture_kill(&fixture, 0);
	server->principal = "rack";
	server->number = 0;
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	assert_int_equal(server->number, number);
	check_all(&fixture);
}

/* Whose key a server has was not stored once: the next that it joins with counts. */
static void test_numbers_of_an_old_store(void **state)
{
	struct fake_server *server = &fixture.servers[0];
	struct fake_client admin;

	(void)state;
	client_open(&fixture, &admin);
	EXPECT(&admin, ask_key_add("rack", true), 0);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	/* Who holds nothing is forgotten when it goes. */
	EXPECT(&admin, ask_reserve(make_namespace(&fixture, &admin, "a"), 8 * MIB), 0);
	state_server(fixture.core->state, server->number)->principal[0] = '\0';
	fixture_disconnect(&fixture, 0);
	server->principal = "rack";
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	fixture_disconnect(&fixture, 0);
	expect_impostor(NULL);
	check_all(&fixture);
}

TEST_GROUP(manager_returns)
{
	const struct CMUnitTest tests[] = {
		TEST(test_alloc_and_reserve_wait_for_servers),
		TEST(test_they_do_not_wait_for_ever),
		TEST(test_client_gone_while_it_waits),
		TEST(test_stop_while_they_wait),
		TEST(test_server_of_another_cluster),
		TEST(test_lost_region_is_freed_by_name),
		TEST(test_numbers_belong_to_keys),
		TEST(test_numbers_of_an_old_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
