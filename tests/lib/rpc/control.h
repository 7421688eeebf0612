/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's calls at a server's control port, with whatever one likes to send. Each waits for its
 * answer, 20 s at most, and returns the status: 0, or what it was refused with. An answer of
 * another kind than the call's fails the test.
 */
#ifndef TESTS_CONTROL_H
#define TESTS_CONTROL_H

#include "rpc/rpc.h"
#include "rpc/ticket.h"

/* Connects to HOST:PORT with any key, and pings. On 0 `*out` is the caller's to close. */
int control_open(struct rpc_loop *loop, const char *address, const struct key *pass,
		 struct rpc_connection **out);
void control_close(struct rpc_connection *control);

/* On 0 `*reply` is the caller's; NULL: not wanted. */
int control_call(struct rpc_connection *control, Afar__Request *request, Afar__Frame **reply);
int control_ping(struct rpc_connection *control);

/*
 * Asks for a ticket. On 0 it is in `*out`, and `*reply`, the caller's, has what was told with it.
 */
int control_ask_ticket(struct rpc_connection *control, Afar__Connect *connect,
		       struct rpc_ticket *out, Afar__Frame **reply);
/* Asks for keys. On 0 `*reply`, the caller's, has them. */
int control_ask_keys(struct rpc_connection *control, Afar__Grant *grant, Afar__Frame **reply);

#endif
