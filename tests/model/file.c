/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model, and where it is from:
 *
 *   a client               src/client/
 *     opening, closing       file_open.c, file_close() in file.c; an answer that a recall has overtaken is
 *                            not believed: inode_adopt() in fs_inode.c
 *     a write                write_once() in file_transfer.c: inside the inode's gate it makes room
 *                            (inode_extend()), posts, and tells the end before it completes (inode_tell_end())
 *     a truncate             file_resize() in file_change.c: its own gate is shut, so nothing of its own is
 *                            posted or in doubt (inode_shut()). It zeroes the rest of the unit when others have
 *                            given the file up (CUT_ASKS). Ends are lowered
 *     a recall               give_up() in fs_recall.c
 *     a close                file_close() in file.c, closings_take() in fs_closing.c
 *     claims                 fs_session_resumed() in fs_reclaim.c, of what is open, with ends and layouts
 *   the manager            src/manager/files/
 *     holds                  holds.c: hold_open(), hold_close(), epoch_exit(), hold_reclaim(),
 *                            files_session_left() when the session's servers have fenced it
 *     recalls                recalls.c: recalls_wait() before a cut, recall_wait_for() meanwhile
 *     growing, cutting       lengths.c: file_extend(), file_resize(), file_trim(); calls.c: sync_file()
 *     a file's end           table.c: file_settle(), file_destroy(), end_unlinked() after a restart
 *     what changes wait for  waits.c: change_wait(), epoch_wait()
 *     free units             pool.c: pool_take(), pool_give(), pool_give_zeroed()
 *     sweeps                 scrubs.c: scrubs_drive(), files_scrubbed()
 *   a server               src/server/memory/trim.c: orders of an earlier connection are dropped before it joins again
 *
 * A file has one unit of the pool or none. Each change is committed before it is answered, and the manager may end
 * between the two. Then it is asked again, and answers as it would have. Growing is committed in a step of its
 * own, because its answer is what lets a client write. A client has one write and one truncate under way at most.
 * A truncate waits for others as long as it takes. Everybody may remove the file's name.
 *
 * Sizes are as users may count on them: a write that was acknowledged counts until somebody truncates. If the manager
 * ends, and a client with ends that only it could claim has died before they were stored, they count no more.
 */
#include "file.h"

#include "file_world.h"

/* ---- Zeroing what is given back */

static void scrub_steps(struct search *search, const struct file_world *rules,
			const struct file_state *state)
{
	struct file_state next = *state;
	bool is_swept = state->told != 0 && rules->bug != FILE_BUG_SWEEPS_OVERLAP;

	if (state->is_manager_up && state->is_server_joined && !is_swept && state->scrubs != 0) {
		/* Those of the sweep before are nobody's any more. */
		next.late |= state->orders;
		next.told = next.orders = state->scrubs;
		search_reach(search, "manager: begins a sweep", STEP_REPAIR, &next);
	}
	for (unsigned unit = 0; unit < rules->nr_units; unit++) {
		uint8_t bit = bit_of(unit);

		next = *state;
		if (!((state->orders | state->late) & bit))
			continue;
		next.content[unit][0] = next.content[unit][1] = ZERO;
		next.orders &= (uint8_t)~bit;
		if (!(state->orders & bit))
			next.late &= (uint8_t)~bit;
		search_reach(search, "server: zeroes a unit", STEP_REPAIR, &next);
	}
	next = *state;
	if (state->is_manager_up && state->is_server_joined && state->told != 0 &&
	    state->orders == 0) {
		next.free |= state->told;
		next.scrubs &= (uint8_t)~state->told;
		next.told = 0;
		search_reach(search, "manager: hears that a sweep is done", STEP_REPAIR, &next);
	}
	next = *state;
	if (state->is_manager_up && !state->is_server_joined) {
		if (rules->bug != FILE_BUG_LATE_ORDERS_KEPT)
			next.late = 0;
		next.is_server_joined = 1;
		search_reach(search, "server: joins", STEP_REPAIR, &next);
	}
}

/* ---- What fails, and comes back */

static bool may_fail(const struct file_world *rules, struct file_state *next)
{
	if (rules->nr_failures == FILE_ENDLESS)
		return true;
	if (next->nr_failures_left == 0)
		return false;
	next->nr_failures_left--;
	return true;
}

