/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accepts peers. A listener keeps them as strangers in a list until they have proved a key. If
 * there are too many, or the process has no descriptors left, it pauses instead of spinning. Called
 * by daemons; all but rpc_listen() and rpc_listener_close() runs on the loop's thread.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "rpc/connection.h"

#define LISTENER_STRANGERS_MAX 256
#define LISTENER_PATIENCE_MS   250 /* when there are too many, one older than this must go */
#define LISTENER_PAUSE_MS      50
#define LISTENER_TURN	       16 /* accepted before others on the loop have their turn */

struct rpc_listener {
	struct rpc_loop *loop;
	struct rpc_handlers handlers;
	void *context;
	struct tls_acceptor *acceptor;
	char address[CONNECTION_PEER_MAX];
	struct loop_resident resident;
	struct loop_source source;
	struct loop_timer resumption;
	bool is_paused;
	struct strangers strangers;
};

/* ---- Strangers */

static void drop_strangers(struct rpc_listener *listener)
{
	while (!cds_list_empty(&listener->strangers.list))
		connection_finish(cds_list_first_entry(&listener->strangers.list,
						       struct rpc_connection, stranger),
				  0);
}

static bool somebody_waits(const struct rpc_listener *listener)
{
	struct pollfd fd = {.fd = listener->source.fd, .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

/* Makes room for one more stranger. False: all are too new to be dropped. */
static bool make_room(struct rpc_listener *listener)
{
	struct rpc_connection *oldest;

	oldest = cds_list_first_entry(&listener->strangers.list, struct rpc_connection, stranger);
	if (oldest->timer.deadline > clock_deadline_ms(RPC_HANDSHAKE_MS - LISTENER_PATIENCE_MS))
		return false;
	connection_finish(oldest, -EBUSY);
	return true;
}

/* ---- Accepting */

static void pause_accepting(struct rpc_listener *listener)
{
	loop_source_remove(listener->loop, &listener->source);
	listener->is_paused = true;
	loop_timer_set(listener->loop, &listener->resumption, clock_deadline_ms(LISTENER_PAUSE_MS));
}

static void resume_accepting(struct loop_timer *timer)
{
	struct rpc_listener *listener = caa_container_of(timer, struct rpc_listener, resumption);

	if (loop_source_add(listener->loop, &listener->source, EPOLLIN))
		loop_timer_set(listener->loop, timer, clock_deadline_ms(LISTENER_PAUSE_MS));
	else
		listener->is_paused = false;
}

/* Prints "HOST:PORT", numeric. */
static void print_address(char out[CONNECTION_PEER_MAX], const struct sockaddr *address,
			  socklen_t length)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getnameinfo(address, length, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(out, CONNECTION_PEER_MAX, "unknown");
	else
		connection_print_peer(out, host, port);
}

static void welcome(struct rpc_listener *listener, int fd, const struct sockaddr *address,
		    socklen_t length)
{
	char peer[CONNECTION_PEER_MAX];

	print_address(peer, address, length);
	connection_accept(&listener->strangers, listener->loop, fd, peer, listener->acceptor,
			  &listener->handlers, listener->context);
}

/* Accepts one connection. False: stop for now. */
static bool accept_one(struct rpc_listener *listener)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);
	int fd, error;

	if (listener->strangers.nr == LISTENER_STRANGERS_MAX) {
		if (!somebody_waits(listener))
			return false;
		if (!make_room(listener)) {
			pause_accepting(listener);
			return false;
		}
	}
	fd = accept4(listener->source.fd, (struct sockaddr *)&address, &length,
		     SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		welcome(listener, fd, (struct sockaddr *)&address, length);
		return true;
	}
	error = errno;
	if (error == EAGAIN)
		return false;
	if (error_is_shortage(error)) {
		log_limited(loop_complaints(listener->loop), LOG_LEVEL_ERROR,
			    "accept on %s: %s; clients have to wait", listener->address,
			    afar_strerror(-error));
		pause_accepting(listener);
		return false;
	}
	return true; /* that peer has gone already */
}

static void accept_some(struct loop_source *source, uint32_t events)
{
	struct rpc_listener *listener = caa_container_of(source, struct rpc_listener, source);

	(void)events;
	for (unsigned i = 0; i < LISTENER_TURN && accept_one(listener); i++)
		;
}

/* ---- Making and ending */

