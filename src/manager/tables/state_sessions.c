/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of sessions, of what they have open, and of what their requests did. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manager/tables/state_private.h"

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

/* The list is made anew, and no longer than there are namespaces: numbers are not used again. */
int state_use_namespace(struct state *state, struct session *session, uint64_t ns)
{
	struct undo *undo = state->undo;
	uint64_t *used;
	size_t nr = 0;
	int ret;

	if (session_has_used(session, ns))
		return 0;
	ret = undo_room(undo, 4);
	if (ret < 0)
		return ret;
	used = calloc(session->nr_namespaces + 1, sizeof(*used));
	if (!used)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < session->nr_namespaces; i++)
		if (state_namespace(state, session->namespaces[i]))
			used[nr++] = session->namespaces[i];
	used[nr++] = ns;
	undo_made(undo, used, free);
	undo_gone(undo, session->namespaces, free);
	undo_set(undo, session->namespaces, used);
	undo_set(undo, session->nr_namespaces, nr);
	return 0;
}

static void destroy_session(void *row)
{
	session_free(row);
}

int state_add_session(struct state *state, struct session *session)
{
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 3);

	if (ret < 0) {
		session_free(session);
		return ret;
	}
	undo_made(undo, session, destroy_session);
	ret = undo_tree_add(undo, &state->sessions_by_number, session, sessions_by_number);
	if (ret < 0)
		return ret;
	undo_link(undo, &session->node, session->is_ending ? &state->ending : &state->sessions);
	return 0;
}

struct session *state_session(const struct state *state, uint64_t number)
{
	struct session key = {.number = number};

	return tree_find(&state->sessions_by_number, &key, sessions_by_number);
}

int state_end_session(struct state *state, struct session *session, struct fence *fences,
		      size_t nr_fences)
{
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 8);

	assert(!session->is_ending && !session->live);
	if (ret < 0) {
		free(fences);
		return ret;
	}
	undo_made(undo, fences, free);
	undo_gone(undo, session->fences, free); /* one that was loaded has an empty array */
	undo_set(undo, session->fences, fences);
	undo_set(undo, session->nr_fences, nr_fences);
	undo_set(undo, session->nr_awaited, nr_fences);
	undo_set(undo, session->is_ending, true);
	undo_unlink(undo, &session->node);
	undo_link(undo, &session->node, &state->ending);
	return 0;
}

int state_end_fence(struct state *state, struct session *session, struct fence *fence)
{
	int ret = undo_room(state->undo, 2);

	assert(!fence->is_over);
	if (ret < 0)
		return ret;
	undo_set(state->undo, fence->is_over, true);
	undo_set(state->undo, session->nr_awaited, session->nr_awaited - 1);
	return 0;
}

int state_remove_session(struct state *state, struct session *session)
{
	struct outcome *outcome, *next;
	struct undo *undo = state->undo;
	int ret = 0;

	assert(session->is_ending && session->nr_awaited == 0 &&
	       cds_list_empty(&session->references));
	cds_list_for_each_entry_safe (outcome, next, &session->outcomes, node)
		if (ret == 0)
			ret = state_remove_outcome(state, session, outcome);
	if (ret == 0)
		ret = undo_room(undo, 3);
	if (ret < 0)
		return ret;
	undo_tree_remove(undo, &state->sessions_by_number, session, sessions_by_number);
	undo_unlink(undo, &session->node);
	undo_gone(undo, session, destroy_session);
	return 0;
}

int state_add_reference(struct state *state, struct session *session, struct region *region,
			uint64_t count, struct reference **out)
{
	struct undo *undo = state->undo;
	struct reference *reference;
	int ret = undo_room(undo, 5);

	if (ret < 0)
		return ret;
	reference = calloc(1, sizeof(*reference));
	if (!reference)
		return error_code(-ENOMEM);
	reference->region = region;
	reference->session = session;
	reference->generation = region->generation;
	reference->count = count;
	undo_made(undo, reference, free);
	ret = undo_tree_add(undo, &session->references_by_generation, reference,
			    references_by_generation);
	if (ret < 0)
		return ret;
	undo_link(undo, &reference->region_node, &region->references);
	undo_link(undo, &reference->session_node, &session->references);
	undo_set(undo, session->nr_references, session->nr_references + 1);
	*out = reference;
	return 0;
}

struct reference *session_reference(const struct session *session, uint64_t generation)
{
	struct reference key = {.generation = generation};

	return tree_find(&session->references_by_generation, &key, references_by_generation);
}

int state_remove_reference(struct state *state, struct reference *reference)
{
	struct session *session = reference->session;
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 5);

	if (ret < 0)
		return ret;
	undo_tree_remove(undo, &session->references_by_generation, reference,
			 references_by_generation);
	undo_unlink(undo, &reference->region_node);
	undo_unlink(undo, &reference->session_node);
	undo_set(undo, session->nr_references, session->nr_references - 1);
	undo_gone(undo, reference, free);
	return 0;
}

int state_add_outcome(struct state *state, struct session *session, uint64_t request_id,
		      enum outcome_kind kind, uint64_t value)
{
	struct undo *undo = state->undo;
	struct outcome *outcome;
	int ret = undo_room(undo, 3);

	if (ret < 0)
		return ret;
	outcome = calloc(1, sizeof(*outcome));
	if (!outcome)
		return error_code(-ENOMEM);
	outcome->request_id = request_id;
	outcome->kind = kind;
	outcome->value = value;
	undo_made(undo, outcome, free);
	undo_link(undo, &outcome->node, &session->outcomes);
	undo_set(undo, session->nr_outcomes, session->nr_outcomes + 1);
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

int state_remove_outcome(struct state *state, struct session *session, struct outcome *outcome)
{
	int ret = undo_room(state->undo, 3);

	if (ret < 0)
		return ret;
	undo_unlink(state->undo, &outcome->node);
	undo_set(state->undo, session->nr_outcomes, session->nr_outcomes - 1);
	undo_gone(state->undo, outcome, free);
	return 0;
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
		tree_close(&session->references_by_generation);
		session_free(session);
	}
}
