/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client learns nothing of what it has no right to. A stranger makes every call that takes a name or a number, before the thing
 * is there, while it is, and after it was deleted. The answers have the same bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "lib/manager/manager_files.h"
#include "manager/regions/namespaces.h"
#include "unit/group.h"

#define ANSWER_MAX 512

/* Admin, who has all; alice, who makes what there is; bob, who has no right to it. */
static struct fake_client admin, alice, bob;

/* One of each kind: a namespace, a volume, a file system. */
static const char *const names[] = {"secret.ns", "secret.vol", "secret.fs"};
#define KINDS (sizeof(names) / sizeof(names[0]))

/* ---- What a stranger asks */

struct target {
	const char *name;
	Afar__RegionInfo region; /* also the number of its namespace */
};

static Afar__Request *open_by_name(const struct target *target)
{
	return ask_namespace(target->name);
}

static Afar__Request *delete_ns(const struct target *target)
{
	return ask_delete(target->name, true);
}

static Afar__Request *delete_volume(const struct target *target)
{
	return ask_volume_delete(target->name);
}

static Afar__Request *delete_files(const struct target *target)
{
	Afar__Request *request = ask_volume_delete(target->name);

	request->namespace_delete->is_files = true;
	return request;
}

static Afar__Request *reserve(const struct target *target)
{
	return ask_reserve(target->region.namespace_, MIB);
}

static Afar__Request *cancel(const struct target *target)
{
	return ask_cancel(target->region.namespace_);
}

static Afar__Request *release(const struct target *target)
{
	return ask_release(target->region.namespace_, MIB);
}

static Afar__Request *grant(const struct target *target)
{
	return ask_grant(target->region.namespace_, "bob", RIGHT_READ);
}

static Afar__Request *alloc(const struct target *target)
{
	return ask_alloc(target->region.namespace_, "mine", MIB, false);
}

static Afar__Request *list_regions(const struct target *target)
{
	return ask_regions(target->region.namespace_, 0, 0);
}

static Afar__Request *open_region(const struct target *target)
{
	return ask_open(target->region.namespace_, "r", 0);
}

static Afar__Request *open_at(const struct target *target)
{
	return ask_open(target->region.namespace_, "", target->region.address);
}

static Afar__Request *open_newest(const struct target *target)
{
	return ask_newest(&target->region);
}

static Afar__Request *open_volume(const struct target *target)
{
	return ask_volume_open(target->region.namespace_, VOLUME_EXCLUSIVE);
}

static Afar__Request *take_over(const struct target *target)
{
	return ask_take_over(target->region.namespace_, VOLUME_READ_ONLY);
}

static Afar__Request *resize(const struct target *target)
{
	return ask_resize(target->region.namespace_, 2 * MIB);
}

static Afar__Request *free_named(const struct target *target)
{
	return ask_free_named(target->region.namespace_, "r", 0);
}

static Afar__Request *look_at_file(const struct target *target)
{
	Afar__Request *request = ask_stat(ROOT);

	request->files_look->fs = target->region.namespace_;
	return request;
}

static Afar__Request *open_file(const struct target *target)
{
	Afar__Request *request = ask_file_open(ROOT, 1);

	request->files_hold->fs = target->region.namespace_;
	return request;
}

static Afar__Request *make_file(const struct target *target)
{
	Afar__Request *request = ask_make(ROOT, "f", S_IFREG | 0644, 0, 0);

	request->files_change->fs = target->region.namespace_;
	return request;
}

static Afar__Request *limit(const struct target *target)
{
	Afar__Request *request = ask_status();

	afar__status__free_unpacked(request->status, NULL);
	request->call_case = AFAR__REQUEST__CALL_FILES_LIMIT;
	request->files_limit = MESSAGE_NEW(afar__files_limit, Afar__FilesLimit);
	request->files_limit->fs = target->region.namespace_;
	return request;
}

static Afar__Request *limit_ns(const struct target *target)
{
	return ask_limit(target->region.namespace_, MIB);
}

/* By a region's generation, which is never another's: it counts how many there were. */
static Afar__Request *close_region(const struct target *target)
{
	return ask_close(&target->region);
}

