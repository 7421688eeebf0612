/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators add stores to running servers, take them away, and free orphans, and see how one is that
 * takes no changes. Tests what is refused, what becomes of servers and commits that fail in between, and
 * that nothing else is touched. */
#include <string.h>

#include <afar/afar.h>

#include "lib/manager/manager_tables.h"
#include "lib/manager/manager_test.h"
#include "unit/group.h"

#define GIB ((uint64_t)1 << 30)

/* Server 0 has device 0, and namespace "a" has 8 MiB there. Server 1 has no device. */
static struct fake_client client;
static uint64_t ns;

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
	for (size_t i = 0; i < device(0)->nr_extents; i++)
		device(0)->extents[i].is_provisional = false;
}

static int begin(void **state)
{
	setup(state);
	client_open(&fixture, &client);
	fixture_plug(&fixture, 0, 0, 64 * MIB);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	ns = make_flash_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 8 * MIB), 0);
	confirm_all();
	return 0;
}

#define DEVICES_TEST(name) cmocka_unit_test_setup_teardown(name, begin, teardown)

static unsigned nr_lanes_to(size_t server, size_t store)
{
	const struct server *found =
		state_server(fixture.core->state, fixture.servers[server].number);
	unsigned nr = 0;

	for (size_t i = 0; i < found->nr_lanes; i++)
		nr += found->lanes[i].store == device(store)->number;
	return nr;
}

/* ---- Adding */

/* Sends the request. The server is silent until it has lent the store. */
static void begin_adding(Afar__Reply **reply)
{
	fixture.servers[1].is_silent = true;
	fixture_send(&fixture, &client, 900,
		     ask_store_add(fixture.servers[1].number, "/dev/flash1"), reply);
	core_run(fixture.core, &fixture.events);
	assert_null(*reply);
}

static void test_added_while_the_server_runs(void **state)
{
	Afar__Reply *reply;

	(void)state;
	begin_adding(&reply);
	assert_int_equal(fixture_lend(&fixture, 1, 1, 32 * MIB, NULL), 0);
	fixture.servers[1].opened = device(1)->number;
	fixture.servers[1].is_silent = false;
	fixture_pump(&fixture);
	assert_int_equal(reply->status, 0);
	assert_int_equal(reply->store_opened->store, device(1)->number);
	drop(reply);
	assert_true(store_of(1)->is_up);
	assert_int_equal(store_of(1)->pool.server->number, fixture.servers[1].number);
	assert_int_equal(nr_lanes_to(1, 1), 1);
	EXPECT(&client, ask_reserve(ns, 80 * MIB), 0);
	assert_int_equal(device(1)->granted, 32 * MIB);
	check_all(&fixture);

	/* Its server's joins name it, and who asks again hears it again, also from another manager. */
	fixture_restart(&fixture);
	client_resume(&fixture, &client);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	assert_true(store_of(1)->is_up);
	assert_int_equal(nr_lanes_to(1, 1), 1);
	fixture_send(&fixture, &client, 900, ask_store_add(99, ""), &reply);
	fixture_pump(&fixture);
	assert_int_equal(reply->store_opened->store, device(1)->number);
	drop(reply);
	check_all(&fixture);
}

static void test_servers_say_why_they_refuse(void **state)
{
	struct fake_client bob;
	uint64_t number;

	(void)state;
	number = fixture.servers[1].number;
	EXPECT(&client, ask_key_add("bob", false), 0);
	client_open_as(&fixture, &bob, "bob");
	EXPECT(&bob, ask_store_add(number, "/dev/flash1"), -EACCES);
	expect_said(&client, ask_store_add(99, "/dev/flash1"), -ENOENT, "there is none");
	expect_said(&client, ask_store_add(number, "flash1"), -EINVAL, "begin with '/'");
	expect_said(&client, ask_store_add(number, "/dev/\n"), -EINVAL, "control");
	expect_said(&client, ask_store_add(number, ""), -EINVAL, "begin with '/'");
	fixture.servers[1].refuse_device = -EBUSY;
	fixture.servers[1].says = "open the store /dev/flash1: it is mounted";
	expect_said(&client, ask_store_add(number, "/dev/flash1"), -EBUSY,
		    "'server-1' at 127.0.0.1:7501: open the store /dev/flash1: it is mounted");
	/* The manager does not pass on what would act on a terminal. */
	fixture.servers[1].says = "\033[2J";
	expect_said(&client, ask_store_add(number, "/dev/flash1"), -AFAR_ESERVER, "EBUSY");
	/* One says that it has it, and has lent nothing. */
	fixture.servers[1].refuse_device = 0;
	fixture.servers[1].opened = device(0)->number;
	expect_said(&client, ask_store_add(number, "/dev/flash1"), -AFAR_ESERVER,
		    "has not lent it");
	fixture_disconnect(&fixture, 1);
	EXPECT(&client, ask_store_add(number, "/dev/flash1"), -ENOENT);
	check_all(&fixture);
}

