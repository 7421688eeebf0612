/* SPDX-License-Identifier: BSD-3-Clause */
/* The cluster's status, as the manager tells it, with the paths that this session would take. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/session.h"
#include "rpc/status_json.h"

/* Returns whether this session may use a lane, as far as that is known without connecting. */
static bool is_usable(struct afar_session *session, const Afar__Lane *lane)
{
	unsigned number;

	if (!fabric_transport_may_be(lane->transport, session->path))
		return false;
	return fabrics_get(&session->fabrics, lane->transport, lane->address, &number) == 0 &&
	       fabric_is_same_host(fabrics_at(&session->fabrics, number), lane->address);
}

/* Returns the transport that the session would take to the server's memory, or to a store; NULL: none. The
 * best to memory comes first; the nearest to a store comes last. */
static const char *choose_transport(void *context, const Afar__Server *server, uint64_t store)
{
	struct afar_session *session = context;
	const char *transport = NULL;

	for (size_t i = 0; i < server->n_lanes; i++) {
		if (server->lanes[i]->store != store || !is_usable(session, server->lanes[i]))
			continue;
		transport = server->lanes[i]->transport;
		if (store == 0)
			break;
	}
	return transport;
}

PUBLIC_CALL(int, afar_session_status, (struct afar_session *session, char **json), (session, json))
{
	const struct status_chooser chooser = {choose_transport, session};
	Afar__Status status = AFAR__STATUS__INIT;
	Afar__Frame *reply;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!json)
		return error_fail(-EINVAL,
				  "get the status: there is nowhere to put it (json is null)");
	status.is_fresh = true;
	ret = session_call_for(session, RPC_REQUEST(STATUS, status, &status),
			       AFAR__REPLY__RESULT_CLUSTER_STATUS, &reply);
	if (ret)
		return ret;
	*json = status_json(reply->reply->cluster_status, session->principal, &chooser);
	ret = *json ? 0 : error_code(-ENOMEM);
	rpc_frame_free(reply);
	return ret;
}
