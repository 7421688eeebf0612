/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer of the transport local that is a plain socket, and a link once it has joined, and says
 * what it likes. A failure in here fails the test.
 */
#ifndef TESTS_LOCAL_PEER_H
#define TESTS_LOCAL_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/local/local.h"

struct local_peer {
	int fd;
	struct local_link *link; /* once it has joined */
};

/* Connects to a listener of ours. */
struct local_peer local_peer_open(const char *address);
/* Connects, says hello and takes the link. */
struct local_peer local_peer_join(const char *address);
void local_peer_close(struct local_peer *peer);

struct local_hello local_peer_hello(uint16_t private_length);
/* Hears that it is welcome, and maps the link. */
void local_peer_take_link(struct local_peer *peer);

/* Says a packet with up to four descriptors, unless the other side has ended it meanwhile. */
void local_peer_say(const struct local_peer *peer, const void *data, size_t length, const int *fds,
		    size_t nr_fds);
/* Says a message, with a descriptor; -1: none. */
void local_peer_say_message(const struct local_peer *peer, const struct local_message *message,
			    int fd);
/*
 * Hears a message. `*fd` is its descriptor, the caller's; -1: none. False: the other side has
 * ended.
 */
bool local_peer_hear(const struct local_peer *peer, struct local_message *message, int *fd);
/* Waits until the other side ends, which must say nothing more, and closes. */
void local_peer_expect_end(struct local_peer *peer);

#endif
