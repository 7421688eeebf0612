/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions: opening and resuming them, their leases, and their end. A session that ended is fenced:
 * its regions stay open until each server concerned has closed its data connections there, or has
 * restarted. Only then can the memory go to others.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "manager/connections/live.h"
#include "manager/members/sessions.h"
#include "manager/space/references.h"
#include "rpc/manager_features.h"

#define CLIENT_MAX 255U

/* ---- Live sessions */

static void bind_peer(struct core *core, struct live_session *live, void *peer)
{
	live->peer = peer;
	live->is_looked_at = false;
	cds_list_move(&live->node, &core->connected);
}

static void start_lease(struct core *core, struct live_session *live)
{
	live->peer = NULL;
	live->lease_deadline = core_now(core) + core->lease_ns;
	cds_list_del(&live->node);
	cds_list_add_tail(&live->node, &core->leased);
}

static struct live_session *live_of_peer(const struct core *core, const void *peer)
{
	struct live_session *live;

	cds_list_for_each_entry (live, &core->connected, node)
		if (live->peer == peer)
			return live;
	return NULL;
}

void use_free(struct live_session *live)
{
	if (live->use)
		afar__session_use__free_unpacked(live->use, NULL);
	live->use = NULL;
}

static void live_free(struct live_session *live)
{
	if (live->session)
		live->session->live = NULL;
	cds_list_del(&live->node);
	use_free(live);
	free(live);
}

/* The session was never committed. */
static void drop_live(void *argument)
{
	live_free(argument);
}

/* Gives a session a lease, which begins now. */
static int make_live(struct core *core, struct session *session)
{
	struct live_session *live;
	int ret = undo_room(core->undo, 1);

	if (ret < 0)
		return ret;
	live = calloc(1, sizeof(*live));
	if (!live)
		return error_code(-ENOMEM);
	CDS_INIT_LIST_HEAD(&live->node);
	live->core = core;
	live->number = session->number;
	live->session = session;
	session->live = live;
	start_lease(core, live);
	undo_call(core->undo, drop_live, NULL, live);
	return 0;
}

/* The end of the session was not committed. It is as it was, but for a connection that was lost
 * meanwhile. */
static void bring_back(void *argument)
{
	struct live_session *live = argument, *other;
	struct core *core = live->core;

	live->session->live = live;
	live->is_cut = false;
	live->is_looked_at = false; /* the answer may have come meanwhile */
	cds_list_del(&live->node);
	if (live->peer) {
		cds_list_add_tail(&live->node, &core->connected);
		return;
	}
	/* Leases that were over come back last first, so each is the first of all then. */
	cds_list_for_each_entry (other, &core->leased, node)
		if (other->lease_deadline >= live->lease_deadline)
			break;
	cds_list_add_tail(&live->node, &other->node);
}

static void end_live(void *argument)
{
	struct live_session *live = argument;
	const struct core_environment *environment = &live->core->environment;

	if (live->is_cut && live->peer)
		environment->close_peer(environment->context, live->peer);
	live->session = NULL;
	live_free(live);
}

/* The session ends with this batch. `is_cut`: its connection is closed then. */
static int retire_live(struct core *core, struct live_session *live, bool is_cut)
{
	int ret = undo_room(core->undo, 1);

	if (ret < 0)
		return ret;
	live->session->live = NULL;
	live->is_cut = is_cut;
	cds_list_move(&live->node, &core->ended);
	undo_call(core->undo, bring_back, end_live, live);
	return 0;
}

void session_gone(struct core *core, void *peer)
{
	struct live_session *live = live_of_peer(core, peer);

	if (live)
		start_lease(core, live);
	/* A session that ended in this batch comes back without its connection, if the commit
	 * fails. */
	cds_list_for_each_entry (live, &core->ended, node) {
		if (live->peer != peer)
			continue;
		live->peer = NULL;
		live->lease_deadline = core_now(core) + core->lease_ns;
	}
}

/* ---- Opening */

static int tell_opened(const struct core *core, const struct session *session, struct event *event)
{
	Afar__SessionOpened *opened = MESSAGE_NEW(afar__session_opened, Afar__SessionOpened);

	if (!opened)
		return error_code(-ENOMEM);
	event->reply->session_opened = opened;
	event->reply->result_case = AFAR__REPLY__RESULT_SESSION_OPENED;
	opened->session = session->number;
	opened->lease_ms = (uint32_t)(core->lease_ns / 1000000U);
	opened->features = RPC_FEATURE_REPLACES | RPC_FEATURE_KEPT | RPC_FEATURE_RANGES;
	if (core->gives_ends)
		opened->features |= RPC_FEATURE_ENDS;
	opened->cluster = strdup(core->state->cluster);
	opened->principal = strdup(session->principal);
	opened->secret.data = malloc(STATE_SECRET_BYTES);
	if (!opened->secret.data || !opened->cluster || !opened->principal)
		return error_code(-ENOMEM);
	memcpy(opened->secret.data, session->secret, STATE_SECRET_BYTES);
	opened->secret.len = STATE_SECRET_BYTES;
	return 0;
}

