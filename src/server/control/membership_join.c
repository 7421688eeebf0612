/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Composes what a membership says when it joins, and takes over from the answer: who this server
 * is, the manager's term, extents to release. Also lends one store more. On the membership's
 * thread.
 *
 * Reservations are made only by this thread, or on the loop while the connection is joined. So when
 * a join is composed, the granted extents include all that reservations of an earlier connection
 * have made. Those of a store are made on its own thread, and its list waits for them. The manager sees them in the join's list, and has those released that it does not
 * know. So no memory is lost if an answer gets lost.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "rpc/manager_features.h"
#include "rpc/protobuf.h"
#include "server/control/identity.h"
#include "server/control/join.h"
#include "server/control/membership_private.h"

static void take_identity(struct membership *membership, const Afar__ServerJoined *joined)
{
	const char *folder = membership->options.folder;
	struct server_identity *self = &membership->self;

	if (self->number == joined->server && strcmp(self->cluster, joined->cluster) == 0)
		return;
	pthread_mutex_lock(&membership->lock);
	self->number = joined->server;
	strcpy(self->cluster, joined->cluster); /* check_joined() has checked that it fits */
	pthread_mutex_unlock(&membership->lock);
	if (folder && identity_save(folder, self) != 0)
		log_error("%s", error_last_line());
}

static int check_joined(const Afar__Frame *frame)
{
	const Afar__Reply *reply = frame->reply;

	if (reply->result_case != AFAR__REPLY__RESULT_SERVER_JOINED ||
	    reply->server_joined->server == 0 ||
	    reply->server_joined->cluster[strcspn(reply->server_joined->cluster, " \n")] != '\0' ||
	    strlen(reply->server_joined->cluster) - 1 >= IDENTITY_CLUSTER_MAX)
		return error_fail(-AFAR_EMALFORMED, "join: the manager's answer does not say who "
						    "this server is");
	return 0;
}

/* Does nothing, because the manager waits for no answer. */
static void on_released(void *argument)
{
	(void)argument;
}

/* Releases the extents that the manager does not know. Without memory for that they stay until the
 * next join lists them again. */
static void release_unknown(struct membership *membership, const Afar__ServerJoined *joined)
{
	if (fence_extents(membership->options.fence, joined->release, joined->n_release,
			  on_released, NULL) != 0)
		log_error("release of %zu extents: %s", joined->n_release, error_last_line());
}

/* The manager gives what they have to others. Their end begins when this connection has gone (on_closed()). -EAGAIN, with a
 * sentence. */
static int end_sessions_first(struct membership *membership)
{
	pthread_mutex_lock(&membership->lock);
	if (membership->sessions == SESSIONS_LIVE)
		membership->sessions = SESSIONS_TO_END;
	pthread_mutex_unlock(&membership->lock);
	return error_fail(-EAGAIN, "the sessions of before have to end here first: that waits for "
				   "whoever is in the middle of a transfer, also if it is stopped");
}

static bool have_sessions_ended(struct membership *membership)
{
	bool have_ended;

	pthread_mutex_lock(&membership->lock);
	have_ended = membership->sessions == SESSIONS_ENDED;
	pthread_mutex_unlock(&membership->lock);
	return have_ended;
}

/* Returns whether the answer says that they have to end, and they have not. */
static bool must_end_sessions(struct membership *membership, const Afar__Reply *reply)
{
	return reply->result_case == AFAR__REPLY__RESULT_SERVER_JOINED &&
	       reply->server_joined->ends_sessions && !have_sessions_ended(membership);
}

void membership_take_term(struct membership *membership, const Afar__Term *term)
{
	if (!term)
		return;
	pthread_mutex_lock(&membership->lock);
	if (membership->term.number != term->number || membership->term.random != term->random) {
		membership->term = (struct store_term){term->number, term->random};
		membership->is_term_due = true;
		pthread_cond_signal(&membership->changed);
	}
	pthread_mutex_unlock(&membership->lock);
}

/* Sends the join with everything filled in and acts on the answer. */
static int exchange_join(struct membership *membership, Afar__ServerJoin *join)
{
	const struct membership_options *options = &membership->options;
	const struct rpc_envelope envelope = {
		.incarnation = options->incarnation->number,
		.deadline = clock_deadline_ms(JOIN_TIMEOUT_MS),
	};
	Afar__ServerJoined *joined;
	Afar__Frame *frame;
	int ret;

	ret = rpc_call(membership->connection, &envelope,
		       RPC_REQUEST(SERVER_JOIN, server_join, join), &frame);
	if (ret != 0)
		return ret;
	ret = must_end_sessions(membership, frame->reply) ? end_sessions_first(membership)
							  : check_joined(frame);
	if (ret == 0) {
		joined = frame->reply->server_joined;
		take_identity(membership, joined);
		membership_take_term(membership, joined->term);
		join_take_stores(options, join, joined);
		release_unknown(membership, joined);
	}
	rpc_frame_free(frame);
	return ret;
}

int membership_lend_store(void *context, struct store *store)
{
	struct membership *membership = context;
	const struct membership_options *options = &membership->options;
	const struct rpc_envelope envelope = {
		.incarnation = options->incarnation->number,
		.deadline = clock_deadline_ms(JOIN_TIMEOUT_MS),
	};
	Afar__StoreLend *lend;
	Afar__Frame *frame;
	int ret = join_compose_store(options, store, &lend);

	if (ret != 0)
		return ret;
	ret = rpc_call(membership->connection, &envelope, RPC_REQUEST(STORE_LEND, store_lend, lend),
		       &frame);
	if (ret == 0) {
		ret = join_take_store(options, store, lend, membership->self.cluster, frame);
		rpc_frame_free(frame);
	}
	/* The manager may have accepted it, and it is about to be closed: the next join settles that. */
	if (ret == -ETIMEDOUT || ret == -AFAR_EMALFORMED)
		rpc_connection_close(membership->connection);
	afar__store_lend__free_unpacked(lend, NULL);
	return ret;
}

int membership_send_join(struct membership *membership)
{
	Afar__ServerJoin *join;
	struct store_term term;
	int ret;

	pthread_mutex_lock(&membership->lock);
	term = membership->term;
	pthread_mutex_unlock(&membership->lock);
	ret = join_compose(&membership->options, &membership->self, term, &join);
	if (ret != 0)
		return ret;
	join->ends_first = true;
	join->features = RPC_SERVER_READS;
	join->has_ended_sessions = have_sessions_ended(membership);
	ret = exchange_join(membership, join);
	afar__server_join__free_unpacked(join, &protobuf_wiping);
	return ret;
}
