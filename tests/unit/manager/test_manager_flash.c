/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores: joins that must not destroy, devices that went back, moved or were copied. Namespaces on
 * flash, whose regions outlive their servers. And what an operator can do. */
#include <string.h>

#include <afar/afar.h>

#include "lib/manager/manager_tables.h"
#include "lib/manager/manager_test.h"
#include "unit/group.h"

#define GIB ((uint64_t)1 << 30)

static struct fake_store *device(size_t index)
{
	return &fixture.stores[index];
}

static struct flash_store *store_of(size_t index)
{
	return state_store(fixture.core->state, device(index)->number);
}

/* The servers have been shown capabilities for all of their extents. */
static void confirm_all(void)
{
	for (size_t i = 0; i < FIXTURE_STORES_MAX; i++)
		for (size_t j = 0; j < device(i)->nr_extents; j++)
			device(i)->extents[j].is_provisional = false;
}

/*
 * Server 0 has device 0, and namespace "a" has 8 MiB there, with region "r" of 3 MiB, which the
 * client does not have open. Servers are connected.
 */
static struct fake_client client;
static uint64_t ns;

static int begin(void **state)
{
	Afar__Reply *reply;
	Afar__RegionInfo *region;

	setup(state);
	client_open(&fixture, &client);
	fixture_plug(&fixture, 0, 0, 64 * MIB);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	ns = make_flash_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	region = must_open(&client, ask_alloc(ns, "r", 3 * MIB, false), &reply);
	confirm_all();
	EXPECT(&client, ask_close(region), 0);
	drop(reply);
	return 0;
}

#define FLASH_TEST(name) cmocka_unit_test_setup_teardown(name, begin, teardown)

static void restart_server(size_t index)
{
	fixture_kill(&fixture, index);
	assert_int_equal(fixture_join(&fixture, index, GIB), 0);
}

static void expect_lost(void)
{
	EXPECT(&client, ask_open(ns, "r", 0), -AFAR_ELOST);
}

/* ---- Namespaces on flash */

