/* SPDX-License-Identifier: BSD-3-Clause */
/* Sealing as the manager does it: where regions go, who may, and who waits. Whatever ends in the middle leaves the
 * region as it was, or sealed, and no memory behind. */
#include "lib/manager/manager_test.h"
#include "manager/connections/live.h"

#include <string.h>

#include "base/checksum.h"
#include "manager/tables/placement.h"
#include "unit/group.h"

/* Each test begins with two servers, a namespace of the client's, and a region striped over both. */
static struct fake_client client;
static Afar__Reply *opened;
static Afar__RegionInfo *region;
static uint64_t ns;

#define REGION_BYTES (3 * MIB + 5)

static int begin(void **state)
{
	setup(state);
	client_open(&fixture, &client);
	join_servers(2);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 16 * MIB), 0);
	region = must_open(&client, ask_alloc(ns, "r", REGION_BYTES, false), &opened);
	return 0;
}

static int end(void **state)
{
	drop(opened);
	return teardown(state);
}

/* Nothing of a sealing that was given up is left, and it can be done again, and everything cleaned up. */
static int end_clean(void **state)
{
	for (size_t i = 0; i < 2; i++) {
		fixture.servers[i].is_silent = fixture.servers[i].does_hold_seals = false;
		fixture.servers[i].refuse = fixture.servers[i].refuse_to_seal = 0;
		if (fixture.servers[i].peer == NULL)
			assert_int_equal(fixture_join(&fixture, i, 64 * MIB), 0);
	}
	client_lose(&fixture, &client);
	fixture_advance(&fixture, 10000);
	assert_int_equal(client_open(&fixture, &client), 0);
	while (!cds_list_empty(&fixture.core->state->namespaces)) {
		struct namespace *left = cds_list_first_entry(&fixture.core->state->namespaces,
							      struct namespace, node);

		EXPECT(&client, ask_delete(left->name, true), 0);
	}
	EXPECT(&client, ask_session_close(), 0);
	fixture_advance(&fixture, 10000);
	check_empty(&fixture);
	return end(state);
}

#define SEAL_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end_clean)

static const struct region *the_region(void)
{
	return state_region(fixture.core->state, region->generation);
}

static uint64_t sealed_bytes(void)
{
	const struct extent *extent;
	uint64_t bytes = 0;

	cds_list_for_each_entry (extent, &ns_of(ns)->extents, namespace_node)
		bytes += extent->class == CLASS_DRAM_SEALED ? extent->length : 0;
	return bytes;
}

/* It is as it was before. */
static void expect_as_before(void)
{
	const struct layout *now = the_region()->layout;
	struct layout *before;
	const char *why;

	check_all(&fixture);
	assert_false(now->is_sealed);
	assert_int_equal(layout_unpack(region->layout->form, &before, &why), 0);
	assert_int_equal(now->nr_groups, before->nr_groups);
	assert_int_equal(now->nr_copies, before->nr_copies);
	assert_memory_equal(now->copies, before->copies, now->nr_copies * sizeof(*now->copies));
	layout_free(before);
}

static void expect_sealed(void)
{
	const struct layout *now = the_region()->layout;
	uint64_t length = 0;

	check_all(&fixture);
	assert_true(now->is_sealed);
	for (uint32_t i = 0; i < now->nr_groups; i++)
		length += now->groups[i].length;
	assert_int_equal(length, REGION_BYTES);
	for (uint32_t i = 0; i < now->nr_copies; i++) {
		const struct extent *extent =
			state_extent_of(fixture.core->state, now, &now->copies[i]);

		assert_non_null(extent);
		assert_int_equal(extent->class, CLASS_DRAM_SEALED);
	}
}

/* ---- What it does */