static int resume(struct core *core, struct event *event)
{
	const Afar__SessionOpen *ask = event->request->session_open;
	struct session *session = state_session(core->state, ask->resume);
	const char *principal = core->environment.principal(core->environment.context, event->peer);
	void *old;
	int ret;

	if (ask->cluster[0] && strcmp(ask->cluster, core->state->cluster) != 0)
		return error_fail(-ESTALE,
				  "resume session %llx: it is of another cluster, which this one "
				  "has taken the address of; open a new one",
				  (unsigned long long)ask->resume);
	if (!session || session->is_ending || !session->live)
		return error_fail(-AFAR_ESESSION,
				  "resume session %llx: it has ended; open a new one",
				  (unsigned long long)ask->resume);
	if (ask->secret.len != STATE_SECRET_BYTES ||
	    CRYPTO_memcmp(ask->secret.data, session->secret, STATE_SECRET_BYTES) != 0)
		return error_fail(-AFAR_ESESSION,
				  "resume session %llx: this is not its secret; open a new one",
				  (unsigned long long)ask->resume);
	if (!principal || strcmp(principal, session->principal) != 0)
		return error_fail(
			-AFAR_ESESSION,
			"resume session %llx: it was opened with another key; use that, or "
			"open a new one",
			(unsigned long long)ask->resume);
	ret = tell_opened(core, session, event);
	if (ret < 0)
		return ret;
	old = session->live->peer;
	bind_peer(core, session->live, event->peer);
	if (old && old != event->peer)
		core->environment.close_peer(core->environment.context, old);
	return 0;
}

/* Chooses a number that cannot be guessed, is not 0 and fits into a signed word; and a secret. */
static int choose_number(const struct state *state, struct session *session)
{
	do {
		if (RAND_bytes((unsigned char *)&session->number, sizeof(session->number)) != 1 ||
		    RAND_bytes(session->secret, sizeof(session->secret)) != 1)
			return error_fail(-EIO, "open a session: no random numbers");
		session->number &= INT64_MAX;
	} while (session->number == 0 || state_session(state, session->number));
	return 0;
}

static int open_new(struct core *core, struct event *event)
{
	const Afar__SessionOpen *ask = event->request->session_open;
	const char *principal = core->environment.principal(core->environment.context, event->peer);
	struct session *session;
	int ret;

	if (!principal)
		return error_fail(-AFAR_EAUTH, "open a session: the key was revoked meanwhile");
	if (ask->client[0] != '\0' && !text_is_printable(ask->client, CLIENT_MAX))
		return error_fail(
			-EINVAL,
			"open a session: the client's name is longer than %u bytes or has "
			"control characters",
			CLIENT_MAX);
	session = session_new(ask->client, principal);
	if (!session)
		return error_code(-ENOMEM);
	ret = choose_number(core->state, session);
	if (ret < 0) {
		session_free(session);
		return ret;
	}
	session->opened_at = core_now(core);
	counter_add(&core->counts.nr_sessions_opened, 1);
	ret = state_add_session(core->state, session);
	if (ret == 0)
		ret = make_live(core, session);
	if (ret == 0)
		ret = tell_opened(core, session, event);
	if (ret < 0)
		return ret;
	store_put_session(core->store, session);
	bind_peer(core, session->live, event->peer);
	return 0;
}

int session_open(struct core *core, struct session *session, struct event *event)
{
	struct live_session *live = live_of_peer(core, event->peer);

	(void)session;
	if (live && live->number != event->request->session_open->resume)
		return error_fail(
			-EBUSY, "open a session: this connection has one; close that first, or use "
				"another connection");
	return event->request->session_open->resume != 0 ? resume(core, event)
							 : open_new(core, event);
}

/* ---- Ending */

static bool has_used_pool(const struct session *session, const struct pool *pool)
{
	const struct extent *extent;

	cds_list_for_each_entry (extent, &pool->extents, pool_node)
		if (session_has_used(session, extent->namespace_number))
			return true;
	return false;
}

/* True: the session has, or had, a region open that lies on the server, or in a store of it. */
static bool has_used(const struct state *state, const struct session *session,
		     const struct server *server)
{
	const struct reference *reference;
	const struct flash_store *store;

	if (has_used_pool(session, &server->dram))
		return true;
	cds_list_for_each_entry (store, &state->stores, node)
		if (store->pool.server == server && has_used_pool(session, &store->pool))
			return true;
	/* An old store does not tell which namespaces its sessions have used: only what they have
	 * open. */
	cds_list_for_each_entry (reference, &session->references, session_node)
		if (region_is_held(state, reference->region, server->number, server->incarnation))
			return true;
	return false;
}

