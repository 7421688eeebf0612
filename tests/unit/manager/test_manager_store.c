/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager loads stores that others wrote: older managers, other key files, a broken disk. */
#include "lib/manager/manager_test.h"

#include <string.h>

#include "manager/connections/callers.h"
#include "manager/stored.pb-c.h"
#include "unit/group.h"

#define NONE UINT64_MAX /* no number in the key */

static void put_record(char kind, uint64_t number, const ProtobufCMessage *message)
{
	uint8_t key[9] = {(uint8_t)kind}, value[512];
	size_t length = protobuf_c_message_pack(message, value);
	struct meta_put put = {{key, 9}, {value, length}};

	assert_true(length <= sizeof(value));
	for (int i = 0; i < 8; i++)
		key[1 + i] = (uint8_t)(number >> (56 - 8 * i));
	if (number == NONE)
		put.key.length = 1;
	assert_int_equal(
		fixture.store.base.ops->commit(&fixture.store.base, NULL, 0, &put, 1, NULL, 0), 0);
}

static void test_old_store_is_loaded(void **state)
{
	Stored__Cluster cluster = STORED__CLUSTER__INIT;
	Stored__Namespace ns = STORED__NAMESPACE__INIT;
	Stored__Session session = STORED__SESSION__INIT;
	struct fake_client admin, alice, old = {.session = 77, .principal = "admin"};
	Afar__Reply *reply;

	(void)state;
	cluster.format = 1;
	cluster.name = (char *)"old";
	cluster.next_namespace = 6;
	cluster.next_server = cluster.next_generation = 1;
	ns.number = 5;
	ns.name = (char *)"old";
	ns.width = 64;
	ns.stripe_bytes = 4096;
	ns.next_address = STATE_SECOND_ADDRESS;
	session.number = 77;
	session.secret = (ProtobufCBinaryData){STATE_SECRET_BYTES, old.secret};
	put_record('c', NONE, &cluster.base);
	put_record('n', 5, &ns.base);
	put_record('u', 77, &session.base);
	fixture_restart(&fixture);
	check_all(&fixture); /* the format is the present one, in the store too */
	assert_false(fixture.core->state->is_old);
	assert_int_equal(fixture.core->state->next_principal, 1);

	/* Without an owner a namespace is the operators'; a session without a principal is nobody's. */
	client_open(&fixture, &admin);
	EXPECT(&admin, ask_key_add("alice", false), 0);
	client_open_as(&fixture, &alice, "alice");
	EXPECT(&alice, ask_namespace("old"), -ENOENT);
	reply = must(&admin, ask_namespace("old"));
	assert_string_equal(reply->namespace_info->owner, "");
	assert_int_equal(reply->namespace_info->rights, RIGHT_ALL);
	drop(reply);
	EXPECT(&admin, ask_grant(5, "alice", RIGHT_READ), 0);
	EXPECT(&alice, ask_namespace("old"), 0);
	expect_said(&alice, ask_delete("old", true), -EACCES, "has no owner");
	assert_int_equal(client_resume(&fixture, &old), -AFAR_ESESSION);
	old.principal = "";
	assert_int_equal(client_resume(&fixture, &old), -AFAR_EAUTH);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	assert_null(state_session(fixture.core->state, 77));
	check_all(&fixture);
}

/* Writes a region's record as formats 1 and 2 had it. */
static void put_old_region(const struct region *region)
{
	const struct layout *layout = region->layout;
	Stored__Region record = STORED__REGION__INIT;
	Stored__OldGroup groups[2], *group_list[2];
	Stored__OldChunk chunks[8], *chunk_list[8];

	assert_true(layout->nr_groups <= 2 && layout->nr_copies <= 8);
	for (uint32_t i = 0; i < layout->nr_copies; i++) {
		const struct layout_copy *copy = &layout->copies[i];

		stored__old_chunk__init(&chunks[i]);
		chunks[i].server = layout_home_of(layout, copy)->server;
		chunks[i].incarnation = layout_home_of(layout, copy)->life;
		chunks[i].extent = copy->extent;
		chunks[i].offset = copy->offset;
		chunks[i].length = layout->groups[copy->group].chunk_bytes;
		chunk_list[i] = &chunks[i];
	}
	for (uint32_t i = 0; i < layout->nr_groups; i++) {
		stored__old_group__init(&groups[i]);
		groups[i].length = layout->groups[i].length;
		groups[i].n_chunks = layout->groups[i].nr_chunks;
		groups[i].chunks = &chunk_list[layout->groups[i].first_chunk];
		group_list[i] = &groups[i];
	}
	record.namespace_ = region->ns->number;
	record.generation = region->generation;
	record.address = region->address;
	record.length = region->length;
	record.name = region->name;
	record.stripe_bytes = region->stripe_bytes;
	record.groups = group_list;
	record.n_groups = layout->nr_groups;
	put_record('r', region->generation, &record.base);
}