static void test_reserving_and_placing(void **state)
{
	const Afar__LayoutInfo *layout;
	Afar__RegionInfo *region;
	Afar__Reply *reply;

	(void)state;
	client_open(&fixture, &client);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	ns = make_flash_namespace(&fixture, &client, "a");
	expect_said(&client, ask_reserve(ns, 8 * MIB), -AFAR_ENOSERVER, "afard --flash PATH");
	/* Two stores in one server, and one in another. */
	fixture_disconnect(&fixture, 0);
	fixture_plug(&fixture, 0, 0, 16 * MIB);
	fixture_plug(&fixture, 0, 1, 16 * MIB);
	fixture_plug(&fixture, 1, 2, 16 * MIB);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	expect_said(&client, ask_reserve(ns, 50 * MIB), -ENOSPC, "the stores have 48 of the");
	EXPECT(&client, ask_reserve(ns, 48 * MIB), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(device(i)->granted, 16 * MIB);
	assert_int_equal(fixture.servers[0].granted, 0);
	check_all(&fixture);
	region = must_open(&client, ask_alloc(ns, "r", 48 * MIB, false), &reply);
	assert_int_equal(region->width, 3);
	layout = region->layout;
	assert_int_equal(layout->form->n_homes, 3);
	assert_int_equal(layout->n_servers, 2);
	assert_int_equal(layout->n_stores, 3);
	assert_int_equal(layout->n_accesses, 3);
	for (size_t i = 0; i < 3; i++) {
		const struct flash_store *store =
			state_store(fixture.core->state, layout->form->homes[i]->life);

		assert_true(layout->form->homes[i]->is_store);
		assert_int_equal(layout->form->homes[i]->server, 0);
		assert_int_equal(layout->accesses[i]->store, store->number);
		assert_int_equal(layout->accesses[i]->server, store->pool.server->number);
		assert_int_equal(layout->stores[i]->store, store->number);
		assert_int_equal(layout->stores[i]->server, store->pool.server->number);
		assert_int_equal(layout->stores[i]->opening, store->accepted.opening);
	}
	assert_int_equal(layout->servers[0]->n_lanes, 3);
	assert_int_equal(layout->servers[0]->lanes[0]->store, 0);
	assert_int_equal(layout->servers[0]->lanes[2]->store, device(1)->number);
	EXPECT(&client, ask_alloc(ns, "s", 4096, false), -AFAR_ERESERVE);
	/* Memory has nothing to do with it. */
	EXPECT(&client, ask_reserve(make_namespace(&fixture, &client, "b"), 1024 * MIB), 0);
	drop(reply);
	check_all(&fixture);
}

static void test_what_flash_cannot_do(void **state)
{
	Afar__Request *alloc, *create = ask_create("b", 0, 4096);
	Afar__RegionInfo *region;
	Afar__Reply *reply;

	(void)state;
	alloc = ask_alloc(ns, "s", MIB, false);
	alloc->region_alloc->has_nic_atomics = true;
	expect_said(&client, alloc, -EOPNOTSUPP, "is on flash");
	region = must_open(&client, ask_open(ns, "r", 0), &reply);
	expect_said(&client, ask_seal(region), -EOPNOTSUPP, "is on flash");
	drop(reply);
	create->namespace_create->policy->tier = 2;
	EXPECT(&client, create, -EOPNOTSUPP);
}

static void test_release_names_the_namespace(void **state)
{
	(void)state;
	EXPECT(&client, ask_reserve(ns, 4 * MIB), 0);
	EXPECT(&client, ask_release(ns, 4 * MIB), 0);
	assert_int_equal(device(0)->nr_released, 1);
	assert_int_equal(device(0)->granted, 8 * MIB);
	check_all(&fixture);
	EXPECT(&client, ask_delete("a", true), 0);
	fixture_pump(&fixture);
	assert_int_equal(device(0)->granted, 0);
	check_empty(&fixture);
}

/* Bytes that others have asked a store for are not free, though it has not answered. */
static void test_reservations_side_by_side(void **state)
{
	Afar__Reply *reply;

	(void)state;
	fixture.servers[0].is_silent = true;
	fixture_send(&fixture, &client, 900, ask_reserve(ns, 40 * MIB), &reply);
	fixture_pump(&fixture);
	EXPECT(&client, ask_reserve(ns, 20 * MIB), -ENOSPC);
	assert_int_equal(device(0)->nr_reserves, 1);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	expect_answer(reply, 0, NULL);
	EXPECT(&client, ask_reserve(ns, 16 * MIB), 0);
	check_all(&fixture);
}

/* One store of a server has less than it said; the other one is asked for the rest. */
static void test_store_that_refuses(void **state)
{

	(void)state;
	client_open(&fixture, &client);
	fixture_plug(&fixture, 0, 0, 64 * MIB);
	fixture_plug(&fixture, 0, 1, 64 * MIB);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	device(0)->capacity = 2 * MIB;
	ns = make_flash_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 16 * MIB), 0);
	assert_int_equal(device(0)->granted, 0);
	assert_int_equal(device(1)->granted, 16 * MIB);
	EXPECT(&client, ask_reserve(ns, 80 * MIB), -ENOSPC);
	assert_int_equal(device(1)->granted, 16 * MIB);
	check_all(&fixture);
}

/* A number that is in use is malformed. The server joins again, and nothing is lost. */
static void test_numbers_that_are_in_use(void **state)
{
	(void)state;
	device(0)->does_grant_again = true;
	EXPECT(&client, ask_reserve(ns, 4 * MIB), -AFAR_ESERVER);
	assert_null(fixture.servers[0].peer);
	device(0)->does_grant_again = false;
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	EXPECT(&client, ask_open(ns, "r", 0), 0);
	check_all(&fixture);
}

/* ---- Servers that go and come back */

