/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's namespaces and regions: what each call answers, and that tables, store and servers
 * agree, out of order and over restarts too. */
#include <stdio.h>
#include <string.h>

#include <afar/afar.h>

#include "lib/manager/manager_test.h"
#include "unit/group.h"

/* Most tests begin with a server, two sessions, and namespace "a" without memory. */
static struct fake_client client, other;
static uint64_t ns;

static int begin(void **state)
{
	setup(state);
	assert_int_equal(client_open(&fixture, &client), 0);
	assert_int_equal(client_open(&fixture, &other), 0);
	assert_int_equal(fixture_join(&fixture, 0, 1 << 30), 0);
	ns = make_namespace(&fixture, &client, "a");
	return 0;
}

#define MANAGER_TEST(name) cmocka_unit_test_setup_teardown(name, begin, teardown)

/* The manager restarts; the server and the client come back. */
static void restart(void)
{
	fixture_restart(&fixture);
	assert_int_equal(fixture_join(&fixture, 0, 1 << 30), 0);
	assert_int_equal(client_resume(&fixture, &client), 0);
}

static char longest[AFAR_NAME_MAX + 1], too_long[AFAR_NAME_MAX + 2];

static void make_long_names(void)
{
	memset(longest, 'n', AFAR_NAME_MAX);
	memset(too_long, 'n', AFAR_NAME_MAX + 1);
}

/* ---- Namespaces */

static const struct {
	const char *what, *name;
	uint32_t width;
	uint64_t stripe_bytes;
	int status;
} creations[] = {
	{"no name", "", .status = -EINVAL},
	{"a dot in front", ".b", .status = -EINVAL},
	{"a dash in front", "-b", .status = -EINVAL},
	{"a space", "a b", .status = -EINVAL},
	{"a slash", "a/b", .status = -EINVAL},
	{"a letter that is not ASCII", "ä", .status = -EINVAL},
	{"a name that is too long", too_long, .status = -EINVAL},
	{"the longest name", longest, .status = 0},
	{"more servers than there may be", "b", .width = 65, .status = -EINVAL},
	{"stripe units below a page", "b", .stripe_bytes = 2048, .status = -EINVAL},
	{"stripe units of no power of two", "b", .stripe_bytes = 4097, .status = -EINVAL},
	{"stripe units that are too large", "b", .stripe_bytes = 2ULL << 30, .status = -EINVAL},
	{"the defaults", "b", .status = 0},
	{"a name that is taken", "b", .status = -EEXIST},
};

static void test_namespace_names_and_policies(void **state)
{
	Afar__Reply *reply;

	(void)state;
	make_long_names();
	for (size_t i = 0; i < sizeof(creations) / sizeof(creations[0]); i++)
		expect_case(creations[i].what, &client,
			    ask_create(creations[i].name, creations[i].width,
				       creations[i].stripe_bytes),
			    creations[i].status, NULL);
	reply = must(&client, ask_namespace("b"));
	assert_int_equal(reply->namespace_info->policy->width, 64);
	assert_int_equal(reply->namespace_info->policy->stripe_bytes, 1 << 20);
	assert_int_equal(reply->namespace_info->nr_regions, 0);
	drop(reply);
	EXPECT(&client, ask_namespace("c"), -ENOENT);
	EXPECT(&client, ask_reserve(77, 1), -ENOENT);
	EXPECT(&client, ask_alloc(77, "", 1, false), -ENOENT);
	EXPECT(&client, ask_delete("c", false), -ENOENT);
	EXPECT(&client, ask_delete("a", false), 0);
	EXPECT(&client, ask_delete("b", false), 0);
	EXPECT(&client, ask_delete(longest, true), 0);
	check_empty(&fixture);
}

static void test_numbers_are_never_used_again(void **state)
{
	(void)state;
	EXPECT(&client, ask_delete("a", false), 0);
	restart();
	assert_true(make_namespace(&fixture, &client, "a") > ns);
	EXPECT(&client, ask_reserve(ns, 1), -ENOENT);
}

