/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches that fail leave nothing behind. A commit that fails leaves exactly the tables from
 * before. An operation that fails half through leaves exactly what was before it, whatever change
 * it was that failed. manager_tables.h compares. */
#include <string.h>
#include <time.h>

#include "lib/manager/manager_tables.h"
#include "lib/manager/manager_test.h"
#include "unit/group.h"

/* ---- Changes that fail */

static uint64_t fail_at; /* the how many-th change from now fails; 0: none */

int __real_undo_room(struct undo *undo, size_t nr);
int __wrap_undo_room(struct undo *undo, size_t nr);

int __wrap_undo_room(struct undo *undo, size_t nr)
{
	if (fail_at != 0 && --fail_at == 0)
		return error_fail(-ENOMEM, "change the tables: no memory");
	return __real_undo_room(undo, nr);
}

/* ---- What each test begins with */

static struct fake_client admin, alice, bob, dave;
static Afar__Reply *opened[4]; /* regions that the admin has open */
static uint64_t ns;

enum { SHARED, FILLED, CLOSED, FREED };

/* Memory for sealed regions that is free. */
static void make_sealed_memory(void)
{
	Afar__Reply *reply;
	Afar__RegionInfo *info = must_open(&admin, ask_alloc(ns, "", 3 * MIB, false), &reply);

	EXPECT(&admin, ask_seal(info), 0);
	EXPECT(&admin, ask_free(info), 0);
	EXPECT(&admin, ask_close(info), 0);
	drop(reply);
}

static Afar__Request *ask_unfinished(const char *name)
{
	Afar__Request *request = ask_alloc(ns, name, MIB, false);

	request->region_alloc->is_unfinished = true;
	return request;
}

static int begin(void **state)
{
	setup(state);
	fail_at = 0;
	client_open(&fixture, &admin);
	join_servers(2);
	fixture_advance(&fixture, 4000); /* it does not wait for servers after its start any more */
	ns = make_namespace(&fixture, &admin, "a");
	EXPECT(&admin, ask_reserve(ns, 24 * MIB), 0);
	EXPECT(&admin, ask_key_add("alice", false), 0);
	EXPECT(&admin, ask_key_add("bob", false), 0);
	EXPECT(&admin, ask_grant(ns, "alice", RIGHT_ALL), 0);
	client_open_as(&fixture, &alice, "alice");
	client_open_as(&fixture, &bob, "bob");
	client_open(&fixture, &dave);
	must_open(&admin, ask_alloc(ns, "shared", MIB + 5, false), &opened[SHARED]);
	EXPECT(&alice, ask_open(ns, "shared", 0), 0);
	must_open(&admin, ask_unfinished("filled"), &opened[FILLED]);
	must_open(&admin, ask_alloc(ns, "closed", 5000, false), &opened[CLOSED]);
	must_open(&admin, ask_alloc(ns, "freed", 70000, false), &opened[FREED]);
	make_sealed_memory();
	make_namespace(&fixture, &admin, "empty");
	check_all(&fixture);
	return 0;
}

static int end(void **state)
{
	fail_at = 0;
	for (size_t i = 0; i < 4; i++)
		drop(opened[i]);
	return teardown(state);
}

static void begin_again(void **state)
{
	end(state);
	begin(state);
}

#define BATCH_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

/* ---- A batch of twenty */

#define NR_CHANGES 20U
#define NR_READS   5U

struct batch {
	Afar__Reply *changes[NR_CHANGES];
	Afar__Reply *reads[NR_READS];
	size_t nr_changes, nr_reads;
};

static void send_change(struct batch *batch, struct fake_client *client, Afar__Request *request)
{
	assert_true(batch->nr_changes < NR_CHANGES);
	fixture_send(&fixture, client, ++client->next_id, request,
		     &batch->changes[batch->nr_changes++]);
}

static void send_read(struct batch *batch, Afar__Request *request)
{
	fixture_send(&fixture, &admin, ++admin.next_id, request, &batch->reads[batch->nr_reads++]);
}

static Afar__Request *ask_session(void)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);

	request->call_case = AFAR__REQUEST__CALL_SESSION_OPEN;
	request->session_open = MESSAGE_NEW(afar__session_open, Afar__SessionOpen);
	request->session_open->client = strdup("host:1 again");
	return request;
}