static void test_sealed(void **state)
{
	Afar__Reply *sealed, *again, *reader;
	uint64_t allocated;

	(void)state;
	sealed = must(&client, ask_seal(region));
	expect_sealed();
	assert_true(sealed->region_info->is_sealed);
	assert_int_equal(sealed->region_info->rights, RIGHT_READ);
	assert_int_equal(sealed->region_info->generation, region->generation);
	assert_int_equal(sealed->region_info->layout->n_servers, region->layout->n_servers);
	for (size_t i = 0; i < region->layout->n_servers; i++)
		assert_int_equal(sealed->region_info->layout->servers[i]->server,
				 region->layout->servers[i]->server);
	assert_int_equal(sealed->region_info->layout->n_accesses, 2);
	assert_int_equal(fixture.servers[0].nr_seals + fixture.servers[1].nr_seals, 2);
	/* The old place is free: as much again can be had, where there were 16 MiB. */
	allocated = ns_of(ns)->allocated_bytes;
	assert_true(allocated < REGION_BYTES + 64 * 1024);
	EXPECT(&client, ask_alloc(ns, "all", 16 * MIB, false), 0);
	EXPECT(&client, ask_alloc(ns, "more", 4096, false), -AFAR_ERESERVE);
	check_all(&fixture);
	/* Again, and by another that opens it. */
	again = must(&client, ask_seal(region));
	assert_int_equal(
		again->region_info->layout->form->groups[0]->chunks[0]->copies[0]->extent,
		sealed->region_info->layout->form->groups[0]->chunks[0]->copies[0]->extent);
	drop(again);
	reader = must(&client, ask_open(ns, "r", 0));
	assert_true(reader->region_info->is_sealed);
	drop(reader);
	EXPECT(&client, ask_close(region), 0); /* what was opened twice */
	assert_int_equal(fixture.servers[0].nr_seals + fixture.servers[1].nr_seals, 2);
	/* It stays so. */
	fixture_restart(&fixture);
	join_servers(2);
	assert_int_equal(client_resume(&fixture, &client), 0);
	expect_sealed();
	/* Freed, its memory is for sealed ones again. */
	EXPECT(&client, ask_free(region), 0);
	EXPECT(&client, ask_close(region), 0);
	check_all(&fixture);
	EXPECT(&client, ask_alloc(ns, "more", 4096, false), -AFAR_ERESERVE);
	assert_true(sealed_bytes() != 0);
	EXPECT(&client, ask_release(ns, UINT64_MAX), 0);
	assert_int_equal(sealed_bytes(), 0);
	drop(sealed);
}

/* Small ones share an extent. */
static void test_small_ones_share(void **state)
{
	Afar__Reply *small[20];
	uint64_t bytes = 0;

	(void)state;
	for (size_t i = 0; i < 20; i++) {
		Afar__RegionInfo *info =
			must_open(&client, ask_alloc(ns, "", 5000, false), &small[i]);

		EXPECT(&client, ask_seal(info), 0);
		check_all(&fixture);
		bytes = i == 1 ? sealed_bytes() : bytes; /* by turns on one server and the other */
	}
	assert_int_equal(sealed_bytes(), bytes);
	for (size_t i = 0; i < 20; i++)
		drop(small[i]);
}

/* Free sealed memory that is in pieces is used, piece by piece, and the stripes stay where they are. */
static void test_in_pieces(void **state)
{
	Afar__Reply *pieces[8], *large;
	Afar__RegionInfo *info;
	const struct layout *now;
	struct layout *then;
	const char *why;
	uint64_t before, free_bytes = 0;
	const struct extent *extent;

	(void)state;
	for (size_t i = 0; i < 8; i++)
		EXPECT(&client,
		       ask_seal(must_open(&client, ask_alloc(ns, "", MIB, false), &pieces[i])), 0);
	for (size_t i = 0; i < 8; i += 2) {
		EXPECT(&client, ask_free(pieces[i]->region_info), 0);
		EXPECT(&client, ask_close(pieces[i]->region_info), 0);
	}
	check_all(&fixture);
	before = sealed_bytes();
	cds_list_for_each_entry (extent, &ns_of(ns)->extents, namespace_node)
		free_bytes += extent->class == CLASS_DRAM_SEALED ? extent->space.free_bytes : 0;
	free_bytes -= MIB; /* for sums, and what is less than a stripe unit */
	info = must_open(&client, ask_alloc(ns, "large", free_bytes, false), &large);
	EXPECT(&client, ask_seal(info), 0);
	check_all(&fixture);
	assert_int_equal(sealed_bytes(), before);
	now = state_region(fixture.core->state, info->generation)->layout;
	assert_int_equal(layout_unpack(info->layout->form, &then, &why), 0);
	assert_true(now->nr_groups > then->nr_groups);
	for (uint32_t i = 0; i < now->nr_groups; i++)
		for (uint32_t j = 0; j < now->groups[i].nr_chunks; j++)
			assert_int_equal(
				layout_home_of(now, &now->copies[now->groups[i].first_chunk + j])
					->server,
				layout_home_of(then, &then->copies[j])->server);
	layout_free(then);
	drop(large);
	for (size_t i = 0; i < 8; i++)
		drop(pieces[i]);
}

