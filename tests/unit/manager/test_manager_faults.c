/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's core when things go wrong. Each commit of a scenario fails in turn, and random lives of
 * clients and servers have failures among them. Tables, store and servers must agree after every step. */
#include <malloc.h>
#include <string.h>

#include <afar/afar.h>

#include "lib/manager/manager_test.h"
#include "manager/connections/callers.h"
#include "manager/connections/rights.h"
#include "manager/regions/namespaces.h"
#include "unit/group.h"

/* ---- Failing commits */

/* Closes as a client does: its connection ends, whatever it hears. */
static int close_session(struct fake_client *client)
{
	int status = fixture_do(&fixture, client, ask_session_close());

	client_lose(&fixture, client);
	return status;
}

/* A life of a volume: made, shared, grown, taken over, made smaller. Returns how many calls failed. */
static unsigned volume_scenario(struct fake_client *client)
{
	struct fake_client other;
	unsigned failed = 0;
	Afar__Reply *reply;
	uint64_t ns = 0;

#define TRY(call)                      \
	do {                           \
		failed += (call) != 0; \
		check_all(&fixture);   \
	} while (0)
	TRY(client_open(&fixture, &other));
	reply = fixture_ask(&fixture, client, ask_volume("v"));
	failed += reply->status != 0;
	if (reply->status == 0)
		ns = reply->namespace_info->namespace_;
	drop(reply);
	TRY(fixture_do(&fixture, client, ask_reserve(ns, 16 * MIB)));
	reply = fixture_ask(&fixture, client, ask_volume_alloc(ns, 3 * MIB));
	failed += reply->status != 0;
	if (reply->status == 0) {
		TRY(fixture_do(&fixture, client, ask_finish(reply->region_info)));
		TRY(fixture_do(&fixture, client, ask_close(reply->region_info)));
	}
	drop(reply);
	TRY(fixture_do(&fixture, &other, ask_volume_open(ns, VOLUME_SHARED)));
	TRY(fixture_do(&fixture, client, ask_resize(ns, 12 * MIB)));
	TRY(fixture_do(&fixture, client, ask_take_over(ns, VOLUME_EXCLUSIVE)));
	TRY(fixture_do(&fixture, client, ask_volume_open(ns, VOLUME_EXCLUSIVE)));
	TRY(fixture_do(&fixture, client, ask_resize(ns, MIB)));
	TRY(close_session(client));
	client_lose(&fixture, &other);
	TRY(client_open(&fixture, client));
	TRY(fixture_do(&fixture, client, ask_volume_delete("v")));
	return failed;
#undef TRY
}

