/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeds arbitrary requests to the manager's core, as operator, client and servers, which are connected by
 * keys and may send anything. Servers' answers, lost connections and failing commits come between. The core
 * must see to this: every request gets one answer, failures say why, and its tables can be read again.
 *
 * Input: steps of a byte of flags, two bytes of length, and so many bytes of a protobuf `Request`.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/manager/manager_memory_store.h"
#include "manager/connections/outgoing.h"
#include "manager/core_private.h"
#include "manager/members/principals.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	STEP_PEER = 0x03,     /* who asks                                       */
	STEP_LOSE = 0x04,     /* its connection is lost before                  */
	STEP_REFUSE = 0x08,   /* servers answer what they are asked with -EIO   */
	STEP_SILENT = 0x10,   /* or do not answer yet                           */
	STEP_NO_STORE = 0x20, /* the next commit fails                          */
	STEP_LATER = 0x40,    /* a minute later                                 */
	STEP_RESTART = 0x80,  /* the manager is killed and started again before */
};

#define NR_PEERS 4

/* A connection: its address is the core's name for it. */
struct peer {
	const char *principal;
	bool is_revoked;
	bool is_gone; /* and not forgotten */
	uint64_t session;
};

struct call {
	struct cds_list_head node;
	struct peer *peer;
	struct outgoing *outgoing;
	uint64_t namespace, bytes; /* of a reservation */
	uint32_t class;
};

static struct world {
	struct memory_store store;
	struct keyring *keyring;
	struct core *core;
	struct peer peers[NR_PEERS];
	struct cds_list_head events, calls;
	uint64_t now, next_id, next_extent;
	uint64_t nr_asked, nr_answered;
} world;

static void require(bool condition)
{
	if (!condition)
		abort();
}

/* ---- The core's environment */

static uint64_t environment_now(void *context)
{
	(void)context;
	return world.now;
}

static void environment_answer(void *context, void *call, Afar__Reply *reply)
{
	struct peer *peer = call;

	(void)context;
	world.nr_answered++;
	require(reply->status <= 0);
	require(reply->status == 0 || reply->message[0] != '\0');
	if (reply->status == 0 && reply->result_case == AFAR__REPLY__RESULT_SESSION_OPENED)
		peer->session = reply->session_opened->session;
	require(afar__reply__get_packed_size(reply) > 0 || reply->status == 0);
}

static int environment_call(void *context, void *peer, uint64_t deadline, Afar__Request *request,
			    struct outgoing *outgoing)
{
	struct call *call = calloc(1, sizeof(*call));

	(void)context;
	(void)deadline;
	require(call != NULL);
	call->peer = peer;
	call->outgoing = outgoing;
	if (request->call_case == AFAR__REQUEST__CALL_EXTENTS_RESERVE) {
		call->namespace = request->extents_reserve->namespace_;
		call->bytes = request->extents_reserve->bytes;
		call->class = request->extents_reserve->class_;
	}
	cds_list_add_tail(&call->node, &world.calls);
	return 0;
}

static const char *environment_principal(void *context, void *peer)
{
	(void)context;
	return ((struct peer *)peer)->is_revoked ? NULL : ((struct peer *)peer)->principal;
}

static void end_call(struct call *call, Afar__Reply *answer, int status)
{
	struct event *event = event_new(EVENT_ANSWER, call->peer);

	require(event != NULL);
	event->outgoing = call->outgoing;
	event->answer = answer;
	event->status = status;
	cds_list_add_tail(&event->node, &world.events);
	cds_list_del(&call->node);
	free(call);
}

static void environment_close_peer(void *context, void *peer)
{
	struct call *call, *next;
	struct event *event;

	(void)context;
	if (((struct peer *)peer)->is_gone)
		return;
	((struct peer *)peer)->is_gone = true;
	event = event_new(EVENT_GONE, peer);
	require(event != NULL);
	cds_list_for_each_entry_safe (call, next, &world.calls, node)
		if (call->peer == peer)
			end_call(call, NULL, -ECONNRESET);
	cds_list_add_tail(&event->node, &world.events);
}

static void environment_close_principal(void *context, const char *principal)
{
	for (size_t i = 0; i < NR_PEERS; i++) {
		if (strcmp(world.peers[i].principal, principal) != 0)
			continue;
		world.peers[i].is_revoked = true;
		environment_close_peer(context, &world.peers[i]);
	}
}

static void environment_forget_peer(void *context, void *peer)
{
	(void)context;
	/* From now on it is another connection, made with a key that is good. */
	((struct peer *)peer)->is_revoked = false;
	((struct peer *)peer)->is_gone = false;
}

/* ---- Servers */