static void test_regions_outlive_a_server(void **state)
{
	Afar__RegionInfo *region;
	Afar__Reply *reply, *again;
	uint64_t opening;

	(void)state;
	opening = store_of(0)->accepted.opening;
	fixture_kill(&fixture, 0);
	/* Unavailable, not lost; the record of its server stays. */
	region = must_open(&client, ask_open(ns, "r", 0), &reply);
	assert_false(region->is_lost);
	assert_int_equal(region->layout->n_accesses, 0);
	assert_int_equal(region->layout->n_servers, 1);
	assert_int_equal(region->layout->stores[0]->opening, opening);
	drop(reply);
	EXPECT(&client, ask_alloc(ns, "s", MIB, false), -AFAR_ERESERVE);
	EXPECT(&client, ask_reserve(ns, 2 * MIB), -AFAR_ENOSERVER);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	region = must_open(&client, ask_open(ns, "r", 0), &reply);
	assert_int_equal(region->layout->n_accesses, 1);
	assert_int_equal(region->layout->accesses[0]->incarnation, fixture.servers[0].incarnation);
	assert_int_equal(region->layout->stores[0]->opening, opening + 1);
	assert_int_equal(region->layout_number, 0);
	/* A client that asks what has become of the region hears where it is. */
	again = must(&client, ask_look(region));
	assert_int_equal(again->region_info->layout->servers[0]->incarnation,
			 fixture.servers[0].incarnation);
	assert_int_equal(again->region_info->layout->stores[0]->opening, opening + 1);
	drop(again);
	drop(reply);
	EXPECT(&client, ask_alloc(ns, "s", MIB, false), 0);
	check_all(&fixture);
	fixture_restart(&fixture);
	client_resume(&fixture, &client);
	region = must_open(&client, ask_open(ns, "r", 0), &reply);
	assert_int_equal(region->layout->n_accesses, 0);
	drop(reply);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	check_all(&fixture);
}

/* A server whose join does not name a store any more has it no more. */
static void test_store_that_is_not_named(void **state)
{
	(void)state;
	fixture_unplug(&fixture, 0);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_false(store_of(0)->is_up);
	EXPECT(&client, ask_reserve(ns, 2 * MIB), -AFAR_ENOSERVER);
	EXPECT(&client, ask_open(ns, "r", 0), 0);
	/* So another one may have it. */
	fixture_plug(&fixture, 1, 0, 0);
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	assert_int_equal(store_of(0)->pool.server->number, fixture.servers[1].number);
	assert_true(store_of(0)->is_up);
	check_all(&fixture);
	/* Its former server holds nothing now. */
	fixture_disconnect(&fixture, 0);
	assert_null(state_server(fixture.core->state, fixture.servers[0].number));
	check_all(&fixture);
}

/* An extent that is being released is told again, by whichever incarnation has the store. */
static void test_releases_outlive_a_server(void **state)
{
	(void)state;
	EXPECT(&client, ask_reserve(ns, 4 * MIB), 0);
	fixture.servers[0].is_silent = true;
	EXPECT(&client, ask_release(ns, 4 * MIB), 0);
	fixture_kill(&fixture, 0);
	fixture_restart(&fixture);
	/* It has removed it, and not said so. */
	device(0)->granted -= device(0)->extents[--device(0)->nr_extents].length;
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_int_equal(store_of(0)->pool.releasing_bytes, 4 * MIB);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	assert_int_equal(device(0)->nr_released, 1);
	assert_int_equal(store_of(0)->pool.releasing_bytes, 0);
	assert_int_equal(device(0)->granted, 8 * MIB);
	check_all(&fixture);
}

/* A server that does not know the store any more has not released what is on it. */
static void test_unknown_store_is_not_a_release(void **state)
{
	(void)state;
	EXPECT(&client, ask_reserve(ns, 4 * MIB), 0);
	device(0)->refuse_to_release = -ENOENT;
	EXPECT(&client, ask_release(ns, 4 * MIB), 0);
	assert_int_equal(store_of(0)->pool.releasing_bytes, 4 * MIB);
	device(0)->refuse_to_release = 0;
	fixture_advance(&fixture, CORE_RETRY_NS / 1000000U);
	assert_int_equal(store_of(0)->pool.releasing_bytes, 0);
	check_all(&fixture);
}

