/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixture of the manager's tests. Everything here asserts by cmocka. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "manager/placement.h"
#include "manager_fixture.h"

/* ---- The core's environment */

struct server_call {
	struct cds_list_head node;
	void *peer;
	Afar__Request *request;
	struct outgoing *outgoing;
};

static void *copy_message(const ProtobufCMessage *message)
{
	size_t length = protobuf_c_message_get_packed_size(message);
	uint8_t *bytes = malloc(length + 1);
	void *copy;

	assert_non_null(bytes);
	protobuf_c_message_pack(message, bytes);
	copy = protobuf_c_message_unpack(message->descriptor, NULL, length, bytes);
	assert_non_null(copy);
	free(bytes);
	return copy;
}

static uint64_t fake_now(void *context)
{
	return ((struct fixture *)context)->now;
}

static void fake_answer(void *context, void *call, Afar__Reply *reply)
{
	Afar__Reply **answer = call;

	((struct fixture *)context)->nr_answers++;
	assert_true(reply->status <= 0);
	/* One clear line, always. */
	assert_true(reply->status == 0 || reply->message[0] != '\0');
	if (answer == NULL || ((struct fixture *)context)->does_drop_answers)
		return;
	assert_null(*answer);
	*answer = copy_message(&reply->base);
}

static struct fake_server *server_of_peer(struct fixture *fixture, void *peer)
{
	for (size_t i = 0; i < FIXTURE_SERVERS_MAX; i++)
		if (fixture->servers[i].peer == peer)
			return &fixture->servers[i];
	return NULL;
}

static int fake_call(void *context, void *peer, uint64_t deadline, Afar__Request *request,
		     struct outgoing *outgoing)
{
	struct fixture *fixture = context;
	struct server_call *call;

	/* Closed, which the core has still to hear. */
	if (server_of_peer(fixture, peer) == NULL &&
	    (request->call_case != AFAR__REQUEST__CALL_LOOK || fixture->look_answer == NULL))
		return -ENOTCONN;
	call = calloc(1, sizeof(*call));
	assert_non_null(call);
	assert_true(deadline > fixture->now);
	/* The end of a session may wait for a client that is stopped. */
	assert_true((deadline == CORE_NEVER) ==
		    (request->call_case == AFAR__REQUEST__CALL_SESSION_END));
	call->peer = peer;
	call->request = copy_message(&request->base);
	call->outgoing = outgoing;
	cds_list_add_tail(&call->node, &fixture->calls);
	return 0;
}

static uint64_t number_of(const void *peer)
{
	return (uint64_t)(uintptr_t)peer;
}

static const char *fake_principal(void *context, void *peer)
{
	return ((struct fixture *)context)->principals[number_of(peer)];
}

static void submit(struct fixture *fixture, struct event *event)
{
	cds_list_add_tail(&event->node, &fixture->events);
}

static void end_call(struct fixture *fixture, struct server_call *call, Afar__Reply *reply,
		     int status)
{
	struct event *event = event_new(EVENT_ANSWER, call->peer);

	assert_non_null(event);
	event->outgoing = call->outgoing;
	event->answer = reply;
	event->status = status;
	submit(fixture, event);
	cds_list_del(&call->node);
	afar__request__free_unpacked(call->request, NULL);
	free(call);
}

/* As rpc does: first the calls end, then the connection. */
static void drop_peer(struct fixture *fixture, void *peer)
{
	struct server_call *call, *next;

	cds_list_for_each_entry_safe (call, next, &fixture->calls, node)
		if (call->peer == peer)
			end_call(fixture, call, NULL, -ECONNRESET);
	submit(fixture, event_new(EVENT_GONE, peer));
}

static void fake_close_peer(void *context, void *peer)
{
	struct fixture *fixture = context;

	for (size_t i = 0; i < FIXTURE_SERVERS_MAX; i++) {
		if (fixture->servers[i].peer != peer)
			continue;
		fixture->servers[i].peer = NULL;
		drop_peer(fixture, peer);
		return;
	}
	/* A client's; it learns of it by its next call. */
}