/* True: the session may have connections and keys there. A server that is down may live on, and
 * only not be reached. Sessions that were opened since were given nothing on it. */
static bool may_have_keys(const struct state *state, const struct session *session,
			  const struct server *server)
{
	bool is_newer;

	if (server_is_up(server))
		return true;
	is_newer = session->opened_at != 0 &&
		   (!server->live || session->opened_at > server->live->down_at);
	return !is_newer && has_used(state, session, server);
}

/* Makes a fence for each server that has to say that nothing of the session is left. */
static int make_fences(const struct core *core, const struct session *session, struct fence **out,
		       size_t *nr_out)
{
	struct server *server;
	size_t nr = 0, max = 1;

	cds_list_for_each_entry (server, &core->state->servers, node)
		max++;
	*out = calloc(max, sizeof(**out));
	if (!*out)
		return error_code(-ENOMEM);
	cds_list_for_each_entry (server, &core->state->servers, node)
		if (may_have_keys(core->state, session, server))
			(*out)[nr++] = (struct fence){.server = server->number,
						      .incarnation = server->incarnation};
	*nr_out = nr;
	return 0;
}

static bool is_fenced_from(const struct state *state, const struct session *session,
			   const struct region *region)
{
	for (size_t i = 0; i < session->nr_fences; i++) {
		const struct fence *fence = &session->fences[i];

		if (!fence->is_over &&
		    region_is_held(state, region, fence->server, fence->incarnation))
			return false;
	}
	return true;
}

/* Drops the references to regions of which no server that has still to answer holds a part. Removes
 * the session when no fence is left. */
static int let_go(struct core *core, struct session *session)
{
	struct reference *reference, *next;
	int ret = 0;

	cds_list_for_each_entry_safe (reference, next, &session->references, session_node)
		if (ret == 0 && is_fenced_from(core->state, session, reference->region))
			ret = region_drop(core, reference);
	if (ret < 0)
		return ret;
	if (session->nr_awaited != 0) {
		store_put_session(core->store, session);
		return 0;
	}
	store_delete_session(core->store, session);
	return state_remove_session(core->state, session);
}

static int end_session(struct core *core, struct session *session, bool is_cut)
{
	struct outcome *outcome;
	struct fence *fences;
	size_t nr_fences;
	int ret = session->live ? retire_live(core, session->live, is_cut) : 0;

	if (ret == 0)
		ret = make_fences(core, session, &fences, &nr_fences);
	if (ret == 0)
		ret = state_end_session(core->state, session, fences, nr_fences);
	if (ret < 0)
		return ret;
	cds_list_for_each_entry (outcome, &session->outcomes, node)
		store_delete_outcome(core->store, session, outcome->request_id);
	return let_go(core, session);
}

int session_end_by_force(struct core *core, struct session *session, const char *why)
{
	log_info("session %llx of '%s' (%s) is ended: %s", (unsigned long long)session->number,
		 session->principal, session->client, why);
	return end_session(core, session, true);
}

int session_close(struct core *core, struct session *session, struct event *event)
{
	(void)event;
	return end_session(core, session, false);
}

void sessions_expire(struct core *core)
{
	struct live_session *live, *next;
	uint64_t time = core_now(core);

	cds_list_for_each_entry_safe (live, next, &core->leased, node) {
		size_t mark = undo_mark(core->undo);

		if (live->lease_deadline > time)
			break;
		log_info("session %llx of %s did not come back: it ends",
			 (unsigned long long)live->number, live->session->client);
		if (undo_end(core->undo, mark, end_session(core, live->session, false)) < 0) {
			start_lease(core, live);
			break;
		}
		counter_add(&core->counts.nr_sessions_expired, 1);
	}
}

int session_fenced(struct core *core, struct session *session, uint64_t server,
		   uint64_t incarnation)
{
	int ret;

	for (size_t i = 0; i < session->nr_fences; i++) {
		struct fence *fence = &session->fences[i];

		if (fence->server != server || fence->incarnation != incarnation || fence->is_over)
			continue;
		counter_add(&core->counts.nr_fences, 1);
		ret = state_end_fence(core->state, session, fence);
		return ret == 0 ? let_go(core, session) : ret;
	}
	return 0;
}

/* ---- The whole */

int sessions_start(struct core *core)
{
	struct session *session;
	int ret = 0;

	cds_list_for_each_entry (session, &core->state->sessions, node)
		if (ret == 0)
			ret = make_live(core, session);
	undo_keep(core->undo);
	return ret;
}

void sessions_close(struct core *core)
{
	struct live_session *live, *next;

	cds_list_for_each_entry_safe (live, next, &core->connected, node)
		live_free(live);
	cds_list_for_each_entry_safe (live, next, &core->leased, node)
		live_free(live);
}
