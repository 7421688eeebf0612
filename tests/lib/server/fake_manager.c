/* SPDX-License-Identifier: BSD-3-Clause */
/* A manager for tests of servers; see fake_manager.h. */
#include "lib/server/fake_manager.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/transport.h"
#include "rpc/pass.h"
#include "server/memory/extent.h"

#define LIFETIME_S 600U /* of passes and capabilities */

static void note_extents(struct fake_store *store, const Afar__Store *joining)
{
	store->nr_extents = joining->n_extents;
	assert_true(joining->n_extents <= FAKE_EXTENTS_MAX);
	for (size_t i = 0; i < joining->n_extents; i++)
		store->extents[i] = (struct fake_extent){
			joining->extents[i]->extent, joining->extents[i]->namespace_,
			joining->extents[i]->length, joining->extents[i]->is_provisional};
}

static void note_store(struct fake_manager *manager, const Afar__ServerJoin *join)
{
	struct fake_store *store = &manager->store;
	const Afar__Store *joining;

	manager->nr_stores = join->n_stores;
	if (join->n_stores == 0) {
		store->number = 0;
		return;
	}
	joining = join->stores[0];
	store->number = joining->store;
	store->opening = joining->opening;
	store->accepted = (struct fake_join){joining->accepted->opening, joining->accepted->random};
	store->present = (struct fake_join){joining->present->opening, joining->present->random};
	snprintf(store->cluster, sizeof(store->cluster), "%s", joining->cluster);
	store->was_held = manager->is_held && manager->is_held();
	note_extents(store, joining);
}

static void note_lane(struct fake_manager *manager, const Afar__Lane *lane)
{
	if (lane->store != 0) {
		if (strcmp(lane->transport, "tcp") == 0)
			snprintf(manager->store.data, sizeof(manager->store.data), "%s",
				 lane->address);
		return;
	}
	assert_string_equal(lane->transport, test_transport());
	if (manager->nr_lanes < FAKE_LANES_MAX)
		snprintf(manager->data[manager->nr_lanes], FAKE_ADDRESS_MAX, "%s", lane->address);
	manager->nr_lanes++;
}

static void note_join(struct fake_manager *manager, const Afar__ServerJoin *join)
{
	manager->server = join->self->server;
	manager->incarnation = join->self->incarnation;
	manager->capacity_bytes = join->capacity_bytes;
	assert_int_equal(join->signing_key.len, SIGNING_KEY_BYTES);
	memcpy(manager->signing_key, join->signing_key.data, SIGNING_KEY_BYTES);
	manager->age_s = join->age_s;
	snprintf(manager->name, sizeof(manager->name), "%s", join->self->name);
	snprintf(manager->control, sizeof(manager->control), "%s", join->self->control_address);
	manager->nr_lanes = 0;
	for (size_t i = 0; i < join->self->n_lanes; i++)
		note_lane(manager, join->self->lanes[i]);
	note_store(manager, join);
	manager->nr_joined =
		join->n_extents < FAKE_EXTENTS_MAX ? join->n_extents : FAKE_EXTENTS_MAX;
	for (size_t i = 0; i < manager->nr_joined; i++) {
		manager->joined[i].extent = join->extents[i]->extent;
		manager->joined[i].namespace = join->extents[i]->namespace_;
		manager->joined[i].length = join->extents[i]->length;
	}
}

static void on_join(struct fake_manager *manager, const Afar__ServerJoin *join,
		    struct rpc_call *call)
{
	Afar__ServerJoined joined = AFAR__SERVER_JOINED__INIT;
	Afar__StoreJoined store = AFAR__STORE_JOINED__INIT;
	Afar__StoreJoined *stores = &store;
	Afar__Reply reply = AFAR__REPLY__INIT;