/* The server goes on with what it has taken. The sweep ends, because its calls do. */
static void lose_server(struct file_state *state)
{
	state->late |= state->orders;
	state->orders = state->told = 0;
	state->is_server_joined = 0;
}

static void forget_file(struct file_state *state, struct file *file)
{
	if (file->is_uncommitted) {
		state->free |= bit_of(file->unit - 1U);
		file->unit = file->is_uncommitted = 0;
	}
	file->size = file->stored_size;
	file->holds = file->recaller = file->recalled = 0;
}

/* The client asks again for what it has asked for. */
static void lose_manager(const struct file_world *rules, struct file_state *state, unsigned c)
{
	struct client *client = &state->clients[c];

	client->is_joined = 0;
	if (client->life != GONE)
		state->unreclaimed |= bit_of(c);
	if (client->write == WRITE_GROWN && state->files[client->posted.file].unit == 0)
		client->write = WRITE_GROWS;
	if (client->write == WRITE_GROWS)
		client->opened[client->posted.file].unit = 0;
	if (client->write == WRITE_TOLD)
		client->write = WRITE_TELLS;
	if (client->truncate == TRUNCATE_ZEROED && rules->bug != FILE_BUG_TAIL_ZEROED_BEFORE_RECALL)
		client->truncate = TRUNCATE_SHUT;
	for (unsigned f = 0; f < rules->nr_files; f++)
		if (client->opened[f].handle == OPENING ||
		    client->opened[f].handle == OPENING_RECALLED)
			client->opened[f] = (struct opened){0};
}

static bool is_anybody_unfenced(const struct file_world *rules, const struct file_state *state)
{
	for (unsigned c = 0; c < rules->nr_clients; c++)
		if (state->clients[c].life == DEAD || state->clients[c].life == FENCED_OFF)
			return true;
	return false;
}

static void manager_steps(struct search *search, const struct file_world *rules,
			  const struct file_state *state)
{
	struct file_state next = *state;

	for (unsigned f = 0; f < rules->nr_files; f++) {
		next = *state;
		if (!state->files[f].is_uncommitted)
			continue;
		next.files[f].is_uncommitted = 0;
		search_reach(search, "manager: commits that a file has a unit", STEP_REPAIR, &next);
	}
	next = *state;
	if (!state->is_manager_up) {
		next.is_manager_up = 1;
		search_reach(search, "manager: starts again", STEP_REPAIR, &next);
	} else if (may_fail(rules, &next)) {
		next.is_manager_up = 0;
		if (rules->bug == FILE_BUG_SCRUB_NOT_STORED)
			next.scrubs = 0;
		for (unsigned f = 0; f < rules->nr_files; f++)
			forget_file(&next, &next.files[f]);
		for (unsigned c = 0; c < rules->nr_clients; c++)
			lose_manager(rules, &next, c);
		lose_server(&next);
		if (is_anybody_unfenced(rules, state))
			count_on_claims(rules, &next);
		search_reach(search, "manager: is killed", STEP_FAILURE, &next);
	}
	next = *state;
	if (state->is_server_joined && may_fail(rules, &next)) {
		lose_server(&next);
		search_reach(search, "manager and server: the connection is lost", STEP_FAILURE,
			     &next);
	}
}

/* The size that it knows was the file's, whoever told of that: its own writes may rely on it. */
static uint8_t claimed_end(const struct file_world *rules, const struct opened *opened)
{
	return opened->size > opened->end && rules->bug != FILE_BUG_OTHERS_END_NOT_CLAIMED
		       ? opened->size
		       : opened->end;
}

static void claim(const struct file_world *rules, struct file_state *state, unsigned c)
{
	struct client *client = &state->clients[c];

	for (unsigned f = 0; f < rules->nr_files; f++) {
		if (client->opened[f].handle == CLOSED || !state->files[f].is_there)
			continue;
		state->files[f].holds |= bit_of(c);
		if (rules->bug != FILE_BUG_END_NOT_CLAIMED)
			take_end(&state->files[f], &client->opened[f],
				 claimed_end(rules, &client->opened[f]),
				 rules->bug == FILE_BUG_OLD_END_CLAIMED);
	}
	state->unreclaimed &= (uint8_t)~bit_of(c);
	client->is_joined = 1;
}