static void spoil_lane(Afar__StoreLend *lend)
{
	lend->lane->store++;
}

static Afar__Lane *lane_like(const Afar__Lane *like, const char *transport)
{
	Afar__Lane *lane = MESSAGE_NEW(afar__lane, Afar__Lane);

	lane->transport = strdup(transport);
	lane->address = strdup(like->address);
	lane->store = like->store;
	return lane;
}

static void add_lanes(Afar__StoreLend *lend)
{
	lend->near_lane = lane_like(lend->lane, "local");
	lend->driven_lane = lane_like(lend->lane, "verbs-driven");
}

static void spoil_driven_lane(Afar__StoreLend *lend)
{
	add_lanes(lend);
	lend->driven_lane->store++;
}

static void spoil_near_lane(Afar__StoreLend *lend)
{
	add_lanes(lend);
	lend->near_lane->store++;
}

static void spoil_address(Afar__StoreLend *lend)
{
	lend->lane->address[0] = '\n';
}

static void drop_lane(Afar__StoreLend *lend)
{
	afar__lane__free_unpacked(lend->lane, NULL);
	lend->lane = NULL;
}

static void drop_store(Afar__StoreLend *lend)
{
	afar__store__free_unpacked(lend->store, NULL);
	lend->store = NULL;
}

static void spoil_cluster(Afar__StoreLend *lend)
{
	free(lend->store->cluster);
	lend->store->cluster = strdup("another");
}

/* The manager checks what is lent as in a join. A refusal changes nothing. */
static void test_what_is_lent_is_checked(void **state)
{
	static const struct {
		const char *what;
		void (*spoil)(Afar__StoreLend *lend);
	} spoils[] = {
		{"a lane of another store", spoil_lane},
		{"a driven lane of another store", spoil_driven_lane},
		{"a near lane of another store", spoil_near_lane},
		{"a line feed in an address", spoil_address},
		{"no lane", drop_lane},
		{"no store", drop_store},
		{"another cluster", spoil_cluster},
	};
	struct store_join accepted;
	char *before;

	(void)state;
	before = tables_text(&fixture);
	for (size_t i = 0; i < sizeof(spoils) / sizeof(spoils[0]); i++) {
		int status = fixture_lend(&fixture, 1, 1, 32 * MIB, spoils[i].spoil);

		if (status != -EINVAL || store_of(1) != NULL)
			fail_msg("%s: %d", spoils[i].what, status);
	}
	/* A copy of what another server has, and of what this one has. */
	assert_int_equal(fixture_lend(&fixture, 1, 0, 64 * MIB, NULL), -EBUSY);
	assert_int_equal(fixture_lend(&fixture, 0, 0, 64 * MIB, NULL), -EBUSY);
	expect_tables(&fixture, before);
	/* Not committed: it was never there. */
	before = tables_text(&fixture);
	fixture.store.fail_at = 1;
	fixture.store.failure = -ENOSPC;
	assert_int_equal(fixture_lend(&fixture, 1, 1, 32 * MIB, NULL), -ENOSPC);
	expect_tables(&fixture, before);
	fixture_advance(&fixture, 1100);
	/* An older image. */
	assert_int_equal(fixture_lend(&fixture, 1, 1, 32 * MIB, NULL), 0);
	accepted = device(1)->accepted;
	fixture_kill(&fixture, 1);
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	fixture_kill(&fixture, 1);
	fixture_unplug(&fixture, 1);
	device(1)->accepted = accepted;
	device(1)->present = (struct store_join){accepted.opening + 1, 77};
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	assert_int_equal(fixture_lend(&fixture, 1, 1, 32 * MIB, NULL), -EINVAL);
	assert_false(store_of(1)->is_up);
}

/* The nearest lane to clients is the last. */
static void test_lanes_of_what_is_lent(void **state)
{
	static const char *const transports[] = {"tcp", "verbs-driven", "local"};
	const struct server *server;
	size_t nr = 0;

	(void)state;
	assert_int_equal(fixture_lend(&fixture, 1, 1, 32 * MIB, add_lanes), 0);
	server = store_of(1)->pool.server;
	for (size_t i = 0; i < server->nr_lanes; i++) {
		if (server->lanes[i].store != device(1)->number)
			continue;
		assert_true(nr < 3);
		assert_string_equal(server->lanes[i].transport, transports[nr++]);
	}
	assert_int_equal(nr, 3);
}