/* A life of a namespace; returns how many calls failed. Everything is tried, whatever fails. */
static unsigned scenario(void)
{
	struct fake_client client, other, guest;
	Afar__Reply *reply;
	unsigned failed = 0;
	uint64_t ns = 0;
	char name[8];

#define TRY(call)                      \
	do {                           \
		failed += (call) != 0; \
		check_all(&fixture);   \
	} while (0)
	TRY(client_open(&fixture, &client));
	TRY(client_open(&fixture, &other));
	for (size_t i = 0; i < 2; i++)
		TRY(fixture_join(&fixture, i, 64 * MIB));
	reply = fixture_ask(&fixture, &client, ask_create("a", 0, 65536));
	failed += reply->status != 0;
	if (reply->status == 0)
		ns = reply->namespace_info->namespace_;
	drop(reply);
	TRY(fixture_do(&fixture, &client, ask_reserve(ns, 16 * MIB)));
	TRY(fixture_do(&fixture, &client, ask_key_add("guest", false)));
	TRY(fixture_do(&fixture, &client, ask_grant(ns, "guest", RIGHT_ALL)));
	TRY(client_open_as(&fixture, &guest, "guest"));
	TRY(fixture_do(&fixture, &guest, ask_alloc(ns, "guest", MIB, false)));
	TRY(fixture_do(&fixture, &client, ask_grant(ns, "guest", RIGHT_READ)));
	client_lose(&fixture, &guest); /* which that has ended, if it could be committed */
	TRY(client_open_as(&fixture, &guest, "guest"));
	TRY(fixture_do(&fixture, &guest, ask_open(ns, "guest", 0)));
	TRY(fixture_do(&fixture, &client, ask_key_revoke("guest")));
	client_lose(&fixture, &guest);
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		reply = fixture_ask(&fixture, &client, ask_alloc(ns, name, MIB + 5, false));
		failed += reply->status != 0;
		check_all(&fixture);
		TRY(fixture_do(&fixture, &other, ask_open(ns, name, 0)));
		if (reply->status == 0 && i > 0) {
			TRY(fixture_do(&fixture, &client,
				       ask_region_resize(reply->region_info, 2 * MIB)));
			TRY(fixture_do(&fixture, &client,
				       ask_region_resize(reply->region_info, MIB / 2)));
		}
		if (reply->status == 0 && i < 2)
			TRY(fixture_do(&fixture, &client, ask_seal(reply->region_info)));
		if (reply->status == 0 && i % 2 == 0) {
			TRY(fixture_do(&fixture, &client, ask_free(reply->region_info)));
			TRY(fixture_do(&fixture, &client, ask_close(reply->region_info)));
		}
		drop(reply);
	}
	fixture_disconnect(&fixture, 0);
	check_all(&fixture);
	TRY(fixture_join(&fixture, 0, 64 * MIB));
	TRY(fixture_do(&fixture, &client, ask_release(ns, 4 * MIB)));
	fixture_kill(&fixture, 1);
	TRY(fixture_join(&fixture, 1, 64 * MIB));
	TRY(close_session(&other));
	client_lose(&fixture, &client);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	check_all(&fixture);
	TRY(client_open(&fixture, &client));
	TRY(fixture_do(&fixture, &client, ask_delete("a", true)));
	failed += volume_scenario(&client);
	TRY(close_session(&client));
	return failed;
#undef TRY
}

/* One that was removed comes back as another. */
static void join_again(size_t index, uint64_t capacity)
{
	int status = fixture_join(&fixture, index, capacity);

	if (status == -AFAR_ELOST) {
		fixture_kill(&fixture, index);
		status = fixture_join(&fixture, index, capacity);
	}
	assert_int_equal(status, 0);
}

/* After whatever failed, everything can be cleaned up. */
static void clean_up(void)
{
	struct fake_client client;

	fixture.store.fail_at = 0;
	for (size_t i = 0; i < FIXTURE_SERVERS_MAX; i++)
		fixture.servers[i].is_silent = false;
	fixture_advance(&fixture, 10000);
	for (size_t i = 0; i < FIXTURE_SERVERS_MAX; i++)
		if (fixture.servers[i].capacity != 0)
			join_again(i, fixture.servers[i].capacity);
	fixture_advance(&fixture, 10000);
	fixture_advance(&fixture, 10000);
	assert_int_equal(client_open(&fixture, &client), 0);
	while (!cds_list_empty(&fixture.core->state->namespaces)) {
		struct namespace *ns = cds_list_first_entry(&fixture.core->state->namespaces,
							    struct namespace, node);

		assert_int_equal(fixture_do(&fixture, &client,
					    ns->is_volume ? ask_volume_delete(ns->name)
							  : ask_delete(ns->name, true)),
				 0);
	}
	assert_int_equal(fixture_do(&fixture, &client, ask_session_close()), 0);
	check_empty(&fixture);
	assert_true(cds_list_empty(&fixture.core->state->sessions));
}

static void test_every_commit_fails_once(void **state)
{
	uint64_t nr_commits;
	unsigned failed;

	(void)state;
	nr_commits = fixture.store.nr_commits;
	assert_int_equal(scenario(), 0);
	nr_commits = fixture.store.nr_commits - nr_commits;
	assert_true(nr_commits > 30);
	for (uint64_t at = 1; at <= nr_commits; at++) {
		fixture_close(&fixture);
		fixture_open(&fixture);
		fixture.store.fail_at = at;
		failed = scenario();
		/* It was told, unless nobody asked for that one. */
		assert_true(failed > 0 || fixture.store.fail_at == 0);
		clean_up();
	}
}

