/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's core when things go wrong: each commit of a scenario fails in turn, and random lives of
 * clients and servers with failures among them; tables, store and servers must agree after every step. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "manager_fixture.h"

static struct fixture fixture;

static uint64_t seed = 1;

static uint64_t random_below(uint64_t limit)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 24) % limit;
}

static int setup(void **state)
{
	(void)state;
	fixture_open(&fixture);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fixture_close(&fixture);
	return 0;
}

static void drop(Afar__Reply *reply)
{
	afar__reply__free_unpacked(reply, NULL);
}

/* ---- Failing commits */

/* A life of a namespace; returns how many calls failed. Everything is tried, whatever fails. */
static unsigned scenario(void)
{
	struct fake_client client, other;
	Afar__Reply *reply;
	unsigned failed = 0;
	uint64_t ns = 0;
	char name[8];

#define TRY(call)                      \
	do {                           \
		failed += (call) != 0; \
		check_all(&fixture);   \
	} while (0)
	TRY(client_open(&fixture, &client));
	TRY(client_open(&fixture, &other));
	for (size_t i = 0; i < 2; i++)
		TRY(fixture_join(&fixture, i, 64 * MIB));
	reply = fixture_ask(&fixture, &client, ask_create("a", 0, 65536));
	failed += reply->status != 0;
	if (reply->status == 0)
		ns = reply->namespace_info->namespace_;
	drop(reply);
	TRY(fixture_do(&fixture, &client, ask_reserve(ns, 16 * MIB)));
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		reply = fixture_ask(&fixture, &client, ask_alloc(ns, name, MIB + 5, false));
		failed += reply->status != 0;
		check_all(&fixture);
		TRY(fixture_do(&fixture, &other, ask_open(ns, name, 0)));
		if (reply->status == 0 && i % 2 == 0) {
			TRY(fixture_do(&fixture, &client, ask_free(reply->region_info)));
			TRY(fixture_do(&fixture, &client, ask_close(reply->region_info)));
		}
		drop(reply);
	}
	fixture_disconnect(&fixture, 0);
	check_all(&fixture);
	TRY(fixture_join(&fixture, 0, 64 * MIB));
	TRY(fixture_do(&fixture, &client, ask_release(ns, 4 * MIB)));
	fixture_kill(&fixture, 1);
	TRY(fixture_join(&fixture, 1, 64 * MIB));
	TRY(fixture_do(&fixture, &other, ask_session_close()));
	client_lose(&fixture, &client);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	check_all(&fixture);
	TRY(client_open(&fixture, &client));
	TRY(fixture_do(&fixture, &client, ask_delete("a", true)));
	TRY(fixture_do(&fixture, &client, ask_session_close()));
	return failed;
#undef TRY
}

/* After whatever failed, everything can be cleaned up. */
static void clean_up(void)
{
	struct fake_client client;

	fixture.store.fail_at = 0;
	for (size_t i = 0; i < FIXTURE_SERVERS_MAX; i++)
		fixture.servers[i].is_silent = false;
	fixture_advance(&fixture, 10000);
	for (size_t i = 0; i < FIXTURE_SERVERS_MAX; i++)
		if (fixture.servers[i].capacity != 0)
			assert_int_equal(fixture_join(&fixture, i, fixture.servers[i].capacity), 0);
	fixture_advance(&fixture, 10000);
	fixture_advance(&fixture, 10000);
	assert_int_equal(client_open(&fixture, &client), 0);
	while (!cds_list_empty(&fixture.core->state->namespaces)) {
		struct namespace *ns = cds_list_first_entry(&fixture.core->state->namespaces,
							    struct namespace, node);

		assert_int_equal(fixture_do(&fixture, &client, ask_delete(ns->name, true)), 0);
	}
	assert_int_equal(fixture_do(&fixture, &client, ask_session_close()), 0);
	check_empty(&fixture);
	assert_true(cds_list_empty(&fixture.core->state->sessions));
}

static void test_every_commit_fails_once(void **state)
{
	uint64_t nr_commits;
	unsigned failed;

	(void)state;
	nr_commits = fixture.store.nr_commits;
	assert_int_equal(scenario(), 0);
	nr_commits = fixture.store.nr_commits - nr_commits;
	assert_true(nr_commits > 30);
	for (uint64_t at = 1; at <= nr_commits; at++) {
		fixture_close(&fixture);
		fixture_open(&fixture);
		fixture.store.fail_at = at;
		failed = scenario();
		/* It was told, unless nobody asked for that one. */
		assert_true(failed > 0 || fixture.store.fail_at == 0);
		clean_up();
	}
}

static void test_failed_commit_is_told_to_all_of_its_batch(void **state)
{
	Afar__Reply *replies[5] = {NULL};
	struct fake_client client;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	fixture_do(&fixture, &client, ask_reserve(ns, 16 * MIB));
	fixture.store.fail_at = 1;
	for (uint64_t i = 0; i < 4; i++)
		fixture_send(&fixture, &client, 100 + i,
			     ask_alloc(ns, i == 3 ? "\n" : "", MIB, false), &replies[i]);
	fixture_send(&fixture, &client, 104, ask_namespaces("", 0), &replies[4]);
	fixture_pump(&fixture);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(replies[i]->status, -ENOSPC);
		assert_non_null(strstr(replies[i]->message, "disk is full"));
		assert_null(replies[i]->region_info);
	}
	assert_int_equal(replies[3]->status, -EINVAL);
	assert_int_equal(replies[4]->status, 0); /* reading is not hurt */
	assert_int_equal(replies[4]->namespace_infos->entries[0]->nr_regions, 0);
	for (size_t i = 0; i < 5; i++)
		drop(replies[i]);
	check_all(&fixture);
	/* The same ids can be sent again, and are done then. */
	fixture_send(&fixture, &client, 100, ask_alloc(ns, "", MIB, false), &replies[0]);
	fixture_pump(&fixture);
	assert_int_equal(replies[0]->status, 0);
	drop(replies[0]);
	check_all(&fixture);
}