/* ---- Removing */

static void test_removed_when_it_is_not_used(void **state)
{
	Afar__RegionInfo *region;
	struct fake_client bob;
	Afar__Reply *reply;
	uint64_t number;

	(void)state;
	number = device(0)->number;
	EXPECT(&client, ask_key_add("bob", false), 0);
	client_open_as(&fixture, &bob, "bob");
	EXPECT(&bob, ask_store_remove(number), -EACCES);
	EXPECT(&client, ask_store_remove(99), -ENOENT);
	expect_said(&client, ask_store_remove(number), -EBUSY,
		    "8 MiB on it are reserved, for namespace 'a'");
	for (unsigned i = 0; i < 5; i++) {
		char name[2] = {(char)('r' + i), '\0'};

		region = must_open(&client, ask_alloc(ns, name, MIB, false), &reply);
		EXPECT(&client, ask_close(region), 0);
		drop(reply);
	}
	expect_said(&client, ask_store_remove(number), -EBUSY,
		    "it holds region 'a:r', region 'a:s', region 'a:t', and 2 more; copy");
	EXPECT(&client, ask_delete("a", true), 0);
	fixture_pump(&fixture);
	assert_int_equal(device(0)->granted, 0);
	EXPECT(&client, ask_store_remove(number), 0);
	assert_int_equal(fixture.servers[0].nr_stores, 0);
	assert_null(store_of(0));
	assert_int_equal(nr_lanes_to(0, 0), 0);
	EXPECT(&client, ask_store_remove(number), -ENOENT);
	check_empty(&fixture);
	fixture_restart(&fixture);
	client_resume(&fixture, &client);
	assert_null(store_of(0));
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	/* It may come again, to another server. */
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	fake_store_open(device(0));
	assert_int_equal(fixture_lend(&fixture, 1, 0, 64 * MIB, NULL), 0);
	assert_true(store_of(0)->is_up);
	check_all(&fixture);
}

/* A reservation that is under way keeps it; and none begins there while it is being closed. */
static void test_removing_and_reserving(void **state)
{
	Afar__Reply *reserving, *removing;
	uint64_t number;

	(void)state;
	assert_int_equal(fixture_lend(&fixture, 1, 1, 256 * MIB, NULL), 0);
	number = device(1)->number;
	fixture.servers[1].is_silent = true;
	fixture_send(&fixture, &client, 900, ask_reserve(ns, 100 * MIB), &reserving);
	core_run(fixture.core, &fixture.events);
	expect_said(&client, ask_store_remove(number), -EBUSY, "a reservation is under way");
	fixture.servers[1].is_silent = false;
	fixture_pump(&fixture);
	expect_answer(reserving, 0, NULL);
	EXPECT(&client, ask_release(ns, UINT64_MAX), 0);
	fixture_pump(&fixture);
	assert_int_equal(device(1)->granted, 0);

	fixture.servers[1].is_silent = true;
	fixture_send(&fixture, &client, 901, ask_store_remove(number), &removing);
	core_run(fixture.core, &fixture.events);
	assert_null(removing);
	expect_said(&client, ask_reserve(ns, 100 * MIB), -ENOSPC, "the stores have 64");
	EXPECT(&client, ask_reserve(ns, 2 * MIB), 0);
	assert_int_equal(device(1)->granted, 0);
	fixture.servers[1].is_silent = false;
	fixture_pump(&fixture);
	expect_answer(removing, 0, NULL);
	assert_null(store_of(1));
	check_all(&fixture);
}

