/* SPDX-License-Identifier: BSD-3-Clause */
#include "manager/members/terms.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "manager/members/sessions.h"

#define TERM_NS	   ((uint64_t)10000000000U) /* a term's number lasts while something is committed */
#define NAME_BYTES 512U
#define EPOCH	   ((uint64_t)1 << 32) /* by this the number grows when older records are accepted */

/* ---- The manager's own */

/* The last one's number is its end. If this commit fails the manager does not start, so no note is needed. */
static void end_last(struct state *state)
{
	if (state->term.number == 0)
		return;
	if (state->nr_past_terms == STATE_TERMS_MAX)
		memmove(&state->past_terms[0], &state->past_terms[1],
			--state->nr_past_terms * sizeof(state->past_terms[0]));
	state->past_terms[state->nr_past_terms++] = state->term;
}

int terms_begin(struct core *core)
{
	struct state *state = core->state;
	const struct term begun = {state->term.number + 1, core->incarnation};
	int ret = undo_room(core->undo, 1);

	if (ret < 0)
		return ret;
	end_last(state);
	undo_set(core->undo, state->term, begun);
	store_put_cluster(core->store, state);
	if (state->nr_past_terms != 0)
		store_put_past_terms(core->store, state);
	core->terms.due_at = core_now(core) + TERM_NS;
	return 0;
}

void terms_note_change(struct core *core)
{
	struct state *state = core->state;

	if (!store_has_changes(core->store) || core_now(core) < core->terms.due_at ||
	    undo_room(core->undo, 1) < 0)
		return;
	undo_set(core->undo, state->term.number, state->term.number + 1);
	store_put_cluster(core->store, state);
	core->terms.due_at = core_now(core) + TERM_NS;
}

Afar__Term *terms_message(const struct core *core)
{
	Afar__Term *term = MESSAGE_NEW(afar__term, Afar__Term);

	if (!term)
		return NULL;
	term->number = core->state->term.number;
	term->random = core->state->term.random;
	return term;
}

/* ---- Those of servers and stores */

/* True: the manager's records come after what the other one has seen. A start that these records
 * know told it that, at no later change than they have. */
static bool is_continued(const struct state *state, const Afar__Term *told)
{
	if (told->random == state->term.random)
		return told->number <= state->term.number;
	for (uint32_t i = state->nr_past_terms; i > 0; i--)
		if (state->past_terms[i - 1].random == told->random)
			return told->number <= state->past_terms[i - 1].number;
	/* Also of a start that is so long ago that it is forgotten: an operator knows. */
	return false;
}

/* An operator has accepted older records since. Terms that were told since then have higher numbers. */
static bool is_accepted(const struct core *core, const Afar__Term *told)
{
	return told->number < core->state->accepted_below;
}

/* Those that were accepted are shown no more. */
static void forget_accepted(struct core *core)
{
	if (core->terms.nr_accepted == 0)
		return;
	for (unsigned i = 0; i < core->terms.nr_newer; i++)
		free(core->terms.newer[i]);
	core->terms.nr_newer = core->terms.nr_accepted = 0;
}

static void note_newer(struct core *core, const char *who, uint64_t number)
{
	forget_accepted(core);
	if (number > core->terms.newest)
		core->terms.newest = number;
	for (unsigned i = 0; i < core->terms.nr_newer; i++)
		if (strcmp(core->terms.newer[i], who) == 0)
			return;
	if (core->terms.nr_newer == TERMS_NEWER_MAX)
		return;
	core->terms.newer[core->terms.nr_newer] = strdup(who);
	if (!core->terms.newer[core->terms.nr_newer])
		return;
	core->terms.nr_newer++;
	log_error("the manager's records are older than what %s has seen: an older copy of the "
		  "folder "
		  "was put back. It does not join: with these records, names may lead to the bytes "
		  "of "
		  "other files. Put the newest folder back, or see 'afar manager accept-older'",
		  who);
}

