/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's rights on namespaces: who may do what, and what becomes of those who lose a right. */
#include <stdio.h>
#include <string.h>

#include <afar/afar.h>

#include "group.h"
#include "lib/manager_test.h"

/* admin, and alice who owns namespace "a" on a server, with 16 MiB and a region "r"; bob has nothing. */
struct scene {
	struct fake_client admin, alice, bob;
	uint64_t ns;
};

static void open_scene(struct scene *scene)
{
	client_open(&fixture, &scene->admin);
	EXPECT(&scene->admin, ask_key_add("alice", false), 0);
	EXPECT(&scene->admin, ask_key_add("bob", false), 0);
	EXPECT(&scene->admin, ask_key_add("rack", true), 0);
	assert_int_equal(client_open_as(&fixture, &scene->alice, "alice"), 0);
	assert_int_equal(client_open_as(&fixture, &scene->bob, "bob"), 0);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	scene->ns = make_namespace(&fixture, &scene->alice, "a");
	EXPECT(&scene->alice, ask_reserve(scene->ns, 16 * MIB), 0);
	EXPECT(&scene->alice, ask_alloc(scene->ns, "r", MIB, false), 0);
}

static Afar__Request *ask_free_named(uint64_t ns, const char *name)
{
	Afar__RegionInfo region = AFAR__REGION_INFO__INIT;
	Afar__Request *request;

	region.namespace_ = ns;
	request = ask_free(&region);
	request->region_free->name = strdup(name);
	return request;
}

/* What bob can do with each right, and no more. */
static void test_what_rights_allow(void **state)
{
	Afar__RegionInfo region = AFAR__REGION_INFO__INIT;
	struct scene scene;

	(void)state;
	open_scene(&scene);
	region.namespace_ = scene.ns;
	region.address = AFAR_FIRST_ADDRESS;
	region.generation =
		namespace_region_named(state_namespace(fixture.core->state, scene.ns), "r")
			->generation;
	for (uint32_t rights = 0; rights <= 3; rights += rights == 1 ? 2 : 1) {
		int reading = rights >= 1 ? 0 : -EACCES, writing = rights == 3 ? 0 : -EACCES;

		EXPECT(&scene.alice, ask_grant(scene.ns, "bob", rights), 0);
		EXPECT(&scene.bob, ask_namespace("a"), reading);
		EXPECT(&scene.bob, ask_regions(scene.ns, 0, 0), reading);
		EXPECT(&scene.bob, ask_open(scene.ns, "r", 0), reading);
		EXPECT(&scene.bob, ask_open(scene.ns, "", AFAR_FIRST_ADDRESS), reading);
		EXPECT(&scene.bob, ask_alloc(scene.ns, "mine", MIB, false), writing);
		EXPECT(&scene.bob, ask_finish(&region), writing);
		EXPECT(&scene.bob, ask_free_named(scene.ns, "mine"), writing);
		EXPECT(&scene.bob, ask_reserve(scene.ns, MIB), -EACCES);
		EXPECT(&scene.bob, ask_release(scene.ns, MIB), -EACCES);
		EXPECT(&scene.bob, ask_grant(scene.ns, "bob", 3), -EACCES);
		expect_said(&scene.bob, ask_delete("a", true), -EACCES, "its owner 'alice'");
		check_all(&fixture);
	}
	EXPECT(&scene.admin, ask_grant(scene.ns, "bob", 0), 0);
	EXPECT(&scene.admin, ask_open(scene.ns, "r", 0), 0);
	EXPECT(&scene.admin, ask_reserve(scene.ns, MIB), 0);
	EXPECT(&scene.admin, ask_release(scene.ns, 2 * MIB), 0);
}

/* By its generation, too, which others may have seen. */
static void test_freeing_by_generation(void **state)
{
	Afar__RegionInfo *region;
	struct scene scene;
	Afar__Reply *reply;

	(void)state;
	open_scene(&scene);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 1), 0);
	region = must_open(&scene.bob, ask_open(scene.ns, "r", 0), &reply);
	EXPECT(&scene.bob, ask_free(region), -EACCES);
	EXPECT(&scene.bob, ask_close(region), 0);
	EXPECT(&scene.alice, ask_free(region), 0);
	drop(reply);
	check_all(&fixture);
}