static void kill_client(const struct file_world *rules, struct file_state *state, unsigned c)
{
	struct client *client = &state->clients[c];
	struct client dead = {.life = DEAD, .doubt = client->doubt};

	if (client->write == WRITE_POSTED)
		dead.doubt = client->posted;
	if (dead.doubt.unit == 0)
		dead.life = FENCED_OFF;
	*client = dead;
	if (state->unreclaimed & bit_of(c))
		count_on_claims(rules, state);
}

static void client_failures(struct search *search, const struct file_world *rules,
			    const struct file_state *state, unsigned c)
{
	const struct client *client = &state->clients[c];
	struct file_state next = *state;

	if (client->life == ALIVE && may_fail(rules, &next)) {
		kill_client(rules, &next, c);
		search_reach(search, "client: is killed", STEP_FAILURE, &next);
	}
	next = *state;
	if (client->write == WRITE_POSTED && may_fail(rules, &next)) {
		next.clients[c].doubt = client->posted;
		next.clients[c].posted = (struct posted){0};
		next.clients[c].write = WRITE_NONE;
		search_reach(search, "client and server: the connection is lost", STEP_FAILURE,
			     &next);
	}
	next = *state;
	if (client->life == ALIVE && !client->is_joined && state->is_manager_up) {
		claim(rules, &next, c);
		search_reach(search, "client: claims what it has open", STEP_REPAIR, &next);
	}
	next = *state;
	if (state->is_manager_up &&
	    (client->life == FENCED_OFF ||
	     (client->life == DEAD && rules->bug == FILE_BUG_FREED_BEFORE_FENCE))) {
		next.clients[c].life = GONE;
		next.unreclaimed &= (uint8_t)~bit_of(c);
		for (unsigned f = 0; f < rules->nr_files; f++) {
			struct file *file = &next.files[f];

			if ((file->holds & bit_of(c)) &&
			    rules->bug != FILE_BUG_DEAD_WRITERS_END_NOT_STORED)
				file->stored_size = file->size;
			drop_hold(rules, &next, f, c);
		}
		search_reach(search, "manager: forgets a client that is fenced", STEP_REPAIR,
			     &next);
	}
}

/* ---- All of it */

static void take_steps(struct search *search, const void *context, const void *world)
{
	const struct file_world *rules = context;
	const struct file_state *state = world;

	for (unsigned c = 0; c < rules->nr_clients; c++) {
		client_steps(search, rules, state, c);
		client_failures(search, rules, state, c);
	}
	scrub_steps(search, rules, state);
	manager_steps(search, rules, state);
}

struct search_result file_search(const struct file_world *rules, bool is_shown)
{
	struct file_state first = {
		.nr_failures_left = (uint8_t)rules->nr_failures,
		.is_manager_up = 1,
		.free = (uint8_t)((1U << rules->nr_units) - 1),
		.is_server_joined = 1,
	};
	const struct model model = {
		.state_bytes = sizeof(first),
		.first = &first,
		.context = rules,
		.steps = take_steps,
		.wrong = file_world_wrong,
		.is_well = file_world_is_well,
	};

	for (unsigned f = 0; f < rules->nr_files; f++)
		first.files[f] = (struct file){.is_there = 1, .has_name = 1};
	for (unsigned c = 0; c < rules->nr_clients; c++)
		first.clients[c].is_joined = 1;
	return search_run(&model, is_shown);
}

/* ---- Names */

const char *file_bug_name(enum file_bug bug)
{
	static const char *const names[] = {"none",
#define FILE_BUG_NAME(name, sentence) #name,
					    FILE_BUGS(FILE_BUG_NAME)
#undef FILE_BUG_NAME
	};

	return names[bug];
}

const char *file_bug_sentence(enum file_bug bug)
{
	static const char *const sentences[] = {"nothing",
#define FILE_BUG_SENTENCE(name, sentence) sentence,
						FILE_BUGS(FILE_BUG_SENTENCE)
#undef FILE_BUG_SENTENCE
	};

	return sentences[bug];
}
