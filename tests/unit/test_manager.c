/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's namespaces and regions: what each call answers, and that tables, store and servers
 * agree, out of order and over restarts too. */
#include "group.h"
#include "manager_test.h"

/* ---- Namespaces */

static void test_namespace_names_and_policies(void **state)
{
	struct fake_client client;
	char longest[AFAR_NAME_MAX + 2];
	Afar__Reply *reply;

	(void)state;
	memset(longest, 'a', sizeof(longest));
	longest[AFAR_NAME_MAX + 1] = '\0';
	assert_int_equal(client_open(&fixture, &client), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_create("", 0, 0)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_create(".a", 0, 0)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_create("-a", 0, 0)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_create("a b", 0, 0)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_create("a/b", 0, 0)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_create("ä", 0, 0)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_create(longest, 0, 0)), -EINVAL);
	longest[AFAR_NAME_MAX] = '\0';
	assert_int_equal(fixture_do(&fixture, &client, ask_create(longest, 0, 0)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_create("a", 65, 0)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_create("a", 0, 2048)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_create("a", 0, 4097)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_create("a", 0, 2ULL << 30)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_create("a", 0, 0)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_create("a", 0, 0)), -EEXIST);
	reply = fixture_ask(&fixture, &client, ask_namespace("a"));
	assert_int_equal(reply->namespace_info->policy->width, 64);
	assert_int_equal(reply->namespace_info->policy->stripe_bytes, 1 << 20);
	assert_int_equal(reply->namespace_info->nr_regions, 0);
	drop(reply);
	assert_int_equal(fixture_do(&fixture, &client, ask_namespace("b")), -ENOENT);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(77, 1)), -ENOENT);
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(77, "", 1, false)), -ENOENT);
	assert_int_equal(fixture_do(&fixture, &client, ask_delete("b", false)), -ENOENT);
	assert_int_equal(fixture_do(&fixture, &client, ask_delete("a", false)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_delete(longest, true)), 0);
	check_empty(&fixture);
}

static void test_numbers_are_never_used_again(void **state)
{
	struct fake_client client;
	uint64_t first, second;

	(void)state;
	client_open(&fixture, &client);
	first = make_namespace(&fixture, &client, "a");
	assert_int_equal(fixture_do(&fixture, &client, ask_delete("a", false)), 0);
	fixture_restart(&fixture);
	client_resume(&fixture, &client);
	second = make_namespace(&fixture, &client, "a");
	assert_true(second > first);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(first, 1)), -ENOENT);
}

static void test_listing_is_in_order_and_paged(void **state)
{
	struct fake_client client;
	Afar__Reply *reply;
	char name[32];
	uint64_t ns, last = 0;
	size_t nr = 0;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 1 << 30);
	for (unsigned i = 0; i < 1100; i++) {
		snprintf(name, sizeof(name), "n%u", i * 7919 % 1100);
		assert_int_equal(fixture_do(&fixture, &client, ask_create(name, 0, 0)), 0);
	}
	reply = fixture_ask(&fixture, &client, ask_namespaces("", 0));
	assert_int_equal(reply->namespace_infos->n_entries, CORE_LIST_MAX);
	for (size_t i = 1; i < CORE_LIST_MAX; i++)
		assert_true(strcmp(reply->namespace_infos->entries[i - 1]->name,
				   reply->namespace_infos->entries[i]->name) < 0);
	snprintf(name, sizeof(name), "%s",
		 reply->namespace_infos->entries[CORE_LIST_MAX - 1]->name);
	drop(reply);
	reply = fixture_ask(&fixture, &client, ask_namespaces(name, 0));
	assert_int_equal(reply->namespace_infos->n_entries, 100);
	drop(reply);
	reply = fixture_ask(&fixture, &client, ask_namespaces("n9", 2));
	assert_int_equal(reply->namespace_infos->n_entries, 2);
	assert_string_equal(reply->namespace_infos->entries[0]->name, "n90");
	drop(reply);

	ns = make_namespace(&fixture, &client, "regions");
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 64 * MIB)), 0);
	for (unsigned i = 0; i < 1100; i++)
		assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, "", 1, false)), 0);
	do {
		reply = fixture_ask(&fixture, &client, ask_regions(ns, last, 300));
		for (size_t i = 0; i < reply->region_infos->n_entries; i++) {
			assert_true(reply->region_infos->entries[i]->address > last);
			assert_null(reply->region_infos->entries[i]->layout);
			last = reply->region_infos->entries[i]->address;
		}
		nr += reply->region_infos->n_entries;
		if (reply->region_infos->n_entries == 0)
			last = 0;
		drop(reply);
	} while (last != 0);
	assert_int_equal(nr, 1100);
	check_all(&fixture);
}