/* A region that is striped over two servers, and goes on in one of them. */
static void test_old_layout_is_loaded(void **state)
{
	Stored__Cluster cluster = STORED__CLUSTER__INIT;
	struct fake_client client;
	struct layout *before;
	const struct layout *now;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	fixture_join(&fixture, 1, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 16 * MIB), 0);
	EXPECT(&client, ask_alloc(ns, "r", 5 * MIB + 5000, false), 0);
	now = namespace_region_named(ns_of(ns), "r")->layout;
	assert_int_equal(now->nr_homes, 2);
	assert_int_equal(now->nr_groups, 2);
	before = layout_duplicate(now);
	cluster.format = 2;
	cluster.name = fixture.core->state->cluster;
	cluster.next_namespace = fixture.core->state->next_namespace;
	cluster.next_server = fixture.core->state->next_server;
	cluster.next_generation = fixture.core->state->next_generation;
	cluster.next_principal = fixture.core->state->next_principal;
	put_record('c', NONE, &cluster.base);
	put_old_region(namespace_region_named(ns_of(ns), "r"));
	fixture_restart(&fixture);
	check_all(&fixture);
	now = namespace_region_named(ns_of(ns), "r")->layout;
	assert_int_equal(now->length, before->length);
	assert_int_equal(now->nr_groups, before->nr_groups);
	assert_int_equal(now->nr_copies, before->nr_copies);
	assert_memory_equal(now->groups, before->groups, now->nr_groups * sizeof(*now->groups));
	assert_memory_equal(now->copies, before->copies, now->nr_copies * sizeof(*now->copies));
	assert_int_equal(now->nr_homes, before->nr_homes);
	for (uint32_t i = 0; i < now->nr_homes; i++)
		assert_true(layout_home_is(&now->homes[i], &before->homes[i]));
	layout_free(before);
}

/* A key file got a key for a name that was added before: that of the file counts, as long as it is there. */
static void test_file_beats_store(void **state)
{
	Stored__Principal record = STORED__PRINCIPAL__INIT;
	struct fake_client admin;
	uint8_t secret[KEY_BYTES];
	Afar__Reply *reply;

	(void)state;
	record.number = 9;
	record.name = (char *)"server";
	memset(secret, 5, sizeof(secret));
	record.secret = (ProtobufCBinaryData){KEY_BYTES, secret};
	put_record('k', 9, &record.base);
	fixture_restart(&fixture);
	assert_true(keyring_find(fixture.keyring, "server", secret));
	assert_int_not_equal(secret[0], 5);
	assert_int_equal(core_principal_kind(fixture.core, "server"), PRINCIPAL_SERVER);
	client_open(&fixture, &admin);
	EXPECT(&admin, ask_key_revoke("server"), -EINVAL);
	reply = must(&admin, ask_key_list());
	assert_int_equal(reply->key_infos->n_entries, 2);
	drop(reply);
}

/* ---- Records that contradict the others, or themselves */

static void put_principal(uint64_t key, uint64_t number, const char *name, size_t nr_secret)
{
	Stored__Principal record = STORED__PRINCIPAL__INIT;
	uint8_t secret[64] = {1};

	record.number = number;
	record.name = (char *)(uintptr_t)name;
	record.secret = (ProtobufCBinaryData){nr_secret, secret};
	put_record('k', key, &record.base);
}

static void put_grants(uint64_t ns, const char *one, uint32_t one_rights, const char *other)
{
	Stored__Grant grants[2] = {STORED__GRANT__INIT, STORED__GRANT__INIT};
	Stored__Grant *pointers[2] = {&grants[0], &grants[1]};
	Stored__Grants record = STORED__GRANTS__INIT;

	grants[0].principal = (char *)(uintptr_t)one;
	grants[0].rights = one_rights;
	grants[1].principal = (char *)(uintptr_t)other;
	grants[1].rights = 1;
	record.namespace_ = ns;
	record.grants = pointers;
	record.n_grants = other != NULL ? 2 : 1;
	put_record('g', ns, &record.base);
}

