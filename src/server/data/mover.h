/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mover carries out moves. Clients ask the server to move bytes between their memory and extents,
 * and the server does so at its own pace. Each progress thread has a mover. Each connection has a
 * line of waiting moves, and the lines take turns. The mover keeps a bounded number of moves in
 * flight. A move that waits costs only its place in line, and a connection has as many places as it
 * has credits. Nothing is allocated for a move.
 */
#ifndef SERVER_MOVER_H
#define SERVER_MOVER_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "base/clock.h"
#include "fabric/fabric.h"
#include "rpc/message.h"
#include "server/data/stage.h"
#include "server/memory/extent.h"

#define MOVES_MAX	  16U		       /* moves in flight of a mover */
#define MOVES_BYTES_MAX	  (UINT64_C(4) << 20)  /* their bytes; one move may always begin */
#define MOVES_OF_LINE_MAX 2U		       /* moves in flight of one connection */
#define CROWD_LINES	  128U		       /* more waiting lines than this are a crowd */
#define CROWD_TURN	  8U		       /* moves of a turn in a crowd; otherwise 1 */
#define CROWD_MOVE_BYTES  (UINT64_C(64) << 10) /* a longer move ends its turn */
/* A move that takes longer is overdue, and not counted any more. */
#define MOVE_PATIENCE_NS UINT64_C(20000000)

enum move_state { MOVE_FREE, MOVE_WAITING, MOVE_COUNTED, MOVE_OVERDUE };

struct move {
	struct cds_list_head node; /* in the line's list; while COUNTED, in the mover's */
	struct mover_line *line;
	enum move_state state;
	bool is_pull; /* from the client's memory to `addr`; otherwise from `addr` to there */
	char *addr;
	uint64_t length;
	uint64_t remote, key; /* of the client's memory */
	uint64_t since;	      /* on clock_ns(): when it began */
	/* Only with a stage: the bytes that have passed through it, and the buffer that the next
	 * ones are in (NULL: nothing is in flight). */
	uint64_t done;
	struct zone_buffer *buffer;
};

/* A connection's line. */
struct mover_line {
	struct cds_list_head node;    /* in the mover's list, while has_turn */
	struct cds_list_head waiting; /* the move that was asked for first begins first */
	bool has_turn;		      /* it is in the mover's list: its turn may come */
	unsigned turn_left;	      /* moves that it may still begin in its turn */
	unsigned nr_moving;
	struct fabric_endpoint *endpoint;
	uint64_t context;		    /* of its transfers; a move's number is added */
	struct stage_guest *guest;	    /* NULL: there is no stage */
	struct move moves[MESSAGE_CREDITS]; /* by the slot of the message that asks for it */
};

struct mover {
	struct cds_list_head lines; /* lines that may have a turn, the next one first */
	unsigned nr_lines;
	struct cds_list_head counted; /* moves in flight that are not overdue, the oldest first */
	unsigned nr_counted;
	uint64_t bytes; /* of those */
	/* If it is open, all bytes pass through its buffers, and a move whose buffer is too small
	 * goes on with another. Otherwise the fabric moves them directly between the client's
	 * memory and the extents. */
	struct stage stage;
	bool is_short; /* no waiting move can have a buffer before one comes back */
	/* A move is over, or could not begin. May close its connection. */
	void (*done)(struct mover_line *line, unsigned slot, int status);
};

/* Finds the bytes that a request wants moved, for a connection with this reach. Errors: those of
 * extent_pool_bytes(), -EINVAL (length), -EACCES. */
int mover_locate(struct extent_pool *pool, struct reach reach,
		 const struct message_request *request, char **out);

/* Opens a mover. `stage_bytes`: of buffers, through which all moves then go; 0: moves are direct.
 * Errors: those of stage_open(). */
int mover_open(struct mover *mover, uint64_t stage_bytes,
	       void (*done)(struct mover_line *line, unsigned slot, int status));
/* Call it when all connections have left. */
void mover_close(struct mover *mover);
/* mover_enter(): for a new connection. mover_leave(): for one whose endpoint is closed; its moves
 * are gone. */
void mover_enter(struct mover_line *line, struct fabric_endpoint *endpoint, uint64_t context);
void mover_leave(struct mover *mover, struct mover_line *line);
/* Says which session a new connection is of, before it asks for anything. -ENOMEM, with a
 * sentence. */
int mover_join(struct mover *mover, struct mover_line *line, uint64_t session);

/* Puts a message's move in line, for the bytes at `addr`. The request is in host order. The slot
 * must have no move. */
void mover_ask(struct mover *mover, struct mover_line *line, unsigned slot,
	       const struct message_request *request, char *addr);
/* Begins the moves whose turn it is, as far as there is room. `now`: on clock_ns(). */
void mover_begin(struct mover *mover, uint64_t now);
/* A transfer of this move has completed without an error. */
void mover_end(struct mover *mover, struct mover_line *line, unsigned slot);
/* Returns when mover_begin() may begin something although no move has ended; CLOCK_NEVER: it will
 * not. */
uint64_t mover_wakes_at(struct mover *mover);

/* Returns how long the mover's thread may sleep: until mover_wakes_at(), or `otherwise_ms` if that
 * is never. -1: for ever. */
static inline int mover_sleep_ms(struct mover *mover, int otherwise_ms)
{
	uint64_t wakes_at = mover_wakes_at(mover);

	return wakes_at == CLOCK_NEVER ? otherwise_ms : clock_remaining_ms(wakes_at);
}

#endif
