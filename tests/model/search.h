/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exhaustive search of a model: breadth first through every state that steps can reach, each looked at once.
 * Two questions are asked. Is there a state that must not be? And is there one from which no way leads to
 * where everything is well again, though nothing fails any more?
 */
#ifndef TESTS_MODEL_SEARCH_H
#define TESTS_MODEL_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct search;

struct model {
	size_t state_bytes; /* states are equal when all of these are: no padding */
	const void *first;
	const void *context;
	/* Calls search_reach() for every state that one step leads to. */
	void (*steps)(struct search *search, const void *context, const void *state);
	/* Returns why the state must not be, or NULL. */
	const char *(*wrong)(const void *context, const void *state);
	/* Returns whether everything is well. */
	bool (*is_well)(const void *context, const void *state);
};

enum step_kind {
	STEP_FAILURE, /* something dies or is lost, or somebody wants something new */
	STEP_REPAIR,  /* also happens when nothing fails any more                  */
};

struct search_result {
	const char *wrong; /* NULL: neither question was answered with yes */
	size_t nr_states;
	size_t nr_steps; /* in the shortest way to `wrong` */
};

/* From within `steps`: one more state, by the step of this name (static text). */
void search_reach(struct search *search, const char *step, enum step_kind kind, const void *state);

/* Searches; the way to what is wrong goes to stdout when `is_shown`. Ends the process without memory. */
struct search_result search_run(const struct model *model, bool is_shown);

#endif
