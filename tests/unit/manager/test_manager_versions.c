/* SPDX-License-Identifier: BSD-3-Clause */
/* Copy-on-write regions as the manager keeps them: whose version is whose, and when memory comes back. Tests also
 * what a restart, a failed commit and the end of a session leave, and random operations against a model. */
#include "lib/manager/manager_test.h"

#include <string.h>

#include "unit/group.h"

/* Each test begins with two servers, a namespace with 64 KiB units, and a region that the writer has open in version 1. */
static struct fake_client writer, reader;
static Afar__RegionInfo *first;
static uint64_t ns;

/* Replies of open_kept(), which end() drops. */
static Afar__Reply *kept[8];
static size_t nr_kept;

#define UNIT	  (64 * 1024U)
#define NR_UNITS  17U
#define LAST	  (NR_UNITS - 1)
#define COW_BYTES ((uint64_t)(NR_UNITS - 1) * UNIT + 5000) /* the last unit has two pages */
#define RESERVED  (4 * MIB)

/* An open, a begin or the like that succeeds. Its answer is good until the test has ended. */
static Afar__RegionInfo *open_kept(struct fake_client *client, Afar__Request *request)
{
	assert_true(nr_kept < sizeof(kept) / sizeof(kept[0]));
	return must_open(client, request, &kept[nr_kept++]);
}

static int begin(void **state)
{
	setup(state);
	client_open(&fixture, &writer);
	client_open(&fixture, &reader);
	join_servers(2);
	ns = make_namespace(&fixture, &writer, "a");
	EXPECT(&writer, ask_reserve(ns, RESERVED), 0);
	first = open_kept(&writer, ask_cow(ns, "r", COW_BYTES));
	return 0;
}

static uint64_t allocated(void)
{
	return ns_of(ns)->allocated_bytes;
}

static Afar__RegionInfo *begin_version(struct fake_client *client, const Afar__RegionInfo *from)
{
	return open_kept(client, ask_begin(from, 1));
}

/* Begins, prepares some units, and publishes. The client has the new version open. */
static Afar__RegionInfo *publish(struct fake_client *client, const Afar__RegionInfo *from,
				 const uint32_t *units, size_t nr)
{
	Afar__RegionInfo *draft = begin_version(client, from);

	EXPECT(client, ask_prepare(draft, units, nr), 0);
	EXPECT(client, ask_publish(draft), 0);
	check_all(&fixture);
	return draft;
}

/* Nothing is left when all is closed and the region is freed. */
static int end(void **state)
{
	client_lose(&fixture, &writer);
	client_lose(&fixture, &reader);
	fixture_advance(&fixture, 2 * FIXTURE_LEASE_MS);
	client_open(&fixture, &writer);
	check_all(&fixture);
	EXPECT(&writer, ask_delete("a", true), 0);
	check_empty(&fixture);
	while (nr_kept > 0)
		drop(kept[--nr_kept]);
	return teardown(state);
}

#define COW_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

static const Layout__Copy *copy_of(const Afar__RegionInfo *region, uint32_t unit)
{
	const Layout__Group *group = region->layout->form->groups[unit];

	return group->n_chunks ? group->chunks[0]->copies[0] : NULL;
}

static bool is_same_copy(const Afar__RegionInfo *a, const Afar__RegionInfo *b, uint32_t unit)
{
	const Layout__Copy *one = copy_of(a, unit), *other = copy_of(b, unit);

	if (!one || !other)
		return !one && !other;
	return a->layout->form->homes[one->home]->life ==
		       b->layout->form->homes[other->home]->life &&
	       one->extent == other->extent && one->offset == other->offset;
}

/* ---- What it does */

