/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers: the control connections to servers, and the keys and tickets that they give. */
#include "client/target/peer.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/error.h"
#include "fabric/paged.h"

/* Pauses between attempts at a busy server. */
#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 1000

/* An extent's key, in a tree by the extent's number. A server never reuses a number within an
 * incarnation, so a key cannot go stale. */
struct peer_key {
	uint64_t extent;
	uint64_t length;
	uint32_t lanes; /* bits: the lanes that have a key */
	struct {
		uint64_t key;
		uint64_t origin;
	} on[PEER_LANES_MAX];
};

static int compare_keys(const void *a, const void *b)
{
	const struct peer_key *left = a, *right = b;

	return (left->extent > right->extent) - (left->extent < right->extent);
}

static const struct peer_key *find_key(const struct peer_reach *reach, uint64_t extent)
{
	struct peer_key wanted = {.extent = extent};
	void *const *node = tfind(&wanted, &reach->keys, compare_keys);

	return node ? *node : NULL;
}

/* Finds or makes the place for an extent's keys. NULL: no memory. */
static struct peer_key *place_key(struct peer_reach *reach, uint64_t extent, uint64_t length)
{
	struct peer_key *key = calloc(1, sizeof(*key));
	struct peer_key **node;

	if (!key)
		return NULL;
	key->extent = extent;
	key->length = length;
	node = tsearch(key, &reach->keys, compare_keys);
	if (!node || *node != key)
		free(key);
	return node ? *node : NULL;
}

static int add_key(struct peer_reach *reach, const Afar__Key *message)
{
	struct peer_key *key;

	if (message->lane >= PEER_LANES_MAX)
		return 0;
	key = place_key(reach, message->extent, message->length);
	if (!key)
		return error_code(-ENOMEM);
	key->on[message->lane].key = message->key;
	key->on[message->lane].origin = message->origin;
	key->lanes |= 1U << message->lane;
	return 0;
}

/* ---- Finding and making peers */

static int set_control_address(struct peer *peer, const char *address)
{
	char text[URI_HOST_MAX + 16];
	struct uri uri;
	int length = snprintf(text, sizeof(text), "afar://%s", address);

	if (length < 0 || (size_t)length >= sizeof(text) || uri_parse(text, &uri) != 0)
		return error_fail(-AFAR_EMALFORMED,
				  "reach a server: the manager gives its address as \"%s\"",
				  address);
	memcpy(peer->control_host, uri.host, sizeof(peer->control_host));
	peer->control_port = uri.port;
	return 0;
}

static int add_lane(struct peer *peer, uint32_t number, const Afar__Lane *message)
{
	struct peer_lane *lane = &peer->lanes[peer->nr_lanes];

	if (strlen(message->address) >= sizeof(lane->address))
		return error_fail(-AFAR_EMALFORMED,
				  "reach a server: the manager gives its address as \"%s\"",
				  message->address);
	lane->number = number;
	strcpy(lane->transport, message->transport);
	strcpy(lane->address, message->address);
	peer->nr_lanes++;
	return 0;
}

/* A store lists its nearest lane last. So a client that does not know of that takes the first, which all
 * have. */
static void put_near_first(struct peer *peer)
{
	for (unsigned i = 0, j = peer->nr_lanes; i + 1 < j; i++, j--) {
		struct peer_lane lane = peer->lanes[i];

		peer->lanes[i] = peer->lanes[j - 1];
		peer->lanes[j - 1] = lane;
	}
}

/* Takes the lanes that lead there and whose transport may be one of ours. */
static int set_lanes(struct peer *peer, const Afar__Server *server)
{
	const char *path = peer->session->path;
	uint32_t number = 0;
	int ret = 0;

	for (size_t i = 0; i < server->n_lanes && number < PEER_LANES_MAX && !ret; i++) {
		const char *transport = server->lanes[i]->transport;

		if (server->lanes[i]->store != peer->store)
			continue;
		if (strlen(transport) < FABRIC_TRANSPORT_MAX &&
		    fabric_transport_may_be(transport, path))
			ret = add_lane(peer, number, server->lanes[i]);
		number++;
	}
	if (peer->store)
		put_near_first(peer);
	if (!ret && peer->nr_lanes == 0 && (number > 0 || !peer->store))
		ret = error_fail(
			-AFAR_ESERVER,
			path[0] ? "reach server %s: it has no lane over %s, and the session "
				  "was told to use no other"
				: "reach server %s: it has no lane",
			peer->name, path);
	return ret;
}

