/* SPDX-License-Identifier: BSD-3-Clause */
/* The peers of a real manager; see manager_peers.h. */
#include "lib/manager/manager_peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "lib/base/bytes.h"

struct key key = {.identity = "admin", .secret = {1, 2, 3}};
struct key join_key = {.identity = "server", .secret = {4, 5, 6}};
struct key *server_key = &join_key;
static uint8_t signing_key[32] = {7, 8, 9};
struct rpc_loop *loop;
uint16_t port;

struct manager_server server = {.lock = PTHREAD_MUTEX_INITIALIZER,
				.changed = PTHREAD_COND_INITIALIZER};

/* ---- The server */

static void server_grant(const Afar__ExtentsReserve *ask, struct rpc_call *call)
{
	Afar__Reply reply = AFAR__REPLY__INIT;
	Afar__Extents extents = AFAR__EXTENTS__INIT;
	Afar__Extent extent = AFAR__EXTENT__INIT, *pointer = &extent;

	pthread_mutex_lock(&server.lock);
	extent.extent = ++server.next_extent;
	extent.namespace_ = ask->namespace_;
	extent.length = ask->bytes;
	server.lengths[extent.extent] = ask->bytes;
	server.namespaces[extent.extent] = ask->namespace_;
	server.granted += ask->bytes;
	pthread_mutex_unlock(&server.lock);
	extents.extents = &pointer;
	extents.n_extents = 1;
	reply.extents = &extents;
	reply.result_case = AFAR__REPLY__RESULT_EXTENTS;
	rpc_reply(call, server.incarnation, &reply);
}

static bool server_hold(const Afar__Request *request, struct rpc_call *call)
{
	bool is_held;

	pthread_mutex_lock(&server.lock);
	is_held = server.does_hold;
	if (is_held) {
		server.held = call;
		server.held_bytes = request->extents_reserve->bytes;
		server.held_namespace = request->extents_reserve->namespace_;
		pthread_cond_broadcast(&server.changed);
	}
	pthread_mutex_unlock(&server.lock);
	return is_held;
}

void fake_let_go(void)
{
	Afar__ExtentsReserve ask = AFAR__EXTENTS_RESERVE__INIT;
	struct rpc_call *call;

	pthread_mutex_lock(&server.lock);
	server.does_hold = false;
	call = server.held;
	server.held = NULL;
	ask.bytes = server.held_bytes;
	ask.namespace_ = server.held_namespace;
	pthread_mutex_unlock(&server.lock);
	server_grant(&ask, call);
}

static void server_request(struct rpc_connection *connection, const Afar__Frame *frame,
			   struct rpc_call *call)
{
	const Afar__Request *request = frame->request;

	(void)connection;
	if (request->call_case == AFAR__REQUEST__CALL_EXTENTS_RESERVE && server_hold(request, call))
		return;
	if (request->call_case == AFAR__REQUEST__CALL_EXTENTS_RESERVE) {
		server_grant(request->extents_reserve, call);
		return;
	}
	pthread_mutex_lock(&server.lock);
	if (request->call_case == AFAR__REQUEST__CALL_EXTENTS_RELEASE) {
		for (size_t i = 0; i < request->extents_release->n_extents; i++) {
			uint64_t number = request->extents_release->extents[i];

			server.granted -= server.lengths[number];
			server.lengths[number] = 0;
		}
	}
	if (request->call_case == AFAR__REQUEST__CALL_SESSION_END)
		server.nr_session_ends++;
	pthread_cond_broadcast(&server.changed);
	pthread_mutex_unlock(&server.lock);
	rpc_reply_status(call, server.incarnation, 0);
}

static void server_opened(struct rpc_connection *connection)
{
	(void)connection;
	pthread_mutex_lock(&server.lock);
	server.is_open = true;
	pthread_cond_broadcast(&server.changed);
	pthread_mutex_unlock(&server.lock);
}

static void server_closed(struct rpc_connection *connection, int status)
{
	(void)connection;
	(void)status;
	pthread_mutex_lock(&server.lock);
	server.is_closed = true;
	pthread_cond_broadcast(&server.changed);
	pthread_mutex_unlock(&server.lock);
}

void fake_leave(void)
{
	if (server.connection == NULL)
		return;
	rpc_connection_close(server.connection);
	pthread_mutex_lock(&server.lock);
	while (!server.is_closed)
		pthread_cond_wait(&server.changed, &server.lock);
	pthread_mutex_unlock(&server.lock);
	rpc_connection_unref(server.connection);
	server.connection = NULL;
}