static void test_versions(void **state)
{
	const uint32_t some[] = {2, LAST}, more[] = {2, 3};
	Afar__RegionInfo *old, *second, *third, *now;

	(void)state;
	assert_int_equal(first->version, 1);
	assert_int_equal(first->family, first->generation);
	assert_int_equal(first->word_bytes, 4096);
	assert_int_equal(first->layout->form->n_groups, NR_UNITS + 1);
	assert_true(first->layout->form->groups[0]->is_frozen);
	assert_false(first->layout->form->groups[NR_UNITS]->is_frozen);
	assert_int_equal(allocated(), 4096);
	old = open_kept(&reader, ask_open(ns, "r", 0));
	assert_int_equal(old->version, 1);

	second = publish(&writer, first, some, 2);
	assert_int_equal(second->version, 2);
	/* The last unit takes what it has, in pages. */
	assert_int_equal(allocated(), 4096 + UNIT + 8192);
	third = publish(&writer, second, more, 2);
	/* The writer holds versions 1 and 2 too, as it has not closed them. */
	assert_int_equal(allocated(), 4096 + 3 * UNIT + 8192);
	now = open_kept(&reader, ask_newest(old));
	assert_int_equal(now->version, 3);
	assert_int_equal(now->generation, third->generation);
	assert_int_equal(now->nr_older, 2);
	assert_int_equal(now->nr_older_references, 3);
	assert_string_equal(now->writer, "");
	assert_true(is_same_copy(now, first, 0));
	assert_false(is_same_copy(now, first, 2));
	for (uint32_t i = 0; i < NR_UNITS; i++)
		assert_true(now->layout->form->groups[i]->is_frozen);

	EXPECT(&writer, ask_close(second), 0);
	check_all(&fixture);
	/* Version 2 is gone, and what it alone had of unit 2. */
	assert_int_equal(allocated(), 4096 + 2 * UNIT + 8192);
	EXPECT(&writer, ask_close(first), 0);
	EXPECT(&reader, ask_close(old), 0);
	EXPECT(&reader, ask_close(old), -AFAR_EFREED);
	assert_int_equal(allocated(), 4096 + 2 * UNIT + 8192);
	check_all(&fixture);
	EXPECT(&writer, ask_free(third), 0);
	EXPECT(&reader, ask_newest(now), -AFAR_EFREED);
	EXPECT(&writer, ask_close(third), 0);
	assert_int_equal(allocated(), 4096 + 2 * UNIT + 8192);
	EXPECT(&reader, ask_close(now), 0);
	assert_int_equal(allocated(), 0);
}

static void test_what_is_frozen(void **state)
{
	const uint32_t units[] = {1, 1, 4};
	Afar__RegionInfo *draft, *prepared, *again;

	(void)state;
	draft = begin_version(&writer, first);
	assert_true(draft->is_draft);
	assert_true(draft->layout->form->groups[1]->is_frozen);
	prepared = open_kept(&writer, ask_prepare(draft, units, 3));
	assert_true(prepared->layout_number > draft->layout_number);
	for (uint32_t i = 0; i < NR_UNITS; i++) {
		assert_int_equal(prepared->layout->form->groups[i]->is_frozen, i != 1 && i != 4);
		assert_int_equal(prepared->layout->form->groups[i]->n_chunks, i == 1 || i == 4);
	}
	/* A unit that is prepared stays where it is. */
	again = open_kept(&writer, ask_prepare(draft, units, 2));
	assert_true(is_same_copy(prepared, again, 1));
	assert_int_equal(allocated(), 4096 + 2 * UNIT);
	EXPECT(&writer, ask_prepare(draft, (const uint32_t[]){NR_UNITS}, 1), -EINVAL);
}

static void test_one_writer(void **state)
{
	Afar__RegionInfo *draft, *open, *now;

	(void)state;
	open = open_kept(&reader, ask_open(ns, "r", 0));
	draft = begin_version(&writer, first);
	expect_said(&reader, ask_begin(open, 2), -EBUSY, "has begun one");
	expect_said(&writer, ask_begin(first, 2), -EBUSY, "this session has begun one");
	now = open_kept(&reader, ask_newest(open));
	assert_non_null(strstr(now->writer, "session"));
	assert_int_equal(now->version, 1);
	/* It asks again after an unknown outcome: the same one, counted once. */
	EXPECT(&writer, ask_begin(first, 1), 0);
	EXPECT(&writer, ask_close(draft), 0);
	EXPECT(&writer, ask_publish(draft), -AFAR_EFREED);
	draft = begin_version(&reader, open);
	EXPECT(&reader, ask_publish(draft), 0);
	EXPECT(&reader, ask_publish(draft), 0);
	EXPECT(&reader, ask_prepare(draft, (const uint32_t[]){0}, 1), -EINVAL);
}