static Afar__Request *free_region(const struct target *target)
{
	return ask_free(&target->region);
}

static Afar__Request *get_access(const struct target *target)
{
	return ask_access(&target->region);
}

static Afar__Request *look(const struct target *target)
{
	return ask_look(&target->region);
}

static Afar__Request *finish(const struct target *target)
{
	return ask_finish(&target->region);
}

static Afar__Request *seal(const struct target *target)
{
	return ask_seal(&target->region);
}

static Afar__Request *resize_region(const struct target *target)
{
	return ask_region_resize(&target->region, MIB);
}

static Afar__Request *begin_version(const struct target *target)
{
	return ask_begin(&target->region, 1);
}

static Afar__Request *prepare_version(const struct target *target)
{
	const uint32_t unit = 0;

	return ask_prepare(&target->region, &unit, 1);
}

static Afar__Request *publish_version(const struct target *target)
{
	return ask_publish(&target->region);
}

static Afar__Request *use_version(const struct target *target)
{
	return ask_use(&target->region);
}

static const struct {
	Afar__Request *(*ask)(const struct target *target);
	bool is_by_generation;
} asks[] = {
	{open_by_name, false}, {delete_ns, false},	{delete_volume, false},
	{delete_files, false}, {reserve, false},	{cancel, false},
	{release, false},      {grant, false},		{alloc, false},
	{list_regions, false}, {open_region, false},	{open_at, false},
	{open_newest, false},  {open_volume, false},	{take_over, false},
	{resize, false},       {free_named, false},	{look_at_file, false},
	{open_file, false},    {make_file, false},	{limit, false},
	{close_region, true},  {free_region, true},	{get_access, true},
	{look, true},	       {finish, true},		{seal, true},
	{begin_version, true}, {prepare_version, true}, {publish_version, true},
	{use_version, true},   {limit_ns, false},	{resize_region, true},
};
#define ASKS (sizeof(asks) / sizeof(asks[0]))

/* The other calls: those that name nothing, or have a test of their own below. And those that are for others than clients, or
 * for operators alone. */
static const Afar__Request__CallCase others[] = {
#define CALL(name) AFAR__REQUEST__CALL_##name
	CALL(SESSION_OPEN),
	CALL(SESSION_CLOSE),
	CALL(STATUS),
	CALL(RECORDS_CHECK),
	CALL(RECORDS_ACCEPT),
	CALL(NAMESPACE_CREATE),
	CALL(NAMESPACE_LIST),
	CALL(KEY_ADD),
	CALL(KEY_LIST),
	CALL(KEY_REVOKE),
	CALL(KEY_LIMIT),
	CALL(SERVER_REGIONS),
	CALL(SERVER_REMOVE),
	CALL(NAMESPACE_ACCEPT),
	CALL(LOSS_LIST),
	CALL(LOSS_COUNT),
	CALL(STORE_REGIONS),
	CALL(STORE_FORGET),
	CALL(STORE_FREE_ORPHANS),
	CALL(STORE_ADD),
	CALL(STORE_REMOVE),
	CALL(SERVER_JOIN),
	CALL(SERVER_REPORT),
	CALL(STORE_LEND),
	CALL(EXTENTS_RESERVE),
	CALL(EXTENTS_RELEASE),
	CALL(SESSION_END),
	CALL(EXTENTS_SEAL),
	CALL(EXTENTS_TRIM),
	CALL(EXTENT_READ),
	CALL(STORE_OPEN),
	CALL(STORE_CLOSE),
	CALL(CONNECT),
	CALL(GRANT),
	CALL(PING),
	CALL(LOOK),
	CALL(FILE_RECALL),
	CALL(FILE_REVOKE),
	CALL(FILES_GONE),
#undef CALL
};