/* ---- Who may */

static void test_rights(void **state)
{
	struct fake_client guest;
	Afar__Reply *reply;
	Afar__RegionInfo *info;

	(void)state;
	EXPECT(&client, ask_key_add("guest", false), 0);
	EXPECT(&client, ask_grant(ns, "guest", RIGHT_READ), 0);
	assert_int_equal(client_open_as(&fixture, &guest, "guest"), 0);
	EXPECT(&guest, ask_seal(region), -EINVAL); /* not open */
	info = must_open(&guest, ask_open(ns, "r", 0), &reply);
	EXPECT(&guest, ask_seal(info), -EACCES);
	EXPECT(&client, ask_grant(ns, "guest", RIGHT_ALL), 0);
	/* Only the owner gets the namespace memory. */
	expect_said(&guest, ask_seal(info), -AFAR_ERESERVE, "let the owner seal it");
	expect_as_before();
	drop(reply);
	EXPECT(&client, ask_seal(region), 0);
	EXPECT(&client, ask_free(region), 0);
	EXPECT(&client, ask_close(region), 0);
	EXPECT(&guest, ask_close(region), 0);
	info = must_open(&guest, ask_alloc(ns, "g", MIB, false), &reply);
	EXPECT(&guest, ask_seal(info), 0);
	check_all(&fixture);
	drop(reply);
	client_lose(&fixture, &guest);
}

/* One that was to copy for a sealing that failed elsewhere has lost its connection. */
static void join_again(void)
{
	for (size_t i = 0; i < 2; i++)
		if (fixture.servers[i].peer == NULL)
			assert_int_equal(fixture_join(&fixture, i, 64 * MIB), 0);
}

static void test_what_cannot_be_sealed(void **state)
{
	Afar__RegionInfo other = *region;

	(void)state;
	other.generation += 7;
	EXPECT(&client, ask_seal(&other), -ENOENT);
	EXPECT(&client, ask_look(&other), -ENOENT);
	fixture_disconnect(&fixture, 1);
	expect_said(&client, ask_seal(region), -AFAR_ESERVER,
		    "server 'server-1' at 127.0.0.1:7501, which holds part of it, cannot");
	expect_as_before();
	assert_int_equal(fixture_join(&fixture, 1, 64 * MIB), 0);
	fixture.servers[0].refuse = -ENOSPC;
	expect_said(&client, ask_seal(region), -ENOSPC, "server-0' at 127.0.0.1:7500 has no ");
	expect_as_before();
	fixture.servers[0].refuse = 0;
	fixture.servers[0].refuse_to_seal = -ENOMEM;
	expect_said(&client, ask_seal(region), -ENOSPC, "free for the copy");
	assert_null(fixture.servers[1].peer);
	join_again();
	expect_as_before();
	fixture.servers[0].refuse_to_seal = -EOPNOTSUPP;
	expect_said(&client, ask_seal(region), -AFAR_ESERVER,
		    "server-0' at 127.0.0.1:7500 failed (EO");
	join_again();
	expect_as_before();
	fixture.servers[0].refuse_to_seal = 0;
	EXPECT(&client, ask_free(region), 0);
	EXPECT(&client, ask_seal(region), -AFAR_EFREED);
}