static void test_failed_commit_is_told_to_all_of_its_batch(void **state)
{
	Afar__Reply *replies[5] = {NULL};
	struct fake_client client;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	fixture_do(&fixture, &client, ask_reserve(ns, 16 * MIB));
	fixture.store.fail_at = 1;
	for (uint64_t i = 0; i < 4; i++)
		fixture_send(&fixture, &client, 100 + i,
			     ask_alloc(ns, i == 3 ? "\n" : "", MIB, false), &replies[i]);
	fixture_send(&fixture, &client, 104, ask_namespaces("", 0), &replies[4]);
	fixture_pump(&fixture);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(replies[i]->status, -ENOSPC);
		assert_non_null(strstr(replies[i]->message, "disk is full"));
		assert_null(replies[i]->region_info);
	}
	assert_int_equal(replies[3]->status, -EINVAL);
	assert_int_equal(replies[4]->status, 0); /* reading is not hurt */
	assert_int_equal(replies[4]->namespace_infos->entries[0]->nr_regions, 0);
	for (size_t i = 0; i < 5; i++)
		drop(replies[i]);
	check_all(&fixture);
	/* Requests of the same ids can be sent again, and are done then. */
	fixture_send(&fixture, &client, 100, ask_alloc(ns, "", MIB, false), &replies[0]);
	fixture_pump(&fixture);
	assert_int_equal(replies[0]->status, 0);
	drop(replies[0]);
	check_all(&fixture);
}

/* Runs the core when it asks to be run, as its writer does, until time alone brings nothing any more. */
static void run_out(void)
{
	for (int i = 0; i < 10 && core_next_run(fixture.core) != CORE_NEVER; i++) {
		if (fixture.now < core_next_run(fixture.core))
			fixture.now = core_next_run(fixture.core);
		fixture_pump(&fixture);
	}
	assert_int_equal(core_next_run(fixture.core), CORE_NEVER);
}

static size_t count_servers(void)
{
	struct server *server;
	size_t nr = 0;

	check_all(&fixture);
	cds_list_for_each_entry (server, &fixture.core->state->servers, node)
		nr++;
	return nr;
}

/* A server's record goes when it is down and holds nothing; that it could not be stored is no reason to
 * keep it for ever. */
static void test_forgetting_is_tried_again(void **state)
{
	(void)state;
	fixture_join(&fixture, 0, 64 * MIB);
	fixture_join(&fixture, 1, 64 * MIB);
	run_out();
	fixture.store.fail_at = 1;
	fixture_disconnect(&fixture, 0);
	assert_int_equal(fixture.store.fail_at, 0);
	assert_int_equal(count_servers(), 2);
	run_out();
	assert_int_equal(count_servers(), 1);
	/* A server that does not come back after a restart goes in the same way. */
	fixture_restart(&fixture);
	assert_int_equal(count_servers(), 1);
	fixture.store.fail_at = 1;
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	assert_int_equal(fixture.store.fail_at, 0);
	assert_int_equal(count_servers(), 1);
	run_out();
	assert_int_equal(count_servers(), 0);
}

/* Where there is no room for what clients want, the end of a lease makes some. Those who try again and again do not
 * hold it up. */
static void test_leases_end_among_failures(void **state)
{
	struct fake_client greedy, gone;
	Afar__Reply *reply = NULL;

	(void)state;
	client_open(&fixture, &greedy);
	client_open(&fixture, &gone);
	client_lose(&fixture, &gone);
	for (uint64_t i = 0; i < 20; i++) {
		fixture.store.fail_at = 1;
		fixture_send(&fixture, &greedy, 100 + i, ask_create("a", 0, 0), &reply);
		fixture_advance(&fixture, FIXTURE_LEASE_MS / 5);
		assert_int_equal(reply->status, -ENOSPC);
		drop(reply);
	}
	fixture.store.fail_at = 0;
	assert_int_equal(client_resume(&fixture, &gone), -AFAR_ESESSION);
	check_all(&fixture);
}

/* ---- Servers that lie */

