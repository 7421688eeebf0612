/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's rights on namespaces: who may do what, and what becomes of those who lose a right. */
#include <stdio.h>

#include <afar/afar.h>

#include "lib/manager/manager_test.h"
#include "unit/group.h"

/* Each test begins with admin, alice, who owns namespace "a" on a server, with 16 MiB and a region "r", and bob, who has
 * nothing. */
static struct fake_client admin, alice, bob;
static uint64_t ns;

static int begin(void **state)
{
	setup(state);
	client_open(&fixture, &admin);
	EXPECT(&admin, ask_key_add("alice", false), 0);
	EXPECT(&admin, ask_key_add("bob", false), 0);
	EXPECT(&admin, ask_key_add("rack", true), 0);
	assert_int_equal(client_open_as(&fixture, &alice, "alice"), 0);
	assert_int_equal(client_open_as(&fixture, &bob, "bob"), 0);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	ns = make_namespace(&fixture, &alice, "a");
	EXPECT(&alice, ask_reserve(ns, 16 * MIB), 0);
	EXPECT(&alice, ask_alloc(ns, "r", MIB, false), 0);
	return 0;
}

#define RIGHTS_TEST(name) cmocka_unit_test_setup_teardown(name, begin, teardown)

/* With each right bob can do what it allows, and no more. */
static void test_what_rights_allow(void **state)
{
	Afar__RegionInfo region = AFAR__REGION_INFO__INIT;

	(void)state;
	region.namespace_ = ns;
	region.address = AFAR_FIRST_ADDRESS;
	region.generation =
		namespace_region_named(state_namespace(fixture.core->state, ns), "r")->generation;
	for (uint32_t rights = 0; rights <= 3; rights += rights == 1 ? 2 : 1) {
		/* Without any the namespace is not there; see test_manager_strangers.c. */
		const int none = rights >= 1 ? -EACCES : -ENOENT;
		int reading = rights >= 1 ? 0 : none, writing = rights == 3 ? 0 : none;

		EXPECT(&alice, ask_grant(ns, "bob", rights), 0);
		EXPECT(&bob, ask_namespace("a"), reading);
		EXPECT(&bob, ask_regions(ns, 0, 0), reading);
		EXPECT(&bob, ask_open(ns, "r", 0), reading);
		EXPECT(&bob, ask_open(ns, "", AFAR_FIRST_ADDRESS), reading);
		EXPECT(&bob, ask_alloc(ns, "mine", MIB, false), writing);
		EXPECT(&bob, ask_finish(&region), rights >= 1 ? writing : -AFAR_EFREED);
		EXPECT(&bob, ask_free_named(ns, "mine", 0), writing);
		EXPECT(&bob, ask_reserve(ns, MIB), none);
		EXPECT(&bob, ask_release(ns, MIB), none);
		EXPECT(&bob, ask_grant(ns, "bob", 3), none);
		expect_said(&bob, ask_delete("a", true), none,
			    rights >= 1 ? "its owner 'alice'" : "'bob' has a right");
		check_all(&fixture);
	}
	EXPECT(&admin, ask_grant(ns, "bob", 0), 0);
	EXPECT(&admin, ask_open(ns, "r", 0), 0);
	EXPECT(&admin, ask_reserve(ns, MIB), 0);
	EXPECT(&admin, ask_release(ns, 2 * MIB), 0);
}

/* By its generation, too, which others may have seen. */
static void test_freeing_by_generation(void **state)
{
	Afar__RegionInfo *region;
	Afar__Reply *reply;

	(void)state;
	EXPECT(&alice, ask_grant(ns, "bob", 1), 0);
	region = must_open(&bob, ask_open(ns, "r", 0), &reply);
	EXPECT(&bob, ask_free(region), -EACCES);
	EXPECT(&bob, ask_close(region), 0);
	EXPECT(&alice, ask_free(region), 0);
	drop(reply);
	check_all(&fixture);
}

