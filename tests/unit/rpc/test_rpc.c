/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls over the control channel between honest peers: both ways, many at once, late, lost, large; and
 * the loop, and tickets. Strangers and liars are test_rpc_strangers.c's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "lib/rpc/rpc_world.h"
#include "rpc/ticket.h"
#include "unit/group.h"

/* ---- Requests that the test answers by itself, later */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct rpc_call *calls[2000];
	unsigned nr_calls;
} kept = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {NULL}, 0};

static void on_keep(struct rpc_connection *connection, const Afar__Frame *frame,
		    struct rpc_call *call)
{
	(void)frame;
	assert_ptr_equal(rpc_call_connection(call), connection);
	pthread_mutex_lock(&kept.lock);
	kept.calls[kept.nr_calls++] = call;
	pthread_cond_broadcast(&kept.changed);
	pthread_mutex_unlock(&kept.lock);
}

static const struct rpc_handlers keep_handlers = {on_keep, on_opened, on_closed};

static void await_kept(unsigned wanted)
{
	pthread_mutex_lock(&kept.lock);
	while (kept.nr_calls < wanted)
		pthread_cond_wait(&kept.changed, &kept.lock);
	pthread_mutex_unlock(&kept.lock);
}

/* Answers what is kept, last first. */
static unsigned answer_kept(void)
{
	Afar__Reply reply = AFAR__REPLY__INIT;
	unsigned nr_answered = 0;
	struct rpc_call *call;

	do {
		pthread_mutex_lock(&kept.lock);
		call = kept.nr_calls ? kept.calls[--kept.nr_calls] : NULL;
		pthread_mutex_unlock(&kept.lock);
		if (call)
			rpc_reply(call, 1, &reply);
		nr_answered += call != NULL;
	} while (call);
	return nr_answered;
}

/* ---- One call */

static struct rpc_envelope seen_envelope;
static uint32_t seen_deadline_ms;

static void on_look(struct rpc_connection *connection, const Afar__Frame *frame,
		    struct rpc_call *call)
{
	Afar__Reply reply = AFAR__REPLY__INIT;

	assert_string_equal(rpc_connection_identity(connection), "alice");
	seen_envelope = (struct rpc_envelope){frame->request_id, frame->session, frame->incarnation,
					      frame->settled_below, 0};
	seen_deadline_ms = frame->deadline_ms;
	rpc_reply(call, 4711, &reply);
}

static void test_call_carries_its_envelope(void **state)
{
	static const struct rpc_handlers handlers = {on_look, on_opened, on_closed};
	struct rpc_connection *connection = world_pair(&handlers);
	struct rpc_envelope envelope = {5, 6, 7, 3, clock_deadline_ms(60000)};
	Afar__Request request;
	Afar__Frame *reply;
	Afar__Ping ping;

	(void)state;
	fill_ping(&request, &ping);
	assert_int_equal(rpc_call(connection, &envelope, &request, &reply), 0);
	assert_int_equal(reply->version, RPC_VERSION);
	assert_int_equal(reply->request_id, 5);
	assert_int_equal(reply->session, 6);
	assert_int_equal(reply->incarnation, 4711);
	afar__frame__free_unpacked(reply, NULL);
	assert_int_equal(seen_envelope.request_id, 5);
	assert_int_equal(seen_envelope.session, 6);
	assert_int_equal(seen_envelope.incarnation, 7);
	assert_int_equal(seen_envelope.settled_below, 3);
	assert_in_range(seen_deadline_ms, 1, 60000);

	assert_int_equal(call_ping(connection), 0);
	assert_int_equal(seen_deadline_ms, 0); /* without limit */
	assert_true(seen_envelope.request_id != 0);
	assert_string_equal(rpc_connection_identity(connection), "alice");
	assert_string_equal(rpc_connection_peer(connection), rpc_listener_address(world.listener));
	rpc_connection_unref(connection);
}

static void on_refuse(struct rpc_connection *connection, const Afar__Frame *frame,
		      struct rpc_call *call)
{
	(void)connection;
	(void)frame;
	rpc_reply_status(call, 0, error_fail(-AFAR_ERESERVE, "alloc of 9 bytes: reserve more"));
}

