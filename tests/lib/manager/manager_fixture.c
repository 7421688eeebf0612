/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixture of the manager's tests. Everything here asserts by cmocka. */
#include "lib/manager/manager_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "lib/manager/manager_requests.h"

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

#define TRIM_NS UINT64_C(1800000000000)

/* A device may take long to zero. */
static bool trims_flash(const Afar__Request *request)
{
	return request->call_case == AFAR__REQUEST__CALL_EXTENTS_TRIM &&
	       request->extents_trim->store != 0;
}

/* Asks no more than whether the client answers. */
static bool is_probe(const Afar__Request *request)
{
	return request->call_case == AFAR__REQUEST__CALL_FILE_REVOKE &&
	       request->file_revoke->ino == 0 && request->file_revoke->n_inos == 0;
}

/* Returns whether the client keeps a call: nobody answers, or nobody over this connection, or not of this inode. */
static bool is_kept(const struct fixture *fixture, const struct server_call *call)
{
	const Afar__FileRevoke *revoke = call->request->call_case == AFAR__REQUEST__CALL_FILE_REVOKE
						 ? call->request->file_revoke
						 : NULL;
	bool is = fixture->are_clients_silent || call->peer == fixture->silent_peer;

	if (!revoke || fixture->silent_ino == 0)
		return is;
	for (size_t i = 0; i < revoke->n_inos; i++)
		is = is || revoke->inos[i] == fixture->silent_ino;
	return is || revoke->ino == fixture->silent_ino;
}

static void note_revoked(struct fixture *fixture, uint64_t session, uint64_t ino)
{
	fixture->nr_revokes++;
	if (fixture->revoked != NULL)
		fixture->revoked(session, ino);
}

static void note_revoke(struct fixture *fixture, uint64_t session, const Afar__FileRevoke *revoke)
{
	fixture->nr_revoke_calls++;
	for (size_t i = 0; i < revoke->n_inos; i++)
		note_revoked(fixture, session, revoke->inos[i]);
	if (revoke->ino != 0)
		note_revoked(fixture, session, revoke->ino);
}

static int fake_call(void *context, void *peer, uint64_t deadline, Afar__Request *request,
		     struct outgoing *outgoing)
{
	struct fixture *fixture = context;
	struct server_call *call;

