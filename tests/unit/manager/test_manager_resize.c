/* SPDX-License-Identifier: BSD-3-Clause */
/* Resizing regions as the manager does it: what is taken and given back, and when, in memory and on flash. Whatever ends in the
 * middle leaves the region as it was, or resized, and no memory behind. */
#include "lib/manager/manager_tables.h"
#include "lib/manager/manager_test.h"

#include <string.h>

#include "unit/group.h"

#define GIB	     ((uint64_t)1 << 30)
#define REGION_BYTES (3 * MIB + 5)
#define CUT_BYTES    (MIB + 7)
/* Two servers, stripe units of 64 KiB: whole rows of these stay. */
#define CUT_TAKES (MIB + 128 * 1024)

/* Each test begins with two servers with a device each, and a region over both: in memory, or on flash. */
static struct fake_client client;
static Afar__Reply *opened;
static Afar__RegionInfo *region;
static uint64_t ns;

static int begin_in(void **state,
		    uint64_t (*make)(struct fixture *, struct fake_client *, const char *))
{
	setup(state);
	client_open(&fixture, &client);
	for (size_t i = 0; i < 2; i++) {
		fixture_plug(&fixture, i, i, 64 * MIB);
		assert_int_equal(fixture_join(&fixture, i, GIB), 0);
	}
	ns = make(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 16 * MIB), 0);
	region = must_open(&client, ask_alloc(ns, "r", REGION_BYTES, false), &opened);
	assert_int_equal(region->width, 2);
	for (size_t i = 0; i < 2; i++)
		for (size_t j = 0; j < fixture.stores[i].nr_extents; j++)
			fixture.stores[i].extents[j].is_provisional = false;
	return 0;
}

static int begin(void **state)
{
	return begin_in(state, make_namespace);
}

static int begin_flash(void **state)
{
	return begin_in(state, make_flash_namespace);
}

static int end(void **state)
{
	drop(opened);
	check_all(&fixture);
	return teardown(state);
}

#define IN_MEMORY(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define ON_FLASH(name)	cmocka_unit_test_setup_teardown(name, begin_flash, end)

static const struct region *the_region(void)
{
	return state_region(fixture.core->state, region->generation);
}

static void expect_length(uint64_t bytes, uint64_t allocated)
{
	check_all(&fixture);
	assert_int_equal(the_region()->length, bytes);
	assert_int_equal(the_region()->layout->length, bytes);
	assert_int_equal(ns_of(ns)->allocated_bytes, allocated);
}

static void restart(void)
{
	fixture_restart(&fixture);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(fixture_join(&fixture, i, GIB), 0);
	assert_int_equal(client_resume(&fixture, &client), 0);
}

/* ---- What it does */

static void test_longer(void **state)
{
	const uint32_t nr_groups = the_region()->layout->nr_groups;
	Afar__Reply *reply;

	(void)state;
	/* The spare bytes of its chunks are used first. */
	EXPECT(&client, ask_region_resize(region, REGION_BYTES + 100), 0);
	expect_length(REGION_BYTES + 100, ns_of(ns)->allocated_bytes);
	assert_true(ns_of(ns)->allocated_bytes < REGION_BYTES + 256 * 1024);
	assert_int_equal(the_region()->layout->nr_groups, nr_groups);
	reply = must(&client, ask_region_resize(region, 16 * MIB));
	assert_int_equal(reply->region_info->length, 16 * MIB);
	assert_non_null(reply->region_info->layout);
	drop(reply);
	expect_length(16 * MIB, 16 * MIB);
	EXPECT(&client, ask_region_resize(region, 16 * MIB + 1), -AFAR_ERESERVE);
	EXPECT(&client, ask_region_resize(region, (uint64_t)1 << 63), -AFAR_ERESERVE);
	EXPECT(&client, ask_region_resize(region, UINT64_MAX), -EINVAL);
	EXPECT(&client, ask_region_resize(region, UINT64_MAX - 0x1000), -AFAR_ERESERVE);
	expect_length(16 * MIB, 16 * MIB);
	assert_int_equal(fixture.servers[0].nr_seals, 0); /* nobody's connection was closed */
	restart();
	expect_length(16 * MIB, 16 * MIB);
}