static void test_listing_is_in_order_and_paged(void **state)
{
	Afar__Reply *reply;
	char name[32];
	uint64_t last = 0;
	size_t nr = 0;

	(void)state;
	for (unsigned i = 1; i < 1100; i++) { /* "a" is one, too */
		snprintf(name, sizeof(name), "n%u", i * 7919 % 1100);
		EXPECT(&client, ask_create(name, 0, 0), 0);
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

	EXPECT(&client, ask_reserve(ns, 64 * MIB), 0);
	for (unsigned i = 0; i < 1100; i++)
		EXPECT(&client, ask_alloc(ns, "", 1, false), 0);
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
	Afar__RegionInfo *region;
	Afar__Reply *reply;

	(void)state;
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	region = must_open(&client, ask_alloc(ns, "r", MIB, false), &reply);
	EXPECT(&other, ask_delete("a", false), -ENOTEMPTY);
	EXPECT(&other, ask_delete("a", true), -EBUSY);
	assert_int_equal(ns_of(ns)->nr_regions, 1);
	/* Freed, but open still. */
	EXPECT(&client, ask_free(region), 0);
	EXPECT(&other, ask_delete("a", true), -EBUSY);
	EXPECT(&client, ask_close(region), 0);
	drop(reply);
	region = must_open(&client, ask_alloc(ns, "r", MIB, false), &reply);
	EXPECT(&client, ask_close(region), 0);
	drop(reply);
	EXPECT(&other, ask_delete("a", true), 0);
	check_empty(&fixture);
}

/* ---- Regions */

static const struct {
	const char *what, *name;
	uint64_t bytes;
	int status;
	const char *said;
} allocs[] = {
	{"no bytes", "", 0, -EINVAL},
	{"more than an address can count", "", UINT64_MAX, -EINVAL},
	{"the address space but for a page", "", UINT64_MAX - 4095, -EINVAL},
	{"more than there is", "", 2 * MIB + 1, -AFAR_ERESERVE},
	{"a name that is too long", too_long, 1, -EINVAL},
	{"a line feed in a name", "a\nb", 1, -EINVAL},
	{"the longest name", longest, 1, 0},
	{"a name that is taken", longest, 1, -EEXIST},
	{"more than is left", "", 2 * MIB, -AFAR_ERESERVE, "2093056"},
};

static void test_alloc_limits(void **state)
{
	(void)state;
	make_long_names();
	EXPECT(&client, ask_alloc(ns, "", 1, false), -AFAR_ERESERVE);
	EXPECT(&client, ask_reserve(ns, 2 * MIB), 0);
	for (size_t i = 0; i < sizeof(allocs) / sizeof(allocs[0]); i++)
		expect_case(allocs[i].what, &client,
			    ask_alloc(ns, allocs[i].name, allocs[i].bytes, false), allocs[i].status,
			    allocs[i].said);
	assert_int_equal(ns_of(ns)->allocated_bytes, 4096);
	check_all(&fixture);
}

static void test_first_region_and_addresses(void **state)
{
	Afar__RegionInfo *first, *second, *third, *again;
	Afar__Reply *replies[4];

	(void)state;
	EXPECT(&client, ask_reserve(ns, 64 * MIB), 0);
	EXPECT(&client, ask_open(ns, "", AFAR_FIRST_ADDRESS), -ENOENT);
	first = must_open(&client, ask_alloc(ns, "", 1, true), &replies[0]);
	assert_int_equal(first->address, AFAR_FIRST_ADDRESS);
	EXPECT(&client, ask_alloc(ns, "", 1, true), -EADDRINUSE);
	second = must_open(&client, ask_alloc(ns, "", 4097, false), &replies[1]);
	third = must_open(&client, ask_alloc(ns, "", 1, false), &replies[2]);
	assert_int_equal(third->address, second->address + 8192);
	assert_int_equal(third->address % 4096, 0);
	/* The first address can be taken again, by a larger one too; no other is. */
	EXPECT(&client, ask_free(third), 0);
	EXPECT(&client, ask_free(first), 0);
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
	EXPECT(&client, ask_reserve(ns, 2 * MIB), 0);
	first = must_open(&client, ask_alloc(ns, "", 1, false), &replies[0]);
	assert_int_equal(first->address, AFAR_FIRST_ADDRESS);
	EXPECT(&client, ask_free(first), 0);
	second = must_open(&client, ask_alloc(ns, "", 1, false), &replies[1]);
	assert_true(second->address > AFAR_FIRST_ADDRESS);
	drop(replies[0]);
	drop(replies[1]);
	/* The end of the address space. */
	ns_of(ns)->next_address = UINT64_MAX - 4095;
	EXPECT(&client, ask_alloc(ns, "", 4096, false), -EINVAL);
}

static void test_free_and_references(void **state)
{
	Afar__Reply *reply, *opened;
	Afar__RegionInfo *region;

	(void)state;
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	region = must_open(&client, ask_alloc(ns, "r", 4 * MIB, false), &reply);
	assert_int_equal(region->nr_references, 1);
	assert_int_equal(must_open(&other, ask_open(ns, "r", 0), &opened)->nr_references, 2);
	assert_int_equal(opened->region_info->layout->servers[0]->incarnation,
			 fixture.servers[0].incarnation);
	drop(opened);
	must_open(&other, ask_open(ns, "", region->address), &opened);
	drop(opened);
	/* Gone at once for those who look for it; the memory stays theirs who have it open. */
	EXPECT(&client, ask_free(region), 0);
	EXPECT(&client, ask_free(region), -AFAR_EFREED);
	EXPECT(&client, ask_open(ns, "r", 0), -ENOENT);
	EXPECT(&client, ask_open(ns, "", region->address), -ENOENT);
	EXPECT(&client, ask_alloc(ns, "r", 6 * MIB, false), -AFAR_ERESERVE);
	EXPECT(&client, ask_close(region), 0);
	EXPECT(&client, ask_close(region), -EINVAL);
	restart();
	assert_int_equal(client_resume(&fixture, &other), 0);
	assert_int_equal(ns_of(ns)->allocated_bytes, 4 * MIB);
	EXPECT(&other, ask_close(region), 0);
	assert_int_equal(ns_of(ns)->allocated_bytes, 4 * MIB);
	EXPECT(&other, ask_close(region), 0);
	assert_int_equal(ns_of(ns)->allocated_bytes, 0);
	EXPECT(&other, ask_close(region), -AFAR_EFREED);
	EXPECT(&other, ask_free(region), -AFAR_EFREED);
	region->generation = UINT64_MAX;
	EXPECT(&other, ask_free(region), -ENOENT);
	drop(reply);
	check_all(&fixture);
}

/* The manager says who does a region's atomics when it is made, and to everybody, from then on. */
static void test_home_of_atomics_is_kept(void **state)
{
	Afar__Request *ask;
	Afar__Reply *reply;

	(void)state;
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
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
		restart();
	}
	check_all(&fixture);
}