static void fake_close_principal(void *context, const char *principal)
{
	struct fixture *fixture = context;

	for (uint64_t i = 1; i <= fixture->next_peer; i++) {
		if (fixture->principals[i] == NULL ||
		    strcmp(fixture->principals[i], principal) != 0)
			continue;
		fixture->principals[i] = NULL;
		fake_close_peer(fixture, (void *)(uintptr_t)i);
	}
}

static void fake_forget_peer(void *context, void *peer)
{
	(void)context;
	(void)peer;
}

static void *new_peer(struct fixture *fixture, const char *principal)
{
	uint64_t number = ++fixture->next_peer;

	fixture->principals =
		reallocarray(fixture->principals, number + 1, sizeof(*fixture->principals));
	assert_non_null(fixture->principals);
	fixture->principals[number] = principal;
	return (void *)(uintptr_t)number;
}

/* ---- Servers */

static Afar__Reply *status_reply(int status)
{
	Afar__Reply *reply = MESSAGE_NEW(afar__reply, Afar__Reply);

	assert_non_null(reply);
	reply->status = status;
	return reply;
}

/* In two extents when there is enough for two: layouts then have to deal with it. */
static Afar__Reply *grant(struct fake_server *server, const Afar__ExtentsReserve *ask)
{
	uint64_t parts[2] = {ask->bytes, 0};
	Afar__Reply *reply;

	if (server->refuse != 0)
		return status_reply(server->refuse);
	if (ask->bytes > server->capacity - server->granted)
		return status_reply(-ENOSPC);
	assert_true(ask->bytes > 0 && ask->bytes % PLACEMENT_EXTENT_UNIT == 0);
	if (server->does_grant_wrong)
		parts[0] = PLACEMENT_EXTENT_UNIT;
	else if (ask->bytes >= 6 * MIB) {
		parts[0] = ask->bytes / (4 * MIB) * (2 * MIB);
		parts[1] = ask->bytes - parts[0];
	}
	reply = status_reply(0);
	reply->result_case = AFAR__REPLY__RESULT_EXTENTS;
	reply->extents = MESSAGE_NEW(afar__extents, Afar__Extents);
	reply->extents->extents = calloc(2, sizeof(Afar__Extent *));
	for (size_t i = 0; i < 2 && parts[i] != 0; i++) {
		Afar__Extent *extent = MESSAGE_NEW(afar__extent, Afar__Extent);
		bool is_repeated = server->does_grant_twice && server->nr_extents > 0;

		assert_true(server->nr_extents < FIXTURE_EXTENTS_MAX);
		extent->extent = is_repeated ? server->extents[server->nr_extents - 1].number
					     : ++server->next_extent;
		extent->namespace_ = ask->namespace_;
		extent->length = parts[i];
		extent->is_sealed = ask->is_sealed;
		reply->extents->extents[reply->extents->n_extents++] = extent;
		if (is_repeated)
			continue;
		server->extents[server->nr_extents++] = (struct fake_extent){
			extent->extent, extent->namespace_, extent->length, extent->is_sealed != 0};
		server->granted += extent->length;
	}
	return reply;
}

static void release(struct fake_server *server, uint64_t number)
{
	server->nr_released++;
	for (size_t i = 0; i < server->nr_extents; i++) {
		if (server->extents[i].number != number)
			continue;
		server->granted -= server->extents[i].length;
		server->extents[i] = server->extents[--server->nr_extents];
		return;
	}
}

static const struct fake_extent *find_extent(const struct fake_server *server, uint64_t number)
{
	for (size_t i = 0; i < server->nr_extents; i++)
		if (server->extents[i].number == number)
			return &server->extents[i];
	return NULL;
}

static void check_range(const struct fake_server *server, uint64_t number, bool is_sealed,
			uint64_t ns, uint64_t offset, uint64_t length)
{
	const struct fake_extent *extent = find_extent(server, number);

	assert_int_equal(extent->is_sealed, is_sealed);
	assert_int_equal(extent->namespace, ns);
	assert_true(offset + length <= extent->length);
}