/* Changes of all kinds, of which some build on those before them, and others read among them. */
static void run_batch(struct batch *batch)
{
	struct fake_client nobody = {.peer = dave.peer, .next_id = 1000};

	*batch = (struct batch){.nr_changes = 0};
	send_change(batch, &admin, ask_create("b", 0, 4096));
	send_change(batch, &admin, ask_alloc(ns, "x", 2 * MIB, false));
	send_read(batch, ask_namespaces("", 0));
	send_change(batch, &alice, ask_open(ns, "x", 0));
	send_change(batch, &alice, ask_alloc(ns, "y", 100000, false));
	send_change(batch, &admin, ask_close(opened[CLOSED]->region_info));
	send_change(batch, &admin, ask_free(opened[SHARED]->region_info));
	send_read(batch, ask_regions(ns, 0, 0));
	send_change(batch, &admin, ask_finish(opened[FILLED]->region_info));
	send_change(batch, &admin, ask_key_add("carol", false));
	send_change(batch, &admin, ask_grant(ns, "bob", RIGHT_READ));
	send_change(batch, &bob, ask_open(ns, "filled", 0));
	send_change(batch, &admin, ask_release(ns, 2 * MIB));
	send_read(batch, ask_status());
	/* Names and connections that are used again. */
	send_change(batch, &admin, ask_delete("empty", true));
	send_change(batch, &admin, ask_create("empty", 2, 8192));
	send_change(batch, &admin, ask_free(opened[FREED]->region_info));
	send_change(batch, &admin, ask_alloc(ns, "freed", MIB, true));
	send_change(batch, &dave, ask_session_close());
	send_change(batch, &nobody, ask_session());
	send_read(batch, ask_key_list());
	/* Sessions that end because of others. */
	send_change(batch, &admin, ask_grant(ns, "alice", RIGHT_READ));
	send_change(batch, &admin, ask_key_revoke("bob"));
	send_change(batch, &admin, ask_alloc(ns, "z", 4096, false));
	send_read(batch, ask_namespace("empty"));
	assert_int_equal(batch->nr_changes, NR_CHANGES);
	fixture_pump(&fixture);
}

static void drop_batch(struct batch *batch)
{
	for (size_t i = 0; i < NR_CHANGES; i++)
		drop(batch->changes[i]);
	for (size_t i = 0; i < NR_READS; i++)
		drop(batch->reads[i]);
}

/* Reads say that nothing has happened, or all of it. */
static void expect_read(const struct batch *batch, bool is_done)
{
	const Afar__RegionInfos *regions = batch->reads[1]->region_infos;

	for (size_t i = 0; i < NR_READS; i++)
		assert_int_equal(batch->reads[i]->status, 0);
	assert_int_equal(batch->reads[0]->namespace_infos->n_entries, is_done ? 3 : 2);
	assert_int_equal(regions->n_entries, is_done ? 6 : 4);
	for (size_t i = 0; i < regions->n_entries && !is_done; i++)
		assert_string_equal(regions->entries[i]->name, opened[i]->region_info->name);
	assert_int_equal(batch->reads[2]->cluster_status->n_sessions, is_done ? 5 : 4);
	assert_int_equal(batch->reads[3]->key_infos->n_entries, 4);
	assert_int_equal(batch->reads[4]->namespace_info->policy->stripe_bytes,
			 is_done ? 8192 : 64 << 10);
}

static void test_failed_batch_of_twenty_among_readers(void **state)
{
	struct batch batch;

	(void)state;
	for (int times = 0; times < 3; times++) {
		char *before = tables_text(&fixture);

		fixture.store.fail_at = 1;
		run_batch(&batch);
		for (size_t i = 0; i < NR_CHANGES; i++) {
			assert_int_equal(batch.changes[i]->status, -ENOSPC);
			assert_non_null(strstr(batch.changes[i]->message, "disk is full"));
		}
		expect_read(&batch, false);
		drop_batch(&batch);
		expect_tables(&fixture, before);
		check_all(&fixture);
	}
	run_batch(&batch);
	for (size_t i = 0; i < NR_CHANGES; i++)
		assert_int_equal(batch.changes[i]->status, 0);
	expect_read(&batch, true);
	drop_batch(&batch);
	check_all(&fixture);
}