/* Its server refuses, or is killed in the middle: the store stays, and can be used, or removed. */
static void test_servers_that_fail_to_close(void **state)
{
	Afar__Reply *reply;
	uint64_t number;

	(void)state;
	assert_int_equal(fixture_lend(&fixture, 1, 1, 256 * MIB, NULL), 0);
	number = device(1)->number;
	fixture.servers[1].refuse_device = -EIO;
	fixture.servers[1].says = "no";
	expect_said(&client, ask_store_remove(number), -EIO, "7501: no");
	fixture.servers[1].refuse_device = 0;
	assert_true(store_of(1)->is_up);
	EXPECT(&client, ask_reserve(ns, 100 * MIB), 0);
	EXPECT(&client, ask_release(ns, UINT64_MAX), 0);
	fixture_pump(&fixture);

	fixture.servers[1].is_silent = true;
	fixture_send(&fixture, &client, 900, ask_store_remove(number), &reply);
	core_run(fixture.core, &fixture.events);
	fixture.servers[1].is_silent = false;
	fixture_kill(&fixture, 1);
	expect_answer(reply, -AFAR_ESERVER, "afar store ls");
	assert_false(store_of(1)->is_up);
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	EXPECT(&client, ask_reserve(ns, 100 * MIB), 0);
	EXPECT(&client, ask_release(ns, UINT64_MAX), 0);
	fixture_pump(&fixture);
	/* Away, it is taken out without its server. */
	fixture_kill(&fixture, 1);
	EXPECT(&client, ask_store_remove(number), 0);
	assert_null(store_of(1));
	check_all(&fixture);
	/* One that does not know it has not got it open. */
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	assert_true(store_of(1)->is_up);
	fixture.servers[1].refuse_device = -ENOENT;
	EXPECT(&client, ask_store_remove(number), 0);
	assert_null(store_of(1));
	check_all(&fixture);
}

/* The server has closed it, and that cannot be written down: it is away, and removed by the next try. */
static void test_closed_and_not_committed(void **state)
{
	Afar__Reply *reply;
	uint64_t number;

	(void)state;
	assert_int_equal(fixture_lend(&fixture, 1, 1, 256 * MIB, NULL), 0);
	number = device(1)->number;
	fixture.servers[1].is_silent = true;
	fixture_send(&fixture, &client, 900, ask_store_remove(number), &reply);
	core_run(fixture.core, &fixture.events);
	fixture.store.fail_at = 1;
	fixture.store.failure = -ENOSPC;
	fixture.servers[1].is_silent = false;
	fixture_pump(&fixture);
	expect_answer(reply, -ENOSPC, NULL);
	assert_int_equal(fixture.servers[1].nr_stores, 0);
	assert_false(store_of(1)->is_up);
	fixture_advance(&fixture, 1100);
	expect_said(&client, ask_reserve(ns, 100 * MIB), -ENOSPC, "the stores have");
	EXPECT(&client, ask_store_remove(number), 0);
	assert_null(store_of(1));
	assert_int_equal(nr_lanes_to(1, 1), 0);
	check_all(&fixture);
}

/* ---- Orphans */

/* The device has confirmed extents that the manager does not know: 8 MiB, and `nr` of 2 MiB. */
static void leave_orphans(unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		EXPECT(&client, ask_reserve(ns, 2 * MIB), 0);
	confirm_all();
	fixture_kill(&fixture, 0);
	EXPECT(&client, ask_store_forget(device(0)->number), 0);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_int_equal(store_of(0)->nr_orphans, 1 + nr);
	assert_int_equal(store_of(0)->orphan_bytes, (8 + 2 * nr) * MIB);
}

/* An operator frees them, and gets their room back; what the manager knows stays. */
static void test_orphans_are_freed_by_operators(void **state)
{
	struct fake_client bob;
	Afar__Reply *reply;
	uint64_t number;

	(void)state;
	leave_orphans(2);
	number = device(0)->number;
	EXPECT(&client, ask_key_add("bob", false), 0);
	client_open_as(&fixture, &bob, "bob");
	EXPECT(&bob, ask_free_orphans(number), -EACCES);
	EXPECT(&client, ask_free_orphans(99), -ENOENT);
	ns = make_flash_namespace(&fixture, &client, "b");
	/* They take room. */
	expect_said(&client, ask_reserve(ns, 54 * MIB), -ENOSPC, "have 52 of the missing 54");
	EXPECT(&client, ask_reserve(ns, 10 * MIB), 0);
	assert_int_equal(device(0)->granted, 22 * MIB);

	reply = must(&client, ask_free_orphans(number));
	assert_int_equal(reply->namespace_released->bytes, 12 * MIB);
	drop(reply);
	assert_int_equal(device(0)->granted, 10 * MIB);
	assert_int_equal(store_of(0)->nr_orphans, 0);
	assert_int_equal(store_of(0)->orphan_bytes, 0);
	EXPECT(&client, ask_reserve(ns, 54 * MIB), 0);
	reply = must(&client, ask_free_orphans(number));
	assert_int_equal(reply->namespace_released->bytes, 0);
	drop(reply);
	check_all(&fixture);
}

