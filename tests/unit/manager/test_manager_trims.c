/* SPDX-License-Identifier: BSD-3-Clause */
/* Trims: what a region had on flash goes to nobody before its stores have trimmed it, whatever fails
 * in between; and who waits for that. */

#include <afar/afar.h>

#include "lib/manager/manager_tables.h"
#include "lib/manager/manager_test.h"
#include "unit/group.h"

#define GIB ((uint64_t)1 << 30)

static struct fake_store *device(size_t index)
{
	return &fixture.stores[index];
}

/* Two servers with a device each; namespace "a" has 4 MiB on each, all of it in region "r", which the
 * client has open. */
static struct fake_client client;
static uint64_t ns;
static Afar__Reply *opened;
static Afar__RegionInfo *region;

static int begin(void **state)
{
	setup(state);
	client_open(&fixture, &client);
	for (size_t i = 0; i < 2; i++) {
		fixture_plug(&fixture, i, i, 64 * MIB);
		assert_int_equal(fixture_join(&fixture, i, GIB), 0);
	}
	ns = make_flash_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	region = must_open(&client, ask_alloc(ns, "r", 8 * MIB, false), &opened);
	assert_int_equal(region->width, 2);
	for (size_t i = 0; i < 2; i++)
		for (size_t j = 0; j < device(i)->nr_extents; j++)
			device(i)->extents[j].is_provisional = false;
	return 0;
}

static int end(void **state)
{
	drop(opened);
	check_all(&fixture);
	return teardown(state);
}

#define TRIMS_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

static void free_region(void)
{
	EXPECT(&client, ask_free(region), 0);
	EXPECT(&client, ask_close(region), 0);
}

static void hold_trims(bool does_hold)
{
	for (size_t i = 0; i < 2; i++)
		device(i)->does_hold_trims = does_hold;
}

static bool is_waiting(void)
{
	return !cds_list_empty(&fixture.core->state->trimming);
}

/* The chunks are held, and nobody gets them. */
static void expect_held(void)
{
	assert_true(is_waiting());
	assert_int_equal(ns_of(ns)->allocated_bytes, 8 * MIB);
	check_all(&fixture);
}

/* ---- The way of a freed region */

static void test_freed_chunks_are_trimmed(void **state)
{
	(void)state;
	hold_trims(true);
	EXPECT(&client, ask_free(region), 0);
	assert_false(is_waiting()); /* it is open */
	EXPECT(&client, ask_close(region), 0);
	expect_held();
	/* For clients it is gone. */
	EXPECT(&client, ask_close(region), -AFAR_EFREED);
	EXPECT(&client, ask_free(region), -AFAR_EFREED);
	EXPECT(&client, ask_open(ns, "r", 0), -ENOENT);
	/* The last of the stores counts. */
	device(0)->does_hold_trims = false;
	fixture_pump(&fixture);
	assert_int_equal(device(0)->nr_trimmed, 4 * MIB);
	expect_held();
	device(1)->does_hold_trims = false;
	fixture_pump(&fixture);
	assert_int_equal(device(1)->nr_trimmed, 4 * MIB);
	assert_false(is_waiting());
	assert_int_equal(ns_of(ns)->allocated_bytes, 0);
	EXPECT(&client, ask_alloc(ns, "s", 8 * MIB, false), 0);
}

/* Chunks that an older copy's records say were freed may be others': they wait until an operator accepts
 * the records. */
static void test_suspect_chunks_wait(void **state)
{
	(void)state;
	EXPECT(&client, ask_free(region), 0);
	ns_of(ns)->is_suspect = true;
	EXPECT(&client, ask_close(region), 0);
	fixture_advance(&fixture, 5000);
	fixture_disconnect(&fixture, 0);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	fixture_pump(&fixture);
	assert_int_equal(device(0)->nr_trimmed, 0);
	assert_int_equal(device(1)->nr_trimmed, 0);
	assert_true(is_waiting());
	EXPECT(&client, ask_accept_namespace("a"), 0);
	fixture_pump(&fixture);
	assert_int_equal(device(0)->nr_trimmed, 4 * MIB);
	assert_int_equal(device(1)->nr_trimmed, 4 * MIB);
	assert_false(is_waiting());
}

/* Memory needs none. */
static void test_memory_is_not_trimmed(void **state)
{
	(void)state;
	client_open(&fixture, &client);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	region = must_open(&client, ask_alloc(ns, "r", 8 * MIB, false), &opened);
	EXPECT(&client, ask_free(region), 0);
	EXPECT(&client, ask_close(region), 0);
	assert_int_equal(ns_of(ns)->allocated_bytes, 0);
	drop(opened);
	check_all(&fixture);
}