/* A session that has ended keeps its regions until the server of their stores has fenced it, or has
 * restarted. */
static void test_fences_hold_regions_of_stores(void **state)
{
	struct fake_client other;
	Afar__Reply *reply;

	(void)state;
	client_open(&fixture, &other);
	reply = must(&other, ask_open(ns, "r", 0));
	EXPECT(&other, ask_free(reply->region_info), 0);
	drop(reply);
	fixture_disconnect(&fixture, 0);
	EXPECT(&other, ask_session_close(), 0);
	fixture_advance(&fixture, 10 * FIXTURE_LEASE_MS);
	assert_false(cds_list_empty(&fixture.core->state->ending));
	assert_false(cds_list_empty(&ns_of(ns)->freed));
	assert_true(cds_list_empty(&fixture.core->state->trimming));
	restart_server(0);
	assert_true(cds_list_empty(&fixture.core->state->ending));
	assert_true(cds_list_empty(&ns_of(ns)->freed));
	check_all(&fixture);
}

/* Also when it has closed all that it had: it may have keys. */
static void test_fences_of_who_had_keys(void **state)
{
	struct fake_client other;
	Afar__Reply *reply;

	(void)state;
	client_open(&fixture, &other);
	reply = must(&other, ask_open(ns, "r", 0));
	EXPECT(&other, ask_close(reply->region_info), 0);
	drop(reply);
	fixture_disconnect(&fixture, 0);
	EXPECT(&other, ask_session_close(), 0);
	assert_false(cds_list_empty(&fixture.core->state->ending));
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_true(cds_list_empty(&fixture.core->state->ending));
	check_all(&fixture);
}

/* ---- Joins */

/* Trap 1: the manager was restored from an older copy of its metastore. */
static void test_older_manager_does_not_release(void **state)
{
	struct memory_store before;

	(void)state;
	client_open(&fixture, &client);
	fixture_plug(&fixture, 0, 0, 64 * MIB);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	ns = make_flash_namespace(&fixture, &client, "a");
	memory_store_save(&fixture.store, &before);
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	confirm_all();
	EXPECT(&client, ask_reserve(ns, 4 * MIB), 0);
	memory_store_restore(&fixture.store, &before);
	fixture_restart(&fixture);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	/* The extents that nobody can have written are released, and nothing else. */
	assert_int_equal(device(0)->granted, 8 * MIB);
	assert_int_equal(store_of(0)->nr_orphans, 1);
	assert_int_equal(store_of(0)->orphan_bytes, 8 * MIB);
	check_all(&fixture);
}

/* A grant whose reservation was not committed is given back by the next join. */
static void test_provisional_extents_are_released(void **state)
{
	Afar__Reply *reply;

	(void)state;
	fixture_send(&fixture, &client, 900, ask_reserve(ns, 4 * MIB), &reply);
	core_run(fixture.core, &fixture.events);
	assert_true(fixture_serve(&fixture));
	assert_int_equal(device(0)->granted, 12 * MIB);
	fixture_kill(&fixture, 0);
	expect_answer(reply, -AFAR_ENOSERVER, NULL);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_int_equal(device(0)->granted, 8 * MIB);
	assert_int_equal(store_of(0)->pool.pending_bytes, 0);
	check_all(&fixture);
}

/* An extent that the store has for another namespace is not ours. */
static void test_extents_of_others(void **state)
{
	(void)state;
	device(0)->extents[0].namespace += 1;
	restart_server(0);
	expect_lost();
	assert_int_equal(store_of(0)->nr_orphans, 1);
	check_all(&fixture);
}