/* One change in the middle fails: its operation is not done, all others are, and the store has what
 * the tables have. If the commit fails too, nothing is done. */
static void test_every_change_of_a_batch_fails(void **state)
{
	struct batch batch;
	uint64_t nr = 0;
	bool is_over = false;

	for (nr = 1; !is_over; nr++) {
		unsigned nr_failed = 0;
		char *before;

		begin_again(state);
		before = tables_text(&fixture);
		fail_at = nr;
		fixture.store.fail_at = 1;
		run_batch(&batch);
		drop_batch(&batch);
		expect_tables(&fixture, before);

		fail_at = nr;
		run_batch(&batch);
		is_over = fail_at != 0;
		fail_at = 0;
		for (size_t i = 0; i < NR_CHANGES; i++)
			nr_failed += batch.changes[i]->status == -ENOMEM;
		assert_true(nr_failed == 1 || is_over || nr_failed == 0);
		drop_batch(&batch);
		check_all(&fixture);
	}
	assert_true(nr > 100);
}

/* ---- One operation */

struct operation {
	struct fake_client *client;
	Afar__Request *(*ask)(void);
};

static Afar__Request *alloc_one(void)
{
	return ask_alloc(ns, "new", 3 * MIB + 1, false);
}
static Afar__Request *alloc_first(void)
{
	return ask_alloc(ns, "first", MIB, true);
}
static Afar__Request *open_one(void)
{
	return ask_open(ns, "shared", 0);
}
static Afar__Request *close_one(void)
{
	return ask_close(opened[CLOSED]->region_info);
}
static Afar__Request *free_open(void)
{
	return ask_free(opened[SHARED]->region_info);
}
static Afar__Request *close_freed(void)
{
	return ask_close(opened[SHARED]->region_info);
}
static Afar__Request *finish_one(void)
{
	return ask_finish(opened[FILLED]->region_info);
}
static Afar__Request *seal_one(void)
{
	return ask_seal(opened[FILLED]->region_info);
}
static Afar__Request *create_one(void)
{
	return ask_create("new", 0, 4096);
}
static Afar__Request *delete_one(void)
{
	return ask_delete("new", true);
}
static Afar__Request *reserve_one(void)
{
	return ask_reserve(ns, 8 * MIB);
}
static Afar__Request *release_one(void)
{
	return ask_release(ns, 8 * MIB);
}
static Afar__Request *grant_one(void)
{
	return ask_grant(ns, "bob", RIGHT_ALL);
}
static Afar__Request *take_right(void)
{
	return ask_grant(ns, "alice", RIGHT_READ);
}
static Afar__Request *add_key(void)
{
	return ask_key_add("carol", true);
}
static Afar__Request *revoke_key(void)
{
	return ask_key_revoke("bob");
}
static Afar__Request *limit_key(void)
{
	return ask_key_limit("alice", MIB);
}
static Afar__Request *limit_one(void)
{
	return ask_limit(ns, 64 * MIB);
}
static Afar__Request *remove_server(void)
{
	return ask_server_remove(fixture.servers[1].number);
}
static Afar__Request *make_cow(void)
{
	return ask_cow(ns, "cow", MIB);
}
/* The cow region's versions, by their numbers. */
static Afar__RegionInfo *version(uint64_t number)
{
	static Afar__RegionInfo info;
	const struct region *region = namespace_region_named(ns_of(ns), "cow");

	for (int nr = 0; region->version != number; nr++) {
		assert_true(nr < 10);
		region = cds_list_entry(region->family_node.next, struct region, family_node);
	}
	info = (Afar__RegionInfo){
		.namespace_ = ns, .address = region->address, .generation = region->generation};
	return &info;
}
static Afar__Request *open_cow(void)
{
	return ask_open(ns, "cow", 0);
}
static Afar__Request *begin_2(void)
{
	return ask_begin(version(1), 7);
}
static Afar__Request *prepare_2(void)
{
	const uint32_t units[] = {3, 0, 3};

	return ask_prepare(version(2), units, 3);
}
static Afar__Request *publish_2(void)
{
	return ask_publish(version(2));
}
static Afar__Request *newest_of_1(void)
{
	return ask_newest(version(1));
}
static Afar__Request *close_1(void)
{
	return ask_close(version(1));
}
static Afar__Request *begin_3(void)
{
	return ask_begin(version(2), 8);
}
static Afar__Request *prepare_3(void)
{
	const uint32_t units[] = {3, 4};

	return ask_prepare(version(3), units, 2);
}
static Afar__Request *close_3(void)
{
	return ask_close(version(3));
}
static Afar__Request *free_cow(void)
{
	return ask_free(version(2));
}
static Afar__Request *delete_all(void)
{
	return ask_delete("a", true);
}