/* Splits "HOST:PORT" or "[HOST]:PORT". */
static int split_address(const char *address, char host[URI_HOST_MAX], char port[8])
{
	const char *colon = strrchr(address, ':');
	const char *first = address;
	size_t length;

	if (!colon)
		return -EINVAL;
	length = (size_t)(colon - address);
	if (length >= 2 && first[0] == '[' && first[length - 1] == ']') {
		first++;
		length -= 2;
	}
	if (!length || length >= URI_HOST_MAX || strlen(colon + 1) >= 8 || !colon[1] ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1) || atoi(colon + 1) > UINT16_MAX)
		return -EINVAL;
	memcpy(host, first, length);
	host[length] = 0;
	strcpy(port, colon + 1);
	return 0;
}

static int bind_socket(const struct addrinfo *address, int *out)
{
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	const int yes = 1;
	int ret;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, address->ai_addr, address->ai_addrlen) || listen(fd, SOMAXCONN)) {
		ret = -errno;
		close(fd);
		return ret;
	}
	*out = fd;
	return 0;
}

static int open_socket(const char *address, int *fd)
{
	const struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
	};
	char host[URI_HOST_MAX], port[8];
	struct addrinfo *found;
	int ret;

	if (split_address(address, host, port))
		return error_fail(-EINVAL, "listen on \"%s\": that is not HOST:PORT", address);
	ret = getaddrinfo(host, port, &hints, &found);
	if (ret)
		return error_fail(-EINVAL, "listen on %s: %s; check the host", address,
				  gai_strerror(ret));
	ret = bind_socket(found, fd);
	freeaddrinfo(found);
	if (ret == -EADDRINUSE)
		return error_fail(ret,
				  "listen on %s: another program has the port; end it, or choose "
				  "another port ('--listen 127.0.0.1:0': any that is free)",
				  address);
	if (ret)
		return error_fail(ret, "listen on %s: %s", address, afar_strerror(ret));
	return 0;
}

static void free_listener(struct rpc_listener *listener)
{
	if (listener->source.fd >= 0)
		close(listener->source.fd);
	if (listener->acceptor)
		tls_acceptor_close(listener->acceptor);
	loop_unref(listener->loop);
	free(listener);
}

/* Runs on the loop's thread. */
static void close_listener(void *argument)
{
	struct rpc_listener *listener = argument;

	drop_strangers(listener);
	if (!listener->is_paused)
		loop_source_remove(listener->loop, &listener->source);
	loop_timer_cancel(listener->loop, &listener->resumption);
	loop_resident_remove(listener->loop, &listener->resident);
	free_listener(listener);
}

static void evict(struct loop_resident *resident)
{
	close_listener(caa_container_of(resident, struct rpc_listener, resident));
}

void rpc_listener_close(struct rpc_listener *listener)
{
	loop_run(listener->loop, close_listener, listener);
}

static void print_own_address(struct rpc_listener *listener)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);

	getsockname(listener->source.fd, (struct sockaddr *)&address, &length);
	print_address(listener->address, (struct sockaddr *)&address, length);
}

static int start_accepting(struct rpc_listener *listener)
{
	int ret = loop_resident_add(listener->loop, &listener->resident);

	if (ret)
		return error_code(ret);
	ret = loop_source_add(listener->loop, &listener->source, EPOLLIN);
	if (ret) {
		loop_resident_remove(listener->loop, &listener->resident);
		return error_code(ret);
	}
	return 0;
}

int rpc_listen(struct rpc_loop *loop, const char *address, const struct rpc_keyring *keyring,
	       const struct rpc_handlers *handlers, void *context, struct rpc_listener **out)
{
	struct rpc_listener *listener = calloc(1, sizeof(*listener));
	int ret;

	if (!listener)
		return error_code(-ENOMEM);
	loop_ref(loop);
	listener->loop = loop;
	listener->handlers = *handlers;
	listener->context = context;
	listener->resident.evict = evict;
	listener->source.ready = accept_some;
	listener->source.fd = -1;
	listener->resumption.run = resume_accepting;
	CDS_INIT_LIST_HEAD(&listener->strangers.list);

	ret = open_socket(address, &listener->source.fd);
	if (ret)
		goto out_free;
	print_own_address(listener);
	ret = tls_acceptor_open(keyring->find, keyring->context, &listener->acceptor);
	if (ret)
		goto out_free;
	*out = listener; /* before its first connection */
	ret = start_accepting(listener);
	if (ret)
		goto out_free;
	return 0;

out_free:
	free_listener(listener);
	return ret;
}

const char *rpc_listener_address(const struct rpc_listener *listener)
{
	return listener->address;
}