static void test_refusal_brings_its_sentence(void **state)
{
	static const struct rpc_handlers handlers = {on_refuse, on_opened, on_closed};
	struct rpc_connection *connection = world_pair(&handlers);

	(void)state;
	assert_int_equal(call_ping(connection), -AFAR_ERESERVE);
	assert_string_equal(afar_last_error(), "alloc of 9 bytes: reserve more");
	rpc_connection_unref(connection);
}

static void test_nobody_handles_requests(void **state)
{
	static const struct rpc_handlers handlers = {NULL, on_opened, on_closed};
	struct rpc_connection *connection = world_pair(&handlers);

	(void)state;
	assert_int_equal(call_ping(connection), -EOPNOTSUPP);
	rpc_connection_unref(connection);
}

static void test_same_request_id_twice(void **state)
{
	struct rpc_connection *connection = world_pair(&keep_handlers);
	struct rpc_envelope envelope = {.request_id = 8, .deadline = CLOCK_NEVER};

	(void)state;
	assert_int_equal(send_ping(connection, &envelope, on_done, &world.client), 0);
	assert_int_equal(send_ping(connection, &envelope, on_done, &world.client), -EEXIST);
	await_kept(1);
	answer_kept();
	await_count(&world.client, &world.client.nr_done, 1);
	/* Answered: the id may be used again, as a retried call does. */
	assert_int_equal(send_ping(connection, &envelope, on_done, &world.client), 0);
	await_kept(1);
	answer_kept();
	await_count(&world.client, &world.client.nr_done, 2);
	rpc_connection_unref(connection);
}

/* ---- Both ways, and from callbacks */

/* Answers the client's call only after the client has answered one of ours. */
static void on_called_back(void *argument, const Afar__Frame *reply, int status)
{
	Afar__Reply answer = AFAR__REPLY__INIT;

	assert_non_null(reply);
	answer.status = status;
	rpc_reply(argument, 0, &answer);
}

static void on_call_back(struct rpc_connection *connection, const Afar__Frame *frame,
			 struct rpc_call *call)
{
	(void)frame;
	assert_int_equal(send_ping(connection, &plain_envelope, on_called_back, call), 0);
}

static void test_calls_both_ways(void **state)
{
	static const struct rpc_handlers handlers = {on_call_back, on_opened, on_closed};
	struct rpc_connection *connection = world_pair(&handlers);

	(void)state;
	for (int i = 0; i < 100; i++)
		assert_int_equal(call_ping(connection), 0);
	assert_int_equal(call_ping(world.server.last), 0);
	rpc_connection_unref(connection);
}

static int deadlock_status;
static sem_t deadlock_done;

static void call_on_loop(void *argument)
{
	deadlock_status = call_ping(argument);
	sem_post(&deadlock_done);
}

static void test_blocking_call_on_the_loop(void **state)
{
	struct rpc_connection *connection = world_pair(&echo_handlers);

	(void)state;
	sem_init(&deadlock_done, 0, 0);
	assert_int_equal(rpc_loop_post(world.client_loop, call_on_loop, connection), 0);
	sem_wait(&deadlock_done);
	assert_int_equal(deadlock_status, -EDEADLK);
	sem_destroy(&deadlock_done);
	rpc_connection_unref(connection);
}

/* ---- Many */

#define NR_CALLERS 8
#define NR_CALLS   125

static void *call_many(void *argument)
{
	char name[32], expected[32];
	uintptr_t errors = 0;

	for (unsigned i = 0; i < NR_CALLS; i++) {
		Afar__SessionOpen open = AFAR__SESSION_OPEN__INIT;
		Afar__Frame *reply = NULL;

		snprintf(name, sizeof(name), "%lx-%u", (unsigned long)pthread_self(), i);
		strcpy(expected, name);
		open.client = name;
		if (rpc_call(argument, &plain_envelope,
			     RPC_REQUEST(SESSION_OPEN, session_open, &open), &reply) ||
		    strcmp(reply->reply->message, expected))
			errors++;
		if (reply)
			afar__frame__free_unpacked(reply, NULL);
	}
	return (void *)errors;
}