static const struct operation operations[] = {
	{&admin, make_cow},    {&alice, open_cow},    {&admin, begin_2},
	{&admin, prepare_2},   {&admin, publish_2},   {&admin, begin_3},
	{&admin, prepare_3},   {&admin, close_1},     {&admin, close_3},
	{&alice, newest_of_1}, {&alice, close_1},     {&admin, begin_3},
	{&admin, prepare_3},   {&admin, free_cow},    {&admin, alloc_one},
	{&alice, alloc_first}, {&bob, grant_one},     {&admin, grant_one},
	{&bob, open_one},      {&admin, open_one},    {&admin, close_one},
	{&admin, free_open},   {&admin, close_freed}, {&admin, finish_one},
	{&admin, seal_one},    {&admin, create_one},  {&admin, delete_one},
	{&admin, reserve_one}, {&admin, release_one}, {&admin, take_right},
	{&admin, limit_key},   {&admin, limit_one},   {&bob, limit_one},
	{&admin, add_key},     {&admin, revoke_key},  {&dave, ask_session_close},
};

/* No request before it is settled, so nothing but what it does changes. */
static int run_operation(const struct operation *operation)
{
	Afar__Reply *reply;
	int status;

	fixture_send(&fixture, operation->client, ++operation->client->next_id, operation->ask(),
		     &reply);
	fixture_pump(&fixture);
	if (!reply) /* a job that could not give back what it took */
		fixture_advance(&fixture, CORE_RETRY_NS / 1000000U);
	assert_non_null(reply);
	status = reply->status;
	drop(reply);
	return status;
}

/* It leaves what was before it, whatever fails of it, and succeeds when nothing does. It fails
 * anyway if it may not be done. */
static uint64_t try_operation(const struct operation *operation)
{
	char *before;
	int status;

	for (uint64_t nr = 1;; nr++) {
		/* The commit fails, once with a change before it. */
		for (int has_failed = 0; has_failed < 2; has_failed++) {
			before = tables_text(&fixture);
			fixture.store.fail_at = 1;
			fail_at = has_failed ? nr : 0;
			assert_true(run_operation(operation) < 0);
			fixture.store.fail_at = fail_at = 0;
			fixture_advance(&fixture, CORE_RETRY_NS / 1000000U);
			expect_tables(&fixture, before);
		}
		before = tables_text(&fixture);
		fail_at = nr;
		status = run_operation(operation);
		if (fail_at != 0 || status != -ENOMEM) {
			fail_at = 0;
			free(before);
			/* The work that servers' answers bring may have failed; the manager asks
			 * again. */
			fixture_advance(&fixture, 2 * CORE_RETRY_NS / 1000000U);
			check_all(&fixture);
			return nr;
		}
		expect_tables(&fixture, before);
		check_all(&fixture);
	}
}

static void test_every_change_of_an_operation_fails(void **state)
{
	uint64_t nr = 0;

	(void)state;
	EXPECT(&dave, ask_temporary(ns, "temporary", 4096), 0);
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		nr += try_operation(&operations[i]);
	assert_true(nr > 100);
	/* With a server that is gone for good, and all that is left. */
	fixture_disconnect(&fixture, 1);
	nr = try_operation(&(struct operation){&admin, remove_server});
	assert_true(nr > 10);
	client_lose(&fixture, &alice);
	client_lose(&fixture, &admin);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	client_open(&fixture, &admin);
	nr = try_operation(&(struct operation){&admin, delete_all});
	assert_true(nr > 10);
	fixture.servers[1].nr_extents = 0;
	assert_null(ns_of(ns));
}

