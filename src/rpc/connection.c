/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One control connection: its states, from the first address tried to the last callback. stream.c
 * moves its bytes, call.c gives frames their meaning.
 *
 * State changes, receiving and callbacks happen on the loop's thread. Senders on any thread queue
 * frames, and write them at once if nothing is queued before them. The lock guards that, and TLS;
 * no callback runs with it held. A sender that meets an error leaves it to the loop's thread.
 *
 * The socket is watched edge-triggered for both directions, so no code has to arm anything: after
 * -EAGAIN an event will come.
 */
#include "rpc/connection.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define SOCKET_SILENT_MS  5000 /* data unacknowledged for so long: the host is unreachable */
#define SOCKET_IDLE_S	  5
#define SOCKET_INTERVAL_S 2
#define SOCKET_PROBES	  3

/* ---- References */

void rpc_connection_ref(struct rpc_connection *connection)
{
	atomic_fetch_add_explicit(&connection->references, 1, memory_order_relaxed);
}

void rpc_connection_unref(struct rpc_connection *connection)
{
	if (atomic_fetch_sub_explicit(&connection->references, 1, memory_order_acq_rel) != 1)
		return;
	assert(connection->state == CONNECTION_CLOSED);
	stream_free_received(connection);
	pthread_mutex_destroy(&connection->lock);
	loop_unref(connection->loop);
	free(connection);
}

/* ---- States */

static void change_state(struct rpc_connection *connection, enum connection_state state)
{
	static const unsigned allowed[CONNECTION_STATES] = {
		[CONNECTION_CONNECTING] = 1U << CONNECTION_HANDSHAKE | 1U << CONNECTION_CLOSED,
		[CONNECTION_HANDSHAKE] = 1U << CONNECTION_OPEN | 1U << CONNECTION_CLOSED,
		[CONNECTION_OPEN] = 1U << CONNECTION_CLOSING | 1U << CONNECTION_CLOSED,
		[CONNECTION_CLOSING] = 1U << CONNECTION_CLOSED,
	};

	assert(allowed[connection->state] & 1U << state);
	connection->state = state;
}

void connection_call_attention(struct rpc_connection *connection)
{
	rpc_connection_ref(connection);
	if (!loop_task_queue(connection->loop, &connection->task))
		rpc_connection_unref(connection);
}

void connection_fail(struct rpc_connection *connection, int failure)
{
	if (!connection->failure)
		connection->failure = failure;
	connection_call_attention(connection);
}

static void free_frames(struct cds_list_head *frames)
{
	struct frame_buffer *buffer, *next;

	cds_list_for_each_entry_safe (buffer, next, frames, entry) {
		frame_buffer_free(buffer);
	}
}

static void close_socket(struct rpc_connection *connection)
{
	if (connection->source.fd < 0)
		return;
	loop_source_remove(connection->loop, &connection->source);
	close(connection->source.fd);
	connection->source.fd = -1;
}

static void forget_stranger(struct rpc_connection *connection)
{
	if (!connection->strangers)
		return;
	cds_list_del(&connection->stranger);
	connection->strangers->nr--;
	connection->strangers = NULL;
}

static void forget_address(struct rpc_connection *connection)
{
	OPENSSL_cleanse(&connection->key, sizeof(connection->key));
	if (connection->addresses)
		freeaddrinfo(connection->addresses);
	connection->addresses = NULL;
}

/* Closes the connection for senders, and takes away the TLS and the frames that they use. */
static struct tls *shut(struct rpc_connection *connection, int status, struct cds_list_head *unsent)
{
	struct tls *tls;

	pthread_mutex_lock(&connection->lock);
	tls = connection->tls;
	connection->tls = NULL;
	if (connection->state == CONNECTION_OPEN && !status && !connection->failure &&
	    cds_list_empty(&connection->outgoing))
		tls_close_notify(tls);
	change_state(connection, CONNECTION_CLOSED);
	cds_list_splice(&connection->outgoing, unsent);
	CDS_INIT_LIST_HEAD(&connection->outgoing);
	pthread_mutex_unlock(&connection->lock);
	return tls;
}