	if (manager->refuse_joins_with != 0) {
		note_store(manager, join);
		manager->nr_refused++;
		reply.status = manager->refuse_joins_with;
		reply.message = (char *)"join: not today";
		rpc_reply(call, 1, &reply);
		return;
	}
	if (manager->ends_sessions && !join->has_ended_sessions) {
		assert_true(join->ends_first);
		manager->nr_refused++;
		joined.ends_sessions = true;
		joined.cluster = (char *)"fake";
		reply.result_case = AFAR__REPLY__RESULT_SERVER_JOINED;
		reply.server_joined = &joined;
		rpc_reply(call, 1, &reply);
		return;
	}
	note_join(manager, join);
	/* Reports count from here: an older one may say what is waited for by chance. */
	manager->nr_reports = 0;
	memset(&manager->report, 0, sizeof(manager->report));
	joined.server = FAKE_SERVER;
	joined.n_release = manager->nr_release;
	joined.release = manager->release;
	store.store = manager->store.number;
	store.n_release = manager->nr_release_of_store;
	store.release = manager->release_of_store;
	joined.n_stores = join->n_stores > 0; /* of the first alone */
	joined.stores = &stores;
	reply.result_case = AFAR__REPLY__RESULT_SERVER_JOINED;
	joined.cluster = (char *)"fake";
	reply.server_joined = &joined;
	rpc_reply(call, 1, &reply);
	manager->nr_release = 0;
	manager->nr_release_of_store = 0;
	manager->nr_joins++;
}

static void on_lend(struct fake_manager *manager, const Afar__StoreLend *lend,
		    struct rpc_call *call)
{
	Afar__StoreJoined joined = AFAR__STORE_JOINED__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;

	assert_true(lend->store && lend->lane && lend->lane->store == lend->store->store);
	manager->nr_lends++;
	manager->lent = joined.store = lend->store->store;
	snprintf(manager->lent_data, sizeof(manager->lent_data), "%s", lend->lane->address);
	reply.status = manager->refuse_lends_with;
	reply.message = (char *)"lend: not today";
	if (reply.status == 0) {
		reply.result_case = AFAR__REPLY__RESULT_STORE_JOINED;
		reply.store_joined = &joined;
	}
	rpc_reply(call, 1, &reply);
}

static void on_request(struct rpc_connection *connection, const Afar__Frame *frame,
		       struct rpc_call *call)
{
	struct fake_manager *manager = rpc_connection_context(connection);

	pthread_mutex_lock(&manager->lock);
	if (frame->request->call_case == AFAR__REQUEST__CALL_SERVER_JOIN) {
		on_join(manager, frame->request->server_join, call);
	} else if (frame->request->call_case == AFAR__REQUEST__CALL_STORE_LEND) {
		on_lend(manager, frame->request->store_lend, call);
	} else {
		if (frame->request->call_case == AFAR__REQUEST__CALL_SERVER_REPORT) {
			manager->report = *frame->request->server_report;
			manager->store_refusal = manager->report.n_stores > 0
							 ? manager->report.stores[0]->refusal
							 : 0;
			manager->nr_reports++;
		}
		rpc_reply_status(call, 1, 0);
	}
	pthread_cond_broadcast(&manager->changed);
	pthread_mutex_unlock(&manager->lock);
}

static void on_opened(struct rpc_connection *connection)
{
	struct fake_manager *manager = rpc_connection_context(connection);

	pthread_mutex_lock(&manager->lock);
	rpc_connection_ref(connection);
	if (manager->connection)
		rpc_connection_unref(manager->connection);
	manager->connection = connection;
	pthread_cond_broadcast(&manager->changed);
	pthread_mutex_unlock(&manager->lock);
}

static void on_closed(struct rpc_connection *connection, int status)
{
	struct fake_manager *manager = rpc_connection_context(connection);

	(void)status;
	pthread_mutex_lock(&manager->lock);
	if (manager->connection == connection) {
		rpc_connection_unref(connection);
		manager->connection = NULL;
	}
	pthread_cond_broadcast(&manager->changed);
	pthread_mutex_unlock(&manager->lock);
}

void fake_manager_listen(struct fake_manager *manager, const char *address)
{
	static const struct rpc_handlers handlers = {
		.request = on_request,
		.opened = on_opened,
		.closed = on_closed,
	};

	const struct rpc_keyring keyring = {.find = key_list_find, .context = &manager->keys};

	assert_int_equal(rpc_listen(manager->loop, address, &keyring, &handlers, manager,
				    &manager->listener),
			 0);
	snprintf(manager->address, sizeof(manager->address), "%s",
		 rpc_listener_address(manager->listener));
}

