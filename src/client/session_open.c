/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening a session. Here, above all parts of the library, it is told which of them want to hear what happens to it. */
#include "client/base/call.h"
#include "client/files/fs.h"
#include "client/files/inode/attr_cache.h"
#include "client/files/io/fs_used.h"
#include "client/namespace/deferred_close.h"
#include "client/queue/queue.h"
#include "client/region/attach.h"
#include "client/session.h"

static void end(struct afar_session *session)
{
	attachments_let_go(session);
	queue_pool_let_go(session);
}

static bool ask(struct afar_session *session, Afar__Request *request, struct rpc_call *call)
{
	switch (request->call_case) {
	case AFAR__REQUEST__CALL_FILE_RECALL:
		fs_recall(session, request->file_recall, call);
		return true;
	case AFAR__REQUEST__CALL_FILE_REVOKE:
		if (request->file_revoke->only_closes)
			fs_tell_closings(session, request->file_revoke, call);
		else if (request->file_revoke->only_times)
			fs_tell_times(session, request->file_revoke, call);
		else if (request->file_revoke->only_ends)
			fs_tell_ends(session, request->file_revoke, call);
		else
			attr_cache_revoke(session, request->file_revoke, call);
		return true;
	case AFAR__REQUEST__CALL_FILES_GONE:
		used_ask(session, request, call);
		return true;
	default:
		return false;
	}
}

static void forget(struct afar_session *session)
{
	attachments_close(session);
	queue_pool_close(session);
	regions_forget(session);
}

static const struct session_events events = {
	.resumed = fs_session_resumed,
	.ended = end,
	.asked = ask,
	.closing = queue_pool_close,
	.freed = forget,
};

PUBLIC_CALL(int, afar_session_open,
	    (const char *uri, const struct afar_session_options *options, struct afar_session **out),
	    (uri, options, out))
{
	return session_open(&events, uri, options, out);
}
