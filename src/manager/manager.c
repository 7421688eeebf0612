/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manager's ends: the control listener, whose connections become the core's peers, and the
 * metastore. Callbacks run on the rpc loop's thread and only make events; the writer's thread runs
 * the core, and its environment below sends what comes out.
 */
#include <errno.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/slow.h"
#include "manager/connections/keyring.h"
#include "manager/connections/outgoing.h"
#include "manager/dispatch/writer.h"
#include "manager/manager.h"
#include "manager/manager_private.h"
#include "manager/members/principals.h"
#include "manager/metastore/metastore.h"

#define LEASE_MS_DEFAULT    10000U
#define STORE_BYTES_DEFAULT ((uint64_t)16 << 30)
#define REQUESTS_MAX	    4096U /* of one peer, unanswered */

/* A connection. Made when it opens; freed when the core has forgotten it and answered its requests.
 * Those that wait for servers may be answered long after it is gone. */
struct peer {
	struct cds_list_head node;
	struct manager *manager;
	struct rpc_connection *connection;
	unsigned nr_requests; /* unanswered; under the manager's lock */
	bool is_forgotten;    /* likewise */
	bool is_revoked;      /* likewise: the key that it was made with */
};

/* A request's way back. */
struct pending {
	struct peer *peer;
	struct rpc_call *call;
};

/* ---- The core's environment, on the writer's thread */

static uint64_t environment_now(void *context)
{
	(void)context;
	return clock_ns();
}

/* With the manager's lock held. */
static void release_peer(struct peer *peer)
{
	if (!peer->is_forgotten || peer->nr_requests > 0)
		return;
	cds_list_del(&peer->node);
	rpc_connection_unref(peer->connection);
	free(peer);
}

static void environment_answer(void *context, void *call, Afar__Reply *reply)
{
	struct manager *manager = context;
	struct pending *pending = call;

	rpc_reply(pending->call, manager->incarnation, reply);
	pthread_mutex_lock(&manager->lock);
	pending->peer->nr_requests--;
	release_peer(pending->peer);
	pthread_mutex_unlock(&manager->lock);
	free(pending);
}

struct asking {
	struct manager *manager;
	struct peer *peer;
	struct event *event;
};

/* On the loop's thread. */
static void answered(void *argument, const Afar__Frame *frame, int status)
{
	struct asking *asking = argument;
	struct event *event = asking->event;

	event->status = status < 0 ? status : -AFAR_EMALFORMED;
	if (frame && frame->body_case == AFAR__FRAME__BODY_REPLY) {
		size_t length = afar__reply__get_packed_size(frame->reply);
		uint8_t *bytes = malloc(length + 1);

		event->status = -ENOMEM;
		if (bytes) {
			afar__reply__pack(frame->reply, bytes);
			event->answer = afar__reply__unpack(NULL, length, bytes);
			free(bytes);
		}
	}
	writer_submit(asking->manager->writer, event);
	free(asking);
}

static int environment_call(void *context, void *peer_handle, uint64_t deadline,
			    Afar__Request *request, struct outgoing *outgoing)
{
	struct manager *manager = context;
	struct peer *peer = peer_handle;
	struct rpc_envelope envelope = {.incarnation = manager->incarnation, .deadline = deadline};
	struct asking *asking = calloc(1, sizeof(*asking));
	struct event *event = event_new(EVENT_ANSWER, peer);
	int ret;

	if (!asking || !event) {
		ret = error_code(-ENOMEM);
		goto out_free;
	}
	event->outgoing = outgoing;
	*asking = (struct asking){manager, peer, event};
	ret = rpc_send(peer->connection, &envelope, request, answered, asking);
	if (ret == 0)
		return 0;
out_free:
	if (event)
		event_free(event);
	free(asking);
	return ret;
}

static const char *environment_principal(void *context, void *peer_handle)
{
	struct manager *manager = context;
	struct peer *peer = peer_handle;
	bool is_revoked;

	pthread_mutex_lock(&manager->lock);
	is_revoked = peer->is_revoked;
	pthread_mutex_unlock(&manager->lock);
	return is_revoked ? NULL : rpc_connection_identity(peer->connection);
}