/* ---- What nobody asked for */

/* Runs what is to happen with each of its changes failing once; a second later all is done none the
 * less. */
static void try_event(void **state, void (*happen)(void), void (*expect_done)(void))
{
	uint64_t nr;

	for (nr = 1;; nr++) {
		bool is_over;

		begin_again(state);
		fail_at = nr;
		happen();
		is_over = fail_at != 0;
		fail_at = 0;
		check_store(&fixture);
		fixture_advance(&fixture, 2 * CORE_RETRY_NS / 1000000U);
		check_all(&fixture);
		expect_done();
		if (is_over)
			break;
	}
	assert_true(nr > 3);
}

static void release_all(void)
{
	fixture_do(&fixture, &admin, ask_release(ns, UINT64_MAX));
}

static void expect_released(void)
{
	const struct server *server;

	cds_list_for_each_entry (server, &fixture.core->state->servers, node)
		assert_int_equal(server->dram.releasing_bytes, 0);
}

static void lose_lease(void)
{
	client_lose(&fixture, &alice);
	client_lose(&fixture, &admin);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
}

static void expect_ended(void)
{
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	assert_null(state_session(fixture.core->state, alice.session));
	assert_null(state_session(fixture.core->state, admin.session));
}

/* One that has lost all of its memory. It asks until it is let in. */
static void restart_server(void)
{
	fixture_kill(&fixture, 1);
	while (fixture_join(&fixture, 1, 64 * MIB) < 0)
		;
}

static void expect_lost(void)
{
	const struct region *region =
		state_region(fixture.core->state, opened[SHARED]->region_info->generation);

	assert_true(region->is_lost);
	assert_int_equal(state_server(fixture.core->state, fixture.servers[1].number)->incarnation,
			 fixture.servers[1].incarnation);
}

/* A server that joins for the first time, and one that goes, which held nothing. */
static void come_and_go(void)
{
	while (fixture_join(&fixture, 2, 64 * MIB) < 0)
		;
	fixture_disconnect(&fixture, 2);
}

static void expect_forgotten(void)
{
	assert_null(state_server(fixture.core->state, fixture.servers[2].number));
}

static void test_every_change_of_an_event_fails(void **state)
{
	try_event(state, release_all, expect_released);
	try_event(state, lose_lease, expect_ended);
	try_event(state, restart_server, expect_lost);
	try_event(state, come_and_go, expect_forgotten);
}

/* ---- Flash */

static uint64_t flash;
static Afar__Reply *flash_opened;

/* Beside the other things: server 0 has a store, of which namespace "flash" has 8 MiB. A region in it
 * is open and freed. */
static void begin_flash(void)
{
	Afar__RegionInfo *info;

	fixture_disconnect(&fixture, 0);
	fixture_plug(&fixture, 0, 0, 64 * MIB);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	flash = make_flash_namespace(&fixture, &admin, "flash");
	EXPECT(&admin, ask_reserve(flash, 8 * MIB), 0);
	info = must_open(&admin, ask_alloc(flash, "freed", 5 * MIB, false), &flash_opened);
	EXPECT(&admin, ask_free(info), 0);
}

static Afar__Request *close_flash(void)
{
	return ask_close(flash_opened->region_info);
}
static Afar__Request *reserve_flash(void)
{
	return ask_reserve(flash, 4 * MIB);
}
static Afar__Request *alloc_flash(void)
{
	return ask_alloc(flash, "new", 3 * MIB, false);
}
static Afar__Request *release_flash(void)
{
	return ask_release(flash, 4 * MIB);
}
static Afar__Request *forget_flash(void)
{
	return ask_store_forget(fixture.stores[0].number);
}

/* The store of another server, which is down; nothing is in it. */
static Afar__Request *remove_flash(void)
{
	return ask_store_remove(fixture.stores[1].number);
}

