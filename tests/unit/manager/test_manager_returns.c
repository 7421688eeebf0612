/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's core after a start: who comes back, who may not, and what waits for whom. */
#include <string.h>

#include <afar/afar.h>

#include "lib/manager/manager_test.h"
#include "unit/group.h"

/* A cluster with a server, a namespace and 16 MiB reserved, whose manager has just restarted. */
static uint64_t restarted(struct fake_client *client)
{
	uint64_t ns;

	client_open(&fixture, client);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, client, "a");
	EXPECT(client, ask_reserve(ns, 16 * MIB), 0);
	fixture_restart(&fixture);
	client_resume(&fixture, client);
	return ns;
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
	/* A client that waits can cancel it. */
	EXPECT(&client, ask_cancel(ns), 0);
	expect_answer(reserve, -ECANCELED, NULL);
	fixture_send(&fixture, &client, 103, ask_reserve(ns, 8 * MIB), &reserve);
	fixture_pump(&fixture);
	assert_null(reserve);
	/* A request that needs no server does not wait. */
	EXPECT(&client, ask_create("b", 0, 0), 0);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	fixture_pump(&fixture);
	expect_answer(alloc, 0, NULL);
	expect_answer(reserve, 0, NULL);
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
	expect_answer(alloc, -AFAR_ERESERVE, NULL);
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
	expect_answer(alloc, -AFAR_ESESSION, NULL);
	client_resume(&fixture, &client);
	EXPECT(&client, ask_open(ns, "r", 0), -ENOENT);
	fixture_send(&fixture, &client, 101, ask_alloc(ns, "r", 8 * MIB, false), &alloc);
	fixture_pump(&fixture);
	expect_answer(alloc, 0, NULL);
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
	expect_answer(alloc, -ESHUTDOWN, NULL);
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
	EXPECT(&client, ask_alloc(ns, "r", 8 * MIB, false), 0);
	check_all(&fixture);
}

static void test_lost_region_is_freed_by_name(void **state)
{
	struct fake_client client;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 16 * MIB), 0);
	EXPECT(&client, ask_alloc(ns, "r", MIB, false), 0);
	EXPECT(&client, ask_session_close(), 0);
	fixture_kill(&fixture, 0);
	fixture_join(&fixture, 0, 64 * MIB);
	client_open(&fixture, &client);
	EXPECT(&client, ask_open(ns, "r", 0), -AFAR_ELOST);
	EXPECT(&client, ask_free_named(ns, "q", 0), -ENOENT);
	EXPECT(&client, ask_free_named(ns, "", 4097), -ENOENT);
	EXPECT(&client, ask_free_named(ns, "r", 0), 0);
	EXPECT(&client, ask_free_named(ns, "r", 0), -ENOENT);
	EXPECT(&client, ask_free_named(ns, "", AFAR_FIRST_ADDRESS), -ENOENT);
	EXPECT(&client, ask_delete("a", false), 0);
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

/* Old records do not say whose key a server has: the next that it joins with counts. */
static void test_numbers_of_an_old_store(void **state)
{
	struct fake_server *server = &fixture.servers[0];
	struct fake_client admin;

	(void)state;
	client_open(&fixture, &admin);
	EXPECT(&admin, ask_key_add("rack", true), 0);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	/* A server that holds nothing is forgotten when it goes. */
	EXPECT(&admin, ask_reserve(make_namespace(&fixture, &admin, "a"), 8 * MIB), 0);
	state_server(fixture.core->state, server->number)->principal[0] = '\0';
	fixture_disconnect(&fixture, 0);
	server->principal = "rack";
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	fixture_disconnect(&fixture, 0);
	expect_impostor(NULL);
	check_all(&fixture);
}

/* ---- Servers that are taken out */

/*
 * Two servers, of which the first cannot be reached. Regions over both: "lost", and one that was freed while a session
 * had it open that ended since. On the second alone: "kept", in namespace "b".
 */
struct removal_scene {
	struct fake_client admin;
	uint64_t a, b, gone;
};

static void open_removal(struct removal_scene *scene)
{
	struct fake_client client;
	Afar__Reply *reply;

	client_open(&fixture, &scene->admin);
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	scene->gone = fixture.servers[0].number;
	fixture_join(&fixture, 1, 64 * MIB);
	EXPECT(&scene->admin, ask_create("a", 2, 4096), 0);
	reply = fixture_ask(&fixture, &scene->admin, ask_namespace("a"));
	scene->a = reply->namespace_info->namespace_;
	drop(reply);
	EXPECT(&scene->admin, ask_reserve(scene->a, 16 * MIB), 0);
	EXPECT(&client, ask_alloc(scene->a, "lost", MIB, false), 0);
	reply = fixture_ask(&fixture, &client, ask_alloc(scene->a, "freed", 2 * MIB, false));
	assert_int_equal(reply->status, 0);
	fixture_disconnect(&fixture, 0);
	scene->b = make_namespace(&fixture, &scene->admin, "b");
	EXPECT(&scene->admin, ask_reserve(scene->b, 4 * MIB), 0);
	EXPECT(&scene->admin, ask_alloc(scene->b, "kept", MIB, false), 0);
	EXPECT(&client, ask_free(reply->region_info), 0);
	EXPECT(&client, ask_session_close(), 0);
	drop(reply);
	assert_false(cds_list_empty(&fixture.core->state->ending));
	assert_int_equal(ns_of(scene->a)->allocated_bytes, 3 * MIB);
	check_all(&fixture);
}