void connection_finish(struct rpc_connection *connection, int status)
{
	CDS_LIST_HEAD(unsent);
	struct tls *tls;

	if (connection->state == CONNECTION_CLOSED)
		return;
	if (connection->state == CONNECTION_CLOSING)
		status = connection->closing_status;
	tls = shut(connection, status, &unsent);
	buffer_cap_leave(&connection->buffered);
	if (connection->is_accepted && !connection->was_open && status)
		connection_complain(connection, tls, status);
	loop_timer_cancel(connection->loop, &connection->timer);
	tls_free(tls);
	close_socket(connection);
	free_frames(&unsent);
	forget_stranger(connection);
	forget_address(connection);

	call_end_all(connection, connection->was_open ? -ECONNRESET : -ENOTCONN);
	if (connection->handlers.closed && (connection->was_open || !connection->is_accepted))
		connection->handlers.closed(connection, status);
	loop_resident_remove(connection->loop, &connection->resident);
	rpc_connection_unref(connection);
}

static void evict(struct loop_resident *resident)
{
	connection_finish(caa_container_of(resident, struct rpc_connection, resident), 0);
}

static void try_next_address(struct rpc_connection *connection, int status);

/* Ends the connection when connecting, the handshake or lingering has taken too long. */
static void time_out(struct loop_timer *timer)
{
	struct rpc_connection *connection = caa_container_of(timer, struct rpc_connection, timer);

	if (connection->state == CONNECTION_CONNECTING) {
		close_socket(connection);
		try_next_address(connection, -ETIMEDOUT);
	} else {
		connection_finish(connection, -ETIMEDOUT);
	}
}

void connection_end(struct rpc_connection *connection, int status)
{
	if (connection->state != CONNECTION_OPEN) {
		connection_finish(connection, status);
		return;
	}
	connection->closing_status = status;
	pthread_mutex_lock(&connection->lock);
	change_state(connection, CONNECTION_CLOSING);
	pthread_mutex_unlock(&connection->lock);
	loop_timer_set(connection->loop, &connection->timer,
		       clock_deadline_ms(CONNECTION_LINGER_MS));
	stream_linger(connection);
}

/* ---- Opening */

static void set_socket_options(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, SOCKET_SILENT_MS},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, SOCKET_IDLE_S},
		{IPPROTO_TCP, TCP_KEEPINTVL, SOCKET_INTERVAL_S},
		{IPPROTO_TCP, TCP_KEEPCNT, SOCKET_PROBES},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			   sizeof(options[i].value));
}

static void become_open(struct rpc_connection *connection)
{
	strcpy(connection->identity, tls_identity(connection->tls));
	loop_timer_cancel(connection->loop, &connection->timer);
	forget_stranger(connection);
	forget_address(connection);
	pthread_mutex_lock(&connection->lock);
	connection->was_open = true;
	change_state(connection, CONNECTION_OPEN);
	stream_flush(connection);
	pthread_mutex_unlock(&connection->lock);
	if (connection->handlers.opened)
		connection->handlers.opened(connection);
}

static void shake_hands(struct rpc_connection *connection)
{
	int ret = tls_handshake(connection->tls);

	if (ret == -EAGAIN)
		return;
	if (ret) {
		connection_finish(connection, ret);
		return;
	}
	become_open(connection);
	stream_receive(connection); /* bytes that came together with the end of the handshake */
}

/* Begins TLS. The socket is connected. */
static void start_handshake(struct rpc_connection *connection, struct tls *tls)
{
	pthread_mutex_lock(&connection->lock);
	connection->tls = tls;
	change_state(connection, CONNECTION_HANDSHAKE);
	pthread_mutex_unlock(&connection->lock);
}

