/* SPDX-License-Identifier: BSD-3-Clause */
#include "manager/terms.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define TERM_NS	   ((uint64_t)10000000000U) /* a term's number lasts while something is committed */
#define NAME_BYTES 512U

/* ---- The manager's own */

int terms_begin(struct core *core)
{
	struct state *state = core->state;
	int ret = undo_room(core->undo, 2);

	if (ret < 0)
		return ret;
	undo_set(core->undo, state->last_term, state->term);
	undo_set(core->undo, state->term,
		 ((struct term){state->term.number + 1, core->incarnation}));
	store_put_cluster(core->store, state);
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

/* Whether the manager's records come after what the other one has seen. */
static bool is_continued(const struct state *state, const Afar__Term *told)
{
	const struct term *last = &state->last_term;

	if (told->random == state->term.random)
		return told->number <= state->term.number;
	if (told->random == last->random)
		return told->number <= last->number;
	return told->number < last->number;
}

static void note_newer(struct core *core, const Afar__Term *told, const char *who)
{
	if (told->number > core->terms.newest)
		core->terms.newest = told->number;
	for (unsigned i = 0; i < core->terms.nr_newer; i++)
		if (strcmp(core->terms.newer[i], who) == 0)
			return;
	if (core->terms.nr_newer == TERMS_NEWER_MAX)
		return;
	core->terms.newer[core->terms.nr_newer] = strdup(who);
	if (!core->terms.newer[core->terms.nr_newer])
		return;
	core->terms.nr_newer++;
	log_error("the manager's records are older than what %s has seen (term %llu; here it was "
		  "%llu): "
		  "an older copy of the folder was put back. It does not join: with these records, "
		  "names may lead to the bytes of other files. Put the newest folder back, or see "
		  "'afar manager accept-older'",
		  who, (unsigned long long)told->number,
		  (unsigned long long)core->state->last_term.number);
}

int terms_check(struct core *core, const Afar__Term *told, const char *what, const char *name)
{
	char who[NAME_BYTES];

	if (!told || told->number == 0 || core->terms.is_older_accepted ||
	    is_continued(core->state, told))
		return 0;
	snprintf(who, sizeof(who), "%s %s", what, name);
	note_newer(core, told, who);
	return error_fail(
		-ESTALE,
		"join the cluster: the manager's records are older than what %s has seen: "
		"an older copy of its folder was put back; put the newest back, or have an "
		"operator look at 'afar manager accept-older'",
		who);
}

bool terms_add_status(const struct core *core, Afar__ClusterStatus *status)
{
	status->newer = calloc(core->terms.nr_newer + 1, sizeof(*status->newer));
	if (!status->newer)
		return false;
	for (unsigned i = 0; i < core->terms.nr_newer; i++) {
		status->newer[i] = strdup(core->terms.newer[i]);
		if (!status->newer[i])
			return false;
		status->n_newer++;
	}
	return true;
}

static void forget_newer(void *argument)
{
	struct core *core = argument;

	for (unsigned i = 0; i < core->terms.nr_newer; i++)
		free(core->terms.newer[i]);
	core->terms.nr_newer = 0;
}

int accept_records(struct core *core, struct session *session, struct event *event)
{
	struct state *state = core->state;
	int ret = undo_room(core->undo, 2);

	(void)event;
	if (core->terms.nr_newer == 0)
		return error_fail(-EALREADY,
				  "accept the manager's records: no server or store has seen "
				  "later ones; there is nothing to accept");
	if (ret < 0)
		return ret;
	log_warn("'%s' accepts that the manager's records are older than what servers have seen",
		 session->principal);
	if (core->terms.newest >= state->term.number) {
		undo_set(core->undo, state->term.number, core->terms.newest + 1);
		store_put_cluster(core->store, state);
	}
	undo_set(core->undo, core->terms.is_older_accepted, true);
	forget_newer(core);
	return 0;
}

void terms_close(struct core *core)
{
	forget_newer(core);
}