/* Also when a session that had it open ends, and is fenced. */
static void test_session_that_ended(void **state)
{
	(void)state;
	hold_trims(true);
	EXPECT(&client, ask_free(region), 0);
	EXPECT(&client, ask_session_close(), 0);
	expect_held();
	hold_trims(false);
	fixture_pump(&fixture);
	assert_int_equal(ns_of(ns)->allocated_bytes, 0);
}

/* ---- What fails in between */

static void test_refused_trims_are_told_again(void **state)
{
	(void)state;
	device(0)->refuse_to_trim = -EIO;
	free_region();
	expect_held();
	device(0)->refuse_to_trim = -ENOENT;
	fixture_advance(&fixture, CORE_RETRY_NS / 1000000U);
	expect_held();
	device(0)->refuse_to_trim = 0;
	fixture_advance(&fixture, CORE_RETRY_NS / 1000000U);
	assert_false(is_waiting());
	/* The other one was told once. */
	assert_int_equal(device(1)->nr_trims, 1);
}

/* Trap 3. A trim that was sent on an earlier connection counts for nothing, even if its answer comes
 * later. The one that was sent since could wipe what the next owner wrote. */
static void test_trims_of_earlier_connections(void **state)
{
	Afar__Reply *reply;
	struct event *event;

	(void)state;
	hold_trims(true);
	free_region();
	/* It joins again on the connection that it has; the call that was under way is answered. */
	event = event_new(EVENT_REQUEST, fixture.servers[0].peer);
	reply = NULL;
	event->call = &reply;
	event->request_id = 1;
	event->request = fake_server_join(&fixture.servers[0], 0);
	cds_list_add_tail(&event->node, &fixture.events);
	core_run(fixture.core, &fixture.events);
	expect_answer(reply, 0, NULL);
	hold_trims(false);
	assert_true(fixture_serve(&fixture)); /* the first call to server 0 */
	assert_int_equal(device(0)->nr_trims, 1);
	hold_trims(true);
	device(1)->does_hold_trims = false;
	fixture_pump(&fixture);
	assert_int_equal(device(1)->nr_trims, 1);
	expect_held();
	hold_trims(false);
	fixture_pump(&fixture);
	assert_int_equal(device(0)->nr_trims, 2);
	assert_false(is_waiting());
}

/* Neither a lost connection nor a server that restarts, nor a manager that does, makes it forgotten. */
static void test_it_is_told_again(void **state)
{
	for (int which = 0; which < 3; which++) {
		if (which > 0) {
			end(state);
			begin(state);
		}
		hold_trims(true);
		free_region();
		if (which == 0)
			fixture_disconnect(&fixture, 0);
		else if (which == 1)
			fixture_kill(&fixture, 0);
		else
			fixture_restart(&fixture);
		expect_held();
		assert_int_equal(device(0)->nr_trimmed, 0);
		hold_trims(false);
		fixture_pump(&fixture);
		expect_held();
		assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
		if (which == 2)
			assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
		assert_int_equal(device(0)->nr_trimmed, 4 * MIB);
		assert_int_equal(device(1)->nr_trimmed, 4 * MIB);
		assert_false(is_waiting());
	}
}

static void test_commits_that_fail(void **state)
{
	char *before;

	(void)state;
	EXPECT(&client, ask_free(region), 0);
	before = tables_text(&fixture);
	fixture.store.fail_at = 1;
	EXPECT(&client, ask_close(region), -ENOSPC);
	expect_tables(&fixture, before);
	assert_int_equal(device(0)->nr_trims, 0);
	fixture_advance(&fixture, CORE_RETRY_NS / 1000000U);
	hold_trims(true);
	EXPECT(&client, ask_close(region), 0);
	fixture.store.is_broken = true;
	hold_trims(false);
	fixture_pump(&fixture);
	expect_held();
	fixture.store.is_broken = false;
	fixture_advance(&fixture, CORE_RETRY_NS / 1000000U);
	assert_false(is_waiting());
	assert_true(device(0)->nr_trims > 1 || device(1)->nr_trims > 1);
}

/* ---- What needs no trim any more */

/* An operator forgets one store. */
static void forget_first(void)
{
	fixture_disconnect(&fixture, 0);
	EXPECT(&client, ask_store_forget(device(0)->number), 0);
}