static void test_replies_match_their_calls(void **state)
{
	struct rpc_connection *connection = world_pair(&echo_handlers);
	pthread_t threads[NR_CALLERS];
	void *errors;

	(void)state;
	for (unsigned i = 0; i < NR_CALLERS; i++)
		pthread_create(&threads[i], NULL, call_many, connection);
	for (unsigned i = 0; i < NR_CALLERS; i++) {
		pthread_join(threads[i], &errors);
		assert_null(errors);
	}
	rpc_connection_unref(connection);
}

/* Each callback must get the reply to its own request id. */
static void on_matched(void *argument, const Afar__Frame *reply, int status)
{
	assert_int_equal(status, 0);
	assert_int_equal(reply->request_id, (uintptr_t)argument);
	on_done(&world.client, reply, status);
}

struct sender {
	pthread_t thread;
	struct rpc_connection *connection;
	uint64_t first_id;
};

static void *send_many(void *argument)
{
	struct sender *sender = argument;

	for (uint64_t id = sender->first_id; id < sender->first_id + NR_CALLS; id++) {
		const struct rpc_envelope envelope = {.request_id = id,
						      .deadline = clock_deadline_ms(60000)};

		send_ping(sender->connection, &envelope, on_matched, (void *)(uintptr_t)id);
	}
	return NULL;
}

static void test_thousand_at_once_answered_out_of_order(void **state)
{
	struct rpc_connection *connection = world_pair(&keep_handlers);
	struct sender senders[NR_CALLERS];

	(void)state;
	for (unsigned i = 0; i < NR_CALLERS; i++) {
		senders[i] = (struct sender){.connection = connection,
					     .first_id = 1 + (uint64_t)i * NR_CALLS};
		pthread_create(&senders[i].thread, NULL, send_many, &senders[i]);
	}
	for (unsigned i = 0; i < NR_CALLERS; i++)
		pthread_join(senders[i].thread, NULL);
	await_kept(NR_CALLERS * NR_CALLS);
	assert_int_equal(answer_kept(), NR_CALLERS * NR_CALLS);
	await_count(&world.client, &world.client.nr_done, NR_CALLERS * NR_CALLS);
	rpc_connection_unref(connection);
}

#define NR_CONNECTIONS 200

static void test_many_connections(void **state)
{
	struct rpc_connection *connections[NR_CONNECTIONS];

	(void)state;
	world_listen(&echo_handlers);
	/* Not so many at once that a slow machine has not done with the first in time. */
	for (unsigned i = 0; i < NR_CONNECTIONS; i++) {
		connections[i] = world_connect(i % 2 ? &good_key : &other_key, &echo_handlers);
		if (i % 40 == 39)
			await_opened(&world.client, i + 1);
	}
	for (unsigned i = 0; i < NR_CONNECTIONS; i++) {
		assert_int_equal(call_ping(connections[i]), 0);
		rpc_connection_close(connections[i]);
		rpc_connection_unref(connections[i]);
	}
	assert_int_equal(await_closed(&world.client, NR_CONNECTIONS), 0);
	await_closed(&world.server, NR_CONNECTIONS);
}

/* ---- Large */

static int call_with_text(struct rpc_connection *connection, size_t length, Afar__Frame **reply)
{
	Afar__SessionOpen open = AFAR__SESSION_OPEN__INIT;
	int status;

	open.client = malloc(length + 1);
	memset(open.client, 'x', length);
	open.client[length] = 0;
	status = rpc_call(connection, &plain_envelope,
			  RPC_REQUEST(SESSION_OPEN, session_open, &open), reply);
	free(open.client);
	return status;
}

static void test_large_messages(void **state)
{
	struct rpc_connection *connection = world_pair(&echo_handlers);
	Afar__Frame *reply;

	(void)state;
	assert_int_equal(call_with_text(connection, 32U << 20, &reply), 0);
	assert_int_equal(strlen(reply->reply->message), 32U << 20);
	assert_int_equal(reply->reply->message[(32U << 20) - 1], 'x');
	afar__frame__free_unpacked(reply, NULL);
	assert_int_equal(call_with_text(connection, RPC_FRAME_MAX, NULL), -EMSGSIZE);
	assert_int_equal(call_ping(connection), 0);
	rpc_connection_unref(connection);
}