static void test_what_is_no_version(void **state)
{
	Afar__RegionInfo *plain = open_kept(&writer, ask_alloc(ns, "p", 5000, false));
	Afar__Request *request;

	(void)state;
	expect_said(&writer, ask_begin(plain, 1), -EINVAL, "not copy-on-write");
	expect_said(&writer, ask_newest(plain), -EINVAL, "not copy-on-write");
	expect_said(&writer, ask_publish(plain), -EINVAL, "not copy-on-write");
	EXPECT(&reader, ask_begin(first, 1), -EINVAL);
	expect_said(&writer, ask_seal(first), -EOPNOTSUPP, "copy-on-write");
	request = ask_cow(ns, "n", 5000);
	request->region_alloc->has_nic_atomics = true;
	EXPECT(&writer, request, -EOPNOTSUPP);
	request = ask_cow(ns, "u", 5000);
	request->region_alloc->is_unfinished = true;
	EXPECT(&writer, request, -EINVAL);
	EXPECT(&writer, ask_cow(ns, "r", 5000), -EEXIST);
}

static void test_rights(void **state)
{
	struct fake_client alice;
	Afar__RegionInfo *open;

	(void)state;
	EXPECT(&writer, ask_key_add("alice", false), 0);
	EXPECT(&writer, ask_grant(ns, "alice", RIGHT_READ), 0);
	client_open_as(&fixture, &alice, "alice");
	open = open_kept(&alice, ask_open(ns, "r", 0));
	EXPECT(&alice, ask_begin(open, 1), -EACCES);
	EXPECT(&alice, ask_newest(open), 0);
	client_lose(&fixture, &alice);
}

/* ---- No room */

static void test_full(void **state)
{
	uint32_t all[NR_UNITS];
	Afar__RegionInfo *draft;
	uint64_t before;

	(void)state;
	for (uint32_t i = 0; i < NR_UNITS; i++)
		all[i] = i;
	draft = begin_version(&writer, first);
	EXPECT(&writer, ask_prepare(draft, all, 3), 0);
	EXPECT(&writer, ask_alloc(ns, "p", RESERVED - 10 * UNIT, false), 0);
	before = allocated();
	expect_said(&writer, ask_prepare(draft, all, NR_UNITS), -ENOSPC, "reserve");
	assert_int_equal(allocated(), before);
	check_all(&fixture);
	/* Fewer units, which fit, are had. */
	EXPECT(&writer, ask_prepare(draft, all, 6), 0);
	EXPECT(&writer, ask_publish(draft), 0);
	check_all(&fixture);
}

/* ---- Ends of sessions */

/* The draft's memory waits for the servers; the claim does not. */
static void test_writer_dies(void **state)
{
	const uint32_t units[] = {0, 1};
	Afar__RegionInfo *open, *second, *draft;

	(void)state;
	open = open_kept(&reader, ask_open(ns, "r", 0));
	second = publish(&writer, first, units, 2);
	EXPECT(&writer, ask_close(first), 0);
	draft = begin_version(&writer, second);
	EXPECT(&writer, ask_prepare(draft, units, 2), 0);
	assert_int_equal(allocated(), 4096 + 4 * UNIT);
	for (size_t i = 0; i < 2; i++)
		fixture.servers[i].is_silent = true;
	client_lose(&fixture, &writer);
	fixture_advance(&fixture, 2 * FIXTURE_LEASE_MS);
	/* It has ended, and no server has said that it closed its connections. */
	assert_int_equal(allocated(), 4096 + 4 * UNIT);
	draft = begin_version(&reader, open);
	assert_int_equal(draft->version, 3);
	fixture_restart(&fixture);
	for (size_t i = 0; i < 2; i++)
		fixture.servers[i].is_silent = false;
	join_servers(2);
	assert_int_equal(client_resume(&fixture, &reader), 0);
	fixture_advance(&fixture, FIXTURE_LEASE_MS / 2);
	check_all(&fixture);
	assert_int_equal(allocated(), 4096 + 2 * UNIT);
	EXPECT(&reader, ask_publish(draft), 0);
	check_all(&fixture);
}

