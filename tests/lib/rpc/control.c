/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls at a server's control port; see control.h. */
#include "lib/rpc/control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

#define PATIENCE_MS 20000

int control_open(struct rpc_loop *loop, const char *address, const struct key *pass,
		 struct rpc_connection **out)
{
	static const struct rpc_handlers handlers;
	const char *colon = strrchr(address, ':');
	char host[64];
	int ret;

	snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
	assert_int_equal(
		rpc_connect(loop, host, (uint16_t)atoi(colon + 1), pass, &handlers, NULL, out), 0);
	ret = control_ping(*out);
	if (ret) {
		rpc_connection_unref(*out);
		*out = NULL;
	}
	return ret;
}

void control_close(struct rpc_connection *control)
{
	rpc_connection_close(control);
	rpc_connection_unref(control);
}

int control_call(struct rpc_connection *control, Afar__Request *request, Afar__Frame **reply)
{
	const struct rpc_envelope envelope = {.deadline = clock_deadline_ms(PATIENCE_MS)};

	return rpc_call(control, &envelope, request, reply);
}

int control_ping(struct rpc_connection *control)
{
	Afar__Ping ping = AFAR__PING__INIT;

	return control_call(control, RPC_REQUEST(PING, ping, &ping), NULL);
}

int control_ask_ticket(struct rpc_connection *control, Afar__Connect *connect,
		       struct rpc_ticket *out, Afar__Frame **reply)
{
	int ret;

	ret = control_call(control, RPC_REQUEST(CONNECT, connect, connect), reply);
	if (ret)
		return ret;
	assert_int_equal((*reply)->reply->result_case, AFAR__REPLY__RESULT_TICKET);
	assert_int_equal((*reply)->reply->ticket->ticket.len, sizeof(*out));
	memcpy(out, (*reply)->reply->ticket->ticket.data, sizeof(*out));
	return 0;
}

int control_ask_keys(struct rpc_connection *control, Afar__Grant *grant, Afar__Frame **reply)
{
	int ret;

	ret = control_call(control, RPC_REQUEST(GRANT, grant, grant), reply);
	if (!ret)
		assert_int_equal((*reply)->reply->result_case, AFAR__REPLY__RESULT_KEYS);
	return ret;
}