static void test_namespace_delete(void **state)
{
	struct fake_client client, other;
	Afar__RegionInfo *region;
	Afar__Reply *reply;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	client_open(&fixture, &other);
	fixture_join(&fixture, 0, 1 << 30);
	ns = make_namespace(&fixture, &client, "a");
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB)), 0);
	region = must_open(&client, ask_alloc(ns, "r", MIB, false), &reply);
	assert_int_equal(fixture_do(&fixture, &other, ask_delete("a", false)), -ENOTEMPTY);
	assert_int_equal(fixture_do(&fixture, &other, ask_delete("a", true)), -EBUSY);
	assert_int_equal(ns_of(ns)->nr_regions, 1);
	/* Freed, but open still. */
	assert_int_equal(fixture_do(&fixture, &client, ask_free(region)), 0);
	assert_int_equal(fixture_do(&fixture, &other, ask_delete("a", true)), -EBUSY);
	assert_int_equal(fixture_do(&fixture, &client, ask_close(region)), 0);
	drop(reply);
	region = must_open(&client, ask_alloc(ns, "r", MIB, false), &reply);
	assert_int_equal(fixture_do(&fixture, &client, ask_close(region)), 0);
	drop(reply);
	assert_int_equal(fixture_do(&fixture, &other, ask_delete("a", true)), 0);
	check_empty(&fixture);
}

/* ---- Reserving */

static void test_reserve_limits(void **state)
{
	struct fake_client client;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	ns = make_namespace(&fixture, &client, "a");
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 1)), -AFAR_ENOSERVER);
	fixture_join(&fixture, 0, 8 * MIB);
	fixture_join(&fixture, 1, 8 * MIB);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 0)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, UINT64_MAX)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, UINT64_MAX / 2)), -ENOSPC);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 16 * MIB + 1)), -ENOSPC);
	check_all(&fixture);
	assert_int_equal(ns_of(ns)->reserved_bytes, 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB)), 0);
	assert_int_equal(fixture.servers[0].granted, 4 * MIB);
	assert_int_equal(fixture.servers[1].granted, 4 * MIB);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB - 1)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 1)), -ENOSPC);
	check_all(&fixture);
	assert_int_equal(fixture_do(&fixture, &client, ask_release(ns, 0)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_release(ns, UINT64_MAX)), 0);
	assert_int_equal(ns_of(ns)->reserved_bytes, 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_delete("a", false)), 0);
	check_empty(&fixture);
}

static void test_reserve_waits_for_memory_being_released(void **state)
{
	struct fake_client client;
	Afar__Reply *reply;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 8 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB)), 0);
	fixture.servers[0].is_silent = true;
	assert_int_equal(fixture_do(&fixture, &client, ask_release(ns, UINT64_MAX)), 0);
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &reply);
	fixture_pump(&fixture);
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
	struct fake_client client;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	for (size_t i = 0; i < 3; i++)
		fixture_join(&fixture, i, 16 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	fixture.servers[1].refuse = -ENOMEM;
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 24 * MIB)), 0);
	assert_int_equal(ns_of(ns)->reserved_bytes, 24 * MIB);
	assert_int_equal(fixture.servers[1].granted, 0);
	/* What the others gave goes back when it does not suffice. */
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 18 * MIB)), -ENOSPC);
	assert_int_equal(fixture.servers[0].granted + fixture.servers[2].granted, 24 * MIB);
	fixture.servers[1].refuse = -EIO;
	expect_said(&client, ask_reserve(ns, 18 * MIB), -AFAR_ESERVER,
		    "server 'server-1' at 127.0.0.1:7501 failed (EIO)");
	fixture.servers[1].refuse = 0;
	check_all(&fixture);
	/* One that lies must rejoin, and give back. */
	fixture.servers[1].does_grant_wrong = true;
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 18 * MIB)), -AFAR_ESERVER);
	assert_null(fixture.servers[1].peer);
	assert_true(fixture.servers[1].granted > 0);
	fixture.servers[1].does_grant_wrong = false;
	assert_int_equal(fixture_join(&fixture, 1, 16 * MIB), 0);
	assert_int_equal(fixture.servers[1].granted, 0);
	check_all(&fixture);
}