int terms_check(struct core *core, const Afar__Term *told, const char *what, const char *name)
{
	char who[NAME_BYTES];

	if (!told || told->number == 0 || is_accepted(core, told) ||
	    is_continued(core->state, told))
		return 0;
	snprintf(who, sizeof(who), "%s %s", what, name);
	note_newer(core, who, told->number);
	return error_fail(
		-ESTALE,
		"join the cluster: the manager's records are older than what %s has seen: "
		"an older copy of its folder was put back; put the newest back, or have an "
		"operator look at 'afar manager accept-older'",
		who);
}

bool terms_are_older(const struct core *core, const Afar__Term *told)
{
	return told && told->number != 0 && !is_continued(core->state, told);
}

bool terms_add_status(const struct core *core, Afar__ClusterStatus *status)
{
	const unsigned first = core->terms.nr_accepted, nr = core->terms.nr_newer - first;

	status->newer = calloc(nr + 1, sizeof(*status->newer));
	if (!status->newer)
		return false;
	for (unsigned i = 0; i < nr; i++) {
		status->newer[i] = strdup(core->terms.newer[first + i]);
		if (!status->newer[i])
			return false;
		status->n_newer++;
	}
	return true;
}

/* Chunks may have changed owners since the copy was taken. Nobody else knows that, because only
 * what is in a namespace tells files and regions apart. So nothing is read through these records
 * before an operator has said so of each namespace. */
static int suspect_all(struct core *core)
{
	struct namespace *ns;
	int ret;

	cds_list_for_each_entry (ns, &core->state->namespaces, node) {
		if (ns->is_deleted || ns->nr_regions == 0 || ns->is_suspect)
			continue;
		ret = undo_room(core->undo, 1);
		if (ret < 0)
			return ret;
		undo_set(core->undo, ns->is_suspect, true);
		store_put_namespace(core->store, ns);
	}
	return 0;
}

/* Sessions of before know what is in other records, and may write where these have nothing, or something else. Later ones may have
 * opened what is suspect now. */
static int end_others(struct core *core, const struct session *caller)
{
	struct session *session, *next;
	int ret = 0;

	cds_list_for_each_entry_safe (session, next, &core->state->sessions, node)
		if (!session->is_ending && session != caller && ret == 0)
			ret = session_end_by_force(core, session,
						   "the manager's records are an older copy's");
	return ret;
}

/* Servers and stores that were told a later term, which these records do not continue, have one
 * below the new number. Those that are told one from now on have none below it, also if another
 * older copy is put back. */
static int begin_epoch(struct core *core)
{
	struct state *state = core->state;
	uint64_t number =
		state->term.number > core->terms.newest ? state->term.number : core->terms.newest;

	if (__builtin_add_overflow(number | (EPOCH - 1), 1, &number))
		return error_fail(-EOVERFLOW,
				  "accept the manager's records: somebody says that it "
				  "has seen term %llu",
				  (unsigned long long)core->terms.newest);
	undo_set(core->undo, state->term.number, number);
	undo_set(core->undo, state->accepted_below, number);
	undo_set(core->undo, core->terms.nr_accepted, core->terms.nr_newer);
	store_put_cluster(core->store, state);
	return 0;
}

int accept_records(struct core *core, struct session *session, struct event *event)
{
	int ret = undo_room(core->undo, 3);

	(void)event;
	if (core->terms.nr_newer == core->terms.nr_accepted)
		return error_fail(-EALREADY,
				  "accept the manager's records: no server or store has seen "
				  "later ones; there is nothing to accept");
	if (ret < 0)
		return ret;
	if (!cds_list_empty(&session->references))
		return error_fail(-EBUSY, "accept the manager's records: this session has regions "
					  "open that would be suspect; use one that has none");
	log_warn("'%s' accepts that the manager's records are older than what servers have seen",
		 session->principal);
	ret = begin_epoch(core);
	if (ret == 0)
		ret = suspect_all(core);
	return ret == 0 ? end_others(core, session) : ret;
}

void terms_close(struct core *core)
{
	for (unsigned i = 0; i < core->terms.nr_newer; i++)
		free(core->terms.newer[i]);
}
