/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An older copy of the manager's records is put back. Servers and stores that have seen later ones do not join, until an operator
 * accepts that. Whatever else happens to a manager and its servers, they join.
 */
#include <string.h>

#include "lib/manager/manager_test.h"
#include "unit/group.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static struct fake_client client;

static int begin(void **state)
{
	setup(state);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	return client_open(&fixture, &client);
}

#define TERMS_TEST(name) cmocka_unit_test_setup_teardown(name, begin, teardown)

/* The manager starts anew, with what its store has. */
static void restart(void)
{
	client_lose(&fixture, &client);
	fixture_restart(&fixture);
	client_open(&fixture, &client);
}

static void expect_newer(size_t nr, const char *first)
{
	Afar__Reply *reply = must(&client, ask_status());

	assert_int_equal(reply->cluster_status->n_newer, nr);
	if (nr != 0)
		assert_string_equal(reply->cluster_status->newer[0], first);
	drop(reply);
}

static unsigned nr_up(void)
{
	const struct server *server;
	unsigned nr = 0;

	cds_list_for_each_entry (server, &fixture.core->state->servers, node)
		nr += server_is_up(server);
	return nr;
}

static void expect_kept_out(size_t index, const char *who)
{
	assert_int_equal(fixture_join(&fixture, index, GIB), -ESTALE);
	assert_non_null(strstr(afar_last_error(), "an older copy of its folder was put back"));
	assert_non_null(strstr(afar_last_error(), who));
	assert_int_equal(nr_up(), 0);
}

static void test_restarts(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		restart();
		assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
		fixture_advance(&fixture, i * 6000);
		create_namespace(&fixture, &client, ask_create(i % 2 ? "odd" : "even", 1, 0));
		EXPECT(&client, ask_delete(i % 2 ? "odd" : "even", 0), 0);
		fixture_report_store(&fixture, 0, 7, 0);
	}
	expect_newer(0, NULL);
	EXPECT(&client, ask_accept_records(), -EALREADY);
}

/* A server that was away for some starts. */
static void test_server_that_was_away(void **state)
{
	(void)state;
	fixture_disconnect(&fixture, 0);
	for (unsigned i = 0; i < 3; i++)
		restart();
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
}

static void test_older_records(void **state)
{
	struct fake_client user = {0};
	struct memory_store before, newest;

	(void)state;
	memory_store_save(&fixture.store, &before);
	restart();
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	memory_store_save(&fixture.store, &newest);
	memory_store_restore(&fixture.store, &before);
	restart();
	expect_kept_out(0, "server server-0");
	expect_kept_out(0, "server server-0"); /* is told once */
	expect_newer(1, "server server-0");
	/* However often it starts, and whatever is committed. */
	for (unsigned i = 0; i < 5; i++) {
		restart();
		fixture_advance(&fixture, 20000);
		create_namespace(&fixture, &client, ask_create(i % 2 ? "odd" : "even", 1, 0));
		EXPECT(&client, ask_delete(i % 2 ? "odd" : "even", 0), 0);
		expect_kept_out(0, "server server-0");
	}

	/* The newest are there after all. */
	memory_store_save(&fixture.store, &before);
	memory_store_restore(&fixture.store, &newest);
	restart();
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	expect_newer(0, NULL);

	/* They are not, and an operator accepts that. */
	memory_store_restore(&fixture.store, &before);
	restart();
	expect_kept_out(0, "server server-0");
	EXPECT(&client, ask_key_add("user", false), 0);
	client_open_as(&fixture, &user, "user");
	EXPECT(&user, ask_accept_records(), -EACCES);
	client_lose(&fixture, &user);
	EXPECT(&client, ask_accept_records(), 0);
	expect_newer(0, NULL);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	restart();
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	check_all(&fixture);
}

static bool is_open(const struct fake_client *who)
{
	const struct session *session = state_session(fixture.core->state, who->session);

	return session && !session->is_ending;
}

/* An acceptance holds also for those who come later, after a restart, and not for another older
 * copy. */