static const char *environment_address(void *context, void *peer)
{
	(void)context;
	return rpc_connection_peer(((struct peer *)peer)->connection);
}

static void environment_close_principal(void *context, const char *principal)
{
	struct manager *manager = context;
	struct peer *peer;

	pthread_mutex_lock(&manager->lock);
	cds_list_for_each_entry (peer, &manager->peers, node) {
		if (strcmp(rpc_connection_identity(peer->connection), principal) != 0)
			continue;
		peer->is_revoked = true;
		rpc_connection_close(peer->connection);
	}
	pthread_mutex_unlock(&manager->lock);
}

static void environment_close_peer(void *context, void *peer)
{
	(void)context;
	rpc_connection_close(((struct peer *)peer)->connection);
}

static void environment_forget_peer(void *context, void *peer_handle)
{
	struct manager *manager = context;
	struct peer *peer = peer_handle;

	pthread_mutex_lock(&manager->lock);
	peer->is_forgotten = true;
	release_peer(peer);
	if (--manager->nr_connected == 0)
		pthread_cond_signal(&manager->is_alone);
	pthread_mutex_unlock(&manager->lock);
}

/* ---- Connections, on the loop's thread */

static void on_opened(struct rpc_connection *connection)
{
	struct manager *manager = rpc_connection_context(connection);
	struct peer *peer = calloc(1, sizeof(*peer));

	rpc_connection_set_context(connection, peer);
	if (!peer) {
		rpc_connection_close(connection);
		return;
	}
	rpc_connection_ref(connection);
	peer->manager = manager;
	peer->connection = connection;
	pthread_mutex_lock(&manager->lock);
	cds_list_add_tail(&peer->node, &manager->peers);
	manager->nr_connected++;
	pthread_mutex_unlock(&manager->lock);
	/* Else it was revoked since rpc looked it up; who revokes from now on finds the peer in the
	 * list. */
	if (keyring_is_current(manager->keyring, rpc_connection_identity(connection)))
		return;
	pthread_mutex_lock(&manager->lock);
	peer->is_revoked = true;
	pthread_mutex_unlock(&manager->lock);
	rpc_connection_close(connection);
}

static void on_closed(struct rpc_connection *connection, int status)
{
	struct peer *peer = rpc_connection_context(connection);
	struct event *event;

	(void)status;
	if (!peer)
		return;
	event = event_new(EVENT_GONE, peer);
	while (!event) /* what depends on it must not be lost, and it is small */
		event = event_new(EVENT_GONE, peer);
	writer_submit(peer->manager->writer, event);
}

static Afar__Request *copy_request(const Afar__Request *request)
{
	size_t length = afar__request__get_packed_size(request);
	uint8_t *bytes = malloc(length + 1);
	Afar__Request *copy;

	if (!bytes)
		return NULL;
	afar__request__pack(request, bytes);
	copy = afar__request__unpack(NULL, length, bytes);
	free(bytes);
	return copy;
}

/* False: it has too many that wait. */
static bool count_request(struct peer *peer)
{
	bool is_allowed;

	pthread_mutex_lock(&peer->manager->lock);
	is_allowed = peer->nr_requests < REQUESTS_MAX;
	peer->nr_requests += is_allowed;
	pthread_mutex_unlock(&peer->manager->lock);
	return is_allowed;
}

static void on_request(struct rpc_connection *connection, const Afar__Frame *frame,
		       struct rpc_call *call)
{
	struct peer *peer = rpc_connection_context(connection);
	struct event *event = NULL;
	struct pending *pending = NULL;