static const struct {
	const char *principal;
	uint32_t rights;
	int status;
	const char *said;
} grants[] = {
	{"bob", 2, -EINVAL, "none that there are"},
	{"bob", 4, -EINVAL, "none that there are"},
	{"bob", 7, -EINVAL, "none that there are"},
	{"carol", 1, -ENOENT, "called 'carol'"},
	{"carol", 0, -ENOENT, "called 'carol'"},
	{"", 1, -ENOENT, "called ''"},
	{"rack", 1, -EINVAL, "is a server"},
	{"alice", 1, -EINVAL, "owns it"},
	{"admin", 1, -EINVAL, "is an operator"},
	{"bob", 0, 0, ""}, /* he has none: fine */
	{"bob", 1, 0, ""},
};

static void test_grants_are_checked(void **state)
{
	char name[16];

	(void)state;
	for (size_t i = 0; i < sizeof(grants) / sizeof(grants[0]); i++) {
		snprintf(name, sizeof(name), "%s: %u", grants[i].principal, grants[i].rights);
		expect_case(name, &alice, ask_grant(ns, grants[i].principal, grants[i].rights),
			    grants[i].status, grants[i].said);
	}
	EXPECT(&alice, ask_grant(ns + 1, "bob", 1), -ENOENT);
	/* Taken away from who has no key any more. */
	EXPECT(&admin, ask_key_revoke("bob"), 0);
	EXPECT(&alice, ask_grant(ns, "bob", 3), -ENOENT);
	assert_int_equal(ns_of(ns)->nr_grants, 1);
	EXPECT(&alice, ask_grant(ns, "bob", 0), 0);
	assert_int_equal(ns_of(ns)->nr_grants, 0);
	check_all(&fixture);
	/* Not without limit. */
	for (unsigned i = 0; i <= 256; i++) {
		snprintf(name, sizeof(name), "p%u", i);
		EXPECT(&admin, ask_key_add(name, false), 0);
		EXPECT(&alice, ask_grant(ns, name, 1), i < 256 ? 0 : -ENOSPC);
	}
	EXPECT(&alice, ask_grant(ns, "p0", 3), 0);
	check_all(&fixture);
}

/* Tests what is told, and to whom; over a restart, too. */
static void test_what_is_told(void **state)
{
	Afar__Reply *reply;

	(void)state;
	make_namespace(&fixture, &bob, "b");
	make_namespace(&fixture, &admin, "c");
	EXPECT(&bob, ask_create("a", 0, 0), -EEXIST);
	EXPECT(&alice, ask_grant(ns, "bob", 1), 0);
	for (int times = 0; times < 2; times++) {
		reply = must(&bob, ask_namespaces("", 0));
		assert_int_equal(reply->namespace_infos->n_entries, 2);
		assert_string_equal(reply->namespace_infos->entries[0]->name, "a");
		assert_string_equal(reply->namespace_infos->entries[0]->owner, "alice");
		assert_int_equal(reply->namespace_infos->entries[0]->rights, 1);
		assert_int_equal(reply->namespace_infos->entries[0]->n_grants, 0);
		assert_int_equal(reply->namespace_infos->entries[1]->rights, 3);
		drop(reply);
		reply = must(&bob, ask_status());
		assert_int_equal(reply->cluster_status->n_namespaces, 2);
		drop(reply);
		reply = must(&alice, ask_namespaces("", 0));
		assert_int_equal(reply->namespace_infos->n_entries, 1);
		assert_int_equal(reply->namespace_infos->entries[0]->n_grants, 1);
		assert_string_equal(reply->namespace_infos->entries[0]->grants[0]->principal,
				    "bob");
		assert_int_equal(reply->namespace_infos->entries[0]->grants[0]->rights, 1);
		drop(reply);
		reply = must(&admin, ask_status());
		assert_int_equal(reply->cluster_status->n_namespaces, 3);
		drop(reply);
		reply = must(&bob, ask_regions(ns, 0, 0));
		assert_int_equal(reply->region_infos->entries[0]->rights, 1);
		drop(reply);
		reply = must(&bob, ask_open(ns, "r", 0));
		assert_int_equal(reply->region_info->rights, 1);
		drop(reply);
		fixture_restart(&fixture);
		fixture_join(&fixture, 0, 64 * MIB);
		client_resume(&fixture, &admin);
		client_resume(&fixture, &alice);
		client_resume(&fixture, &bob);
		check_all(&fixture);
	}
	/* Gone with the namespace: another of the name has none of them. */
	EXPECT(&bob, ask_session_close(), 0);
	EXPECT(&alice, ask_session_close(), 0);
	EXPECT(&admin, ask_delete("a", true), 0);
	client_open_as(&fixture, &bob, "bob");
	make_namespace(&fixture, &admin, "a");
	EXPECT(&bob, ask_namespace("a"), -ENOENT);
	check_all(&fixture);
}

