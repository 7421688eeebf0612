/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions in use: their state, and calls to the manager that outlive its connection. */
#include <errno.h>

#include "base/error.h"
#include "base/forks.h"
#include "client/session.h"

#define CALLS_AHEAD 512

int session_check(const struct afar_session *session)
{
	if (!handle_is(session, HANDLE_SESSION))
		return error_fail(-EINVAL, "use a session: the handle is null or closed");
	if (session->fork_generation != forks_generation())
		return error_code(-AFAR_EFORKED);
	return 0;
}

bool session_has_ended(struct afar_session *session)
{
	bool has_ended;

	pthread_mutex_lock(&session->lock);
	has_ended = session->state == SESSION_ENDED;
	pthread_mutex_unlock(&session->lock);
	return has_ended;
}

bool session_is_stale(struct afar_session *session)
{
	bool is_stale;

	pthread_mutex_lock(&session->lock);
	is_stale = session->state == SESSION_ENDED && session->state_status == -ESTALE;
	pthread_mutex_unlock(&session->lock);
	return is_stale;
}

bool session_is_up(struct afar_session *session)
{
	bool is_up;

	pthread_mutex_lock(&session->lock);
	is_up = session->state == SESSION_UP;
	pthread_mutex_unlock(&session->lock);
	return is_up;
}

uint64_t session_deadline(const struct afar_session *session)
{
	/* May be one clock tick late, but never early. */
	return clock_coarse_ns() + CLOCK_TICK_NS + (uint64_t)session->timeout_ms * 1000000U;
}

/* ---- Calls */

struct session_pending {
	struct cds_list_head node;
	uint64_t request_id;
};

int session_wait_changed(struct afar_session *session, uint64_t deadline)
{
	struct timespec until = {
		.tv_sec = (time_t)(deadline / 1000000000U),
		.tv_nsec = (long)(deadline % 1000000000U),
	};

	return -pthread_cond_timedwait(&session->changed, &session->lock, &until);
}

bool session_has_feature(struct afar_session *session, uint64_t feature)
{
	bool has_it;

	pthread_mutex_lock(&session->lock);
	has_it = (session->features & feature) != 0;
	pthread_mutex_unlock(&session->lock);
	return has_it;
}

/* The caller has the lock. */
static int fail_not_up(const struct afar_session *session)
{
	if (session->state == SESSION_ENDED && session->state_status == -ESTALE)
		return error_fail(-ESTALE,
				  "call the manager at %s:%u: the cluster there is another one "
				  "than this session's, and has nothing of what that one had; open "
				  "a new session",
				  session->uri.host, session->uri.port);
	if (session->state == SESSION_ENDED)
		return error_fail(
			-AFAR_ESESSION,
			"call the manager at %s:%u: the session has ended (%s); open a new one",
			session->uri.host, session->uri.port, afar_strerror(session->state_status));
	return error_fail(
		-AFAR_EMANAGER,
		"call the manager at %s:%u: nobody answers (%s); check that afard runs there",
		session->uri.host, session->uri.port, afar_strerror(session->state_status));
}

int session_fail_ended(struct afar_session *session)
{
	int ret;

	pthread_mutex_lock(&session->lock);
	ret = fail_not_up(session);
	pthread_mutex_unlock(&session->lock);
	return ret;
}

/* Waits until calls can be made. On 0 the caller has a reference to the connection. */
static int wait_up(struct afar_session *session, uint64_t deadline, struct rpc_connection **out)
{
	while (session->state == SESSION_DOWN && session_wait_changed(session, deadline) == 0)
		;
	if (session->state != SESSION_UP)
		return fail_not_up(session);
	*out = session->manager;
	rpc_connection_ref(*out);
	return 0;
}

static uint64_t lowest_pending(const struct afar_session *session)
{
	return cds_list_first_entry(&session->calls, struct session_pending, node)->request_id;
}

/* Returns whether the manager keeps no reply to a call, because that may be carried out again. Such calls are in no
 * window: one that waits long, as for a file's lock, holds up nobody. */
static bool is_repeatable(const Afar__Request *request)
{
	return request->call_case == AFAR__REQUEST__CALL_FILES_LOOK ||
	       request->call_case == AFAR__REQUEST__CALL_FILES_HOLD;
}

/* Waits while too many calls follow one that has not ended, because the manager keeps the replies
 * to all of them. */