static void on_overdo(struct rpc_connection *connection, const Afar__Frame *frame,
		      struct rpc_call *call)
{
	Afar__Reply reply = AFAR__REPLY__INIT;
	char *text = calloc(1, RPC_FRAME_MAX + 1);

	(void)connection;
	(void)frame;
	memset(text, 'x', RPC_FRAME_MAX);
	reply.message = text;
	rpc_reply(call, 0, &reply);
	free(text);
}

static void test_reply_too_long(void **state)
{
	static const struct rpc_handlers handlers = {on_overdo, on_opened, on_closed};
	struct rpc_connection *connection = world_pair(&handlers);

	(void)state;
	assert_int_equal(call_ping(connection), -EMSGSIZE);
	rpc_connection_unref(connection);
}

/* ---- Late and lost */

static void test_deadline_then_late_reply(void **state)
{
	struct rpc_connection *connection = world_pair(&keep_handlers);
	struct rpc_envelope envelope = {.request_id = 1};
	unsigned patience_ms = 20;
	Afar__Request request;
	Afar__Ping ping;

	(void)state;
	fill_ping(&request, &ping);
	/* Until it was not over before the call was sent. */
	do {
		envelope.deadline = clock_deadline_ms(patience_ms);
		patience_ms *= 2;
		assert_int_equal(rpc_call(connection, &envelope, &request, NULL), -ETIMEDOUT);
	} while (!strstr(afar_last_error(), "no reply in time"));
	assert_int_equal(rpc_call(connection, &envelope, &request, NULL), -ETIMEDOUT);
	await_kept(1);
	answer_kept(); /* nobody waits for it */

	/* The next call gets its own reply. */
	envelope = (struct rpc_envelope){.request_id = 2, .deadline = CLOCK_NEVER};
	assert_int_equal(send_ping(connection, &envelope, on_matched, (void *)2), 0);
	await_kept(1);
	answer_kept();
	await_count(&world.client, &world.client.nr_done, 1);
	rpc_connection_unref(connection);
}

static void on_lost(void *argument, const Afar__Frame *reply, int status)
{
	assert_null(reply);
	assert_int_equal(status, -ECONNRESET);
	on_done(argument, reply, status);
}

static void test_connection_lost_with_calls_pending(void **state)
{
	struct rpc_connection *connection = world_pair(&keep_handlers);

	(void)state;
	for (int i = 0; i < 50; i++)
		assert_int_equal(send_ping(connection, &plain_envelope, on_lost, &world.client), 0);
	await_kept(50);
	rpc_connection_close(world.server.last);
	rpc_connection_close(world.server.last);
	assert_int_equal(await_closed(&world.client, 1), -ECONNRESET);
	assert_int_equal(world.client.nr_done, 50);
	assert_int_equal(world.client.nr_done_late, 0);
	assert_int_equal(await_closed(&world.server, 1), 0);
	assert_int_equal(answer_kept(), 50); /* harmless */

	assert_int_equal(call_ping(connection), -ECONNRESET);
	rpc_connection_close(connection);
	rpc_connection_unref(connection);
	assert_int_equal(world.client.nr_closed, 1);
}

static void on_never_open(void *argument, const Afar__Frame *reply, int status)
{
	assert_null(reply);
	assert_int_equal(status, -ENOTCONN);
	on_done(argument, reply, status);
}

/* A port that nobody listens on: bound, so that nobody else takes it. */
static int bind_deaf_port(uint16_t *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
	getsockname(fd, (struct sockaddr *)&address, &length);
	*port = ntohs(address.sin_port);
	return fd;
}

static void test_nobody_listens(void **state)
{
	struct rpc_connection *connection;
	int fd = bind_deaf_port(&world.port);

	(void)state;
	connection = world_connect(&good_key, &echo_handlers);
	/* Too late on a fast machine: then nothing was sent, and the call says so itself. */
	if (send_ping(connection, &plain_envelope, on_never_open, &world.client))
		on_done(&world.client, NULL, 0);
	assert_int_equal(await_closed(&world.client, 1), -ECONNREFUSED);
	assert_int_equal(world.client.nr_done, 1);
	assert_int_equal(world.client.nr_opened, 0);
	assert_int_equal(call_ping(connection), -ENOTCONN);
	rpc_connection_unref(connection);
	close(fd);

	assert_int_equal(rpc_connect(world.client_loop, "no such host", 1, &good_key,
				     &echo_handlers, NULL, &connection),
			 -EHOSTUNREACH);
}