/* ---- In the middle */

/* Server 1 keeps what it is asked: the sealing waits for its memory, or for its copy. */
static void begin_sealing(bool is_copying, Afar__Reply **reply)
{
	if (is_copying) { /* sealed memory is there */
		Afar__Reply *other;
		Afar__RegionInfo *info =
			must_open(&client, ask_alloc(ns, "", REGION_BYTES, false), &other);

		EXPECT(&client, ask_seal(info), 0);
		EXPECT(&client, ask_free(info), 0);
		EXPECT(&client, ask_close(info), 0);
		drop(other);
	}
	fixture.servers[0].nr_seals = 0;
	fixture.servers[1].is_silent = true;
	fixture_send(&fixture, &client, ++client.next_id, ask_seal(region), reply);
	fixture_pump(&fixture);
	assert_null(*reply);
	assert_int_equal(fixture.servers[0].nr_seals, is_copying);
}

static void let_go(void)
{
	fixture.servers[1].is_silent = false;
	fixture_pump(&fixture);
}

#define FOR_BOTH_STEPS(is_copying)                               \
	for (bool is_copying = false, is_over = false; !is_over; \
	     is_over = is_copying, is_copying = true)

static void again(void **state)
{
	end_clean(state);
	begin(state);
}

static void disconnect_server(void)
{
	fixture_disconnect(&fixture, 1);
}
static void restart_server(void)
{
	fixture_kill(&fixture, 1);
}
static void restart_one_that_has_copied(void)
{
	fixture_kill(&fixture, 0);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
}
static void fail_its_commit(void)
{
	fixture.store.fail_at = 1;
}
static void fail_another_commit(void)
{
	fixture.store.fail_at = 1;
	EXPECT(&client, ask_create("b", 0, 4096), -ENOSPC);
}
static void free_it(void)
{
	EXPECT(&client, ask_free(region), 0);
}
static void end_session(void)
{
	client_lose(&fixture, &client);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
}
static void end_session_and_delete(void)
{
	end_session();
	assert_int_equal(client_open(&fixture, &client), 0);
	EXPECT(&client, ask_delete("a", true), 0);
}

static const struct {
	const char *what;
	void (*happens)(void);
	bool is_told_at_once; /* else when server 1 is no longer silent */
	int status;
	const char *said;
	enum { AS_BEFORE, SEALED, LOST, FREED, DELETED } then;
} middles[] = {
	{"a server is disconnected", disconnect_server, true, -AFAR_ESERVER, "", AS_BEFORE},
	{"a server restarts", restart_server, true, -AFAR_ESERVER, "", LOST},
	{"one restarts that has copied", restart_one_that_has_copied, false, -AFAR_ELOST, "", LOST},
	{"its commit fails", fail_its_commit, false, -ENOSPC, "disk is full", AS_BEFORE},
	{"another commit fails", fail_another_commit, false, 0, "", SEALED},
	{"it is freed", free_it, false, -AFAR_EFREED, "", FREED},
	{"its session ends", end_session, false, -AFAR_ESESSION, "", SEALED},
	{"its namespace is deleted", end_session_and_delete, false, -AFAR_EFREED, "", DELETED},
};

static void expect_then(size_t i)
{
	if (middles[i].then == AS_BEFORE) {
		expect_as_before();
		EXPECT(&client, ask_seal(region), 0);
	}
	if (middles[i].then == AS_BEFORE || middles[i].then == SEALED)
		expect_sealed();
	if (middles[i].then == LOST)
		EXPECT(&client, ask_seal(region), -AFAR_ELOST);
	if (middles[i].then == FREED)
		EXPECT(&client, ask_seal(region), -AFAR_EFREED);
	assert_int_equal(ns_of(ns) == NULL, middles[i].then == DELETED);
	check_all(&fixture);
}