static void test_every_change_of_flash_fails(void **state)
{
	const struct operation then[] = {
		{&admin, reserve_flash},
		{&admin, release_flash},
		{&admin, alloc_flash},
		{&admin, close_flash},
	};

	(void)state;
	begin_flash();
	for (size_t i = 0; i < sizeof(then) / sizeof(then[0]); i++)
		assert_true(try_operation(&then[i]) > 3);
	drop(flash_opened);
	fixture_disconnect(&fixture, 0);
	assert_true(try_operation(&(struct operation){&admin, forget_flash}) > 3);
	fixture_plug(&fixture, 1, 1, 64 * MIB);
	fixture_disconnect(&fixture, 1);
	assert_int_equal(fixture_join(&fixture, 1, 64 * MIB), 0);
	fixture_disconnect(&fixture, 1);
	assert_true(try_operation(&(struct operation){&admin, remove_flash}) > 3);
	assert_true(cds_list_empty(&fixture.core->state->stores));
}

/* ---- Volumes */

static uint64_t vol;
static Afar__Reply *made;

static Afar__Request *create_volume(void)
{
	return ask_volume("w");
}
static Afar__Request *alloc_volume(void)
{
	return ask_volume_alloc(vol, 3 * MIB);
}
static Afar__Request *finish_volume(void)
{
	return ask_finish(made->region_info);
}
static Afar__Request *close_volume(void)
{
	return ask_close(made->region_info);
}
static Afar__Request *share_volume(void)
{
	return ask_volume_open(vol, VOLUME_SHARED);
}
static Afar__Request *open_volume(void)
{
	return ask_volume_open(vol, VOLUME_EXCLUSIVE);
}
static Afar__Request *take_volume_over(void)
{
	return ask_take_over(vol, VOLUME_EXCLUSIVE);
}
static Afar__Request *grow_volume(void)
{
	return ask_resize(vol, 14 * MIB);
}
static Afar__Request *shrink_volume(void)
{
	return ask_resize(vol, MIB);
}
static Afar__Request *delete_volume(void)
{
	return ask_volume_delete("v");
}

/* Its maker keeps it open exclusively until all of its life has been tried. */
static void test_every_change_of_volumes_fails(void **state)
{
	const struct operation making[] = {{&admin, create_volume}, {&admin, finish_volume}};
	const struct operation then[] = {
		{&admin, grow_volume},	    {&admin, shrink_volume}, {&admin, close_volume},
		{&alice, share_volume},	    {&dave, share_volume},   {&admin, grow_volume},
		{&admin, take_volume_over}, {&admin, open_volume},   {&admin, shrink_volume},
		{&admin, grow_volume},	    {&admin, close_volume},  {&admin, delete_volume},
	};
	uint64_t nr = 0;

	(void)state;
	vol = create_namespace(&fixture, &admin, ask_volume("v"));
	EXPECT(&admin, ask_reserve(vol, 16 * MIB), 0);
	EXPECT(&admin, ask_grant(vol, "alice", RIGHT_ALL), 0);
	must_open(&admin, alloc_volume(), &made);
	for (size_t i = 0; i < sizeof(making) / sizeof(making[0]); i++)
		nr += try_operation(&making[i]);
	for (size_t i = 0; i < sizeof(then) / sizeof(then[0]); i++) {
		uint64_t nr_changes = try_operation(&then[i]);

		assert_true(nr_changes > 3); /* it was done in the end */
		nr += nr_changes;
	}
	assert_true(nr > 100);
	assert_null(ns_of(vol));
	drop(made);
}

/* ---- Trims */

/* Its region waits for trims, which are held. */
static void wait_for_trims(void)
{
	begin_flash();
	fixture.stores[0].does_hold_trims = true;
	EXPECT(&admin, close_flash(), 0);
	drop(flash_opened);
}

static void end_trims(void)
{
	fixture.stores[0].does_hold_trims = false;
	fixture_pump(&fixture);
}

/* It has lost one extent. */
static void restart_store(void)
{
	fixture_kill(&fixture, 0);
	fixture.stores[0].does_hold_trims = false;
	while (fixture_join(&fixture, 0, 64 * MIB) < 0)
		;
}

static void release_waiting(void)
{
	fixture_do(&fixture, &admin, ask_release(flash, 8 * MIB));
	end_trims();
}

