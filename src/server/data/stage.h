/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stage: buffers through which the bytes of server-driven transfers pass between a client and the
 * server's memory. It is for memory that cannot be the fabric's target itself. Sessions share the
 * buffers fairly, however many connections each has. A stage belongs to a mover, and so to a
 * progress thread.
 */
#ifndef SERVER_STAGE_H
#define SERVER_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <urcu/list.h>

#include "memory/zones.h"

struct stage {
	struct zones *zones; /* NULL: the stage is not open */
	struct cds_list_head guests;
};

/* A session that has connections on this thread. */
struct stage_guest;

/* Opens a stage with buffers of `bytes` in all. Errors are those of zones_open(). */
int stage_open(struct stage *stage, uint64_t bytes);
/* Call it when all guests have left. If the stage is not open, it does nothing. */
void stage_close(struct stage *stage);

static inline bool stage_is_open(const struct stage *stage)
{
	return stage->zones;
}

/* Enters a connection of this session. -ENOMEM, with a sentence. */
int stage_enter(struct stage *stage, uint64_t session, struct stage_guest **out);
/* Call it when that connection is closed, and has given its buffers back. */
void stage_leave(struct stage_guest *guest);

/* Returns whether the session has no buffer, nor memory of its own that it was counted with. */
bool stage_guest_has_none(const struct stage_guest *guest);
/* Counts memory that a session was given beside the stage; `change` is 1 or -1. */
void stage_guest_count(struct stage_guest *guest, int change);

/* Take and give buffers, as zones_take() and zones_give() do. */
struct zone_buffer *stage_take(struct stage *stage, struct stage_guest *guest, uint64_t length);
void stage_give(struct stage *stage, struct zone_buffer *buffer);

#endif
