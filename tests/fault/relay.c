/* SPDX-License-Identifier: BSD-3-Clause */
/* The relay: a thread that carries bytes to and fro, and the connect() that leads there. */
#include "relay.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define CONNECTIONS_MAX 32U
#define SWALLOWED_MAX	4096U

struct relayed {
	int client; /* -1: ended */
	int server; /* likewise  */
	bool is_swallowing;
	uint8_t swallowed[SWALLOWED_MAX];
	size_t nr_swallowed;
	bool is_to_client;
	int64_t change_in; /* so many bytes; negative: it is done, or none was wanted */
};

static struct {
	pthread_t thread;
	int listener, wake;
	struct sockaddr_in address; /* of the listener */

	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t changed;
	bool is_on;
	struct sockaddr_in targets[CONNECTIONS_MAX]; /* of connections, in their order */
	unsigned nr_targets;
	struct relayed connections[CONNECTIONS_MAX];
	unsigned nr_connections;
} relay = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int real_connect(int fd, const void *address, socklen_t length)
{
	return (int)syscall(SYS_connect, fd, address, length);
}

/* The fabric's too, which is in a library. */
int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	struct sockaddr_in target;

	if (address->sa_family != AF_INET || length < sizeof(target))
		return real_connect(fd, address, length);
	memcpy(&target, address, sizeof(target));
	pthread_mutex_lock(&relay.lock);
	if (relay.is_on && target.sin_addr.s_addr == inet_addr(RELAY_HOST) &&
	    relay.nr_targets < CONNECTIONS_MAX) {
		relay.targets[relay.nr_targets++] = target;
		address = (const struct sockaddr *)&relay.address;
	}
	pthread_mutex_unlock(&relay.lock);
	return real_connect(fd, address, length);
}

/* ---- The thread. With the lock held, but for waiting. */

static void end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void take_connection(void)
{
	struct relayed *relayed = &relay.connections[relay.nr_connections];
	const struct sockaddr_in *target = &relay.targets[relay.nr_connections];

	*relayed = (struct relayed){.client = accept4(relay.listener, NULL, NULL, SOCK_CLOEXEC),
				    .server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
				    .change_in = -1};
	relay.nr_connections++;
	if (real_connect(relayed->server, target, sizeof(*target)) != 0) {
		end(&relayed->client);
		end(&relayed->server);
	}
}

static bool send_all(int fd, const uint8_t *bytes, size_t length)
{
	while (length > 0) {
		ssize_t nr = send(fd, bytes, length, MSG_NOSIGNAL);

		if (nr <= 0)
			return false;
		bytes += nr;
		length -= (size_t)nr;
	}
	return true;
}

/* Changes a byte of these, if it is the one. */
static void change(struct relayed *relayed, bool is_to_client, uint8_t *bytes, ssize_t nr)
{
	if (relayed->change_in < 0 || relayed->is_to_client != is_to_client || nr <= 0)
		return;
	if (relayed->change_in < nr)
		bytes[relayed->change_in] ^= 0x10;
	relayed->change_in -= nr;
}

static void carry_to_server(struct relayed *relayed)
{
	uint8_t *swallowed = relayed->swallowed + relayed->nr_swallowed;
	uint8_t bytes[SWALLOWED_MAX];
	size_t room =
		relayed->is_swallowing ? SWALLOWED_MAX - relayed->nr_swallowed : sizeof(bytes);
	ssize_t nr = recv(relayed->client, relayed->is_swallowing ? swallowed : bytes, room, 0);

	if (!relayed->is_swallowing)
		change(relayed, false, bytes, nr);
	if (nr > 0 && relayed->is_swallowing) {
		relayed->nr_swallowed += (size_t)nr;
		pthread_cond_broadcast(&relay.changed);
	} else if (nr <= 0 || !send_all(relayed->server, bytes, (size_t)nr)) {
		end(&relayed->client);
		if (!relayed->is_swallowing)
			end(&relayed->server);
	}
}

static void carry_to_client(struct relayed *relayed)
{
	uint8_t bytes[SWALLOWED_MAX];
	ssize_t nr = recv(relayed->server, bytes, sizeof(bytes), 0);

	change(relayed, true, bytes, nr);
	if (nr <= 0 || !send_all(relayed->client, bytes, (size_t)nr)) {
		end(&relayed->client);
		end(&relayed->server);
	}
}