/* A request that comes again is answered with what was freed, also by another manager. */
static void test_freeing_orphans_is_done_once(void **state)
{
	Afar__Reply *reply;

	(void)state;
	leave_orphans(0);
	for (unsigned i = 0; i < 2; i++) {
		fixture_send(&fixture, &client, 900, ask_free_orphans(device(0)->number), &reply);
		fixture_pump(&fixture);
		assert_int_equal(reply->status, 0);
		assert_int_equal(reply->namespace_released->bytes, 8 * MIB);
		drop(reply);
		fixture_restart(&fixture);
		client_resume(&fixture, &client);
	}
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_int_equal(store_of(0)->nr_orphans, 0);
	check_all(&fixture);
}

/* The server is killed before it has removed them, refuses, or has a store that takes no changes. They
 * are kept, and can be freed later. */
static void test_freeing_orphans_fails(void **state)
{
	const uint64_t *number;
	Afar__Reply *reply;

	(void)state;
	leave_orphans(1);
	number = &device(0)->number;
	device(0)->refuse_to_release = -EIO;
	expect_said(&client, ask_free_orphans(*number), -AFAR_ESERVER, "are kept");
	assert_int_equal(store_of(0)->nr_orphans, 2);
	device(0)->refuse_to_release = 0;

	fixture_send(&fixture, &client, 900, ask_free_orphans(*number), &reply);
	core_run(fixture.core, &fixture.events);
	fixture_kill(&fixture, 0);
	expect_answer(reply, -AFAR_ESERVER, NULL);
	assert_int_equal(store_of(0)->nr_orphans, 2);
	expect_said(&client, ask_free_orphans(*number), -AFAR_ESERVER, "it is away");
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	assert_int_equal(store_of(0)->nr_orphans, 2);

	fixture_report_store(&fixture, 0, *number, -EIO);
	expect_said(&client, ask_free_orphans(*number), -EIO, "takes no changes");
	fixture_report_store(&fixture, 0, *number, 0);
	EXPECT(&client, ask_free_orphans(*number), 0);
	assert_int_equal(device(0)->granted, 0);
	check_all(&fixture);
}

/* ---- Stores that take no changes */

/* Nothing new is placed in a store that takes no changes; what is there can be opened. */
static void test_read_only_store(void **state)
{
	uint64_t number, other;
	Afar__Reply *reply;

	(void)state;
	EXPECT(&client, ask_alloc(ns, "r", 3 * MIB, false), 0);
	number = device(0)->number;
	other = make_flash_namespace(&fixture, &client, "b");
	fixture_report_store(&fixture, 0, number, -EIO);
	reply = must(&client, ask_status());
	assert_int_equal(reply->cluster_status->stores[0]->report->refusal, -EIO);
	assert_int_equal(reply->cluster_status->stores[0]->report->refusal_ms, 5000);
	drop(reply);
	expect_said(&client, ask_reserve(other, 2 * MIB), -AFAR_ENOSERVER, "read only");
	expect_said(&client, ask_alloc(ns, "s", MIB, false), -AFAR_ERESERVE,
		    "stores are read only");
	EXPECT(&client, ask_open(ns, "r", 0), 0);
	fixture_plug(&fixture, 1, 1, 32 * MIB);
	assert_int_equal(fixture_join(&fixture, 1, GIB), 0);
	EXPECT(&client, ask_reserve(other, 2 * MIB), 0);
	assert_int_equal(device(0)->nr_reserves, 1);
	assert_int_equal(device(1)->nr_reserves, 1);
	/* It has more free, and has been opened again. */
	fixture_kill(&fixture, 0);
	assert_int_equal(fixture_join(&fixture, 0, GIB), 0);
	EXPECT(&client, ask_reserve(other, 40 * MIB), 0);
	assert_int_equal(device(0)->nr_reserves, 2);
	EXPECT(&client, ask_alloc(ns, "s", MIB, false), 0);
	check_all(&fixture);
}

TEST_GROUP(manager_devices)
{
	const struct CMUnitTest tests[] = {
		DEVICES_TEST(test_added_while_the_server_runs),
		DEVICES_TEST(test_servers_say_why_they_refuse),
		DEVICES_TEST(test_what_is_lent_is_checked),
		DEVICES_TEST(test_lanes_of_what_is_lent),
		DEVICES_TEST(test_removed_when_it_is_not_used),
		DEVICES_TEST(test_removing_and_reserving),
		DEVICES_TEST(test_servers_that_fail_to_close),
		DEVICES_TEST(test_closed_and_not_committed),
		DEVICES_TEST(test_orphans_are_freed_by_operators),
		DEVICES_TEST(test_freeing_orphans_is_done_once),
		DEVICES_TEST(test_freeing_orphans_fails),
		DEVICES_TEST(test_read_only_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
