/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The search: states in one array in the order they were found, and a hash table of their places. The
 * steps of repair between them are followed backwards from all states where everything is well.
 */
#include "search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY UINT32_MAX

struct origin {
	uint32_t parent;
	const char *step;
};

struct edge {
	uint32_t from;
	uint32_t next; /* of those to the same state; NOBODY: none */
};

struct search {
	const struct model *model;
	uint8_t *states;
	struct origin *origins;
	uint32_t *last_edge; /* per state, of the repairs that lead to it */
	size_t nr_states, room;
	struct edge *edges;
	size_t nr_edges, edge_room;
	uint32_t *slots; /* a power of two of them, at least half empty */
	size_t nr_slots;
	uint32_t current;
};

static void *grown(void *memory, size_t count, size_t size)
{
	void *more = reallocarray(memory, count, size);

	if (!more) {
		fprintf(stderr, "model: no memory for %zu states or steps\n", count);
		exit(1);
	}
	return more;
}

static const uint8_t *state_at(const struct search *search, size_t i)
{
	return search->states + i * search->model->state_bytes;
}

static uint64_t hash(const uint8_t *bytes, size_t length)
{
	uint64_t sum = 0x9e3779b97f4a7c15, word;

	for (; length >= sizeof(word); bytes += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		sum = (sum ^ word) * 0xff51afd7ed558ccd;
		sum ^= sum >> 32;
	}
	for (; length > 0; bytes++, length--)
		sum = (sum ^ *bytes) * 0xff51afd7ed558ccd;
	return sum ^ (sum >> 29);
}

/* The slot with an equal state, or the empty one where it belongs. */
static uint32_t *find_slot(const struct search *search, const uint8_t *state)
{
	size_t bytes = search->model->state_bytes;
	size_t i = hash(state, bytes) & (search->nr_slots - 1);

	while (search->slots[i] != NOBODY &&
	       memcmp(state_at(search, search->slots[i]), state, bytes) != 0)
		i = (i + 1) & (search->nr_slots - 1);
	return &search->slots[i];
}

static void widen(struct search *search)
{
	search->nr_slots = search->nr_slots ? 2 * search->nr_slots : 1 << 14;
	search->slots = grown(search->slots, search->nr_slots, sizeof(*search->slots));
	memset(search->slots, 0xff, search->nr_slots * sizeof(*search->slots));
	for (size_t i = 0; i < search->nr_states; i++)
		*find_slot(search, state_at(search, i)) = (uint32_t)i;
}

/* The number of a state that may be new. */
static uint32_t enter(struct search *search, const uint8_t *state, const char *step)
{
	uint32_t *slot;

	if (2 * search->nr_states >= search->nr_slots)
		widen(search);
	slot = find_slot(search, state);
	if (*slot != NOBODY)
		return *slot;
	if (search->nr_states == search->room) {
		search->room = search->room ? 2 * search->room : 1 << 12;
		search->states = grown(search->states, search->room, search->model->state_bytes);
		search->origins = grown(search->origins, search->room, sizeof(*search->origins));
		search->last_edge =
			grown(search->last_edge, search->room, sizeof(*search->last_edge));
	}
	*slot = (uint32_t)search->nr_states++;
	memcpy(search->states + *slot * search->model->state_bytes, state,
	       search->model->state_bytes);
	search->origins[*slot] = (struct origin){search->current, step};
	search->last_edge[*slot] = NOBODY;
	return *slot;
}

void search_reach(struct search *search, const char *step, enum step_kind kind, const void *state)
{
	uint32_t to = enter(search, state, step);

	if (kind != STEP_REPAIR)
		return;
	if (search->nr_edges == search->edge_room) {
		search->edge_room = search->edge_room ? 2 * search->edge_room : 1 << 14;
		search->edges = grown(search->edges, search->edge_room, sizeof(*search->edges));
	}
	search->edges[search->nr_edges] = (struct edge){search->current, search->last_edge[to]};
	search->last_edge[to] = (uint32_t)search->nr_edges++;
}

/* A state from which no repairs lead to where all is well; NOBODY: there is none. */
static uint32_t find_stuck(const struct search *search)
{
	uint32_t *queue = grown(NULL, search->nr_states + 1, sizeof(*queue));
	bool *is_fine = grown(NULL, search->nr_states + 1, sizeof(*is_fine));
	size_t head = 0, tail = 0;
	uint32_t stuck = NOBODY;

	for (uint32_t i = 0; i < search->nr_states; i++) {
		is_fine[i] = search->model->is_well(search->model->context, state_at(search, i));
		if (is_fine[i])
			queue[tail++] = i;
	}
	while (head < tail) {
		uint32_t edge = search->last_edge[queue[head++]];

		for (; edge != NOBODY; edge = search->edges[edge].next) {
			if (is_fine[search->edges[edge].from])
				continue;
			is_fine[search->edges[edge].from] = true;
			queue[tail++] = search->edges[edge].from;
		}
	}
	for (uint32_t i = 0; i < search->nr_states && stuck == NOBODY; i++)
		stuck = is_fine[i] ? NOBODY : i;
	free(queue);
	free(is_fine);
	return stuck;
}

static size_t show_way(const struct search *search, uint32_t to, bool is_shown)
{
	size_t nr_steps = 0;

	if (search->origins[to].parent != NOBODY)
		nr_steps = show_way(search, search->origins[to].parent, is_shown) + 1;
	if (is_shown && nr_steps > 0)
		printf("  %2zu. %s\n", nr_steps, search->origins[to].step);
	return nr_steps;
}

struct search_result search_run(const struct model *model, bool is_shown)
{
	struct search search = {.model = model, .current = NOBODY};
	struct search_result result = {0};
	uint8_t *state = grown(NULL, 1, model->state_bytes);
	uint32_t place = NOBODY;

	enter(&search, model->first, NULL);
	/* A copy: entering states may move the array. */
	for (uint32_t i = 0; i < search.nr_states && !result.wrong; i++) {
		memcpy(state, state_at(&search, i), model->state_bytes);
		result.wrong = model->wrong(model->context, state);
		place = i;
		search.current = i;
		if (!result.wrong)
			model->steps(&search, model->context, state);
	}
	if (!result.wrong) {
		place = find_stuck(&search);
		if (place != NOBODY)
			result.wrong = "nothing fails any more, and yet the memory never becomes "
				       "free";
	}
	if (result.wrong)
		result.nr_steps = show_way(&search, place, is_shown);
	result.nr_states = search.nr_states;
	free(state);
	free(search.states);
	free(search.origins);
	free(search.last_edge);
	free(search.edges);
	free(search.slots);
	return result;
}