uint16_t fake_manager_port(const struct fake_manager *manager)
{
	return (uint16_t)atoi(strrchr(manager->address, ':') + 1);
}

void fake_manager_open(struct fake_manager *manager)
{
	memset(manager, 0, sizeof(*manager));
	strcpy(manager->key.identity, "server");
	memset(manager->key.secret, 42, sizeof(manager->key.secret));
	manager->keys = (struct key_list){.keys = &manager->key, .nr_keys = 1};
	pthread_mutex_init(&manager->lock, NULL);
	pthread_cond_init(&manager->changed, NULL);
	assert_int_equal(rpc_loop_start("manager", &manager->loop), 0);
	fake_manager_listen(manager, "127.0.0.1:0");
}

void fake_manager_vanish(struct fake_manager *manager)
{
	rpc_listener_close(manager->listener);
	manager->listener = NULL;
	pthread_mutex_lock(&manager->lock);
	if (manager->connection)
		rpc_connection_close(manager->connection);
	pthread_mutex_unlock(&manager->lock);
	fake_manager_await(manager, !manager->connection);
}

void fake_manager_close(struct fake_manager *manager)
{
	if (manager->listener)
		fake_manager_vanish(manager);
	rpc_loop_stop(manager->loop);
	pthread_cond_destroy(&manager->changed);
	pthread_mutex_destroy(&manager->lock);
}

int fake_manager_call(struct fake_manager *manager, Afar__Request *request, Afar__Frame **reply)
{
	const struct rpc_envelope envelope = {.deadline = clock_deadline_ms(FAKE_PATIENCE_MS)};
	struct rpc_connection *connection;
	int status;

	pthread_mutex_lock(&manager->lock);
	connection = manager->connection;
	if (connection)
		rpc_connection_ref(connection);
	pthread_mutex_unlock(&manager->lock);
	assert_non_null(connection);
	status = rpc_call(connection, &envelope, request, reply);
	rpc_connection_unref(connection);
	return status;
}

int fake_manager_reserve(struct fake_manager *manager, uint64_t namespace, uint64_t bytes,
			 struct fake_extent *out, size_t *nr_out)
{
	Afar__ExtentsReserve reserve = AFAR__EXTENTS_RESERVE__INIT;
	Afar__Extents *extents;
	Afar__Frame *frame;
	int status;

	reserve.namespace_ = namespace;
	reserve.bytes = bytes;
	status = fake_manager_call(manager, RPC_REQUEST(EXTENTS_RESERVE, extents_reserve, &reserve),
				   &frame);
	if (status != 0)
		return status;
	assert_int_equal(frame->reply->result_case, AFAR__REPLY__RESULT_EXTENTS);
	extents = frame->reply->extents;
	assert_true(extents->n_extents <= *nr_out);
	*nr_out = extents->n_extents;
	for (size_t i = 0; i < extents->n_extents; i++) {
		out[i].extent = extents->extents[i]->extent;
		out[i].namespace = extents->extents[i]->namespace_;
		out[i].length = extents->extents[i]->length;
	}
	afar__frame__free_unpacked(frame, NULL);
	return 0;
}

int fake_manager_release(struct fake_manager *manager, uint64_t extent)
{
	Afar__ExtentsRelease release = AFAR__EXTENTS_RELEASE__INIT;

	release.n_extents = 1;
	release.extents = &extent;
	return fake_manager_call(manager, RPC_REQUEST(EXTENTS_RELEASE, extents_release, &release),
				 NULL);
}

/* ---- Of the server's store */

int fake_manager_reserve_flash(struct fake_manager *manager, uint64_t namespace, uint64_t bytes,
			       struct fake_extent *out)
{
	Afar__ExtentsReserve reserve = AFAR__EXTENTS_RESERVE__INIT;
	Afar__Frame *frame;
	int status;