/* Durably so, from when it is made until somebody who may write it says that all is in it. */
static void test_unfinished_until_said(void **state)
{
	Afar__RegionInfo *region;
	Afar__Request *ask;
	Afar__Reply *reply, *opened;

	(void)state;
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	ask = ask_alloc(ns, "r", 1, false);
	ask->region_alloc->is_unfinished = true;
	region = must_open(&client, ask, &opened);
	assert_true(region->is_unfinished);
	for (unsigned i = 0; i < 2; i++) {
		restart();
		reply = fixture_ask(&fixture, &client, ask_regions(ns, 0, 1));
		assert_int_equal(reply->region_infos->entries[0]->is_unfinished, i == 0);
		drop(reply);
		assert_int_equal(must_open(&client, ask_open(ns, "r", 0), &reply)->is_unfinished,
				 i == 0);
		drop(reply);
		EXPECT(&client, ask_finish(region), 0);
	}
	EXPECT(&client, ask_free(region), 0);
	EXPECT(&client, ask_finish(region), -AFAR_EFREED);
	drop(opened);
	assert_false(must_open(&client, ask_alloc(ns, "plain", 1, false), &reply)->is_unfinished);
	drop(reply);
	check_all(&fixture);
}

/* Unless it is finished, it goes when its maker's session closes it, or ends in any way. Others keep what they have open. */
static void test_temporary_goes_with_its_maker(void **state)
{
	Afar__RegionInfo *region;
	Afar__Reply *opened, *reply;
	Afar__Request *ask;

	(void)state;
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	ask = ask_temporary(ns, "r", MIB);
	ask->region_alloc->is_unfinished = false;
	EXPECT(&client, ask, -EINVAL);

	region = must_open(&client, ask_temporary(ns, "closed", MIB), &opened);
	EXPECT(&other, ask_open(ns, "closed", 0), 0);
	EXPECT(&other, ask_close(region), 0);
	EXPECT(&client, ask_open(ns, "closed", 0), 0);
	EXPECT(&client, ask_close(region), 0);
	EXPECT(&client, ask_close(region), 0);
	EXPECT(&client, ask_open(ns, "closed", 0), -ENOENT);
	assert_int_equal(ns_of(ns)->allocated_bytes, 0);
	drop(opened);

	region = must_open(&client, ask_temporary(ns, "finished", MIB), &opened);
	EXPECT(&client, ask_finish(region), 0);
	drop(opened);
	region = must_open(&client, ask_temporary(ns, "open", MIB), &opened);
	EXPECT(&other, ask_open(ns, "open", 0), 0);
	EXPECT(&client, ask_temporary(ns, "alone", MIB), 0);
	fixture_restart(&fixture);
	fixture_join(&fixture, 0, 1 << 30);
	assert_int_equal(client_resume(&fixture, &other), 0);
	assert_int_equal(ns_of(ns)->nr_regions, 3);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	assert_int_equal(client_resume(&fixture, &client), -AFAR_ESESSION);
	EXPECT(&other, ask_open(ns, "open", 0), -ENOENT);
	EXPECT(&other, ask_open(ns, "alone", 0), -ENOENT);
	EXPECT(&other, ask_open(ns, "finished", 0), 0);
	assert_int_equal(ns_of(ns)->allocated_bytes, 2 * MIB);
	EXPECT(&other, ask_finish(region), -AFAR_EFREED);
	EXPECT(&other, ask_close(region), 0);
	assert_int_equal(ns_of(ns)->allocated_bytes, MIB);
	drop(opened);
	reply = fixture_ask(&fixture, &other, ask_regions(ns, 0, 0));
	assert_int_equal(reply->region_infos->n_entries, 1);
	drop(reply);
	check_all(&fixture);
}