/* What one has got is counted once, while it is being committed as well: the last bytes are another's in the same batch. */
static void test_reserve_beside_one_that_ends(void **state)
{
	struct fake_client client;
	Afar__Reply *first, *second;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 12 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	fixture.servers[0].is_silent = true;
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &first);
	fixture_pump(&fixture);
	fixture.servers[0].is_silent = false;
	assert_true(fixture_serve(&fixture));
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 4 * MIB), &second);
	fixture_pump(&fixture);
	assert_int_equal(first->status, 0);
	assert_int_equal(second->status, 0);
	drop(first);
	drop(second);
	assert_int_equal(ns_of(ns)->reserved_bytes, 12 * MIB);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 2 * MIB)), -ENOSPC);
	check_all(&fixture);
}

/* The server has been reconciled meanwhile, and what it granted was given back; nor does it matter that it failed. */
static void test_reserve_answered_over_a_former_connection(void **state)
{
	struct fake_client client;
	struct event *answer;
	Afar__Reply *reply;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	/* Who holds nothing is forgotten when it goes. */
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB)), 0);
	for (int is_lost = 0; is_lost < 2; is_lost++) {
		fixture.servers[0].is_silent = true;
		fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &reply);
		fixture_pump(&fixture);
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
		assert_int_equal(ns_of(ns)->reserved_bytes, 8 * MIB);
		check_all(&fixture);
	}
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 56 * MIB)), 0);
	check_all(&fixture);
}

/* A request that comes again when the client has the replies to all before it, as it may not have had the first time. */
static void send_again(struct fake_client *client, uint64_t id, Afar__Request *request,
		       Afar__Reply **answer)
{
	fixture_send(&fixture, client, id, request, answer);
	cds_list_entry(fixture.events.prev, struct event, node)->settled_below = id;
}

static void test_reserve_repeated_joins_the_running_job(void **state)
{
	struct fake_client client;
	Afar__Reply *first, *second, *third;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
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
	struct fake_client client;
	Afar__Reply *first, *second;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	for (size_t i = 0; i < 3; i++)
		fixture_join(&fixture, i, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	fixture.servers[1].is_silent = true;
	fixture.time_ns = 4000000000U;
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 12 * MIB), &first);
	fixture_pump(&fixture);
	assert_true(core_next_run(fixture.core) <= fixture.now + 3000000000U);
	fixture_advance(&fixture, 2999);
	assert_null(first);
	fixture_advance(&fixture, 1);
	assert_non_null(first);
	assert_int_equal(first->status, -ETIMEDOUT);
	assert_non_null(strstr(first->message, "server 'server-1' at 127.0.0.1:7501 did not"));
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
	struct fake_client client;
	Afar__Reply *answer;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 16 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 16 * MIB), 0);
	fixture.servers[0].is_silent = true;
	EXPECT(&client, ask_release(ns, UINT64_MAX), 0);
	fixture.time_ns = 400000000U;
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &answer);
	fixture_pump(&fixture);
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

/* In the middle of a reservation: the session ends, the namespace is deleted, the server loses its
 * connection, restarts, or the manager is killed. */