static void test_shorter(void **state)
{
	Afar__Reply *reply;

	(void)state;
	reply = must(&client, ask_region_resize(region, CUT_BYTES));
	assert_int_equal(reply->region_info->length, CUT_BYTES);
	drop(reply);
	expect_length(CUT_BYTES, CUT_TAKES);
	assert_int_equal(fixture.servers[0].nr_seals, 1);
	assert_int_equal(fixture.servers[1].nr_seals, 1);
	/* The rest is anybody's. */
	EXPECT(&client, ask_alloc(ns, "s", 16 * MIB - CUT_TAKES, false), 0);
	EXPECT(&client, ask_alloc(ns, "t", 1, false), -AFAR_ERESERVE);
	EXPECT(&client, ask_region_resize(region, CUT_TAKES), 0);
	EXPECT(&client, ask_region_resize(region, CUT_TAKES + 1), -AFAR_ERESERVE);
	EXPECT(&client, ask_region_resize(region, 1), 0);
	expect_length(1, 16 * MIB - CUT_TAKES + 128 * 1024);
	restart();
	expect_length(1, 16 * MIB - CUT_TAKES + 128 * 1024);
	EXPECT(&client, ask_free(region), 0);
	EXPECT(&client, ask_close(region), 0);
	assert_int_equal(ns_of(ns)->allocated_bytes, 16 * MIB - CUT_TAKES);
}

/* Over several groups, of which whole ones go, too. */
static void test_to_and_fro(void **state)
{
	(void)state;
	for (uint64_t bytes = 4 * MIB + 1; bytes < 16 * MIB; bytes += 700001)
		EXPECT(&client, ask_region_resize(region, bytes), 0);
	for (uint64_t bytes = 15 * MIB; bytes > 0; bytes = bytes > 900001 ? bytes - 900001 : 0) {
		EXPECT(&client, ask_region_resize(region, bytes), 0);
		check_all(&fixture);
		assert_int_equal(the_region()->layout->length, bytes);
	}
	restart();
	EXPECT(&client, ask_region_resize(region, 4096), 0);
	expect_length(4096, 128 * 1024);
}

/* ---- On flash what goes is nobody's before it is trimmed. */

static void hold_trims(bool does_hold)
{
	for (size_t i = 0; i < 2; i++)
		fixture.stores[i].does_hold_trims = does_hold;
}

static void test_trimmed(void **state)
{
	const uint64_t before = ns_of(ns)->allocated_bytes;

	(void)state;
	hold_trims(true);
	EXPECT(&client, ask_region_resize(region, CUT_BYTES), 0);
	expect_length(CUT_BYTES, before);
	assert_false(cds_list_empty(&fixture.core->state->trimming));
	restart();
	expect_length(CUT_BYTES, before);
	/* It is made shorter again meanwhile, and goes. */
	EXPECT(&client, ask_region_resize(region, 1), 0);
	EXPECT(&client, ask_free(region), 0);
	EXPECT(&client, ask_close(region), 0);
	check_all(&fixture);
	assert_int_equal(ns_of(ns)->allocated_bytes, before);
	hold_trims(false);
	fixture_pump(&fixture);
	check_all(&fixture);
	assert_int_equal(ns_of(ns)->allocated_bytes, 0);
	assert_int_equal(fixture.stores[0].nr_trimmed + fixture.stores[1].nr_trimmed, before);
	assert_true(cds_list_empty(&fixture.core->state->trimming));
	EXPECT(&client, ask_alloc(ns, "s", 16 * MIB, false), 0);
}

/* One that will have room when trims have ended waits for them. */
static void test_growing_waits_for_trims(void **state)
{
	Afar__Reply *reply;

	(void)state;
	fixture_advance(&fixture, 4000); /* it does not wait for servers after its start any more */
	EXPECT(&client, ask_region_resize(region, 16 * MIB), 0);
	hold_trims(true);
	EXPECT(&client, ask_region_resize(region, CUT_BYTES), 0);
	fixture.time_ns = 1000000000U;
	fixture_send(&fixture, &client, ++client.next_id, ask_region_resize(region, 15 * MIB),
		     &reply);
	fixture_pump(&fixture);
	assert_null(reply);
	hold_trims(false);
	fixture_pump(&fixture);
	assert_non_null(reply);
	assert_int_equal(reply->status, 0);
	drop(reply);
	expect_length(15 * MIB, ns_of(ns)->allocated_bytes);
}