/* ---- Random lives */

#define LIVES_CLIENTS 3
#define LIVES_OPEN    40

static void random_life(unsigned nr_steps)
{
	struct fake_client clients[LIVES_CLIENTS];
	struct {
		Afar__Reply *reply;
		size_t client;
	} open[LIVES_OPEN];
	size_t nr_open = 0;

	for (size_t i = 0; i < 3; i++)
		assert_int_equal(fixture_join(&fixture, i, 64 * MIB), 0);
	for (size_t i = 0; i < LIVES_CLIENTS; i++)
		assert_int_equal(client_open(&fixture, &clients[i]), 0);
	for (unsigned step = 0; step < nr_steps; step++) {
		size_t who = random_below(LIVES_CLIENTS), which = random_below(LIVES_OPEN);
		struct fake_client *client = &clients[who];
		char name[16], region[16];
		struct namespace *ns;
		uint64_t number, kind;
		Afar__Reply *reply;

		snprintf(name, sizeof(name), "n%u", (unsigned)random_below(3));
		snprintf(region, sizeof(region), "r%u", (unsigned)random_below(8));
		ns = state_namespace_named(fixture.core->state, name);
		number = ns != NULL ? ns->number : 1000000;
		kind = random_below(18);
		if (kind < 15 && random_below(20) == 0)
			fixture.store.fail_at = 1 + random_below(2);
		switch (kind) {
		case 0:
			fixture_do(&fixture, client,
				   ask_create(name, (uint32_t)random_below(4), 4096));
			break;
		case 1:
			if (random_below(4) == 0)
				fixture_do(&fixture, client,
					   ask_delete(name, random_below(2) != 0));
			break;
		case 2:
		case 3:
			fixture_do(&fixture, client,
				   ask_reserve(number, 1 + random_below(20 * MIB)));
			break;
		case 4:
			fixture_do(&fixture, client, ask_release(number, random_below(20 * MIB)));
			break;
		case 5:
		case 6:
		case 7:
		case 8:
		case 9:
			reply = fixture_ask(
				&fixture, client,
				random_below(3) != 0
					? ask_alloc(number, random_below(2) ? region : "",
						    1 + random_below(2 * MIB), random_below(9) == 0)
					: ask_open(number, region, AFAR_FIRST_ADDRESS));
			if (reply->status == 0 && nr_open < LIVES_OPEN) {
				open[nr_open].client = who;
				open[nr_open++].reply = reply;
			} else {
				drop(reply);
			}
			break;
		case 10:
		case 11:
			if (which < nr_open)
				fixture_do(&fixture, client,
					   ask_free(open[which].reply->region_info));
			break;
		case 12:
		case 13:
		case 14:
			if (which >= nr_open)
				break;
			fixture_do(&fixture, &clients[open[which].client],
				   ask_close(open[which].reply->region_info));
			drop(open[which].reply);
			open[which] = open[--nr_open];
			break;
		case 15:
			if (random_below(2) == 0) {
				client_lose(&fixture, client);
				assert_int_equal(client_resume(&fixture, client), 0);
			} else {
				fixture_do(&fixture, client, ask_session_close());
				client_open(&fixture, client);
			}
			break;
		case 16: {
			struct fake_server *server = &fixture.servers[which % 3];

			if (random_below(3) == 0)
				server->is_silent = !server->is_silent && random_below(2) == 0;
			else if (random_below(3) == 0 && server->peer != NULL)
				fixture_kill(&fixture, which % 3);
			else if (server->peer != NULL)
				fixture_disconnect(&fixture, which % 3);
			fixture_pump(&fixture);
			break;
		}
		case 17:
			for (size_t i = 0; i < 3; i++) {
				fixture.servers[i].is_silent = false;
				if (fixture.servers[i].peer == NULL)
					assert_int_equal(fixture_join(&fixture, i, 64 * MIB), 0);
			}
			fixture_pump(&fixture);
			if (random_below(10) == 0) {
				fixture_restart(&fixture);
				for (size_t i = 0; i < 3; i++)
					assert_int_equal(fixture_join(&fixture, i, 64 * MIB), 0);
				for (size_t i = 0; i < LIVES_CLIENTS; i++)
					assert_int_equal(client_resume(&fixture, &clients[i]), 0);
			}
			break;
		}
		fixture.store.fail_at = 0;
		check_all(&fixture);
		fixture_advance(&fixture, 100);
	}
	while (nr_open > 0)
		drop(open[--nr_open].reply);
	for (size_t i = 0; i < LIVES_CLIENTS; i++)
		client_lose(&fixture, &clients[i]);
}

static void test_random_lives(void **state)
{
	(void)state;
	for (int round = 0; round < 30; round++) {
		fixture_close(&fixture);
		fixture_open(&fixture);
		random_life(300);
		clean_up();
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_every_commit_fails_once),
		TEST(test_failed_commit_is_told_to_all_of_its_batch),
		TEST(test_random_lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