static void put_namespace(const char *owner)
{
	Stored__Namespace record = STORED__NAMESPACE__INIT;

	record.number = 1;
	record.name = (char *)"a";
	record.owner = (char *)(uintptr_t)owner;
	put_record('n', 1, &record.base);
}

static void put_session(const char *principal)
{
	Stored__Session record = STORED__SESSION__INIT;
	uint8_t secret[STATE_SECRET_BYTES] = {1};

	record.number = 1;
	record.principal = (char *)(uintptr_t)principal;
	record.secret = (ProtobufCBinaryData){sizeof(secret), secret};
	put_record('u', 1, &record.base);
}

static void put_outcome(uint32_t kind)
{
	Stored__Outcome record = STORED__OUTCOME__INIT;

	record.session = 1;
	record.kind = kind;
	put_record('o', 1, &record.base);
}

static void put_format(uint32_t format)
{
	Stored__Cluster record = STORED__CLUSTER__INIT;

	record.format = format;
	record.name = (char *)"x";
	put_record('c', NONE, &record.base);
}

/* A hole of 4 KiB is all that the region has. */
static void put_region(uint64_t length)
{
	Stored__Region record = STORED__REGION__INIT;
	Layout__Layout layout = LAYOUT__LAYOUT__INIT;
	Layout__Group hole = LAYOUT__GROUP__INIT, *groups[] = {&hole};

	hole.length = 4096;
	layout.groups = groups;
	layout.n_groups = 1;
	record.namespace_ = 1;
	record.generation = 1;
	record.address = STATE_SECOND_ADDRESS;
	record.length = length;
	record.stripe_bytes = 4096;
	record.layout = &layout;
	put_record('r', 1, &record.base);
}

/* The UUID says 7. */
static void put_store(uint64_t number, uint64_t server)
{
	Stored__Store record = STORED__STORE__INIT;
	uint8_t uuid[STORE_UUID_BYTES] = {7};

	record.number = number;
	record.uuid = (ProtobufCBinaryData){sizeof(uuid), uuid};
	record.path = (char *)"/dev/flash";
	record.server = server;
	put_record('t', number, &record.base);
}

/* Puts an extent beside store 7. One of no namespace is being released. */
static void put_flash_extent(uint64_t store, enum extent_class class, uint64_t ns)
{
	Stored__Extent record = STORED__EXTENT__INIT;

	put_store(7, 0);
	record.life = store;
	record.is_store = true;
	record.number = 1;
	record.namespace_ = ns;
	record.is_releasing = ns == 0;
	record.length = 4096;
	record.class_ = class;
	put_record('e', 1, &record.base);
}

/* 65 bytes: no identity is so long. */
#define TOO_LONG "0123456789012345678901234567890123456789012345678901234567890123x"

/* A row is what is put into a new store, and what is wrong with it. */
static const struct damage {
	const char *what;
	struct {
		uint64_t key, number;
		const char *name; /* NULL: none is put */
		size_t nr_secret;
	} principals[2];
	const char *owner; /* of namespace 1; NULL: it is not put */
	struct {
		uint64_t ns; /* 0: none are put */
		const char *principal;
		uint32_t rights;
		const char *another;
	} grants;
	const char *session; /* its principal; NULL: it is not put */
	uint32_t outcome;
	const uint32_t *format;
	uint64_t region_bytes;
	struct {
		uint64_t number, server;
	} store;
	struct {
		uint64_t store;
		enum extent_class class;
		uint64_t ns;
	} extent;
} damages[] = {
	{"a secret that is too short", {{1, 1, "alice", KEY_BYTES - 1}}},
	{"a secret that is too long", {{1, 1, "alice", KEY_BYTES + 1}}},
	{"a principal without a name", {{1, 1, "", KEY_BYTES}}},
	{"a principal with too long a name", {{1, 1, TOO_LONG, KEY_BYTES}}},
	{"a principal with the name of a pass", {{1, 1, "pass/1/2", KEY_BYTES}}},
	{"a principal without a number", {{0, 0, "alice", KEY_BYTES}}},
	{"two of one name", {{1, 1, "alice", KEY_BYTES}, {2, 2, "alice", KEY_BYTES}}},
	{"two of one number", {{1, 1, "alice", KEY_BYTES}, {2, 1, "bob", KEY_BYTES}}},
	{"a grant of nothing", .owner = "alice", .grants = {1, "bob", 0}},
	{"a grant of no right that there is", .owner = "alice", .grants = {1, "bob", 4}},
	{"a grant to too long a name", .owner = "alice", .grants = {1, TOO_LONG, 1}},
	{"two grants to one", .owner = "alice", .grants = {1, "bob", 1, "bob"}},
	{"grants of no namespace", .owner = "alice", .grants = {2, "bob", 1}},
	{"too long an owner", .owner = TOO_LONG},
	{"a session of too long a principal", .session = TOO_LONG},
	{"an outcome of no kind", .session = "admin", .outcome = OUTCOME_RESULTS + 1},
	{"no format", .format = &(const uint32_t){0}},
	{"the format of a newer manager", .format = &(const uint32_t){5}},
	{"a region that its layout does not cover", .owner = "alice", .region_bytes = 8192},
	{"a store without its UUID's number", .store = {8, 0}},
	{"a store of a server that is not there", .store = {7, 5}},
	{"an extent in no store", .extent = {8, CLASS_FLASH, 0}},
	{"memory in a store", .extent = {7, CLASS_DRAM, 0}},
	{"flash for a namespace in memory", .owner = "alice", .extent = {7, CLASS_FLASH, 1}},
};

