/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients of the model of file.c work with files, and the manager answers: opening, closing, writing, truncating,
 * removing, and giving a file up.
 */
#include "file_world.h"

/* ---- The manager's tables */

/* Changes wait until all have claimed. */
static bool may_change(const struct file_world *rules, const struct file_state *state)
{
	return state->is_manager_up &&
	       (state->unreclaimed == 0 || rules->bug == FILE_BUG_CHANGES_BEFORE_CLAIMS);
}

static void give_back(const struct file_world *rules, struct file_state *state, uint8_t *unit)
{
	if (*unit != 0 && rules->bug == FILE_BUG_GIVEN_BEFORE_ZEROED)
		state->free |= bit_of(*unit - 1U);
	else if (*unit != 0)
		state->scrubs |= bit_of(*unit - 1U);
	*unit = 0;
}

/* The last name or the last hold of a file has gone. */
static void settle(const struct file_world *rules, struct file_state *state, unsigned f)
{
	struct file *file = &state->files[f];

	if (!file->is_there || file->has_name || file->holds != 0)
		return;
	/* Others may have it open, and have still to tell. */
	if (state->unreclaimed != 0 && rules->bug != FILE_BUG_UNLINKED_FREED_BEFORE_CLAIMS &&
	    rules->bug != FILE_BUG_CHANGES_BEFORE_CLAIMS)
		return;
	cut_bytes(state, file->unit, 0);
	give_back(rules, state, &file->unit);
	change_layout(state, f);
	*file = (struct file){0};
}

void drop_hold(const struct file_world *rules, struct file_state *state, unsigned f, unsigned c)
{
	struct file *file = &state->files[f];

	file->holds &= (uint8_t)~bit_of(c);
	file->recalled &= (uint8_t)~bit_of(c);
	if (file->recaller == c + 1) {
		file->recaller = 0;
		file->recalled = 0;
	}
	if (file->holds == 0)
		file->stored_size = file->size;
	settle(rules, state, f);
}

/* ---- Opening and closing */

static void open_steps(struct search *search, const struct file_world *rules,
		       const struct file_state *state, unsigned c, unsigned f)
{
	struct file_state next = *state;
	struct opened *opened = &next.clients[c].opened[f];
	struct file *file = &next.files[f];

	if (opened->handle == CLOSED && may_change(rules, state) && state->clients[c].is_joined &&
	    file->is_there && file->has_name && file->recaller == 0) {
		*opened = (struct opened){
			.handle = OPENING, .unit = file->unit, .is_present = 1, .size = file->size};
		file->holds |= bit_of(c);
		search_reach(search, "client: opens the file", STEP_FAILURE, &next);
	}
	next = *state;
	/* An answer waits for the commit of what it tells. */
	if ((opened->handle == OPENING || opened->handle == OPENING_RECALLED) &&
	    (!file->is_uncommitted || rules->bug == FILE_BUG_GROWTH_ANSWERED_EARLY)) {
		if (opened->handle == OPENING_RECALLED &&
		    rules->bug != FILE_BUG_LATE_ANSWER_BELIEVED)
			*opened = (struct opened){0};
		opened->handle = OPEN;
		search_reach(search, "client: hears that it has the file open", STEP_REPAIR, &next);
	}
}

static bool is_inside(const struct client *client, unsigned f)
{
	return client->write != WRITE_NONE && client->posted.file == f;
}

static bool is_shut(const struct client *client, unsigned f)
{
	return client->truncate != TRUNCATE_NONE && client->truncated_file == f;
}

void take_end(struct file *file, const struct opened *opened, uint8_t end, bool is_old_taken)
{
	if (end > file->size && (opened->is_present || is_old_taken))
		file->size = end;
}

/* sync_file(): the size is committed. With a close, units behind the end are given back. */
static void sync_file(const struct file_world *rules, struct file_state *state, unsigned f,
		      unsigned c)
{
	const struct opened *opened = &state->clients[c].opened[f];
	struct file *file = &state->files[f];

	take_end(file, opened, opened->end, rules->bug == FILE_BUG_OLD_END_SYNCED);
	file->stored_size = file->size;
}