/* A release gives back whole what was reserved last, whatever else is free. If that does not make the sum, large
 * extents do. */
static void test_release_gives_back_what_was_reserved(void **state)
{
	Afar__Reply *reply;

	(void)state;
	/* The server grants each in two halves. */
	EXPECT(&client, ask_reserve(ns, 20 * MIB), 0);
	EXPECT(&client, ask_reserve(ns, 12 * MIB), 0);
	reply = must(&client, ask_release(ns, 12 * MIB));
	assert_int_equal(reply->namespace_released->bytes, 12 * MIB);
	drop(reply);
	EXPECT(&client, ask_reserve(ns, 4 * MIB), 0);
	reply = must(&client, ask_release(ns, 12 * MIB));
	assert_int_equal(reply->namespace_released->bytes, 10 * MIB);
	drop(reply);
	reply = must(&client, ask_release(ns, UINT64_MAX));
	assert_int_equal(reply->namespace_released->bytes, 14 * MIB);
	drop(reply);
	assert_int_equal(ns_of(ns)->reserved_bytes, 0);
	check_all(&fixture);
}

static void test_requests_are_done_once(void **state)
{
	Afar__Reply *first, *second;

	(void)state;
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	for (int times = 0; times < 3; times++) {
		uint64_t id = ++client.next_id;

		fixture_send(&fixture, &client, id, ask_alloc(ns, "", 5000, false), &first);
		if (times != 0) /* else in the same batch */
			fixture_pump(&fixture);
		if (times == 2) {
			restart();
		}
		send_again(&client, id, ask_alloc(ns, "", 5000, false), &second);
		fixture_pump(&fixture);
		assert_int_equal(first->status, 0);
		assert_int_equal(second->status, 0);
		assert_int_equal(first->region_info->generation, second->region_info->generation);
		assert_int_equal(
			second->region_info->layout->form->groups[0]->chunks[0]->copies[0]->offset,
			first->region_info->layout->form->groups[0]->chunks[0]->copies[0]->offset);
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
	EXPECT(&client, ask_alloc(ns, "", 1, false), 0);
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
		MANAGER_TEST(test_namespace_names_and_policies),
		MANAGER_TEST(test_numbers_are_never_used_again),
		MANAGER_TEST(test_listing_is_in_order_and_paged),
		MANAGER_TEST(test_namespace_delete),
		MANAGER_TEST(test_alloc_limits),
		MANAGER_TEST(test_first_region_and_addresses),
		MANAGER_TEST(test_free_and_references),
		MANAGER_TEST(test_home_of_atomics_is_kept),
		MANAGER_TEST(test_unfinished_until_said),
		MANAGER_TEST(test_temporary_goes_with_its_maker),
		MANAGER_TEST(test_release_gives_back_what_was_reserved),
		MANAGER_TEST(test_requests_are_done_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