/* From what is not sealed to what is, with room for the sums. */
static Afar__Reply *seal(struct fake_server *server, const Afar__ExtentsSeal *ask)
{
	if (server->refuse_to_seal != 0)
		return status_reply(server->refuse_to_seal);
	assert_true(ask->n_moves > 0);
	for (size_t i = 0; i < ask->n_moves; i++) {
		const Afar__SealMove *move = ask->moves[i];

		assert_true(move->length != 0 && move->length % 4096 == 0);
		if (find_extent(server, move->from) == NULL ||
		    find_extent(server, move->to) == NULL)
			return status_reply(-AFAR_ELOST);
		check_range(server, move->from, false, ask->namespace_, move->from_offset,
			    move->length);
		check_range(server, move->to, true, ask->namespace_, move->to_offset,
			    move->length + checksum_bytes(move->length));
		server->nr_moved += move->length;
	}
	server->nr_seals++;
	return status_reply(0);
}

static Afar__Reply *serve(struct fake_server *server, const Afar__Request *request)
{
	switch (request->call_case) {
	case AFAR__REQUEST__CALL_EXTENTS_RESERVE:
		return grant(server, request->extents_reserve);
	case AFAR__REQUEST__CALL_EXTENTS_RELEASE:
		for (size_t i = 0; i < request->extents_release->n_extents; i++)
			release(server, request->extents_release->extents[i]);
		return status_reply(0);
	case AFAR__REQUEST__CALL_EXTENTS_SEAL:
		return seal(server, request->extents_seal);
	case AFAR__REQUEST__CALL_SESSION_END:
		server->nr_session_ends++;
		return status_reply(0);
	case AFAR__REQUEST__CALL_PING:
		return status_reply(0);
	case AFAR__REQUEST__CALL_LOOK:
		return answer_look(server->nr_moved_in);
	default:
		fail_msg("a server is asked call %d", (int)request->call_case);
		return NULL;
	}
}

bool fixture_serve(struct fixture *fixture)
{
	struct server_call *call;

	cds_list_for_each_entry (call, &fixture->calls, node) {
		struct fake_server *server = server_of_peer(fixture, call->peer);

		if (server == NULL) {
			if (fixture->are_clients_silent)
				continue;
			assert_int_equal(call->request->call_case, AFAR__REQUEST__CALL_LOOK);
			fixture->nr_looks++;
			end_call(fixture, call, copy_message(&fixture->look_answer->base), 0);
			return true;
		}
		if (server->is_silent ||
		    (server->does_hold_seals &&
		     call->request->call_case == AFAR__REQUEST__CALL_EXTENTS_SEAL))
			continue;
		end_call(fixture, call, serve(server, call->request), 0);
		return true;
	}
	return false;
}

void fixture_pump(struct fixture *fixture)
{
	do {
		core_run(fixture->core, &fixture->events);
	} while (fixture_serve(fixture) || !cds_list_empty(&fixture->events));
}

void fixture_advance(struct fixture *fixture, uint64_t ms)
{
	fixture->now += ms * 1000000U;
	fixture_pump(fixture);
}