/* A client that has keys to a namespace's memory, or has had, loses its session with its right. */
static void test_loss_of_rights_ends_sessions(void **state)
{
	struct fake_client idle, elsewhere;
	Afar__Reply *reply;
	uint64_t other;

	(void)state;
	client_open_as(&fixture, &idle, "bob");
	client_open_as(&fixture, &elsewhere, "bob");
	other = make_namespace(&fixture, &elsewhere, "b");
	EXPECT(&elsewhere, ask_reserve(other, 2 * MIB), 0);
	EXPECT(&elsewhere, ask_alloc(other, "r", MIB, false), 0);
	EXPECT(&alice, ask_grant(ns, "bob", 1), 0);
	/* It has closed the region; its keys are good still. */
	must_open(&bob, ask_open(ns, "r", 0), &reply);
	EXPECT(&bob, ask_close(reply->region_info), 0);
	drop(reply);
	/* More rights end nothing. */
	EXPECT(&alice, ask_grant(ns, "bob", 3), 0);
	EXPECT(&bob, ask_open(ns, "r", 0), 0);
	must_open(&bob, ask_open(ns, "r", 0), &reply);
	EXPECT(&bob, ask_close(reply->region_info), 0);
	EXPECT(&bob, ask_close(reply->region_info), 0);
	drop(reply);
	check_all(&fixture);
	assert_int_equal(fixture.servers[0].nr_session_ends, 0);
	/* Fewer do, and the manager remembers over a restart whose. */
	fixture_restart(&fixture);
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(client_resume(&fixture, &alice), 0);
	assert_int_equal(client_resume(&fixture, &bob), 0);
	assert_int_equal(client_resume(&fixture, &idle), 0);
	assert_int_equal(client_resume(&fixture, &elsewhere), 0);
	EXPECT(&alice, ask_grant(ns, "bob", 1), 0);
	assert_int_equal(fixture.servers[0].nr_session_ends, 1);
	EXPECT(&bob, ask_status(), -AFAR_ESESSION);
	assert_int_equal(client_resume(&fixture, &bob), -AFAR_ESESSION);
	EXPECT(&idle, ask_status(), 0);
	EXPECT(&elsewhere, ask_open(other, "r", 0), 0);
	EXPECT(&alice, ask_status(), 0);
	/* With a new one it reads. */
	client_open_as(&fixture, &bob, "bob");
	EXPECT(&bob, ask_open(ns, "r", 0), 0);
	EXPECT(&alice, ask_grant(ns, "bob", 1), 0);
	EXPECT(&bob, ask_status(), 0);
	EXPECT(&alice, ask_grant(ns, "bob", 0), 0);
	EXPECT(&bob, ask_status(), -AFAR_ESESSION);
	EXPECT(&idle, ask_open(ns, "r", 0), -ENOENT);
	check_all(&fixture);
}