/* An extent that both know is no orphan, confirmed or not; one that is missing is lost. */
static void test_missing_extents_are_lost(void **state)
{
	(void)state;
	device(0)->extents[0].is_provisional = true;
	restart_server(0);
	assert_int_equal(device(0)->granted, 8 * MIB);
	EXPECT(&client, ask_open(ns, "r", 0), 0);
	device(0)->nr_extents = device(0)->granted = 0;
	restart_server(0);
	expect_lost();
	assert_int_equal(ns_of(ns)->reserved_bytes, 0);
	check_all(&fixture);
}

/* Trap 8: an image of the device is restored, or a copy of it joins. */
static void test_device_that_went_back(void **state)
{
	struct fake_store image, present;

	(void)state;
	image = *device(0);
	image.nr_random += 100; /* its numbers are its own from here on */
	restart_server(0);
	fixture_kill(&fixture, 0);
	present = *device(0);
	*device(0) = image;
	assert_int_equal(fixture_join(&fixture, 0, GIB), -EINVAL);
	assert_non_null(strstr(afar_last_error(), "an older image of its device, or a copy"));
	assert_false(store_of(0)->is_up);
	/* However often it is opened. */
	for (int times = 0; times < 3; times++) {
		fixture_kill(&fixture, 0);
		assert_int_equal(fixture_join(&fixture, 0, GIB), -EINVAL);
	}
	/* Its opening has the number that we know, and is another one. */
	device(0)->present = device(0)->accepted = store_of(0)->accepted;
	device(0)->accepted.random++;
	device(0)->present.random += 2;
	assert_int_equal(fixture_join(&fixture, 0, GIB), -EINVAL);
	/* The device itself is taken. */
	*device(0) = present;
	fixture.servers[0].incarnation = 0;
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	EXPECT(&client, ask_open(ns, "r", 0), 0);
	check_all(&fixture);
}

/* The manager's record is one join ahead of the device's when the answer was lost; and behind, when
 * the manager itself went back. */
static void test_records_that_continue(void **state)
{
	(void)state;
	device(0)->nr_lost_joins = 3;
	restart_server(0);
	assert_true(device(0)->is_unanswered);
	fixture_disconnect(&fixture, 0);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	/* Nor does it hear of it before it is opened again. */
	restart_server(0);
	restart_server(0);
	assert_int_equal(device(0)->nr_lost_joins, 0);
	assert_int_equal(device(0)->accepted.random, store_of(0)->accepted.random);
	/* Two that did not even arrive. */
	fixture_kill(&fixture, 0);
	fake_store_open(device(0));
	fake_store_open(device(0));
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	store_of(0)->accepted = (struct store_join){1, 1};
	store_put_flash(fixture.core->store, store_of(0));
	restart_server(0);
	EXPECT(&client, ask_open(ns, "r", 0), 0);
	check_all(&fixture);
}

/* A store is in one server at a time. It may move when the other has let go of it. */
static void test_device_moves(void **state)
{
	Afar__RegionInfo *region;
	Afar__Reply *reply;

	(void)state;
	fixture_plug(&fixture, 1, 0, 0);
	assert_int_equal(fixture_join(&fixture, 1, GIB), -EBUSY);
	assert_non_null(strstr(afar_last_error(), "is connected"));
	assert_true(store_of(0)->is_up);
	assert_int_equal(store_of(0)->pool.server->number, fixture.servers[0].number);
	fixture_disconnect(&fixture, 1);
	fixture_kill(&fixture, 0);
	fixture_unplug(&fixture, 0);
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	region = must_open(&client, ask_open(ns, "r", 0), &reply);
	assert_int_equal(region->layout->n_servers, 1);
	assert_int_equal(region->layout->servers[0]->server, fixture.servers[1].number);
	assert_int_equal(region->layout->accesses[0]->server, fixture.servers[1].number);
	drop(reply);
	/* Nobody needs the record of the first any more. */
	assert_null(state_server(fixture.core->state, fixture.servers[0].number));
	check_all(&fixture);
	fixture_restart(&fixture);
	assert_int_equal(store_of(0)->pool.server->number, fixture.servers[1].number);
}