/* A call that comes into the protocol comes into one of the two tables. */
static void test_every_call_is_known_here(void **state)
{
	const ProtobufCMessageDescriptor *descriptor = &afar__request__descriptor;
	const struct target target = {.name = "x", .region = AFAR__REGION_INFO__INIT};

	(void)state;
	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		const uint32_t call = descriptor->fields[i].id;
		bool is_known = false;

		for (size_t j = 0; j < sizeof(others) / sizeof(others[0]); j++)
			is_known |= others[j] == call;
		for (size_t j = 0; j < ASKS && !is_known; j++) {
			Afar__Request *request = asks[j].ask(&target);

			is_known = request->call_case == call;
			afar__request__free_unpacked(request, NULL);
		}
		if (!is_known)
			fail_msg("what does a stranger learn by %s?", descriptor->fields[i].name);
	}
}

/* ---- What it is answered */

struct answer {
	size_t length;
	uint8_t bytes[ANSWER_MAX];
};

static void expect_no_secret(const struct answer *answer)
{
	assert_null(memmem(answer->bytes, answer->length, "alice", 5));
	assert_null(memmem(answer->bytes, answer->length, "admin", 5));
	assert_null(memmem(answer->bytes, answer->length, "/dev/", 5));
}

static void ask_all(const struct target *targets, struct answer answers[KINDS][ASKS])
{
	for (size_t i = 0; i < KINDS; i++) {
		for (size_t j = 0; j < ASKS; j++) {
			struct answer *answer = &answers[i][j];
			Afar__Reply *reply = fixture_ask(&fixture, &bob, asks[j].ask(&targets[i]));

			answer->length = afar__reply__get_packed_size(reply);
			assert_in_range(answer->length, 0, ANSWER_MAX);
			afar__reply__pack(reply, answer->bytes);
			expect_no_secret(answer);
			drop(reply);
		}
	}
}

static void expect_same(const struct answer *was, const struct answer *is, const char *name,
			size_t nr)
{
	if (was->length == is->length && memcmp(was->bytes, is->bytes, is->length) == 0)
		return;
	fail_msg("call %zu of the table, for '%s': %.*s / %.*s", nr, name, (int)was->length,
		 (const char *)was->bytes, (int)is->length, (const char *)is->bytes);
}

/* ---- The world */

static int begin(void **state)
{
	setup(state);
	client_open(&fixture, &admin);
	EXPECT(&admin, ask_key_add("alice", false), 0);
	EXPECT(&admin, ask_key_add("bob", false), 0);
	assert_int_equal(client_open_as(&fixture, &alice, "alice"), 0);
	assert_int_equal(client_open_as(&fixture, &bob, "bob"), 0);
	fixture_plug(&fixture, 0, 0, 64 * MIB);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	fixture_advance(&fixture, 4000); /* it waits for no servers after its start any more */
	return 0;
}

static Afar__Request *ask_create_kind(size_t kind)
{
	Afar__Request *request =
		kind == 0 ? ask_create(names[kind], 0, 0) : ask_volume(names[kind]);

	request->namespace_create->is_files = kind == 2;
	return request;
}

static void make_kind(size_t kind)
{
	const uint64_t ns = create_namespace(&fixture, &alice, ask_create_kind(kind));
	Afar__RegionInfo *info;
	Afar__Reply *reply;

	EXPECT(&alice, ask_reserve(ns, 4 * MIB), 0);
	info = must_open(&alice,
			 kind == 0 ? ask_alloc(ns, "r", MIB, false) : ask_volume_alloc(ns, MIB),
			 &reply);
	EXPECT(&alice, ask_finish(info), 0);
	drop(reply);
}

static void test_what_is_there_is_as_what_is_not(void **state)
{
	static struct answer before[KINDS][ASKS], while_there[KINDS][ASKS], after[KINDS][ASKS];
	struct target targets[KINDS];

	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		targets[i] = (struct target){names[i], AFAR__REGION_INFO__INIT};
		targets[i].region.namespace_ = fixture.core->state->next_namespace + i;
		targets[i].region.generation = fixture.core->state->next_generation + i;
		targets[i].region.address = AFAR_FIRST_ADDRESS;
	}
	ask_all(targets, before);
	for (size_t i = 0; i < KINDS; i++) {
		make_kind(i);
		assert_string_equal(ns_of(targets[i].region.namespace_)->name, names[i]);
		assert_non_null(state_region(fixture.core->state, targets[i].region.generation));
	}
	ask_all(targets, while_there);
	EXPECT(&alice, ask_session_close(), 0);
	EXPECT(&admin, delete_ns(&targets[0]), 0);
	EXPECT(&admin, delete_volume(&targets[1]), 0);
	EXPECT(&admin, delete_files(&targets[2]), 0);
	ask_all(targets, after);
	for (size_t i = 0; i < KINDS; i++) {
		for (size_t j = 0; j < ASKS; j++) {
			if (!asks[j].is_by_generation)
				expect_same(&before[i][j], &while_there[i][j], names[i], j);
			expect_same(&after[i][j], &while_there[i][j], names[i], j);
		}
	}
}