static void test_reserve_undoes_itself(void **state)
{
	struct fake_client client, other;
	Afar__Reply *reply;
	uint64_t ns;

	(void)state;
	for (int kind = 0; kind < 5; kind++) {
		client_open(&fixture, &client);
		client_open(&fixture, &other);
		fixture_join(&fixture, 0, 64 * MIB);
		fixture_join(&fixture, 1, 64 * MIB);
		ns = make_namespace(&fixture, &client, "a");
		fixture.servers[0].is_silent = true;
		fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &reply);
		fixture_pump(&fixture);
		assert_null(reply);
		assert_int_equal(fixture.servers[1].granted, 4 * MIB);
		if (kind == 0)
			assert_int_equal(fixture_do(&fixture, &client, ask_session_close()), 0);
		if (kind == 1)
			assert_int_equal(fixture_do(&fixture, &other, ask_delete("a", false)), 0);
		if (kind == 2)
			fixture_disconnect(&fixture, 1);
		if (kind == 3)
			fixture_kill(&fixture, 1);
		fixture.servers[0].is_silent = kind == 4;
		fixture_pump(&fixture);
		if (kind == 4)
			fixture_restart(&fixture);
		fixture.servers[0].is_silent = false;
		for (size_t i = 0; i < 2; i++)
			if (fixture.servers[i].peer == NULL)
				assert_int_equal(fixture_join(&fixture, i, 64 * MIB), 0);
		fixture_pump(&fixture);
		assert_non_null(reply);
		/* Without server 1, server 0 does it alone. */
		if (kind == 4)
			assert_true(reply->status < 0);
		else
			assert_int_equal(reply->status, kind == 0   ? -AFAR_ESESSION
							: kind == 1 ? -ENOENT
								    : 0);
		drop(reply);
		check_all(&fixture);
		if (kind == 4)
			assert_int_equal(client_resume(&fixture, &other), 0);
		if (kind != 1)
			assert_int_equal(fixture_do(&fixture, &other, ask_delete("a", false)), 0);
		check_empty(&fixture);
	}
}

/* The client hears at once; what other servers have granted, and what one still will, is given back. */
static void test_reserve_is_cancelled(void **state)
{
	struct fake_client client, other;
	Afar__Reply *first, *second, *others;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	client_open(&fixture, &other);
	fixture_join(&fixture, 0, 64 * MIB);
	fixture_join(&fixture, 1, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_cancel(ns)),
			 0); /* it is done: it stays */
	fixture.servers[0].is_silent = true;
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &first);
	fixture_send(&fixture, &other, ++other.next_id, ask_reserve(ns, 16 * MIB), &others);
	fixture_pump(&fixture);
	assert_int_equal(fixture.servers[1].granted, 16 * MIB);
	assert_int_equal(fixture_do(&fixture, &client, ask_cancel(ns)), 0);
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
	struct fake_client client, other;
	Afar__Reply *first, *second;
	uint64_t ns;

	(void)state;
	for (int does_return = 0; does_return < 2; does_return++) {
		client_open(&fixture, &other);
		client_open(&fixture, &client);
		fixture_join(&fixture, 0, 64 * MIB);
		ns = make_namespace(&fixture, &other, "a");
		fixture.servers[0].is_silent = true;
		fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 8 * MIB), &first);
		fixture_pump(&fixture);
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
		assert_int_equal(fixture_do(&fixture, &other, ask_delete("a", false)), 0);
		check_empty(&fixture);
	}
}

static void test_reserve_then_alloc_the_same(void **state)
{
	struct fake_client client;
	Afar__RegionInfo *region;
	Afar__Reply *reply;
	char name[32];

	(void)state;
	client_open(&fixture, &client);
	for (size_t nr_servers = 1; nr_servers <= 5; nr_servers++) {
		fixture_join(&fixture, nr_servers - 1, (uint64_t)4 << 30);
		for (int round = 0; round < 200; round++) {
			uint64_t bytes = 1 + random_below((uint64_t)1 << (1 + random_below(30)));
			uint64_t ns;

			snprintf(name, sizeof(name), "n%zu-%d", nr_servers, round);
			reply = fixture_ask(&fixture, &client,
					    ask_create(name, (uint32_t)random_below(7),
						       (uint64_t)4096 << random_below(12)));
			ns = reply->namespace_info->namespace_;
			drop(reply);
			for (int times = 0; times < 3; times++) {
				assert_int_equal(
					fixture_do(&fixture, &client, ask_reserve(ns, bytes)), 0);
				region =
					must_open(&client, ask_alloc(ns, "", bytes, false), &reply);
				assert_int_equal(region->length, bytes);
				assert_int_equal(fixture_do(&fixture, &client, ask_close(region)),
						 0);
				drop(reply);
			}
			if (round % 20 == 0)
				check_all(&fixture);
			assert_int_equal(fixture_do(&fixture, &client, ask_delete(name, true)), 0);
		}
	}
	check_empty(&fixture);
}

/* ---- Regions */