static Afar__Request *join_request(const struct fake_server *server, size_t index)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__ServerJoin *join = MESSAGE_NEW(afar__server_join, Afar__ServerJoin);
	Afar__Server *self = MESSAGE_NEW(afar__server, Afar__Server);
	char text[64];

	request->call_case = AFAR__REQUEST__CALL_SERVER_JOIN;
	request->server_join = join;
	join->self = self;
	self->server = server->number;
	snprintf(text, sizeof(text), "server-%zu", index);
	self->name = strdup(text);
	self->incarnation = server->incarnation;
	snprintf(text, sizeof(text), "127.0.0.1:%zu", 7500 + index);
	self->control_address = strdup(text);
	self->lanes = calloc(1, sizeof(*self->lanes));
	self->lanes[0] = MESSAGE_NEW(afar__lane, Afar__Lane);
	self->lanes[0]->transport = strdup("tcp");
	self->lanes[0]->address = strdup("127.0.0.1:9000");
	self->n_lanes = 1;
	join->cluster = strdup(server->cluster);
	join->capacity_bytes = server->capacity;
	join->age_s = server->age_s;
	join->signing_key.data = malloc(SIGNING_KEY_BYTES);
	memcpy(join->signing_key.data, server->signing_key, SIGNING_KEY_BYTES);
	join->signing_key.len = SIGNING_KEY_BYTES - server->does_cut_key;
	join->extents = calloc(server->nr_extents + 1, sizeof(*join->extents));
	for (size_t i = 0; i < server->nr_extents; i++) {
		Afar__Extent *extent = MESSAGE_NEW(afar__extent, Afar__Extent);

		extent->extent = server->extents[i].number;
		extent->namespace_ = server->extents[i].namespace;
		extent->length = server->extents[i].length;
		extent->is_sealed = server->extents[i].is_sealed;
		join->extents[join->n_extents++] = extent;
	}
	return request;
}

static void send_event(struct fixture *fixture, void *peer, uint64_t session, uint64_t id,
		       Afar__Request *request, Afar__Reply **answer)
{
	struct event *event = event_new(EVENT_REQUEST, peer);

	assert_non_null(event);
	*answer = NULL;
	event->call = answer;
	event->session = session;
	event->request_id = id;
	event->deadline = fixture->time_ns ? fixture->now + fixture->time_ns : CORE_NEVER;
	event->request = request;
	submit(fixture, event);
}

int fixture_join(struct fixture *fixture, size_t index, uint64_t capacity)
{
	struct fake_server *server = &fixture->servers[index];
	Afar__Reply *reply;
	int status;

	server->peer = new_peer(fixture, server->principal != NULL ? server->principal : "server");
	server->capacity = capacity;
	if (server->incarnation == 0) {
		server->incarnation = 1000 + fixture->next_peer;
		memset(server->signing_key, (int)server->incarnation, SIGNING_KEY_BYTES);
	}
	send_event(fixture, server->peer, 0, 1, join_request(server, index), &reply);
	core_run(fixture->core, &fixture->events);
	assert_non_null(reply);
	status = reply->status;
	if (status == 0) {
		server->number = reply->server_joined->server;
		snprintf(server->cluster, sizeof(server->cluster), "%s",
			 reply->server_joined->cluster);
		for (size_t i = 0; i < reply->server_joined->n_release; i++)
			release(server, reply->server_joined->release[i]);
	}
	afar__reply__free_unpacked(reply, NULL);
	fixture_pump(fixture);
	return status;
}

void fixture_disconnect(struct fixture *fixture, size_t index)
{
	void *peer = fixture->servers[index].peer;

	fixture->servers[index].peer = NULL;
	if (peer != NULL)
		drop_peer(fixture, peer);
	fixture_pump(fixture);
}

void fixture_kill(struct fixture *fixture, size_t index)
{
	struct fake_server *server = &fixture->servers[index];

	server->nr_extents = 0;
	server->granted = 0;
	server->incarnation = 0;
	fixture_disconnect(fixture, index);
}

/* ---- The whole */

static void start_core(struct fixture *fixture)
{
	struct core_environment environment = {
		.context = fixture,
		.now = fake_now,
		.answer = fake_answer,
		.call = fake_call,
		.principal = fake_principal,
		.close_peer = fake_close_peer,
		.close_principal = fake_close_principal,
		.forget_peer = fake_forget_peer,
	};
	static const struct key admin = {.identity = "admin"}, server = {.identity = "server"};
	const struct key_list operators = {&admin, 1}, servers = {&server, 1};
	struct core_options options = {.lease_ms = FIXTURE_LEASE_MS, .incarnation = 99};

	assert_int_equal(keyring_open(&operators, &servers, &fixture->keyring), 0);
	options.keyring = fixture->keyring;
	assert_int_equal(core_open(&fixture->store.base, &environment, &options, &fixture->core),
			 0);
}