/* A client that wants a name must learn that it is taken. It learns nothing else. */
static void test_a_name_that_is_taken(void **state)
{
	char said[64];

	(void)state;
	for (size_t i = 0; i < KINDS; i++)
		make_kind(i);
	for (size_t i = 0; i < KINDS; i++) {
		snprintf(said, sizeof(said), "'%s': the name is taken; take another", names[i]);
		expect_said(&bob, ask_create(names[i], 0, 0), -EEXIST, said);
		expect_said(&bob, ask_volume(names[i]), -EEXIST, said);
	}
	expect_said(&alice, ask_create(names[1], 0, 0), -EEXIST, "it exists, as a volume");
}

static void expect_listed(struct fake_client *who, bool does_see)
{
	Afar__Reply *reply = must(who, ask_namespaces("", 0));
	const Afar__ClusterStatus *status;
	static struct answer answer;

	assert_int_equal(reply->namespace_infos->n_entries, does_see ? KINDS : 0);
	drop(reply);
	reply = must(who, ask_status());
	status = reply->cluster_status;
	assert_int_equal(status->n_namespaces, does_see ? KINDS : 0);
	assert_int_equal(status->nr_namespaces, does_see ? KINDS : 0);
	assert_int_equal(status->n_sessions, does_see ? 3 : 1);
	assert_int_equal(status->n_stores, 1);
	if (does_see) {
		assert_string_equal(status->stores[0]->path, "/dev/flash1");
	} else {
		answer.length = afar__reply__get_packed_size(reply);
		assert_in_range(answer.length, 0, ANSWER_MAX);
		afar__reply__pack(reply, answer.bytes);
		expect_no_secret(&answer);
		assert_null(memmem(answer.bytes, answer.length, "secret", 6));
	}
	drop(reply);
}

static void test_lists(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++)
		make_kind(i);
	expect_listed(&bob, false);
	expect_listed(&admin, true);
}

/* Also to who may use what is there, the paths of a server's devices are nothing. */
static void test_paths_of_devices(void **state)
{
	const uint64_t ns = make_flash_namespace(&fixture, &alice, "f");
	Afar__RegionInfo *info;
	Afar__Reply *reply;

	(void)state;
	EXPECT(&alice, ask_reserve(ns, 4 * MIB), 0);
	info = must_open(&alice, ask_alloc(ns, "r", MIB, false), &reply);
	assert_string_equal(info->layout->stores[0]->path, "");
	drop(reply);
	info = must_open(&admin, ask_open(ns, "r", 0), &reply);
	assert_string_equal(info->layout->stores[0]->path, "/dev/flash1");
	drop(reply);
}

/* ---- How long it takes */

/* For who may use it, the thing has the call wait. A stranger is refused at once. */
static void expect_no_wait(const struct target *target,
			   Afar__Request *(*ask)(const struct target *target))
{
	Afar__Reply *waiting, *reply;

	fixture_send(&fixture, &admin, ++admin.next_id, ask(target), &waiting);
	fixture_send(&fixture, &bob, ++bob.next_id, ask(target), &reply);
	fixture_pump(&fixture);
	assert_null(waiting);
	assert_non_null(reply);
	assert_true(reply->status == -ENOENT || reply->status == -AFAR_EFREED);
	drop(reply);
	/* It gets what it waits for, or its time is over. */
	fixture.servers[0].is_silent = fixture.servers[0].does_hold_seals = false;
	fixture.stores[0].does_hold_trims = false;
	fixture_pump(&fixture);
	fixture_advance(&fixture, 60000);
	assert_non_null(waiting);
	drop(waiting);
}