static void test_alloc_limits(void **state)
{
	struct fake_client client;
	char name[AFAR_NAME_MAX + 2];
	Afar__Reply *reply;
	uint64_t ns;

	(void)state;
	memset(name, 'n', sizeof(name));
	name[AFAR_NAME_MAX + 1] = '\0';
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 1 << 30);
	ns = make_namespace(&fixture, &client, "a");
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, "", 1, false)),
			 -AFAR_ERESERVE);
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 2 * MIB)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, "", 0, false)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, "", UINT64_MAX, false)),
			 -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, "", UINT64_MAX - 4095, false)),
			 -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, "", 2 * MIB + 1, false)),
			 -AFAR_ERESERVE);
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, name, 1, false)), -EINVAL);
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, "a\nb", 1, false)), -EINVAL);
	name[AFAR_NAME_MAX] = '\0';
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, name, 1, false)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, name, 1, false)), -EEXIST);
	assert_int_equal(ns_of(ns)->allocated_bytes, 4096);
	reply = fixture_ask(&fixture, &client, ask_alloc(ns, "", 2 * MIB, false));
	assert_int_equal(reply->status, -AFAR_ERESERVE);
	assert_non_null(strstr(reply->message, "2093056")); /* what is free */
	drop(reply);
	check_all(&fixture);
}

static void test_first_region_and_addresses(void **state)
{
	Afar__RegionInfo *first, *second, *third, *again;
	Afar__Reply *replies[4];
	struct fake_client client;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 1 << 30);
	ns = make_namespace(&fixture, &client, "a");
	fixture_do(&fixture, &client, ask_reserve(ns, 64 * MIB));
	assert_int_equal(fixture_do(&fixture, &client, ask_open(ns, "", AFAR_FIRST_ADDRESS)),
			 -ENOENT);
	first = must_open(&client, ask_alloc(ns, "", 1, true), &replies[0]);
	assert_int_equal(first->address, AFAR_FIRST_ADDRESS);
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, "", 1, true)), -EADDRINUSE);
	second = must_open(&client, ask_alloc(ns, "", 4097, false), &replies[1]);
	third = must_open(&client, ask_alloc(ns, "", 1, false), &replies[2]);
	assert_int_equal(third->address, second->address + 8192);
	assert_int_equal(third->address % 4096, 0);
	/* The first address can be taken again, by a larger one too; no other is. */
	assert_int_equal(fixture_do(&fixture, &client, ask_free(third)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_free(first)), 0);
	again = must_open(&client, ask_alloc(ns, "", 4 * MIB, true), &replies[3]);
	assert_int_equal(again->address, AFAR_FIRST_ADDRESS);
	assert_true(again->generation > third->generation);
	drop(replies[3]);
	again = must_open(&client, ask_alloc(ns, "", 1, false), &replies[3]);
	assert_true(again->address > third->address);
	for (size_t i = 0; i < 4; i++)
		drop(replies[i]);
	check_all(&fixture);

	/* The first of all is the first, asked or not. */
	ns = make_namespace(&fixture, &client, "b");
	fixture_do(&fixture, &client, ask_reserve(ns, 2 * MIB));
	first = must_open(&client, ask_alloc(ns, "", 1, false), &replies[0]);
	assert_int_equal(first->address, AFAR_FIRST_ADDRESS);
	assert_int_equal(fixture_do(&fixture, &client, ask_free(first)), 0);
	second = must_open(&client, ask_alloc(ns, "", 1, false), &replies[1]);
	assert_true(second->address > AFAR_FIRST_ADDRESS);
	drop(replies[0]);
	drop(replies[1]);
	/* The end of the address space. */
	ns_of(ns)->next_address = UINT64_MAX - 4095;
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, "", 4096, false)), -EINVAL);
}

