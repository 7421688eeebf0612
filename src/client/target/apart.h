/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Targets that outlive their servers, as the pools of file systems do. Each of their homes is connected
 * to apart from the others, when something there is wanted. So a server that is away holds up what
 * touches it, and nothing else. All other targets are connected to as a whole (connect.c).
 */
#ifndef CLIENT_APART_H
#define CLIENT_APART_H

#include "client/target/target.h"

struct afar_queue;

/* A piece with this status has not been done. */
#define PIECE_LEFT 1

/* The parts of a target that a call is about to use. */
struct target_need {
	const struct target_piece *pieces;
	unsigned nr;
	bool is_of_left; /* only of pieces that have the status PIECE_LEFT */
	/* In place of pieces: the stores that have writes of the session which no sync covers. */
	bool is_sync;
};

static inline bool target_is_apart(const struct afar_target *target)
{
	return target->kind->outlives_servers;
}

/* Returns whether the need has something at a home. NULL needs all. */
bool need_has(const struct target_need *need, const struct binding *binding, uint32_t home);
/* Returns whether a sync may leave out a server: it has no store, or all that the session wrote there has been
 * synced. A store that is away, or read only, then fails no sync, and a sync of one file does not ask a hundred
 * stores. Within an epoch section, or with a reference. */
bool binding_may_skip(const struct binding_server *server);
/* Notes how much was written to each store before a sync, and then that the sync has covered it. Writes that a
 * store has refused are lost, and the next sync does not wait for them. */
struct sync_marks {
	struct binding *binding;
	uint64_t *nr_written;
};
/* Has the target's next sync ask all stores: the program has written through a session that has ended. No other thread has
 * the target yet. */
void apart_owe_syncs(struct afar_target *target);
int sync_marks_take(struct sync_marks *marks, struct afar_target *target);
/* Frees the marks. */
void sync_marks_end(struct sync_marks *marks, bool is_done);

/*
 * connect_apart.c: connects to the homes that are needed. Goes on with the others if one fails, and returns the first
 * failure then. Waits for none that has failed lately, if somebody else does. Errors: as
 * queue_connect(). Blocks, until `deadline`.
 */
int apart_connect(struct afar_queue *queue, struct afar_target *target,
		  const struct target_need *need, uint64_t deadline);

#endif