static int enter_window(struct afar_session *session, uint64_t deadline)
{
	while (!cds_list_empty(&session->calls) &&
	       session->next_request_id - lowest_pending(session) >= CALLS_AHEAD) {
		if (session_wait_changed(session, deadline) == -ETIMEDOUT)
			return error_fail(
				-ETIMEDOUT,
				"call the manager: %d calls behind one that still waits are "
				"enough; nothing was done",
				CALLS_AHEAD);
	}
	return 0;
}

int session_call_until(struct afar_session *session, uint64_t deadline, Afar__Request *request,
		       Afar__Frame **reply)
{
	struct rpc_envelope envelope = {.deadline = deadline};
	struct session_pending pending;
	struct rpc_connection *manager = NULL;
	bool was_sent = false;
	int ret;

	pthread_mutex_lock(&session->lock);
	ret = is_repeatable(request) ? 0 : enter_window(session, envelope.deadline);
	if (ret) {
		pthread_mutex_unlock(&session->lock);
		return ret;
	}
	pending.request_id = ++session->next_request_id;
	if (is_repeatable(request))
		CDS_INIT_LIST_HEAD(&pending.node);
	else
		cds_list_add_tail(&pending.node, &session->calls);
	for (;;) {
		ret = wait_up(session, envelope.deadline, &manager);
		if (ret) {
			if (ret == -AFAR_EMANAGER && was_sent)
				ret = error_fail(
					-ETIMEDOUT,
					"call the manager at %s:%u: the connection was lost and "
					"not found again in time; it may have done what was asked",
					session->uri.host, session->uri.port);
			break;
		}
		envelope.request_id = pending.request_id;
		envelope.session = session->number;
		envelope.settled_below = is_repeatable(request) ? 0 : lowest_pending(session);
		pthread_mutex_unlock(&session->lock);

		was_sent = true;
		ret = rpc_call(manager, &envelope, request, reply);
		pthread_mutex_lock(&session->lock);
		if (ret == -ECONNRESET || ret == -ENOTCONN) {
			/* Waits, because the control thread may hear of the closing after us;
			 * otherwise this would spin. */
			while (session->manager == manager && session->state == SESSION_UP &&
			       session_wait_changed(session, envelope.deadline) == 0)
				;
			rpc_connection_unref(manager);
			continue;
		}
		rpc_connection_unref(manager);
		/* A timeout before our deadline is an answer of the manager, about a server. */
		if (ret == -ETIMEDOUT && clock_ns() >= envelope.deadline)
			ret = error_fail(ret,
					 "call the manager at %s:%u: it did not answer in time; "
					 "outcome unknown, look whether it runs or is stopped",
					 session->uri.host, session->uri.port);
		break;
	}
	cds_list_del(&pending.node);
	pthread_cond_broadcast(&session->changed);
	pthread_mutex_unlock(&session->lock);
	return ret;
}

static void ignore_reply(void *argument, const Afar__Frame *reply, int status)
{
	(void)argument;
	(void)reply;
	(void)status;
}

int session_tell(struct afar_session *session, Afar__Request *request)
{
	return session_tell_then(session, request, ignore_reply, NULL);
}

int session_tell_then(struct afar_session *session, Afar__Request *request, rpc_done *done,
		      void *argument)
{
	struct rpc_envelope envelope = {.deadline = session_deadline(session)};
	struct rpc_connection *manager = NULL;
	int ret = 0;

	pthread_mutex_lock(&session->lock);
	if (session->state == SESSION_UP) {
		manager = session->manager;
		rpc_connection_ref(manager);
		envelope.session = session->number;
		envelope.request_id = ++session->next_request_id;
	} else {
		ret = fail_not_up(session);
	}
	pthread_mutex_unlock(&session->lock);
	if (ret)
		return ret;
	ret = rpc_send(manager, &envelope, request, done, argument);
	rpc_connection_unref(manager);
	return ret;
}

int session_call(struct afar_session *session, Afar__Request *request, Afar__Frame **reply)
{
	return session_call_until(session, session_deadline(session), request, reply);
}

int session_call_for(struct afar_session *session, Afar__Request *request,
		     Afar__Reply__ResultCase result, Afar__Frame **reply)
{
	int ret = session_call(session, request, reply);

	if (ret || (*reply)->reply->result_case == result)
		return ret;
	rpc_frame_free(*reply);
	return error_fail(-AFAR_EMALFORMED, "call the manager: it answered something else");
}
