/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of sessions, of what they have open, and of what their requests did. */
#include <assert.h>
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manager/state_private.h"

COMPARE_BY(sessions_by_number, session, number)
COMPARE_BY(references_by_generation, reference, generation)

/* ---- Sessions */

struct session *session_new(const char *client, const char *principal)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->client = strdup(client);
	if (!session->client) {
		free(session);
		return NULL;
	}
	snprintf(session->principal, sizeof(session->principal), "%s", principal);
	CDS_INIT_LIST_HEAD(&session->references);
	CDS_INIT_LIST_HEAD(&session->outcomes);
	return session;
}

void session_free(struct session *session)
{
	explicit_bzero(session->secret, sizeof(session->secret));
	free(session->client);
	free(session->fences);
	free(session->namespaces);
	free(session);
}

bool session_has_used(const struct session *session, uint64_t ns)
{
	for (size_t i = 0; i < session->nr_namespaces; i++)
		if (session->namespaces[i] == ns)
			return true;
	return false;
}

/* Keeps the list as short as there are namespaces: numbers are not used again. */
int session_use(const struct state *state, struct session *session, uint64_t ns)
{
	uint64_t *more;
	size_t nr = 0;

	if (session_has_used(session, ns))
		return 0;
	for (size_t i = 0; i < session->nr_namespaces; i++)
		if (state_namespace(state, session->namespaces[i]))
			session->namespaces[nr++] = session->namespaces[i];
	session->nr_namespaces = nr;
	more = reallocarray(session->namespaces, nr + 1, sizeof(*more));
	if (!more)
		return error_code(-ENOMEM);
	more[nr] = ns;
	session->namespaces = more;
	session->nr_namespaces = nr + 1;
	return 0;
}

int state_add_session(struct state *state, struct session *session)
{
	int ret = tree_add(&state->sessions_by_number, session, sessions_by_number);

	if (ret == 0)
		cds_list_add_tail(&session->node,
				  session->is_ending ? &state->ending : &state->sessions);
	return ret;
}

struct session *state_session(const struct state *state, uint64_t number)
{
	struct session key = {.number = number};

	return tree_find(&state->sessions_by_number, &key, sessions_by_number);
}

void state_end_session(struct state *state, struct session *session)
{
	assert(!session->is_ending && !session->live);
	session->is_ending = true;
	cds_list_move(&session->node, &state->ending);
}

void state_remove_session(struct state *state, struct session *session)
{
	struct outcome *outcome, *next;

	assert(session->is_ending && session->nr_fences == 0 &&
	       cds_list_empty(&session->references));
	cds_list_for_each_entry_safe (outcome, next, &session->outcomes, node)
		session_remove_outcome(session, outcome);
	tdelete(session, &state->sessions_by_number, sessions_by_number);
	cds_list_del(&session->node);
	session_free(session);
}

int state_add_reference(struct session *session, struct region *region, uint64_t count,
			struct reference **out)
{
	struct reference *reference = calloc(1, sizeof(*reference));
	int ret;

	if (!reference)
		return error_code(-ENOMEM);
	reference->region = region;
	reference->session = session;
	reference->generation = region->generation;
	reference->count = count;
	ret = tree_add(&session->references_by_generation, reference, references_by_generation);
	if (ret < 0) {
		free(reference);
		return ret;
	}
	cds_list_add_tail(&reference->region_node, &region->references);
	cds_list_add_tail(&reference->session_node, &session->references);
	session->nr_references++;
	*out = reference;
	return 0;
}

struct reference *session_reference(const struct session *session, uint64_t generation)
{
	struct reference key = {.generation = generation};

	return tree_find(&session->references_by_generation, &key, references_by_generation);
}

void state_remove_reference(struct reference *reference)
{
	tdelete(reference, &reference->session->references_by_generation, references_by_generation);
	cds_list_del(&reference->region_node);
	cds_list_del(&reference->session_node);
	reference->session->nr_references--;
	free(reference);
}

int session_add_outcome(struct session *session, uint64_t request_id, enum outcome_kind kind,
			uint64_t value)
{
	struct outcome *outcome = calloc(1, sizeof(*outcome));

	if (!outcome)
		return error_code(-ENOMEM);
	outcome->request_id = request_id;
	outcome->kind = kind;
	outcome->value = value;
	cds_list_add_tail(&outcome->node, &session->outcomes);
	session->nr_outcomes++;
	return 0;
}

const struct outcome *session_outcome(const struct session *session, uint64_t request_id)
{
	struct outcome *outcome;

	cds_list_for_each_entry (outcome, &session->outcomes, node)
		if (outcome->request_id == request_id)
			return outcome;
	return NULL;
}

void session_remove_outcome(struct session *session, struct outcome *outcome)
{
	cds_list_del(&outcome->node);
	session->nr_outcomes--;
	free(outcome);
}

/* ---- All of them */

/* Without unlinking: everything goes. */
void state_free_sessions(struct cds_list_head *sessions)
{
	struct session *session, *next_session;
	struct reference *reference, *next_reference;
	struct outcome *outcome, *next;

	cds_list_for_each_entry_safe (session, next_session, sessions, node) {
		cds_list_for_each_entry_safe (reference, next_reference, &session->references,
					      session_node)
			free(reference);
		cds_list_for_each_entry_safe (outcome, next, &session->outcomes, node)
			free(outcome);
		tdestroy(session->references_by_generation, tree_keep);
		session_free(session);
	}
}