static void test_calls_wait_for_the_handshake(void **state)
{
	struct rpc_connection *connection;

	(void)state;
	world_listen(&echo_handlers);
	connection = world_connect(&good_key, &echo_handlers);
	assert_int_equal(call_ping(connection), 0);
	rpc_connection_unref(connection);
}

static sem_t hold;

static void on_hold(void *argument)
{
	(void)argument;
	while (sem_wait(&hold))
		;
}

static void test_peer_that_stops_reading(void **state)
{
	struct rpc_connection *connection = world_pair(&echo_handlers);
	struct rpc_connection *reader = world.server.last;
	Afar__SessionOpen open = AFAR__SESSION_OPEN__INIT;
	const size_t length = 40U << 20;
	int status = 0;

	(void)state;
	sem_init(&hold, 0, 0);
	rpc_loop_post(world.client_loop, on_hold, NULL);
	open.client = calloc(1, length + 1);
	memset(open.client, 'x', length);
	for (int i = 0; i < 10 && !status; i++)
		status = rpc_send(reader, &plain_envelope,
				  RPC_REQUEST(SESSION_OPEN, session_open, &open), on_done,
				  &world.server);
	assert_int_equal(status, -ECONNRESET);
	assert_int_equal(await_closed(&world.server, 1), -ETIMEDOUT);
	sem_post(&hold);
	await_closed(&world.client, 1);
	free(open.client);
	sem_destroy(&hold);
	rpc_connection_unref(connection);
}

/* Senders write themselves; an application does not expect SIGPIPE for that. */
static void test_writing_to_a_gone_peer_raises_no_signal(void **state)
{
	struct rpc_connection *connection = world_pair(&echo_handlers);
	int status = 0;

	(void)state;
	sem_init(&hold, 0, 0);
	rpc_loop_post(world.client_loop, on_hold, NULL);
	rpc_connection_close(world.server.last);
	await_closed(&world.server, 1);
	while (!status)
		status = send_ping(connection, &plain_envelope, on_done, &world.client);
	assert_int_equal(status, -ECONNRESET);
	sem_post(&hold);
	assert_int_equal(await_closed(&world.client, 1), -ECONNRESET);
	sem_destroy(&hold);
	rpc_connection_unref(connection);
}

/* ---- The end */

static void test_stop_with_all_in_flight(void **state)
{
	struct rpc_connection *connections[20];
	unsigned nr_sent = 0;

	(void)state;
	world_listen(&keep_handlers);
	for (unsigned i = 0; i < 20; i++)
		connections[i] = world_connect(&good_key, &echo_handlers);
	await_opened(&world.client, 10); /* the others may be anywhere */
	for (unsigned i = 0; i < 400; i++)
		nr_sent += !send_ping(connections[i % 20], &plain_envelope, on_done, &world.client);
	await_kept(10);
	rpc_loop_stop(world.client_loop);
	world.client_loop = NULL;
	assert_int_equal(world.client.nr_done, nr_sent);
	assert_int_equal(world.client.nr_closed, 20);
	assert_int_equal(world.client.closed_status, 0);
	rpc_loop_stop(world.server_loop);
	world.server_loop = NULL;
	assert_int_equal(world.server.nr_closed, world.server.nr_opened);
	answer_kept(); /* harmless, though the loop is gone */
	for (unsigned i = 0; i < 20; i++) {
		assert_true(call_ping(connections[i]) < 0);
		rpc_connection_close(connections[i]);
		rpc_connection_unref(connections[i]);
	}
}