/* The server named one extent twice: it is out, and comes back with what it really has. */
static void expect_out(size_t index, size_t nr_extents)
{
	assert_null(fixture.servers[index].peer);
	check_all(&fixture);
	fixture.servers[index].does_grant_twice = false;
	assert_int_equal(fixture_join(&fixture, index, 64 * MIB), 0);
	assert_int_equal(fixture.servers[index].nr_extents, nr_extents);
	check_all(&fixture);
}

/* Nobody but the server that lies is hurt: whoever reserves gets everything from the other. */
static void test_extent_named_twice(void **state)
{
	Afar__Reply *first, *second;
	struct fake_client client;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	fixture_join(&fixture, 1, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	/* In one answer. */
	fixture.servers[0].does_grant_twice = true;
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 16 * MIB)), 0);
	assert_int_equal(fixture.servers[1].granted, 16 * MIB);
	expect_out(0, 0);
	/* One that it granted long ago. */
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 4 * MIB)), 0);
	assert_int_equal(fixture.servers[0].nr_extents, 1);
	fixture.servers[0].does_grant_twice = true;
	assert_int_equal(fixture_do(&fixture, &client, ask_reserve(ns, 4 * MIB)), 0);
	expect_out(0, 1);
	/* One that a reservation got which still waits for the other server. */
	fixture.servers[1].is_silent = true;
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 4 * MIB), &first);
	fixture_pump(&fixture);
	assert_int_equal(fixture.servers[0].nr_extents, 2);
	fixture.servers[0].does_grant_twice = true;
	fixture_send(&fixture, &client, ++client.next_id, ask_reserve(ns, 4 * MIB), &second);
	fixture_pump(&fixture);
	assert_null(first);
	assert_null(second);
	fixture.servers[1].is_silent = false;
	fixture_pump(&fixture);
	assert_int_equal(first->status, 0);
	assert_int_equal(second->status, 0);
	drop(first);
	drop(second);
	expect_out(0, 1);
}

/* ---- Requests that come again while they are done */

#define AGAIN	    32
#define AGAIN_BYTES ((size_t)MIB)

/* With a field that this version does not know, as large as a message may be. */
static Afar__Request *ask_reserve_at_length(uint64_t ns, uint64_t bytes)
{
	Afar__Request *request = ask_reserve(ns, bytes);
	ProtobufCMessageUnknownField *field = calloc(1, sizeof(*field));

	field->tag = 1000;
	field->wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
	field->len = AGAIN_BYTES;
	field->data = calloc(1, AGAIN_BYTES);
	request->base.n_unknown_fields = 1;
	request->base.unknown_fields = field;
	return request;
}