static struct target target_of(const char *name, const Afar__RegionInfo *info)
{
	struct target target = {.name = name, .region = AFAR__REGION_INFO__INIT};

	target.region.namespace_ = info->namespace_;
	target.region.address = info->address;
	target.region.generation = info->generation;
	return target;
}

/* A volume whose holder is being ended. */
static void test_no_wait_for_a_holder(void **state)
{
	Afar__RegionInfo volume = AFAR__REGION_INFO__INIT;
	struct target target;

	(void)state;
	volume.namespace_ = fixture.core->state->next_namespace;
	target = target_of(names[1], &volume);
	make_kind(1);
	fixture.servers[0].is_silent = true;
	EXPECT(&alice, ask_session_close(), 0);
	expect_no_wait(&target, open_volume);
}

/* Room that comes back when a device has trimmed it. */
static void test_no_wait_for_trims(void **state)
{
	const uint64_t ns = make_flash_namespace(&fixture, &alice, "f");
	Afar__RegionInfo *info;
	struct target target;
	Afar__Reply *reply;

	(void)state;
	EXPECT(&alice, ask_reserve(ns, 4 * MIB), 0);
	info = must_open(&alice, ask_alloc(ns, "r", 4 * MIB, false), &reply);
	target = target_of("f", info);
	for (size_t i = 0; i < fixture.stores[0].nr_extents; i++)
		fixture.stores[0].extents[i].is_provisional = false;
	fixture.stores[0].does_hold_trims = true;
	EXPECT(&alice, ask_free(info), 0);
	EXPECT(&alice, ask_close(info), 0);
	drop(reply);
	expect_no_wait(&target, alloc);
}

/* A region that is being sealed. The namespace that is named with it is one of the stranger's own. */
static void test_no_wait_for_a_seal(void **state)
{
	const uint64_t ns = create_namespace(&fixture, &alice, ask_create("n", 0, 0));
	Afar__RegionInfo *info;
	struct target target;
	Afar__Reply *reply, *opened, *sealed;

	(void)state;
	EXPECT(&alice, ask_reserve(ns, 8 * MIB), 0);
	info = must_open(&alice, ask_alloc(ns, "r", MIB, false), &reply);
	must_open(&admin, ask_open(ns, "r", 0), &opened);
	target = target_of("n", info);
	fixture.servers[0].does_hold_seals = true;
	fixture_send(&fixture, &alice, ++alice.next_id, ask_seal(info), &sealed);
	fixture_pump(&fixture);
	assert_null(sealed);
	expect_no_wait(&target, look);
	assert_non_null(sealed);
	drop(sealed);
	drop(reply);
	drop(opened);
}

/* Files, of which a session from before a restart has not told yet what it has open. */
static void test_no_wait_for_claims(void **state)
{
	Afar__RegionInfo files = AFAR__REGION_INFO__INIT;
	struct fake_client holder;
	struct target target;

	(void)state;
	client_open(&fixture, &holder);
	files.namespace_ = fixture.core->state->next_namespace;
	target = target_of(names[2], &files);
	make_kind(2);
	EXPECT(&holder, open_file(&target), 0);
	fixture_restart(&fixture);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	assert_int_equal(client_resume(&fixture, &admin), 0);
	assert_int_equal(client_resume(&fixture, &bob), 0);
	expect_no_wait(&target, open_file);
}

#define STRANGERS_TEST(name) cmocka_unit_test_setup_teardown(name, begin, teardown)

TEST_GROUP(manager_strangers)
{
	const struct CMUnitTest tests[] = {
		STRANGERS_TEST(test_every_call_is_known_here),
		STRANGERS_TEST(test_what_is_there_is_as_what_is_not),
		STRANGERS_TEST(test_a_name_that_is_taken),
		STRANGERS_TEST(test_lists),
		STRANGERS_TEST(test_paths_of_devices),
		STRANGERS_TEST(test_no_wait_for_a_holder),
		STRANGERS_TEST(test_no_wait_for_trims),
		STRANGERS_TEST(test_no_wait_for_a_seal),
		STRANGERS_TEST(test_no_wait_for_claims),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