static int join_with(void (*spoil)(Afar__ServerJoin *join))
{
	struct event *event;
	Afar__Reply *reply;
	int status;

	fixture.servers[0].peer = NULL;
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	event = event_new(EVENT_REQUEST, fixture.servers[0].peer);
	event->call = &reply;
	reply = NULL;
	event->request_id = 1;
	event->request = fake_server_join(&fixture.servers[0], 0);
	spoil(event->request->server_join);
	cds_list_add_tail(&event->node, &fixture.events);
	core_run(fixture.core, &fixture.events);
	assert_non_null(reply);
	status = reply->status;
	drop(reply);
	fixture_pump(&fixture);
	fixture_disconnect(&fixture, 0);
	return status;
}

static void spoil_uuid(Afar__ServerJoin *join)
{
	join->stores[0]->uuid.len--;
}

static void spoil_number(Afar__ServerJoin *join)
{
	join->stores[0]->store++;
}

static void spoil_rest_of_uuid(Afar__ServerJoin *join)
{
	join->stores[0]->uuid.data[STORE_UUID_BYTES - 1]++;
}

static void spoil_path(Afar__ServerJoin *join)
{
	join->stores[0]->path[0] = '\n';
}

static void spoil_present(Afar__ServerJoin *join)
{
	afar__store_join__free_unpacked(join->stores[0]->present, NULL);
	join->stores[0]->present = NULL;
}

static void spoil_class(Afar__ServerJoin *join)
{
	join->stores[0]->extents[0]->class_ = CLASS_DRAM;
}

static void spoil_length(Afar__ServerJoin *join)
{
	join->stores[0]->extents[0]->length += 4096;
}

static void spoil_empty(Afar__ServerJoin *join)
{
	join->stores[0]->extents[0]->length = 0;
}

static void spoil_cluster(Afar__ServerJoin *join)
{
	join->stores[0]->cluster[0] = 'x';
}

static void spoil_nothing(Afar__ServerJoin *join)
{
	(void)join;
}

static void test_joins_are_checked(void **state)
{
	static const struct {
		const char *what;
		void (*spoil)(Afar__ServerJoin *join);
		int status;
	} joins[] = {
		{"a UUID that is cut", spoil_uuid, -EINVAL},
		{"a number that is not the UUID's", spoil_number, -EINVAL},
		{"another UUID of the number", spoil_rest_of_uuid, -EINVAL},
		{"a line feed in a path", spoil_path, -EINVAL},
		{"no present join", spoil_present, -EINVAL},
		{"an extent of memory", spoil_class, -EINVAL},
		{"an extent that is too long", spoil_length, -EINVAL},
		{"an empty extent", spoil_empty, -EINVAL},
		{"another cluster", spoil_cluster, -EINVAL},
		{"nothing wrong", spoil_nothing, 0},
	};

	(void)state;
	fixture_disconnect(&fixture, 0);
	for (size_t i = 0; i < sizeof(joins) / sizeof(joins[0]); i++) {
		int status = join_with(joins[i].spoil);

		if (status != joins[i].status)
			fail_msg("%s: %d, and not %d", joins[i].what, status, joins[i].status);
	}
	fixture_plug(&fixture, 0, 0, 0);
	assert_int_equal(fixture_join(&fixture, 0, GIB), -EINVAL);
	check_all(&fixture);
}

/* ---- The tables and the metastore */

/* A join whose commit fails leaves nothing, and the server joins again. */
static void test_join_that_is_not_committed(void **state)
{
	char *before;

	(void)state;
	fixture_kill(&fixture, 0);
	before = tables_text(&fixture);
	fixture.store.fail_at = 1;
	fixture.store.failure = -ENOSPC;
	assert_int_equal(fixture_join(&fixture, 0, GIB), -ENOSPC);
	expect_tables(&fixture, before);
	assert_null(fixture.servers[0].peer);
	assert_false(store_of(0)->is_up);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	EXPECT(&client, ask_open(ns, "r", 0), 0);
	check_all(&fixture);
}

