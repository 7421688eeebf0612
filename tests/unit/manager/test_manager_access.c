/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager gives sessions passes and capabilities to show to servers. Servers take them, over just
 * the extents of the layout, for as long as they say. And what giving them costs. */
#include "lib/manager/manager_test.h"

#include <stdlib.h>
#include <time.h>

#include "manager/tables/placement.h"
#include "unit/group.h"

#define GIB ((uint64_t)1 << 30)

static const Afar__Access *find_access(Afar__Access *const *accesses, size_t nr,
				       const struct fake_server *server)
{
	for (size_t i = 0; i < nr; i++)
		if (accesses[i]->server == server->number)
			return accesses[i];
	return NULL;
}

static int compare_numbers(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* Finds them as a client does: from the layout alone. */
static size_t extents_on(const Afar__LayoutInfo *info, uint64_t server, uint64_t *extents)
{
	const Layout__Layout *form = info->form;
	size_t nr = 0, distinct = 0;

	for (size_t i = 0; i < form->n_groups; i++)
		for (size_t j = 0; j < form->groups[i]->n_chunks; j++) {
			const Layout__Copy *copy = form->groups[i]->chunks[j]->copies[0];

			if (form->homes[copy->home]->server == server)
				extents[nr++] = copy->extent;
		}
	qsort(extents, nr, sizeof(*extents), compare_numbers);
	for (size_t i = 0; i < nr; i++)
		if (distinct == 0 || extents[distinct - 1] != extents[i])
			extents[distinct++] = extents[i];
	return distinct;
}

/* Checks it as the server does, when it is `age` seconds old. */
static void check_access(const Afar__Access *access, const struct fake_server *server,
			 const struct fake_client *client, const Afar__RegionInfo *region,
			 const Afar__LayoutInfo *layout, uint32_t rights, uint32_t age)
{
	uint8_t digest[CAPABILITY_DIGEST_BYTES], secret[KEY_BYTES];
	struct rpc_capability capability;
	uint64_t session, extents[1024];
	uint32_t expiry;

	assert_non_null(access);
	assert_int_equal(access->incarnation, server->incarnation);
	assert_int_equal(access->lifetime_ms, 60000);
	assert_true(pass_parse(access->pass, &session, &expiry));
	assert_int_equal(session, client->session);
	assert_int_equal(expiry, age + 60);
	assert_int_equal(pass_key(server->signing_key, access->pass, secret), 0);
	assert_int_equal(access->pass_key.len, KEY_BYTES);
	assert_memory_equal(access->pass_key.data, secret, KEY_BYTES);

	assert_int_equal(capability_verify(access->capability.data, access->capability.len,
					   server->signing_key, server->incarnation, age + 60,
					   &capability),
			 0);
	assert_int_equal(capability_verify(access->capability.data, access->capability.len,
					   server->signing_key, server->incarnation, age + 61,
					   &capability),
			 -EACCES);
	assert_int_equal(capability.session, client->session);
	assert_int_equal(capability.namespace, region->namespace_);
	assert_int_equal(capability.generation, region->generation);
	assert_int_equal(capability.rights, rights);
	assert_int_equal(
		capability_digest(extents, extents_on(layout, server->number, extents), digest), 0);
	assert_memory_equal(capability.digest, digest, sizeof(digest));
}

static void test_servers_take_them(void **state)
{
	Afar__RegionInfo *region;
	struct fake_client client;
	Afar__Reply *reply, *again;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	for (size_t i = 0; i < 4; i++) {
		fixture.servers[i].age_s = (uint32_t)(1000 * i);
		fixture_join(&fixture, i, GIB);
		fixture_advance(&fixture, 500);
	}
	ns = make_namespace(&fixture, &client, "a");
	/* Several extents on each, and chunks that come back to them. */
	for (int i = 0; i < 6; i++)
		EXPECT(&client, ask_reserve(ns, 50 * MIB), 0);
	EXPECT(&client, ask_alloc(ns, "small", 3 * MIB, false), 0);
	region = must_open(&client, ask_alloc(ns, "r", 290 * MIB, false), &reply);
	assert_int_equal(region->rights, RIGHT_ALL);
	assert_true(region->layout->form->n_groups > 1);
	assert_int_equal(region->layout->n_accesses, 4);
	for (size_t i = 0; i < 4; i++)
		check_access(find_access(region->layout->accesses, 4, &fixture.servers[i]),
			     &fixture.servers[i], &client, region, region->layout, RIGHT_ALL,
			     (uint32_t)(1000 * i + (2000 - 500 * i) / 1000));
	/* Later ones are good for longer. */
	fixture_advance(&fixture, 100 * 1000);
	again = must(&client, ask_access(region));
	assert_int_equal(again->accesses->n_entries, 4);
	check_access(find_access(again->accesses->entries, 4, &fixture.servers[3]),
		     &fixture.servers[3], &client, region, region->layout, RIGHT_ALL, 3100);
	drop(again);
	drop(reply);
}

static void test_rights_of_the_caller(void **state)
{
	struct fake_client admin, bob;
	Afar__RegionInfo *region;
	Afar__Reply *reply, *again;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &admin);
	fixture_join(&fixture, 0, GIB);
	EXPECT(&admin, ask_key_add("bob", false), 0);
	client_open_as(&fixture, &bob, "bob");
	ns = make_namespace(&fixture, &admin, "a");
	EXPECT(&admin, ask_reserve(ns, 8 * MIB), 0);
	EXPECT(&admin, ask_alloc(ns, "r", MIB, false), 0);
	EXPECT(&admin, ask_grant(ns, "bob", RIGHT_READ), 0);
	region = must_open(&bob, ask_open(ns, "r", 0), &reply);
	check_access(region->layout->accesses[0], &fixture.servers[0], &bob, region, region->layout,
		     RIGHT_READ, 0);
	EXPECT(&admin, ask_grant(ns, "bob", RIGHT_ALL), 0);
	again = must(&bob, ask_access(region));
	check_access(again->accesses->entries[0], &fixture.servers[0], &bob, region, region->layout,
		     RIGHT_ALL, 0);
	drop(again);
	/* A session gets none for what it does not have open. */
	EXPECT(&bob, ask_close(region), 0);
	EXPECT(&bob, ask_access(region), -EINVAL);
	drop(reply);
	EXPECT(&admin, ask_grant(ns, "bob", 0), 0);
}