static void test_removal_frees_what_waited(void **state)
{
	struct removal_scene scene;
	const Afar__ServerRegion *lost;
	Afar__Reply *reply;

	(void)state;
	open_removal(&scene);
	reply = fixture_ask(&fixture, &scene.admin, ask_server_regions(scene.gone, 0, 0));
	assert_int_equal(reply->server_region_infos->n_entries, 1);
	lost = reply->server_region_infos->entries[0];
	assert_string_equal(lost->namespace_, "a");
	assert_string_equal(lost->region->name, "lost");
	expect_answer(fixture_ask(&fixture, &scene.admin,
				  ask_server_regions(scene.gone, lost->region->generation, 0)),
		      0, NULL);
	drop(reply);

	fixture_send(&fixture, &scene.admin, 100, ask_server_remove(scene.gone), &reply);
	fixture_pump(&fixture);
	expect_answer(reply, 0, NULL);
	assert_true(cds_list_empty(&fixture.core->state->ending));
	assert_null(state_server(fixture.core->state, scene.gone));
	/* Nothing is left of "freed". The part of "lost" that is on the other server is its own until it
	 * goes, too. */
	assert_int_equal(ns_of(scene.a)->allocated_bytes, MIB / 2);
	assert_int_equal(ns_of(scene.a)->reserved_bytes, 8 * MIB);
	EXPECT(&scene.admin, ask_open(scene.a, "lost", 0), -AFAR_ELOST);
	EXPECT(&scene.admin, ask_open(scene.b, "kept", 0), 0);
	check_all(&fixture);
	/* Its request may come again. */
	fixture_send(&fixture, &scene.admin, 100, ask_server_remove(scene.gone), &reply);
	fixture_pump(&fixture);
	expect_answer(reply, 0, NULL);
	scene.admin.next_id = 100;
	EXPECT(&scene.admin, ask_server_remove(scene.gone), -ENOENT);
	EXPECT(&scene.admin, ask_delete("a", true), 0);
	check_all(&fixture);
}

/* Nobody has taken from it what it gave to sessions that ended meanwhile. */
static void test_removed_incarnation_is_not_let_in(void **state)
{
	struct removal_scene scene;
	uint64_t incarnation;

	(void)state;
	open_removal(&scene);
	incarnation = fixture.servers[0].incarnation;
	EXPECT(&scene.admin, ask_server_remove(scene.gone), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), -AFAR_ELOST);
		assert_non_null(strstr(afar_last_error(), "was removed"));
		fixture_disconnect(&fixture, 0);
		if (i == 1) /* nor without its number */
			fixture.servers[0].number = 0;
		if (i == 0) { /* nor after a restart */
			fixture_restart(&fixture);
			fixture_join(&fixture, 1, 64 * MIB);
			assert_int_equal(client_resume(&fixture, &scene.admin), 0);
		}
	}
	/* Another incarnation is a stranger, whatever number it kept. */
	fixture.servers[0].number = scene.gone;
	fixture_kill(&fixture, 0);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	assert_int_not_equal(fixture.servers[0].incarnation, incarnation);
	assert_int_not_equal(fixture.servers[0].number, scene.gone);
	EXPECT(&scene.admin, ask_reserve(scene.b, 64 * MIB), 0);
	check_all(&fixture);
}

static void test_removal_is_checked(void **state)
{
	struct removal_scene scene;
	struct fake_client bob;

	(void)state;
	open_removal(&scene);
	EXPECT(&scene.admin, ask_key_add("bob", false), 0);
	assert_int_equal(client_open_as(&fixture, &bob, "bob"), 0);
	EXPECT(&bob, ask_server_remove(scene.gone), -EACCES);
	EXPECT(&bob, ask_server_regions(scene.gone, 0, 0), -EACCES);
	EXPECT(&scene.admin, ask_server_remove(99), -ENOENT);
	EXPECT(&scene.admin, ask_server_regions(99, 0, 0), -ENOENT);
	EXPECT(&scene.admin, ask_server_remove(fixture.servers[1].number), -EBUSY);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	EXPECT(&scene.admin, ask_server_remove(scene.gone), -EBUSY);
	check_all(&fixture);
}

/* A manager that has just started does not know yet who is up. */
static void test_removal_waits_for_servers_to_come_back(void **state)
{
	struct removal_scene scene;
	Afar__Reply *reply;

	(void)state;
	open_removal(&scene);
	fixture_restart(&fixture);
	client_resume(&fixture, &scene.admin);
	fixture_join(&fixture, 1, 64 * MIB);
	fixture_send(&fixture, &scene.admin, 101, ask_server_remove(scene.gone), &reply);
	fixture_pump(&fixture);
	assert_null(reply);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	fixture_pump(&fixture);
	expect_answer(reply, -EBUSY, NULL);
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
		TEST(test_removal_frees_what_waited),
		TEST(test_removed_incarnation_is_not_let_in),
		TEST(test_removal_is_checked),
		TEST(test_removal_waits_for_servers_to_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