/* Makes a peer. The caller holds the session's lock. */
static int peer_new(struct afar_session *session, const Afar__Server *server,
		    const Afar__StorePlace *store, struct peer **out)
{
	struct peer *peer = calloc(1, sizeof(*peer));
	pthread_condattr_t monotonic;
	int ret;

	if (!peer)
		return error_code(-ENOMEM);
	peer->session = session;
	peer->server = server->server;
	peer->incarnation = server->incarnation;
	if (store) {
		size_t length = strlen(store->path), max = sizeof(peer->device) - 1;

		peer->store = store->store;
		peer->opening = store->opening;
		strcpy(peer->device, store->path + (length > max ? length - max : 0));
	}
	snprintf(peer->name, sizeof(peer->name), "%s", server->name);
	ret = set_control_address(peer, server->control_address);
	if (!ret)
		ret = set_lanes(peer, server);
	if (ret) {
		free(peer);
		return ret;
	}
	CDS_INIT_LIST_HEAD(&peer->reaches);
	pthread_mutex_init(&peer->lock, NULL);
	pthread_mutex_init(&peer->turn, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&peer->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*out = peer;
	return 0;
}

static bool leads_to(const Afar__Server *server, uint64_t store)
{
	for (size_t i = 0; i < server->n_lanes; i++) {
		if (server->lanes[i]->store == store)
			return true;
	}
	return false;
}

/* A peer without lanes is of a store that was not open when we were told. Another opening of a store, as
 * when it was taken from the server and added again, has another lane and other keys. */
static bool is_peer_of(const struct peer *peer, const Afar__Server *server,
		       const Afar__StorePlace *place)
{
	const uint64_t store = place ? place->store : 0;

	return peer->server == server->server && peer->incarnation == server->incarnation &&
	       peer->store == store && peer->opening == (place ? place->opening : 0) &&
	       (peer->nr_lanes > 0) == leads_to(server, store);
}

int peer_get(struct afar_session *session, const Afar__Server *server,
	     const Afar__StorePlace *store, struct peer **out)
{
	struct peer *peer;
	int ret = 0;

	pthread_mutex_lock(&session->lock);
	cds_list_for_each_entry (peer, &session->peers, node) {
		if (is_peer_of(peer, server, store)) {
			*out = peer;
			goto out_unlock;
		}
	}
	ret = peer_new(session, server, store, out);
	if (!ret)
		cds_list_add_tail(&(*out)->node, &session->peers);
out_unlock:
	pthread_mutex_unlock(&session->lock);
	return ret;
}

static void peer_free(struct peer *peer)
{
	if (peer->control)
		rpc_connection_unref(peer->control);
	explicit_bzero(&peer->pass, sizeof(peer->pass));
	pthread_cond_destroy(&peer->changed);
	pthread_mutex_destroy(&peer->turn);
	pthread_mutex_destroy(&peer->lock);
	free(peer);
}

void peers_free(struct afar_session *session)
{
	struct peer *peer, *next;

	cds_list_for_each_entry_safe (peer, next, &session->peers, node)
		peer_free(peer);
	CDS_INIT_LIST_HEAD(&session->peers);
}

/* ---- The pass */

int peer_take_pass(struct peer *peer, const Afar__Access *access)
{
	size_t length = strlen(access->pass);

	if (length == 0 || length > KEY_IDENTITY_MAX || access->pass_key.len != KEY_BYTES)
		return error_fail(-AFAR_EMALFORMED,
				  "reach server %s: the manager gave a pass that is none",
				  peer->name);
	pthread_mutex_lock(&peer->lock);
	memcpy(peer->pass.identity, access->pass, length + 1);
	memcpy(peer->pass.secret, access->pass_key.data, KEY_BYTES);
	peer->pass_expiry = clock_deadline_ms(access->lifetime_ms);
	pthread_mutex_unlock(&peer->lock);
	return 0;
}

void peer_lose(struct peer *peer)
{
	peer->is_lost = true;
	peer_disconnect(peer);
}

int peer_fail_lost(const struct peer *peer)
{
	if (peer->store)
		return error_fail(-ESTALE,
				  "reach store %016llx at server %s: the server has restarted",
				  (unsigned long long)peer->store, peer->name);
	return error_fail(-AFAR_ELOST,
			  "reach server %s: it has restarted, and what its memory held is lost",
			  peer->name);
}

/* ---- The control connection */

static void control_opened(struct rpc_connection *connection)
{
	struct peer *peer = rpc_connection_context(connection);

	pthread_mutex_lock(&peer->lock);
	if (peer->state == CONTROL_CONNECTING)
		peer->state = CONTROL_OPEN;
	pthread_cond_broadcast(&peer->changed);
	pthread_mutex_unlock(&peer->lock);
}

static void control_closed(struct rpc_connection *connection, int status)
{
	struct peer *peer = rpc_connection_context(connection);

	pthread_mutex_lock(&peer->lock);
	peer->state = CONTROL_NONE;
	peer->control_status = status ? status : -ECONNRESET;
	if (peer->control) {
		rpc_connection_unref(peer->control);
		peer->control = NULL;
	}
	pthread_cond_broadcast(&peer->changed);
	pthread_mutex_unlock(&peer->lock);
}

static const struct rpc_handlers control_handlers = {
	.opened = control_opened,
	.closed = control_closed,
};

static int fail_silent(const struct peer *peer, const char *asked, int code)
{
	return error_fail(code,
			  "%s server %s at %s:%u: it did not answer in time; look whether it runs "
			  "or is stopped, and try again",
			  asked, peer->name, peer->control_host, peer->control_port);
}

static int unreachable(const struct peer *peer, int status)
{
	int code = status == -AFAR_EAUTH ? status : -AFAR_ESERVER;

	if (status == -ETIMEDOUT)
		return fail_silent(peer, "reach", code);
	return error_fail(code, "reach server %s at %s:%u: %s; see 'afar status' whether it is up",
			  peer->name, peer->control_host, peer->control_port,
			  afar_strerror(status));
}

/* Begins to connect. The caller holds the lock; this releases it while it resolves the server's
 * name, which may take long. */
static int start_control(struct peer *peer)
{
	struct rpc_connection *connection = NULL;
	struct key pass;
	int ret;

	if (peer->pass_expiry <= clock_ns())
		return error_fail(-AFAR_EAUTH, "reach server %s: there is no valid pass to it",
				  peer->name);
	pass = peer->pass;
	peer->state = CONTROL_CONNECTING;
	peer->is_starting = true;
	pthread_mutex_unlock(&peer->lock);
	ret = rpc_connect(peer->session->loop, peer->control_host, peer->control_port, &pass,
			  &control_handlers, peer, &connection);
	explicit_bzero(&pass, sizeof(pass));
	pthread_mutex_lock(&peer->lock);
	peer->is_starting = false;
	if (ret) {
		peer->state = CONTROL_NONE;
		peer->control_status = ret;
	} else if (peer->state == CONTROL_NONE) {
		rpc_connection_unref(connection); /* it has closed already */
	} else {
		peer->control = connection;
	}
	pthread_cond_broadcast(&peer->changed);
	return 0;
}

static bool is_waiting(const struct peer *peer)
{
	return peer->is_starting || peer->state == CONTROL_CONNECTING ||
	       peer->state == CONTROL_CLOSING;
}

static int wait_control(struct peer *peer, uint64_t deadline)
{
	struct timespec until = {
		.tv_sec = (time_t)(deadline / 1000000000U),
		.tv_nsec = (long)(deadline % 1000000000U),
	};

	while (is_waiting(peer)) {
		if (pthread_cond_timedwait(&peer->changed, &peer->lock, &until) == ETIMEDOUT)
			return unreachable(peer, -ETIMEDOUT);
	}
	return 0;
}

/* Waits for `pause_ms`, or until another thread has begun to connect. */
static void pause_control(struct peer *peer, uint32_t pause_ms, uint64_t deadline)
{
	uint64_t until = clock_deadline_ms(pause_ms);
	struct timespec when;

	if (until > deadline)
		until = deadline;
	when = (struct timespec){.tv_sec = (time_t)(until / 1000000000U),
				 .tv_nsec = (long)(until % 1000000000U)};
	while (peer->state == CONTROL_NONE && !peer->is_starting && clock_ns() < until)
		pthread_cond_timedwait(&peer->changed, &peer->lock, &when);
}

/* Gives the peer's open control connection, with a reference. The caller holds the peer's lock. If
 * another thread is connecting already, this shares the outcome of its attempt. An overloaded
 * server closes connections before they have authenticated, so this then tries again. */
static int open_control(struct peer *peer, uint64_t deadline, struct rpc_connection **out)
{
	bool was_tried = peer->is_starting || peer->state == CONTROL_CONNECTING;
	struct backoff pause = {.min_ms = PAUSE_MIN_MS, .max_ms = PAUSE_MAX_MS};
	int ret;

	for (;;) {
		ret = wait_control(peer, deadline);
		if (ret)
			return ret;
		if (peer->state == CONTROL_OPEN)
			break;
		if (was_tried && (peer->control_status != -ECONNRESET || clock_ns() >= deadline))
			return unreachable(peer, peer->control_status);
		if (was_tried) {
			pause_control(peer, backoff_next_ms(&pause), deadline);
			was_tried = false;
			continue;
		}
		was_tried = true;
		ret = start_control(peer);
		if (ret)
			return ret;
	}
	*out = peer->control;
	rpc_connection_ref(*out);
	return 0;
}

void peer_disconnect(struct peer *peer)
{
	pthread_mutex_lock(&peer->lock);
	if (peer->state == CONTROL_OPEN && peer->control) {
		peer->state = CONTROL_CLOSING;
		rpc_connection_close(peer->control);
	}
	pthread_mutex_unlock(&peer->lock);
}

/* Marks a connection that a call found dead, so that no caller takes it again before its `closed`
 * is heard. */
static void wait_gone(struct peer *peer, const struct rpc_connection *control, uint64_t deadline)
{
	pthread_mutex_lock(&peer->lock);
	if (peer->control == control && peer->state == CONTROL_OPEN)
		peer->state = CONTROL_CLOSING;
	wait_control(peer, deadline);
	pthread_mutex_unlock(&peer->lock);
}

/* Calls the server. If the connection proves dead, repeats the call once over a new one: asking for
 * keys and tickets twice does no harm. */
static int peer_call(struct peer *peer, const char *asked, uint64_t deadline,
		     Afar__Request *request, Afar__Frame **reply)
{
	struct rpc_envelope envelope = {.session = peer->session->number, .deadline = deadline};
	struct rpc_connection *control = NULL;
	int ret = 0;

	if (peer->is_lost)
		return peer_fail_lost(peer);
	if (session_has_ended(peer->session))
		ret = session_fail_ended(peer->session);
	if (ret)
		return ret;
	for (int attempt = 0; attempt < 2; attempt++) {
		pthread_mutex_lock(&peer->lock);
		ret = open_control(peer, deadline, &control);
		pthread_mutex_unlock(&peer->lock);
		if (ret)
			return ret;
		ret = rpc_call(control, &envelope, request, reply);
		if (ret == -ECONNRESET || ret == -ENOTCONN)
			wait_gone(peer, control, deadline);
		rpc_connection_unref(control);
		if (ret == -ETIMEDOUT)
			return fail_silent(peer, asked, ret);
		if (ret != -ECONNRESET && ret != -ENOTCONN)
			return ret;
	}
	return unreachable(peer, ret);
}

/* ---- Tickets and keys */

int peer_ticket(struct peer *peer, struct peer_reach *reach, uint64_t deadline,
		struct peer_ticket *out)
{
	Afar__Connect connect = AFAR__CONNECT__INIT;
	const Afar__Ticket *ticket;
	Afar__Frame *reply;
	int ret;

	connect.session = peer->session->number;
	connect.namespace_ = reach->ns;
	connect.rights = reach->rights;
	connect.replaces = out->connection;
	connect.attaches = out->attaches;
	ret = peer_call(peer, "connect to", deadline, RPC_REQUEST(CONNECT, connect, &connect),
			&reply);
	if (ret)
		return ret;
	ticket = reply->reply->result_case == AFAR__REPLY__RESULT_TICKET ? reply->reply->ticket
									 : NULL;
	if (!ticket || ticket->ticket.len != sizeof(out->ticket))
		ret = error_fail(-AFAR_EMALFORMED, "connect to server %s: it gave no ticket",
				 peer->name);
	else if (ticket->incarnation != peer->incarnation)
		ret = peer_fail_lost(peer);
	if (!ret) {
		memcpy(&out->ticket, ticket->ticket.data, sizeof(out->ticket));
		out->connection = ticket->connection;
		peer_note_changes(peer, reach, ticket->changes);
	}
	rpc_frame_free(reply);
	return ret;
}

static int take_keys(struct peer *peer, struct peer_reach *reach, const Afar__Frame *reply)
{
	const Afar__Keys *keys = reply->reply->keys;
	int ret = 0;

	if (reply->reply->result_case != AFAR__REPLY__RESULT_KEYS)
		return error_fail(-AFAR_EMALFORMED, "get keys of server %s: it gave none",
				  peer->name);
	if (keys->incarnation != peer->incarnation)
		return peer_fail_lost(peer);
	atomic_store_explicit(&peer->hints, keys->hints & FABRIC_PAGED_HINTS, memory_order_relaxed);
	pthread_mutex_lock(&peer->lock);
	for (size_t i = 0; i < keys->n_keys && !ret; i++)
		ret = add_key(reach, keys->keys[i]);
	pthread_mutex_unlock(&peer->lock);
	return ret;
}

static int ask_keys(struct peer *peer, const struct peer_want *want, uint64_t *extents,
		    size_t nr_extents, uint64_t deadline)
{
	Afar__Grant grant = AFAR__GRANT__INIT;
	Afar__Frame *reply;
	int ret;

	if (want->access->expiry <= clock_ns())
		return error_fail(-AFAR_EAUTH,
				  "get keys of server %s: there is no valid capability for them",
				  peer->name);
	grant.session = peer->session->number;
	grant.namespace_ = want->reach->ns;
	grant.extents = extents;
	grant.n_extents = nr_extents;
	grant.capability.data = (uint8_t *)want->access->capability;
	grant.capability.len = sizeof(want->access->capability);
	/* The session may have more rights now than when the region was opened. */
	grant.rights = want->reach->rights;
	grant.store = peer->store;
	ret = peer_call(peer, "get keys of", deadline, RPC_REQUEST(GRANT, grant, &grant), &reply);
	if (ret)
		return ret;
	ret = take_keys(peer, want->reach, reply);
	rpc_frame_free(reply);
	return ret;
}

static bool has_all_lanes(const struct peer *peer, const struct peer_key *key)
{
	for (unsigned i = 0; i < peer->nr_lanes; i++) {
		if (!(key->lanes & 1U << peer->lanes[i].number))
			return false;
	}
	return true;
}

static int fill_copy(const struct peer *peer, const struct peer_key *key,
		     const struct peer_want *want, const struct layout_copy *copy)
{
	const uint64_t length = want->layout->groups[copy->group].chunk_bytes;
	struct copy_key *keys = &want->keys[(size_t)(copy - want->layout->copies) * PEER_LANES_MAX];
	uint64_t end;

	if (__builtin_add_overflow(copy->offset, length, &end) || end > key->length)
		return error_fail(
			-AFAR_EMALFORMED,
			"get keys of server %s: its extent is shorter than the region's chunk",
			peer->name);
	for (unsigned i = 0; i < peer->nr_lanes; i++) {
		uint32_t lane = peer->lanes[i].number;

		keys[lane] = (struct copy_key){.remote = key->on[lane].origin + copy->offset,
					       .key = key->on[lane].key};
	}
	return 0;
}

/* Fills in the keys that are known. `*is_missing`: some are not. */
static int fill_copies(struct peer *peer, const struct peer_want *want, bool *is_missing)
{
	const struct layout *layout = want->layout;
	int ret = 0;

	*is_missing = false;
	pthread_mutex_lock(&peer->lock);
	for (uint32_t i = 0; i < layout->nr_copies && !ret && !*is_missing; i++) {
		const struct layout_copy *copy = &layout->copies[i];
		const struct peer_key *key;

		if (copy->home != want->home)
			continue;
		key = find_key(want->reach, copy->extent);
		if (key && has_all_lanes(peer, key))
			ret = fill_copy(peer, key, want, copy);
		else
			*is_missing = true;
	}
	pthread_mutex_unlock(&peer->lock);
	return ret;
}

int peer_grant(struct peer *peer, const struct peer_want *want, uint64_t deadline)
{
	uint64_t *extents;
	size_t nr_extents;
	bool is_missing;
	int ret;

	if (peer->is_lost)
		return peer_fail_lost(peer);
	ret = fill_copies(peer, want, &is_missing);
	if (ret || !is_missing)
		return ret;
	/* A capability covers all of the layout's extents on the server, never some of them. */
	ret = layout_extents(want->layout, want->home, &extents, &nr_extents);
	if (ret)
		return ret;
	ret = ask_keys(peer, want, extents, nr_extents, deadline);
	free(extents);
	if (ret)
		return ret;
	ret = fill_copies(peer, want, &is_missing);
	if (!ret && is_missing)
		ret = error_fail(-AFAR_EMALFORMED,
				 "get keys of server %s: it left out an extent that was asked for",
				 peer->name);
	return ret;
}