/* A call that comes again gets no more than one that comes first would. */
static void test_repeated_open_after_close(void **state)
{
	struct fake_client client;
	Afar__Reply *first, *second;
	uint64_t ns, id;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, GIB);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	id = ++client.next_id;
	fixture_send(&fixture, &client, id, ask_alloc(ns, "r", MIB, false), &first);
	fixture_pump(&fixture);
	fixture_send(&fixture, &client, ++client.next_id, ask_close(first->region_info), &second);
	fixture_pump(&fixture);
	drop(second);
	fixture_send(&fixture, &client, id, ask_alloc(ns, "r", MIB, false), &second);
	fixture_pump(&fixture);
	assert_int_equal(second->status, -EINVAL);
	drop(second);
	drop(first);
	check_all(&fixture);
}

/* Servers that are away, come back, restart; and a manager that restarts. */
static void test_servers_come_and_go(void **state)
{
	Afar__RegionInfo *region;
	struct fake_client client;
	Afar__Reply *reply, *again;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, GIB);
	fixture_join(&fixture, 1, GIB);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 16 * MIB), 0);
	region = must_open(&client, ask_alloc(ns, "r", 16 * MIB, false), &reply);
	assert_int_equal(region->layout->n_accesses, 2);
	fixture_disconnect(&fixture, 1);
	again = must(&client, ask_open(ns, "r", 0));
	assert_int_equal(again->region_info->layout->n_servers, 2);
	assert_int_equal(again->region_info->layout->n_accesses, 1);
	assert_int_equal(again->region_info->layout->accesses[0]->server,
			 fixture.servers[0].number);
	drop(again);
	/* The signing key is not stored: before a server is back, nothing is signed for it. */
	fixture_restart(&fixture);
	assert_int_equal(client_resume(&fixture, &client), 0);
	again = must(&client, ask_access(region));
	assert_int_equal(again->accesses->n_entries, 0);
	drop(again);
	fixture.servers[1].age_s = 500;
	fixture_join(&fixture, 1, GIB);
	again = must(&client, ask_access(region));
	assert_int_equal(again->accesses->n_entries, 1);
	check_access(again->accesses->entries[0], &fixture.servers[1], &client, region,
		     region->layout, RIGHT_ALL, 500);
	drop(again);
	fixture_join(&fixture, 0, GIB);
	/* One that has restarted has nothing of the region; the other has its part still. */
	fixture_kill(&fixture, 1);
	fixture_join(&fixture, 1, GIB);
	again = must(&client, ask_access(region));
	assert_int_equal(again->accesses->n_entries, 1);
	check_access(again->accesses->entries[0], &fixture.servers[0], &client, region,
		     region->layout, RIGHT_ALL, 0);
	drop(again);
	/* Freed, but open. */
	EXPECT(&client, ask_free(region), 0);
	EXPECT(&client, ask_access(region), 0);
	EXPECT(&client, ask_close(region), 0);
	EXPECT(&client, ask_access(region), 0);
	EXPECT(&client, ask_close(region), 0);
	EXPECT(&client, ask_access(region), -AFAR_EFREED);
	region->generation += 100;
	EXPECT(&client, ask_access(region), -ENOENT);
	drop(reply);
	check_all(&fixture);
}

