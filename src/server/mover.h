/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves: bytes that clients ask the server to move between their memory and extents, which it does at its own pace
 * (DESIGN: "transfers", direct). A mover is a progress thread's, and says whose turn it is: each connection has a line of
 * moves that wait, and the lines take turns. So many at a time are in flight; what is asked for beyond that costs nothing but
 * its place in line, of which a connection has as many as it has credits. Nothing is allocated for a move.
 */
#ifndef SERVER_MOVER_H
#define SERVER_MOVER_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "base/clock.h"
#include "fabric/fabric.h"
#include "rpc/message.h"
#include "server/extent.h"
#include "server/stage.h"

#define MOVES_MAX	  16U /* in flight of a mover, and                          */
#define MOVES_BYTES_MAX	  (UINT64_C(4) << 20) /* bytes; one move is begun whatever it has           */
#define MOVES_OF_LINE_MAX 2U   /* in flight of one connection                        */
#define CROWD_LINES	  128U /* that wait: with more of them …                     */
#define CROWD_TURN	  8U   /* … a turn is so many moves, else one, …             */
#define CROWD_MOVE_BYTES  (UINT64_C(64) << 10) /* … if none is of more bytes             */
#define MOVE_PATIENCE_NS  UINT64_C(20000000) /* one that takes longer does not keep others waiting */

enum move_state { MOVE_FREE, MOVE_WAITING, MOVE_COUNTED, MOVE_OVERDUE };

struct move {
	struct cds_list_head node; /* in the line's list, or, while COUNTED, in the mover's */
	struct mover_line *line;
	enum move_state state;
	bool is_pull; /* from the client's memory to `addr`; else the other way */
	char *addr;
	uint64_t length;
	uint64_t remote, key; /* of the client's memory */
	uint64_t since;	      /* on clock_ns(): when it was begun */
	/* Where there is a stage: */
	uint64_t done;		    /* bytes that have come through it already            */
	struct zone_buffer *buffer; /* that the next are in; NULL: nothing is in flight */
};

/* A connection's. */
struct mover_line {
	struct cds_list_head node;    /* in the mover's list, if its turn may come */
	struct cds_list_head waiting; /* first asked for, first begun */
	bool has_turn;		      /* it is in that list */
	unsigned turn_left;	      /* moves that it may begin before others have their turn */
	unsigned nr_moving;
	struct fabric_endpoint *endpoint;
	uint64_t context;		    /* of its moves, with their numbers */
	struct stage_guest *guest;	    /* NULL: there is no stage */
	struct move moves[MESSAGE_CREDITS]; /* by the slot of the message that asks for it */
};

struct mover {
	struct cds_list_head lines; /* whose turn may come, the next first */
	unsigned nr_lines;
	struct cds_list_head
		counted; /* moves that are in flight and not overdue, the oldest first */
	unsigned nr_counted;
	uint64_t bytes; /* of those */
	/* Not open: the fabric moves between the client's memory and the extents themselves. Else all bytes pass through it, and
	 * a move that gets too small a buffer goes on with another. */
	struct stage stage;
	bool is_short; /* nobody who waits can have a buffer before one comes back */
	/* One is over, or could not be begun. May close its connection. */
	void (*done)(struct mover_line *line, unsigned slot, int status);
};

/* Where the bytes are that a request wants moved, for who has a connection for this reach; as extent_pool_bytes(). -EINVAL
 * (length), -EACCES. */
int mover_locate(struct extent_pool *pool, struct reach reach,
		 const struct message_request *request, char **out);

/* `stage_bytes`: of buffers to stage all moves through; 0: none, they are direct. Errors as stage_open(). */
int mover_open(struct mover *mover, uint64_t stage_bytes,
	       void (*done)(struct mover_line *line, unsigned slot, int status));
/* All connections have left. */
void mover_close(struct mover *mover);
/* A new connection; and one whose endpoint is closed: its moves are no more. */
void mover_enter(struct mover_line *line, struct fabric_endpoint *endpoint, uint64_t context);
void mover_leave(struct mover *mover, struct mover_line *line);
/* For a new connection of this session, before it asks for anything. -ENOMEM, with a sentence. */
int mover_join(struct mover *mover, struct mover_line *line, uint64_t session);

/* Puts in line what a message asks for, in host order, of the bytes at `addr`; for a slot that has no move. */
void mover_ask(struct mover *mover, struct mover_line *line, unsigned slot,
	       const struct message_request *request, char *addr);
/* Begins those whose turn it is. `now`: on clock_ns(). */
void mover_begin(struct mover *mover, uint64_t now);
/* One that was begun is over, and all went well. */
void mover_end(struct mover *mover, struct mover_line *line, unsigned slot);
/* When there may be something to begin without one being over; CLOCK_NEVER: not before. */
uint64_t mover_wakes_at(struct mover *mover);

/* How long its thread may sleep, which otherwise may for so long; -1: for ever. */
static inline int mover_sleep_ms(struct mover *mover, int otherwise_ms)
{
	uint64_t wakes_at = mover_wakes_at(mover);

	return wakes_at == CLOCK_NEVER ? otherwise_ms : clock_remaining_ms(wakes_at);
}

#endif