static Afar__Reply *make_answer(const struct call *call, uint8_t flags)
{
	Afar__Reply *reply = MESSAGE_NEW(afar__reply, Afar__Reply);
	Afar__Extent *extent;

	require(reply != NULL);
	if ((flags & STEP_REFUSE) != 0) {
		reply->status = -EIO;
		return reply;
	}
	if (call->bytes == 0)
		return reply;
	reply->result_case = AFAR__REPLY__RESULT_EXTENTS;
	reply->extents = MESSAGE_NEW(afar__extents, Afar__Extents);
	extent = MESSAGE_NEW(afar__extent, Afar__Extent);
	require(reply->extents != NULL && extent != NULL);
	reply->extents->extents = calloc(1, sizeof(*reply->extents->extents));
	require(reply->extents->extents != NULL);
	reply->extents->extents[reply->extents->n_extents++] = extent;
	extent->extent = ++world.next_extent;
	extent->namespace_ = call->namespace;
	extent->length = call->bytes;
	extent->class_ = call->class;
	return reply;
}

/* Until nothing is left to do. */
static void run(uint8_t flags)
{
	/* A server that fails is asked again, for ever. */
	for (int turn = 0; turn < 20; turn++) {
		core_run(world.core, &world.events);
		if ((flags & STEP_SILENT) != 0)
			break;
		while (!cds_list_empty(&world.calls)) {
			struct call *call = cds_list_first_entry(&world.calls, struct call, node);

			end_call(call, make_answer(call, flags), 0);
		}
		if (cds_list_empty(&world.events))
			break;
	}
}

/* ---- The manager */

static void start(void)
{
	static const struct key admin = {.identity = "admin"}, server = {.identity = "server"};
	const struct key_list operators = {&admin, 1}, servers = {&server, 1};
	struct core_environment environment = {
		.now = environment_now,
		.answer = environment_answer,
		.call = environment_call,
		.principal = environment_principal,
		.close_peer = environment_close_peer,
		.close_principal = environment_close_principal,
		.forget_peer = environment_forget_peer,
	};
	struct core_options options = {.lease_ms = 1000, .incarnation = 99};

	require(keyring_open(&operators, &servers, &world.keyring) == 0);
	options.keyring = world.keyring;
	require(core_open(&world.store.base, &environment, &options, &world.core) == 0);
}

static void stop(void)
{
	for (size_t i = 0; i < NR_PEERS; i++)
		environment_close_peer(NULL, &world.peers[i]);
	while (!cds_list_empty(&world.events))
		core_run(world.core, &world.events);
	core_close(world.core);
	keyring_close(world.keyring);
	require(world.nr_asked == world.nr_answered);
}

static void restart(void)
{
	world.store.is_broken = true; /* killed: what it does at its end is not stored */
	stop();
	world.store.is_broken = false;
	start();
}

/* ---- Steps */

static void ask(struct peer *peer, Afar__Request *request)
{
	struct event *event = event_new(EVENT_REQUEST, peer);

	require(event != NULL);
	event->call = peer;
	event->session = peer->session;
	event->request_id = event->settled_below = ++world.next_id;
	event->request = request;
	world.nr_asked++;
	cds_list_add_tail(&event->node, &world.events);
}

static void step(uint8_t flags, const uint8_t *bytes, size_t length)
{
	struct peer *peer = &world.peers[flags & STEP_PEER];
	Afar__Request *request = afar__request__unpack(NULL, length, bytes);

	if ((flags & STEP_RESTART) != 0)
		restart();
	if ((flags & STEP_LOSE) != 0) {
		environment_close_peer(NULL, peer);
		run(flags);
	}
	if ((flags & STEP_LATER) != 0)
		world.now += 60 * (uint64_t)1000000000U;
	world.store.fail_at = (flags & STEP_NO_STORE) != 0;
	if (request != NULL)
		ask(peer, request);
	run(flags);
	world.store.fail_at = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const principals[NR_PEERS] = {"admin", "alice", "server", "server"};

	world = (struct world){.now = 1000000000U};
	CDS_INIT_LIST_HEAD(&world.events);
	CDS_INIT_LIST_HEAD(&world.calls);
	for (size_t i = 0; i < NR_PEERS; i++)
		world.peers[i].principal = principals[i];
	memory_store_open(&world.store);
	start();
	while (size >= 3) {
		size_t length = data[1] | (size_t)data[2] << 8;
		uint8_t flags = data[0];

		data += 3;
		size -= 3;
		length = length < size ? length : size;
		step(flags, data, length);
		data += length;
		size -= length;
	}
	restart();
	stop();
	memory_store_close(&world.store);
	return 0;
}