static void test_free_and_references(void **state)
{
	struct fake_client client, other;
	Afar__Reply *reply, *opened;
	Afar__RegionInfo *region;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	client_open(&fixture, &other);
	fixture_join(&fixture, 0, 1 << 30);
	ns = make_namespace(&fixture, &client, "a");
	fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB));
	region = must_open(&client, ask_alloc(ns, "r", 4 * MIB, false), &reply);
	assert_int_equal(region->nr_references, 1);
	assert_int_equal(must_open(&other, ask_open(ns, "r", 0), &opened)->nr_references, 2);
	assert_int_equal(opened->region_info->layout->servers[0]->incarnation,
			 fixture.servers[0].incarnation);
	drop(opened);
	must_open(&other, ask_open(ns, "", region->address), &opened);
	drop(opened);
	/* Gone at once for those who look for it; the memory stays theirs who have it open. */
	assert_int_equal(fixture_do(&fixture, &client, ask_free(region)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_free(region)), -AFAR_EFREED);
	assert_int_equal(fixture_do(&fixture, &client, ask_open(ns, "r", 0)), -ENOENT);
	assert_int_equal(fixture_do(&fixture, &client, ask_open(ns, "", region->address)), -ENOENT);
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, "r", 6 * MIB, false)),
			 -AFAR_ERESERVE);
	assert_int_equal(fixture_do(&fixture, &client, ask_close(region)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_close(region)), -EINVAL);
	fixture_restart(&fixture);
	fixture_join(&fixture, 0, 1 << 30);
	assert_int_equal(client_resume(&fixture, &client), 0);
	assert_int_equal(client_resume(&fixture, &other), 0);
	assert_int_equal(ns_of(ns)->allocated_bytes, 4 * MIB);
	assert_int_equal(fixture_do(&fixture, &other, ask_close(region)), 0);
	assert_int_equal(ns_of(ns)->allocated_bytes, 4 * MIB);
	assert_int_equal(fixture_do(&fixture, &other, ask_close(region)), 0);
	assert_int_equal(ns_of(ns)->allocated_bytes, 0);
	assert_int_equal(fixture_do(&fixture, &other, ask_close(region)), -AFAR_EFREED);
	assert_int_equal(fixture_do(&fixture, &other, ask_free(region)), -AFAR_EFREED);
	region->generation = UINT64_MAX;
	assert_int_equal(fixture_do(&fixture, &other, ask_free(region)), -ENOENT);
	drop(reply);
	check_all(&fixture);
}

/* Who does a region's atomics is said when it is made, and to everybody, from then on. */
static void test_home_of_atomics_is_kept(void **state)
{
	Afar__Request *ask;
	Afar__Reply *reply;
	struct fake_client client;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 1 << 30);
	ns = make_namespace(&fixture, &client, "a");
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB)), 0);
	assert_false(must_open(&client, ask_alloc(ns, "cpu", 1, false), &reply)->has_nic_atomics);
	drop(reply);
	ask = ask_alloc(ns, "nic", 1, false);
	ask->region_alloc->has_nic_atomics = true;
	assert_true(must_open(&client, ask, &reply)->has_nic_atomics);
	drop(reply);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(must_open(&client, ask_open(ns, "nic", 0), &reply)->has_nic_atomics);
		drop(reply);
		assert_false(must_open(&client, ask_open(ns, "cpu", 0), &reply)->has_nic_atomics);
		drop(reply);
		reply = fixture_ask(&fixture, &client, ask_regions(ns, 0, 2));
		assert_int_equal(reply->region_infos->n_entries, 2);
		assert_false(reply->region_infos->entries[0]->has_nic_atomics);
		assert_true(reply->region_infos->entries[1]->has_nic_atomics);
		drop(reply);
		fixture_restart(&fixture);
		fixture_join(&fixture, 0, 1 << 30);
		assert_int_equal(client_resume(&fixture, &client), 0);
	}
	check_all(&fixture);
}

/* Durably so, from when it is made until somebody who may write it says that all is in it. */
static void test_unfinished_until_said(void **state)
{
	struct fake_client client;
	Afar__RegionInfo *region;
	Afar__Request *ask;
	Afar__Reply *reply, *opened;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 1 << 30);
	ns = make_namespace(&fixture, &client, "a");
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB)), 0);
	ask = ask_alloc(ns, "r", 1, false);
	ask->region_alloc->is_unfinished = true;
	region = must_open(&client, ask, &opened);
	assert_true(region->is_unfinished);
	for (unsigned i = 0; i < 2; i++) {
		fixture_restart(&fixture);
		fixture_join(&fixture, 0, 1 << 30);
		assert_int_equal(client_resume(&fixture, &client), 0);
		reply = fixture_ask(&fixture, &client, ask_regions(ns, 0, 1));
		assert_int_equal(reply->region_infos->entries[0]->is_unfinished, i == 0);
		drop(reply);
		assert_int_equal(must_open(&client, ask_open(ns, "r", 0), &reply)->is_unfinished,
				 i == 0);
		drop(reply);
		assert_int_equal(fixture_do(&fixture, &client, ask_finish(region)), 0);
	}
	assert_int_equal(fixture_do(&fixture, &client, ask_free(region)), 0);
	assert_int_equal(fixture_do(&fixture, &client, ask_finish(region)), -AFAR_EFREED);
	drop(opened);
	assert_false(must_open(&client, ask_alloc(ns, "plain", 1, false), &reply)->is_unfinished);
	drop(reply);
	check_all(&fixture);
}