static void test_closed_listener_opens_nothing(void **state)
{
	struct rpc_connection *connections[20], *old = world_pair(&echo_handlers);
	unsigned nr_opened;

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		connections[i] = world_connect(&good_key, &echo_handlers);
	rpc_listener_close(world.listener);
	pthread_mutex_lock(&world.server.lock);
	nr_opened = world.server.nr_opened;
	pthread_mutex_unlock(&world.server.lock);
	await_closed(&world.client, 21 - nr_opened);
	for (unsigned i = 0; i < 20; i++)
		rpc_connection_unref(connections[i]);
	assert_int_equal(world.server.nr_opened, nr_opened);
	assert_int_equal(call_ping(old), 0);
	rpc_connection_unref(old);
}

static void test_addresses_that_cannot_be_listened_on(void **state)
{
	static const char *const malformed[] = {
		"",	 "127.0.0.1", "127.0.0.1:", ":1",   "127.0.0.1:70000", "127.0.0.1:1x",
		"a b:1", "[::1",      "[]:1",	    "x:-1", "127.0.0.1: 1"};
	const struct rpc_keyring keyring = {key_list_find, &known_keys};
	struct rpc_listener *listener;

	(void)state;
	for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++)
		assert_int_equal(rpc_listen(world.server_loop, malformed[i], &keyring,
					    &echo_handlers, NULL, &listener),
				 -EINVAL);
	world_listen(&echo_handlers);
	assert_int_equal(rpc_listen(world.server_loop, rpc_listener_address(world.listener),
				    &keyring, &echo_handlers, NULL, &listener),
			 -EADDRINUSE);
	assert_non_null(strstr(afar_last_error(), rpc_listener_address(world.listener)));
	assert_int_equal(rpc_listen(world.server_loop, "192.0.2.1:0", &keyring, &echo_handlers,
				    NULL, &listener),
			 -EADDRNOTAVAIL);
}

/* ---- The loop itself */

static struct {
	int order[8];
	int nr;
	int pipe[2];
	sem_t done;
} trace;

static void note(void *argument)
{
	trace.order[trace.nr++] = (int)(intptr_t)argument;
	if (trace.nr == 5)
		sem_post(&trace.done);
}

static void note_pipe(void *argument)
{
	char byte;

	assert_int_equal(read(trace.pipe[0], &byte, 1), 1);
	rpc_loop_unwatch(argument, trace.pipe[0]);
	note((void *)(intptr_t)5);
}

static void never(void *argument)
{
	(void)argument;
	fail_msg("a timer ran after the loop was stopped");
}

static void write_pipe(void *argument)
{
	(void)argument;
	assert_int_equal(write(trace.pipe[1], "x", 1), 1);
}

static void note_and_write_pipe(void *argument)
{
	note(argument);
	write_pipe(NULL);
}

/* The later one first: they run by their time, not in the order they were set. */
static void set_timers(void *argument)
{
	rpc_loop_timer(argument, 60000, never, NULL);
	rpc_loop_timer(argument, 1000, note_and_write_pipe, (void *)4);
	rpc_loop_timer(argument, 1, note, (void *)3);
	note((void *)1);
}

static void wait_for(void *argument)
{
	while (sem_wait(argument))
		;
}

static void test_loop_posts_timers_watches(void **state)
{
	sem_t all_posted;

	(void)state;
	sem_init(&all_posted, 0, 0);
	memset(&trace, 0, sizeof(trace));
	sem_init(&trace.done, 0, 0);
	assert_int_equal(pipe(trace.pipe), 0);
	assert_int_equal(
		rpc_loop_watch(world.client_loop, trace.pipe[0], note_pipe, world.client_loop), 0);
	/* Both before the first timer has run. */
	assert_int_equal(rpc_loop_post(world.client_loop, wait_for, &all_posted), 0);
	assert_int_equal(rpc_loop_post(world.client_loop, set_timers, world.client_loop), 0);
	assert_int_equal(rpc_loop_post(world.client_loop, note, (void *)2), 0);
	sem_post(&all_posted);
	while (sem_wait(&trace.done))
		;
	for (int i = 0; i < 5; i++)
		assert_int_equal(trace.order[i], i + 1);
	/* Unwatched: what is written now stays. A watch that is left over goes with the loop. */
	write_pipe(NULL);
	assert_int_equal(rpc_loop_watch(world.client_loop, trace.pipe[1], never, NULL), 0);
	rpc_loop_stop(world.client_loop);
	world.client_loop = NULL;
	close(trace.pipe[0]);
	close(trace.pipe[1]);
	sem_destroy(&trace.done);
	sem_destroy(&all_posted);
}