static void test_grants_are_checked(void **state)
{
	struct scene scene;
	char name[16];

	(void)state;
	open_scene(&scene);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 2), -EINVAL);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 4), -EINVAL);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 7), -EINVAL);
	expect_said(&scene.alice, ask_grant(scene.ns, "carol", 1), -ENOENT, "called 'carol'");
	EXPECT(&scene.alice, ask_grant(scene.ns, "carol", 0), -ENOENT);
	EXPECT(&scene.alice, ask_grant(scene.ns, "", 1), -ENOENT);
	expect_said(&scene.alice, ask_grant(scene.ns, "rack", 1), -EINVAL, "is a server");
	expect_said(&scene.alice, ask_grant(scene.ns, "alice", 1), -EINVAL, "owns it");
	expect_said(&scene.alice, ask_grant(scene.ns, "admin", 1), -EINVAL, "is an operator");
	EXPECT(&scene.alice, ask_grant(scene.ns + 1, "bob", 1), -ENOENT);
	/* Taken away from who has none: fine. And from who has no key any more. */
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 0), 0);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 1), 0);
	EXPECT(&scene.admin, ask_key_revoke("bob"), 0);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 3), -ENOENT);
	assert_int_equal(ns_of(scene.ns)->nr_grants, 1);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 0), 0);
	assert_int_equal(ns_of(scene.ns)->nr_grants, 0);
	check_all(&fixture);
	/* Not without limit. */
	for (unsigned i = 0; i <= 256; i++) {
		snprintf(name, sizeof(name), "p%u", i);
		EXPECT(&scene.admin, ask_key_add(name, false), 0);
		EXPECT(&scene.alice, ask_grant(scene.ns, name, 1), i < 256 ? 0 : -ENOSPC);
	}
	EXPECT(&scene.alice, ask_grant(scene.ns, "p0", 3), 0);
	check_all(&fixture);
}

/* What is told, to whom; over a restart, too. */
static void test_what_is_told(void **state)
{
	struct scene scene;
	Afar__Reply *reply;

	(void)state;
	open_scene(&scene);
	make_namespace(&fixture, &scene.bob, "b");
	make_namespace(&fixture, &scene.admin, "c");
	EXPECT(&scene.bob, ask_create("a", 0, 0), -EEXIST);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 1), 0);
	for (int times = 0; times < 2; times++) {
		reply = must(&scene.bob, ask_namespaces("", 0));
		assert_int_equal(reply->namespace_infos->n_entries, 2);
		assert_string_equal(reply->namespace_infos->entries[0]->name, "a");
		assert_string_equal(reply->namespace_infos->entries[0]->owner, "alice");
		assert_int_equal(reply->namespace_infos->entries[0]->rights, 1);
		assert_int_equal(reply->namespace_infos->entries[0]->n_grants, 0);
		assert_int_equal(reply->namespace_infos->entries[1]->rights, 3);
		drop(reply);
		reply = must(&scene.bob, ask_status());
		assert_int_equal(reply->cluster_status->n_namespaces, 2);
		drop(reply);
		reply = must(&scene.alice, ask_namespaces("", 0));
		assert_int_equal(reply->namespace_infos->n_entries, 1);
		assert_int_equal(reply->namespace_infos->entries[0]->n_grants, 1);
		assert_string_equal(reply->namespace_infos->entries[0]->grants[0]->principal,
				    "bob");
		assert_int_equal(reply->namespace_infos->entries[0]->grants[0]->rights, 1);
		drop(reply);
		reply = must(&scene.admin, ask_status());
		assert_int_equal(reply->cluster_status->n_namespaces, 3);
		drop(reply);
		reply = must(&scene.bob, ask_regions(scene.ns, 0, 0));
		assert_int_equal(reply->region_infos->entries[0]->rights, 1);
		drop(reply);
		reply = must(&scene.bob, ask_open(scene.ns, "r", 0));
		assert_int_equal(reply->region_info->rights, 1);
		drop(reply);
		fixture_restart(&fixture);
		fixture_join(&fixture, 0, 64 * MIB);
		client_resume(&fixture, &scene.admin);
		client_resume(&fixture, &scene.alice);
		client_resume(&fixture, &scene.bob);
		check_all(&fixture);
	}
	/* Gone with the namespace: another of the name has none of them. */
	EXPECT(&scene.bob, ask_session_close(), 0);
	EXPECT(&scene.alice, ask_session_close(), 0);
	EXPECT(&scene.admin, ask_delete("a", true), 0);
	client_open_as(&fixture, &scene.bob, "bob");
	make_namespace(&fixture, &scene.admin, "a");
	EXPECT(&scene.bob, ask_namespace("a"), -EACCES);
	check_all(&fixture);
}