/* ---- A claim that is not used */

#define CLAIM_MS 30000U

/* A begin that waits for its turn. */
static void send_begin(struct fake_client *client, const Afar__RegionInfo *from, uint32_t wait_ms,
		       Afar__Reply **answer)
{
	Afar__Request *request = ask_begin(from, 77);

	request->region_begin->wait_ms = wait_ms;
	fixture_send(&fixture, client, ++client->next_id, request, answer);
	fixture_pump(&fixture);
}

static void test_idle_writer_loses(void **state)
{
	const uint32_t units[] = {0, 5};
	Afar__RegionInfo *open, *draft, *taken;

	(void)state;
	open = open_kept(&reader, ask_open(ns, "r", 0));
	draft = begin_version(&writer, first);
	assert_int_equal(draft->claim_ms, CLAIM_MS);
	EXPECT(&writer, ask_prepare(draft, units, 2), 0);
	/* Use keeps it. */
	for (int i = 0; i < 3; i++) {
		fixture_advance(&fixture, CLAIM_MS - 1000);
		expect_said(&reader, ask_begin(open, 2), -EBUSY, "used it 29 s ago");
		EXPECT(&writer, ask_use(draft), 0);
	}
	expect_said(&reader, ask_begin(open, 2), -EBUSY, "has begun one 87 s ago");
	fixture_advance(&fixture, CLAIM_MS - 1000);
	EXPECT(&writer, ask_prepare(draft, units, 1), 0);
	fixture_advance(&fixture, CLAIM_MS);
	/* Nobody wants it: it is the writer's. */
	EXPECT(&writer, ask_use(draft), 0);
	fixture_advance(&fixture, CLAIM_MS);
	taken = begin_version(&reader, open);
	assert_int_equal(taken->version, 2);
	expect_said(&writer, ask_publish(draft), -ESTALE, "has taken the claim");
	expect_said(&writer, ask_use(draft), -ESTALE, "has taken the claim");
	EXPECT(&writer, ask_prepare(draft, units + 1, 1), -ESTALE);
	/* It may be written still: its memory is nobody else's. */
	EXPECT(&reader, ask_prepare(taken, units, 2), 0);
	assert_int_equal(allocated(), 4096 + 4 * UNIT);
	check_all(&fixture);
	fixture_restart(&fixture);
	join_servers(2);
	assert_int_equal(client_resume(&fixture, &writer), 0);
	assert_int_equal(client_resume(&fixture, &reader), 0);
	EXPECT(&writer, ask_publish(draft), -ESTALE);
	EXPECT(&reader, ask_publish(taken), 0);
	EXPECT(&writer, ask_publish(draft), -ESTALE);
	assert_int_equal(allocated(), 4096 + 4 * UNIT);
	EXPECT(&writer, ask_close(draft), 0);
	assert_int_equal(allocated(), 4096 + 2 * UNIT);
	check_all(&fixture);
}

/* The client that took the claim gives it back: the first writer goes on. */
static void test_taken_and_abandoned(void **state)
{
	const uint32_t units[] = {3};
	Afar__RegionInfo *open, *draft, *taken;

	(void)state;
	open = open_kept(&reader, ask_open(ns, "r", 0));
	draft = begin_version(&writer, first);
	EXPECT(&writer, ask_prepare(draft, units, 1), 0);
	fixture_advance(&fixture, CLAIM_MS);
	taken = begin_version(&reader, open);
	EXPECT(&writer, ask_publish(draft), -ESTALE);
	EXPECT(&reader, ask_close(taken), 0);
	EXPECT(&writer, ask_publish(draft), 0);
	check_all(&fixture);
}

