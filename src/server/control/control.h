/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's control port: answers clients that want to connect, or that want keys of extents. A
 * client comes in with a pass (rpc/pass.h), which binds its connection to one session. It gets keys
 * for a capability (rpc/capability.h), so the server needs no list of clients.
 */
#ifndef SERVER_CONTROL_H
#define SERVER_CONTROL_H

#include <stdint.h>

#include "rpc/rpc.h"
#include "server/control/incarnation.h"
#include "server/control/tickets.h"
#include "server/data/lanes.h"
#include "server/memory/extent.h"
#include "server/stores/stores.h"

struct control;

struct control_options {
	struct rpc_loop *loop;
	const char *address;		       /* HOST:PORT to listen on      */
	const struct incarnation *incarnation; /* must outlive the port, like everything below */
	struct extent_pool *pool;
	struct tickets *tickets;
	struct lanes *lanes;
	struct stores *stores;
};

/* Starts to listen. Errors, with a sentence: those of rpc_listen(), -ENOMEM. */
int control_start(const struct control_options *options, struct control **out);
/* Closes all connections, and returns when the last of their callbacks has run. Not on the loop's
 * thread. */
void control_stop(struct control *control);
/* Closes the session's connections soon. Call tickets_revoke() first. Any thread may call it. */
void control_end_session(struct control *control, uint64_t session);
/* Does so for all sessions. */
void control_end_all(struct control *control);
/* Returns the HOST:PORT that it listens on, with the real port. */
const char *control_address(const struct control *control);

#endif