static void test_acceptance_lasts(void **state)
{
	struct memory_store before, accepted;
	uint64_t ns;

	(void)state;
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	memory_store_save(&fixture.store, &before);
	restart();
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	for (int i = 0; i < 3; i++) { /* it has seen more than the first */
		restart();
		assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	}
	fixture_disconnect(&fixture, 1);
	memory_store_restore(&fixture.store, &before);
	restart();
	expect_kept_out(0, "server server-0");
	fixture.store.fail_at = 1;
	EXPECT(&client, ask_accept_records(), -ENOSPC);
	fixture_advance(&fixture, 2000);
	expect_newer(1, "server server-0");
	EXPECT(&client, ask_accept_records(), 0);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	/* It is in use again. */
	ns = make_namespace(&fixture, &client, "made");
	EXPECT(&client, ask_reserve(ns, 4 * MIB), 0);
	EXPECT(&client, ask_alloc(ns, "r", MIB, false), 0);
	memory_store_save(&fixture.store, &accepted);
	restart();
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	expect_newer(0, NULL);
	EXPECT(&client, ask_accept_records(), -EALREADY);
	EXPECT(&client, ask_open(ns, "r", 0), 0);
	check_all(&fixture);
	/* And a copy of it is older, too. */
	fixture_disconnect(&fixture, 1);
	memory_store_restore(&fixture.store, &accepted);
	restart();
	expect_kept_out(0, "server server-0");
	expect_newer(1, "server server-0");
	EXPECT(&client, ask_accept_records(), 0);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	EXPECT(&client, ask_open(ns, "r", 0), -EBADMSG);
	check_all(&fixture);
}

/* One that can is taken in only when its sessions have ended. */
static void test_sessions_end_first(void **state)
{
	struct fake_server *server = &fixture.servers[0];
	struct memory_store before;
	struct term term;

	(void)state;
	memory_store_save(&fixture.store, &before);
	restart();
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	memory_store_restore(&fixture.store, &before);
	restart();
	server->ends_first = true;
	expect_kept_out(0, "server server-0");
	EXPECT(&client, ask_accept_records(), 0);
	term = server->term;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fixture_join(&fixture, 0, GIB), -EAGAIN);
		assert_int_equal(nr_up(), 0);
	}
	server->has_ended_sessions = true;
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_int_equal(nr_up(), 1);
	assert_true(server->term.random != term.random);
	/* It has sessions again, which these records know. */
	server->has_ended_sessions = false;
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	check_all(&fixture);
}

/* Memory that older records lead to may be others' by now. Nobody is led there before an operator says so, and clients that
 * know of later ones end. */
static void test_accepted_records_are_suspect(void **state)
{
	struct fake_client old = {0}, user = {0};
	struct memory_store before;
	uint64_t ns, empty, identity, fresh;
	Afar__Reply *reply;

	(void)state;
	client_open(&fixture, &old);
	ns = make_namespace(&fixture, &client, "a");
	empty = make_namespace(&fixture, &client, "empty");
	EXPECT(&client, ask_reserve(ns, 4 * MIB), 0);
	EXPECT(&client, ask_reserve(empty, 4 * MIB), 0);
	EXPECT(&client, ask_alloc(ns, "r", MIB, false), 0);
	EXPECT(&old, ask_open(ns, "r", 0), 0);
	memory_store_save(&fixture.store, &before);
	restart();
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	memory_store_restore(&fixture.store, &before);
	restart();
	assert_int_equal(client_resume(&fixture, &old), 0);
	expect_kept_out(0, "server server-0");
	EXPECT(&client, ask_accept_records(), 0);
	assert_false(is_open(&old));
	assert_true(is_open(&client));
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	fixture_pump(&fixture);
	for (int i = 0; i < 2; i++) { /* a restart forgets nothing of that */
		expect_said(&client, ask_open(ns, "r", 0), -EBADMSG, "afar ns accept-older");
		EXPECT(&client, ask_alloc(ns, "s", MIB, false), -EBADMSG);
		EXPECT(&client, ask_alloc(empty, "s", MIB, false), i == 0 ? 0 : -EEXIST);
		restart();
		assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	}
	reply = must(&client, ask_status());
	assert_int_equal(reply->cluster_status->n_namespaces, 2);
	assert_true(reply->cluster_status->namespaces[0]->is_suspect);
	assert_false(reply->cluster_status->namespaces[1]->is_suspect);
	drop(reply);
	EXPECT(&client, ask_key_add("user", false), 0);
	client_open_as(&fixture, &user, "user");
	EXPECT(&user, ask_accept_namespace("a"), -EACCES);
	client_lose(&fixture, &user);
	EXPECT(&client, ask_accept_namespace("none"), -ENOENT);
	EXPECT(&client, ask_accept_namespace("empty"), -EALREADY);
	identity = state_namespace(fixture.core->state, ns)->identity;
	EXPECT(&client, ask_accept_namespace("a"), 0);
	EXPECT(&client, ask_accept_namespace("a"), -EALREADY);
	/* Nobody finds it by its number of before, also after a restart. */
	fresh = state_namespace(fixture.core->state, ns)->identity;
	assert_true(fresh != identity);
	restart();
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_true(state_namespace(fixture.core->state, ns)->identity == fresh);
	EXPECT(&client, ask_open(ns, "r", 0), 0);
	EXPECT(&client, ask_alloc(ns, "s", MIB, false), 0);
	check_all(&fixture);
}

