/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls over a connection: ours, which wait by request id for their reply or their deadline, and
 * the peer's, which wait for our answer. All code that speaks to another process uses it.
 *
 * A call of ours is in its connection's tree and list from before its bytes leave. The loop's
 * thread takes it out: for its reply, its deadline, or the connection's end. Taking it out is what
 * runs its callback, so that runs once.
 */
#include <errno.h>
#include <search.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "rpc/connection.h"

/* Ids that a connection picks lie above all that sessions count up to. */
#define PICKED_REQUEST_ID (UINT64_C(1) << 63)

/* A call of ours. */
struct pending_call {
	uint64_t request_id;
	struct cds_list_head entry;
	struct loop_timer timer;
	struct rpc_connection *connection; /* holds us, so no reference */
	rpc_done *done;
	void *argument;
	bool keeps_reply; /* `done` takes the reply over */
};

/* A call of the peer's. */
struct rpc_call {
	struct rpc_connection *connection; /* a reference */
	uint64_t request_id;
	uint64_t session;
};

/* ---- The calls that wait, with the connection's lock held */

static int compare_calls(const void *left, const void *right)
{
	uint64_t a = ((const struct pending_call *)left)->request_id;
	uint64_t b = ((const struct pending_call *)right)->request_id;

	return (a > b) - (a < b);
}

static struct pending_call *find_call(struct rpc_connection *connection, uint64_t request_id)
{
	const struct pending_call wanted = {.request_id = request_id};
	struct pending_call *const *found = tfind(&wanted, &connection->calls_by_id, compare_calls);

	return found ? *found : NULL;
}

static int add_call(struct rpc_connection *connection, struct pending_call *call)
{
	if (!tsearch(call, &connection->calls_by_id, compare_calls))
		return -ENOMEM;
	cds_list_add_tail(&call->entry, &connection->calls);
	return 0;
}

static void remove_call(struct rpc_connection *connection, struct pending_call *call)
{
	tdelete(call, &connection->calls_by_id, compare_calls);
	cds_list_del(&call->entry);
}

/* ---- Ending a call of ours, on the loop's thread */

static void end_call(struct pending_call *call, Afar__Frame *reply, int status)
{
	loop_timer_cancel(call->connection->loop, &call->timer);
	call->done(call->argument, reply, status);
	free(call);
}

static void expire_call(struct loop_timer *timer)
{
	struct pending_call *call = caa_container_of(timer, struct pending_call, timer);
	struct rpc_connection *connection = call->connection;

	pthread_mutex_lock(&connection->lock);
	remove_call(connection, call);
	pthread_mutex_unlock(&connection->lock);
	end_call(call, NULL, -ETIMEDOUT);
}

static struct pending_call *take_first_call(struct rpc_connection *connection)
{
	struct pending_call *call = NULL;

	pthread_mutex_lock(&connection->lock);
	if (!cds_list_empty(&connection->calls)) {
		call = cds_list_first_entry(&connection->calls, struct pending_call, entry);
		remove_call(connection, call);
	}
	pthread_mutex_unlock(&connection->lock);
	return call;
}

void call_end_all(struct rpc_connection *connection, int status)
{
	struct pending_call *call;

	while ((call = take_first_call(connection)))
		end_call(call, NULL, status);
}

/* Returns whether the reply was taken over. Drops one that comes after its deadline. */
static bool receive_reply(struct rpc_connection *connection, Afar__Frame *frame)
{
	struct pending_call *call;
	bool is_taken;

	pthread_mutex_lock(&connection->lock);
	call = find_call(connection, frame->request_id);
	if (call)
		remove_call(connection, call);
	pthread_mutex_unlock(&connection->lock);
	if (!call)
		return false;
	is_taken = call->keeps_reply;
	end_call(call, frame, 0);
	return is_taken;
}

/* ---- Calling */

/* Converts a deadline for the wire. 0 means "without limit" there, so a deadline is at least 1. */
static uint32_t deadline_on_wire(uint64_t deadline)
{
	int remaining_ms = clock_remaining_ms(deadline);

	if (deadline == CLOCK_NEVER)
		return 0;
	return remaining_ms > 0 ? (uint32_t)remaining_ms : 1;
}

static int fail_ended(const struct rpc_connection *connection, bool was_open)
{
	if (was_open)
		return error_fail(-ECONNRESET, "call to %s: the connection has ended",
				  connection->peer);
	return error_fail(-ENOTCONN, "call to %s: it could not be reached", connection->peer);
}

static uint64_t pick_request_id(struct rpc_connection *connection)
{
	uint64_t request_id;

	do
		request_id = PICKED_REQUEST_ID | connection->next_request_id++;
	while (find_call(connection, request_id));
	return request_id;
}