static void test_loading(void **state)
{
	(void)state;
	fixture_restart(&fixture);
	check_all(&fixture);
	assert_int_equal(store_of(0)->pool.granted_bytes, 8 * MIB);
	assert_int_equal(ns_of(ns)->allocated_bytes, 3 * MIB);
}

/* ---- Operators */

static void test_forgetting(void **state)
{
	struct fake_client bob;
	uint64_t number;
	Afar__Reply *reply;

	(void)state;
	number = device(0)->number;
	EXPECT(&client, ask_key_add("bob", false), 0);
	client_open_as(&fixture, &bob, "bob");
	EXPECT(&bob, ask_store_forget(number), -EACCES);
	EXPECT(&bob, ask_store_regions(number), -EACCES);
	EXPECT(&client, ask_store_forget(99), -ENOENT);
	EXPECT(&client, ask_store_regions(99), -ENOENT);
	EXPECT(&client, ask_store_forget(number), -EBUSY);
	reply = must(&client, ask_store_regions(number));
	assert_int_equal(reply->server_region_infos->n_entries, 1);
	assert_string_equal(reply->server_region_infos->entries[0]->region->name, "r");
	drop(reply);
	/* They are not lost with the server. */
	reply = must(&client, ask_server_regions(fixture.servers[0].number, 0, 0));
	assert_int_equal(reply->server_region_infos->n_entries, 0);
	drop(reply);
	fixture_kill(&fixture, 0);
	EXPECT(&client, ask_store_forget(number), 0);
	assert_null(store_of(0));
	expect_lost();
	assert_int_equal(ns_of(ns)->reserved_bytes, 0);
	assert_null(state_server(fixture.core->state, fixture.servers[0].number));
	check_all(&fixture);
	/* It may come back: as a store that we do not know, with extents that are nobody's. */
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_int_equal(store_of(0)->nr_orphans, 1);
	expect_lost();
	check_all(&fixture);
	EXPECT(&client, ask_delete("a", true), 0);
	assert_int_equal(device(0)->granted, 8 * MIB);
	check_all(&fixture);
}

/* Stores of a server that is removed stay, and are nobody's until another one joins with them. */
static void test_removal_leaves_stores(void **state)
{
	Afar__RegionInfo *region;
	Afar__Reply *reply;

	(void)state;
	fixture_disconnect(&fixture, 0);
	EXPECT(&client, ask_server_remove(fixture.servers[0].number), 0);
	assert_null(store_of(0)->pool.server);
	region = must_open(&client, ask_open(ns, "r", 0), &reply);
	assert_int_equal(region->layout->n_servers, 0);
	assert_int_equal(region->layout->stores[0]->server, 0);
	drop(reply);
	check_all(&fixture);
	fixture_restart(&fixture);
	client_resume(&fixture, &client);
	check_all(&fixture);
	assert_int_equal(fixture_join(&fixture, 0, GIB), -AFAR_ELOST);
	fixture_kill(&fixture, 0);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	region = must_open(&client, ask_open(ns, "r", 0), &reply);
	assert_int_equal(region->layout->n_accesses, 1);
	drop(reply);
	check_all(&fixture);
}

static void report_stores(const uint64_t *numbers, size_t nr)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	struct event *event = event_new(EVENT_REQUEST, fixture.servers[0].peer);
	Afar__ServerReport *report = MESSAGE_NEW(afar__server_report, Afar__ServerReport);
	Afar__Reply *reply = NULL;

	request->call_case = AFAR__REQUEST__CALL_SERVER_REPORT;
	request->server_report = report;
	report->stores = calloc(nr, sizeof(*report->stores));
	for (size_t i = 0; i < nr; i++) {
		report->stores[i] = MESSAGE_NEW(afar__store_report, Afar__StoreReport);
		report->stores[i]->store = numbers[i];
		report->stores[i]->used_bytes = 1000 + i;
		report->n_stores++;
	}
	event->call = &reply;
	event->request_id = 7;
	event->request = request;
	cds_list_add_tail(&event->node, &fixture.events);
	fixture_pump(&fixture);
	expect_answer(reply, 0, NULL);
}