static void test_what_happens_meanwhile(void **state)
{
	for (size_t i = 0; i < sizeof(middles) / sizeof(middles[0]); i++)
		FOR_BOTH_STEPS(is_copying)
		{
			Afar__Reply *reply;

			begin_sealing(is_copying, &reply);
			middles[i].happens();
			if ((reply != NULL) != middles[i].is_told_at_once)
				fail_msg("%s: told %s", middles[i].what, reply ? "early" : "late");
			let_go();
			fixture_advance(&fixture, 2000);
			join_again();
			if (reply == NULL || reply->status != middles[i].status ||
			    strstr(reply->message, middles[i].said) == NULL)
				fail_msg("%s: %d", middles[i].what, reply ? reply->status : 1);
			drop(reply);
			expect_then(i);
			again(state);
		}
}

static void test_manager_dies(void **state)
{
	Afar__Reply *reply;

	FOR_BOTH_STEPS(is_copying)
	{
		begin_sealing(is_copying, &reply);
		fixture_restart(&fixture);
		drop(reply);
		fixture.servers[1].is_silent = false;
		join_servers(2);
		assert_int_equal(client_resume(&fixture, &client), 0);
		expect_as_before();
		/* The client asks again, under the same id. */
		fixture_send(&fixture, &client, client.next_id, ask_seal(region), &reply);
		fixture_pump(&fixture);
		assert_int_equal(reply->status, 0);
		drop(reply);
		expect_sealed();
		again(state);
	}
}

/* All of its namespace's memory was to go, and that could not be committed. It goes on, though its last server answered in
 * that very batch. */
static void test_deletion_is_not_committed(void **state)
{
	Afar__Reply *reply, *other;

	for (int is_together = 0; is_together < 2; is_together++) {
		fixture.servers[1].does_hold_seals = true;
		fixture_send(&fixture, &client, ++client.next_id, ask_seal(region), &reply);
		fixture_pump(&fixture);
		client_lose(&fixture, &client);
		fixture_advance(&fixture, FIXTURE_LEASE_MS);
		assert_null(reply);
		assert_int_equal(client_open(&fixture, &client), 0);
		fixture.servers[1].does_hold_seals = !is_together;
		if (is_together)
			assert_true(fixture_serve(&fixture));
		fixture.store.fail_at = 1;
		fixture_send(&fixture, &client, ++client.next_id, ask_delete("a", true), &other);
		fixture_pump(&fixture);
		assert_int_equal(other->status, -ENOSPC);
		drop(other);
		fixture.servers[1].does_hold_seals = false;
		fixture_advance(&fixture, 2000);
		assert_non_null(reply);
		assert_int_equal(reply->status, -AFAR_ESESSION);
		drop(reply);
		expect_sealed();
		again(state);
	}
}

/* All of its namespace's memory goes while a server still copies. */
static void test_namespace_goes_meanwhile(void **state)
{
	Afar__Reply *reply;

	(void)state;
	fixture.servers[1].does_hold_seals = true;
	fixture_send(&fixture, &client, ++client.next_id, ask_seal(region), &reply);
	fixture_pump(&fixture);
	client_lose(&fixture, &client);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	assert_null(reply);
	assert_int_equal(client_open(&fixture, &client), 0);
	EXPECT(&client, ask_delete("a", true), 0);
	assert_int_equal(reply->status, -AFAR_EFREED);
	drop(reply);
	assert_null(ns_of(ns));
	fixture.servers[1].does_hold_seals = false;
	assert_null(fixture.servers[1].peer);
	join_again();
	check_all(&fixture);
}

/* A server does one thing after the other: what it is told while it copies has time for that, too. */
static void test_others_have_time_for_the_copy(void **state)
{
	const struct live_server *live = core_live_server(fixture.core, fixture.servers[1].number);
	const uint32_t usual = server_timeout_ms(live);
	Afar__Reply *reply;

	(void)state;
	begin_sealing(true, &reply);
	assert_true(server_timeout_ms(live) > usual);
	let_go();
	assert_int_equal(reply->status, 0);
	drop(reply);
	assert_int_equal(server_timeout_ms(live), usual);
	expect_sealed();
}

/* A client that comes twice, or while another seals it, waits for the same. One that looks is told what has
 * become of it. */
