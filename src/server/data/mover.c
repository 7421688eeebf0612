/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns. A line may have a turn while a move of it waits and it has not too many in flight. After
 * its turn it goes to the end.
 *
 * In a crowd a turn is several small moves. A line that has begun one comes to the front again when
 * it asks for more, until its turn is used up. Both ends then keep in their caches what they need
 * to serve the connection. To load it for each move costs more than a quarter of a move of 64 KiB.
 * The waits of others stay bounded, by the turns before them.
 *
 * A move in flight for longer than MOVE_PATIENCE_NS belongs to a client that has stopped, or has a
 * bad network. The mover stops counting it, so that nobody waits for it. Such waits are soon over,
 * because a line has few moves in flight.
 */
#include "server/data/mover.h"

#include <errno.h>
#include <string.h>

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

/* Puts the line in the mover's list if it may have a turn. It goes to the end, or to the front to
 * continue a turn that it has begun. */
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

/* Counts a move of `length` bytes, which begins now, against its line's turn. */
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

static bool make_room(struct mover *mover, uint64_t length, uint64_t now)
{
	while (!has_room(mover, length)) {
		if (oldest(mover)->since + MOVE_PATIENCE_NS > now)
			return false;
		stop_counting(mover, oldest(mover), MOVE_OVERDUE);
	}
	return true;
}

/* Returns the next move in turn. With a stage, takes its buffer, and skips clients that can have
 * none. */
static struct move *next_ready(struct mover *mover)
{
	struct mover_line *line;

	cds_list_for_each_entry (line, &mover->lines, node) {
		struct move *move = cds_list_first_entry(&line->waiting, struct move, node);

		if (!stage_is_open(&mover->stage))
			return move;
		if (!has_room(mover, move->length))
			return NULL;
		move->buffer = stage_take(&mover->stage, line->guest, move->length - move->done);
		if (move->buffer)
			return move;
	}
	mover->is_short = true;
	return NULL;
}

/* Takes the next move in turn; it counts as in flight from now on. NULL: there is no room. At least
 * one line must be in the list. */
static struct move *next(struct mover *mover, uint64_t now)
{
	struct mover_line *line = cds_list_first_entry(&mover->lines, struct mover_line, node);
	struct move *move = cds_list_first_entry(&line->waiting, struct move, node);

	if (!make_room(mover, move->length, now))
		return NULL;
	move = next_ready(mover);
	if (!move)
		return NULL;
	line = move->line;
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

/* ---- The stage */

/* Returns how many bytes go in the next transfer. */
static uint64_t part_of(const struct move *move)
{
	uint64_t left = move->length - move->done;

	return move->buffer && move->buffer->length < left ? move->buffer->length : left;
}

static void give_buffer(struct mover *mover, struct move *move)
{
	if (!move->buffer)
		return;
	stage_give(&mover->stage, move->buffer);
	move->buffer = NULL;
	mover->is_short = false;
}

/* A transfer of the move has ended. True: bytes are left, and come before the line's other
 * moves. */
static bool go_on(struct mover *mover, struct move *move)
{
	struct mover_line *line = move->line;
	uint64_t part = part_of(move);

	if (!move->buffer)
		return false;
	if (move->is_pull)
		memcpy(move->addr + move->done, move->buffer->addr, part);
	give_buffer(mover, move);
	move->done += part;
	if (move->done == move->length)
		return false;
	stop_counting(mover, move, MOVE_WAITING);
	line->nr_moving--;
	cds_list_add(&move->node, &line->waiting);
	line_up(mover, line);
	return true;
}

static int start(const struct move *move, unsigned slot)
{
	const struct fabric_piece piece = {.addr = move->buffer ? move->buffer->addr : move->addr,
					   .length = part_of(move)};

	if (move->buffer && !move->is_pull)
		memcpy(move->buffer->addr, move->addr + move->done, piece.length);
	return (move->is_pull ? fabric_read : fabric_write)(move->line->endpoint, &piece, 1,
							    move->remote + move->done, move->key,
							    move->line->context | slot);
}

/* Its connection may be closed when this returns. */
static void finish(struct mover *mover, struct move *move, unsigned slot, int status)
{
	struct mover_line *line = move->line;

	give_buffer(mover, move);
	stop_counting(mover, move, MOVE_FREE);
	line->nr_moving--;
	line_up(mover, line);
	mover->done(line, slot, status);
}

/* ---- What progress.c calls */

int mover_open(struct mover *mover, uint64_t stage_bytes,
	       void (*done)(struct mover_line *line, unsigned slot, int status))
{
	*mover = (struct mover){.done = done};
	CDS_INIT_LIST_HEAD(&mover->lines);
	CDS_INIT_LIST_HEAD(&mover->counted);
	return stage_bytes > 0 ? stage_open(&mover->stage, stage_bytes) : 0;
}

void mover_close(struct mover *mover)
{
	stage_close(&mover->stage);
}

void mover_enter(struct mover_line *line, struct fabric_endpoint *endpoint, uint64_t context)
{
	*line = (struct mover_line){.endpoint = endpoint, .context = context};
	CDS_INIT_LIST_HEAD(&line->waiting);
}

int mover_join(struct mover *mover, struct mover_line *line, uint64_t session)
{
	return stage_is_open(&mover->stage) ? stage_enter(&mover->stage, session, &line->guest) : 0;
}

void mover_leave(struct mover *mover, struct mover_line *line)
{
	leave_turns(mover, line);
	for (unsigned i = 0; i < MESSAGE_CREDITS; i++) {
		give_buffer(mover, &line->moves[i]);
		stop_counting(mover, &line->moves[i], MOVE_FREE);
	}
	if (line->guest)
		stage_leave(line->guest);
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
	mover->is_short = false; /* this client may get a buffer */
}

void mover_begin(struct mover *mover, uint64_t now)
{
	struct move *move;

	while (!cds_list_empty(&mover->lines) && !mover->is_short && (move = next(mover, now))) {
		unsigned slot = (unsigned)(move - move->line->moves);
		int ret = start(move, slot);

		if (ret != 0)
			finish(mover, move, slot, ret);
	}
}

void mover_end(struct mover *mover, struct mover_line *line, unsigned slot)
{
	if (!go_on(mover, &line->moves[slot]))
		finish(mover, &line->moves[slot], slot, 0);
}

uint64_t mover_wakes_at(struct mover *mover)
{
	if (cds_list_empty(&mover->lines) || mover->is_short)
		return CLOCK_NEVER;
	return cds_list_empty(&mover->counted) ? 0 : oldest(mover)->since + MOVE_PATIENCE_NS;
}