/* A region need not wait for what its chunks can hold. */
static void test_growing_needs_no_trims(void **state)
{
	(void)state;
	fixture_advance(&fixture, 4000); /* it does not wait for servers after its start any more */
	EXPECT(&client, ask_region_resize(region, 16 * MIB), 0);
	hold_trims(true);
	EXPECT(&client, ask_region_resize(region, CUT_BYTES), 0);
	fixture.time_ns = 1000000000U;
	EXPECT(&client, ask_region_resize(region, CUT_TAKES), 0);
	expect_length(CUT_TAKES, 16 * MIB);
	hold_trims(false);
	fixture_pump(&fixture);
}

/* ---- What is refused */

static void test_refused(void **state)
{
	Afar__RegionInfo other = *region;
	Afar__Reply *sealed, *cow, *volume;
	Afar__RegionInfo *info;
	struct fake_client reader;

	(void)state;
	EXPECT(&client, ask_region_resize(region, 0), -EINVAL);
	other.generation += 1000;
	EXPECT(&client, ask_region_resize(&other, MIB), -ENOENT);
	EXPECT(&client, ask_key_add("guest", false), 0);
	EXPECT(&client, ask_grant(ns, "guest", RIGHT_READ), 0);
	assert_int_equal(client_open_as(&fixture, &reader, "guest"), 0);
	EXPECT(&reader, ask_region_resize(region, MIB), -EINVAL); /* it does not have it open */
	EXPECT(&reader, ask_open(ns, "r", 0), 0);
	EXPECT(&reader, ask_region_resize(region, MIB), -EACCES);
	client_lose(&fixture, &reader);
	info = must_open(&client, ask_alloc(ns, "sealed", MIB, false), &sealed);
	EXPECT(&client, ask_seal(info), 0);
	EXPECT(&client, ask_region_resize(info, 4096), -EROFS);
	drop(sealed);
	info = must_open(&client, ask_cow(ns, "cow", MIB), &cow);
	EXPECT(&client, ask_region_resize(info, 4096), -EOPNOTSUPP);
	drop(cow);
	drop(must(&client, ask_volume("v")));
	EXPECT(&client,
	       ask_reserve(state_namespace_named(fixture.core->state, "v")->number, 4 * MIB), 0);
	info = must_open(
		&client,
		ask_volume_alloc(state_namespace_named(fixture.core->state, "v")->number, MIB),
		&volume);
	EXPECT(&client, ask_region_resize(info, 2 * MIB), -EINVAL);
	drop(volume);
	EXPECT(&client, ask_free(region), 0);
	EXPECT(&client, ask_region_resize(region, 4096), -AFAR_EFREED);
	check_all(&fixture);
}

/* ---- What happens meanwhile */

static void begin_cutting(Afar__Reply **reply)
{
	fixture.servers[1].does_hold_seals = true;
	fixture_send(&fixture, &client, ++client.next_id, ask_region_resize(region, CUT_BYTES),
		     reply);
	fixture_pump(&fixture);
	assert_null(*reply);
}

static void let_go(void)
{
	fixture.servers[1].does_hold_seals = false;
	fixture_pump(&fixture);
}

