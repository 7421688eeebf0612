/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A manager for tests of servers: takes any server in as number FAKE_SERVER, remembers what it said, asks
 * it for things, makes passes and capabilities for its clients. Include after cmocka.h.
 */
#ifndef TESTS_FAKE_MANAGER_H
#define TESTS_FAKE_MANAGER_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/uri.h"
#include "rpc/capability.h"
#include "rpc/pass.h"
#include "rpc/rpc.h"

#define FAKE_SERVER	 7U
#define FAKE_PATIENCE_MS 20000
#define FAKE_ADDRESS_MAX 128
#define FAKE_LANES_MAX	 2
#define FAKE_EXTENTS_MAX 64
#define FAKE_NAME_MAX	 64
#define FAKE_LIFETIME_S	 600U /* of passes and capabilities */

struct fake_extent {
	uint64_t extent;
	uint64_t namespace;
	uint64_t length;
};

struct fake_manager {
	struct rpc_loop *loop;
	struct rpc_listener *listener;
	struct key key; /* servers' */
	struct key_list keys;
	char address[FAKE_ADDRESS_MAX];

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct rpc_connection *connection; /* the server's, while it is open */
	int refuse_joins_with;
	unsigned nr_joins, nr_refused, nr_reports;
	uint64_t release[FAKE_EXTENTS_MAX]; /* said at the next join */
	size_t nr_release;
	/* Of the last join and report: */
	uint64_t server, incarnation, capacity_bytes;
	uint8_t signing_key[SIGNING_KEY_BYTES];
	uint32_t age_s;
	char name[FAKE_NAME_MAX], control[FAKE_ADDRESS_MAX];
	char data[FAKE_LANES_MAX][FAKE_ADDRESS_MAX];
	size_t nr_lanes;
	struct fake_extent joined[FAKE_EXTENTS_MAX];
	size_t nr_joined;
	Afar__ServerReport report;
};

static inline void fake_note_join(struct fake_manager *manager, const Afar__ServerJoin *join)
{
	manager->server = join->self->server;
	manager->incarnation = join->self->incarnation;
	manager->capacity_bytes = join->capacity_bytes;
	assert_int_equal(join->signing_key.len, SIGNING_KEY_BYTES);
	memcpy(manager->signing_key, join->signing_key.data, SIGNING_KEY_BYTES);
	manager->age_s = join->age_s;
	snprintf(manager->name, sizeof(manager->name), "%s", join->self->name);
	snprintf(manager->control, sizeof(manager->control), "%s", join->self->control_address);
	manager->nr_lanes = join->self->n_lanes;
	for (size_t i = 0; i < join->self->n_lanes && i < FAKE_LANES_MAX; i++) {
		assert_string_equal(join->self->lanes[i]->transport, test_transport());
		snprintf(manager->data[i], sizeof(manager->data[i]), "%s",
			 join->self->lanes[i]->address);
	}
	manager->nr_joined =
		join->n_extents < FAKE_EXTENTS_MAX ? join->n_extents : FAKE_EXTENTS_MAX;
	for (size_t i = 0; i < manager->nr_joined; i++) {
		manager->joined[i].extent = join->extents[i]->extent;
		manager->joined[i].namespace = join->extents[i]->namespace_;
		manager->joined[i].length = join->extents[i]->length;
	}
}

static inline void fake_on_join(struct fake_manager *manager, const Afar__ServerJoin *join,
				struct rpc_call *call)
{
	Afar__ServerJoined joined = AFAR__SERVER_JOINED__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;

	if (manager->refuse_joins_with != 0) {
		manager->nr_refused++;
		reply.status = manager->refuse_joins_with;
		reply.message = (char *)"join: not today";
		rpc_reply(call, 1, &reply);
		return;
	}
	fake_note_join(manager, join);
	/* Reports count from here: an older one may say what is waited for by chance. */
	manager->nr_reports = 0;
	memset(&manager->report, 0, sizeof(manager->report));
	joined.server = FAKE_SERVER;
	joined.n_release = manager->nr_release;
	joined.release = manager->release;
	reply.result_case = AFAR__REPLY__RESULT_SERVER_JOINED;
	joined.cluster = (char *)"fake";
	reply.server_joined = &joined;
	rpc_reply(call, 1, &reply);
	manager->nr_release = 0;
	manager->nr_joins++;
}

static inline void fake_on_request(struct rpc_connection *connection, const Afar__Frame *frame,
				   struct rpc_call *call)
{
	struct fake_manager *manager = rpc_connection_context(connection);

	pthread_mutex_lock(&manager->lock);
	if (frame->request->call_case == AFAR__REQUEST__CALL_SERVER_JOIN) {
		fake_on_join(manager, frame->request->server_join, call);
	} else {
		if (frame->request->call_case == AFAR__REQUEST__CALL_SERVER_REPORT) {
			manager->report = *frame->request->server_report;
			manager->nr_reports++;
		}
		rpc_reply_status(call, 1, 0);
	}
	pthread_cond_broadcast(&manager->changed);
	pthread_mutex_unlock(&manager->lock);
}

static inline void fake_on_opened(struct rpc_connection *connection)
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

static inline void fake_on_closed(struct rpc_connection *connection, int status)
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