static void test_who_waits(void **state)
{
	Afar__Reply *first, *second, *other_seals, *looks, *others;
	struct fake_client other;
	Afar__Reply *reply;
	Afar__RegionInfo *info;

	(void)state;
	fixture_advance(&fixture, 4000); /* it does not wait for servers after its start any more */
	client_open(&fixture, &other);
	info = must_open(&other, ask_open(ns, "r", 0), &reply);
	drop(must(&other, ask_look(info)));
	begin_sealing(true, &first);
	fixture_send(&fixture, &client, client.next_id, ask_seal(region), &second);
	fixture_send(&fixture, &other, ++other.next_id, ask_seal(info), &other_seals);
	fixture_send(&fixture, &other, ++other.next_id, ask_look(info), &looks);
	/* Not for a region that nobody seals. */
	fixture_send(&fixture, &client, ++client.next_id, ask_alloc(ns, "", 4096, false), &others);
	fixture_pump(&fixture);
	assert_int_equal(others->status, 0);
	assert_null(second);
	assert_null(other_seals);
	assert_null(looks);
	assert_true(core_next_run(fixture.core) > fixture.now); /* nobody spins for it */
	let_go();
	for (size_t i = 0; i < 4; i++) {
		Afar__Reply *told = (Afar__Reply *[]){first, second, other_seals, looks}[i];

		assert_int_equal(told->status, 0);
		assert_true(told->region_info->is_sealed);
		assert_non_null(told->region_info->layout);
		drop(told);
	}
	assert_int_equal(fixture.servers[0].nr_seals, 1);
	expect_sealed();
	drop(others);
	drop(reply);
	client_lose(&fixture, &other);
}

/* Those who wait, and those who look, hear in time which server it is. */
static void test_tells_who_does_not_answer(void **state)
{
	struct fake_client other;
	Afar__Reply *seals, *looks, *reply;
	Afar__RegionInfo *info;

	(void)state;
	fixture_advance(&fixture, 4000); /* it does not wait for servers after its start any more */
	client_open(&fixture, &other);
	info = must_open(&other, ask_open(ns, "r", 0), &reply);
	fixture.time_ns = 1000000000U;
	fixture.servers[1].does_hold_seals = true;
	fixture_send(&fixture, &client, ++client.next_id, ask_seal(region), &seals);
	fixture_send(&fixture, &other, ++other.next_id, ask_look(info), &looks);
	fixture_pump(&fixture);
	assert_true(core_next_run(fixture.core) <= fixture.now + 750000000U);
	fixture_advance(&fixture, 749);
	assert_null(seals);
	assert_null(looks);
	fixture_advance(&fixture, 1);
	for (size_t i = 0; i < 2; i++) {
		Afar__Reply *told = (Afar__Reply *[]){seals, looks}[i];

		assert_non_null(told);
		assert_int_equal(told->status, -ETIMEDOUT);
		assert_non_null(strstr(told->message, "server 'server-1' at 127.0.0.1:7501 did"));
		drop(told);
	}
	assert_true(core_next_run(fixture.core) > fixture.now); /* nobody spins for it */
	fixture.servers[1].does_hold_seals = false;
	fixture_pump(&fixture);
	expect_sealed();
	drop(reply);
	client_lose(&fixture, &other);
}

TEST_GROUP(manager_seal)
{
	const struct CMUnitTest tests[] = {
		SEAL_TEST(test_sealed),
		SEAL_TEST(test_small_ones_share),
		SEAL_TEST(test_in_pieces),
		SEAL_TEST(test_rights),
		SEAL_TEST(test_what_cannot_be_sealed),
		SEAL_TEST(test_what_happens_meanwhile),
		SEAL_TEST(test_manager_dies),
		SEAL_TEST(test_deletion_is_not_committed),
		SEAL_TEST(test_namespace_goes_meanwhile),
		SEAL_TEST(test_others_have_time_for_the_copy),
		SEAL_TEST(test_who_waits),
		SEAL_TEST(test_tells_who_does_not_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