static void close_steps(struct search *search, const struct file_world *rules,
			const struct file_state *state, unsigned c, unsigned f)
{
	struct file_state next = *state;
	struct client *client = &next.clients[c];
	struct opened *opened = &client->opened[f];
	struct file *file = &next.files[f];
	bool is_in_doubt = client->doubt.unit != 0 && rules->bug != FILE_BUG_CLOSE_FORGETS_DOUBT;
	bool may_ask = may_change(rules, state) && client->is_joined;

	if (opened->handle == OPEN && may_ask && !is_shut(client, f)) {
		sync_file(rules, &next, f, c);
		search_reach(search, "client: syncs the file", STEP_REPAIR, &next);
	}
	next = *state;
	if (opened->handle == OPEN && may_ask && !is_inside(client, f) && !is_shut(client, f) &&
	    !is_in_doubt) {
		sync_file(rules, &next, f, c);
		if (file->holds == bit_of(c) && file->size == 0 && file->unit != 0) {
			cut_bytes(&next, file->unit, 0);
			give_back(rules, &next, &file->unit);
			change_layout(&next, f);
			file->is_uncommitted = 0;
		}
		opened->handle = CLOSING;
		drop_hold(rules, &next, f, c);
		search_reach(search, "manager: takes a close", STEP_REPAIR, &next);
	}
	next = *state;
	if (opened->handle == CLOSING && client->is_joined && state->is_manager_up) {
		/* Told again meanwhile that it is open, the manager is asked again. */
		if (file->holds & bit_of(c))
			drop_hold(rules, &next, f, c);
		else
			*opened = (struct opened){0};
		search_reach(search, "client: hears that the file is closed", STEP_REPAIR, &next);
	}
	next = *state;
	if (c == 0 && may_change(rules, state) && file->is_there && file->has_name) {
		file->has_name = 0;
		settle(rules, &next, f);
		search_reach(search, "somebody: removes the file's name", STEP_REPAIR, &next);
	}
	next = *state;
	if (c == 0 && state->is_manager_up && file->is_there && !file->has_name &&
	    file->holds == 0 &&
	    (state->unreclaimed == 0 || rules->bug == FILE_BUG_UNLINKED_FREED_BEFORE_CLAIMS)) {
		settle(rules, &next, f);
		search_reach(search, "manager: ends a file without names", STEP_REPAIR, &next);
	}
}

/* ---- Writing */

/* A client that gave the file up waits until it is cut. Others go on, or
 * they would never give it up. */
static bool waits_for_recall(const struct file *file, unsigned c)
{
	return file->recaller != 0 && file->recaller != c + 1 && (file->recalled & bit_of(c));
}

static void grow_steps(struct search *search, const struct file_world *rules,
		       const struct file_state *state, unsigned c, unsigned f)
{
	const struct client *client = &state->clients[c];
	bool is_answered_early = rules->bug == FILE_BUG_GROWTH_ANSWERED_EARLY;

	if (client->write == WRITE_GROWS && may_change(rules, state) && client->is_joined &&
	    !waits_for_recall(&state->files[f], c)) {
		for (uint8_t unit = 1; unit <= rules->nr_units; unit++) {
			struct file_state next = *state;
			struct file *file = &next.files[f];
			struct opened *opened = &next.clients[c].opened[f];

			if (file->unit == 0 && !(next.free & bit_of(unit - 1U)))
				continue;
			if (file->unit != 0 && file->unit != unit)
				continue;
			file->is_uncommitted |= file->unit == 0;
			file->unit = unit;
			next.free &= (uint8_t)~bit_of(unit - 1U);
			*opened = (struct opened){OPEN, unit, 1, file->size, opened->end};
			/* change_layout(), of the client */
			if (!client->opened[f].is_present && opened->end > file->size)
				opened->end = file->size;
			next.clients[c].posted.unit = unit;
			next.clients[c].posted.is_old = 0;
			next.clients[c].write = WRITE_GROWN;
			search_reach(search, "manager: makes room, or says where there is",
				     STEP_REPAIR, &next);
		}
	}
	if (client->write == WRITE_GROWN &&
	    (!state->files[f].is_uncommitted || is_answered_early)) {
		struct file_state next = *state;

		next.clients[c].write = WRITE_POSTED;
		next.files[f].most = HALVES;
		search_reach(search, "client: posts a write where it has room now", STEP_REPAIR,
			     &next);
	}
}

static void land(struct file_state *state, const struct posted *posted)
{
	if (state->files[posted->file].unit != posted->unit)
		state->harm = HARM_FOREIGN;
	else if (posted->is_old)
		state->harm = HARM_LATE;
	for (unsigned half = 0; half < HALVES; half++)
		state->content[posted->unit - 1][half] = WRITTEN;
}