	reserve.namespace_ = namespace;
	reserve.bytes = bytes;
	reserve.class_ = CLASS_FLASH;
	reserve.store = manager->store.number;
	status = fake_manager_call(manager, RPC_REQUEST(EXTENTS_RESERVE, extents_reserve, &reserve),
				   &frame);
	if (status != 0)
		return status;
	assert_int_equal(frame->reply->result_case, AFAR__REPLY__RESULT_EXTENTS);
	assert_int_equal(frame->reply->extents->n_extents, 1);
	*out = (struct fake_extent){.extent = frame->reply->extents->extents[0]->extent,
				    .namespace = frame->reply->extents->extents[0]->namespace_,
				    .length = frame->reply->extents->extents[0]->length};
	afar__frame__free_unpacked(frame, NULL);
	return 0;
}

int fake_manager_release_flash(struct fake_manager *manager, uint64_t namespace, uint64_t extent)
{
	Afar__ExtentsRelease release = AFAR__EXTENTS_RELEASE__INIT;

	release.n_extents = release.n_namespaces = 1;
	release.extents = &extent;
	release.namespaces = &namespace;
	release.store = manager->store.number;
	return fake_manager_call(manager, RPC_REQUEST(EXTENTS_RELEASE, extents_release, &release),
				 NULL);
}

int fake_manager_trim(struct fake_manager *manager, uint64_t namespace, uint64_t extent,
		      uint64_t offset, uint64_t length)
{
	Afar__ExtentsTrim trim = AFAR__EXTENTS_TRIM__INIT;
	Afar__TrimRange range = AFAR__TRIM_RANGE__INIT;
	Afar__TrimRange *ranges = &range;

	range.extent = extent;
	range.offset = offset;
	range.length = length;
	trim.store = manager->store.number;
	trim.namespace_ = namespace;
	trim.n_ranges = 1;
	trim.ranges = &ranges;
	return fake_manager_call(manager, RPC_REQUEST(EXTENTS_TRIM, extents_trim, &trim), NULL);
}

static void note_answer(void *argument, const Afar__Frame *reply, int status)
{
	struct fake_call *call = argument;

	call->status = reply ? reply->reply->status : status;
	call->was_held = call->is_held && call->is_held();
	sem_post(&call->ended);
}

int fake_call_send(struct rpc_connection *connection, Afar__Request *request,
		   struct fake_call *call)
{
	const struct rpc_envelope envelope = {.deadline = clock_deadline_ms(FAKE_PATIENCE_MS)};

	call->status = 0;
	sem_init(&call->ended, 0, 0);
	return rpc_send(connection, &envelope, request, note_answer, call);
}

void fake_manager_send(struct fake_manager *manager, Afar__Request *request, struct fake_call *call)
{
	call->is_held = manager->is_held;
	pthread_mutex_lock(&manager->lock);
	assert_non_null(manager->connection);
	assert_int_equal(fake_call_send(manager->connection, request, call), 0);
	pthread_mutex_unlock(&manager->lock);
}

int fake_call_await(struct fake_call *call)
{
	while (sem_wait(&call->ended) != 0)
		;
	sem_destroy(&call->ended);
	return call->status;
}

void fake_manager_ping(struct fake_manager *manager, unsigned times)
{
	Afar__Ping ping = AFAR__PING__INIT;

	for (unsigned i = 0; i < times; i++)
		assert_int_equal(fake_manager_call(manager, RPC_REQUEST(PING, ping, &ping), NULL),
				 0);
}

int fake_manager_end_session(struct fake_manager *manager, uint64_t session)
{
	Afar__SessionEnd end = AFAR__SESSION_END__INIT;

	end.session = session;
	return fake_manager_call(manager, RPC_REQUEST(SESSION_END, session_end, &end), NULL);
}

/* ---- For clients */

struct key fake_manager_pass(const struct fake_manager *manager, uint64_t session)
{
	struct key pass;

	assert_int_equal(
		pass_make(manager->signing_key, session, manager->age_s + LIFETIME_S, &pass), 0);
	return pass;
}

struct rpc_capability fake_manager_capability(const struct fake_manager *manager, uint64_t session,
					      uint64_t namespace, uint32_t rights,
					      const uint64_t *extents, size_t nr_extents)
{
	struct rpc_capability capability = {
		.session = session,
		.namespace = namespace,
		.generation = 1,
		.incarnation = manager->incarnation,
		.rights = rights,
		.expiry = manager->age_s + LIFETIME_S,
	};

	assert_int_equal(capability_digest(extents, nr_extents, capability.digest), 0);
	return capability;
}