static void test_waits_for_its_turn(void **state)
{
	Afar__RegionInfo *open, *draft;
	Afar__Reply *waiting = NULL;

	(void)state;
	open = open_kept(&reader, ask_open(ns, "r", 0));
	draft = begin_version(&writer, first);
	/* Not for ever. */
	send_begin(&reader, open, 5000, &waiting);
	fixture_advance(&fixture, 4999);
	assert_null(waiting);
	fixture_advance(&fixture, 1);
	assert_non_null(waiting);
	assert_int_equal(waiting->status, -EBUSY);
	assert_non_null(strstr(waiting->message, "has begun one 5 s ago, and used it 5 s ago"));
	drop(waiting);
	waiting = NULL;
	/* Until it is published. */
	send_begin(&reader, open, 60000, &waiting);
	fixture_advance(&fixture, 1000);
	assert_null(waiting);
	EXPECT(&writer, ask_publish(draft), 0);
	assert_non_null(waiting);
	assert_int_equal(waiting->status, 0);
	assert_int_equal(waiting->region_info->version, 3);
	drop(waiting);
	waiting = NULL;
	/* Until it was not used for so long. */
	send_begin(&writer, draft, 60000, &waiting);
	fixture_advance(&fixture, CLAIM_MS - 1);
	assert_null(waiting);
	fixture_advance(&fixture, 1);
	assert_non_null(waiting);
	assert_int_equal(waiting->status, 0);
	drop(waiting);
	check_all(&fixture);
}

/* A restart of the manager begins claims anew. */
static void test_claims_outlive_the_manager(void **state)
{
	Afar__RegionInfo *open, *draft;

	(void)state;
	open = open_kept(&reader, ask_open(ns, "r", 0));
	draft = begin_version(&writer, first);
	fixture_advance(&fixture, CLAIM_MS - 1);
	fixture_restart(&fixture);
	join_servers(2);
	assert_int_equal(client_resume(&fixture, &writer), 0);
	assert_int_equal(client_resume(&fixture, &reader), 0);
	fixture_advance(&fixture, CLAIM_MS - 1);
	expect_said(&reader, ask_begin(open, 2), -EBUSY, "has begun one at least 29 s ago");
	fixture_advance(&fixture, 1);
	begin_version(&reader, open);
	EXPECT(&writer, ask_publish(draft), -ESTALE);
}

/* A version stays until servers have closed the connections of the session that had it. */
static void test_reader_dies(void **state)
{
	const uint32_t units[] = {5};
	Afar__RegionInfo *second, *third;

	(void)state;
	second = publish(&writer, first, units, 1);
	EXPECT(&writer, ask_close(first), 0);
	EXPECT(&reader, ask_open(ns, "r", 0), 0);
	third = publish(&writer, second, units, 1);
	EXPECT(&writer, ask_close(second), 0);
	assert_int_equal(third->version, 3);
	assert_int_equal(allocated(), 4096 + 2 * UNIT);
	for (size_t i = 0; i < 2; i++)
		fixture.servers[i].is_silent = true;
	client_lose(&fixture, &reader);
	fixture_advance(&fixture, 3 * FIXTURE_LEASE_MS);
	assert_int_equal(allocated(), 4096 + 2 * UNIT);
	for (size_t i = 0; i < 2; i++) {
		fixture.servers[i].is_silent = false;
		while (fixture_serve(&fixture))
			fixture_pump(&fixture);
	}
	fixture_pump(&fixture);
	assert_int_equal(allocated(), 4096 + UNIT);
	check_all(&fixture);
}

/* ---- Ends of the manager, and of servers */

