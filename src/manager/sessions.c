/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions: opening and resuming them, their leases, and their end. A session that ended is fenced: what
 * it has open stays its until each server concerned has closed its data connections there, or has
 * restarted. Only then can the memory go to others.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "manager/core_private.h"

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

/* With a lease that runs. */
static int make_live(struct core *core, struct session *session)
{
	struct live_session *live = calloc(1, sizeof(*live));

	if (!live)
		return error_code(-ENOMEM);
	CDS_INIT_LIST_HEAD(&live->node);
	live->number = session->number;
	live->session = session;
	session->live = live;
	start_lease(core, live);
	return 0;
}

static void live_free(struct live_session *live)
{
	if (live->session)
		live->session->live = NULL;
	cds_list_del(&live->node);
	use_free(live);
	free(live);
}

int core_session(struct core *core, const struct event *event, struct session **out)
{
	struct session *session = state_session(core->state, event->session);

	if (!session || session->is_ending || !session->live || session->live->peer != event->peer)
		return error_fail(
			-AFAR_ESESSION,
			"call to the manager: session %llx has ended or belongs to another "
			"connection; open a new one",
			(unsigned long long)event->session);
	*out = session;
	return 0;
}

void session_gone(struct core *core, void *peer)
{
	struct live_session *live = live_of_peer(core, peer);

	if (live)
		start_lease(core, live);
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
	old = session->live->peer;
	bind_peer(core, session->live, event->peer);
	if (old && old != event->peer)
		core->environment.close_peer(core->environment.context, old);
	return tell_opened(core, session, event);
}

/* Numbers can't be guessed, are never 0 and fit into a signed word. */
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
	if (ask->client[0] != '\0' && !is_printable(ask->client, CLIENT_MAX))
		return error_fail(
			-EINVAL,
			"open a session: the client's name is longer than %u bytes or has "
			"control characters",
			CLIENT_MAX);
	session = session_new(ask->client, principal);
	if (!session)
		return error_code(-ENOMEM);
	ret = choose_number(core->state, session);
	if (ret == 0)
		ret = state_add_session(core->state, session);
	if (ret < 0) {
		session_free(session);
		return ret;
	}
	session->opened_at = core_now(core);
	store_put_session(core->store, session);
	ret = make_live(core, session);
	if (ret < 0) {
		store_spoil(core->store, ret);
		return ret;
	}
	bind_peer(core, session->live, event->peer);
	return tell_opened(core, session, event);
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

/* It has had a region open that lies on the server, or has one open now. */
static bool has_used(const struct session *session, const struct server *server)
{
	const struct reference *reference;
	const struct extent *extent;

	cds_list_for_each_entry (extent, &server->extents, server_node)
		if (session_has_used(session, extent->namespace_number))
			return true;
	/* Sessions of an old store, which says no more. */
	cds_list_for_each_entry (reference, &session->references, session_node)
		for (size_t i = 0; i < reference->region->nr_chunks; i++)
			if (reference->region->chunks[i].extent &&
			    reference->region->chunks[i].extent->server == server)
				return true;
	return false;
}

/* Whether it may have connections and keys. A server that is down may live on, and only not be reached;
 * but nothing on it was given to sessions that were opened since. */
static bool may_have_keys(const struct session *session, const struct server *server)
{
	bool is_newer;

	if (server_is_up(server))
		return true;
	is_newer = session->opened_at != 0 &&
		   (!server->live || session->opened_at > server->live->down_at);
	return !is_newer && has_used(session, server);
}

/* The servers that have to say that nothing of the session is left. */
static int make_fences(const struct core *core, struct session *session)
{
	struct server *server;
	size_t max = 1;

	cds_list_for_each_entry (server, &core->state->servers, node)
		max++;
	free(session->fences); /* one that was loaded has an empty array */
	session->fences = calloc(max, sizeof(*session->fences));
	if (!session->fences)
		return error_code(-ENOMEM);
	cds_list_for_each_entry (server, &core->state->servers, node)
		if (may_have_keys(session, server))
			session->fences[session->nr_fences++] =
				(struct fence){server->number, server->incarnation, false};
	return 0;
}