/* The listener, the wish to be looked at, and both ends of each connection that has both. */
static nfds_t list_ends(struct pollfd *ends)
{
	ends[0] = (struct pollfd){.fd = relay.listener, .events = POLLIN};
	ends[1] = (struct pollfd){.fd = relay.wake, .events = POLLIN};
	for (unsigned i = 0; i < relay.nr_connections; i++) {
		const struct relayed *relayed = &relay.connections[i];
		bool is_whole = relayed->client >= 0 && relayed->server >= 0;

		ends[2 + 2 * i] =
			(struct pollfd){.fd = is_whole ? relayed->client : -1, .events = POLLIN};
		ends[3 + 2 * i] =
			(struct pollfd){.fd = is_whole ? relayed->server : -1, .events = POLLIN};
	}
	return 2 + 2 * relay.nr_connections;
}

static void serve(const struct pollfd *ends)
{
	unsigned nr_connections = relay.nr_connections;
	uint64_t count;

	if (ends[1].revents && read(relay.wake, &count, sizeof(count)) < 0)
		return;
	if (ends[0].revents)
		take_connection();
	for (unsigned i = 0; i < nr_connections; i++) {
		struct relayed *relayed = &relay.connections[i];

		/* An end that was closed meanwhile is not the descriptor that was looked at. */
		if (ends[2 + 2 * i].revents && relayed->client == ends[2 + 2 * i].fd)
			carry_to_server(relayed);
		if (ends[3 + 2 * i].revents && relayed->server == ends[3 + 2 * i].fd &&
		    relayed->client >= 0)
			carry_to_client(relayed);
	}
}

static void *run(void *unused)
{
	struct pollfd ends[2 + 2 * CONNECTIONS_MAX];
	nfds_t nr;

	pthread_mutex_lock(&relay.lock);
	while (relay.is_on) {
		nr = list_ends(ends);
		pthread_mutex_unlock(&relay.lock);
		poll(ends, nr, -1);
		pthread_mutex_lock(&relay.lock);
		serve(ends);
	}
	pthread_mutex_unlock(&relay.lock);
	return unused;
}

static void look(void)
{
	const uint64_t one = 1;

	assert_int_equal(write(relay.wake, &one, sizeof(one)), sizeof(one));
}

/* ---- What tests call */

void relay_start(void)
{
	socklen_t length = sizeof(relay.address);

	relay.nr_targets = relay.nr_connections = 0;
	relay.wake = eventfd(0, EFD_CLOEXEC);
	relay.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	relay.address = (struct sockaddr_in){.sin_family = AF_INET,
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(bind(relay.listener, (const struct sockaddr *)&relay.address, length), 0);
	assert_int_equal(listen(relay.listener, CONNECTIONS_MAX), 0);
	assert_int_equal(getsockname(relay.listener, (struct sockaddr *)&relay.address, &length),
			 0);
	relay.is_on = true;
	assert_int_equal(pthread_create(&relay.thread, NULL, run, NULL), 0);
}

void relay_stop(void)
{
	pthread_mutex_lock(&relay.lock);
	relay.is_on = false;
	pthread_mutex_unlock(&relay.lock);
	look();
	pthread_join(relay.thread, NULL);
	for (unsigned i = 0; i < relay.nr_connections; i++) {
		end(&relay.connections[i].client);
		end(&relay.connections[i].server);
	}
	close(relay.listener);
	close(relay.wake);
}

void relay_swallow(unsigned connection)
{
	pthread_mutex_lock(&relay.lock);
	assert_true(connection < relay.nr_connections);
	relay.connections[connection].is_swallowing = true;
	pthread_mutex_unlock(&relay.lock);
}

void relay_reset_client(unsigned connection, size_t nr_bytes)
{
	const struct linger at_once = {.l_onoff = 1};
	struct relayed *relayed = &relay.connections[connection];

	pthread_mutex_lock(&relay.lock);
	while (relayed->nr_swallowed < nr_bytes)
		pthread_cond_wait(&relay.changed, &relay.lock);
	assert_int_equal(
		setsockopt(relayed->client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
	end(&relayed->client);
	pthread_mutex_unlock(&relay.lock);
	look();
}

bool relay_release(unsigned connection)
{
	struct relayed *relayed = &relay.connections[connection];
	uint8_t byte;

	/* The thread does not look at one that has lost an end. */
	return send_all(relayed->server, relayed->swallowed, relayed->nr_swallowed) &&
	       recv(relayed->server, &byte, 1, 0) == 1;
}

void relay_change(unsigned connection, bool is_to_client, uint32_t skip)
{
	pthread_mutex_lock(&relay.lock);
	assert_true(connection < relay.nr_connections);
	relay.connections[connection].is_to_client = is_to_client;
	relay.connections[connection].change_in = skip;
	pthread_mutex_unlock(&relay.lock);
}

bool relay_has_changed(unsigned connection)
{
	bool has_changed;

	pthread_mutex_lock(&relay.lock);
	has_changed = relay.connections[connection].change_in < 0;
	pthread_mutex_unlock(&relay.lock);
	return has_changed;
}