void fixture_open(struct fixture *fixture)
{
	memset(fixture, 0, sizeof(*fixture));
	fixture->now = 1000000000U;
	CDS_INIT_LIST_HEAD(&fixture->calls);
	CDS_INIT_LIST_HEAD(&fixture->events);
	fixture->principals = calloc(1, sizeof(*fixture->principals)); /* no peer has number 0 */
	assert_non_null(fixture->principals);
	memory_store_open(&fixture->store);
	start_core(fixture);
}

static void stop_core(struct fixture *fixture)
{
	struct server_call *call, *next;
	struct event *event, *next_event;

	for (size_t i = 0; i < FIXTURE_SERVERS_MAX; i++)
		if (fixture->servers[i].peer != NULL)
			fixture_disconnect(fixture, i);
	cds_list_for_each_entry_safe (call, next, &fixture->calls, node)
		fail_msg("a call is left");
	core_close(fixture->core);
	keyring_close(fixture->keyring);
	cds_list_for_each_entry_safe (event, next_event, &fixture->events, node)
		event_free(event);
	CDS_INIT_LIST_HEAD(&fixture->events);
}

void fixture_restart(struct fixture *fixture)
{
	/* As a killed manager: its own stopping must not change what is stored. */
	fixture->store.is_broken = true;
	stop_core(fixture);
	fixture->store.is_broken = false;
	start_core(fixture);
}

void fixture_close(struct fixture *fixture)
{
	stop_core(fixture);
	memory_store_close(&fixture->store);
	free(fixture->principals);
}

/* ---- Clients */

void fixture_send(struct fixture *fixture, struct fake_client *client, uint64_t id,
		  Afar__Request *request, Afar__Reply **answer)
{
	send_event(fixture, client->peer, client->session, id, request, answer);
}

Afar__Reply *fixture_ask(struct fixture *fixture, struct fake_client *client,
			 Afar__Request *request)
{
	Afar__Reply *reply;
	struct event *event;

	fixture_send(fixture, client, ++client->next_id, request, &reply);
	event = cds_list_entry(fixture->events.prev, struct event, node);
	event->settled_below = client->next_id;
	fixture_pump(fixture);
	if (reply == NULL) { /* a reservation, from silent servers */
		for (size_t i = 0; i < FIXTURE_SERVERS_MAX; i++)
			fixture->servers[i].is_silent = false;
		fixture_pump(fixture);
	}
	if (reply == NULL) /* one that waits for releases, which wait after a failed commit */
		fixture_advance(fixture, CORE_RETRY_NS / 1000000U);
	assert_non_null(reply);
	return reply;
}

static int open_session(struct fixture *fixture, struct fake_client *client)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__Reply *reply;
	int status;

	request->call_case = AFAR__REQUEST__CALL_SESSION_OPEN;
	request->session_open = MESSAGE_NEW(afar__session_open, Afar__SessionOpen);
	request->session_open->client = strdup("host:1 test");
	request->session_open->resume = client->session;
	request->session_open->secret.data = malloc(STATE_SECRET_BYTES);
	memcpy(request->session_open->secret.data, client->secret, STATE_SECRET_BYTES);
	request->session_open->secret.len = STATE_SECRET_BYTES;
	client->peer = new_peer(fixture, client->principal);
	send_event(fixture, client->peer, 0, 1, request, &reply);
	fixture_pump(fixture);
	assert_non_null(reply);
	status = reply->status;
	if (status == 0) {
		client->session = reply->session_opened->session;
		assert_int_equal(reply->session_opened->lease_ms, FIXTURE_LEASE_MS);
		memcpy(client->secret, reply->session_opened->secret.data, STATE_SECRET_BYTES);
	}
	afar__reply__free_unpacked(reply, NULL);
	return status;
}

int client_open(struct fixture *fixture, struct fake_client *client)
{
	return client_open_as(fixture, client, "admin");
}