static void put_damage(const struct damage *damage)
{
	for (size_t i = 0; i < 2; i++)
		if (damage->principals[i].name != NULL)
			put_principal(damage->principals[i].key, damage->principals[i].number,
				      damage->principals[i].name, damage->principals[i].nr_secret);
	if (damage->owner != NULL)
		put_namespace(damage->owner);
	if (damage->grants.ns != 0)
		put_grants(damage->grants.ns, damage->grants.principal, damage->grants.rights,
			   damage->grants.another);
	if (damage->session != NULL)
		put_session(damage->session);
	if (damage->outcome != 0)
		put_outcome(damage->outcome);
	if (damage->format != NULL)
		put_format(*damage->format);
	if (damage->region_bytes != 0)
		put_region(damage->region_bytes);
	if (damage->store.number != 0)
		put_store(damage->store.number, damage->store.server);
	if (damage->extent.store != 0)
		put_flash_extent(damage->extent.store, damage->extent.class, damage->extent.ns);
}

static void test_damage_is_told(void **state)
{
	struct core_environment environment = fixture.core->environment;
	struct core_options options = {.lease_ms = 1, .incarnation = 1, .keyring = fixture.keyring};
	struct core *core = NULL;

	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		int ret, expected = damages[i].format != NULL ? -AFAR_EVERSION : -EIO;

		teardown(state);
		setup(state);
		environment.context = &fixture;
		options.keyring = fixture.keyring;
		put_damage(&damages[i]);
		ret = core_open(&fixture.store.base, &environment, &options, &core);
		if (ret != expected || strstr(afar_last_error(), "load the metastore") == NULL)
			fail_msg("%s: %d '%s'", damages[i].what, ret, afar_last_error());
		assert_null(core);
	}
}

/* Each of the cases above is sound but for its damage. */
static void test_what_is_not_damaged(void **state)
{
	struct fake_client bob = {.session = 1, .principal = "bob", .secret = {1}};

	(void)state;
	put_principal(1, 1, "alice", KEY_BYTES);
	put_principal(2, 2, "bob", KEY_BYTES);
	put_namespace("alice");
	put_grants(1, "bob", 3, "carol");
	put_session("bob");
	put_flash_extent(7, CLASS_FLASH, 0);
	fixture_restart(&fixture);
	assert_int_equal(state_store(fixture.core->state, 7)->pool.releasing_bytes, 4096);
	assert_int_equal(fixture.core->state->nr_principals, 2);
	assert_int_equal(namespace_granted(ns_of(1), "carol"), 1);
	assert_int_equal(client_resume(&fixture, &bob), 0);
	EXPECT(&bob, ask_namespace("a"), 0);
}

TEST_GROUP(manager_store)
{
	const struct CMUnitTest tests[] = {
		TEST(test_old_store_is_loaded), TEST(test_old_layout_is_loaded),
		TEST(test_file_beats_store),	TEST(test_damage_is_told),
		TEST(test_what_is_not_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