/* The other one loses its extents. */
static void lose_second(void)
{
	device(1)->nr_extents = device(1)->granted = 0;
	fixture_disconnect(&fixture, 1);
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
}

static void test_extents_that_go(void **state)
{
	static void (*const lose[])(void) = {forget_first, lose_second, forget_first};

	for (size_t i = 0; i < 2; i++) {
		end(state);
		begin(state);
		hold_trims(true);
		free_region();
		lose[i]();
		assert_true(is_waiting());
		check_all(&fixture);
		lose[i + 1]();
		assert_false(is_waiting());
		assert_int_equal(ns_of(ns)->allocated_bytes, 0);
	}
}

static void test_deleting_needs_none(void **state)
{
	(void)state;
	hold_trims(true);
	free_region();
	EXPECT(&client, ask_delete("a", false), 0);
	assert_null(ns_of(ns));
	assert_int_equal(device(0)->granted, 0);
	assert_int_equal(device(1)->granted, 0);
	/* The calls that were under way are answered for nothing. */
	hold_trims(false);
	fixture_pump(&fixture);
	check_empty(&fixture);
}

static void test_failed_deletion_leaves_them(void **state)
{
	char *before;

	(void)state;
	hold_trims(true);
	free_region();
	before = tables_text(&fixture);
	fixture.store.fail_at = 1;
	EXPECT(&client, ask_delete("a", false), -ENOSPC);
	expect_tables(&fixture, before);
	before = tables_text(&fixture);
	fixture.store.fail_at = 1;
	EXPECT(&client, ask_release(ns, 8 * MIB), -ENOSPC);
	expect_tables(&fixture, before);
	hold_trims(false);
	fixture_advance(&fixture, CORE_RETRY_NS / 1000000U);
	assert_false(is_waiting());
	assert_int_equal(ns_of(ns)->allocated_bytes, 0);
}

/* The connection is lost between a deletion and its commit, which fails: it is told again. */
static void test_failed_deletion_without_a_server(void **state)
{
	Afar__Reply *reply;

	(void)state;
	hold_trims(true);
	free_region();
	fixture.store.fail_at = 1;
	fixture_send(&fixture, &client, 700, ask_delete("a", false), &reply);
	fixture_disconnect(&fixture, 0);
	expect_answer(reply, -ENOSPC, NULL);
	expect_held();
	hold_trims(false);
	fixture_advance(&fixture, CORE_RETRY_NS / 1000000U);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_false(is_waiting());
}

/* An extent that is released waits for nothing; the rest of the region does. */
static void test_releasing_needs_none(void **state)
{
	Afar__Reply *reply;

	(void)state;
	hold_trims(true);
	free_region();
	fixture_disconnect(&fixture, 0);
	reply = must(&client, ask_release(ns, 4 * MIB));
	assert_int_equal(reply->namespace_released->bytes, 4 * MIB);
	drop(reply);
	assert_true(is_waiting());
	assert_int_equal(ns_of(ns)->allocated_bytes, 4 * MIB);
	check_all(&fixture);
	/* A manager that restarts finds the same. */
	fixture_restart(&fixture);
	assert_true(is_waiting());
	assert_int_equal(ns_of(ns)->allocated_bytes, 4 * MIB);
	check_all(&fixture);
	hold_trims(false);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(fixture_join(&fixture, i, GIB), 0);
	assert_false(is_waiting());
	assert_int_equal(device(0)->granted + device(1)->granted, 4 * MIB);
	assert_int_equal(device(0)->nr_trimmed + device(1)->nr_trimmed, 4 * MIB);
}

/* ---- Allocations that wait */

static void test_allocations_wait(void **state)
{
	Afar__Reply *reply;

	(void)state;
	hold_trims(true);
	free_region();
	/* This would not fit even then. */
	EXPECT(&client, ask_alloc(ns, "s", 9 * MIB, false), -AFAR_ERESERVE);
	fixture_send(&fixture, &client, 500, ask_alloc(ns, "s", 8 * MIB, false), &reply);
	fixture_pump(&fixture);
	assert_null(reply);
	device(0)->does_hold_trims = false;
	fixture_pump(&fixture);
	assert_null(reply);
	device(1)->does_hold_trims = false;
	fixture_pump(&fixture);
	expect_answer(reply, 0, NULL);
}