static void test_requests_are_done_once(void **state)
{
	struct fake_client client;
	Afar__Reply *first, *second;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 1 << 30);
	ns = make_namespace(&fixture, &client, "a");
	fixture_do(&fixture, &client, ask_reserve(ns, 8 * MIB));
	for (int times = 0; times < 3; times++) {
		uint64_t id = ++client.next_id;

		fixture_send(&fixture, &client, id, ask_alloc(ns, "", 5000, false), &first);
		if (times != 0) /* else in the same batch */
			fixture_pump(&fixture);
		if (times == 2) {
			fixture_restart(&fixture);
			fixture_join(&fixture, 0, 1 << 30);
			assert_int_equal(client_resume(&fixture, &client), 0);
		}
		send_again(&client, id, ask_alloc(ns, "", 5000, false), &second);
		fixture_pump(&fixture);
		assert_int_equal(first->status, 0);
		assert_int_equal(second->status, 0);
		assert_int_equal(first->region_info->generation, second->region_info->generation);
		assert_int_equal(second->region_info->layout->groups[0]->chunks[0]->offset,
				 first->region_info->layout->groups[0]->chunks[0]->offset);
		assert_int_equal(ns_of(ns)->nr_regions, times + 1);
		drop(first);
		drop(second);
	}
	check_all(&fixture);
	fixture_send(&fixture, &client, 0, ask_alloc(ns, "", 1, false), &first);
	fixture_pump(&fixture);
	assert_int_equal(first->status, -EINVAL);
	drop(first);
	/* Settled: the replies are dropped, and the ids not taken again. */
	assert_int_equal(fixture_do(&fixture, &client, ask_alloc(ns, "", 1, false)), 0);
	assert_int_equal(state_session(fixture.core->state, client.session)->nr_outcomes, 1);
	fixture_send(&fixture, &client, 1, ask_alloc(ns, "", 1, false), &first);
	fixture_pump(&fixture);
	assert_int_equal(first->status, -EINVAL);
	drop(first);
	/* Not without limit. */
	for (unsigned i = 0; i <= CORE_OUTCOMES_MAX; i++) {
		fixture_send(&fixture, &client, 100 + i, ask_open(ns, "", AFAR_FIRST_ADDRESS),
			     &first);
		fixture_pump(&fixture);
		assert_int_equal(first->status, i < CORE_OUTCOMES_MAX - 1 ? 0 : -EBUSY);
		drop(first);
	}
	check_all(&fixture);
}

TEST_GROUP(manager)
{
	const struct CMUnitTest tests[] = {
		TEST(test_namespace_names_and_policies),
		TEST(test_numbers_are_never_used_again),
		TEST(test_listing_is_in_order_and_paged),
		TEST(test_namespace_delete),
		TEST(test_reserve_limits),
		TEST(test_reserve_waits_for_memory_being_released),
		TEST(test_reserve_goes_on_without_a_server_that_fails),
		TEST(test_reserve_beside_one_that_ends),
		TEST(test_reserve_answered_over_a_former_connection),
		TEST(test_reserve_repeated_joins_the_running_job),
		TEST(test_reserve_tells_who_does_not_answer),
		TEST(test_reserve_tells_who_does_not_release),
		TEST(test_reserve_undoes_itself),
		TEST(test_reserve_is_cancelled),
		TEST(test_reserve_that_nobody_hears_of),
		TEST(test_reserve_then_alloc_the_same),
		TEST(test_alloc_limits),
		TEST(test_first_region_and_addresses),
		TEST(test_free_and_references),
		TEST(test_home_of_atomics_is_kept),
		TEST(test_unfinished_until_said),
		TEST(test_requests_are_done_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