static void test_manager_dies(void **state)
{
	const uint32_t units[] = {0, 7};
	Afar__Reply *again;
	Afar__RegionInfo *open, *second, *draft;
	uint64_t id;

	(void)state;
	open = open_kept(&reader, ask_open(ns, "r", 0));
	second = publish(&writer, first, units, 2);
	draft = begin_version(&writer, second);
	EXPECT(&writer, ask_prepare(draft, units, 1), 0);
	id = writer.next_id;
	fixture_restart(&fixture);
	join_servers(2);
	assert_int_equal(client_resume(&fixture, &writer), 0);
	assert_int_equal(client_resume(&fixture, &reader), 0);
	check_all(&fixture);
	assert_int_equal(allocated(), 4096 + 3 * UNIT);
	/* The claim, the draft, the versions held, and what was answered are as they were. */
	expect_said(&reader, ask_begin(open, 3), -EBUSY, "has begun one");
	send_again(&writer, id, ask_prepare(draft, units, 1), &again);
	fixture_pump(&fixture);
	assert_int_equal(again->status, 0);
	assert_int_equal(again->region_info->generation, draft->generation);
	drop(again);
	assert_int_equal(open_kept(&reader, ask_look(open))->version, 1);
	id = writer.next_id + 1;
	EXPECT(&writer, ask_publish(draft), 0);
	fixture_restart(&fixture);
	assert_int_equal(client_resume(&fixture, &writer), 0);
	assert_int_equal(client_resume(&fixture, &reader), 0);
	send_again(&writer, id, ask_publish(draft), &again);
	fixture_pump(&fixture);
	assert_int_equal(again->status, 0);
	drop(again);
	assert_int_equal(open_kept(&reader, ask_newest(open))->version, 3);
	check_all(&fixture);
	join_servers(2);
}

static void test_server_dies(void **state)
{
	uint32_t all[NR_UNITS];
	Afar__RegionInfo *second, *draft;

	(void)state;
	for (uint32_t i = 0; i < NR_UNITS; i++)
		all[i] = i;
	second = publish(&writer, first, all, NR_UNITS);
	draft = begin_version(&writer, second);
	fixture_kill(&fixture, 1);
	assert_int_equal(fixture_join(&fixture, 1, 64 * MIB), 0);
	check_all(&fixture);
	EXPECT(&writer, ask_prepare(draft, all, 1), -AFAR_ELOST);
	EXPECT(&writer, ask_publish(draft), -AFAR_ELOST);
	EXPECT(&writer, ask_close(draft), 0);
	expect_said(&writer, ask_begin(second, 1), -AFAR_ELOST, "free it");
	EXPECT(&writer, ask_newest(second), -AFAR_ELOST);
}

static void test_freed_meanwhile(void **state)
{
	const uint32_t units[] = {0};
	Afar__RegionInfo *draft = begin_version(&writer, first);

	(void)state;
	EXPECT(&writer, ask_prepare(draft, units, 1), 0);
	EXPECT(&reader, ask_free(first), 0);
	EXPECT(&writer, ask_publish(draft), -AFAR_EFREED);
	EXPECT(&writer, ask_prepare(draft, units, 1), -AFAR_EFREED);
	EXPECT(&writer, ask_begin(first, 2), -AFAR_EFREED);
	EXPECT(&writer, ask_alloc(ns, "r", 5000, false), 0);
	EXPECT(&writer, ask_close(draft), 0);
	EXPECT(&writer, ask_close(first), 0);
	check_all(&fixture);
	assert_int_equal(allocated(), 8192);
}

/* ---- On flash: what no version has any more is trimmed, and only that */

static void test_flash(void **state)
{
	const uint32_t units[] = {0, 1};
	Afar__RegionInfo *region, *second, *third;
	uint64_t flash;

	(void)state;
	fixture_plug(&fixture, 0, 0, 64 * MIB);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	flash = make_flash_namespace(&fixture, &writer, "f");
	EXPECT(&writer, ask_reserve(flash, 4 * MIB), 0);
	region = open_kept(&writer, ask_cow(flash, "r", COW_BYTES));
	assert_int_equal(region->word_bytes, 0);
	second = publish(&writer, region, units, 2);
	third = publish(&writer, second, units, 1);
	EXPECT(&writer, ask_close(region), 0);
	assert_int_equal(ns_of(flash)->allocated_bytes, 3 * UNIT);
	/* While its trims wait, a restart finds it without what it shared. */
	fixture.stores[0].does_hold_trims = true;
	EXPECT(&writer, ask_close(second), 0);
	check_all(&fixture);
	assert_int_equal(ns_of(flash)->allocated_bytes, 3 * UNIT);
	fixture_restart(&fixture);
	fixture.stores[0].does_hold_trims = false;
	join_servers(2);
	assert_int_equal(client_resume(&fixture, &writer), 0);
	check_all(&fixture);
	assert_int_equal(ns_of(flash)->allocated_bytes, 2 * UNIT);
	EXPECT(&writer, ask_close(third), 0);
	EXPECT(&writer, ask_delete("f", true), 0);
}