/* It is told in time for whom it waits; and does not wait for stores that are down. */
static void test_they_do_not_wait_for_ever(void **state)
{
	Afar__Reply *reply;

	(void)state;
	hold_trims(true);
	free_region();
	fixture.time_ns = 2000000000U;
	fixture_send(&fixture, &client, 500, ask_alloc(ns, "s", 8 * MIB, false), &reply);
	fixture_pump(&fixture);
	assert_null(reply);
	assert_true(core_next_run(fixture.core) <= fixture.now + 2000000000U);
	fixture_advance(&fixture, 1900);
	expect_answer(reply, -ETIMEDOUT, "server-0");
	fixture_send(&fixture, &client, 501, ask_alloc(ns, "s", 8 * MIB, false), &reply);
	fixture_pump(&fixture);
	assert_null(reply);
	fixture_disconnect(&fixture, 0);
	expect_answer(reply, -AFAR_ERESERVE, NULL);
}

/* A store that is down holds, too, what one that is up has trimmed. */
static void test_half_of_a_region_does_not_come(void **state)
{
	Afar__Reply *reply;

	(void)state;
	hold_trims(true);
	free_region();
	fixture_disconnect(&fixture, 0);
	fixture.time_ns = 2000000000U;
	EXPECT(&client, ask_alloc(ns, "s", 4 * MIB, false), -AFAR_ERESERVE);
	hold_trims(false);
	fixture_pump(&fixture);
	assert_int_equal(device(1)->nr_trimmed, 4 * MIB);
	EXPECT(&client, ask_alloc(ns, "s", 4 * MIB, false), -AFAR_ERESERVE);
	device(0)->does_hold_trims = true;
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	fixture_send(&fixture, &client, 500, ask_alloc(ns, "s", 4 * MIB, false), &reply);
	fixture_pump(&fixture);
	assert_null(reply);
	hold_trims(false);
	fixture_pump(&fixture);
	expect_answer(reply, 0, NULL);
}

/* A part that is trimmed already, in a store that has gone down since, comes later. */
static void test_trimmed_part_that_is_down(void **state)
{
	Afar__Reply *reply;

	(void)state;
	device(1)->does_hold_trims = true;
	free_region();
	fixture_disconnect(&fixture, 0);
	EXPECT(&client, ask_alloc(ns, "s", 8 * MIB, false), -AFAR_ERESERVE);
	fixture_send(&fixture, &client, 500, ask_alloc(ns, "s", 4 * MIB, false), &reply);
	fixture_pump(&fixture);
	assert_null(reply);
	hold_trims(false);
	fixture_pump(&fixture);
	expect_answer(reply, 0, NULL);
}

/* ---- Many */

static void test_many_ranges(void **state)
{
	(void)state;
	client_open(&fixture, &client);
	fixture_plug(&fixture, 0, 0, 64 * MIB);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	ns = make_flash_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 32 * MIB), 0);
	device(0)->does_hold_trims = true;
	for (int i = 0; i < 5000; i++) {
		region = must_open(&client, ask_alloc(ns, "r", 4096, false), &opened);
		EXPECT(&client, ask_free(region), 0);
		EXPECT(&client, ask_close(region), 0);
		drop(opened);
	}
	device(0)->does_hold_trims = false;
	fixture_pump(&fixture);
	assert_int_equal(device(0)->nr_trims, 3); /* the first had one range */
	assert_int_equal(device(0)->nr_ranges_max, 4096);
	assert_int_equal(device(0)->nr_trimmed, 5000 * 4096);
	assert_false(is_waiting());
	check_all(&fixture);
}

TEST_GROUP(manager_trims)
{
	const struct CMUnitTest tests[] = {
		TRIMS_TEST(test_freed_chunks_are_trimmed),
		TRIMS_TEST(test_suspect_chunks_wait),
		TEST(test_memory_is_not_trimmed),
		TRIMS_TEST(test_session_that_ended),
		TRIMS_TEST(test_refused_trims_are_told_again),
		TRIMS_TEST(test_trims_of_earlier_connections),
		TRIMS_TEST(test_it_is_told_again),
		TRIMS_TEST(test_commits_that_fail),
		TRIMS_TEST(test_extents_that_go),
		TRIMS_TEST(test_deleting_needs_none),
		TRIMS_TEST(test_failed_deletion_leaves_them),
		TRIMS_TEST(test_failed_deletion_without_a_server),
		TRIMS_TEST(test_releasing_needs_none),
		TRIMS_TEST(test_allocations_wait),
		TRIMS_TEST(test_they_do_not_wait_for_ever),
		TRIMS_TEST(test_half_of_a_region_does_not_come),
		TRIMS_TEST(test_trimmed_part_that_is_down),
		TEST(test_many_ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