/* One extent of a living server is lost: the capability is over what clients know, as it was. */
static void test_lost_extent_of_a_living_server(void **state)
{
	Afar__RegionInfo *region;
	struct fake_client client;
	Afar__Reply *reply, *again;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, GIB);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 16 * MIB), 0);
	region = must_open(&client, ask_alloc(ns, "r", 16 * MIB, false), &reply);
	fixture.servers[0].granted -= fixture.servers[0].extents[0].length;
	fixture.servers[0].extents[0] = fixture.servers[0].extents[--fixture.servers[0].nr_extents];
	fixture_disconnect(&fixture, 0);
	fixture_join(&fixture, 0, GIB);
	again = must(&client, ask_access(region));
	check_access(again->accesses->entries[0], &fixture.servers[0], &client, region,
		     region->layout, RIGHT_ALL, 0);
	drop(again);
	drop(reply);
}

static void test_joins_are_checked(void **state)
{
	struct fake_server *server = &fixture.servers[0];

	(void)state;
	server->does_cut_key = true;
	assert_int_equal(fixture_join(&fixture, 0, GIB), -EINVAL);
	server->does_cut_key = false;
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	/* A server of the same incarnation with another signing key is another server. */
	fixture_disconnect(&fixture, 0);
	check_all(&fixture);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	server->signing_key[5] ^= 1;
	assert_int_equal(fixture_join(&fixture, 0, GIB), -EACCES);
	server->signing_key[5] ^= 1;
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	server->age_s = UINT32_MAX;
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	check_all(&fixture);
}

/* Returns how many bytes the only server is releasing. */
static uint64_t releasing_bytes(void)
{
	return cds_list_first_entry(&fixture.core->state->servers, struct server, node)
		->dram.releasing_bytes;
}

/* It has been draining; it answers when it has drained, and not a join before that. */
static void test_draining_goes_on_at_rejoin(void **state)
{
	struct fake_client client;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 4 * MIB), 0);
	fixture.servers[0].is_silent = true;
	EXPECT(&client, ask_release(ns, 4 * MIB), 0);
	fixture_disconnect(&fixture, 0);
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(fixture.servers[0].nr_released, 0);
	assert_int_equal(releasing_bytes(), 4 * MIB);
	fixture_restart(&fixture);
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(fixture.servers[0].nr_released, 0);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	assert_int_equal(fixture.servers[0].nr_released, 1);
	assert_int_equal(fixture.servers[0].granted, 0);
	check_all(&fixture);
	/* It answers as well when it has begun, and does not count it as granted any more. */
	client_open(&fixture, &client); /* the manager restarted */
	EXPECT(&client, ask_reserve(ns, 4 * MIB), 0);
	fixture.servers[0].is_silent = true;
	EXPECT(&client, ask_release(ns, 4 * MIB), 0);
	fixture.servers[0].nr_extents = fixture.servers[0].granted = 0;
	fixture_disconnect(&fixture, 0);
	fixture_join(&fixture, 0, 64 * MIB);
	assert_int_equal(releasing_bytes(), 4 * MIB);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	assert_int_equal(releasing_bytes(), 0);
	check_all(&fixture);
}