/* Who has keys to a namespace's memory, or has had, loses its session with its right. */
static void test_loss_of_rights_ends_sessions(void **state)
{
	struct fake_client idle, elsewhere;
	Afar__Reply *reply;
	struct scene scene;
	uint64_t other;

	(void)state;
	open_scene(&scene);
	client_open_as(&fixture, &idle, "bob");
	client_open_as(&fixture, &elsewhere, "bob");
	other = make_namespace(&fixture, &elsewhere, "b");
	EXPECT(&elsewhere, ask_reserve(other, 2 * MIB), 0);
	EXPECT(&elsewhere, ask_alloc(other, "r", MIB, false), 0);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 1), 0);
	/* It has closed the region; its keys are good still. */
	must_open(&scene.bob, ask_open(scene.ns, "r", 0), &reply);
	EXPECT(&scene.bob, ask_close(reply->region_info), 0);
	drop(reply);
	/* More rights end nothing. */
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 3), 0);
	EXPECT(&scene.bob, ask_open(scene.ns, "r", 0), 0);
	must_open(&scene.bob, ask_open(scene.ns, "r", 0), &reply);
	EXPECT(&scene.bob, ask_close(reply->region_info), 0);
	EXPECT(&scene.bob, ask_close(reply->region_info), 0);
	drop(reply);
	check_all(&fixture);
	assert_int_equal(fixture.servers[0].nr_session_ends, 0);
	/* Fewer do, and the manager remembers over a restart whose. */
	fixture_restart(&fixture);
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(client_resume(&fixture, &scene.alice), 0);
	assert_int_equal(client_resume(&fixture, &scene.bob), 0);
	assert_int_equal(client_resume(&fixture, &idle), 0);
	assert_int_equal(client_resume(&fixture, &elsewhere), 0);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 1), 0);
	assert_int_equal(fixture.servers[0].nr_session_ends, 1);
	EXPECT(&scene.bob, ask_status(), -AFAR_ESESSION);
	assert_int_equal(client_resume(&fixture, &scene.bob), -AFAR_ESESSION);
	EXPECT(&idle, ask_status(), 0);
	EXPECT(&elsewhere, ask_open(other, "r", 0), 0);
	EXPECT(&scene.alice, ask_status(), 0);
	/* With a new one it reads. */
	client_open_as(&fixture, &scene.bob, "bob");
	EXPECT(&scene.bob, ask_open(scene.ns, "r", 0), 0);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 1), 0);
	EXPECT(&scene.bob, ask_status(), 0);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 0), 0);
	EXPECT(&scene.bob, ask_status(), -AFAR_ESESSION);
	EXPECT(&idle, ask_open(scene.ns, "r", 0), -EACCES);
	check_all(&fixture);
}

/* A server that cannot be reached may have its connections: the end waits for it, whatever is open. */
static void test_end_waits_for_servers_that_are_away(void **state)
{
	Afar__Reply *reply;
	struct scene scene;

	(void)state;
	open_scene(&scene);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 3), 0);
	must_open(&scene.bob, ask_open(scene.ns, "r", 0), &reply);
	EXPECT(&scene.bob, ask_close(reply->region_info), 0);
	drop(reply);
	fixture_disconnect(&fixture, 0);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 0), 0);
	assert_false(cds_list_empty(&fixture.core->state->ending));
	reply = must(&scene.admin, ask_status());
	assert_true(reply->cluster_status->sessions[0]->is_ending);
	assert_string_equal(reply->cluster_status->sessions[0]->principal, "bob");
	drop(reply);
	fixture_restart(&fixture);
	fixture_advance(&fixture, FIXTURE_LEASE_MS - 1);
	assert_false(cds_list_empty(&fixture.core->state->ending));
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(fixture.servers[0].nr_session_ends, 1);
	assert_true(cds_list_empty(&fixture.core->state->ending));
	check_all(&fixture);
}