/* Nothing is free before all servers have answered. Those who look, or change it, wait for that. */
static void test_who_waits(void **state)
{
	const uint64_t before = ns_of(ns)->allocated_bytes;
	Afar__Reply *reply, *opened_too, *looks, *grows, *seals;
	Afar__RegionInfo *info;
	struct fake_client other;

	(void)state;
	fixture_advance(&fixture, 4000); /* it does not wait for servers after its start any more */
	client_open(&fixture, &other);
	info = must_open(&other, ask_open(ns, "r", 0), &opened_too);
	begin_cutting(&reply);
	expect_length(REGION_BYTES, before);
	fixture_send(&fixture, &other, ++other.next_id, ask_look(info), &looks);
	fixture_send(&fixture, &other, ++other.next_id, ask_region_resize(info, 2 * MIB), &grows);
	fixture_pump(&fixture);
	assert_null(looks);
	assert_null(grows);
	assert_true(core_next_run(fixture.core) > fixture.now); /* nobody spins for it */
	let_go();
	assert_int_equal(reply->status, 0);
	assert_int_equal(looks->status, 0);
	assert_int_equal(looks->region_info->length, CUT_BYTES);
	assert_non_null(looks->region_info->layout);
	assert_int_equal(grows->status, 0);
	expect_length(2 * MIB, ns_of(ns)->allocated_bytes);
	drop(grows);
	drop(looks);
	drop(reply);
	/* A sealing comes behind it. */
	begin_cutting(&reply);
	fixture_send(&fixture, &other, ++other.next_id, ask_seal(info), &seals);
	fixture_pump(&fixture);
	assert_null(seals);
	let_go();
	fixture_pump(&fixture);
	assert_int_equal(reply->status, 0);
	assert_int_equal(seals->status, 0);
	assert_true(seals->region_info->is_sealed);
	assert_int_equal(seals->region_info->length, CUT_BYTES);
	drop(seals);
	drop(reply);
	drop(opened_too);
	client_lose(&fixture, &other);
}

static void join_again(void)
{
	for (size_t i = 0; i < 2; i++)
		if (fixture.servers[i].peer == NULL)
			assert_int_equal(fixture_join(&fixture, i, GIB), 0);
}

static void test_server_fails(void **state)
{
	const uint64_t before = ns_of(ns)->allocated_bytes;
	Afar__Reply *reply;

	(void)state;
	fixture.servers[1].refuse_to_seal = -ENOMEM;
	EXPECT(&client, ask_region_resize(region, CUT_BYTES), -AFAR_ESERVER);
	expect_length(REGION_BYTES, before);
	fixture.servers[1].refuse_to_seal = 0;
	begin_cutting(&reply);
	fixture_disconnect(&fixture, 1);
	fixture_pump(&fixture);
	assert_int_equal(reply->status, -AFAR_ESERVER);
	drop(reply);
	expect_length(REGION_BYTES, before);
	EXPECT(&client, ask_region_resize(region, CUT_BYTES), -AFAR_ESERVER);
	fixture.servers[1].does_hold_seals = false;
	join_again();
	EXPECT(&client, ask_region_resize(region, CUT_BYTES), 0);
	expect_length(CUT_BYTES, CUT_TAKES);
}

/* Servers that are well keep their connections: they are not asked if another cannot be, and may answer late. */
static void test_others_stay(void **state)
{
	void *first = fixture.servers[0].peer, *second = fixture.servers[1].peer;
	Afar__Reply *reply;

	(void)state;
	fixture.servers[0].refuse_to_seal = -ENOMEM;
	fixture.servers[1].does_hold_seals = true;
	EXPECT(&client, ask_region_resize(region, CUT_BYTES), -AFAR_ESERVER);
	fixture.servers[0].refuse_to_seal = 0;
	let_go();
	assert_ptr_equal(fixture.servers[1].peer, second);
	assert_int_equal(fixture.servers[1].nr_seals, 1);
	fixture_disconnect(&fixture, 1);
	reply = fixture_ask(&fixture, &client, ask_region_resize(region, CUT_BYTES));
	assert_int_equal(reply->status, -AFAR_ESERVER);
	assert_non_null(strstr(reply->message, "cannot be reached"));
	drop(reply);
	assert_ptr_equal(fixture.servers[0].peer, first);
	assert_int_equal(fixture.servers[0].nr_seals, 0);
	join_again();
	EXPECT(&client, ask_region_resize(region, CUT_BYTES), 0);
	expect_length(CUT_BYTES, CUT_TAKES);
}

/* A server that restarts has forgotten what it was asked: it is asked again. */
static void test_server_restarts_after_its_answer(void **state)
{
	Afar__Reply *reply;

	(void)state;
	begin_cutting(&reply);
	assert_int_equal(fixture.servers[0].nr_seals, 1);
	fixture_kill(&fixture, 0);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	fixture.servers[0].does_hold_seals = true;
	let_go();
	assert_null(reply);
	assert_int_equal(the_region()->length, REGION_BYTES);
	fixture.servers[0].does_hold_seals = false;
	fixture_pump(&fixture);
	assert_non_null(reply);
	assert_int_equal(reply->status, 0);
	drop(reply);
	assert_int_equal(fixture.servers[0].nr_seals, 2);
	expect_length(CUT_BYTES, CUT_TAKES);
}