/* ---- Tickets */

static void test_ticket(void **state)
{
	static const uint8_t key[TICKET_KEY_BYTES] = {42}, wrong_key[TICKET_KEY_BYTES] = {43};
	const struct rpc_ticket fields = {
		.session = 11, .incarnation = 22, .nonce = 33, .expiry = 1000};
	struct rpc_ticket ticket = fields, seen;
	uint8_t bytes[sizeof(ticket) + 1] = {0};

	(void)state;
	assert_int_equal(ticket_sign(&ticket, key), 0);
	memcpy(bytes, &ticket, sizeof(ticket));
	assert_int_equal(bytes[0], 11); /* little-endian */
	assert_int_equal(ticket_verify(bytes, sizeof(ticket), key, 22, 999, &seen), 0);
	assert_int_equal(seen.session, 11);
	assert_int_equal(seen.incarnation, 22);
	assert_int_equal(seen.nonce, 33);
	assert_int_equal(seen.expiry, 1000);

	assert_int_equal(ticket_verify(bytes, sizeof(ticket), key, 22, 1001, &seen), -EACCES);
	assert_int_equal(ticket_verify(bytes, sizeof(ticket), key, 23, 999, &seen), -EACCES);
	assert_int_equal(ticket_verify(bytes, sizeof(ticket), wrong_key, 22, 999, &seen), -EACCES);
	assert_int_equal(ticket_verify(bytes, sizeof(ticket) - 1, key, 22, 999, &seen), -EACCES);
	assert_int_equal(ticket_verify(bytes, sizeof(ticket) + 1, key, 22, 999, &seen), -EACCES);
	assert_int_equal(ticket_verify(NULL, 0, key, 22, 999, &seen), -EACCES);
	for (size_t i = 0; i < sizeof(ticket); i++) {
		bytes[i] ^= 0x80;
		assert_int_equal(ticket_verify(bytes, sizeof(ticket), key, 22, 999, &seen),
				 -EACCES);
		bytes[i] ^= 0x80;
	}
}

static void test_ticket_across_the_wrap_of_seconds(void **state)
{
	static const uint8_t key[TICKET_KEY_BYTES] = {42};
	struct rpc_ticket ticket = {.incarnation = 1, .expiry = 5}, seen;

	(void)state;
	assert_int_equal(ticket_sign(&ticket, key), 0);
	assert_int_equal(ticket_verify(&ticket, sizeof(ticket), key, 1, UINT32_MAX - 5, &seen), 0);
	assert_int_equal(ticket_verify(&ticket, sizeof(ticket), key, 1, 6, &seen), -EACCES);
}

#define in_world(test) cmocka_unit_test_setup_teardown(test, world_start, world_stop)

TEST_GROUP(rpc)
{
	const struct CMUnitTest tests[] = {
		in_world(test_call_carries_its_envelope),
		in_world(test_refusal_brings_its_sentence),
		in_world(test_nobody_handles_requests),
		in_world(test_same_request_id_twice),
		in_world(test_calls_both_ways),
		in_world(test_blocking_call_on_the_loop),
		in_world(test_replies_match_their_calls),
		in_world(test_thousand_at_once_answered_out_of_order),
		in_world(test_many_connections),
		in_world(test_large_messages),
		in_world(test_reply_too_long),
		in_world(test_deadline_then_late_reply),
		in_world(test_connection_lost_with_calls_pending),
		in_world(test_nobody_listens),
		in_world(test_calls_wait_for_the_handshake),
		in_world(test_peer_that_stops_reading),
		in_world(test_writing_to_a_gone_peer_raises_no_signal),
		in_world(test_stop_with_all_in_flight),
		in_world(test_closed_listener_opens_nothing),
		in_world(test_addresses_that_cannot_be_listened_on),
		in_world(test_loop_posts_timers_watches),
		cmocka_unit_test(test_ticket),
		cmocka_unit_test(test_ticket_across_the_wrap_of_seconds),
	};

	return cmocka_run_group_tests_name("rpc", tests, NULL, NULL);
}