	/* Closed, which the core has still to hear. */
	if (server_of_peer(fixture, peer) == NULL &&
	    request->call_case != AFAR__REQUEST__CALL_FILE_RECALL &&
	    request->call_case != AFAR__REQUEST__CALL_FILE_REVOKE &&
	    request->call_case != AFAR__REQUEST__CALL_FILES_GONE &&
	    (request->call_case != AFAR__REQUEST__CALL_LOOK || fixture->look_answer == NULL))
		return -ENOTCONN;
	call = calloc(1, sizeof(*call));
	assert_non_null(call);
	assert_true(deadline > fixture->now + (trims_flash(request) ? TRIM_NS : 0));
	/* These may wait for a client that is stopped. */
	assert_true((deadline == CORE_NEVER) ==
		    (request->call_case == AFAR__REQUEST__CALL_SESSION_END ||
		     request->call_case == AFAR__REQUEST__CALL_FILES_GONE ||
		     (is_probe(request) && deadline == CORE_NEVER)));
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

/* Does as rpc does: first the calls end, then the connection. */
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

static Afar__Reply *tell_used(const struct fixture *fixture, const struct server_call *call)
{
	const Afar__FilesGone *ask = call->request->files_gone;
	Afar__Reply *reply = MESSAGE_NEW(afar__reply, Afar__Reply);
	Afar__FilesUsed *used = MESSAGE_NEW(afar__files_used, Afar__FilesUsed);

	used->inos = calloc(ask->n_files, sizeof(*used->inos));
	for (size_t i = 0; i < ask->n_files; i++)
		if (fixture->uses && fixture->uses(call->outgoing->session, ask->files[i]))
			used->inos[used->n_inos++] = ask->files[i]->ino;
	reply->files_used = used;
	reply->result_case = AFAR__REPLY__RESULT_FILES_USED;
	return reply;
}

bool fixture_serve(struct fixture *fixture)
{
	struct fake_store *asked;
	struct server_call *call;

	cds_list_for_each_entry (call, &fixture->calls, node) {
		struct fake_server *server = server_of_peer(fixture, call->peer);

		if (server == NULL) {
			if (is_kept(fixture, call))
				continue;
			if (is_probe(call->request)) {
				fixture->nr_probes++;
				end_call(fixture, call, MESSAGE_NEW(afar__reply, Afar__Reply), 0);
				return true;
			}
			if (call->request->call_case == AFAR__REQUEST__CALL_FILE_RECALL) {
				Afar__Reply *given_up = MESSAGE_NEW(afar__reply, Afar__Reply);

				fixture->nr_recalls++;
				if (fixture->recalled != NULL)
					fixture->recalled(call->outgoing->session,
							  call->request->file_recall->ino);
				end_call(fixture, call, given_up, 0);
				return true;
			}
			if (call->request->call_case == AFAR__REQUEST__CALL_FILE_REVOKE) {
				note_revoke(fixture, call->outgoing->session,
					    call->request->file_revoke);
				end_call(fixture, call, MESSAGE_NEW(afar__reply, Afar__Reply), 0);
				return true;
			}
			if (call->request->call_case == AFAR__REQUEST__CALL_FILES_GONE) {
				fixture->nr_gone_asks++;
				end_call(fixture, call, tell_used(fixture, call), 0);
				return true;
			}
			assert_int_equal(call->request->call_case, AFAR__REQUEST__CALL_LOOK);
			fixture->nr_looks++;
			end_call(fixture, call, copy_message(&fixture->look_answer->base), 0);
			return true;
		}
		if (server->is_silent ||
		    (server->does_hold_seals &&
		     call->request->call_case == AFAR__REQUEST__CALL_EXTENTS_SEAL))
			continue;
		asked = fake_server_asked(server, call->request);
		if (asked != NULL && asked->does_hold_trims)
			continue;
		end_call(fixture, call, fake_server_serve(server, call->request), 0);
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

static struct event *new_request_event(struct fixture *fixture, void *peer, uint64_t session,
				       uint64_t id, Afar__Request *request, Afar__Reply **answer)
{
	struct event *event = event_new(EVENT_REQUEST, peer);

	assert_non_null(event);
	*answer = NULL;
	event->call = answer;
	event->session = session;
	event->request_id = id;
	event->deadline = fixture->time_ns ? fixture->now + fixture->time_ns : CORE_NEVER;
	event->request = request;
	return event;
}

static void send_event(struct fixture *fixture, void *peer, uint64_t session, uint64_t id,
		       Afar__Request *request, Afar__Reply **answer)
{
	submit(fixture, new_request_event(fixture, peer, session, id, request, answer));
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
		for (size_t i = 0; i < server->nr_stores; i++)
			fake_store_open(server->stores[i]);
	}
	send_event(fixture, server->peer, 0, 1, fake_server_join(server, index), &reply);
	core_run(fixture->core, &fixture->events);
	assert_non_null(reply);
	status = reply->status;
	if (status == 0 && reply->server_joined->server == 0) {
		assert_true(reply->server_joined->ends_sessions);
		status = -EAGAIN;
	}
	if (status == 0) {
		server->number = reply->server_joined->server;
		snprintf(server->cluster, sizeof(server->cluster), "%s",
			 reply->server_joined->cluster);
		server->term = (struct term){reply->server_joined->term->number,
					     reply->server_joined->term->random};
		for (size_t i = 0; i < reply->server_joined->n_release; i++)
			fake_server_release(server, reply->server_joined->release[i]);
		assert_int_equal(reply->server_joined->n_stores, server->nr_stores);
		for (size_t i = 0; i < server->nr_stores; i++)
			fake_store_joined(server->stores[i], server->cluster,
					  reply->server_joined->stores[i]);
	}
	afar__reply__free_unpacked(reply, NULL);
	fixture_pump(fixture);
	return status;
}

void fixture_plug(struct fixture *fixture, size_t index, size_t store, uint64_t capacity)
{
	struct fake_server *server = &fixture->servers[index];
	struct fake_store *device = &fixture->stores[store];

	if (device->number == 0) {
		memset(device->uuid, (int)store + 1, sizeof(device->uuid));
		memcpy(&device->number, device->uuid, sizeof(device->number));
		device->capacity = capacity;
	}
	server->stores[server->nr_stores++] = device;
	/* Else it does that as it begins. */
	if (server->incarnation != 0)
		fake_store_open(device);
}

int fixture_lend(struct fixture *fixture, size_t index, size_t store, uint64_t capacity,
		 void (*spoil)(Afar__StoreLend *lend))
{
	struct fake_server *server = &fixture->servers[index];
	struct fake_store *device = &fixture->stores[store];
	Afar__Request *request;
	Afar__Reply *reply;
	int status;

	fixture_plug(fixture, index, store, capacity);
	request = fake_store_lend(device);
	if (spoil != NULL)
		spoil(request->store_lend);
	send_event(fixture, server->peer, 0, 2, request, &reply);
	core_run(fixture->core, &fixture->events);
	assert_non_null(reply);
	status = reply->status;
	if (status == 0)
		fake_store_joined(device, server->cluster, reply->store_joined);
	else
		server->nr_stores--;
	afar__reply__free_unpacked(reply, NULL);
	return status;
}

void fixture_report_store(struct fixture *fixture, size_t index, uint64_t store, int refusal)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__ServerReport *report = MESSAGE_NEW(afar__server_report, Afar__ServerReport);
	Afar__Reply *reply;

	request->call_case = AFAR__REQUEST__CALL_SERVER_REPORT;
	request->server_report = report;
	report->stores = calloc(1, sizeof(*report->stores));
	report->stores[report->n_stores++] = MESSAGE_NEW(afar__store_report, Afar__StoreReport);
	report->stores[0]->store = store;
	report->stores[0]->refusal = refusal;
	report->stores[0]->refusal_ms = 5000;
	send_event(fixture, fixture->servers[index].peer, 0, 3, request, &reply);
	core_run(fixture->core, &fixture->events);
	assert_non_null(reply);
	assert_int_equal(reply->status, 0);
	fixture->servers[index].term = (struct term){reply->term->number, reply->term->random};
	afar__reply__free_unpacked(reply, NULL);
}

void fixture_unplug(struct fixture *fixture, size_t index)
{
	fixture->servers[index].nr_stores = 0;
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
	server->term = (struct term){0};
	fixture_disconnect(fixture, index);
}

/* ---- The whole */

static void note_lend(void *argument, bool is_lent)
{
	struct fixture *fixture = argument;

	assert_true(fixture->is_lent != is_lent);
	fixture->is_lent = is_lent;
}

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
	struct core_options options = {.lease_ms = FIXTURE_LEASE_MS,
				       .gives_ends = true,
				       .incarnation = ++fixture->nr_starts};