/* But not for one that it cannot have met: such ends would pile up while it is away. */
static void test_end_does_not_wait_for_servers_that_were_away(void **state)
{
	struct fake_client late;
	struct scene scene;

	(void)state;
	open_scene(&scene);
	fixture_disconnect(&fixture, 0);
	fixture_advance(&fixture, 1);
	client_open_as(&fixture, &late, "alice");
	EXPECT(&late, ask_open(scene.ns, "r", 0), 0);
	EXPECT(&late, ask_session_close(), 0);
	assert_true(cds_list_empty(&fixture.core->state->ending));
	fixture_restart(&fixture);
	client_open_as(&fixture, &late, "alice");
	EXPECT(&late, ask_open(scene.ns, "r", 0), 0);
	EXPECT(&late, ask_session_close(), 0);
	assert_true(cds_list_empty(&fixture.core->state->ending));
	/* The one of before may have met it. */
	assert_int_equal(client_resume(&fixture, &scene.alice), 0);
	EXPECT(&scene.alice, ask_session_close(), 0);
	assert_false(cds_list_empty(&fixture.core->state->ending));
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(fixture.servers[0].nr_session_ends, 1);
	assert_true(cds_list_empty(&fixture.core->state->ending));
	check_all(&fixture);
}

static void test_grants_and_failed_commits(void **state)
{
	struct scene scene;

	(void)state;
	open_scene(&scene);
	fixture.store.fail_at = 1;
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 3), -ENOSPC);
	EXPECT(&scene.bob, ask_open(scene.ns, "r", 0), -EACCES);
	check_all(&fixture);
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 3), 0);
	EXPECT(&scene.bob, ask_open(scene.ns, "r", 0), 0);
	fixture.store.fail_at = 1;
	EXPECT(&scene.alice, ask_grant(scene.ns, "bob", 0), -ENOSPC);
	check_all(&fixture);
	/* Its connection is gone, its session is not. */
	assert_int_equal(client_resume(&fixture, &scene.bob), 0);
	EXPECT(&scene.bob, ask_open(scene.ns, "r", 0), 0);
	assert_int_equal(fixture.servers[0].nr_session_ends, 0);
	check_all(&fixture);
}

static void test_grant_is_done_once(void **state)
{
	struct scene scene;
	Afar__Reply *reply;
	uint64_t id;

	(void)state;
	open_scene(&scene);
	id = ++scene.alice.next_id;
	fixture_send(&fixture, &scene.alice, id, ask_grant(scene.ns, "bob", 3), &reply);
	fixture_pump(&fixture);
	drop(reply);
	EXPECT(&scene.admin, ask_grant(scene.ns, "bob", 1), 0);
	fixture_send(&fixture, &scene.alice, id, ask_grant(scene.ns, "bob", 3), &reply);
	fixture_pump(&fixture);
	assert_int_equal(reply->status, 0);
	drop(reply);
	assert_int_equal(namespace_granted(ns_of(scene.ns), "bob"), 1);
	check_all(&fixture);
}

/* A reservation runs on when its session ends, and is undone. */
static void test_reservation_of_a_revoked_owner(void **state)
{
	struct scene scene;
	Afar__Reply *reply;

	(void)state;
	open_scene(&scene);
	fixture.servers[0].is_silent = true;
	fixture_send(&fixture, &scene.alice, ++scene.alice.next_id, ask_reserve(scene.ns, 8 * MIB),
		     &reply);
	fixture_pump(&fixture);
	EXPECT(&scene.admin, ask_key_revoke("alice"), 0);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	assert_int_equal(reply->status, -AFAR_ESESSION);
	drop(reply);
	assert_int_equal(fixture.servers[0].granted, 16 * MIB);
	check_all(&fixture);
}

TEST_GROUP(manager_rights)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_rights_allow),
		TEST(test_freeing_by_generation),
		TEST(test_grants_are_checked),
		TEST(test_what_is_told),
		TEST(test_loss_of_rights_ends_sessions),
		TEST(test_end_waits_for_servers_that_are_away),
		TEST(test_end_does_not_wait_for_servers_that_were_away),
		TEST(test_grants_and_failed_commits),
		TEST(test_grant_is_done_once),
		TEST(test_reservation_of_a_revoked_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