/* ---- Random operations, against a model */

#define NR_CLIENTS 3U
#define NR_HANDLES 3U /* of a client */
#define VERSIONS   4096U

/* Where the units of a version are: what was told when it was published. NULL: it is not there. */
static Layout__Layout *published[VERSIONS];
static uint64_t newest;

struct handle_model {
	Afar__Reply *reply; /* NULL: closed */
	Afar__RegionInfo *info;
};

static struct client_model {
	struct fake_client client;
	struct handle_model handles[NR_HANDLES];
} models[NR_CLIENTS];

static struct handle_model *drafting; /* whose handle is a draft; NULL: none */

static void expect_layout(const Layout__Layout *now, const Layout__Layout *then)
{
	for (uint32_t i = 0; i < NR_UNITS; i++) {
		const Layout__Group *a = now->groups[i], *b = then->groups[i];

		assert_int_equal(a->n_chunks, b->n_chunks);
		if (a->n_chunks == 0)
			continue;
		assert_int_equal(a->chunks[0]->copies[0]->extent, b->chunks[0]->copies[0]->extent);
		assert_int_equal(a->chunks[0]->copies[0]->offset, b->chunks[0]->copies[0]->offset);
		assert_int_equal(now->homes[a->chunks[0]->copies[0]->home]->life,
				 then->homes[b->chunks[0]->copies[0]->home]->life);
	}
}

static Layout__Layout *layout_now(const struct region *region)
{
	return layout_pack(region->layout);
}

static void remember(uint64_t version, const struct region *region)
{
	assert_true(version < VERSIONS);
	assert_null(published[version]);
	published[version] = layout_now(region);
	newest = version;
}

/* Every version that somebody has open is where it was when it was published, and memory is what these need. */
static void check_model(void)
{
	check_all(&fixture);
	for (size_t c = 0; c < NR_CLIENTS; c++) {
		for (size_t h = 0; h < NR_HANDLES; h++) {
			const struct handle_model *handle = &models[c].handles[h];
			const struct region *region;
			Layout__Layout *now;

			if (!handle->reply || handle == drafting)
				continue;
			region = state_region(fixture.core->state, handle->info->generation);
			assert_non_null(region);
			assert_int_equal(region->version, handle->info->version);
			now = layout_now(region);
			expect_layout(now, published[region->version]);
			layout__layout__free_unpacked(now, NULL);
		}
	}
}

static void close_handle(struct client_model *model, struct handle_model *handle)
{
	EXPECT(&model->client, ask_close(handle->info), 0);
	drop(handle->reply);
	handle->reply = NULL;
	if (drafting == handle)
		drafting = NULL;
}

static void set_handle(struct handle_model *handle, Afar__RegionInfo *info, Afar__Reply *reply)
{
	drop(handle->reply);
	handle->reply = reply;
	handle->info = info;
}

static void prepare_some(struct client_model *model)
{
	uint32_t units[4];
	size_t nr = 1 + random_below(4);
	int status;

	for (size_t i = 0; i < nr; i++)
		units[i] = (uint32_t)random_below(NR_UNITS);
	status = fixture_do(&fixture, &model->client, ask_prepare(drafting->info, units, nr));
	assert_true(status == 0 || status == -ENOSPC);
}

static void publish_draft(struct client_model *model)
{
	const struct region *region = state_region(fixture.core->state, drafting->info->generation);

	if (random_below(3) == 0) { /* the commit fails, and it asks again */
		fixture.store.fail_at = 1;
		assert_true(fixture_do(&fixture, &model->client, ask_publish(drafting->info)) < 0);
		check_model();
		fixture_advance(&fixture, CORE_RETRY_NS / 1000000U);
	}
	EXPECT(&model->client, ask_publish(drafting->info), 0);
	remember(drafting->info->version, region);
	drafting = NULL;
}

