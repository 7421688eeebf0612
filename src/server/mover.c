/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose turn it is. A line is among those that may have a turn while it has a move that waits and not too many in flight; who
 * has had one goes to the end. In a crowd a turn is several small moves: a line that has begun one comes to the front again when
 * it asks for more, until the turn is used up. What is needed to serve a connection stays in the caches of both ends
 * meanwhile; each time anew it would cost more than a quarter of a move of 64 KiB. How long others wait is bounded all the
 * same, by the turns of those before them. What is in flight longer than MOVE_PATIENCE_NS is a client's that has stopped, or has a bad
 * network: it is not counted any more, so that nobody waits for it. As a line has few in flight, that is soon over.
 */
#include "server/mover.h"

#include <errno.h>

int mover_locate(struct extent_pool *pool, struct reach reach,
		 const struct message_request *request, char **out)
{
	bool is_write = request->kind == MESSAGE_PULL;

	if (request->length == 0 || request->length > MESSAGE_MOVE_MAX)
		return -EINVAL;
	if (is_write && !reach.may_write)
		return -EACCES;
	return extent_pool_bytes(pool, request->extent, reach.namespace, is_write, request->offset,
				 request->length, out);
}

/* ---- Lines */

static void leave_turns(struct mover *mover, struct mover_line *line)
{
	if (!line->has_turn)
		return;
	cds_list_del(&line->node);
	line->has_turn = false;
	mover->nr_lines--;
}

/* If it may have a turn: to the end, or to the front to go on with the one that it has begun. */
static void line_up(struct mover *mover, struct mover_line *line)
{
	if (line->has_turn || cds_list_empty(&line->waiting) ||
	    line->nr_moving >= MOVES_OF_LINE_MAX)
		return;
	if (line->turn_left > 0)
		cds_list_add(&line->node, &mover->lines);
	else
		cds_list_add_tail(&line->node, &mover->lines);
	line->has_turn = true;
	mover->nr_lines++;
}

/* A move of so many bytes is begun, of a line that has its turn. */
static void use_turn(const struct mover *mover, struct mover_line *line, uint64_t length)
{
	if (mover->nr_lines <= CROWD_LINES || length > CROWD_MOVE_BYTES)
		line->turn_left = 0;
	else if (line->turn_left > 0)
		line->turn_left--;
	else
		line->turn_left = CROWD_TURN - 1;
}

static void stop_counting(struct mover *mover, struct move *move, enum move_state then)
{
	if (move->state == MOVE_COUNTED) {
		cds_list_del(&move->node);
		mover->nr_counted--;
		mover->bytes -= move->length;
	}
	move->state = then;
}

static bool has_room(const struct mover *mover, uint64_t length)
{
	return mover->nr_counted == 0 ||
	       (mover->nr_counted < MOVES_MAX && length <= MOVES_BYTES_MAX - mover->bytes);
}

static struct move *oldest(const struct mover *mover)
{
	return cds_list_first_entry(&mover->counted, struct move, node);
}

/* ---- Moves */

/* The one whose turn it is, which is in flight from now on; NULL: there is no room. There is a line. */
static struct move *next(struct mover *mover, uint64_t now)
{
	struct mover_line *line = cds_list_first_entry(&mover->lines, struct mover_line, node);
	struct move *move = cds_list_first_entry(&line->waiting, struct move, node);

	while (!has_room(mover, move->length)) {
		if (oldest(mover)->since + MOVE_PATIENCE_NS > now)
			return NULL;
		stop_counting(mover, oldest(mover), MOVE_OVERDUE);
	}
	cds_list_del(&move->node);
	cds_list_add_tail(&move->node, &mover->counted);
	move->state = MOVE_COUNTED;
	move->since = now;
	mover->nr_counted++;
	mover->bytes += move->length;
	line->nr_moving++;
	use_turn(mover, line, move->length);
	leave_turns(mover, line);
	line_up(mover, line);
	return move;
}

static int start(const struct move *move, unsigned slot)
{
	const struct fabric_piece piece = {.addr = move->addr, .length = move->length};

	return (move->is_pull ? fabric_read : fabric_write)(move->line->endpoint, &piece, 1,
							    move->remote, move->key,
							    move->line->context | slot);
}

/* Afterwards its connection may be closed. */
static void finish(struct mover *mover, struct move *move, unsigned slot, int status)
{
	struct mover_line *line = move->line;

	stop_counting(mover, move, MOVE_FREE);
	line->nr_moving--;
	line_up(mover, line);
	mover->done(line, slot, status);
}

/* ---- What progress.c calls */

void mover_init(struct mover *mover,
		void (*done)(struct mover_line *line, unsigned slot, int status))
{
	*mover = (struct mover){.done = done};
	CDS_INIT_LIST_HEAD(&mover->lines);
	CDS_INIT_LIST_HEAD(&mover->counted);
}

void mover_enter(struct mover_line *line, struct fabric_endpoint *endpoint, uint64_t context)
{
	*line = (struct mover_line){.endpoint = endpoint, .context = context};
	CDS_INIT_LIST_HEAD(&line->waiting);
}

void mover_leave(struct mover *mover, struct mover_line *line)
{
	leave_turns(mover, line);
	for (unsigned i = 0; i < MESSAGE_CREDITS; i++)
		stop_counting(mover, &line->moves[i], MOVE_FREE);
}

void mover_ask(struct mover *mover, struct mover_line *line, unsigned slot,
	       const struct message_request *request, char *addr)
{
	struct move *move = &line->moves[slot];

	*move = (struct move){
		.line = line,
		.state = MOVE_WAITING,
		.is_pull = request->kind == MESSAGE_PULL,
		.addr = addr,
		.length = request->length,
		.remote = request->address,
		.key = request->key,
	};
	cds_list_add_tail(&move->node, &line->waiting);
	line_up(mover, line);
}

void mover_begin(struct mover *mover, uint64_t now)
{
	struct move *move;

	while (!cds_list_empty(&mover->lines) && (move = next(mover, now)) != NULL) {
		unsigned slot = (unsigned)(move - move->line->moves);
		int status = start(move, slot);

		if (status != 0)
			finish(mover, move, slot, status);
	}
}

void mover_end(struct mover *mover, struct mover_line *line, unsigned slot)
{
	finish(mover, &line->moves[slot], slot, 0);
}

uint64_t mover_wakes_at(struct mover *mover)
{
	if (cds_list_empty(&mover->lines))
		return CLOCK_NEVER;
	return cds_list_empty(&mover->counted) ? 0 : oldest(mover)->since + MOVE_PATIENCE_NS;
}