static bool is_fenced_from(const struct session *session, const struct region *region)
{
	for (size_t i = 0; i < session->nr_fences; i++)
		for (size_t j = 0; j < region->nr_chunks; j++)
			if (region->chunks[j].extent &&
			    region->chunks[j].server == session->fences[i].server &&
			    region->chunks[j].incarnation == session->fences[i].incarnation)
				return false;
	return true;
}

/* Lets go of what no server that is still to answer holds; of the session too when nothing is left. */
static void let_go(struct core *core, struct session *session)
{
	struct reference *reference, *next;

	cds_list_for_each_entry_safe (reference, next, &session->references, session_node)
		if (is_fenced_from(session, reference->region))
			region_drop(core, reference);
	if (session->nr_fences == 0) {
		store_delete_session(core->store, session);
		state_remove_session(core->state, session);
	} else {
		store_put_session(core->store, session);
	}
}

static int end_session(struct core *core, struct session *session)
{
	struct outcome *outcome;
	int ret = make_fences(core, session);

	if (ret < 0)
		return ret;
	if (session->live)
		live_free(session->live);
	cds_list_for_each_entry (outcome, &session->outcomes, node)
		store_delete_outcome(core->store, session, outcome->request_id);
	state_end_session(core->state, session);
	let_go(core, session);
	return 0;
}

int session_end_by_force(struct core *core, struct session *session)
{
	void *peer = session->live ? session->live->peer : NULL;
	int ret;

	log_info("session %llx of '%s' (%s) is ended: its rights were taken away",
		 (unsigned long long)session->number, session->principal, session->client);
	ret = end_session(core, session);
	/* If the commit fails, it can come back. */
	if (ret == 0 && peer)
		core->environment.close_peer(core->environment.context, peer);
	return ret;
}

int session_close(struct core *core, struct session *session, struct event *event)
{
	(void)event;
	return end_session(core, session);
}

void sessions_expire(struct core *core)
{
	struct live_session *live, *next;
	uint64_t time = core_now(core);

	cds_list_for_each_entry_safe (live, next, &core->leased, node) {
		if (live->lease_deadline > time)
			break;
		log_info("session %llx of %s did not come back: it ends",
			 (unsigned long long)live->number, live->session->client);
		if (end_session(core, live->session) < 0) {
			start_lease(core, live);
			break;
		}
	}
}

void session_fenced(struct core *core, struct session *session, uint64_t server,
		    uint64_t incarnation)
{
	for (size_t i = 0; i < session->nr_fences; i++) {
		if (session->fences[i].server != server ||
		    session->fences[i].incarnation != incarnation)
			continue;
		session->fences[i] = session->fences[--session->nr_fences];
		let_go(core, session);
		return;
	}
}

/* ---- With tables that were read again */

static void relink_list(struct core *core, struct cds_list_head *list)
{
	struct live_session *live, *next;

	cds_list_for_each_entry_safe (live, next, list, node) {
		live->session = state_session(core->state, live->number);
		if (!live->session || live->session->is_ending) {
			live->session = NULL;
			live_free(live);
			continue;
		}
		live->session->live = live;
	}
}

int sessions_relink(struct core *core)
{
	struct session *session;
	int ret = 0;

	relink_list(core, &core->connected);
	relink_list(core, &core->leased);
	/* Of those whose end could not be committed, and at start of all. */
	cds_list_for_each_entry (session, &core->state->sessions, node)
		if (!session->live && ret == 0)
			ret = make_live(core, session);
	return ret;
}

void sessions_close(struct core *core)
{
	struct live_session *live, *next;

	cds_list_for_each_entry_safe (live, next, &core->connected, node) {
		live->session = NULL;
		live_free(live);
	}
	cds_list_for_each_entry_safe (live, next, &core->leased, node) {
		live->session = NULL;
		live_free(live);
	}
}