/* A server that cannot be reached may have its connections: the end waits for it, whatever is open. */
static void test_end_waits_for_servers_that_are_away(void **state)
{
	Afar__Reply *reply;

	(void)state;
	EXPECT(&alice, ask_grant(ns, "bob", 3), 0);
	must_open(&bob, ask_open(ns, "r", 0), &reply);
	EXPECT(&bob, ask_close(reply->region_info), 0);
	drop(reply);
	fixture_disconnect(&fixture, 0);
	EXPECT(&alice, ask_grant(ns, "bob", 0), 0);
	assert_false(cds_list_empty(&fixture.core->state->ending));
	reply = must(&admin, ask_status());
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

	(void)state;
	fixture_disconnect(&fixture, 0);
	fixture_advance(&fixture, 1);
	client_open_as(&fixture, &late, "alice");
	EXPECT(&late, ask_open(ns, "r", 0), 0);
	EXPECT(&late, ask_session_close(), 0);
	assert_true(cds_list_empty(&fixture.core->state->ending));
	fixture_restart(&fixture);
	fixture.core->started_at -= CORE_RECOVERY_NS; /* nobody waits for servers */
	client_open_as(&fixture, &late, "alice");
	EXPECT(&late, ask_open(ns, "r", 0), 0);
	EXPECT(&late, ask_session_close(), 0);
	assert_true(cds_list_empty(&fixture.core->state->ending));
	/* The one of before may have met it. */
	assert_int_equal(client_resume(&fixture, &alice), 0);
	EXPECT(&alice, ask_session_close(), 0);
	assert_false(cds_list_empty(&fixture.core->state->ending));
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(fixture.servers[0].nr_session_ends, 1);
	assert_true(cds_list_empty(&fixture.core->state->ending));
	check_all(&fixture);
}

static void test_grants_and_failed_commits(void **state)
{
	(void)state;
	fixture.store.fail_at = 1;
	EXPECT(&alice, ask_grant(ns, "bob", 3), -ENOSPC);
	EXPECT(&bob, ask_open(ns, "r", 0), -ENOENT);
	check_all(&fixture);
	EXPECT(&alice, ask_grant(ns, "bob", 3), 0);
	EXPECT(&bob, ask_open(ns, "r", 0), 0);
	fixture.store.fail_at = 1;
	EXPECT(&alice, ask_grant(ns, "bob", 0), -ENOSPC);
	check_all(&fixture);
	/* Its connection is gone, its session is not. */
	assert_int_equal(client_resume(&fixture, &bob), 0);
	EXPECT(&bob, ask_open(ns, "r", 0), 0);
	assert_int_equal(fixture.servers[0].nr_session_ends, 0);
	check_all(&fixture);
}

static void test_grant_is_done_once(void **state)
{
	Afar__Reply *reply;
	uint64_t id;

	(void)state;
	id = ++alice.next_id;
	fixture_send(&fixture, &alice, id, ask_grant(ns, "bob", 3), &reply);
	fixture_pump(&fixture);
	drop(reply);
	EXPECT(&admin, ask_grant(ns, "bob", 1), 0);
	fixture_send(&fixture, &alice, id, ask_grant(ns, "bob", 3), &reply);
	fixture_pump(&fixture);
	assert_int_equal(reply->status, 0);
	drop(reply);
	assert_int_equal(namespace_granted(ns_of(ns), "bob"), 1);
	check_all(&fixture);
}

/* A reservation runs on when its session ends, and is undone. */
static void test_reservation_of_a_revoked_owner(void **state)
{
	Afar__Reply *reply;

	(void)state;
	fixture.servers[0].is_silent = true;
	fixture_send(&fixture, &alice, ++alice.next_id, ask_reserve(ns, 8 * MIB), &reply);
	fixture_pump(&fixture);
	EXPECT(&admin, ask_key_revoke("alice"), 0);
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
		RIGHTS_TEST(test_what_rights_allow),
		RIGHTS_TEST(test_freeing_by_generation),
		RIGHTS_TEST(test_grants_are_checked),
		RIGHTS_TEST(test_what_is_told),
		RIGHTS_TEST(test_loss_of_rights_ends_sessions),
		RIGHTS_TEST(test_end_waits_for_servers_that_are_away),
		RIGHTS_TEST(test_end_does_not_wait_for_servers_that_were_away),
		RIGHTS_TEST(test_grants_and_failed_commits),
		RIGHTS_TEST(test_grant_is_done_once),
		RIGHTS_TEST(test_reservation_of_a_revoked_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