	assert_int_equal(keyring_open(&operators, &servers, &fixture->keyring), 0);
	options.keyring = fixture->keyring;
	assert_int_equal(core_open(&fixture->store.base, &environment, &options, &fixture->core),
			 0);
	core_set_lend(fixture->core, note_lend, fixture);
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
	/* It is to seem killed: its own stopping must not change what is stored. */
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

bool fixture_ask_beside(struct fixture *fixture, struct fake_client *client, Afar__Request *request,
			Afar__Reply **answer)
{
	struct event *event = new_request_event(fixture, client->peer, client->session,
						++client->next_id, request, answer);

	bool can_overtake = true;
	struct event *earlier;

	cds_list_for_each_entry (earlier, &fixture->events, node)
		can_overtake = can_overtake && core_can_overtake(event, earlier);
	if (fixture->is_lent && can_overtake && core_answer(fixture->core, event))
		return true;
	submit(fixture, event);
	return false;
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
	if (reply == NULL) /* after a restart, one that waits for servers */
		fixture_advance(fixture, CORE_RECOVERY_NS / 1000000U);
	assert_non_null(reply);
	return reply;
}

int fixture_do(struct fixture *fixture, struct fake_client *client, Afar__Request *request)
{
	Afar__Reply *reply = fixture_ask(fixture, client, request);
	int status = reply->status;

	afar__reply__free_unpacked(reply, NULL);
	return status;
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

uint64_t create_namespace(struct fixture *fixture, struct fake_client *client,
			  Afar__Request *request)
{
	Afar__Reply *reply = fixture_ask(fixture, client, request);
	uint64_t number;

	assert_int_equal(reply->status, 0);
	number = reply->namespace_info->namespace_;
	afar__reply__free_unpacked(reply, NULL);
	return number;
}

uint64_t make_namespace(struct fixture *fixture, struct fake_client *client, const char *name)
{
	return create_namespace(fixture, client, ask_create(name, 0, 64 << 10));
}

uint64_t make_flash_namespace(struct fixture *fixture, struct fake_client *client, const char *name)
{
	Afar__Request *request = ask_create(name, 0, 64 << 10);

	request->namespace_create->policy->tier = AFAR_TIER_FLASH;
	return create_namespace(fixture, client, request);
}