int client_open_as(struct fixture *fixture, struct fake_client *client, const char *principal)
{
	*client = (struct fake_client){.principal = principal};
	return open_session(fixture, client);
}

int client_resume(struct fixture *fixture, struct fake_client *client)
{
	return open_session(fixture, client);
}

void client_lose(struct fixture *fixture, struct fake_client *client)
{
	drop_peer(fixture, client->peer);
	client->peer = NULL;
	fixture_pump(fixture);
}

/* ---- Namespaces */

uint64_t make_namespace(struct fixture *fixture, struct fake_client *client, const char *name)
{
	Afar__Reply *reply = fixture_ask(fixture, client, ask_create(name, 0, 64 << 10));
	uint64_t number;

	assert_int_equal(reply->status, 0);
	number = reply->namespace_info->namespace_;
	afar__reply__free_unpacked(reply, NULL);
	return number;
}

/* ---- Checks */

static void put_session(struct store *store, const struct session *session)
{
	struct reference *reference;
	struct outcome *outcome;

	store_put_session(store, session);
	cds_list_for_each_entry (reference, &session->references, session_node)
		store_put_reference(store, reference);
	if (!session->is_ending)
		cds_list_for_each_entry (outcome, &session->outcomes, node)
			store_put_outcome(store, session, outcome->request_id, outcome->kind,
					  outcome->value);
}

static void put_all(struct store *store, const struct state *state)
{
	struct principal *principal;
	struct namespace *ns;
	struct server *server;
	struct extent *extent;
	struct region *region;
	struct session *session;
	struct removal *removal;

	store_put_cluster(store, state);
	cds_list_for_each_entry (principal, &state->principals, node)
		store_put_principal(store, principal);
	cds_list_for_each_entry (ns, &state->namespaces, node) {
		store_put_namespace(store, ns);
		store_put_grants(store, ns);
		cds_list_for_each_entry (region, &ns->regions, node)
			store_put_region(store, region);
		cds_list_for_each_entry (region, &ns->freed, node)
			store_put_region(store, region);
	}
	cds_list_for_each_entry (server, &state->servers, node) {
		store_put_server(store, server);
		cds_list_for_each_entry (extent, &server->extents, server_node)
			store_put_extent(store, extent);
	}
	cds_list_for_each_entry (removal, &state->removals, node)
		store_put_removal(store, removal);
	cds_list_for_each_entry (session, &state->sessions, node)
		put_session(store, session);
	cds_list_for_each_entry (session, &state->ending, node)
		put_session(store, session);
}

void check_store(struct fixture *fixture)
{
	struct memory_store copy;
	struct store *store;
	struct undo *undo;

	memory_store_open(&copy);
	assert_int_equal(undo_open(&undo), 0);
	assert_int_equal(store_open(&copy.base, undo, &store), 0);
	put_all(store, fixture->core->state);
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(copy.nr_pairs, fixture->store.nr_pairs);
	for (size_t i = 0; i < copy.nr_pairs; i++) {
		assert_int_equal(
			memory_store_compare(copy.pairs[i].key, fixture->store.pairs[i].key), 0);
		assert_int_equal(
			memory_store_compare(copy.pairs[i].value, fixture->store.pairs[i].value),
			0);
	}
	store_close(store);
	undo_close(undo);
	memory_store_close(&copy);
}

/* Takes the chunks of regions out of whole extents: fails where two overlap. */
static void retake(struct space *space, const struct extent *extent,
		   const struct cds_list_head *regions)
{
	struct region *region;

	cds_list_for_each_entry (region, regions, node)
		for (size_t i = 0; i < region->nr_chunks; i++)
			if (region->chunks[i].extent == extent)
				assert_int_equal(
					space_take_at(space, region->chunks[i].offset,
						      chunk_span(region, &region->chunks[i])),
					0);
}

