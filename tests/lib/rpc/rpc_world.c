/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ends of the tests of rpc/; see rpc_world.h. */
#include "lib/rpc/rpc_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"

struct world world;

const struct key good_key = {.identity = "alice", .secret = {1, 2, 3}};
const struct key other_key = {.identity = "bob", .secret = {9, 9, 9}};
static const struct key known_key_array[] = {
	{.identity = "bob", .secret = {9, 9, 9}},
	{.identity = "alice", .secret = {1, 2, 3}},
};
struct key_list known_keys = {known_key_array, 2};

const struct rpc_envelope plain_envelope = {.deadline = CLOCK_NEVER};

static void record_opened(struct record *record, struct rpc_connection *connection)
{
	pthread_mutex_lock(&record->lock);
	record->nr_opened++;
	if (record->last)
		rpc_connection_unref(record->last);
	rpc_connection_ref(connection);
	record->last = connection;
	pthread_cond_broadcast(&record->changed);
	pthread_mutex_unlock(&record->lock);
}

static void record_closed(struct record *record, int status)
{
	pthread_mutex_lock(&record->lock);
	record->nr_closed++;
	record->closed_status = status;
	pthread_cond_broadcast(&record->changed);
	pthread_mutex_unlock(&record->lock);
}

void await_count(struct record *record, const unsigned *count, unsigned wanted)
{
	struct timespec patience;
	int status = 0;

	clock_gettime(CLOCK_REALTIME, &patience);
	patience.tv_sec += 60;
	pthread_mutex_lock(&record->lock);
	while (*count < wanted && !status)
		status = pthread_cond_timedwait(&record->changed, &record->lock, &patience);
	pthread_mutex_unlock(&record->lock);
	if (status)
		fail_msg("waited for %u, got no more; last closed with %d", wanted,
			 record->closed_status);
}

void await_opened(struct record *record, unsigned wanted)
{
	await_count(record, &record->nr_opened, wanted);
}

int await_closed(struct record *record, unsigned wanted)
{
	await_count(record, &record->nr_closed, wanted);
	return record->closed_status;
}

void on_opened(struct rpc_connection *connection)
{
	record_opened(rpc_connection_context(connection), connection);
}

void on_closed(struct rpc_connection *connection, int status)
{
	record_closed(rpc_connection_context(connection), status);
}

void on_done(void *argument, const Afar__Frame *reply, int status)
{
	struct record *record = argument;

	(void)reply;
	(void)status;
	pthread_mutex_lock(&record->lock);
	record->nr_done++;
	if (record->nr_closed)
		record->nr_done_late++;
	pthread_cond_broadcast(&record->changed);
	pthread_mutex_unlock(&record->lock);
}

/* Answers at once: a session_open's name comes back as a message; anything else is 0. */
static void on_echo(struct rpc_connection *connection, const Afar__Frame *frame,
		    struct rpc_call *call)
{
	Afar__Reply reply = AFAR__REPLY__INIT;

	(void)connection;
	if (frame->request->call_case == AFAR__REQUEST__CALL_SESSION_OPEN)
		reply.message = frame->request->session_open->client;
	rpc_reply(call, 77, &reply);
}

const struct rpc_handlers echo_handlers = {on_echo, on_opened, on_closed};

static void record_init(struct record *record)
{
	memset(record, 0, sizeof(*record));
	pthread_mutex_init(&record->lock, NULL);
	pthread_cond_init(&record->changed, NULL);
}

static void record_free(struct record *record)
{
	if (record->last)
		rpc_connection_unref(record->last);
	pthread_cond_destroy(&record->changed);
	pthread_mutex_destroy(&record->lock);
}

void world_listen(const struct rpc_handlers *handlers)
{
	const struct rpc_keyring keyring = {key_list_find, &known_keys};

	assert_int_equal(rpc_listen(world.server_loop, "127.0.0.1:0", &keyring, handlers,
				    &world.server, &world.listener),
			 0);
	world.port = (uint16_t)atoi(strrchr(rpc_listener_address(world.listener), ':') + 1);
}

int world_start(void **state)
{
	(void)state;
	record_init(&world.server);
	record_init(&world.client);
	world.listener = NULL;
	assert_int_equal(rpc_loop_start("server", &world.server_loop), 0);
	assert_int_equal(rpc_loop_start("client", &world.client_loop), 0);
	return 0;
}

int world_stop(void **state)
{
	(void)state;
	if (world.client_loop)
		rpc_loop_stop(world.client_loop);
	if (world.server_loop)
		rpc_loop_stop(world.server_loop);
	record_free(&world.client);
	record_free(&world.server);
	return 0;
}

struct rpc_connection *world_connect(const struct key *key, const struct rpc_handlers *handlers)
{
	struct rpc_connection *connection;

	assert_int_equal(rpc_connect(world.client_loop, "127.0.0.1", world.port, key, handlers,
				     &world.client, &connection),
			 0);
	return connection;
}

struct rpc_connection *world_pair(const struct rpc_handlers *server)
{
	struct rpc_connection *connection;

	world_listen(server);
	connection = world_connect(&good_key, &echo_handlers);
	await_opened(&world.client, 1);
	await_opened(&world.server, 1);
	return connection;
}

void fill_ping(Afar__Request *request, Afar__Ping *ping)
{
	afar__request__init(request);
	afar__ping__init(ping);
	request->call_case = AFAR__REQUEST__CALL_PING;
	request->ping = ping;
}

int call_ping(struct rpc_connection *connection)
{
	Afar__Request request;
	Afar__Ping ping;

	fill_ping(&request, &ping);
	return rpc_call(connection, &plain_envelope, &request, NULL);
}

int send_ping(struct rpc_connection *connection, const struct rpc_envelope *envelope,
	      rpc_done *done, void *argument)
{
	Afar__Request request;
	Afar__Ping ping;

	fill_ping(&request, &ping);
	return rpc_send(connection, envelope, &request, done, argument);
}