void fake_join(void)
{
	static const struct rpc_handlers handlers = {
		.request = server_request,
		.opened = server_opened,
		.closed = server_closed,
	};
	struct rpc_envelope envelope = {.deadline = clock_deadline_ms(10000)};
	Afar__ServerJoin join = AFAR__SERVER_JOIN__INIT;
	Afar__Server self = AFAR__SERVER__INIT;
	Afar__Lane lane = AFAR__LANE__INIT, *lanes = &lane;
	Afar__Extent extents[64], *pointers[64];
	Afar__Frame *frame;

	server.is_open = server.is_closed = false;
	assert_int_equal(rpc_connect(loop, "127.0.0.1", port, server_key, &handlers, NULL,
				     &server.connection),
			 0);
	join.self = &self;
	join.capacity_bytes = 1024 * MIB;
	join.signing_key = (ProtobufCBinaryData){sizeof(signing_key), signing_key};
	self.server = server.number;
	self.incarnation = server.incarnation;
	self.name = (char *)"fake";
	self.control_address = (char *)"127.0.0.1:1";
	self.lanes = &lanes;
	self.n_lanes = 1;
	lane.transport = (char *)"tcp";
	lane.address = (char *)"127.0.0.1:2";
	for (uint64_t i = 1; i <= server.next_extent && join.n_extents < 64; i++) {
		if (server.lengths[i] == 0)
			continue;
		afar__extent__init(&extents[join.n_extents]);
		extents[join.n_extents].extent = i;
		extents[join.n_extents].namespace_ = server.namespaces[i];
		extents[join.n_extents].length = server.lengths[i];
		pointers[join.n_extents] = &extents[join.n_extents];
		join.n_extents++;
	}
	join.extents = pointers;
	assert_int_equal(rpc_call(server.connection, &envelope,
				  RPC_REQUEST(SERVER_JOIN, server_join, &join), &frame),
			 0);
	server.number = frame->reply->server_joined->server;
	assert_int_equal(frame->reply->server_joined->n_release, 0);
	afar__frame__free_unpacked(frame, NULL);
}

/* ---- Clients */

static void client_closed(struct rpc_connection *connection, int status)
{
	struct end *end = rpc_connection_context(connection);

	if (end == NULL)
		return;
	pthread_mutex_lock(&end->lock);
	end->is_closed = true;
	end->status = status;
	pthread_cond_broadcast(&end->changed);
	pthread_mutex_unlock(&end->lock);
}

int ask_frame(struct client *client, Afar__Request *request, Afar__Frame **frame)
{
	struct rpc_envelope envelope = {.request_id = ++client->next_id,
					.session = client->session,
					.settled_below = client->next_id,
					.deadline = clock_deadline_ms(20000)};

	return rpc_call(client->connection, &envelope, request, frame);
}

Afar__Reply *ask(struct client *client, Afar__Request *request, Afar__Frame **frame)
{
	*frame = NULL;
	return ask_frame(client, request, frame) == 0 ? (*frame)->reply : NULL;
}

int simple(struct client *client, Afar__Request *request)
{
	return ask_frame(client, request, NULL);
}

int client_connect(struct client *client)
{
	static const struct rpc_handlers handlers = {.closed = client_closed};
	Afar__SessionOpen open = AFAR__SESSION_OPEN__INIT;
	uint64_t session = client->session;
	Afar__Frame *frame;
	int rc = rpc_connect(loop, "127.0.0.1", port, client->key != NULL ? client->key : &key,
			     &handlers, client->end, &client->connection);

	if (rc < 0)
		return rc;
	open.resume = session;
	open.secret = (ProtobufCBinaryData){sizeof(client->secret), client->secret};
	client->session = 0;
	rc = ask_frame(client, RPC_REQUEST(SESSION_OPEN, session_open, &open), &frame);
	if (rc < 0)
		return rc;
	client->session = frame->reply->session_opened->session;
	memcpy(client->secret, frame->reply->session_opened->secret.data, 16);
	afar__frame__free_unpacked(frame, NULL);
	return 0;
}

void client_disconnect(struct client *client)
{
	rpc_connection_close(client->connection);
	rpc_connection_unref(client->connection);
	client->connection = NULL;
}