/* ---- What it costs */

#define COST_SERVERS 4
#define COST_EXTENTS 4096 /* of each server */
#define COST_ROUNDS  15

static uint64_t clock_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000U + (uint64_t)time.tv_nsec / 1000U;
}

/* Grants all of servers of 4 TiB to one namespace, in extents of 1 GiB, as if they had been reserved one
 * by one. */
static void grant_extents(uint64_t ns)
{
	struct server *server;
	struct extent *extent;

	cds_list_for_each_entry (server, &fixture.core->state->servers, node)
		for (uint64_t i = 1; i <= COST_EXTENTS; i++)
			assert_int_equal(state_add_extent(fixture.core->state,
							  &(struct extent){
								  .pool = &server->dram,
								  .life = server->incarnation,
								  .number = i,
								  .ns = ns_of(ns),
								  .namespace_number = ns,
								  .length = GIB,
							  },
							  &extent),
					 0);
}

static int time_call(struct fake_client *client, Afar__Request *request, uint64_t *us)
{
	Afar__Reply *reply;
	uint64_t start;
	int status = 0;

	fixture_send(&fixture, client, ++client->next_id, request, &reply);
	fixture.does_drop_answers = us != NULL;
	start = clock_us();
	core_run(fixture.core, &fixture.events);
	if (us != NULL)
		*us = clock_us() - start;
	fixture.does_drop_answers = false;
	if (us == NULL) {
		status = reply->status;
		drop(reply);
	}
	return status;
}

static void print_times(const char *what, uint64_t *us)
{
	qsort(us, COST_ROUNDS, sizeof(*us), compare_numbers);
	print_message("[   TIME   ] %-34s %6.2f ms (%.2f to %.2f)\n", what,
		      (double)us[COST_ROUNDS / 2] / 1000, (double)us[0] / 1000,
		      (double)us[COST_ROUNDS - 1] / 1000);
}

static void test_cost_of_16_tib(void **state)
{
	uint64_t alloc[COST_ROUNDS], open[COST_ROUNDS], access[COST_ROUNDS], ns;
	Afar__RegionInfo *region;
	struct fake_client client;
	Afar__Reply *reply;

	(void)state;
	client_open(&fixture, &client);
	for (size_t i = 0; i < COST_SERVERS; i++)
		fixture_join(&fixture, i, COST_EXTENTS * GIB);
	ns = make_namespace(&fixture, &client, "a");
	grant_extents(ns);
	/* Commits do nothing: what the store costs is not the core's. */
	fixture.store.does_forget = true;
	for (size_t i = 0; i < COST_ROUNDS; i++) {
		assert_int_equal(
			time_call(&client, ask_alloc(ns, "r", 16 * 1024 * GIB, false), &alloc[i]),
			0);
		region = must_open(&client, ask_open(ns, "r", 0), &reply);
		assert_int_equal(region->layout->n_accesses, COST_SERVERS);
		assert_int_equal(time_call(&client, ask_open(ns, "r", 0), &open[i]), 0);
		assert_int_equal(time_call(&client, ask_access(region), &access[i]), 0);
		EXPECT(&client, ask_free(region), 0);
		for (int times = 0; times < 3; times++)
			EXPECT(&client, ask_close(region), 0);
		drop(reply);
	}
	print_times("alloc 16 TiB in 16384 extents", alloc);
	print_times("open it", open);
	print_times("access to it anew", access);
}

TEST_GROUP(manager_access)
{
	const struct CMUnitTest tests[] = {
		TEST(test_servers_take_them),
		TEST(test_rights_of_the_caller),
		TEST(test_repeated_open_after_close),
		TEST(test_servers_come_and_go),
		TEST(test_lost_extent_of_a_living_server),
		TEST(test_joins_are_checked),
		TEST(test_draining_goes_on_at_rejoin),
		TEST(test_cost_of_16_tib),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