/* Waits until `condition`, which may look at `manager`, holds. */
#define fake_await(manager, condition)                                                             \
	do {                                                                                       \
		struct timespec fake_until;                                                        \
		int fake_error = 0;                                                                \
		clock_gettime(CLOCK_REALTIME, &fake_until);                                        \
		fake_until.tv_sec += FAKE_PATIENCE_MS / 1000;                                      \
		pthread_mutex_lock(&(manager)->lock);                                              \
		while (!(condition) && fake_error == 0)                                            \
			fake_error = pthread_cond_timedwait(&(manager)->changed, &(manager)->lock, \
							    &fake_until);                          \
		pthread_mutex_unlock(&(manager)->lock);                                            \
		assert_int_equal(fake_error, 0);                                                   \
	} while (0)

static inline void fake_listen(struct fake_manager *manager, const char *address)
{
	static const struct rpc_handlers handlers = {
		.request = fake_on_request,
		.opened = fake_on_opened,
		.closed = fake_on_closed,
	};

	const struct rpc_keyring keyring = {.find = key_list_find, .context = &manager->keys};

	assert_int_equal(rpc_listen(manager->loop, address, &keyring, &handlers, manager,
				    &manager->listener),
			 0);
	snprintf(manager->address, sizeof(manager->address), "%s",
		 rpc_listener_address(manager->listener));
}

static inline uint16_t fake_port(const struct fake_manager *manager)
{
	return (uint16_t)atoi(strrchr(manager->address, ':') + 1);
}

static inline void fake_open(struct fake_manager *manager)
{
	memset(manager, 0, sizeof(*manager));
	strcpy(manager->key.identity, "server");
	memset(manager->key.secret, 42, sizeof(manager->key.secret));
	manager->keys = (struct key_list){.keys = &manager->key, .nr_keys = 1};
	pthread_mutex_init(&manager->lock, NULL);
	pthread_cond_init(&manager->changed, NULL);
	assert_int_equal(rpc_loop_start("manager", &manager->loop), 0);
	fake_listen(manager, "127.0.0.1:0");
}

/* Goes away; fake_listen() with its old address brings it back. */
static inline void fake_vanish(struct fake_manager *manager)
{
	rpc_listener_close(manager->listener);
	manager->listener = NULL;
	pthread_mutex_lock(&manager->lock);
	if (manager->connection)
		rpc_connection_close(manager->connection);
	pthread_mutex_unlock(&manager->lock);
	fake_await(manager, !manager->connection);
}

static inline void fake_close(struct fake_manager *manager)
{
	if (manager->listener)
		fake_vanish(manager);
	rpc_loop_stop(manager->loop);
	pthread_cond_destroy(&manager->changed);
	pthread_mutex_destroy(&manager->lock);
}

/* Calls the server. */
static inline int fake_call(struct fake_manager *manager, Afar__Request *request,
			    Afar__Frame **reply)
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

/* Reserves; on 0 up to `*nr_out` extents are in `out`. */
static inline int fake_reserve(struct fake_manager *manager, uint64_t namespace, uint64_t bytes,
			       struct fake_extent *out, size_t *nr_out)
{
	Afar__ExtentsReserve reserve = AFAR__EXTENTS_RESERVE__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__Extents *extents;
	Afar__Frame *frame;
	int status;

	reserve.namespace_ = namespace;
	reserve.bytes = bytes;
	request.call_case = AFAR__REQUEST__CALL_EXTENTS_RESERVE;
	request.extents_reserve = &reserve;
	status = fake_call(manager, &request, &frame);
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

static inline int fake_release(struct fake_manager *manager, uint64_t extent)
{
	Afar__ExtentsRelease release = AFAR__EXTENTS_RELEASE__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;

	release.n_extents = 1;
	release.extents = &extent;
	request.call_case = AFAR__REQUEST__CALL_EXTENTS_RELEASE;
	request.extents_release = &release;
	return fake_call(manager, &request, NULL);
}

static inline int fake_end_session(struct fake_manager *manager, uint64_t session)
{
	Afar__SessionEnd end = AFAR__SESSION_END__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;

	end.session = session;
	request.call_case = AFAR__REQUEST__CALL_SESSION_END;
	request.session_end = &end;
	return fake_call(manager, &request, NULL);
}

/* ---- For clients */

static inline struct key fake_pass(const struct fake_manager *manager, uint64_t session)
{
	struct key pass;

	assert_int_equal(
		pass_make(manager->signing_key, session, manager->age_s + FAKE_LIFETIME_S, &pass),
		0);
	return pass;
}

/* Not signed yet: a test may want to change something first. `extents` are ascending. */
static inline struct rpc_capability fake_capability(const struct fake_manager *manager,
						    uint64_t session, uint64_t namespace,
						    uint32_t rights, const uint64_t *extents,
						    size_t nr_extents)
{
	struct rpc_capability capability = {
		.session = session,
		.namespace = namespace,
		.generation = 1,
		.incarnation = manager->incarnation,
		.rights = rights,
		.expiry = manager->age_s + FAKE_LIFETIME_S,
	};

	assert_int_equal(capability_digest(extents, nr_extents, capability.digest), 0);
	return capability;
}

#endif