/* Reports of stores that it does not have are ignored. */
static void test_status(void **state)
{
	const Afar__StoreStatus *status;
	uint64_t numbers[3];
	Afar__Reply *reply;

	(void)state;
	fixture_plug(&fixture, 1, 1, 32 * MIB);
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	numbers[0] = 99;
	numbers[1] = device(1)->number;
	numbers[2] = device(0)->number;
	report_stores(numbers, 3);
	reply = must(&client, ask_status());
	assert_int_equal(reply->cluster_status->n_stores, 2);
	assert_int_equal(reply->cluster_status->nr_stores, 2);
	assert_null(reply->cluster_status->stores[1]->report);
	status = reply->cluster_status->stores[0];
	assert_int_equal(status->store, device(0)->number);
	assert_memory_equal(status->uuid.data, device(0)->uuid, STORE_UUID_BYTES);
	assert_string_equal(status->server_name, "server-0");
	assert_true(status->is_up);
	assert_int_equal(status->capacity_bytes, 64 * MIB);
	assert_int_equal(status->granted_bytes, 8 * MIB);
	assert_int_equal(status->report->used_bytes, 1002);
	drop(reply);
	fixture_disconnect(&fixture, 0);
	fixture_advance(&fixture, 500);
	reply = must(&client, ask_status());
	status = reply->cluster_status->stores[0];
	assert_false(status->is_up);
	assert_null(status->report);
	assert_int_equal(status->down_ms, 500);
	drop(reply);
}

/* A manager that has just started waits for the servers of its stores. */
static void test_reserve_waits_for_stores(void **state)
{
	Afar__Reply *reply;

	(void)state;
	fixture_restart(&fixture);
	client_resume(&fixture, &client);
	fixture_send(&fixture, &client, 500, ask_alloc(ns, "s", MIB, false), &reply);
	fixture_pump(&fixture);
	assert_null(reply);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	fixture_pump(&fixture);
	expect_answer(reply, 0, NULL);
	check_all(&fixture);
}

TEST_GROUP(manager_flash)
{
	const struct CMUnitTest tests[] = {
		TEST(test_reserving_and_placing),
		FLASH_TEST(test_what_flash_cannot_do),
		FLASH_TEST(test_release_names_the_namespace),
		FLASH_TEST(test_reservations_side_by_side),
		TEST(test_store_that_refuses),
		FLASH_TEST(test_numbers_that_are_in_use),
		FLASH_TEST(test_regions_outlive_a_server),
		FLASH_TEST(test_store_that_is_not_named),
		FLASH_TEST(test_releases_outlive_a_server),
		FLASH_TEST(test_unknown_store_is_not_a_release),
		FLASH_TEST(test_fences_hold_regions_of_stores),
		FLASH_TEST(test_fences_of_who_had_keys),
		TEST(test_older_manager_does_not_release),
		FLASH_TEST(test_provisional_extents_are_released),
		FLASH_TEST(test_extents_of_others),
		FLASH_TEST(test_missing_extents_are_lost),
		FLASH_TEST(test_device_that_went_back),
		FLASH_TEST(test_records_that_continue),
		FLASH_TEST(test_device_moves),
		FLASH_TEST(test_joins_are_checked),
		FLASH_TEST(test_join_that_is_not_committed),
		FLASH_TEST(test_loading),
		FLASH_TEST(test_forgetting),
		FLASH_TEST(test_removal_leaves_stores),
		FLASH_TEST(test_status),
		FLASH_TEST(test_reserve_waits_for_stores),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
