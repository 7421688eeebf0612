/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers: the control connections to servers, and the keys and tickets that they give. */
#include "client/peer.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define GRANT_MAX 4096 /* extents asked for in one call */

/* An extent's key. Extents' numbers are never used again within an incarnation, so it cannot go stale;
 * it goes with the peer. */
struct peer_key {
	uint64_t extent;
	uint64_t length;
	uint64_t key;
	uint64_t origin;
};

static int compare_keys(const void *a, const void *b)
{
	const struct peer_key *left = a, *right = b;

	return (left->extent > right->extent) - (left->extent < right->extent);
}

static const struct peer_key *find_key(const struct peer *peer, uint64_t extent)
{
	struct peer_key wanted = {.extent = extent};
	void *const *node = tfind(&wanted, &peer->keys, compare_keys);

	return node ? *node : NULL;
}

static int add_key(struct peer *peer, const Afar__Key *message)
{
	struct peer_key *key = malloc(sizeof(*key));
	struct peer_key **node;

	if (!key)
		return error_code(-ENOMEM);
	*key = (struct peer_key){
		.extent = message->extent,
		.length = message->length,
		.key = message->key,
		.origin = message->origin,
	};
	node = tsearch(key, &peer->keys, compare_keys);
	if (!node || *node != key)
		free(key);
	return node ? 0 : error_code(-ENOMEM);
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

static int set_data_address(struct peer *peer, const Afar__Server *server)
{
	for (size_t i = 0; i < server->n_lanes; i++) {
		const Afar__Lane *lane = server->lanes[i];

		if (strcmp(lane->transport, SESSION_TRANSPORT) == 0 &&
		    strlen(lane->address) < sizeof(peer->data_address)) {
			strcpy(peer->data_address, lane->address);
			return 0;
		}
	}
	return error_fail(-AFAR_EMALFORMED, "reach server %s: it has no lane for transport %s",
			  peer->name, SESSION_TRANSPORT);
}

static int peer_new(struct afar_session *session, const Afar__Server *server, struct peer **out)
{
	struct peer *peer = calloc(1, sizeof(*peer));
	pthread_condattr_t monotonic;
	int ret;

	if (!peer)
		return error_code(-ENOMEM);
	peer->session = session;
	peer->server = server->server;
	peer->incarnation = server->incarnation;
	snprintf(peer->name, sizeof(peer->name), "%s", server->name);
	ret = set_control_address(peer, server->control_address);
	if (!ret)
		ret = set_data_address(peer, server);
	if (ret) {
		free(peer);
		return ret;
	}
	pthread_mutex_init(&peer->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&peer->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*out = peer;
	return 0;
}

int peer_get(struct afar_session *session, const Afar__Server *server, struct peer **out)
{
	struct peer *peer;
	int ret = 0;

	pthread_mutex_lock(&session->lock);
	cds_list_for_each_entry (peer, &session->peers, node) {
		if (peer->server == server->server && peer->incarnation == server->incarnation) {
			*out = peer;
			goto out_unlock;
		}
	}
	ret = peer_new(session, server, out);
	if (!ret) {
		(*out)->index = session->nr_peers++;
		cds_list_add_tail(&(*out)->node, &session->peers);
	}
out_unlock:
	pthread_mutex_unlock(&session->lock);
	return ret;
}

static void peer_free(struct peer *peer)
{
	if (peer->control)
		rpc_connection_unref(peer->control);
	tdestroy(peer->keys, free);
	pthread_cond_destroy(&peer->changed);
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

/* ---- The control connection */

static void control_opened(struct rpc_connection *connection)
{
	struct peer *peer = rpc_connection_context(connection);

	pthread_mutex_lock(&peer->lock);
	peer->is_control_open = true;
	pthread_cond_broadcast(&peer->changed);
	pthread_mutex_unlock(&peer->lock);
}

static void control_closed(struct rpc_connection *connection, int status)
{
	struct peer *peer = rpc_connection_context(connection);

	pthread_mutex_lock(&peer->lock);
	if (peer->control == connection) {
		peer->is_control_open = false;
		peer->is_control_closed = true;
		peer->control_status = status ? status : -ECONNRESET;
		pthread_cond_broadcast(&peer->changed);
	}
	pthread_mutex_unlock(&peer->lock);
}

static const struct rpc_handlers control_handlers = {
	.opened = control_opened,
	.closed = control_closed,
};

static int unreachable(const struct peer *peer, int status)
{
	return error_fail(-AFAR_ESERVER, "reach server %s at %s:%u: %s", peer->name,
			  peer->control_host, peer->control_port, afar_strerror(status));
}

static int wait_control(struct peer *peer, uint64_t deadline)
{
	struct timespec until = {
		.tv_sec = (time_t)(deadline / 1000000000U),
		.tv_nsec = (long)(deadline % 1000000000U),
	};

	while (!peer->is_control_open && !peer->is_control_closed) {
		if (pthread_cond_timedwait(&peer->changed, &peer->lock, &until) == ETIMEDOUT)
			return unreachable(peer, -ETIMEDOUT);
	}
	return peer->is_control_open ? 0 : unreachable(peer, peer->control_status);
}

/* The peer's open control connection, with a reference; the peer's lock is held. */
static int open_control(struct peer *peer, uint64_t deadline, struct rpc_connection **out)
{
	int ret;

	if (peer->control && peer->is_control_closed) {
		rpc_connection_unref(peer->control);
		peer->control = NULL;
	}
	if (!peer->control) {
		peer->is_control_open = false;
		peer->is_control_closed = false;
		ret = rpc_connect(peer->session->loop, peer->control_host, peer->control_port,
				  &peer->session->key, &control_handlers, peer, &peer->control);
		if (ret) {
			/* Others may wait for this connection, too. */
			peer->is_control_closed = true;
			peer->control_status = ret;
			pthread_cond_broadcast(&peer->changed);
			return unreachable(peer, ret);
		}
	}
	ret = wait_control(peer, deadline);
	if (ret)
		return ret;
	*out = peer->control;
	rpc_connection_ref(*out);
	return 0;
}

static int lost(const struct peer *peer)
{
	return error_fail(-AFAR_ELOST,
			  "reach server %s: it has restarted, and what its memory held is lost",
			  peer->name);
}

/* A call to the server, repeated once over a fresh connection when the old one proves dead: asking
 * for keys and tickets twice does no harm. */
static int peer_call(struct peer *peer, Afar__Request *request, Afar__Frame **reply)
{
	struct rpc_envelope envelope = {
		.session = peer->session->number,
		.deadline = session_deadline(peer->session),
	};
	struct rpc_connection *control = NULL;
	int ret;

	if (session_has_ended(peer->session))
		return error_code(-AFAR_ESESSION);
	for (int attempt = 0; attempt < 2; attempt++) {
		pthread_mutex_lock(&peer->lock);
		ret = open_control(peer, envelope.deadline, &control);
		pthread_mutex_unlock(&peer->lock);
		if (ret)
			return ret;
		ret = rpc_call(control, &envelope, request, reply);
		rpc_connection_unref(control);
		if (ret != -ECONNRESET && ret != -ENOTCONN)
			return ret;
	}
	return unreachable(peer, ret);
}

/* ---- Tickets and keys */

int peer_ticket(struct peer *peer, struct rpc_ticket *out)
{
	Afar__Connect connect = AFAR__CONNECT__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	const Afar__Ticket *ticket;
	Afar__Frame *reply;
	int ret;

	connect.session = peer->session->number;
	request.call_case = AFAR__REQUEST__CALL_CONNECT;
	request.connect = &connect;
	ret = peer_call(peer, &request, &reply);
	if (ret)
		return ret;
	ticket = reply->reply->result_case == AFAR__REPLY__RESULT_TICKET ? reply->reply->ticket
									 : NULL;
	if (!ticket || ticket->ticket.len != sizeof(*out))
		ret = error_fail(-AFAR_EMALFORMED, "connect to server %s: it gave no ticket",
				 peer->name);
	else if (ticket->incarnation != peer->incarnation)
		ret = lost(peer);
	else
		memcpy(out, ticket->ticket.data, sizeof(*out));
	afar__frame__free_unpacked(reply, NULL);
	return ret;
}

static int take_keys(struct peer *peer, const Afar__Frame *reply)
{
	const Afar__Keys *keys = reply->reply->keys;
	int ret = 0;

	if (reply->reply->result_case != AFAR__REPLY__RESULT_KEYS)
		return error_fail(-AFAR_EMALFORMED, "get keys of server %s: it gave none",
				  peer->name);
	if (keys->incarnation != peer->incarnation)
		return lost(peer);
	pthread_mutex_lock(&peer->lock);
	for (size_t i = 0; i < keys->n_keys && !ret; i++)
		ret = add_key(peer, keys->keys[i]);
	pthread_mutex_unlock(&peer->lock);
	return ret;
}

static int ask_keys(struct peer *peer, uint64_t ns, uint64_t *extents, size_t nr_extents)
{
	Afar__Grant grant = AFAR__GRANT__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__Frame *reply;
	int ret;

	grant.session = peer->session->number;
	grant.namespace_ = ns;
	grant.extents = extents;
	grant.n_extents = nr_extents;
	request.call_case = AFAR__REQUEST__CALL_GRANT;
	request.grant = &grant;
	ret = peer_call(peer, &request, &reply);
	if (ret)
		return ret;
	ret = take_keys(peer, reply);
	afar__frame__free_unpacked(reply, NULL);
	return ret;
}

static int fill_chunk(const struct peer *peer, struct layout_chunk *chunk)
{
	const struct peer_key *key = find_key(peer, chunk->extent);
	uint64_t end;

	if (!key)
		return error_fail(-AFAR_EMALFORMED,
				  "get keys of server %s: it left out an extent that was asked for",
				  peer->name);
	if (__builtin_add_overflow(chunk->offset, chunk->length, &end) || end > key->length)
		return error_fail(
			-AFAR_EMALFORMED,
			"get keys of server %s: its extent is shorter than the region's chunk",
			peer->name);
	chunk->key = key->key;
	chunk->remote = key->origin + chunk->offset;
	return 0;
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static size_t drop_repeated(uint64_t *numbers, size_t count)
{
	size_t nr_kept = 0;

	qsort(numbers, count, sizeof(*numbers), compare_numbers);
	for (size_t i = 0; i < count; i++) {
		if (nr_kept == 0 || numbers[i] != numbers[nr_kept - 1])
			numbers[nr_kept++] = numbers[i];
	}
	return nr_kept;
}

int peer_grant(struct peer *peer, uint64_t ns, struct layout *layout, uint32_t index)
{
	uint64_t *missing = calloc((size_t)layout->nr_chunks + 1, sizeof(*missing));
	size_t nr_missing = 0;
	int ret = 0;

	if (!missing)
		return error_code(-ENOMEM);
	pthread_mutex_lock(&peer->lock);
	for (uint32_t i = 0; i < layout->nr_chunks; i++) {
		const struct layout_chunk *chunk = &layout->chunks[i];

		if (chunk->server == index && !find_key(peer, chunk->extent))
			missing[nr_missing++] = chunk->extent;
	}
	pthread_mutex_unlock(&peer->lock);

	nr_missing = drop_repeated(missing, nr_missing);
	for (size_t i = 0; i < nr_missing && !ret; i += GRANT_MAX)
		ret = ask_keys(peer, ns, missing + i,
			       nr_missing - i < GRANT_MAX ? nr_missing - i : GRANT_MAX);

	pthread_mutex_lock(&peer->lock);
	for (uint32_t i = 0; i < layout->nr_chunks && !ret; i++) {
		if (layout->chunks[i].server == index)
			ret = fill_chunk(peer, &layout->chunks[i]);
	}
	pthread_mutex_unlock(&peer->lock);
	free(missing);
	return ret;
}