/* Bytes behind the end that somebody is truncating the file to are not counted on. */
static void acknowledge(struct file_state *state, unsigned c, unsigned f)
{
	struct client *client = &state->clients[c];

	state->files[f].least = HALVES;
	state->files[f].kept = (1U << HALVES) - 1;
	for (unsigned i = 0; i < CLIENTS_MAX; i++) {
		const struct client *other = &state->clients[i];

		if (is_shut(other, f) && other->truncate != TRUNCATE_DONE)
			count_on_less(&state->files[f], other->truncated_to);
	}
	client->write = WRITE_NONE;
	client->posted = (struct posted){0};
}

static void tell_steps(struct search *search, const struct file_world *rules,
		       const struct file_state *state, unsigned c, unsigned f)
{
	struct file_state next = *state;
	struct client *client = &next.clients[c];
	struct opened *opened = &client->opened[f];
	struct file *file = &next.files[f];

	switch (client->write) {
	case WRITE_LANDED:
		client->write = WRITE_TELLS;
		if (opened->size == HALVES || rules->bug == FILE_BUG_END_NOT_TOLD)
			acknowledge(&next, c, f);
		search_reach(search, "client: a write has ended", STEP_REPAIR, &next);
		break;
	case WRITE_TELLS:
		if (!state->is_manager_up || !client->is_joined)
			break;
		/* -ESTALE: it is written again. */
		client->write = client->posted.is_old ? WRITE_GROWS : WRITE_TOLD;
		if (client->write == WRITE_TOLD)
			file->size = HALVES;
		else
			client->posted.unit = client->posted.is_old = 0;
		search_reach(search, "manager: takes the end of a write", STEP_REPAIR, &next);
		break;
	case WRITE_TOLD:
		opened->end = opened->size = HALVES;
		acknowledge(&next, c, f);
		search_reach(search, "client: its write is acknowledged", STEP_REPAIR, &next);
		break;
	default:
		break;
	}
}

static void write_steps(struct search *search, const struct file_world *rules,
			const struct file_state *state, unsigned c)
{
	const struct client *client = &state->clients[c];
	struct file_state next = *state;

	for (unsigned f = 0; f < rules->nr_files && client->write == WRITE_NONE; f++) {
		const struct opened *opened = &client->opened[f];

		next = *state;
		if (opened->handle != OPEN || is_shut(client, f) || client->doubt.unit != 0)
			continue;
		next.clients[c].posted = (struct posted){(uint8_t)f, opened->unit, 0};
		next.clients[c].write = opened->unit != 0 ? WRITE_POSTED : WRITE_GROWS;
		if (opened->unit != 0)
			next.files[f].most = HALVES;
		search_reach(search, "client: writes", STEP_FAILURE, &next);
	}
	if (client->write == WRITE_NONE)
		return;
	next = *state;
	if (client->write == WRITE_POSTED) {
		land(&next, &client->posted);
		next.clients[c].write = WRITE_LANDED;
		search_reach(search, "server: carries out a write", STEP_REPAIR, &next);
	}
	grow_steps(search, rules, state, c, client->posted.file);
	tell_steps(search, rules, state, c, client->posted.file);
}

static void doubt_steps(struct search *search, const struct file_state *state, unsigned c)
{
	struct file_state next = *state;

	if (state->clients[c].doubt.unit == 0)
		return;
	land(&next, &state->clients[c].doubt);
	search_reach(search, "server: carries out a write whose connection has ended", STEP_REPAIR,
		     &next);
	next = *state;
	next.clients[c].doubt = (struct posted){0};
	if (state->clients[c].life == DEAD)
		next.clients[c].life = FENCED_OFF;
	search_reach(search, "server: closes an ended connection", STEP_REPAIR, &next);
}

/* ---- Truncating */

static bool is_given_up(const struct file *file, unsigned c)
{
	uint8_t others = file->holds & (uint8_t)~bit_of(c);

	return file->recaller == c + 1 && (others & ~file->recalled) == 0;
}

static void cut_file(const struct file_world *rules, struct file_state *state, unsigned c,
		     unsigned f)
{
	struct client *client = &state->clients[c];
	struct opened *opened = &client->opened[f];
	struct file *file = &state->files[f];

	cut_bytes(state, file->unit, client->truncated_to);
	if (client->truncated_to == 0)
		give_back(rules, state, &file->unit);
	change_layout(state, f);
	file->is_uncommitted = 0; /* commits are in order */
	file->size = file->stored_size = client->truncated_to;
	file->most = client->truncated_to;
	count_on_less(file, client->truncated_to);
	file->recaller = file->recalled = 0;
	/* The answer tells. */
	*opened = (struct opened){OPEN, file->unit, 1, file->size, opened->end};
	client->truncate = TRUNCATE_DONE;
}