static void begin_draft(struct client_model *model, struct handle_model *handle)
{
	Afar__RegionInfo *draft;
	Afar__Reply *reply;

	if (drafting) {
		EXPECT(&model->client, ask_begin(handle->info, 99), -EBUSY);
		return;
	}
	draft = must_open(&model->client, ask_begin(handle->info, 1 + random_below(9)), &reply);
	assert_int_equal(draft->version, newest + 1);
	EXPECT(&model->client, ask_close(handle->info), 0);
	set_handle(handle, draft, reply);
	drafting = handle;
}

static void refresh(struct client_model *model, struct handle_model *handle)
{
	Afar__RegionInfo *info;
	Afar__Reply *reply;

	if (handle == drafting)
		return;
	info = must_open(&model->client, ask_newest(handle->info), &reply);
	assert_int_equal(info->version, newest);
	EXPECT(&model->client, ask_close(handle->info), 0);
	set_handle(handle, info, reply);
}

/* Its session ends, with whatever it has open. */
static void lose(struct client_model *model)
{
	for (size_t h = 0; h < NR_HANDLES; h++) {
		if (drafting == &model->handles[h])
			drafting = NULL;
		drop(model->handles[h].reply);
		model->handles[h].reply = NULL;
	}
	EXPECT(&model->client, ask_session_close(), 0);
	client_lose(&fixture, &model->client);
	assert_int_equal(client_open(&fixture, &model->client), 0);
}

static void restart(void)
{
	fixture_restart(&fixture);
	join_servers(2);
	for (size_t c = 0; c < NR_CLIENTS; c++)
		assert_int_equal(client_resume(&fixture, &models[c].client), 0);
}

static void step(void)
{
	struct client_model *model = &models[random_below(NR_CLIENTS)];
	struct handle_model *handle = &model->handles[random_below(NR_HANDLES)];
	const bool is_writer = drafting >= model->handles && drafting < model->handles + NR_HANDLES;
	uint64_t dice = random_below(100);

	if (dice < 2)
		restart();
	else if (dice < 5)
		lose(model);
	else if (!handle->reply)
		handle->info = must_open(&model->client, ask_open(ns, "r", 0), &handle->reply);
	else if (dice < 15)
		close_handle(model, handle);
	else if (dice < 30)
		refresh(model, handle);
	else if (is_writer && dice < 70)
		prepare_some(model);
	else if (is_writer && newest + 2 < VERSIONS)
		publish_draft(model);
	else
		begin_draft(model, handle);
}

static void test_random(void **state)
{
	const unsigned nr_steps = 3000;

	(void)state;
	remember(1, state_region(fixture.core->state, first->generation));
	EXPECT(&writer, ask_close(first), 0);
	for (size_t c = 0; c < NR_CLIENTS; c++)
		assert_int_equal(client_open(&fixture, &models[c].client), 0);
	for (unsigned i = 0; i < nr_steps; i++) {
		step();
		check_model();
	}
	assert_true(newest > 100);
	for (size_t c = 0; c < NR_CLIENTS; c++) {
		lose(&models[c]);
		client_lose(&fixture, &models[c].client);
	}
	fixture_advance(&fixture, 2 * FIXTURE_LEASE_MS);
	/* One version is left, and nothing but what it has. */
	assert_true(cds_list_empty(&ns_of(ns)->freed));
	for (uint64_t i = 0; i < VERSIONS; i++) {
		layout__layout__free_unpacked(published[i], NULL);
		published[i] = NULL;
	}
}

TEST_GROUP(manager_versions)
{
	const struct CMUnitTest tests[] = {
		COW_TEST(test_versions),
		COW_TEST(test_what_is_frozen),
		COW_TEST(test_one_writer),
		COW_TEST(test_what_is_no_version),
		COW_TEST(test_rights),
		COW_TEST(test_full),
		COW_TEST(test_writer_dies),
		COW_TEST(test_reader_dies),
		COW_TEST(test_manager_dies),
		COW_TEST(test_server_dies),
		COW_TEST(test_freed_meanwhile),
		COW_TEST(test_flash),
		COW_TEST(test_idle_writer_loses),
		COW_TEST(test_taken_and_abandoned),
		COW_TEST(test_waits_for_its_turn),
		COW_TEST(test_claims_outlive_the_manager),
		COW_TEST(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