/* Starts connecting to one address. */
static int try_address(struct rpc_connection *connection, const struct addrinfo *address)
{
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int ret;

	if (fd < 0)
		return -errno;
	set_socket_options(fd);
	if (connect(fd, address->ai_addr, address->ai_addrlen) && errno != EINPROGRESS) {
		ret = -errno;
		close(fd);
		return ret;
	}
	connection->source.fd = fd;
	ret = loop_source_add(connection->loop, &connection->source,
			      EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
	if (ret) {
		close(fd);
		connection->source.fd = -1;
		return ret;
	}
	loop_timer_set(connection->loop, &connection->timer, clock_deadline_ms(RPC_HANDSHAKE_MS));
	return 0;
}

/* Tries the next address, after the last one has failed with `status`. */
static void try_next_address(struct rpc_connection *connection, int status)
{
	while (connection->next_address) {
		const struct addrinfo *address = connection->next_address;

		connection->next_address = address->ai_next;
		status = try_address(connection, address);
		if (!status)
			return;
	}
	connection_finish(connection, status);
}

static void await_connected(struct rpc_connection *connection, uint32_t events)
{
	struct tls *tls;
	int error = 0, ret;
	socklen_t length = sizeof(error);

	getsockopt(connection->source.fd, SOL_SOCKET, SO_ERROR, &error, &length);
	if (error) {
		close_socket(connection);
		try_next_address(connection, -error);
		return;
	}
	if (!(events & EPOLLOUT))
		return;
	ret = tls_connect(&connection->key, connection->source.fd, &tls);
	if (ret) {
		connection_finish(connection, ret);
		return;
	}
	start_handshake(connection, tls);
	shake_hands(connection);
}

/* ---- Events and wishes */

static void send_and_receive(struct rpc_connection *connection)
{
	pthread_mutex_lock(&connection->lock);
	stream_flush(connection);
	pthread_mutex_unlock(&connection->lock);
	stream_receive(connection);
}

static void ready(struct loop_source *source, uint32_t events)
{
	struct rpc_connection *connection = caa_container_of(source, struct rpc_connection, source);

	rpc_connection_ref(connection);
	switch (connection->state) {
	case CONNECTION_CONNECTING:
		await_connected(connection, events);
		break;
	case CONNECTION_HANDSHAKE:
		shake_hands(connection);
		break;
	case CONNECTION_OPEN:
		send_and_receive(connection);
		break;
	case CONNECTION_CLOSING:
		stream_linger(connection);
		break;
	default:
		break;
	}
	rpc_connection_unref(connection);
}

static void close_as_asked(struct rpc_connection *connection)
{
	bool has_unsent;

	pthread_mutex_lock(&connection->lock);
	has_unsent = !cds_list_empty(&connection->outgoing);
	pthread_mutex_unlock(&connection->lock);
	if (has_unsent)
		connection_end(connection, 0);
	else
		connection_finish(connection, 0);
}

/* Does on the loop's thread the work that other threads asked for. */
static void attend(struct loop_task *task)
{
	struct rpc_connection *connection = caa_container_of(task, struct rpc_connection, task);
	bool is_close_asked, has_more;
	int failure;

	pthread_mutex_lock(&connection->lock);
	failure = connection->failure;
	is_close_asked = connection->is_close_asked;
	has_more = connection->has_more;
	connection->has_more = false;
	pthread_mutex_unlock(&connection->lock);

	if (connection->state == CONNECTION_CLOSED)
		;
	else if (failure)
		connection_finish(connection, failure);
	else if (connection->state == CONNECTION_CLOSING)
		stream_linger(connection);
	else if (is_close_asked)
		close_as_asked(connection);
	else if (connection->state == CONNECTION_CONNECTING && connection->source.fd < 0)
		try_next_address(connection, -EADDRNOTAVAIL);
	else if (has_more)
		stream_receive(connection);
	rpc_connection_unref(connection);
}

/* ---- Making one */

static struct rpc_connection *make_connection(struct rpc_loop *loop, const char *peer,
					      const struct rpc_handlers *handlers, void *context)
{
	struct rpc_connection *connection = calloc(1, sizeof(*connection));

	if (!connection)
		return NULL;
	loop_ref(loop);
	connection->loop = loop;
	connection->handlers = *handlers;
	snprintf(connection->peer, sizeof(connection->peer), "%s", peer);
	atomic_init(&connection->references, 1);
	atomic_init(&connection->context, context);
	connection->resident.evict = evict;
	connection->source.fd = -1;
	connection->source.ready = ready;
	connection->task.run = attend;
	connection->timer.run = time_out;
	pthread_mutex_init(&connection->lock, NULL);
	CDS_INIT_LIST_HEAD(&connection->outgoing);
	CDS_INIT_LIST_HEAD(&connection->calls);
	return connection;
}

/* Frees a connection that never started. */
static void discard(struct rpc_connection *connection)
{
	forget_address(connection);
	if (connection->source.fd >= 0)
		close(connection->source.fd);
	tls_free(connection->tls);
	connection->state = CONNECTION_CLOSED;
	rpc_connection_unref(connection);
}

struct rpc_connection *connection_accept(struct strangers *strangers, struct rpc_loop *loop, int fd,
					 const char *peer, struct tls_acceptor *acceptor,
					 const struct rpc_handlers *handlers, void *context)
{
	struct rpc_connection *connection = make_connection(loop, peer, handlers, context);
	struct tls *tls;

	if (!connection) {
		close(fd);
		return NULL;
	}
	set_socket_options(fd);
	connection->is_accepted = true;
	connection->source.fd = fd;
	if (tls_accept(acceptor, fd, &tls))
		goto out_discard;
	start_handshake(connection, tls);
	if (loop_resident_add(loop, &connection->resident))
		goto out_discard;
	if (loop_source_add(loop, &connection->source, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)) {
		loop_resident_remove(loop, &connection->resident);
		goto out_discard;
	}
	loop_timer_set(loop, &connection->timer, clock_deadline_ms(RPC_HANDSHAKE_MS));
	connection->strangers = strangers;
	cds_list_add_tail(&connection->stranger, &strangers->list);
	strangers->nr++;
	buffer_cap_enter(loop_buffer_cap(loop), &connection->buffered);
	return connection;

out_discard:
	discard(connection);
	return NULL;
}

void connection_print_peer(char out[CONNECTION_PEER_MAX], const char *host, const char *port)
{
	snprintf(out, CONNECTION_PEER_MAX, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

static int resolve(const char *host, uint16_t port, struct addrinfo **out)
{
	const struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV,
	};
	char service[8];
	int ret;

	snprintf(service, sizeof(service), "%u", port);
	ret = getaddrinfo(host, service, &hints, out);
	if (ret)
		return error_fail(-EHOSTUNREACH,
				  "connect to %s: its name cannot be resolved (%s); "
				  "check the host's name",
				  host, gai_strerror(ret));
	return 0;
}

int rpc_connect(struct rpc_loop *loop, const char *host, uint16_t port, const struct key *key,
		const struct rpc_handlers *handlers, void *context, struct rpc_connection **out)
{
	char peer[CONNECTION_PEER_MAX], service[8];
	struct rpc_connection *connection;
	struct addrinfo *addresses;
	int ret;

	ret = resolve(host, port, &addresses);
	if (ret)
		return ret;
	snprintf(service, sizeof(service), "%u", port);
	connection_print_peer(peer, host, service);
	connection = make_connection(loop, peer, handlers, context);
	if (!connection) {
		freeaddrinfo(addresses);
		return error_code(-ENOMEM);
	}
	connection->addresses = addresses;
	connection->next_address = addresses;
	connection->key = *key;
	rpc_connection_ref(connection); /* the caller's */
	*out = connection;
	if (loop_resident_add(loop, &connection->resident)) {
		rpc_connection_unref(connection);
		discard(connection);
		*out = NULL;
		return error_code(-ECANCELED);
	}
	connection_call_attention(connection);
	return 0;
}

void rpc_connection_close(struct rpc_connection *connection)
{
	pthread_mutex_lock(&connection->lock);
	if (connection->state != CONNECTION_CLOSED && !connection->is_close_asked) {
		connection->is_close_asked = true;
		connection_call_attention(connection);
	}
	pthread_mutex_unlock(&connection->lock);
}

void *rpc_connection_context(const struct rpc_connection *connection)
{
	return atomic_load_explicit(&connection->context, memory_order_acquire);
}

void rpc_connection_set_context(struct rpc_connection *connection, void *context)
{
	atomic_store_explicit(&connection->context, context, memory_order_release);
}

const char *rpc_connection_peer(const struct rpc_connection *connection)
{
	return connection->peer;
}

const char *rpc_connection_identity(const struct rpc_connection *connection)
{
	return connection->identity;
}