	if (!peer) {
		rpc_reply_status(call, 0, error_code(-ENOMEM));
		return;
	}
	if (!count_request(peer)) {
		rpc_reply_status(call, peer->manager->incarnation,
				 error_fail(-EBUSY,
					    "call the manager: %u calls of this connection wait; "
					    "wait for replies",
					    REQUESTS_MAX));
		return;
	}
	event = event_new(EVENT_REQUEST, peer);
	pending = calloc(1, sizeof(*pending));
	if (event)
		event->request = copy_request(frame->request);
	if (!pending || !event || !event->request)
		goto out_of_memory;
	*pending = (struct pending){peer, call};
	event->call = pending;
	event->came_at = clock_ns();
	event->times.came = slow_is_on() ? event->came_at : 0;
	event->session = frame->session;
	event->request_id = frame->request_id;
	event->settled_below = frame->settled_below;
	if (frame->deadline_ms != 0)
		event->deadline = clock_deadline_ms(frame->deadline_ms);
	writer_submit(peer->manager->writer, event);
	return;

out_of_memory:
	if (event)
		event_free(event);
	free(pending);
	pthread_mutex_lock(&peer->manager->lock);
	peer->nr_requests--;
	pthread_mutex_unlock(&peer->manager->lock);
	rpc_reply_status(call, peer->manager->incarnation, error_code(-ENOMEM));
}

static const struct rpc_handlers handlers = {
	.request = on_request,
	.opened = on_opened,
	.closed = on_closed,
};

/* ---- Start and stop */

static int open_core(struct manager *manager, const struct manager_options *options)
{
	struct core_environment environment = {
		.context = manager,
		.now = environment_now,
		.answer = environment_answer,
		.call = environment_call,
		.principal = environment_principal,
		.address = environment_address,
		.close_peer = environment_close_peer,
		.close_principal = environment_close_principal,
		.forget_peer = environment_forget_peer,
	};
	struct core_options core_options = {.keyring = manager->keyring,
					    .lease_ms = options->lease_ms,
					    .claim_ms = options->claim_ms,
					    .gives_ends = options->gives_ends};

	if (core_options.lease_ms == 0)
		core_options.lease_ms = LEASE_MS_DEFAULT;
	if (RAND_bytes((unsigned char *)&manager->incarnation, sizeof(manager->incarnation)) != 1)
		return error_fail(-EIO, "start the manager: no random numbers");
	core_options.incarnation = manager->incarnation;
	return core_open(manager->metastore, &environment, &core_options, &manager->core);
}

static void free_manager(struct manager *manager)
{
	if (manager->writer)
		writer_stop(manager->writer);
	if (manager->core)
		core_close(manager->core);
	if (manager->metastore)
		manager->metastore->ops->close(manager->metastore);
	keyring_close(manager->keyring);
	pthread_cond_destroy(&manager->is_alone);
	pthread_mutex_destroy(&manager->lock);
	free(manager);
}

int manager_start(struct rpc_loop *loop, const struct manager_options *options,
		  struct manager **out)
{
	const struct key_list operators = {options->operators, options->nr_operators};
	const struct key_list servers = {options->servers, options->nr_servers};
	uint64_t store_bytes = options->store_bytes_max;
	struct rpc_keyring keyring = {.find = keyring_find};
	struct manager *manager = calloc(1, sizeof(*manager));
	int ret;

	if (!manager)
		return error_code(-ENOMEM);
	CDS_INIT_LIST_HEAD(&manager->peers);
	pthread_mutex_init(&manager->lock, NULL);
	pthread_cond_init(&manager->is_alone, NULL);
	ret = keyring_open(&operators, &servers, &manager->keyring);
	keyring.context = manager->keyring;
	if (ret == 0)
		ret = metastore_lmdb_open(options->folder,
					  store_bytes != 0 ? store_bytes : STORE_BYTES_DEFAULT,
					  &manager->metastore);
	if (ret == 0)
		ret = open_core(manager, options);
	if (ret == 0)
		ret = writer_start(manager->core, &manager->writer);
	if (ret == 0)
		ret = rpc_listen(loop, options->address, &keyring, &handlers, manager,
				 &manager->listener);
	if (ret < 0) {
		free_manager(manager);
		return ret;
	}
	*out = manager;
	return 0;
}

const char *manager_address(const struct manager *manager)
{
	return rpc_listener_address(manager->listener);
}

void manager_stop(struct manager *manager)
{
	struct peer *peer;

	rpc_listener_close(manager->listener);
	pthread_mutex_lock(&manager->lock);
	cds_list_for_each_entry (peer, &manager->peers, node)
		rpc_connection_close(peer->connection);
	while (manager->nr_connected > 0)
		pthread_cond_wait(&manager->is_alone, &manager->lock);
	pthread_mutex_unlock(&manager->lock);
	free_manager(manager);
}