/* A client that opened something after the older records were there and before they were accepted reaches it
 * no more. */
static void test_opened_before_acceptance(void **state)
{
	struct fake_client other = {0};
	struct memory_store before;
	struct reference *reference;
	struct region *region;
	Afar__Reply *opened;
	uint64_t ns;

	(void)state;
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 4 * MIB), 0);
	EXPECT(&client, ask_alloc(ns, "r", MIB, false), 0);
	memory_store_save(&fixture.store, &before);
	restart();
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	memory_store_restore(&fixture.store, &before);
	restart();
	expect_kept_out(0, "server server-0");
	fixture_advance(&fixture, 5000);
	client_open(&fixture, &other);
	opened = must(&other, ask_open(ns, "r", 0));
	expect_said(&other, ask_accept_records(), -EBUSY, "has regions open");
	EXPECT(&client, ask_accept_records(), 0);
	assert_false(is_open(&other));
	assert_true(is_open(&client));
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	fixture_pump(&fixture);
	assert_int_not_equal(fixture_do(&fixture, &other, ask_access(opened->region_info)), 0);
	/* A client may have it open all the same. */
	region = namespace_region_named(state_namespace(fixture.core->state, ns), "r");
	assert_int_equal(state_add_reference(fixture.core->state,
					     state_session(fixture.core->state, client.session),
					     region, 1, &reference),
			 0);
	EXPECT(&client, ask_access(opened->region_info), -EBADMSG);
	EXPECT(&client, ask_look(opened->region_info), -EBADMSG);
	EXPECT(&client, ask_close(opened->region_info), 0);
	drop(opened);
	check_all(&fixture);
}

/* A copy that was made while the manager ran: what came more than ten seconds later is told. */
static void test_copy_within_a_run(void **state)
{
	struct memory_store before;

	(void)state;
	memory_store_save(&fixture.store, &before);
	fixture_advance(&fixture, 11000);
	fixture_report_store(&fixture, 0, 7, 0);
	assert_int_equal(fixture.servers[0].term.number, fixture.core->state->term.number);
	create_namespace(&fixture, &client, ask_create("later", 1, 0));
	fixture_report_store(&fixture, 0, 7, 0);
	memory_store_restore(&fixture.store, &before);
	restart();
	expect_kept_out(0, "server server-0");
}

/* The commit that would have begun another term fails, and nobody was told of it. */
static void test_failed_commit(void **state)
{
	uint64_t number = fixture.core->state->term.number;

	(void)state;
	fixture_advance(&fixture, 11000);
	number = fixture.core->state->term.number;
	fixture_advance(&fixture, 11000);
	fixture.store.fail_at = 1;
	EXPECT(&client, ask_create("lost", 1, 0), -ENOSPC);
	assert_int_equal(fixture.core->state->term.number, number);
	restart();
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
}

/* Its server has ended since, and the device alone knows. */
static void test_store_knows(void **state)
{
	struct memory_store before;

	(void)state;
	fixture_plug(&fixture, 0, 0, 64 * MIB);
	fixture_disconnect(&fixture, 0);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	memory_store_save(&fixture.store, &before);
	restart();
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	fixture_kill(&fixture, 0);
	memory_store_restore(&fixture.store, &before);
	restart();
	expect_kept_out(0, "the store on /dev/flash1");
	expect_newer(1, "the store on /dev/flash1");
	EXPECT(&client, ask_accept_records(), 0);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
}

TEST_GROUP(manager_terms)
{
	const struct CMUnitTest tests[] = {
		TERMS_TEST(test_restarts),
		TERMS_TEST(test_server_that_was_away),
		TERMS_TEST(test_older_records),
		TERMS_TEST(test_copy_within_a_run),
		TERMS_TEST(test_failed_commit),
		TERMS_TEST(test_store_knows),
		TERMS_TEST(test_acceptance_lasts),
		TERMS_TEST(test_sessions_end_first),
		TERMS_TEST(test_accepted_records_are_suspect),
		TERMS_TEST(test_opened_before_acceptance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