static void zero_steps(struct search *search, const struct file_world *rules,
		       const struct file_state *state, unsigned c, unsigned f)
{
	struct file_state next = *state;
	struct client *client = &next.clients[c];
	struct file *file = &next.files[f];

	if (client->truncate == TRUNCATE_SHUT &&
	    (is_given_up(file, c) || rules->bug == FILE_BUG_TAIL_ZEROED_BEFORE_RECALL ||
	     rules->bug == FILE_BUG_TRUNCATE_WITHOUT_RECALL)) {
		if (file->unit != 0 && client->truncated_to != 0 &&
		    rules->bug != FILE_BUG_TAIL_NOT_ZEROED)
			next.content[file->unit - 1][1] = ZERO;
		count_on_less(file, client->truncated_to);
		client->truncate = TRUNCATE_ZEROED;
		search_reach(search, "client: zeroes the rest of the last unit", STEP_REPAIR,
			     &next);
	}
}

static void truncate_steps(struct search *search, const struct file_world *rules,
			   const struct file_state *state, unsigned c, unsigned f)
{
	struct file_state next = *state;
	struct client *client = &next.clients[c];
	struct opened *opened = &client->opened[f];
	struct file *file = &next.files[f];
	bool may_ask = may_change(rules, state) && client->is_joined;

	for (uint8_t to = 0; to < HALVES; to++) {
		next = *state;
		if (opened->handle != OPEN || client->truncate != TRUNCATE_NONE ||
		    is_inside(client, f) || client->doubt.unit != 0)
			continue;
		client->truncate = TRUNCATE_SHUT;
		client->truncated_file = (uint8_t)f;
		client->truncated_to = to;
		if (opened->end > to)
			opened->end = to;
		count_on_less(file, to);
		search_reach(search, "client: truncates", STEP_FAILURE, &next);
	}
	next = *state;
	if (!is_shut(client, f))
		return;
	if (client->truncate < TRUNCATE_DONE && may_ask && file->recaller != c + 1) {
		/* It has nothing posted: that is as good as an answer to another's recall. */
		if (file->recaller != 0)
			file->recalled |= bit_of(c);
		else
			file->recaller = (uint8_t)(c + 1);
		search_reach(search, "manager: begins a recall, or has it wait", STEP_REPAIR,
			     &next);
	}
	zero_steps(search, rules, state, c, f);
	next = *state;
	if (client->truncate == TRUNCATE_ZEROED && may_ask &&
	    (is_given_up(file, c) || rules->bug == FILE_BUG_TRUNCATE_WITHOUT_RECALL)) {
		cut_file(rules, &next, c, f);
		search_reach(search, "manager: commits a truncate", STEP_REPAIR, &next);
	}
	next = *state;
	if (client->truncate == TRUNCATE_DONE && client->is_joined && state->is_manager_up) {
		client->truncate = TRUNCATE_NONE;
		client->truncated_file = client->truncated_to = 0;
		search_reach(search, "client: hears that the file is truncated", STEP_REPAIR,
			     &next);
	}
}

static void recall_steps(struct search *search, const struct file_world *rules,
			 const struct file_state *state, unsigned c, unsigned f)
{
	struct file_state next = *state;
	struct client *client = &next.clients[c];
	struct opened *opened = &client->opened[f];
	struct file *file = &next.files[f];
	bool is_open = opened->handle == OPEN;

	if (!state->is_manager_up || !client->is_joined || file->recaller == 0 ||
	    file->recaller == c + 1 || !(file->holds & bit_of(c)) || (file->recalled & bit_of(c)))
		return;
	if (is_open && (is_shut(client, f) ||
			(is_inside(client, f) && rules->bug != FILE_BUG_RECALL_ANSWERED_EARLY) ||
			(client->doubt.unit != 0 && rules->bug != FILE_BUG_RECALL_FORGETS_DOUBT)))
		return;
	if (opened->handle == OPENING)
		opened->handle = OPENING_RECALLED;
	else if (is_open)
		opened->unit = 0;
	file->recalled |= bit_of(c);
	search_reach(search, "client: gives the file up", STEP_REPAIR, &next);
}

/* ---- All of it */

void client_steps(struct search *search, const struct file_world *rules,
		  const struct file_state *state, unsigned c)
{
	for (unsigned f = 0; f < rules->nr_files; f++) {
		if (state->clients[c].life == ALIVE)
			open_steps(search, rules, state, c, f);
		close_steps(search, rules, state, c, f);
		truncate_steps(search, rules, state, c, f);
		recall_steps(search, rules, state, c, f);
	}
	write_steps(search, rules, state, c);
	doubt_steps(search, state, c);
}
