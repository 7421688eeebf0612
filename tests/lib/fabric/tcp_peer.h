/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers of the transport tcp that are plain sockets and say what they like. A peer connects to an
 * end of ours, and an end of ours connects to a liar. A failure in here fails the test.
 */
#ifndef TESTS_TCP_PEER_H
#define TESTS_TCP_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/tcp/tcp.h"
#include "lib/fabric/fabric_fixture.h"

/* ---- A peer, which is its socket */

/* Connects. */
int open_peer(const char *address);
/* Connects, and says hello and is welcome. */
int join(const char *address);

/* Joins a target without a thread, as an endpoint with the owner `target`. Returns the peer's
 * socket, which sends at once what is said. */
int accept_peer(struct target *target, struct fabric_endpoint **out);
/* Waits for a stranger's request. */
void await_request(struct fabric_listener *listener, struct fabric_request *request);

/* Says all of it, unless the other side has ended the connection meanwhile. */
void say(int fd, const void *data, size_t length);
/* Hears all of it. False: the other side has ended the connection. */
bool hear(int fd, void *data, size_t length);
/*
 * Waits until the other side ends the connection, which must say nothing more, and closes the
 * socket.
 */
void expect_end(int fd);
void expect_welcome(int fd);
void expect_reply(int fd, uint32_t type, uint64_t length);

struct tcp_hello hello_of(uint16_t private_length);
struct tcp_frame frame_of(uint32_t type, uint64_t key, uint64_t offset, uint64_t length);

/* ---- A liar: a client of ours has connected to it */

struct liar {
	struct client *client;
	struct fabric_endpoint *endpoint;
	int fd;
};

/* Has the client connect to it, and answers its hello with `welcome`, if that has a length. */
void liar_open(struct liar *liar, struct client *client, const void *welcome, size_t length);
/* Has the client connect to it, and welcomes it as a target does. */
void liar_join(struct liar *liar, struct client *client);
void liar_close(struct liar *liar);

#endif