static void delete_waiting(void)
{
	fixture_do(&fixture, &admin, ask_delete("flash", false));
	end_trims();
}

static void test_every_change_of_trims_fails(void **state)
{
	static void (*const events[])(void) = {end_trims, restart_store, release_waiting,
					       delete_waiting};

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		bool is_over = false;
		uint64_t nr;

		for (nr = 1; !is_over; nr++) {
			begin_again(state);
			wait_for_trims();
			fail_at = nr;
			events[i]();
			is_over = fail_at != 0;
			fail_at = 0;
			check_store(&fixture);
			fixture_advance(&fixture, 2 * CORE_RETRY_NS / 1000000U);
			check_all(&fixture);
			assert_true(cds_list_empty(&fixture.core->state->trimming));
		}
		assert_true(nr > 3);
	}
}

/* ---- What a failed commit costs. The store is in memory, so that no disk hides it. */

#define COST_REGIONS 100000U
#define COST_ROUNDS  51U

static double clock_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void run_one(Afar__Request *request, int status)
{
	Afar__Reply *reply;
	struct event *event;

	fixture_send(&fixture, &admin, ++admin.next_id, request, &reply);
	event = cds_list_entry(fixture.events.prev, struct event, node);
	event->settled_below = admin.next_id;
	core_run(fixture.core, &fixture.events);
	assert_non_null(reply);
	assert_int_equal(reply->status, status);
	drop(reply);
}

/* From the start of a commit that fails or not until the next request is answered, in
 * microseconds. */
static double time_commit(bool is_failing)
{
	double start = clock_us();

	fixture.store.fail_at = is_failing;
	run_one(ask_create("new", 0, 4096), is_failing ? -ENOSPC : 0);
	run_one(ask_namespace("a"), 0);
	start = clock_us() - start;
	fixture_advance(&fixture, CORE_RETRY_NS / 1000000U);
	if (!is_failing)
		EXPECT(&admin, ask_delete("new", false), 0);
	return start;
}

static int compare_times(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

static double print_times(const char *what, double *us)
{
	qsort(us, COST_ROUNDS, sizeof(*us), compare_times);
	print_message("[   TIME   ] %-44s %8.1f us (%.1f to %.1f)\n", what, us[COST_ROUNDS / 2],
		      us[0], us[COST_ROUNDS - 1]);
	return us[COST_ROUNDS / 2];
}

/* Prints how long it takes, with 100 000 regions, until a request behind a commit is answered.
 * Nothing is asserted: a failed commit should cost at most twice as much as one that is good. */
static void test_cost_of_a_failed_commit(void **state)
{
	double good[COST_ROUNDS], failed[COST_ROUNDS], median;

	(void)state;
	assert_int_equal(fixture_join(&fixture, 2, 1024 * MIB), 0);
	EXPECT(&admin, ask_reserve(ns, 512 * MIB), 0);
	fixture.store.does_forget = true; /* the list of pairs would take most of the time */
	for (uint32_t i = 0; i < COST_REGIONS; i++)
		run_one(ask_alloc(ns, "", 4096, false), 0);
	assert_int_equal(ns_of(ns)->nr_regions, COST_REGIONS + 4);
	for (size_t i = 0; i < COST_ROUNDS; i++) {
		good[i] = time_commit(false);
		failed[i] = time_commit(true);
	}
	median = print_times("100000 regions: a commit, and the next answer", good);
	median = print_times("the same when it fails", failed) / median;
	print_message("[   TIME   ] failed / good: %.2f\n", median);
}

TEST_GROUP(manager_batches)
{
	const struct CMUnitTest tests[] = {
		BATCH_TEST(test_failed_batch_of_twenty_among_readers),
		BATCH_TEST(test_every_change_of_a_batch_fails),
		BATCH_TEST(test_every_change_of_an_operation_fails),
		BATCH_TEST(test_every_change_of_an_event_fails),
		BATCH_TEST(test_every_change_of_flash_fails),
		BATCH_TEST(test_every_change_of_trims_fails),
		BATCH_TEST(test_every_change_of_volumes_fails),
		BATCH_TEST(test_cost_of_a_failed_commit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