/* Adds the call to those that wait; from now on its reply may come. Takes `call` over when it
 * returns 0. The caller holds the lock. */
static int enter_call(struct rpc_connection *connection, struct pending_call *call,
		      Afar__Frame *frame, uint64_t deadline)
{
	struct frame_buffer *buffer;
	int ret;

	if (frame->request_id == 0)
		frame->request_id = pick_request_id(connection);
	else if (find_call(connection, frame->request_id))
		return error_fail(-EEXIST, "call to %s: request %llu waits for its reply already",
				  connection->peer, (unsigned long long)frame->request_id);
	ret = frame_encode(frame, &buffer);
	if (ret)
		return ret;
	call->request_id = frame->request_id;
	if (add_call(connection, call)) {
		frame_buffer_free(buffer);
		return error_code(-ENOMEM);
	}
	if (!stream_push(connection, buffer)) {
		remove_call(connection, call);
		return fail_ended(connection, connection->was_open);
	}
	loop_timer_set(connection->loop, &call->timer, deadline);
	return 0;
}

static int start_call(struct rpc_connection *connection, const struct rpc_envelope *envelope,
		      Afar__Request *request, rpc_done *done, void *argument, bool keeps_reply)
{
	Afar__Frame frame = AFAR__FRAME__INIT;
	struct pending_call *call;
	int ret;

	if (envelope->deadline <= clock_ns())
		return error_fail(-ETIMEDOUT, "call to %s: its time was up before it was sent",
				  connection->peer);
	frame.version = RPC_VERSION;
	frame.request_id = envelope->request_id;
	frame.session = envelope->session;
	frame.incarnation = envelope->incarnation;
	frame.settled_below = envelope->settled_below;
	frame.deadline_ms = deadline_on_wire(envelope->deadline);
	frame.body_case = AFAR__FRAME__BODY_REQUEST;
	frame.request = request;

	call = calloc(1, sizeof(*call));
	if (!call)
		return error_code(-ENOMEM);
	call->timer.run = expire_call;
	call->connection = connection;
	call->done = done;
	call->argument = argument;
	call->keeps_reply = keeps_reply;
	pthread_mutex_lock(&connection->lock);
	ret = enter_call(connection, call, &frame, envelope->deadline);
	pthread_mutex_unlock(&connection->lock);
	if (ret)
		free(call);
	return ret;
}

int rpc_send(struct rpc_connection *connection, const struct rpc_envelope *envelope,
	     Afar__Request *request, rpc_done *done, void *argument)
{
	return start_call(connection, envelope, request, done, argument, false);
}

/* A thread in rpc_call(). */
struct waiter {
	sem_t is_done;
	Afar__Frame *reply;
	int status;
};

static void wake_waiter(void *argument, const Afar__Frame *reply, int status)
{
	struct waiter *waiter = argument;

	waiter->reply = (Afar__Frame *)reply; /* ours: the call keeps its reply */
	waiter->status = status;
	sem_post(&waiter->is_done);
}

static int fail_unanswered(const struct rpc_connection *connection, int status)
{
	if (status == -ETIMEDOUT)
		return error_fail(status, "call to %s: no reply in time; it may have been done",
				  connection->peer);
	return fail_ended(connection, status == -ECONNRESET);
}

/* Returns the status of a reply, with its sentence. */
static int reply_status(const struct rpc_connection *connection, const Afar__Reply *reply)
{
	if (reply->status > 0)
		return error_fail(-AFAR_EMALFORMED, "call to %s: the reply's status is %d",
				  connection->peer, reply->status);
	if (reply->status == 0)
		return 0;
	if (reply->message && reply->message[0])
		return error_fail(reply->status, "%s", reply->message);
	return error_code(reply->status);
}

int rpc_call(struct rpc_connection *connection, const struct rpc_envelope *envelope,
	     Afar__Request *request, Afar__Frame **reply)
{
	struct waiter waiter = {0};
	int ret;

	if (loop_is_current(connection->loop))
		return error_fail(-EDEADLK, "call to %s: the thread that calls is to get the reply",
				  connection->peer);
	sem_init(&waiter.is_done, 0, 0);
	ret = start_call(connection, envelope, request, wake_waiter, &waiter, true);
	if (!ret) {
		while (sem_wait(&waiter.is_done))
			;
		ret = waiter.status ? fail_unanswered(connection, waiter.status)
				    : reply_status(connection, waiter.reply->reply);
	}
	sem_destroy(&waiter.is_done);
	if (!ret && reply)
		*reply = waiter.reply;
	else if (waiter.reply)
		rpc_frame_free(waiter.reply);
	return ret;
}

/* ---- Being called */