int client_close(struct client *client)
{
	Afar__SessionClose close = AFAR__SESSION_CLOSE__INIT;
	int rc;

	rc = simple(client, RPC_REQUEST(SESSION_CLOSE, session_close, &close));
	client_disconnect(client);
	return rc;
}

uint64_t create(struct client *client, const char *name)
{
	Afar__NamespaceCreate create = AFAR__NAMESPACE_CREATE__INIT;
	Afar__Frame *frame;
	uint64_t number = 0;

	create.name = (char *)(uintptr_t)name;
	if (ask(client, RPC_REQUEST(NAMESPACE_CREATE, namespace_create, &create), &frame) != NULL)
		number = frame->reply->namespace_info->namespace_;
	if (frame != NULL)
		afar__frame__free_unpacked(frame, NULL);
	return number;
}

int destroy(struct client *client, const char *name)
{
	Afar__NamespaceDelete delete = AFAR__NAMESPACE_DELETE__INIT;

	delete.name = (char *)(uintptr_t)name;
	delete.with_regions = true;
	return simple(client, RPC_REQUEST(NAMESPACE_DELETE, namespace_delete, &delete));
}

int reserve(struct client *client, uint64_t ns, uint64_t bytes)
{
	Afar__NamespaceReserve reserve = AFAR__NAMESPACE_RESERVE__INIT;

	reserve.namespace_ = ns;
	reserve.bytes = bytes;
	return simple(client, RPC_REQUEST(NAMESPACE_RESERVE, namespace_reserve, &reserve));
}

uint64_t alloc(struct client *client, uint64_t ns, const char *name, uint64_t bytes,
	       uint64_t *address)
{
	Afar__RegionAlloc alloc = AFAR__REGION_ALLOC__INIT;
	Afar__Frame *frame;
	uint64_t generation = 0;

	alloc.namespace_ = ns;
	alloc.name = (char *)(uintptr_t)name;
	alloc.bytes = bytes;
	if (ask(client, RPC_REQUEST(REGION_ALLOC, region_alloc, &alloc), &frame) != NULL) {
		generation = frame->reply->region_info->generation;
		*address = frame->reply->region_info->address;
	}
	if (frame != NULL)
		afar__frame__free_unpacked(frame, NULL);
	return generation;
}

int free_region(struct client *client, uint64_t ns, uint64_t address, uint64_t generation)
{
	Afar__RegionFree free_one = AFAR__REGION_FREE__INIT;

	free_one.namespace_ = ns;
	free_one.address = address;
	free_one.generation = generation;
	return simple(client, RPC_REQUEST(REGION_FREE, region_free, &free_one));
}

int open_region(struct client *client, uint64_t ns, const char *name)
{
	Afar__RegionOpen open = AFAR__REGION_OPEN__INIT;

	open.namespace_ = ns;
	open.name = (char *)(uintptr_t)name;
	return simple(client, RPC_REQUEST(REGION_OPEN, region_open, &open));
}

int add_key(struct client *client, const char *name, bool is_server, struct key *out)
{
	Afar__KeyAdd add = AFAR__KEY_ADD__INIT;
	Afar__Frame *frame;
	int rc;

	add.name = (char *)(uintptr_t)name;
	add.is_server = is_server;
	rc = ask_frame(client, RPC_REQUEST(KEY_ADD, key_add, &add), &frame);
	if (rc < 0)
		return rc;
	snprintf(out->identity, sizeof(out->identity), "%s", frame->reply->key_added->name);
	memcpy(out->secret, frame->reply->key_added->secret.data, KEY_BYTES);
	afar__frame__free_unpacked(frame, NULL);
	return 0;
}

int revoke_key(struct client *client, const char *name)
{
	Afar__KeyRevoke revoke = AFAR__KEY_REVOKE__INIT;

	revoke.name = (char *)(uintptr_t)name;
	return simple(client, RPC_REQUEST(KEY_REVOKE, key_revoke, &revoke));
}

int grant(struct client *client, uint64_t ns, const char *principal, uint32_t rights)
{
	Afar__NamespaceGrant grant_one = AFAR__NAMESPACE_GRANT__INIT;

	grant_one.namespace_ = ns;
	grant_one.principal = (char *)(uintptr_t)principal;
	grant_one.rights = rights;
	return simple(client, RPC_REQUEST(NAMESPACE_GRANT, namespace_grant, &grant_one));
}