static void check_extent(const struct extent *extent)
{
	struct space space;

	assert_int_equal(space_open(&space, extent->length), 0);
	if (extent->ns != NULL) {
		retake(&space, extent, &extent->ns->regions);
		retake(&space, extent, &extent->ns->freed);
	}
	assert_int_equal(space.nr_runs, extent->space.nr_runs);
	assert_int_equal(space.free_bytes, extent->space.free_bytes);
	assert_int_equal(space.longest, extent->space.longest);
	assert_memory_equal(space.runs, extent->space.runs, space.nr_runs * sizeof(*space.runs));
	space_close(&space);
}

static void check_namespace(const struct namespace *ns)
{
	uint64_t reserved = 0, allocated = 0, nr_regions = 0, last = 0;
	struct extent *extent;
	struct region *region;

	cds_list_for_each_entry (extent, &ns->extents, namespace_node) {
		reserved += extent->length;
		allocated += extent_used(extent);
	}
	cds_list_for_each_entry (region, &ns->regions, node) {
		assert_true(region->address > last);
		last = region->address + region->length - 1;
		nr_regions++;
	}
	cds_list_for_each_entry (region, &ns->freed, node)
		assert_false(cds_list_empty(&region->references));
	assert_int_equal(ns->reserved_bytes, reserved);
	assert_int_equal(ns->allocated_bytes, allocated);
	assert_int_equal(ns->nr_regions, nr_regions);
}

/* The keyring has the principals of the tables. */
static void check_keys(struct fixture *fixture)
{
	struct principal *principal;
	uint8_t secret[KEY_BYTES];

	cds_list_for_each_entry (principal, &fixture->core->state->principals, node) {
		assert_true(keyring_find(fixture->keyring, principal->name, secret));
		assert_memory_equal(secret, principal->secret, KEY_BYTES);
	}
	assert_true(cds_list_empty(&fixture->core->key_changes));
}

static void check_server(struct fixture *fixture, const struct server *server)
{
	uint64_t granted = 0, releasing = 0;
	struct extent *extent;
	size_t nr = 0;

	cds_list_for_each_entry (extent, &server->extents, server_node) {
		check_extent(extent);
		granted += extent->length;
		releasing += extent_is_releasing(extent) ? extent->length : 0;
		nr++;
	}
	assert_int_equal(server->granted_bytes, granted);
	assert_int_equal(server->releasing_bytes, releasing);
	if (!server_is_up(server) || !cds_list_empty(&fixture->core->jobs) ||
	    !cds_list_empty(&fixture->core->seals) || fixture->core->retry_at != 0)
		return;
	for (size_t i = 0; i < FIXTURE_SERVERS_MAX; i++) {
		const struct fake_server *fake = &fixture->servers[i];

		if (fake->peer == NULL || fake->peer != server->live->peer || fake->is_silent)
			continue;
		assert_int_equal(releasing, 0);
		assert_int_equal(fake->nr_extents, nr);
		assert_int_equal(fake->granted, granted);
		assert_int_equal(server->live->pending_bytes, 0);
	}
}

void check_all(struct fixture *fixture)
{
	struct state *state = fixture->core->state;
	struct namespace *ns;
	struct server *server;

	check_store(fixture);
	check_keys(fixture);
	cds_list_for_each_entry (server, &state->servers, node)
		check_server(fixture, server);
	cds_list_for_each_entry (ns, &state->namespaces, node)
		check_namespace(ns);
}

void check_empty(struct fixture *fixture)
{
	struct state *state = fixture->core->state;
	struct server *server;

	check_all(fixture);
	assert_true(cds_list_empty(&state->namespaces));
	assert_true(cds_list_empty(&state->ending));
	assert_null(state->regions_by_generation);
	assert_null(state->extents_by_place);
	assert_true(cds_list_empty(&fixture->core->jobs));
	assert_true(cds_list_empty(&fixture->core->seals));
	cds_list_for_each_entry (server, &state->servers, node)
		assert_int_equal(server->granted_bytes, 0);
	for (size_t i = 0; i < FIXTURE_SERVERS_MAX; i++)
		if (fixture->servers[i].peer != NULL)
			assert_int_equal(fixture->servers[i].nr_extents, 0);
}
