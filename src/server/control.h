/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's control port: answers clients that want to connect, or keys of extents. A client comes in
 * with a pass (rpc/pass.h), which binds its connection to one session, and gets keys for a capability
 * (rpc/capability.h): no list of clients is needed here.
 */
#ifndef SERVER_CONTROL_H
#define SERVER_CONTROL_H

#include <stdint.h>

#include "rpc/rpc.h"
#include "server/extent.h"
#include "server/incarnation.h"
#include "server/lanes.h"
#include "server/tickets.h"

struct control;

struct control_options {
	struct rpc_loop *loop;
	const char *address;		       /* HOST:PORT to listen on      */
	const struct incarnation *incarnation; /* stays, as all below         */
	struct extent_pool *pool;
	struct tickets *tickets;
	struct lanes *lanes;
};

/* Listens. Errors, with a sentence: those of rpc_listen(), -ENOMEM. */
int control_start(const struct control_options *options, struct control **out);
/* Closes all connections; returns when their last callback has. Not on the loop's thread. */
void control_stop(struct control *control);
/* Closes the session's connections, soon; tickets_revoke() has been called. From any thread. */
void control_end_session(struct control *control, uint64_t session);
/* HOST:PORT it listens on, with the real port. */
const char *control_address(const struct control *control);

#endif