/* Or has not come back: the region stays as it was. */
static void test_store_goes_after_its_answer(void **state)
{
	Afar__Reply *reply;

	(void)state;
	begin_cutting(&reply);
	fixture_kill(&fixture, 0);
	fixture_unplug(&fixture, 0);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	let_go();
	assert_non_null(reply);
	assert_int_equal(reply->status, -AFAR_ESERVER);
	assert_non_null(strstr(reply->message, "store"));
	drop(reply);
	assert_int_equal(the_region()->length, REGION_BYTES);
}

static void test_freed_meanwhile(void **state)
{
	Afar__Reply *reply;

	(void)state;
	begin_cutting(&reply);
	EXPECT(&client, ask_free(region), 0);
	let_go();
	assert_int_equal(reply->status, -AFAR_EFREED);
	drop(reply);
	check_all(&fixture);
	EXPECT(&client, ask_close(region), 0);
	assert_int_equal(ns_of(ns)->allocated_bytes, 0);
}

/* It forgets it, and the client asks again, under the same id. */
static void test_manager_dies(void **state)
{
	const uint64_t before = ns_of(ns)->allocated_bytes;
	Afar__Reply *reply;

	(void)state;
	begin_cutting(&reply);
	fixture.servers[1].does_hold_seals = false;
	fixture_restart(&fixture);
	drop(reply);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(fixture_join(&fixture, i, GIB), 0);
	assert_int_equal(client_resume(&fixture, &client), 0);
	expect_length(REGION_BYTES, before);
	for (int i = 0; i < 2; i++) {
		fixture_send(&fixture, &client, client.next_id,
			     ask_region_resize(region, CUT_BYTES), &reply);
		fixture_pump(&fixture);
		assert_int_equal(reply->status, 0);
		assert_int_equal(reply->region_info->length, CUT_BYTES);
		drop(reply);
	}
	check_all(&fixture);
	assert_int_equal(the_region()->length, CUT_BYTES);
}

/* The commits of a life fail in turn: each leaves the former length, or the new one. */
static void test_commits_that_fail(void **state)
{
	const uint64_t wanted[] = {9 * MIB, CUT_BYTES, 2 * MIB, 4096};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		for (unsigned nr = 1; the_region()->length != wanted[i]; nr++) {
			const uint64_t before = the_region()->length;

			fixture.store.fail_at = nr;
			fixture_do(&fixture, &client, ask_region_resize(region, wanted[i]));
			fixture.store.fail_at = 0;
			check_all(&fixture);
			assert_true(the_region()->length == before ||
				    the_region()->length == wanted[i]);
			assert_true(nr < 10);
			fixture_advance(&fixture, 1000);
		}
	}
	fixture_pump(&fixture);
	EXPECT(&client, ask_region_resize(region, 4096), 0);
	check_all(&fixture);
}

TEST_GROUP(manager_resize)
{
	const struct CMUnitTest tests[] = {
		IN_MEMORY(test_longer),
		IN_MEMORY(test_shorter),
		IN_MEMORY(test_to_and_fro),
		ON_FLASH(test_to_and_fro),
		ON_FLASH(test_trimmed),
		ON_FLASH(test_growing_waits_for_trims),
		ON_FLASH(test_growing_needs_no_trims),
		IN_MEMORY(test_refused),
		IN_MEMORY(test_who_waits),
		IN_MEMORY(test_server_fails),
		IN_MEMORY(test_others_stay),
		ON_FLASH(test_server_restarts_after_its_answer),
		ON_FLASH(test_store_goes_after_its_answer),
		IN_MEMORY(test_freed_meanwhile),
		IN_MEMORY(test_manager_dies),
		ON_FLASH(test_manager_dies),
		IN_MEMORY(test_commits_that_fail),
		ON_FLASH(test_commits_that_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