static size_t memory_in_use(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* A reservation takes as long as the server likes, and its client may lose its connection and ask again as
 * often as it likes. All are answered, once, though their requests are not kept. */
static void test_requests_that_wait_hold_no_memory(void **state)
{
	static Afar__Reply *replies[AGAIN]; /* answered by the teardown if this fails */
	struct fake_client client;
	size_t before;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	fixture_join(&fixture, 0, 64 * MIB);
	ns = make_namespace(&fixture, &client, "a");
	fixture.servers[0].is_silent = true;
	before = memory_in_use();
	for (size_t i = 0; i < AGAIN; i++) {
		fixture_send(&fixture, &client, 100, ask_reserve_at_length(ns, 8 * MIB),
			     &replies[i]);
		fixture_pump(&fixture);
		assert_null(replies[i]);
		if (i % 4 != 0)
			continue;
		client_lose(&fixture, &client);
		assert_int_equal(client_resume(&fixture, &client), 0);
	}
	assert_true(memory_in_use() < before + 4 * AGAIN_BYTES);
	/* A failed commit fails all of them; then it is done once. */
	for (int is_done = 0; is_done < 2; is_done++) {
		fixture.store.fail_at = !is_done;
		fixture.servers[0].is_silent = false;
		fixture_pump(&fixture);
		for (size_t i = 0; i < AGAIN; i++) {
			assert_non_null(replies[i]);
			assert_int_equal(replies[i]->status, is_done ? 0 : -ENOSPC);
			drop(replies[i]);
		}
		check_all(&fixture);
		fixture.servers[0].is_silent = true;
		for (size_t i = 0; i < AGAIN && !is_done; i++)
			fixture_send(&fixture, &client, 100, ask_reserve_at_length(ns, 8 * MIB),
				     &replies[i]);
		fixture_pump(&fixture);
	}
	fixture.servers[0].is_silent = false;
	assert_int_equal(fixture.servers[0].granted, 8 * MIB);
	check_all(&fixture);
}

/* ---- Random lives */

#define LIVES_CLIENTS 3
#define LIVES_OPEN    40

static bool is_connected(const struct fake_client *client)
{
	const struct session *session = state_session(fixture.core->state, client->session);

	return client->peer != NULL && session != NULL && session->live != NULL &&
	       session->live->peer == client->peer;
}

/* Nobody's session has used a namespace that its principal may not read, or has it open. */
static void check_fenced(void)
{
	const struct session *session;
	const struct namespace *ns;

	cds_list_for_each_entry (session, &fixture.core->state->sessions, node) {
		for (size_t i = 0; i < session->nr_namespaces; i++) {
			ns = state_namespace(fixture.core->state, session->namespaces[i]);
			assert_true(ns == NULL ||
				    rights_of(fixture.core, session->principal, ns) != 0);
		}
	}
}

/* A client whose session was ended, or lost its connection on the way to that, opens it again or
 * another. One whose key was revoked gets another first. */
static void come_back(struct fake_client *admin, struct fake_client *client)
{
	const char *principal = client->principal;
	Afar__Reply *reply;

	if (is_connected(client))
		return;
	if (core_principal_kind(fixture.core, principal) == PRINCIPAL_UNKNOWN) {
		fixture_send(&fixture, admin, ++admin->next_id, ask_key_add(principal, false),
			     &reply);
		fixture_pump(&fixture);
		assert_int_equal(reply->status, 0);
		drop(reply);
	}
	if (client_resume(&fixture, client) != 0)
		assert_int_equal(client_open_as(&fixture, client, principal), 0);
}

/* A reservation that waits for a server, and is cancelled, or whose client goes away, for good or not. */
static void random_reservation(struct fake_client *client, uint64_t ns, struct fake_server *server)
{
	uint64_t kind = random_below(4);
	Afar__Reply *reply;

	server->is_silent = true;
	fixture_send(&fixture, client, ++client->next_id,
		     ask_reserve(ns, 1 + random_below(20 * MIB)), &reply);
	fixture_pump(&fixture);
	if (kind == 0)
		fixture_do(&fixture, client, ask_cancel(ns));
	else if (kind < 3)
		client_lose(&fixture, client);
	for (size_t i = 0; i < 3; i++)
		fixture.servers[i].is_silent = false;
	fixture_pump(&fixture);
	if (kind == 1)
		client_resume(&fixture, client);
	for (unsigned i = 0; i < 4 && reply == NULL; i++)
		fixture_advance(&fixture, FIXTURE_LEASE_MS);
	assert_non_null(reply);
	drop(reply);
}

/* A session has got keys of what it has in stores. */
static void confirm_extents(struct fake_store *store)
{
	const struct layout_home home = {.life = store->number, .is_store = true};

	for (size_t i = 0; i < store->nr_extents; i++)
		if (state_extent(fixture.core->state, &home, store->extents[i].number) != NULL)
			store->extents[i].is_provisional = false;
}

/* Two servers end, and each begins again with the other's device. */
static void exchange_devices(size_t one, size_t other)
{
	struct fake_store *device = fixture.servers[one].stores[0];

	if (fixture.servers[one].nr_stores != 1 || fixture.servers[other].nr_stores != 1)
		return;
	fixture_kill(&fixture, one);
	fixture_kill(&fixture, other);
	fixture.servers[one].stores[0] = fixture.servers[other].stores[0];
	fixture.servers[other].stores[0] = device;
}

/* An operator takes a device from the server that has it, or gives it to one. */
static void change_device(struct fake_client *admin, size_t index, size_t receiver)
{
	const struct fake_store *device = &fixture.stores[index];

	for (size_t i = 0; i < 3; i++)
		for (size_t j = 0; j < fixture.servers[i].nr_stores; j++)
			if (fixture.servers[i].stores[j] == device) {
				fixture_do(&fixture, admin, ask_store_remove(device->number));
				return;
			}
	if (fixture.servers[receiver].peer != NULL)
		fixture_lend(&fixture, receiver, index, 64 * MIB, NULL);
	fixture_pump(&fixture);
}

/* One makes a volume, and all may write to it; any of that may fail. */
static void make_random_volume(struct fake_client *client)
{
	Afar__Request *request = ask_volume("v");
	Afar__Reply *reply;
	uint64_t ns;

	request->namespace_create->policy->tier = (uint32_t)random_below(2);
	reply = fixture_ask(&fixture, client, request);
	ns = reply->status == 0 ? reply->namespace_info->namespace_ : 0;
	drop(reply);
	if (ns == 0)
		return;
	fixture_do(&fixture, client, ask_reserve(ns, 16 * MIB));
	fixture_do(&fixture, client, ask_grant(ns, "alice", RIGHT_ALL));
	fixture_do(&fixture, client, ask_grant(ns, "bob", RIGHT_ALL));
	reply = fixture_ask(&fixture, client,
			    ask_volume_alloc(ns, (1 + random_below(2048)) * 4096));
	if (reply->status == 0) {
		fixture_do(&fixture, client, ask_finish(reply->region_info));
		fixture_do(&fixture, client, ask_close(reply->region_info));
	}
	drop(reply);
}

/* Something is done with it, by whom it may be done or not. */
static void random_volume(struct fake_client *client)
{
	struct namespace *ns = state_namespace_named(fixture.core->state, "v");
	struct region *region = ns && !cds_list_empty(&ns->regions)
					? cds_list_first_entry(&ns->regions, struct region, node)
					: NULL;
	Afar__RegionInfo info = AFAR__REGION_INFO__INIT;
	Afar__Request *request;

	if (!region) {
		if (ns)
			fixture_do(&fixture, client, ask_volume_delete("v"));
		make_random_volume(client);
		return;
	}
	info.namespace_ = ns->number;
	info.address = region->address;
	info.generation = region->generation;
	switch (random_below(16)) {
	case 0:
		request = ask_volume_delete("v");
		break;
	case 1:
		request = random_below(2) ? ask_seal(&info) : ask_free(&info);
		break;
	case 2:
	case 3:
		request = ask_take_over(ns->number, (uint32_t)random_below(4));
		break;
	case 4:
	case 5:
	case 6:
		request = ask_close(&info);
		break;
	case 7:
		request = random_below(2) ? ask_reserve(ns->number, 1 + random_below(20 * MIB))
					  : ask_release(ns->number, 1 + random_below(20 * MIB));
		break;
	case 8:
		request = ask_grant(ns->number, random_below(2) ? "alice" : "bob",
				    (uint32_t[]){0, 1, 3, 3}[random_below(4)]);
		break;
	case 9:
	case 10:
	case 11:
		request = ask_resize(ns->number, (1 + random_below(4096)) * 4096);
		break;
	default:
		request = ask_volume_open(ns->number, 1 + (uint32_t)random_below(3));
		break;
	}
	fixture.time_ns = CORE_RETRY_NS / 2; /* a former holder's server may be away */
	fixture_do(&fixture, client, request);
	fixture.time_ns = 0;
}

/* Nobody else writes to a volume that is open exclusively. A session that has ended counts until it is
 * fenced. */
static void check_volume(void)
{
	struct namespace *ns = state_namespace_named(fixture.core->state, "v");
	const struct reference *reference;
	unsigned nr_writers = 0, nr_exclusive = 0;

	if (!ns || cds_list_empty(&ns->regions))
		return;
	cds_list_for_each_entry (
		reference, &cds_list_first_entry(&ns->regions, struct region, node)->references,
		region_node) {
		assert_int_not_equal(reference->mode, VOLUME_NONE);
		nr_writers += reference->mode != VOLUME_READ_ONLY;
		nr_exclusive += reference->mode == VOLUME_EXCLUSIVE;
	}
	assert_true(nr_exclusive == 0 || nr_writers == 1);
}

static void random_life(unsigned nr_steps)
{
	struct fake_client clients[LIVES_CLIENTS];
	struct {
		Afar__Reply *reply;
		size_t client;
	} open[LIVES_OPEN];
	static const char *const names[] = {"admin", "alice", "bob"};
	struct fake_client admin;
	size_t nr_open = 0;

	for (size_t i = 0; i < 3; i++) {
		fixture_plug(&fixture, i, i, 64 * MIB);
		assert_int_equal(fixture_join(&fixture, i, 64 * MIB), 0);
	}
	assert_int_equal(client_open(&fixture, &admin), 0);
	for (size_t i = 1; i < LIVES_CLIENTS; i++)
		assert_int_equal(fixture_do(&fixture, &admin, ask_key_add(names[i], false)), 0);
	for (size_t i = 0; i < LIVES_CLIENTS; i++)
		assert_int_equal(client_open_as(&fixture, &clients[i], names[i]), 0);
	for (unsigned step = 0; step < nr_steps; step++) {
		size_t who = random_below(LIVES_CLIENTS), which = random_below(LIVES_OPEN);
		struct fake_client *client = &clients[who];
		char name[16], region[16];
		struct namespace *ns;
		uint64_t number, kind;
		Afar__Request *create;
		Afar__Reply *reply;

		snprintf(name, sizeof(name), "n%u", (unsigned)random_below(3));
		snprintf(region, sizeof(region), "r%u", (unsigned)random_below(8));
		ns = state_namespace_named(fixture.core->state, name);
		number = ns != NULL ? ns->number : 1000000;
		kind = random_below(38);
		if ((kind < 15 || kind > 17) && random_below(20) == 0)
			fixture.store.fail_at = 1 + random_below(2);
		switch (kind) {
		case 0:
			create = ask_create(name, (uint32_t)random_below(4), 4096);
			create->namespace_create->policy->tier = (uint32_t)random_below(2);
			fixture_do(&fixture, client, create);
			break;
		case 1:
			if (random_below(4) == 0)
				fixture_do(&fixture, client,
					   ask_delete(name, random_below(2) != 0));
			break;
		case 2:
		case 3:
			fixture_do(&fixture, client,
				   ask_reserve(number, 1 + random_below(20 * MIB)));
			break;
		case 4:
			fixture_do(&fixture, client, ask_release(number, random_below(20 * MIB)));
			break;
		case 5:
		case 6:
		case 7:
		case 8:
		case 9:
			reply = fixture_ask(
				&fixture, client,
				random_below(9) == 0
					? ask_temporary(number, region, 1 + random_below(2 * MIB))
				: random_below(3) != 0
					? ask_alloc(number, random_below(2) ? region : "",
						    1 + random_below(2 * MIB), random_below(9) == 0)
					: ask_open(number, region, AFAR_FIRST_ADDRESS));
			if (reply->status == 0 && nr_open < LIVES_OPEN) {
				open[nr_open].client = who;
				open[nr_open++].reply = reply;
			} else {
				drop(reply);
			}
			break;
		case 10:
		case 11:
			if (which < nr_open)
				fixture_do(&fixture, client,
					   ask_free(open[which].reply->region_info));
			break;
		case 12:
		case 13:
		case 14:
			if (which >= nr_open)
				break;
			fixture_do(&fixture, &clients[open[which].client],
				   ask_close(open[which].reply->region_info));
			drop(open[which].reply);
			open[which] = open[--nr_open];
			break;
		case 15:
			if (random_below(2) == 0) {
				client_lose(&fixture, client);
				assert_int_equal(client_resume(&fixture, client), 0);
			} else {
				fixture_do(&fixture, client, ask_session_close());
				client_open_as(&fixture, client, names[who]);
			}
			break;
		case 16: {
			struct fake_server *server = &fixture.servers[which % 3];

			if (random_below(3) == 0)
				server->is_silent = !server->is_silent && random_below(2) == 0;
			else if (random_below(3) == 0 && server->peer != NULL)
				fixture_kill(&fixture, which % 3);
			else if (server->peer != NULL)
				fixture_disconnect(&fixture, which % 3);
			fixture_pump(&fixture);
			break;
		}
		case 17:
			for (size_t i = 0; i < 3; i++) {
				fixture.servers[i].is_silent = false;
				if (fixture.servers[i].peer == NULL)
					join_again(i, 64 * MIB);
			}
			fixture_pump(&fixture);
			if (random_below(10) == 0) {
				fixture_restart(&fixture);
				for (size_t i = 0; i < 3; i++)
					join_again(i, 64 * MIB);
				for (size_t i = 0; i < LIVES_CLIENTS; i++)
					assert_int_equal(client_resume(&fixture, &clients[i]), 0);
				assert_int_equal(client_resume(&fixture, &admin), 0);
			}
			break;
		case 18:
		case 19:
			fixture_do(&fixture, &admin,
				   ask_grant(number, names[1 + random_below(2)],
					     (uint32_t[]){0, 1, 3, 3}[random_below(4)]));
			break;
		case 20:
			if (random_below(3) == 0)
				fixture_do(&fixture, &admin,
					   ask_key_revoke(names[1 + random_below(2)]));
			break;
		case 21:
		case 22:
			if (which >= nr_open)
				break;
			if (random_below(8) == 0)
				fixture.servers[random_below(3)].refuse_to_seal = -ENOMEM;
			fixture_do(&fixture, &clients[open[which].client],
				   random_below(2)
					   ? ask_seal(open[which].reply->region_info)
					   : ask_region_resize(open[which].reply->region_info,
							       1 + random_below(20 * MIB)));
			for (size_t i = 0; i < 3; i++)
				fixture.servers[i].refuse_to_seal = 0;
			break;
		case 23:
			fixture_do(&fixture, &admin,
				   ask_server_remove(fixture.servers[which % 3].number));
			break;
		case 24:
			random_reservation(client, number, &fixture.servers[which % 3]);
			break;
		case 25:
			confirm_extents(&fixture.stores[which % 3]);
			break;
		case 26:
			if (random_below(3) == 0)
				exchange_devices(which % 3, (which + 1) % 3);
			break;
		case 27:
			if (random_below(3) == 0)
				fixture.stores[which % 3].refuse_to_trim = -EIO;
			else if (random_below(4) == 0)
				fixture_do(&fixture, &admin,
					   ask_store_forget(fixture.stores[which % 3].number));
			break;
		case 28:
			change_device(&admin, which % 3, random_below(3));
			break;
		case 29:
			fixture_do(&fixture, &admin,
				   ask_free_orphans(fixture.stores[which % 3].number));
			break;
		default:
			random_volume(client);
			break;
		}
		fixture.store.fail_at = 0;
		check_all(&fixture);
		check_fenced();
		check_volume();
		for (size_t i = 0; i < 3; i++)
			fixture.stores[i].refuse_to_trim = 0;
		for (size_t i = 0; i < LIVES_CLIENTS; i++)
			come_back(&admin, &clients[i]);
		fixture_advance(&fixture, 100);
	}
	while (nr_open > 0)
		drop(open[--nr_open].reply);
	for (size_t i = 0; i < LIVES_CLIENTS; i++)
		client_lose(&fixture, &clients[i]);
	client_lose(&fixture, &admin);
}

static void test_random_lives(void **state)
{
	(void)state;
	for (int round = 0; round < 30; round++) {
		fixture_close(&fixture);
		fixture_open(&fixture);
		random_life(300);
		clean_up();
	}
}

TEST_GROUP(manager_faults)
{
	const struct CMUnitTest tests[] = {
		TEST(test_every_commit_fails_once),
		TEST(test_failed_commit_is_told_to_all_of_its_batch),
		TEST(test_forgetting_is_tried_again),
		TEST(test_leases_end_among_failures),
		TEST(test_extent_named_twice),
		TEST(test_requests_that_wait_hold_no_memory),
		TEST(test_random_lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