static void push_reply(struct rpc_connection *connection, const Afar__Frame *frame)
{
	struct frame_buffer *buffer = NULL;
	int ret = frame_encode(frame, &buffer);

	pthread_mutex_lock(&connection->lock);
	if (ret)
		connection_fail(connection, ret);
	else
		stream_push(connection, buffer);
	pthread_mutex_unlock(&connection->lock);
}

/* A reply too long for a frame becomes one that says so. */
static void answer(struct rpc_connection *connection, uint64_t request_id, uint64_t session,
		   uint64_t incarnation, Afar__Reply *reply)
{
	Afar__Frame frame = AFAR__FRAME__INIT;
	Afar__Reply too_long = AFAR__REPLY__INIT;

	frame.version = RPC_VERSION;
	frame.request_id = request_id;
	frame.session = session;
	frame.incarnation = incarnation;
	frame.body_case = AFAR__FRAME__BODY_REPLY;
	frame.reply = reply;
	if (afar__frame__get_packed_size(&frame) > RPC_FRAME_MAX) {
		too_long.status = -EMSGSIZE;
		too_long.message = "reply: longer than a message can be; ask for less";
		frame.reply = &too_long;
	}
	push_reply(connection, &frame);
}

static void answer_status(struct rpc_connection *connection, const Afar__Frame *request, int status,
			  const char *message)
{
	Afar__Reply reply = AFAR__REPLY__INIT;

	reply.status = status;
	reply.message = (char *)message; /* only read */
	answer(connection, request->request_id, request->session, 0, &reply);
}

void rpc_reply(struct rpc_call *call, uint64_t incarnation, Afar__Reply *reply)
{
	struct rpc_connection *connection = call->connection;

	answer(connection, call->request_id, call->session, incarnation, reply);
	pthread_mutex_lock(&connection->lock);
	connection->nr_unanswered--;
	pthread_mutex_unlock(&connection->lock);
	free(call);
	rpc_connection_unref(connection);
}

void rpc_reply_status(struct rpc_call *call, uint64_t incarnation, int status)
{
	Afar__Reply reply = AFAR__REPLY__INIT;

	reply.status = status;
	if (status < 0)
		reply.message = (char *)error_last_line(); /* only read */
	rpc_reply(call, incarnation, &reply);
}

struct rpc_connection *rpc_call_connection(const struct rpc_call *call)
{
	return call->connection;
}

static bool count_request(struct rpc_connection *connection)
{
	bool is_allowed;

	pthread_mutex_lock(&connection->lock);
	is_allowed = connection->nr_unanswered < CONNECTION_CALLS_MAX;
	connection->nr_unanswered += is_allowed;
	pthread_mutex_unlock(&connection->lock);
	return is_allowed;
}

static struct rpc_call *make_call(struct rpc_connection *connection, const Afar__Frame *frame)
{
	struct rpc_call *call;

	if (!count_request(connection))
		return NULL;
	call = malloc(sizeof(*call));
	if (!call) {
		pthread_mutex_lock(&connection->lock);
		connection->nr_unanswered--;
		pthread_mutex_unlock(&connection->lock);
		return NULL;
	}
	rpc_connection_ref(connection);
	call->connection = connection;
	call->request_id = frame->request_id;
	call->session = frame->session;
	return call;
}

static void receive_request(struct rpc_connection *connection, const Afar__Frame *frame)
{
	struct rpc_call *call;

	if (!connection->handlers.request ||
	    frame->request->call_case == AFAR__REQUEST__CALL__NOT_SET) {
		answer_status(connection, frame, -EOPNOTSUPP,
			      "call: this end does not know it; upgrade it, or call another");
		return;
	}
	call = make_call(connection, frame);
	if (!call) {
		answer_status(connection, frame, -EBUSY,
			      "call: too many wait for their answer; wait for some of them");
		return;
	}
	connection->handlers.request(connection, frame, call);
}

void call_receive(struct rpc_connection *connection, Afar__Frame *frame, bool *is_taken)
{
	if (frame->body_case == AFAR__FRAME__BODY_REPLY)
		*is_taken = receive_reply(connection, frame);
	else
		receive_request(connection, frame);
}

/* Takes a frame of another version: tells a caller that the versions differ, and takes over only
 * replies that say so. */
void call_receive_alien(struct rpc_connection *connection, Afar__Frame *frame, bool *is_taken)
{
	char message[128];

	if (frame->body_case == AFAR__FRAME__BODY_REPLY) {
		if (frame->reply->status < 0)
			*is_taken = receive_reply(connection, frame);
		return;
	}
	snprintf(message, sizeof(message),
		 "call: the caller speaks protocol %u, this is protocol %u; upgrade the one with "
		 "the lower number",
		 frame->version, RPC_VERSION);
	answer_status(connection, frame, -AFAR_EVERSION, message);
}
