/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's control port: answers clients that want to connect, or keys of extents. */
#ifndef SERVER_CONTROL_H
#define SERVER_CONTROL_H

#include <stdint.h>

#include "rpc/rpc.h"
#include "server/extent.h"
#include "server/tickets.h"

struct control;

struct control_options {
	struct rpc_loop *loop;
	const char *address;	/* HOST:PORT to listen on       */
	const struct key *keys; /* clients must prove one of them; copied */
	size_t nr_keys;
	uint64_t incarnation;
	const char *transport; /* that the keys are of; stays */
	struct extent_pool *pool;
	struct tickets *tickets;
};

/* Listens. Errors, with a sentence: those of rpc_listen(), -ENOMEM. */
int control_start(const struct control_options *options, struct control **out);
/* Closes all connections; returns when their last callback has. Not on the loop's thread. */
void control_stop(struct control *control);
/* HOST:PORT it listens on, with the real port. */
const char *control_address(const struct control *control);

#endif
